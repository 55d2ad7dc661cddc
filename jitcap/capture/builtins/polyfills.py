"""Capture: builtins in plain Python, interpreted like the user's. arguments -> answer."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from eager.control_flow.cond import agree_in, checked_tree, own_tree

_NOTHING: Final = object()
_NUMBERS: Final = (int, float, bool)
_JOINED: Final = (
    (str, "strings [use ''"), (bytes, "bytes [use b''"), (bytearray, "bytearray [use b''"),
)  # fmt: skip


def _each(values: Iterator[Any]) -> Iterator[Any]:
    """The remaining items of an iterator, whose `__iter__` is not called."""
    while True:
        try:
            value = next(values)
        except StopIteration:
            return
        yield value


def reduce(fn: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = _NOTHING) -> Any:
    values = _each(iter(iterable))
    if initial is _NOTHING:
        total = next(values, _NOTHING)
        if total is _NOTHING:
            raise TypeError("reduce() of empty iterable with no initial value")
    else:
        total = initial
    for value in values:
        total = fn(total, value)
    return total


def exit_(status: Any = None, /) -> None:
    raise SystemExit(status)


def sum_(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    return _sum(iter(iterable), start)


def sum_each(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    """Sum of an iterator of the program's own, which is asked for none itself."""
    return _sum(_each(iter(iterable)), start)


def _sum(rest: Iterator[Any], start: Any) -> Any:
    for cls, shown in _JOINED:
        if isinstance(start, cls):
            raise TypeError(f"sum() can't sum {shown}.join(seq) instead]")
    total = start
    if type(total) in _NUMBERS:
        numbers: list[Any] = []
        for value in rest:
            if type(value) not in _NUMBERS:
                total = add_up(total, *numbers) + value
                break
            numbers.append(value)
        else:
            return add_up(total, *numbers)
    for value in rest:
        total = total + value
    return total


def add_up(total: Any, *numbers: Any) -> Any:
    """Before Python 3.12."""
    for number in numbers:
        total = total + number
    return total


# Iterators: what stands in front of the bare `yield` happens when one is made, and asks for nothing
# but the iterators that it goes through.


def takewhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    values = _each(iter(iterable))
    yield
    for value in values:
        if not predicate(value):
            return
        yield value


def dropwhile(predicate: Callable[[Any], Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    values = _each(iter(iterable))
    yield
    for value in values:
        if not predicate(value):
            yield value
            break
    yield from values


def filterfalse(
    predicate: Callable[[Any], Any] | None, iterable: Iterable[Any], /
) -> Iterator[Any]:
    values = _each(iter(iterable))
    yield
    for value in values:
        if not (value if predicate is None else predicate(value)):
            yield value


def starmap(function: Callable[..., Any], iterable: Iterable[Any], /) -> Iterator[Any]:
    values = _each(iter(iterable))
    yield
    for given in values:
        yield function(*tuple(given))


def accumulate(
    iterable: Iterable[Any], func: Callable[[Any, Any], Any] | None = None, *, initial: Any = None
) -> Iterator[Any]:
    values = _each(iter(iterable))
    yield
    total = initial
    if initial is None:
        total = next(values, _NOTHING)
        if total is _NOTHING:
            return
    yield total
    for value in values:
        total = total + value if func is None else func(total, value)
        yield total


def compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    pairs = zip(_each(iter(data)), _each(iter(selectors)))  # noqa: B905 - the shorter ends it
    yield
    for value, selected in pairs:
        if selected:
            yield value


def chained(iterables: Iterable[Iterable[Any]]) -> Iterator[Any]:
    outer = _each(iter(iterables))
    yield
    for inner in outer:
        yield from _each(iter(inner))


def until(fn: Callable[[], Any], sentinel: Any) -> Iterator[Any]:
    yield
    while True:
        try:
            value = fn()
        except StopIteration:
            return
        if _alike(sentinel, value):
            return
        yield value


def groupby(iterable: Iterable[Any], key: Callable[[Any], Any] | None = None) -> Iterator[Any]:
    """Neighbours with equal keys: asks for values, and compares keys, as often as the builtin does.
    A group ends when the next one is asked for."""
    values = iter(iterable)
    value = current = target = asked = _NOTHING
    yield

    def step() -> bool:
        nonlocal value, current
        found = next(values, _NOTHING)
        if found is not _NOTHING:
            value, current = found, found if key is None else key(found)
        return found is not _NOTHING

    def members(group: Any, wanted: Any) -> Iterator[Any]:
        nonlocal value
        while group is asked and (value is not _NOTHING or step()) and _alike(wanted, current):
            found, value = value, _NOTHING
            yield found

    while True:
        while current is _NOTHING or (target is not _NOTHING and _alike(target, current)):
            if not step():
                return
        target, asked = current, object()
        yield current, members(asked, target)
        asked = _NOTHING


def _alike(a: Any, b: Any) -> bool:
    """True if two keys are equal to native code: an object equals itself, without `__eq__`."""
    return a is b or a == b


def fromkeys(cls: Any, /, iterable: Iterable[Any], value: Any = None) -> Any:
    made = cls()
    for key in iterable:
        made[key] = value
    return made


def count_elements(mapping: Any, iterable: Iterable[Any]) -> None:
    get = mapping.get
    for element in iterable:
        mapping[element] = get(element, 0) + 1


def reduce_ex(obj: Any, protocol: int) -> Any:
    """`object.__reduce_ex__` from protocol 2 on, which `copy.deepcopy` asks."""
    cls: Any = type(obj)
    if cls.__reduce__ is not object.__reduce__:
        return obj.__reduce__()
    given, named = (), {}
    if hasattr(cls, "__getnewargs_ex__"):
        given, named = cls.__getnewargs_ex__(obj)
    elif hasattr(cls, "__getnewargs__"):
        given = cls.__getnewargs__(obj)
    make: Any = (copyreg.__newobj__, (cls, *given))  # type: ignore[attr-defined]
    if named:
        make = (copyreg.__newobj_ex__, (cls, given, named))  # type: ignore[attr-defined]
    items = iter(obj) if isinstance(obj, list) else None
    pairs = iter(obj.items()) if isinstance(obj, dict) else None
    return (*make, obj.__getstate__(), items, pairs)


def count_of(a: Iterable[Any], b: Any, /) -> int:
    return sum_(1 for x in a if x is b or x == b)


def index_of(a: Iterable[Any], b: Any, /) -> int:
    for i, x in enumerate(a):
        if x is b or x == b:
            return i
    raise ValueError("sequence.index(x): x not in sequence")


# Control flow, where there is no kernel of it.


def cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    return own_tree(checked_tree("cond", (true_fn if pred else false_fn)(*operands)))


def switch(index: Any, branches: Any, *operands: Any) -> Any:
    place = int(index)
    place = min(max(place, 0), len(branches) - 1)
    return own_tree(checked_tree("switch", branches[place](*operands)))


def while_loop(cond_fn: Any, body_fn: Any, carried_inputs: Any) -> Any:
    carried = tuple(carried_inputs)
    while cond_fn(*carried):
        new = body_fn(*carried)
        new = tuple(new) if isinstance(new, list) else new
        agree_in("while_loop", carried, new)
        carried = new
    return own_tree(carried)
