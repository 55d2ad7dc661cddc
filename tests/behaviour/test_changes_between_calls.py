"""Programs that change what a step sees between its calls: plain Python and @jit, value by value.

A program is a generator of results. It is run twice, once with a `jit` that does nothing, and must
yield the same. `backend="eager"` runs the captured graph without compiling: capture is meant here.
"""

import copy
import functools

import pytest

import eager
from eager import nn
from jitcap import jit

PROGRAMS = []
compiled = functools.partial(jit, backend="eager")


def program(function):
    PROGRAMS.append(function)
    return function


def plainly(function):
    return function


def plain(value):
    """A yielded value as something that `==` compares, and that later writes do not change."""
    if isinstance(value, eager.Tensor):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return copy.deepcopy(value)


@program
def members_of_classes(jit):
    """A nearer class hides a member, or one appears where there was none."""

    class Base:
        scale = 2

    class Derived(Base):
        def __init__(self):
            self.own = 1

    thing, other = Derived(), Derived()

    @jit
    def step(x):
        return x * thing.scale, thing == other, bool(thing), getattr(thing, "late", "none")

    @jit
    def store(it):
        it.field = 3
        return it.field

    x = eager.tensor([1.0])
    yield step(x)
    Derived.scale = 5
    yield step(x)
    thing.scale = 7
    yield step(x)
    del thing.scale, Derived.scale
    yield step(x)
    Base.__eq__ = lambda a, b: True
    yield step(x)
    Derived.__bool__ = lambda self: False
    yield step(x)
    Base.late = "late"
    yield step(x)
    Derived.late = property(lambda self: self.own)
    yield step(x)
    yield store(thing)
    Base.__setattr__ = lambda self, name, value: object.__setattr__(self, name, 2 * value)
    yield store(thing)


@program
def functions_in_a_list(jit):
    """Functions of the library share their code with others."""
    chain = [eager.sin, eager.neg]
    step = jit(lambda x: [f(x) for f in chain])
    x = eager.tensor([1.0])
    yield step(x)
    chain[0] = eager.cos
    yield step(x)


@program
def hooks_of_a_parameter(jit):
    log = []
    w = nn.Parameter(eager.ones(2))

    @jit
    def step(x):
        (w * x).sum().backward()

    def doubled(grad):
        log.append("hook")
        return grad * 2

    x = eager.tensor([1.0, 3.0])
    step(x)
    yield w.grad, log
    handle = w.register_hook(doubled)
    step(x)
    yield w.grad, log
    w.register_post_accumulate_grad_hook(lambda p: log.append("after"))
    step(x)
    yield w.grad, log
    handle.remove()
    step(x)
    yield w.grad, log


@program
def attributes_of_a_tensor(jit):
    step = jit(lambda x: x * getattr(x, "gain", 1))
    x = eager.tensor([2.0])
    yield step(x)
    x.gain = 5
    yield step(x)


@program
def objects_told_apart_by_identity(jit):
    """The same object twice, where first there were two."""

    class Thing:
        pass

    @jit
    def step(a, b):
        counted = {a}
        counted.add(b)
        named = {a: 1}
        named[b] = 2
        return (
            [len({a, b}), len({a: 1, b: 2}), len(counted), len(named), a in {b}, {b: 5}.get(a)],
            [len({x for x in (a, b)}), len(set([a, b])), len({(a, 1), (b, 1)}), a in [b], a == b],
            [[a].count(b)],
        )

    @jit
    def once(layers):
        seen = set()
        return sum(
            p.sum() for q in layers for p in q.parameters() if not (p in seen or seen.add(p))
        )

    a, b = Thing(), Thing()
    yield step(a, b), step(a, a)
    one, two = nn.Linear(1, 1), nn.Linear(1, 1)
    for layer in (one, two):
        for p in layer.parameters():
            nn.init.ones_(p)
    yield once([one, two]), once([one, one])
    two.weight = one.weight
    yield once([one, two])


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda run: run.__name__)
def test_same(run):
    assert list(map(plain, run(compiled))) == list(map(plain, run(plainly)))
