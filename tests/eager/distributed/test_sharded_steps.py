"""Compiled step with `fully_shard`, on an engine without other ranks that reads and writes as late
as it may: what it compiles to, and the memory that it needs."""

import late_engine
import numpy as np
import pytest

import eager
import eager.distributed as dist
from eager import nn
from eager.distributed.fsdp import fully_shard
from jitcap import explain, jit

pytestmark = pytest.mark.once
RANKS, WIDTH = 4, 64
LAYER = 8 * WIDTH * WIDTH * 8  # bytes of its matrices


@pytest.fixture
def engine(monkeypatch):
    made = late_engine.LateEngine(RANKS)
    late_engine.world(made)
    dist.set_debug_level("OFF")
    monkeypatch.setattr("eager.distributed.shards.ALONE", 1 << 12)  # small matrices are large here
    yield made
    dist.set_debug_level("DETAIL")
    dist.destroy_process_group()


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def training(layers):
    eager.manual_seed(0)
    model = nn.Sequential(*(fully_shard(Layer().double()) for _ in range(layers)))
    fully_shard(model)
    opt = eager.optim.AdamW(model.parameters(), 1e-3)

    def step(x):
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        return loss

    return model, step


def test_equal_layers_are_one_pattern_whose_memory_does_not_grow(engine):
    """Whole parameters live for a layer, and the next one is gathered beside this one."""
    layers = 7
    x = eager.from_numpy(np.random.default_rng(0).normal(size=(2, WIDTH)))
    (plain, step), (model, compiled) = training(layers), training(layers)
    run = jit(compiled)
    for _ in range(2):
        expected, found = step(x), run(x)
    assert abs(expected - found) < 1e-12
    for p, q in zip(plain.parameters(), model.parameters(), strict=True):
        assert eager.allclose(p, q, atol=1e-10, rtol=0)
    assert (run.stats.graphs, run.stats.splits) == (1, 0), run.stats.refusals
    assert run.stats.kernels < 5 * layers  # a layer has more than 20 of its own
    (version,) = run._entries.compiled.values()
    assert version.executable.artifact.plan["arena_bytes"] < 3.5 * LAYER

    notes = explain(compiled)(x).notes
    gathered = [note for note in notes if note.startswith("all_gather of 32768")]
    assert len(gathered) == 4 * layers and sum("dot" in note for note in gathered) > 2 * layers
