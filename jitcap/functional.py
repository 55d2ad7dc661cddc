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

from eager.aval import Aval, scalar_aval
from eager.dispatch import current_tracer
from eager.op import REGISTRY, Attrs, Op
from eager.sym import SymNumber
from eager.tensor import Tensor, wrap
from eager.traced import Traced, fresh
from jitcap.graph import (
    AS_NUMBER,
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


class Tracer:
    """Appends nodes; SPEC'd methods for eager: emit, lift, item, concretize, load_grad."""

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
        self.name = name
        self.where = where or user_line
        self._lift = lift or self.constant
        self._concretize = concretize or refuse
        self._load_grad = load_grad or _no_grad_of
        self.constants: list[Tensor] = []
        self._lifted: dict[int, Traced] = {}

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

    def lift(self, tensor: Tensor) -> Traced:
        """A concrete tensor met while tracing."""
        return self._lift(tensor)

    def item(self, traced: Traced) -> SymNumber:
        """`.item()`: a run-time number with nothing known of its value."""
        if traced.aval.shape:
            traced = traced.view(REGISTRY["reshape"], {"shape": ()})
        zero = ZEROS[traced.aval.dtype.category]
        (handle,) = self.emit(AS_NUMBER, (traced.read(),), {}, (scalar_aval(zero),))
        return SymNumber(self, handle, type(zero), None)

    def value(self, handle: Any) -> Any:
        """The value of what is made of constants only: not looked for here."""
        return None

    def concretize(self, number: SymNumber, want: type) -> Any:
        """`bool()`, `int()`, `float()` or an index of a run-time number."""
        return self._concretize(number, want)

    def load_grad(self, tensor: Tensor) -> Tensor | None:
        """The first read of `.grad` of an input."""
        return self._load_grad(tensor)

    # what whoever runs the program calls --------------------------------------------------------

    def input(self, name: str, aval: Aval) -> Node:
        """A new graph input; its handle."""
        node = placeholder(name, aval)
        self.inputs.append(node)
        return node

    def mark(self) -> tuple[int, int]:
        """Where the program is: for `rollback`."""
        return len(self.inputs), len(self.nodes)

    def rollback(self, mark: tuple[int, int]) -> None:
        """Forget what was traced after `mark` (a call that was tried and given up)."""
        del self.inputs[mark[0] :], self.nodes[mark[1] :]

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
            return SymNumber(
                array.storage.tracer, array.handle, type(ZEROS[example.dtype.category])
            )
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
