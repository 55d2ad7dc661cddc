"""Beside capture: the symbols of one program. Questions about sizes -> guards and run-time numbers.

`eager.sizes.symint` says what a size may be; here is who its symbols ask. A symbol is an input of
the graph, an int that the entry reads (`x.shape[0]`); a size that is an operand is arithmetic on
those inputs, and an answer that depends on the values at hand is a guard on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from eager.core.sym import SymNumber
from eager.sizes.aval import contiguous_strides
from eager.sizes.substitute import symbols_in as symbols_in
from eager.sizes.symint import (
    Atom,
    Least,
    Monomial,
    Most,
    Quotient,
    Scope,
    Symbol,
    SymInt,
    evaluate,
    terms_of,
)

Question: TypeAlias = "tuple[str, SymInt | int, bool]"  # relation, size, whether it holds


class Sizes(Scope):
    """The symbols of one graph. `guards`: the questions that were answered, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[str, Any] = {}  # each symbol as a run-time number
        self.guards: list[Question] = []
        self.asked: list[Question] | None = None  # inside `asking`

    def guard(self, relation: str, size: SymInt, holds: bool) -> None:
        self.guards.append((relation, size, holds))
        if self.asked is not None:
            self.asked.append((relation, size, holds))

    @contextmanager
    def asking(
        self, values: Mapping[str, int], *, of_data: bool = True
    ) -> Iterator[list[Question]]:
        """Questions inside are answered for these values of the symbols; `of_data`: of those that
        data decided, too. The answers are listed, for whoever asked to check, and forgotten: what
        is asked elsewhere does not rest on them."""
        symbols = [(s, s.hint, s.lo, s.hi, s.of_data) for s in self.symbols.values()]
        before = self.guards, self.answers, self._ranges
        self.guards, self.asked = [*self.guards], []
        self.answers, self._ranges = dict(self.answers), dict(self._ranges)
        for symbol, *_ in symbols:
            if of_data or not symbol.of_data:
                symbol.hint = values.get(symbol.name, symbol.hint)
                symbol.of_data = symbol.of_data and symbol.name not in values
        try:
            yield self.asked
        finally:
            self.guards, self.answers, self._ranges = before
            self.asked = None
            self.spans.clear()
            contiguous_strides.cache_clear()  # what it knows may rest on an answer
            for symbol, value, lo, hi, open_ in symbols:
                symbol.hint, symbol.lo, symbol.hi, symbol.of_data = value, lo, hi, open_

    def number(self, size: SymInt | int) -> Any:
        """A run-time number with the value of `size`: the same arithmetic on those of symbols."""
        parts = [self._product(monomial, c) for monomial, c in terms_of(size)]
        return sum(parts[1:], start=parts[0]) if parts else 0

    def _product(self, monomial: Monomial, c: int) -> Any:
        if not monomial:
            return c
        first, *others = map(self._of_atom, monomial)
        product = math.prod(others, start=first)
        return product if c == 1 else product * c

    def _of_atom(self, atom: Atom) -> Any:
        if isinstance(atom, Symbol):
            return self.numbers[atom.name]
        a, b = map(self.number, atom.operands())
        if isinstance(atom, Least):
            number = a if isinstance(a, SymNumber) else b
            return number.tracer.number(max if isinstance(atom, Most) else min, (a, b))
        return a // b if isinstance(atom, Quotient) else a % b


def sides(size: SymInt) -> tuple[Any, Any]:
    """(x, y) with size == x - y and no minus sign in either: what a comparison is written with."""
    plus: Any = 0
    minus: Any = 0
    for monomial, c in size.terms:
        term = SymInt(((monomial, abs(c)),)) if monomial else abs(c)
        if c > 0:
            plus = plus + term
        else:
            minus = minus + term
    return plus, minus


def holds(relation: str, size: SymInt | int, values: Mapping[str, int]) -> bool:
    """True if `size == 0` ("==") or `size >= 0` (">=") where symbols have these values."""
    value = evaluate(size, values)
    return value == 0 if relation == "==" else value >= 0
