"""Tensors that leave a compiled function are plain eager's in every respect."""

import copy
import functools

import pytest
from against_eager import check, floats

import eager
from eager import autograd, nn
from eager.nn import functional as F

PROGRAMS = {}


def program(fn=None, **expected):
    if fn is None:
        return functools.partial(program, **expected)
    PROGRAMS[fn.__name__] = fn, expected
    return fn


@program
def no_grad_in(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        with eager.no_grad():
            y = w * x
        z = w * y
        with eager.set_grad_enabled(False):
            u = z * 2
        with eager.enable_grad():
            v = z * 3
        return (y, z, u, v)

    r = f(floats(3))
    note(*r)
    r[1].sum().backward()
    note(w)
    with eager.no_grad():
        r = f(floats(3))
        note(*r)
    r = f(floats(3))
    note(*r)
    with eager.inference_mode():
        r = f(floats(3))
        note(*r)


@program
def inference_in(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        with eager.inference_mode():
            y = w * x
        return (y, y.clone() * w)

    r = f(floats(3))
    note(*r)


@program
def set_grad_stays(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        eager.set_grad_enabled(False)
        return w * x

    try:
        r = f(floats(3))
        note(r, w * 2)
    finally:
        eager.set_grad_enabled(True)


@program
def inplace_leaf(jit, note, attempt):
    w = floats(3)
    f = jit(lambda x: w.mul_(x))
    attempt(f, floats(3))
    note(w)
    g = jit(lambda x: w[0].mul_(x))
    attempt(g, 2.0)
    note(w)
    h = jit(lambda x: w.detach().mul_(x))
    attempt(h, 2.0)
    note(w)


@program
def inplace_view_history(jit, note, attempt):

    @jit
    def f(x):
        y = x * 2
        v = y[0]
        u = y.t()
        v.mul_(3)
        u[1].add_(v.sum())
        return (y, v, u)

    x = floats(3, 3)
    y, v, u = f(x)
    note(x, y, v, u)
    (y.sum() + (v * v).sum() + u.exp().sum()).backward()
    note(x, y, v, u)
    with eager.no_grad():
        v.add_(1)
    note(y, v, u)


@program(splits=1)
def inplace_input_history(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        x.mul_(w)
        return x.sum()

    x = floats(3, g=False)
    l = f(x)
    note(x, l)
    l.backward()
    note(w, x)


@program(splits=1)
def inplace_input_nonleaf(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        x.mul_(2)
        return x.sum()

    x = w * 3
    l = f(x)
    note(x, l)
    l.backward()
    note(w, x)


@program
def inplace_saved(jit, note, attempt):

    @jit
    def f(x):
        y = x.exp()
        z = y * 2
        return (y, z.sum())

    x = floats(3)
    y, l = f(x)
    with eager.no_grad():
        y.mul_(2)
    attempt(l.backward)
    note(x)


@program
def inplace_not_saved(jit, note, attempt):

    @jit
    def f(x):
        y = x + 1
        z = y * 2
        return (y, z.relu().sum())

    x = floats(3)
    y, l = f(x)
    with eager.no_grad():
        y.mul_(2)
    attempt(l.backward)
    note(x)


@program
def input_changed_not_saved(jit, note, attempt):
    w = floats(3)
    f = jit(lambda x: (x + w).relu().sum())
    x = floats(3, g=False, seed=5)
    l = f(x)
    x.normal_()
    attempt(l.backward)
    note(w)
    g = jit(lambda x: (x + w).exp().sum())
    x = floats(3, g=False, seed=5)
    l = g(x)
    x.zero_()
    attempt(l.backward)
    note(w)
    h = jit(lambda x: (x * w).exp().sum())
    x = floats(3, g=False, seed=5)
    l = h(x)
    x.zero_()
    attempt(l.backward)
    note(w)
    with eager.no_grad():
        l = None
    l = g(floats(3, g=False, seed=5))
    with eager.no_grad():
        w.add_(1)
    attempt(l.backward)
    note(w)


@program
def version_counts(jit, note, attempt):

    @jit
    def f(x, y):
        x.mul_(2)
        x[0] = 1
        y.data.add_(1)
        z = eager.zeros(3)
        z.add_(1)
        z[1] = 3
        d = z.detach()
        d.mul_(2)
        return (z, d)

    x, y = (floats(3, g=False), floats(3, g=False))
    r = f(x, y)
    note(x, y, *r)


@program
def outputs_identity(jit, note, attempt):

    @jit
    def f(x):
        y = x * 2
        z = y
        d = {"a": y, "b": [z, x]}
        return (x, y, z, d, (y, y))

    x = floats(3)
    r = f(x)
    note(x, r)
    assert r[0] is x and r[1] is r[2] is r[3]["a"]


@program
def attr_views(jit, note, attempt):

    class S:
        pass

    s = S()

    @jit
    def f(x):
        h = x * 2
        s.h = h
        s.v = h[0]
        s.xv = x.t()
        s.d = h.detach()
        return h.sum()

    x = floats(3, 3)
    l = f(x)
    note(x, s, l)
    (l + s.v.sum() + s.xv.exp().sum()).backward()
    note(x, s)
    with eager.no_grad():
        s.v.zero_()
    note(x, s)


@program
def unused_outputs(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        vals, idx = (x * w).sort()
        m = (x * w).max(0)
        return (vals, idx, m)

    r = f(floats(3, g=False))
    note(r)
    (r[0] * eager.arange(3.0)).sum().backward()
    note(w)


@program
def multi_out(jit, note, attempt):
    w = floats(4, 4)

    @jit
    def f(x):
        a, b = eager.linalg.qr(x * w)
        c = (x * w).split(2)
        v, i = (x * w).topk(2)
        return (a, b, c, v, i)

    r = f(floats(4, 4, g=False))
    note(r)
    (r[0].sum() + r[2][1].sum() + r[3].sum()).backward()
    note(w)
    r = f(floats(4, 4, g=False))
    r[1].sum().backward()
    note(w)


@program
def data_assign(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        w.data = x * 2
        return (w * w).sum()

    x = floats(3, g=False, seed=3)
    l = f(x)
    note(w, l, x)
    l.backward()
    note(w)


@program
def data_assign_view(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        v = w[1:]
        w.data = x[0]
        return (v, (w * 2).sum())

    x = floats(3, 3, g=False, seed=3)
    v, l = f(x)
    note(w, l, x, v)
    l.backward()
    note(w)


@program
def detach_inplace(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        y = w * x
        y.detach_()
        y.requires_grad_()
        return (y, (y * y).sum())

    y, l = f(floats(3))
    note(y, l)
    l.backward()
    note(y, w)


@program
def unbind_grad(jit, note, attempt):
    w = floats(3, 2)

    @jit
    def f(x):
        a, b, c = w.unbind(0)
        return (a, b, (a * b * c).sum())

    a, b, l = f(1)
    note(a, b, l)
    (l + a.sum()).backward()
    note(w)


@program
def return_params_view(jit, note, attempt):
    m = nn.Linear(3, 3)
    f = jit(lambda x: (m.weight, m.weight.t(), m.weight.data, m.bias[0], m(x)))
    r = f(floats(2, 3))
    note(m, r)
    (r[1].sum() + r[4].sum() + r[3]).backward()
    note(m, r)


@program(splits=None)
def input_grad_fn_reads(jit, note, attempt):

    @jit
    def f(x):
        return (
            x._version,
            x.is_leaf,
            x._base is None,
            x.storage_offset(),
            x.grad_fn is None,
            x.output_nr,
            x.stride(),
        )

    x = floats(4, 4, g=False)
    x.add_(1)
    note(f(x))
    note(f(x[1:]))
    x = floats(4, 4)
    note(f(x))
    note(f((x * 2)[1]))
    x = floats(4, 4, g=False)
    note(f(x))
    x.add_(1)
    note(f(x))


@program
def size1_view(jit, note, attempt):
    f = jit(lambda x: (x.view(-1), x.t(), x[0]))
    x = floats(1, 4)[:, :]
    note(x, f(x))
    y = floats(4, 1).t()
    note(y, f(y))
    z = floats(4, 4)[:1]
    note(z, f(z))


@program
def noncontig_inputs(jit, note, attempt):
    f = jit(
        lambda x: (
            x * 2,
            x.t(),
            x + x.t(),
            x.contiguous(),
            x.clone(),
            x.reshape(-1),
            x.sum(0),
            eager.zeros_like(x),
            eager.empty_like(x).zero_(),
            x.exp(),
            x.float(),
            x.double(),
        )
    )
    for x in (floats(4, 4).t(), floats(4, 8)[:, ::2], floats(4).expand(4, 4)):
        note(x, f(x))


@program
def deepcopy_ret(jit, note, attempt):
    f = jit(lambda x: x[0])
    x = floats(2, 2, g=False)
    y = f(x)
    note(copy.deepcopy(y))


@program
def hidden_base(jit, note, attempt):
    f = jit(lambda x: (x * 2)[0])
    x = floats(2, 2)
    y = f(x)
    note(y, y._base)
    y.sum().backward()
    note(x)
    g = jit(lambda x: ((x * 2)[0], (x * 3)[1].t()))
    r = g(x)
    note(r, [t._base for t in r])
    h = jit(lambda x: (lambda b: (b[0], b[1]))(x * 2))
    r = h(x)
    note(r, r[0]._base)
    assert r[0]._base is r[1]._base


@program
def write_then_outside(jit, note, attempt):
    f = jit(lambda x: (lambda y: (y, y[0], y.t()))(x * 2))
    x = floats(2, 2)
    y, v, u = f(x)
    v.mul_(5)
    note(y, v, u)
    (y.sum() + u.exp().sum()).backward()
    note(x, y, v, u)
    x = floats(2, 2)
    y, v, u = f(x)
    y.mul_(y.detach())
    note(y, v, u)
    v.sum().backward()
    note(x)


@program
def dropout_seed(jit, note, attempt):
    f = jit(lambda x: F.dropout(x, 0.5).sum())
    x = floats(10)
    for _ in range(2):
        f(x).backward()
        note(x)
    (g,) = autograd.grad(f(x), x, create_graph=True)
    note(g)


@program
def half(jit, note, attempt):
    f = jit(lambda x: (x.half() * 2).sum())
    x = floats(4)
    f(x).backward()
    note(x)
    g = jit(lambda x: x.bfloat16()[1:])
    x = floats(4)
    r = g(x)
    note(r)
    r.sum().backward()
    note(x)


@program
def int_views(jit, note, attempt):
    f = jit(lambda i, x: (i[1:], i.view(2, 2), x[i], (x > 0)[0]))
    note(f(eager.arange(4), floats(4, 2)))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_like_eager(name):
    fn, expected = PROGRAMS[name]
    check(fn, **expected)
