"""Kept versions: the records that are kept by their fields. class, fields <-> guards, origins ...

Each field is checked against its annotation.
"""

from __future__ import annotations

import functools
import sys
import types
import typing
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from eager.core.stand_in import Asked
from eager.sizes.aval import Aval
from eager.sizes.symint import SymInt
from jitcap.autodiff.double_backward import Call, Tape, Value
from jitcap.autodiff.joint import Joint, Segment
from jitcap.base.origin import Origin
from jitcap.graph.graph import Where
from jitcap.guards.guard import Guard
from jitcap.store.allowlist import Unreadable


@functools.cache
def families() -> dict[str, type]:
    """The records: guards, origins, and what they are made of."""
    found: dict[str, type] = {
        c.__name__: c for c in (Asked, Aval, Joint, Segment, Tape, Call, Value, Where)
    }
    stack: list[type] = [Guard, Origin]
    while stack:
        cls = stack.pop()
        stack += cls.__subclasses__()
        if cls.__module__.startswith("jitcap."):  # a slotted class lives beside its first draft
            own = vars(sys.modules[cls.__module__])[cls.__qualname__]
            found[f"{cls.__module__}.{cls.__qualname__}"] = own
    return found


@functools.cache
def names() -> dict[type, str]:
    """The name of each record."""
    return {cls: name for name, cls in families().items()}


def columns(cls: type, records: Sequence[Any]) -> list[list[Any]]:
    """The values of each field, in order, of some records of one class."""
    return [[*map(attrgetter(name), records)] for name in _fields(cls)]


def made(name: str, values: list[list[Any]]) -> list[Any]:
    """Records of a class by their fields: one value for all, or one for each."""
    cls = families()[name]
    for hint, column in zip(_hints(cls), values, strict=True):
        if not all(_fits(value, hint) for value in column):
            raise Unreadable(f"no {name}")
    whole = [column * len(values[0]) if len(column) == 1 else column for column in values]
    return [cls(*row) for row in zip(*whole, strict=True)] if values else [cls()]


@functools.cache
def _fields(cls: type) -> tuple[str, ...]:
    """The names of a record's fields, in the order in which it is made of them."""
    return tuple(getattr(cls, "_fields", ())) or tuple(f.name for f in fields(cls))


@functools.cache
def _hints(cls: type) -> tuple[Any, ...]:
    hints = typing.get_type_hints(cls)
    return tuple(hints[name] for name in _fields(cls))


def _fits(value: Any, hint: Any) -> bool:
    """True if a value is of an annotation's type."""
    if hint is Any:
        return True
    whole, parts = typing.get_origin(hint), typing.get_args(hint)
    if whole is types.UnionType or whole is typing.Union:
        return any(_fits(value, part) for part in parts)
    if whole is tuple and parts[-1:] == (...,):
        return type(value) is tuple and all(_fits(v, parts[0]) for v in value)
    if whole is tuple:
        fits = type(value) is tuple and len(value) == len(parts)
        return fits and all(map(_fits, value, parts))
    if whole is frozenset:
        return type(value) is frozenset and all(_fits(v, parts[0]) for v in value)
    if whole is dict:
        pairs = value.items() if type(value) is dict else ()
        return type(value) is dict and all(all(map(_fits, pair, parts)) for pair in pairs)
    if type(value) is bool or hint is bool:
        return type(value) is hint
    if type(value) is SymInt:
        return hint is int
    return issubclass(type(value), whole or hint)
