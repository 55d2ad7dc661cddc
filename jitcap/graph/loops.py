"""Nodes that are loops: a body graph, run a known number of times. body, operands -> `SCAN`.

    SCAN(*carries, *sequences, *constants, *counters; graphs=(body,), carried=n, sequences=m,
         length, reverse, steps)
        for i in range(length):               # the other way round if `reverse`
            *carries, *ys = body(*carries, *(s[i] for s in sequences), *constants, *counters)
            counters += steps                 # ints, such as the ordinals of random draws
        gives the last carries, then every y stacked along a first dimension

The body is a graph as in `jitcap.graph.subgraphs`: closed over nothing. A carry keeps its aval.

The gradient of a scan is a scan the other way round (`eager.control_flow.scan`), whose part reads
values of the body at the same step. `Scans` decides by the partition rule
(`jitcap.graph.partition`) which of them the forward loop stacks, and which the backward computes
again.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

import numpy as np

from eager.base.dataclass import dataclass
from eager.base.scalar import NUMPY, VOCABULARY
from eager.core import on_device
from eager.core.op import REGISTRY, Attrs, Op
from eager.device import transfer
from eager.device.array import DeviceArray
from eager.sizes.aval import Aval, scalar_aval
from eager.sizes.symint import SymInt
from jitcap.graph.graph import (
    AS_NUMBER,
    GRAPH_OPS,
    INPUT,
    Arg,
    Graph,
    Node,
    aval_of,
    placeholder,
    with_args,
)
from jitcap.graph.partition import is_cheap, partition
from jitcap.graph.subgraphs import Part, SubgraphOp, outline


@dataclass(frozen=True, eq=False)
class _Scan(SubgraphOp):
    def calls(self, node: Node) -> Iterator[tuple[Graph, tuple[Aval, ...], tuple[Aval, ...]]]:
        (body,), count = node.attrs["graphs"], node.attrs["carried"]
        carries, sequences, rest, counters = split(node.args, node.attrs)
        takes = (*carries, *sequences, *rest, *counters)
        avals = [sliced(aval_of(a)) if i in range(count, count + len(sequences)) else aval_of(a)
                 for i, a in enumerate(takes)]  # fmt: skip
        gives = (*node.avals[:count], *map(sliced, node.avals[count:]))
        yield body, tuple(avals), gives

    def keyword(self, node: Node) -> str:
        a = node.attrs
        numbers = f"{a['carried']}, {a['sequences']}, {a['length']}, {a['reverse']}, {a['steps']}"
        return f"repeat({numbers}, "

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        (body,), count, length = attrs["graphs"], attrs["carried"], attrs["length"]
        ends = [o.aval for o in body.outputs]
        return (*ends[:count], *(stacked(a, length) for a in ends[count:]))

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        (body,), steps = attrs["graphs"], attrs["steps"]
        carries, sequences, rest, counters = split(arrays, attrs)
        length = attrs["length"]
        ys = [_empty(a) for a in outs[attrs["carried"] :]]
        for i in reversed(range(length)) if attrs["reverse"] else range(length):
            slices = [_row(s, i) for s in sequences]
            given = body.run((*carries, *slices, *rest, *counters))
            carries = given[: len(carries)]
            for whole, y in zip(ys, given[len(carries) :], strict=True):
                if type(whole) is DeviceArray:
                    on_device.store(_row(whole, i), y)
                else:
                    whole[i] = y
            counters = [c + step for c, step in zip(counters, steps, strict=True)]
        return (*carries, *ys)


def _empty(aval: Aval) -> Any:
    return np.empty(aval.shape, aval.dtype.np) if aval.device == "cpu" else transfer.empty(aval)


def _row(array: Any, i: int) -> Any:
    """One step of a sequence: a part of its memory."""
    if type(array) is not DeviceArray:
        return np.asarray(array[i])
    first, *steps = array.strides
    return DeviceArray(array.buffer, sliced(array.aval), tuple(steps), array.offset + i * first)


def stacked(aval: Aval, length: int) -> Aval:
    """A y of every step."""
    return Aval((length, *aval.shape), aval.dtype, aval.device)


def sliced(aval: Aval) -> Aval:
    """One step of a sequence."""
    return Aval(aval.shape[1:], aval.dtype, aval.device)


def split(operands: Any, attrs: Attrs) -> tuple[Any, Any, Any, Any]:
    """Carries, sequences, constants, counters."""
    a = attrs["carried"]
    b = a + attrs["sequences"]
    c = len(operands) - len(attrs["steps"])
    return operands[:a], operands[a:b], operands[b:c], operands[c:]


SCAN: Final = _Scan("scan", ("*operands",))
GRAPH_OPS.update({SCAN.name: SCAN})


def body_of(node: Node) -> Graph:
    body: Graph
    (body,) = node.attrs["graphs"]
    return body


# ---------------------------------------------------------------------------- recording
@dataclass(eq=False, slots=True)
class Recorded:
    """A scan as it was recorded, for its gradient. `nodes` are those of its parts, numbered;
    `start` the first carries; `stacks` say for a value of each step where it lies for all of them;
    `counters` the numbers that begin somewhere and grow; `free` what is read from outside."""

    length: int
    reverse: bool
    nodes: dict[Node, int]
    carried: Sequence[Node]
    start: Sequence[Arg]
    stacks: dict[Node, Callable[[], Arg]]
    counters: dict[Node, tuple[Arg, int]]
    ends: Sequence[Node]
    ys: Sequence[Node]
    free: set[Node] = field(default_factory=set)
    node: Node | None = None  # unless it is a gradient

    @property
    def bound(self) -> tuple[Node, ...]:
        return (*self.carried, *self.stacks, *self.counters)


class Scans:
    """The tracer's half: parts become loops of its graph."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer

    def record(
        self,
        part: Part,
        carried: Sequence[Node],
        start: Sequence[Arg],
        slices: Sequence[Node],
        stacks: Sequence[Arg],
        ends: Sequence[Arg],
        ys: Sequence[Arg],
        length: int,
        reverse: bool,
        behind: Recorded | None,
        *,
        counters: Mapping[Node, tuple[Arg, int]],
    ) -> tuple[Sequence[Node], Recorded]:
        """See `eager.core.traced.Tracer.scan`. `counters`: placeholders of numbers that grow, with
        what they begin at and by how much they grow."""
        given = {x: _constant(stack) for x, stack in zip(slices, stacks, strict=True)}
        taken = len(self.tracer.outlines.inside)
        last = [self._as_tensor(x) for x in ends]
        places = {n.aval.device for n in (*carried, *slices)} - {"cpu"}
        holds = [self._truth(c, next(iter(places), "cpu")) for c in part.checks]
        each = [*map(self._as_tensor, ys), *holds]
        made = itertools.islice(self.tracer.outlines.inside, taken, None)
        nodes = dict.fromkeys((*part.nodes, *made), 0)
        loop = Recorded(length, reverse, nodes, carried, start, given, dict(counters), last, each)
        if behind is None:
            number(loop.nodes)
            handles = self._forward(loop)
        else:
            handles = self._gradient(loop, behind)
        count = len(last) + len(ys)
        for check, truths in zip(part.checks, handles[count:], strict=True):
            attrs = {"dim": (0,), "keepdim": False}
            (every,) = self.tracer.emit(_ALL, (truths,), attrs, (Aval((), truths.aval.dtype),))
            self.tracer.check_again(check, every)
        return handles[:count], loop

    def _as_tensor(self, value: Arg) -> Node:
        """A value as an output of a body: no number."""
        aval = aval_of(value)
        if isinstance(value, Node) and not aval.weak:
            return value
        made: Node = self.tracer.outlines.tensor(value, Aval((), aval.dtype, aval.device))
        return made

    def _truth(self, check: Node, place: str) -> Node:
        """Condition of a check as an output of a body, on the device of the loop."""
        holds = self.tracer.outlines.all(check.args)
        if place == "cpu":
            return self._as_tensor(holds)
        made: Node = self.tracer.outlines.tensor(holds, Aval((), aval_of(holds).dtype, place))
        return made

    def _forward(self, loop: Recorded) -> Sequence[Node]:
        graph, free, made = self._outline(loop, (*loop.ends, *loop.ys), "body")
        loop.free = set(free)
        known = self.tracer.recorded
        known.update({new: known[old] for old, new in made.items() if old in known})
        handles = self._emit(loop, graph, {new: old for old, new in made.items()})
        loop.node = handles[0] if handles[0].op is SCAN else handles[0].parents[0]
        return handles

    def recorded(self, loop: Recorded, begins: Sequence[bool]) -> None:
        """The loop is on the tape; `begins`: which of the first carries are."""
        if loop.node is None:
            return
        rest = len(loop.node.args) - len(begins)
        self.tracer.recorded[loop.node] = (*begins, *(True,) * rest)

    def _outline(
        self, loop: Recorded, outputs: Sequence[Node], name: str
    ) -> tuple[Graph, list[Node], dict[Node, Node]]:
        """Values of each step as a graph of what the loop is given."""
        bound = loop.bound
        own = set(bound)
        inside = {n: i for n, i in loop.nodes.items() if n not in own}
        return outline(outputs, inside, bound, name, self.tracer.outlines.symbols())

    def _emit(
        self, loop: Recorded, graph: Graph, origin: Mapping[Node, Node], *, extra: int = 0
    ) -> Sequence[Node]:
        """The node of a body. `origin`: what its inputs stand for."""
        read = {*graph.outputs, *(p for n in graph.nodes for p in n.parents)}
        read.update(i for i in graph.inputs if "symbol" in i.attrs)
        inputs = {origin[i]: i for i in graph.inputs if i in read}
        carried = [inputs.pop(n) if n in inputs else _unread(n) for n in loop.carried]
        stacks = [(i, loop.stacks[n]()) for n, i in inputs.items() if n in loop.stacks]
        counters = [(i, *loop.counters[n]) for n, i in inputs.items() if n in loop.counters]
        own = {*loop.stacks, *loop.counters}
        rest = [(i, n) for n, i in inputs.items() if n not in own]
        graph, given = _numbers_of(graph, [i for i, _ in stacks if i.aval.weak])
        ordered = (*carried, *(given.get(i, i) for i, _ in stacks), *(i for i, _ in rest),
                   *(i for i, _, _ in counters))  # fmt: skip
        operands = (*loop.start, *(x for _, x in stacks), *(x for _, x in rest),
                    *(x for _, x, _ in counters))  # fmt: skip
        attrs = {
            "graphs": (graph.with_(inputs=ordered),),
            "carried": len(carried),
            "sequences": len(stacks),
            "length": loop.length,
            "reverse": loop.reverse,
            "steps": tuple(step for _, _, step in counters),
        }
        handles: Sequence[Node] = self.tracer.emit(SCAN, operands, attrs, SCAN.abstract((), attrs))
        return handles

    # ---- gradients

    def _gradient(self, loop: Recorded, behind: Recorded) -> Sequence[Node]:
        """The loop, which reads values of the steps of the one `behind`."""
        both = Recorded(
            loop.length, loop.reverse, {**behind.nodes, **loop.nodes}, loop.carried, loop.start,
            {**dict.fromkeys(behind.carried, _none), **behind.stacks, **loop.stacks},
            {**behind.counters, **loop.counters}, loop.ends, loop.ys,
        )  # fmt: skip
        number(both.nodes)
        first = (*behind.ends, *behind.ys)
        graph, free, made = self._outline(both, (*first, *loop.ends, *loop.ys), "body")
        origin = {new: old for old, new in made.items()}
        symbols = self.tracer.outlines.symbols().values()
        known = {*behind.bound, *behind.free, *symbols}
        early = [i for i in graph.inputs if origin[i] in known]
        late = [i for i in graph.inputs if origin[i] not in known]
        there = {i for i in early if origin[i] not in set(behind.carried)}
        joint = graph.with_(inputs=(*early, *late))
        cut = partition(joint, len(early), len(first), alive=there, recompute=True, cheap=is_light)
        stacked = [s for s in cut.saved if s not in there]
        whole = _with_tensors(cut.forward, cut.forward.outputs[: len(behind.ends)], stacked)
        found: dict[Node, Node] = {}
        if stacked:
            handles = self._emit(behind, whole, origin)[len(behind.ends) :]
            found = dict(zip(stacked, handles, strict=True))
        stands = {i: origin[i] for i in late}
        stands |= dict(zip(cut.backward.inputs, (origin[s] for s in cut.saved), strict=False))
        loop.nodes = both.nodes
        loop.free = set(free) | behind.free
        loop.stacks = {
            **{origin[s]: _constant(h) for s, h in found.items()},
            **{n: functools.partial(self._going_in, behind, k) for k, n in enumerate(behind.carried)
               if n not in {origin[s] for s in found}},
            **{n: stack for n, stack in behind.stacks.items()
               if n not in {origin[s] for s in found}},
            **loop.stacks,
        }  # fmt: skip
        turned = {
            n: (self._moved(start, behind.length, step), -step)
            for n, (start, step) in behind.counters.items()
        }
        loop.counters = {**turned, **loop.counters}
        return self._emit(loop, cut.backward, stands)

    def _going_in(self, loop: Recorded, k: int) -> Arg:
        """The k-th carry as it went into each step."""
        graph, _, made = self._outline(loop, (*loop.ends, loop.carried[k]), "body")
        handles = self._emit(loop, graph, {new: old for old, new in made.items()})
        found: Arg = handles[-1]
        return found

    def _moved(self, start: Arg, length: Any, step: int) -> Arg:
        """A number in the last step, if it is `start` in the first."""
        by = (length - 1) * step
        if isinstance(by, SymInt):
            by = by.number().handle
        if not isinstance(start, Node) and not isinstance(by, Node):
            return start + by
        (moved,) = self.tracer.emit(_ADD, (start, by), {}, (scalar_aval(0),))
        made: Arg = moved
        return made


def _with_tensors(graph: Graph, ends: Sequence[Node], more: Sequence[Node]) -> Graph:
    """Gives `ends` and `more`; a number among those as a tensor, of which there is a stack."""
    made = {n: _tensor_of(n) for n in more if n.aval.weak}
    outputs = (*ends, *(made.get(n, n) for n in more))
    return graph.with_(nodes=(*graph.nodes, *made.values()), outputs=outputs)


def _tensor_of(n: Node) -> Node:
    aval = sliced(stacked(n.aval, 1))
    place = {} if aval.device == "cpu" else {"device": aval.device}
    return Node(_FULL, (n,), {"shape": (), "dtype": aval.dtype, **place}, (aval,), n.where)


def _numbers_of(graph: Graph, numbers: Sequence[Node]) -> tuple[Graph, dict[Node, Node]]:
    """The graph with tensors for inputs that are numbers, and these tensors."""
    if not numbers:
        return graph, {}
    given = {i: placeholder(i.attrs["name"], sliced(stacked(i.aval, 1))) for i in numbers}
    made = {i: Node(AS_NUMBER, (t,), {}, i.avals) for i, t in given.items()}
    nodes = [*made.values()]
    for n in graph.nodes:
        made[n] = with_args(n, tuple(made.get(a, a) if isinstance(a, Node) else a for a in n.args))
        nodes.append(made[n])
    outputs = tuple(made.get(o, o) for o in graph.outputs)
    return graph.with_(nodes=tuple(nodes), outputs=outputs), given


def number(nodes: dict[Node, int]) -> None:
    """Number the nodes in their order."""
    nodes.update({n: i for i, n in enumerate(nodes)})


def _constant(value: Arg) -> Callable[[], Arg]:
    return lambda: value


def _none() -> Arg:
    raise AssertionError("a carry has no stack here")


def _unread(n: Node) -> Node:
    return Node(INPUT, (), {"name": "unread"}, (n.aval,))


def is_light(n: Node) -> bool:
    """True if the backward recomputes a value instead of reading it: what moves elements, and
    arithmetic, but no function of many instructions."""
    return is_cheap(n) and not (n.op.kind == "pointwise" and is_function(n.op))


@functools.cache
def is_function(op: Op) -> bool:
    """True if the body of a pointwise op calls an intrinsic that costs as much as `exp`."""
    costs: list[int] = []

    class Noting:
        def __getattr__(self, name: str) -> Any:
            costs.append(VOCABULARY[name].cost if name in VOCABULARY else 0)
            return getattr(NUMPY, name)

    body: Any = op.body  # type: ignore[attr-defined]
    with np.errstate(all="ignore"):
        try:
            body(Noting(), *(np.float32(0.5) for _ in op.operands))
        except TypeError:  # of integers: shifts, bitwise
            return False
    return max(costs, default=0) >= VOCABULARY["exp"].cost


_ALL: Final = REGISTRY["all"]
_ADD: Final = REGISTRY["add"]
_FULL: Final = REGISTRY["full"]
