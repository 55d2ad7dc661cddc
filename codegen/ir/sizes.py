"""Beside the loop IR: how many elements, blocks and bytes, and what is known of sizes. Every stage
asks here, so that what a size is stands in one place: an int, or a polynomial of symbols
(`eager.sizes.symint`), which are run-time numbers among a program's inputs.

A question that is asked here is answered for all values that the symbols may have, or with no:
nothing is guarded, but for `is_short`. `hint` is the value of today, for estimates of cost only.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeAlias

from eager.sizes import symint
from eager.sizes.aval import contiguous_strides

Size: TypeAlias = int  # or a SymInt, which stands for one
Shape: TypeAlias = tuple[Size, ...]


# ---------------------------------------------------------------------------------- questions


def same(x: Size, y: Size) -> bool:
    """True if x == y, whatever the symbols are."""
    if x.__class__ is int and y.__class__ is int:
        return x == y
    return x is y or symint.known_eq(x, y) is True


def below(x: Size, y: Size) -> bool:
    """True if x < y, whatever the symbols are."""
    if x.__class__ is int and y.__class__ is int:
        return x < y
    return symint.known_lt(x, y) is True


def at_least(x: Size, y: Size) -> bool:
    """True if x >= y, whatever the symbols are."""
    if x.__class__ is int and y.__class__ is int:
        return x >= y
    return symint.known_le(y, x) is True


def same_all(xs: Iterable[Size], ys: Iterable[Size]) -> bool:
    """True if two tuples of sizes, of one length, are equal whatever the symbols are."""
    return xs is ys or all(map(same, xs, ys))


def some(n: Size) -> bool:
    """True unless `n` is known to be 0."""
    return n.__class__ is not int or n != 0


def last(n: Size) -> Size:
    """The largest index into `n` elements."""
    return max(n - 1, 0) if n.__class__ is int else n - 1


def is_static(sizes: Iterable[Size]) -> bool:
    return all(n.__class__ is int for n in sizes)


SHORT: Final = (1 << 31) - (1 << 14)  # the last block of a loop reaches beyond what is computed


def is_short(lo: Size, hi: Size) -> bool:
    """True if an index in [lo, hi] can have 32 bits, half the width of one of 64. The one question
    that a guard answers where it is open: sizes are far from that limit."""
    return _is_less(-lo, SHORT) and _is_less(hi, SHORT)


def fit_32_bits(sizes: Iterable[Size]) -> bool:
    """True if indices and counts below these can have 32 bits: see `is_short`."""
    return all(is_short(0, n) for n in sizes)


def _is_less(x: Size, most: int) -> bool:
    if x.__class__ is int or below(x, most):
        return x < most
    if symint.of_data(x):
        return False
    return hint(x) < most >> 4 and symint.decide(">=", most - 1 - x)


# ---------------------------------------------------------------------------------- arithmetic


def exact(x: Size, y: Size) -> Size | None:
    """x / y where it comes out even, whatever the symbols are; else None."""
    if x.__class__ is int and y.__class__ is int:
        return None if x % y else x // y
    q, r = _divide(x, y)
    return q if r.__class__ is int and not r else None


def exact_or(x: Size, y: Size, otherwise: Size) -> Size:
    """x / y where it comes out even, else another."""
    found = exact(x, y)
    return otherwise if found is None else found


_divide: Callable[[Size, Size], tuple[Size, Size]] = symint.divide  # type: ignore[assignment]


def divided(x: Size, y: Size) -> tuple[Size, Size]:
    """(q, r) with x == q * y + r, and 0 <= r < y where that can be said."""
    if x.__class__ is int and y.__class__ is int:
        return divmod(x, y)
    q, r = _divide(x, y)
    if below(r, 0) and at_least(r, -y):
        return q - 1, r + y
    if r.__class__ is int and y.__class__ is int:
        return q + r // y, r % y
    return q, r


def even(x: Size, y: Size) -> Size | None:
    """x // y where nothing is left to be done at run time."""
    q, r = divided(x, y)
    return q if at_least(r, 0) and below(r, y) else None


def common(x: Size, y: Size) -> Size:
    """A divisor of both: of ints the greatest, of symbolic sizes one that can be seen."""
    if x.__class__ is int and y.__class__ is int:
        return math.gcd(x, y)
    for a, b in ((x, y), (y, x)):
        if symint.terms_of(b) and exact(a, b) is not None:
            return b
    (first, c), *others = (*symint.terms_of(x), *symint.terms_of(y))
    shared = list(first)
    for monomial, k in others:
        c, left = math.gcd(c, k), list(monomial)
        for atom in [*shared]:
            (left if atom in left else shared).remove(atom)
    return symint.SymInt(((tuple(shared), c),)) if shared else c  # type: ignore[return-value]


class Counter(Protocol):
    """A loop counter, or an index form of one."""

    @property
    def extent(self) -> Size: ...


def extent(counters: Iterable[Counter]) -> Size:
    """Number of iterations of the nested loops over `counters`."""
    return math.prod(c.extent for c in counters)


def extents(counters: Iterable[Counter]) -> Shape:
    return tuple(c.extent for c in counters)


def hint(n: Size) -> int:
    """The number that a decision about cost (tiles, threads, what to fuse) reckons `n` with. What
    must be right for every value asks `n` itself."""
    return n if n.__class__ is int else symint.hint(n)


def given(x: Size, values: Mapping[str, Size]) -> Size:
    """`x` where symbols have these values, by name."""
    if x.__class__ is int:
        return x
    total: Size = 0
    for monomial, c in symint.terms_of(x):
        total += math.prod((_atom_given(atom, values) for atom in monomial), start=c)
    return total


def _atom_given(atom: symint.Atom, values: Mapping[str, Size]) -> Size:
    if isinstance(atom, symint.Symbol):
        return values.get(atom.name, symint.of_atom(atom))  # type: ignore[arg-type]
    a, b = (given(part, values) for part in atom.operands())  # type: ignore[arg-type]
    return CHOICES[atom.sign](a, b)


CHOICES: Final[dict[str, Callable[[Size, Size], Size]]] = {
    "//": operator.floordiv, "%": operator.mod, "min": symint.least, "max": symint.most,
}  # fmt: skip


def numel(sizes: Iterable[Size]) -> Size:
    """Number of elements of an array of this shape."""
    return math.prod(sizes)


def divides(d: Size, n: Size) -> bool:
    """True if `n` is a multiple of `d`, whatever the symbols are."""
    return exact(n, d) is not None


def blocks(n: Size, per: Size) -> Size:
    """Number of blocks of `per` that hold `n`: the quotient, rounded up."""
    if n.__class__ is per.__class__ is int:
        return -(-n // per)
    return (n + (per - 1)) // per  # no operand is negative, as C++ wants it


def round_up(n: Size, to: Size) -> Size:
    return blocks(n, to) * to


def round_down(n: Size, to: Size) -> Size:
    return n // to * to


def covering(sizes: Iterable[Size]) -> Size:
    """A size that is at least each of these: the largest, where it can be said which that is."""
    kept: list[Size] = []
    for n in sizes:
        if not any(at_least(k, n) for k in kept):
            kept = [k for k in kept if not at_least(n, k)] + [n]
    return sum(kept)


MANY: Final = 1 << 62  # more than there are of anything


def most(n: Size) -> int:
    """The largest that `n` can be, whatever the symbols are: MANY where nobody knows. What is
    decided by it is the same for all sizes."""
    if n.__class__ is int:
        return n
    found = symint.bounds(n)[1]
    return int(min(found, MANY))


def power_of_two(n: Size) -> int:
    """The smallest power of two >= n, whatever the symbols are (or MANY)."""
    return 1 << max(most(n) - 1, 0).bit_length()


def span(shape: Shape, strides: Shape) -> Size:
    """Elements of memory from the first to the last of a strided tensor."""
    if not all(map(some, shape)):
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def is_contiguous(shape: Shape, strides: Shape) -> bool:
    """True if elements lie in row-major order without gaps; strides of dimensions of size 1 do not
    matter."""
    want = contiguous_strides(shape)
    if strides is want or not all(map(some, shape)):
        return True
    return all(same(n, 1) or same(s, w) for n, s, w in zip(shape, strides, want, strict=True))


# ---------------------------------------------------------------------------------- text


def order_of(x: Size) -> int:
    """Sort key of a size, the same in every process: ints by value, before symbolic ones."""
    if x.__class__ is int:
        return x
    return (1 << 64) + int.from_bytes(repr(x).encode())


def degree(x: Size) -> int:
    """Number of symbols that are multiplied in its largest term."""
    return max((len(m) for m, _ in symint.terms_of(x)), default=0)


def spelled(x: Size, *, whole: bool = False) -> str:
    """Python's spelling; in parentheses, unless it stands alone (`whole`)."""
    if x.__class__ is int:
        return str(x) if whole or x >= 0 else f"({x})"
    text = symint.text(x, _atom)
    return text if whole or text.isidentifier() else f"({text})"


def _atom(atom: symint.Atom) -> str:
    if isinstance(atom, symint.Symbol):
        return name_of(atom.name)
    a, b = (spelled(part) for part in atom.operands())  # type: ignore[arg-type]
    if isinstance(atom, symint.Least):
        return f"{atom.sign}({a}, {b})"
    return f"({a} {atom.sign} {b})"


def name_of(symbol: str) -> str:
    """The variable of generated code that has the value of a symbol."""
    return "size_" + re.sub(r"\W", "_", symbol)
