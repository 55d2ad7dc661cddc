"""Under capture: a Python number whose value is known only at run time. numbers -> scalar nodes in
the graph.

Arithmetic with numbers emits pointwise ops on weak 0-dim values, in Python's own types (int64,
float64). With tensors it is an operand like any Python number. What needs the value itself
(`bool`, `int`, an index, a dict key) asks the tracer, which makes a guard or refuses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eager import dtype as dt
from eager.aval import Aval
from eager.op import REGISTRY
from eager.traced import Handle, Tracer

_AVALS = {
    bool: Aval((), dt.bool_, weak=True),
    int: Aval((), dt.int64, weak=True),
    float: Aval((), dt.float64, weak=True),
    complex: Aval((), dt.complex128, weak=True),
}
_ORDER = (bool, int, float, complex)


class SymNumber:
    """A run-time scalar of Python type `pytype`; `hint` is the value seen while capturing, if
    there was one."""

    __slots__ = ("handle", "hint", "pytype", "tracer")

    def __init__(self, tracer: Tracer, handle: Handle, pytype: type, hint: Any = None) -> None:
        self.tracer = tracer
        self.handle = handle
        self.pytype = pytype
        self.hint = hint

    @property
    def aval(self) -> Aval:
        return _AVALS[self.pytype]

    def __bool__(self) -> bool:
        return bool(self.tracer.concretize(self, bool))

    def __int__(self) -> int:
        return int(self.tracer.concretize(self, int))

    def __float__(self) -> float:
        return float(self.tracer.concretize(self, float))

    def __complex__(self) -> complex:
        return complex(self.tracer.concretize(self, complex))

    def __index__(self) -> int:
        if self.pytype not in (int, bool):
            raise TypeError(f"{self.pytype.__name__!r} object cannot be interpreted as an integer")
        return int(self.tracer.concretize(self, int))

    def __hash__(self) -> int:
        return hash(self.tracer.concretize(self, self.pytype))

    def __repr__(self) -> str:
        return f"SymNumber({self.pytype.__name__}, hint={self.hint!r})"

    def __format__(self, spec: str) -> str:
        return format(self.tracer.concretize(self, self.pytype), spec)

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.tracer.concretize(self, self.pytype), digits)

    @property
    def of_numpy(self) -> bool:
        """Whether Python has a `np.float64` here: a float, but tensors of it are float64."""
        return isinstance(self.hint, np.generic)

    def item(self) -> SymNumber:
        return SymNumber(self.tracer, self.handle, self.pytype) if self.of_numpy else self

    def __eq__(self, other: object) -> Any:
        return _compare("eq", self, other)

    def __ne__(self, other: object) -> Any:
        return _compare("ne", self, other)

    def __lt__(self, other: Any) -> Any:
        return _compare("lt", self, other)

    def __le__(self, other: Any) -> Any:
        return _compare("le", self, other)

    def __gt__(self, other: Any) -> Any:
        return _compare("gt", self, other)

    def __ge__(self, other: Any) -> Any:
        return _compare("ge", self, other)

    def __neg__(self) -> Any:
        return 0 - self if self.pytype is bool else emit_scalar("neg", self.pytype, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self + 0 if self.pytype is bool else emit_scalar("abs", self.pytype, self)

    def __add__(self, other: Any) -> Any:
        return _arithmetic("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return _arithmetic("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return _arithmetic("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return _arithmetic("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return _arithmetic("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return _arithmetic("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return _divide("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _divide("div", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _divide("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _divide("floor_divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return _divide("remainder", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _divide("remainder", other, self)

    def __pow__(self, other: Any) -> Any:
        return _power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return _power(other, self)


def emit_scalar(name: str, pytype: type, *operands: Any) -> SymNumber:
    """Append the pointwise op `name` on numbers; the result is a run-time scalar of type
    `pytype`."""
    tracer = next(x.tracer for x in operands if isinstance(x, SymNumber))
    handles = tuple(x.handle if isinstance(x, SymNumber) else x for x in operands)
    (handle,) = tracer.emit(REGISTRY[name], handles, {}, (_AVALS[pytype],))
    of_numpy = pytype is float and any(isinstance(x, SymNumber) and x.of_numpy for x in operands)
    return SymNumber(tracer, handle, pytype, np.float64("nan") if of_numpy else None)


def _type(x: Any) -> type | None:
    """The Python number type of an operand, or None when it is not a number."""
    if isinstance(x, SymNumber):
        return x.pytype
    return next((t for t in _ORDER if isinstance(x, t)), None)


def _wider(x: Any, y: Any) -> type:
    """The type of `x + y`: at least int."""
    return max(_type(x) or int, _type(y) or int, int, key=_ORDER.index)


def _arithmetic(name: str, x: Any, y: Any) -> Any:
    if _type(x) is None or _type(y) is None:
        return NotImplemented
    return emit_scalar(name, _wider(x, y), x, y)


def _compare(name: str, x: Any, y: Any) -> Any:
    if _type(x) is None or _type(y) is None:
        return NotImplemented
    return emit_scalar(name, bool, x, y)


def _divide(name: str, x: Any, y: Any) -> Any:
    """`/`, `//` and `%`; that the divisor is not zero is part of the program's guards."""
    if _type(x) is None or _type(y) is None:
        return NotImplemented
    if not y != 0:
        raise ZeroDivisionError("division by zero")
    wide = _wider(x, y)
    return emit_scalar(name, float if name == "div" and wide is int else wide, x, y)


def _power(x: Any, y: Any) -> Any:
    if _type(x) is None or _type(y) is None:
        return NotImplemented
    wide = _wider(x, y)
    if wide is int and not y >= 0:  # Python leaves the integers here
        x, wide = x * 1.0, float
    # Asked as of a divisor: what only the graph knows is no error (0 ** -1 is inf, as in tensors).
    if wide is float and not x != 0 and not (y >= 0) != 0:
        raise ZeroDivisionError("0.0 cannot be raised to a negative power")
    return emit_scalar("pow", wide, x, y)
