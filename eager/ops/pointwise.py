"""Pointwise ops over one or more elements: body, derivative, function and method in one entry each. tensors -> tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eager.dispatch import apply
from eager.ops.kinds import Cast, Copy, Pointwise
from eager.registry import public
from eager.scalar import VOCABULARY
from eager.tensor import Tensor

UnaryFn = Callable[[Tensor], Tensor]
Body = Callable[..., Any]
Vjp = Callable[..., tuple[Any, ...]]


def _ufunc(name: str) -> Any:
    """NumPy's ufunc of an intrinsic, for bodies that are just that intrinsic."""
    found = VOCABULARY[name].numpy if name in VOCABULARY else None
    return found if isinstance(found, np.ufunc) else None


def unary(
    name: str,
    body: Body,
    vjp: Vjp | None = None,
    *,
    result: str = "promote",
    ufunc: Any = None,
    doc: str = "",
    alias: tuple[str, ...] = (),
    torch: str | None = None,
    samples: Any = None,
    inplace: bool = True,
    method: bool = True,
) -> UnaryFn:
    """Register a pointwise op of one operand and its public function `name(input)`."""
    op = Pointwise(name, ("x",), vjp, body=body, result=result, ufunc=ufunc)

    def fn(input: Tensor) -> Tensor:
        return apply(op, input)  # type: ignore[no-any-return]

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = doc or f"Elementwise {name}."
    return public(name, torch=torch, samples=samples, method=method, inplace=inplace, alias=alias)(fn)


def intrinsic(name: str, vjp: Vjp | None = None, *, scalar: str | None = None, **kwargs: Any) -> UnaryFn:
    """A unary op whose body is the intrinsic `scalar` (by default of the same name)."""
    which = scalar or name
    return unary(name, lambda m, x: getattr(m, which)(x), vjp, ufunc=_ufunc(which), **kwargs)


# ------------------------------------------------------------------------- conversion, copy
CAST = Cast("cast", ("x",), lambda g: (g,))  # converted back by the caller
CLONE = Copy("clone", ("x",), lambda g: (g,))


@public()
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """The same values in memory of their own; differentiable."""
    return apply(CLONE, input)  # type: ignore[no-any-return]


# -------------------------------------------------------------------------------- arithmetic
def _binary(name: str, body: Body, vjp: Vjp | None, *, saves_for: Any = None, **kwargs: Any) -> Pointwise:
    return Pointwise(name, ("x", "y"), vjp, body=body, saves_for=saves_for or {}, **kwargs)


ADD = _binary("add", lambda m, x, y: m.add(x, y), lambda g: (g, g), ufunc=np.add)
SUB = _binary("sub", lambda m, x, y: m.sub(x, y), lambda g: (g, -g), ufunc=np.subtract)
MUL = _binary(
    "mul",
    lambda m, x, y: m.mul(x, y),
    lambda g, x, y, needs: (g * y if needs[0] else None, g * x if needs[1] else None),
    saves_for={"x": (1,), "y": (0,)},
    ufunc=np.multiply,
)
DIV = _binary(
    "div",
    lambda m, x, y: m.div(x, y),
    lambda g, x, y, needs: (g / y, -g * ((x / y) / y) if needs[1] else None),
    saves_for={"x": (1,)},
    result="float",
    ufunc=np.divide,
)


@public(inplace=True)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input + alpha * other."""
    return apply(ADD, input, other if type(alpha) is int and alpha == 1 else other * alpha)  # type: ignore[no-any-return]


@public(inplace=True, alias=("subtract",))
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """input - alpha * other."""
    return apply(SUB, input, other if type(alpha) is int and alpha == 1 else other * alpha)  # type: ignore[no-any-return]


@public(inplace=True, alias=("multiply",))
def mul(input: Any, other: Any) -> Tensor:
    return apply(MUL, input, other)  # type: ignore[no-any-return]


@public(inplace=True, alias=("divide",))
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """True division, or rounded ("floor", "trunc")."""
    return apply(DIV, input, other)  # type: ignore[no-any-return]


neg = intrinsic("neg", lambda g: (-g,), alias=("negative",), torch="neg")

# ------------------------------------------------------------------------------- comparison
COMPARE = {
    name: _binary(name, lambda m, x, y, name=name: getattr(m, name)(x, y), None, result="bool", ufunc=_ufunc(name))
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
}


def _comparison(name: str) -> Callable[[Any, Any], Tensor]:
    op = COMPARE[name]

    def fn(input: Any, other: Any) -> Tensor:
        return apply(op, input, other)  # type: ignore[no-any-return]

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"Elementwise {name} of two tensors, or a tensor and a number: bool."
    return public(name, inplace=True)(fn)


eq, ne, lt, le, gt, ge = map(_comparison, COMPARE)

# --------------------------------------------------------------------------- exponentials
exp = intrinsic("exp", lambda g, out: (g * out,), result="float")
log = intrinsic("log", lambda g, x: (g / x,), result="float")
sqrt = intrinsic("sqrt", lambda g, out: (g / (2 * out),), result="float")
sin = intrinsic("sin", lambda g, x: (g * cos(x),), result="float")
cos = intrinsic("cos", lambda g, x: (-g * sin(x),), result="float")
tanh = intrinsic("tanh", lambda g, out: (g * (1 - out * out),), result="float")

WHERE = Pointwise(
    "where",
    ("c", "x", "y"),
    lambda g, c: (None, where(c, g, 0), where(c, 0, g)),
    body=lambda m, c, x, y: m.where(c, x, y),
    mask=1,
)


@public(method=False)
def where(condition: Tensor, input: Any = None, other: Any = None) -> Tensor:
    """input where the condition holds, other elsewhere."""
    return apply(WHERE, condition, input, other)  # type: ignore[no-any-return]


_ = math
