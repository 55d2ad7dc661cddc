"""Gradients asked for outside of what was compiled: where they go."""

import functools

import pytest
from against_eager import check, floats

import eager
from eager import autograd, nn
from eager.nn import functional as F

pytestmark = pytest.mark.once

PROGRAMS = {}


def program(fn=None, **expected):
    if fn is None:
        return functools.partial(program, **expected)
    PROGRAMS[fn.__name__] = fn, expected
    return fn


@program
def leaf_made(jit, note, attempt):

    @jit
    def f(x):
        w = eager.ones(3, requires_grad=True)
        return ((w * x * w).sum(), w)

    l, w = f(floats(3, g=False))
    note(l, w)
    l.backward()
    note(l, w)
    attempt(l.backward)


@program
def leaf_hidden(jit, note, attempt):

    @jit
    def f(x):
        w = eager.ones(3, requires_grad=True)
        return (w * x * w).sum()

    l = f(floats(3, g=False))
    note(l)
    l.backward()
    note(l)
    attempt(l.backward)


@program
def leaf_const(jit, note, attempt):

    @jit
    def f(x):
        w = eager.tensor([1.0, 2.0, 3.0], requires_grad=True)
        b = eager.tensor(2.0)
        return ((w * x * b).sum(), [w, b])

    l, w = f(floats(3, g=False))
    note(l, w)
    l.backward()
    note(l, w)


@program
def leaf_param(jit, note, attempt):

    @jit
    def f(x):
        p = nn.Parameter(x[0])
        return ((p * x).sum(), p)

    x = floats(3, 3, g=False)
    l, w = f(x)
    note(l, w, x)
    l.backward()
    note(l, w, x)


@program
def leaf_set_attr(jit, note, attempt):

    @jit
    def f(x):
        x.requires_grad = True
        y = (x * x).sum()
        return y

    for _ in range(2):
        x = floats(3, g=False)
        l = f(x)
        note(l, x)
        l.backward()
        note(l, x)


@program
def leaf_toggle(jit, note, attempt):

    @jit
    def f(x):
        x.requires_grad_()
        y = (x * x).sum()
        x.requires_grad_(False)
        return y

    x = floats(3, g=False)
    l = f(x)
    note(l, x)
    l.backward()
    note(l, x)


@program
def leaf_detached(jit, note, attempt):

    @jit
    def f(x):
        w = x.detach().requires_grad_()
        return ((w * x * x).sum(), w)

    x = floats(3)
    l, w = f(x)
    note(l, w, x)
    l.backward()
    note(l, w, x)


@program
def leaf_module(jit, note, attempt):

    @jit
    def f(x):
        m = nn.Linear(3, 2)
        return (m(x).sum(), m)

    l, m = f(floats(2, 3))
    l.backward()
    note(l, m.weight, m.bias)


@program
def leaf_updated(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        with eager.no_grad():
            w.mul_(0.5)
        return (w * w * x).sum()

    for _ in range(2):
        l = f(floats(3, g=False))
        l.backward()
        note(l, w)


@program
def inputs_arg(jit, note, attempt):
    w, v = (floats(3), floats(3, seed=1))

    @jit
    def f(x):
        return (w * v * x).sum()

    l = f(floats(3))
    l.backward(inputs=[w])
    note(w, v)


@program
def grad_outputs(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        return w * x * w

    y = f(floats(3))
    note(*autograd.grad(y, w, grad_outputs=eager.ones(3) * 2))
    attempt(lambda: f(floats(3)).backward())
    f(floats(3)).backward(eager.ones(3))
    note(w)


@program
def hooks_leaf(jit, note, attempt):
    w = floats(3)
    w.register_hook(lambda g: g * 3)
    seen = []
    w.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.sum().item()))
    f = jit(lambda x: (w * x).sum())
    l = f(floats(3))
    l.backward()
    note(w)
    f(floats(3)).backward()
    note(w, seen)


@program
def hook_inside_nonleaf(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        y = w * x
        y.register_hook(lambda g: g * 3)
        return (y * y).sum()

    f(floats(3)).backward()
    note(w)


@program(splits=None, fallbacks=None)
def hook_inside_view(jit, note, attempt):
    """A tensor that leaves with a hook: a gradient kept outside is what the hook makes of it."""
    w = floats(3, 3)

    @jit
    def f(x):
        y = (w * x).t()
        y.register_hook(lambda g: g * 3)
        return y

    y = f(floats(3, 3))
    y.retain_grad()
    y.sum().backward()
    note(w, y)


@program
def accumulate(jit, note, attempt):
    w = floats(3)
    w.grad = eager.ones(3)
    keep = w.grad
    f = jit(lambda x: (w * x).sum())
    f(floats(3, g=False)).backward()
    note(w, keep)
    f(floats(3, g=False)).backward()
    note(w, keep)


@program
def accumulate_inside(jit, note, attempt):
    w = floats(3)
    w.grad = eager.ones(3)
    keep = w.grad

    @jit
    def f(x):
        (w * x).sum().backward()

    f(floats(3, g=False))
    note(w, keep)
    f(floats(3, g=False))
    note(w, keep)
    w.grad = None
    f(floats(3, g=False))
    note(w)


@program
def grad_is_view(jit, note, attempt):
    w = floats(3, 3)

    @jit
    def f(x):
        (w.t() * x).sum().backward()
        return w.grad

    g = f(floats(3, 3, g=False))
    note(w, g)
    h = jit(lambda x: (w.t() * x).sum())
    w.grad = None
    h(floats(3, 3, g=False)).backward()
    note(w)
    k = jit(lambda x: w.expand(2, 3, 3).sum())
    w.grad = None
    k(floats(3)).backward()
    note(w)


@program(ignore=("view",))
def grad_strides(jit, note, attempt):
    w = floats(3, 4)
    f = jit(lambda x: autograd.grad((w.t() @ x).sum(), w)[0])
    note(f(floats(3, 2, g=False)))
    w = floats(3, 4)
    f = jit(lambda x: (w.t() @ x).sum())
    note(*autograd.grad(f(floats(3, 2, g=False)), w))
    w = floats(3, 4)
    f = jit(lambda x: w.sum(0))
    note(*autograd.grad(f(1).sum(), w))
    w = floats(3, 4)
    f = jit(lambda x: w.t())
    note(*autograd.grad(f(1).sum(), w))


@program
def leaf_view_error(jit, note, attempt):
    f = jit(lambda x: x[0])
    x = floats(2, 2)
    v = f(x)
    attempt(v.mul_, 2)
    note(x, v)


@program
def optimizer_loop(jit, note, attempt):
    m = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    opt = eager.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    f = jit(lambda x, y: (lambda o: (F.cross_entropy(o, y), o))(m(x)))
    for i in range(4):
        opt.zero_grad()
        l, o = f(floats(3, 4, g=False, seed=i), eager.tensor([0, 1, 1]))
        l.backward()
        opt.step()
        note(l, o, m)


@program
def gan(jit, note, attempt):
    G = nn.Linear(2, 3)
    D = nn.Linear(3, 1)
    og = eager.optim.SGD(G.parameters(), lr=0.1)
    od = eager.optim.SGD(D.parameters(), lr=0.1)
    fake = jit(lambda z: G(z))
    d = jit(lambda x: D(x))
    for i in range(3):
        x = fake(floats(4, 2, g=False, seed=i))
        dl = d(x.detach()).mean() - d(floats(4, 3, g=False)).mean()
        od.zero_grad()
        dl.backward()
        od.step()
        gl = -d(x).mean()
        og.zero_grad()
        gl.backward()
        og.step()
        note(G, D, x)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_like_eager(name):
    fn, expected = PROGRAMS[name]
    check(fn, **expected)
