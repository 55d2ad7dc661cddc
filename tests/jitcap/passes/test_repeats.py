"""Equal layers as calls of one graph: values bit for bit, what is refused, and how the work grows."""

import numpy as np
import pytest

import codegen
import eager
from codegen.fuse import row_groups
from eager import nn
from eager.nn import functional as F
from jitcap import explain, jit, stance
from jitcap.compile.lower import lower
from jitcap.graph.show import reload, show
from jitcap.graph.subgraphs import CALL
from jitcap.graph.tracer import trace
from jitcap.graph.verify import verify
from jitcap.passes import PASSES
from jitcap.passes.repeats import share_repeats
from tests.helpers.work import calls_made

pytestmark = pytest.mark.once


def layer(x, w, v, b):
    h = F.layer_norm(x, x.shape[-1:])
    q, k = (h @ w).chunk(2, -1)
    y = (q @ k.transpose(-1, -2)).softmax(-1) @ h
    return x + F.gelu(y @ v + b, approximate="tanh")


def stack(x, *weights, times=1):
    """Layers, and the gradients of their weights."""
    weights = [w.detach().requires_grad_() for w in weights] * times
    y = x
    for i in range(0, len(weights), 3):
        y = layer(y, *weights[i : i + 3])
    y = (y * y).mean()
    return y, *eager.autograd.grad(y, weights)


def weights(layers, seed=0):
    rng = np.random.default_rng(seed)
    shapes = [(4, 8), (4, 4), (4,)] * layers
    return [eager.tensor(rng.standard_normal(s).astype(np.float32)) for s in shapes]


def inputs(layers):
    return [eager.tensor(np.ones((2, 3, 4), np.float32)), *weights(layers)]


def calls(graph):
    return [n for n in graph.nodes if n.op is CALL]


def test_layers_and_their_gradients_are_calls_of_two_graphs():
    given = inputs(9)
    graph = trace(stack, *given).graph
    shared = share_repeats(graph)
    verify(shared)
    assert len(calls(shared)) >= 17  # the last one's gradient has another beginning
    assert len({n.attrs["graphs"] for n in calls(shared)}) == 2
    assert len(shared.nodes) < len(graph.nodes) / 3
    arrays = [x.numpy() for x in given]
    for a, b in zip(graph.run(arrays), shared.run(arrays), strict=True):
        assert np.array_equal(a, b)
    text = show(shared)
    assert text.count("    def ") == 2  # printed once each
    again = reload(text, shared.name)(*given)
    assert all(np.array_equal(a.numpy(), b) for a, b in zip(again, graph.run(arrays), strict=True))


def test_a_first_layer_that_is_handed_a_sum_with_a_smaller_tensor():
    """The others add tensors of the whole shape: the same operation, on other shapes."""

    def placed(x, places, *weights):
        weights = [w.detach().requires_grad_() for w in weights]
        y = x + places
        for w, v in zip(weights[::2], weights[1::2], strict=True):
            y = y + F.gelu(F.layer_norm(y, (4,)) @ w) @ v
        return eager.autograd.grad((y * y).mean(), weights)

    rng = np.random.default_rng(0)
    shapes = [(2, 3, 4), (1, 3, 4), *((4, 8), (8, 4)) * 9]
    given = [eager.tensor(rng.standard_normal(shape).astype(np.float32)) for shape in shapes]
    graph = trace(placed, *given).graph
    shared = share_repeats(graph)
    verify(shared)
    assert calls(shared)
    arrays = [x.numpy() for x in given]
    for a, b in zip(graph.run(arrays), shared.run(arrays), strict=True):
        assert np.array_equal(a, b)


def kernels(layers):
    """The kernels' texts, the calls that compiling them took from the passes on, and the lines of
    the source."""
    graph = trace(stack, *inputs(layers)).graph
    found = []

    def run():
        passed = share_repeats(graph)
        for each, _ in PASSES:
            passed = each(passed)
        found.append(codegen.run_stages(lower(passed))[0]["source"])

        texts.append(found[-1].text)

    texts = []
    run()
    return [k.source for k in found[0].kernels], calls_made(run), texts[0].count("\n")


def test_more_layers_are_no_more_kernels_and_little_more_work():
    few, work, lines = kernels(10)
    many, more, longer = kernels(40)
    assert len(few) == len(many)
    assert more < 2 * work
    assert longer - lines < 30 * 20  # what a call is handed is a table


def refused(fn, *args):
    graph = trace(fn, *args).graph
    return share_repeats(graph) is graph


def test_what_is_not_the_same_stays_as_it_is():
    def tied(x, *given):
        return stack(x, *given, times=12)

    def alternating(x, *given):
        for i in range(0, len(given), 3):
            x = layer(x, *given[i : i + 3])
            x = [eager.tanh, eager.sin, eager.exp, eager.cos][i % 4](x) if i % 5 else x * i
        return x

    def cheap(x):
        for _ in range(100):
            x = (x.sin() * 2 + 1).cos() - x.abs() * x.tanh()
        return x

    assert refused(stack, *inputs(5))
    assert refused(tied, *inputs(1))
    assert refused(alternating, *inputs(12))
    assert refused(cheap, inputs(1)[0])


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.ln = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        return x + self.drop(self.down(F.gelu(self.up(self.ln(x)))))


def training(layers, mode):
    """Losses, gradients, parameters and state after some steps and half a one."""
    eager.manual_seed(3)
    model = nn.Sequential(*(Block(6) for _ in range(layers)))
    model[2].down.weight = nn.Parameter(eager.rand(6, 12).T.contiguous().T * 0.3)
    optimizer = eager.optim.AdamW(model.parameters(), lr=1e-2)

    @jit
    def step(x):
        optimizer.zero_grad()
        loss = (model(x) - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    x, losses = eager.rand(4, 6), []
    with stance(mode):
        for i in range(4):
            if i == 3:
                optimizer.param_groups[0]["lr"] = 3e-2
                model[4].ln.eps = 1e-2  # a number that is handed in
            losses.append(step(x))
        optimizer.state[model[5].up.weight]["step"].fill_(-5.0)
        with pytest.raises(ValueError, match="math domain"):
            step(x)
    parameters = [*model.parameters()]
    state = [s for p in parameters for s in optimizer.state[p].values()]
    return [*losses, *parameters, *(p.grad for p in parameters), *state], step.stats


def test_a_training_step_draws_and_updates_as_eager():
    """In place, the gradients kept; one layer's weight lies otherwise, and one is changed later.
    An error in the update of a layer leaves what eager leaves: the layers before it are updated."""
    found, stats = training(9, "default")
    expected, _ = training(9, "eager")
    assert stats.compiles == 1 and stats.discards == 1 and not stats.splits and not stats.fallbacks
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-4, atol=2e-5)


def captured(parameters):
    """The calls that the first call of a step with an optimizer takes."""
    weights = [nn.Parameter(eager.ones(3)) for _ in range(parameters)]
    optimizer = eager.optim.SGD(weights, lr=0.1)

    def step(x):
        sum((w * x).sum() for w in weights).backward()
        optimizer.step()

    return calls_made(lambda: jit(step, backend="eager")(eager.ones(3)))


def test_a_parameter_costs_the_same_however_many_there_are():
    captured(4)
    few, more, many = map(captured, (30, 60, 90))
    assert many - more < 1.03 * (more - few)


def test_scores_of_attention_go_from_no_layer_to_its_gradient(monkeypatch):
    """What row_blocks computes again is handed on by no call."""
    monkeypatch.setattr(row_groups, "LEAST", 1 << 10)
    monkeypatch.setattr(row_groups, "FEWEST", 16)
    layers = [nn.Linear(8, 24) for _ in range(9)]

    def step(x):
        h = x
        for layer in layers:
            q, k, v = (p.unflatten(-1, (2, 4)).transpose(1, 2) for p in layer(h).chunk(3, -1))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            h = h + mixed.transpose(1, 2).flatten(-2)
        params = [p for layer in layers for p in layer.parameters()]
        return eager.autograd.grad(h.pow(2).mean(), params)

    eager.manual_seed(0)
    x = eager.randn(2, 32, 8)
    text = explain(step)(x).stages["passes"]
    calls = [line for line in text.splitlines() if "call(" in line]
    assert calls and not any("32, 32" in line for line in calls)
    for got, expected in zip(jit(step)(x), step(x), strict=True):
        eager.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
