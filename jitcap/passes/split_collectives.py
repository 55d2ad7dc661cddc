"""Pass, the last one: a collective becomes its start and its wait. Graph -> Graph.

Before, a collective is one node, which has a derivative. Behind it codegen moves the two apart
(`codegen/schedule/overlap.py`). What divides a sum that is to be an average is a node of its own,
which is fused into who reads it.
"""

from __future__ import annotations

from eager.core.op import REGISTRY
from jitcap.graph.graph import ITEM, Arg, Graph, Node, Rewriter, items, rewrite


def split_collectives(graph: Graph) -> Graph:
    """Every collective as two nodes; the wait stands right behind the start."""
    if not any(n.op.halves for n in graph.nodes):
        return graph
    apart: dict[Node, tuple[Node, Node]] = {}  # results, by start

    def rule(r: Rewriter, n: Node, args: tuple[Arg, ...]) -> Arg | None:
        if n.op is ITEM:
            (whole,) = args
            return apart[whole][n.attrs["index"]] if whole in apart else None
        if n.op.halves is None:
            return None
        start, wait = n.op.halves
        divisor = n.op.divisor(n.attrs, n.avals[0].dtype)
        averages = {"reduction": "sum", "averages": True}  # ranks compare it as an average
        attrs = n.attrs if divisor == 1 else {**n.attrs, **averages}
        begun = r.append(Node(start, args, attrs, n.avals, n.where))
        handle, order = map(r.append, items(begun))
        result = r.emit(wait, (handle, args[0]), {}, n)
        if divisor != 1:
            result = r.emit(REGISTRY["div"], (result, divisor), {}, n)
        apart[begun] = result, order
        return begun

    return rewrite(graph, rule)
