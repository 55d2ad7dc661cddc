"""Whole training steps under @jit with backend="triton", on a simulated GPU."""

import sys
from importlib import metadata

import numpy as np
import pytest

pytest.importorskip("triton.language")

import codegen
import eager
from codegen.ir.schema import Call, Program, Value
from codegen.targets.triton.runtime import build
from codegen.targets.triton.runtime.kernel import _compiler, target_of
from eager import nn
from eager.base.config import config
from eager.core.op import REGISTRY
from eager.device import places
from eager.device.protocol import DeviceUnavailable
from eager.nn import functional as F
from eager.sizes.aval import Aval
from jitcap import jit


class Net(nn.Module):
    """The layers in order, on `shape` inputs with 5 classes."""

    shape = (24, 12)

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


def mlp():
    return Net(nn.Linear(12, 32), nn.LayerNorm(32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 5))


def convolutions():
    net = Net(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 3, stride=2, groups=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 5),
    )
    net.shape = (4, 3, 12, 12)
    return net


class Attention(nn.Module):
    """Token and place embeddings, one attention layer, mean over time."""

    shape = (3, 7)

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 16)
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.head = nn.Linear(16, 5)

    def forward(self, ids):
        b, t = ids.shape
        x = self.tokens(ids)
        q, k, v = (
            h.view(b, t, 2, 8).transpose(1, 2) for h in self.qkv(self.norm(x)).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head((x + y.transpose(1, 2).reshape(b, t, 16)).mean(1))


def data(model, rng):
    integers = isinstance(model, Attention)
    x = (
        rng.integers(0, 11, model.shape)
        if integers
        else rng.standard_normal(model.shape).astype(np.float32)
    )
    return eager.tensor(x), eager.tensor(rng.integers(0, 5, model.shape[0]))


def train(make, steps, compiled):
    eager.manual_seed(0)
    model = make()
    # Adam divides by the gradient's size, so that a gradient that is 0 but for rounding (of the
    # keys' bias in attention) moves its parameter: only SGD can be compared there.
    optimizer = (
        eager.optim.AdamW(model.parameters(), lr=1e-2)
        if make is mlp
        else eager.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    )
    rng = np.random.default_rng(1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = jit(step, backend="triton") if compiled else step
    losses = [run(*data(model, rng)).item() for _ in range(steps)]
    return losses, [p.detach().numpy() for p in model.parameters()], run


@pytest.mark.parametrize("make", [mlp, convolutions, Attention])
def test_the_kernels_of_a_training_step_give_the_step(make, record_property):
    expected, parameters, _ = train(make, 3, compiled=False)
    with config(device="sim", strict=True):
        losses, updated, run = train(make, 3, compiled=True)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for got, want in zip(updated, parameters, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
    assert run.stats.fallbacks == 0
    assert run.stats.graphs == 1
    record_property("fused", 1)


def test_without_a_device_it_says_how_to_run_all_the_same():
    try:
        places.pool(0)
    except DeviceUnavailable:
        x = Value(0, Aval((4,), eager.float32))
        y = Value(1, Aval((4,), eager.float32))
        program = Program((x,), (Call(REGISTRY["neg"], (x,), {}, (y,)),), (y,))
        with pytest.raises(codegen.Unsupported, match="JITCAP_DEVICE=sim"):
            codegen.compile(program, codegen.Target("triton"))


def test_without_triton_it_says_what_to_install(monkeypatch):
    x, y = Value(0, Aval((4,), eager.float32)), Value(1, Aval((4,), eager.float32))
    program = Program((x,), (Call(REGISTRY["cosh"], (x,), {}, (y,)),), (y,))
    with config(device="sim"):
        ready = codegen.compile(program, codegen.Target("triton"))
    for name in [n for n in sys.modules if n.split(".")[0] == "triton"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "codegen.targets.triton.runtime.interpreter", raising=False)
    monkeypatch.setattr(build, "_modules", {})
    monkeypatch.setattr(metadata, "version", lambda name: metadata.distribution("no " + name))
    simulated = r"a simulated GPU need the package triton: pip install 'jitcap\[sim\]'"
    with config(device="sim"):
        with pytest.raises(codegen.Unsupported, match=simulated):
            codegen.compile(program, codegen.Target("triton"))
        with pytest.raises(ModuleNotFoundError, match=simulated):
            eager.ones(3, device="cuda").tolist()
    _compiler.cache_clear()
    with pytest.raises(ModuleNotFoundError, match=r"a GPU need .* pip install 'jitcap\[gpu\]'"):
        ready.run.kernels[0].compiled(target_of(9, 0))
