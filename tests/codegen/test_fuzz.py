"""Random programs: eager against fused C++ (and, for small ones, against the loops as Python). The
first seed of a program is the test's name."""

import random

import numpy as np
import pytest
import share

import eager
from tests.codegen.checking import check_each, compiled, floats, same

UNARY = [
    lambda x: x.tanh(),
    lambda x: (x * 0.3).exp(),
    lambda x: x.abs() + 0.5,
    lambda x: eager.where(x > 0, x, x * 0.1),
    lambda x: x.clamp(-1, 1),
]
BINARY = [
    lambda x, y: x + y,
    lambda x, y: x * y * 0.5,
    lambda x, y: x - y,
    eager.maximum,
    lambda x, y: x / (y.abs() + 1),
]


def pick(rng, pool):
    return pool[rng.randrange(len(pool))]


def shaped(rng, x):
    """The same elements seen differently."""
    kind = rng.randrange(8)
    if kind == 0 and x.ndim > 1:
        dims = list(range(x.ndim))
        rng.shuffle(dims)
        return x.permute(*dims)
    if kind == 1:
        return x.reshape(-1)
    if kind == 2 and x.ndim and x.shape[-1] % 2 == 0 and x.shape[-1]:
        return x.reshape(*x.shape[:-1], 2, x.shape[-1] // 2)
    if kind == 3 and x.ndim and x.shape[0] > 1:
        return x[1:]
    if kind == 4 and x.ndim and x.shape[-1] > 2:
        return x[..., ::2]
    if kind == 5 and x.ndim:
        return eager.flip(x, (rng.randrange(x.ndim),))
    if kind == 6 and x.ndim:
        return eager.cat([x, x * 2], rng.randrange(x.ndim))
    return x.unsqueeze(0)


def reduced(rng, x):
    """A reduction, sometimes put back against its operand: softmax- and norm-like shapes."""
    if not x.ndim:
        return x.sum()
    dim = rng.randrange(x.ndim)
    keep = rng.random() < 0.7
    fn = pick(rng, ["sum", "mean", "amax", "amin"])
    r = getattr(x, fn)(dim, keepdim=keep)
    if keep and rng.random() < 0.8:
        r = (x - r) * 0.5
        if rng.random() < 0.5:
            r = r / ((r * r).sum(dim, keepdim=True) + 1)
    return r


def matched(x, y):
    try:
        return x + 0 * y
    except RuntimeError:
        return None


def program(seed):
    """A function of three arrays; every random choice is a function of the seed alone."""

    def run(a, b, c):
        rng = random.Random(seed)
        pool = [a, b, c]
        for _ in range(rng.randrange(4, 18)):
            kind = rng.random()
            x = pick(rng, pool)
            if kind < 0.3:
                y = pick(rng, UNARY)(x)
            elif kind < 0.55:
                other = pick(rng, pool)
                fn = pick(rng, BINARY)
                y = fn(x, other) if matched(x, other) is not None else fn(x, x)
            elif kind < 0.8:
                y = reduced(rng, x)
            else:
                y = shaped(rng, x)
            if 0 < y.numel() <= 4000 and y.ndim <= 5:
                pool.append(y)
        return [t.clone() for t in pool[-4:]]

    return run


SHAPES = [
    ((4, 6), (6,), (4, 1)),
    ((2, 3, 8), (3, 8), (8,)),
    ((17,), (17,), (1,)),
    ((5, 33), (5, 33), (33,)),
    ((3, 1, 4), (2, 4), (3, 2, 1)),
]


@pytest.mark.parametrize("first", range(0, 60 if share.ALL else 40, 4))
def test_random_programs(first):
    calls = []
    for seed in range(first, first + 4):
        shapes = SHAPES[seed % len(SHAPES)]
        calls.append((program(seed), [floats(*s, seed=seed + i) for i, s in enumerate(shapes)]))
    backends = ("cpp", "python") if first % 3 == 0 else ("cpp",)
    with np.errstate(all="ignore"):
        check_each(calls, backends=backends, rtol=1e-4, atol=1e-4)


def training_steps(seeds):
    """Random programs of three arguments as losses: their gradients, and updates in place."""

    def one(seed, *args):
        for a in args:
            a.requires_grad_(True)
        loss = sum((o * o).mean() for o in program(seed)(*args))
        grads = eager.autograd.grad(loss, list(args), allow_unused=True)
        with eager.no_grad():
            for a, g in zip(args, grads, strict=True):
                if g is not None:
                    a.sub_(g * 0.01)
        return [loss.detach(), *(g for g in grads if g is not None)]

    def run(*args):
        return [o for i, seed in enumerate(seeds) for o in one(seed, *args[3 * i : 3 * i + 3])]

    return run


@pytest.mark.parametrize("first", range(0, 24 if share.ALL else 16, 4))
def test_random_training_steps(first):
    seeds = range(first, first + 4)
    args = [
        floats(*s, seed=seed + i)
        for seed in seeds
        for i, s in enumerate(SHAPES[seed % len(SHAPES)])
    ]
    with np.errstate(all="ignore"):
        tensors = [eager.from_numpy(a.copy()) for a in args]
        expected = [np.asarray(o.numpy()) for o in training_steps(seeds)(*tensors)]
        artifact, inputs = compiled(training_steps(seeds), args)
        for got, want in zip(artifact.run(inputs), expected, strict=True):
            same(got, want, 2e-3, 2e-3)
    for after, tensor in zip(args, tensors, strict=True):
        same(after, tensor.detach().numpy(), 2e-3, 2e-3)
