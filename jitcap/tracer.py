"""Tracing, the first half of capture: eager's calls on traced tensors -> nodes of a Graph.

`Tracer` is what `eager.dispatch` talks to while tensors are traced (eager never imports it: it only
calls these methods). Views and in-place writes have been resolved by `eager.traced` before `emit`,
so what arrives here is pure. Who runs the program (the bytecode interpreter, or plain Python in
`trace`) hands in the decisions that are not the graph's: where a value met from outside comes from,
what a question about a run-time number is answered with, and how `.grad` of an input is read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

from eager.autograd import FunctionNode
from eager.aval import Aval, scalar_aval
from eager.dispatch import current_tracer
from eager.op import REGISTRY, Attrs, Op
from eager.sym import SymNumber
from eager.tape import CopySlicesNode, OpNode
from eager.tensor import Tensor, wrap
from eager.traced import Traced, fresh
from jitcap import scalars
from jitcap.graph import (
    AS_NUMBER,
    CHECK,
    ITEM,
    NOWHERE,
    ZEROS,
    Arg,
    Graph,
    Node,
    Where,
    items,
    placeholder,
)

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


class Tracer:
    """Appends nodes, and notes which of them went on the tape; for eager: the protocol of
    `eager.traced`."""

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
        self._lift = lift or self.constant
        self._concretize = concretize or refuse
        self._load_grad = load_grad or _no_grad_of
        self.constants: list[Tensor] = []
        self.recorded: dict[Node, tuple[bool, ...]] = {}  # which operands a gradient goes to
        self.starts: dict[Node, Tensor] = {}  # values as they leave a leaf
        self.functions: list[Recorded] = []
        self.differentiated = False  # whether the program itself went back over the tape
        self._lifted: dict[int, Traced] = {}
        self.conditions: set[Any] = set()  # that are checked

    # what eager calls ---------------------------------------------------------------------------

    def emit(
        self, op: Op, operands: Sequence[Arg], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Node, ...]:
        """Append one operation; the handles of its outputs."""
        node = Node(op, tuple(operands), attrs, outs, self.where())
        self.nodes.append(node)
        if len(outs) == 1:
            return (node,)
        handles = items(node)
        self.nodes.extend(handles)
        return handles

    def check(self, what: str, *conditions: Arg) -> Node:
        """Append truths without which a run is given up; `what` says what was expected."""
        (node,) = self.emit(CHECK, conditions, {"what": what}, (scalar_aval(True),))
        self.checks.append(node)
        return node

    def lift(self, tensor: Tensor) -> Traced:
        """A concrete tensor met while tracing."""
        return self._lift(tensor)

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
        """The same of one that is no expression."""
        return number.leaf

    def decide(self, fn: Callable[..., Any], *operands: Any) -> bool | None:
        """Whether a condition on numbers holds; None if the run decides."""
        known = not any(isinstance(x, SymNumber) for x in operands)
        return bool(fn(*operands)) if known else None

    def value(self, handle: Any) -> Any:
        """The value of what is made of constants only: not looked for here."""
        return None

    def concretize(self, number: SymNumber, want: type) -> Any:
        """`bool()`, `int()`, `float()` or an index of a run-time number."""
        return self._concretize(number, want)

    def load_grad(self, tensor: Tensor) -> Tensor | None:
        """The first read of `.grad` of an input."""
        return self._load_grad(tensor)

    # the tape: see `jitcap.replay`

    def check_writable(self, tensor: Tensor) -> None:
        """A tensor is to be overwritten on the tape: no objection."""

    def sweep(self) -> None:
        """Gradients are computed."""
        self.differentiated = True

    def record(self, node: OpNode, operands: Sequence[Any], outs: Sequence[Tensor]) -> None:
        """A call goes on the tape. A copy has no node in the graph, and gets one here."""
        mask = self._mask(node, operands)
        if node.op.kind == "copy":
            (out,) = outs
            out._array = fresh(self, self.distinct(out._array).handle, out.aval)
        for handle in map(self._handle, outs):
            self.recorded.setdefault(handle.parents[0] if handle.op is ITEM else handle, mask)

    def record_write(self, node: CopySlicesNode, base: Tensor, value: Tensor) -> None:
        """The chain of operations that put `value` into the whole."""
        on_base, on_value = (edge is not None for edge in node.edges)
        self._mask(node, (None, value))
        whole, left = base._array.storage.handle, len(node.chain)
        while left:
            left -= 1
            inner = on_value if not left else True
            *rest, part = whole.args
            self.recorded.setdefault(whole, (on_base, inner) if rest else (inner,))
            for view in rest:
                if isinstance(view, Node) and view.op.kind == "view":
                    self.recorded.setdefault(view, (on_base,))
            whole = part

    def record_function(
        self, node: FunctionNode, operands: Sequence[Tensor], outs: Sequence[Tensor]
    ) -> None:
        """A result that is an operand gets a handle of its own."""
        self._mask(node, operands)
        given = tuple(map(self._handle, operands))
        for t in outs:
            if self._handle(t) in given and type(t._array) is Traced:
                t._array = self.distinct(t._array)
        results = tuple((self._handle(t), t._node is node) for t in outs)
        self.functions.append(Recorded(node, given, results))

    def distinct(self, traced: Traced) -> Traced:
        """The same value under a handle of its own."""
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

    def graph(self, outputs: Sequence[Node]) -> Graph:
        """What was traced, with these outputs."""
        return Graph(tuple(self.inputs), tuple(self.nodes), tuple(outputs), self.name)

    def constant(self, tensor: Tensor) -> Traced:
        """The default `lift`: the tensor becomes a further input, kept in `constants`."""
        found = self._lifted.get(id(tensor))
        if found is None:
            aval = tensor.aval
            found = fresh(self, self.input(f"c{len(self.constants)}", aval), aval)
            self.constants.append(tensor)
            self._lifted[id(tensor)] = found
        return found


def refuse(number: SymNumber, want: type) -> Any:
    """The default `concretize`: there is no value to guard on."""
    raise DataDependent(
        f"{want.__name__}() of a value that is known only when the program runs; "
        "keep it a tensor (eager.where), or move the decision out of the traced function"
    )


def _no_grad_of(tensor: Tensor) -> Tensor | None:
    return None


_OURS = ("eager", "jitcap", "codegen")


def user_line() -> Where:
    """The innermost line of the calling stack that is not in our packages."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _OURS:
            code = frame.f_code
            return Where(code.co_filename, frame.f_lineno, code.co_qualname)
        frame = frame.f_back
    return NOWHERE


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """What `trace` recorded.

    The graph's inputs are the arguments, then `constants`; its outputs the results, then the new
    values of arguments written in place (`writes`: input index, output index).
    """

    graph: Graph
    constants: tuple[Tensor, ...]
    results: int
    writes: tuple[tuple[int, int], ...]


def trace(fn: Callable[..., Any], *examples: Any, name: str = "graph") -> Trace:
    """Run `fn` once on abstract tensors and record its operations.

    `examples` are tensors or avals; anything else is passed as it is and becomes part of the
    program. The result is a tensor or a tuple or list of tensors. Control flow of Python is
    recorded as taken; nothing is guarded. Raises DataDependent where it needs a tensor's value.
    """
    tracer = Tracer(name=name)
    args, storages = [], []
    for i, example in enumerate(examples):
        if not isinstance(example, Tensor | Aval):
            args.append(example)
            continue
        aval = example if isinstance(example, Aval) else example.aval
        array = fresh(tracer, tracer.input(f"x{i}", aval), aval)
        storages.append(array.storage)
        args.append(_stand_in(array, example))
    token = current_tracer.set(tracer)
    try:
        result = fn(*args)
        results = result if isinstance(result, tuple | list) else (result,)
        outputs = [_handle(tracer, r) for r in results]
    finally:
        current_tracer.reset(token)
    written = [(i, s.handle) for i, s in enumerate(storages) if s.generation]
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
