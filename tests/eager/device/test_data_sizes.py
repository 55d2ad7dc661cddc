"""Sizes that data decide, and sorting, on a device: kernels there, and one number to the host."""

import numpy as np
import pytest

import eager
from codegen.targets.triton import sort_by_counting
from eager import cuda, nn
from eager.core import on_device
from eager.nn import functional as F
from jitcap import jit
from tests.eager.device.test_sizes import done

pytest.importorskip("triton.language")
pytestmark = pytest.mark.once


def drawn(k):
    rng = np.random.default_rng(k)
    x = eager.tensor(rng.standard_normal((6, 5)).astype(np.float32))
    return x, eager.tensor(rng.integers(0, 4, 6))


def found(x, y):
    some = y > 1
    return [
        (x > 0).nonzero(), (y > 9).nonzero(), *eager.where(x > 0), eager.nonzero(x[0, 0]),
        x[x > 0] * 2 - x[x > 0], x[some].softmax(-1), x[some].sum(0), x.masked_select(x < 0),
        x.repeat_interleave(y, 0), eager.repeat_interleave(y), eager.bincount(y, minlength=3),
        eager.bincount(y, x[:, 0].abs()), *eager.unique(y, return_inverse=True, return_counts=True),
        *eager.unique_consecutive(y % 2, return_inverse=True, return_counts=True),
        eager.unique((x * 2).round()), x[: int(y[0])].sum(0), eager.arange(y.max().item() + 1),
        x.index_put((some.nonzero()[:, 0],), eager.zeros(5, device=x.device)),
    ]  # fmt: skip


def same(ours, expected):
    for a, b in zip(ours, expected, strict=True):
        assert a.dtype is b.dtype
        np.testing.assert_allclose(a.detach().cpu(), b.detach(), rtol=1e-5, atol=1e-6)


def test_they_are_the_cpus_in_one_graph_and_nothing_runs_on_the_host():
    step = jit(found)
    for k in (0, 1, 0, 2):
        x, y = drawn(k)
        expected = found(x, y)
        same(found(x.cuda(), y.cuda()), expected)
        same(step(x.cuda(), y.cuda()), expected)
    stats = step.stats
    assert (stats.compiles, stats.graphs, stats.splits, stats.fallbacks) == (1, 1, 0, 0)
    assert stats.replays > 0
    assert not on_device.host_runs


def masked(model, x, y):
    return F.mse_loss(model(x)[y > 0], x[y > 0])


def test_there_may_be_one_element_or_none():
    """A size that is 0 or 1 is no size of a tile, and a mask all the same."""

    def chosen(x):
        some = x[x > 0]
        return some * 2, some.sum(), some.cumsum(0), (some > 2).any()

    step = jit(chosen)
    for value in (3.0, -1.0, 2.0):
        x = eager.tensor([value])
        same(step(x.cuda()), chosen(x))


@pytest.mark.parametrize("inside", [True, False])
def test_gradients_and_what_is_copied(inside):
    """In the step, or asked for outside of it."""

    def train(model, x, y):
        model.zero_grad()
        loss = masked(model, x, y)
        loss.backward()
        return loss.detach()

    plain = nn.Linear(5, 5)
    there = nn.Linear(5, 5)
    there.load_state_dict(plain.state_dict())
    there.to("cuda")
    step = jit(train if inside else masked)
    for k in (0, 1, 0, 1, 0, 1):
        x, y = drawn(k)
        train(plain, x, y)
        given = there, x.cuda(), y.cuda()
        if inside:
            _, counted = done(lambda: step(*given))  # noqa: B023
        else:
            there.zero_grad()
            step(*given).backward()
        same([p.grad for p in there.parameters()], [p.grad for p in plain.parameters()])
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)
    if inside:
        assert counted["replays"] == 2  # up to the number, and behind it
        assert "launches" not in counted
        assert counted["bytes_to_host"] < 100  # the number, and the words of checks


def test_what_is_wrong_is_told_and_nothing_is_written():
    def step(x, i, state):
        state.add_(1)
        return x[i][x[i] > 0].sum()

    step = jit(step)
    x, state = eager.ones(4).cuda(), eager.zeros(2).cuda()
    for i in ([0, 1], [1, 2]):
        step(x, eager.tensor(i).cuda(), state)
    with pytest.raises(IndexError, match=r"out of bounds for dimension 0 .*test_data_sizes\.py"):
        step(x, eager.tensor([1, 9]).cuda(), state)
    assert state.tolist() == [2, 2]
    assert step(x, eager.tensor([3, 3]).cuda(), state).item() == 2

    for fn in (eager.repeat_interleave, eager.bincount):
        compiled = jit(lambda y, fn=fn: fn(y))
        for call in (fn, compiled, compiled):
            assert call(eager.tensor([1, 2]).cuda()).device.type == "cuda"
            with pytest.raises(RuntimeError, match="negative"):
                call(eager.tensor([1, -1]).cuda())


def ordered(x):
    return [
        *x.sort(-1, descending=True, stable=True), *x.sort(0, stable=True), *x.topk(2),
        *x.topk(1, 0, largest=False), x.argsort(1), x.flatten().msort(), x.median(),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "uint8"])
def test_sorting(dtype):
    values = np.random.default_rng(0).integers(0, 5, (4, 7)).astype(np.float32)  # with ties
    x = eager.tensor(values)
    if "float" in dtype:
        x[1, 2] = x[1, 4] = x[3, 0] = float("nan")
        x[2, 3] = float("-inf")
    x = x.to(getattr(eager, dtype))
    expected = [t.double() for t in ordered(x)]
    for run in (ordered, jit(ordered)):
        ours = [t.cpu().double() for t in run(x.cuda())]
        for a, b in zip(ours, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    assert not on_device.host_runs


def test_sorting_of_rows_of_any_length_with_gradients():
    def loss(x):
        (g,) = eager.autograd.grad((x.sort(-1).values[:, :2] ** 2).sum(), x)
        return g

    step = jit(loss)
    for n in (5, 300, 17, 2):
        x = eager.tensor(np.random.default_rng(n).standard_normal((2, n)).astype(np.float32))
        same([step(x.cuda().requires_grad_())], [loss(x.requires_grad_())])
    assert (step.stats.compiles, step.stats.fallbacks) == (2, 0)


def test_long_rows_are_sorted_on_the_host(monkeypatch):
    monkeypatch.setattr(sort_by_counting, "LONGEST", 6)
    with pytest.warns(on_device.HostRunWarning, match="of rows of 7 elements, more than 6"):
        assert eager.arange(7, device="cuda").sort(descending=True).values[0].item() == 6


@pytest.mark.parametrize("right", [False, True])
def test_searching(right):
    edges = eager.tensor([[-1.0, 0.2, 0.2, 0.9], [0.0, 1.0, 2.0, 3.0]])
    values = eager.tensor([[0.2, -3.0, 5.0], [1.0, 0.5, float("nan")]])
    for a, b in ((edges, values), (edges[0], values), (eager.tensor([0, 1, 2]), values)):
        expected = eager.searchsorted(a, b, right=right)
        assert (eager.searchsorted(a.cuda(), b.cuda(), right=right).cpu() == expected).all()
    assert not on_device.host_runs


def test_samples_are_drawn_there():
    """What a policy and a language model do."""

    def sample(logits):
        best = logits.topk(3).values[:, [-1]]
        kept = logits.masked_fill(logits < best, float("-inf"))
        return eager.multinomial(F.softmax(kept, -1), 1)

    x, _ = drawn(0)
    step = jit(sample)
    for _ in range(3):
        eager.manual_seed(0)
        expected = sample(x)
        eager.manual_seed(0)
        ours, _ = done(lambda: step(x.cuda()))
        assert ours.tolist() == expected.tolist()
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)
    assert not on_device.host_runs
    cuda.synchronize()
