"""Pass: what a node with graphs takes and gives is what is needed. Graph -> Graph.

An output that nobody reads is dropped, and so is an operand that no graph reads any more. What
every arm hands on as it is, and what no round of a loop changes, is read from the operand itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from jitcap.graph.graph import (
    ITEM,
    Arg,
    Graph,
    Node,
    Rewriter,
    aval_of,
    items,
    reachable,
    size_inputs,
)
from jitcap.graph.loops import SCAN
from jitcap.graph.subgraphs import COND, WHILE, subgraphs
from jitcap.passes.dead import dead_code
from jitcap.passes.scans import trim_scan

Results = dict[int, Arg]  # by the number of the output


def trim_subgraphs(graph: Graph) -> Graph:
    """Drop dead outputs and operands of nodes that hold graphs."""
    if not any(n.op in _RULES for n in graph.nodes):
        return graph
    read = {(n.parents[0], n.attrs["index"]) for n in graph.nodes if n.op is ITEM}
    results: dict[Node, Results] = {}
    r = Rewriter(graph)
    for n in graph.nodes:
        if n.op is ITEM and n.parents[0] in results:
            r.mapped[n] = results[n.parents[0]][n.attrs["index"]]
            continue
        rule = _RULES.get(n.op)
        if rule is None:
            r.mapped[n] = r.keep(n, r.args(n))
            continue
        count = len(n.avals)
        results[n] = rule(r, n, [i for i in range(count) if count == 1 or (n, i) in read])
        if count == 1:
            r.mapped[n] = results[n][0]
    return r.finish()


def _trim_choice(r: Rewriter, n: Node, read: Sequence[int]) -> Results:
    args, graphs = r.args(n), subgraphs(n)
    results: Results = {}
    for i in read:
        places = {g.inputs.index(o) if (o := g.outputs[i]) in g.inputs else -1 for g in graphs}
        place = places.pop()
        if not places and place >= 0 and aval_of(args[1 + place]) == n.avals[i]:
            results[i] = args[1 + place]
    kept = [i for i in read if i not in results]
    if not kept:
        return results
    slim = [dead_code(g.with_(outputs=tuple(g.outputs[i] for i in kept))) for g in graphs]
    used = sorted({i for g in slim for i in _inputs_read(g)})
    slim = [g.with_(inputs=tuple(g.inputs[i] for i in used)) for g in slim]
    given = (args[0], *(args[1 + i] for i in used))
    return results | _append(r, n, given, {"graphs": tuple(slim)}, kept)


def _trim_loop(r: Rewriter, n: Node, read: Sequence[int]) -> Results:
    args, (body,), count = r.args(n), subgraphs(n), len(n.avals)
    live = _live(body, read)
    still = [
        i for i in live if body.outputs[1 + i] is body.inputs[i] and isinstance(args[1 + i], Node)
    ]
    kept = [i for i in live if i not in still]
    results: Results = {i: args[1 + i] for i in still}
    if not kept:  # it ends at once, or never
        kept, still = live[:1], []
    outputs = (body.outputs[0], *(body.outputs[1 + i] for i in kept))
    slim = dead_code(body.with_(outputs=outputs))
    seen = set(_inputs_read(slim))
    rest = [i for i in (*still, *range(count, len(body.inputs))) if i in seen]
    inputs = tuple(body.inputs[i] for i in (*kept, *rest))
    given = (args[0], *(args[1 + i] for i in (*kept, *rest)))
    attrs = {"graphs": (slim.with_(inputs=inputs),), "carried": len(kept)}
    return _append(r, n, given, attrs, kept) | results


def _live(body: Graph, read: Sequence[int]) -> list[int]:
    """Indices of the carries that the outputs `read`, or the condition, depend on; at least one."""
    count = len(body.outputs) - 1
    live = set(read) or {0}
    while True:
        needed = reachable((body.outputs[0], *(body.outputs[1 + i] for i in live)))
        more = {i for i in range(count) if body.inputs[i] in needed} - live
        if not more:
            return sorted(live)
        live |= more


def _inputs_read(graph: Graph) -> Iterable[int]:
    needed = {*graph.outputs, *(p for n in graph.nodes for p in n.parents)}
    needed.update(size_inputs(graph.inputs, graph.nodes, *(i.aval.shape for i in graph.inputs)))
    return (i for i, n in enumerate(graph.inputs) if n in needed)


def _append(
    r: Rewriter, n: Node, args: tuple[Arg, ...], attrs: dict[str, object], kept: Sequence[int]
) -> Results:
    """The node with the outputs `kept`; the node itself where nothing has changed."""
    same = len(kept) == len(n.avals) and len(args) == len(n.args)
    new = r.keep(n, args) if same and _equal(attrs, n) else r.append(
        Node(n.op, args, attrs, tuple(n.avals[i] for i in kept), n.where)
    )  # fmt: skip
    handles = items(new)
    if len(handles) > 1:
        r.nodes.extend(handles)
    return dict(zip(kept, handles, strict=True))


def _equal(attrs: dict[str, object], n: Node) -> bool:
    """True if the graphs are those of the node, with all their inputs in the same order."""
    graphs = attrs["graphs"]
    assert isinstance(graphs, tuple)
    return all(
        a.inputs == b.inputs and a.outputs == b.outputs and a.nodes == b.nodes
        for a, b in zip(graphs, subgraphs(n), strict=True)
    )


_RULES: Final[dict[object, Callable[[Rewriter, Node, Sequence[int]], Results]]] = {
    COND: _trim_choice,
    WHILE: _trim_loop,
    SCAN: trim_scan,
}
