"""Beside lower: how rules speak of elements. values and numbers at an index -> expressions."""

from __future__ import annotations

from typing import Protocol

from codegen.ir import affine, expr
from codegen.ir.affine import ZERO, Affine
from codegen.ir.expr import BUILD, Expr
from codegen.ir.schema import Call, Unsupported, Value
from codegen.ir.sizes import Shape, Size, last, same
from codegen.runtime.artifact import SIZE
from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.core.op import Op

Index = tuple[Affine, ...]


def tensors(call: Call) -> tuple[Value, ...]:
    return tuple([v for v in call.operands if isinstance(v, Value)])


def axes_of(shape: Shape, prefix: str = "i") -> tuple[Affine, ...]:
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
    at = tuple(ZERO if same(n, 1) else i for n, i in zip(shape, own, strict=True))
    return expr.cast(expr.read(x.id, at, x.aval.dtype), dtype)


def element(x: Value, index: tuple[Affine, ...]) -> Expr:
    return expr.read(x.id, index, x.aval.dtype)


def checked_index(i: Expr, dim: int, size: Size, call: Step, *, negative: bool) -> Affine:
    """An index read from memory, verified against `size`; a negative one counts from the end."""
    said = size if size.__class__ is int else SIZE
    what = f"{call.op.name}: index out of bounds for dimension {dim} with size {said}|{call.where}"
    i = expr.checked(expr.cast(i, dt.int64), -size if negative else 0, size - 1, what)
    if negative:
        i = i + BUILD.and_(BUILD.shr(i, 63), size)  # a select would make a mask of 64 bits
    return affine.opaque(i, 0, last(size))


class Step(Protocol):
    """A step that may fail: its op, and the user's line."""

    @property
    def op(self) -> Op: ...
    @property
    def where(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a call as an op's `element` sees it; what it reads has the result's type."""

    x: Value | complex
    dtype: DType

    @property
    def shape(self) -> Shape:
        return self.x.aval.shape if isinstance(self.x, Value) else ()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, index: Index) -> Expr:
        at = index if isinstance(self.x, Value) else ()
        own = self.x.aval.dtype if isinstance(self.x, Value) else self.dtype
        return expr.cast(operand(self.x, at, own), self.dtype)


@dataclass(frozen=True, slots=True)
class Elements:
    """`m` for an op's `element` (see `eager.ops.kinds.Element`)."""

    call: Call

    def within(self, i: Affine, lo: Size, hi: Size) -> Expr:
        value = expr.index_of(i)
        return BUILD.and_(BUILD.ge(value, lo), BUILD.lt(value, hi))

    def less(self, i: Affine, n: Size) -> Expr:
        return BUILD.lt(expr.index_of(i), n)

    def equal(self, i: Affine, n: Size) -> Expr:
        return BUILD.eq(expr.index_of(i), n)

    def all(self, *conditions: Expr) -> Expr:
        total = expr.const(True, dt.bool_)
        for c in conditions:
            total = BUILD.and_(total, expr.decide(c))
        return total

    def select(self, cond: Expr, then: Expr, other: Expr) -> Expr:
        return expr.select(cond, then, other)

    def number(self, i: Affine) -> Expr:
        return expr.index_of(i)

    def looked_up(
        self, x: Operand, at: Index, dim: int, size: Size, *, negative: bool = False
    ) -> Affine:
        assert isinstance(x.x, Value)
        own = operand(x.x, at, dt.int64)
        return checked_index(own, dim, size, self.call, negative=negative)
