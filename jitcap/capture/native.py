"""Capture: which functions and classes run natively on traced values. module name -> yes or no.

All of `eager` does, since its state lives in its arguments, except what is written like user code:
layers, optimizers, data loading, distributions. Those are read from bytecode like the user's own.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from types import FunctionType
from typing import Any, Final

_READ: Final = (
    "eager.nn.modules", "eager.nn.utils", "eager.optim", "eager.utils", "eager.amp",
    "eager.distributions",
)  # fmt: skip
_LIBRARIES: Final = frozenset({"eager", "jitcap", "codegen", "numpy"}) | sys.stdlib_module_names
_OURS: Final = frozenset({"jitcap.capture.interpret", "jitcap.capture.world"})


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
    if fn.__closure__ and any(_holds_user_code(c) for c in fn.__closure__):
        return False
    return is_native_module(fn.__globals__.get("__name__", ""))


def is_interpreted(fn: FunctionType) -> bool:
    """Whether a call of `fn` reads its bytecode."""
    return not is_native(fn) and fn.__globals__.get("__name__", "").partition(".")[0] != "numpy"


def _holds_user_code(cell: Any) -> bool:
    try:
        held = cell.cell_contents
    except ValueError:
        return False
    if isinstance(held, FunctionType):
        return not is_native_module(held.__globals__.get("__name__", ""))
    return callable(held) and not isinstance(held, type) and not is_native_class(type(held))


def is_native_class(cls: type) -> bool:
    """Whether the methods of `cls` are called natively."""
    return is_native_module(cls.__module__)
