"""Pass: common subexpressions become one node. Graph -> Graph.

Every op is a function of its operands and attributes (random draws take their seed and ordinal as
operands), so equal calls are equal values. One sweep with a hash table: O(n).
"""

from __future__ import annotations

from typing import Any

from jitcap.graph.graph import ITEM, Arg, Graph, Node, Rewriter, rewrite


def common_subexpressions(graph: Graph) -> Graph:
    """Replace each node by the first one with the same op, arguments and attributes."""
    first: dict[Any, Node] = {}

    def rule(r: Rewriter, n: Node, args: tuple[Arg, ...]) -> Node:
        key = (args[0], n.attrs["index"]) if n.op is ITEM else call_key(n, args)
        found = first.get(key)
        if found is None:
            found = first[key] = r.keep(n, args)
        return found

    return rewrite(graph, rule)


def call_key(n: Node, args: tuple[Arg, ...]) -> Any:
    """Equal for calls that give equal values. Numbers differ by type and text: 1, 1.0, -0.0."""
    operands = tuple([a if isinstance(a, Node) else (type(a), repr(a)) for a in args])
    return n.op, operands, tuple(sorted(n.attrs.items())), n.avals
