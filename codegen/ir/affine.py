"""Index arithmetic of the loop IR: axes -> sums of coefficient * atom, with floordiv and mod
simplified by known ranges.

Sizes, coefficients, constants and ranges may be symbolic (`codegen.ir.sizes`); then a form is
simplified where that is right for all values, and no question here is answered by a guard.

An `Affine` is hash-consed: equal forms of one compile are the same object, so equality is `is`. Its
atoms are

    Axis(name, size)          a loop counter in [0, size)
    FloorDiv(index, d)        index // d
    Mod(index, d)             index % d
    Opaque(expr, lo, hi)      an integer read from memory, known to lie in [lo, hi]

Terms stand in an order of their own (large coefficients first, then by what the atoms say), never
in that of their making, so equal programs give equal text whatever was compiled before. Every form
knows its range [lo, hi], and that is what simplification uses: (8*i + j) // 8 is i when 0 <= j < 8.
Flattening after unflattening gives back the original, so views composed of views stay plain strided
accesses.

    >>> i, j = axis("i", 4), axis("j", 8)
    >>> floordiv(i * 8 + j, 8) is i
    True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, ClassVar, Final

from codegen.ir.sizes import (
    Size,
    at_least,
    below,
    common,
    divided,
    even,
    exact,
    exact_or,
    last,
    order_of,
    same,
    spelled,
)
from eager.base.dataclass import dataclass

Terms = tuple[tuple["Atom", Size], ...]
Order = tuple[Any, ...]  # what an atom says, as something to sort by


@dataclass(frozen=True, eq=False, slots=True)
class Axis:
    """A loop counter. Two axes of one name and size are the same object."""

    name: str
    size: Size
    order: Order

    @property
    def extent(self) -> Size:
        return self.size


@dataclass(frozen=True, eq=False, slots=True)
class FloorDiv:
    index: Affine
    divisor: Size
    order: Order


@dataclass(frozen=True, eq=False, slots=True)
class Mod:
    index: Affine
    divisor: Size
    order: Order


@dataclass(frozen=True, eq=False, slots=True)
class Opaque:
    """An integer expression (`codegen.ir.expr.Expr`) used as an index; the program guarantees lo <=
    value <= hi."""

    expr: Any
    lo: Size
    hi: Size
    order: Order


Atom = Axis | FloorDiv | Mod | Opaque


@dataclass(frozen=True, eq=False, slots=True)
class Affine:
    """sum(coefficient * atom) + const, terms by `_order`; `lo` and `hi` bound its value."""

    terms: Terms
    const: Size
    lo: Size
    hi: Size
    of_sizes: ClassVar[bool] = True  # arithmetic with a `SymInt` is this class's

    def __add__(self, other: Affine | Size) -> Affine:
        if not isinstance(other, Affine):
            nothing = other.__class__ is int and not other
            return self if nothing else _intern(self.terms, self.const + other)
        if not other.terms:
            return self + other.const
        if not self.terms:
            return other + self.const
        merged = dict(self.terms)
        for atom, c in other.terms:
            merged[atom] = merged.get(atom, 0) + c
        return _sum(merged, self.const + other.const)

    __radd__ = __add__

    def __neg__(self) -> Affine:
        return self * -1

    def __sub__(self, other: Affine | Size) -> Affine:
        return self + (-other)

    def __rsub__(self, other: Size) -> Affine:
        return -self + other

    def __mul__(self, k: Size) -> Affine:
        if k.__class__ is not int:
            return _sum({a: c * k for a, c in self.terms}, self.const * k)
        if k == 1:
            return self
        if k == 0:
            return ZERO
        return _intern(tuple((a, c * k) for a, c in self.terms), self.const * k)

    __rmul__ = __mul__

    def __floordiv__(self, d: Size) -> Affine:
        return floordiv(self, d)

    def __mod__(self, d: Size) -> Affine:
        return mod(self, d)

    def __repr__(self) -> str:
        return text(self)

    @property
    def order(self) -> Order:
        return order_of(self.const), *((order_of(c), atom.order) for atom, c in self.terms)

    @property
    def extent(self) -> Size:
        """The size of the axis, for a form made by `axis`."""
        return self.hi + 1


_atoms: dict[tuple[Any, ...], Atom] = {}
_forms: dict[tuple[Terms, Size], Affine] = {}
FAR: Final = 1 << 62  # beyond every index: the range of what has none


def _atom_range(atom: Atom) -> tuple[Size, Size]:
    if isinstance(atom, Axis):
        return 0, last(atom.size)
    if isinstance(atom, FloorDiv):
        lo, hi, d = atom.index.lo, atom.index.hi, atom.divisor
        return (lo // d, hi // d) if below(0, d) else (-FAR, FAR)
    if isinstance(atom, Mod):
        return 0, atom.divisor - 1
    return atom.lo, atom.hi


def _intern(terms: Terms, const: Size) -> Affine:
    found = _forms.get((terms, const))
    if found is None:
        lo = hi = const
        for atom, c in terms:
            low, high = _atom_range(atom)
            if c.__class__ is not int:
                low, high = _scaled(low, high, c)
                lo, hi = lo + low, hi + high
                continue
            lo += c * (low if c > 0 else high)
            hi += c * (high if c > 0 else low)
        found = _forms[terms, const] = Affine(terms, const, lo, hi)
    return found


def _scaled(low: Size, high: Size, c: Size) -> tuple[Size, Size]:
    """The range of what lies in [low, high], times a symbolic `c`."""
    if at_least(c, 0):
        return c * low, c * high
    return (c * high, c * low) if at_least(-c, 0) else (-FAR, FAR)


def _make(kind: Callable[..., Atom], first: Any, *fields: Size) -> Affine:
    """The form that is one atom. What an atom is of (an index, an expression) has an order, too."""
    key = (kind, first, *fields)
    atom = _atoms.get(key)
    if atom is None:
        own = first if kind is Axis else first.order
        order = (_RANK[kind], own, *map(order_of, fields))
        atom = _atoms[key] = kind(first, *fields, order)
    return _intern(((atom, 1),), 0)


_RANK: Final[dict[Callable[..., Atom], int]] = {
    kind: rank for rank, kind in enumerate((Axis, FloorDiv, Mod, Opaque))
}


def _sum(merged: Mapping[Atom, Size], const: Size) -> Affine:
    """The form of a term table: zero coefficients dropped, x//d and x%d of one x put together
    again."""
    items = [(a, c) for a, c in merged.items() if c.__class__ is not int or c]
    if len(items) > 1 and any(type(a) is Mod for a, _ in items):
        return _rejoin(dict(items), const)
    items.sort(key=_order)
    return _intern(tuple(items), const)


def _order(term: tuple[Atom, Size]) -> tuple[int, Order]:
    return -abs(order_of(term[1])), term[0].order


def _rejoin(merged: dict[Atom, Size], const: Size) -> Affine:
    """(x // d) * (d * c) + (x % d) * c == x * c, repeated until no pair is left."""
    for atom, c in list(merged.items()):
        if type(atom) is not Mod:
            continue
        quotient = floordiv(atom.index, atom.divisor)
        if len(quotient.terms) != 1 or not same(quotient.const, 0):
            continue
        (high, k), want = quotient.terms[0], c * atom.divisor
        if not same(k, 1) or not same(merged.get(high, 0), want):
            continue
        rest = {a: v for a, v in merged.items() if a is not atom and a is not high}
        for a, v in atom.index.terms:
            rest[a] = rest.get(a, 0) + v * c
        return _sum(rest, const + atom.index.const * c)
    return _intern(tuple(sorted(merged.items(), key=_order)), const)


ZERO: Final = _intern((), 0)


def constant(value: Size) -> Affine:
    return _intern((), value)


def axis(name: str, size: Size) -> Affine:
    """The counter `name` of a loop over range(size). An axis of size 1 is the constant 0."""
    return ZERO if same(size, 1) else _make(Axis, name, size)


def axis_of(index: Affine) -> Axis:
    """The axis that `index` is. Only for forms made by `axis`, of a size above 1."""
    atom = index.terms[0][0]
    assert isinstance(atom, Axis)
    return atom


def form(a: Axis) -> Affine:
    """The form that is one axis."""
    return axis(a.name, a.size)


def flat(axes: Iterable[Axis]) -> Affine:
    """The row-major position in the loops over `axes`."""
    axes = tuple(axes)
    return ravel(map(form, axes), (a.size for a in axes))


def counters(index: Affine) -> tuple[Axis, ...]:
    """The axes among the terms of `index`."""
    return tuple(a for a, _ in index.terms if isinstance(a, Axis))


def axes_by(axes: Iterable[Affine], index: Iterable[Affine]) -> dict[Axis, Affine]:
    """The substitution of `axes` by `index`. (Axes of size 1 are constants already.)"""
    return {axis_of(a): i for a, i in zip(axes, index, strict=True) if a.terms}


def opaque(expr: Any, lo: Size, hi: Size) -> Affine:
    """An integer expression as an index, bounded by the program to [lo, hi]."""
    return constant(lo) if same(lo, hi) else _make(Opaque, expr, lo, hi)


def _split(index: Affine, d: Size) -> tuple[Affine, Affine]:
    """index == quotient * d + rest, moving every term divisible by d into the quotient."""
    whole: list[tuple[Atom, Size]] = []
    rest: list[tuple[Atom, Size]] = []
    for a, c in index.terms:
        times = exact(c, d)
        (rest if times is None else whole).append((a, c if times is None else times))
    quotient, left = divided(index.const, d)
    return _of(whole, quotient), _intern(tuple(rest), left)


def _of(terms: list[tuple[Atom, Size]], const: Size) -> Affine:
    """The form of terms whose coefficients have been divided."""
    if any(c.__class__ is not int for _, c in terms):  # there the order may be another now
        return _sum(dict(terms), const)
    return _intern(tuple(terms), const)


def _smaller(index: Affine, g: Size) -> Affine | None:
    """`index` // g for a g that divides all coefficients; None where its constant is in the way."""
    const = index.const // g if g.__class__ is int else even(index.const, g)
    if const is None:
        return None
    return _of([(a, exact_or(c, g, 0)) for a, c in index.terms], const)


def _turns(rest: Affine, d: Size) -> Size | None:
    """The one value that rest // d has, if ranges say so."""
    lo, hi = rest.lo, rest.hi
    if lo.__class__ is hi.__class__ is d.__class__ is int:
        return lo // d if lo // d == hi // d else None
    if not rest.terms and below(0, d):
        return lo // d
    if at_least(lo, 0) and below(hi, d):
        return 0
    return -1 if below(hi, 0) and at_least(lo, -d) else None


def floordiv(index: Affine, d: Size) -> Affine:
    """index // d, rounding towards minus infinity. d > 0."""
    if same(d, 1):
        return index
    quotient, rest = _split(index, d)
    turns = _turns(rest, d)
    if turns is not None:
        return quotient + turns
    g = reduce(common, (c for _, c in rest.terms), d)
    less = None if same(g, 1) else _smaller(rest, g)
    if less is not None:
        return quotient + floordiv(less, exact_or(d, g, d))
    parts = coarse(rest, d)
    if parts is not None:  # (g * a + b) // (g * k) == a // k when 0 <= b < g
        g, whole, _ = parts
        return quotient + floordiv(whole, exact_or(d, g, d))
    if len(rest.terms) == 1 and same(rest.const, 0) and same(rest.terms[0][1], 1):
        atom = rest.terms[0][0]
        if type(atom) is FloorDiv:  # (x // a) // b == x // (a * b)
            return quotient + floordiv(atom.index, atom.divisor * d)
    return quotient + _make(FloorDiv, rest, d)


def mod(index: Affine, d: Size) -> Affine:
    """index % d, in [0, d). d > 0."""
    if same(d, 1):
        return ZERO
    _, rest = _split(index, d)
    turns = _turns(rest, d)
    if turns is not None:
        return rest - turns * d
    g = reduce(common, (c for _, c in rest.terms), common(d, rest.const))
    if not same(g, 1):
        less = _smaller(rest, g)
        assert less is not None
        return mod(less, exact_or(d, g, d)) * g
    parts = coarse(rest, d)
    if parts is not None:  # (g * a + b) % (g * k) == g * (a % k) + b when 0 <= b < g
        g, whole, fine = parts
        return mod(whole, exact_or(d, g, d)) * g + fine
    unwrapped = _unwrap_mods(rest, d)
    return mod(unwrapped, d) if unwrapped is not rest else _make(Mod, rest, d)


def coarse(index: Affine, d: Size) -> tuple[Size, Affine, Affine] | None:
    """(g, a, b) with index == g * a + b, 0 <= b < g and g > 1 a divisor of d, for the largest g; or
    None."""
    for g in sorted({common(d, c) for _, c in index.terms}, key=order_of, reverse=True):
        if below(1, g) and at_least(d, g):
            whole, low = _split(index, g)
            if at_least(low.lo, 0) and below(low.hi, g):
                return g, whole, low
    return None


def _unwrap_mods(index: Affine, d: Size) -> Affine:
    """(x % (k*d) + y) % d == (x + y) % d."""
    total = None
    for atom, c in index.terms:
        if type(atom) is Mod and exact(atom.divisor, d) is not None:
            total = (index if total is None else total) + (
                atom.index - _intern(((atom, 1),), 0)
            ) * c
    return index if total is None else total


def ravel(index: Iterable[Affine], shape: Iterable[Size]) -> Affine:
    """The row-major position of `index` in `shape`."""
    flat = ZERO
    for i, n in zip(index, shape, strict=True):
        flat = flat * n + i
    return flat


def unravel(flat: Affine, shape: tuple[Size, ...]) -> tuple[Affine, ...]:
    """The index tuple at row-major position `flat` of `shape`."""
    out: list[Affine] = []
    for n in reversed(shape[1:]):
        empty = n.__class__ is int and not n
        out.append(ZERO if empty else mod(flat, n))
        flat = ZERO if empty else floordiv(flat, n)
    if shape:
        out.append(flat)
    return tuple(reversed(out))


def dot_strides(index: Iterable[Affine], strides: Iterable[Size], offset: Size = 0) -> Affine:
    """The element offset of `index` in memory with `strides`."""
    total = constant(offset)
    for i, s in zip(index, strides, strict=True):
        if s.__class__ is not int or s:
            total = total + i * s
    return total


def coefficient(index: Affine, of: Affine) -> Size | None:
    """d index / d axis, or None when the axis also occurs inside a floordiv, mod or opaque atom."""
    if not of.terms:
        return 0
    target = of.terms[0][0]
    found: Size = 0
    for atom, c in index.terms:
        if atom is target:
            found = c
        elif type(atom) is not Axis and target in atom_axes(atom):
            return None
    return found


_axes_memo: dict[Atom, frozenset[Axis]] = {}


def atom_axes(atom: Atom) -> frozenset[Axis]:
    """The axes that the value of `atom` depends on."""
    found = _axes_memo.get(atom)
    if found is None:
        if isinstance(atom, Axis):
            found = frozenset((atom,))
        elif isinstance(atom, Opaque):
            found = atom.expr.axes
        else:
            found = axes_of(atom.index)
        _axes_memo[atom] = found
    return found


def axes_of(index: Affine) -> frozenset[Axis]:
    """The axes that `index` depends on."""
    terms = index.terms
    if len(terms) == 1:
        return atom_axes(terms[0][0])
    return frozenset().union(*(atom_axes(a) for a, _ in terms))


Substitution = Mapping[Axis, Affine]


def substitute(
    index: Affine, by: Substitution, on_opaque: Callable[[Any], Any] | None = None
) -> Affine:
    """`index` with axes replaced; the expressions inside opaque atoms go through `on_opaque`."""
    total = constant(index.const)
    for atom, c in index.terms:
        total = total + _substitute_atom(atom, by, on_opaque) * c
    return total


def _substitute_atom(
    atom: Atom, by: Substitution, on_opaque: Callable[[Any], Any] | None
) -> Affine:
    if isinstance(atom, Axis):
        found = by.get(atom)
        return _intern(((atom, 1),), 0) if found is None else found
    if isinstance(atom, FloorDiv):
        return floordiv(substitute(atom.index, by, on_opaque), atom.divisor)
    if isinstance(atom, Mod):
        return mod(substitute(atom.index, by, on_opaque), atom.divisor)
    if on_opaque is None:
        return _intern(((atom, 1),), 0)
    return opaque(on_opaque(atom.expr), atom.lo, atom.hi)


def walk_atoms(index: Affine) -> Iterator[Atom]:
    """Every atom of `index`, inner ones included."""
    for atom, _ in index.terms:
        yield atom
        if isinstance(atom, FloorDiv | Mod):
            yield from walk_atoms(atom.index)


def ranges(index: Affine) -> Iterator[tuple[Size, Size]]:
    """The bounds of `index`, and of what is divided in it, made positive: what is left of a large
    number may be small."""
    yield index.lo, index.hi
    for atom in walk_atoms(index):
        if isinstance(atom, FloorDiv | Mod):
            inner = atom.index
            lifted = inner.hi if at_least(inner.lo, 0) else inner.hi - inner.lo + atom.divisor
            yield inner.lo, lifted


def sizes(index: Affine) -> Iterator[Size]:
    """The sizes in `index` that may be symbolic."""
    yield index.const
    for atom, c in index.terms:
        yield c
        if isinstance(atom, FloorDiv | Mod):
            yield atom.divisor
            yield from sizes(atom.index)


def opaques(index: Affine) -> Iterator[Any]:
    """The expressions inside `index`."""
    return (atom.expr for atom in walk_atoms(index) if isinstance(atom, Opaque))


def reads_data(index: Affine) -> bool:
    """True if `index` depends on memory."""
    return any(isinstance(atom, Opaque) for atom in walk_atoms(index))


def text(index: Affine, opaque_text: Callable[[Any], str] = repr) -> str:
    """Python (and, for non-negative operands, C) spelling."""
    parts = []
    for atom, c in index.terms:
        body = _atom_text(atom, opaque_text)
        parts.append(body if same(c, 1) else f"{spelled(c)}*{body}")
    if not parts or not same(index.const, 0):
        parts.append(spelled(index.const, whole=True))
    return " + ".join(parts)


def _atom_text(atom: Atom, opaque_text: Callable[[Any], str]) -> str:
    if isinstance(atom, Axis):
        return atom.name
    if isinstance(atom, Opaque):
        return opaque_text(atom.expr)
    sign = "//" if isinstance(atom, FloorDiv) else "%"
    inner = text(atom.index, opaque_text)
    return f"({inner if inner.isidentifier() else f'({inner})'} {sign} {spelled(atom.divisor)})"


def clear() -> None:
    """Forget all forms: they live as long as one compile."""
    _atoms.clear()
    _forms.clear()
    _axes_memo.clear()
    _forms[(), 0] = ZERO
