"""`eager.autograd.graph`: the tape as users look at it, and hooks on what it saves. tensors ->
their places on it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from eager.base.compat_warnings import ignore
from eager.core.dispatch import tracing
from eager.core.tape import Node as Node
from eager.core.tape import mode
from eager.core.tensor import Tensor, bare
from eager.core.traced import UnknownValue

__all__ = [
    "GradientEdge", "Node", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip


class GradientEdge(NamedTuple):
    """An output of a node: where a gradient arrives."""

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge at which the gradient of `tensor` arrives. RuntimeError if it has none."""
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    node = tensor.grad_fn
    return GradientEdge(tensor if node is None else node, tensor.output_nr)


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Say that the memory of a tensor was written by something that the tape does not see."""
    for x in (tensor,) if isinstance(tensor, Tensor) else tensor:
        x._storage.version += 1


def at_end_of_backward(fn: Callable[[], Any]) -> None:
    """Call `fn` once, when the backward that runs has added all gradients."""
    mode.at_end = (*mode.at_end, fn)


def remade(tensor: Tensor, again: Callable[[], Tensor]) -> Tensor:
    """The tensor, whose memory no derivative keeps: what one needs of it is read from `again()`,
    which gives the same values in new memory."""
    out = bare(tensor)
    out._storage = tensor._storage.like()
    out._storage.again = again
    return out


class _Together:
    """The gradients of several tensors, as they come in one backward, for one hook."""

    def __init__(self, tensors: Sequence[Tensor], hook: Callable[..., Any], *, first: bool) -> None:
        self.hook, self.any = hook, first
        self.grads: list[Any] | None = None
        self.handles = [
            t.register_hook(functools.partial(self.take, i)) for i, t in enumerate(tensors)
        ]

    def take(self, place: int, grad: Tensor) -> None:
        if tracing():
            raise UnknownValue("register_multi_grad_hook waits for the end of the backward")
        first = self.grads is None or self.end not in mode.at_end  # one that raised left them
        if first:
            self.grads = [None] * len(self.handles)
            at_end_of_backward(self.end)
        assert self.grads is not None
        self.grads[place] = grad
        if first and self.any:
            self.hook(grad)

    def end(self) -> None:
        grads, self.grads = self.grads, None
        if not self.any:
            self.hook(grads)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Together:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> Any:
    """Call `fn` once in each backward that reaches one of the tensors: with the list of their
    gradients (None for those that it does not reach), or with the first that is there
    (`mode="any"`)."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    return _Together(tuple(tensors), fn, first=mode == "any")


class saved_tensors_hooks:
    """Context whose hooks pack what is saved for derivatives inside: the result of
    `pack_hook(tensor)` is saved, and `unpack_hook` makes a tensor of it again.

    A compiled function decides itself what it keeps: hooks around it see what runs plainly."""

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self._hooks: Any = (pack_hook, unpack_hook)
        self._before: list[Any] = []

    def __enter__(self) -> None:
        if tracing():
            raise UnknownValue("saved_tensors_hooks looks at each tensor that is saved")
        if mode.no_saved_hooks is not None:
            raise RuntimeError(mode.no_saved_hooks)
        self._before.append(mode.saved_hooks)
        mode.saved_hooks = self._hooks

    def __exit__(self, *_: object) -> None:
        if tracing():
            raise UnknownValue("saved_tensors_hooks ends: what is saved behind it is not looked at")
        mode.saved_hooks = self._before.pop()


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Context in which hooks on what is saved for derivatives are a RuntimeError with this message,
    those of a context around it too."""
    if tracing():
        raise UnknownValue("disable_saved_tensors_hooks is a state of the thread")
    if mode.saved_hooks is not None:
        raise RuntimeError(error_message)
    before, mode.no_saved_hooks = mode.no_saved_hooks, error_message
    try:
        yield
    finally:
        mode.no_saved_hooks = before


class save_on_cpu(saved_tensors_hooks):
    """Context in which tensors saved for derivatives are stored in the memory of the CPU."""

    def __init__(self, pin_memory: bool = False) -> None:
        ignore("save_on_cpu", pin_memory=pin_memory)
        super().__init__(lambda x: (x.device, x.cpu()), lambda kept: kept[1].to(kept[0]))
