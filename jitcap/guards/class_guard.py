"""Beside the guards: what an entry assumes of classes. namespaces -> Member, MembersAre, `Classes`.

An entry relies on some twenty members of a dozen classes, and on many more that are not there.
CPython gives each class a version tag, a new one whenever the class, or a base of it, was changed:
that is how it knows itself whether what it found of a class is still so. An entry looks at its
classes once, remembers their tags, and looks again when one is another (`Classes`). Where the tags
are not known, it looks at each call.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from eager.base.dataclass import dataclass
from jitcap.base.equality import lacks, same_members
from jitcap.base.origin import MembersOf
from jitcap.base.terms import Term, attribute, every, text
from jitcap.guards.guard import Guard, Names, short

ABSENT: Final = object()
_TRIES: Final = 64  # tags that an entry takes; a class gets a thousand, and its methods want some
_FLAGS, _TAG = (object.__basicsize__ + offset for offset in (152, 368))  # of CPython's class
_MRO: Final = type.__dict__["__mro__"]  # read past what a metaclass may say
_NO_NAME: Final = " of no class"


class Classes:
    """The classes that an entry relies on: their tags `now`, and those `seen` when it last looked
    at the classes themselves."""

    __slots__ = ("_classes", "_left", "now", "seen")

    def __init__(self) -> None:
        self.now: list[memoryview] = []
        self.seen: list[memoryview] | None = None
        self._classes: list[type] = []  # whose tags these are; with a base, its subclasses change
        self._left = _TRIES

    def tags(self, *classes: type) -> list[memoryview]:
        """A copy of the tags as they are, for `hold`; none where they are not to be relied on."""
        if self._left == 0 or not tags_are_known():
            return []
        self._left -= 1
        if not all(issubclass(type(cls), type) for cls in classes):
            raise TypeError("tags of what is no class")  # its memory is no class's
        bases = {id(base) for cls in classes for base in _MRO.__get__(cls)[1:]}
        derived = [cls for cls in classes if id(cls) not in bases]
        for cls in derived:
            _look_into(cls)
        now = [*map(_tag_of, derived)]
        self._classes, self.now = derived, now
        return [memoryview(bytes(tag)).cast("I") for tag in now]

    def hold(self, tags: list[memoryview], fits: bool) -> bool:
        """`fits`, which was found after the `tags` were read, so that a change in between shows."""
        known = fits and type(tags) is list and len(tags) == len(self.now) > 0
        if known and all(type(tag) is memoryview and tag[0] for tag in tags):
            self.seen = tags
        return fits


def _tag_of(cls: type) -> memoryview:
    """The tag of a class, where it stands; 0: it has none at present."""
    return _memory(cls, _TAG)


def _memory(cls: type, offset: int) -> memoryview:
    field = ctypes.c_uint32.from_address(id(cls) + offset)
    return memoryview(field).cast("B").cast("I").toreadonly()


def _look_into(cls: type) -> None:
    """A class gets its tag when something is looked up in it. Asks nothing of its metaclass."""
    with suppress(AttributeError):
        type.__getattribute__(cls, _NO_NAME)


@functools.cache
def tags_are_known() -> bool:
    """True if the interpreter keeps its type tags where `_tag_of` looks for them."""
    if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info < (3, 14):
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False

    class Base:
        pass

    class Derived(Base):
        pass

    # The flags stand where they are told to, so the field behind them, too.
    for cls in (Base, Derived, type, int):
        flags: Any = cls.__flags__
        if flags & 0xFFFF_FFFF != _memory(cls, _FLAGS)[0]:
            return False
    held, changed = [], []
    for member in ("a", "b"):
        _look_into(Derived)
        held.append(_tag_of(Derived)[0])
        setattr(Base, member, None)
        changed.append(_tag_of(Derived)[0])
    return 0 not in held and held[0] != held[1] and changed == [0, 0]


@dataclass(frozen=True, slots=True, eq=False)
class Member(Guard):
    """A namespace (of a class, the builtins) holds this very object, or nothing (`ABSENT`)."""

    name: str
    value: Any

    @property
    def together(self) -> Callable[[list[Guard], Names], None] | None:
        return namespaces

    def test(self, names: Names) -> Term:
        table = names.var(self.origin)
        if self.value is ABSENT:
            return ("not in", text(self.name), table)
        place = ("item", table, text(self.name))
        return ("is", place, names.bind(self.value, place))

    def expected(self) -> str:
        if self.value is ABSENT:
            return f"no {self.name!r}"
        return f"{self.name} = {short(self.value)}"

    def got(self, value: Any) -> str:
        return short(value[self.name]) if self.name in value else f"no {self.name!r}"


@dataclass(frozen=True, slots=True, eq=False)
class MembersAre(Guard):
    """A namespace holds these of the names `among`, and no others."""

    among: frozenset[str]
    names: frozenset[str]

    @property
    def together(self) -> Callable[[list[Guard], Names], None] | None:
        return namespaces

    def test(self, names: Names) -> Term:
        among, held = names.bind(self.among), names.bind(self.names)
        return ("call", names.bind(same_members), names.var(self.origin), among, held)

    def expected(self) -> str:
        return f"the members {', '.join(sorted(self.names)) or 'as they were'}"

    def got(self, value: Any) -> str:
        return f"{', '.join(sorted(value.keys() & self.among)) or 'none'}"


def namespaces(guards: list[Guard], names: Names) -> None:
    """One condition per module's namespace, and one for all classes: nothing has changed them, or
    each is as it should be."""
    by_table: dict[str, list[Guard]] = {}
    for each in guards:
        by_table.setdefault(names.var(each.origin), []).append(each)
    classes: list[str] = []
    tests: list[Term] = []
    for table, rows in by_table.items():
        held = _namespace(table, rows, names)
        origin = rows[0].origin
        if isinstance(origin, MembersOf):
            classes.append(names.bind(origin.cls, None))
            tests += held
        else:
            names.rows.append(("hold", every(*held)))
    if tests:
        state = names.bind(Classes())
        same = ("==", attribute(state, "now"), attribute(state, "seen"))
        look = ("hold", state, ("tags", state, *classes), every(*tests))
        names.rows.append(("hold", ("or", same, look)))


def _namespace(table: str, rows: list[Guard], names: Names) -> list[Term]:
    """The conditions on one namespace: what was read of it, and what was not there."""
    members = [row for row in rows if type(row) is Member]
    absent = tuple(m.name for m in members if m.value is ABSENT)
    tests = [m.test(names) for m in members if m.value is not ABSENT]
    if len(absent) == 1:
        tests.append(("not in", text(absent[0]), table))
    elif absent:
        tests.append(("call", names.bind(lacks), table, names.bind(absent)))
    return tests + [row.test(names) for row in rows if type(row) is not Member]
