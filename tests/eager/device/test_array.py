"""Arrays in device memory: views by the op records' rules, and no way for host code to the elements."""

import numpy as np
import pytest

import eager
from eager.core.tensor import wrap
from eager.device import device, places, transfer
from eager.device.array import DeviceArray

CUDA = device("cuda:0")
VIEWS = [
    lambda x: x.t(),
    lambda x: x[1:, ::2],
    lambda x: x[2],
    lambda x: x.reshape(2, 2, 6),
    lambda x: x.T.unsqueeze(1).expand(6, 3, 4),
    lambda x: x.view(24)[5:17:3],
    lambda x: x.diagonal(1),
    lambda x: x.unfold(1, 3, 2),
    lambda x: x.as_strided((3, 2), (6, 2), 1),
    lambda x: x.t()[1:].squeeze(),
    lambda x: x.chunk(3, dim=1)[1].transpose(0, 1),
    lambda x: x[:0].expand(0, 6),
    lambda x: x.view(eager.int32)[1:],
]


def on_device(array):
    return wrap(transfer.upload(array, CUDA))


@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_views_are_where_numpys_are(number):
    host = eager.arange(24, dtype=eager.float32).reshape(4, 6)
    there = on_device(host.numpy())
    expected, found = VIEWS[number](host), VIEWS[number](there)
    assert type(found._array) is DeviceArray
    assert found._array.buffer is there._array.buffer
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert (found.stride(), found.storage_offset()) == (
        expected.stride(),
        expected.storage_offset(),
    )
    assert found.is_contiguous() == expected.is_contiguous()
    assert found.data_ptr() - there.data_ptr() == 4 * found.storage_offset()
    np.testing.assert_array_equal(transfer.download(found._array), expected.numpy())


def test_host_code_does_not_get_at_the_elements():
    array = on_device(np.ones((2, 3), np.float32))._array
    for reach in (
        np.asarray, np.array, memoryview, list, len, bool, lambda a: a.data, lambda a: np.add(a, 1),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            reach(array)
    for name in ("__array_interface__", "__array_struct__", "ctypes", "flags", "tobytes", "base"):
        assert not hasattr(array, name)


def test_dense_arrays_keep_their_strides_both_ways():
    array = np.arange(24, dtype=np.float64).reshape(2, 3, 4).transpose(2, 0, 1)
    there = transfer.upload(array, CUDA)
    assert tuple(8 * s for s in there.strides) == array.strides
    back = transfer.download(there)
    assert back.strides == array.strides
    np.testing.assert_array_equal(back, array)
    gaps = transfer.upload(array[::2], CUDA)
    assert gaps.is_contiguous()
    np.testing.assert_array_equal(transfer.download(gaps), array[::2])


def test_memory_is_reused_when_the_last_view_is_gone():
    pool = places.pool(0)
    x = on_device(np.ones(1000, np.float32))
    place, view = x.data_ptr(), x[10:]
    assert pool.allocated == pool.peak == 4096
    del x
    other = on_device(np.ones(1000, np.float32))
    assert other.data_ptr() != place
    del view
    assert on_device(np.ones(1000, np.float32)).data_ptr() == place
    assert pool.device.counters()["allocations"] == 2
    del other
    pool.release()
    assert pool.reserved == pool.device.counters()["bytes_allocated"] == 0
