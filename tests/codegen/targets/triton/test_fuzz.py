"""Random programs of views, arithmetic, reductions, scans and products: interpreted kernels against eager. The seed is the test's id."""

import random

import numpy as np
import pytest
import triton_helpers as helpers

pytest.importorskip("triton.language")

import eager
from codegen.targets.triton.tile import DEFAULT, Sizes

TINY = Sizes(flat=16, tile=32, longest=8, loop=4, plane=8, column=4, programs=32)
PROGRAMS = 30


def unary(pick, x):
    return pick.choice([eager.tanh, eager.exp, eager.sin, eager.relu, eager.abs, eager.neg])(
        x * 0.5
    )


def binary(pick, x, others):
    """x with a value that broadcasts against it: itself, a row, a column or another of its shape."""
    y = pick.choice([*(o for o in others if o.shape == x.shape), x])
    if pick.random() < 0.5:
        y = y.mean(pick.randrange(y.ndim), keepdim=True)
    return pick.choice([eager.add, eager.mul, eager.sub, eager.maximum])(x, y)


def view(pick, x):
    d, e = pick.sample(range(x.ndim), 2)
    choices = [
        lambda: x.transpose(d, e),
        lambda: x.flip(d),
        lambda: x.reshape(-1, x.shape[-1]) if x.ndim == 3 else x.reshape(x.shape[0], -1, 1),
        lambda: x.narrow(d, 1, x.shape[d] - 1) if x.shape[d] > 2 else x,
        lambda: eager.cat([x, x * 2], d) if x.numel() < 300 else x,
        lambda: eager.nn.functional.pad(x, (1, 2), value=0.5) if x.numel() < 300 else x,
    ]
    return pick.choice(choices)()


def reduction(pick, x):
    d = pick.randrange(x.ndim)
    choices = [
        lambda: x - x.amax(d, keepdim=True),
        lambda: eager.softmax(x, d),
        lambda: x * x.argmax(d, keepdim=True).to(x.dtype),
        lambda: x / (1 + (x * x).sum(d, keepdim=True)),
        lambda: x + x.sum(),
        lambda: x.cumsum(d) * 0.1,
    ]
    return pick.choice(choices)()


def product(pick, x):
    return x @ x.transpose(-1, -2) * 0.1


def program(seed):
    """(function of the inputs, inputs): the same choices whenever it is called."""
    shape = random.Random(seed).choice([(7, 5), (3, 4, 6), (16, 33), (2, 3, 17), (1, 40), (64, 3)])
    rng = np.random.default_rng(seed)
    inputs = [eager.tensor(rng.standard_normal(shape).astype(np.float32)) for _ in range(2)]

    def fn(*given):
        pick, made = random.Random(seed + 1), list(given)
        for _ in range(pick.randint(3, 9)):
            x = pick.choice(made[-3:])
            kind = pick.choice([unary, binary, view, reduction, reduction, product])
            y = kind(pick, x, made) if kind is binary else kind(pick, x)
            made.append(y if y.numel() < 5000 else x)
        return made[-1], made[-2]

    return fn, inputs


@pytest.mark.parametrize("sizes", [DEFAULT, TINY], ids=["default", "tiny"])
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_random_program(seed, sizes):
    fn, inputs = program(seed)
    expected = [t.numpy() for t in fn(*inputs)]
    got, made = helpers.run(fn, inputs, sizes=sizes)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-4, err_msg=made.source)
