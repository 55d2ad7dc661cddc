"""Beside everything: how many threads share the work. Setting, environment, processors -> a number.

Loops of compiled code are shared by a team of `get_num_threads()`, asked at each of them. Where
members need memory of their own, code has it for `room()` of them, which a setting does not lower:
what a process with one thread compiled and kept is as fast in another that has more.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import operator
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from eager.base.config import config

BLAS: Final = ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads")


def get_num_threads() -> int:
    """Number of threads that share a loop of compiled code: the setting `threads`, else
    $OMP_NUM_THREADS, else the processors of this process."""
    return config.threads or _asked(os.environ.get("OMP_NUM_THREADS", "")) or processors()


def room() -> int:
    """Number of threads for which code that is compiled now has memory."""
    return max(get_num_threads(), processors())


def processors() -> int:
    """Those that this process may use."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(usable or 1, _quota()))


def _asked(text: str) -> int:
    """The first of a list of numbers; 0 for what is none."""
    first = text.split(",", maxsplit=1)[0].strip()
    return int(first) if first.isdecimal() else 0


def _quota() -> int:
    """Processors granted by the container's quota, rounded up; a large number without one."""
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError):
        return 1 << 16


def set_num_threads(num: int) -> None:
    """Let `num` threads share loops of compiled code, what is compiled already included, and the
    matrix products of NumPy's own OpenBLAS. Raises RuntimeError below 1."""
    number = operator.index(num)
    if number < 1:
        raise RuntimeError(f"set_num_threads expects a positive int, got {number}")
    config.threads = number
    for set_blas in _blas():
        set_blas(number)


def compute_alone() -> None:
    """One thread from now on, in a process beside others. What its OpenBLAS had before a fork is
    gone, and its function for this would make it again: the number itself is written."""
    config.threads = 1
    for library in _libraries():
        with contextlib.suppress(ValueError):
            ctypes.c_int.in_dll(library, "blas_cpu_number").value = 1


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """The OpenBLAS in NumPy's wheel; empty where NumPy has another."""
    folder = Path(np.__file__).parents[1] / "numpy.libs"
    return tuple(ctypes.CDLL(str(path)) for path in folder.glob("libscipy_openblas*"))


@functools.cache
def _blas() -> tuple[Callable[[int], object], ...]:
    """Functions that set the number of threads of the loaded BLAS libraries."""
    found = []
    for library in _libraries():
        for name in BLAS:
            with contextlib.suppress(AttributeError):
                found.append(getattr(library, name))
    return tuple(found)
