"""A GPU of NVIDIA's as a device, by its driver alone. commands -> calls of the driver.

Memory comes from the pool above (`pool.py`) in large pieces; copies from pageable memory go through
page-locked blocks, so that only large ones wait; kernels come from their provider as machine code
for this GPU. Everything is queued on streams of ours, none of them ordered with the legacy default
stream. What fails there is found at a later call: the device takes no more work then.
"""

from __future__ import annotations

import collections
import ctypes
import itertools
import os
import struct
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from eager.base.compat_warnings import user_line
from eager.base.process.locks import lock, rlock
from eager.device import libcuda
from eager.device.counters import Counters
from eager.device.libcuda import Attribute, CaptureMode, FunctionAttribute
from eager.device.pinned import array_over
from eager.device.protocol import (
    Array,
    Binary,
    DeviceFailure,
    DeviceUnavailable,
    Grid,
    Kernel,
    Properties,
    Region,
)

STAGED: Final = 1 << 20  # a larger copy from pageable memory waits in place of being copied twice
STATIC_SHARED: Final = 48 << 10  # more shared memory must be asked for
BLOCK: Final = 4096  # page-locked memory is kept in powers of two from here


def layout(parameters: str) -> tuple[struct.Struct, tuple[int, ...]]:
    """A kernel's parameter block: how it is packed, and where each parameter lies, aligned by its
    own size."""
    text, offsets = "<", []
    for letter in parameters:
        at = struct.calcsize(text)
        padding = -at % struct.calcsize(letter)
        text += f"{padding}x{letter}" if padding else letter
        offsets.append(at + padding)
    return struct.Struct(text), tuple(offsets)


class _Function:
    """A kernel on the device, and the block of memory that its parameters are packed into."""

    def __init__(self, handle: Any, binary: Binary) -> None:
        self.handle = handle
        self.threads, self.shared = binary.threads, binary.shared
        self.packer, offsets = layout(binary.parameters)
        self.count = len(offsets)
        self.block = ctypes.create_string_buffer(self.packer.size)
        base = ctypes.addressof(self.block)
        self._pointers = (ctypes.c_void_p * len(offsets))(*(base + o for o in offsets))
        self.pointers = ctypes.addressof(self._pointers)

    def pack(self, values: Sequence[Any]) -> None:
        zeros = (0,) * (self.count - len(values))
        self.packer.pack_into(self.block, 0, *values, *zeros)


class _Functions:
    """The kernels on a device. Bits of `odd`: arguments of a kernel's own that do not lie on 16
    bytes, then the low bits of the addresses in its tables."""

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self.known: dict[tuple[Kernel, int], _Function] = {}
        self._loaded: dict[Binary, _Function] = {}

    def load(self, kernel: Kernel, odd: int) -> _Function:
        """A kernel that is not known yet. Equal code is there once."""
        call, properties = self.device.call, self.device.properties
        aligned = [not odd >> i & 1 for i in range(kernel.own)]
        low = odd >> kernel.own | 16
        binary = kernel.binary((properties.major, properties.minor), aligned, low & -low)
        found = self._loaded.get(binary)
        if found is None:
            if binary.shared > properties.shared_memory_per_block:
                raise DeviceFailure(
                    f"kernel {kernel.name} needs {binary.shared} bytes of shared memory, and "
                    f"{properties.name} has {properties.shared_memory_per_block}"
                )
            module = call("cuModuleLoadData", binary.code)
            handle = call("cuModuleGetFunction", module, binary.symbol.encode())
            if binary.shared > STATIC_SHARED:
                limit = FunctionAttribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                call("cuFuncSetAttribute", handle, limit, binary.shared)
            found = self._loaded[binary] = _Function(handle, binary)
        self.known[kernel, odd] = found
        return found


class _HostBlock:
    """Page-locked memory, which goes back to the list of free ones when it dies."""

    def __init__(self, dead: collections.deque[tuple[int, int]], address: int, size: int) -> None:
        self.dead, self.address, self.size = dead, address, size

    def __del__(self) -> None:
        self.dead.append((self.size, self.address))


class _HostMemory:
    """Page-locked memory, kept for reuse: to get it from the driver is slow, and waits.

    A block is free when no array is over it and no copy from it is under way: `flying` holds the
    arrays of copies."""

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        self.flying: collections.deque[tuple[CudaEvent, Array]] = collections.deque()
        self._spare: list[CudaEvent] = []
        self._dead: collections.deque[tuple[int, int]] = collections.deque()
        self._free: dict[int, list[int]] = {}

    def empty(self, nbytes: int) -> Array:
        while self.flying and self.flying[0][0].query():
            self._spare.append(self.flying.popleft()[0])
        while self._dead:
            size, address = self._dead.popleft()
            self._free.setdefault(size, []).append(address)
        size = max(BLOCK, 1 << (nbytes - 1).bit_length())
        free = self._free.get(size)
        address = free.pop() if free else int(self.device.call("cuMemHostAlloc", size, 0))
        return array_over(address, nbytes, _HostBlock(self._dead, address, size))

    def lend(self, array: Array, stream: CudaStream) -> None:
        """Keep an array until the stream has come past its copy."""
        event = self._spare.pop() if self._spare else CudaEvent(self.device)
        stream.record(event)
        self.flying.append((event, array))


class CudaEvent:
    """See `protocol.Event`."""

    def __init__(self, device: CudaDevice, *, timing: bool = False) -> None:
        self.device = device
        self.timing = timing
        self.recorded = False
        self.handle = device.call("cuEventCreate", 0 if timing else libcuda.NO_TIMING)

    def query(self) -> bool:
        """True if all that was queued before the event has run."""
        return not self.recorded or self.device.is_done("cuEventQuery", self.handle)

    def synchronize(self) -> None:
        self.device.wait_for("cuEventSynchronize", self.handle)

    def elapsed_time(self, end: CudaEvent) -> float:
        """Milliseconds to the event `end`. RuntimeError unless both were recorded with timing, and
        have come."""
        if not (self.timing and end.timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if not (self.recorded and end.recorded):
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return float(self.device.call("cuEventElapsedTime", self.handle, end.handle))

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            self.device.dead.append(("cuEventDestroy", self.handle))


class CudaStream:
    """See `protocol.Stream`. It lives as long as its device; another library's has its handle."""

    def __init__(self, device: CudaDevice, number: int, handle: Any = None) -> None:
        self.device = device
        self.number = number
        made = device.call("cuStreamCreate", libcuda.NON_BLOCKING) if handle is None else handle
        self.handle = made
        self.recorded: list[Any] | None = None  # while it is recorded: the tables of its kernels

    @property
    def target(self) -> Any:
        """The stream handle that a command goes to, for who holds the device's lock: a recording is
        made on a stream of its own, so that other threads may wait and copy on this one
        meanwhile."""
        return self.handle if self.recorded is None else self.device.recorder.handle

    def record(self, event: CudaEvent) -> None:
        _not_recording(self, "an event")
        self.device.call("cuEventRecord", event.handle, self.handle)
        event.recorded = True

    def wait(self, event: CudaEvent) -> None:
        _not_recording(self, "a wait")
        if event.recorded:  # else it has come
            self.device.call("cuStreamWaitEvent", self.handle, event.handle, 0)

    def query(self) -> bool:
        return self.device.is_done("cuStreamQuery", self.handle)

    def synchronize(self) -> None:
        _not_recording(self, "a synchronization")
        self.device.wait_for("cuStreamSynchronize", self.handle)


class CudaRecording:
    """A graph that was captured from a stream, with the tables of its kernels."""

    def __init__(self, device: CudaDevice, handle: Any, tables: Sequence[Any]) -> None:
        self.device = device
        self.handle = handle
        self.tables = tables

    def replay(self, stream: CudaStream) -> None:
        device = self.device
        _not_recording(stream, "a replay")
        device.call("cuGraphLaunch", self.handle, stream.handle)
        device.counted.add("replays")

    def __del__(self) -> None:
        self.device.dead.append(("cuGraphExecDestroy", self.handle))
        self.device.dead.extend(("cuMemFree", address) for address in self.tables)


class CudaDevice:
    """See `protocol.Device`: GPU number `index`, in its primary context, which other libraries of
    the process share. `driver` has its functions, as `libcuda.load` gives them."""

    def __init__(self, driver: Any, index: int = 0) -> None:
        self.driver = driver
        self.index = index
        self.failure: Exception | None = None
        self.counted = Counters()
        self.dead: collections.deque[tuple[str, Any]] = collections.deque()  # to give back
        self._lock = rlock()  # while something is queued: parameter blocks are shared
        self._capturing = lock()  # the driver does not wait for all meanwhile
        self._functions = _Functions(self)
        self._sizes: dict[int, int] = {}
        self._context: Any = None
        self._several = count(driver) > 1
        self._peers: set[CudaDevice] = set()  # that copies went to
        self._unit = unit = self.call("cuDeviceGet", index)
        self.properties = self._properties(unit)
        self._context = self.call("cuDevicePrimaryCtxRetain", unit)
        self._host = _HostMemory(self)
        self._streams: list[CudaStream] = []
        self._foreign: dict[int, CudaStream] = {}
        self.main = self.stream()
        self._tables = self.stream()  # on which tables come there while another is recorded
        self.recorder = self.stream()  # on which recordings are made, by this thread
        self.recording_thread = 0
        _devices.add(self)

    def _properties(self, unit: Any) -> Properties:
        def ask(attribute: Attribute) -> int:
            return int(self.call("cuDeviceGetAttribute", attribute, unit))

        found = Properties(
            name=self.call("cuDeviceGetName", 256, unit).partition(b"\0")[0].decode(),
            major=ask(Attribute.COMPUTE_CAPABILITY_MAJOR),
            minor=ask(Attribute.COMPUTE_CAPABILITY_MINOR),
            total_memory=int(self.call("cuDeviceTotalMem", unit)),
            multi_processor_count=ask(Attribute.MULTIPROCESSOR_COUNT),
            warp_size=ask(Attribute.WARP_SIZE),
            max_threads_per_multi_processor=ask(Attribute.MAX_THREADS_PER_MULTIPROCESSOR),
            shared_memory_per_block=ask(Attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            L2_cache_size=ask(Attribute.L2_CACHE_SIZE),
        )
        if (found.major, found.minor) < libcuda.NEEDED:
            raise DeviceUnavailable(
                f"{found.name} has compute capability {found.major}.{found.minor}, and kernels "
                f"need {libcuda.NEEDED[0]}.{libcuda.NEEDED[1]} or newer"
            )
        return found

    # ---- the driver
    def call(self, name: str, *given: Any) -> Any:
        """Result of a function of the driver. Raises the exception of its error."""
        self.enter()
        error, *values = getattr(self.driver, name)(*given)
        if error:
            raise self.failed(error)
        return values[0] if values else None

    def enter(self) -> None:
        """Only while the device is in order; its context is this thread's from now on. Where there
        are several GPUs, another library may have made another one's current since."""
        if self.failure is not None:
            raise DeviceFailure(
                f"cuda:{self.index} takes no more work since: {self.failure}"
            ) from self.failure
        known = not self._several and getattr(_here, "device", None) is self
        if not known and self._context is not None:
            (error,) = self.driver.cuCtxSetCurrent(self._context)
            if error:
                raise self.failed(error)
            _here.device = self

    def failed(self, error: Any) -> RuntimeError:
        """The exception of an error. After some of them the device takes no more work."""
        found = libcuda.failure(self.driver, error, f"cuda:{self.index}")
        if int(error) not in libcuda.STICKY:
            return found
        self.failure = type(found)(
            f"{found}, found {user_line()} and queued before; JITCAP_DEVICE=sim finds where"
        )
        return self.failure

    def is_done(self, name: str, handle: Any) -> bool:
        self.enter()
        (error,) = getattr(self.driver, name)(handle)
        if error and int(error) != libcuda.NOT_READY:
            raise self.failed(error)
        return not error

    def wait_for(self, name: str, *handle: Any) -> None:
        """Let the host wait, and other threads queue meanwhile."""
        self.call(name, *handle)
        self.counted.add("synchronizations")

    def synchronize(self) -> None:
        for stream in self._streams:
            _not_recording(stream, "a synchronization")
        with self._capturing:
            self.wait_for("cuCtxSynchronize")

    # ---- memory
    def pinned(self, nbytes: int) -> Array:
        with self._lock:
            return self._host.empty(nbytes)

    def allocate(self, nbytes: int) -> int:
        with self._lock:
            self._bury()
            address = int(self.call("cuMemAlloc", nbytes))
            self._sizes[address] = nbytes
            counted = self.counted
            counted.add("allocations")
            counted.allocated += nbytes
            counted.peak = max(counted.peak, counted.allocated)
            return address

    def _bury(self) -> None:
        """Give back what died."""
        while self.dead:
            self.call(*self.dead.popleft())

    def free(self, address: int) -> None:
        """Waits for everything that is queued."""
        with self._lock:
            self.call("cuMemFree", address)
            self.counted.allocated -= self._sizes.pop(address)

    # ---- commands
    def upload(self, to: Region, array: Array, stream: CudaStream, *, pinned: bool = False) -> None:
        _not_recording(stream, "a copy to the device")
        self.counted.copy("to_device", array.nbytes)
        if not array.nbytes:
            return
        waits = not pinned and array.nbytes > STAGED
        with self._lock:
            if not (pinned or waits):
                staged = self._host.empty(array.nbytes)
                staged[:] = array.reshape(-1).view(np.uint8)
                array = staged
            self._copy_in(to.address, array, stream)
            if not waits:
                self._host.lend(array, stream)
        if waits:
            stream.synchronize()

    def _copy_in(self, address: int, array: Array, stream: CudaStream) -> None:
        source = array.ctypes.data
        self.call("cuMemcpyHtoDAsync", address, source, array.nbytes, stream.handle)

    def download(self, array: Array, source: Region, stream: CudaStream) -> None:
        _not_recording(stream, "a copy to the host")
        self.counted.copy("to_host", source.nbytes)
        if source.nbytes:
            self.call(
                "cuMemcpyDtoHAsync",
                array.ctypes.data,
                source.address,
                source.nbytes,
                stream.handle,
            )
        stream.synchronize()

    def copy(self, to: Region, source: Region, stream: CudaStream) -> None:
        with self._lock:
            if to.nbytes:
                self.call("cuMemcpyDtoDAsync", to.address, source.address, to.nbytes, stream.target)
            self.counted.copy("on_device", to.nbytes)

    def copy_to(self, peer: CudaDevice, to: Region, source: Region, stream: CudaStream) -> None:
        _not_recording(stream, "a copy to another device")
        with self._lock:
            if peer not in self._peers:
                self._peers.add(peer)
                self._reach(peer)
            if to.nbytes:
                self.call(
                    "cuMemcpyPeerAsync",
                    to.address, peer._context, source.address, self._context, to.nbytes,
                    stream.handle,
                )  # fmt: skip
            self.counted.copy("to_peers", to.nbytes)

    def _reach(self, peer: CudaDevice) -> None:
        """Let copies go over the link between the two, where there is one; else the driver takes
        them by way of the host."""
        if self.reaches(peer):
            self.enter()
            (error,) = self.driver.cuCtxEnablePeerAccess(peer._context, 0)
            if error and int(error) != libcuda.PEERS_ALREADY:
                raise self.failed(error)

    def reaches(self, peer: CudaDevice) -> bool:
        return bool(self.call("cuDeviceCanAccessPeer", self._unit, peer._unit))

    def clear(self, region: Region, stream: CudaStream) -> None:
        with self._lock:
            if region.nbytes:
                self.call("cuMemsetD8Async", region.address, 0, region.nbytes, stream.target)

    def launch(
        self,
        kernel: Kernel,
        grid: Grid,
        arguments: Sequence[Any],
        stream: CudaStream,
        *,
        flops: int = 0,
    ) -> None:
        values, odd, own, table = [], 0, kernel.own, None
        for i, x in enumerate(arguments):
            if type(x) is Region:
                x = x.address
                if x & 15:  # of those in tables the low bits together
                    odd |= 1 << i if i < own else (x & 15) << own
            elif type(x) is int and x & 15:
                odd |= kernel.multiples & 1 << i
            values.append(x)
        with self._lock:
            self.enter()
            function = self._functions.known.get((kernel, odd))
            if function is None:
                function = self._functions.load(kernel, odd)
            if len(values) > own:
                table, first = self._table(kernel, values[own:], stream)
                values = [*first, *values[:own]]
            function.pack(values)
            (error,) = self.driver.cuLaunchKernel(
                function.handle, *grid, function.threads, 1, 1, function.shared, stream.target,
                function.pointers, 0,
            )  # fmt: skip
            if table is not None:
                self.call("cuMemFreeAsync", table, stream.handle)
            if error:
                raise self.failed(error)
            self.counted.add("launches")

    def _table(
        self, kernel: Kernel, addresses: Sequence[int], stream: CudaStream
    ) -> tuple[Any, list[int]]:
        """A kernel's tables in memory of their own: what to give back behind the launch (a
        recording keeps it), and where each table lies."""
        tables = kernel.tables(addresses)
        starts = list(itertools.accumulate((-(-t.nbytes // 256) * 256 for t in tables), initial=0))
        host = self._host.empty(starts[-1])
        for start, t in zip(starts, tables, strict=False):
            host[start : start + t.nbytes] = t.reshape(-1).view(np.uint8)
        if stream.recorded is None:
            memory = self.call("cuMemAllocAsync", host.nbytes, stream.handle)
            self._copy_in(memory, host, stream)
            self._host.lend(host, stream)
        else:
            memory = self.call("cuMemAlloc", host.nbytes)
            stream.recorded.append(memory)
            self._copy_in(memory, host, self._tables)
            self.call("cuStreamSynchronize", self._tables.handle)
        places = [int(memory) + start for start in starts[:-1]]
        return (memory if stream.recorded is None else None), places

    # ---- order
    def stream(self) -> CudaStream:
        with self._lock:
            self._streams.append(CudaStream(self, len(self._streams)))
            return self._streams[-1]

    def foreign(self, handle: int) -> CudaStream:
        """The stream of another library: what it queues there is ordered by events alone."""
        with self._lock:
            found = self._foreign.get(handle)
            if found is None:
                found = self._foreign[handle] = CudaStream(self, -1, handle)
            return found

    def event(self, *, timing: bool = False) -> CudaEvent:
        with self._lock:
            self._bury()
        return CudaEvent(self, timing=timing)

    # ---- recordings
    def record(self, work: Callable[[], None], stream: CudaStream) -> CudaRecording:
        _not_recording(stream, "a recording")
        with self._capturing, self._lock:
            before = dict(self.counted.counts)
            try:
                recording = CudaRecording(self, *_captured(self, work, stream))
            finally:
                self.counted.counts.update(before)
            self.counted.add("recordings")
            return recording

    def counters(self) -> Mapping[str, float]:
        return self.counted.table()


def _captured(
    device: CudaDevice, work: Callable[[], None], stream: CudaStream
) -> tuple[Any, list[Any]]:
    """The graph of what `work` queues on the stream, and the tables of its kernels."""
    handle, made = device.recorder.handle, None
    tables: list[Any] = []
    device.call("cuStreamBeginCapture", handle, CaptureMode.RELAXED)
    stream.recorded, device.recording_thread = tables, threading.get_ident()
    try:
        work()
        made = True
    finally:
        stream.recorded, device.recording_thread = None, 0
        error, graph = device.driver.cuStreamEndCapture(handle)
        if not error:
            if made:
                error, made = device.driver.cuGraphInstantiate(graph, 0)
            device.driver.cuGraphDestroy(graph)
        if error or not made:
            device.dead.extend(("cuMemFree", address) for address in tables)
    if error:
        raise device.failed(error)
    return made, tables


def _not_recording(stream: CudaStream, what: str) -> None:
    """Raise DeviceFailure if this thread is recording the stream; others may go on."""
    if stream.recorded is not None and stream.device.recording_thread == threading.get_ident():
        raise DeviceFailure(f"{what} on stream {stream.number} while its commands are recorded")


def _after_fork() -> None:
    for device in _devices:
        device.failure = DeviceFailure(
            "it was opened before this process was forked: use the start method 'spawn', or open "
            "the device in the child alone"
        )


_here: Final = threading.local()  # the device whose context is this thread's
_devices: Final[weakref.WeakSet[CudaDevice]] = weakref.WeakSet()
os.register_at_fork(after_in_child=_after_fork)


# ---------------------------------------------------------------------- which there are
def find() -> Any:
    """The driver, where it is usable and has a GPU. Raises DeviceUnavailable saying what is
    missing."""
    driver = libcuda.load()
    for name in ("cuInit", "cuDeviceGetCount", "cuDriverGetVersion"):
        error, *values = getattr(driver, name)(*([0] if name == "cuInit" else []))
        if error:
            found = libcuda.failure(driver, error, "no GPU can be used")
            raise DeviceUnavailable(str(found))
        if name == "cuDeviceGetCount" and not values[0]:
            raise DeviceUnavailable("no GPU can be used: the driver finds none")
    version = divmod(values[0] // 10, 100)
    if version < libcuda.OLDEST:
        raise DeviceUnavailable(
            "no GPU can be used: the NVIDIA driver is for CUDA {}.{}, and {}.{} or newer is "
            "needed. Update it".format(*version, *libcuda.OLDEST)
        )
    return driver


def count(driver: Any) -> int:
    """Number of GPUs that the driver shows."""
    _, known = driver.cuDeviceGetCount()
    return int(known)
