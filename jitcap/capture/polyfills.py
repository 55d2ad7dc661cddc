"""Capture: builtins in plain Python, interpreted like the user's. arguments -> answer."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable
from typing import Any, Final

_NOTHING: Final = object()


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


def reduce_ex(obj: Any, protocol: int) -> Any:
    """`object.__reduce_ex__` from protocol 2 on, which `copy.deepcopy` asks."""
    cls: Any = type(obj)
    if cls.__reduce__ is not object.__reduce__:
        return obj.__reduce__()
    given = obj.__getnewargs__() if hasattr(obj, "__getnewargs__") else ()
    items = iter(obj) if isinstance(obj, list) else None
    pairs = iter(obj.items()) if isinstance(obj, dict) else None
    return copyreg.__newobj__, (cls, *given), obj.__getstate__(), items, pairs  # type: ignore[attr-defined]
