"""Loops are cut where conditions on their counters change: same values, no conditions left."""

import numpy as np
import pytest

import eager
from jitcap import explain, jit

F = eager.nn.functional


def floats(*shape, seed=0):
    return eager.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def cat_rows(x, y):
    return eager.cat([x * 2, y, x + y], 0)


def cat_columns(x, y):
    return eager.cat([x * 2, y, x + y], 1).exp()


def cat_then_reduce(x, y):
    return eager.cat([x, y * 2], 1).sum(1), eager.cat([x, y], 0).sum(0)


def cat_in_the_middle(x, y):
    return eager.cat([x.reshape(4, 8, 8), y.reshape(4, 8, 8)], 1)


def padded(x, y):
    return F.pad(x, (1, 2)), F.pad(x, (20, 30)), F.pad(y, (0, 0, 3, 1), value=2.5)


def scattered(x, y):
    z = x.clone()
    z[:, 16:48] = y[:, :32] * 3
    z[2] = 1.0
    return z


def rows_of_parts(x, y):
    return (eager.cat([x, y * 2], 1) * 3).sum(1)


def gathered_then_reduced(x, y):
    i = eager.tensor([3, 0, 0, 2])
    joined = eager.cat([x[i], y[-i]], 1)
    return (joined * 2).sum(1), joined.amax(1), joined.argmax(1), joined.bfloat16().sum(1)


def softmax_of_parts(x, y):
    return eager.cat([x, y], 1).softmax(1)


def turned(x, y):
    joined = eager.cat([x * 2, y], 1)
    return joined.flip(1), joined.flip(0, 1).exp(), x.repeat(1, 6).roll(1, 1)


def joined_gradients(x, y):
    w = (x * y).detach().requires_grad_()
    a, b = w.chunk(2, 1)
    return eager.autograd.grad((a.exp() * b).sum(), [w])[0]


PROGRAMS = [
    cat_rows, cat_columns, cat_then_reduce, cat_in_the_middle, padded, scattered,
    softmax_of_parts, joined_gradients, gathered_then_reduced, turned,
]  # fmt: skip


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("columns", [64])
def test_values(fn, columns):
    x, y = floats(4, columns), floats(4, columns, seed=1)
    expected = fn(x, y)
    got = jit(fn)(x, y)
    for a, b in zip(
        got if isinstance(got, tuple) else (got,),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        np.testing.assert_allclose(a.double().numpy(), b.double().numpy(), rtol=1e-5, atol=1e-6)


def many_short_parts(x, y):
    return eager.cat([(x * i + y).relu()[:, i : i + 4] for i in range(20)], 1)


def test_many_short_parts_are_loops_of_their_own():
    """Else each vector is computed as part of all of them."""
    x, y = floats(4, 64), floats(4, 64, seed=1)
    assert " if " not in explain(many_short_parts)(x, y).stages["tiled"]
    expected, got = many_short_parts(x, y), jit(many_short_parts)(x, y)
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("fn", [cat_rows, cat_columns, cat_in_the_middle, rows_of_parts, turned])
def test_no_condition_is_left(fn):
    tiled = explain(fn)(floats(4, 64), floats(4, 64, seed=1)).stages["tiled"]
    assert " if " not in tiled
