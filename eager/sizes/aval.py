"""The abstract value: what every layer knows of a tensor without its data. (shape, dtype, device)
-> Aval.

Shape and dtype rules, capture, lowering and printing all work on avals. `weak` marks a Python
number (or a number that stays a run-time scalar): it takes part in promotion only by its category,
as in PyTorch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.sizes import symint


@dataclass(frozen=True, slots=True)
class Aval:
    """Shape (ints), element type, device name ("cpu", "cuda:0") and whether it is a Python
    number."""

    shape: tuple[int, ...]
    dtype: DType
    device: str = "cpu"
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * self.dtype.itemsize

    def __repr__(self) -> str:
        dims = ", ".join(map(str, self.shape))
        return f"{self.dtype.name}[{dims}]" + ("~" if self.weak else "")


@functools.lru_cache(maxsize=4096)
def array_aval(shape: tuple[int, ...], dtype: np.dtype) -> Aval:
    """The aval of a NumPy array. Few differ in a program, and looking one up is cheaper."""
    return Aval(shape, dt.from_numpy(dtype))


def scalar_aval(value: Any, device: str = "cpu") -> Aval:
    """The weak 0-dim aval of a Python bool, int, float or complex, one of NumPy, or of a run-time
    number (which knows its own)."""
    kind: Any = type(value)
    if not issubclass(kind, (int, float, complex)):
        if not issubclass(kind, np.generic):  # a run-time number says that it is one
            return value.aval
        kind = type(plain_number(value))
    return _weak(kind, device)


INTS = (int, np.integer, np.bool_)  # and bools: numbers of the host without a fraction


def plain_number(value: np.generic) -> Any:
    """A number of NumPy as one of Python."""
    return float(value) if isinstance(value, np.longdouble) else value.item()


@functools.lru_cache(maxsize=64)
def _weak(kind: type, device: str) -> Aval:
    pairs = ((bool, dt.bool_), (int, dt.int64), (float, dt.float64))
    dtype = next((d for t, d in pairs if issubclass(kind, t)), dt.complex128)
    return Aval((), dtype, device, weak=True)


def result_type(avals: Iterable[Aval]) -> DType:
    """PyTorch's `result_type` over tensors with dimensions, 0-dim tensors and Python numbers
    (weak)."""
    best: list[DType | None] = [None, None, None]  # dimensioned, 0-dim, weak
    for a in avals:
        rank = 2 if a.weak else 1 if not a.shape else 0
        seen = best[rank]
        best[rank] = a.dtype if seen is None else dt.promote_types(seen, a.dtype)
    dim, zero, weak = best
    result = dim
    for lower in (zero, _weak_default(weak)):
        if lower is None:
            continue
        if result is None:
            result = lower
        elif lower.category > result.category:
            result = _raise_category(result, lower)
    if result is None:
        raise TypeError("result_type needs at least one operand")
    return result


def _weak_default(weak: DType | None) -> DType | None:
    """A Python float counts as the default dtype, a complex as its complex; ints and bools as
    themselves."""
    if weak is None or weak.category < dt.FLOAT:
        return weak
    return dt.get_default_dtype() if weak.category == dt.FLOAT else dt.default_complex()


def _raise_category(result: DType, higher: DType) -> DType:
    """`higher` outranks `result` by category: a complex number keeps a float tensor's precision."""
    if higher.category == dt.COMPLEX and result.category == dt.FLOAT:
        return dt.complex128 if result is dt.float64 else dt.complex64
    return higher


def same(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """True if two shapes are sure to be equal. Asks for no guard: `a == b` does, of symbols."""
    if a is b:
        return True
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):  # most are the same small int
        if x is not y and (
            x != y if type(x) is type(y) is int else symint.known_eq(x, y) is not True
        ):
            return False
    return True


def same_aval(a: Aval, b: Aval) -> bool:
    """True if two avals are sure to be equal."""
    kinds = a.dtype is b.dtype and a.weak == b.weak and a.device == b.device
    return kinds and same(a.shape, b.shape)


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy broadcasting. Raises RuntimeError naming both shapes and the dimension when they do
    not fit."""
    if shapes and all(same(s, shapes[0]) for s in shapes):
        return shapes[0]
    out: list[int] = []
    ndim = max((len(s) for s in shapes), default=0)
    for axis in range(-ndim, 0):
        size = 1
        for shape in shapes:
            d = shape[axis] if -axis <= len(shape) else 1
            if type(d) is int and d == 1:
                continue
            if type(size) is int and size == 1:
                size = d
            elif symint.of_data(size) or symint.of_data(d):  # a 1 among them is seen by the check
                symint.expect_same(size, d)
                size = size if type(size) is int else d
            elif size != d and size != 1 != d:
                listed = " and ".join(str(tuple(s)) for s in shapes)
                raise RuntimeError(
                    f"shapes {listed} do not broadcast: {size} against {d} at dimension {axis}"
                )
            elif type(size) is not int and size != d and size == 1:
                size = d
        out.append(size)
    return tuple(out)


@functools.lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements."""
    strides: list[int] = []
    step = 1
    for d in reversed(shape):
        strides.append(step)
        step *= d if symint.of_data(d) else max(d, 1)  # of what is empty, strides do not matter
    return tuple(reversed(strides))


class OfAval:
    """Base class of stand-ins for a tensor's array: the shape is that of the `aval`."""

    __slots__ = ()

    aval: Aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        return self.aval.numel
