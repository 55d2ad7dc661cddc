"""Beside the guards: whether a value is still what it was. (constant, variable) -> term.

A guard must not run the program's code: an argument that was a number may be a tensor by now, whose
truth is an error, or an object with an `__eq__` of its own. So the type is tested first, exactly,
and contents are compared by the methods of builtin types only. What Python calls equal is not
enough: `True == 1 == 1.0`, `0j == -0j`, `range(0, 3, 2) == range(0, 4, 2)`, a set has an order.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, Final

import numpy as np

from eager.base.dtype import DType, NamedType
from eager.device import device
from jitcap.base.terms import Term, attribute, every, text

Bind = Callable[[Any], str]
_LITERALS: Final = (int, str, bytes)
_ATOMS: Final = frozenset({int, str, bytes, bool, type(None)})
_VALUES: Final = (DType, NamedType, device, re.Pattern)
_MEMBERS: Final = _ATOMS | {type}
WIDE: Final = 2000  # bits: less than the 640 digits that Python writes always
# Told by their text, in which nothing of the program's is asked.
_TEXTUAL: Final = (complex, dt.date, dt.timedelta)
_ZONED: Final = (dt.time, dt.datetime)
_DTYPE: Final[Any] = np.generic.dtype
UNROLLED: Final = 4  # elements of a tuple that are compared one by one in generated code


def comparable(value: Any) -> bool:
    """True if `condition` can tell `value` from every other."""
    kind = type(value)
    if kind in (tuple, list):
        return all(type(x) in _ATOMS for x in value)
    if kind in (frozenset, set):
        return all(map(_is_member, value))
    if isinstance(value, np.generic):
        return not value.dtype.hasobject
    if kind in _ZONED:
        return value.tzinfo is None or type(value.tzinfo) is dt.timezone
    return (
        kind in _ATOMS
        or kind in (range, *_VALUES, *_TEXTUAL)
        or issubclass(kind, int | float | complex | str | bytes | np.dtype)
    )


def _is_member(x: Any) -> bool:
    """True for members of sets that are guarded: classes are told apart by identity, if no
    metaclass hashes them."""
    kind: Any = type(x)
    if kind in _MEMBERS:
        return True
    own = kind.__hash__ is not type.__hash__ or kind.__eq__ is not type.__eq__
    return issubclass(kind, type) and not own


def condition(value: Any, v: Term, bind: Bind) -> Term:
    """The condition that `v` is a value like `value`, of the same type."""
    kind = type(value)
    if kind is bool or value is None:
        return ("is", v, repr(value))
    test = ("and", ("is", ("type", v), bind(kind)), _contents(value, v, bind))
    return ("or", ("is", v, bind(value)), test) if kind is tuple else test


def _contents(value: Any, v: Term, bind: Bind) -> Term:
    """The part of the condition that is asked when the type is known to be right."""
    kind = type(value)
    if kind in _LITERALS:
        return ("==", v, _literal(value, bind))
    if kind in (*_TEXTUAL, *_ZONED):
        return ("==", ("call", bind(text_of), v), text(repr(value)))
    if kind is range:
        parts = ("tuple", *(attribute(v, name) for name in ("start", "stop", "step")))
        return ("==", parts, ("tuple", value.start, value.stop, value.step))
    if kind is tuple and len(value) <= UNROLLED:
        tests = [condition(x, ("item", v, i), bind) for i, x in enumerate(value)]
        return every(("==", ("len", v), len(value)), *tests)
    if kind is set:
        constant = bind(frozenset((type(x), x) for x in value))
        return ("call", bind(same_set), v, constant)
    if kind in (tuple, list, frozenset):
        return ("call", bind(same_items), ("listed", v), bind(tuple(value)))
    if isinstance(value, np.generic):
        return ("call", bind(same_scalar), v, bind(value))
    if kind in _VALUES or isinstance(value, np.dtype):
        return ("==", v, bind(value))
    return ("==", ("call", bind(text_of), v), text(text_of(value)))


def _literal(value: Any, bind: Bind) -> Term:
    if type(value) is bytes:
        return ("bytes", text(value.decode("latin-1")))
    return bind(value) if is_wide(value) else value if type(value) is int else text(value)


def is_wide(value: Any) -> bool:
    """True if a number is so long that a setting decides if Python writes its digits."""
    return issubclass(type(value), int) and value.bit_length() > WIDE


def base_of(value: Any) -> Any:
    """The builtin type that a number or text of a user's class is made of."""
    return next(b for b in (int, float, complex, str, bytes) if isinstance(value, b))


def text_of(value: Any) -> str:
    """Text that tells one constant from another of its type: its `repr`, but not the program's."""
    if is_wide(value):
        return hex(value)
    cls = type(value)
    if issubclass(cls, int | float | complex | str | bytes) and not issubclass(cls, np.generic):
        base: Any = base_of(value)
        return str(base.__repr__(value))
    return repr(value)


def identity(value: Any) -> Any:
    """Key that tells one part of a guard from every other: constants by type and value, the rest as
    objects, which are not asked how they are hashed and compared."""
    cls = type(value)
    if cls in _ATOMS:
        return cls, value
    if cls is type:
        return id(value)
    if cls is tuple:
        ints = {*map(type, value)} == {int}  # most are shapes
        return (tuple, value) if ints else (tuple, *map(identity, value))
    if cls is float or cls in _TEXTUAL or cls in _ZONED:
        return cls, repr(value)
    if issubclass(cls, np.generic):
        return id(cls), _DTYPE.__get__(value), np.generic.tobytes(value)  # spans have units
    return id(value)


def same_items(items: Sequence[Any], constant: Sequence[Any]) -> bool:
    """True if these are the same atoms in the same order. Asks no object of the program."""
    if len(items) != len(constant):
        return False
    if all(map(is_, items, constant)):
        return True
    return all(map(is_, map(type, items), map(type, constant))) and [*items] == [*constant]


def same_set(found: set[Any], constant: frozenset[tuple[type, Any]]) -> bool:
    """True if a set has these atoms, given with their types, in any order. Asks no object of the
    program."""
    if len(found) != len(constant):
        return False
    for x in found:
        if type(x) not in _MEMBERS and not _is_member(x):
            return False
    return constant.issuperset((type(x), x) for x in found)


def all_are(cls: type, values: tuple[Any, ...]) -> bool:
    """True if each value is of this very class."""
    for value in values:  # noqa: SIM110 - many are asked, at every call
        if type(value) is not cls:
            return False
    return True


def are_same(values: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """True if each value is the very object at the same place of the other row."""
    return len(values) == len(others) and all(map(is_, values, others))


def same_keys(keys: Any, constant: tuple[Any, ...]) -> bool:
    """True if a dictionary (or a view of one) has these keys, in this order."""
    if len(keys) != len(constant):
        return False
    return all(map(is_, keys, constant)) or same_items([*keys], constant)


def lacks(table: Any, names: tuple[str, ...]) -> bool:
    """True if a namespace holds none of these names."""
    return bool(table.keys().isdisjoint(names))


def same_members(table: Any, among: frozenset[str], held: frozenset[str]) -> bool:
    """True if, of the names `among`, a namespace holds just those in `held`."""
    keys = table.keys()
    return bool(keys & among == held) if held else bool(keys.isdisjoint(among))


def same_scalar(value: Any, constant: Any) -> bool:
    """True if two NumPy scalars of one type are the same, bit by bit."""
    return bool(value.dtype == constant.dtype and value.tobytes() == constant.tobytes())
