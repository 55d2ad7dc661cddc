"""Functions of the user's that see gradients on their way back. (gradient, hooks) -> the gradient
that goes on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

from eager.core.tensor import Tensor

# Of a node: what sees the gradients of its results, and what sees those of its operands as well.
BEFORE: Final = "before"
AFTER: Final = "after"


class RemovableHandle:
    """Handle of a registered hook: `remove()` takes the hook away. Also a context manager."""

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


def hook_node(node: Any, place: Any, hook: Callable[..., Any]) -> RemovableHandle:
    """Register a hook of one output of a node, or of all that goes through it."""
    if node.hooks is None:
        node.hooks = {}
    return RemovableHandle(node.hooks.setdefault(place, {}), hook)


def after_hook(hook: Callable[..., Any], grad: Tensor) -> Tensor:
    """The gradient after a hook: the hook's result, or `grad` if that is None."""
    changed = hook(grad)
    return grad if changed is None else _fits(hook, grad, changed)


def _fits(hook: Callable[..., Any], grad: Tensor, changed: Any) -> Tensor:
    """Raises TypeError for another kind of value, RuntimeError for a tensor of another type or
    size."""
    if not isinstance(changed, Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(changed).__name__}'")
    name = getattr(hook, "__name__", hook)
    if changed.dtype is not grad.dtype:
        types = f"was {grad.type()} got {changed.type()}"
        raise RuntimeError(f"hook '{name}' has changed the type of value ({types})")
    if changed.shape != grad.shape:
        raise RuntimeError(f"hook '{name}' has changed the size of value")
    return changed


def through(hooks: dict[int, Any], grads: Sequence[Any], *seen: Any) -> tuple[Any, ...]:
    """Gradients after hooks that get all gradients at once, and `seen`."""
    grads = tuple(grads)
    for hook in tuple(hooks.values()):
        changed = hook(grads, *seen)
        if changed is None:
            continue
        if not isinstance(changed, tuple):
            kind = type(changed).__name__
            raise TypeError(f"expected tuple, but hook returned '{kind}'")
        if len(changed) != len(grads):
            raise RuntimeError(
                f"hook '{getattr(hook, '__name__', hook)}' has returned an incorrect number of "
                f"values (got {len(changed)}, but expected {len(grads)})"
            )
        if any(old is None and new is not None for old, new in zip(grads, changed, strict=True)):
            raise RuntimeError("can't replace a None gradient with a non-None value")
        pairs = zip(grads, changed, strict=True)
        grads = tuple([None if new is None else _fits(hook, old, new) for old, new in pairs])
    return grads
