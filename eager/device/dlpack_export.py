"""At the edge: device memory lent to other libraries without a copy. DeviceArray -> a DLPack
capsule, or the dictionary of `__cuda_array_interface__`.

Who takes it waits for what is queued here, by an event on its own stream; the memory is kept until
it gives it back, and its stream has come past what it queued by then.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

from eager.base.dlpack import Record
from eager.device import places
from eager.device.array import DeviceArray

CPU, CUDA = 1, 2  # kDLCPU, kDLCUDA
CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # of NumPy's kinds; bfloat16 is 4
BFLOAT: Final = 4
LEGACY: Final = 1  # the driver's name of the legacy default stream
NO_WAIT: Final = -1


class _Tensor(Record):
    """DLTensor, the rest of its fields."""

    _fields_ = (
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """DLManagedTensor: the tensor, and what gives it back."""

    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


_lent: dict[int, tuple[_Managed, DeviceArray]] = {}  # by the address of the struct


def _give_back(managed: int) -> None:
    """Called by who took it, once."""
    _lent.pop(managed, None)


def _destroy(capsule: int) -> None:
    """A capsule dies that nobody took (who takes it gives it another name)."""
    if _is_named(capsule, NAME):
        _give_back(_pointer(capsule, NAME))


_CALLBACK: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DELETER: Final = _CALLBACK(_give_back)
_DESTRUCTOR: Final = _CALLBACK(_destroy)
NAME: Final = b"dltensor"
# Prototypes of our own: others may declare those of `ctypes.pythonapi` otherwise. A capsule is
# passed by its address: no reference may be made to one that dies.
_new: Final = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))
_is_named: Final = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_pointer: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def device(array: DeviceArray) -> tuple[int, int]:
    """DLPack's device. BufferError where no other library can reach the memory."""
    unit = array.buffer.device
    if unit.properties.is_simulated:
        raise BufferError(
            "the memory of a simulated GPU is reached by nobody else: use Tensor.cpu()"
        )
    return CUDA, unit.index


def capsule(array: DeviceArray, stream: int | None) -> Any:
    """A capsule that owns the array. `stream`: the taker's, as the protocol names it."""
    kind, index = device(array)
    if stream != NO_WAIT:
        _ordered(array, stream or LEGACY)
    shape, dtype = array.shape, array.aval.dtype
    ints = ctypes.c_int64 * max(len(shape), 1)
    managed = _Managed(
        _Tensor(
            array.address, kind, index, len(shape),
            CODES.get(dtype.np.kind, BFLOAT), 8 * dtype.itemsize, 1,
            ints(*shape), ints(*array.strides), 0,
        ),
        None,
        ctypes.cast(_DELETER, ctypes.c_void_p),
    )  # fmt: skip
    address = ctypes.addressof(managed)
    _lent[address] = managed, array
    return _new(address, NAME, ctypes.cast(_DESTRUCTOR, ctypes.c_void_p))


def interface(array: DeviceArray) -> dict[str, Any]:
    """`__cuda_array_interface__`, version 3. AttributeError where it cannot be told."""
    try:
        device(array)
    except BufferError as error:
        raise AttributeError(str(error)) from None
    dtype = array.aval.dtype
    if dtype.np.kind not in CODES:
        raise AttributeError(f"__cuda_array_interface__ has no name for {dtype.name}: use DLPack")
    return {
        "version": 3,
        "shape": tuple(array.shape),
        "typestr": dtype.np.str,
        "data": (array.address, False),
        "strides": tuple(s * array.itemsize for s in array.strides),
        "stream": int(places.stream(array.buffer.device).handle),
    }


def _ordered(array: DeviceArray, stream: int) -> None:
    """Let a stream of another library wait for ours; the pool asks it before it gives the memory
    to others."""
    unit = array.buffer.device
    event, theirs = unit.event(), unit.foreign(stream)
    places.stream(unit).record(event)
    theirs.wait(event)
    array.buffer.used_on(theirs)
