"""Capture's last step if gradients are asked for later: traced outputs -> joint graph, tape node.

A region that contains only the forward still has to answer `backward()`. While its traced tensors
are at hand, eager's own reverse sweep is run on them with placeholders for the gradients of the
outputs (`build_joint`). `partition` cuts the result in two; at run time the outputs carry a
`RegionNode` of eager's tape that runs the compiled backward and hands the gradients on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eager import autograd
from eager.aval import Aval
from eager.dispatch import apply
from eager.tensor import Tensor, wrap
from eager.traced import Traced, fresh
from jitcap.functional import Tracer
from jitcap.graph import AS_NUMBER, ITEM, Graph, Node, placeholder
from jitcap.partition import Partition, partition
from jitcap.record import announce

Saved = autograd.Saved


@dataclass(frozen=True, slots=True, eq=False)
class Joint:
    """Forward and backward in one graph: inputs are the primals, then the gradients of the outputs
    `tracked`; outputs are the forward's `outputs` first, then the gradients of the inputs `leaves`
    (indices into the primals)."""

    graph: Graph
    primals: int
    outputs: int
    tracked: tuple[int, ...]
    leaves: tuple[int, ...]


def build_joint(
    tracer: Tracer,
    outputs: Sequence[Node],
    tracked: Sequence[tuple[int, Tensor]],
    leaves: Sequence[tuple[int, Tensor]],
) -> Joint | None:
    """The joint graph of what `tracer` recorded, or None when no gradient flows.

    `tracked` are the traced outputs that require a gradient, with their index among `outputs`;
    `leaves` the stand-ins of inputs that do, with their index among the inputs. Must be called with
    the tracer active, when everything else has been traced.
    """
    live = [(i, t) for i, t in tracked if t._node is not None and not is_spent(t)]
    if not live or not leaves:
        return None
    tangents = [placeholder(f"g{i}", t.aval) for i, t in live]
    given: list[Tensor] = [wrap(fresh(tracer, n, n.aval)) for n in tangents]
    hooks = [(leaf, leaf._hooks) for _, leaf in leaves if leaf._hooks is not None]
    try:
        for leaf, _ in hooks:  # they are called on the tape, when the gradient gets there
            leaf._hooks = None
        ins = [t for _, t in leaves]
        grads = autograd.grad(
            [t for _, t in live], ins, given, retain_graph=True, allow_unused=True
        )
    finally:
        for leaf, own in hooks:
            leaf._hooks = own
    reached = [(i, g) for (i, _), g in zip(leaves, grads, strict=True) if g is not None]
    if not reached:
        return None
    primals = tuple(tracer.inputs)
    handles = [_value(tracer, g) for _, g in reached]
    graph = Graph(
        (*primals, *tangents), tuple(tracer.nodes), (*outputs, *handles), f"{tracer.name}_joint"
    )
    where = tuple(i for i, _ in live), tuple(i for i, _ in reached)
    return Joint(graph, len(primals), len(outputs), *where)


def _value(tracer: Tracer, grad: Tensor) -> Node:
    array = grad._array if isinstance(grad._array, Traced) else tracer.lift(grad)
    node: Node = array.read()
    return node


def _history(tensors: Iterable[Tensor]) -> Iterator[autograd.Node]:
    """The nodes of the tape behind `tensors`, each once."""
    seen: set[Any] = set()
    stack: list[Any] = [t._node for t in tensors]
    while stack:
        node = stack.pop()
        if node is None or node in seen or isinstance(node, Tensor):
            continue
        seen.add(node)
        yield node
        stack.extend(e[0] for e in node.edges if e is not None)


def leaves_of(tensors: Iterable[Tensor]) -> set[int]:
    """The ids of the leaves that a gradient of `tensors` goes to."""
    return {
        id(edge[0])
        for node in _history(tensors)
        for edge in node.edges
        if edge is not None and isinstance(edge[0], Tensor)
    }


def is_spent(tensor: Tensor) -> bool:
    """Whether the tensor's history was used up, or what it saved overwritten, inside the region."""
    for node in _history((tensor,)):
        kept = getattr(node, "saved", ())
        if kept is None or any(map(_is_stale, kept.values() if isinstance(kept, dict) else kept)):
            return True
    return False


def runs_python(tensors: Iterable[Tensor]) -> bool:
    """Whether the backward of `tensors` calls the user's own functions, or keeps a gradient."""
    return any(
        node.hooks or node.retained or isinstance(node, autograd.FunctionNode)
        for node in _history(tensors)
    )


def _is_stale(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_stale, value))
    return isinstance(value, Saved) and value.version != value.tensor._storage.version


class FreedNode(autograd.Node):
    """The history of an output that was spent inside the region: asking again raises."""

    __slots__ = ()

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        raise RuntimeError(
            "Trying to backward through the graph a second time, or through values that were "
            "overwritten since (by an optimizer's step): inside the compiled region that made this "
            "tensor, its history was used up. Call backward() there, before what overwrites."
        )


Compile = Callable[[Graph], Callable[[list[Any]], list[Any]]]


class Region:
    """A partitioned joint graph: what its tape nodes share. The backward compiles when run."""

    def __init__(
        self, joint: Joint, writes: Sequence[tuple[int, int]], compile_backward: Compile
    ) -> None:
        """`writes` pairs (input index, output index) of what the forward writes in place."""
        self.joint = joint
        self.written = frozenset(o for _, o in writes)
        self.overwritten = frozenset(i for i, _ in writes)
        self.partition: Partition = partition(joint.graph, joint.primals, joint.outputs)
        self._sources = self._find_sources()
        self._compile = compile_backward
        self._run: Callable[[list[Any]], list[Any]] | None = None
        self._lock = threading.Lock()

    @property
    def forward(self) -> Graph:
        """primals -> outputs, then the saved values that are neither inputs nor outputs."""
        pairs = zip(self.partition.saved, self._sources, strict=True)
        extra = [n for n, (kind, _) in pairs if kind == "extra"]
        whole, outputs = self.partition.forward, self.joint.outputs
        return whole.with_(outputs=(*whole.outputs[:outputs], *extra))

    def _find_sources(self) -> list[tuple[str, int]]:
        """Where each saved value is after the forward: an input, a tracked output, or on its own.

        Memory that the region writes does not keep its value: such an input counts as a value of
        its own, and so does what is written to it."""
        outputs = self.joint.graph.outputs[: self.joint.outputs]
        place = {outputs[i]: ("output", i) for i in self.joint.tracked if i not in self.written}
        for i, n in enumerate(self.joint.graph.inputs[: self.joint.primals]):
            if i not in self.overwritten:
                place[n] = ("input", i)
        sources, extra = [], 0
        for n in self.partition.saved:
            sources.append(place.get(n, ("extra", extra)))
            extra += sources[-1][0] == "extra"
        return sources

    def run_backward(self, arrays: list[Any]) -> list[Any]:
        if self._run is None:
            with self._lock:
                if self._run is None:
                    self._run = self._compile(self.partition.backward)
        return self._run(arrays)

    def attach(
        self, inputs: Sequence[Any], outputs: Sequence[Tensor | None], extra: Sequence[Any]
    ) -> None:
        """Put the outputs of one call on the tape.

        `inputs` are the tensors and numbers of the call, `outputs` the result tensors by index
        (None where an output is written back), `extra` the arrays that `forward` gives after them.
        """
        leaves = [inputs[i] for i in self.joint.leaves]
        avals = tuple(n.aval for n in self.joint.graph.inputs[self.joint.primals :])
        table = {"input": inputs, "output": outputs, "extra": extra}
        saved = [_keep(table[kind][i]) for kind, i in self._sources]
        node = RegionNode(self, leaves, avals, inputs, saved)
        for slot, i in enumerate(self.joint.tracked):
            out = outputs[i]
            if out is not None:
                out._node, out._index, out._requires_grad = node, slot, True


def _keep(value: Any) -> Any:
    """A value for the backward; a tensor with its version, but without its history (no cycles)."""
    if isinstance(value, Tensor):
        return Saved(wrap(value._array, value._storage), "a compiled region")
    return value


class RegionNode(autograd.Node):
    """One call of a compiled forward, on eager's tape."""

    __slots__ = ("inputs", "region", "saved")

    def __init__(
        self,
        region: Region,
        leaves: Sequence[Tensor],
        outs: tuple[Aval, ...],
        inputs: Sequence[Any],
        saved: Sequence[Any],
    ) -> None:
        super().__init__(leaves, outs)
        self.region = region
        name = self.name()
        self.inputs = [Saved(x, name) if isinstance(x, Tensor) else x for x in inputs]
        self.saved: Sequence[Any] | None = saved

    def name(self) -> str:
        return f"{self.region.joint.graph.name.removesuffix('_joint')}Backward"

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        if self.saved is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved "
                "tensors after they have already been freed). Specify retain_graph=True if you "
                "need to backward through the graph a second time."
            )
        tangents = [autograd.zeros_for(g, a) for g, a in zip(grads, self.outs, strict=True)]
        if autograd.is_grad_enabled() or any(isinstance(t._array, Traced) for t in tangents):
            return self._again(tangents)
        arrays = [np.ascontiguousarray(t._array) for t in tangents]
        values = [_carried(v) for v in self.saved]
        results = self.region.run_backward([*values, *arrays])
        return [wrap(np.asarray(r)) for r in results]

    def _again(self, tangents: list[Tensor]) -> Sequence[Any]:
        """With create_graph: the joint graph op by op on the tape, so that it is differentiable."""
        announce(
            ("create_graph", self.region),
            f"{self.name()}: create_graph=True from outside the compiled region runs its backward "
            "op by op; call backward() inside @jit to have it compiled",
        )
        primals = [x.get() if isinstance(x, Saved) else x for x in self.inputs]
        values = replay(self.region.joint.graph, [*primals, *tangents])
        return values[self.region.joint.outputs :]

    def release(self) -> None:
        self.saved = None
        self.inputs = []


def _carried(value: Any) -> Any:
    """A saved value as the backward takes it; a tensor must not have been written since."""
    return np.ascontiguousarray(value.get()._array) if isinstance(value, Saved) else value


def replay(graph: Graph, args: Sequence[Any]) -> list[Any]:
    """Evaluate a graph through eager's dispatch: on the tape, or under another tracer."""
    env: dict[Node, Any] = dict(zip(graph.inputs, args, strict=True))
    for n in graph.nodes:
        operands: list[Any] = [env[a] if isinstance(a, Node) else a for a in n.args]
        if n.op is ITEM:
            env[n] = operands[0][n.attrs["index"]]
        elif n.op is AS_NUMBER:
            env[n] = operands[0].item()
        elif len(n.avals) == 1 and n.avals[0].weak:
            (value,) = n.op.compute(tuple(operands), n.attrs, n.avals)
            env[n] = np.asarray(value).item()
        else:
            env[n] = apply(n.op, *operands, **n.attrs)
    return [env[o] for o in graph.outputs]
