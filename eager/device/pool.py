"""Between tensors and a device: its memory, kept for reuse. (size, stream) -> Buffer.

A block goes back to the free list of its stream when the last view of its buffer dies: what the
stream was given before then runs before what it is given later, so no wait is needed. A buffer that
other streams used waits for events of theirs. Blocks die inside the garbage collector of any
thread, so `Buffer.__del__` only appends to a deque, which the next request empties.
"""

from __future__ import annotations

import collections
import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from eager.base.byte_text import byte_text
from eager.base.process.locks import rlock
from eager.device.device_asserts import Checks
from eager.device.protocol import Device, Grid, OutOfMemoryError, Region

T = TypeVar("T")

SMALLEST: Final = 512  # bytes: numbers and small vectors are of one class, and reuse each other


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


class Lease(Buffer):
    """The memory of a `Slot` while tensors have it."""

    __slots__ = ("own",)

    def __init__(self, own: Buffer) -> None:
        super().__init__(own.pool, own.address, own.nbytes, own.size, own.stream)
        self.own = own

    def __del__(self) -> None:
        self.own.users = tuple({*self.own.users, *self.users})


class Slot:
    """Memory at an address that stays, in which the same result of a program lies after each run.
    Tensors have it until the next run; a result that is kept longer is copied from then on."""

    def __init__(self, pool: Pool, nbytes: int, stream: Any) -> None:
        self.own = pool.empty(nbytes, stream)
        self.copied = False
        self._copy: Any = None  # where the next result is copied to: there is room before the run
        self._lease: Any = None  # a weak reference

    def give(self, stream: Any) -> Buffer:
        """Buffer for the tensors of this run."""
        own = self.own
        if not self.copied:
            lease = Lease(own)
            self._lease = weakref.ref(lease)
            return lease
        to, self._copy = self._copy, None
        if own.nbytes:
            target = Region(to.address, own.nbytes, writes=True, reads=False)
            own.pool.device.copy(target, Region(own.address, own.nbytes), stream)
        return to

    def vacate(self, stream: Any) -> bool:
        """Make the slot writable on the stream, behind all that read it. What a living tensor has
        stays its own: then the slot is elsewhere. Where there is no memory, nothing changes."""
        own = self.own
        kept = None if self._lease is None else self._lease()
        moves = kept is not None
        if moves:
            own = own.pool.empty(own.nbytes, stream)
        if (self.copied or moves) and self._copy is None:
            self._copy = own.pool.empty(own.nbytes, stream)
        self._lease = None
        if moves:
            self.own, self.copied = own, True
            return True
        for user in own.users:
            if user is not stream:
                stream.wait(_mark(own.pool, user))
        own.users = ()
        own.used_on(stream)
        return False


class Holder(Protocol):
    """Holder of memory that is kept between calls and can be freed: a compiled program."""

    name: str
    held: int  # bytes

    def let_go(self) -> None:
        """Give it back, unless it is in use now."""


class Pool:
    """The memory of one device. `holders` keep some of it that they can give back."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.checks = Checks(self)
        self.dead: collections.deque[tuple[int, int, Any, tuple[Any, ...]]] = collections.deque()
        self.allocated = self.reserved = self.peak = self.peak_reserved = 0
        self.requests = self.misses = 0
        self._free: dict[tuple[int, Any], list[int]] = {}
        self._waiting: list[tuple[int, int, Any, list[Any]]] = []
        self.holders: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = rlock()

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
            address = self.with_room(lambda: self.device.allocate(size))
        except OutOfMemoryError as error:
            raise OutOfMemoryError(
                f"no memory on cuda:{self.device.index} for {byte_text(asked)}: tensors hold "
                f"{byte_text(self.allocated)}{self._of_programs()} (at most so far: "
                f"{byte_text(self.peak)}), and what was cached was given back first. Use smaller "
                f"batches, or drop tensors that are not needed. ({error})"
            ) from None
        self.reserved += size
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return address

    def with_room(self, work: Callable[[], T]) -> T:
        """Result of `work`; if the device is out of memory, cached memory is given back and `work`
        is called again."""
        try:
            return work()
        except OutOfMemoryError:
            self._make_room()
            return work()

    def launch(
        self, kernel: Any, grid: Grid, arguments: Sequence[Any], stream: Any, *, flops: int = 0
    ) -> None:
        """Queue a kernel, `with_room`: its code and tables need memory, too, which no tensor
        has."""
        try:
            self.device.launch(kernel, grid, arguments, stream, flops=flops)
        except OutOfMemoryError:
            self._make_room()
            self.device.launch(kernel, grid, arguments, stream, flops=flops)

    def _make_room(self) -> None:
        for holder in list(self.holders):
            holder.let_go()
        gc.collect()
        self.release()

    def _of_programs(self) -> str:
        """Text about the memory that compiled programs hold."""
        held = [f"{h.name} {byte_text(h.held)}" for h in self.holders if h.held]
        return f", some of it for compiled programs: {', '.join(sorted(held))}" if held else ""

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
