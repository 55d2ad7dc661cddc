"""DLPack (dmlc.github.io/dlpack) with bfloat16, which NumPy does not know: arrays <-> capsules.

The elements travel as 16-bit ints; the dtype in the capsule's own record is set, or read, here.
"""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

_INT, _UINT, _BFLOAT = 0, 1, 4  # DLDataTypeCode
_CPU = (1, 0)  # DLDeviceType and the device's number


class Record(ctypes.Structure):
    """The first fields of a DLTensor, as dlpack.h lays it out."""

    _fields_: ClassVar[Any] = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


# What lies before the record in the two kinds of capsules: nothing, or the version (2 x 4 bytes),
# the manager, its deleter and the flags.
_BEFORE = {b"dltensor": 0, b"dltensor_versioned": 8 + 8 + 8 + 8}


def _record(capsule: Any) -> Record:
    """The record in a capsule that nobody has read yet. ValueError for anything else."""
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = api.PyCapsule_GetPointer.argtypes = (
        ctypes.py_object,
        ctypes.c_char_p,
    )
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    for name, before in _BEFORE.items():
        if api.PyCapsule_IsValid(capsule, name):
            return Record.from_address(api.PyCapsule_GetPointer(capsule, name) + before)
    raise ValueError("from_dlpack: the capsule was read before, or is none of DLPack's")


class _Given:
    """A capsule as the object that hands it out: what `np.from_dlpack` takes."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU


def _capsule(source: Any) -> Any:
    """With a version where the producer knows them: only those say that memory may be written."""
    try:
        return source.__dlpack__(max_version=(1, 0))
    except TypeError:
        return source.__dlpack__()


def array_of(source: Any, copy: bool | None) -> np.ndarray[Any, Any]:
    """The array of an object with `__dlpack__`, or of a capsule; in shared memory unless `copy`
    (to be read only where the capsule has no version: then it cannot say that it may be written).
    BufferError for memory of another device, or a dtype that NumPy does not know."""
    if hasattr(source, "__dlpack_device__") and source.__dlpack_device__()[0] != _CPU[0]:
        raise BufferError(
            "from_dlpack: the memory is another device's: copy it to the CPU first "
            f"(DLDeviceType {int(source.__dlpack_device__()[0])})"
        )
    capsule = _capsule(source) if hasattr(source, "__dlpack__") else source
    record = _record(capsule)
    wide = record.code == _BFLOAT and record.bits == 16 and record.lanes == 1
    if wide:
        record.code = _UINT
    array = np.from_dlpack(_Given(capsule))
    array = array.view(ml_dtypes.bfloat16) if wide else array
    return array.copy() if copy else array


def capsule_of(array: np.ndarray[Any, Any], **options: Any) -> Any:
    """A capsule that shares the array's memory; `options` are NumPy's: `copy`, ..."""
    if array.dtype != ml_dtypes.bfloat16:
        return array.__dlpack__(**options)
    capsule = array.view(np.int16).__dlpack__(**options)
    _record(capsule).code = _BFLOAT
    return capsule
