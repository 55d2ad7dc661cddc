"""Handles of hooks that a parameter had before: what removes the hook inside removes it."""

import pytest

import eager
from eager import nn
from jitcap import jit

pytestmark = pytest.mark.once


def before(handle, p, x):
    handle.remove()
    (p * x).sum().backward()


def after_it_was_used(handle, p, x):
    loss = (p * x).sum()
    handle.remove()
    loss.backward()


def in_one_way(handle, p, x):
    loss = (p * x).sum()
    if loss > 0:
        handle.remove()
    loss.backward()


def behind(handle, p, x):
    (p * x).sum().backward()
    handle.remove()


@pytest.mark.parametrize("fn", [before, after_it_was_used, in_one_way, behind])
@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_a_hook_is_removed(fn):
    def run(transform):
        p = nn.Parameter(eager.ones(2))
        handle = p.register_hook(lambda g: g * 3)
        step, found = transform(lambda x: fn(handle, p, x)), []
        for _ in range(2):
            p.grad = None
            step(eager.ones(2))
            found.append(p.grad.tolist())
        return found, len(handle.hooks)

    assert run(lambda step: jit(step, backend="eager")) == run(lambda step: step)


class Doubled(eager.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def test_a_derivative_of_the_program_is_no_split_beside_writes_to_objects():
    log, w = [], eager.ones(2, requires_grad=True)

    def step(x):
        y = Doubled.apply(x * w)
        log.append(len(log))
        return y

    compiled = jit(step, backend="eager", fullgraph=True)
    for n in range(1, 4):
        compiled(eager.ones(2)).sum().backward()
        assert w.grad.tolist() == [2.0 * n] * 2
        assert log == [*range(n)]
