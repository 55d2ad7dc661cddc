"""Capture: builtins in plain Python, interpreted like the user's. arguments -> answer."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

_NOTHING: Final = object()
_NUMBERS: Final = (int, float, bool)


def reduce(fn: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = _NOTHING) -> Any:
    values = iter(iterable)
    if initial is _NOTHING:
        try:
            total = next(values)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    else:
        total = initial
    for value in values:
        total = fn(total, value)
    return total


def sum_(iterable: Iterable[Any], /, start: Any = 0) -> Any:
    for cls, shown in ((str, "strings [use ''"), (bytes, "bytes [use b''")):
        if isinstance(start, cls):
            raise TypeError(f"sum() can't sum {shown}.join(seq) instead]")
    total, numbers = start, []  # those not added yet
    exact = type(total) in _NUMBERS
    for value in iterable:
        exact = exact and type(value) in _NUMBERS
        if exact:
            numbers.append(value)
        else:
            total = (add_up(total, *numbers) if numbers else total) + value
            numbers = []
    return add_up(total, *numbers) if numbers else total


def add_up(total: Any, *numbers: Any) -> Any:
    """Before Python 3.12."""
    for number in numbers:
        total = total + number
    return total


def accumulate(
    iterable: Iterable[Any], func: Callable[[Any, Any], Any] | None = None, *, initial: Any = None
) -> Iterator[Any]:
    values = iter(iterable)
    total = initial
    if initial is None:
        try:
            total = next(values)
        except StopIteration:
            return
    yield total
    for value in values:
        total = total + value if func is None else func(total, value)
        yield total


def compress(data: Iterable[Any], selectors: Iterable[Any]) -> Iterator[Any]:
    for value, selected in zip(data, selectors):  # noqa: B905 - the shorter ends it
        if selected:
            yield value


def groupby(
    iterable: Iterable[Any], key: Callable[[Any], Any] | None = None
) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Neighbours with equal keys. A group ends when the next one is asked for."""
    values = iter(iterable)
    value: Any = None
    current: Any = None
    ended = False

    def members(target: Any) -> Iterator[Any]:
        nonlocal value, current, ended
        yield value
        for value in values:
            current = value if key is None else key(value)
            if not target == current:  # noqa: SIM201 - as often as the builtin asks, and no other
                return
            yield value
        ended = True

    try:
        value = next(values)
    except StopIteration:
        return
    current = value if key is None else key(value)
    while not ended:
        group = members(target := current)
        yield current, group
        if target == current:
            for _ in group:
                pass


def reduce_ex(obj: Any, protocol: int) -> Any:
    """`object.__reduce_ex__` from protocol 2 on, which `copy.deepcopy` asks."""
    cls: Any = type(obj)
    if cls.__reduce__ is not object.__reduce__:
        return obj.__reduce__()
    given = obj.__getnewargs__() if hasattr(obj, "__getnewargs__") else ()
    items = iter(obj) if isinstance(obj, list) else None
    pairs = iter(obj.items()) if isinstance(obj, dict) else None
    return copyreg.__newobj__, (cls, *given), obj.__getstate__(), items, pairs  # type: ignore[attr-defined]
