"""Beneath sizes that are symbols: polynomials in normal form. terms -> terms.

A size is a sum of products of atoms (a symbol, or a division that does not come out even) with
integer coefficients. What is constant is an int. Here is arithmetic that needs no answer; ranges
are `eager.sizes.size_ranges`, operators and questions `eager.sizes.symint`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar, cast

from eager.base.dataclass import dataclass
from eager.base.tracebacks import trim

T = TypeVar("T")
Bound: TypeAlias = "int | float"  # an int, or an infinity


_KEPT: Final = 4096  # answers of one function: then all go, for new shapes never end
_UNKNOWN: Final = object()


def remembered(fn: Callable[..., T]) -> Callable[..., T]:
    """Keep the answers about sizes, which layers ask again; not those about symbols, which may ask
    for a guard. (Nor does looking them up: no key holds one.)"""
    kept: dict[tuple[Any, ...], T] = {}

    @functools.wraps(fn)
    def ask(*args: Any) -> T:
        found: Any = kept.get(args, _UNKNOWN)
        if found is _UNKNOWN:
            try:
                found = fn(*args)
            except Exception as error:
                trim(error)
                raise
            if not _has_symbol(args):
                if len(kept) >= _KEPT:
                    kept.clear()
                kept[args] = found
        return cast("T", found)

    return ask


def _has_symbol(value: Any) -> bool:
    """True if a size, a shape, what has one or a tuple of these is a symbol, or has one."""
    if type(value) is tuple:
        return any(map(_has_symbol, value))
    return isinstance(value, SymInt) or _has_symbol(getattr(value, "shape", ()))


class Scope:
    """Whom the symbols of one capture ask. Closed when its versions are made: no more guards."""

    def __init__(self) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.answers: dict[tuple[str, Terms], bool] = {}  # so far, each with a guard
        self.assumed: dict[tuple[str, Terms], bool] = {}  # of sizes that data decide, with a check
        self.spans: dict[Atom | Terms, tuple[Bound, Bound]] = {}  # found so far
        self._ranges: dict[Terms, tuple[Bound, Bound]] = {}  # that guards hold, without constants

    def symbol(
        self, name: str, hint: int, lo: Bound = 2, hi: Bound = inf, *, of_data: bool = False
    ) -> SymInt:
        """A new symbol, known to lie in [lo, hi]; `hint` is its value now, or (`of_data`) one that
        it may have: data decide it, while the program runs."""
        made = self.symbols[name] = Symbol(self, name, hint, lo, hi, of_data)
        return SymInt((((made,), 1),))

    def answer(self, relation: str, size: SymInt) -> bool:
        """True if `size == 0` ("==") or `size >= 0` (">=") for the values at hand: a guard. Where
        data decide, there is no value at hand: see `assume`."""
        if of_data(size):
            return self._assumed(relation, size)
        key = (relation, size.terms)
        found = self.answers.get(key)
        if found is None:
            value = hint(size)
            found = self.answers[key] = value == 0 if relation == "==" else value >= 0
            self.guard(relation, size, found)
            self._learn(relation, size, found)
        return found

    def expect(self, relation: str, size: SymInt, holds: bool = True) -> None:
        """Go on as if `size == 0` or `size >= 0` held, or did not, of a size that data decide: the
        run checks it before it goes on."""
        if (relation, size.terms) not in self.assumed:
            self.check(relation, size, holds)
            self.know(relation, size, holds)

    def know(self, relation: str, size: SymInt, holds: bool) -> None:
        """Go by this of a size that data decide."""
        self.assumed[relation, size.terms] = holds
        self._learn(relation, size, holds)

    def _assumed(self, relation: str, size: SymInt) -> bool:
        """An answer about a size that data decide: what it nearly always is. Sizes that are
        compared are equal, since else there is nothing to be done with them; but none is 0 or 1."""
        key = (relation, size.terms)
        if key not in self.assumed:
            (monomial, c), *more = split(size.terms)[0]
            if relation == ">=" and (more or c < 0 or split(size.terms)[1]):
                self.undecided(size)
            alone = not more and not isinstance(monomial[0], Remainder)
            small = alone and split(size.terms)[1] * c >= -abs(c)  # whether it is 1, or less
            self.expect(relation, size, relation == ">=" or not small)
        return self.assumed[key]

    def undecided(self, size: SymInt) -> None:
        """Raise for a question about a size that data decide, which may have either answer."""
        raise NotImplementedError

    def check(self, relation: str, size: SymInt, holds: bool) -> None:
        """Have the run check this of a size that data decide."""
        raise NotImplementedError

    def _learn(self, relation: str, size: SymInt, holds: bool) -> None:
        """Keep the range of what is guarded, so that what follows from it is known."""
        self.spans.clear()
        rest, const = split(size.terms)
        lo, hi = self.range_of(rest)
        if relation == "==":
            lo, hi = (-const, -const) if holds else _without_end(lo, hi, -const)
        elif holds:
            lo = max(lo, -const)
        else:
            hi = min(hi, -const - 1)
        self._ranges[rest] = lo, hi
        self._ranges[negative(rest)] = -hi, -lo
        ((monomial, c), *more) = rest
        if not more and len(monomial) == 1 and abs(c) == 1 and isinstance(monomial[0], Symbol):
            lo, hi = (lo, hi) if c > 0 else (-hi, -lo)
            symbol = monomial[0]
            symbol.lo, symbol.hi = max(symbol.lo, lo), min(symbol.hi, hi)

    def range_of(self, terms: Terms) -> tuple[Bound, Bound]:
        """Range that guards have given to a sum without a constant."""
        return self._ranges.get(terms, (-inf, inf))

    def guard(self, relation: str, size: SymInt, holds: bool) -> None:
        """Keep that `size == 0` or `size >= 0` holds, or does not, in what is made."""
        raise NotImplementedError

    def number(self, size: SymInt) -> Any:
        """`size` as a run-time number (`eager.core.sym.SymNumber`)."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class Symbol:
    """An int that is read at run time. `lo`, `hi`: the range that guards hold it in. `of_data`: it
    is known only when part of the program has run."""

    scope: Scope
    name: str
    hint: int
    lo: Bound
    hi: Bound
    of_data: bool = False

    @property
    def text(self) -> str:
        return self.name

    def operands(self) -> tuple[SymInt | int, ...]:
        return ()


@dataclass(slots=True, frozen=True, eq=False)
class Divided:
    """An operation on `a` and `b` that is no polynomial: a division that does not come out even, a
    choice. Compared by its terms: comparing sizes would ask for guards."""

    a: SymInt | int
    b: SymInt | int
    sign: ClassVar[str] = ""

    @property
    def text(self) -> str:
        return f"({_operand(self.a)}{self.sign}{_operand(self.b)})"

    def operands(self) -> tuple[SymInt | int, ...]:
        return self.a, self.b

    def key(self) -> tuple[Any, ...]:
        return self.sign, terms_of(self.a), terms_of(self.b)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Divided) and self.key() == other.key())

    def __hash__(self) -> int:
        return hash((self.sign, self.a, self.b))


class Quotient(Divided):
    """a // b"""

    sign = "//"


class Remainder(Divided):
    """a % b"""

    sign = "%"


class Least(Divided):
    """The smaller of a and b: of sizes that data decide, which cannot be compared before."""

    sign = "min"

    @property
    def text(self) -> str:
        return f"{self.sign}({self.a}, {self.b})"


class Most(Least):
    """The larger of a and b."""

    sign = "max"


Atom: TypeAlias = "Symbol | Quotient | Remainder | Least | Most"
FUNCTIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "//": operator.floordiv, "%": operator.mod, "min": min, "max": max,
}  # fmt: skip
Monomial: TypeAlias = "tuple[Atom, ...]"  # sorted by text; () is 1
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"


class SymInt:
    """A size of which only the symbols are known: `terms` (monomial of atoms, coefficient). Its
    operators are those of `eager.sizes.symint`."""

    __slots__ = ("_hash", "terms")
    __array_ufunc__ = None  # NumPy's numbers leave the operation to this class

    if TYPE_CHECKING:  # installed by `eager.sizes.symint`

        def __eq__(self, other: object) -> bool: ...
        def __bool__(self) -> bool: ...
        def __index__(self) -> int: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self._hash = 0

    @property
    def scope(self) -> Scope:
        return next(symbols_of(self)).scope

    def number(self) -> Any:
        """The size as a run-time number: an operand of tensors, of float arithmetic."""
        return self.scope.number(self)

    def __repr__(self) -> str:
        return text(self)

    def __hash__(self) -> int:
        if not self._hash:
            self._hash = hash(self.terms)
        return self._hash


# ---- arithmetic


def _order(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
    """High powers first, the constant last."""
    return -len(term[0]), [atom.text for atom in term[0]]


def size_of(table: Mapping[Monomial, int]) -> SymInt | int:
    """The size with these coefficients; an int where it is constant."""
    items = [item for item in table.items() if item[1]]
    if not items:
        return 0
    if len(items) > 1:
        items.sort(key=_order)
    elif not items[0][0]:
        return items[0][1]
    return SymInt(tuple(items))


def of_atom(atom: Atom) -> SymInt:
    return SymInt((((atom,), 1),))


def terms_of(x: SymInt | int) -> Terms:
    if isinstance(x, SymInt):
        return x.terms
    return (((), x),) if x else ()


def add(x: SymInt | int, y: SymInt | int, sign: int = 1) -> SymInt | int:
    if not isinstance(y, SymInt) and isinstance(x, SymInt):  # the constant stands last
        rest, const = split(x.terms)
        const += sign * y
        return SymInt((*rest, ((), const)) if const else rest)
    table = dict(terms_of(x))
    for monomial, c in terms_of(y):
        table[monomial] = table.get(monomial, 0) + sign * c
    return size_of(table)


def mul(x: SymInt | int, y: SymInt | int) -> SymInt | int:
    if isinstance(x, SymInt) and not isinstance(y, SymInt):  # the order stays
        return SymInt(tuple((m, c * y) for m, c in x.terms)) if y else 0
    table: dict[Monomial, int] = {}
    for m, c in terms_of(x):
        for n, d in terms_of(y):
            key = tuple(sorted(m + n, key=lambda a: a.text)) if m and n else m or n
            table[key] = table.get(key, 0) + c * d
    return size_of(table)


def negative(terms: Terms) -> Terms:
    return tuple((m, -c) for m, c in terms)


def split(terms: Terms) -> tuple[Terms, int]:
    """The terms without the constant, and this."""
    return (terms[:-1], terms[-1][1]) if not terms[-1][0] else (terms, 0)


def _without_end(lo: Bound, hi: Bound, x: int) -> tuple[Bound, Bound]:
    """The range without a value that may be an end of it."""
    return lo + (lo == x), hi - (hi == x)


def common(atoms: list[Atom], monomial: Monomial) -> list[Atom]:
    left = list(monomial)
    found = []
    for atom in atoms:
        if atom in left:
            left.remove(atom)
            found.append(atom)
    return found


def divide(x: SymInt | int, y: SymInt | int) -> tuple[SymInt | int, SymInt | int]:
    """(q, r) with x == q * y + r: what can be divided moves into q."""
    q: SymInt | int = 0
    rest: dict[Monomial, int] = {}
    lead, k = terms_of(y)[0]
    left = dict(terms_of(x))
    while left:
        monomial = min(left, key=lambda m: _order((m, 0)))
        c = left[monomial]
        quotient = without(monomial, lead)
        if quotient is None or not c // k:
            rest[monomial] = left.pop(monomial)
            continue
        part = size_of({quotient: c // k})
        q = add(q, part)
        left = dict(terms_of(add(size_of(left), mul(part, y), -1)))
    return q, size_of(rest)


def without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    left = list(monomial)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


# ---- values


def hint(x: SymInt | int) -> int:
    """The value now: for estimates only."""
    return evaluate(x, {})


def evaluate(x: Any, values: Mapping[str, int]) -> int:
    """The value of a size where symbols have these values, by name (else those of now)."""
    if not isinstance(x, SymInt):
        number: int = x
        return number
    total = 0
    for monomial, c in x.terms:
        for atom in monomial:
            c *= _value(atom, values)
        total += c
    return total


def _value(atom: Atom, values: Mapping[str, int]) -> int:
    if isinstance(atom, Symbol):
        return values.get(atom.name, atom.hint)
    a, b = (evaluate(part, values) for part in atom.operands())
    return FUNCTIONS[atom.sign](a, b)


def symbols_of(x: Any) -> Iterator[Symbol]:
    """The symbols in a size; of other values none."""
    if isinstance(x, SymInt):
        for monomial, _ in x.terms:
            for atom in monomial:
                if isinstance(atom, Symbol):
                    yield atom
                else:
                    for part in atom.operands():
                        yield from symbols_of(part)


def of_data(x: Any) -> bool:
    """True if a size is one that data decide."""
    return type(x) is not int and any(symbol.of_data for symbol in symbols_of(x))


# ---- text


def text(x: SymInt | int, spell: Callable[[Atom], str] = lambda atom: atom.text) -> str:
    """Python's spelling; that of an atom is `spell`'s."""
    out = ""
    for monomial, c in terms_of(x):
        factors = [] if abs(c) == 1 and monomial else [str(abs(c))]
        term = "*".join([*factors, *map(spell, monomial)])
        sign = " - " if c < 0 else " + "
        out = f"{out}{sign}{term}" if out else f"-{term}" if c < 0 else term
    return out or "0"


def _operand(x: SymInt | int) -> str:
    if not isinstance(x, SymInt):
        return str(x) if x >= 0 else f"({x})"
    ((monomial, c), *more) = x.terms
    plain = not more and c == 1 and len(monomial) == 1 and isinstance(monomial[0], Symbol)
    return text(x) if plain else f"({text(x)})"
