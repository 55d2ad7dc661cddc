"""Beside lower: how rules speak of elements. values and numbers at an index -> expressions."""

from __future__ import annotations

from codegen import affine, expr
from codegen.affine import ZERO, Affine
from codegen.expr import Expr
from codegen.ir import Call, Unsupported, Value
from eager import dtype as dt
from eager.dtype import DType


def tensors(call: Call) -> tuple[Value, ...]:
    return tuple(v for v in call.operands if isinstance(v, Value))


def axes_of(shape: tuple[int, ...], prefix: str = "i") -> tuple[Affine, ...]:
    return tuple(affine.axis(f"{prefix}{d}", n) for d, n in enumerate(shape))


def number(value: complex, dtype: DType) -> Expr:
    """A Python number as a constant; an int too large for the type wraps around, as in eager."""
    if isinstance(value, complex):
        raise Unsupported(f"the complex number {value}")
    if dtype.category == dt.INT and isinstance(value, int):
        bits = 8 * dtype.itemsize
        value &= (1 << bits) - 1
        if dtype.is_signed and value >> (bits - 1):
            value -= 1 << bits
    return expr.const(value, dtype)


def operand(x: Value | complex, index: tuple[Affine, ...], dtype: DType) -> Expr:
    """Operand `x` at the place that broadcasts to `index` of the result, converted to `dtype`."""
    if not isinstance(x, Value):
        return number(x, dtype)
    shape = x.aval.shape
    own = index[len(index) - len(shape) :] if shape else ()
    at = tuple(ZERO if n == 1 else i for n, i in zip(shape, own, strict=True))
    return expr.cast(expr.read(x.id, at, x.aval.dtype), dtype)


def element(x: Value, index: tuple[Affine, ...]) -> Expr:
    return expr.read(x.id, index, x.aval.dtype)
