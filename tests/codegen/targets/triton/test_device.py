"""Running a program on a device: recordings, temporaries, tables, written inputs, failed checks."""

import numpy as np
import pytest
import triton_helpers as helpers

pytest.importorskip("triton.language")

import eager
from eager.device.pool import Pool
from eager.device.sim import SimDevice

rng = np.random.default_rng(0)


def on_device(fn, args):
    """(the program on a simulated GPU, the arrays to call it with, the GPU)."""
    program, arrays = helpers.program_of(fn, args)
    device = SimDevice()
    return helpers.on_device(program, Pool(device)), arrays, device


def floats(*shape):
    return eager.tensor(rng.standard_normal(shape).astype(np.float32))


def test_results_and_replays():
    x, y = floats(40, 30), floats(30)
    run, arrays, device = on_device(lambda x, y: ((x * y).sum(1), x.t() + 1), (x, y))
    for _ in range(2):
        total, moved = run(arrays)
        np.testing.assert_allclose(total, (x * y).sum(1).numpy(), rtol=1e-5)
        np.testing.assert_array_equal(moved, x.numpy().T + 1)
    assert device.counters()["recordings"] == 1
    assert device.counters()["replays"] == 1  # recorded at the second run


def test_temporaries_share_an_arena():
    """Five products in a row need two places, not five."""
    x = floats(32, 32)
    run, arrays, _ = on_device(lambda x: x @ x @ x @ x @ x @ x, (x,))
    expected = np.linalg.matrix_power(x.numpy().astype(np.float64), 6)
    np.testing.assert_allclose(run(arrays)[0], expected, rtol=1e-3, atol=1e-1)
    assert run.program.arena_bytes == 2 * 32 * 32 * 4


def test_writes_come_back_and_tables_hold_device_addresses():
    parameters = [floats(5, 7), floats(2000), floats(64)]

    def update(*tensors):
        for t in tensors:
            t.mul_(0.5)
        return ()

    expected = [p.numpy() * 0.5 for p in parameters]
    run, arrays, device = on_device(update, parameters)
    run(arrays)
    for p, e in zip(parameters, expected, strict=True):
        np.testing.assert_array_equal(p.numpy(), e)
    assert [k.symbol for k in run.kernels] == ["k0_mul_of_3"]


def test_strided_inputs_keep_their_strides():
    x = floats(20, 30)
    run, arrays, _ = on_device(lambda x: x[:, ::3] * 2, (x,))
    np.testing.assert_array_equal(run(arrays)[0], x.numpy()[:, ::3] * 2)
    run, arrays, _ = on_device(lambda x: x + 1, (x.t()[3:9],))
    np.testing.assert_array_equal(run(arrays)[0], x.numpy().T[3:9] + 1)


def test_an_index_out_of_bounds_raises_after_the_run():
    run, arrays, _ = on_device(lambda t, i: t[i], (floats(5, 2), eager.tensor([1, 7])))
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 5"):
        run(arrays)
    run([arrays[0], np.array([1, 4])])  # the error does not stick
