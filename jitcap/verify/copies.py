"""Verified calls: copies on which the compiled version runs. arrays of the user's -> arrays alike.

A copy has the strides and the alignment of its original, and copies share memory where their
originals do: what a kernel may rely on, or trip over, is the same.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.lib.array_utils import byte_bounds

PAGE: Final = 64  # bytes: the alignment that is kept


class Copies:
    """Copies of arrays, by the array that they are of."""

    def __init__(self, arrays: Iterable[Any]) -> None:
        self._of: dict[int, Any] = {}
        self._keep: list[Any] = []
        groups: dict[int, list[Any]] = {}
        for array in {id(a): a for a in arrays}.values():
            groups.setdefault(id(owner_of(array)), []).append(array)
        for group in groups.values():
            self._copy(group)

    def of(self, value: Any) -> Any:
        """The copy of an array; a number itself."""
        return self._of.get(id(value), value)

    def again(self) -> Copies:
        """Copies of the copies, found by the same originals."""
        second = Copies(self._of.values())
        made = {key: second.of(copy) for key, copy in self._of.items()}
        second._of, second._keep = made, [second._keep, self._keep]
        return second

    def _copy(self, group: list[Any]) -> None:
        """Arrays in one piece of memory: the bytes from the first to the last that they use."""
        bounds = [byte_bounds(a) for a in group]
        low, high = min(b[0] for b in bounds), max(b[1] for b in bounds)
        block = np.empty(high - low + 2 * PAGE, np.uint8)
        shift = (low - block.ctypes.data) % PAGE
        ctypes.memmove(block.ctypes.data + shift, low, high - low)
        for array in group:
            offset = array.ctypes.data - low + shift
            buffer = block if array.size else np.empty(PAGE, np.uint8)
            self._of[id(array)] = np.ndarray(
                array.shape, array.dtype, buffer, offset if array.size else 0, array.strides
            )
            self._keep.append(array)


def owner_of(array: Any) -> Any:
    """The array, or other object, that the memory of an array belongs to."""
    while type(array) is np.ndarray and array.base is not None:
        array = array.base
    return array
