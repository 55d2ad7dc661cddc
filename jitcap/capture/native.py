"""Capture: which functions run natively, which classes are read. function, class -> yes or no.

All of `eager` does, since its state lives in its arguments, except what is written like user code:
layers, optimizers, data loading, distributions. Those are read from bytecode like the user's own.
"""

from __future__ import annotations

import sys
import types
from functools import lru_cache
from types import FunctionType
from typing import Any, Final

_READ: Final = (
    "eager.nn.modules", "eager.nn.utils", "eager.optim", "eager.utils", "eager.amp",
    "eager.distributions",
)  # fmt: skip
_LIBRARIES: Final = frozenset({"eager", "jitcap", "codegen", "numpy"}) | sys.stdlib_module_names
_OURS: Final = frozenset({"jitcap.capture.interpret", "jitcap.capture.kinds.iterators"})
PURE_MODULES: Final = frozenset({
    "_abc", "_bisect", "_collections", "_collections_abc", "_decimal", "_functools", "_heapq",
    "_operator", "_string", "_struct", "_typing", "abc", "builtins", "cmath", "collections",
    "copy", "datetime", "decimal", "enum", "fractions", "functools", "itertools", "math",
    "numbers", "numpy", "operator", "re", "string", "struct", "textwrap", "types", "typing",
    "unicodedata",
})  # fmt: skip
HOST_MODULES: Final = frozenset({"logging", "tqdm", "warnings"})
HEAP_TYPE: Final = 1 << 9
IMMUTABLE_TYPE: Final = 1 << 8


@lru_cache(maxsize=4096)
def is_native_module(name: str) -> bool:
    """Whether functions of the module `name` are called, not interpreted."""
    if name in _OURS:
        return True
    return name.partition(".")[0] == "eager" and not name.startswith(_READ)


@lru_cache(maxsize=4096)
def is_library_module(name: str) -> bool:
    """Whether a module's functions are taken as fixed: ours, NumPy's, the standard library's."""
    return name.partition(".")[0] in _LIBRARIES


def is_native(fn: FunctionType) -> bool:
    """Whether `fn` is called natively. A closure with the user's functions is interpreted."""
    if not is_native_module(fn.__globals__.get("__name__", "")):
        return False
    return not (fn.__closure__ and any(_holds_user_code(c) for c in fn.__closure__))


def is_interpreted(fn: FunctionType) -> bool:
    """Whether a call of `fn` reads its bytecode."""
    return not is_native(fn) and fn.__globals__.get("__name__", "").partition(".")[0] != "numpy"


def _holds_user_code(cell: Any) -> bool:
    try:
        held = cell.cell_contents
    except ValueError:
        return False
    cls = type(held)
    if cls is FunctionType:
        return not is_native_module(held.__globals__.get("__name__", ""))
    return callable(held) and not issubclass(cls, type) and not is_native_class(cls)


def is_python_class(cls: type) -> bool:
    """A class whose statements are Python: instances keep their state in a dictionary or slots.

    The values that stand for something else during a capture are none of the program's objects."""
    return _is_python_class(cls)


@lru_cache(maxsize=4096)
def _is_python_class(cls: Any) -> bool:
    if cls is types.SimpleNamespace:  # an empty class in all but name
        return True
    flags = cls.__flags__
    if cls.__module__ == "eager.sym" or cls.__module__.startswith("jitcap.capture."):
        return False
    return bool(flags & HEAP_TYPE and not flags & IMMUTABLE_TYPE) and "__module__" in vars(cls)


def is_native_class(cls: type) -> bool:
    """Whether the methods of `cls` are called natively."""
    return is_native_module(cls.__module__)
