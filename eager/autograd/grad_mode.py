"""Modes of `eager.autograd`, as functions and contexts: they say whether operations are recorded.

a request -> the thread's mode (`eager.core.tape.mode`), which dispatch reads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from eager.core.tape import mode

__all__ = [
    "enable_grad", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
    "set_grad_enabled",
]  # fmt: skip


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
    before, mode.enabled = mode.enabled, enabled and not mode.inference
    return before


_GENERATOR = 0x20  # among the flags of a code object


def _decorate(context: Callable[[], Any], fn: Callable[..., Any]) -> Callable[..., Any]:
    if getattr(getattr(fn, "__code__", None), "co_flags", 0) & _GENERATOR:
        return _decorated_generator(context, fn)

    @functools.wraps(fn)
    def inside(*args: Any, **kwargs: Any) -> Any:
        with context():
            return fn(*args, **kwargs)

    return inside


def _decorated_generator(context: Callable[[], Any], fn: Callable[..., Any]) -> Any:
    """Each part of a generator runs in the context, and what lies between them does not."""

    @functools.wraps(fn)
    def inside(*args: Any, **kwargs: Any) -> Any:
        steps, answer = fn(*args, **kwargs), None
        error: BaseException | None = None
        try:
            while True:
                with context():
                    item = steps.send(answer) if error is None else steps.throw(error)
                answer = error = None
                try:
                    answer = yield item
                except GeneratorExit:
                    with context():
                        steps.close()
                    raise
                except BaseException as thrown:  # noqa: BLE001 - the generator gets it
                    error = thrown
        except StopIteration as end:
            return end.value

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


class recording(_GradMode):
    """Grad mode of transforms (`func.grad`, `jvp`): they record in inference mode, too."""

    def __enter__(self) -> None:
        self._before, mode.enabled = mode.enabled, True


class inference_mode:
    """Nothing inside is recorded, not under `enable_grad` either, and what is made inside are
    inference tensors (`is_inference()`): outside they raise RuntimeError where they are written or
    an operation that is recorded saves them. `inference_mode(False)` is normal mode."""

    def __new__(cls, mode: Any = True) -> Any:
        return cls()(mode) if callable(mode) else super().__new__(cls)

    def __init__(self, mode: Any = True) -> None:
        self._on = bool(mode)

    def __enter__(self) -> None:
        self._before = mode.enabled, mode.inference
        mode.enabled, mode.inference = not self._on, self._on

    def __exit__(self, *_: object) -> None:
        mode.enabled, mode.inference = self._before

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return _decorate(lambda: inference_mode(self._on), fn)
