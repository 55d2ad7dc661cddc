"""Under the CUDA device: the driver's functions as `cuda.bindings.driver` has them, by that package
or by ctypes. libcuda -> functions that return (error code, values...).

Without the package the library is called through ctypes, by the names and with the results that the
package has: the device is written once. Handles are opaque and go back as they came.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

from eager.device.protocol import (
    DeviceFailure,
    DeviceUnavailable,
    OutOfMemoryError,
)

OLDEST: Final = (12, 0)  # of the driver: what loads the kernels that Triton's assembler makes
NEEDED: Final = (8, 0)  # compute capability: what Triton compiles for
SUCCESS: Final = 0
NOT_READY: Final = 600
PEERS_ALREADY: Final = 704  # access to a peer is enabled
NON_BLOCKING: Final = 1  # of a stream: no order with the legacy default stream
NO_TIMING: Final = 2  # of an event


class CaptureMode(IntEnum):
    """Modes of cuStreamBeginCapture for calls that are not captured."""

    RELAXED = 2  # kernels may be loaded meanwhile


class FunctionAttribute(IntEnum):
    """Attributes that cuFuncSetAttribute sets."""

    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8


class Attribute(IntEnum):
    """Attributes that cuDeviceGetAttribute is asked for."""

    WARP_SIZE = 10
    MULTIPROCESSOR_COUNT = 16
    L2_CACHE_SIZE = 38
    MAX_THREADS_PER_MULTIPROCESSOR = 39
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97


# The functions by the package's names: the library's symbol, and its parameters. i int, u unsigned
# int, z 64 bits, p a handle or an address, s bytes; ">": where a result is put.
FUNCTIONS: Final = {
    "cuInit": "cuInit u",
    "cuDriverGetVersion": "cuDriverGetVersion >i",
    "cuDeviceGetCount": "cuDeviceGetCount >i",
    "cuDeviceGet": "cuDeviceGet >i i",
    "cuDeviceTotalMem": "cuDeviceTotalMem_v2 >z i",
    "cuDeviceGetAttribute": "cuDeviceGetAttribute >i i i",
    "cuDevicePrimaryCtxRetain": "cuDevicePrimaryCtxRetain >p i",
    "cuDeviceCanAccessPeer": "cuDeviceCanAccessPeer >i i i",
    "cuCtxSetCurrent": "cuCtxSetCurrent p",
    "cuCtxEnablePeerAccess": "cuCtxEnablePeerAccess p u",
    "cuCtxSynchronize": "cuCtxSynchronize",
    "cuMemAlloc": "cuMemAlloc_v2 >p z",
    "cuMemFree": "cuMemFree_v2 p",
    "cuMemAllocAsync": "cuMemAllocAsync >p z p",
    "cuMemFreeAsync": "cuMemFreeAsync p p",
    "cuMemHostAlloc": "cuMemHostAlloc >p z u",
    "cuMemFreeHost": "cuMemFreeHost p",
    "cuMemcpyHtoDAsync": "cuMemcpyHtoDAsync_v2 p p z p",
    "cuMemcpyDtoHAsync": "cuMemcpyDtoHAsync_v2 p p z p",
    "cuMemcpyDtoDAsync": "cuMemcpyDtoDAsync_v2 p p z p",
    "cuMemcpyPeerAsync": "cuMemcpyPeerAsync p p p p z p",
    "cuMemsetD8Async": "cuMemsetD8Async p u z p",
    "cuStreamCreate": "cuStreamCreate >p u",
    "cuStreamSynchronize": "cuStreamSynchronize p",
    "cuStreamQuery": "cuStreamQuery p",
    "cuStreamWaitEvent": "cuStreamWaitEvent p p u",
    "cuStreamBeginCapture": "cuStreamBeginCapture_v2 p i",
    "cuStreamEndCapture": "cuStreamEndCapture p >p",
    "cuEventCreate": "cuEventCreate >p u",
    "cuEventDestroy": "cuEventDestroy_v2 p",
    "cuEventRecord": "cuEventRecord p p",
    "cuEventQuery": "cuEventQuery p",
    "cuEventSynchronize": "cuEventSynchronize p",
    "cuEventElapsedTime": "cuEventElapsedTime >f p p",
    "cuModuleLoadData": "cuModuleLoadData >p s",
    "cuModuleGetFunction": "cuModuleGetFunction >p p s",
    "cuFuncSetAttribute": "cuFuncSetAttribute p i i",
    "cuLaunchKernel": "cuLaunchKernel p u u u u u u u p p p",
    "cuGraphInstantiate": "cuGraphInstantiateWithFlags >p p z",
    "cuGraphLaunch": "cuGraphLaunch p p",
    "cuGraphDestroy": "cuGraphDestroy p",
    "cuGraphExecDestroy": "cuGraphExecDestroy p",
    "cuGetErrorName": "cuGetErrorName i >s",
}
TYPES: Final = {
    "i": ctypes.c_int,
    "u": ctypes.c_uint,
    "z": ctypes.c_uint64,
    "p": ctypes.c_void_p,
    "s": ctypes.c_char_p,
    "f": ctypes.c_float,
}


class CtypesDriver:
    """The functions of `FUNCTIONS` over a library, and cuDeviceGetName."""

    def __init__(self, library: Any) -> None:
        for name, text in FUNCTIONS.items():
            symbol, *parameters = text.split()
            setattr(self, name, _function(library[symbol], parameters))
        self._name = library["cuDeviceGetName"]

    def cuDeviceGetName(self, length: int, device: int) -> tuple[int, bytes]:
        text = ctypes.create_string_buffer(length)
        return self._name(text, length, device), text.value


def _function(symbol: Any, parameters: list[str]) -> Callable[..., tuple[Any, ...]]:
    symbol.restype = ctypes.c_int
    symbol.argtypes = [ctypes.POINTER(TYPES[p[1]]) if p[0] == ">" else TYPES[p] for p in parameters]
    outs = [i for i, p in enumerate(parameters) if p[0] == ">"]
    if not outs:
        return lambda *given: (symbol(*given),)
    (place,) = outs
    kind: Any = TYPES[parameters[place][1]]

    def call(*given: Any) -> tuple[Any, ...]:
        out = kind()
        error = symbol(*given[:place], out, *given[place:])
        return error, out.value

    return call


def load() -> Any:
    """The driver's functions. Raises DeviceUnavailable where it is not installed."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise DeviceUnavailable(f"no NVIDIA driver is installed ({error})") from None
    try:
        from cuda.bindings import driver
    except ImportError:
        try:
            return CtypesDriver(library)
        except AttributeError as error:  # a function that came later
            raise DeviceUnavailable(
                f"no GPU can be used: the NVIDIA driver is too old ({error}). Update it"
            ) from None
    return driver


# What an error code means: the exception, and one line. The driver has many more, which show by
# their names.
_LOST: Final = "the GPU is lost: it fell off the bus, or its driver was reset (see dmesg)"
_OLD: Final = "the kernel cannot be loaded: the NVIDIA driver is older than the compiler. Update it"
MEANINGS: Final[dict[int, tuple[type[RuntimeError], str]]] = {
    2: (OutOfMemoryError, "it has no memory left"),
    3: (DeviceUnavailable, "the driver does not work here: the process was forked after its use"),
    34: (DeviceUnavailable, "libcuda is the toolkit's stub: put the driver's own first"),
    46: (DeviceUnavailable, "the GPU is busy: another process has it for itself (nvidia-smi)"),
    100: (DeviceUnavailable, "the driver finds no GPU (is CUDA_VISIBLE_DEVICES set?)"),
    101: (DeviceUnavailable, "the driver has no GPU of this number"),
    200: (DeviceFailure, _OLD),
    209: (DeviceFailure, "the kernel was compiled for another GPU"),
    214: (DeviceFailure, "the GPU's memory has an uncorrectable error"),
    218: (DeviceFailure, _OLD),
    222: (DeviceFailure, _OLD),
    700: (DeviceFailure, "an illegal memory access: a kernel reached memory that is not its own"),
    701: (DeviceFailure, "a launch asks for more registers or shared memory than the GPU has"),
    702: (DeviceFailure, "a kernel took too long (the display's watchdog ended it)"),
    710: (DeviceFailure, "an assertion in a kernel failed"),
    715: (DeviceFailure, "a kernel has an instruction that the GPU does not know"),
    716: (DeviceFailure, "a kernel reached memory at an address that is not aligned for it"),
    719: (DeviceFailure, "a kernel failed while it ran"),
    802: (DeviceUnavailable, "the GPU is not ready: its fabric manager does not run"),
    803: (DeviceUnavailable, "the NVIDIA driver's library and kernel module differ: reboot"),
    804: (DeviceUnavailable, "the installed CUDA compatibility library does not support this GPU"),
    999: (DeviceFailure, _LOST),
}
# After these the driver answers nothing else in this process.
STICKY: Final = frozenset({214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 999})


def failure(driver: Any, code: int, what: str) -> RuntimeError:
    """The exception for an error code that `what` got: one line."""
    kind, text = MEANINGS.get(int(code), (DeviceFailure, "the driver refused it"))
    _, name = driver.cuGetErrorName(code)
    shown = name.decode() if isinstance(name, bytes) else f"error {int(code)}"
    return kind(f"{what}: {text} ({shown})")
