"""Functions that native code makes of the program's (`vmap(fn)`): a split may lie before they are
called, then they hold the program's own function again, and nothing of a capture that has ended."""

import functools
import warnings

import pytest

import eager
from eager import func, nn
from jitcap import graph_break, jit

pytestmark = pytest.mark.once


class Scale:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k

    def times(self, x):
        return x * self.k


CALLABLES = {
    "function": lambda x: lambda z: z * x.sum(),
    "partial": lambda x: functools.partial(lambda k, z: z * k, x.sum()),
    "object": lambda x: Scale(x.mean()),
    "method": lambda x: Scale(2.5).times,
    "module": lambda x: nn.Identity(),
    "native": lambda x: eager.exp,
}
MAKERS = {
    "vmap": eager.vmap,
    "vmap twice": lambda f: eager.vmap(eager.vmap(f)),
    "gradients": lambda f: eager.vmap(func.grad(lambda x: f(x).sum())),
    "jacobian": func.jacrev,
    "no_grad": lambda f: eager.no_grad()(f),
    "autocast": lambda f: eager.autocast("cpu", eager.bfloat16)(f),
}


def beyond(made, x):
    graph_break()
    return made(x)


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("callable_", CALLABLES)
@pytest.mark.parametrize("call", [beyond, lambda made, x: made(x)], ids=["split", "whole"])
def test_it_is_called_behind_a_split(maker, callable_, call):
    def fn(x):
        return call(MAKERS[maker](CALLABLES[callable_](x)), x)

    step, x = jit(fn, backend="eager"), eager.ones(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            assert step(x).tolist() == fn(x).tolist()
    assert step.stats.fallbacks == 0
    assert step.stats.splits <= (call is beyond)


def test_what_wraps_it_takes_the_attributes_of_the_function():
    def fn(x):
        def f(z):
            return z * 2

        f.label = "twice"
        made = eager.vmap(f)
        graph_break()
        return made(x), hasattr(made, "_session"), made.label

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = jit(fn, backend="eager")(eager.ones(3))
    assert got[1:] == fn(eager.ones(3))[1:]
