"""Reproducing: smaller graphs than one that shows a fault. Candidate -> Candidates.

A graph may lose any of its operations: where the others read what they gave, there are inputs with
these values. The body of an operation that holds graphs may stand for it, and sizes may be halved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from eager.base.dataclass import dataclass
from eager.core.op import Attrs
from eager.sizes.aval import Aval
from eager.sizes.substitute import symbols_in
from jitcap.graph.graph import (
    CHECK,
    INPUT,
    ITEM,
    SIZE,
    Arg,
    Graph,
    GraphOp,
    Node,
    at_sizes,
    aval_at,
    aval_of,
    is_definer,
    placeholder,
    sizes_found,
    sizes_of,
    with_args,
)
from jitcap.graph.loops import SCAN, split
from jitcap.graph.show import name_nodes
from jitcap.graph.subgraphs import CALL, COND, WHILE, subgraphs
from jitcap.reproduce.inputs import Given
from jitcap.verify.nans import copy_of

Fill = Callable[[Aval, Any, int], Given]  # an aval, its value (None: not known), a seed
SMALL: Final = 1  # no size is made smaller


@dataclass(frozen=True, slots=True)
class Candidate:
    """A graph with its inputs, as it is compiled. `fill` gives further inputs their values."""

    graph: Graph
    given: tuple[Given, ...]
    backend: str
    fill: Fill
    writes: tuple[tuple[int, int], ...] = ()
    strides: tuple[tuple[int, ...] | None, ...] | None = None

    @property
    def units(self) -> tuple[Node, ...]:
        """The operations, without those that pick a result of one."""
        return tuple(n for n in self.graph.nodes if n.op is not ITEM)

    @property
    def sizes(self) -> dict[str, int]:
        """The values of symbols that are inputs."""
        return sizes_of(self.graph, dict(zip(self.graph.inputs, self.values, strict=True)))

    @property
    def values(self) -> list[Any]:
        return [copy_of(g.value) for g in self.given]


def refilled(candidate: Candidate, fill: Fill) -> Candidate:
    """The candidate with its inputs filled in another way."""
    given = tuple(fill(g.aval, g.value, i) for i, g in enumerate(candidate.given))
    return replace(candidate, given=given, fill=fill)


# ---- fewer operations


def keeping(candidate: Candidate, kept: Collection[Node]) -> Candidate:
    """The graph of these operations alone, and what picks results of them. Its outputs are those
    that were, and what nobody reads any more."""
    graph, whole = candidate.graph, set(kept)
    nodes = [n for n in graph.nodes if (n.parents[0] if n.op is ITEM else n) in whole]
    stay = set(nodes)
    read = {p for n in nodes for p in n.parents}
    ends = [n for n in nodes if len(n.avals) == 1 and n not in read and n not in graph.outputs]
    outputs = [o for o in graph.outputs if o in stay] + ends
    cut = [p for p in dict.fromkeys(p for n in nodes for p in n.parents) if p not in stay]
    cut = [p for p in cut if p.op is not INPUT]
    values = _values(candidate, cut)
    names = name_nodes(graph)
    made: dict[Node, Node] = {n: placeholder(names[n], n.aval) for n in cut}
    inputs = [n for n in graph.inputs if n in read or "symbol" in n.attrs]
    given = [candidate.given[graph.inputs.index(n)] for n in inputs]
    seed, sizes = len(candidate.given), candidate.sizes
    avals = [aval_at(n.aval, sizes) for n in cut]
    given += [
        candidate.fill(aval, values.get(n), seed + i)
        for i, (n, aval) in enumerate(zip(cut, avals, strict=True))
    ]
    for n in nodes:
        made[n] = with_args(n, tuple(made.get(a, a) if isinstance(a, Node) else a for a in n.args))
    smaller = graph.with_(
        inputs=(*inputs, *(made[n] for n in cut)),
        nodes=tuple(made[n] for n in nodes),
        outputs=tuple(made[o] for o in outputs),
    )
    writes = _writes_among(candidate, inputs, outputs)
    strides = candidate.strides
    if strides is not None:
        strides = (*(strides[graph.inputs.index(n)] for n in inputs), *(None for _ in cut))
    return replace(candidate, graph=smaller, given=tuple(given), writes=writes, strides=strides)


def only(candidate: Candidate, outputs: Sequence[Node]) -> Candidate:
    """The candidate without its other outputs."""
    graph = candidate.graph.with_(outputs=tuple(outputs))
    writes = _writes_among(candidate, graph.inputs, outputs)
    return replace(candidate, graph=graph, writes=writes)


def _writes_among(
    candidate: Candidate, inputs: Sequence[Node], outputs: Sequence[Node]
) -> tuple[tuple[int, int], ...]:
    """The writes of these outputs into these inputs, by the numbers that they have here."""
    graph = candidate.graph
    return tuple(
        (inputs.index(graph.inputs[i]), outputs.index(graph.outputs[o]))
        for i, o in candidate.writes
        if graph.inputs[i] in inputs and graph.outputs[o] in outputs
    )


def _values(candidate: Candidate, wanted: Collection[Node]) -> dict[Node, Any]:
    """The values of some operations, op by op; none where that fails."""
    left, found = set(wanted), dict[Node, Any]()
    try:
        with np.errstate(all="ignore"):
            for n, value in candidate.graph.steps(candidate.values):
                if n in left:
                    found[n] = copy_of(value)
                    left.discard(n)
                if not left:
                    break
    except Exception:  # noqa: BLE001 - then they are made by rule
        return {}
    return found


def settled(candidate: Candidate) -> Candidate:
    """The graph for the sizes of now, without what finds or asks sizes."""
    graph = candidate.graph
    sizes = {s.name: int(s.hint) for s in symbols_in(_sizes_in(graph))}
    if all(g.value is not None for g in candidate.given):
        sizes |= candidate.sizes
        for n, value in graph.steps(candidate.values):
            if is_definer(n):
                sizes |= sizes_found(n, value if len(n.avals) > 1 else (value,))
    plain = [n for n in candidate.units if not is_definer(n) and n.op is not SIZE]
    less = keeping(candidate, [n for n in plain if not (n.op is CHECK and "size" in n.attrs)])
    fixed = at_sizes(less.graph, sizes)
    used = {p for n in fixed.nodes for p in n.parents}
    rows = [(n, g) for n, g in zip(fixed.inputs, less.given, strict=True) if n in used]
    given = tuple(replace(g, aval=n.aval) for n, g in rows)
    inputs = tuple(n for n, _ in rows)
    return replace(less, graph=fixed.with_(inputs=inputs), given=given, writes=(), strides=None)


def _sizes_in(graph: Graph) -> list[Any]:
    return [(n.attrs, *(a.shape for a in n.avals)) for n in graph.everything()]


# ---- the graphs inside


def inside(candidate: Candidate) -> Iterator[Candidate]:
    """The graphs that operations hold, each as it is first run."""
    held = [n for n in candidate.graph.nodes if subgraphs(n)]
    reads = [p for n in held for p in n.parents]
    values = _values(candidate, reads)
    values |= dict(zip(candidate.graph.inputs, candidate.values, strict=True))
    for n in held:
        found = [values.get(a) if isinstance(a, Node) else a for a in n.args]
        if any(x is None for x in found):
            continue
        body, operands = _begun(n, found)
        rows = enumerate(zip(body.inputs, operands, strict=True))
        given = tuple(candidate.fill(i.aval, x, at) for at, (i, x) in rows)
        yield replace(candidate, graph=body, given=given, writes=(), strides=None)


def _begun(n: Node, operands: Sequence[Any]) -> tuple[Graph, list[Any]]:
    """The first graph that an operation runs, and with what."""
    graphs = subgraphs(n)
    if n.op is COND:
        return graphs[int(operands[0])], [*operands[1:]]
    if n.op is WHILE:
        return graphs[0], [*operands[1:]]
    if n.op is SCAN:
        carries, stacks, rest, counters = split(operands, n.attrs)
        first = n.attrs["length"] - 1 if n.attrs["reverse"] else 0
        return graphs[0], [*carries, *(np.asarray(s[first]) for s in stacks), *rest, *counters]
    assert n.op is CALL
    return graphs[0], [*operands]


def bypassed(candidate: Candidate) -> Iterator[Candidate]:
    """Graphs inside an operation with one operation less: an operand stands for its result."""
    for n in candidate.graph.nodes:
        for i, body in enumerate(subgraphs(n)):
            for each in body.nodes:
                other = next((p for p in each.parents if p.avals == each.avals), None)
                if other is None or each.op is ITEM or each.op is CHECK:
                    continue
                graphs = list(subgraphs(n))
                graphs[i] = _without(body, each, other)
                new = Node(n.op, n.args, {**n.attrs, "graphs": tuple(graphs)}, n.avals, n.where)
                yield replace(candidate, graph=_replaced(candidate.graph, {n: new}))


def _without(body: Graph, gone: Node, other: Node) -> Graph:
    less = body.with_(nodes=tuple(x for x in body.nodes if x is not gone))
    return _replaced(less, {gone: other})


def _replaced(graph: Graph, made: dict[Node, Node]) -> Graph:
    """The graph with other nodes in the place of these."""
    changed = dict(made)
    nodes = []
    for n in graph.nodes:
        base = made.get(n, n)
        new = with_args(
            base, tuple(changed.get(a, a) if isinstance(a, Node) else a for a in base.args)
        )
        if new is not n:
            changed[n] = new
        nodes.append(new)
    outputs = tuple(changed.get(o, o) for o in graph.outputs)
    return graph.with_(nodes=tuple(nodes), outputs=outputs)


# ---- smaller sizes


def halved(candidate: Candidate) -> Iterator[Candidate]:
    """The graph with one of its sizes halved, alone or with those that it divides; of the inputs
    the first half, or the last."""
    graph = candidate.graph
    if graph.has_symbols or any(map(subgraphs, graph.nodes)):
        return  # a body's own sizes would have to follow
    found = {n for node in graph.everything() for a in node.avals for n in a.shape}
    for size in sorted((n for n in found if n > SMALL), reverse=True):
        alone = {size: size // 2}
        multiples = {n: n // size * (size // 2) for n in found if n % size == 0}
        for sizes in (alone, multiples) if multiples != alone else (alone,):
            for last in (False, True):
                smaller = _resized(candidate, sizes, last=last)
                if smaller is not None:
                    yield smaller


def _resized(candidate: Candidate, sizes: Mapping[int, int], *, last: bool) -> Candidate | None:
    """The candidate with other sizes; None where an operation does not allow them."""
    made: dict[Node, Node] = {}
    given: list[Given] = []
    for n, g in zip(candidate.graph.inputs, candidate.given, strict=True):
        shape = tuple(sizes.get(d, d) for d in n.aval.shape)
        aval = replace(n.aval, shape=shape)
        made[n] = placeholder(n.attrs["name"], aval)
        value = g.value
        if shape != n.aval.shape and value is not None:
            cut = (slice(-d, None) if last and d else slice(d) for d in shape)
            value = np.ascontiguousarray(value[tuple(cut)]).reshape(shape)
        seed = len(given)
        given.append(g if aval == n.aval else candidate.fill(aval, value, seed))
    try:
        for n in candidate.graph.nodes:
            args: tuple[Arg, ...] = tuple(made[a] if isinstance(a, Node) else a for a in n.args)
            attrs = n.attrs
            if not isinstance(n.op, GraphOp):
                attrs = {k: _sized(v, sizes) for k, v in n.attrs.items()}
            made[n] = Node(n.op, args, attrs, _avals(n, args, attrs), n.where)
    except Exception:  # noqa: BLE001 - its rule says no
        return None
    smaller = candidate.graph.with_(
        inputs=tuple(made[n] for n in candidate.graph.inputs),
        nodes=tuple(made[n] for n in candidate.graph.nodes),
        outputs=tuple(made[o] for o in candidate.graph.outputs),
    )
    return replace(candidate, graph=smaller, given=tuple(given), strides=None)


def _sized(value: Any, sizes: Mapping[int, int]) -> Any:
    """An attribute: sizes stand in tuples, and alone."""
    if type(value) is tuple:
        return tuple(_sized(x, sizes) for x in value)
    return sizes.get(value, value) if type(value) is int else value


def _avals(n: Node, args: tuple[Arg, ...], attrs: Attrs) -> tuple[Aval, ...]:
    if n.op is ITEM:
        (parent,) = args
        assert isinstance(parent, Node)
        return (parent.avals[attrs["index"]],)
    if isinstance(n.op, GraphOp) or any(a.weak for a in n.avals):
        return n.avals
    return n.op.abstract(tuple(map(aval_of, args)), attrs)
