"""Between tensors and a device: its memory, kept for reuse. (size, stream) -> Buffer.

A block goes back to the free list of its stream when the last view of its buffer dies: what the
stream was given before then runs before what it is given later, so no wait is needed. A buffer that
other streams used waits for events of theirs. Blocks die inside the garbage collector of any
thread, so `Buffer.__del__` only appends to a deque, which the next request empties.
"""

from __future__ import annotations

import collections
import gc
import threading
from typing import Any, Final

from eager.device.checks import Checks
from eager.device.protocol import Device, OutOfMemoryError

SMALLEST: Final = 512


def size_class(nbytes: int) -> int:
    """`nbytes` rounded up to 512, and to 1/16 of a power of two: at most 12.5 % is wasted."""
    step = max(SMALLEST, 1 << max(0, (nbytes - 1).bit_length() - 4))
    return -(-max(nbytes, 1) // step) * step


class Buffer:
    """Memory of a device that tensors share; it lives as long as one of them."""

    __slots__ = ("__weakref__", "address", "nbytes", "pool", "size", "stream", "users")

    def __init__(self, pool: Pool, address: int, nbytes: int, size: int, stream: Any) -> None:
        self.pool = pool
        self.address = address
        self.nbytes = nbytes  # that were asked for
        self.size = size  # that there are
        self.stream = stream
        self.users: tuple[Any, ...] = ()  # other streams that used it

    @property
    def device(self) -> Any:
        return self.pool.device

    def used_on(self, stream: Any) -> None:
        """A command of `stream` reaches this memory."""
        if stream is not self.stream and stream not in self.users:
            self.users = (*self.users, stream)

    def __del__(self) -> None:
        self.pool.dead.append((self.address, self.size, self.stream, self.users))


class Pool:
    """The memory of one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.checks = Checks(self)
        self.dead: collections.deque[tuple[int, int, Any, tuple[Any, ...]]] = collections.deque()
        self.allocated = self.reserved = self.peak = self.peak_reserved = 0
        self.requests = self.misses = 0
        self._free: dict[tuple[int, Any], list[int]] = {}
        self._waiting: list[tuple[int, int, Any, list[Any]]] = []
        self._lock = threading.RLock()

    def empty(self, nbytes: int, stream: Any) -> Buffer:
        """Memory for `nbytes`, to be used on `stream`; what it holds is not defined. Raises
        OutOfMemoryError saying who holds how much."""
        size = size_class(nbytes)
        with self._lock:
            self.requests += 1
            self.collect()
            free = self._free.get((size, stream))
            address = free.pop() if free else self._allocate(size, nbytes)
            self.allocated += size
            self.peak = max(self.peak, self.allocated)
        return Buffer(self, address, nbytes, size, stream)

    def collect(self) -> None:
        """Take back what died."""
        with self._lock:
            while self.dead:
                address, size, stream, users = self.dead.popleft()
                self.allocated -= size
                if users:
                    self._waiting.append((address, size, stream, [_mark(self, s) for s in users]))
                else:
                    self._free.setdefault((size, stream), []).append(address)
            if self._waiting:
                waiting, self._waiting = self._waiting, []
                for address, size, stream, events in waiting:
                    if all(event.query() for event in events):
                        self._free.setdefault((size, stream), []).append(address)
                    else:
                        self._waiting.append((address, size, stream, events))

    def _allocate(self, size: int, asked: int) -> int:
        self.misses += 1
        try:
            address = self.device.allocate(size)
        except OutOfMemoryError:
            gc.collect()
            self.release()
            try:
                address = self.device.allocate(size)
            except OutOfMemoryError as error:
                raise OutOfMemoryError(
                    f"no memory on cuda:{self.device.index} for {text(asked)}: tensors hold "
                    f"{text(self.allocated)} (at most so far: {text(self.peak)}), and what was "
                    "cached was given back first. Use smaller batches, or drop tensors that are "
                    f"not needed. ({error})"
                ) from None
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return address

    def release(self) -> None:
        """Give the device back what no tensor uses (`empty_cache`); waits for its work."""
        with self._lock:
            self.device.synchronize()
            self.collect()
            for (size, _), blocks in self._free.items():
                for address in blocks:
                    self.device.free(address)
                    self.reserved -= size
            self._free.clear()

    def reset_peaks(self) -> None:
        with self._lock:
            self.collect()
            self.peak, self.peak_reserved = self.allocated, self.reserved


def _mark(pool: Pool, stream: Any) -> Any:
    event = pool.device.event()
    stream.record(event)
    return event


def text(nbytes: float) -> str:
    """A size for people: "1.50 MiB"."""
    for unit in ("B", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.0f} {unit}" if unit == "B" else f"{nbytes:.2f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.2f} GiB"
