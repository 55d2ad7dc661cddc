"""Averages of weights against torch, and inside a jitted step."""

import copy

import numpy as np
import pytest

import eager
from eager import nn
from eager.optim import swa_utils
from jitcap import jit

MAKE = {
    "swa": lambda u: {},
    "swa by one": lambda u: {"avg_fn": u.get_swa_avg_fn()},
    "ema": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.9), "use_buffers": True},
    "ema by one": lambda u: {"avg_fn": u.get_ema_avg_fn(0.8)},
}


def model_of(t):
    model = t.nn.Sequential(t.nn.Linear(3, 2), t.nn.BatchNorm1d(2))
    with t.no_grad():
        model[0].weight.copy_(t.arange(6.0).reshape(2, 3))
        model[0].bias.fill_(0.5)
    return model


def trained(t, name):
    model, u = model_of(t), t.optim.swa_utils
    averaged = u.AveragedModel(model, **MAKE[name](u))
    for i in range(4):
        model(t.arange(12.0).reshape(4, 3) * (i + 1))
        with t.no_grad():
            model[0].weight.add_(i + 1.5)
        averaged.update_parameters(model)
    batches = [(t.arange(12.0).reshape(4, 3).sin() * k,) for k in (1, 2)]
    kept = {k: v.clone() for k, v in averaged.state_dict().items()}
    u.update_bn(batches, averaged)
    return {**{f"{k} before": v for k, v in kept.items()}, **averaged.state_dict()}


@pytest.mark.parametrize("name", MAKE)
def test_averages(name):
    torch = pytest.importorskip("torch")
    mine, reference = trained(eager, name), trained(torch, name)
    assert list(mine) == list(reference)
    for key, value in reference.items():
        np.testing.assert_allclose(mine[key].numpy(), value.numpy(), rtol=1e-5, err_msg=key)


def test_in_a_step():
    model = nn.Linear(3, 1)
    optimizer = eager.optim.SGD(model.parameters(), lr=0.1)
    average = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))

    @jit
    def step(x):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        average.update_parameters(model)

    expected = None
    for _ in range(3):
        step(eager.ones(2, 3))
        now = copy.deepcopy(model.weight).detach()
        expected = now if expected is None else expected * 0.9 + now * 0.1
    np.testing.assert_allclose(average.module.weight.detach(), expected, rtol=1e-5)
    assert int(average.n_averaged) == 3
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 4])
def test_rates(strategy, epochs):
    torch = pytest.importorskip("torch")

    def run(t):
        optimizer = t.optim.SGD([t.nn.Parameter(t.ones(1))], lr=0.1)
        scheduler = t.optim.swa_utils.SWALR(optimizer, 0.02, epochs, strategy)
        seen = []
        for _ in range(7):
            optimizer.step()
            scheduler.step()
            seen += scheduler.get_last_lr()
        return seen

    assert run(eager) == run(torch)


def test_errors():
    with pytest.raises(ValueError, match="Invalid decay value 2"):
        swa_utils.get_ema_multi_avg_fn(2)
    with pytest.raises(AssertionError, match="Only one of avg_fn"):
        swa_utils.AveragedModel(nn.Linear(1, 1), None, max, max)
