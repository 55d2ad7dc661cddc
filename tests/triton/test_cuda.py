"""The GPU seam on a machine without a GPU: parameter blocks, and errors that say what is missing."""

import struct

import pytest

from codegen.emit.triton.runtime import cuda


def test_parameters_are_naturally_aligned_and_followed_by_the_scratch_addresses():
    packer, offsets = cuda.layout(("*fp32", "i32", "fp64", "u1", "i64", "fp32"))
    assert offsets == (0, 8, 16, 24, 32, 40, 48, 56)
    data = packer.pack(2**40, -3, 0.1, 1, 2**50, 0.5, 0, 0)
    assert struct.unpack_from("<i", data, 8) == (-3,)
    assert struct.unpack_from("<d", data, 16) == (0.1,)
    assert len(data) == 64


def test_a_type_that_cannot_be_passed_is_named():
    with pytest.raises(ValueError, match="bf16"):
        cuda.layout(("bf16",))


def test_without_a_device_the_error_says_what_to_do():
    if has_device():
        pytest.skip("there is a device")
    with pytest.raises(cuda.DeviceUnavailable, match=r"(?i)cuda"):
        cuda.open_device()


def has_device():
    try:
        cuda.open_device().close()
    except cuda.DeviceUnavailable:
        return False
    return True
