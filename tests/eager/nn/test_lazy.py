"""Lazy modules: sizes from the first input, copies and states before it, under `jit`, against torch."""

import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import eager  # noqa: E402
from jitcap import JitcapWarning, jit  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:Lazy modules are a new feature")
CASES = [
    ("LazyLinear", (4,), {}, (2, 5, 3)),
    ("LazyLinear", (4,), {"bias": False}, (3,)),
    ("LazyConv1d", (4, 3), {"padding": 1}, (2, 3, 7)),
    ("LazyConv2d", (4, 3), {"groups": 2, "bias": False}, (2, 6, 5, 4)),
    ("LazyConv2d", (4, (3, 2)), {"padding_mode": "reflect", "padding": 1}, (3, 5, 4)),
    ("LazyConv3d", (4, 2), {}, (2, 3, 3, 4, 3)),
    ("LazyConvTranspose1d", (4, 3), {"stride": 2}, (2, 3, 7)),
    ("LazyConvTranspose2d", (4, 3), {"groups": 2}, (2, 6, 5, 4)),
    ("LazyConvTranspose3d", (4, 2), {}, (2, 3, 3, 4, 3)),
    ("LazyBatchNorm1d", (), {}, (4, 3)),
    ("LazyBatchNorm2d", (), {"affine": False}, (4, 3, 5, 4)),
    ("LazyBatchNorm3d", (), {"track_running_stats": False}, (4, 3, 2, 2, 2)),
    ("LazyInstanceNorm1d", (), {"affine": True}, (4, 3, 5)),
    ("LazyInstanceNorm2d", (), {"track_running_stats": True}, (4, 3, 5, 4)),
    ("LazyInstanceNorm3d", (), {}, (4, 3, 2, 2, 3)),
]


@pytest.mark.parametrize(("name", "args", "kwargs", "shape"), CASES, ids=lambda v: str(v)[:40])
def test_becomes_its_layer(name, args, kwargs, shape):
    """Names before, class, printing, state and results after."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    ours, theirs = (getattr(lib.nn, name)(*args, **kwargs) for lib in (eager, torch))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert repr(ours) == repr(theirs)
    early = copy.deepcopy(ours)
    assert ours.has_uninitialized_params() == theirs.has_uninitialized_params()
    wanted = theirs(torch.from_numpy(x))
    state = {k: eager.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()}
    ours(eager.from_numpy(x))
    assert type(ours).__name__ == type(theirs).__name__ == name.removeprefix("Lazy")
    assert repr(ours) == repr(theirs)
    assert [tuple(p.shape) for p in ours.parameters()] == [
        tuple(p.shape) for p in theirs.parameters()
    ]
    for module in (ours, early):  # a state gives parameters their shapes, too
        module.load_state_dict(state)
        result = module.train(False)(eager.from_numpy(x))
        again = theirs.eval()(torch.from_numpy(x))
        np.testing.assert_allclose(result.detach(), again.detach(), rtol=1e-4, atol=1e-5)
    assert result.shape == tuple(wanted.shape)


def test_a_parameter_without_a_shape():
    """What can be asked of it, and what is refused."""
    layer = eager.nn.LazyLinear(4, dtype=eager.float64)
    p = layer.weight
    assert isinstance(p, eager.nn.UninitializedParameter)
    assert isinstance(p, eager.nn.Parameter)
    assert repr(p) == "<UninitializedParameter>"
    assert p.requires_grad and p.dtype is eager.float64
    for use in (lambda: p + 1, lambda: p.sum(), lambda: eager.nn.functional.relu(p)):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter"):
            use()
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
        _ = p.shape
    layer.float()
    again = pickle.loads(pickle.dumps(layer))
    assert again(eager.ones(2, 3)).dtype is eager.float32
    p.materialize((2, 5))
    assert type(p) is eager.nn.Parameter
    assert p.shape == (2, 5) and p.requires_grad and p.is_leaf


def test_sizes_that_do_not_fit():
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        eager.nn.LazyConv2d(4, 3, groups=2)(eager.ones(1, 3, 5, 5))
    with pytest.raises(RuntimeError, match="Expected 3D"):
        eager.nn.LazyConv2d(4, 3)(eager.ones(1, 3))
    with pytest.raises(ValueError, match="expected 4D input"):
        eager.nn.LazyBatchNorm2d()(eager.ones(1, 3))


def test_first_called_in_a_compiled_function():
    """The first call splits, with the reason; from then on the layer is compiled."""
    net = eager.nn.Sequential(eager.nn.LazyLinear(4), eager.nn.ReLU(), eager.nn.LazyLinear(2))
    step = jit(lambda x: net(x) * 2)
    x = eager.randn(3, 5)
    with pytest.warns(JitcapWarning) as told:
        first = step(x)
    assert any("uninitialized parameter" in str(w.message) for w in told)
    assert [type(m).__name__ for m in net] == ["Linear", "ReLU", "Linear"]
    np.testing.assert_allclose(first.detach(), (net(x) * 2).detach(), rtol=1e-5)
    whole = jit(lambda x: net(x) * 2, fullgraph=True)
    np.testing.assert_allclose(whole(x).detach(), first.detach(), rtol=1e-5)
    assert whole.stats.splits == 0


def test_trains_compiled_like_its_layer():
    net = eager.nn.LazyLinear(2)
    net(eager.ones(1, 3))
    twin = copy.deepcopy(net)
    x = eager.randn(4, 3)
    for module, wrap in ((net, jit), (twin, lambda f: f)):
        optimizer = eager.optim.SGD(module.parameters(), lr=0.1)

        def step(module=module, optimizer=optimizer):
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = wrap(step)
        for _ in range(3):
            run()
    np.testing.assert_allclose(net.weight.detach(), twin.weight.detach(), rtol=1e-5)
