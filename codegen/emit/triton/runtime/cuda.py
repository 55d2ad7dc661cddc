"""GPU runtime: device memory, launches, streams and graphs. (cubin, record, grid, addresses) ->
work on the GPU.

`Device` is the seam: what compiled GPU code asks of a device, in eight methods. `CudaDevice`
implements it with the driver API of `cuda.bindings`, imported when the first device is made;
without the package or without a GPU `open_device` raises `DeviceUnavailable`, which says what is
missing. Launching needs neither triton nor torch: the cubin and its `Record` suffice.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from codegen.emit.triton.runtime.build import Record

Array = np.ndarray[Any, Any]
MAX_STATIC_SHARED: Final = 48 * 1024  # more dynamic shared memory must be asked for
# Kernel parameter types and their `struct` letters; pointers are "Q". 16-bit floats are never
# passed by value.
LETTERS: Final = {
    "u1": "B", "i1": "B", "u8": "B", "i8": "b", "i16": "h", "i32": "i", "u32": "I", "i64": "q",
    "u64": "Q", "fp32": "f", "fp64": "d",
}  # fmt: skip


class DeviceUnavailable(RuntimeError):
    """No GPU, no driver, or no Python binding of the driver; the message says which and what to
    do."""


class Graph(Protocol):
    """Recorded launches that run again with one driver call."""

    def launch(self) -> None: ...


class Device(Protocol):
    """What compiled code needs of a GPU. Addresses are ints; everything is ordered on one
    stream."""

    def activate(self) -> None: ...
    def allocate(self, nbytes: int) -> int: ...
    def free(self, address: int) -> None: ...
    def upload(self, address: int, array: Array) -> None: ...
    def download(self, array: Array, address: int) -> None: ...
    def load(self, record: Record, cubin: bytes) -> Callable[..., None]: ...
    def synchronize(self) -> None: ...
    def capture(self, work: Callable[[], None]) -> Graph: ...
    def close(self) -> None: ...


def layout(parameters: Sequence[str]) -> tuple[struct.Struct, tuple[int, ...]]:
    """The kernel's parameter block: how to pack it, and the offset of each parameter (natural
    alignment).

    After the declared parameters Triton's kernels take two more addresses, global and profile
    scratch. Raises ValueError for a parameter type that cannot be passed by value.
    """
    format_, offsets = "<", []
    for name in (*parameters, "*scratch", "*profile"):
        letter = "Q" if name.startswith("*") else LETTERS.get(name)
        if letter is None:
            raise ValueError(f"type {name} cannot be passed by value; use {sorted(LETTERS)}")
        at = struct.calcsize(format_)
        padding = -at % struct.calcsize(letter)
        format_ += (f"{padding}x" if padding else "") + letter
        offsets.append(at + padding)
    return struct.Struct(format_), tuple(offsets)


def open_device(index: int = 0) -> Device:
    """The GPU `index`. Raises DeviceUnavailable when there is none or its driver cannot be
    called."""
    return CudaDevice(_driver(), index)


def _driver() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise DeviceUnavailable(
            "running on a GPU needs the package cuda-bindings (pip install 'jitcap[gpu]');"
            " without it kernels can be compiled and interpreted, not launched"
        ) from error
    return driver


@dataclass
class _ParameterBlock(threading.local):
    """Packed parameters and the pointers to them. One per thread: the driver reads it without
    Python's lock."""

    size: int
    offsets: tuple[int, ...]
    buffer: Any = field(init=False)
    pointers: Any = field(init=False)
    address: int = field(init=False)

    def __post_init__(self) -> None:
        self.buffer = (ctypes.c_char * self.size)()
        base = ctypes.addressof(self.buffer)
        self.pointers = (ctypes.c_void_p * len(self.offsets))(*[base + o for o in self.offsets])
        self.address = ctypes.addressof(self.pointers)


class CudaDevice:
    """`Device` over the CUDA driver: the primary context (shared with other libraries of the
    process), one stream."""

    def __init__(self, driver: Any, index: int) -> None:
        self.driver = driver
        try:
            self._check(driver.cuInit(0))
            self.device = self._check(driver.cuDeviceGet(index))
        except RuntimeError as error:  # also what cuda.bindings raises when libcuda is missing
            raise DeviceUnavailable(f"no CUDA device {index}: {error}") from error
        self.context = self._check(driver.cuDevicePrimaryCtxRetain(self.device))
        self.threads = threading.local()
        self.activate()
        self.stream = self._check(driver.cuStreamCreate(1))
        self._keep_freed_memory()
        self.modules: list[Any] = []

    def _check(self, result: Any) -> Any:
        """Unpack a driver result. Raises RuntimeError with the driver's own words on failure."""
        error, *values = result if isinstance(result, tuple) else (result,)
        if error != self.driver.CUresult.CUDA_SUCCESS:
            _, text = self.driver.cuGetErrorString(error)
            raise RuntimeError(f"CUDA driver: {error.name}: {text.decode() if text else ''}")
        return values[0] if len(values) == 1 else values or None

    def _keep_freed_memory(self) -> None:
        """Freed memory stays in the driver's pool: giving it back would cost a synchronisation."""
        driver = self.driver
        pool = self._check(driver.cuDeviceGetDefaultMemPool(self.device))
        attribute = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        self._check(driver.cuMemPoolSetAttribute(pool, attribute, driver.cuuint64_t(2**64 - 1)))

    def activate(self) -> None:
        """Make the device current in this thread: before the first call of each thread."""
        if not getattr(self.threads, "active", False):
            self._check(self.driver.cuCtxSetCurrent(self.context))
            self.threads.active = True

    def allocate(self, nbytes: int) -> int:
        """At least `nbytes` of device memory, aligned to 256; not cleared."""
        return int(self._check(self.driver.cuMemAllocAsync(max(nbytes, 1), self.stream)))

    def free(self, address: int) -> None:
        self._check(self.driver.cuMemFreeAsync(address, self.stream))

    def upload(self, address: int, array: Array) -> None:
        """Copy a C-contiguous array to the device."""
        self._check(
            self.driver.cuMemcpyHtoDAsync(address, array.ctypes.data, array.nbytes, self.stream)
        )
        self.synchronize()  # pageable memory: the caller may change the array on return

    def download(self, array: Array, address: int) -> None:
        """Fill a C-contiguous array from the device, after all work queued so far."""
        self._check(
            self.driver.cuMemcpyDtoHAsync(array.ctypes.data, address, array.nbytes, self.stream)
        )
        self.synchronize()

    def synchronize(self) -> None:
        self._check(self.driver.cuStreamSynchronize(self.stream))

    def load(self, record: Record, cubin: bytes) -> Callable[..., None]:
        """Put a kernel on the device: `launch(grid, *arguments)`, arguments being addresses and
        numbers."""
        driver = self.driver
        module = self._check(driver.cuModuleLoadData(cubin))
        self.modules.append(module)
        function = self._check(driver.cuModuleGetFunction(module, record.name.encode()))
        if record.shared > MAX_STATIC_SHARED:
            limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._check(driver.cuFuncSetAttribute(function, limit, record.shared))
        return self._launcher(function, record)

    def _launcher(self, function: Any, record: Record) -> Callable[..., None]:
        if record.ctas != 1 or record.scratch:
            raise NotImplementedError(f"kernel {record.name} needs clusters or scratch memory")
        packer, offsets = layout(record.parameters)
        block = _ParameterBlock(packer.size, offsets)
        threads, shared, stream = record.warps * record.target[2], record.shared, self.stream
        launch, success = self.driver.cuLaunchKernel, self.driver.CUresult.CUDA_SUCCESS

        def call(grid: tuple[int, int, int], *arguments: int | float) -> None:
            packer.pack_into(block.buffer, 0, *arguments, 0, 0)
            result = launch(function, *grid, threads, 1, 1, shared, stream, block.address, 0)
            if result[0] != success:
                self._check(result)

        return call

    def capture(self, work: Callable[[], None]) -> Graph:
        """Record the launches that `work` makes into a graph. `work` may not allocate, copy or
        synchronise."""
        driver = self.driver
        with self._capturing() as finished:
            work()
        graph = finished()
        return _CudaGraph(self, self._check(driver.cuGraphInstantiate(graph, 0)))

    @contextmanager
    def _capturing(self) -> Iterator[Callable[[], Any]]:
        mode = self.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        self._check(self.driver.cuStreamBeginCapture(self.stream, mode))
        ended: list[Any] = []
        try:
            yield lambda: ended[0]
        finally:
            ended.append(self._check(self.driver.cuStreamEndCapture(self.stream)))

    def close(self) -> None:
        """Wait for the queued work, then give everything back."""
        self.synchronize()
        for module in self.modules:
            self._check(self.driver.cuModuleUnload(module))
        self.modules.clear()
        self._check(self.driver.cuStreamDestroy(self.stream))
        self._check(self.driver.cuDevicePrimaryCtxRelease(self.device))


@dataclass(frozen=True)
class _CudaGraph:
    device: CudaDevice
    executable: Any

    def launch(self) -> None:
        self.device._check(self.device.driver.cuGraphLaunch(self.executable, self.device.stream))
