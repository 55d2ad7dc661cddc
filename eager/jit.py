"""At the edge: `eager.jit`, TorchScript's marks in public model code. Functions -> the same.

Nothing is scripted: decorated functions and modules stay ordinary Python, which `jitcap.jit` reads
together with the step that calls them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from itertools import repeat
from types import UnionType
from typing import Any, Final, Generic, TypeVar, Union, get_args, get_origin

from eager.nn.modules.module import Module

T = TypeVar("T")

__all__ = [
    "Attribute",
    "Error",
    "Final",
    "Future",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "optimize_for_inference",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
    "wait",
]  # fmt: skip

__path__: list[str] = []  # PyTorch has it in parts: `from torch.jit.annotations import List`


class TracerWarning(Warning):
    """Warning of tracing: nothing is traced."""


class Error(RuntimeError):
    """Error of TorchScript: nothing is scripted."""


class ScriptModule(Module):
    """A module whose methods TorchScript would compile: one as any. No other module is one."""


def script(obj: T, *_: Any, **__: Any) -> T:
    """The function, class or module as it is."""
    return obj


trace = trace_module = freeze = optimize_for_inference = script


def script_if_tracing(fn: T) -> T:
    return fn


export = unused = interface = script_method = script_if_tracing
_overload = _overload_method = script_if_tracing  # the definition that comes last is called


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


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """`func` of these arguments, called at once: `wait` gives its result."""
    return Future(func(*args, **kwargs))


def wait(future: Future[T]) -> T:
    """Result of a call that was forked."""
    return future.wait()


class Future(Generic[T]):
    """A call that was forked, and is done."""

    def __init__(self, value: T) -> None:
        self._value = value

    def wait(self) -> T:
        return self._value

    value = wait

    def done(self) -> bool:
        return True


def isinstance(obj: Any, target_type: Any) -> bool:
    """True if a value is of a type, which may be one of `typing`: `Optional[List[int]]`."""
    kinds, inside = get_origin(target_type) or target_type, get_args(target_type)
    if kinds in (Union, UnionType):
        return any(isinstance(obj, each) for each in inside)
    if target_type is None or not builtins.isinstance(obj, kinds):
        return target_type is obj is None
    if not inside:
        return True
    if kinds is tuple:
        return len(obj) == len(inside) and all(map(isinstance, obj, inside))
    if kinds is dict:
        return all(map(isinstance, obj, repeat(inside[0]))) and all(
            map(isinstance, obj.values(), repeat(inside[1]))
        )
    return all(map(isinstance, obj, repeat(inside[0])))


def is_scripting() -> bool:
    """True if TorchScript is compiling: never."""
    return False


def is_tracing() -> bool:
    return False
