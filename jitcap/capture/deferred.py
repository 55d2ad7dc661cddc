"""Capture: pure host work on values that are known only later. (function, arguments) -> promise.

Text made of run-time numbers (`f"{loss.item():.4f}"`) is not needed by the graph: it is made after
the graph ran, where it is printed, logged, stored or returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Deferred:
    """`fn(*args, **kwargs)`, to be done when the run-time values are there."""

    __slots__ = ("args", "fn", "kwargs")

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Any = None) -> None:
        self.fn = fn
        self.args = args
        self.kwargs = dict(kwargs or {})

    def show(self) -> str:
        return getattr(self.fn, "__name__", "a function")


def join(*parts: str) -> str:
    """The pieces of an f-string."""
    return "".join(parts)
