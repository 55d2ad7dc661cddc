"""Loops whose length the run decides and whose steps write what they read: one version for all."""

import numpy as np
import pytest

import eager
from jitcap import jit

pytestmark = pytest.mark.once

SIZES = (6, 7, 9, 5)


def floats(*shape, seed=0):
    return eager.tensor(np.random.default_rng(seed).standard_normal(shape))


def recurrence(x):
    y = eager.zeros_like(x)
    y[0] = x[0]
    for i in range(1, x.shape[0]):
        y[i] = y[i - 1] * 0.5 + x[i]
    return y


def as_many_as_data_say(x):
    n = int((x.abs().sum(1) > 0).sum())
    for i in range(1, n):
        x[i] += x[i - 1]
    return x


def neighbours_are_swapped(x):
    for i in range(1, x.shape[0] - 1):
        a = x[i]
        b = a * 1
        x[i] = x[i + 1]
        x[i + 1] = b + a * 0.1  # of what has just been written
    return x


def written_through_a_part(x):
    for i in range(1, x.shape[0]):
        a = x[i]
        a.mul_(2)
        x[i - 1] += a
    return x


def through_another_view(x):
    y = x.view(-1)
    for i in range(1, x.shape[0]):
        y[i] += x[i - 1].sum()
    return x


def sorted_by_bubbles(x):
    for i in range(x.shape[0]):
        for j in range(x.shape[0] - 1):
            if x[j, 0] > x[j + 1, 0]:
                t = x[j].clone()
                x[j] = x[j + 1]
                x[j + 1] = t
    return x


def warped(x):
    d = (x[:, None] - x[None]).abs().sum(-1)
    n = d.shape[0]
    t = eager.full((n + 1, n + 1), float("inf"), dtype=d.dtype)
    t[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            best = eager.minimum(eager.minimum(t[i - 1, j], t[i, j - 1]), t[i - 1, j - 1])
            t[i, j] = d[i - 1, j - 1] + best
    return t


def best_path(x):
    n, score = x.shape[0], x[0]
    back = eager.zeros(n, 3, dtype=eager.int64)
    for t in range(1, n):
        v, back[t] = (score[:, None] + x[:3]).max(0)
        score = v + x[t]
    path = eager.zeros(n, dtype=eager.int64)
    path[n - 1] = score.argmax()
    for t in range(n - 1, 0, -1):
        path[t - 1] = back[t, path[t]]
    return path


def perceptron(x):
    w, b, wrong = eager.zeros(3, dtype=x.dtype), 0.0, 0
    for i in range(x.shape[0]):
        t = 1.0 if x[i, 0] > x[i, 1] else -1.0
        if t * (w @ x[i] + b) <= 0:
            w += t * x[i]
            b += t
            wrong += 1
    return w, b, wrong


ONE = [
    recurrence, as_many_as_data_say, neighbours_are_swapped, written_through_a_part,
    through_another_view, warped, best_path, perceptron,
]  # fmt: skip


# ---- not for all lengths, and as right


def a_part_is_kept(x):
    before = x[0] * 1
    for i in range(1, x.shape[0]):
        x[i - 1] = x[i] + before
        before = x[i]
    return x, before


def a_part_is_kept_by_a_branch(x):
    before = x[0] * 1
    for i in range(1, x.shape[0]):
        x[i - 1] = x[i] + before
        if x[i, 0] > 0:
            before = x[i]
    return x, before


def a_part_is_kept_by_a_list(x):
    kept = [x[0] * 1]
    for i in range(1, x.shape[0]):
        x[i - 1] = x[i] + kept[0]
        kept[0] = x[i]
    return x, kept[0]


def every_other_step(x):
    w = (x[0] * 2).requires_grad_()
    h = w * 1
    for i in range(1, x.shape[0]):
        h = h.detach() + w if i % 2 == 0 else h.detach() + x[i]
    return h, h.requires_grad


OTHERS = [
    sorted_by_bubbles, a_part_is_kept, a_part_is_kept_by_a_branch, a_part_is_kept_by_a_list,
    every_other_step,
]  # fmt: skip


def flat(found):
    rows = found if isinstance(found, tuple) else (found,)
    return [x.detach().numpy() if isinstance(x, eager.Tensor) else x for x in rows]


def check(fn, sizes=SIZES, **options):
    step = jit(fn, **options)
    for n in sizes:
        x = floats(n, 3, seed=n)
        want = flat(fn(x.clone()))
        got = flat(step(x.clone()))
        for a, b in zip(want, got, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-6, err_msg=str(n))
    return step.stats


@pytest.mark.parametrize("fn", ONE)
def test_one_version_for_all_lengths(fn):
    stats = check(fn, backend="eager")
    assert stats.compiles <= 2
    assert not stats.splits and not stats.fallbacks


def test_compiled_code():
    def every(x):
        return recurrence(x), neighbours_are_swapped(x.clone()), warped(x), *perceptron(x)

    assert check(every).compiles <= 2


@pytest.mark.parametrize("fn", OTHERS)
@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_what_is_not_is_right(fn):
    check(fn, backend="eager")


# ---- which results have a history


def lost_in_the_first_step(x, w, n):
    h, c = w * 1, w.detach() + 0.5
    for i in range(n):
        c = c.detach() + h * 0.1
        h = (x[i].detach() * 0.3).tanh()
    return c, h


@pytest.mark.parametrize("length", ["fixed", "a size", "data"])
@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_a_history_that_only_the_first_steps_have(length):
    def step(x, w):
        n = {"fixed": 18, "a size": x.shape[0], "data": int(x[:, 0].isfinite().sum())}[length]
        return lost_in_the_first_step(x, w, n)

    compiled, w = jit(step, backend="eager"), floats(3).requires_grad_()
    for n in (18, 19, 21) if length == "fixed" else (5, 2, 1, 3, 1, 4):
        x = floats(n, 3)
        want, got = ([t.requires_grad for t in f(x, w)] for f in (step, compiled))
        assert got == want, n


# ---- sizes that data decide


def by_number(x):
    m, t = x[x[:, 0] > 0], eager.zeros(3, dtype=eager.float64)
    for i in range(m.shape[0]):
        t = t * 0.5 + m[i] * m[i]
    return t


@pytest.mark.parametrize("backend", ["eager", "cpp"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_gradients_of_rows_that_data_pick(backend, dynamic):
    """A body keeps the size that its gradients have, though it reads the number itself no more."""
    step = jit(lambda x: by_number(x).sum().backward(), backend=backend, dynamic=dynamic)
    for n in (7, 16, 9, 7):
        x = floats(n, 3, seed=n).requires_grad_()
        other = x.detach().clone().requires_grad_()
        by_number(x).sum().backward()
        step(other)
        np.testing.assert_allclose(other.grad.numpy(), x.grad.numpy())
    stats = step.stats
    assert not (stats.splits or stats.fallbacks or stats.discards), stats
