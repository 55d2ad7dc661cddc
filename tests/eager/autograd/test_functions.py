"""Custom functions: every program under torch, eagerly and under @jit: results, gradients, errors."""

import numpy as np
import pytest

import eager
from jitcap import jit

torch = pytest.importorskip("torch")

VALUES = [2.06, 0.7, 1.28]


def leaf(m, scale=1.0):
    return m.tensor(VALUES, dtype=m.float64).mul(scale).requires_grad_()


def function(m, forward, backward, base="Function", **methods):
    """A Function of these methods."""
    members = {"forward": forward, "backward": backward, **methods}
    members = {k: staticmethod(v) if callable(v) else v for k, v in members.items()}
    return type("Mine", (getattr(m.autograd.function, base),), members)


def keeps(ctx, x, y, k):
    ctx.save_for_backward(x, y)
    ctx.k = k
    return x * y * k


def by_backward(backward):
    """A program whose Function of two tensors and a number has this backward."""

    def build(m):
        mine = function(m, keeps, backward)

        def step():
            x, y = leaf(m), leaf(m, 2.0)
            mine.apply(x, y, 2.0).sum().backward()
            return x.grad, y.grad

        return step

    return build


def whole(ctx, g):
    x, y = ctx.saved_tensors
    return g * y * ctx.k, g * x * ctx.k, None


def defaults(m):
    def setup(ctx, inputs, output):
        _, ctx.k, ctx.s = inputs

    mine = function(
        m, lambda x, k=3.0, s=2.0: x * k * s, lambda ctx, g: (g * ctx.k * ctx.s, None, None),
        setup_context=setup,
    )  # fmt: skip

    def step():
        x = leaf(m)
        a, b, c = mine.apply(x), mine.apply(x, 4.0), mine.apply(x, s=5.0)
        (a * b + c).sum().backward()
        return a, b, c, x.grad

    return step


def named(m):
    mine = function(m, lambda ctx, x, k=3.0: x * k, lambda ctx, g: (g * 5, None))

    def step():
        x = leaf(m)
        a, b = mine.apply(x), mine.apply(x, k=2.0)
        (a * b).sum().backward()
        return a, b, x.grad

    return step


def dirty(m):
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)

    mine = function(m, forward, lambda ctx, g: g * 3)

    def step():
        x = leaf(m)
        h = x * 2
        y = mine.apply(h)
        (h * y).sum().backward()
        return y, y is h, x.grad

    return step


def dirty_leaf(m):
    step = dirty(m)
    return lambda: (step(), function(m, _marks, lambda ctx, g: g).apply(leaf(m)))


def _marks(ctx, x):
    ctx.mark_dirty(x)
    return x


def dirty_lost(m):
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        x.mul_(3)
        return y * 1

    mine = function(m, forward, lambda ctx, g: (g, g))
    return lambda: mine.apply(leaf(m) * 2, leaf(m))


def every_result(m, materialize=True):
    got = []

    def forward(ctx, x):
        ctx.set_materialize_grads(materialize)
        return x * 2, 5, x.argmax(), x * 3, None

    def backward(ctx, *grads):
        got.extend(grads)
        return grads[0]

    mine = function(m, forward, backward)

    def step():
        got.clear()
        x = leaf(m)
        out = mine.apply(x)
        out[0].sum().backward()
        return (*out, x.grad, *got)

    return step


def once(m):
    mark = m.autograd.function.once_differentiable
    mine = function(m, keeps, mark(whole))

    def step():
        x = leaf(m)
        y = mine.apply(x, x * 2, 1.0)
        (y * y).sum().backward()
        return y, x.grad

    return step


def once_twice(m):
    mark = m.autograd.function.once_differentiable
    mine = function(m, keeps, mark(whole))

    def step():
        x = leaf(m)
        y = mine.apply(x, x.detach(), 1.0)
        (g,) = m.autograd.grad((y * y).sum(), x, create_graph=True)
        g.sum().backward()

    return step


def twice(m):
    mine = function(m, keeps, whole)

    def step():
        x = leaf(m)
        y = mine.apply(x, x * x, 3.0)
        (g,) = m.autograd.grad((y * y).sum(), x, create_graph=True)
        (g * g).sum().backward()
        return g, x.grad

    return step


def freed(m):
    mine = function(m, keeps, whole)

    def step():
        x = leaf(m)
        y = mine.apply(x, x, 1.0)
        y.backward(x.detach())
        y.backward(x.detach())

    return step


def saves_a_number(m):
    mine = function(m, lambda ctx, x: ctx.save_for_backward(x, 3), None)
    return lambda: mine.apply(leaf(m))


def recomputes(m):
    def forward(ctx, fn, x):
        ctx.fn = fn
        ctx.save_for_backward(x)
        return fn(x)

    def backward(ctx, g):
        with m.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            out = ctx.fn(x)
        out.backward(g)
        return None, x.grad

    mine = function(m, forward, backward)
    weight = leaf(m, 0.5)

    def step():
        x = leaf(m)
        weight.grad = None
        y = mine.apply(lambda t: (t * weight).tanh(), x)
        y.sum().backward()
        return y, x.grad, weight.grad

    return step


def of_numpy(m):
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return m.from_numpy(np.sin(x.numpy()))

    def backward(ctx, g):
        return m.from_numpy(np.cos(ctx.saved_tensors[0].numpy()) * g.numpy())

    mine = function(m, forward, backward)

    def step():
        x = leaf(m)
        y = mine.apply(x * 2)
        y.sum().backward()
        with m.no_grad():
            return y, x.grad, float(x.numpy().sum())

    return step


def through_its_node(m):
    mine = function(m, keeps, whole)

    def step():
        x = leaf(m)
        node = mine.apply(x, x * 2, 3.0).grad_fn
        return node.name(), node.k, *node.saved_tensors, node.needs_input_grad

    return step


def in_place_base(m):
    def forward(ctx, x, inplace=False):
        if inplace:
            ctx.mark_dirty(x)
        return (x if inplace else x.clone()).round_()

    mine = function(m, forward, lambda ctx, g: (g, None), base="InplaceFunction")

    def step():
        x = leaf(m)
        y, z = mine.apply(x, False), mine.apply(x * 2, True)
        (y * z).sum().backward()
        return y, z, x.grad

    return step


def called_vjp(m):
    mine = type("Mine", (m.autograd.Function,), {
        "forward": staticmethod(lambda ctx, x: x * 3), "vjp": staticmethod(lambda ctx, g: g * 5),
    })  # fmt: skip

    def step():
        x = leaf(m)
        mine.apply(x).sum().backward()
        return x.grad

    return step


def called_both(m):
    mine = function(m, lambda ctx, x: x * 3, lambda ctx, g: g, vjp=lambda ctx, g: g)
    return lambda: mine.apply(leaf(m)).sum().backward()


PROGRAMS = {
    f.__name__: f
    for f in (
        defaults, named, dirty, dirty_leaf, dirty_lost, every_result, once, once_twice, twice, freed,
        saves_a_number, recomputes, of_numpy, through_its_node, in_place_base, called_vjp,
        called_both,
    )
} | {
    "unmaterialized": lambda m: every_result(m, materialize=False),
    "whole": by_backward(whole),
    "too few": by_backward(lambda ctx, g: (g, g)),
    "too many": by_backward(lambda ctx, g: (g, g, None, g)),
    "Nones behind": by_backward(lambda ctx, g: (g, g, None, None, None)),
    "a list": by_backward(lambda ctx, g: [g, g, None]),
    "a number": by_backward(lambda ctx, g: (g, 3.0, None)),
    "for no tensor": by_backward(lambda ctx, g: (g, g, g)),
    "another shape": by_backward(lambda ctx, g: (g[:2], g, None)),
    "a wider shape": by_backward(lambda ctx, g: (g.expand(4, 3), g, None)),
    "another dtype": by_backward(lambda ctx, g: (g.float(), g, None)),
    "nothing": by_backward(lambda ctx, g: None),
    "no gradients": by_backward(lambda ctx, g: (None, None, None)),
}  # fmt: skip


def outcome(step):
    try:
        result = step()
    except Exception as error:
        return type(error).__name__, str(error)[:30]
    return tuple(map(_plain, result if isinstance(result, tuple) else (result,)))


def _plain(x):
    is_tensor = isinstance(x, eager.Tensor | torch.Tensor)
    return (str(x.dtype).split(".")[-1], x.tolist()) if is_tensor else x


def agree(a, b):
    if not isinstance(a, list | tuple | float):
        return a == b
    if isinstance(a, float):
        return b == pytest.approx(a, rel=1e-9)
    return len(a) == len(b) and all(map(agree, a, b))


@pytest.mark.filterwarnings("ignore:@jit")  # NumPy asks for values
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch_eagerly_and_compiled(name):
    build = PROGRAMS[name]
    expected = outcome(build(torch))
    assert agree(expected, outcome(build(eager)))
    compiled = jit(build(eager))
    for _ in range(2):
        assert agree(expected, outcome(compiled))


def test_an_object_of_it_is_not_called():
    mine = function(eager, lambda ctx, x: x, lambda ctx, g: g)
    with pytest.raises(RuntimeError, match="static forward method"):
        mine()(leaf(eager))


def test_forward_derivatives_come_from_backward():
    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    mine = function(
        eager, lambda x: x**2, lambda ctx, g: 2 * ctx.saved_tensors[0] * g, setup_context=setup,
        jvp=None, vmap=None, generate_vmap_rule=True,
    )  # fmt: skip
    x = leaf(eager).detach()
    value, tangent = eager.func.jvp(mine.apply, (x,), (x + 1,))
    assert agree(value.tolist(), (x**2).tolist())
    assert agree(tangent.tolist(), (2 * x * (x + 1)).tolist())
    assert agree(eager.func.vmap(mine.apply)(x).tolist(), (x**2).tolist())
