"""Whole programs under @jit with backend="triton", on NumPy: the training step of an MLP, one kernel after the other."""

import numpy as np
import pytest

pytest.importorskip("triton")

import codegen
import eager
from codegen.ir import Call, Program, Value
from codegen.runtime.cuda import DeviceUnavailable, open_device
from eager import nn
from eager.aval import Aval
from eager.nn import functional as F
from eager.op import REGISTRY
from jitcap import jit
from jitcap.config import config


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 32)
        self.norm = nn.LayerNorm(32)
        self.drop = nn.Dropout(0.1)
        self.last = nn.Linear(32, 5)

    def forward(self, x):
        return self.last(self.drop(F.gelu(self.norm(self.first(x)))))


def train(steps, compiled):
    eager.manual_seed(0)
    model = MLP()
    optimizer = eager.optim.AdamW(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(1)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = jit(step, backend="triton") if compiled else step
    losses = []
    for _ in range(steps):
        x = eager.tensor(rng.standard_normal((24, 12)).astype(np.float32))
        y = eager.tensor(rng.integers(0, 5, 24))
        losses.append(run(x, y).item())
    return losses, [p.detach().numpy() for p in model.parameters()], run


def test_the_kernels_of_a_training_step_give_the_step(record_property):
    expected, parameters, _ = train(3, compiled=False)
    with config(isa="interpreter", strict=True):
        losses, updated, run = train(3, compiled=True)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for got, want in zip(updated, parameters, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert run.stats.fallbacks == 0
    assert run.stats.graphs == 1
    record_property("fused", 1)


def test_without_a_device_it_says_how_to_run_all_the_same():
    try:
        open_device().close()
    except DeviceUnavailable:
        x = Value(0, Aval((4,), eager.float32))
        y = Value(1, Aval((4,), eager.float32))
        program = Program((x,), (Call(REGISTRY["neg"], (x,), {}, (y,)),), (y,))
        with pytest.raises(codegen.Unsupported, match="JITCAP_ISA=interpreter"):
            codegen.compile(program, codegen.Target("triton"))
