"""Pointwise ops: arithmetic, comparison, logic, selection. tensors, numbers -> tensor.

An entry is body, derivative, public function and samples at one place; the method and the in-place
method follow from it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.compat_warnings import options, warn
from eager.core.dispatch import apply, apply_binary, apply_unary, must_hold, with_tensor
from eager.core.op import Sample
from eager.core.registry import needs_tensors, public
from eager.core.sym import must_be
from eager.core.tape import zeros_of
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.define import Body, binary, binary_op, not_for, unary
from eager.ops.kinds import Cast, Copy, Pointwise
from eager.ops.scaling import alpha_rounded, scaled
from eager.ops.scaling import is_integral as is_integral
from eager.ops.view import constant
from eager.sizes.aval import Aval, scalar_aval

# -------------------------------------------------------------------------- conversion, copy
CAST = Cast("cast", ("x",), lambda g: (g,))  # converted back by the caller
CLONE = Copy("clone", ("x",), lambda g: (g,))


@public(samples=s.on())
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy of the values in memory of its own; differentiable."""
    if memory_format:
        options("clone", memory_format=memory_format)
    return apply(CLONE, input)


# -------------------------------------------------------------------------------- arithmetic
ADD = binary_op("add", "add", lambda g: (g, g), rounds_numbers=True)


def _no_bools(operands: Sequence[Aval]) -> str:
    """The message about `-` with bools, or ""; Python's own bools are numbers."""
    bools = [x.dtype is dt.bool_ for x in operands]
    if not any(bools) or all(x.weak for x in operands):
        return ""
    if len(operands) == 1:
        return (
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )
    if all(bools):
        return (
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    return (
        "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
        "invert a mask, use the `~` or `logical_not()` operator instead."
    )


SUB = binary_op("sub", "sub", lambda g: (g, -g), refuses=_no_bools, rounds_numbers=True)
MUL = binary_op(
    "mul",
    "mul",
    lambda g, x, y, needs: (g * y if needs[0] else None, g * x if needs[1] else None),
    saves_for={"x": (1,), "y": (0,)},
)
DIV = binary_op(
    "div",
    "div",
    lambda g, x, y, needs: (g / y if needs[0] else None, -g * ((x / y) / y) if needs[1] else None),
    saves_for={"x": (1,)},
    result="float",
)
# Steps: their slope is 0. (`floor_divide` has none; `div` with a rounding mode goes this way.)
FLOOR_DIVIDE = binary_op("floor_divide", "floor_div", takes="numbers")
FLOOR_STEPS = binary_op(
    "floor_steps", "floor_div", lambda g: (zeros_of(g), zeros_of(g)), takes="numbers"
)
TRUNC_DIVIDE = binary_op(
    "trunc_divide",
    lambda m, x, y: m.trunc(m.div(x, y)),
    lambda g: (zeros_of(g), zeros_of(g)),
    result="float",
    takes="numbers",
)
INT_DIVIDE = binary_op("int_divide", "trunc_div", takes="numbers")
REMAINDER = binary_op(
    "remainder",
    lambda m, x, y: m.where(m.eq(m.mod(x, y), 0), x * 0, m.mod(x, y)),  # a zero has x's sign
    lambda g, x, y, needs: (g, -g * constant(x // y) if needs[1] else None),
    takes="numbers",
    rounds_numbers=True,
)
FMOD = binary_op(
    "fmod",
    "fmod",
    lambda g, x, y, needs: (g, -g * constant(_toward_zero(x, y)) if needs[1] else None),
    takes="numbers",
    rounds_numbers=True,
)


def _toward_zero(x: Any, y: Any) -> Tensor:
    return div(x, y, rounding_mode="trunc")


_arithmetic = s.both(s.on_two(), s.on_ints(two=True))
_divisible = s.both(
    s.on_two(second=(0.5, 2.0)), s.on_two(second=(-2.0, -0.5)), s.on_ints(two=True, low=1)
)


@public(inplace=ADD, samples=_arithmetic)
@alpha_rounded
def add(input: Any, other: Any, tensor: Any = None, *, alpha: Any = 1) -> Tensor:
    """input + alpha * other. Raises RuntimeError for a float alpha of ints. As it was once spelled:
    `add(input, alpha, other)`."""
    if tensor is not None:
        alpha, other = other, tensor
    return apply(ADD, with_tensor(input, other), scaled(input, other, alpha))


@public(inplace=SUB, alias=("subtract",), samples=_arithmetic)
@alpha_rounded
def sub(input: Any, other: Any, tensor: Any = None, *, alpha: Any = 1) -> Tensor:
    """input - alpha * other. Raises RuntimeError for a float alpha of ints. As it was once spelled:
    `sub(input, alpha, other)`."""
    if tensor is not None:
        alpha, other = other, tensor
    return apply(SUB, with_tensor(input, other), scaled(input, other, alpha))


@public(samples=_arithmetic)
@needs_tensors("first")
@alpha_rounded
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * input. Raises RuntimeError for a float alpha of ints."""
    return apply(SUB, other, scaled(other, input, alpha))


mul = binary(MUL, alias=("multiply",), samples=_arithmetic)


@public(
    inplace=DIV,
    alias=("divide",),
    samples=s.both(_divisible, lambda: [s.call(s.values((3, 4)), 0.0, grad=False)]),
)
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """True division (ints become floats), or rounded down ("floor") or towards zero ("trunc")."""
    if rounding_mode is None:
        return apply(DIV, with_tensor(input, other), other)
    if rounding_mode == "floor":
        return _nonzero(FLOOR_STEPS, input, other)
    if rounding_mode == "trunc":
        return _nonzero(INT_DIVIDE if is_integral(input, other) else TRUNC_DIVIDE, input, other)
    raise RuntimeError(
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' "
        f"but found '{rounding_mode}'"
    )


@public(inplace=True, samples=_divisible)
def true_divide(input: Any, other: Any) -> Tensor:
    return div(input, other)


def _nonzero(op: Pointwise, x: Any, y: Any) -> Tensor:
    """Integer division: a zero divisor raises, as in PyTorch."""
    if is_integral(x, y):
        if isinstance(y, Tensor):
            must_hold(y.ne(0).all(), "ZeroDivisionError")
        else:
            must_be("ZeroDivisionError", operator.ne, y, 0)
    return apply_binary(op, with_tensor(x, y), y)


@public(inplace=True, samples=_divisible)
def floor_divide(input: Any, other: Any) -> Tensor:
    """Division rounded down; no gradient."""
    return _nonzero(FLOOR_DIVIDE, input, other)


@public(inplace=True, samples=_divisible)
@needs_tensors("one")
def remainder(input: Any, other: Any) -> Tensor:
    """Python's %: the result has the sign of the divisor."""
    return _nonzero(REMAINDER, input, other)


@public(inplace=True, samples=_divisible)
@needs_tensors("first")
def fmod(input: Any, other: Any) -> Tensor:
    """C's fmod: the result has the sign of the dividend."""
    return _nonzero(FMOD, input, other)


neg = unary("neg", "neg", lambda g: (-g,), result="promote", alias=("negative",), refuses=_no_bools)
reciprocal = unary(
    "reciprocal",
    lambda m, x: 1.0 / x,
    lambda g, out: (-g * (out * out),),
    samples=s.on(0.5, 3.0),
    on_gpus="full",
)
SQUARE = Pointwise(
    "square", ("x",), lambda g, x: (g * (2 * x),), body=lambda m, x: x * x, ufunc=np.square
)


@public(
    inplace=True,
    samples=s.both(s.on(), lambda: [s.call(s.booleans((3, 4)), grad=False)]),
    on_gpus="full",
)
def square(input: Tensor) -> Tensor:
    """x * x; of bools in int64, as `pow`."""
    return apply_unary(SQUARE, input.to(dt.int64) if input.dtype is dt.bool_ else input)


sqrt = unary("sqrt", "sqrt", lambda g, out: (g / (2 * out),), samples=s.on(0.1, 4.0))
rsqrt = unary(
    "rsqrt",
    "rsqrt",
    lambda g, out: (-0.5 * g * (out * out * out),),
    samples=s.on(0.1, 4.0),
    on_gpus="full",
)


def _pow_vjp(g: Tensor, x: Any, y: Any, out: Tensor, needs: tuple[bool, bool]) -> tuple[Any, Any]:
    dx = dy = None
    if needs[0]:  # y * x^(y-1), and 0 where y = 0 (not 0 * inf)
        dx = g * (
            where(y == 0, 0.0, y * x ** (y - 1)) if isinstance(y, Tensor) else y * x ** (y - 1)
        )
        if not isinstance(y, Tensor) and y == 0:
            dx = zeros_of(g)
    if needs[1]:
        base = x if isinstance(x, Tensor) else zeros_of(y) + x
        level = (base == 0) & ((y.real if y.is_complex() else y) >= 0)  # 0^y is 0, or 1 at 0
        dy = g * where(level, 0.0, out * where(level, 1.0, base).log())
    return dx, dy


def _no_powers_of_bools(operands: Sequence[Aval]) -> str:
    """Python's own bool may be the exponent: what it makes is the base, or True."""
    if all(x.dtype is dt.bool_ for x in operands) and not operands[1].weak:
        raise NotImplementedError('"pow" not implemented for bool')
    return ""


POW = binary_op("pow", "pow", _pow_vjp, refuses=_no_powers_of_bools, rounds_numbers=True)
_EASY_POWERS: dict[Any, Callable[[Any], Any]] = {
    2: square,
    3: lambda x: x * x * x,
    0.5: sqrt,
    -0.5: rsqrt,
    -1: reciprocal,
    -2: lambda x: reciprocal(x * x),
}


@public(
    "pow",
    on_gpus="full",
    inplace=True,
    samples=s.both(
        s.on_two(first=(0.2, 2.0), number=2.5),
        s.on_two(number=3, second=(1.0, 1.0), grad=False),
        s.on_ints(two=True, low=0, high=4),
        lambda: [s.call(s.values((3,), 0.3, 2), n) for n in (0, 1, 2, 0.5, -0.5, -1, -2, 3)],
    ),
)
@needs_tensors("one")
def pow_(input: Any, exponent: Any) -> Tensor:
    """input ** exponent. Ints to negative ints raise RuntimeError."""
    integral = isinstance(input, Tensor) and input.dtype.category < dt.FLOAT
    if integral and isinstance(exponent, int | np.integer):
        must_be("Integers to negative integer powers are not allowed.", operator.ge, exponent, 0)
    if isinstance(input, Tensor) and type(exponent) in (int, float):
        easy = _EASY_POWERS.get(exponent)
        if (
            easy is not None
            and input.dtype is not dt.bool_
            and (not integral or exponent in (2, 3))
        ):
            if integral and type(exponent) is float:
                input = input.to(dt.get_default_dtype())
            return easy(input)
    return apply(POW, input, exponent)


@public(method=True, torch="float_power", samples=s.on_two(first=(0.2, 2.0), number=2.5))
@needs_tensors("one")
def float_power(input: Any, exponent: Any) -> Tensor:
    """`pow` in float64, or in complex128 where an operand is complex."""
    operands = [x if isinstance(x, Tensor) else scalar_aval(x) for x in (input, exponent)]
    kind = dt.complex128 if any(x.dtype.is_complex for x in operands) else dt.float64
    base, power = (x.to(kind) if isinstance(x, Tensor) else x for x in (input, exponent))
    return pow_(base, power)


abs_ = unary(
    "abs",
    "abs",
    lambda g, x: (g * x.sgn(),),
    result="real",
    alias=("absolute",),
    samples=s.on(),
    refuses=not_for("abs", dt.BOOL),
)
_signed = s.both(
    s.on(),
    s.on_ints(),
    lambda: [
        s.call(s.booleans((3, 4)), grad=False),
        s.call(np.array([np.nan, np.inf, -np.inf, -0.0]), grad=False),
    ],
)
sign = unary(
    "sign", "sign", lambda g: (zeros_of(g),), result="promote", samples=_signed, takes="real"
)


def _sgn_vjp(g: Tensor, x: Tensor, out: Tensor) -> tuple[Tensor]:
    """0, but for complex numbers: there the part of g across x turns it."""
    if not x.dtype.is_complex:
        return (zeros_of(g),)
    return (where(x == 0, 0, (g - (g * out).real * out.conj()) / x.abs()),)


sgn = unary("sgn", "sign", _sgn_vjp, result="promote", samples=_signed)


@public(samples=s.on())
def positive(input: Tensor) -> Tensor:
    return input


# -------------------------------------------------------------------------------- comparison
_comparable = s.both(s.on_two(grad=False), s.on_ints(two=True))
COMPARE = {
    name: binary_op(name, name, result="bool", takes=takes, rounds_numbers=True)
    for names, takes in (("eq ne", "any"), ("lt le gt ge", "real"))
    for name in names.split()
}
_SPELLED = {"ne": "not_equal", "lt": "less", "le": "less_equal"} | {
    "gt": "greater",
    "ge": "greater_equal",
}
eq, ne, lt, le, gt, ge = (
    binary(
        op,
        tensors="first",
        samples=_comparable,
        alias=(_SPELLED[name],) if name in _SPELLED else (),
    )
    for name, op in COMPARE.items()
)


def _extreme_vjp(g: Tensor, x: Any, y: Any, loses: Pointwise) -> tuple[Tensor, Tensor]:
    """The better operand has the gradient; equal ones share it."""
    half = where(apply(COMPARE["eq"], x, y), g / 2, g)
    return where(apply(loses, x, y), 0.0, half), where(apply(loses, y, x), 0.0, half)


MAXIMUM = binary_op(
    "maximum",
    "max",
    lambda g, x, y: _extreme_vjp(g, x, y, COMPARE["lt"]),
    takes="real",
)
MINIMUM = binary_op(
    "minimum",
    "min",
    lambda g, x, y: _extreme_vjp(g, x, y, COMPARE["gt"]),
    takes="real",
)
_tensors = s.both(s.on_two(number=None), s.on_ints(two=True))
maximum = binary(MAXIMUM, tensors="both", samples=_tensors, inplace=False)
minimum = binary(MINIMUM, tensors="both", samples=_tensors, inplace=False)


def _ignoring_nan(pick: str) -> Body:
    return lambda m, x, y: m.where(m.is_nan(x), y, m.where(m.is_nan(y), x, getattr(m, pick)(x, y)))


FMAX = binary_op(
    "fmax", _ignoring_nan("max"), lambda g, x, y: (g * (x >= y), g * (x < y)), takes="real"
)
FMIN = binary_op(
    "fmin", _ignoring_nan("min"), lambda g, x, y: (g * (x <= y), g * (x > y)), takes="real"
)
fmax = binary(FMAX, tensors="both", samples=s.on_two(number=None), inplace=False)
fmin = binary(FMIN, tensors="both", samples=s.on_two(number=None), inplace=False)

# --------------------------------------------------------------------------------- selection
WHERE: Pointwise = Pointwise(
    "where",
    ("c", "x", "y"),
    lambda g, c: (None, apply(WHERE, c, g, 0), apply(WHERE, c, 0, g)),
    body=lambda m, c, x, y: m.where(c, x, y),
    mask=1,
    by_parts=True,
)


@public(
    method=False,
    samples=lambda: [
        s.call(s.booleans((3, 4)), s.values((3, 4)), s.values((4,), seed=1)),
        s.call(s.booleans((3, 1)), s.values((3, 4)), 0.5),
        s.call(s.booleans(()), s.values((2,)), s.values((2,), seed=1)),
    ],
)
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """`input` where the condition holds, `other` elsewhere. With the condition alone:
    `nonzero(as_tuple=True)`."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    if isinstance(condition, Tensor) and condition.dtype is dt.uint8:
        warn("where: a condition of uint8 is deprecated: use condition.bool()")
        condition = condition.to(dt.bool_)
    if isinstance(condition, Tensor) and condition.dtype is not dt.bool_:
        got = condition.dtype
        raise RuntimeError(f"where expected condition to be a boolean tensor, got {got}")
    return apply(WHERE, condition, _beside(input, other), _beside(other, input))


def _beside(number: Any, tensor: Any) -> Any:
    """A number as an element of the tensor's type, which an int of Python does not widen."""
    small = type(number) is int and 0 <= number < 128  # an element of every type
    if small or not isinstance(number, int) or not isinstance(tensor, Tensor):
        return number
    return dt.stored(number, tensor.dtype)


@public("where", namespace=False)
def _where_method(self: Tensor, condition: Tensor, other: Any) -> Any:
    return where(condition, self, other)


@public(
    inplace=True,
    samples=lambda: [
        s.call(s.values((3, 4)), s.booleans((3, 4)), 0.5),
        s.call(s.values((3, 4)), s.booleans((4,)), -1.0),
    ],
)
def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value` where the mask holds. Keeps the dtype."""
    if mask.dtype is not dt.bool_:
        raise RuntimeError(
            f"masked_fill only supports boolean masks, but got mask with dtype {mask.dtype}"
        )
    if isinstance(value, Tensor) and value.ndim > 0:
        raise RuntimeError(
            "masked_fill only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    if isinstance(value, Tensor) and value.dtype.is_complex and not input.dtype.is_complex:
        value = value.item()  # a real number, or it is refused
    out = apply(WHERE, mask, dt.stored(value, input.dtype), input)
    return out if out.dtype is input.dtype else out.to(input.dtype)


CLAMP = Pointwise(
    "clamp",
    ("x", "lo", "hi"),
    lambda g, x, lo, hi: (where((x >= lo) & (x <= hi), g, 0.0), where((x < lo) & (lo < hi), g, 0.0),
                          where((x > hi) | (lo > hi), g, 0.0)),
    body=lambda m, x, lo, hi: m.min(m.max(x, lo), hi), takes="real",
)  # fmt: skip
CLAMP_MIN = binary_op(
    "clamp_min", "max", lambda g, x, y: (where(x >= y, g, 0.0), where(x < y, g, 0.0)), takes="real"
)
CLAMP_MAX = binary_op(
    "clamp_max", "min", lambda g, x, y: (where(x <= y, g, 0.0), where(x > y, g, 0.0)), takes="real"
)


def _clamps() -> list[Sample]:
    return [
        s.call(s.values((3, 4)), -0.7, 0.9),
        s.call(s.values((3, 4)), min=0.1),
        s.call(s.values((3, 4)), max=0.1),
        s.call(s.values((3, 4)), s.values((4,), -1, 0), s.values((3, 1), 0.1, 1)),
        s.call(s.integers((3, 4)), -1, 2, grad=False),
        s.call(s.values((0, 4)), -0.7, 0.9),
    ]


@public(inplace=True, alias=("clip",), samples=_clamps)
def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Limited to [min, max]; NaN stays. The gradient passes at the limits themselves."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    min, max = _beside(min, input), _beside(max, input)
    if max is None:
        return apply(CLAMP_MIN, input, min)
    if min is None:
        return apply(CLAMP_MAX, input, max)
    return apply(CLAMP, input, min, max)


@public(inplace=True, samples=lambda: [s.call(s.values((3, 4)), 0.2)])
@needs_tensors("first")
def clamp_min(input: Tensor, min: Any) -> Tensor:
    return clamp(input, min=min)


@public(inplace=True, samples=lambda: [s.call(s.values((3, 4)), 0.2)])
@needs_tensors("first")
def clamp_max(input: Tensor, max: Any) -> Tensor:
    return clamp(input, max=max)
