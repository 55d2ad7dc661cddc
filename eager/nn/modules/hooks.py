"""Functions that run around `forward`, and when its gradient passes. (table of hooks, function) ->
a handle to take it back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

from eager.autograd.function import Function
from eager.notice import refuse
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


class Hooked:
    """A module whose calls run hooks: two tables of them, and the call that heeds them."""

    _forward_hooks: dict[int, Any]
    _forward_pre_hooks: dict[int, Any]
    forward: Callable[..., Any]

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for hook, with_kwargs in list(self._forward_pre_hooks.values()):
            if with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is not None:
                    args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        backward = BackwardHooks(self, self._forward_hooks)
        args = backward.enter(args)
        result = self.forward(*args, **kwargs)
        for hook, with_kwargs in list(self._forward_hooks.values()):
            if with_kwargs in (BACKWARD, BACKWARD_PRE):
                continue
            changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            if changed is not None:
                result = changed
        return backward.leave(result) if backward.hooks or backward.before else result

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` runs before `forward` and may return other arguments."""
        return add_hook(self._forward_pre_hooks, hook, prepend, with_kwargs)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """`hook(module, args, output)` runs after `forward` and may return another output."""
        refuse(
            "register_forward_hook", "catch the exception around the call", always_call=always_call
        )
        return add_hook(self._forward_hooks, hook, prepend, with_kwargs)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` runs when the gradients of the arguments are
        there, and may return others."""
        return add_hook(self._forward_hooks, hook, prepend, BACKWARD)

    register_backward_hook = register_full_backward_hook  # its older form

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_output)` runs before the gradient goes through the module, and may
        return another."""
        return add_hook(self._forward_hooks, hook, prepend, BACKWARD_PRE)
