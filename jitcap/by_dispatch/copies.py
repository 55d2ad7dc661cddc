"""Tracing by dispatch: what the program's objects were. object -> copy, and back again.

None of the program's code runs for it: contents are taken and put as the builtin types have them.
"""

from __future__ import annotations

import collections
from contextlib import suppress
from types import CellType, SimpleNamespace
from typing import Any

from jitcap.base.call_policy import is_python_class
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.cells import is_empty
from jitcap.capture.kinds.native_proxies import same_parts
from jitcap.capture.kinds.objects import slots_of


def blank(real: Any) -> Any:
    """An empty object of the same type, made by none of the program's code; None if there is no
    way to make one."""
    cls: Any = type(real)
    native: Any = next(b for b in cls.__mro__ if not is_python_class(b) or b is SimpleNamespace)
    if native is collections.deque:
        made: Any = collections.deque.__new__(cls)
        collections.deque.__init__(made, (), real.maxlen)
        return made
    if native in (object, list, dict, collections.OrderedDict, collections.defaultdict):
        with suppress(TypeError):  # of a class that is derived from another in C, too
            return native.__new__(cls)
        return None
    return SimpleNamespace() if cls is SimpleNamespace else None


def dict_kind(table: Any) -> Any:
    return collections.OrderedDict if isinstance(table, collections.OrderedDict) else dict


def poured(into: Any, table: Any) -> Any:
    """`into` with the contents of `table`, whatever their class overrides."""
    kind = dict_kind(table)
    if type(table) is dict:  # which knows the hashes of its keys
        dict.update(into, table)
        return into
    for key, value in kind.items(table):
        kind.__setitem__(into, key, value)
    return into


def refill(table: Any, saved: Any) -> None:
    """A dictionary as it was; with the same keys it is never empty for another thread."""
    kind = dict_kind(table)
    if not same_parts([*kind.keys(table)], [*kind.keys(saved)]):
        kind.clear(table)
    poured(table, saved)


def refill_names(space: dict[str, Any], saved: dict[str, Any]) -> None:
    """A module's dictionary as it was, of which most never changed."""
    for name in [n for n in space if n not in saved]:
        del space[name]
    for name, value in saved.items():
        if space.get(name, MISSING) is not value:
            space[name] = value


def fields_of(obj: Any) -> dict[str, Any]:
    fields: dict[str, Any] = object.__getattribute__(obj, "__dict__")
    return fields


def slot_of(slot: Any, obj: Any) -> Any:
    try:
        return slot.__get__(obj, type(obj))
    except AttributeError:
        return MISSING


def copy_slots(obj: Any, into: Any) -> None:
    """Put what an object has in its slots into another one's."""
    for _, slot in slots_of(type(obj)):
        if (held := slot_of(slot, obj)) is not MISSING:
            slot.__set__(into, held)


def refit(obj: Any, saved: Any, fields: Any) -> None:
    """An object's class and slots as they were, and its own dictionary."""
    if type(obj) is not type(saved):
        object.__setattr__(obj, "__class__", type(saved))
    if fields is not None and fields_of(obj) is not fields:
        object.__setattr__(obj, "__dict__", fields)
    for _, slot in slots_of(type(saved)):
        held = slot_of(slot, saved)
        if held is not MISSING:
            slot.__set__(obj, held)
        elif slot_of(slot, obj) is not MISSING:
            slot.__delete__(obj)


def recell(cell: CellType, saved: CellType) -> None:
    if not is_empty(saved):
        cell.cell_contents = saved.cell_contents
    elif not is_empty(cell):
        del cell.cell_contents


def restore_class(cls: type, saved: dict[str, Any]) -> None:
    """A class as it was."""
    for name in [n for n in vars(cls) if n not in saved]:
        type.__delattr__(cls, name)
    for name, value in saved.items():
        if vars(cls).get(name, MISSING) is not value:
            type.__setattr__(cls, name, value)


def refill_list(kind: Any, items: Any, saved: Any) -> None:
    """A list, deque or set as it was, whatever its class overrides."""
    if not same_parts([*kind.__iter__(items)], [*kind.__iter__(saved)]):
        kind.clear(items)
        (kind.update if kind is set else kind.extend)(items, kind.__iter__(saved))
