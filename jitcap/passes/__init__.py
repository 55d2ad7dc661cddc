"""Graph passes, between capture and lowering: a table of plain functions Graph -> Graph.

Every pass is O(n log n) in nodes, keeps values bit for bit unless it says otherwise, and leaves a
graph that `verify` accepts. To add one: write the function, add a line with its reason here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitcap.graph.graph import Graph, Node, with_args
from jitcap.graph.subgraphs import subgraphs, with_subgraphs
from jitcap.passes.common_subexpressions import common_subexpressions
from jitcap.passes.dead import dead_code
from jitcap.passes.join_parts import join_parts
from jitcap.passes.scans import accumulate, share_scans, split_scans
from jitcap.passes.simplify import simplify
from jitcap.passes.split_collectives import split_collectives
from jitcap.passes.trim_subgraphs import trim_subgraphs
from jitcap.passes.unrolled_products import hoist_products, sum_products

Pass = Callable[[Graph], Graph]


class Settled:
    """Memo of the graph that each pass would give back as it is: it need not be run on it again."""

    def __init__(self) -> None:
        self._known: dict[Pass, Graph] = {}

    def run(self, each: Pass, graph: Graph) -> Graph:
        """`each(graph)`."""
        if self._known.get(each) is graph:
            return graph
        after = each(graph)
        if after is graph or each in _AT_ONCE:
            self._known[each] = after
        if each is dead_code:  # nodes that were left as they are still are, without some others
            self._known |= {p: after for p in _BY_OPERANDS if self._known.get(p) is graph}
        return after


_AT_ONCE: Final = (dead_code, common_subexpressions)  # that leave nothing to themselves
_BY_OPERANDS: Final = (simplify, common_subexpressions)  # that look at what a node reads, alone


def inside(graph: Graph, passes: Pass | None = None) -> Graph:
    """Every pass on the graphs that nodes hold."""
    passes = passes or _all_passes
    changed: dict[Node, Node] = {}
    done: dict[Graph, Graph] = {}  # calls share theirs
    nodes = []
    for n in graph.nodes:
        new, inner = n, subgraphs(n)
        if changed and not changed.keys().isdisjoint(n.args):
            new = with_args(n, tuple([changed.get(a, a) for a in n.args]))  # type: ignore[arg-type]
        if inner:
            done.update((g, passes(g)) for g in inner if g not in done)
            after = tuple(done[g] for g in inner)
            if after != inner:  # graphs are compared by identity
                new = with_subgraphs(new, after)
        if new is not n:
            changed[n] = new
        nodes.append(new)
    outputs = tuple(changed.get(o, o) for o in graph.outputs)
    return graph.with_(nodes=tuple(nodes), outputs=outputs) if changed else graph


def _all_passes(graph: Graph) -> Graph:
    settled = Settled()
    for each, _ in PASSES:
        graph = settled.run(each, graph)
    return graph


# (pass, why here)
PASSES: Final[tuple[tuple[Pass, str], ...]] = (
    (dead_code, "what nobody reads costs every later pass its time"),
    (share_scans, "the backward's loops are those of the forward, with more outputs"),
    (inside, "the graphs in nodes first: what they do not read need not be computed"),
    (trim_subgraphs, "what nobody reads of them, and what they hand on as it is"),
    (dead_code, "what only they read"),
    (simplify, "local identities; before sharing, so that two spellings of one value meet"),
    (common_subexpressions, "one value, one node: the backward repeats parts of the forward"),
    (split_scans, "after sharing in bodies; what is done for all steps is simplified below"),
    (hoist_products, "after sharing: every step has the same weights"),
    (sum_products, "before parts are joined, which hides additions"),
    (simplify, "products of all steps in their plain form"),
    (accumulate, "what is left to be summed over the steps"),
    (dead_code, "copies of a table whose reads were looked through"),
    (join_parts, "after sharing, so that only gradients used once are looked through"),
    (simplify, "sharing makes `where(c, x, x)` and its like visible"),
    (common_subexpressions, "what the rewrites made equal: codegen shares nothing"),
    (dead_code, "drop what the rewrites left behind"),
    (trim_subgraphs, "what was computed for it in loops"),
    (dead_code, "what only they read"),
    (split_collectives, "no pass looks at their halves, and none comes between them"),
)
