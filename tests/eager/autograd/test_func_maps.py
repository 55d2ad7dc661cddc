"""`vmap`, `jacfwd`, `linearize` and stacked models, finite differences, anomaly detection: against torch."""

import numpy as np
import pytest

import eager
from jitcap import JitcapWarning, jit

X = np.random.default_rng(0).standard_normal((3, 4))
Y = np.random.default_rng(1).standard_normal((4, 3))


def maps():
    yield lambda t, x, y: t.vmap(lambda a: a.sin().sum())(x)
    yield lambda t, x, y: t.func.vmap(lambda a, b: a @ b, in_dims=(0, 1))(x, y)
    yield lambda t, x, y: t.vmap(lambda a, b: a * b, in_dims=(1, None), out_dims=1)(x, x[:, 0])
    yield lambda t, x, y: t.vmap(lambda d: {"a": d["u"] + d["v"][0], "b": d["u"] * 2})(
        {"u": x, "v": [y.t()]}
    )["a"]
    yield lambda t, x, y: t.vmap(lambda a: (a, a.exp()), out_dims=(0, -1))(x)[1]
    yield lambda t, x, y: t.vmap(t.func.grad(lambda a: (a**3).sum()))(x)
    yield lambda t, x, y: t.vmap(t.vmap(lambda a, b: a * b, (0, None)), (0, 0))(x, y.t()[:, 0])
    yield lambda t, x, y: t.func.jacfwd(lambda a: (a @ y).sin())(x)
    yield lambda t, x, y: t.func.jacfwd(lambda a, b: (a @ b, a * 2), argnums=(0, 1))(x, y)[0][1]
    yield lambda t, x, y: t.func.jacfwd(t.func.jacrev(lambda a: (a**3).sum()))(x)
    yield lambda t, x, y: t.func.hessian(lambda a: (a**3).sum())(x[0])
    yield lambda t, x, y: t.func.linearize(lambda a: a.exp(), x)[1](x * 2)


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node:UserWarning")
@pytest.mark.parametrize("program", [*maps()])
def test_functions_of_functions(program):
    torch = pytest.importorskip("torch")
    ours = program(eager, eager.tensor(X), eager.tensor(Y))
    theirs = program(torch, torch.tensor(X), torch.tensor(Y))
    assert ours.shape == tuple(theirs.shape)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@pytest.mark.parametrize("program", [*maps()])
def test_functions_of_functions_compiled(program):
    step = jit(lambda x, y: program(eager, x, y), fullgraph=True, backend="eager")
    x, y = eager.tensor(X), eager.tensor(Y)
    np.testing.assert_allclose(step(x, y), program(eager, x, y), rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda t: t.vmap(lambda a: a)(), "no"),
        (lambda t: t.vmap(lambda a: a)(3), "non-Tensor"),
        (lambda t: t.vmap(lambda a, b: a + b)(t.ones(2), t.ones(3)), "same size in the mapped"),
        (lambda t: t.vmap(lambda a: a, in_dims=2)(t.ones(2)), "dimensionality 1"),
        (lambda t: t.vmap(lambda a: 3)(t.ones(2)), "must only return Tensors"),
        (lambda t: t.vmap(lambda a: a, in_dims=(0, 0))(t.ones(2)), "not compatible"),
    ],
)
def test_maps_that_torch_refuses(call, said):
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match=said):
        call(eager)
    with pytest.raises(ValueError):
        call(torch)


def test_random_numbers_in_maps():
    x = eager.zeros(4, 1000)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        eager.vmap(lambda a: a + eager.rand(1000))(x)
    same = eager.vmap(lambda a: a + eager.rand(1000), randomness="same")(x)
    assert same[0].equal(same[3])
    other = eager.vmap(lambda a: a + eager.rand(1000), randomness="different")(x)
    assert not other[0].equal(other[1])


def test_an_ensemble():
    """Models of one kind, stacked, and one call for all of them."""
    models = [eager.nn.Linear(4, 2) for _ in range(3)]
    parameters, buffers = eager.func.stack_module_state(models)

    def call(p, b, x):
        return eager.func.functional_call(models[0], (p, b), (x,))

    x = eager.tensor(X).float()
    together = eager.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)
    for one, model in zip(together, models, strict=True):
        np.testing.assert_allclose(one.detach(), model(x).detach(), rtol=1e-5)
    together.sum().backward()
    assert parameters["weight"].grad.shape == (3, 2, 4)


class Wrong(eager.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g


def test_gradients_and_differences():
    x = eager.tensor(X, requires_grad=True)
    y = eager.tensor(Y, requires_grad=True)
    check, twice = eager.autograd.gradcheck, eager.autograd.gradgradcheck
    assert check(lambda a, b: ((a @ b).sin(), a.exp()), (x, y))
    assert twice(lambda a, b: (a @ b).sin(), (x, y))
    assert check(eager.nn.functional.softmax, (x, 1))
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input"):
        check(Wrong.apply, x)
    assert not check(Wrong.apply, x, raise_exception=False)
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        check(lambda a: a, (x.detach(),))
    np.testing.assert_array_equal(x.detach(), X)


def test_anomalies_are_found():
    """The derivative is named, the call of its operation told; outside, NaN is a gradient."""
    x = eager.tensor([0.0, 1.0], requires_grad=True)

    def loss():
        return (x.sqrt() * eager.tensor([0.0, 1.0])).sum()

    loss().backward()
    assert x.grad[0].isnan()

    def watched():
        with pytest.warns(UserWarning, match="takes time"):
            detecting = eager.autograd.detect_anomaly()
        with detecting:
            assert eager.is_anomaly_enabled()
            loss().backward()

    said = "'SqrtBackward0' returned nan values in its 0th output"
    with pytest.warns(UserWarning, match="Error detected in SqrtBackward0"):  # noqa: SIM117
        with pytest.raises(RuntimeError, match=said):
            watched()
    assert not eager.is_anomaly_enabled()
    with eager.autograd.set_detect_anomaly(True, check_nan=False):
        loss().backward()
    eager.autograd.set_detect_anomaly(True)
    eager.autograd.set_detect_anomaly(False)
    loss().backward()


def test_anomalies_in_a_compiled_function():
    x = eager.tensor([0.0, 1.0], requires_grad=True)

    @jit
    def step():
        with eager.autograd.detect_anomaly():
            loss = (x.sqrt() * eager.tensor([0.0, 1.0])).sum()
            loss.backward()
        return loss

    with pytest.warns((UserWarning, JitcapWarning)) as told:  # noqa: SIM117
        with pytest.raises(RuntimeError, match="returned nan values"):
            step()
    assert any("detect_anomaly looks at every gradient" in str(w.message) for w in told)
    assert not eager.is_anomaly_enabled()
