"""On a GPU: results of whole programs, launches, graphs. Skipped, with the reason, where there is none."""

import numpy as np
import pytest
import triton_helpers as helpers

pytest.importorskip("triton.language")

import eager
from codegen.emit.triton.runtime.cuda import DeviceUnavailable, open_device
from codegen.emit.triton.runtime.device import DeviceProgram
from codegen.emit.triton.runtime.run import compile_program
from eager.nn import functional as F

rng = np.random.default_rng(0)


@pytest.fixture(scope="module")
def device():
    try:
        opened = open_device()
    except DeviceUnavailable as error:
        pytest.skip(str(error))
    yield opened
    opened.close()


def floats(*shape):
    return eager.tensor(rng.standard_normal(shape).astype(np.float32))


CASES = {
    "gelu": (F.gelu, lambda: (floats(100_003),)),
    "softmax": (lambda x: F.softmax(x, -1), lambda: (floats(1000, 999),)),
    "layer_norm": (
        lambda x, w: F.layer_norm(x, (768,), w),
        lambda: (floats(333, 768), floats(768)),
    ),
    "sum_down": (lambda x: x.sum(0), lambda: (floats(10_000, 70),)),
    "sum_of_all": (lambda x: x.mean(), lambda: (floats(1000, 1000),)),
    "matmul": (lambda a, b: a @ b, lambda: (floats(3, 130, 70), floats(3, 70, 90))),
    "transpose": (lambda x: x.t() + 1, lambda: (floats(300, 500),)),
    "cumsum": (lambda x: x.cumsum(1), lambda: (floats(20, 5000),)),
    "embedding": (
        lambda t, i: F.embedding(i, t),
        lambda: (floats(50, 64), eager.tensor(rng.integers(0, 50, 200))),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_results(name, device):
    fn, make = CASES[name]
    args = make()
    program, arrays = helpers.program_of(fn, args)
    run = DeviceProgram(program, device, compile_program(program))
    for _ in range(2):  # the second time from the graph
        np.testing.assert_allclose(run(arrays)[0], fn(*args).numpy(), rtol=1e-4, atol=1e-4)
    run.close()


def test_one_launch_updates_all_parameters(device):
    parameters = [floats(64, 64), floats(1000), floats(3, 5)]

    def update(*tensors):
        for t in tensors:
            t.mul_(0.5)
        return ()

    expected = [p.numpy() * 0.5 for p in parameters]
    program, arrays = helpers.program_of(update, parameters)
    DeviceProgram(program, device, compile_program(program))(arrays)
    for p, e in zip(parameters, expected, strict=True):
        np.testing.assert_array_equal(p.numpy(), e)
