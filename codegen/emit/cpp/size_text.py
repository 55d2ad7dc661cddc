"""Sizes as C++: numbers, or expressions of the parameters that symbols are. Size -> text."""

from __future__ import annotations

import re

from codegen.sizes import Size, at_least, below, name_of
from eager import symint


def size_text(x: Size) -> str:
    """In parentheses, if it is more than a name or a number."""
    if x.__class__ is int:
        return str(x)
    text = symint.text(x, _atom)
    return text if text.isidentifier() else f"({text})"


def _atom(atom: symint.Atom) -> str:
    if isinstance(atom, symint.Symbol):
        return name_of(atom.name)
    a, b = atom.parts()
    x, y = size_text(a), size_text(b)  # type: ignore[arg-type]
    if isinstance(atom, symint.Least):
        return f"({x} {'>' if isinstance(atom, symint.Most) else '<'} {y} ? {x} : {y})"
    div = isinstance(atom, symint.Quotient)
    if at_least(a, 0) and below(0, b):  # type: ignore[arg-type]
        return f"({x} {'/' if div else '%'} {y})"
    return f"{'fdiv' if div else 'fmod_i'}({x}, {y})"


def any_text(x: object) -> str:
    """A size as C++; anything else as it prints."""
    return size_text(x) if isinstance(x, symint.SymInt) else str(x)  # type: ignore[arg-type]


def mentions_size(text: str) -> bool:
    """Whether C++ has a size in it that is known at run time only."""
    return re.search(rf"\b{name_of('')}", text) is not None
