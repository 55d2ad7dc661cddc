"""Pruning against torch: masks, names, training with masks (eager and compiled), removal."""

import importlib

import numpy as np
import pytest

import eager
from jitcap import jit

torch = pytest.importorskip("torch")
importlib.import_module("torch.nn.utils.prune")


def weights(lib, *shape, seed=0):
    rng = np.random.default_rng(seed)
    return lib.tensor(rng.standard_normal(shape).astype(np.float32))


def arrays(module):
    return {k: v.detach().numpy().copy() for k, v in module.state_dict().items()}


def program(lib, wrap):
    nn, prune = lib.nn, lib.nn.utils.prune
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    with lib.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(weights(lib, *p.shape, seed=i))
    seen = []
    prune.l1_unstructured(net[0], "weight", amount=0.3)
    seen.append(arrays(net))
    prune.ln_structured(net[0], "weight", amount=0.5, n=2, dim=0)
    prune.custom_from_mask(net[2], "bias", lib.tensor([0, 1, 1]))
    both = [(net[0], "weight"), (net[2], "weight")]
    prune.global_unstructured(both, pruning_method=prune.L1Unstructured, amount=0.2)
    seen += [arrays(net), prune.is_pruned(net), [n for n, _ in net.named_parameters()]]
    optimizer = lib.optim.SGD(net.parameters(), lr=0.1)

    @wrap
    def step(x):
        optimizer.zero_grad()
        loss = (net(x) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    seen += [step(weights(lib, 5, 4, seed=i)).item() for i in range(2)]
    seen.append(arrays(net))
    for module, name in ((net[0], "weight"), (net[2], "weight"), (net[2], "bias")):
        prune.remove(module, name)
    return [*seen, arrays(net), prune.is_pruned(net)]


def test_like_torch():
    want = program(torch, lambda f: f)
    for wrap in (lambda f: f, jit):
        for ours, theirs in zip(program(eager, wrap), want, strict=True):
            if isinstance(theirs, dict):
                assert list(ours) == list(theirs)
                for key, value in theirs.items():
                    np.testing.assert_allclose(ours[key], value, rtol=1e-4, atol=1e-6)
            elif isinstance(theirs, float):
                assert ours == pytest.approx(theirs, rel=1e-4)
            else:
                assert ours == theirs


def test_random_ones_and_refusals():
    prune = eager.nn.utils.prune
    layer = eager.nn.Linear(4, 6)
    prune.random_unstructured(layer, "weight", amount=5)
    assert (layer.weight_mask == 0).sum() == 5
    prune.random_structured(layer, "weight", amount=0.5, dim=1)
    assert (layer.weight_mask.sum(0) == 0).sum() == 2
    prune.identity(layer, "bias")
    assert (layer.bias_mask == 1).all()
    with pytest.raises(ValueError, match="has to be pruned before"):
        prune.remove(eager.nn.Linear(1, 1), "weight")
    with pytest.raises(ValueError, match="non-negative"):
        prune.l1_unstructured(layer, "bias", amount=-1)
    with pytest.raises(ValueError, match="smaller than the number"):
        prune.l1_unstructured(layer, "bias", amount=7)
    with pytest.raises(TypeError, match="amount"):
        prune.l1_unstructured(layer, "bias", amount="all")
