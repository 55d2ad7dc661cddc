"""Graphs to read: equal layers stand once, and the file still runs and captures to the graph."""

import numpy as np
import pytest

import eager
from eager.nn import functional as F
from jitcap import explain
from jitcap.graph.graph import Graph, Node, placeholder
from jitcap.graph.listing import draw, listing
from jitcap.graph.show import module, show
from jitcap.graph.tracer import trace

pytestmark = pytest.mark.once


class Given:
    """Arguments one by one, as a listing asks for them."""

    def __init__(self, *values):
        self.values = iter(values)

    def __call__(self, aval):
        value = next(self.values)
        kind = f"{value.dtype}".removeprefix("eager.")
        assert aval == f"{kind}{list(value.shape)}"
        return value


def stack(count):
    layers = [eager.nn.Linear(4, 4) for _ in range(count)]
    optimizer = eager.optim.AdamW([p for each in layers for p in each.parameters()], lr=1e-2)

    def step(x):
        h = x
        for layer in layers:
            h = h + F.gelu(layer(F.layer_norm(h, (4,))))
        optimizer.zero_grad()
        h.square().mean().backward()
        optimizer.step()
        return h.detach()

    return step


def graph_of(count):
    (graph,) = explain(stack(count), backend="eager")(eager.ones(2, 4)).graphs
    return graph


def test_equal_layers_stand_once_in_a_file_that_runs():
    few, many = (len(listing(graph_of(n)).splitlines()) for n in (8, 12))
    assert abs(many - few) < 16 and 4 * many < len(module(graph_of(12)).splitlines())
    graph = graph_of(6)
    scope = {"__name__": "listing"}
    exec(listing(graph), scope)
    rng = np.random.default_rng(0)
    avals = [n.aval for n in graph.inputs]
    values = [np.asarray(abs(rng.standard_normal(a.shape)), a.dtype.np) for a in avals]
    numbers = [v.item() if n.aval.weak else v for v, n in zip(values, graph.inputs, strict=True)]
    feed = iter(eager.tensor(v) if isinstance(v, np.ndarray) else v for v in numbers)
    got = scope["step"](lambda aval: next(feed))
    for a, b in zip(got, graph.run(numbers), strict=True):
        total = float(eager.as_tensor(a).double().sum())
        np.testing.assert_allclose(total, np.sum(b, dtype=float), rtol=1e-5)
    assert len(scope["step"](draw(seed=1))) == len(graph.outputs)


def test_the_file_captures_to_the_same_graph():
    def program(x, y):
        for _ in range(9):
            x = (x * y + 1).relu() - y.sum(0)
            y = y.tanh()
        return x, y

    x, y = eager.ones(2, 3), eager.ones(2, 3)
    text = show(trace(program, x, y).graph, lines=False)
    scope = {"__name__": "listing"}
    printed = listing(trace(program, x, y).graph)
    assert "for i in range(" in printed
    exec(printed, scope)

    def again(x, y):
        return scope["graph"](Given(x, y))

    assert show(trace(again, x, y).graph, lines=False) == text


def test_names_of_a_program_are_no_names_of_its_print():
    def given(results, i, draw):
        for _ in range(9):
            results = (results * i + 1).relu() - draw
        return results

    args = eager.ones(3), eager.ones(3), eager.ones(3)
    text, scope = listing(trace(given, *args).graph), {"__name__": "listing"}
    exec(text, scope)
    (got,) = scope["graph"](Given(*args))
    assert got.tolist() == given(*args).tolist()


def test_a_graph_without_repetition_is_a_plain_module():
    graph = trace(lambda x: (x * 2).sum(0), eager.ones(2, 3)).graph
    assert listing(graph) == module(graph)


def test_many_results_are_a_column():
    x = placeholder("x", eager.sizes.aval.Aval((3,), eager.float32))
    text = show(Graph((x,), (), (x,) * 40, "f"))
    assert text.splitlines()[-42:] == ["    return (", *["        x,"] * 40, "    )"]
    assert isinstance(x, Node)
