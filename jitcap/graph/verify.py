"""Beside the passes: is this still a graph? Graph -> None, or GraphError naming the fault.

Runs between stages when `CHECK=1` (always in tests). What it asserts is what passes may rely on:
every value is defined once and before its use, every op's own rule gives the recorded avals, every
output exists; and so it is in the graphs that nodes hold.
"""

from __future__ import annotations

from eager.sizes.aval import Aval
from jitcap.graph.graph import INPUT, ITEM, Graph, GraphOp, Node, aval_of
from jitcap.graph.show import show
from jitcap.graph.subgraphs import SubgraphOp


class GraphError(AssertionError):
    """A pass left a graph that breaks an invariant: a bug of this library."""


def verify(graph: Graph, after: str = "", known: set[Node] | None = None) -> None:
    """Raise GraphError if `graph` breaks an invariant; `after` names the stage that made it. Nodes
    do not change: of the `known` ones, which those seen here join, the rules were asked."""
    known = set() if known is None else known
    seen: set[Node] = set()
    for n in graph.inputs:
        if n.op is not INPUT:
            raise _fault(graph, n, "an input that is not an INPUT node", after)
        if n in seen:
            raise _fault(graph, n, "an input listed twice", after)
        seen.add(n)
    for n in graph.nodes:
        if n.op is INPUT:
            raise _fault(graph, n, "an INPUT node that is not among the inputs", after)
        if n in seen:
            raise _fault(graph, n, "a node listed twice", after)
        for a in n.parents:
            if a not in seen:
                raise _fault(graph, n, f"uses {a!r} before its definition", after)
            if n.op is not ITEM and len(a.avals) != 1:
                raise _fault(graph, n, f"uses all outputs of {a!r}", after)
        if n not in known:
            _check_avals(graph, n, after)
            _check_subgraphs(graph, n, after, known)
            known.add(n)
        seen.add(n)
    for o in graph.outputs:
        if o not in seen or len(o.avals) != 1:
            raise _fault(graph, o, "an output that is not a value", after)


def _check_avals(graph: Graph, n: Node, after: str) -> None:
    """The op's rule must agree with the record (arithmetic on run-time numbers is Python's)."""
    if n.op is ITEM:
        source = n.parents[0]
        if source.avals[n.attrs["index"]] != n.aval:
            raise _fault(graph, n, "an item of other aval", after)
        return
    if isinstance(n.op, GraphOp) or any(a.weak for a in n.avals):
        return
    avals = n.op.abstract(tuple(aval_of(a) for a in n.args), n.attrs)
    if tuple(map(_strong, avals)) != tuple(map(_strong, n.avals)):
        raise _fault(graph, n, f"recorded {n.avals}, but its op gives {avals}", after)


def _check_subgraphs(graph: Graph, n: Node, after: str, known: set[Node]) -> None:
    """Subgraphs of a node must be valid, and take and give the values that it says."""
    if not isinstance(n.op, SubgraphOp):
        return
    for inner, takes, gives in n.op.calls(n):
        verify(inner, f"{after} in {n.op.name}", known)
        given = tuple(i.aval for i in inner.inputs)
        if tuple(map(_strong, given)) != tuple(map(_strong, takes)):
            raise _fault(graph, n, f"given {takes}, but a graph in it takes {given}", after)
        results = tuple(o.aval for o in inner.outputs)
        if results != gives:
            raise _fault(graph, n, f"to give {gives}, but a graph in it gives {results}", after)


def _strong(a: Aval) -> tuple[object, ...]:
    return (a.shape, a.dtype)


def _fault(graph: Graph, n: Node, fault: str, after: str) -> GraphError:
    stage = f" after {after}" if after else ""
    return GraphError(
        f"broken graph{stage}: {n!r} is {fault}\n  from {n.where}\n{_neighbourhood(graph, n)}"
    )


def _neighbourhood(graph: Graph, n: Node) -> str:
    """A few printed lines around the fault; the graph may be too broken to print."""
    try:
        lines = show(graph).splitlines()
        at = 1 + graph.nodes.index(n)
    except (KeyError, ValueError):
        return "  (the graph does not print)"
    return "\n".join(lines[max(0, at - 4) : at + 4])
