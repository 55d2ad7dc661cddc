"""Beneath sizes that are symbols: what is sure of them. a size -> its range, whether it is 0.

Every symbol knows a range, and a scope what guards have said of sums; a polynomial's range follows
term by term, or from what a division is at most and at least. Nothing is guarded here.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import reduce
from math import gcd, inf
from typing import Any, Final

from eager.sizes.polynomial import (
    FUNCTIONS,
    Atom,
    Bound,
    Divided,
    Least,
    Monomial,
    Most,
    Quotient,
    Remainder,
    Symbol,
    SymInt,
    Terms,
    add,
    common,
    mul,
    negative,
    of_atom,
    size_of,
    split,
    terms_of,
    without,
)


def atom_bounds(atom: Atom) -> tuple[Bound, Bound]:
    """Range of an atom: by those of its operands, and by what guards have said of it."""
    if isinstance(atom, Symbol):
        return atom.lo, atom.hi
    scope = of_atom(atom).scope
    found = scope.spans.get(atom)
    if found is None:
        lo, hi = _SPANS[type(atom)](atom)
        least, most = scope.range_of((((atom,), 1),))
        found = scope.spans[atom] = max(lo, least), min(hi, most)
    return found


def _quotient_span(x: Quotient) -> tuple[Bound, Bound]:
    (lo, hi), (least, most) = bounds(x.a), bounds(x.b)
    if least < 1:
        return -inf, inf
    ends = [_floordiv(end, by) for end in (lo, hi) for by in (least, most)]
    return min(ends), max(ends)


def _remainder_span(x: Remainder) -> tuple[Bound, Bound]:
    least, most = bounds(x.b)
    if least < 1:
        return -inf, inf
    lo, hi = bounds(x.a)
    return 0, min(most - 1, hi) if lo >= 0 else most - 1


def _choice_span(x: Least) -> tuple[Bound, Bound]:
    ends = zip(bounds(x.a), bounds(x.b), strict=True)
    lo, hi = (FUNCTIONS[x.sign](*pair) for pair in ends)  # type: ignore[arg-type]
    return lo, hi


_SPANS: Final[dict[type, Any]] = {
    Quotient: _quotient_span, Remainder: _remainder_span, Least: _choice_span, Most: _choice_span,
}  # fmt: skip


def _limits(x: Divided, above: bool) -> Iterator[tuple[SymInt | int, int]]:
    """(y, k) with k * x <= y (`above`), or >= y: linear in the parts."""
    if isinstance(x, Least):
        if above is not isinstance(x, Most):
            yield x.a, 1
            yield x.b, 1
        return
    least, most = bounds(x.b)
    if least < 1:
        return
    positive = bounds(x.a)[0] >= 0
    if isinstance(x, Remainder):
        if above and isinstance(x.b, SymInt):
            yield add(x.b, 1, -1), 1
        if above and positive:
            yield x.a, 1
    elif above and (positive or least == most):
        yield x.a, int(least)
    elif least == most:
        yield add(x.a, int(least) - 1, -1), int(least)


def _floordiv(x: Bound, y: Bound) -> Bound:
    if x in (inf, -inf):
        return x
    return (0 if x >= 0 else -1) if y == inf else x // y


def bounds(x: SymInt | int) -> tuple[Bound, Bound]:
    """The least and the greatest value that `x` may have, as far as it is known."""
    if not isinstance(x, SymInt):
        return x, x
    scope = x.scope
    found = scope.spans.get(x.terms)
    if found is None:
        lo, hi = _least(x.terms), -_least(negative(x.terms))
        rest, const = split(x.terms)
        least, most = scope.range_of(rest)
        found = scope.spans[x.terms] = max(lo, least + const), min(hi, most + const)
    return found


MOST_STEPS: Final = 8  # from divisions to their operands, for one bound: each step may branch
MOST_TERMS: Final = 8  # of what is looked into so


def _least(terms: Terms, steps: list[int] | None = None) -> Bound:
    """A lower bound: by the ranges of atoms, and by what divisions are at least, or at most."""
    steps = steps or [MOST_STEPS]
    least = _by_rooms(terms)
    if len(terms) > MOST_TERMS:
        return least
    for i, (monomial, c) in enumerate(terms):
        for atom in monomial:
            if least >= 0:
                return least
            if isinstance(atom, Divided):
                rest = size_of(dict(terms[:i] + terms[i + 1 :]))
                others = without(monomial, (atom,)) or ()
                if not any(atom_bounds(x)[0] < 0 for x in others):
                    factor = size_of({others: c})
                    least = max(least, _by_limits(atom, factor, rest, steps))
    return least


def _by_limits(atom: Divided, factor: Any, rest: Any, steps: list[int]) -> Bound:
    """A lower bound of `atom * factor + rest`, where a factor is a number times what is not
    negative."""
    least: Bound = -inf
    for limit, k in _limits(atom, above=terms_of(factor)[0][1] < 0):
        if steps[0] <= 0:
            return least
        steps[0] -= 1
        bound = add(mul(rest, k), mul(factor, limit))
        low = _least(bound.terms, steps) if isinstance(bound, SymInt) else bound
        least = max(least, low if low in (inf, -inf) else -(-low // k))
    return least


def _by_rooms(terms: Terms) -> Bound:
    """Each atom is its least value and a rest of at least 0: the product of that, multiplied out,
    is at least its constant, but for terms with a negative coefficient."""
    table: dict[Monomial, int] = {}
    room: dict[Atom, Bound] = {}
    for monomial, c in terms:
        parts: dict[Monomial, int] = {(): c}
        for atom in monomial:
            lo, hi = atom_bounds(atom)
            if lo == -inf:
                return _interval(terms)[0]
            room[atom] = hi - lo
            grown: dict[Monomial, int] = {}
            for m, k in parts.items():
                grown[m] = grown.get(m, 0) + k * int(lo)
                more = (*m, atom)
                grown[more] = grown.get(more, 0) + k
            parts = grown
        for m, k in parts.items():
            table[m] = table.get(m, 0) + k
    least: Bound = table.pop((), 0)
    for m, k in table.items():
        if k < 0:
            most = _product([room[atom] for atom in m])
            if most == inf:
                return _interval(terms)[0]
            least += k * most
    return least


def _interval(terms: Terms) -> tuple[Bound, Bound]:
    """Term by term."""
    lo: Bound = 0
    hi: Bound = 0
    for monomial, c in terms:
        low: Bound = 1
        high: Bound = 1
        for atom in monomial:
            ends = [_product((x, y)) for x in (low, high) for y in atom_bounds(atom)]
            low, high = min(ends), max(ends)
        low, high = (low, high) if c > 0 else (high, low)
        lo, hi = lo + c * low, hi + c * high
    return lo, hi


def _product(values: Any) -> Bound:
    return 0 if 0 in values else reduce(operator.mul, values, 1)


# ---- questions


def known(relation: str, x: SymInt | int) -> bool | None:
    """True if x == 0, or x >= 0, by the ranges; False if not; None if they do not say."""
    if not isinstance(x, SymInt):
        return x == 0 if relation == "==" else x >= 0
    lo, hi = bounds(x)
    if relation == ">=":
        return True if lo >= 0 else False if hi < 0 else None
    return True if lo == hi == 0 else False if lo > 0 or hi < 0 else None


def simplest(relation: str, x: SymInt | int) -> SymInt | int:
    """Simplest size that is 0 (or at least 0) just when `x` is: positive factors that all terms
    share are left out, and `k * (a // k)` is `a - a % k`."""
    x = _even(x)
    if not isinstance(x, SymInt):
        return x
    rest, const = split(x.terms)
    if not const:
        shared = [a for a in rest[0][0] if atom_bounds(a)[0] > 0]
        for monomial, _ in rest[1:]:
            shared = common(shared, monomial)
        if shared:
            rest = tuple((without(m, tuple(shared)) or (), c) for m, c in rest)
            x = size_of(dict(rest))
            if not isinstance(x, SymInt):
                return x
            rest, const = split(x.terms)
    k = gcd(*(c for _, c in rest))
    if relation == "==":
        if const % k:
            return 1
        k = -k if rest[0][1] < 0 else k
    table = {m: c // k for m, c in rest}
    return size_of({**table, (): const // k})


def _even(x: SymInt | int) -> SymInt | int:
    """`x` with `a - a % k` for `k * (a // k)`."""
    for monomial, c in terms_of(x):
        for atom in monomial:
            if isinstance(atom, Quotient):
                (factor, k), *more = terms_of(atom.b)
                others = without(monomial, (atom, *factor))
                if others is None or more or c % k:
                    continue
                whole = add(atom.a, of_atom(Remainder(atom.a, atom.b)), -1)
                rest = add(x, size_of({monomial: c}), -1)
                return _even(add(rest, mul(size_of({others: c // k}), whole)))
    return x
