"""Capture: pure host work on values that are known only later. (function, arguments) -> promise.

Text made of run-time numbers (`f"{loss.item():.4f}"`) is not needed by the graph: it is made after
the graph ran, where it is printed, logged, stored or returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitcap.capture.breaks import Break


class Deferred:
    """`fn(*args, **kwargs)`, to be done when the run-time values are there."""

    __slots__ = ("args", "fn", "kwargs")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Any = None) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = dict(kwargs or {})

    def _refuse(self, *_: Any) -> Any:
        raise Break("data dependent", f"what {self.show()} makes of run-time values is looked into")

    __len__ = __getitem__ = __iter__ = __contains__ = __bool__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _refuse
    __str__ = __format__ = __int__ = __float__ = __index__ = _refuse
    __add__ = __radd__ = __mul__ = __mod__ = __sub__ = __neg__ = _refuse

    def show(self) -> str:
        return getattr(self.fn, "__name__", "a function")


def join(*parts: str) -> str:
    """The pieces of an f-string."""
    return "".join(parts)
