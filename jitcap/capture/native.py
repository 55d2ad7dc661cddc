"""Capture: which functions and classes of `eager` run natively on traced values. name of a module -> yes or no.

Their state lives in their arguments, so running them under the tracer is reading them.
"""

from __future__ import annotations

from fnmatch import fnmatch
from functools import lru_cache
from types import FunctionType
from typing import Any

import eager

_DEFAULT = (
    "eager.func", "eager.ops.*", "eager.nn.functional*", "eager.nn.init", "eager.tensor",
    "eager.autograd", "eager.random", "eager.linalg", "eager.dispatch", "eager.indexing",
    "eager.interop", "eager.device", "eager.dtype", "eager.nn.parameter",
)  # fmt: skip
_OURS = ("eager.sym", "eager.device", "jitcap.capture.interpret", "jitcap.capture.world")
NATIVE_MODULES: tuple[str, ...] = (*getattr(eager, "NATIVE_MODULES", _DEFAULT), *_OURS)



@lru_cache(maxsize=1024)
def is_native_module(name: str) -> bool:
    """Whether functions of the module `name` are called, not interpreted."""
    return any(fnmatch(name, pattern) for pattern in NATIVE_MODULES)


def is_native(fn: FunctionType) -> bool:
    """Whether `fn` is called natively. A closure may hold the user's functions: it is interpreted."""
    if fn.__closure__ and any(callable(_content(c)) for c in fn.__closure__):
        return False
    return is_native_module(fn.__globals__.get("__name__", ""))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def is_native_class(cls: type) -> bool:
    """Whether the methods of `cls` are called natively."""
    return is_native_module(cls.__module__)
