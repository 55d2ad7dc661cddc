"""At the edge: PyTorch's modules for what is not here, for programs that ask whether it is. a name
-> a module that says no, and whose other names can be imported and raise when they are called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NoReturn, Union

observers: Final[list[Callable[[str], object]]] = []  # of names that are called


def _no() -> bool:
    return False


class Absent:
    """A name of a module that is not here, `ReduceOp` or `ReduceOp.SUM`: programs have it as a
    default, in an annotation or as the base of a class. RuntimeError where it, or what is derived
    from it, is called."""

    def __init__(self, name: str, why: str) -> None:
        self.__name__ = self.__qualname__ = name
        self._why = why

    def __getattr__(self, key: str) -> Absent:
        if key.startswith("__") or key[0] == key[-1] == "_":  # what Python and notebooks ask
            raise AttributeError(f"{self.__name__!r} has no attribute {key!r}")
        value = Absent(f"{self.__name__}.{key}", self._why)
        setattr(self, key, value)  # as often as it is named it is one object
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        for tell in observers:
            tell(f"eager.{self.__name__}")
        raise RuntimeError(f"{self.__name__}: {self._why}")

    def __getitem__(self, parameters: Any) -> Absent:
        return self  # `Future[Tensor]` in an annotation

    def __instancecheck__(self, value: object) -> bool:
        return False  # nothing is one

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (type(self.__name__, (), {"__new__": lambda cls, *args, **kwargs: self()}),)

    def __or__(self, other: Any) -> Any:
        return Union[self, other]  # noqa: UP007  # what `|` means between types

    def __repr__(self) -> str:
        return f"<{self.__name__}, which is not there>"


def absent(
    name: str, why: str, questions: str = "is_available", submodules: str = ""
) -> ModuleType:
    """The module `eager.name`, which has nothing but answers to `questions`, and `submodules` that
    have nothing."""
    module = ModuleType(f"eager.{name}", f"{why[0].upper()}{why[1:]}.")

    def lookup(key: str) -> Absent:
        if key.startswith("_"):
            raise AttributeError(f"module {module.__name__!r} has no attribute {key!r}")
        value = Absent(f"{name}.{key}", why)
        setattr(module, key, value)
        return value

    vars(module).update(dict.fromkeys(questions.split(), _no), __getattr__=lookup, __path__=[])
    sys.modules[module.__name__] = module
    for each in submodules.split():
        vars(module)[each] = absent(f"{name}.{each}", why, "")
    return module


export = absent("export", "jitcap.export keeps a program as a file", "")
futures = absent("futures", "operations run one after the other", "")
fx = absent(
    "fx",
    "jitcap.explain shows a graph; programs do not change it",
    "",
    "graph graph_module interpreter node proxy passes _symbolic_trace",
)
vars(fx)["wrap"] = lambda fn_or_name: fn_or_name  # says that tracing is not to look inside
library = absent(
    "library",
    "operations of one's own are made by jitcap.custom_op, with their shape and their derivative, "
    "which autograd.gradcheck tests",
    "",
)
mps = absent("mps", "GPUs of Apple are no devices here")
mtia = absent("mtia", "such accelerators are no devices here")
onnx = absent(
    "onnx", "nothing is written in this format; jitcap.export keeps a program", "is_in_onnx_export"
)
aten = Absent("ops.aten", "PyTorch's kernels are not there; their functions and methods are")
quantization = absent("quantization", "there are no tensors of quantised numbers")
xpu = absent("xpu", "GPUs of Intel are no devices here")
