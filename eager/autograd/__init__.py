"""Automatic differentiation as users call it: grad modes, backward, grad, hooks, Function.

tensors on the tape (`eager/tape.py`) -> `.grad`, or gradients.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from eager.autograd.anomaly import detect_anomaly as detect_anomaly
from eager.autograd.anomaly import set_detect_anomaly as set_detect_anomaly
from eager.notice import warn_once
from eager.tape import Edge, accumulate, differentiable, edge_of, full, hooked, sweep
from eager.tape import Node as Node
from eager.tape import Saved as Saved
from eager.tape import mode as mode
from eager.tape import zeros_for as zeros_for
from eager.tensor import Tensor
from eager.traced import Traced


def is_grad_enabled() -> bool:
    return mode.enabled


def is_inference_mode_enabled() -> bool:
    return mode.inference


class set_grad_enabled:
    """Sets whether operations are recorded: at once, and as a context manager until its end; also
    a decorator."""

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
    """Like `no_grad` (tensors made inside may still be used on the tape later, which PyTorch
    forbids)."""

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


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Accumulate the gradients of `tensors` into the `.grad` of the leaves (only of `inputs`, if
    given).

    `grad_tensors` are the gradients of `tensors` (default: 1, for one-element tensors only).
    Raises RuntimeError for a tensor without a history, a non-scalar without gradient, or a graph
    that was already freed."""
    tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    given = (
        (grad_tensors,) * len(tensors)
        if grad_tensors is None or isinstance(grad_tensors, Tensor)
        else grad_tensors
    )
    roots = [(_root_edge(t), _root_grad(t, g)) for t, g in zip(tensors, given, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    wanted = None if inputs is None else {_key(t) for t in _as_tuple(inputs)}
    found, leaves = sweep(roots, wanted, keep=keep, create=create_graph)
    with set_grad_enabled(create_graph):
        for t in _as_tuple(inputs):
            if _key(t) in found:
                accumulate(t, found[_key(t)])
        for leaf, grad in leaves.values():
            accumulate(leaf, hooked(leaf, grad))
            for hook in tuple((leaf._accumulate_hooks or {}).values()):
                hook(leaf)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Gradients of `outputs` with respect to `inputs` (a tuple, one per input); `.grad` stays as
    it is (`only_inputs` has no other value, and PyTorch ignores it as well). Batches of gradients
    are refused.

    An input that `outputs` do not depend on is an error unless `allow_unused` (None) or
    `materialize_grads` (zeros)."""
    if not only_inputs:
        warn_once("grad only_inputs", "grad: only_inputs=False is deprecated and has no effect")
    if is_grads_batched:
        raise NotImplementedError(
            "grad(is_grads_batched=True) is not there: call it once for each of the grad_outputs"
        )
    outs, ins = _as_tuple(outputs), _as_tuple(inputs)
    given = _as_tuple(grad_outputs) if grad_outputs is not None else (None,) * len(outs)
    for t in ins:
        if not t.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    roots = [(_root_edge(t), _root_grad(t, g)) for t, g in zip(outs, given, strict=True)]
    keep = create_graph if retain_graph is None else retain_graph
    wanted = {_key(t) for t in ins}
    found, leaves = sweep(roots, wanted, keep=keep, create=create_graph)
    found.update({(id(leaf), 0): hooked(leaf, g) for leaf, g in leaves.values()})
    results = tuple(found.get(_key(t)) for t in ins)
    if materialize_grads:
        return tuple(full(0, t.aval) if r is None else r for t, r in zip(ins, results, strict=True))
    if None in [None if r is None else 1 for r in results] and not allow_unused:
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if this is "
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
            "element 0 of tensors does not require grad and does not have a grad_fn: nothing it "
            "was computed from has "
            "requires_grad=True, or it was computed under no_grad()"
        )
    return edge_of(t)


def _root_grad(t: Tensor, given: Tensor | None) -> Tensor:
    if given is None:
        if t.numel() != 1:
            raise RuntimeError(
                "grad can be implicitly created only for scalar outputs, this one has shape "
                f"{tuple(t.shape)}"
            )
        return full(1, t.aval)
    if given.shape != t.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {given.shape} and output[0] has a "
            f"shape of {t.shape}."
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
    """Call `hook(grad)` when this tensor's gradient is complete; what it returns, if not None,
    takes its place."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._node is None:
        return RemovableHandle(_hooks_of_leaf(self)[0], hook)
    if self._node.hooks is None:
        self._node.hooks = {}
    return RemovableHandle(self._node.hooks.setdefault(self._index, {}), hook)


def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Call `hook(tensor)` after a gradient was added to this leaf's `.grad`."""
    if self._node is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return RemovableHandle(_hooks_of_leaf(self)[1], hook)


def _hooks_of_leaf(leaf: Tensor) -> tuple[dict[int, Any], dict[int, Any]]:
    """Both tables of hooks. They are made together: `_hooks is None` says that there are none."""
    if leaf._hooks is None or leaf._accumulate_hooks is None:
        leaf._hooks, leaf._accumulate_hooks = {}, {}
    return leaf._hooks, leaf._accumulate_hooks


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
            grads = list(map(zeros_for, grads, self.outs))
        results = self.function.backward(self.ctx, *grads)
        results = results if isinstance(results, tuple) else (results,)
        return [results[i] for i in self.positions]


class Function:
    """A differentiable function with a derivative of your own.

    Subclasses write `forward(ctx, *args)` and `backward(ctx, *grads)` (or `forward(*args)` with
    `setup_context(ctx, inputs, output)`), both static; call it as `MyFunction.apply(*args)`.
    `backward` returns one gradient per argument of `forward`."""

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
    traced = next((t._array for t in tensors if type(t._array) is Traced), None)
    if traced is not None:
        traced.storage.tracer.record_function(node, [args[i] for i in node.positions], tensors)
    return outs


def Variable(data: Tensor, requires_grad: bool = False) -> Tensor:
    """The old name of a tensor that may require a gradient."""
    return data.requires_grad_() if requires_grad else data


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
