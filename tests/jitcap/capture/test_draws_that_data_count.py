"""Arms that draw differently many random numbers, and loops until data say so: what is drawn later is plain
Python's, in one graph, and so is the generator's state."""

import numpy as np
import pytest
import share

import eager
import eager.nn.functional as F
from jitcap import jit


def explore(q, _):
    if eager.rand(()) < 0.5:
        action = eager.randint(0, q.shape[-1], (q.shape[0],))
    else:
        action = q.argmax(-1)
    return action, eager.rand(2)


def one_in_another(x, _):
    if x.sum() > 0:
        y = eager.randn(4)
        if x[0, 0] > 0.3:
            y = y + eager.rand(4) * eager.rand(4)
        y = y + eager.rand(4)
    else:
        y = x[0] * 1
    z = eager.rand(4)
    if x[0, 1] > 0:
        z = z + eager.rand(4)
    return y, z, eager.rand(2)


def dropped(x, _):
    w = eager.ones(3, requires_grad=True)
    h = x * w[:, None]
    if h.mean() > 0:
        h = F.dropout(h, 0.5)
    loss = h.pow(2).mean() + (eager.rand(4) * h).sum()
    loss.backward()
    return loss.detach(), w.grad


def with_a_seed(x, _):
    eager.manual_seed(3)
    y = eager.rand(4) if x.sum() > 0 else x[0]
    return y + eager.rand(4)


def of_two_generators(x, g):
    if x.sum() > 0:
        y = eager.rand(4, generator=g)
    else:
        y = eager.rand(4) + eager.rand(4)
    return y + eager.rand(4, generator=g) + eager.rand(4)


def unrolled(x, _):
    t = x[0]
    for _i in range(5):
        t = t - eager.rand(4) if t.sum() > 0 else t + 1
    return t + eager.rand(4)


def a_cond(x, _):
    return eager.cond(x.sum() > 0, lambda x: x + eager.rand(4), lambda x: x * 2, (x,)) + eager.rand(
        1
    )


PROGRAMS = [explore, one_in_another, dropped, with_a_seed, of_two_generators, unrolled, a_cond]


def rejected(x, _):
    y = eager.rand(())
    while y > 0.3:
        y = eager.rand(())
    return y + x, eager.rand(2)


def a_walk(x, _):
    t, n = x.sum() * 0, 0
    while abs(t) < 3:
        t, n = t + eager.randn(()), n + 1
    return t, n, eager.rand(2)


def until_it_fits(x, _):
    while True:
        a, b = eager.rand(()), eager.rand(())
        if a * a + b * b < 0.3:
            break
    return a, b, eager.rand(1)


def rounds_and_arms(x, g):
    t = x.sum() * 0
    eager.rand(3)
    while t < 2:
        t = t + eager.rand((), generator=g) + eager.rand(2).sum()
    if t > 2.5:
        t = t + eager.rand(())
    return t, eager.randn(2)


def several(x, _):
    found = []
    for _i in range(3):
        u = eager.rand(())
        while u < 0.5:
            u = eager.rand(())
        found.append(u)
    return eager.stack(found) + x[:, :1], eager.rand(1)


def a_while_loop(x, _):
    start = (x.sum() * 0, x.sum() * 0)
    return eager.while_loop(lambda t, u: t < 2, lambda t, u: (t + eager.rand(()), u + 1), start)


def first_in_an_arm_of_a_round(x, _):
    t = x.sum() * 0
    while t < 3:
        if t > 1:
            t = t + eager.rand(())
        t = t + eager.rand(()) + 0.1
    return t, eager.rand(1)


def rounds_of_rounds(x, g):
    t = x.sum() * 0
    while t < 3:
        u = x.sum() * 0
        while u < 0.7:
            u = u + eager.rand(()) * eager.rand((), generator=g)
        t = t + u if u > 0.9 else t + u + eager.rand(())
    return t, eager.rand(1)


def a_scan_in_rounds(x, _):
    def step(total, _i):
        return total + eager.rand(()), total

    def body(t):
        return (t + eager.scan(step, t * 0, eager.arange(3.0))[0],)

    return eager.while_loop(lambda t: t < 4, body, (x.sum() * 0,)), eager.rand(1)


ROUNDS = [
    first_in_an_arm_of_a_round, rounds_of_rounds, a_scan_in_rounds,
    rejected, a_walk, until_it_fits, rounds_and_arms, several, a_while_loop,
]  # fmt: skip


BOTH = PROGRAMS + ROUNDS
COMPILED = share.of(BOTH, len(BOTH) // 2)  # what is computed is graphs of the same ops


@pytest.mark.parametrize(
    ("program", "backend"),
    [(program, "eager") for program in BOTH]
    + [pytest.param(program, "cpp", marks=pytest.mark.once) for program in COMPILED],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_draws_are_those_of_plain_python(program, backend):
    compiled, drawn = jit(program, backend=backend), set()
    own, other = eager.Generator().manual_seed(5), eager.Generator().manual_seed(5)
    eager.manual_seed(1)
    for i in range(6):
        x = eager.tensor(np.random.default_rng(i).standard_normal((3, 4)).astype("f4"))
        before = eager.get_rng_state()
        plain = str(program(x, own)), eager.get_rng_state().tolist(), own.get_state().tolist()
        drawn.add(eager.random.default_generator.ordinal)
        eager.set_rng_state(before)
        again = str(compiled(x, other)), eager.get_rng_state().tolist(), other.get_state().tolist()
        assert plain == again
    assert len(drawn) > 1
    assert (compiled.stats.graphs, compiled.stats.splits, compiled.stats.fallbacks) == (1, 0, 0)
