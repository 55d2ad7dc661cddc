"""Parametrized weights against torch's: values, gradients, state dicts; copies; the same in compiled code."""

import copy
import pickle

import numpy as np
import pytest

import eager
from eager.nn.utils import parametrizations, parametrize
from jitcap import jit


class Symmetric(eager.nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).mT

    def right_inverse(self, a):
        return a.triu()


class Doubled(eager.nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, a):
        return a / 2


class RankOne(eager.nn.Module):
    def forward(self, x, y):
        return x.unsqueeze(-1) @ y.unsqueeze(-2)

    def right_inverse(self, z):
        return z[:, 0], z[0]


def array(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


MAPS = [
    ("orthogonal", (6, 4), {}),
    ("orthogonal", (4, 4), {}),
    ("orthogonal", (3, 5), {"orthogonal_map": "cayley"}),
    ("orthogonal", (5, 3), {"orthogonal_map": "householder", "use_trivialization": False}),
    ("weight_norm", (6, 4), {}),
    ("weight_norm", (6, 4), {"dim": None}),
    ("weight_norm", (6, 4), {"dim": 1}),
    ("spectral_norm", (6, 4), {}),
    ("spectral_norm", (6, 4), {"n_power_iterations": 3, "dim": 1}),
]


@pytest.mark.parametrize(("name", "shape", "kwargs"), MAPS, ids=str)
def test_against_torch(name, shape, kwargs):
    """A step of training with torch's state, and one more with what it became."""
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Linear(shape[1], shape[0])
    theirs.weight.data = torch.from_numpy(array(*shape))
    getattr(torch.nn.utils.parametrizations, name)(theirs, **kwargs)
    ours = getattr(parametrizations, name)(eager.nn.Linear(shape[1], shape[0]), **kwargs)
    assert str(ours) == str(theirs)
    state = {k: eager.tensor(v.numpy().copy()) for k, v in theirs.state_dict().items()}
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict(state)
    x = array(5, shape[1], seed=1)
    for _ in range(2):
        outs = []
        for module, given in ((theirs, torch.from_numpy(x)), (ours, eager.tensor(x))):
            out = module(given)
            (out * out).sum().backward()
            outs.append(out)
        np.testing.assert_allclose(outs[1].detach().numpy(), outs[0].detach().numpy(), 1e-4, 1e-4)
    for (key, a), (other, b) in zip(
        ours.named_parameters(), theirs.named_parameters(), strict=True
    ):
        assert key == other
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), 1e-3, 1e-3)
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[key].numpy(), value.numpy(), 1e-4, 1e-4)


@pytest.mark.parametrize(
    "how", [{}, {"orthogonal_map": "cayley"}, {"use_trivialization": False}], ids=str
)
def test_orthogonal_starts_from_an_orthogonal_weight(how):
    layer = eager.nn.Linear(3, 5)
    before = eager.linalg.qr(eager.tensor(array(5, 3)))[0]
    with eager.no_grad():
        layer.weight.copy_(before)
    parametrizations.orthogonal(layer, **how)
    assert eager.allclose(layer.weight, before, atol=1e-5)
    assert eager.allclose(layer.weight.mT @ layer.weight, eager.eye(3), atol=1e-5)
    layer.weight = eager.tensor(array(5, 3, seed=2))
    assert eager.allclose(layer.weight.mT @ layer.weight, eager.eye(3), atol=1e-5)


def test_parametrizations_compose_and_take_values():
    layer = eager.nn.Linear(3, 3)
    weight = layer.weight
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert parametrize.is_parametrized(layer, "weight") and not parametrize.is_parametrized(
        layer, "bias"
    )
    assert layer.parametrizations.weight.original is weight  # the optimizer's
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, eager.nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is eager.nn.Linear
    given = eager.tensor(array(3, 3))
    given = given + given.mT
    layer.weight = given
    assert eager.allclose(layer.weight, given)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is eager.nn.Linear and layer.weight is weight
    assert eager.allclose(weight, given) and list(layer.state_dict()) == ["bias", "weight"]


def test_several_originals():
    layer = parametrize.register_parametrization(
        eager.nn.Linear(4, 3), "weight", RankOne(), unsafe=True
    )
    assert [n for n, _ in layer.parametrizations.weight.named_parameters()] == [
        "original0",
        "original1",
    ]
    assert int(eager.linalg.matrix_rank(layer.weight)) == 1
    with pytest.raises(ValueError, match="sequence of tensors"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, eager.nn.Parameter)


class Wider(eager.nn.Module):
    def forward(self, x):
        return eager.cat([x, x])


class Double(eager.nn.Module):
    def forward(self, x):
        return x.double()


@pytest.mark.parametrize(("bad", "text"), [(Wider, "shape"), (Double, "dtype")])
def test_what_does_not_fit_is_refused(bad, text):
    layer = eager.nn.Linear(3, 3)
    for _ in range(2):
        with pytest.raises(ValueError, match=f"may not change the {text}"):
            parametrize.register_parametrization(layer, "weight", bad())
        assert isinstance(layer.weight, eager.Tensor) and layer.weight.shape == (3, 3)
        parametrize.register_parametrization(layer, "weight", Doubled())
    with pytest.raises(ValueError, match="does not have a parameter"):
        parametrize.register_parametrization(layer, "wait", Doubled())
    with pytest.raises(ValueError, match="does not have a parametrization on bias"):
        parametrize.remove_parametrizations(layer, "bias")


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"]
)
def test_copies(copied):
    layer = parametrizations.weight_norm(eager.nn.Linear(3, 4))
    other = copied(layer)
    assert type(other) is type(layer) and eager.equal(other.weight, layer.weight)
    with eager.no_grad():
        other.parametrizations.weight.original0.mul_(2)
    assert eager.allclose(other.weight, layer.weight * 2)


def test_transfer():
    source = parametrize.register_parametrization(eager.nn.Linear(3, 3), "weight", Symmetric())
    target = parametrize.transfer_parametrizations_and_params(source, eager.nn.Linear(3, 3))
    assert eager.equal(target.weight, source.weight) and parametrize.is_parametrized(
        target, "weight"
    )


def test_the_older_names_of_weight_norm_load():
    with pytest.warns(FutureWarning, match="parametrizations"):
        older = eager.nn.utils.weight_norm(eager.nn.Linear(3, 4))
    layer = parametrizations.weight_norm(eager.nn.Linear(3, 4))
    model = eager.nn.Sequential(layer)
    model.load_state_dict({f"0.{k}": v for k, v in older.state_dict().items()})
    x = eager.tensor(array(2, 3))
    assert eager.allclose(model(x), older(x))


def test_cached():
    calls = []

    class Counted(eager.nn.Module):
        def forward(self, x):
            calls.append(1)
            return x

    layer = parametrize.register_parametrization(
        eager.nn.Linear(3, 3), "weight", Counted(), unsafe=True
    )
    with parametrize.cached():
        assert layer.weight is layer.weight and len(calls) == 1
    assert layer.weight is not None and len(calls) == 2


@pytest.mark.parametrize("together", [False, True])
def test_compiled(together):
    """A training step of all three is one graph, follows eager, and writes the vectors of the power iteration."""

    def train(wrap):
        eager.manual_seed(0)
        model = eager.nn.Sequential(
            parametrizations.weight_norm(eager.nn.Linear(3, 4)),
            parametrizations.spectral_norm(eager.nn.Linear(4, 4)),
            parametrizations.orthogonal(eager.nn.Linear(4, 2)),
        )
        opt = eager.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            opt.zero_grad()
            if together:
                with parametrize.cached():
                    loss = (model(x) + model(x)).square().sum()
            else:
                loss = model(x).square().sum()
            loss.backward()
            opt.step()
            return loss

        step = wrap(step)
        losses = [float(step(eager.tensor(array(5, 3, seed=i)))) for i in range(3)]
        return losses, model.state_dict(), step

    losses, state, _ = train(lambda f: f)
    found, same, step = train(lambda f: jit(f, backend="python", fullgraph=True))
    np.testing.assert_allclose(found, losses, 1e-5)
    assert step.stats.compiles == 1
    for key, value in state.items():
        np.testing.assert_allclose(same[key].numpy(), value.numpy(), 1e-4, 1e-5, err_msg=key)
