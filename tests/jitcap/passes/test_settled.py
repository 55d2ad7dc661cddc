"""A pass is not run on a graph that it would give back as it is."""

import pytest

import eager
import eager.nn.functional as F
from eager import nn
from jitcap.capture.capture import capture
from jitcap.graph.show import show
from jitcap.graph.tracer import trace
from jitcap.passes import PASSES, Settled
from jitcap.passes.common_subexpressions import common_subexpressions
from jitcap.passes.dead import dead_code
from jitcap.passes.repeats import share_repeats
from jitcap.passes.simplify import simplify
from tests.jitcap.passes import test_passes

pytestmark = pytest.mark.once


class Checked(Settled):
    """What is not run would have changed nothing."""

    def __init__(self):
        super().__init__()
        self.skipped = 0

    def run(self, each, graph):
        if self._known.get(each) is graph:
            self.skipped += 1
            assert each(graph) is graph, each.__name__
        return super().run(each, graph)


def through(graph):
    settled, plain = Checked(), graph
    for each, _ in PASSES:
        graph, plain = settled.run(each, graph), each(plain)
    assert show(graph) == show(plain)
    return settled.skipped


@pytest.mark.parametrize("name", test_passes.CASES)
def test_small_programs(name):
    program, _ = test_passes.CASES[name]
    through(trace(program, eager.tensor(test_passes.SPECIAL)).graph)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln, self.qkv, self.out = nn.LayerNorm(8), nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = (y.view(2, 4, 2, 4).transpose(1, 2) for y in self.qkv(self.ln(x)).split(8, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(2, 4, 8)) * 1


def training(layers):
    eager.manual_seed(0)
    model = nn.Sequential(*[Block() for _ in range(layers)])
    optimizer = eager.optim.AdamW(model.parameters())

    def step(x):
        loss = (model(x)[:, 1:] - x[:, :-1]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return capture(step, (eager.ones(2, 4, 8),), {}).graph


@pytest.mark.parametrize("layers", [1, 3, 10])
def test_training_steps(layers):
    assert through(share_repeats(training(layers))) >= 1


def test_a_pass_that_changes_nothing_gives_the_very_graph():
    graph = training(2)
    for each, _ in PASSES:
        graph = each(graph)
    for each in (dead_code, simplify, common_subexpressions):
        assert each(graph) is graph
