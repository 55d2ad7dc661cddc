"""Functions that run around `forward`, and when its gradient passes. (table of hooks, function) ->
a handle to take it back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

from eager.autograd.function import Function
from eager.tensor import Tensor

BACKWARD: Final = "backward"  # what stands for `with_kwargs` in the table: when it is called
BACKWARD_PRE: Final = "backward_pre"
_handle_ids = itertools.count()


class RemovableHandle:
    """Takes a hook back: `handle.remove()`, or at the end of `with handle:`."""

    def __init__(self, hooks: dict[int, Any]) -> None:
        self.hooks = hooks
        self.id = next(_handle_ids)

    def remove(self) -> None:
        self.hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add_hook(
    hooks: dict[int, Any], hook: Callable[..., Any], prepend: bool, with_kwargs: Any
) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    entries = list(hooks.items())
    entries.insert(0 if prepend else len(entries), (handle.id, (hook, with_kwargs)))
    hooks.clear()
    hooks.update(entries)
    return handle


class _Watch(Function):
    """The tensors themselves; their gradients go through `told` on the way back."""

    @staticmethod
    def forward(ctx: Any, told: Callable[[Any], Any], *tensors: Tensor) -> Any:
        ctx.told = told
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, *ctx.told(grads)


class BackwardHooks:
    """The backward hooks of one call of a module: its arguments and results are watched, and when
    the gradients of both are there the hooks are called with them."""

    def __init__(self, module: Any, hooks: dict[int, Any]) -> None:
        self.module = module
        self.hooks = [hook for hook, kind in hooks.values() if kind is BACKWARD]
        self.before = [hook for hook, kind in hooks.values() if kind is BACKWARD_PRE]
        self.arguments = 0
        self.places: list[int] = []  # which of the arguments are watched
        self.grad_output: Any = ()

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.arguments = len(args)
        self.places = [
            i
            for i, x in enumerate(args)
            if isinstance(x, Tensor) and x.requires_grad and self.hooks
        ]
        if not self.places:
            return args
        watched = dict(
            zip(
                self.places,
                _Watch.apply(self.of_input, *(args[i] for i in self.places)),
                strict=True,
            )
        )
        return tuple(watched.get(i, x) for i, x in enumerate(args))

    def leave(self, result: Any) -> Any:
        results = result if isinstance(result, tuple) else (result,)
        places = [i for i, x in enumerate(results) if isinstance(x, Tensor) and x.requires_grad]
        if not places:
            return result

        def told(grads: Any) -> Any:
            return self.of_output(grads, places, len(results))

        watched = dict(zip(places, _Watch.apply(told, *(results[i] for i in places)), strict=True))
        results = tuple(watched.get(i, x) for i, x in enumerate(results))
        return results if isinstance(result, tuple) else results[0]

    def of_output(self, grads: Any, places: list[int], count: int) -> Any:
        given = _spread(grads, places, count)
        for hook in self.before:
            changed = hook(self.module, given)
            if changed is not None:
                given = changed if isinstance(changed, tuple) else (changed,)
        self.grad_output = given
        if not self.places:
            for hook in self.hooks:
                hook(self.module, (None,) * self.arguments, given)
        return [given[i] for i in places]

    def of_input(self, grads: Any) -> Any:
        given = _spread(grads, self.places, self.arguments)
        for hook in self.hooks:
            changed = hook(self.module, given, self.grad_output)
            if changed is not None:
                given = changed if isinstance(changed, tuple) else (changed,)
        return [given[i] for i in self.places]


def _spread(grads: Any, places: list[int], count: int) -> tuple[Any, ...]:
    """One gradient for each of `count` values, None for those without."""
    of = dict(zip(places, grads, strict=True))
    return tuple(of.get(i) for i in range(count))
