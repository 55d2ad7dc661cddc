"""Under capture: a Python number whose value is known only at run time. Python's operators ->
expressions.

A `SymNumber` is a leaf that the tracer knows (a scalar of its graph, a number read from outside) or
a Python function of such numbers. What an operation means, and when a number enters the graph, is
the tracer's to say; with tensors it is an operand like any Python number. What needs the value
itself (`bool`, `int`, an index, a dict key, text) asks the tracer, which makes a guard or refuses.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from eager.base import dtype as dt
from eager.core.traced import Handle, Tracer
from eager.sizes.aval import Aval

# NumPy's numbers that are run-time numbers, too, and what Python's of the same value are.
PLAIN: Final[dict[type, type]] = {
    np.bool_: bool,
    **dict.fromkeys((np.float16, np.float32, np.float64), float),
    **dict.fromkeys((np.int8, np.int16, np.int32, np.int64, np.uint8), int),
}
NARROW: Final = frozenset(PLAIN) - {np.float64, np.bool_}  # whose arithmetic is not Python's
_OF_PYTHON: Final = {
    bool: Aval((), dt.bool_, weak=True),
    int: Aval((), dt.int64, weak=True),
    float: Aval((), dt.float64, weak=True),
    complex: Aval((), dt.complex128, weak=True),
}
_AVALS: Final = _OF_PYTHON | {cls: _OF_PYTHON[plain] for cls, plain in PLAIN.items()}
NUMBERS: Final = (bool, int, float, complex, np.generic)
Operands = tuple[Any, ...]


def _binary(fn: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A binary operator's method, and the reflected one."""
    name = fn.__name__.strip("_")
    back = f"r{name}"

    def forward(self: SymNumber, other: Any) -> Any:
        known = type(other) is SymNumber or isinstance(other, (SymNumber, *NUMBERS))
        return self.tracer.number(fn, (self, other)) if known else _of_numpy(self, name, other)

    def reflected(self: SymNumber, other: Any) -> Any:
        known = isinstance(other, NUMBERS)
        return self.tracer.number(fn, (other, self)) if known else _of_numpy(self, back, other)

    return forward, reflected


def _of_numpy(number: SymNumber, name: str, other: Any) -> Any:
    """The answer to what is no number: NumPy makes arrays of it, where it has no priority."""
    if number.pytype not in PLAIN or hasattr(type(other), "__array_priority__"):
        return NotImplemented
    value = number.tracer.concretize(number, number.pytype)
    return getattr(value, f"__{name}__", lambda _: NotImplemented)(other)


def _unary(fn: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: self.tracer.number(fn, (self,))


class SymNumber:
    """A run-time number of Python type `pytype`: `leaf`, or `fn(*args)`."""

    __slots__ = ("args", "bounds", "fn", "leaf", "node", "pytype", "tracer")
    __array_ufunc__ = None  # NumPy's numbers leave the operation to this class

    def __init__(
        self,
        tracer: Tracer,
        pytype: type,
        leaf: Any = None,
        fn: Callable[..., Any] | None = None,
        args: Operands = (),
    ) -> None:
        self.tracer = tracer
        self.pytype = pytype
        self.leaf = leaf
        self.fn = fn
        self.args = args
        self.node: Handle = None  # the tracer's, once it has one
        self.bounds: tuple[float, float] | None = None  # of a float, where they are sure

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class that `isinstance` sees: a function of the library that asks whether it was
        given an int is to find one."""
        return self.pytype

    @property
    def handle(self) -> Handle:
        """The number's value in the tracer's graph."""
        return self.tracer.handle_of(self)

    @property
    def aval(self) -> Aval:
        return _AVALS[self.pytype]

    @property
    def of_numpy(self) -> bool:
        """True if Python has a number of NumPy's here: tensors of it have its dtype."""
        return self.pytype in PLAIN and self.pytype is not np.bool_

    def item(self) -> Any:
        """Python's number of one of NumPy's."""
        return self.tracer.number(PLAIN[self.pytype], (self,))

    def __bool__(self) -> bool:
        return bool(self.tracer.concretize(self, bool))

    def __int__(self) -> int:
        return int(self.tracer.concretize(self, self.pytype))

    def __float__(self) -> float:
        return float(self.tracer.concretize(self, self.pytype))

    def __complex__(self) -> complex:
        return complex(self.tracer.concretize(self, self.pytype))

    def __index__(self) -> int:
        return operator.index(self.tracer.concretize(self, self.pytype))

    def __size__(self) -> Any:
        """The number as a size: see `eager.sizes.symint.index`."""
        return self.tracer.size_of(self)

    def __stored__(self, dtype: dt.DType) -> Any:
        """The number as an element of `dtype`: see `eager.base.dtype.stored`. What is finite and
        too large for a float is looked for in numbers from outside alone: the graph's come from
        tensors. Whether a complex number is real is asked of its value."""
        of_float = self.pytype is float
        if self.pytype is complex and not dtype.is_complex:
            return dt.stored(self.tracer.concretize(self, complex), dtype)
        if PLAIN.get(self.pytype) is int and dtype.category == dt.INT:
            return dt.stored(self.item(), dtype)
        if self.pytype is not int and not of_float:
            return self
        low, high = dt.limits(dtype)
        if dtype.category == dt.FLOAT:
            inside = dtype is dt.float64 or self.tracer.decide(operator.le, abs(self), high)
            if inside is False and self.tracer.decide(math.isfinite, self):
                raise dt.too_large(self, dtype)
        elif of_float or dtype is not dt.int64:
            low = low if low or of_float else -high  # a negative int wraps
            what = f"a number that is an element of {dtype.name}"
            if not (holds(what, operator.ge, self, low) and holds(what, operator.le, self, high)):
                raise dt.too_large(self, dtype)
        return self

    def __hash__(self) -> int:
        return hash(self.tracer.concretize(self, self.pytype))

    def __repr__(self) -> str:
        return repr(self.tracer.concretize(self, self.pytype))

    def __format__(self, spec: str) -> str:
        return format(self.tracer.concretize(self, self.pytype), spec)

    def __floor__(self) -> Any:
        return self.tracer.number(math.floor, (self,))

    def __ceil__(self) -> Any:
        return self.tracer.number(math.ceil, (self,))

    def __trunc__(self) -> Any:
        return self.tracer.number(math.trunc, (self,))

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.tracer.concretize(self, self.pytype), digits)

    def bit_length(self) -> Any:
        return self.tracer.number(int.bit_length, (self,))

    def is_integer(self) -> Any:
        return self % 1 == 0  # NaN and infinities have a remainder that is NaN

    def __divmod__(self, other: Any) -> Any:
        known = isinstance(other, (SymNumber, *NUMBERS))
        return (self // other, self % other) if known else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return (other // self, other % self) if isinstance(other, NUMBERS) else NotImplemented

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is None:
            return self._power(other)
        return pow(self.tracer.concretize(self, self.pytype), other, modulus)

    __pos__ = _unary(operator.pos)
    __neg__ = _unary(operator.neg)
    __abs__ = _unary(abs)
    __invert__ = _unary(operator.invert)
    __eq__, _ = _binary(operator.eq)
    __ne__, _ = _binary(operator.ne)
    __lt__, _ = _binary(operator.lt)
    __le__, _ = _binary(operator.le)
    __gt__, _ = _binary(operator.gt)
    __ge__, _ = _binary(operator.ge)
    __add__, __radd__ = _binary(operator.add)
    __sub__, __rsub__ = _binary(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv)
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv)
    __mod__, __rmod__ = _binary(operator.mod)
    _power, __rpow__ = _binary(operator.pow)
    __lshift__, __rlshift__ = _binary(operator.lshift)
    __rshift__, __rrshift__ = _binary(operator.rshift)
    __and__, __rand__ = _binary(operator.and_)
    __or__, __ror__ = _binary(operator.or_)
    __xor__, __rxor__ = _binary(operator.xor)


def sqrt(x: Any) -> Any:
    """`math.sqrt` of a number, or of one that is known only at run time."""
    return x.tracer.number(math.sqrt, (x,)) if type(x) is SymNumber else math.sqrt(x)


def holds(what: str, fn: Callable[..., Any], *operands: Any) -> bool:
    """True if `fn` of numbers is true. A condition that only the run knows is checked by it, as
    `what`."""
    tracer = next((x.tracer for x in operands if type(x) is SymNumber), None)
    if tracer is None:
        return bool(fn(*operands))
    found = tracer.decide(fn, *operands)
    if found is None:
        tracer.check(what, fn(*operands).handle)
    return found is not False


def must_be(what: str, fn: Callable[..., Any], *operands: Any) -> None:
    """RuntimeError unless `fn` of numbers is true."""
    if not holds(what, fn, *operands):
        raise RuntimeError(what)
