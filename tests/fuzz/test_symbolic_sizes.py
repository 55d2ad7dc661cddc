"""Random programs with symbolic sizes: one artifact of each against its graph, at many sizes. The
seed is the test's name."""

import random

import numpy as np
import pytest

import eager
from eager.sizes.symint import known_eq
from tests.codegen.symbolic import Case, f32, run
from tests.codegen.test_fuzz import BINARY, UNARY, pick, reduced

pytestmark = pytest.mark.once

SHAPES = [
    lambda n, k: [(n, 6), (6,), (n, 1)],
    lambda n, k: [(n, k), (k,), (n, k)],
    lambda n, k: [(2, n, 8), (n, 8), (8,)],
    lambda n, k: [(n, 3, k), (3, k), (n, 1, 1)],
    lambda n, k: [(n * 2, k), (n * 2, 1), (k,)],
    lambda n, k: [(n + k,), (n + k,), (1,)],
]


def shaped(rng, x):
    """The same elements seen differently, or more of them."""
    kind = rng.randrange(11)
    last = x.ndim - 1
    if kind == 0 and x.ndim > 1:
        dims = list(range(x.ndim))
        rng.shuffle(dims)
        return x.permute(*dims)
    if kind == 1:
        return x.reshape(-1)
    if kind == 2 and x.ndim > 1:
        d = rng.randrange(last)
        return x.flatten(d, d + 1)
    if kind == 3 and x.ndim:
        return x[1:]
    if kind == 4 and x.ndim:
        return x[..., ::2]
    if kind == 5 and x.ndim:
        return eager.flip(x, (rng.randrange(x.ndim),))
    if kind == 6 and x.ndim:
        return eager.cat([x, x * 2], rng.randrange(x.ndim))
    if kind == 7 and x.ndim:
        return eager.nn.functional.pad(x, (rng.randrange(3), rng.randrange(3)))
    if kind == 8 and x.ndim:
        return x.cumsum(rng.randrange(x.ndim))
    if kind == 9 and x.ndim:
        return eager.roll(x, 1, rng.randrange(x.ndim))
    return x.unsqueeze(0)


def fits(x, y):
    """Whether x and y broadcast for sure."""
    pairs = zip(reversed(x.shape), reversed(y.shape), strict=False)
    return all(
        (type(a) is int and a == 1) or (type(b) is int and b == 1) or known_eq(a, b) is True
        for a, b in pairs
    )


def product(x):
    """A matrix product of the last two dimensions."""
    return (x * 0.1) @ (x * 0.1).transpose(-1, -2) if x.ndim > 1 else x


def step(rng, pool):
    kind, x = rng.random(), pick(rng, pool)
    if kind < 0.25:
        return pick(rng, UNARY)(x)
    if kind < 0.5:
        other = pick(rng, [y for y in pool if fits(x, y)] or [x])
        return pick(rng, BINARY)(x, other)
    if kind < 0.7:
        return reduced(rng, x)
    return product(x) if kind < 0.75 else shaped(rng, x)


def program(seed):
    """A function of sizes and arrays; every random choice is a function of the seed alone."""

    def run(n, k, *arrays):
        rng = random.Random(seed)
        pool = list(arrays)
        for _ in range(rng.randrange(4, 14)):
            made = step(rng, pool)
            if made.ndim <= 4:
                pool.append(made)
        return [t.clone() for t in pool[-3:]]

    return run


def gradients(seed):
    """The gradients of such a program, and an update in place."""

    def run(n, k, *arrays):
        loose = [a.detach().requires_grad_(True) for a in arrays]
        loss = sum((o * o).mean() for o in program(seed)(n, k, *loose))
        grads = eager.autograd.grad(loss, loose, allow_unused=True)
        with eager.no_grad():
            for a, g in zip(arrays, grads, strict=True):
                if g is not None:
                    a.sub_(g * 0.01)
        return [loss.detach(), *(g for g in grads if g is not None)]

    return run


def case(fn, seed):
    shapes = SHAPES[seed % len(SHAPES)]
    arrays = lambda n, k: [f32(*shape) for shape in shapes(n, k)]
    return Case(fn, ("n", "k"), arrays, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("seed", range(14))
def test_random_programs(seed):
    with np.errstate(all="ignore"):
        tried = run(case(program(seed), seed), "cpp", most=40)
        assert tried.added == []
        if seed % 4 == 0:
            run(case(program(seed), seed), "python", most=9)


@pytest.mark.parametrize("seed", range(100, 106))
def test_random_gradients(seed):
    with np.errstate(all="ignore"):
        tried = run(case(gradients(seed), seed), "cpp", most=40)
        assert tried.added == []
