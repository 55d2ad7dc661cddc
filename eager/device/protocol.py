"""Under device memory: what `eager` and compiled code ask of a device. (kernel, regions, stream) ->
work that is queued there.

A `Device` gives memory by address and runs commands (copies and launches of kernels that are opaque
to it) in the order of their stream; events order streams among each other. The host sees results by
`download`, which waits. A command names the `Region`s of memory that it reads and writes: a
simulated device checks them against the order, a real one ignores what its driver does not ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np

from eager.base.dataclass import dataclass

Array = np.ndarray[Any, Any]
Grid = tuple[int, int, int]


class DeviceUnavailable(RuntimeError):
    """There is no such device, or it cannot be used; the message says why and what to do."""


class DeviceFailure(RuntimeError):
    """Something that was queued on a device failed there. The device takes no more work."""


class OutOfMemoryError(RuntimeError):
    """A device has no memory left for a request, also after everything cached was given back."""


class RaceError(RuntimeError):
    """Two commands reach the same memory, one of them writes, and nothing orders them."""


@dataclass(frozen=True, slots=True)
class Properties:
    """Properties of a device. Memory and caches in bytes, rates per second (0: not known)."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int = 32
    max_threads_per_multi_processor: int = 2048
    shared_memory_per_block: int = 0
    L2_cache_size: int = 0
    is_simulated: bool = False


class Region(NamedTuple):
    """The bytes from `address` on that a command may read, and write if it `writes`; it does not
    read them where `reads` is false."""

    address: int
    nbytes: int
    writes: bool = False
    reads: bool = True


@dataclass(frozen=True, slots=True)
class Binary:
    """A kernel compiled for a kind of device. `parameters` are the letters of `struct` for what it
    takes: a launch's own arguments (and tables), then zeros."""

    symbol: str
    code: bytes
    parameters: str
    threads: int  # of a block
    shared: int  # bytes of shared memory that a launch asks for


class Kernel(Protocol):
    """A kernel as its provider made it, opaque to who launches it. Of a launch's arguments the
    first `own` are its own; those behind lie in its tables."""

    @property
    def name(self) -> str: ...

    @property
    def own(self) -> int: ...

    @property
    def multiples(self) -> int:
        """Bit mask of its own int arguments for which it has code that takes multiples of 16."""

    def binary(
        self, capability: tuple[int, int], aligned: Sequence[bool], behind: int = 16
    ) -> Binary:
        """Compiled for a device. `aligned`: which of its own arguments lie on 16 bytes (numbers
        do, but for those of `multiples` that are none of 16). `behind`: of how many bytes, at most
        16, all those in its tables are multiples."""

    def tables(self, addresses: Sequence[int]) -> Sequence[Array]:
        """Arrays that a launch needs in device memory before its own arguments, from the addresses
        of those behind them; empty for most kernels."""

    def simulate(self, grid: Grid, arguments: Sequence[Any]) -> None:
        """Run it in this process. In place of each region stands a writable array of its bytes."""

    def together(self) -> AbstractContextManager[None]:
        """Context in which several kernels of this provider are simulated."""


class Event(Protocol):
    """A point in a stream."""

    def query(self) -> bool: ...
    def synchronize(self) -> None: ...
    def elapsed_time(self, end: Any) -> float: ...


class Stream(Protocol):
    """A queue of commands, which run one after the other."""

    @property
    def number(self) -> int: ...

    def record(self, event: Any) -> None: ...
    def wait(self, event: Any) -> None: ...
    def query(self) -> bool: ...
    def synchronize(self) -> None: ...


class Recording(Protocol):
    """Launches, copies and clearings that run again by one call of the host, each after those
    recorded before it that it depends on.

    Addresses and numbers are those of the recording; what memory holds is read anew. Whoever keeps
    a recording keeps that memory. It is freed with the object."""

    def replay(self, stream: Any) -> None:
        """Queue it. One that is still running ends first; counts as one replay and no launches."""


class Device(Protocol):
    """A device. Addresses are ints, aligned to 256 bytes where `allocate` gives them.

    `upload` and `download` copy from and to C-contiguous arrays. `upload` of memory that is
    `pinned` returns at once, and the array must not change until the stream has come past it; of
    other memory it returns when the array may change. `download` returns when the array is
    filled."""

    index: int
    properties: Properties
    main: Any  # the stream that everything runs on by default

    def pinned(self, nbytes: int) -> Array:
        """Bytes of page-locked host memory, which live as long as an array over them."""

    def allocate(self, nbytes: int) -> int: ...
    def free(self, address: int) -> None: ...
    def upload(self, to: Region, array: Array, stream: Any, *, pinned: bool = False) -> None: ...
    def download(self, array: Array, source: Region, stream: Any) -> None: ...
    def copy(self, to: Region, source: Region, stream: Any) -> None: ...
    def copy_to(self, peer: Any, to: Region, source: Region, stream: Any) -> None:
        """Into the memory of another device of this kind, on a stream of this one."""

    def reaches(self, peer: Any) -> bool:
        """True if copies to a peer need not go by way of the host."""

    def clear(self, region: Region, stream: Any) -> None: ...
    def launch(
        self, kernel: Kernel, grid: Grid, arguments: Sequence[Any], stream: Any, *, flops: int = 0
    ) -> None: ...
    def stream(self) -> Any: ...
    def event(self, *, timing: bool = False) -> Any: ...
    def record(self, work: Callable[[], None], stream: Any) -> Recording:
        """Recording of what `work` launches, copies on the device and clears on the stream, which
        is not run. DeviceFailure if it does something else there. Counts as one recording and no
        launches."""

    def synchronize(self) -> None: ...
    def counters(self) -> Mapping[str, float]: ...
