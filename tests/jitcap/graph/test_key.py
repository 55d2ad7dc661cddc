"""The text that caches name a graph by: the same for the same program, another for any change."""

from dataclasses import replace

import pytest

import eager
from eager.control_flow.cond import cond
from eager.core.op import REGISTRY
from jitcap.graph.graph import INPUT, ITEM, Node, Rewriter
from jitcap.graph.key import key_text
from jitcap.graph.subgraphs import subgraphs, with_subgraphs
from jitcap.graph.tracer import trace

pytestmark = pytest.mark.once


def program(x, y):
    values, places = (x * 2.0 + y * 2).sort(dim=1)
    low, high = cond(y.sum() > 0, lambda a, b: (a - b, a), lambda a, b: (a + b * 3, b), (x, y))
    return values, places * 2, low, high.sum().item() + 1


def traced():
    return trace(program, eager.ones(2, 3), eager.ones(2, 3)).graph


def changes(graph):
    """The graph with one thing changed, and what that is."""
    for n in graph.everything():
        for what, new in other_nodes(n):
            r = Rewriter(graph)
            inputs = tuple(new if old is n else old for old in graph.inputs)
            r.mapped.update(zip(graph.inputs, inputs, strict=True))
            for old in graph.nodes:
                node = new if old is n else old
                args = tuple(r.lookup(a) for a in node.args)
                r.mapped[old] = r.append(Node(node.op, args, node.attrs, node.avals, node.where))
            yield what, r.finish().with_(inputs=inputs)
    yield "outputs", graph.with_(outputs=graph.outputs[::-1])
    yield "name", graph.with_(name="another")


def other_nodes(n):
    def other(**changed):
        old = {"op": n.op, "args": n.args, "attrs": n.attrs, "avals": n.avals, "where": n.where}
        return Node(**{**old, **changed})

    name, avals = n.op.name, n.avals
    if n.op is ITEM:
        yield "another result", other(attrs={"index": n.attrs["index"] + 1})
        return
    yield f"the line of {name}", other(where=n.where._replace(line=n.where.line + 1))
    yield f"the file of {name}", other(where=n.where._replace(file="else/" + n.where.file))
    yield f"the type of {name}", other(avals=(replace(avals[0], shape=(7,)), *avals[1:]))
    yield f"the device of {name}", other(avals=(*avals[:-1], replace(avals[-1], device="sim:0")))
    yield f"an attribute of {name}", other(attrs={**n.attrs, "more": 1})
    if n.op is not INPUT:
        yield f"the op {name}", other(op=REGISTRY["erf"])
        yield f"operands of {name}", other(args=(*n.args, n.args[0]))
    for i, a in enumerate(n.args):
        if not isinstance(a, Node):
            for new in (a + 1, int(a) if type(a) is float else float(a), str(a)):
                yield f"{a!r} in {name}", other(args=(*n.args[:i], new, *n.args[i + 1 :]))
    for k, inner in enumerate(subgraphs(n)):
        for what, new in changes(inner):
            graphs = [new if i == k else g for i, g in enumerate(subgraphs(n))]
            yield f"{what} inside", with_subgraphs(n, graphs)


def test_the_text_is_of_the_program_and_not_of_its_objects():
    graph, again = traced(), traced()
    assert key_text(graph) == key_text(again)
    parted = [(dict(n.attrs), tuple(map(replace, n.avals))) for n in graph.nodes]
    r = Rewriter(graph)  # nothing is shared
    for n, (attrs, avals) in zip(graph.nodes, parted, strict=True):
        args = tuple(r.lookup(a) for a in n.args)
        r.mapped[n] = r.append(Node(n.op, args, attrs, avals, n.where))
    assert key_text(r.finish()) == key_text(graph)


def test_any_change_is_another_text():
    graph = traced()
    found = {key_text(graph): "nothing"}
    count = 0
    for what, changed in changes(graph):
        text = key_text(changed)
        assert text not in found, f"{what} and {found[text]}"
        found[text] = what
        count += 1
    assert count > 100
