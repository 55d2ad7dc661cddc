"""The memory plan: what is alive at the same time does not overlap, and memory is reused."""

import random

import pytest

import codegen
import eager
from codegen.schedule import plan
from tests.codegen.checking import floats
from tests.codegen.tracing import trace


@pytest.mark.parametrize("seed", range(30))
def test_no_overlap(seed):
    rng = random.Random(seed)
    lives = {}
    for i in range(rng.randrange(2, 60)):
        first = rng.randrange(40)
        lives[f"v{i}"] = (first, first + rng.randrange(10), 64 * rng.randrange(1, 50))
    offsets, total = plan.assign_offsets(lives)
    names = list(lives)
    for i, a in enumerate(names):
        fa, la, na = lives[a]
        assert offsets[a] % 64 == 0
        assert offsets[a] + na <= total
        for b in names[:i]:
            fb, lb, nb = lives[b]
            together = fa <= lb and fb <= la
            apart = offsets[a] + na <= offsets[b] or offsets[b] + nb <= offsets[a]
            assert apart or not together, (a, b)
    at_once = max(sum(n for f, last, n in lives.values() if f <= t <= last) for t in range(50))
    assert total <= 2 * at_once


def test_a_deep_chain_needs_two_buffers():
    def chain(x):
        for _ in range(20):
            x = (x @ x).tanh()
        return x

    program, _ = trace(chain, floats(64, 64))
    results = codegen.run_stages(program)[0]
    assert results["plan"].arena_bytes <= 3 * 64 * 64 * 4


def test_elementwise_programs_need_no_arena():
    program, _ = trace(lambda x: eager.nn.functional.softmax(x.exp() * 2, -1).log(), floats(30, 40))
    assert codegen.run_stages(program)[0]["plan"].arena_bytes == 0
