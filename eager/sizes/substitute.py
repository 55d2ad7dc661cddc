"""Beside sizes: what holds them (shapes, strides, attributes of ops). a value -> the value at given
sizes, or the symbols in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from eager.sizes.size_ranges import bounds
from eager.sizes.symint import Symbol, SymInt, evaluate, symbols_of


def substitute(value: Any, values: Mapping[str, int]) -> Any:
    """`value` (attributes, avals' shapes) with the sizes in it as ints."""
    return _each(value, lambda size: evaluate(size, values))


def simplify(value: Any) -> Any:
    """`value` with those sizes as ints that guards leave but one value."""
    return _each(value, _simplify)


def _simplify(size: SymInt) -> Any:
    lo, hi = bounds(size)
    return lo if lo == hi else size


def _each(value: Any, of: Callable[[SymInt], Any]) -> Any:
    """`value` with each size in it replaced."""
    if isinstance(value, SymInt):
        return of(value)
    if isinstance(value, tuple | list):
        if not any(map(_holds_size, value)):
            return value
        parts = [_each(x, of) for x in value]
        return type(value)(parts) if type(value) in (tuple, list) else type(value)(*parts)
    if isinstance(value, dict):
        return {key: _each(x, of) for key, x in value.items()}
    if isinstance(value, slice):
        return slice(*(_each(x, of) for x in (value.start, value.stop, value.step)))
    return value


def _holds_size(value: Any) -> bool:
    return isinstance(value, SymInt | tuple | list | dict | slice)


def symbols_in(values: Iterable[Any]) -> set[Symbol]:
    """Every symbol in sizes, and in tuples, lists, dicts and slices of them."""
    found: set[Symbol] = set()
    for value in values:
        if isinstance(value, SymInt):
            found.update(symbols_of(value))
        elif isinstance(value, tuple | list):
            found |= symbols_in(value)
        elif isinstance(value, dict):
            found |= symbols_in(value.values())
        elif isinstance(value, slice):
            found |= symbols_in((value.start, value.stop, value.step))
    return found
