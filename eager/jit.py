"""At the edge: `eager.jit`, TorchScript's marks in public model code. Functions -> the same.

Nothing is scripted: decorated functions and modules stay ordinary Python, which `jitcap.jit` reads
together with the step that calls them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from eager.nn.modules.module import Module as ScriptModule

T = TypeVar("T")

__all__ = [
    "Attribute", "Final", "ScriptModule", "annotate", "export", "freeze", "ignore", "interface",
    "is_scripting", "is_tracing", "optimize_for_inference", "script", "script_if_tracing",
    "script_method", "trace", "unused",
]  # fmt: skip


def script(obj: T, *_: Any, **__: Any) -> T:
    """The function, class or module as it is."""
    return obj


trace = freeze = optimize_for_inference = script


def script_if_tracing(fn: T) -> T:
    return fn


export = unused = interface = script_method = script_if_tracing


def ignore(drop: Any = False) -> Any:
    """`@ignore` and `@ignore(drop=True)`: the function as it is."""

    def unchanged(fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn

    return drop if callable(drop) else unchanged


def annotate(the_type: Any, the_value: T) -> T:
    """The value: annotations change nothing."""
    return the_value


def Attribute(value: T, the_type: Any) -> T:
    """The value of an attribute: annotations change nothing."""
    return value


def is_scripting() -> bool:
    """True if TorchScript is compiling: never."""
    return False


def is_tracing() -> bool:
    return False
