"""Between joint graph and passes: what to save, by min-cut. Graph -> (forward, backward).

Every value that the backward reads must cross from one graph to the other, either itself or as
values it can be recomputed from. The cheapest set to carry is a minimum cut: each value is an edge
whose capacity is its bytes, each use an infinite edge, and what may not be recomputed hangs on the
source. (The formulation is that of "min-cut rematerialisation" as in functorch's partitioner; the
flow algorithm is Dinic's, "Algorithm for solution of a problem of maximum flow", 1970.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Final

from eager.base.config import config
from eager.base.dataclass import dataclass
from eager.core.op import REGISTRY
from eager.ops.pointwise import ADD
from eager.sizes.aval import same_aval
from eager.sizes.symint import hint
from jitcap.base.walks import reach
from jitcap.graph.graph import (
    AS_NUMBER,
    INPUT,
    ITEM,
    SIZE,
    Arg,
    Graph,
    Node,
    Rewriter,
    aval_of,
    data_sizes,
    needed_by,
    placeholder,
    reachable,
    symbol,
    with_args,
)

INFINITE: Final = 1 << 60  # capacity of an edge that is never cut: more than bytes of all values


@dataclass(frozen=True, slots=True)
class Partition:
    """`forward`: primals -> outputs and saved values; `backward`: saved values and tangents ->
    gradients. `saved` are the values carried (nodes of the joint graph), in order."""

    forward: Graph
    backward: Graph
    saved: tuple[Node, ...]


def partition(
    joint: Graph,
    primals: int,
    outputs: int,
    *,
    alive: Container[Node] | None = None,
    recompute: bool | None = None,
    cheap: Callable[[Node], bool] | None = None,
) -> Partition:
    """Cut a joint graph in two.

    Its first `primals` inputs belong to the forward, the others are the gradients of outputs; its
    first `outputs` outputs belong to the forward, the others are gradients. Values written in place
    count as outputs, and symbols of sizes are always carried. `alive` are the values that are there
    anyway when the backward runs, at no cost (default: the primals). `recompute=False` carries all
    that crosses (default: config.recompute); `cheap` says what may be computed again (default:
    `is_cheap`).
    """
    tangents = joint.inputs[primals:]
    late = _depending_on(joint, tangents)
    crossing = _crossing(joint, late, outputs)
    allowed = config.recompute if recompute is None else recompute
    there = frozenset(joint.inputs[:primals]) if alive is None else alive
    saved = _min_cut(joint, late, crossing, there, cheap or is_cheap) if allowed else crossing
    symbols = [n for n in joint.inputs if "symbol" in n.attrs]
    symbols += [n for n in data_sizes(joint.nodes) if n not in late]
    saved = [*(n for n in saved if n not in symbols), *symbols]
    forward = Graph(
        joint.inputs[:primals],
        _only(joint, needed_by(joint, (*joint.outputs[:outputs], *saved))),
        (*joint.outputs[:outputs], *saved),
        f"{joint.name}_forward",
    )
    return Partition(forward, _backward(joint, saved, tangents, outputs), tuple(saved))


def _only(joint: Graph, wanted: set[Node]) -> tuple[Node, ...]:
    return tuple(n for n in joint.nodes if n in wanted)


def _depending_on(joint: Graph, roots: Sequence[Node]) -> set[Node]:
    """The nodes that need a gradient from outside."""
    late = set(roots)
    for n in joint.nodes:
        if any(p in late for p in n.parents):
            late.add(n)
    return late


def _crossing(joint: Graph, late: set[Node], outputs: int) -> list[Node]:
    """The early values that late nodes (or the gradients themselves) read."""
    wanted = [p for n in joint.nodes if n in late for p in n.parents if p not in late]
    wanted += [g for g in joint.outputs[outputs:] if g not in late]
    return list(dict.fromkeys(wanted))


def _backward(joint: Graph, saved: Iterable[Node], tangents: Sequence[Node], outputs: int) -> Graph:
    """Saved values and tangents -> gradients; what is not saved is recomputed."""
    given: dict[Node, Node] = {n: _carried(n, f"saved{i}") for i, n in enumerate(saved)} | {
        t: t for t in tangents
    }
    gradients = joint.outputs[outputs:]
    needed = {*reach(gradients, lambda n: () if n in given else n.parents)} - given.keys()
    mapped = dict(given)
    nodes = []
    for n in joint.nodes:
        if n in needed:
            args = tuple(mapped[a] if isinstance(a, Node) else a for a in n.args)
            mapped[n] = Node(n.op, args, n.attrs, n.avals, n.where)
            nodes.append(mapped[n])
    inputs = tuple(given.values())
    return Graph(
        inputs, tuple(nodes), tuple(mapped[g] for g in gradients), f"{joint.name}_backward"
    )


def _carried(n: Node, name: str) -> Node:
    """The input of the backward for a saved value. A symbol is one there, whoever defined it."""
    if n.op is SIZE and "symbol" in n.attrs:
        return symbol(n.attrs["size"])
    return n if "symbol" in n.attrs else placeholder(name, n.aval)


def _min_cut(
    joint: Graph,
    late: set[Node],
    crossing: Sequence[Node],
    alive: Container[Node],
    again: Callable[[Node], bool],
) -> list[Node]:
    """The cheapest values from which everything in `crossing` can be recomputed."""
    early = reachable(crossing)
    order = [n for n in joint.everything() if n in early and n not in late]
    number = {n: i for i, n in enumerate(order)}
    source, sink = 2 * len(order), 2 * len(order) + 1
    flow = Flow(2 * len(order) + 2)
    for n, i in number.items():
        flow.edge(2 * i, 2 * i + 1, _cost(n, alive))
        if not again(n):
            flow.edge(source, 2 * i, INFINITE)
        for p in dict.fromkeys(n.parents):
            flow.edge(2 * number[p] + 1, 2 * i, INFINITE)
    for n in crossing:
        flow.edge(2 * number[n] + 1, sink, INFINITE)
    reached = flow.cut(source, sink)
    return [n for n, i in number.items() if 2 * i in reached and 2 * i + 1 not in reached]


def is_cheap(n: Node) -> bool:
    """True if a value may be recomputed."""
    return n.op.recomputed or n.op in (ITEM, AS_NUMBER)


def _cost(n: Node, alive: Container[Node]) -> int:
    """Bytes to carry a value; all outputs together are no value, and a number is computed again."""
    if len(n.avals) != 1:
        return INFINITE
    return 1 if n.op is INPUT and n in alive else max(hint(n.aval.nbytes), 1) + 1


def without(graph: Graph, slots: Sequence[Node], absent: set[Node]) -> tuple[Graph, list[int]]:
    """A backward where no gradient came for the `absent` ones of the `slots` (its inputs): the
    graph of what is left, and which outputs those are.

    Where no gradient comes nothing is computed, as on the tape: 0 times an infinite slope would be
    NaN. Gradients are added up, so one that is missing drops out of a sum; elsewhere (a part of a
    `cat`, a second output) it is zeros."""
    late, zero = _depending_on(graph, slots), set(absent)
    r = Rewriter(graph)
    for n in graph.nodes:
        grads = [p for p in n.parents if p in late]
        if grads and zero.issuperset(grads):
            zero.add(n)
        else:
            r.mapped[n] = _partly(r, n, zero)
    kept = [i for i, o in enumerate(graph.outputs) if o not in zero]
    outputs = tuple(r.mapped[graph.outputs[i]] for i in kept)
    needed = reachable(outputs)  # type: ignore[arg-type]
    inputs = tuple(  # a tensor that is not needed may have been overwritten by then
        n
        for n in graph.inputs
        if n not in absent and (n in needed or n.aval.weak or "symbol" in n.attrs)
    )
    nodes = tuple(n for n in r.nodes if n in needed)
    return Graph(inputs, nodes, outputs, graph.name), kept  # type: ignore[arg-type]


def _partly(r: Rewriter, n: Node, zero: set[Node]) -> Arg:
    """A node some of whose arguments are `zero`."""
    if not any(a in zero for a in n.parents):
        return r.keep(n, r.args(n))
    rest = [a for a in n.args if a not in zero]
    if n.op is ADD and same_aval(aval_of(rest[0]), n.aval):
        return r.lookup(rest[0])
    fill = REGISTRY["full"]
    args = tuple(
        r.emit(fill, (0,), {"shape": a.aval.shape, "dtype": a.aval.dtype}, n)
        if isinstance(a, Node) and a in zero
        else r.lookup(a)
        for a in n.args
    )
    return r.append(with_args(n, args))


class Flow:
    """Maximum flow on integer capacities: Dinic's algorithm, without recursion."""

    def __init__(self, vertices: int) -> None:
        self.out: list[list[int]] = [[] for _ in range(vertices)]
        self.to: list[int] = []
        self.capacity: list[int] = []

    def edge(self, a: int, b: int, capacity: int) -> None:
        """An edge and its reverse, at numbers 2k and 2k + 1."""
        for u, v, c in ((a, b, capacity), (b, a, 0)):
            self.out[u].append(len(self.to))
            self.to.append(v)
            self.capacity.append(c)

    def cut(self, source: int, sink: int) -> set[int]:
        """The vertices on the source's side of a minimum cut."""
        while True:
            level = self._levels(source, sink)
            if level[sink] < 0:
                return {v for v, d in enumerate(level) if d >= 0}
            self._augment(source, sink, level)

    def _levels(self, source: int, sink: int) -> list[int]:
        level = [-1] * len(self.out)
        level[source] = 0
        queue = deque([source])
        while queue and level[sink] < 0:  # no shortest path leads beyond it
            u = queue.popleft()
            for e in self.out[u]:
                v = self.to[e]
                if self.capacity[e] and level[v] < 0:
                    level[v] = level[u] + 1
                    queue.append(v)
        return level

    def _augment(self, source: int, sink: int, level: list[int]) -> None:
        """A blocking flow: depth-first along rising levels, each edge given up once."""
        at = [0] * len(self.out)
        to, capacity = self.to, self.capacity
        path: list[int] = []
        u = source
        while True:
            if u == sink:
                amount = min(self.capacity[e] for e in path)
                for e in path:
                    self.capacity[e] -= amount
                    self.capacity[e ^ 1] += amount
                path.clear()
                u = source
                continue
            edges, k, above = self.out[u], at[u], level[u] + 1
            end = len(edges)
            while k < end and not (capacity[edges[k]] and level[to[edges[k]]] == above):
                k += 1
            at[u] = k
            if k < end:
                path.append(e := edges[k])
                u = self.to[e]
            elif path:
                level[u] = -1
                u = self.to[path.pop() ^ 1]
            else:
                return
