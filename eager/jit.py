"""At the edge: `eager.jit`, TorchScript's marks in public model code. Functions -> the same.

Nothing is scripted: decorated functions and modules stay ordinary Python, which `jitcap.jit` reads
together with the step that calls them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

__all__ = [
    "Final", "annotate", "export", "ignore", "is_scripting", "is_tracing", "script",
    "script_if_tracing", "unused",
]  # fmt: skip


def script(obj: T, *_: Any) -> T:
    """The function, class or module as it is."""
    return obj


def script_if_tracing(fn: T) -> T:
    return fn


def export(fn: T) -> T:
    return fn


def unused(fn: T) -> T:
    return fn


def ignore(drop: Any = False) -> Any:
    """`@ignore` and `@ignore(drop=True)`: the function as it is."""

    def unchanged(fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    return drop if callable(drop) else unchanged


def annotate(the_type: Any, the_value: T) -> T:
    """The value: annotations change nothing."""
    return the_value


def is_scripting() -> bool:
    """Whether TorchScript is compiling: never."""
    return False


def is_tracing() -> bool:
    return False
