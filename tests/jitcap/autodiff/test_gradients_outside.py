"""Gradients asked for outside of what was compiled: every one that eager gives, and no other."""

import functools

import pytest
from against_eager import check, floats

import eager
import jitcap
from eager import autograd, nn
from jitcap import pipeline
from jitcap.base.diagnostics import JitcapWarning

pytestmark = pytest.mark.once

PROGRAMS = {}


def program(fn=None, **expected):
    if fn is None:
        return functools.partial(program, **expected)
    PROGRAMS[fn.__name__] = fn, expected
    return fn


@program
def two_losses(jit, note, attempt):
    a, b = (floats(3), floats(3, seed=1))

    @jit
    def f(x):
        return ((a * x).sum(), (b * x * b).sum())

    l, m = f(floats(3, g=False))
    l.backward()
    note(a, b)
    m.backward()
    note(a, b)
    attempt(l.backward)
    attempt(m.backward)
    note(a, b)


@program
def two_losses_shared(jit, note, attempt):
    a, b = (floats(3), floats(3, seed=1))

    @jit
    def f(x):
        h = (a * x).exp()
        return ((h * b).sum(), (h * h).sum())

    l, m = f(floats(3, g=False))
    l.backward()
    note(a, b)
    attempt(m.backward)
    note(a, b)
    l, m = f(floats(3, g=False))
    l.backward(retain_graph=True)
    note(a, b)
    attempt(m.backward)
    note(a, b)
    attempt(l.backward)


@program
def loss_logits(jit, note, attempt):
    a = floats(4, 3)

    @jit
    def f(x):
        h = x @ a
        return (h.pow(2).sum(), h)

    for mode in range(6):
        l, h = f(floats(2, 4, g=False))
        note(l, h)
        if mode == 0:
            l.backward()
        elif mode == 1:
            attempt(lambda: note(*autograd.grad(l, [h])))
        elif mode == 2:
            h.retain_grad()
            l.backward()
        elif mode == 3:
            h.register_hook(lambda g: g * 2)
            l.backward()
        elif mode == 4:
            (l + h.sum()).backward()
        elif mode == 5:
            (g,) = autograd.grad(l, h, retain_graph=True)
            note(g)
            h.backward(g)
            attempt(l.backward)
        note(a, l, h)
        a.grad = None


@program
def chain_outputs(jit, note, attempt):
    a = floats(3)

    @jit
    def f(x):
        h1 = (x * a).tanh()
        h2 = (h1 * a).tanh()
        h3 = (h2 * a).tanh()
        return (h1, h2, h3.sum())

    for mode in range(4):
        h1, h2, l = f(floats(3, g=False))
        if mode == 0:
            h1.retain_grad()
            h2.retain_grad()
            l.backward()
        if mode == 1:
            note(*autograd.grad(l, [h1, h2, a]))
        if mode == 2:
            h2.register_hook(lambda g: g * 0 + 1)
            h1.retain_grad()
            (l + h1.sum()).backward()
        if mode == 3:
            attempt(lambda: note(*autograd.grad(l, [h2, h1], retain_graph=True)))
            l.backward()
        note(a, h1, h2, l)
        a.grad = None


@program
def view_inter_hook(jit, note, attempt):
    a = floats(3, 4)

    @jit
    def f(x):
        h = x * a
        v = h.t()
        return (v, h, (v * v * v).sum())

    for mode in range(4):
        v, h, l = f(floats(3, 4, g=False))
        note(v, h, l)
        if mode == 0:
            v.retain_grad()
            l.backward()
        if mode == 1:
            v.register_hook(lambda g: g * 2)
            h.retain_grad()
            l.backward()
        if mode == 2:
            attempt(lambda: note(*autograd.grad(l, [v, h])))
        if mode == 3:
            (l + v.sum() + h.sum()).backward()
        note(a, v, h, l)
        a.grad = None


@program
def retain_inside(jit, note, attempt):

    @jit
    def f(x):
        y = x * 2
        y.retain_grad()
        return (y, (y * y).sum())

    for _ in range(2):
        x = floats(2)
        y, l = f(x)
        l.backward()
        note(x, y, l)


@program
def none_grad(jit, note, attempt):
    a, b = (floats(3), floats(3, seed=1))

    @jit
    def f(x):
        return ((a * x).sum(), (b * x).sum())

    l, m = f(floats(3, g=False))
    l.backward()
    note(a, b)
    l, m = f(floats(3, g=False))
    attempt(lambda: autograd.grad(l, [b]))
    note(*autograd.grad(m, [a, b], allow_unused=True))


@program
def nan_contam(jit, note, attempt):
    a = floats(3)
    z = eager.zeros(3, requires_grad=True)

    @jit
    def f():
        return (a.sum() + z.sum(), (z.sqrt() * a).sum())

    l, m = f()
    l.backward()
    note(a, z)
    l, m = f()
    (l + m).backward()
    note(a, z)


@program
def partial_cat(jit, note, attempt):
    a, b = (floats(3), floats(3, seed=2))

    @jit
    def f():
        c = eager.cat([a * 2, b * 3])
        d = eager.stack([a, b])
        return (c[:3].exp(), (d * d).sum(), c.sum(), eager.cat([c, c]))

    for i in range(4):
        r = f()
        r[i].sum().backward()
        note(a, b)
    r = f()
    (r[0].sum() + r[3].sum()).backward()
    note(a, b)


@program
def buffer_history(jit, note, attempt):

    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = nn.Linear(3, 3)
            s.register_buffer("b", eager.zeros(3))

        def forward(s, x):
            y = s.l(x)
            s.b = s.b * 0.9 + y.mean(0)
            return y.sum()

    m = M()
    m.forward = jit(m.forward)
    for _ in range(3):
        m.forward(floats(2, 3, g=False)).backward()
        note(m.l.weight, m.b)
    attempt(lambda: m.b.sum().backward())


@program
def state_history(jit, note, attempt):
    w = floats(3)

    class S:
        pass

    s = S()
    s.h = eager.zeros(3)

    @jit
    def f(x):
        s.h = (s.h * w + x).tanh()
        return s.h.sum()

    l = 0
    for i in range(3):
        l = l + f(floats(3, g=False, seed=i))
    note(s)
    l.backward()
    note(w, s)
    attempt(lambda: f(floats(3, g=False)).backward())


@program
def retain_twice(jit, note, attempt):
    w = floats(3)

    @jit
    def f(x):
        return (w * w * x).sum()

    l = f(floats(3))
    l.backward(retain_graph=True)
    l.backward()
    note(w)
    attempt(l.backward)


@program(splits=1)
def custom_own_class(jit, note, attempt):
    f = jit(lambda x: OwnK.apply(x).sum())
    x = floats(3)
    f(x).backward()
    note(x)


class OwnK(autograd.Function):
    k = 2

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return OwnK.k * x * g


@program
def plist(jit, note, attempt):
    ps = nn.ParameterList([nn.Parameter(eager.ones(3) * i) for i in range(1, 3)])

    @jit
    def f(x):
        return autograd.grad(sum(((p * p * x).sum() for p in ps)), ps)

    note(*f(floats(3)))

    @jit
    def g(x):
        return autograd.grad(sum(((p * p * x).sum() for p in ps)), ps.parameters())

    note(*g(floats(3)))

    @jit
    def h(x):
        sum(((p * p * x).sum() for p in ps)).backward(inputs=ps)

    h(floats(3))
    note(*ps)

    @jit
    def k(x):
        return autograd.grad(
            [(p * p * x).sum() for p in ps], ps, grad_outputs=[eager.ones(()), eager.ones(()) * 2]
        )

    note(*k(floats(3)))

    @jit
    def d(x):
        q = dict(ps.named_parameters())
        return autograd.grad(sum(((p * p * x).sum() for p in ps)), q.values())

    note(*d(floats(3)))


@program
def nonleaf_input(jit, note, attempt):
    f = jit(lambda x: (x * x).sum())
    w = floats(3)
    h = w * 2
    h.retain_grad()
    f(h).backward()
    note(w, h)
    w = floats(3)
    h = w * 2
    (g,) = autograd.grad(f(h), h, create_graph=True)
    g.sum().backward()
    note(w, h, g)
    w = floats(3)
    h = w * 2
    h.register_hook(lambda g: g * 2)
    (g,) = autograd.grad(f(h), w, create_graph=True)
    g.sum().backward()
    note(w, h, g)


@program
def pieces(jit, note, attempt):
    f = jit(lambda x: x * x * x)
    g = jit(lambda y: (y.exp(), y.sum()))
    x = floats(3)
    y = f(x)
    a, b = g(y)
    (a.sum() + b).backward()
    note(x, y, a, b)


@program
def groupnorm_mean(jit, note, attempt):
    m = nn.GroupNorm(2, 4)
    f = jit(lambda x: m(x).mean(dim=[1, 2, 3]))
    x = floats(2, 4, 3, 3)
    y = f(x)
    (y * y).sum().backward()
    note(y, x, m)


@pytest.mark.parametrize("backend", ["eager", "cpp"])
@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_grad_of_what_was_made_outside(backend):
    """The way from the outputs to the inputs may go on outside: also before a split."""
    x = floats(4)

    def through(y, x):
        return autograd.grad(y * 2, [x], allow_unused=True, retain_graph=True)

    def after_a_split(x):
        return autograd.grad((x[x > 0] * x.sum()).sum(), [x], allow_unused=True)

    leaves = [x]

    def listed():
        return autograd.grad((x[x > 0] * x.sum()).sum(), leaves, allow_unused=True)

    fn, split, of_a_list = (
        jitcap.jit(f, backend=backend) for f in (through, after_a_split, listed)
    )
    leaf = eager.ones(()).requires_grad_()
    for _ in range(2):
        assert fn(leaf, x) == through(leaf, x) == (None,)
        y = (x * x).sum()
        assert fn(y, x)[0].tolist() == through(y, x)[0].tolist()
        assert split(x)[0].tolist() == after_a_split(x)[0].tolist()
        assert of_a_list()[0].tolist() == listed()[0].tolist()


@program
def ops_without_a_derivative(jit, note, attempt):
    """What they give has a history, which raises only where a gradient would go through it."""

    @jit
    def f(x, w):
        floor = x // 0.5
        step = eager.heaviside(x - 2, w)
        return floor, floor * 3 + w, eager.special.zeta(x + 1, w), step, x * w

    for i in range(5):
        x, w = eager.tensor([1.0, 2.0], requires_grad=True), floats(2).detach().requires_grad_()
        outs = f(x, w)
        note(outs)
        for goal in (x, w, outs[0]):
            for create in (False, True):
                wanted = {"allow_unused": True, "retain_graph": True, "create_graph": create}
                attempt(lambda: note(autograd.grad(outs[i].sum(), goal, **wanted)))  # noqa: B023
        attempt(lambda: outs[i].sum().backward())  # noqa: B023
        note(x, w)


@program
def a_view_whose_base_was_written(jit, note, attempt):
    """It has the base's new history, whatever it looked like when it was made."""
    fn = jit(lambda q: (q * 2).sum())
    note(fn(floats(3, g=False).view(3)))
    for made in (lambda w: w * 3, lambda w: floats(3, g=False), lambda w: w.detach() * 2):
        w = floats(3, seed=2).requires_grad_()
        y = made(w)
        q, rows = y.view(3), y[1:]
        y.mul_(w)
        rows += 1
        loss = fn(q) * fn(y.detach().view(3))
        note(loss)
        loss.backward()
        note(w)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_like_eager(name):
    fn, expected = PROGRAMS[name]
    check(fn, **expected)


def test_a_backward_that_does_not_compile_runs_op_by_op(monkeypatch):
    """It says so once, with the reason, and counts."""
    compile_graph = pipeline.compile_graph

    def fail(graph, *args, **kwargs):
        if graph.name.endswith("backward"):
            raise RecursionError("two rules undo each other")
        return compile_graph(graph, *args, **kwargs)

    monkeypatch.setattr(pipeline, "compile_graph", fail)
    fn = jitcap.jit(lambda x: (x * x).sum(), backend="eager")
    x = floats(3)
    (y, z) = fn(x), fn(x)
    with jitcap.config(strict=False, check=False), pytest.warns(JitcapWarning, match="undo"):
        y.backward()
    z.backward()  # silently
    assert x.grad.tolist() == (4 * x).tolist()
    assert fn.stats.fallbacks == 1
    assert "RecursionError" in fn.stats.refusals[-1]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_hook_changes_again_what_it_has_changed_inside(recwarn, in_place):
    def run(wrap):
        w = eager.tensor([1.0, 2.0, 3.0], requires_grad=True)
        layer, kept, seen = eager.nn.Identity(), {"grad": eager.zeros(3)}, []

        def hook(module, given, grads):
            if in_place:
                kept["grad"].add_(grads[0])
            else:
                kept["grad"] = grads[0]

        layer.register_full_backward_hook(hook)

        def step(x):
            a = layer(x * w)
            a.sin().sum().backward(retain_graph=True)
            return a * 2

        step = wrap(step)
        for k in range(3):
            out = step(eager.tensor([0.5, 1.0, 1.5]) + k)
            seen.append(kept["grad"].tolist())
            (out * out).sum().backward()  # goes through the hook, too
            seen.append(kept["grad"].tolist())
        return seen, w.grad.tolist()

    assert run(lambda f: jitcap.jit(f, backend="eager")) == run(lambda f: f)
