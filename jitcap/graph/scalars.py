"""Tracing, numbers: Python's arithmetic on numbers that only the graph knows. SymNumber -> nodes.

A number that a run computes (`loss.item()`) is an expression of Python functions over scalars of
the graph. Where it is returned or printed, Python itself evaluates the expression after the run, so
that it is exact. Where a tensor op takes it, it becomes int64 or float64 nodes (`lower`). What
Python would raise on the way (a divisor of zero, a domain, an overflow) must be known before any
effect: `preconditions` says what an operation needs to go well, and the graph checks it. A
condition may be stricter than Python's rule, because a run that fails only means that the function
runs plainly.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from eager.base import dtype as dt
from eager.core.op import REGISTRY
from eager.core.sym import PLAIN, SymNumber
from eager.sizes.aval import Aval
from jitcap.base.walks import after_parents
from jitcap.graph.graph import Arg, Node

Function = Callable[..., Any]
INT_LIMIT: Final = 9.2e18  # below 2**63 by more than the rounding of a float64
EXACT: Final = 2.0**53  # ints up to this are floats
SHIFT: Final = 4096  # more is no arithmetic, but a way to fill memory
EXP_LIMIT: Final = 700.0  # e**x is finite
_AVALS: Final = {
    bool: Aval((), dt.bool_, weak=True),
    int: Aval((), dt.int64, weak=True),
    float: Aval((), dt.float64, weak=True),
    complex: Aval((), dt.complex128, weak=True),
}


class Unlowered(Exception):
    """An operation that has no counterpart in the graph, or whose failure cannot be checked."""


class Scalars(Protocol):
    """Interface of the tracer for numbers."""

    conditions: set[Any]  # that are checked

    def emit(self, op: Any, operands: Any, attrs: Any, outs: Any) -> tuple[Any, ...]: ...
    def check(self, what: str, *conditions: Arg) -> Any: ...
    def decide(self, fn: Function, *operands: Any) -> bool | None: ...
    def touch(self, state: Any) -> None: ...


def plain_type(pytype: type) -> type:
    """The Python type whose values a number's are: float for np.float64."""
    return PLAIN.get(pytype, pytype)


def simple(x: Any) -> Any:
    """A number of a subclass (an IntEnum) as one of its base: it has no arithmetic of its own."""
    if type(x) in _SIMPLE or isinstance(x, SymNumber | np.generic):
        return x
    bases: tuple[Any, ...] = (int, float, complex)
    return next((t(x) for t in bases if isinstance(x, t)), x)


def total(*numbers: Any) -> Any:
    """Their sum, as this version of Python adds."""
    return sum(numbers)


def emit(
    tracer: Scalars, name: str, pytype: type, *operands: Arg, attrs: dict[str, Any] | None = None
) -> Node:
    """Append the op `name` on numbers; its result is of type `pytype`."""
    if name == "cast":
        attrs = {"dtype": _AVALS[pytype].dtype}
    node: Node
    (node,) = tracer.emit(REGISTRY[name], operands, attrs or {}, (_AVALS[pytype],))
    return node


def require(tracer: Scalars, what: str, holds: Arg) -> None:
    """Have the graph check a condition, once. Raises Unlowered if it is known to be false."""
    if holds is False:
        raise Unlowered(what)
    if holds is not True and holds not in tracer.conditions:
        tracer.conditions.add(holds)
        tracer.check(what, holds)


# ---- types


def result_type(fn: Function, operands: tuple[Any, ...]) -> type:
    """The type of `fn(*operands)`, whatever the values are. Raises Unlowered if they decide it."""
    samples = [x.pytype(1) if isinstance(x, SymNumber) else x for x in operands]
    try:
        with np.errstate(all="ignore"):
            value = fn(*samples)
    except Exception as error:
        raise Unlowered(str(error)) from error
    if type(value) not in _SIMPLE:
        raise Unlowered(f"a {type(value).__name__}")
    return type(value)


_SIMPLE: Final = frozenset({bool, int, float, complex, np.float64, np.bool_})


# ---- lowering


def lower(tracer: Scalars, number: SymNumber) -> Arg:
    """The value of a number as a node (or a Python number). What overflows int64 is checked."""
    for top in after_parents(number, operands_of, lambda n: n.node is not None):
        tracer.touch(top)
        top.node = _node(tracer, top)
    return number.node


def operands_of(number: SymNumber) -> list[SymNumber]:
    """The run-time numbers that one is computed from."""
    return [a for a in number.args if isinstance(a, SymNumber)]


def _node(tracer: Scalars, number: SymNumber) -> Arg:
    if number.fn is None:
        return number.tracer.leaf_handle(number)  # type: ignore[attr-defined]
    operands = [_Operand(tracer, a) for a in number.args]
    kind = plain_type(number.pytype)
    if any(x.kind is complex for x in operands) and number.fn not in _COMPLEX:
        raise Unlowered(f"{_name(number.fn)}() of complex numbers")
    if number.fn in _CONVERSIONS:
        return _converted(tracer, number.fn, kind, *operands)
    if number.fn is total and all(x.kind is float for x in operands):
        return _total(tracer, *(x.arg for x in operands))
    if number.fn in _EXTREMES:
        return _extreme(tracer, number.fn, kind, *(x.arg for x in operands))
    name = _OPS.get(number.fn)
    if name is None:
        raise Unlowered(f"{_name(number.fn)}() of a value that is known only when the program runs")
    if kind is int:
        return _integer(tracer, number.fn, name, operands)
    if name in _COMPARISONS or kind is bool:
        return _truth(tracer, name, operands)
    if number.fn is operator.truediv:
        return emit(tracer, name, kind, *(x.exact() for x in operands))
    return emit(tracer, name, kind, *(x.number() for x in operands))


def _total(tracer: Scalars, first: Arg, *others: Arg) -> Arg:
    """A sum of floats that adds in the end what each step lost by rounding, if that is a number."""

    def of(name: str, x: Arg, y: Arg) -> Arg:
        return emit(tracer, name, float, x, y)

    lost: Arg = 0.0
    for x in others:
        new = of("add", first, x)
        part = of("sub", new, first)
        rest = of("add", of("sub", first, of("sub", new, part)), of("sub", x, part))
        first, lost = new, of("add", lost, rest)
    finite = emit(tracer, "isfinite", bool, lost)
    return emit(tracer, "where", float, finite, of("add", first, lost), first)


def _extreme(tracer: Scalars, fn: Function, kind: type, first: Arg, item: Arg) -> Arg:
    """max() or min() of two numbers of one type: the first, unless the other is beyond it (a NaN
    never is)."""
    beyond = emit(tracer, _EXTREMES[fn], bool, item, first)
    return emit(tracer, "where", kind, beyond, item, first)


class _Operand:
    """An operand of the operation that is lowered."""

    def __init__(self, tracer: Scalars, value: Any) -> None:
        self.tracer = tracer
        is_sym = isinstance(value, SymNumber)
        self.arg: Arg = value.node if is_sym else value
        self.kind = plain_type(value.pytype if is_sym else type(value))

    def integer(self) -> Arg:
        """A bool as an int."""
        return self._as(int) if self.kind is bool else self.arg

    def number(self) -> Arg:
        """The operand as a float, or a complex number."""
        return self._as(float) if self.kind in (bool, int) else self.arg

    def exact(self) -> Arg:
        """The operand as a float of the same value; of an int this is checked."""
        if self.kind is int:
            require(self.tracer, "an int that is a float", self.within(EXACT))
        return self.number()

    def within(self, limit: float) -> Arg:
        """True if the magnitude is below `limit`; a node, if the operand is one."""
        if not isinstance(self.arg, Node):
            return abs(self.arg) < limit
        return emit(self.tracer, "lt", bool, emit(self.tracer, "abs", float, self.number()), limit)

    def _as(self, kind: type) -> Arg:
        if isinstance(self.arg, Node):
            return emit(self.tracer, "cast", kind, self.arg)
        if kind is float and not abs(self.arg) < INT_LIMIT:
            raise Unlowered("an int beyond 64 bits")
        number: Arg = kind(self.arg)
        return number


def _integer(tracer: Scalars, fn: Function, name: str, operands: list[_Operand]) -> Arg:
    """An operation on ints. The same one on floats says whether it stays within 64 bits."""
    whole = [x.integer() for x in operands]
    if any(not isinstance(a, Node) and not abs(a) < INT_LIMIT for a in whole):
        raise Unlowered("an int beyond 64 bits")
    if fn in _SHIFTS:
        require(tracer, "a shift within 64 bits", operands[1].within(63))
    if fn in _GROWS:
        wide = emit(tracer, _GROWS[fn], float, *(x.number() for x in operands))
        size = emit(tracer, "abs", float, wide)
        if fn is operator.lshift:
            power = emit(tracer, "pow", float, 2.0, operands[1].number())
            size = emit(
                tracer, "mul", float, emit(tracer, "abs", float, operands[0].number()), power
            )
        require(tracer, "an int within 64 bits", emit(tracer, "lt", bool, size, INT_LIMIT))
    return emit(tracer, name, int, *whole)


def _truth(tracer: Scalars, name: str, operands: list[_Operand]) -> Arg:
    kinds = {x.kind for x in operands}
    if kinds == {bool} or complex in kinds:
        return emit(tracer, name, bool, *(x.arg for x in operands))
    if float in kinds:
        return emit(tracer, name, bool, *(x.exact() for x in operands))
    return emit(tracer, name, bool, *(x.integer() for x in operands))


def _converted(tracer: Scalars, fn: Function, kind: type, x: _Operand, *rest: _Operand) -> Arg:
    """int(), float(), floor() and their like of one number."""
    if rest:
        raise Unlowered("a number of places to round to")
    if x.kind is kind or (x.kind is bool and kind is int):
        return x.integer() if kind is int else x.arg
    if kind is int:
        op = _CONVERSIONS[fn]
        whole = emit(tracer, op, float, x.arg) if op else x.arg
        return emit(tracer, "cast", int, whole)
    return emit(tracer, "cast", kind, x.arg)


# ---- what must hold


class Condition(NamedTuple):
    """Precondition of a run: in words, and as a value of the graph."""

    what: str
    holds: Arg


def preconditions(tracer: Scalars, fn: Function, operands: tuple[Any, ...]) -> Iterator[Condition]:
    """Sufficient conditions for `fn(*operands)` to succeed. Raises Unlowered if none are known."""
    if fn in TOTAL:
        return
    rule = _RULES.get(fn)
    if rule is None:
        raise Unlowered(f"{_name(fn)}() of a value that is known only when the program runs")
    yield from rule(tracer, *operands)


def _handle(x: Any) -> Arg:
    return x.handle if isinstance(x, SymNumber) else x


def _float(tracer: Scalars, x: Any) -> Arg:
    if isinstance(x, SymNumber):
        node = x.handle
        is_float = plain_type(x.pytype) in (float, complex)
        return node if is_float or not isinstance(node, Node) else emit(tracer, "cast", float, node)
    return float(x)


def _is(tracer: Scalars, name: str, x: Arg, y: Arg) -> Arg:
    if isinstance(x, Node) or isinstance(y, Node):
        return emit(tracer, name, bool, x, y)
    return bool(getattr(operator, name)(x, y))


def bounds(tracer: Scalars, fn: Function, operands: tuple[Any, ...]) -> tuple[float, float] | None:
    """Between which floats `fn(*operands)` is sure to lie, if that is known (it is no NaN then)."""
    if fn is operator.pow:
        return (0.0, 1.0) if _is_fraction(tracer, operands[0]) else None
    between = _INTERVALS.get(fn)
    known = [_bounds_of(x) for x in operands]
    if between is None or any(b is None for b in known):
        return None
    ends = [between(a, b) for a in known[0] or () for b in known[-1] or ()]
    return (min(ends), max(ends)) if all(map(math.isfinite, ends)) else None


def _bounds_of(x: Any) -> tuple[float, float] | None:
    if isinstance(x, SymNumber):
        return x.bounds
    return (float(x), float(x)) if type(x) in (int, float) and abs(x) < INT_LIMIT else None


def _is_fraction(tracer: Scalars, x: Any) -> bool:
    """True if x is known to be in (0, 1]: its powers are, if the exponent is not negative."""
    return bool(tracer.decide(operator.gt, x, 0) and tracer.decide(operator.le, x, 1))


# Rounding keeps the order, so the ends of an interval are found in floats.
_INTERVALS: Final[dict[Function, Function]] = {
    operator.add: operator.add, operator.sub: operator.sub, operator.mul: operator.mul,
    max: max, min: min,
}  # fmt: skip


def _divisor(tracer: Scalars, x: Any, y: Any) -> Iterator[Condition]:
    low, high = _bounds_of(y) or (0.0, 0.0)
    if low > 0 or high < 0:
        return
    if tracer.decide(operator.ne, y, 0) is not True:
        yield Condition("a divisor that is not zero", _is(tracer, "ne", _handle(y), 0))


def _true_division(tracer: Scalars, x: Any, y: Any) -> Iterator[Condition]:
    yield from _divisor(tracer, x, y)
    _fitting(x, y)


def _mixed(tracer: Scalars, *operands: Any) -> Iterator[Condition]:
    """An int beside a float becomes one, or overflows: it must fit 64 bits."""
    if {float, complex} & set(map(_kind, operands)):
        _fitting(*operands)
    return iter(())


def _fitting(*operands: Any) -> None:
    """Ints that become floats do not overflow: what has a handle fits 64 bits."""
    for x in operands:
        if isinstance(x, SymNumber) and x.pytype is int:
            _handle(x)
        elif type(x) is int and abs(x) >= INT_LIMIT:
            raise Unlowered("an int beyond 64 bits")


def _kind(x: Any) -> type:
    return plain_type(x.pytype if isinstance(x, SymNumber) else type(x))


def _power(tracer: Scalars, x: Any, y: Any) -> Iterator[Condition]:
    kinds = {_kind(x), _kind(y)}
    if complex in kinds:
        raise Unlowered("a power of complex numbers")
    return (_int_power if kinds <= {int, bool} else _float_power)(tracer, x, y)


def _float_power(tracer: Scalars, x: Any, y: Any) -> Iterator[Condition]:
    _fitting(x, y)
    if _is_fraction(tracer, x) or tracer.decide(operator.eq, x, 0):
        yield Condition("an exponent that is not negative", _is(tracer, "ge", _handle(y), 0))
        return
    if not isinstance(y, SymNumber):  # a whole one is for numbers of any sign, if it is positive
        whole = float(y).is_integer()
        test = "ge" if y >= 0 else "gt"
        if not whole or y < 0:
            test = "ne" if whole else test
            yield Condition("a base that has this power", _is(tracer, test, _handle(x), 0))
    elif not tracer.decide(operator.gt, x, 0):
        if isinstance(x, SymNumber) and tracer.decide(operator.le, x, 0):
            raise Unlowered("a power of a negative number")
        yield Condition("a power of a positive number", _is(tracer, "gt", _handle(x), 0))
    power = emit(tracer, "pow", float, _float(tracer, x), _float(tracer, y))
    size = emit(tracer, "abs", float, power)
    yield Condition("a power that is a number", _is(tracer, "ne", size, math.inf))


def _int_power(tracer: Scalars, x: Any, y: Any) -> Iterator[Condition]:
    if not isinstance(y, SymNumber):
        if y < 0:
            yield Condition("a power of what is not zero", _is(tracer, "ne", _handle(x), 0))
        elif y > SHIFT:
            raise Unlowered("a large power")
        return
    yield Condition("an exponent that is not negative", _is(tracer, "ge", _handle(y), 0))
    yield Condition("an exponent that is not large", _is(tracer, "le", _handle(y), SHIFT))


def _shift(tracer: Scalars, x: Any, y: Any) -> Iterator[Condition]:
    if isinstance(y, SymNumber):
        yield Condition("a shift that is not negative", _is(tracer, "ge", _handle(y), 0))
        yield Condition("a shift that is not large", _is(tracer, "le", _handle(y), SHIFT))
    elif y > SHIFT:
        raise Unlowered("a large shift")


def _to_int(tracer: Scalars, x: Any, *places: Any) -> Iterator[Condition]:
    """int(), floor() and their like: of what is finite, and fits 64 bits."""
    kind = _kind(x)
    if places and not (type(places[0]) is int and 0 <= places[0] < 300):
        raise Unlowered("a number of places to round to")
    if kind is complex:
        raise Unlowered("an int of a complex number")
    if kind is float and not places:
        size = emit(tracer, "abs", float, x.handle)
        yield Condition("a float that fits an int", _is(tracer, "lt", size, INT_LIMIT))


def _domain(what: str, *tests: tuple[str, float]) -> Function:
    """A function of one number, each test of which must hold."""

    def rule(tracer: Scalars, x: Any, *more: Any) -> Iterator[Condition]:
        if more:
            raise Unlowered("a function of two numbers")
        known = _bounds_of(x)
        if known and all(getattr(operator, name)(end, b) for name, b in tests for end in known):
            return
        value = _float(tracer, x)
        for name, bound in tests:
            yield Condition(what, _is(tracer, name, value, bound))

    return rule


def _magnitude(what: str, limit: float) -> Function:
    def rule(tracer: Scalars, x: Any) -> Iterator[Condition]:
        value = _float(tracer, x)
        size = emit(tracer, "abs", float, value) if isinstance(value, Node) else abs(value)
        yield Condition(what, _is(tracer, "le", size, limit))

    return rule


def _alike(tracer: Scalars, *operands: Any) -> Iterator[Condition]:
    """max() and min(), whose result has the type of one of them."""
    kinds = {x.pytype if isinstance(x, SymNumber) else type(x) for x in operands}
    if kinds not in ({int}, {float}):
        raise Unlowered("max() or min() of numbers of several types")
    for x in operands:
        _fitting(x)
    return iter(())


def _absolute(tracer: Scalars, x: Any) -> Iterator[Condition]:
    if x.pytype is complex:
        raise Unlowered("abs() of a complex number")
    return iter(())


def _fits(tracer: Scalars, x: Any) -> Iterator[Condition]:
    """float(n), math functions of any number: the int must fit 64 bits."""
    _fitting(x)
    return iter(())


def _name(fn: Function) -> str:
    return getattr(fn, "__name__", "a function")


_COMPARISONS: Final = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_OPS: Final[dict[Function, str]] = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.truediv: "div",
    operator.floordiv: "floor_divide", operator.mod: "remainder", operator.pow: "pow",
    operator.eq: "eq", operator.ne: "ne", operator.lt: "lt", operator.le: "le",
    operator.gt: "gt", operator.ge: "ge", operator.neg: "neg", abs: "abs", math.fabs: "abs",
    operator.and_: "bitwise_and", operator.or_: "bitwise_or", operator.xor: "bitwise_xor",
    operator.invert: "bitwise_not", operator.lshift: "bitwise_left_shift",
    operator.rshift: "bitwise_right_shift", math.pow: "pow",
    math.sqrt: "sqrt", math.exp: "exp", math.log: "log", math.sin: "sin", math.cos: "cos",
    math.tan: "tan", math.tanh: "tanh", math.sinh: "sinh", math.cosh: "cosh", math.atan: "atan",
    math.asin: "asin", math.acos: "acos", math.log1p: "log1p", math.expm1: "expm1",
    math.log2: "log2", math.log10: "log10", math.erf: "erf",
    math.isnan: "isnan", math.isinf: "isinf", math.isfinite: "isfinite",
}  # fmt: skip
_EXTREMES: Final[dict[Function, str]] = {max: "gt", min: "lt"}
_CONVERSIONS: Final[dict[Function, str]] = {
    int: "", float: "", complex: "", operator.pos: "", round: "round", math.floor: "floor",
    math.ceil: "ceil", math.trunc: "",
}  # fmt: skip
_COMPLEX: Final[frozenset[Function]] = frozenset(
    {operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, operator.eq,
     operator.ne, complex, operator.pos}
)  # fmt: skip
_SHIFTS: Final[frozenset[Function]] = frozenset({operator.lshift, operator.rshift})
# What makes ints larger, and how its size is found in floats.
_GROWS: Final[dict[Function, str]] = {
    operator.add: "add", operator.sub: "sub", operator.mul: "mul", operator.pow: "pow",
    operator.neg: "neg", abs: "abs", operator.floordiv: "div", operator.lshift: "add",
}  # fmt: skip
# What never raises, whatever numbers it is given.
TOTAL: Final[frozenset[Function]] = frozenset(
    {operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.neg,
     operator.pos, operator.and_, operator.or_, operator.xor, operator.invert, complex,
     math.isnan, math.isinf, math.isfinite}
)  # fmt: skip
_RULES: Final[dict[Function, Function]] = {
    operator.add: _mixed, operator.sub: _mixed, operator.mul: _mixed, total: _mixed,
    operator.truediv: _true_division, operator.floordiv: _divisor, operator.mod: _divisor,
    operator.pow: _power, math.pow: _float_power,
    operator.lshift: _shift, operator.rshift: _shift, abs: _absolute, max: _alike, min: _alike,
    int: _to_int, round: _to_int, math.floor: _to_int, math.ceil: _to_int, math.trunc: _to_int,
    **dict.fromkeys((float, math.fabs, math.tanh, math.atan, math.erf), _fits),
    math.sqrt: _domain("a square root of what is not negative", ("ge", 0.0)),
    **dict.fromkeys(
        (math.log, math.log2, math.log10), _domain("a logarithm of what is positive", ("gt", 0.0))
    ),
    math.log1p: _domain("a logarithm of what is positive", ("gt", -1.0)),
    **dict.fromkeys(
        (math.exp, math.expm1), _domain("an exponential that is a number", ("le", EXP_LIMIT))
    ),
    **dict.fromkeys((math.sinh, math.cosh), _magnitude("a number", EXP_LIMIT)),
    **dict.fromkeys((math.asin, math.acos), _magnitude("a number from -1 to 1", 1.0)),
    **dict.fromkeys((math.sin, math.cos, math.tan), _magnitude("a finite number", 1e308)),
}  # fmt: skip
