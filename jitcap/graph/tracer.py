"""Tracing, the first half of capture: eager's calls on traced tensors -> nodes of a Graph.

`Tracer` is what `eager.core.dispatch` talks to while tensors are traced (eager never imports it: it
only calls these methods). Views and in-place writes have been resolved by `eager.core.traced`
before `emit`, so what arrives here is pure. Who runs the program (the bytecode interpreter, or
plain Python in `trace`) hands in the decisions that are not the graph's: where a value met from
outside comes from, what a question about a run-time number is answered with, and how `.grad` of an
input is read.
"""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from types import FrameType
from typing import Any, Final, cast

from eager.autograd import FunctionNode
from eager.base.compat_warnings import is_ours
from eager.base.dataclass import dataclass
from eager.core.batched import Batched
from eager.core.dispatch import current_tracer
from eager.core.op import REGISTRY, Attrs, Op
from eager.core.sym import SymNumber
from eager.core.tape import CopySlicesNode, OpNode
from eager.core.tensor import Tensor, wrap
from eager.core.traced import Traced, TracedStorage, UnknownValue, fresh
from eager.sizes.aval import Aval, scalar_aval
from eager.sizes.symint import SymInt
from jitcap.graph import scalars
from jitcap.graph.graph import (
    AS_NUMBER,
    CHECK,
    ITEM,
    MOVE,
    NOWHERE,
    ZEROS,
    Arg,
    Graph,
    Node,
    Where,
    aval_of,
    items,
    placeholder,
    symbol,
)
from jitcap.graph.loops import Scans
from jitcap.graph.subgraphs import Outlines, Part
from jitcap.graph.symbols import Sizes

Lift = Callable[[Tensor], Traced]
Concretize = Callable[[SymNumber, type], Any]
LoadGrad = Callable[[Tensor], "Tensor | None"]


class DataDependent(Exception):
    """The program asks for a value that is known only when it runs (`if loss > 1:`, `int(x)`)."""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A call of a Function on the tape: its node, the values of its operands, and its results with
    whether they have a gradient."""

    node: FunctionNode
    operands: tuple[Node, ...]
    outs: tuple[tuple[Node, bool], ...]


part_number: Final[Callable[[], int]] = itertools.count().__next__


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """The part of the graph that is recorded, the one around it, and the nodes of that. `number`
    grows from one to the next, as `part_number()` does."""

    outer: Inside | None
    around: list[Node]
    number: int = field(default_factory=part_number)


def is_within(part: Inside | None, whole: Inside) -> bool:
    """True if a part is `whole`, or is nested in it."""
    while part is not None and part is not whole:
        part = part.outer
    return part is whole


def _one(tensor: Tensor) -> Tensor:
    if type(tensor._array) is Batched:
        raise UnknownValue("a tensor that stands for many examples (vmap) has no value")
    return tensor


class Tracer:
    """Appends nodes, and notes which of them went on the tape; for eager: the protocol of
    `eager.core.traced`."""

    counts_rounds, rounds = False, cast("Any", None)  # the number of rounds of a loop is no size

    def __init__(
        self,
        *,
        lift: Lift | None = None,
        concretize: Concretize | None = None,
        load_grad: LoadGrad | None = None,
        where: Callable[[], Where] | None = None,
        name: str = "graph",
    ) -> None:
        self.inputs: list[Node] = []
        self.nodes: list[Node] = []
        self.checks: list[Node] = []  # without which a run is given up: the graph's last outputs
        self.name = name
        self.where = where or user_line
        self._lift, self._concretize = lift or self.constant, concretize or refuse
        self._load_grad = load_grad or _no_grad_of
        self.constants: list[Tensor] = []
        self.recorded: dict[Node, tuple[bool, ...]] = {}  # which operands a gradient goes to
        self.starts: dict[Node, Tensor] = {}  # values as they leave a leaf
        self.functions: list[Recorded] = []
        self.differentiated = False  # whether the program itself went back over the tape
        self._lifted: dict[int, Traced] = {}
        self.made_there = False  # a tensor, on a device
        self.conditions: set[Any] = set()  # that are checked
        self.inside: Inside | None = None  # the part that is recorded now
        self.outlines = Outlines(self)
        self.scans = Scans(self)
        self.data_sizes: dict[str, Node] = {}  # by symbol: a size that data decide, as a number
        self._log: list[tuple[Any, dict[str, Any]]] = []  # what to put back after a part

    # what eager calls ---------------------------------------------------------------------------

    def emit(
        self, op: Op, operands: Sequence[Arg], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Node, ...]:
        """Append one operation; the handles of its outputs."""
        node = Node(op, tuple(operands), attrs, outs, self.where())
        self.nodes.append(node)
        if len(outs) == 1:
            self.made_there = self.made_there or outs[0].device != "cpu"
            return (node,)
        handles = items(node)
        self.nodes.extend(handles)
        return handles

    def check(self, what: str, *conditions: Arg, **more: Any) -> Node:
        """Append truths without which a run is given up; `what` says what was expected. `more`: of
        sizes that data decide."""
        (node,) = self.emit(CHECK, conditions, {"what": what, **more}, (scalar_aval(True),))
        self.checks.append(node)
        return node

    def lift(self, tensor: Tensor) -> Traced:
        """A concrete tensor met while tracing."""
        return self._lift(_one(tensor))

    def item(self, traced: Traced) -> SymNumber:
        """`.item()`: a run-time number with nothing known of its value."""
        if traced.aval.shape:
            traced = traced.view(REGISTRY["reshape"], {"shape": ()})
        zero = ZEROS[traced.aval.dtype.category]
        (handle,) = self.emit(AS_NUMBER, (traced.read(),), {}, (scalar_aval(zero),))
        return SymNumber(self, type(zero), handle)

    def number(self, fn: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
        """`fn` of numbers: an expression, and a check of what lets Python compute it."""
        operands = tuple(map(scalars.simple, operands))
        try:
            kind = scalars.result_type(fn, operands)
            for what, holds in scalars.preconditions(self, fn, operands):
                scalars.require(self, what, holds)
        except scalars.Unlowered as why:
            raise DataDependent(str(why)) from why
        number = SymNumber(self, kind, fn=fn, args=operands)
        number.bounds = scalars.bounds(self, fn, operands) if kind is float else None
        return number

    def handle_of(self, number: SymNumber) -> Any:
        """A number in the graph: int64, float64, bool or complex128."""
        try:
            return scalars.lower(self, number)
        except scalars.Unlowered as why:
            raise DataDependent(str(why)) from why

    def leaf_handle(self, number: SymNumber) -> Any:
        """The node of a number that is no expression."""
        return number.leaf

    def decide(self, fn: Callable[..., Any], *operands: Any) -> bool | None:
        """True or False if a condition on numbers is known now; None if the run decides."""
        known = not any(isinstance(x, SymNumber) for x in operands)
        return bool(fn(*operands)) if known else None

    def value(self, handle: Any) -> Any:
        """The value of what is made of constants only: not looked for here."""
        return None

    def concretize(self, number: SymNumber, want: type) -> Any:
        """`bool()`, `int()`, `float()` or an index of a run-time number."""
        return self._concretize(number, want)

    def size_of(self, number: SymNumber) -> Any:
        """A run-time number as a size: its value."""
        return operator.index(number)

    def with_size(self, op: Op, operands: Any, attrs: Attrs, count: Any = None) -> Attrs:
        """The size that data decide is not known here: the op's rule raises UnknownValue."""
        del count
        op.abstract(tuple(map(aval_of, operands)), attrs)
        return attrs

    def load_grad(self, tensor: Tensor) -> Tensor | None:
        """The first read of `.grad` of an input."""
        return self._load_grad(tensor)

    # functions that become graphs of their own: see `jitcap.graph.subgraphs`

    def part(self, fn: Callable[[], Any], *, writes: bool = False) -> tuple[Any, Part]:
        """The result of `fn()`, and the part of the graph that it recorded, which is taken out.
        State that it changed is restored from an undo log. If not `writes`, it may write no memory
        from outside."""
        outer = self.nodes, self.checks, self.conditions, self._log, self.inside
        self.nodes, self.checks, self.conditions = [], [], set(self.conditions)
        self._log, self.inside = [], Inside(self.inside, outer[0])
        try:
            value = fn()
            found = dict.fromkeys(x for x, _ in self._log if self._is_outer(x))
            written = tuple((memory, memory.handle) for memory in found)
            if written and not writes:
                self.refuse_effect("a function that is given to control flow writes in place")
            return value, Part(tuple(self.checks), written, nodes=tuple(self.nodes))
        finally:
            for state, fields in reversed(self._log):
                for name, before in fields.items():
                    setattr(state, name, before)
            self.outlines.take(self.nodes)
            self.nodes, self.checks, self.conditions, self._log, self.inside = outer

    def _is_outer(self, state: Any) -> bool:
        return isinstance(state, TracedStorage) and state.part is not self.inside

    def refuse_effect(self, what: str) -> None:
        raise DataDependent(what)

    def move(self, handle: Arg, aval: Aval, place: str) -> Node:
        """A value on another device."""
        (node,) = self.emit(MOVE, (handle,), {"device": place}, (replace(aval, device=place),))
        return node

    def touch(self, state: Any) -> None:
        """The value of a `Traced`, a `TracedStorage` or a number is about to be another node."""
        if self.inside is not None:
            names = ("node",) if isinstance(state, SymNumber) else ("handle", "generation")
            self._log.append((state, {name: getattr(state, name) for name in names}))

    def placeholder(self, name: str, aval: Aval) -> Node:
        """Placeholder for a value that a part is given."""
        return placeholder(name, aval)

    def choice(
        self, pick: Arg, parts: Sequence[Part], outputs: Sequence[Any], avals: Sequence[Aval]
    ) -> Sequence[Node]:
        """The outputs of the part that `pick` numbers."""
        return self.outlines.choice(pick, parts, outputs, avals)

    def loop(
        self, go: Arg, part: Part, outputs: Sequence[Arg], carried: Sequence[Node],
        start: Sequence[Arg], avals: Sequence[Aval],
    ) -> Sequence[Node]:  # fmt: skip
        """The last of what is carried. `outputs`: whether to go on, and the next of `carried`."""
        return self.outlines.loop(go, part, outputs, carried, start, avals)

    def record_scan(
        self, loop: Any, begins: Sequence[bool], leaves: Sequence[tuple[Node, Tensor]]
    ) -> None:
        """A loop goes on the tape."""
        self.starts.update(leaves)
        self.scans.recorded(loop, begins)

    def body(self, fn: Callable[[], Any]) -> tuple[Any, Part]:
        """The result of `part` for a function that a loop repeats."""
        return self.part(fn)

    def scan(self, part: Part, *given: Any) -> tuple[Sequence[Node], Any]:
        """A loop of a known number of steps: see `jitcap.graph.loops`."""
        *rest, numbers = given
        counters = {place: (first, step) for place, first, step in numbers}
        return self.scans.record(part, *rest, counters=counters)

    def check_again(self, check: Node, condition: Node) -> None:
        """A check that was made in a part, outside of it."""
        (node,) = self.emit(CHECK, (condition,), check.attrs, check.avals)
        node.where = check.where
        self.checks.append(node)

    def next_draw(self, generator: Any) -> tuple[Any, Any]:
        """The key of the next draw: that of this run, for good."""
        return generator.seed_value, generator.next_ordinal()

    def check_writable(self, tensor: Tensor) -> None:
        """A tensor is to be overwritten on the tape: no objection."""

    writing = check_overwritten = check_writable  # at any write; when a derivative needs it

    def sweep(self) -> None:
        """Gradients are computed."""
        self.differentiated = True

    def record(self, node: OpNode, operands: Sequence[Any], outs: Sequence[Tensor]) -> None:
        """A call goes on the tape. A copy has no node in the graph, and gets one here."""
        mask, node.where = self._mask(node, operands), self.where()
        if node.op.kind == "copy":
            (out,) = outs
            out._array = fresh(self, self.distinct(out._array).handle, out.aval)
        for handle in map(self._handle, outs):
            self.recorded.setdefault(handle.parents[0] if handle.op is ITEM else handle, mask)

    def record_write(self, node: CopySlicesNode, base: Tensor, value: Tensor) -> None:
        """The chain of operations that put `value` into the whole."""
        (on_base, on_value), node.where = (e is not None for e in node.edges), self.where()
        self._mask(node, (None, value))
        whole, left = base._array.storage.handle, len(node.chain)
        while left:
            left -= 1
            inner = on_value if not left else True
            *rest, part = whole.args
            self.recorded.setdefault(whole, (on_base, inner) if rest else (inner,))
            for view in rest:
                if isinstance(view, Node) and view.op.shares:
                    self.recorded.setdefault(view, (on_base,))
            whole = part

    def record_function(
        self, node: FunctionNode, operands: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> None:
        """A result that is an operand gets a handle of its own."""
        self._mask(node, operands)
        node.where, given = self.where(), tuple(map(self._handle, operands))
        for t in outs:
            if self._handle(t) in given and type(t._array) is Traced:
                t._array = self.distinct(t._array)
        results = tuple((self._handle(t), t._node is node) for t in outs)
        self.functions.append(Recorded(node, given, results))

    def distinct(self, traced: Traced) -> Traced:
        """An alias of the value: the same storage, under a handle of its own."""
        (handle,) = self.emit(REGISTRY["alias"], (traced.read(),), {}, (traced.aval,))
        return Traced(
            traced.aval, traced.storage, handle, traced.chain, traced.strides, traced.offset
        )

    def _mask(self, node: Any, operands: Sequence[Any]) -> tuple[bool, ...]:
        for x, edge in zip(operands, node.edges, strict=True):
            if edge is not None and isinstance(edge[0], Tensor):
                self.starts[self._handle(x)] = edge[0]
        return tuple([edge is not None for edge in node.edges])

    def _handle(self, tensor: Tensor) -> Node:
        """The value that was last read of a tensor."""
        array = tensor._array if type(tensor._array) is Traced else self.lift(tensor)
        node: Node = array.handle
        return node

    # what whoever runs the program calls --------------------------------------------------------

    def input(self, name: str, aval: Aval) -> Node:
        """A new graph input; its handle."""
        node = placeholder(name, aval)
        self.inputs.append(node)
        return node

    def size(self, size: SymInt) -> SymInt:
        """A new graph input for the symbol that `size` is; itself."""
        node = symbol(size)
        self.inputs.append(node)
        scope = size.scope
        assert isinstance(scope, Sizes)
        scope.numbers[node.attrs["symbol"]] = SymNumber(self, int, node)
        return size

    def graph(self, outputs: Sequence[Node]) -> Graph:
        """The graph that was traced, with these outputs."""
        return Graph(tuple(self.inputs), tuple(self.nodes), tuple(outputs), self.name)

    def constant(self, tensor: Tensor) -> Traced:
        """The default `lift`: the tensor becomes a further input, kept in `constants`."""
        found = self._lifted.get(id(tensor))
        if found is None:
            aval = tensor.aval
            handle = self.input(f"c{len(self.constants)}", aval)
            found = Traced(aval, TracedStorage(self, handle, aval), handle)
            self.constants.append(tensor)
            self._lifted[id(tensor)] = found
        return found


def is_on_device(tracer: Tracer) -> bool:
    """True if the tracer met, or made, a tensor that lives on a device."""
    return tracer.made_there or any(n.aval.device != "cpu" for n in tracer.inputs)


def refuse(number: SymNumber, want: type) -> Any:
    """The default `concretize`: there is no value to guard on."""
    raise DataDependent(
        f"{want.__name__}() of a value that is known only when the program runs; "
        "keep it a tensor (eager.where), or move the decision out of the traced function"
    )


def _no_grad_of(tensor: Tensor) -> Tensor | None:
    return None


def user_line() -> Where:
    """The innermost line of the calling stack that is not in our packages."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if not is_ours(frame.f_globals):
            code = frame.f_code
            return Where(code.co_filename, frame.f_lineno, code.co_qualname)
        frame = frame.f_back
    return NOWHERE


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Graph that `trace` recorded, and its calling convention.

    The graph's inputs are the arguments, then `constants`; its outputs the results, then the new
    values of arguments written in place (`writes`: input index, output index).
    """

    graph: Graph
    constants: tuple[Tensor, ...]
    results: int
    writes: tuple[tuple[int, int], ...]


def trace(fn: Callable[..., Any], *examples: Any, name: str = "graph") -> Trace:
    """Run `fn` once on abstract tensors and record its operations.

    `examples` are tensors, avals, or symbols (whose scope is a `jitcap.graph.symbols.Sizes`), which
    come before the avals that they occur in; anything else is passed as it is and becomes part of
    the program. The result is a tensor or a tuple or list of tensors. Control flow of Python is
    recorded as taken; nothing is guarded. Raises DataDependent where it needs a tensor's value.
    """
    tracer = Tracer(name=name)
    args, storages = [], []
    for i, example in enumerate(examples):
        if isinstance(example, SymInt):
            args.append(tracer.size(example))
            continue
        if not isinstance(example, Tensor | Aval):
            args.append(example)
            continue
        aval = example if isinstance(example, Aval) else example.aval
        array = fresh(tracer, tracer.input(f"x{i}", aval), aval)
        storages.append((len(tracer.inputs) - 1, array.storage))
        args.append(_stand_in(array, example))
    token = current_tracer.set(tracer)
    try:
        result = fn(*args)
        results = result if isinstance(result, tuple | list) else (result,)
        outputs = [_handle(tracer, r) for r in results]
    finally:
        current_tracer.reset(token)
    written = [(i, s.handle) for i, s in storages if s.generation]
    writes = tuple((i, len(outputs) + k) for k, (i, _) in enumerate(written))
    graph = tracer.graph([*outputs, *(h for _, h in written)])
    return Trace(graph, tuple(tracer.constants), len(outputs), writes)


def _stand_in(array: Traced, example: Tensor | Aval) -> Any:
    if isinstance(example, Aval):
        if example.weak:
            kind = type(ZEROS[example.dtype.category])
            return SymNumber(array.storage.tracer, kind, array.handle)
        return wrap(array)
    stand_in = wrap(array, cls=type(example))
    stand_in._requires_grad = example.requires_grad
    return stand_in


def _handle(tracer: Tracer, result: Any) -> Node:
    if isinstance(result, SymNumber):
        number: Node = result.handle
        return number
    if not isinstance(result, Tensor):
        raise TypeError(f"a traced function returns tensors, got {type(result).__name__}")
    array = result._array if isinstance(result._array, Traced) else tracer.lift(result)
    node: Node = array.read()
    return node
