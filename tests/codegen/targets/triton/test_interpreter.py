"""Each fault of the stock interpreter that ours repairs, and that the language is as before afterwards."""

import importlib.util
import math
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("triton.language")

from codegen.targets.triton.runtime.build import compile_offline
from codegen.targets.triton.runtime.interpreter import interpret

_spec = importlib.util.spec_from_file_location(
    "hand_written_kernels", Path(__file__).with_name("kernels.py")
)
K = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(K)

BF16 = np.dtype(ml_dtypes.bfloat16)
rng = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def same_bits(a, b):
    return np.array_equal(a.view(np.uint8), b.view(np.uint8))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
def test_pointwise_rounds_once_and_to_nearest(dtype):
    x, y = normal(5000, dtype=dtype), normal(5000, dtype=dtype)
    out = np.zeros(5000, dtype)
    interpret(K.pointwise, (5,), x, y, out, 5000, BLOCK=1024)
    expected = (np.exp(x.astype(np.float32)) * y.astype(np.float32) + 1).astype(dtype)
    assert same_bits(out, expected)


def test_bfloat16_arithmetic_comparison_and_maximum():
    x, y = normal(512, dtype=BF16), normal(512, dtype=BF16)
    out, top = np.zeros(512, BF16), np.zeros(1, BF16)
    interpret(K.arithmetic_in_type, (1,), x, y, out, top, BLOCK=512)
    expected = np.where((x < y), np.maximum(x + y, x * y), -x)
    assert np.array_equal(out.astype(np.float32), expected.astype(np.float32))
    assert float(top[0]) == float(x.astype(np.float32).max())


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
def test_dot(dtype):
    a, b = normal(32, 64, dtype=dtype), normal(64, 16, dtype=dtype)
    c = np.zeros((32, 16), np.float32)
    interpret(K.dot, (1,), a, b, c, BM=32, BN=16, BK=64)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=1e-5)


@pytest.mark.parametrize("n", [1000, 100])
def test_reading_past_the_end_is_an_index_error(n):
    x, out = normal(n), np.zeros(1024, np.float32)
    with pytest.raises(IndexError, match=rf"nearest is float32\[{n}\]"):
        interpret(K.unmasked, (1,), x, out, BLOCK=1024)


def test_writing_past_the_end_is_an_index_error():
    with pytest.raises(IndexError, match="outside every array argument"):
        interpret(K.unmasked, (2,), normal(2048), np.zeros(1024, np.float32), BLOCK=1024)


def test_one_access_may_span_two_halves_of_one_array():
    both = normal(2048)
    interpret(
        K.add_full_blocks,
        (2,),
        both[:1024],
        both[1024:],
        np.zeros(1024, np.float32),
        1024,
        BLOCK=512,
    )


def test_reduction_by_a_function_keeps_nan():
    x = normal(8, 32)
    x[3, 5] = np.nan
    out = np.zeros(8, np.float32)
    interpret(K.reduce_by_function, (1,), x, out, R=8, C=32)
    np.testing.assert_array_equal(out, x.max(1))


def test_reduction_of_pairs_by_a_function():
    x = rng.integers(0, 5, 256).astype(np.float32)
    value, index = np.zeros(1, np.float32), np.zeros(1, np.int32)
    interpret(K.argmax_by_function, (1,), x, value, index, BLOCK=256)
    assert (value[0], index[0]) == (x.max(), x.argmax())


def test_scan_by_a_function():
    x, out = rng.integers(-9, 9, 256).astype(np.float32), np.zeros(256, np.float32)
    interpret(K.scan_by_function, (1,), x, out, BLOCK=256)
    np.testing.assert_array_equal(out, np.cumsum(x))


def test_maximum_with_indices():
    x = normal(8, 32)
    value, index = np.zeros(8, np.float32), np.zeros(8, np.int32)
    interpret(K.argmax_rows, (1,), x, value, index, R=8, C=32)
    np.testing.assert_array_equal(index, x.argmax(1))
    np.testing.assert_array_equal(value, x.max(1))


def test_range_with_a_run_time_end():
    x, out = normal(1000), np.zeros(1, np.float32)
    interpret(K.loop_over, (1,), x, out, 1000, BLOCK=128)
    assert abs(out[0] - x.sum()) < 1e-3


def test_int64_division_rounds_towards_zero():
    x = rng.integers(-50, 50, 100).astype(np.int64)
    out = np.zeros_like(x)
    interpret(K.integers, (1,), x, out, 100, BLOCK=128)
    np.testing.assert_array_equal(out, np.where(x > 0, x // 3 + x % 5, -x))


def test_a_comparison_of_scalars_broadcasts_as_bool():
    x, out = normal(16), np.zeros(16, np.bool_)
    interpret(K.scalar_comparison, (1,), x, np.ones(1, np.float32), out, BLOCK=16)
    np.testing.assert_array_equal(out, x > 0)


@pytest.mark.parametrize("which", ["erf", "lgamma", "expm1"])
def test_libdevice(which):
    x = np.abs(normal(64)) + 0.1
    out = np.zeros_like(x)
    interpret(K.special, (1,), x, out, which=which, BLOCK=64)
    np.testing.assert_allclose(
        out, [getattr(math, which)(float(v)) for v in x], rtol=1e-5, atol=1e-6
    )


def test_scalars_keep_their_type():
    out = np.zeros(4)
    interpret(K.scalars, (1,), out, 0.1, np.float64(0.1), 3, 2**40, True, BLOCK=4)
    assert (out == 0.1 + 2**40 + 3).all()
    interpret(K.scalars, (1,), out, 0.1, np.float64(0.1), 3, 2**40, False, BLOCK=4)
    assert (out == float(np.float32(0.1)) + 3).all()


def test_addresses_from_a_table_must_be_announced():
    arrays = [normal(64) for _ in range(3)]
    table = np.array([a.ctypes.data for a in arrays], np.uint64)
    out = np.zeros((3, 64), np.float32)
    interpret(K.through_a_table, (3,), table, out, reachable=arrays, BLOCK=64)
    np.testing.assert_array_equal(out, np.stack(arrays) * 2)
    with pytest.raises(IndexError):
        interpret(K.through_a_table, (3,), table, out, BLOCK=64)


def test_philox_words_are_those_of_the_definition():
    """Philox4x32-10 of Salmon et al. (2011), known answer: counter 0, key 0 gives 6627e8d5 first."""
    out = np.zeros(4, np.int64)
    interpret(K.philox_words, (1,), out, 0, np.int64(0), BLOCK=4)
    assert out[0] == 0x6627E8D5


def test_compiling_works_after_and_between_interpreted_launches():
    x = normal(64)
    for _ in range(2):
        interpret(K.unmasked, (1,), x, np.zeros_like(x), BLOCK=64)
        record, cubin = compile_offline(
            K.unmasked,
            {"x_ptr": "*fp32", "o_ptr": "*fp32"},
            {"BLOCK": 1024},
            divisible=("x_ptr", "o_ptr"),
        )
        assert record.name == "unmasked"
        assert cubin[:4] == b"\x7fELF"


def test_a_failing_kernel_restores_the_language():
    with pytest.raises(IndexError):
        interpret(K.unmasked, (1,), normal(4), np.zeros(8, np.float32), BLOCK=8)
    with pytest.raises(RuntimeError, match="outside of the scope of a kernel"):
        K.add(1, 2)


def test_threads_take_turns():
    x = normal(4096)
    outs = [np.zeros_like(x) for _ in range(4)]
    threads = [
        threading.Thread(target=interpret, args=(K.unmasked, (4,), x, out), kwargs={"BLOCK": 1024})
        for out in outs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same_bits(out, x) for out in outs)


def test_no_names_leak_into_the_kernel_module():
    interpret(K.unmasked, (1,), normal(64), np.zeros(64, np.float32), BLOCK=64)
    assert "interpreter_semantic" not in vars(K)
    assert "GridExecutor" not in vars(K)
