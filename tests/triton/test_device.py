"""Running a program on a device, with a device made of host memory whose launches go to the interpreter."""

import ctypes

import numpy as np
import pytest
import triton_helpers as helpers

pytest.importorskip("triton.language")

import eager
from codegen.emit.triton.runtime.build import Record, load_kernels
from codegen.emit.triton.runtime.device import DeviceProgram
from codegen.emit.triton.runtime.interpreter import interpret

TYPES = {"fp32": np.float32, "i32": np.int32, "i64": np.int64, "i1": np.bool_, "fp64": np.float64}
rng = np.random.default_rng(0)


class HostDevice:
    """The `Device` protocol over NumPy memory. `log` counts launches and graph replays."""

    def __init__(self, module):
        self.module = module
        self.blocks = {}
        self.log = []

    def activate(self):
        pass

    def allocate(self, nbytes):
        block = np.zeros(max(nbytes, 1), np.uint8)
        self.blocks[block.ctypes.data] = block
        return block.ctypes.data

    def free(self, address):
        del self.blocks[address]

    def upload(self, address, array):
        ctypes.memmove(address, array.ctypes.data, array.nbytes)

    def download(self, array, address):
        ctypes.memmove(array.ctypes.data, address, array.nbytes)

    def synchronize(self):
        pass

    def load(self, record, cubin):
        kernel = getattr(self.module, record.name)

        def launch(grid, *arguments):
            self.log.append(record.name)
            given = [self.argument(t, a) for t, a in zip(record.parameters, arguments, strict=True)]
            interpret(kernel, grid, *given, reachable=list(self.blocks.values()))

        return launch

    def argument(self, kind, value):
        """The memory from an address to the end of its allocation, as an array of the type."""
        if not kind.startswith("*"):
            return np.dtype(TYPES[kind]).type(value)
        start, block = next((a, b) for a, b in self.blocks.items() if a <= value < a + b.size)
        dtype = np.dtype(TYPES[kind[1:]])
        rest = block[value - start :]
        return rest[: rest.size // dtype.itemsize * dtype.itemsize].view(dtype)

    def capture(self, work):
        device = self

        class Replay:
            def launch(self):
                device.log.append("graph")
                work()

        return Replay()

    def close(self):
        self.blocks.clear()


def on_host(fn, args):
    """(DeviceProgram on a HostDevice, the arrays to call it with, the device)."""
    program, arrays = helpers.program_of(fn, args)
    device = HostDevice(load_kernels(program.source))
    binaries = {
        k.name: (
            Record(k.name, tuple(t for _, t in k.parameters), 0, k.warps, 1, 0, 1, ("host", 0, 32)),
            b"",
        )
        for k in program.kernels.values()
    }
    return DeviceProgram(program, device, binaries), arrays, device


def floats(*shape):
    return eager.tensor(rng.standard_normal(shape).astype(np.float32))


def test_results_and_replays():
    x, y = floats(40, 30), floats(30)
    run, arrays, device = on_host(lambda x, y: ((x * y).sum(1), x.t() + 1), (x, y))
    for _ in range(2):
        total, moved = run(arrays)
        np.testing.assert_allclose(total, (x * y).sum(1).numpy(), rtol=1e-5)
        np.testing.assert_array_equal(moved, x.numpy().T + 1)
    assert device.log.count("graph") == 2
    run.close()
    assert not device.blocks


def test_temporaries_share_an_arena():
    """Five products in a row need two places, not five."""
    x = floats(32, 32)
    run, arrays, _ = on_host(lambda x: x @ x @ x @ x @ x @ x, (x,))
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
    run, arrays, device = on_host(update, parameters)
    run(arrays)
    for p, e in zip(parameters, expected, strict=True):
        np.testing.assert_array_equal(p.numpy(), e)
    assert [name for name in device.log if name != "graph"] == ["k0_mul_of_3"]


def test_strided_inputs_keep_their_strides():
    x = floats(20, 30)
    run, arrays, _ = on_host(lambda x: x[:, ::3] * 2, (x,))
    np.testing.assert_array_equal(run(arrays)[0], x.numpy()[:, ::3] * 2)
    run, arrays, _ = on_host(lambda x: x + 1, (x.t()[3:9],))
    np.testing.assert_array_equal(run(arrays)[0], x.numpy().T[3:9] + 1)


def test_an_index_out_of_bounds_raises_after_the_run():
    run, arrays, _ = on_host(lambda t, i: t[i], (floats(5, 2), eager.tensor([1, 7])))
    with pytest.raises(IndexError, match="out of bounds for dimension 0 with size 5"):
        run(arrays)
    run([arrays[0], np.array([1, 4])])  # the error does not stick
