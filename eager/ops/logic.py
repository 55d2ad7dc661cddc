"""Pointwise ops on bits and truth values, and what kind of number each element is. tensors ->
tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.core.dispatch import apply
from eager.core.op import Sample
from eager.core.registry import needs_tensors, public
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.define import BinaryFn, binary, binary_op, not_for, unary
from eager.ops.kinds import Pointwise
from eager.ops.pointwise import eq, is_integral, lt, ne


def _bits() -> list[Sample]:
    return [
        s.call(s.integers((3, 4)), s.integers((3, 4), seed=1), grad=False),
        s.call(s.integers((3, 4)), 3, grad=False),
        s.call(s.booleans((3, 1)), s.booleans((4,), seed=1), grad=False),
    ]


def _shifts() -> list[Sample]:
    return [s.call(s.integers((3, 4)), s.integers((3, 4), 0, 5, seed=1), grad=False)]


_truths = s.both(s.on_two(grad=False, number=None), s.on_ints(two=True))


def _require_bits(op: Pointwise) -> BinaryFn:
    def fn(input: Any, other: Any) -> Tensor:
        for x in (input, other):
            if isinstance(x, float) or (isinstance(x, Tensor) and x.dtype.category >= dt.FLOAT):
                kind = x.dtype if isinstance(x, Tensor) else float
                raise NotImplementedError(f'"{op.name}" not implemented for {kind}')
        return apply(op, input, other)

    fn.__name__ = fn.__qualname__ = op.name
    fn.__doc__ = f"{op.name} of ints or bools."
    shift = "shift" in op.name
    fn = needs_tensors("one")(fn)
    return public(op.name, inplace=True, samples=_shifts if shift else _bits)(fn)


bitwise_and = _require_bits(binary_op("bitwise_and", "and_", takes="real"))
bitwise_or = _require_bits(binary_op("bitwise_or", "or_", takes="real"))
bitwise_xor = _require_bits(binary_op("bitwise_xor", "xor", takes="real"))
bitwise_left_shift = _require_bits(binary_op("bitwise_left_shift", "shl", takes="numbers"))
bitwise_right_shift = _require_bits(binary_op("bitwise_right_shift", "shr", takes="numbers"))
bitwise_not = unary(
    "bitwise_not",
    "not_",
    result="promote",
    samples=s.on_ints(),
    takes="real",
    refuses=not_for("bitwise_not", dt.FLOAT, dt.COMPLEX),
)


def _int_samples() -> list[Sample]:
    return [
        s.call(s.integers((3, 4), -30, 30), s.integers((4,), -30, 30, seed=1), grad=False),
        s.call(np.array([0, 0, 6, -128]), np.array([0, -4, 0, 96]), grad=False),
    ]


def _of_ints(op: Pointwise) -> BinaryFn:
    def fn(input: Tensor, other: Tensor) -> Tensor:
        if max(input.dtype.category, other.dtype.category) != dt.INT:
            kinds = f"{input.dtype} and {other.dtype}"
            raise NotImplementedError(f"{op.name}() is for ints, got {kinds}")
        return apply(op, input, other)

    fn.__name__ = fn.__qualname__ = op.name
    fn.__doc__ = {"gcd": "The greatest common divisor", "lcm": "The least common multiple"}[op.name]
    fn.__doc__ += " of ints, not below 0."
    return public(op.name, inplace=True, samples=_int_samples)(needs_tensors("both")(fn))


gcd = _of_ints(binary_op("gcd", "gcd", takes="numbers"))
lcm = _of_ints(  # what is divided by 0 gives 0
    binary_op("lcm", lambda m, x, y: m.abs(m.trunc_div(x, m.gcd(x, y))) * m.abs(y), takes="numbers")
)

logical_and = binary(
    binary_op("logical_and", lambda m, x, y: m.and_(m.ne(x, 0), m.ne(y, 0)), result="bool"),
    tensors="both",
    samples=_truths,
)
logical_or = binary(
    binary_op("logical_or", lambda m, x, y: m.or_(m.ne(x, 0), m.ne(y, 0)), result="bool"),
    tensors="both",
    samples=_truths,
)
logical_xor = binary(
    binary_op("logical_xor", lambda m, x, y: m.ne(m.ne(x, 0), m.ne(y, 0)), result="bool"),
    tensors="both",
    samples=_truths,
)
logical_not = unary("logical_not", lambda m, x: m.eq(x, 0), result="bool", samples=s.on(grad=False))
isnan = unary(
    "isnan", lambda m, x: m.ne(x, x), result="bool", samples=s.on(grad=False), inplace=False
)
ISINF = Pointwise("isinf", ("x",), body=lambda m, x: m.eq(m.abs(x), float("inf")), result="bool")
ISFINITE = Pointwise(
    "isfinite", ("x",), body=lambda m, x: m.lt(m.abs(x), float("inf")), result="bool"
)
SIGNBIT = Pointwise("signbit", ("x",), body=lambda m, x: m.sign_bit(x), result="bool", takes="real")
_floats_and_ints = s.both(s.on(grad=False), s.on_ints())


@public(samples=_floats_and_ints)
def isinf(input: Tensor) -> Tensor:
    return ne(input, input) if is_integral(input) else apply(ISINF, input)


@public(samples=_floats_and_ints)
def isfinite(input: Tensor) -> Tensor:
    return eq(input, input) if is_integral(input) else apply(ISFINITE, input)


@public(samples=_floats_and_ints)
def signbit(input: Tensor) -> Tensor:
    """Bool tensor: true where the sign bit is set, also of -0.0, and of a NaN that has it."""
    return lt(input, 0) if is_integral(input) else apply(SIGNBIT, input)


@public()
def is_signed(input: Tensor) -> bool:
    """True if its dtype has negative numbers."""
    return input.dtype not in (dt.bool_, dt.uint8)


@public()
def is_conj(input: Tensor) -> bool:
    """True if it is a view of conjugates: none is, `conj` computes them."""
    del input
    return False


@public()
def is_neg(input: Tensor) -> bool:
    """True if it is a view of negated numbers: none is."""
    del input
    return False
