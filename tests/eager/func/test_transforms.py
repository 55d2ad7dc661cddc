"""`eager.autograd.functional` and `eager.func` against PyTorch, and under @jit."""

import numpy as np
import pytest

import eager
from eager import nn
from eager.func import functional_call, grad
from jitcap import jit

X = np.random.default_rng(0).standard_normal((2, 3))
Y = np.random.default_rng(1).standard_normal(3)


def one(t):
    return lambda x: (x**3).sum(-1) * x[0, 0]


def two(t):
    return lambda x, y: (x * y, (y**2).sum())


def scalar(t):
    return lambda x, y: (x * y).sin().sum() * y.sum()


PRODUCTS = {
    "vjp": lambda t, f, x, y: f.vjp(two(t), (x, y), (x * 2, y.sum())),
    "jvp": lambda t, f, x, y: f.jvp(two(t), (x, y), (x * 2, y)),
    "jacobian": lambda t, f, x, y: f.jacobian(two(t), (x, y)),
    "jacobian_of_one": lambda t, f, x, y: f.jacobian(one(t), x),
    "hessian": lambda t, f, x, y: f.hessian(scalar(t), (x, y)),
    "hessian_of_one": lambda t, f, x, y: f.hessian(lambda z: (z**3).prod(), y),
    "vhp": lambda t, f, x, y: f.vhp(scalar(t), (x, y), (x * 2, y)),
    "hvp": lambda t, f, x, y: f.hvp(scalar(t), (x, y), (x * 2, y)),
    "independent": lambda t, f, x, y: f.jacobian(lambda a, b: a.sum(), (x, y)),
}


FUNC = {
    "grad": lambda t, x, y: t.func.grad(scalar(t), (0, 1))(x, y),
    "of_a_gradient": lambda t, x, y: t.func.grad(
        lambda z: (t.func.grad(lambda w: (w**3).sum())(z) * y).sum()
    )(y),
    "of_a_dictionary": lambda t, x, y: t.func.grad_and_value(
        lambda p, z: ((p["w"] @ z).sum() + (p["b"][0] ** 2).sum(), z * 2), has_aux=True
    )({"w": x, "b": [y]}, y),
    "vjp": lambda t, x, y: (lambda out, back: (out, back((x, y.sum()))))(*t.func.vjp(two(t), x, y)),
    "jvp": lambda t, x, y: t.func.jvp(two(t), (x, y), (x * 2, y)),
    "jacrev": lambda t, x, y: t.func.jacrev(two(t), (0, 1))(x, y),
    "hessian": lambda t, x, y: t.func.hessian(scalar(t), (0, 1))(x, y),
}


def arrays(result):
    """All tensors of a result, in order; none has a history."""
    if isinstance(result, dict):
        result = [result[k] for k in sorted(result)]
    if isinstance(result, tuple | list):
        return [a for r in result for a in arrays(r)]
    assert not result.requires_grad
    return [np.asarray(result)]


def assert_same(mine, reference):
    for a, b in zip(arrays(mine), arrays(reference), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", PRODUCTS)
def test_functional(name):
    torch = pytest.importorskip("torch")
    mine, reference = (
        PRODUCTS[name](t, t.autograd.functional, t.tensor(X), t.tensor(Y)) for t in (eager, torch)
    )
    assert_same(mine, reference)


@pytest.mark.parametrize("name", FUNC)
def test_func(name):
    torch = pytest.importorskip("torch")
    mine, reference = (FUNC[name](t, t.tensor(X), t.tensor(Y)) for t in (eager, torch))
    assert_same(mine, reference)


@pytest.mark.parametrize("outer", [False, True])
def test_histories_go_on(outer):
    """create_graph, and a gradient that depends on a tensor which requires one."""
    torch = pytest.importorskip("torch")

    def run(t):
        y = t.tensor(Y, requires_grad=True)
        if outer:
            g = t.func.grad(lambda z: (z**3 * y).sum())(t.tensor(Y))
        else:
            g = t.autograd.functional.jacobian(lambda z: (z**3).sum(), y, create_graph=True)
        (g**2).sum().backward()
        return g.detach(), y.grad

    assert_same(run(eager), run(torch))


def test_errors():
    f = eager.autograd.functional
    x = eager.tensor(Y)
    with pytest.raises(RuntimeError, match="v can only be None if the user-provided function"):
        f.vjp(lambda z: z * 2, x)
    with pytest.raises(RuntimeError, match="should contain a single element"):
        f.hessian(lambda z: z * 2, x)
    with pytest.raises(RuntimeError, match="independent of input 1"):
        f.jacobian(lambda a, b: a.sum(), (x, x), strict=True)
    with pytest.raises(RuntimeError, match="return a scalar tensor"):
        grad(lambda z: z * 2)(x)


def test_under_jit():
    """Model-agnostic meta-learning: a step on the parameters, inside a loss, in one graph."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    @jit
    def step(x, y):
        parameters = dict(model.named_parameters())

        def loss(p):
            return ((functional_call(model, p, (x,)) - y) ** 2).mean()

        g = grad(loss)(parameters)
        after = {k: v - 0.1 * g[k] for k, v in parameters.items()}
        total = loss(after)
        total.backward()
        hessian = eager.autograd.functional.hessian(lambda z: (z**3).sum(), x[0])
        return total.detach(), hessian

    x, y = eager.tensor(X, dtype=eager.float32), eager.ones(2, 1)
    expected = step.original(x, y), [p.grad.numpy().copy() for p in model.parameters()]
    model.zero_grad()
    for a, b in zip(step(x, y), expected[0], strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4)
    for p, g in zip(model.parameters(), expected[1], strict=True):
        np.testing.assert_allclose(p.grad.numpy(), g, rtol=1e-3, atol=1e-6)
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)


def test_the_jacobian_of_a_module_under_jit():
    model = nn.Linear(3, 2)
    step = jit(lambda x: eager.autograd.functional.jacobian(model, x), backend="eager")
    x = eager.ones(3)
    for _ in range(2):
        assert step(x).tolist() == model.weight.tolist()
        with eager.no_grad():
            model.weight.mul_(2)
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)


def test_import_paths():
    from eager.autograd.function import Function

    assert Function is eager.autograd.Function


def test_batch_normalisation_that_keeps_nothing():
    net = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
    assert eager.func.replace_all_batch_norm_modules_(net) is net
    assert [*net.state_dict()] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    rows = eager.randn(3, 4, 2)
    each = eager.vmap(net)(rows)
    assert np.allclose(each[1].detach().numpy(), net(rows[1]).detach().numpy(), atol=1e-6)
