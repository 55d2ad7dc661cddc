"""Functions that run around `forward`, and when its gradient passes. (table of hooks, function) ->
a handle to take it back."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from eager.autograd.function import Function
from eager.core import gradient_hooks
from eager.core.tensor import Tensor

BACKWARD: Final = "backward"  # what stands for `with_kwargs` in the table: when it is called
BACKWARD_PRE: Final = "backward_pre"
ALWAYS: Final = "always"  # after `forward`, also when that raises
ALWAYS_WITH_KWARGS: Final = "always, with kwargs"


class RemovableHandle(gradient_hooks.RemovableHandle):
    """Takes a hook of a module back. It is written once more to be read by `@jit`.

    Its number is one of its table's, not of the process: a step that hooks a module and lets it go
    is the same program at each call."""

    def __init__(self, hooks: dict[int, Any], entry: Any) -> None:
        self.hooks, self.entry = hooks, entry
        self.id = self.free()
        hooks[self.id] = entry

    def free(self) -> int:
        """A number that no hook of the table has."""
        return max(self.hooks, default=-1) + 1

    def remove(self) -> None:
        if self.hooks.get(self.id) is self.entry:
            del self.hooks[self.id]

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add_hook(
    hooks: dict[int, Any], hook: Callable[..., Any], prepend: bool, with_kwargs: Any
) -> RemovableHandle:
    return _add(hooks, (hook, with_kwargs), prepend)


def _add(hooks: dict[int, Any], entry: Any, prepend: bool) -> RemovableHandle:
    handle = RemovableHandle(hooks, entry)
    if prepend:
        others = [item for item in hooks.items() if item[0] != handle.id]
        hooks.clear()
        hooks.update([(handle.id, entry), *others])
    return handle


def _entry(hook: Callable[..., Any], kind: Any) -> Any:
    """Value for a hook in a module's table: itself, as programs that read the table expect, if it
    is called in the plain way."""
    return (hook, kind) if kind else hook


def _pair(entry: Any) -> tuple[Any, Any]:
    return entry if type(entry) is tuple else (entry, False)


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

    def __init__(self, module: Any, hooks: Mapping[int, Any]) -> None:
        self.module = module
        pairs = [_pair(entry) for entry in hooks.values()]
        self.hooks = [hook for hook, kind in pairs if kind is BACKWARD]
        self.before = [hook for hook, kind in pairs if kind is BACKWARD_PRE]
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


class _EveryModule:
    """The hooks of all modules. While there are any, `Module.__call__` is the call that heeds
    hooks; else a call does not ask for them."""

    def __init__(self) -> None:
        self.forward: dict[int, Any] = {}
        self.forward_pre: dict[int, Any] = {}
        self.module: Any = None  # the class, which puts itself here with its plain call
        self.plain: Any = None

    def add(self, hooks: dict[int, Any], hook: Any, kind: Any) -> RemovableHandle:
        handle = _GlobalHandle(hooks, _entry(hook, kind))
        self.choose_call()
        return handle

    def choose_call(self) -> None:
        any_hooks = self.forward or self.forward_pre
        self.module.__call__ = self.module._call_with_hooks if any_hooks else self.plain


EVERY_MODULE: Final = _EveryModule()


class _GlobalHandle(RemovableHandle):
    def free(self) -> int:
        return min(self.hooks, default=0) - 1  # a call joins the table with that of the module

    def remove(self) -> None:
        super().remove()
        EVERY_MODULE.choose_call()


class _Call:
    """One call of a module with hooks: what it is given, and the result so far."""

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.module, self.args, self.kwargs = module, args, kwargs
        self.result: Any = None
        self.called: set[int] = set()

    def run(self, after: Mapping[int, Any]) -> Any:
        module = self.module
        before = {**EVERY_MODULE.forward_pre, **module._forward_pre_hooks}
        for entry in before.values():
            hook, with_kwargs = _pair(entry)
            if with_kwargs:
                changed = hook(module, self.args, self.kwargs)
                if changed is not None:
                    self.args, self.kwargs = changed
            else:
                changed = hook(module, self.args)
                if changed is not None:
                    self.args = changed if isinstance(changed, tuple) else (changed,)
        backward = BackwardHooks(module, after)
        self.args = backward.enter(self.args)
        self.result = module.forward(*self.args, **self.kwargs)
        for key, entry in after.items():
            hook, kind = _pair(entry)
            if kind not in (BACKWARD, BACKWARD_PRE):
                self.called.add(key)
                self.tell(hook, kind)
        return backward.leave(self.result) if backward.hooks or backward.before else self.result

    def tell(self, hook: Any, kind: Any) -> None:
        if kind in (True, ALWAYS_WITH_KWARGS):
            changed = hook(self.module, self.args, self.kwargs, self.result)
        else:
            changed = hook(self.module, self.args, self.result)
        if changed is not None:
            self.result = changed

    def run_rest(self, after: Mapping[int, Any]) -> None:
        """Something raised: the hooks that are always called and were not."""
        for key, entry in after.items():
            hook, kind = _pair(entry)
            if kind in (ALWAYS, ALWAYS_WITH_KWARGS) and key not in self.called:
                try:
                    self.tell(hook, kind)
                except Exception as error:  # noqa: BLE001 - the first error is what is raised
                    warnings.warn(
                        "module forward hook with ``always_call=True`` raised an exception that "
                        f"was silenced as another error was raised in forward: {error}",
                        stacklevel=2,
                    )


def _kind(with_kwargs: bool, always_call: bool) -> Any:
    return (ALWAYS_WITH_KWARGS if with_kwargs else ALWAYS) if always_call else with_kwargs


class Hooked:
    """A module whose calls run hooks: two tables of them, and the call that heeds them."""

    _forward_hooks: dict[int, Any]
    _forward_pre_hooks: dict[int, Any]
    forward: Callable[..., Any]

    def _call_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        after = {**EVERY_MODULE.forward, **self._forward_hooks}
        call = _Call(self, args, kwargs)
        if not any(_pair(x)[1] in (ALWAYS, ALWAYS_WITH_KWARGS) for x in after.values()):
            return call.run(after)
        try:
            return call.run(after)
        except Exception:
            call.run_rest(after)
            raise

    @property
    def _backward_hooks(self) -> Mapping[int, Any]:
        return self._hooks_of(BACKWARD)

    @property
    def _backward_pre_hooks(self) -> Mapping[int, Any]:
        return self._hooks_of(BACKWARD_PRE)

    def _hooks_of(self, kind: str) -> Mapping[int, Any]:
        """The hooks of a kind, to look at: programs ask whether a module has some."""
        pairs = ((key, _pair(entry)) for key, entry in self._forward_hooks.items())
        return MappingProxyType({key: hook for key, (hook, its) in pairs if its is kind})

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """`hook(module, args)` runs before `forward` and may return other arguments."""
        return _add(self._forward_pre_hooks, _entry(hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """`hook(module, args, output)` runs after `forward` and may return another output;
        `always_call`: also when something raises, with what there is of the output (or None)."""
        kind = _kind(with_kwargs, always_call)
        return _add(self._forward_hooks, _entry(hook, kind), prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_input, grad_output)` runs when the gradients of the arguments are
        there, and may return others."""
        return _add(self._forward_hooks, (hook, BACKWARD), prepend)

    register_backward_hook = register_full_backward_hook  # its older form

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, grad_output)` runs before the gradient goes through the module, and may
        return another."""
        return _add(self._forward_hooks, (hook, BACKWARD_PRE), prepend)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, args)` runs before `forward` of every module."""
    return EVERY_MODULE.add(EVERY_MODULE.forward_pre, hook, False)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`hook(module, args, output)` runs after `forward` of every module, before its own hooks."""
    return EVERY_MODULE.add(EVERY_MODULE.forward, hook, _kind(with_kwargs, always_call))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` runs for every module: see
    `Module.register_full_backward_hook`."""
    return EVERY_MODULE.add(EVERY_MODULE.forward, hook, BACKWARD)


register_module_backward_hook = register_module_full_backward_hook  # its older form


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_output)` runs for every module: see
    `Module.register_full_backward_pre_hook`."""
    return EVERY_MODULE.add(EVERY_MODULE.forward, hook, BACKWARD_PRE)
