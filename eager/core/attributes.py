"""Beneath what is kept in files: numbers, sizes and attributes of ops as JSON. value <-> data whose
reading runs nothing.

A size that is a polynomial of symbols is `["s", term, ...]`: a term is a list of its coefficient
and its atoms, an atom the name of a symbol or `["//", size, size]` (or "%", "min", "max").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.device import device
from eager.sizes.polynomial import (
    Atom,
    Least,
    Most,
    Quotient,
    Remainder,
    Scope,
    Symbol,
    SymInt,
    size_of,
)

Symbols: TypeAlias = Mapping[str, Symbol]  # by name
NONE: Final[Symbols] = MappingProxyType({})


class Unasked(Scope):
    """Whom the symbols of compiled code belong to: their values come with each call, and there is
    nobody to ask about them any more."""

    def answer(self, relation: str, size: SymInt) -> bool:
        raise RuntimeError(f"a question about {size} in compiled code, which can guard nothing")


def encode(value: Any) -> Any:
    """A number, size or attribute; what JSON lacks is tagged. Raises ValueError for what is no
    data."""
    if isinstance(value, bool | str | int) or value is None:
        return value
    if isinstance(value, SymInt):
        return ["s", *([c, *map(_encode_atom, monomial)] for monomial, c in value.terms)]
    if isinstance(value, float):
        return ["f", value.hex()]
    if isinstance(value, complex):
        return ["c", value.real.hex(), value.imag.hex()]
    if isinstance(value, DType):
        return ["d", value.name]
    if isinstance(value, device):
        return ["v", str(value)]
    if isinstance(value, tuple):
        return ["t", *map(encode, value)]
    raise ValueError(f"an attribute of type {type(value).__name__} cannot be stored")


def _encode_atom(atom: Atom) -> Any:
    return atom.name if isinstance(atom, Symbol) else [atom.sign, encode(atom.a), encode(atom.b)]


_DECODERS: Final[dict[str, Callable[..., Any]]] = {
    "f": lambda _, text: float.fromhex(text),
    "c": lambda _, re, im: complex(float.fromhex(re), float.fromhex(im)),
    "d": lambda _, name: dt.by_name(name),
    "v": lambda _, name: device(name),
    "t": lambda symbols, *items: tuple(decode(item, symbols) for item in items),
    "s": lambda symbols, *terms: _polynomial(symbols, terms),
}


def decode(value: Any, symbols: Symbols = NONE) -> Any:
    """The value that `encode` was given; its sizes are made of `symbols`. Raises LookupError,
    TypeError or ValueError for other data."""
    return _DECODERS[value[0]](symbols, *value[1:]) if isinstance(value, list) else value


def decode_size(value: Any, symbols: Symbols) -> Any:
    """The int or size that `encode` was given. ValueError for another value."""
    size = decode(value, symbols)
    if type(size) is not int and not isinstance(size, SymInt):
        raise ValueError("no size")
    return size


def _polynomial(symbols: Symbols, terms: tuple[Any, ...]) -> SymInt:
    """The size with these terms, which are in normal form: else it would not equal itself."""
    made = tuple((tuple(_atom(a, symbols) for a in atoms), c) for c, *atoms in terms)
    normal = all(type(c) is int and list(m) == sorted(m, key=_text) for m, c in made)
    size = size_of(dict(made)) if normal else 0
    if not isinstance(size, SymInt) or size.terms != made:
        raise ValueError("no size")
    return size


def _text(atom: Atom) -> str:
    return atom.text


_KINDS: Final[dict[str, Callable[[Any, Any], Atom]]] = {
    kind.sign: kind for kind in (Quotient, Remainder, Least, Most)
}


def _atom(data: Any, symbols: Symbols) -> Atom:
    if type(data) is str:
        return symbols[data]
    sign, *parts = data
    a, b = (decode_size(part, symbols) for part in parts)
    kind = _KINDS[sign]
    if (type(b) is int and b == 0 and kind in (Quotient, Remainder)) or type(a) is type(b) is int:
        raise ValueError("no division")
    return kind(a, b)
