"""Automatic differentiation as users call it: backward, grad, hooks; modes and
`Function` from their files.

tensors on the tape (`eager/core/tape.py`) -> `.grad`, or gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from eager.autograd.anomaly import detect_anomaly as detect_anomaly
from eager.autograd.anomaly import set_detect_anomaly as set_detect_anomaly
from eager.autograd.function import Function as Function
from eager.autograd.function import FunctionCtx as FunctionCtx
from eager.autograd.function import FunctionNode as FunctionNode
from eager.autograd.grad_mode import enable_grad as enable_grad
from eager.autograd.grad_mode import inference_mode as inference_mode
from eager.autograd.grad_mode import is_grad_enabled as is_grad_enabled
from eager.autograd.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from eager.autograd.grad_mode import no_grad as no_grad
from eager.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from eager.autograd.vmapped import vmap
from eager.base.compat_warnings import ignore, warn
from eager.base.tracebacks import trim
from eager.core.dispatch import innermost
from eager.core.gradient_hooks import RemovableHandle, hook_node
from eager.core.tape import Edge, accumulate, edge_of, full, hooked, in_rows, sweep
from eager.core.tape import Node as Node
from eager.core.tape import Saved as Saved
from eager.core.tape import mode as mode
from eager.core.tensor import Tensor, retain


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
    *,
    grad_variables: Any = None,
) -> None:
    """Accumulate the gradients of `tensors` into the `.grad` of the leaves (only of `inputs`, if
    given).

    `grad_tensors` are the gradients of `tensors` (default: 1, for one-element tensors only).
    Raises RuntimeError for a tensor without a history, a non-scalar without gradient, or a graph
    that was already freed."""
    tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    if grad_variables is not None:
        warn("backward: grad_variables is the old name of grad_tensors", FutureWarning)
        grad_tensors = grad_variables
    if mode.levels or innermost(tensors) is not None:
        raise RuntimeError(
            "backward() called inside a functorch transform (vmap). This is not supported, please "
            "use func.grad or func.vjp instead, or call backward() outside of vmap"
        )
    ins = None if inputs is None else _inputs(inputs, "backward")
    roots = _roots(tensors, grad_tensors)
    keep = create_graph if retain_graph is None else retain_graph
    wanted = None if ins is None else {_key(t) for t in ins}
    for t in ins or ():
        retain(t)
    with _backward():
        _, leaves = sweep(roots, wanted, keep=keep, create=create_graph)
        with set_grad_enabled(create_graph):
            for leaf, grad in leaves.values():
                accumulate(leaf, hooked(leaf, grad))
                for hook in tuple((leaf._accumulate_hooks or {}).values()):
                    if (value := hook(leaf)) is not None and value is not leaf:
                        kind = RuntimeError if isinstance(value, Tensor) else TypeError
                        raise kind("Tensor post accumulate grad hooks should return None.")
            if mode.at_end:
                _end()


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
    it is (`only_inputs` has no other value, and PyTorch ignores it as well).
    `is_grads_batched`: `grad_outputs` have a first dimension over which it is mapped (`vmap`).

    An input that `outputs` do not depend on is an error unless `allow_unused` (None) or
    `materialize_grads` (zeros)."""
    if not only_inputs:
        warn("grad: only_inputs=False is deprecated and has no effect", FutureWarning)
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    outs, ins = _as_tuple(outputs), _inputs(inputs, "grad")
    if is_grads_batched:
        each: list[Any] = []

        def of_one(*given: Tensor) -> tuple[Tensor, ...]:
            each[:] = grad(outs, ins, given, retain_graph, create_graph, allow_unused=allow_unused,
                            materialize_grads=materialize_grads)  # fmt: skip
            return tuple(g for g in each if g is not None)

        rows = iter(vmap(of_one)(*_as_tuple(grad_outputs)))
        return tuple([None if g is None else next(rows) for g in each])
    roots = _roots(outs, grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    wanted = {_key(t) for t in ins}
    with _backward():
        found, leaves = sweep(roots, wanted, keep=keep, create=create_graph)
        found.update({(id(leaf), 0): hooked(leaf, g) for leaf, g in leaves.values()})
        if mode.at_end:
            _end()
    pairs = [(found.get(_key(t)), t) for t in ins]
    results = tuple([None if g is None else in_rows(g, t) for g, t in pairs])
    if materialize_grads:
        return tuple(full(0, t.aval) if r is None else r for t, r in zip(ins, results, strict=True))
    unused = [i for i, r in enumerate(results) if r is None]
    if unused and not allow_unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {unused[0]} (of shape "
            f"{tuple(ins[unused[0]].shape)}) appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior: its gradient is None then"
        )
    return results


@contextmanager
def _backward() -> Iterator[None]:
    """Inside, a backward runs: who waits for its end is not told if it raises, nor at the end of
    another one, which may run inside."""
    outer, mode.at_end = mode.at_end, ()
    try:
        yield
    finally:
        mode.at_end = outer


def _end() -> None:
    """Tell those who wait for the end of a backward."""
    waiting, mode.at_end = mode.at_end, ()
    for tell in waiting:
        tell()


def _as_tuple(x: Any) -> tuple[Any, ...]:
    if x is None:
        return ()
    return (x,) if isinstance(x, Tensor) else tuple(x)


def _inputs(inputs: Any, name: str) -> tuple[Tensor, ...]:
    """The tensors that gradients are asked of, as a tuple. RuntimeError for none, or for one that
    has no gradient."""
    ins = _as_tuple(inputs)
    if not ins:
        raise RuntimeError(f"`inputs` argument to `{name}()` cannot be empty.")
    for t in ins:
        if not isinstance(t, Tensor):
            raise RuntimeError(  # noqa: TRY004 - as PyTorch
                f"all inputs have to be Tensors, but got {type(t).__name__}"
            )
        if not t.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    return ins


def _roots(outs: tuple[Tensor, ...], grads: Any) -> list[tuple[Edge, Tensor]]:
    """Roots of a backward pass: edges of the outputs, each with its gradient. RuntimeError if the
    number of gradients is another."""
    given = (None,) * len(outs) if grads is None else _as_tuple(grads)
    if len(outs) != len(given):
        raise RuntimeError(f"got {len(outs)} tensors and {len(given)} gradients")
    return [(_root_edge(t), _root_grad(t, g)) for t, g in zip(outs, given, strict=True)]


def _key(t: Tensor) -> tuple[int, int]:
    return (id(t), 0) if t._node is None else (id(t._node), t._index)


def _root_edge(t: Tensor) -> Edge:
    if not t.requires_grad:
        raise RuntimeError(
            "element 0 of tensors does not require grad and does not have a grad_fn: nothing it "
            "was computed from has requires_grad=True, or it was computed under no_grad() or "
            "from detach(), item() or numpy()"
        )
    return edge_of(t)


def _root_grad(t: Tensor, given: Tensor | None) -> Tensor:
    if given is None:
        if t.numel() != 1:
            raise RuntimeError(
                "grad can be implicitly created only for scalar outputs, this one has shape "
                f"{tuple(t.shape)}: use y.sum().backward(), or y.mean(), or pass gradient="
            )
        if t.dtype.is_complex:
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {t.dtype}"
            )
        return full(1, t.aval)
    if not isinstance(given, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(given).__name__}")
    if given.shape != t.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {given.shape} and output[0] has a "
            f"shape of {t.shape}."
        )
    if given.dtype.is_complex != t.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. "
            f"Mismatch in dtype: grad_output[0] has a dtype of {given.dtype} and output[0] has a "
            f"dtype of {t.dtype}."
        )
    return given


# --------------------------------------------------------------------------------- hooks
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call `hook(grad)` when this tensor's gradient is complete; what it returns, if not None,
    takes its place."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._node is None:
        return RemovableHandle(_hooks_of_leaf(self)[0], hook)
    return hook_node(self._node, self._index, hook)


def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Call `hook(tensor)` after a gradient was added to this leaf's `.grad`."""
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
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
    retain(self)


def _grad_dtype(self: Tensor) -> Any:
    """The dtype of the gradients of a leaf: its own, and no other."""
    if self._node is not None:
        raise RuntimeError("grad_dtype can only be accessed on leaf tensors")
    return self.dtype


def _set_grad_dtype(self: Tensor, value: Any) -> None:
    if value is not _grad_dtype(self):
        raise NotImplementedError(
            f"grad_dtype: gradients of a tensor of {self.dtype} have that dtype, and not {value}; "
            "keep a converted copy in a hook (register_post_accumulate_grad_hook)"
        )


def _tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """`eager.autograd.backward` of this tensor."""
    try:
        backward(self, gradient, retain_graph, create_graph, inputs)
    except Exception as error:
        trim(error)
        raise


class _AnyTensor(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_AnyTensor):
    """The old name of a tensor: a new leaf, which shares the memory of `data`."""

    def __new__(  # type: ignore[misc]
        cls, data: Tensor | None = None, requires_grad: bool = False, volatile: Any = None
    ) -> Tensor:
        ignore("Variable", volatile=volatile)
        if data is not None and not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        leaf = (Tensor() if data is None else data).detach()
        return leaf.requires_grad_() if requires_grad else leaf


def _install() -> None:
    for name, fn in (
        ("backward", _tensor_backward),
        ("register_hook", register_hook),
        ("register_post_accumulate_grad_hook", register_post_accumulate_grad_hook),
        ("retain_grad", retain_grad),
        ("grad_dtype", property(_grad_dtype, _set_grad_dtype)),
        ("retains_grad", property(lambda self: self._retains)),
    ):
        setattr(Tensor, name, fn)


_install()
