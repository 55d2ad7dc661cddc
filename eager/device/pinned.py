"""Under copies: host memory that a device reads while the host goes on. (address, size) -> an array
of bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager.device.protocol import Array


class Pinned:
    """Page-locked memory at `address`, which lives as long as `owner` does."""

    def __init__(self, address: int, nbytes: int, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3, "typestr": "|u1", "shape": (nbytes,), "data": (address, False),
        }  # fmt: skip


def array_over(address: int, nbytes: int, owner: Any) -> Array:
    """The bytes as an array, which keeps the owner."""
    return np.asarray(Pinned(address, nbytes, owner))


def is_pinned(array: Any) -> bool:
    """True if a NumPy array, or the one that it is a view of, is such memory."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, Pinned)
