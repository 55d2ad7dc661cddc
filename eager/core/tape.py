"""The tape: what was computed, and the sweep back over it. tensors with a history -> gradients.

Each recorded call is a `Node` with a sequence number; a node's inputs were made before it, so
taking nodes by falling number visits every consumer before its producer. Gradients are computed by
the derivatives of the op records in eager's own ops: with `create_graph` they are on the tape
themselves, and under capture they are nodes of the graph.
"""

from __future__ import annotations

import heapq
import itertools
import traceback
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from eager.base import dtype as dt
from eager.core.gradient_hooks import AFTER, BEFORE, RemovableHandle, after_hook, hook_node, through
from eager.core.mode import Anomaly as Anomaly
from eager.core.mode import Autocast as Autocast
from eager.core.mode import mode as mode
from eager.core.op import Op
from eager.core.saved import Saved as Saved
from eager.core.tensor import WITH_AVAL, Tensor, wrap
from eager.core.traced import Traced, UnknownValue
from eager.sizes.aval import Aval, array_aval, same, scalar_aval

Edge = tuple[Any, int] | None  # (Node, output index), (leaf Tensor, 0), or None: needs no gradient
FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after "
    "they have already been freed). Specify retain_graph=True if you need to backward through the "
    "graph a second time."
)
_sequence = itertools.count()


# ------------------------------------------------------------------------------- the tape
class Node:
    """One recorded call: where its inputs come from (`edges`), what they and its outputs look
    like. `where`: its place in the program, if a tracer notes it."""

    __slots__ = ("avals", "called", "edges", "hooks", "outs", "retained", "sequence", "where")
    where: Any

    def __init__(self, operands: Sequence[Any], outs: tuple[Aval, ...]) -> None:
        self.edges: tuple[Edge, ...] = tuple(map(edge_of, operands)) if operands else ()
        self.avals: tuple[Aval, ...] = tuple(map(_aval, operands)) if operands else ()
        self.outs = outs
        self.sequence: float = next(_sequence)
        self.hooks: dict[Any, dict[int, Any]] | None = None  # output index -> id -> hook
        self.retained: dict[int, Tensor] | None = None  # the same: tensors whose .grad is wanted
        self.called = None if mode.anomaly is None else "".join(traceback.format_stack())

    def name(self) -> str:
        return type(self).__name__

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        """Gradients of the outputs (None: no one asked) -> gradients of the operands."""
        raise NotImplementedError

    def toward(self, grads: list[Any], wanted: set[tuple[int, int]] | None) -> Sequence[Any]:
        """`vjp`, in a sweep that asks for the gradients at `wanted` (None: at all leaves)."""
        return self.vjp(grads)

    def release(self) -> None:
        """Forget what was saved."""

    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_inputs, grad_outputs)` after the derivative was taken; a tuple that it
        returns takes the place of `grad_inputs`, the gradients of the operands."""
        return hook_node(self, AFTER, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn(grad_outputs)` before the derivative is taken, of what it returns if that is not
        None."""
        return hook_node(self, BEFORE, fn)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return tuple((None, 0) if e is None else (_node_of(e[0]), e[1]) for e in self.edges)

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    def __lt__(self, other: Node) -> bool:  # heapq takes the newest first
        return self.sequence > other.sequence


class AccumulateGrad:
    """Node at the end of the tape: it adds to the gradient of a leaf, `variable`. One object for a
    leaf, as long as somebody has it."""

    next_functions: tuple[Any, ...] = ()

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable

    def name(self) -> str:
        return "torch::autograd::AccumulateGrad"

    def register_hook(self, fn: Callable[..., Any]) -> Any:
        """Call `fn((), (gradient,))` after a gradient was added to `variable.grad`."""
        return _AfterAccumulating(self.variable, fn)

    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call `fn((gradient,))` before a gradient is added: a tuple that it returns takes the
        place of that."""

        def hook(grad: Tensor) -> Any:
            changed = fn((grad,))
            return changed[0] if isinstance(changed, tuple) else changed

        return self.variable.register_hook(hook)

    def __repr__(self) -> str:
        return "<AccumulateGrad>"


class _AfterAccumulating:
    """Two hooks of a leaf that call `fn` of the gradient which has arrived. `remove()` takes them
    away."""

    def __init__(self, leaf: Tensor, fn: Callable[..., Any]) -> None:
        self.fn = fn
        self.arrived: Tensor | None = None
        self.handles = (
            leaf.register_hook(self.note),
            leaf.register_post_accumulate_grad_hook(self.tell),
        )

    def note(self, grad: Tensor) -> None:
        self.arrived = grad

    def tell(self, _: Tensor) -> None:
        self.fn((), (self.arrived,))
        self.arrived = None

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


_ends: weakref.WeakValueDictionary[int, AccumulateGrad] = weakref.WeakValueDictionary()


def _node_of(target: Any) -> Any:
    if not isinstance(target, Tensor):
        return target
    end = _ends.get(id(target))
    if end is None:
        end = _ends[id(target)] = AccumulateGrad(target)
    return end


def _aval(x: Any) -> Aval:
    if isinstance(x, Tensor):
        array = x._array
        return array.aval if type(array) in WITH_AVAL else array_aval(array.shape, array.dtype)
    return scalar_aval(x)


def _saved(x: Any, op: Op) -> Any:
    if not isinstance(x, Tensor):
        return x
    if x._counts is not None and x._counts.inference:
        require_savable(x, op.name)
    return Saved(x, op.name)


def require_savable(x: Tensor, name: str) -> None:
    """RuntimeError for an inference tensor, but in inference mode, where transforms record."""
    if x._storage.inference and not mode.inference:
        raise RuntimeError(
            f"an inference tensor cannot be saved for the derivative of {name}: clone() it outside "
            "of inference_mode() first, or make it under no_grad() instead"
        )


def _conj(x: Any) -> Any:
    """The conjugate of a complex tensor; anything else as it is."""
    return x.conj() if isinstance(x, Tensor) and x.dtype.is_complex else x


class OpNode(Node):
    """A call of an op whose record has a derivative; `saved` holds exactly what that derivative
    names."""

    __slots__ = ("op", "saved")

    def __init__(self, op: Op, operands: Sequence[Any], attrs: Any, outs: Sequence[Tensor]) -> None:
        super().__init__(operands, tuple(t.aval for t in outs))
        self.op = op
        self.saved: dict[str, Any] | None = self._save(operands, attrs, outs)
        first = outs[0]._array
        if type(first) is Traced:
            first.storage.tracer.record(self, operands, outs)

    def _save(self, operands: Sequence[Any], attrs: Any, outs: Sequence[Tensor]) -> dict[str, Any]:
        op, wanted = self.op, self.op.saves
        saved: dict[str, Any] = {key: attrs[key] for key in wanted if key in attrs}
        for i, key in op.saved_operands:
            uses = op.saves_for.get(key)
            if uses is not None and not any(self.edges[j] for j in uses):
                saved[key] = None
            elif op.operands[i][0] == "*":
                saved[key] = tuple(_saved(x, op) for x in operands[i:])
            else:
                saved[key] = _saved(operands[i], op)
        if "out" in wanted:  # without their tensors, which refer to this node
            saved["out"] = tuple(Saved(wrap(t._array, t._storage), op.name) for t in outs)
        for i, t in enumerate(outs if op.n_outputs > 1 else ()):
            if f"out{i}" in wanted:
                saved[f"out{i}"] = Saved(wrap(t._array, t._storage), op.name)
        return saved

    def name(self) -> str:
        return "".join(part.capitalize() for part in self.op.name.split("_")) + "Backward0"

    def underived(self) -> str:
        """The message where a gradient is asked for and the op has none; "" if it has."""
        if self.op.vjp is None:
            return f"derivative for {self.op.name} is not implemented"
        if self.op.underived and self.edges[0] is not None:
            name = f"{self.op.name}: {self.op.underived}"
            return f"the derivative for '{name}' is not implemented"
        return ""

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        if self.saved is None:
            raise RuntimeError(FREED)
        op = self.op
        if why := self.underived():
            raise RuntimeError(why)
        assert op.vjp is not None
        given = {key: _unpack(value) for key, value in self.saved.items()}
        if "out" in op.saves:
            outs = tuple(self._attach(t, i) for i, t in enumerate(given["out"]))
            given["out"] = outs if op.n_outputs > 1 else outs[0]
        for i in range(op.n_outputs):
            if f"out{i}" in given:
                given[f"out{i}"] = self._attach(given[f"out{i}"], i)
        if "g" in op.saves:
            given["g"] = tuple(map(zeros_for, grads, self.outs)) if op.n_outputs > 1 else grads[0]
        if "avals" in op.saves:
            given["avals"] = self.avals
        if "needs" in op.saves:
            given["needs"] = tuple(e is not None for e in self.edges)
        if not (op.analytic and self.outs[0].dtype.is_complex):
            return op.vjp(**given)
        given["g"] = tuple(map(_conj, grads)) if op.n_outputs > 1 else _conj(grads[0])
        return tuple(map(_conj, op.vjp(**given)))

    def __getattr__(self, name: str) -> Any:
        """Under `_saved_NAME`: what is kept for the derivative, by its name here or PyTorch's."""
        kind, _, key = name[1:].partition("_")
        if kind != "saved" or not key:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if self.saved is None:
            raise RuntimeError(FREED)
        operands = [operand.lstrip("*") for operand in self.op.operands]
        theirs = dict(zip(("self", "other"), operands, strict=False)) | {"result": "out"}
        theirs |= dict(zip(("input", "weight"), operands, strict=False)) | {"output": "out"}
        theirs |= dict(zip(("base", "exponent"), operands, strict=False))
        key = key if key in self.saved else theirs.get(key, key)
        if key not in self.saved:
            there = ", ".join(f"_saved_{each}" for each in self.saved) or "nothing"
            raise AttributeError(
                f"{self.name()} has no {name!r}: it keeps {there}; all that is kept passes through "
                "the hooks of autograd.graph.saved_tensors_hooks",
                name=name,
                obj=self,
            )
        value = _unpack(self.saved[key])
        if not key.startswith("out"):
            return value
        if isinstance(value, Tensor):
            return self._attach(value, int(key.removeprefix("out")))
        outs = tuple(self._attach(t, i) for i, t in enumerate(value))
        return outs if self.op.n_outputs > 1 else outs[0]

    def _attach(self, bare: Tensor, index: int) -> Tensor:
        """A saved output as it was: on the tape, made by this node."""
        out: Tensor = wrap(bare._array, bare._storage)
        if differentiable(out.dtype):
            out._node, out._index, out._requires_grad = self, index, True
        return out

    def release(self) -> None:
        """Let go of saved tensors; a node that has none may be asked again."""
        for value in (self.saved or {}).values():
            if type(value) is Saved or (type(value) is tuple and Saved in map(type, value)):
                self.saved = None
                return


class CopySlicesNode(Node):
    """A write through a view, seen from the base: the view's part has the written value's
    gradient, the rest its own.

    Operands are (old base, written value); `chain` are the view steps from the base to the part."""

    __slots__ = ("apply", "chain")

    def __init__(
        self, base: Tensor, value: Tensor, chain: tuple[Any, ...], apply: Callable[..., Any]
    ) -> None:
        super().__init__((base, value), (base.aval,))
        self.chain = chain
        self.apply = apply
        if type(base._array) is Traced:
            base._array.storage.tracer.record_write(self, base, value)

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        parts = [grads[0]]
        for op, attrs in self.chain:
            parts.append(self.apply(op, parts[-1], **attrs))
        rest = zeros_of(parts[-1])
        for (op, attrs), whole in zip(reversed(self.chain), reversed(parts[:-1]), strict=True):
            inverse, inverse_attrs, takes_base = op.inverse(whole.aval, attrs)
            rest = self.apply(inverse, *((whole, rest) if takes_base else (rest,)), **inverse_attrs)
        return rest, parts[-1]


def edge_of(x: Any) -> Edge:
    if not isinstance(x, Tensor) or not x._requires_grad:
        return None
    return (x, 0) if x._node is None else (x._node, x._index)


def sequence_now() -> int:
    """Nodes recorded from now on have at least this sequence number."""
    return next(_sequence)


def keep_operand(node: Node | None, since: int, storage: Any) -> None:
    """Before `storage` is overwritten: what the nodes recorded `since` saved of it becomes a copy
    of their own."""
    if node is None or node.sequence < since:
        return
    for value in (getattr(node, "saved", None) or {}).values():
        for saved in value if isinstance(value, tuple) else (value,):
            if isinstance(saved, Saved) and getattr(saved.tensor, "_storage", None) is storage:
                saved.own()
    for edge in node.edges:
        if edge is not None and isinstance(edge[0], Node):
            keep_operand(edge[0], since, storage)


def differentiable(dtype: dt.DType) -> bool:
    return dtype.category >= dt.FLOAT


def _unpack(value: Any) -> Any:
    if isinstance(value, Saved):
        return value.get()
    if isinstance(value, tuple):
        return tuple(map(_unpack, value))
    return value


def zeros_for(grad: Any, aval: Aval) -> Any:
    """The gradient of an output nobody used: zeros, or None for one that has no derivative."""
    return full(0, aval) if grad is None and differentiable(aval.dtype) else grad


def zeros_of(g: Tensor) -> Tensor:
    """The gradient where there is none: not `g * 0`, which is NaN for an infinite g. A graph still
    says that it comes of `g`: without that there is none."""
    zeros = full(0, g.aval)
    if type(g._array) is not Traced:
        return zeros
    always = full(True, Aval((), dt.bool_, g.aval.device))
    return zeros.where(always, g.detach())


def full(value: float, aval: Aval) -> Tensor:
    return Tensor._full(value, aval)


# ------------------------------------------------------------------------------ the sweep
def sweep(
    roots: Sequence[tuple[Edge, Tensor]],
    wanted: set[tuple[int, int]] | None,
    *,
    keep: bool,
    create: bool,
    ends: Callable[[Node], Any] | None = None,
) -> tuple[dict[tuple[int, int], Tensor], dict[int, tuple[Tensor, Tensor]]]:
    """Run the tape backwards from `roots` (edge, gradient); only to the `wanted` (id of node or
    leaf, output index), if given, and not into the nodes that `ends` says, whose gradients are
    asked for.

    Returns the gradients arriving at the `wanted` (id of node, output index) and, by id, at each
    leaf (leaf, gradient)."""
    pending: dict[Node, list[Any]] = {}
    leaves: dict[int, tuple[Tensor, Tensor]] = {}
    found: dict[tuple[int, int], Tensor] = {}
    heap: list[Node] = []
    ways = None if wanted is None else _ways_to(wanted, [edge for edge, _ in roots])

    def deliver(edge: Edge, grad: Tensor) -> None:
        if edge is None or not _leads(edge, wanted, ways):
            return
        target, index = edge
        if isinstance(target, Tensor):
            seen = leaves.get(id(target))
            leaves[id(target)] = (target, grad if seen is None else seen[1] + grad)
            return
        if ends is not None and ends(target):
            before = found.get((id(target), index))
            found[id(target), index] = grad if before is None else before + grad
            return
        slots = pending.get(target)
        if slots is None:
            slots = pending[target] = [None] * len(target.outs)
            heapq.heappush(heap, target)
        slots[index] = grad if slots[index] is None else slots[index] + grad

    _announce(roots)
    enabled, outer, mode.enabled = mode.enabled, mode.behind, create and mode.may_record
    try:
        for edge, grad in roots:
            deliver(edge, grad)
        while heap:
            node = heapq.heappop(heap)
            grads = _arrived(node, pending.pop(node), wanted, found)
            if ways is not None and id(node) not in ways:
                continue  # wanted itself, and nothing behind it is
            mode.behind = node
            given = _around(node, grads, wanted) if node.hooks else node.toward(grads, wanted)
            if mode.anomaly is not None:
                _inspect(node, given, mode.anomaly)
            for edge, aval, grad in zip(node.edges, node.avals, given, strict=True):
                if edge is not None and grad is not None:
                    deliver(edge, _fit(grad, aval))
            if not keep:
                _use_up(node)
    finally:
        mode.enabled, mode.behind = enabled, outer
    return found, leaves


def _use_up(node: Node) -> None:
    """A node's derivative was taken, for the last time."""
    if mode.used is not None and (saved := getattr(node, "saved", None)) is not None:
        mode.used.append((node, saved))
    node.release()


def _announce(roots: Sequence[tuple[Edge, Tensor]]) -> None:
    """Tell tracers that the tape is gone over backwards."""
    for _, grad in roots:
        if type(grad._array) is Traced:
            grad._array.storage.tracer.sweep()


def _ways_to(wanted: set[tuple[int, int]], roots: Sequence[Edge]) -> set[int]:
    """The nodes (their ids) behind `roots` through which a gradient reaches one of the `wanted`."""
    seen: set[Node] = set()
    stack = [e[0] for e in roots if e is not None]
    while stack:
        node = stack.pop()
        if isinstance(node, Tensor) or node in seen:
            continue
        seen.add(node)
        stack.extend(e[0] for e in node.edges if e is not None)
    ways: set[int] = set()
    for node in sorted(seen, key=lambda n: n.sequence):  # inputs first
        if any(e is not None and _leads(e, wanted, ways) for e in node.edges):
            ways.add(id(node))
    return ways


def _leads(edge: tuple[Any, int], wanted: Any, ways: set[int] | None) -> bool:
    return ways is None or id(edge[0]) in ways or (id(edge[0]), edge[1]) in wanted


def _inspect(node: Node, given: Sequence[Any], anomaly: Anomaly) -> None:
    """RuntimeError for a NaN among the gradients that a derivative gave; where its operation was
    called is a warning."""
    for i, (edge, g) in enumerate(zip(node.edges, given, strict=True)):
        if edge is None or not isinstance(g, Tensor) or not anomaly.check_nan:
            continue
        if type(g._array) is Traced:
            raise UnknownValue("detect_anomaly looks at every gradient while it is computed")
        if bool(g.isnan().any()):
            called = node.called or "  (it was called outside detect_anomaly)\n"
            warnings.warn(
                f"Error detected in {node.name()}. Traceback of forward call that caused the "
                f"error:\n{called}",
                stacklevel=2,
            )
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")


def _arrived(
    node: Node,
    grads: list[Any],
    wanted: set[tuple[int, int]] | None,
    found: dict[tuple[int, int], Tensor],
) -> list[Any]:
    """All gradients of a node's outputs are in: run their hooks, keep those asked for."""
    hooks = node.hooks
    for index, grad in enumerate(grads):
        if grad is None:
            continue
        if hooks:
            for hook in tuple(hooks.get(index, {}).values()):
                grad = after_hook(hook, grad)
        grads[index] = grad
        kept = (node.retained or {}).get(index)
        if kept is not None and kept._node is node:  # and was not written since
            accumulate(kept, grad)
        if wanted is not None and (id(node), index) in wanted:
            found[id(node), index] = grad
    return grads


def _around(node: Node, grads: list[Any], wanted: set[tuple[int, int]] | None) -> Sequence[Any]:
    """`node.toward`, between the hooks of the node."""
    hooks = node.hooks or {}
    grads = list(through(hooks.get(BEFORE, {}), grads))
    given = node.toward(grads, wanted)
    if not hooks.get(AFTER):
        return given
    triples = zip(node.edges, node.avals, given, strict=True)
    fitted = [None if e is None or g is None else _fit(g, aval) for e, aval, g in triples]
    return through(hooks[AFTER], fitted, tuple(grads))


def _fit(grad: Tensor, aval: Aval) -> Tensor:
    """Undo broadcasting and promotion: the gradient in its operand's shape and dtype."""
    if not same(grad._array.shape, aval.shape):
        grad = grad.sum_to_size(aval.shape)
    dtype = grad.dtype
    if dtype is not aval.dtype:
        grad = grad.real if dtype.is_complex and not aval.dtype.is_complex else grad
        grad = grad.to(aval.dtype)
    return grad


def hooked(leaf: Tensor, grad: Tensor) -> Tensor:
    for hook in tuple((leaf._hooks or {}).values()):
        grad = after_hook(hook, grad)
    return grad


def accumulate(leaf: Tensor, grad: Tensor) -> None:
    before = None if leaf._grad is None else leaf.grad
    if type(grad._array) is Traced:
        grad._array.storage.tracer.writing(leaf)
    if before is None:
        tracked = mode.enabled and grad._requires_grad
        leaf._grad = in_rows(grad.clone(), leaf) if tracked else _own(grad)
    elif (mode.enabled and grad._requires_grad) or leaf._node is not None:
        leaf._grad = before + grad
    else:
        before.add_(grad)


def in_rows(grad: Tensor, of: Tensor) -> Tensor:
    """A gradient in row-major order, if what it is of lies so: a product gives that of w in
    x @ w.T by columns, and programs ask for `grad.view(-1)`. One that was expanded stays so."""
    if grad.is_contiguous() or 0 in [n for n in grad._layout if type(n) is int]:
        return grad
    return grad.contiguous() if of.is_contiguous() else grad


def _own(grad: Tensor) -> Tensor:
    """A gradient that nothing else can reach: `p.grad.mul_()` must not change another tensor's
    gradient. It lies in the whole where the given one does."""
    own = grad.detach().clone()
    if grad._shard is not None:
        own._shard = grad._shard
    return own
