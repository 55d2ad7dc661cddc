"""Under capture: a size that is known only at run time. Python's int operators -> polynomials of
symbols.

A `SymInt` stands where a size would: in an aval's shape, in strides, among an op's attributes. It
is a polynomial with integer coefficients over atoms

    Symbol           an int read at run time: `x.shape[0]`, an argument that shapes something
    Quotient(a, b)   a // b
    Remainder(a, b)  a % b

in one normal form, so equal sizes are equal (`(n + 1) - 1 == n`, `n * 64 // 64 == n`), and what is
constant is an int again. Every symbol knows a range; comparisons are decided by ranges where they
can be. Where they cannot, the `Scope` that the symbols belong to answers for the values at hand and
keeps the answer as a guard: a decision on a symbol is never taken without one. Whatever needs the
int itself (`operator.index`, `range(n)`, an array's shape) fixes it the same way. What is no
arithmetic of ints (`n / 2`) goes on with the scope's run-time number.

Questions that are better left open than guarded (may this be simplified?) go through `known_le` and
its like, which say None; estimates (is it worth it?) through `hint`.

    >>> scope = Fixing()
    >>> n = scope.symbol("n", 32)
    >>> (n * 64 + 63) // 64, n * 4 % 4, n < 2
    (n, 0, False)
    >>> n // 2 + 1
    (n//2) + 1
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from functools import reduce
from math import gcd
from typing import Any, Final, TypeAlias

from eager.base import dtype as dt
from eager.sizes.polynomial import (
    Atom,
    Least,
    Monomial,
    Most,
    Quotient,
    Remainder,
    Scope,
    Symbol,
    SymInt,
    Terms,
    add,
    common,
    divide,
    evaluate,
    hint,
    mul,
    of_atom,
    of_data,
    size_of,
    symbols_of,
    terms_of,
    text,
)
from eager.sizes.size_ranges import atom_bounds, bounds, known, simplest

__all__ = [
    "Atom",
    "Fixing",
    "Least",
    "Monomial",
    "Most",
    "Quotient",
    "Remainder",
    "Scope",
    "SymInt",
    "Symbol",
    "Terms",
    "add",
    "bounds",
    "decide",
    "divide",
    "evaluate",
    "expect_general",
    "expect_same",
    "hint",
    "index",
    "integer",
    "is_empty",
    "is_int",
    "is_one",
    "is_single",
    "known_eq",
    "known_le",
    "known_lt",
    "least",
    "most",
    "of_atom",
    "of_data",
    "slice_bounds",
    "sqrt",
    "symbols_of",
    "terms_of",
    "text",
]


class Fixing(Scope):
    """A scope for tests and tools: guards are listed as text, and there are no run-time numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.guards: list[str] = []

    def guard(self, relation: str, size: SymInt, holds: bool) -> None:
        self.guards.append(f"{'' if holds else 'not '}{size} {relation} 0")

    def number(self, size: SymInt) -> Any:
        return operator.index(size)


# ---- questions


def _known(relation: str, x: SymInt | int) -> bool | None:
    """Answer of `known` for x as it stands, or in its simplest form, of which less may be known."""
    found = known(relation, x)
    return known(relation, simplest(relation, x)) if found is None else found


def known_eq(x: SymInt | int, y: SymInt | int) -> bool | None:
    """True if x == y, for whatever values: None if that depends."""
    return _known("==", add(x, y, -1))


def known_le(x: SymInt | int, y: SymInt | int) -> bool | None:
    """True if x <= y, for whatever values: None if that depends."""
    return _known(">=", add(y, x, -1))


def known_lt(x: SymInt | int, y: SymInt | int) -> bool | None:
    """True if x < y, for whatever values: None if that depends."""
    return known_le(add(x, 1), y)


def decide(relation: str, x: SymInt | int) -> bool:
    """True if x == 0 ("==") or x >= 0 (">="), by a guard where it depends."""
    x = simplest(relation, x)
    found = known(relation, x)
    if found is None:
        assert isinstance(x, SymInt)
        found = x.scope.answer(relation, x)
    return found


def expect_same(x: Any, y: Any) -> None:
    """Go on as if x == y, where data decide that: the run checks it."""
    size = simplest("==", add(x, y, -1))
    if isinstance(size, SymInt) and known("==", size) is not True:
        size.scope.expect("==", size)


def expect_general(x: SymInt) -> None:
    """Go on as if x, which data decide, were neither 0 nor 1: the run checks it."""
    for n in (0, 1):
        if known_eq(x, n) is not False:
            x.scope.expect("==", add(x, n, -1), holds=False)  # type: ignore[arg-type]


Ints: TypeAlias = Any  # in annotations of public functions: an int, or a list or tuple of them


def index(x: Any) -> Any:
    """`operator.index(x)`, which a size need not be fixed for: neither a SymInt, nor a run-time
    number that can be one."""
    if type(x) is int or isinstance(x, SymInt):
        return x
    as_size = getattr(type(x), "__size__", operator.index)
    return as_size(x)


def integral(x: Any) -> Any:
    """An int that is given as an argument, also by NumPy or in a tensor; a run-time int stays one.
    TypeError for all else: bools are no ints here."""
    if isinstance(x, bool) or getattr(x, "dtype", None) is dt.bool_:
        raise TypeError("an int is expected")
    return x if is_int(x) else index(x)


def integrals(x: Any) -> Any:
    """An int, or a list or tuple of ints, each as an int or a size. Bools behind the first, and in
    tensors, are ints here, as in PyTorch."""
    if not isinstance(x, tuple | list):
        return integral(x) if isinstance(x, bool) else _plain(x)
    for each in x:  # half the time of `all`
        if type(each) is not int:
            break
    else:
        return x
    if isinstance(x[0], bool):
        raise TypeError("an int is expected")
    settled = [_plain(n) for n in x]
    return settled if isinstance(x, list) else tuple(settled)


def _plain(n: Any) -> Any:
    return (n if type(n) is not bool else int(n)) if is_int(n) else index(n)


def integer(x: Any) -> Any:
    """`int(x)`, which a size need not be fixed for: see `index`."""
    if type(x) is int or isinstance(x, SymInt):
        return x
    return index(x) if getattr(x, "pytype", None) is int else int(x)


def is_one(x: Any) -> bool:
    """True if a size is sure to be 1: asks for no guard."""
    return x == 1 if type(x) is int else known_eq(x, 1) is True


def is_empty(x: Any) -> bool:
    """True if a size is 0. Of one that data decide: if it is sure to be, so that what is done else
    must be right for none as well."""
    if type(x) is int:
        return x == 0
    return known_eq(x, 0) is True if of_data(x) else x == 0


def is_single(x: Any) -> bool:
    """True if a size is 1. Of one that data decide: if it is sure to be, as `is_empty`."""
    return known_eq(x, 1) is True if of_data(x) else x == 1


def sqrt(x: Any) -> Any:
    """`math.sqrt`, of a size as a run-time number."""
    if not isinstance(x, SymInt):
        return math.sqrt(x)
    number = x.number()
    return number.tracer.number(math.sqrt, (number,)) if hasattr(number, "tracer") else number**0.5


def slice_bounds(start: Any, stop: Any, size: Any) -> tuple[Any, Any]:
    """Begin and end of `start:stop` in a dimension: `slice.indices`, of sizes too."""
    if type(size) is int and not isinstance(start, SymInt) and not isinstance(stop, SymInt):
        begin, end, _ = slice(start, stop).indices(size)
        return begin, max(begin, end)
    begin = _clamped(start, size, 0)
    return begin, most(begin, _clamped(stop, size, size))


def _clamped(at: Any, size: Any, default: Any) -> Any:
    if at is None:
        return default
    if of_data(at) and known_le(0, at) is None and known_lt(at, 0) is None:
        at.scope.expect(">=", at)
    return most(at + size, 0) if at < 0 else least(at, size)


def least(x: Any, y: Any) -> Any:
    """The smaller of two sizes; of those that data decide, no matter which."""
    if type(x) is type(y) is int:
        return min(x, y)
    return _chosen(Least, x, y) if of_data(x) or of_data(y) else min(x, y)


def most(x: Any, y: Any) -> Any:
    """The larger of two sizes; of those that data decide, no matter which."""
    if type(x) is type(y) is int:
        return max(x, y)
    return _chosen(Most, x, y) if of_data(x) or of_data(y) else max(x, y)


def _chosen(kind: type[Least], x: Any, y: Any) -> Any:
    for small, large in ((x, y), (y, x)):
        if known_le(small, large):
            return large if kind is Most else small
    x, y = sorted((x, y), key=text)
    return of_atom(kind(x, y))


def is_int(x: Any) -> bool:
    """True if `x` is an int or stands for one."""
    return isinstance(x, int) or isinstance(x, SymInt)  # noqa: SIM101 - a third of the time


def _is_size(x: Any) -> bool:
    """True if `x` is an int or a SymInt: a run-time number is none until it is one (`index`)."""
    return is_int(x) and (type(x) is int or not hasattr(type(x), "__size__"))


# ---- division


def _floor(x: SymInt | int, y: SymInt | int) -> tuple[SymInt | int, SymInt | int]:
    """(x // y, x % y)."""
    if decide("==", y):
        raise ZeroDivisionError("integer division or modulo by zero")
    q, r = divide(x, y)
    factor = _content(r, y)
    if factor != 1:
        r, y = divide(r, factor)[0], divide(y, factor)[0]
    more, left = _remaining(r, y)
    return add(q, more), mul(left, factor)


def _remaining(r: SymInt | int, y: SymInt | int) -> tuple[SymInt | int, SymInt | int]:
    """(r // y, r % y), of what does not divide term by term."""
    if not isinstance(r, SymInt) and not isinstance(y, SymInt):
        return r // y, r % y
    if not isinstance(r, SymInt) and not r:  # whatever the sign of y
        return 0, 0
    if known_le(0, r) and known_lt(r, y):
        return 0, r
    if known_lt(r, 0) and known_le(mul(y, -1), r):  # (n - 1) // n
        return -1, add(r, y)
    left = of_atom(Remainder(r, y))
    inner = _quotient_and(r)
    if inner is not None and isinstance(y, int) and y > 0:
        a, b, c = inner
        return _floor(add(a, b * c), b * y)[0], left
    return of_atom(Quotient(r, y)), left


def _quotient_and(x: SymInt | int) -> tuple[SymInt | int, int, int] | None:
    """(a, b, c) with x == a // b + c and b > 0, if it is such a sum."""
    (monomial, k), *rest = terms_of(x)
    if k != 1 or len(monomial) != 1 or len(rest) > 1 or (rest and rest[0][0]):
        return None
    atom = monomial[0]
    if isinstance(atom, Quotient) and isinstance(atom.b, int) and atom.b > 0:
        return atom.a, atom.b, rest[0][1] if rest else 0
    return None


def _content(x: SymInt | int, y: SymInt | int) -> SymInt | int:
    """A positive factor of every term of both."""
    if not isinstance(x, SymInt):
        return gcd(x, y) if isinstance(y, int) and x else 1
    terms = (*x.terms, *terms_of(y))
    shared = [a for a in terms[0][0] if atom_bounds(a)[0] > 0]
    for monomial, _ in terms[1:]:
        shared = common(shared, monomial)
    return size_of({tuple(shared): gcd(*(c for _, c in terms))})


# ---- operators


def _eq(self: SymInt, other: object) -> Any:
    if self is other:
        return True
    if not _is_size(other):  # a float, a run-time number: never silently another
        number = isinstance(other, numbers.Number) or hasattr(type(other), "__size__")
        return self.number() == other if number else NotImplemented
    difference = add(self, other, -1)  # type: ignore[arg-type]
    if not isinstance(difference, SymInt):
        return difference == 0
    if len({id(s.scope) for s in symbols_of(difference)}) > 1:
        return False  # of two captures: a table that outlives both
    return decide("==", difference)


def _fixed(self: SymInt) -> int:
    """The int itself: fixes the size."""
    if of_data(self):
        self.scope.undecided(self)
    value = hint(self)
    decide("==", add(self, value, -1))
    return value


def _round(self: SymInt, digits: int | None = None) -> Any:
    return self if digits is None else round(_fixed(self), digits)


def _pow(self: SymInt, k: Any) -> Any:
    if type(k) is int and 0 <= k <= MOST_POWER:
        return reduce(mul, [self] * k, _ONE)
    return self.number() ** k


MOST_POWER: Final = 8  # a sum to it is multiplied out, and has many terms
_ONE: Any = 1
Method: TypeAlias = Callable[[SymInt, Any], Any]


def _of_ints(rule: Callable[[SymInt | int, SymInt | int], Any], fn: Any) -> tuple[Method, Method]:
    """An operator and its reflection: `rule` with ints; with other numbers `fn` of a number."""

    def forward(self: SymInt, other: Any) -> Any:
        if _is_size(other):
            return rule(self, other)
        return NotImplemented if hasattr(other, "of_sizes") else fn(self.number(), other)

    def reflected(self: SymInt, other: Any) -> Any:
        if _is_size(other):
            return rule(other, self)
        return NotImplemented if hasattr(other, "of_sizes") else fn(other, self.number())

    return forward, reflected


def _by_number(fn: Any) -> tuple[Method, Method]:
    """An operator that is none of ints alone."""

    def forward(self: SymInt, other: Any) -> Any:
        return fn(self.number(), other.number() if isinstance(other, SymInt) else other)

    return forward, lambda self, other: fn(other, self.number())


_METHODS: Final = {
    "add": _of_ints(add, operator.add),
    "sub": _of_ints(lambda x, y: add(x, y, -1), operator.sub),
    "mul": _of_ints(mul, operator.mul),
    "floordiv": _of_ints(lambda x, y: _floor(x, y)[0], operator.floordiv),
    "mod": _of_ints(lambda x, y: _floor(x, y)[1], operator.mod),
    "truediv": _by_number(operator.truediv),
    "and": _by_number(operator.and_),
    "or": _by_number(operator.or_),
    "xor": _by_number(operator.xor),
    "lshift": _by_number(operator.lshift),
    "rshift": _by_number(operator.rshift),
}
_SPECIAL: Final[dict[str, Callable[..., Any]]] = {
    "eq": _eq,
    "bool": lambda self: not decide("==", self),
    "index": _fixed,
    "int": _fixed,
    "float": lambda self: float(_fixed(self)),
    "pos": lambda self: self,
    "floor": lambda self: self,
    "ceil": lambda self: self,
    "trunc": lambda self: self,
    "round": _round,
    "neg": lambda self: mul(self, -1),
    "abs": lambda self: self if decide(">=", self) else -self,
    "divmod": lambda self, other: (self // other, self % other),
    "rdivmod": lambda self, other: (other // self, other % self),
    "pow": _pow,
    "rpow": lambda self, base: base ** self.number(),
}
for _name, _method in _SPECIAL.items():
    setattr(SymInt, f"__{_name}__", _method)
for _name, (_forward, _reflected) in _METHODS.items():
    setattr(SymInt, f"__{_name}__", _forward)
    setattr(SymInt, f"__r{_name}__", _reflected)
_COMPARISONS: Final = {
    "le": _of_ints(lambda x, y: decide(">=", add(y, x, -1)), operator.le),
    "ge": _of_ints(lambda x, y: decide(">=", add(x, y, -1)), operator.ge),
    "lt": _of_ints(lambda x, y: not decide(">=", add(x, y, -1)), operator.lt),
    "gt": _of_ints(lambda x, y: not decide(">=", add(y, x, -1)), operator.gt),
}
for _name, (_forward, _) in _COMPARISONS.items():
    setattr(SymInt, f"__{_name}__", _forward)
