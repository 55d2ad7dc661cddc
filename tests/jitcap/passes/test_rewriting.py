"""Rewriting ends: no two rules undo each other on random graphs, and two that did would do no harm."""

import math
import random
import sys

import pytest

from eager.base import dtype as dt
from eager.core.op import REGISTRY
from eager.sizes.aval import Aval
from jitcap.graph.graph import Graph, Node, aval_of, placeholder
from jitcap.passes import PASSES

pytestmark = pytest.mark.once

simplify = sys.modules["jitcap.passes.simplify"]
FIT = (RuntimeError, ValueError, IndexError, TypeError, AssertionError)  # operands do not fit
NUMBERS = (0.0, -0.0, 1.0, 0, 1)
BINARY = ("add", "sub", "mul", "div", "pow", "dot")


def attributes(rng, name, shape):
    """Attributes for an op on an operand of this shape."""
    n = len(shape)
    d = rng.randrange(max(n, 1))
    some = tuple(i for i in range(n) if rng.random() < 0.5)
    if name == "permute":
        return {"dims": tuple(rng.sample(range(n), n))}
    if name == "reshape":
        sizes = [s for s in rng.sample(shape, n) if s != 1 or rng.random() < 0.5]
        sizes = [math.prod(sizes)] if rng.random() < 0.3 else sizes
        return {"shape": tuple([1] * rng.randrange(2) + sizes)}
    if name == "expand":
        grown = [rng.choice((1, 2, 3)) if s == 1 else s for s in shape]
        return {"shape": tuple([2] * rng.randrange(2) + grown)}
    if name == "slice":
        start = rng.randrange(shape[d])
        return {"dim": d, "start": start, "stop": rng.randint(start, shape[d]), "step": 1}
    return {
        "unsqueeze": {"dim": d},
        "squeeze": {"dims": tuple(i for i in some if shape[i] == 1)},
        "sum": {"dim": some, "keepdim": rng.random() < 0.5},
        "flip": {"dims": some},
        "pad": {"pads": tuple((rng.randrange(2), 0) for _ in shape)},
        "cat": {"dim": d},
        "select": {"dim": d, "index": 0},
        "cast": {"dtype": rng.choice((dt.float32, dt.float64))},
    }.get(name, {})


OPS = (
    *BINARY, "neg", "permute", "reshape", "expand", "slice", "unsqueeze", "squeeze", "sum", "flip",
    "pad", "cat", "select", "cast", "full",
)  # fmt: skip


def random_graph(rng):
    inputs = [
        placeholder(f"x{i}", Aval(tuple(rng.choice((1, 1, 2, 3)) for _ in range(3)), dt.float32))
        for i in range(2)
    ]
    values, nodes = [*inputs], []
    for _ in range(rng.randint(3, 14)):
        x, name = rng.choice(values[-4:]), rng.choice(OPS)
        op, attrs, args = REGISTRY[name], {}, (x,)
        try:
            if name == "full":
                attrs, args = {"shape": x.aval.shape, "dtype": dt.float32}, (rng.choice(NUMBERS),)
            elif name in BINARY:
                args = (x, rng.choice((*values[-4:], *NUMBERS)))
            else:
                attrs = attributes(rng, name, x.aval.shape)
                args = (x, x) if name == "cat" else (x,)
            nodes.append(Node(op, args, attrs, op.abstract(tuple(map(aval_of, args)), attrs)))
        except FIT:
            continue
        values.append(nodes[-1])
    return Graph(tuple(inputs), tuple(nodes), (values[-1],))


def test_no_rules_undo_each_other(monkeypatch):
    left = []
    add = simplify.Simplifier.add

    def watched(self, n):
        result = add(self, n)
        left.append(self.fuel)
        return result

    monkeypatch.setattr(simplify.Simplifier, "add", watched)
    for seed in range(1500):
        graph = random_graph(random.Random(seed))
        for each, _ in PASSES:
            graph = each(graph)
        assert min(left, default=simplify.FUEL) > simplify.FUEL // 2, f"seed {seed}"


def test_rules_that_undo_each_other_end(monkeypatch):
    def swap(s, n):
        return s.make(n.op, n.args[1], n.args[0], like=n)

    monkeypatch.setitem(simplify.RULES, "mul", (swap,))
    x, y = (placeholder(name, Aval((2,), dt.float32)) for name in "xy")
    node = Node(REGISTRY["mul"], (x, y), {}, (x.aval,))
    out = simplify.simplify(Graph((x, y), (node,), (node,)))
    assert set(out.outputs[0].args) == {x, y}


@pytest.mark.parametrize("shape", [(2, 1), (1, 1), (1, 3)])
def test_a_sum_over_an_expanded_dimension_of_one(shape):
    x = placeholder("x", Aval((1,), dt.float32))
    expand = Node(REGISTRY["expand"], (x,), {"shape": shape}, (Aval(shape, dt.float32),))
    attrs = {"dim": (0, 1), "keepdim": False}
    total = Node(REGISTRY["sum"], (expand,), attrs, (Aval((), dt.float32),))
    graph = Graph((x,), (expand, total), (total,))
    for each, _ in PASSES:
        graph = each(graph)
    assert graph.outputs[0].aval == total.aval
