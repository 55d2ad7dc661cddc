"""Beside capture, if gradients can be asked for later: the recorded tape -> joint graph.

A region that contains only the forward still has to answer `backward()`. While its traced tensors
are at hand, eager's own reverse sweep is run on them with placeholders for the gradients of the
outputs (`build_joint`). `jitcap/autodiff/compiled_function.py` cuts the result in two, and puts it
on the tape.

What the region's tape was like stays visible: outputs that share no history are swept one by one,
a leaf that no gradient reaches gets none, and with `create_graph` the forward is put on eager's
tape again, each operation as it was recorded (`jitcap/autodiff/double_backward.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from eager import autograd
from eager.base.dataclass import dataclass
from eager.core.tape import FREED, OpNode, edge_of, sweep
from eager.core.tensor import Tensor, wrap
from eager.core.traced import Traced, fresh
from eager.sizes.aval import Aval, contiguous_strides, same
from eager.sizes.substitute import symbols_in
from jitcap.autodiff.double_backward import Tape, kept_by, tape_of
from jitcap.base.breaks import Break
from jitcap.base.walks import reach
from jitcap.graph.graph import (
    Graph,
    Node,
    is_definer,
    needed_by,
    placeholder,
    reachable,
    size_inputs,
    with_definers,
)
from jitcap.graph.tracer import Tracer

Saved = autograd.Saved


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """The history of a slot. `parts` (numbers of pieces of the tape; slots that share a piece are
    freed together; a node that keeps nothing is in none) go back to the slots `before` it and no
    further, `whole` to the leaves, past the slots `behind` it; `rank` counts the slots that were
    made earlier. `kept` are the values (positions: inputs first, then operations) whose memory
    eager would have saved for the whole. `raises` is what eager says where a gradient goes through
    it all (an op has no derivative)."""

    parts: frozenset[int]
    whole: frozenset[int]
    before: tuple[int, ...]
    behind: tuple[int, ...]
    rank: int
    kept: frozenset[int]
    raises: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Forward and backward in one graph: inputs are the primals, then the gradients of the outputs
    that are on the tape (the *slots*); outputs are the forward's `outputs` first, then the
    gradients of the leaves, except of those (the last) that only an op without a derivative leads
    to. Sizes may be symbols, which are primals."""

    graph: Graph
    primals: int
    outputs: int
    tensors: tuple[int, ...]  # the outputs that become tensors
    leaves: tuple[int, ...]  # those that the slots lead to: places among all of them
    avals: tuple[Aval, ...]  # and how their gradients look
    strides: tuple[tuple[int, ...] | None, ...]  # in eager, where it is not contiguous
    passed: dict[int, tuple[int, tuple[Any, ...]]]  # gradients that are views of a slot's: by which
    segments: tuple[Segment, ...]  # for each slot
    tape: Tape

    @property
    def finds_sizes_late(self) -> bool:
        """True if the backward itself finds sizes: those that gradients decide."""
        late = set(self.graph.inputs[self.primals :])
        for n in self.graph.nodes:
            if not late.isdisjoint(n.parents):
                late.add(n)
                if is_definer(n):
                    return True
        return False

    @property
    def forward(self) -> Graph:
        """Without the gradients."""
        ends = self.graph.outputs[: self.outputs]
        needed = needed_by(self.graph, ends)
        nodes = tuple(n for n in self.graph.nodes if n in needed)
        name = self.graph.name.removesuffix("_joint")
        return Graph(self.graph.inputs[: self.primals], nodes, ends, name)


def derive(
    tracer: Tracer,
    outputs: Sequence[Node],
    tensors: Iterable[int],
    slots: Sequence[Tensor],
    leaves: Sequence[Tensor],
    written: Iterable[Node],
) -> Joint:
    """The joint graph of what `tracer` recorded, whose checks come behind the `outputs`; the other
    arguments as of `build_joint`. Raises Break for a backward that finds sizes itself."""
    known = len(tracer.checks)
    ends, given = [*outputs, *tracer.checks], (tensors, slots, leaves, written)
    joint = build_joint(tracer, ends, *given)
    of_sizes = [check for check in tracer.checks[known:] if not check.args]
    if of_sizes:  # what the gradients expect of sizes that data decide, asked for once
        joint = build_joint(tracer, [*ends, *of_sizes], *given)
    if joint.finds_sizes_late:
        raise Break("data dependent", "a size that gradients from outside decide")
    for t, segment in zip(slots, joint.segments, strict=True):
        if t._node.hooks:  # a gradient that is kept outside is what they leave of it
            raise Break("later effect", "a tensor leaves that has a hook")
        if segment.behind and joint.tape.refused and any(u._retains for u in slots):
            what = f"an output keeps its gradient, and {joint.tape.refused}"
            raise Break("later effect", what)
    return joint


def build_joint(
    tracer: Tracer,
    outputs: Sequence[Node],
    tensors: Iterable[int],
    slots: Sequence[Tensor],
    leaves: Sequence[Tensor],
    written: Iterable[Node],
) -> Joint:
    """The joint graph of what `tracer` recorded.

    `tensors` are the indices of the outputs that become tensors, `slots` the traced tensors that
    leave with a history, `leaves` where gradients can go, `written` the inputs whose memory is
    written. Must be called with the tracer active, when everything else has been traced.
    """
    tangents = [placeholder(f"g{i}", t.aval) for i, t in enumerate(slots)]
    given: list[Tensor] = [wrap(fresh(tracer, n, n.aval)) for n in tangents]
    roots = [(edge_of(t), g) for t, g in zip(slots, given, strict=True)]
    own = tracer.differentiated
    with _bare(slots):
        wanted = {(id(t), 0) for t in leaves}
        _, arrived = sweep(roots, wanted, keep=True, create=False, ends=_underived)
    tracer.differentiated = own  # this was not the program
    reached = [i for i, t in enumerate(leaves) if id(t) in arrived]
    beyond = {id(t) for t in leaves_of(slots) if any(map(_underived, _history(slots)))}
    barred = [i for i, t in enumerate(leaves) if id(t) in beyond and i not in reached]
    arrays = [_array(tracer, arrived[id(leaves[i])][1]) for i in reached]
    gradients = [a.read() for a in arrays]
    ends = [_value(tracer, t) for t in slots]
    history = set(_history(slots))
    functions = [f for f in tracer.functions if f.node in history]
    needed = reachable((*outputs, *ends, *gradients, *kept_by(functions)))
    if tracer.data_sizes:
        used = symbols_in((n.attrs, *(a.shape for a in n.avals)) for n in (*needed, *tangents))
        names = {s.name for s in used}
        needed.update(n for name, n in tracer.data_sizes.items() if name in names)
        needed = with_definers(tracer.nodes, needed)
    nodes = tuple(n for n in tracer.nodes if n in needed)
    strides, chains = [a.strides for a in arrays], [a.chain for a in arrays]
    sized = size_inputs(tracer.inputs, (*needed, *written, *tangents), strides, chains)
    needed.update(sized)
    primals = tuple(dict.fromkeys((*(n for n in tracer.inputs if n in needed), *written)))
    inputs = (*primals, *tangents)
    graph = Graph(inputs, nodes, (*outputs, *gradients), f"{tracer.name}_joint")
    place = {n: i for i, n in enumerate(graph.everything())}
    return Joint(
        graph,
        len(primals),
        len(outputs),
        tuple(tensors),
        (*reached, *barred),
        (*(a.aval for a in arrays), *(leaves[i].aval for i in barred)),
        tuple(None if same(a.strides, contiguous_strides(a.shape)) else a.strides for a in arrays),
        {
            i: (tangents.index(a.storage.handle), a.chain)
            for i, a in enumerate(arrays)
            if a.storage.handle in tangents
        },
        segments_of(slots, place),
        tape_of(tracer, functions, place, ends, leaves, hooked=any(n.hooks for n in history)),
    )


def segments_of(slots: Sequence[Tensor], place: Mapping[Node, int]) -> tuple[Segment, ...]:
    """The segment of each slot: how the histories of slots lie behind each other."""
    kept = [frozenset(place[h] for h in _saved_values((t,)) if h in place) for t in slots]
    by_edge = {(t._node, t._index): i for i, t in enumerate(slots)}
    nodes: list[set[autograd.Node]] = []
    before: list[set[int]] = []
    for t in slots:
        seen, met, stack = {t._node}, set(), [t._node]
        while stack:
            for edge in stack.pop().edges:
                if edge is None or isinstance(edge[0], Tensor) or edge[0] in seen:
                    continue
                if edge in by_edge:
                    met.add(by_edge[edge])
                else:
                    seen.add(edge[0])
                    stack.append(edge[0])
        nodes.append(seen)
        before.append(met)
    owners: dict[autograd.Node, list[int]] = {}
    for i, seen in enumerate(nodes):
        for node in seen:
            owners.setdefault(node, []).append(i)
    number = {key: k for k, key in enumerate(dict.fromkeys(map(tuple, owners.values())))}
    parts = [frozenset(number[tuple(owners[n])] for n in seen if _is_freed(n)) for seen in nodes]
    order = sorted(range(len(slots)), key=lambda i: slots[i]._node.sequence)
    whole: dict[int, frozenset[int]] = {}
    behind: dict[int, set[int]] = {}
    for i in order:
        whole[i] = parts[i].union(*(whole[j] for j in before[i]))
        behind[i] = before[i].union(*(behind[j] for j in before[i]))
    return tuple(
        Segment(
            parts[i],
            whole[i],
            tuple(sorted(before[i])),
            tuple(sorted(behind[i])),
            order.index(i),
            kept[i],
            next(filter(None, map(_underived, _history((slots[i],)))), ""),
        )
        for i in range(len(slots))
    )


@contextmanager
def _bare(slots: Sequence[Tensor]) -> Iterator[None]:
    """Without the tensors inside whose `.grad` is wanted: those that leave ask for it again."""
    retained = [(node, node.retained) for node in _history(slots) if node.retained]
    for node, _ in retained:
        node.retained = None
    try:
        yield
    finally:
        for node, tensors in retained:
            node.retained = tensors


def _array(tracer: Tracer, tensor: Tensor) -> Traced:
    return tensor._array if isinstance(tensor._array, Traced) else tracer.lift(tensor)


def _value(tracer: Tracer, tensor: Tensor) -> Node:
    node: Node = _array(tracer, tensor).read()
    return node


def _history(tensors: Iterable[Tensor]) -> Iterator[autograd.Node]:
    """The nodes of the tape behind `tensors`, each once."""
    return _walk(t._node for t in tensors)


def _walk(nodes: Iterable[Any]) -> Iterator[autograd.Node]:
    def inner(found: Iterable[Any]) -> list[Any]:
        return [n for n in found if n is not None and not isinstance(n, Tensor)]

    return reach(inner(nodes), lambda n: inner(e[0] for e in n.edges if e is not None))


def behind(tensors: Iterable[Tensor]) -> Iterator[autograd.Node]:
    """The nodes of the tape behind the nodes of `tensors`."""
    return _walk(e[0] for t in tensors for e in t._node.edges if e is not None)


def _underived(node: autograd.Node) -> str:
    """Message of the error that a node of the tape raises if it has no derivative, or ""."""
    return node.underived() if isinstance(node, OpNode) else ""


def leaves_of(tensors: Iterable[Tensor]) -> list[Tensor]:
    """The leaves that a gradient of `tensors` goes to."""
    found = {
        id(edge[0]): edge[0]
        for node in _history(tensors)
        for edge in node.edges
        if edge is not None and isinstance(edge[0], Tensor)
    }
    return list(found.values())


def _saved(node: autograd.Node) -> Iterator[Saved]:
    """Saved tensors of a node of the tape."""
    if isinstance(node, autograd.FunctionNode):
        values = [*(node.ctx._saved or ()), *node.ctx._forward]
    else:
        values = list((getattr(node, "saved", None) or {}).values())
    for value in values:
        for saved in value if isinstance(value, tuple) else (value,):
            if isinstance(saved, Saved):
                yield saved


def _is_freed(node: autograd.Node) -> bool:
    """True if eager takes a gradient through it only once: it keeps tensors for that."""
    if isinstance(node, OpNode | autograd.FunctionNode):
        return next(_saved(node), None) is not None
    return type(node).release is not autograd.Node.release


def _saved_values(slots: Sequence[Tensor]) -> Iterator[Node]:
    """The values of all memory that is kept for a derivative: writing it later is an error."""
    for node in _history(slots):
        for saved in _saved(node):
            array = getattr(saved.tensor, "_array", None)  # hooks keep another thing
            if isinstance(array, Traced):
                yield array.storage.handle


def why_spent(tensor: Tensor) -> str:
    """Message of eager's error if the tensor's history was freed, or a value that it saved was
    overwritten, inside the region; "" if not."""
    for node in _history((tensor,)):
        if getattr(node, "saved", ()) is None:
            return FREED
        for saved in _saved(node):
            try:
                saved.check()
            except RuntimeError as error:
                return str(error)
    return ""


def runs_python(tensors: Iterable[Tensor]) -> bool:
    """True if the backward of `tensors` calls the user's own functions."""
    return any(node.hooks or isinstance(node, autograd.FunctionNode) for node in _history(tensors))
