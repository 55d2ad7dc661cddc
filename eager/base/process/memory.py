"""Under large tensors: memory that is reused. A size -> a warm, aligned block.

Fresh pages cost more than arithmetic (a 16 Mi-element GELU takes 4 ms into a reused buffer and 10
into a new one). `empty(shape, dtype)` makes arrays in pooled blocks; when the last view of such an
array dies, its block goes back to the pool, still mapped and warm. Blocks of up to a few MiB are
cut from slabs, which huge pages back: parameters, gradients and optimizer state would else take one
page fault per 4 KiB, and two if they are read before they are written.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

HUGE: Final = 2 << 20  # a huge page of x86-64 and of ARM
SLAB: Final = 32 << 20  # whole huge pages; what it leaves unused at its end is a fourth at most
SLAB_SHARE: Final = 4  # blocks of up to a fourth of a slab are cut from one
SMALL: Final = 256 << 10  # below this NumPy's own allocator is faster, and malloc reuses its memory


class Block:
    """Anonymous private pages; from 2 MiB on aligned to 2 MiB, so that huge pages can back them."""

    __slots__ = ("_pages", "address", "size")

    def __init__(self, size: int) -> None:
        slack = HUGE if size >= HUGE else 0
        self._pages = mmap.mmap(-1, size + slack, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = _address(self._pages)
        self.address = (start + slack - 1) // HUGE * HUGE if slack else start
        if self.address < start:
            self.address += HUGE
        self.size = size
        if slack and hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # a kernel without huge pages
                self._pages.madvise(mmap.MADV_HUGEPAGE)


class Share:
    """A part of a slab, which lives as long as one of its pieces does."""

    __slots__ = ("address", "slab")

    def __init__(self, slab: Block, offset: int) -> None:
        self.slab = slab
        self.address = slab.address + offset


def _address(pages: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(pages))


def size_class(size: int) -> int:
    """`size` rounded up to a page and to 1/16 of a power of two: at most 12.5 % is wasted."""
    step = max(mmap.PAGESIZE, 1 << max(0, (size - 1).bit_length() - 4))
    return -(-size // step) * step


def _default_limit() -> int:
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return 1 << 30
    return max(1 << 28, total // 8)


class Pool:
    """Blocks by size class. Lock-free: list.append and list.pop are atomic, and a lease may die
    inside the garbage collector of any thread, where taking a lock could deadlock."""

    def __init__(self, limit_bytes: int | None = None) -> None:
        self.limit_bytes = _default_limit() if limit_bytes is None else limit_bytes
        self._free: dict[int, list[Block | Share]] = {}
        self._slabs: list[tuple[Block, int]] = []  # with the number of bytes cut off
        self._leases: dict[int, Any] = {}

    def lease(self, size: int) -> Any:
        """An object with the buffer interface over `size` bytes or a little more; when it dies its
        block returns to the pool."""
        cls = size_class(size)
        lease_type = self._leases.get(cls)
        if lease_type is None:
            lease_type = self._lease_type(cls)
        try:
            block = self._free[cls].pop()
        except IndexError:
            block = self._fresh(cls)
        lease = lease_type.from_address(block.address)
        lease.block = block
        return lease

    def held(self) -> int:
        """Bytes of free blocks kept for reuse."""
        return sum(size * len(blocks) for size, blocks in list(self._free.items()))

    def clear(self) -> None:
        """Give every free block back to the operating system."""
        for blocks in list(self._free.values()):
            blocks.clear()
        self._slabs.clear()

    def _cut(self, cls: int) -> Block | Share:
        if cls > SLAB // SLAB_SHARE:
            return Block(cls)
        try:
            slab, used = self._slabs.pop()  # nobody else has it now
        except IndexError:
            slab, used = Block(SLAB), 0
        if used + cls > SLAB:
            slab, used = Block(SLAB), 0
        self._slabs.append((slab, used + cls))
        return Share(slab, used)

    def _fresh(self, cls: int) -> Block | Share:
        try:
            return self._cut(cls)
        except OSError:  # address space or memory limit: drop what is kept, then try once more
            self.clear()
            try:
                return self._cut(cls)
            except OSError as error:
                raise MemoryError(f"no memory for a tensor of {cls} bytes ({error})") from None

    def _lease_type(self, cls: int) -> Any:
        free = self._free.setdefault(cls, [])

        def give_back(lease: Any) -> None:
            if self.held() + cls <= self.limit_bytes:
                free.append(lease.block)

        made = type("Lease", (ctypes.c_char * cls,), {"__del__": give_back})
        return self._leases.setdefault(cls, made)


POOL: Final = Pool()


def pooled(shape: Sequence[int], dtype: np.dtype[Any]) -> bool:
    """True if `empty` cuts such an array from a slab."""
    return SMALL <= math.prod(shape) * dtype.itemsize <= SLAB // SLAB_SHARE


def owner_of(array: Any) -> Any:
    """The object with which the memory of an array goes: the array that has it, or a lease."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.base if isinstance(array.base, ctypes.Array) else array


def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray[Any, np.dtype[Any]]:
    """An uninitialised C-contiguous array, as `np.empty`; large ones reuse warm memory.

    Raises MemoryError when the system has none left.
    """
    size = math.prod(shape) * dtype.itemsize
    if size < SMALL:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, POOL.lease(size))
