"""On a GPU: ops, training, compiled programs, copies, streams, recordings. Skipped, with the reason, where there is none."""

import device_training
import numpy as np
import pytest
import triton_helpers as helpers

pytest.importorskip("triton.language")

import eager
from eager.device import places
from eager.device.protocol import DeviceUnavailable, Region
from eager.nn import functional as F
from jitcap import jit

rng = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def pool():
    """The memory of the GPU."""
    try:
        return places.pool(0)
    except DeviceUnavailable as error:
        pytest.skip(str(error))


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
def test_results(name, pool):
    fn, make = CASES[name]
    args = make()
    program, arrays = helpers.program_of(fn, args)
    run = helpers.on_device(program, pool)
    for _ in range(2):  # the second time from the graph
        np.testing.assert_allclose(run(arrays)[0], fn(*args).numpy(), rtol=1e-4, atol=1e-3)


def test_one_launch_updates_all_parameters(pool):
    parameters = [floats(64, 64), floats(1000), floats(3, 5)]

    def update(*tensors):
        for t in tensors:
            t.mul_(0.5)
        return ()

    expected = [p.numpy() * 0.5 for p in parameters]
    program, arrays = helpers.program_of(update, parameters)
    helpers.on_device(program, pool)(arrays)
    for p, e in zip(parameters, expected, strict=True):
        np.testing.assert_array_equal(p.numpy(), e)


@pytest.mark.parametrize("name", CASES)
def test_eager_ops(name):
    fn, make = CASES[name]
    args = make()
    found = fn(*(a.to("cuda") for a in args)).cpu().numpy()
    np.testing.assert_allclose(found, fn(*args).numpy(), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", device_training.PROGRAMS)
def test_eager_training(name):
    expected = device_training.train(name, "cpu", 5)
    np.testing.assert_allclose(device_training.train(name, "cuda", 5), expected, rtol=1e-4)


def test_one_version_for_all_sizes():
    """Kernels that take sizes: rows, sums, products and gradients of lengths that vary."""

    def program(x, w):
        y = F.layer_norm(F.gelu(x @ w), (96,))
        return F.softmax(x, -1), y.mean(0), F.softmax(y @ y.t(), -1), x.t() * 2, (y * y).sum()

    w = floats(64, 96)
    step = jit(program)
    for n in (100, 32, 1000, 1, 64, 999, 1000):
        x = floats(n, 64)
        for got, want in zip(step(x.cuda(), w.cuda()), program(x, w), strict=True):
            np.testing.assert_allclose(got.cpu().numpy(), want.numpy(), rtol=1e-3, atol=1e-3)
    assert (step.stats.compiles, step.stats.fallbacks) == (3, 0)  # 1 has a version of its own


def test_draws_are_the_cpus():
    """Bitwise, and so whatever is drawn."""
    found = []
    for place in ("cpu", "cuda"):
        eager.manual_seed(3)
        found.append(eager.rand(10_001, device=place).cpu().numpy())
    np.testing.assert_array_equal(*found)


def test_views_that_are_not_aligned():
    x = eager.arange(1001.0, device="cuda")
    np.testing.assert_array_equal((x[1:] * 2).cpu().numpy(), np.arange(1, 1001) * 2)


def test_copies_streams_and_events():
    x = floats(1 << 20).pin_memory()
    start, end = (eager.cuda.Event(enable_timing=True) for _ in range(2))
    side = eager.cuda.Stream()
    with eager.cuda.stream(side):
        start.record()
        y = x.to("cuda", non_blocking=True) * 2
        end.record()
    eager.cuda.current_stream().wait_stream(side)
    np.testing.assert_array_equal((y + 1).cpu().numpy(), x.numpy() * 2 + 1)
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 1000
    assert y.to("cpu").sum().item() == pytest.approx((x * 2).sum().item(), rel=1e-3, abs=1)


def test_a_recording_runs_on_what_memory_holds(pool):
    unit = pool.device
    source, target = (Region(unit.allocate(4096), 4096, writes=True) for _ in range(2))
    recording = unit.record(lambda: unit.copy(target, source, unit.main), unit.main)
    for value in (1, 2):
        unit.upload(source, np.full(4096, value, np.uint8), unit.main)
        recording.replay(unit.main)
        out = np.empty(4096, np.uint8)
        unit.download(out, target, unit.main)
        assert (out == value).all()
    unit.free(source.address)
    unit.free(target.address)


def test_an_index_out_of_bounds_is_told():
    x = eager.arange(5.0, device="cuda")
    y = x[eager.tensor([1, 7], device="cuda")]
    with pytest.raises(IndexError, match=r"out of bounds.*test_on_device\.py"):
        y.cpu()


def test_too_much_memory_is_refused(pool):
    with pytest.raises(eager.cuda.OutOfMemoryError, match="no memory on cuda:0 for"):
        pool.empty(1 << 50, pool.device.main)
    assert eager.ones(3, device="cuda").sum().item() == 3
