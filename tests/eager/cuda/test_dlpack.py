"""Memory of a GPU that other libraries take without a copy: what they are told, order, and how long it lives."""

import ctypes
import gc

import numpy as np
import pytest

import eager
from eager.device import dlpack_export, places


@pytest.fixture(autouse=True)
def gpu(placed):
    """The GPU over a driver in Python."""
    return placed


def on_gpu(values):
    return eager.tensor(values).to("cuda")


def taken(capsule):
    """The struct behind a capsule, which is the taker's from now on."""
    managed = dlpack_export._Managed.from_address(dlpack_export._pointer(id(capsule), b"dltensor"))
    rename = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
    rename(("PyCapsule_SetName", ctypes.pythonapi))(capsule, b"used_dltensor")
    return managed


def test_what_a_taker_is_told(driver):
    x = on_gpu(np.arange(12.0).reshape(3, 4))[:, 1:]
    driver.log.clear()
    managed = taken(x.__dlpack__(stream=2))
    tensor = managed.tensor
    assert x.__dlpack_device__() == (tensor.device_type, tensor.device_id) == (2, 0)
    assert (tensor.ndim, tensor.shape[:2], tensor.strides[:2]) == (2, [3, 3], [4, 1])
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (2, 64, 1, 0)
    assert driver.log == ["cuEventCreate", "cuEventRecord", "cuStreamWaitEvent"]
    (waits,) = driver.queues[2]
    waits()
    assert driver.bytes_at(tensor.data, 8).view(np.float64).item() == 1.0
    kinds = [eager.bfloat16, eager.float16, eager.int8, eager.uint8, eager.bool_, eager.complex64]
    told = [taken(eager.zeros(2).to(k).to("cuda").__dlpack__(stream=-1)).tensor for k in kinds]
    codes = [(t.code, t.bits) for t in told]
    assert codes == [(4, 16), (2, 16), (0, 8), (1, 8), (6, 8), (5, 64)]


def test_the_memory_lives_until_it_is_given_back(gpu, driver):
    pool = places.pool(0)
    x = on_gpu([1.0, 2.0])
    address = x._array.address
    managed = taken(x.__dlpack__(stream=None))  # the legacy default stream
    del x
    gc.collect()
    assert on_gpu([3.0, 4.0])._array.address != address
    gpu.synchronize()
    dlpack_export._CALLBACK(managed.deleter)(ctypes.addressof(managed))
    driver.queue(1, lambda: None)  # the taker's stream still reads it
    assert on_gpu([5.0, 6.0])._array.address != address
    gpu.synchronize()
    pool.collect()
    found = [on_gpu([7.0, 8.0]) for _ in range(3)]
    assert address in [t._array.address for t in found]


def test_a_capsule_that_nobody_takes():
    x = on_gpu([1.0])
    before = len(dlpack_export._lent)
    capsule = x.__dlpack__(stream=-1)
    assert len(dlpack_export._lent) == before + 1
    del capsule
    assert len(dlpack_export._lent) == before


def test_the_cuda_array_interface(gpu):
    x = on_gpu(np.zeros((2, 3), np.int32)).t()
    found = x.__cuda_array_interface__
    assert (found["version"], found["shape"], found["typestr"]) == (3, (3, 2), "<i4")
    assert found["data"] == (x._array.address, False)
    assert found["strides"] == (4, 12)
    assert found["stream"] == gpu.main.handle


def test_what_is_refused():
    x = on_gpu([1.0]).requires_grad_()
    with pytest.raises(BufferError, match="require gradient"):
        x.__dlpack__()
    with pytest.raises(RuntimeError, match="requires grad"):
        x.__cuda_array_interface__
    x = x.detach()
    with pytest.raises(BufferError, match="no copy"):
        x.__dlpack__(copy=True)
    with pytest.raises(BufferError, match="no copy"):
        x.__dlpack__(dl_device=(1, 0))
    with pytest.raises(BufferError, match="another device"):
        eager.from_dlpack(x)
    assert not hasattr(eager.ones(1).to(eager.bfloat16).to("cuda"), "__cuda_array_interface__")
    assert not hasattr(eager.ones(1), "__cuda_array_interface__")
