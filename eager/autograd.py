"""The tape: what was computed, and the sweep back over it. tensors with a history -> gradients.

Each recorded call is a `Node` with a sequence number; a node's inputs were made before it, so taking nodes by falling number
visits every consumer before its producer. Gradients are computed by the derivatives of the op records in eager's own ops: with
`create_graph` they are on the tape themselves, and under capture they are nodes of the graph.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eager import dtype as dt
from eager.aval import Aval, scalar_aval
from eager.op import Op
from eager.tensor import Tensor, wrap
from eager.traced import Traced

Edge = tuple[Any, int] | None  # (Node, output index), (leaf Tensor, 0), or None: needs no gradient
_sequence = itertools.count()


class _Mode(threading.local):
    enabled = True
    inference = False


mode = _Mode()


def is_grad_enabled() -> bool:
    return mode.enabled


def is_inference_mode_enabled() -> bool:
    return mode.inference


class set_grad_enabled:
    """Sets whether operations are recorded: at once, and as a context manager until its end; also a decorator."""

    def __init__(self, mode: bool) -> None:
        self._wanted = bool(mode)
        self._before = _swap(self._wanted)

    def __enter__(self) -> None:
        _swap(self._wanted)

    def __exit__(self, *_: object) -> None:
        _swap(self._before)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        _swap(self._before)
        return _decorate(lambda: set_grad_enabled(self._wanted), fn)


def _swap(enabled: bool) -> bool:
    before, mode.enabled = mode.enabled, enabled
    return before


def _decorate(context: Callable[[], Any], fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with context():
            return fn(*args, **kwargs)

    return inside


class _GradMode:
    """A context manager and decorator (with or without parentheses) that sets grad mode."""

    _enabled = False

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        return super().__new__(cls) if orig_func is None else cls()(orig_func)

    def __enter__(self) -> None:
        self._before = _swap(self._enabled)

    def __exit__(self, *_: object) -> None:
        _swap(self._before)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return _decorate(type(self), fn)


class no_grad(_GradMode):
    """Nothing inside is recorded: `with no_grad():`, `@no_grad()` or `@no_grad`."""


class enable_grad(_GradMode):
    """Operations inside are recorded, also within `no_grad`."""

    _enabled = True


class inference_mode:
    """Like `no_grad` (tensors made inside may still be used on the tape later, which PyTorch forbids)."""

    def __new__(cls, mode: Any = True) -> Any:
        return cls()(mode) if callable(mode) else super().__new__(cls)

    def __init__(self, mode: Any = True) -> None:
        self._on = bool(mode)

    def __enter__(self) -> None:
        self._before = mode.enabled, mode.inference
        if self._on:
            mode.enabled, mode.inference = False, True

    def __exit__(self, *_: object) -> None:
        mode.enabled, mode.inference = self._before

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return _decorate(lambda: inference_mode(self._on), fn)


# ------------------------------------------------------------------------------- the tape
class Saved:
    """A tensor kept for the derivative, and the version it must still have then."""

    __slots__ = ("name", "tensor", "version")

    def __init__(self, tensor: Tensor, name: str) -> None:
        self.tensor = tensor
        self.version = tensor._storage.version
        self.name = name

    def own(self) -> None:
        """Keep a copy instead, with the same place on the tape."""
        kept = self.tensor.detach().clone()
        kept._node, kept._index, kept._requires_grad = (
            self.tensor._node,
            self.tensor._index,
            self.tensor._requires_grad,
        )
        self.tensor, self.version = kept, kept._storage.version

    def get(self) -> Tensor:
        found = self.tensor._storage.version
        if found != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{self.tensor.dtype} {list(self.tensor.shape)}], saved by {self.name}, is at version {found}; "
                f"expected version {self.version} instead. Hint: clone() it before the in-place operation."
            )
        return self.tensor


class Node:
    """One recorded call: where its inputs come from (`edges`), what they and its outputs look like."""

    __slots__ = ("avals", "edges", "hooks", "outs", "retained", "sequence")

    def __init__(self, operands: Sequence[Any], outs: tuple[Aval, ...]) -> None:
        self.edges: tuple[Edge, ...] = tuple(map(edge_of, operands))
        self.avals = tuple(x.aval if isinstance(x, Tensor) else scalar_aval(x) for x in operands)
        self.outs = outs
        self.sequence = next(_sequence)
        self.hooks: dict[int, dict[int, Any]] | None = None  # output index -> id -> hook
        self.retained: dict[int, Tensor] | None = (
            None  # output index -> tensor whose .grad is wanted
        )

    def name(self) -> str:
        return type(self).__name__

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        """Gradients of the outputs (None: no one asked) -> gradients of the operands."""
        raise NotImplementedError

    def release(self) -> None:
        """Forget what was saved."""

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        return tuple((None, 0) if e is None else e for e in self.edges)

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    def __lt__(self, other: Node) -> bool:  # heapq takes the newest first
        return self.sequence > other.sequence


class OpNode(Node):
    """A call of an op whose record has a derivative; `saved` holds exactly what that derivative names."""

    __slots__ = ("op", "saved")

    def __init__(self, op: Op, operands: Sequence[Any], attrs: Any, outs: Sequence[Tensor]) -> None:
        super().__init__(operands, tuple(t.aval for t in outs))
        self.op = op
        self.saved: dict[str, Any] | None = self._save(operands, attrs, outs)

    def _save(self, operands: Sequence[Any], attrs: Any, outs: Sequence[Tensor]) -> dict[str, Any]:
        wanted, name = self.op.saves, self.name()
        saved: dict[str, Any] = {key: attrs[key] for key in wanted if key in attrs}
        for i, key in enumerate(self.op.operands):
            uses = self.op.saves_for.get(key)
            if uses is not None and not any(self.edges[j] for j in uses):
                saved[key] = None
            elif key.lstrip("*") in wanted:
                kept = [Saved(x, name) if isinstance(x, Tensor) else x for x in operands[i:]]
                saved[key.lstrip("*")] = tuple(kept) if key[0] == "*" else kept[0]
        if "out" in wanted:  # without their tensors, which refer to this node
            saved["out"] = tuple(Saved(wrap(t._array, t._storage), name) for t in outs)
        return saved

    def name(self) -> str:
        return "".join(part.capitalize() for part in self.op.name.split("_")) + "Backward0"

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        if self.saved is None:
            raise RuntimeError(
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed). Specify retain_graph=True if you need to backward through the graph a second time."
            )
        op = self.op
        if op.vjp is None:
            raise RuntimeError(f"derivative for {op.name} is not implemented")
        given = {key: _unpack(value) for key, value in self.saved.items()}
        if "out" in op.saves:
            outs = tuple(self._attach(t, i) for i, t in enumerate(given["out"]))
            given["out"] = outs if op.n_outputs > 1 else outs[0]
        if "g" in op.saves:
            given["g"] = tuple(map(_zeros, grads, self.outs)) if op.n_outputs > 1 else grads[0]
        if "avals" in op.saves:
            given["avals"] = self.avals
        if "needs" in op.saves:
            given["needs"] = tuple(e is not None for e in self.edges)
        return op.vjp(**given)

    def _attach(self, bare: Tensor, index: int) -> Tensor:
        """A saved output as it was: on the tape, made by this node."""
        out = wrap(bare._array, bare._storage)
        if differentiable(out.dtype):
            out._node, out._index, out._requires_grad = self, index, True
        return out

    def release(self) -> None:
        self.saved = None


class CopySlicesNode(Node):
    """A write through a view, seen from the base: the view's part has the written value's gradient, the rest its own.

    Operands are (old base, written value); `chain` are the view steps from the base to the part."""

    __slots__ = ("apply", "chain")

    def __init__(
        self, base: Tensor, value: Tensor, chain: tuple[Any, ...], apply: Callable[..., Any]
    ) -> None:
        super().__init__((base, value), (base.aval,))
        self.chain = chain
        self.apply = apply

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        parts = [grads[0]]
        for op, attrs in self.chain:
            parts.append(self.apply(op, parts[-1], **attrs))
        rest = parts[-1] * 0
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
    """Before `storage` is overwritten: what the nodes recorded `since` saved of it becomes a copy of their own."""
    if node is None or node.sequence < since:
        return
    for value in (getattr(node, "saved", None) or {}).values():
        for saved in value if isinstance(value, tuple) else (value,):
            if isinstance(saved, Saved) and saved.tensor._storage is storage:
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


def _zeros(grad: Any, aval: Aval) -> Any:
    """The gradient of an output nobody used: zeros, or None for one that has no derivative."""
    return _full(0, aval) if grad is None and differentiable(aval.dtype) else grad


def _full(value: float, aval: Aval) -> Tensor:
    return Tensor._full(value, aval)


# ------------------------------------------------------------------------------ the sweep
def sweep(
    roots: Sequence[tuple[Edge, Tensor]],
    wanted: set[tuple[int, int]] | None,
    *,
    keep: bool,
    create: bool,
) -> tuple[dict[tuple[int, int], Tensor], dict[int, tuple[Tensor, Tensor]]]:
    """Run the tape backwards from `roots` (edge, gradient).

    Returns the gradients arriving at the `wanted` (id of node, output index) and, by id, at each leaf (leaf, gradient)."""
    pending: dict[Node, list[Any]] = {}
    leaves: dict[int, tuple[Tensor, Tensor]] = {}
    found: dict[tuple[int, int], Tensor] = {}
    heap: list[Node] = []

    def deliver(edge: Edge, grad: Tensor) -> None:
        if edge is None:
            return
        target, index = edge
        if isinstance(target, Tensor):
            seen = leaves.get(id(target))
            leaves[id(target)] = (target, grad if seen is None else seen[1] + grad)
            return
        slots = pending.get(target)
        if slots is None:
            slots = pending[target] = [None] * len(target.outs)
            heapq.heappush(heap, target)
        slots[index] = grad if slots[index] is None else slots[index] + grad

    with set_grad_enabled(create):
        for edge, grad in roots:
            deliver(edge, grad)
        while heap:
            node = heapq.heappop(heap)
            grads = _arrived(node, pending.pop(node), wanted, found)
            for edge, aval, grad in zip(node.edges, node.avals, node.vjp(grads), strict=True):
                if edge is not None and grad is not None:
                    deliver(edge, _fit(grad, aval))
            if not keep:
                node.release()
    return found, leaves


def _arrived(
    node: Node,
    grads: list[Any],
    wanted: set[tuple[int, int]] | None,
    found: dict[tuple[int, int], Tensor],
) -> list[Any]:
    """All gradients of a node's outputs are in: run their hooks, keep those asked for."""
    for index, grad in enumerate(grads):
        if grad is None:
            continue
        for hook in tuple((node.hooks or {}).get(index, {}).values()):
            changed = hook(grad)
            grad = grad if changed is None else changed
        grads[index] = grad
        if node.retained and index in node.retained:
            _accumulate(node.retained[index], grad)
        if wanted is not None and (id(node), index) in wanted:
            found[id(node), index] = grad
    return grads


def _fit(grad: Tensor, aval: Aval) -> Tensor:
    """Undo broadcasting and promotion: the gradient in its operand's shape and dtype."""
    if grad._array.shape != aval.shape:
        grad = grad.sum_to_size(aval.shape)
    dtype = grad.dtype
    if dtype is not aval.dtype:
        grad = grad.real if dtype.is_complex and not aval.dtype.is_complex else grad
        grad = grad.to(aval.dtype)
    return grad


def _hooked(leaf: Tensor, grad: Tensor) -> Tensor:
    for hook in tuple((leaf._hooks or {}).values()):
        changed = hook(grad)
        grad = grad if changed is None else changed
    return grad


def _accumulate(leaf: Tensor, grad: Tensor) -> None:
    before = leaf.grad
    if before is None:
        leaf._grad = grad if mode.enabled and grad._requires_grad else _own(grad)
    elif mode.enabled and grad._requires_grad:
        leaf._grad = before + grad
    else:
        before.add_(grad)


def _own(grad: Tensor) -> Tensor:
    """A gradient that nothing else can reach: `p.grad.mul_()` must not change another tensor's gradient."""
    return grad.detach().clone()


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of `tensors` into the `.grad` of the leaves (only of `inputs`, if given).

    `grad_tensors` are the gradients of `tensors` (default: 1, for one-element tensors only). Raises RuntimeError for a tensor
    without a history, a non-scalar without gradient, or a graph that was already freed."""
    tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    given = (
        (grad_tensors,) * len(tensors)
        if grad_tensors is None or isinstance(grad_tensors, Tensor)
        else grad_tensors
    )
    only = (
        None
        if inputs is None
        else {id(t) for t in ((inputs,) if isinstance(inputs, Tensor) else inputs)}
    )
    roots = [(_root_edge(t), _root_grad(t, g)) for t, g in zip(tensors, given, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    wanted = {_key(t) for t in _as_tuple(inputs) if t._node is not None}
    found, leaves = sweep(roots, wanted, keep=keep, create=create_graph)
    with set_grad_enabled(create_graph):
        for t in _as_tuple(inputs):
            if _key(t) in found:
                _accumulate(t, found[_key(t)])
        for leaf, grad in leaves.values():
            if only is None or id(leaf) in only:
                _accumulate(leaf, _hooked(leaf, grad))
                for hook in tuple((leaf._accumulate_hooks or {}).values()):
                    hook(leaf)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Gradients of `outputs` with respect to `inputs` (a tuple, one per input); `.grad` stays as it is.

    An input that `outputs` do not depend on is an error unless `allow_unused` (None) or `materialize_grads` (zeros)."""
    outs, ins = _as_tuple(outputs), _as_tuple(inputs)
    given = _as_tuple(grad_outputs) if grad_outputs is not None else (None,) * len(outs)
    for t in ins:
        if not t.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    roots = [(_root_edge(t), _root_grad(t, g)) for t, g in zip(outs, given, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    wanted = {_key(t) for t in ins}
    found, leaves = sweep(roots, wanted, keep=keep, create=create_graph)
    found.update({(id(leaf), 0): _hooked(leaf, g) for leaf, g in leaves.values()})
    results = tuple(found.get(_key(t)) for t in ins)
    if materialize_grads:
        return tuple(
            _full(0, t.aval) if r is None else r for t, r in zip(ins, results, strict=True)
        )
    if None in [None if r is None else 1 for r in results] and not allow_unused:
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is "
            "the desired behavior."
        )
    return results


def _as_tuple(x: Any) -> tuple[Any, ...]:
    if x is None:
        return ()
    return (x,) if isinstance(x, Tensor) else tuple(x)


def _key(t: Tensor) -> tuple[int, int]:
    return (id(t), 0) if t._node is None else (id(t._node), t._index)


def _root_edge(t: Tensor) -> Edge:
    if not t.requires_grad:
        raise RuntimeError(
            "element 0 of tensors does not require grad and does not have a grad_fn: nothing it was computed from has "
            "requires_grad=True, or it was computed under no_grad()"
        )
    return edge_of(t)


def _root_grad(t: Tensor, given: Tensor | None) -> Tensor:
    if given is None:
        if t.numel() != 1:
            raise RuntimeError(
                f"grad can be implicitly created only for scalar outputs, this one has shape {tuple(t.shape)}"
            )
        return _full(1, t.aval)
    if given.shape != t.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {given.shape} and output[0] has a shape of {t.shape}."
        )
    return given


# --------------------------------------------------------------------------------- hooks
class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook away. Also a context manager."""

    _ids = itertools.count()

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self.hooks = hooks
        self.id = next(RemovableHandle._ids)
        hooks[self.id] = hook

    def remove(self) -> None:
        self.hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(grad)` when this tensor's gradient is complete; what it returns, if not None, takes its place."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._node is None:
        self._hooks = {} if self._hooks is None else self._hooks
        return RemovableHandle(self._hooks, hook)
    if self._node.hooks is None:
        self._node.hooks = {}
    return RemovableHandle(self._node.hooks.setdefault(self._index, {}), hook)


def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Call `hook(tensor)` after a gradient was added to this leaf's `.grad`."""
    if self._node is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    self._accumulate_hooks = {} if self._accumulate_hooks is None else self._accumulate_hooks
    return RemovableHandle(self._accumulate_hooks, hook)


def retain_grad(self: Tensor) -> None:
    """Keep `.grad` of this tensor, which is not a leaf, in backward."""
    if not self.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self._node is not None:
        self._retains = True
        self._node.retained = self._node.retained or {}
        self._node.retained[self._index] = self


def _tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """`eager.autograd.backward` of this tensor."""
    backward(self, gradient, retain_graph, create_graph, inputs)


# ------------------------------------------------------------------------ custom functions
class FunctionCtx:
    """What `forward` and `backward` of a Function share: saved tensors and any attribute."""

    needs_input_grad: tuple[bool, ...] = ()
    _saved: tuple[Saved | None, ...] = ()
    _non_differentiable: tuple[Tensor, ...] = ()
    _dirty: tuple[Tensor, ...] = ()
    _materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        self._saved = tuple(None if t is None else Saved(t, type(self).__name__) for t in tensors)

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        return tuple(None if s is None else s.get() for s in self._saved)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        self._non_differentiable = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        self._dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self._materialize = value


class FunctionNode(Node):
    """A call of a user's Function."""

    __slots__ = ("ctx", "function", "positions")

    def __init__(
        self, function: Any, ctx: FunctionCtx, args: Sequence[Any], outs: Sequence[Tensor]
    ) -> None:
        self.positions = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        super().__init__([args[i] for i in self.positions], tuple(t.aval for t in outs))
        self.function = function
        self.ctx = ctx

    def name(self) -> str:
        return f"{self.function.__name__}Backward"

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        if self.ctx._materialize:
            grads = list(map(_zeros, grads, self.outs))
        results = self.function.backward(self.ctx, *grads)
        results = results if isinstance(results, tuple) else (results,)
        return [results[i] for i in self.positions]


class Function:
    """A differentiable function with a derivative of your own.

    Subclasses write `forward(ctx, *args)` and `backward(ctx, *grads)` (or `forward(*args)` with `setup_context(ctx, inputs,
    output)`), both static; call it as `MyFunction.apply(*args)`. `backward` returns one gradient per argument of `forward`."""

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a Function needs a static forward(ctx, ...)")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError(
            "a Function needs a static backward(ctx, ...) to be differentiated"
        )

    setup_context: Any = None

    @classmethod
    def apply(cls, *args: Any) -> Any:
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        with no_grad():
            if cls.setup_context is None:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        outs = result if isinstance(result, tuple) else (result,)
        if mode.enabled and any(ctx.needs_input_grad):
            outs = _record_function(cls, ctx, args, outs)
        return outs if isinstance(result, tuple) else outs[0]


def _record_function(
    cls: type, ctx: FunctionCtx, args: Sequence[Any], outs: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Put the call on the tape; an output that is an input gets a tensor of its own."""
    inputs = {id(a) for a in args if isinstance(a, Tensor)} - {id(a) for a in ctx._dirty}
    outs = tuple(t.detach() if isinstance(t, Tensor) and id(t) in inputs else t for t in outs)
    tensors = [t for t in outs if isinstance(t, Tensor)]
    node = FunctionNode(cls, ctx, args, tensors)
    excluded = {id(t) for t in ctx._non_differentiable}
    for index, t in enumerate(tensors):
        if id(t) not in excluded and differentiable(t.dtype):
            t._node, t._index, t._requires_grad = node, index, True
    return outs


def _install() -> None:
    for name, fn in (
        ("backward", _tensor_backward),
        ("register_hook", register_hook),
        ("register_post_accumulate_grad_hook", register_post_accumulate_grad_hook),
        ("retain_grad", retain_grad),
        ("retains_grad", property(lambda self: self._retains)),
    ):
        setattr(Tensor, name, fn)


_install()
_ = (Traced, Iterator)
