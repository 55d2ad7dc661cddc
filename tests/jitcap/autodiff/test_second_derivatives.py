"""create_graph=True outside of what was compiled: the tape as eager would have made it."""

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
def leaf_detached_create(jit, note, attempt):

    @jit
    def f(x):
        w = x.detach().requires_grad_()
        return ((w * w * x * x * x).sum(), w)

    x = floats(3)
    l, w = f(x)
    g1, g2 = autograd.grad(l, [w, x], create_graph=True)
    note(g1, g2)
    (g1 * g2).sum().backward()
    note(l, w, x)


@program
def leaf_updated_create(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        with eager.no_grad():
            w.mul_(0.5)
        return (w * w * w * x).sum()

    for _ in range(2):
        l = f(floats(3, g=False))
        (g,) = autograd.grad(l, w, create_graph=True)
        (g * g).sum().backward()
        note(l, w, g)


@program
def loss_logits_create(jit, note, attempt):
    a = floats(4, 3)

    @jit
    def f(x):
        h = x @ a
        return (h.pow(3).sum(), h)

    l, h = f(floats(2, 4, g=False))
    (g,) = autograd.grad(l, h, create_graph=True)
    note(g)
    g.sum().backward()
    note(a, h)


@program
def double_inside(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        (g,) = autograd.grad((w**3 * x).sum(), w, create_graph=True)
        return (g, (g * g).sum())

    g, l = f(floats(3, g=False))
    note(g, l)
    l.backward()
    note(w)


@program
def double_outside_bn(jit, note, attempt):
    m = nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.LayerNorm(4), nn.GroupNorm(2, 4)
    )
    f = jit(lambda x: m(x).pow(3).sum())
    x = floats(5, 3)
    (g,) = autograd.grad(f(x), x, create_graph=True)
    note(g)
    g.pow(2).sum().backward()
    note(x, m)


@program
def double_outside_detach(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        with eager.no_grad():
            c = w * w
        return (x.detach() * x * w * w * c).sum()

    x = floats(3)
    g, h = autograd.grad(f(x), [x, w], create_graph=True)
    note(g, h)
    (g * h).sum().backward()
    note(x, w)


@program
def double_outside_write(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        y = x * x
        y[0] = w[1] * w[1]
        y[1:].mul_(w[:2])
        z = eager.zeros(3)
        z[1:] = y[:2]
        z.add_(y)
        return (y * z * z).sum()

    x = floats(3)
    g, h = autograd.grad(f(x), [x, w], create_graph=True)
    note(g, h)
    (g * h).sum().backward()
    note(x, w)


@program
def triple(jit, note, attempt):
    f = jit(lambda x: (x**4).sum())
    x = floats(3)
    (g,) = autograd.grad(f(x), x, create_graph=True)
    (h,) = autograd.grad(g.sum(), x, create_graph=True)
    (k,) = autograd.grad(h.sum(), x)
    note(g, h, k)


@program
def double_input_written(jit, note, attempt):
    b = eager.ones(3)

    @jit
    def f(x):
        b.mul_(2)
        return (x**3 * b).sum()

    for _ in range(2):
        x = floats(3)
        (g,) = autograd.grad(f(x), x, create_graph=True)
        g.sum().backward()
        note(x, b, g)


@program
def double_input_written2(jit, note, attempt):
    b = eager.ones(3)

    @jit
    def f(x):
        y = (x**3 * (b + 1)).sum()
        b.mul_(2)
        return y

    for _ in range(2):
        x = floats(3)
        (g,) = autograd.grad(f(x), x, create_graph=True)
        g.sum().backward()
        note(x, b, g)


@program
def custom_fn(jit, note, attempt):

    class Sq(autograd.Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.save_for_backward(x)
            ctx.k = k
            return x * x * k

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return (g * x * 5 * ctx.k, None)

    f = jit(lambda x: Sq.apply(x * 2, 3.0).sum())
    x = floats(3)
    f(x).backward()
    note(x)
    x = floats(3)
    (g,) = autograd.grad(f(x), x, create_graph=True)
    (g * g).sum().backward()
    note(x, g)


@program
def custom_identity(jit, note, attempt):

    class Rev(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return -g

    class RevV(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return -g

    for cls in (Rev, RevV):

        @jit
        def f(x):
            y = cls.apply(x)
            return (y, (y * x * x).sum())

        x = floats(3)
        y, l = f(x)
        note(x, y, l)
        l.backward()
        note(x, y)
        x = floats(3)
        y, l = f(x)
        (g,) = autograd.grad(l, x, create_graph=True)
        (g * g).sum().backward()
        note(x, g)
        x = floats(3)
        y, l = f(x)
        y.sum().backward()
        note(x, y)


@program
def func_style(jit, note, attempt):
    f = jit(lambda x: (x**3).sum())
    x = floats(3, g=False)
    attempt(lambda: note(eager.func.grad(lambda t: (t**3).sum())(x)))
    attempt(lambda: note(eager.func.grad(f)(x)))
    attempt(lambda: note(eager.func.vjp(f, x)[1](eager.ones(()))))
    g = jit(lambda x: eager.func.grad(lambda t: (t**3).sum())(x))
    note(g(x))
    attempt(lambda: note(eager.autograd.functional.jacobian(lambda t: f(t) * t, x)))
    attempt(lambda: note(eager.autograd.functional.hessian(f, x)))
    attempt(lambda: note(eager.func.hessian(f)(x)))
    attempt(lambda: note(eager.func.jvp(f, (x,), (eager.ones(3),))))
    attempt(lambda: note(eager.func.vmap(f)(floats(2, 3, g=False))))


@program
def clone_slots(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        y = w * x
        c = y.clone()
        d = c.clone()
        return (y, c, d, (c * c * y).sum())

    for mode in range(3):
        y, c, d, l = f(floats(3, g=False))
        note(y, c, d, l)
        if mode == 0:
            c.retain_grad()
            y.retain_grad()
            l.backward()
        if mode == 1:
            note(*autograd.grad(l, [y, c], retain_graph=True))
            (g,) = autograd.grad(l, w, create_graph=True)
            g.sum().backward()
        if mode == 2:
            (d.sum() + l).backward()
        note(w, y, c, d)
        w.grad = None


@program
def penalty(jit, note, attempt):
    D = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))
    d = jit(lambda x: D(x))
    x = floats(4, 3)
    o = d(x)
    (g,) = autograd.grad(o.sum(), x, create_graph=True)
    ((g.norm(dim=1) - 1) ** 2).mean().backward()
    note(D, x)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_like_eager(name):
    fn, expected = PROGRAMS[name]
    check(fn, **expected)
