"""Ops on device tensors: by kernels compiled once, or on the host with the reason; training; @jit."""

import device_training
import numpy as np
import pytest

import eager
from eager.core import on_device
from eager.core.on_device import HostRunWarning
from eager.core.tensor import Tensor
from eager.device import places
from eager.device.protocol import DeviceFailure
from eager.nn import functional as F
from jitcap import jit

pytest.importorskip("triton.language")
r = np.random.default_rng(0)


def values(*shape, dtype=np.float32):
    return eager.tensor(r.standard_normal(shape).astype(dtype))


X, Y, M = values(5, 7), values(7), values(7, 4)
CALLS = {
    "arithmetic with broadcasting": lambda x, y, m: (x * y + 2.5) / (x.abs() + 1),
    "ints and bools": lambda x, y, m: ((x * 3).to(eager.int32) // 2 % 5) * (x > 0),
    "powers and divisors of ints": lambda x, y, m: 2 ** (x * 9).long() + (x * 9).long().gcd(eager.tensor(6, device=x.device)),
    "64 bits": lambda x, y, m: x.double().exp().log1p() - y,
    "16 bits": lambda x, y, m: (x.half() + y.half()).float() + x.bfloat16().float(),
    "reductions": lambda x, y, m: eager.cat([x.sum(1), x.amax(0), x.mean().reshape(1)]),
    "arg reductions": lambda x, y, m: x.argmax(1) + x.argmin(1),
    "scan": lambda x, y, m: x.cumsum(1),
    "product": lambda x, y, m: x @ m,
    "batched product": lambda x, y, m: x.expand(3, 5, 7) @ m,
    "strided operands": lambda x, y, m: x.t()[::2, 1:] + x.t()[1::2, :4].sum(),
    "moves": lambda x, y, m: eager.cat([x, x.flip(1)], 1)[:, 1:].t().contiguous(),
    "picking": lambda x, y, m: x[eager.tensor([3, 0], device=x.device)] + x.gather(1, (x > 0).long())[:2],
    "scatter": lambda x, y, m: x.index_add(0, (y[:5] > 0).long(), x) + x.masked_fill(x > 0, 0.0),
    "softmax and norm": lambda x, y, m: F.softmax(F.layer_norm(x, (7,), y), -1),
    "loss": lambda x, y, m: F.cross_entropy(x, (y[:5] > 0).long()),
    "convolution": lambda x, y, m: F.conv2d(x.reshape(1, 1, 5, 7), m.reshape(1, 1, 4, 7)[..., :3]),
    "pooling": lambda x, y, m: F.max_pool2d(x.reshape(1, 1, 5, 7), 2) + F.avg_pool2d(x.reshape(1, 1, 5, 7), 2),
    "in place": lambda x, y, m: x.clone().mul_(2).add_(y)[:, 1:4].zero_() + 1,
    "write through a view": lambda x, y, m: (x.clone(), )[0].t().copy_(x.t() * 2).t(),
    "triangle": lambda x, y, m: x.tril() + eager.ones_like(x).triu(1),
    "of nothing": lambda x, y, m: eager.cat([x[:0], x[:1]]).sum(0) + x[:0].sum(),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_as_on_the_host(name):
    fn = CALLS[name]
    expected = fn(X, Y, M)
    found = fn(X.cuda(), Y.cuda(), M.cuda())
    assert found.is_cuda
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(
        found.cpu().double().numpy(), expected.double().numpy(), rtol=2e-6, atol=1e-6
    )
    assert not on_device.host_runs


def test_a_call_is_compiled_once_whatever_its_numbers(monkeypatch):
    x = X.cuda()
    x * 2.0 + 1
    before = len(on_device._plans)
    for i in range(3):
        x * float(i) + i
    assert len(on_device._plans) == before
    x.t() * 2.0
    assert len(on_device._plans) == before + 1


def test_what_has_no_kernel_runs_on_the_host_and_says_so_once(simulated):
    x = X.cuda()
    before = simulated.counters()
    with pytest.warns(HostRunWarning, match=r"svd runs on the host.*test_ops\.py:\d+"):
        found = eager.linalg.svdvals(x)
    again = eager.linalg.svdvals(x)
    assert found.is_cuda
    assert found.tolist() == again.tolist() == eager.linalg.svdvals(X).tolist()
    ((op, reason),) = on_device.host_runs
    assert (op, on_device.host_runs[op, reason]) == ("svd", 2)
    assert "does not compile svd" in reason
    now = simulated.counters()
    assert now["bytes_to_host"] - before["bytes_to_host"] >= 2 * X.nbytes
    assert "host: svd" in eager.cuda.memory_summary()


def test_training_is_the_cpus_and_moves_only_what_it_is_given(simulated):
    found = device_training.train("mlp", "cuda", 2)
    assert np.allclose(found, device_training.train("mlp", "cpu", 2), rtol=1e-5, atol=1e-6)
    assert not on_device.host_runs
    counted = simulated.counters()
    sizes = [6 * 16, 16, 16 * 5, 5, 8 * 6, 2 * 8]  # parameters, x, y of 8 bytes
    assert counted["bytes_to_device"] == 4 * sum(sizes)
    assert counted["copies_to_host"] <= 2 * 2  # the losses, and whether an index was out of bounds


def test_a_failing_launch_leaves_the_tensors_as_they_were(simulated):
    x = X.cuda()
    simulated.faults.launch = 0
    with pytest.raises(
        DeviceFailure, match=r"kernel mul:k\d\w* \(at .*test_ops\.py:\d+\) was not launched"
    ):
        x.mul_(2)
    assert np.array_equal(x.cpu(), X)


def test_a_version_for_the_cpu_is_not_taken_for_a_device(recwarn):
    @jit(backend="eager")
    def double(x):
        return x * 2

    for dtype in (eager.float32, eager.uint8):  # bytes have the strides of elements
        x = eager.ones(3, dtype=dtype)
        for given in (x, x.cuda(), x):
            found = double(given)
            assert found.device == given.device
            assert found.tolist() == [2, 2, 2]
    assert (double.stats.graphs, double.stats.fallbacks) == (4, 0)


def test_jit_makes_and_moves_tensors_of_devices():
    def made(x):
        return x + eager.zeros(2, device="cuda").cpu()

    def moved(x):
        return (x.to("cuda") + 1).cpu()

    def block(x):
        with eager.device("cuda"):
            y = eager.ones(2)
        return y.cpu() + x

    for fn in (made, moved, block):
        jitted = jit(fn)
        assert jitted(eager.ones(2)).tolist() == fn(eager.ones(2)).tolist()
        assert (jitted.stats.graphs, jitted.stats.splits, jitted.stats.fallbacks) == (1, 0, 0)


@pytest.mark.parametrize("n", [2, 1024, 1500])
def test_sums_at_one_place_count_each_value(n):
    """Neither the index nor the value depends on which element it is."""

    def sums(x, i, v):
        return x.index_add(0, i, v), x.index_put((i,), v, accumulate=True), x.scatter_add(0, i, v)

    x, i = eager.zeros(3, device="cuda"), eager.ones(1, dtype=eager.int64, device="cuda")
    i, v = i.expand(n), eager.ones(1, device="cuda").expand(n)
    for found in (*sums(x, i, v), *jit(sums)(x, i, v)):
        assert found.tolist() == [0, n, 0]
    assert x[:, None].index_add(0, i, v[:, None]).tolist() == [[0], [n], [0]]


def test_views_and_tape_work_through_it():
    x = X.cuda().requires_grad_()
    y = x.clone()
    y[1:3, ::2] *= 3
    y.t()[0].fill_(0)
    (y * y).sum().backward()
    w = X.clone().requires_grad_()
    z = w.clone()
    z[1:3, ::2] *= 3
    z.t()[0].fill_(0)
    (z * z).sum().backward()
    assert np.allclose(x.grad.cpu(), w.grad)
    assert isinstance(places.pool(0).allocated, int)
    assert isinstance(x, Tensor)
