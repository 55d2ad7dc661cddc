"""Beside everything: numbers too small to be normal, kept or taken for zero. bool -> bool.

Many processors take a hundred times as long for them; a gradient that vanishes through hundreds of
steps is made of such. Whether they are zeros is a bit of each thread's floating-point environment
(C's fenv.h), which threads that it starts inherit, and which compiled code follows.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from typing import Final

# Of the environment of glibc and musl: its bytes, where the control word lies, its bits that flush
# (results, operands).
_LAYOUTS: Final = {
    "x86_64": (32, 28, 1 << 15 | 1 << 6),
    "aarch64": (8, 0, 1 << 24),
}


def set_flush_denormal(mode: bool) -> bool:
    """Take numbers below the smallest normal one (1.2e-38 in float32) for zero on this thread, and
    on those that it starts from now on; `mode` False keeps them, as it is at the start. Whether
    that is possible on this machine. RuntimeError for what is no bool."""
    if type(mode) is not bool:
        raise RuntimeError(f"flush_denormal expects a bool, but got {type(mode).__name__}")
    layout = _LAYOUTS.get(platform.machine()) if sys.platform == "linux" else None
    if layout is not None:
        size, place, bits = layout
        maths, state = ctypes.CDLL(None), (ctypes.c_char * size)()
        word = ctypes.c_uint32.from_buffer(state, place)
        maths.fegetenv(state)
        word.value = word.value | bits if mode else word.value & ~bits
        maths.fesetenv(state)
    smallest = float.fromhex("0x1p-1074")
    return (smallest * 1.0 == 0.0) == mode
