"""Capture: builtins in plain Python, interpreted like the user's. arguments -> answer."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

_NOTHING: Final = object()


def iter_until(fn: Callable[[], Any], sentinel: Any) -> Iterator[Any]:
    while (value := fn()) != sentinel:
        yield value


def reversed_sequence(obj: Any) -> Iterator[Any]:
    for i in range(len(obj) - 1, -1, -1):
        yield obj[i]


def map_(fn: Callable[..., Any], *iterables: Iterable[Any]) -> Iterator[Any]:
    for values in zip(*iterables):  # noqa: B905 - map stops at the shortest, too
        yield fn(*values)


def filter_(fn: Callable[[Any], Any] | None, iterable: Iterable[Any]) -> Iterator[Any]:
    for value in iterable:
        if value if fn is None else fn(value):
            yield value


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
    total = start
    for value in iterable:
        total = total + value
    return total


def _extreme(name: str, args: tuple[Any, ...], key: Any, default: Any, better: Any) -> Any:
    best = best_key = _NOTHING
    for value in args[0] if len(args) == 1 else args:
        ranked = value if key is None else key(value)
        if best_key is _NOTHING or better(ranked, best_key):
            best, best_key = value, ranked
    if best_key is not _NOTHING:
        return best
    if default is _NOTHING:
        raise ValueError(f"{name}() iterable argument is empty")
    return default


def max_(*args: Any, key: Any = None, default: Any = _NOTHING) -> Any:
    return _extreme("max", args, key, default, lambda a, b: a > b)


def min_(*args: Any, key: Any = None, default: Any = _NOTHING) -> Any:
    return _extreme("min", args, key, default, lambda a, b: a < b)


def sorted_(iterable: Iterable[Any], /, *, key: Any = None, reverse: bool = False) -> list[Any]:
    """A stable merge sort."""
    items = [(value if key is None else key(value), value) for value in iterable]
    if reverse:
        items.reverse()
    items = _merge_sort(items)
    if reverse:
        items.reverse()
    return [value for _, value in items]


def _merge_sort(items: list[Any]) -> list[Any]:
    if len(items) < 2:
        return items
    half = len(items) // 2
    left, right = _merge_sort(items[:half]), _merge_sort(items[half:])
    out: list[Any] = []
    i = j = 0
    while i < len(left) and j < len(right):
        if right[j][0] < left[i][0]:
            out.append(right[j])
            j += 1
        else:
            out.append(left[i])
            i += 1
    return out + left[i:] + right[j:]


def reduce_ex(obj: Any, protocol: int) -> Any:
    """`object.__reduce_ex__` from protocol 2 on, which `copy.deepcopy` asks."""
    cls: Any = type(obj)
    if cls.__reduce__ is not object.__reduce__:
        return obj.__reduce__()
    given = obj.__getnewargs__() if hasattr(obj, "__getnewargs__") else ()
    items = iter(obj) if isinstance(obj, list) else None
    pairs = iter(obj.items()) if isinstance(obj, dict) else None
    return copyreg.__newobj__, (cls, *given), obj.__getstate__(), items, pairs  # type: ignore[attr-defined]


FOLDS: Final[dict[Any, Any]] = {sum: sum_, max: max_, min: min_, sorted: sorted_}
