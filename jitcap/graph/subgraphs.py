"""Nodes that hold graphs: control flow. parts of a trace -> `COND`, `WHILE` and their graphs.

An op of this kind is a `SubgraphOp`: its attribute `graphs` is a tuple of `Graph`s, each closed
over nothing: whatever it reads is an operand of the node, and an input of the graph. What another
one needs (a scan, say) is a subclass with `abstract`, `compute`, `calls` and `keyword`, an instance
in `GRAPH_OPS` below, a method of `Outlines` like `loop`, which makes the node of its parts, and a
function in `show`, which is called by that keyword. Passes, verifying and keys look at
`subgraphs(node)` and `op.calls(node)`; only `passes/trim_subgraphs.py` knows what it may leave out.

    COND(pick, *operands; graphs)    graphs[pick](*operands); a truth picks the second if it holds
    WHILE(go, *carried, *rest; graphs=(body,), carried=n)
                                     while go: go, *carried = body(*carried, *rest)
    CALL(*operands; graphs=(body,))  body(*operands), of which there are others: see passes/repeats

Recording: `Tracer.part` runs a function and takes out what it recorded, `outline` makes it a graph:
all that its outputs depend on and that the surrounding graph has not. So a part may read values of
another part, which are then computed again in it: that is how the gradient of an arm finds what the
arm computed. A check inside a part becomes an output of it, and a check of the surrounding graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from eager.base.dataclass import dataclass
from eager.core.op import REGISTRY, Attrs, Op
from eager.sizes.aval import Aval, scalar_aval
from jitcap.base.walks import after_parents, reach
from jitcap.graph.graph import (
    AS_NUMBER,
    GRAPH_OPS,
    Arg,
    Graph,
    GraphOp,
    Node,
    aval_of,
    placeholder,
    stand_in,
)
from jitcap.graph.symbols import symbols_in


@dataclass(frozen=True, eq=False)
class SubgraphOp(GraphOp):
    """An op whose attribute `graphs` holds graphs."""

    kind = "control"

    def calls(self, node: Node) -> Iterator[tuple[Graph, tuple[Aval, ...], tuple[Aval, ...]]]:
        """Each graph, with what it takes and gives."""
        raise NotImplementedError

    def keyword(self, node: Node) -> str:
        """Start of the printed call, with what it takes besides operands: "choice(", "loop(3, "."""
        raise NotImplementedError

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        return tuple(o.aval for o in attrs["graphs"][0].outputs)


@dataclass(frozen=True, eq=False)
class _Cond(SubgraphOp):
    def calls(self, node: Node) -> Iterator[tuple[Graph, tuple[Aval, ...], tuple[Aval, ...]]]:
        takes = tuple(map(aval_of, node.args[1:]))
        return ((graph, takes, node.avals) for graph in node.attrs["graphs"])

    def keyword(self, node: Node) -> str:
        return "choice("

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return tuple(attrs["graphs"][int(arrays[0])].run(arrays[1:]))


@dataclass(frozen=True, eq=False)
class _While(SubgraphOp):
    def calls(self, node: Node) -> Iterator[tuple[Graph, tuple[Aval, ...], tuple[Aval, ...]]]:
        rest = map(aval_of, node.args[1 + len(node.avals) :])
        (body,) = node.attrs["graphs"]
        yield body, (*node.avals, *rest), (scalar_aval(True), *node.avals)

    def keyword(self, node: Node) -> str:
        return f"loop({node.attrs['carried']}, "

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        return tuple(o.aval for o in attrs["graphs"][0].outputs[1:])

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        (body,), stop = attrs["graphs"], 1 + attrs["carried"]
        go, carried, rest = arrays[0], arrays[1:stop], arrays[stop:]
        while bool(go):
            go, *carried = body.run((*carried, *rest))
        return tuple(carried)


@dataclass(frozen=True, eq=False)
class _Call(SubgraphOp):
    def calls(self, node: Node) -> Iterator[tuple[Graph, tuple[Aval, ...], tuple[Aval, ...]]]:
        (graph,) = node.attrs["graphs"]
        yield graph, tuple(map(aval_of, node.args)), node.avals

    def keyword(self, node: Node) -> str:
        return "call("

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return tuple(attrs["graphs"][0].run(arrays))


COND: Final = _Cond("cond", ("pick", "*operands"))
WHILE: Final = _While("while_loop", ("go", "*operands"))
CALL: Final = _Call("call", ("*operands",))
GRAPH_OPS.update({op.name: op for op in (COND, WHILE, CALL)})


def subgraphs(node: Node) -> tuple[Graph, ...]:
    """The graphs inside a node; of most none."""
    graphs: tuple[Graph, ...] = node.attrs["graphs"] if isinstance(node.op, SubgraphOp) else ()
    return graphs


def with_subgraphs(node: Node, graphs: Sequence[Graph]) -> Node:
    """The node with other graphs, which take and give the same."""
    return Node(node.op, node.args, {**node.attrs, "graphs": tuple(graphs)}, node.avals, node.where)


def everywhere(graph: Graph) -> Iterator[Node]:
    """All nodes: those of a subgraph before the first node that holds it."""
    yield from graph.inputs
    seen: set[Graph] = set()
    for n in graph.nodes:
        for inner in subgraphs(n):
            if inner not in seen:
                seen.add(inner)
                yield from everywhere(inner)
        yield n


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Record of a traced function: the `checks` made in it, the traced memory from outside that it
    wrote with the new values, and what a tracer notes besides (`more`)."""

    checks: tuple[Node, ...]
    writes: tuple[tuple[Any, Node], ...] = ()
    more: Any = None
    nodes: tuple[Node, ...] = ()


def outline(
    outputs: Sequence[Node],
    inside: Mapping[Node, int],
    bound: Sequence[Node],
    name: str,
    symbols: Mapping[str, Node] = MappingProxyType({}),
) -> tuple[Graph, list[Node], dict[Node, Node]]:
    """`outputs` as a graph; the outer values that its further inputs stand for; and its nodes by
    those that they were made of.

    `inside` numbers the nodes that the surrounding graph does not have, as they were recorded;
    `bound` become the first inputs. `symbols` are the inputs that sizes are made of: those that
    occur are handed in, too."""
    free: dict[Node, None] = {}
    every = reach(outputs, lambda n: n.parents if n in inside else ())
    needed = [n for n in every if n in inside]
    order = _in_order(sorted(needed, key=inside.__getitem__))
    for read in (*(p for n in order for p in n.parents), *outputs):
        if read not in inside and read not in bound:
            free[read] = None
    if symbols:
        sized = [(n.attrs, *(a.shape for a in n.avals)) for n in (*bound, *free, *order)]
        used = {symbol.name for symbol in symbols_in(sized)}
        free.update((node, None) for symbol, node in symbols.items() if symbol in used)
    made = {n: placeholder(n.attrs.get("name", "x"), n.aval) for n in bound}
    made |= {n: stand_in(n, f"x{i}") for i, n in enumerate(free)}
    inputs = tuple(made.values())
    for n in order:
        args = tuple(made[a] if isinstance(a, Node) else a for a in n.args)
        made[n] = Node(n.op, args, n.attrs, n.avals, n.where)
    nodes = tuple(made[n] for n in order)
    return Graph(inputs, nodes, tuple(made[o] for o in outputs), name), list(free), made


def _in_order(nodes: Sequence[Node]) -> list[Node]:
    """Nodes in their order, but each behind its parents: a part is numbered when it ends, and what
    stands around it reads nothing of it, but later."""
    left = dict.fromkeys(nodes)
    order: list[Node] = []
    for n in nodes:
        for each in after_parents(n, lambda m: m.parents, lambda m: m not in left):
            del left[each]
            order.append(each)
    return order


def over(graph: Graph, free: Sequence[Node], operands: Sequence[Node]) -> Graph:
    """The graph with an input for each of `operands`, which hold all of `free`, its inputs."""
    own = dict(zip(free, graph.inputs, strict=True))
    return graph.with_(inputs=tuple(own.get(n) or stand_in(n, "unused") for n in operands))


class Outlines:
    """The tracer's half: parts become nodes of its graph."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.inside: dict[Node, int] = {}  # what parts took out of the graph, in order

    def take(self, nodes: Iterable[Node]) -> None:
        """Nodes of a part, which the surrounding graph does not have."""
        for n in nodes:
            self.inside.setdefault(n, len(self.inside))

    def choice(
        self,
        pick: Arg,
        parts: Sequence[Part],
        outputs: Sequence[Sequence[Arg]],
        avals: Sequence[Aval],
    ) -> tuple[Node, ...]:
        """The outputs of the part that `pick` numbers: a COND, and checks for those in parts."""
        checks = [(i, c) for i, part in enumerate(parts) for c in part.checks]
        if not avals and not checks:
            return ()
        outs = (*avals, *(scalar_aval(True) for _ in checks))
        made = []
        for i, row in enumerate(outputs):
            own = [self.all(c.args) if j == i else True for j, c in checks]
            ends = [self._node(x, a) for x, a in zip((*row, *own), outs, strict=True)]
            made.append(self._outline(ends, (), f"arm_{i}"))
        operands = list(dict.fromkeys(n for _, free, _ in made for n in free))
        for _, _, nodes in made:  # what is known of them is known of these
            for old, new in nodes.items():
                if old in self.tracer.recorded:
                    self.tracer.recorded[new] = self.tracer.recorded[old]
        graphs = tuple(over(graph, free, operands) for graph, free, _ in made)
        handles = self.tracer.emit(COND, (pick, *operands), {"graphs": graphs}, outs)
        self._check([c for _, c in checks], handles[len(avals) :])
        return tuple(handles[: len(avals)])

    def loop(
        self,
        go: Arg,
        part: Part,
        outputs: Sequence[Arg],
        carried: Sequence[Node],
        start: Sequence[Arg],
        avals: Sequence[Aval],
    ) -> tuple[Node, ...]:
        """The last of what is carried: a WHILE, and checks for those in the body, which end it."""
        outs = tuple(avals) + tuple(scalar_aval(True) for _ in part.checks)
        holds = [self.all(c.args) for c in part.checks]
        again = self.all([outputs[0], *holds])
        rows = zip((*outputs[1:], *holds), outs, strict=True)
        ends = [self._node(again, scalar_aval(True)), *(self._node(x, a) for x, a in rows)]
        oks = [placeholder(f"ok{i}", scalar_aval(True)) for i in range(len(holds))]
        graph, free, _ = self._outline(ends, (*carried, *oks), "body")
        first = (*start, *(True for _ in oks))
        attrs = {"graphs": (graph,), "carried": len(outs)}
        handles = self.tracer.emit(WHILE, (go, *first, *free), attrs, outs)
        self._check(part.checks, handles[len(avals) :])
        return tuple(handles[: len(avals)])

    def count(
        self,
        go: Arg,
        part: Part,
        outputs: Sequence[Arg],
        carried: Sequence[Node],
        start: Sequence[Arg],
        avals: Sequence[Aval],
    ) -> Node:
        """Number of rounds of a loop, which takes what `loop` takes."""
        count = placeholder("rounds", scalar_aval(0))
        more = self._emit(_ADD, (count, 1), {}, count.aval)
        given = (*carried, count), (*start, 0), (*avals, count.aval)
        return self.loop(go, part, (*outputs, more), *given)[-1]

    def _outline(
        self, ends: Sequence[Node], bound: Sequence[Node], name: str
    ) -> tuple[Graph, list[Node], dict[Node, Node]]:
        return outline(ends, self.inside, bound, name, self.symbols())

    def symbols(self) -> dict[str, Node]:
        """The inputs that sizes are made of, by name."""
        found = {n.attrs["symbol"]: n for n in self.tracer.inputs if "symbol" in n.attrs}
        return found | self.tracer.data_sizes

    def _check(self, checks: Sequence[Node], handles: Sequence[Node]) -> None:
        for c, handle in zip(checks, handles, strict=True):
            self.tracer.check_again(c, handle)

    def all(self, conditions: Sequence[Arg]) -> Arg:
        """Conjunction of the conditions, as a number for a part."""
        rest = [c for c in dict.fromkeys(conditions) if c is not True]
        if not rest or False in rest:
            return not rest
        truth = scalar_aval(True)
        total = self._node(rest[0], truth)
        for c in rest[1:]:
            total = self._emit(_AND, (total, self._node(c, truth)), {}, truth)
        return total

    def plus(self, number: Arg, count: Arg) -> Node:
        """A number that steps of a part carry, in the next one."""
        return self._emit(_ADD, (number, count), {}, scalar_aval(0))

    def _node(self, value: Arg, aval: Aval) -> Node:
        """A value as an output of a part, weak or not as `aval` says."""
        node = value
        if not isinstance(node, Node):
            node = self.tensor(value, Aval((), aval.dtype, aval.device))
        if aval.weak and not node.aval.weak:
            node = self._emit(AS_NUMBER, (node,), {}, aval)
        return node

    def tensor(self, value: Arg, aval: Aval) -> Node:
        """A number as an output of a part that is none."""
        attrs = {"shape": (), "dtype": aval.dtype}
        if aval.device != "cpu":
            attrs["device"] = aval.device
        return self._emit(_FULL, (value,), attrs, aval)

    def _emit(self, op: Op, args: tuple[Arg, ...], attrs: Attrs, aval: Aval) -> Node:
        """A node of the part that takes it as an output."""
        node = Node(op, args, attrs, (aval,), self.tracer.where())
        self.take((node,))
        return node


_ADD: Final = REGISTRY["add"]
_AND: Final = REGISTRY["logical_and"]
_FULL: Final = REGISTRY["full"]
