"""Beside capture: a user's own operation, opaque to the compiler. function -> Op of the registry.

    @custom_op("mylib::clip")
    def clip(x, bound): ...                       # real tensors in, a tensor (or tuple) out
    @clip.register_fake
    def _(x, bound): return eager.empty_like(x)   # shape and dtype only (optional)
    clip.register_autograd(backward, setup_context=setup)

Compiled code calls the function back between its kernels. It must not write its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from eager.aval import Aval
from eager.dataclass import dataclass
from eager.dispatch import apply, current_tracer, untraced
from eager.op import Attrs, Op
from eager.tensor import Tensor, wrap
from eager.traced import fresh
from jitcap.show import example_array
from jitcap.tracer import Tracer

Function = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class _Custom(Op):
    """An op whose kernel and shape rule are Python functions on tensors."""

    user: CustomOp = field(kw_only=True)
    kind: ClassVar[str] = "extern"
    analytic: ClassVar[bool] = False
    raises: ClassVar[bool] = True

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        return self.user.shapes(avals)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        with untraced():
            results = _many(self.user.fn(*(_as_tensor(a) for a in arrays)))
        return tuple(np.ascontiguousarray(r.detach()._array) for r in results)


class CustomOp:
    """What `custom_op` makes: call it like the function."""

    def __init__(self, name: str, fn: Function, outputs: int) -> None:
        self.fn = fn
        self._fake: Function | None = None
        self._backward: Function | None = None
        self._setup: Function | None = None
        self.__doc__ = fn.__doc__
        clean = name.replace("::", "_").replace(".", "_")
        self.op = _Custom(clean, ("*xs",), vjp=self._vjp, n_outputs=outputs, user=self)

    def __call__(self, *args: Any) -> Any:
        """Tensors and numbers, by position."""
        return apply(self.op, *args)

    def register_fake(self, fn: Function) -> Function:
        """`fn` gives tensors of the result's shape and dtype without looking at values."""
        self._fake = fn
        return fn

    def register_autograd(
        self, backward: Function, *, setup_context: Function | None = None
    ) -> None:
        """`backward(ctx, *grads)` gives one gradient (or None) per argument; what it needs is kept
        by `setup_context(ctx, inputs, output)`, both written in eager's operations."""
        self._backward, self._setup = backward, setup_context

    def shapes(self, avals: tuple[Aval, ...]) -> tuple[Aval, ...]:
        """The avals of the results: by the fake, else by running the function on zeros and ones."""
        if self._fake is None:
            rng = np.random.default_rng(0)
            given = [_as_tensor(example_array(a, rng)) for a in avals]
            with untraced():
                return tuple(r.aval for r in _many(self.fn(*given)))
        tracer = Tracer(name="fake")
        stand_ins: list[Tensor] = [wrap(fresh(tracer, tracer.input("x", a), a)) for a in avals]
        token = current_tracer.set(tracer)
        try:
            return tuple(r.aval for r in _many(self._fake(*stand_ins)))
        finally:
            current_tracer.reset(token)

    def _vjp(self, g: Any, xs: tuple[Any, ...], out: Any) -> tuple[Any, ...]:
        if self._backward is None:
            raise RuntimeError(f"{self.op.name} has no derivative: call register_autograd")
        context = SimpleNamespace(needs_input_grad=tuple(isinstance(x, Tensor) for x in xs))
        context.save_for_backward = lambda *kept: setattr(context, "saved_tensors", kept)
        if self._setup is not None:
            self._setup(context, xs, out)
        grads = self._backward(context, *(g if isinstance(g, tuple) else (g,)))
        return grads if isinstance(grads, tuple) else (grads,)


def custom_op(name: str, fn: Function | None = None, *, outputs: int = 1) -> Any:
    """Make a Python function of tensors an operation that compiled code calls as it is.

    `name` is "library::name". The function takes tensors and numbers by position and returns a new
    tensor (`outputs` > 1: a tuple of that many). Raises ValueError if the name is taken.
    """
    if fn is None:
        return lambda f: CustomOp(name, f, outputs)
    return CustomOp(name, fn, outputs)


def _many(result: Any) -> tuple[Tensor, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def _as_tensor(value: Any) -> Any:
    return wrap(value) if isinstance(value, np.ndarray) else value
