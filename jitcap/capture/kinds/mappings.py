"""Capture: dictionaries. dictionary -> twin, with entries loaded one by one, or all in order."""

from __future__ import annotations

import builtins
import collections
import itertools
import operator
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from eager.base.dataclass import dataclass
from jitcap.base.breaks import Break
from jitcap.base.origin import Attribute, Item, ItemBy, Keys, Origin, entry_of
from jitcap.base.terms import Row, text
from jitcap.capture.epilogue_writes import (
    APPLY,
    CLEAR,
    DROP,
    ITEM,
    PUT,
    Effect,
    Emitter,
    attributes,
)
from jitcap.capture.inputs import Shadow, counts
from jitcap.capture.kinds.base import (
    MISSING,
    UNLOADED,
    Args,
    Kwargs,
    Session,
    of,
)
from jitcap.capture.kinds.poison import refuse_identity
from jitcap.capture.kinds.sequences import MeasuredKind
from jitcap.capture.kinds.symbolic.keys import MANY, SymKey, find, may_stand
from jitcap.guards.guard import Absent, AbsentBy, KeysAre, Length, TypeIs

# Methods that look at one key only.
_LISTING: Final = frozenset({"copy", "__or__", "__ror__"})  # that may ask for the keys
_KEYED: Final = frozenset({"get", "__getitem__", "__contains__", "pop", "setdefault"})


class DictShadow(Shadow):
    """A dictionary: entries are loaded one by one, or all in order when the whole is asked for."""

    mutable = True

    def __init__(self, real: dict[Any, Any], origin: Origin, twin: dict[Any, Any]) -> None:
        super().__init__(real, origin, twin)
        self.base: dict[Any, Any] = {}  # what was loaded, by key
        self.known: set[Any] = set()  # keys of which the twin tells the truth
        self.unasked: set[Any] = set()  # of these, set by the program before anybody looked
        self.numbered: list[SymKey] = []  # of these, run-time numbers
        self.whole = self.measured = False  # whether all was loaded, or the length was asked
        self.owner: type | None = None  # of an instance dictionary: the class of the instance
        # The class whose methods keep the twin consistent, whatever a subclass overrides.
        self.kind: Any = (
            collections.OrderedDict if isinstance(real, collections.OrderedDict) else dict
        )

    def kin(self) -> Any:
        return type(self.real), self.owner

    def store(self, key: Any, value: Any) -> None:
        if not self.whole and key not in self.known:
            self.known.add(key)
            self.unasked.add(key)
        self.kind.__setitem__(self.twin, key, value)

    def key(self, s: Session, key: Any) -> Any:
        """The key of the twin that is equal to this one."""
        if type(key) is str:
            return key
        if may_stand(key) and not self.whole:
            others = [k for k in self.known if type(k) is not str]
            ints = [k for k in others if type(k) is int]
            if len(ints) + len(self.numbered) == len(others) <= MANY:
                found = find(s, key, [*sorted(ints), *self.numbered])
                if found is None:
                    self.numbered.append(found := SymKey(key))
                return found
        key = s.known(key)
        if type(key) is int:
            found = find(s, key, self.numbered)
            return key if found is None else found
        self.settle_numbers(s)
        return key

    def settle_numbers(self, s: Session) -> None:
        """Keys that are numbers get the values that these have, under guards."""
        if not self.numbered:
            return
        values = {made: s.known(made.number) for made in self.numbered}
        self.numbered = []
        for table, kind in ((self.twin, self.kind), (self.base, dict)):
            held = [(values.get(k, k), v) for k, v in kind.items(table)]
            kind.clear(table)
            for key, value in held:
                kind.__setitem__(table, key, value)
        self.known = {values.get(k, k) for k in self.known}
        self.unasked = {values.get(k, k) for k in self.unasked}

    def before_delete(self, s: Session, key: Any) -> None:
        """Load the entry of `key`, as its presence decides what is removed. A key that is removed
        and comes back moves to the end: then the order matters."""
        s.refuse_key(key)
        stored = dict.get(self.twin, key, MISSING)
        if key in self.unasked:
            self.unasked.discard(key)
            self.known.discard(key)
        self.touch(s, key)
        if stored is not MISSING:
            self.kind.__setitem__(self.twin, key, stored)
        if key in self.base:
            self.complete(s)

    def touch(self, s: Session, key: Any) -> None:
        """Make the twin tell the truth about `key`."""
        named = type(key) is str  # most of them
        if not named:
            refuse_identity(key)
            s.refuse_key(key)
        if self.whole or key in self.known:
            return
        self.known.add(key)
        real_key, origin = key, None
        if not named:
            real_key, origin = key.place() if type(key) is SymKey else s.outside.key_of(key)
        value = dict.get(self.real, real_key, MISSING)
        if value is MISSING:
            by = self.way("__contains__", dict.__contains__)
            if origin is None:
                s.guard_first(Absent, self.origin, real_key, by)
            else:
                s.guard(AbsentBy, self.origin, origin, by)
            return
        way = None if type(self.real) is dict or self.plain() else entry_of
        step: Origin = Item(self.origin, real_key, way)
        if origin is not None:
            step = ItemBy(self.origin, origin, way)
        self.base[key] = value = s.outside.load(value, step)
        self.kind.__setitem__(self.twin, key, value)

    def holds(self, key: str) -> bool:
        """True if there is something under a key, which nobody is told."""
        return bool(dict.get(self.real, key))

    def plain(self) -> bool:
        """True if `real[key]` is the builtin lookup of `dict`, without `__missing__`."""
        cls = type(self.real)
        return cls.__getitem__ is dict.__getitem__ and not hasattr(cls, "__missing__")

    def way(self, name: str, builtin: Any) -> Any:
        """None where the class has the builtin's method, or the builtin's method."""
        return None if getattr(type(self.real), name) is builtin else builtin

    def complete(self, s: Session) -> None:
        if self.whole:
            return
        self.settle_numbers(s)
        keys = list(self.kind.keys(self.real))
        if all(type(k) in (int, str) for k in keys):
            own = self.way("__iter__", self.kind.__iter__) or self.way("__len__", self.kind.__len__)
            view = own and self.kind.keys
            s.guard(KeysAre, self.origin, tuple(keys), view)
            twins = keys
        else:
            twins = self._load_keys(s, keys)
        for key in twins:
            self.touch(s, key)
        now = dict(self.kind.items(self.twin))
        order = [*(k for k in twins if k in now), *(k for k in now if k not in self.base)]
        if not all(map(operator.is_, order, now)):  # else another thread may be looking at it
            self.kind.clear(self.twin)
            for key in order:
                self.kind.__setitem__(self.twin, key, now[key])
        self.base = {k: self.base.get(k, UNLOADED) for k in twins}
        self.whole = True

    def _load_keys(self, s: Session, keys: list[Any]) -> list[Any]:
        """The twins of the keys."""
        for key in keys:
            s.refuse_key(key)
        listed = Keys(self.origin, self.kind.keys)
        s.guard(Length, listed, len(keys))
        twins = [s.outside.load(k, Item(listed, i)) for i, k in enumerate(keys)]
        s.tells_apart(twins)
        return twins

    def size(self, s: Session) -> int:
        """`len()`: of an unchanged dictionary the number is guarded, not every key."""
        if not self.whole and not self.changed():
            count = dict.__len__(self.real)
            if not self.measured:
                s.guard_first(Length, self.origin, count, self.way("__len__", dict.__len__))
            self.measured = True
            return count
        self.complete(s)
        return dict.__len__(self.twin)

    def entries(self) -> dict[Any, Any]:
        """Values that the twin tells, by key; MISSING for what the program removed."""
        return {k: dict.get(self.twin, k, MISSING) for k in (*self.base, *self.stored())}

    def removed(self) -> list[Any]:
        return [k for k in self.base if not dict.__contains__(self.twin, k)]

    def stored(self) -> list[Any]:
        """Keys whose value the program set, in the twin's order."""
        base = self.base
        return [k for k, v in dict.items(self.twin) if k not in base or base[k] is not v]

    def reordered(self) -> bool:
        """True if a key was moved, or was removed and inserted again, maybe as an equal one (4.0
        for 4): new keys come last."""
        if not self.whole:
            return False
        now = [*self.kind.keys(self.twin)]
        kept = [k for k in self.base if dict.__contains__(self.twin, k)]
        return not all(map(_is_key, now, kept + [k for k in now if k not in self.base]))

    def changed(self) -> bool:
        if self._is_as_loaded():
            return False
        return bool(self.removed() or self.stored() or self.reordered())

    def _is_as_loaded(self) -> bool:
        """True if the twin has the very entries that were loaded, in their order: most do."""
        base, twin = self.base, self.twin
        if not base:
            return not dict.__len__(twin)
        return (
            len(base) == dict.__len__(twin)
            and all(map(operator.is_, base, self.kind.keys(twin)))
            and all(map(operator.is_, base.values(), self.kind.values(twin)))
        )

    def mark(self) -> tuple[Any, ...]:
        if not self.changed():
            return ()
        stored = tuple((k, id(dict.__getitem__(self.twin, k))) for k in self.stored())
        return stored, tuple(self.removed()), self.reordered()

    def lost(self) -> Iterable[Any]:
        keys = (*self.removed(), *self.stored())
        plain = (k.value if type(k) is SymKey else k for k in keys)
        return [dict.get(self.real, k) for k in plain if type(k) in (int, str)]

    def replay(self, make: Emitter) -> list[Effect]:
        if self.real is vars(builtins):
            raise Break("builtins", "a builtin is replaced")
        write, kind = partial(self.write, make), self.kind
        if self.reordered():
            return self._refill(make, write)
        drop, put = make.names.bind(kind.__delitem__), make.names.bind(kind.__setitem__)
        form = ITEM if type(self.real) in (dict, kind) else PUT
        effects = [
            write(DROP, make.expr(k), fn=drop, name=_constant(k), at=k) for k in self.removed()
        ]
        for k in self.stored():
            key, value = make.expr(k), make.expr(dict.__getitem__(self.twin, k))
            effects.append(write(form, key, value, put, name=_constant(k), at=k))
        return effects

    def _refill(self, make: Emitter, write: Any) -> list[Effect]:
        """Cleared, then filled in the new order, by no method of a subclass: `OrderedDict.update`
        asks `__setitem__`."""
        kind = self.kind
        pairs = [(make.expr(k), make.expr(v)) for k, v in kind.items(self.twin)]
        clear = write(CLEAR, fn=make.names.bind(kind.clear))
        if type(self.real) is not kind:
            put = make.names.bind(kind.__setitem__)
            return [clear, *(write(PUT, key, value, put) for key, value in pairs)]
        held = ("dict", *itertools.chain(*pairs))
        return [clear, write(APPLY, fn=make.names.bind(kind.update), value=held)]

    def shows(self, key: Any, other: DictShadow) -> bool:
        """True if `other`, of an object of another class, would show the write of `key` if it were
        this dictionary."""
        return key in (other.base if key in self.base else other.known)

    def counters(self) -> set[str]:
        if self._is_as_loaded():
            return set()
        return {
            (ItemBy(self.origin, k.origin) if type(k) is SymKey else Item(self.origin, k)).show()
            for k in self.stored()
            if counts(self.base.get(k), dict.__getitem__(self.twin, k))
        }


@dataclass(slots=True, eq=False)
class Entries:
    """Facts of a dictionary that a call may have read: entries, keys that it lacks, its length."""

    shadow: DictShadow
    held: dict[Any, Any]
    types: list[tuple[Any, type]]  # of what is outside, by key
    absent: tuple[Any, ...]
    whole: bool
    measured: bool

    @classmethod
    def of(cls, shadow: DictShadow) -> Entries | None:
        """All that is loaded; None where other dictionaries cannot be read alike."""
        constant = all(type(k) in (str, int) for k in shadow.known)
        if shadow.unasked or shadow.numbered or not constant:
            return None
        held = dict(shadow.kind.items(shadow.twin))
        absent = sorted((k for k in shadow.known if k not in held), key=str)
        types = [(k, type(dict.get(shadow.real, k))) for k in held]
        return cls(shadow, held, types, tuple(absent), shadow.whole, shadow.measured)

    def again(self, s: Session, other: Any) -> list[tuple[Any, Any]] | None:
        """Load the same of another dictionary: pairs of a value here and there. None if it does not
        hold the same keys, or the program has changed it."""
        mine = self.shadow
        if type(other) is not DictShadow or other.unasked or other.numbered:
            return None
        if type(other.real) is not type(mine.real) or other.owner is not mine.owner:
            return None
        fresh = not (other.known or other.whole)  # what nobody looked at is as it was
        for key in self.absent:
            if dict.__contains__(other.real, key):
                return None
            other.touch(s, key)
        for key, kind in self.types:
            if type(dict.get(other.real, key)) is not kind:
                return None
            other.touch(s, key)
        if self.whole and [*other.kind.keys(other.real)] != [*self.held]:
            return None
        if self.measured and dict.__len__(other.real) != dict.__len__(mine.real):
            return None
        if self.whole:
            other.complete(s)
        elif self.measured:
            other.size(s)
        found = other.twin
        if (not fresh and other.changed()) or not self.held.keys() <= dict.keys(found):
            return None
        return [(value, dict.__getitem__(found, key)) for key, value in self.held.items()]


def _is_key(a: Any, b: Any) -> bool:
    """True if two keys are identical, or equal constants of one type."""
    return a is b or (type(a) is type(b) and type(a) in (int, str, bytes) and bool(a == b))


def _constant(key: Any) -> Any:
    """A key as data, if it is one that can be shown."""
    return key if type(key) in (int, str) else None


def touch(s: Session, mapping: Any, key: Any) -> None:
    """Load one entry of a dictionary from outside."""
    shadow = s.outside.by_twin.get(id(mapping))
    if isinstance(shadow, DictShadow):
        shadow.touch(s, key)


def _known(s: Session, mapping: Any, key: Any, *, drops: bool = False) -> Any:
    """A key that is looked up or dropped: its value, of which the dictionary tells the truth."""
    shadow = s.outside.by_twin.get(id(mapping))
    if not isinstance(shadow, DictShadow):
        key = s.known(key)
        s.hashing((key,))
    elif drops:
        shadow.settle_numbers(s)
        shadow.before_delete(s, key := s.known(key))
    elif type(key) is not str or key not in shadow.known:  # most are read again and again
        shadow.touch(s, key := shadow.key(s, key))
    return key


@of(dict, collections.OrderedDict, collections.defaultdict)
class DictKind(MeasuredKind):
    """`dict`, `OrderedDict`, `defaultdict`, and what subclasses of them inherit."""

    def filling(self, make: Emitter, name: str, value: Any) -> list[Row]:
        ordered = isinstance(value, collections.OrderedDict)
        kind: Any = collections.OrderedDict if ordered else dict
        put = make.names.bind(kind.__setitem__)
        pairs = [make.all(pair) for pair in kind.items(value)]
        rows: list[Row] = [("do", ("call", put, name, *pair)) for pair in pairs]
        if isinstance(value, collections.defaultdict):
            held = text("default_factory"), make.expr(value.default_factory)
            rows.append(("do", ("call", make.names.bind(object.__setattr__), name, *held)))
        return rows + attributes(make, name, value)

    def load(self, s: Session, real: dict[Any, Any], origin: Origin) -> Any:
        s.guard_first(TypeIs, origin, type(real))
        if isinstance(real, collections.defaultdict):
            factory = s.outside.load(real.default_factory, Attribute(origin, "default_factory"))
            return s.outside.register(DictShadow(real, origin, collections.defaultdict(factory)))
        return s.outside.register(DictShadow(real, origin, type(real)()))

    def getitem(self, s: Session, obj: Any, key: Any) -> Any:
        if type(obj) is dict and type(key) is str:  # most of them
            shadow = s.outside.by_twin.get(id(obj))
            if type(shadow) is DictShadow and key not in shadow.known:
                shadow.touch(s, key)
            return obj[key]
        held = _known(s, obj, key)
        if dict.__contains__(obj, held):
            return dict.__getitem__(obj, held)
        if type(obj) is not dict:
            found = s.asked(obj, "__missing__", key)
            if found is not MISSING:
                return found
            factory = getattr(obj, "default_factory", None)
            if factory is not None:
                value = s.call(factory, (), {})
                s.writing(obj, key)
                self.setitem(s, obj, key, value)
                return value
        raise KeyError(s.known(key))

    def setitem(self, s: Session, obj: Any, key: Any, value: Any) -> None:
        shadow = s.outside.shadow(obj)
        if not isinstance(shadow, DictShadow):
            s.hashing((key := s.known(key),))
            obj[key] = value
        else:
            s.refuse_key(key)
            key = shadow.key(s, key)
            if s.log.goes_back():  # to what is there
                shadow.touch(s, key)
            shadow.store(key, value)

    def delitem(self, s: Session, obj: Any, key: Any) -> None:
        key = _known(s, obj, key, drops=True)
        del obj[key]

    def contains(self, s: Session, obj: Any, item: Any) -> Any:
        return dict.__contains__(obj, _known(s, obj, item))

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        for value in (owner, *args) if fn.__name__ in _LISTING else ():
            if s.special(value, "__iter__") is not None:
                raise Break("opaque object", f"native code asks {type(value).__qualname__}.keys()")
        if fn.__name__ not in _KEYED or not args:
            return super().invoke(s, owner, fn, args, kwargs)
        key = _known(s, owner, args[0], drops=fn.__name__ in ("pop", "__getitem__"))
        return fn(key, *args[1:], **kwargs)
