"""Functions with a `jvp` or a `vmap` of their own: every program under torch, eagerly and compiled."""

import numpy as np
import pytest

import eager
from jitcap import jit

torch = pytest.importorskip("torch")

VALUES = [[2.06, 0.7, 1.28], [0.4, -1.3, 0.9]]


def values(m):
    return m.tensor(VALUES, dtype=m.float64)


def cube(m, **methods):
    """x**3 and its derivative; without `backward` where none is given."""

    def setup(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x, output[1])
        ctx.save_for_forward(output[1], x)  # in another order: jvp gets these

    def jvp(ctx, tangent):
        dx, x = ctx.saved_tensors
        return tangent * dx, 6 * x * tangent

    members = {
        "forward": lambda x: (x**3, 3 * x**2), "setup_context": setup, "jvp": jvp,
        "generate_vmap_rule": True, **methods,
    }  # fmt: skip
    members = {k: staticmethod(v) if callable(v) else v for k, v in members.items()}
    return type("Cube", (m.autograd.Function,), members).apply


def both(ctx, g, of_dx):
    x, dx = ctx.saved_tensors
    return g * dx + of_dx * 6 * x


def jvp_alone(m):
    fn = cube(m)
    x = values(m)
    return m.func.jvp(fn, (x,), (x + 1,)), m.func.jacfwd(lambda y: fn(y)[0])(x[0])


def jvp_of_another_derivative(m):
    """Forward derivatives are what `jvp` says, whatever `backward` does."""
    fn = cube(m, backward=lambda ctx, g, of_dx: 2 * both(ctx, g, of_dx))
    x = values(m)[0]
    (g,) = m.autograd.grad(fn(x.requires_grad_())[0].sum(), x)
    return m.func.jvp(lambda y: fn(y)[0], (x.detach(),), (x.detach() + 1,)), g


def forward_over_reverse(m):
    fn = cube(m, backward=both)
    return m.func.jacfwd(m.func.jacrev(lambda y: fn(y)[0]))(values(m)[0])


def dual_numbers(m):
    ad = m.autograd.forward_ad
    with ad.dual_level():
        out = cube(m)(ad.make_dual(values(m), values(m) + 1))
        return tuple(ad.unpack_dual(each).tangent for each in out)


def jvp_in_vmap(m):
    fn = cube(m)
    x = values(m)
    return m.vmap(lambda a, b: m.func.jvp(lambda y: fn(y)[0], (a,), (b,)))(x, x + 1)


def with_a_number(m):
    class Scaled(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, k, y):
            ctx.k = k
            ctx.save_for_forward(x, y)
            return x * y * k

        @staticmethod
        def jvp(ctx, dx, _, dy):
            x, y = ctx.saved_tensors
            return ctx.k * (dx * y + x * dy)

    x = values(m)
    fn = Scaled.apply
    with m.autograd.forward_ad.dual_level():
        dual = m.autograd.forward_ad.make_dual(x, x + 1)
        return m.autograd.forward_ad.unpack_dual(fn(dual * 2, 3.0, dual)).tangent


def sort(m):
    """NumPy's sort: no rule follows for what leaves the library."""

    class Sort(m.autograd.Function):
        @staticmethod
        def forward(x, dim):
            order = np.argsort(x.detach().numpy(), axis=dim)
            back = np.argsort(order, axis=dim)
            found = np.take_along_axis(x.detach().numpy(), order, axis=dim)
            return m.tensor(found), m.tensor(order), m.tensor(back)

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, ctx.dim = inputs
            ctx.mark_non_differentiable(*output[1:])
            ctx.save_for_backward(*output[1:])

        @staticmethod
        def backward(ctx, g, *_):
            order, back = ctx.saved_tensors
            return Take.apply(g, back, order, ctx.dim), None

        @staticmethod
        def vmap(info, in_dims, x, dim):
            assert (info.batch_size, info.randomness) == (2, "error")
            x = x.movedim(in_dims[0], 0)
            dim = dim if dim >= 0 else dim + x.dim() - 1
            return Sort.apply(x, dim + 1), (0, 0, 0)

    class Take(m.autograd.Function):
        @staticmethod
        def forward(x, order, back, dim):
            return m.tensor(np.take_along_axis(x.detach().numpy(), order.numpy(), dim))

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, *orders, ctx.dim = inputs
            ctx.save_for_backward(*orders)

        @staticmethod
        def backward(ctx, g):
            order, back = ctx.saved_tensors
            return Take.apply(g, back, order, ctx.dim), None, None, None

        @staticmethod
        def vmap(info, in_dims, x, order, back, dim):
            dim = dim if dim >= 0 else dim + x.dim() - (in_dims[0] is not None)
            each = [
                t.expand(info.batch_size, *t.shape) if d is None else t.movedim(d, 0)
                for t, d in zip((x, order, back), in_dims, strict=False)
            ]
            return Take.apply(*each, dim + 1), 0

    return lambda x, dim=-1: Sort.apply(x, dim)[0]


def sorted_examples(m):
    return m.vmap(sort(m))(values(m)), m.vmap(sort(m), in_dims=1)(values(m)[:, :2])


def gradients_of_examples(m):
    fn, weights = sort(m), m.arange(3, dtype=m.float64)
    return m.vmap(m.func.grad(lambda x: (fn(x) * weights).sum() ** 2))(values(m))


def gradient_of_all(m):
    x = values(m).requires_grad_()
    (m.vmap(sort(m))(x) * m.arange(3, dtype=m.float64)).sum().backward()
    return x.grad


def second_derivative_in_vmap(m):
    fn = sort(m)
    return m.vmap(m.func.jacrev(m.func.grad(lambda x: (fn(x) ** 3).sum())))(values(m))


PROGRAMS = {
    f.__name__: f
    for f in (
        jvp_alone, jvp_of_another_derivative, forward_over_reverse, dual_numbers, jvp_in_vmap, with_a_number,
        sorted_examples, gradients_of_examples, gradient_of_all, second_derivative_in_vmap,
    )
}  # fmt: skip


def plain(x):
    """All numbers, in their order."""
    if isinstance(x, tuple | list):
        return [number for each in x for number in plain(each)]
    return x.flatten().tolist()


@pytest.mark.filterwarnings("ignore:@jit")
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch_eagerly_and_compiled(name):
    build = PROGRAMS[name]
    expected = plain(build(torch))
    step = jit(lambda: build(eager))
    for found in (plain(build(eager)), plain(step()), plain(step())):
        assert found == pytest.approx(expected, rel=1e-9)


def test_a_backward_follows_from_jvp():
    """More than PyTorch does, which raises."""
    x = values(eager).requires_grad_()
    out = cube(eager)(x)
    (out[0] * 2 + out[1]).sum().backward(retain_graph=True)
    assert x.grad.tolist() == (6 * x**2 + 6 * x).tolist()
    (g,) = eager.autograd.grad(out[0].sum(), x, create_graph=True)
    assert eager.autograd.grad(g.sum(), x)[0].tolist() == (6 * x).tolist()
    compiled = jit(lambda y: (cube(eager)(y)[0] * 2).sum())
    y = values(eager).requires_grad_()
    compiled(y).backward()
    assert y.grad.tolist() == (6 * y**2).tolist()


def test_tangents_of_tangents():
    """PyTorch gives zeros."""
    x, fn = values(eager), cube(eager)

    def slope(y):
        return eager.func.jvp(lambda z: fn(z)[0], (y,), (y + 1,))[1]

    found = eager.func.jvp(slope, (x,), (x - 1,))[1]
    expected = (6 * x * (x + 1) + 3 * x**2) * (x - 1)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)


def test_what_does_not_fit_is_said():
    fn = cube(eager, jvp=lambda ctx, tangent: tangent)
    with pytest.raises(RuntimeError, match="2 results returned 1 tangents"):
        eager.func.jvp(fn, (values(eager),), (values(eager),))

    class Old(eager.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def vmap(info, in_dims, x):
            return x, in_dims[0]

    with pytest.raises(RuntimeError, match="needs the setup_context staticmethod"):
        eager.vmap(Old.apply)(values(eager))
