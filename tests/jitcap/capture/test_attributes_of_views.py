"""Attributes that a step sets on a view from outside, beside writes to its memory."""

import pytest

import eager
from jitcap import jit


def on_the_view(x, t, n):
    x.add_(1)
    t.tag = n
    return t


def before_the_write(x, t, n):
    t.tag = n
    x.add_(1)


def through_the_view(x, t, n):
    t.add_(1)
    t.tag = n
    return t


def another_view(x, t, n):
    u = x.view(-1)
    x.add_(1)
    t.tag = u
    u.tag = n
    return u


@pytest.mark.filterwarnings("ignore:@jit")
@pytest.mark.parametrize("step", [on_the_view, before_the_write, through_the_view, another_view])
def test_they_stay(step):
    told = []
    for run in (step, jit(step, backend="eager")):
        for n in (5, 6):
            x = eager.ones(2, 2)
            t = x.view(-1)
            out = run(x, t, n)
            told.append((out is t, getattr(out, "tag", None), repr(t.tag), x.tolist()))
    assert told[:2] == told[2:]


@pytest.mark.parametrize("whole", [False, True])
def test_views_of_what_requires_a_gradient_from_here_on(whole):
    def step(x):
        x.requires_grad_()
        return x[0]

    for run in (step, jit(step, backend="eager")):
        x = eager.ones(2, 2) if whole else eager.ones(3, 2, 2)[1]
        out = run(x)
        assert out.requires_grad
        assert out.grad_fn.name() == "SelectBackward0"
        (out * 2).sum().backward()
        assert x.grad.tolist() == [[2, 2], [0, 0]]
