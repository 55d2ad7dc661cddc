"""Loops whose length the run decides and whose steps write what they read: one version for all."""

import numpy as np
import pytest

import eager
from jitcap import jit

SIZES = (6, 7, 9, 5)


def floats(*shape, seed=0):
    return eager.tensor(np.random.default_rng(seed).standard_normal(shape))


# ---- which results have a history


def lost_in_the_first_step(x, w, n):
    h, c = w * 1, w.detach() + 0.5
    for i in range(n):
        c = c.detach() + h * 0.1
        h = (x[i].detach() * 0.3).tanh()
    return c, h


@pytest.mark.parametrize("length", ["fixed", "a size", "data"])
@pytest.mark.filterwarnings("ignore::jitcap.record.JitcapWarning")
def test_a_history_that_only_the_first_steps_have(length):
    def step(x, w):
        n = {"fixed": 18, "a size": x.shape[0], "data": int(x[:, 0].isfinite().sum())}[length]
        return lost_in_the_first_step(x, w, n)

    compiled, w = jit(step, backend="eager"), floats(3).requires_grad_()
    for n in (18, 19, 21) if length == "fixed" else (5, 2, 1, 3, 1, 4):
        x = floats(n, 3)
        want, got = ([t.requires_grad for t in f(x, w)] for f in (step, compiled))
        assert got == want, n
