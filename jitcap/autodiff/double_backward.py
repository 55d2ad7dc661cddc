"""Beside the joint graph: a captured forward on eager's tape again. graph, record -> gradients.

For a derivative of a derivative that is asked for outside. Operations are recorded where they were
when the program was captured, and only the operands through which a gradient went then; what ran
under `no_grad` or was detached stays so. `Tape` is that record, as data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np

from eager import autograd
from eager.autograd.function import Methods
from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.core.dispatch import apply
from eager.core.sym import SymNumber
from eager.core.tape import Edge, edge_of, full, mode, sweep
from eager.core.tensor import Tensor, wrap
from eager.core.traced import Traced
from eager.device.array import DeviceArray
from eager.ops.move import stack
from eager.sizes.aval import Aval
from jitcap.graph.graph import (
    AS_NUMBER,
    INPUT,
    ITEM,
    MOVE,
    Graph,
    Node,
    aval_at,
    is_definer,
    needed_by,
    sized,
    sizes_found,
)
from jitcap.graph.loops import SCAN, split
from jitcap.graph.subgraphs import COND, WHILE, everywhere, subgraphs
from jitcap.graph.tracer import Recorded, Tracer

_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None), DType)


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value of the graph, and whether it is on the tape where it is used."""

    position: int
    on: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of a Function: its class, what its backward finds on `ctx`, and where its operands,
    saved tensors and results are."""

    function: Any
    fields: dict[str, Any]
    saved: tuple[Value | None, ...] | None  # None: freed
    forward: tuple[Value | None, ...]  # saved for `jvp`
    operands: tuple[Value, ...]
    is_tensor: tuple[bool, ...]  # each argument
    layout: tuple[int | None, ...]  # of each result: which of `outs` it is; None for no tensor
    outs: tuple[tuple[int | None, bool, Aval], ...]  # None: of no use to the graph


@dataclass(frozen=True, slots=True, eq=False)
class Tape:
    """Record of the tape of a graph. Values are positions: inputs first, then operations."""

    slots: tuple[int, ...]
    masks: dict[int, tuple[bool, ...]]  # calls that were recorded: for each operand, whether it was
    starts: dict[int, int]  # values as they leave a leaf -> the number of the leaf
    calls: dict[int, Call]  # by the last of their results
    refused: str  # why it cannot be done again
    inner: dict[int, tuple[bool, ...]] = field(default_factory=dict)  # masks: see `bodies_of`

    def ends(self, graph: Graph) -> list[Node]:
        """The nodes whose values are needed."""
        nodes = tuple(graph.everything())
        values = [v.position for call in self.calls.values() for v in _values(call)]
        return [nodes[i] for i in (*self.slots, *values)]


def _values(call: Call) -> Iterator[Value]:
    yield from call.operands
    stack: list[Any] = [*(call.saved or ()), *call.forward, *call.fields.values()]
    while stack:
        value = stack.pop()
        if isinstance(value, Value):
            yield value
        elif isinstance(value, tuple | list):
            stack += value


def kept_by(functions: Iterable[Recorded]) -> Iterator[Node]:
    """The values that a call of a Function needs to be recorded again."""
    for f in functions:
        yield from f.operands
        ctx = f.node.ctx
        kept = (*(ctx._saved or ()), *ctx._forward)
        stack: list[Any] = [s.tensor for s in kept if s is not None]
        stack += [v for k, v in vars(ctx).items() if k not in _TENSORS]
        while stack:
            value = stack.pop()
            if isinstance(value, tuple | list):
                stack += value
            elif (handle := _handle(value)) is not None:
                yield handle


def _handle(value: Any) -> Node | None:
    """The graph value of a tensor or a run-time number; None for anything else."""
    if isinstance(value, SymNumber):
        return value.handle if isinstance(value.handle, Node) else None
    traced = isinstance(value, Tensor) and isinstance(value._array, Traced)
    return value._array.handle if traced else None


def tape_of(
    tracer: Tracer,
    functions: Iterable[Recorded],
    place: Mapping[Node, int],
    ends: Sequence[Node],
    leaves: Sequence[Tensor],
    *,
    hooked: bool,
) -> Tape:
    """The tape that `tracer` recorded, for the graph whose nodes are at `place`."""
    number = {id(t): i for i, t in enumerate(leaves)}
    starts = {
        place[h]: number[id(leaf)]
        for h, leaf in tracer.starts.items()
        if h in place and id(leaf) in number
    }
    masks = {place[n]: mask for n, mask in tracer.recorded.items() if n in place}
    calls = {}
    refused = "a hook is registered inside" if hooked else ""
    inner, why = _inside(tracer, place)
    refused = refused or why
    for f in functions:
        try:
            call = _call_of(place, f)
        except _Unplain as field:
            refused = refused or f"{f.node.name()} keeps a {field} on its ctx"
        else:
            calls[max(i for i, _, _ in call.outs if i is not None)] = call
    return Tape(tuple(place[n] for n in ends), masks, starts, calls, refused, inner)


def bodies_of(nodes: Iterable[Node]) -> list[Node]:
    """The operations in the graphs that nodes hold, in their order."""
    return [m for n in nodes for g in subgraphs(n) for m in everywhere(g)]


def _inside(tracer: Tracer, nodes: Iterable[Node]) -> tuple[dict[int, tuple[bool, ...]], str]:
    """Masks recorded in the subgraphs of nodes, and the reason if they cannot be done again."""
    holders = [n for n in nodes if subgraphs(n)]
    if holders and any(h in tracer.outlines.inside for f in tracer.functions for h, _ in f.outs):
        return {}, "a Function is called in control flow"
    bodies, masks = bodies_of(holders), tracer.recorded
    return {i: masks[m] for i, m in enumerate(bodies) if m in masks}, ""


class _Unplain(Exception):
    """A value that the capture cannot keep."""


def _call_of(place: Mapping[Node, int], f: Recorded) -> Call:
    node, ctx = f.node, f.node.ctx
    if not isinstance(node.function, Methods):
        raise _Unplain("tensor of vmap")
    fields = {k: _plain(place, v) for k, v in vars(ctx).items() if k not in _TENSORS}
    return Call(
        node.function.original,
        fields,
        None if ctx._saved is None else _kept(place, ctx._saved),
        _kept(place, ctx._forward),
        tuple(Value(place[h], e is not None) for h, e in zip(f.operands, node.edges, strict=True)),
        node.is_tensor,
        node.layout,
        tuple((place.get(h), on, h.aval) for h, on in f.outs),
    )


def _kept(place: Mapping[Node, int], saved: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(None if s is None else _plain(place, s.tensor) for s in saved)


_TENSORS: Final = ("_saved", "_forward", "_non_differentiable", "_dirty")


def _plain(place: Mapping[Node, int], value: Any) -> Any:
    """A value as it can be kept: constants, and values of the graph."""
    if type(value) in (tuple, list):
        return type(value)(_plain(place, v) for v in value)
    handle = _handle(value)
    if handle is not None:
        return Value(place[handle], isinstance(value, Tensor) and value._requires_grad)
    if type(value) not in _PLAIN:
        raise _Unplain(type(value).__name__)
    return value


class _Link(autograd.Node):
    """From a value of the graph to what it is outside: a leaf, or something with a history."""

    __slots__ = ()

    def __init__(self, value: Tensor, goal: Edge) -> None:
        super().__init__((), (value.aval,))
        self.edges = (goal,)
        self.avals = self.outs

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        return grads


def retrace(
    graph: Graph,
    tape: Tape,
    primals: Mapping[int, Any],
    goals: Sequence[Edge],
    roots: Sequence[tuple[int, Tensor]],
    cuts: Mapping[int, int],
) -> list[Tensor | None]:
    """The gradients of all `goals` (edges of the tape: the leaves first; None: not asked), given
    those of some slots (`roots`), through eager's dispatch: on the tape, or under another tracer.
    `cuts` are values (of other slots) from which the way goes to a goal too. Raises RuntimeError
    where the capture could not keep what is needed."""
    if tape.refused:
        raise RuntimeError(
            f"create_graph=True from outside the compiled region: {tape.refused}, which is not kept"
            "; call backward() inside @jit"
        )
    create = autograd.is_grad_enabled()
    links: list[tuple[int, _Link]] = []
    with autograd.enable_grad():
        ends = _forward(graph, tape, primals, goals, cuts, links)
        edges = [(edge_of(ends[tape.slots[i]]), g) for i, g in roots]
        wanted = {(id(link), 0) for _, link in links if link.edges[0] is not None}
        found, _ = sweep(edges, wanted, keep=True, create=create)
    results: list[Tensor | None] = [None] * len(goals)
    with autograd.set_grad_enabled(create):
        for i, link in links:
            grad, before = found.get((id(link), 0)), results[i]
            if grad is not None:
                results[i] = grad if before is None else before + grad
    return results


def _forward(
    graph: Graph,
    tape: Tape,
    primals: Mapping[int, Any],
    goals: Sequence[Edge],
    cuts: Mapping[int, int],
    links: list[tuple[int, _Link]],
) -> dict[int, Any]:
    """The values of the slots, by position."""
    nodes = tuple(graph.everything())
    place = {n: i for i, n in enumerate(nodes)}
    needed = needed_by(graph, tape.ends(graph))
    sizes = {
        n.attrs["symbol"]: primals[i] for i, n in enumerate(graph.inputs) if "symbol" in n.attrs
    }
    env: dict[int, Any] = {}
    ends: dict[int, Any] = {}
    bodies = bodies_of(nodes) if tape.inner else []
    inner = {bodies[i]: mask for i, mask in tape.inner.items()}

    def link(value: Any, goal: int) -> Any:
        value = _constant(value)
        value._node, value._requires_grad = _Link(value, goals[goal]), True
        links.append((goal, value._node))
        return value

    for position, n in enumerate(nodes):
        if n not in needed:
            continue
        mask = tape.masks.get(position, ())
        if n.op is INPUT:
            value = _constant(primals[position])
        else:
            args = [env[place[a]] if isinstance(a, Node) else a for a in n.args]
            value = _again(n, args, mask, inner, sizes)
            if is_definer(n):
                sizes |= sizes_found(n, value if len(n.avals) > 1 else (value,))
        if position in tape.starts:
            value = link(value, tape.starts[position])
        env[position] = value
        if position in tape.calls:
            _record(tape.calls[position], env, sizes)
        if position in tape.slots:
            ends[position] = env[position]
        if position in cuts:
            env[position] = link(env[position], cuts[position])
    return ends


def _constant(value: Any) -> Any:
    """A value without its history."""
    if isinstance(value, np.ndarray | DeviceArray):
        return wrap(value)
    return value.detach() if isinstance(value, Tensor) else value


Masks = Mapping[Node, tuple[bool, ...]]


def _again(
    n: Node, args: list[Any], mask: tuple[bool, ...], inner: Masks, sizes: Mapping[str, int]
) -> Any:
    """An operation as it was recorded: with the operands through which a gradient went."""
    if n.op is COND:
        found = _results(subgraphs(n)[int(args[0])], args[1:], inner, sizes)
        return found if len(found) > 1 else found[0]
    if n.op is WHILE:  # its gradient was refused
        arrays = tuple(_constant(a)._array if isinstance(a, Tensor) else a for a in args)
        values = n.op.compute(arrays, n.attrs, n.avals)
        outs = [v if a.weak else wrap(np.asarray(v)) for v, a in zip(values, n.avals, strict=True)]
        return outs if len(outs) > 1 else outs[0]
    if mask:
        args = [a if on else _constant(a) for a, on in zip(args, mask, strict=True)]
    with autograd.set_grad_enabled(bool(mask)):
        return _evaluate(n, args, inner, sizes)


def _results(
    graph: Graph, args: Sequence[Any], inner: Masks, sizes: Mapping[str, int]
) -> list[Any]:
    """The results of a graph that a node holds."""
    env: dict[Node, Any] = dict(zip(graph.inputs, args, strict=True))
    for n in graph.nodes:
        operands = [env[a] if isinstance(a, Node) else a for a in n.args]
        env[n] = _again(n, operands, inner.get(n, ()), inner, sizes)
    return [env[o] for o in graph.outputs]


def _evaluate(n: Node, args: list[Any], inner: Masks, sizes: Mapping[str, int]) -> Any:
    n = sized(n, sizes) if sizes else n
    if n.op is SCAN:
        return _scan(n, args, inner, sizes)
    if n.op is ITEM:
        return args[0][n.attrs["index"]]
    if n.op is AS_NUMBER:
        return args[0].item()
    if n.op is MOVE:
        return args[0].to(n.attrs["device"])
    if len(n.avals) == 1 and n.avals[0].weak:
        (value,) = n.op.compute(tuple(args), n.attrs, n.avals)
        return np.asarray(value).item()
    return apply(n.op, *args, **n.attrs)


def _scan(n: Node, args: list[Any], inner: Masks, sizes: Mapping[str, int]) -> Any:
    """The steps of a loop, each operation recorded where it was."""
    (body,), attrs = subgraphs(n), n.attrs
    carries, stacks, rest, counters = split(args, attrs)
    length, count = attrs["length"], attrs["carried"]
    ys: list[Any] = [None] * length
    for i in range(length)[:: -1 if attrs["reverse"] else 1]:
        with autograd.enable_grad():
            slices = [s[i] for s in stacks]
        ends = _results(body, (*carries, *slices, *rest, *counters), inner, sizes)
        carries, ys[i] = ends[:count], ends[count:]
        counters = [c + step for c, step in zip(counters, attrs["steps"], strict=True)]
    results = (*carries, *(stack([*each]) for each in zip(*ys, strict=True)))
    return results if len(results) > 1 else results[0]


def _record(call: Call, env: dict[int, Any], sizes: Mapping[str, int]) -> None:
    """Put the results of a Function on the tape, with the derivative that the user wrote."""

    def at(value: Any) -> Any:
        if type(value) in (tuple, list):
            return type(value)(map(at, value))
        if not isinstance(value, Value):
            return value
        return env[value.position] if value.on else _constant(env[value.position])

    ctx = autograd.FunctionCtx()
    operands = iter([at(o) for o in call.operands])
    args = [next(operands) if tensor else None for tensor in call.is_tensor]
    outs = [full(0, aval_at(a, sizes)) if i is None else _constant(env[i]) for i, _, a in call.outs]
    results = [None if i is None else outs[i] for i in call.layout]
    node = autograd.FunctionNode(Methods(call.function), ctx, args, results)
    for index, ((position, on, _), out) in enumerate(zip(call.outs, outs, strict=True)):
        if on:
            out._node, out._index, out._requires_grad = node, index, True
        if position is not None:
            env[position] = out
    vars(ctx).update({k: at(v) for k, v in call.fields.items()})
    if call.saved is None:
        ctx._saved = None
    else:
        ctx.save_for_backward(*map(at, call.saved))
    ctx._records = True  # what is saved for tangents is kept for a call on the tape alone
    ctx.save_for_forward(*map(at, call.forward))


def view(base: Tensor, chain: tuple[Any, ...], record: bool) -> Tensor:
    """The view of `base` by these steps, on the tape or not, as it was made inside."""
    before, mode.enabled = mode.enabled, record
    try:
        for op, attrs in chain:
            base = apply(op, base, **attrs)
    finally:
        mode.enabled = before
    return base
