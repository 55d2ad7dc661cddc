"""The graph level: printing that captures back, verification, evaluation, tracing."""

import numpy as np
import pytest

import eager
from eager.core.op import REGISTRY
from eager.sizes.aval import Aval
from jitcap.base.diagnostics import Trail
from jitcap.compile import optimise
from jitcap.graph.graph import Graph, Node, placeholder
from jitcap.graph.show import example_array, parse_aval, reload, show
from jitcap.graph.tracer import DataDependent, trace
from jitcap.graph.verify import GraphError, verify

pytestmark = pytest.mark.once


def floats(*shape, seed=0):
    return eager.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def arithmetic(x, y):
    z = x * y + 1
    return (z / 2.5).sum(0), -z


def views(x, y):
    z = x.reshape(6).reshape(3, 2).permute(1, 0)
    return z[0:1].expand(4, 3), y.unsqueeze(0).squeeze(0)[1]


def several(x, y):
    values, places = x.sort(dim=1)
    return values + y, places


def number(x, y):
    s = x.sum().item()
    return y * (s * 2.0 + 1)


def in_place(x, y):
    z = x * 1
    z[0].add_(y[0])
    z.mul_(2)
    return z


def gradient(x, y):
    w = x.detach().requires_grad_()
    (g,) = eager.autograd.grad((w * y * w).sum(), [w])
    return g


PROGRAMS = [arithmetic, views, several, number, in_place, gradient]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_a_trace_computes_what_the_function_does(fn):
    x, y = floats(2, 3), floats(2, 3, seed=1)
    traced = trace(fn, x, y)
    verify(traced.graph)
    results = fn(x, y)
    results = results if isinstance(results, tuple) else (results,)
    got = traced.graph.run([x.numpy(), y.numpy(), *(c.numpy() for c in traced.constants)])
    assert len(got) == traced.results
    for a, b in zip(got, results, strict=True):
        np.testing.assert_array_equal(a, b.detach().numpy())


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_the_print_of_a_graph_captures_to_the_same_graph(fn):
    x, y = floats(2, 3), floats(2, 3, seed=1)
    text = show(trace(fn, x, y).graph, lines=False)
    again = trace(reload(text), x, y)
    assert show(again.graph, lines=False) == text


def test_writes_to_arguments_are_outputs():
    def step(p, g):
        p.sub_(g * 0.1)
        return g

    traced = trace(step, floats(3), floats(3, seed=1))
    assert traced.results == 1
    assert traced.writes == ((0, 1),)


def test_a_tensor_from_outside_becomes_an_input():
    c = floats(3)
    traced = trace(lambda x: x + c + c, floats(3, seed=1))
    assert len(traced.graph.inputs) == 2
    assert traced.constants == (c,)


def test_a_decision_on_a_value_is_refused():
    with pytest.raises(DataDependent, match=r"eager\.where"):
        trace(lambda x: x if x.sum() > 0 else -x, floats(3))


def test_lines_are_the_users():
    node = trace(lambda x: x + 1, floats(3)).graph.nodes[0]
    assert node.where.file == __file__


def test_verify_names_a_use_before_definition():
    x = placeholder("x", Aval((2,), eager.float32))
    add = REGISTRY["add"]
    a = Node(add, (x, 1), {}, (x.aval,))
    b = Node(add, (a, 1), {}, (x.aval,))
    with pytest.raises(GraphError, match="before its definition"):
        verify(Graph((x,), (b, a), (b,)))


def test_verify_names_a_wrong_aval():
    x = placeholder("x", Aval((2,), eager.float32))
    add = REGISTRY["add"]
    a = Node(add, (x, 1), {}, (Aval((3,), eager.float32),))
    with pytest.raises(GraphError, match="its op gives"):
        verify(Graph((x,), (a,), (a,)), "a pass")


def test_what_a_pass_breaks_among_what_was_verified_is_named(monkeypatch):
    """A node's rule is asked once, its place in the graph after each pass."""

    def keeps(graph):
        return graph.with_(nodes=graph.nodes)

    def widens(graph):
        *others, last = graph.nodes
        wrong = Node(last.op, last.args, last.attrs, (Aval((7,), eager.float32),))
        return graph.with_(nodes=(*others, wrong), outputs=(wrong,))

    def turns(graph):
        return graph.with_(nodes=graph.nodes[::-1])

    graph = trace(lambda x: x.exp() * 2 + 1, floats(3)).graph
    for breaks, fault in ((widens, "its op gives"), (turns, "before its definition")):
        monkeypatch.setattr(optimise, "PASSES", ((keeps, ""), (breaks, ""), (keeps, "")))
        with pytest.raises(GraphError, match=f"after {breaks.__name__}.*{fault}"):
            optimise.run_passes(graph, Trail("test"))


@pytest.mark.parametrize("text", ["float32[2, 3]", "float64[]~", "int64[4]", "bool[]"])
def test_avals_print_and_parse(text):
    aval = parse_aval(text)
    assert repr(aval) == text
    value = example_array(aval, np.random.default_rng(0))
    assert np.shape(value) == aval.shape
