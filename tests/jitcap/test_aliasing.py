"""Tensors that stand at two places, at one call and not at the next."""

import functools

import pytest
from against_eager import check, floats

import eager
from eager import autograd, nn

pytestmark = pytest.mark.once

PROGRAMS = {}


def program(fn=None, **expected):
    if fn is None:
        return functools.partial(program, **expected)
    PROGRAMS[fn.__name__] = fn, expected
    return fn


@program
def same_twice(jit, note, attempt):

    @jit
    def f(a, b):
        l = (a * a * b).sum()
        l.backward()
        return l

    x, y = (floats(3), floats(3, seed=1))
    f(x, y)
    note(x, y)
    f(x, x)
    note(x, y)
    f(y, x)
    note(x, y)
    f(y, y)
    note(x, y)


@program
def same_twice_grad(jit, note, attempt):

    @jit
    def f(a, b):
        return autograd.grad((a * a * b).sum(), [a, b], allow_unused=True)

    x, y = (floats(3), floats(3, seed=1))
    note(*f(x, y))
    note(*f(x, x))
    note(*f(y, x))


@program
def same_twice_outside(jit, note, attempt):

    @jit
    def f(a, b):
        return (a * a * b).sum()

    x, y = (floats(3), floats(3, seed=1))
    f(x, y).backward()
    note(x, y)
    f(x, x).backward()
    note(x, y)
    note(*autograd.grad(f(x, x), [x, x]))
    note(*autograd.grad(f(x, y), [x, y], create_graph=True))


def tied(kind):

    def p(jit, note, attempt):
        m = nn.Module()
        m.a = nn.Linear(3, 3, bias=False)
        m.b = nn.Linear(3, 3, bias=False)

        def inside(x):
            m.a.weight.grad = None
            m.b.weight.grad = None
            m.b(m.a(x)).sum().backward()

        def getgrad(x):
            return autograd.grad(m.b(m.a(x)).sum(), list(m.parameters()))

        def get1(x):
            return autograd.grad(m.b(m.a(x)).sum(), [m.a.weight])

        def outside(x):
            return m.b(m.a(x)).sum()

        def accum(x):
            m.b(m.a(x)).sum().backward()

        f = jit(dict(inside=inside, getgrad=getgrad, outside=outside, get1=get1, accum=accum)[kind])

        def call():
            r = f(floats(2, 3, g=False))
            if kind == "outside":
                r.backward()
            note(r, m.a.weight, m.b.weight)

        keep = m.a.weight
        call()
        m.a.weight = m.b.weight
        call()
        m.a.weight = keep
        call()
        m.a.weight = m.b.weight
        call()
        m.a.weight = nn.Parameter(m.b.weight.detach())
        call()

    return p


@program
def two_views_of_batch(jit, note, attempt):

    @jit
    def f(a, b):
        a.add_(1)
        return (a * b).sum()

    X = floats(4, 3, g=False)
    note(f(X[:2], X[2:]))
    note(f(X[:2], X[1:3]))
    note(X)
    note(f(X[0], X[0]))
    note(X, f(X[:2], X[:2]))
    note(X)


@program(fallbacks=1)
def alias_out_written(jit, note, attempt):

    @jit
    def f(a, b):
        a.add_(b)
        b.mul_(2)
        return (a, b)

    x, y = (floats(3, g=False), floats(3, g=False, seed=1))
    f(x, y)
    note(x, y)
    f(x, x)
    note(x, y)
    f(x, x.detach())
    note(x, y)
    f(x[:2], x[1:])
    note(x)
    z = eager.ones(4)
    f(z[:2], z[2:])
    note(z)
    f(z.view(2, 2)[0], z[1:3])
    note(z)


for _kind in ("inside", "getgrad", "get1", "outside", "accum"):
    PROGRAMS[f"tied_{_kind}"] = tied(_kind), {}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_like_eager(name):
    fn, expected = PROGRAMS[name]
    check(fn, **expected)
