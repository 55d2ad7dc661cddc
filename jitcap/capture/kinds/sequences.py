"""Capture: tuples, lists, deques. container -> twin; elements are loaded when read."""

from __future__ import annotations

import collections
import operator
from collections.abc import Iterable
from functools import partial
from typing import Any, Final, cast

from eager.device import Size
from jitcap.base.breaks import Break
from jitcap.base.origin import Attribute, Computed, Item, ItemBy, Origin, result_of
from jitcap.base.terms import Row, Term, method, text
from jitcap.capture.epilogue_writes import APPLY, CLEAR, EXTEND, ITEM, PUT, Effect, Emitter
from jitcap.capture.inputs import Shadow, counts
from jitcap.capture.kinds.base import (
    DEPTH,
    UNLOADED,
    Args,
    Kwargs,
    MutableKind,
    Session,
    kind_of,
    of,
    parts_of,
)
from jitcap.capture.kinds.constants import NativeKind
from jitcap.capture.kinds.symbolic.keys import MANY, SymKey, find, may_stand
from jitcap.capture.sizes import counted, growing
from jitcap.guards.guard import Equals, Length, TypeIs

MOST: Final = 512  # numbers that vary among the indices of a list
MOVING: Final = frozenset(  # methods that look into no element but what they are given
    "add append appendleft discard pop popleft insert clear reverse rotate".split()
)


class ContainerKind(NativeKind):
    """Behaviour that containers share: their elements are settled with them."""

    contains_values = True

    def complete(self, s: Session, value: Any) -> None:
        """Load all elements."""
        shadow = s.outside.shadow(value)
        if shadow is not None:
            shadow.complete(s)

    def settle(self, s: Session, value: Any, depth: int) -> None:
        self.complete(s, value)
        if depth < DEPTH:
            self.settle_parts(s, value, depth)

    def settle_parts(self, s: Session, value: Any, depth: int = 0) -> None:
        for part in parts_of(value):
            kind = kind_of(part)
            if kind.contains_values:
                kind.settle(s, part, depth + 1)


class MeasuredKind(ContainerKind, MutableKind):
    """Lists and dictionaries: one may ask how long they are, and look at no element."""

    def length(self, s: Session, obj: Any) -> Any:
        shadow = s.outside.shadow(obj)
        return len(obj) if shadow is None else shadow.size(s)

    def truth(self, s: Session, obj: Any) -> bool:
        return bool(self.length(s, obj) > 0)


class SequenceKind(ContainerKind):
    """Tuples, lists and deques: elements are compared one by one where Python code does it. What
    moves elements, or asks how many there are, looks into none: it takes as long as in Python."""

    def getitem(self, s: Session, obj: Any, key: Any) -> Any:
        if type(key) is not int:
            return super().getitem(s, obj, key)
        self.complete(s, obj)
        return obj[key]

    def delitem(self, s: Session, obj: Any, key: Any) -> None:
        if type(key) is not int:
            super().delitem(s, obj, key)
        else:
            self.complete(s, obj)
            del obj[key]

    def owned(self, s: Session, owner: Any, fn: Any) -> None:
        if fn.__name__ in MOVING:
            self.complete(s, owner)
        else:
            self.settle(s, owner, 0)

    def contains(self, s: Session, obj: Any, item: Any) -> Any:
        self.settle(s, obj, 0)
        if kind_of(item).contains_values:
            s.settle(item)
        if s.lends(obj) or s.lends(item):
            return s.call_native(operator.contains, (obj, item))
        if kind_of(item).python:  # told apart by identity
            return any(s.same(v, item) or s.truth(s.compare("==", v, item)) for v in obj)
        s.tells_apart((obj, item), equals=True)
        return item in obj


@of(tuple, Size)
class TupleKind(SequenceKind):
    """A new tuple of the loaded elements; the same one when all of them are constants. One of ints
    is compared as a whole, until one of them varies."""

    def load(self, s: Session, real: tuple[Any, ...], origin: Origin) -> Any:
        cls = type(real)
        plain = cls is tuple and all(type(x) in (int, str) for x in real)
        if plain and origin.show() not in s.outside.assumed.varying:
            return s.outside.constant(real, origin)
        s.guard(TypeIs, origin, cls)
        own = cls not in (tuple, Size)  # it may count and pick in ways of its own
        count, pick = (tuple.__len__, tuple.__getitem__) if own else (None, None)
        parts = tuple.__getitem__(real, slice(None))
        s.guard(Length, origin, len(parts), count)
        items = [s.outside.load(x, Item(origin, i, pick)) for i, x in enumerate(parts)]
        twin = real
        if any(a is not b for a, b in zip(items, parts, strict=True)):
            twin = tuple(items) if cls is tuple else tuple.__new__(cls, items)
        return s.outside.register(Shadow(real, origin, twin))

    def length(self, s: Session, obj: tuple[Any, ...]) -> int:
        return len(obj)

    def rebuild(self, make: Emitter, value: tuple[Any, ...]) -> Term:
        cls, parts = type(value), tuple.__getitem__(value, slice(None))
        plain = all(type(v) in (int, str, bool, type(None)) for v in parts)
        if plain and not hasattr(value, "__dict__"):
            return make.names.bind(value)
        whole = ("tuple", *make.all(parts))
        if cls is tuple:
            return make.let(whole)
        new, kind = make.names.bind(tuple.__new__), make.names.bind(cls)
        return make.let(("call", new, kind, whole))


class ListShadow(Shadow):
    """A list or deque: elements are loaded one by one, or all when the whole is asked for."""

    mutable = True

    def __init__(self, real: Any, origin: Origin, twin: Any) -> None:
        super().__init__(real, origin, twin)
        # Whatever a subclass overrides: see DictShadow.
        self.kind: Any = list if isinstance(real, list) else collections.deque
        self.has_ways = type(real) is not self.kind
        self.base: list[Any] = [UNLOADED] * self.kind.__len__(real)
        self.kind.extend(twin, self.base)
        self.whole = not self.base
        self.measured = False
        self.length: Any = None  # as a run-time number
        self.numbered: dict[SymKey, list[Any]] = {}  # elements by such a number: read, and now
        self.apart: dict[Any, None] = {}  # numbers and indices of which no two are the same

    def count(self) -> int:
        return int(self.kind.__len__(self.twin))

    def items(self) -> list[Any]:
        return [*self.kind.__iter__(self.twin)]

    def measure(self, s: Session) -> None:
        """Guard the length. Not before somebody looks: a log that only grows fits any length."""
        if not self.measured:
            self.measured = True
            by = self.kind.__len__ if self.has_ways else None
            s.guard(Length, self.origin, len(self.base), by)

    def key(self, s: Session, key: Any) -> Any:
        """The index under which the twin has an element: of a list, a run-time number may stand for
        itself."""
        if not may_stand(key) or not self._is_inside(key):
            key = s.known(key)
            if type(key) is not int or not self.numbered:
                return key
            self.measure(s)
            found = find(s, key + self.count() * (key < 0), self.numbered)
            return key if found is None else found
        places = [i for i, x in enumerate(self.base) if x is not UNLOADED]
        if len(places) + len(self.numbered) > MOST or not s.truth(s.compare(">=", key, 0)):
            return s.known(key)
        if places:
            self.measure(s)
        others = [*places, *self.numbered]
        if len(others) > MANY:  # pairs would be too many: one guard says that all differ
            self.apart |= dict.fromkeys(others)
            others = [o for o in others if (o.value if type(o) is SymKey else o) == key.leaf.value]
        found = find(s, key, others)
        if found is None:
            found = SymKey(key)
            value = s.outside.load(list.__getitem__(self.real, found.value), self._at(found))
            self.numbered[found] = [value, value]
        return found

    def guard_apart(self, s: Session) -> None:
        """Guard that keys differ of which no two were compared."""
        if self.apart:
            self.apart |= dict.fromkeys(self.numbered)
            sources = [x.origin for x in self.apart if type(x) is SymKey]
            fixed = [x for x in self.apart if type(x) is int]
            keys = ("set", *(f"${i}" for i in range(len(sources))), *fixed)
            s.guard_that(("==", ("len", keys), len(self.apart)), *sources)

    def _is_inside(self, key: Any) -> bool:
        inside = 0 <= key.leaf.value < len(self.base) == self.count()
        return inside and not self.whole and self.kind is list

    def _at(self, made: SymKey) -> Origin:
        return ItemBy(self.origin, made.origin, list.__getitem__ if self.has_ways else None)

    def put(self, s: Session, key: Any, value: Any) -> bool:
        """Set one element of a list, where that asks for no other."""
        if type(key) is SymKey:
            self.numbered[key][1] = value
        elif type(key) is int and self.kind is list:
            self.touch(s, key)
            if key < 0:
                self.measure(s)
            list.__setitem__(self.twin, key, value)
        else:
            return False
        return True

    def settle_numbers(self, s: Session) -> None:
        """Store elements at run-time numbers under their current values, which are guarded."""
        for made, (read, now) in self.numbered.items():
            place = s.known(made.number)
            self.base[place] = read
            self.kind.__setitem__(self.twin, place, now)
        self.numbered = {}

    def touch(self, s: Session, index: int) -> None:
        """Load one element of a list. One that is there needs no guard on the length, and what
        is counted from the end is counted from the end at every call."""
        if self.whole and self.base:
            return
        count, size = len(self.base), self.count()
        place = index + size if index < 0 else index
        if not 0 <= place < count:
            if index >= 0 or place < 0:  # appended by the program, counted from the start; or none
                self.measure(s)
        elif self.kind.__getitem__(self.twin, place) is UNLOADED:
            key = place - count if index < 0 else place
            by = list.__getitem__ if self.has_ways else None
            real = list.__getitem__(self.real, place)
            value = s.outside.load(real, Item(self.origin, key, by))
            self.base[place] = value
            self.kind.__setitem__(self.twin, place, value)

    @property
    def length_name(self) -> str:
        return counted(self.origin.show())

    def grows(self) -> bool:
        """True if the program appends to it, and has read only its length."""
        return self.measured and not self.whole and self.count() > len(self.base)

    def size(self, s: Session) -> Any:
        """`len()`: a run-time number once it is known to vary."""
        if self.whole or self.length_name not in s.outside.assumed.varying:
            self.measure(s)
            return self.count()
        if self.length is None:
            place = Computed((self.origin,), ("len", "$0"))
            if self.has_ways:
                place = result_of(self.kind.__len__, self.origin)
            self.length = s.number_input(len(self.base), place)
        added = self.count() - len(self.base)
        return self.length + added if added else self.length

    def complete(self, s: Session) -> None:
        name, known = self.origin.show(), s.outside.assumed.varying
        grown = self.count() != len(self.base) and self.length_name in known
        if not self.whole and (grown or growing(name) in known):
            raise Break("growing list", f"all of {name} is looked at")
        self.measure(s)
        if self.whole:
            return
        self.settle_numbers(s)
        self.load_rest(s)
        self.whole = True

    def load_rest(self, s: Session) -> None:
        """All elements, under what was appended before anybody looked."""
        if self.kind is list:
            for index in range(len(self.base)):
                self.touch(s, index)
            return
        self.base = self.loaded(s)
        appended = self.appended()
        self.kind.clear(self.twin)
        self.kind.extend(self.twin, [*self.base, *appended])

    def loaded(self, s: Session) -> list[Any]:
        """Twins of all elements that there were."""
        by = self.kind.__getitem__ if self.has_ways else None
        place = enumerate(self.kind.__iter__(self.real))
        return [s.outside.load(x, Item(self.origin, i, by)) for i, x in place]

    def appended(self) -> list[Any]:
        """Elements that were appended while those before them were not loaded."""
        now = self.items()
        start = next((i + 1 for i in reversed(range(len(now))) if now[i] is UNLOADED), 0)
        return now[start:]

    def changed(self) -> bool:
        if not self.whole and not isinstance(self.twin, list):
            return bool(self.appended())
        now = self.items()
        if any(new is not old for old, new in self.numbered.values()):
            return True
        return len(now) != len(self.base) or any(
            a is not b for a, b in zip(now, self.base, strict=True)
        )

    def entries(self) -> dict[int, Any]:
        """The loaded elements of a list, by index."""
        items = self.items() if self.kind is list else []
        return {i: x for i, x in enumerate(items) if x is not UNLOADED}

    def rest(self) -> Any:
        """State besides these elements, the length too: all of a deque, and where elements that are
        not loaded were moved."""
        base, now = self.base, self.items()
        holes = [i for i, x in enumerate(base) if x is UNLOADED]
        if self.kind is list and holes == [i for i, x in enumerate(now) if x is UNLOADED]:
            return len(now), [id(b) for a, b in self.numbered.values() if a is not b]
        return self.mark()

    def mark(self) -> tuple[Any, ...]:
        items, base = self.items(), self.base
        own = [(i, id(x)) for i, x in enumerate(items) if i >= len(base) or base[i] is not x]
        own += [(id(made), id(now)) for made, (_, now) in self.numbered.items()]
        return (len(items), *own) if self.changed() else ()

    def lost(self) -> Iterable[Any]:
        kept = {id(item) for item in self.items()}
        for made, (old, new) in self.numbered.items():
            if old is not new:
                yield list.__getitem__(self.real, made.value)
        pairs = zip(self.kind.__iter__(self.real), self.base, strict=True)
        yield from (real for real, twin in pairs if id(twin) not in kept)

    def replay(self, make: Emitter) -> list[Effect]:
        items, base = self.items(), self.base
        bind, plain = make.names.bind, type(self.real) is self.kind
        write = partial(self.write, make)

        def extend(values: list[Any]) -> Effect:
            form, value = EXTEND if plain else APPLY, ("list", *make.all(values))
            return write(form, value=value, fn=bind(self.kind.extend), model=EXTEND)

        if self.kind is list:
            put, whole = bind(list.__setitem__), bind(slice(None))
            same = len(items) >= len(base) and all(map(operator.is_, items, base))
            if same or not self.whole:
                held = [(made, *pair) for made, pair in self.numbered.items()]
                held += [(i, *pair) for i, pair in enumerate(zip(base, items, strict=False))]
                form = ITEM if plain else PUT
                puts = [
                    write(form, make.expr(k), make.expr(new), put, ITEM)
                    for k, old, new in held
                    if old is not new
                ]
                more = items[len(base) :]
                return puts + ([extend(more)] if more else [])
            form, model = PUT, ("set", ("after", "t", 0), "v")
            value = ("list", *make.all(items))
            return [write(form if not plain else model, whole, value, put, model)]
        if not (self.whole and self.measured):  # nobody looked: it may hold more at another call
            return [extend(self.appended())]
        clear = bind(self.kind.clear)
        return [write(CLEAR, fn=clear, model=("do", method("t", "clear"))), extend(items)]

    def counters(self) -> set[str]:
        found = {self.length_name} if self.grows() else set()
        for made, (old, new) in self.numbered.items():
            if counts(old, new) and old != new:
                found.add(self._at(made).show())
        return found


def _count(s: Session, key: slice, size: int) -> int:
    """Number of elements in a slice of a list that begins at a number that varies, which
    is guarded; 0 of one that is better known."""
    stop = key.stop.leaf.value if may_stand(key.stop) else key.stop
    if key.step is not None or type(stop) is not int:
        return 0
    start = key.start.leaf.value
    if not 0 <= start < stop <= size or stop - start > MOST:
        return 0
    count = s.binary("-", key.stop, key.start)
    if not s.truth(s.compare("==", count, stop - start)):
        return 0
    return int(stop - start)


@of(list, collections.deque)
class ListKind(SequenceKind, MeasuredKind):
    """A list, or a deque."""

    def empty(self, make: Emitter, value: Any) -> Term:
        limit = []
        if isinstance(value, collections.deque):
            limit = [("keyword", text("maxlen"), make.expr(value.maxlen))]
        return ("call", make.names.bind(type(value)), *limit)

    def filling(self, make: Emitter, name: str, value: Any) -> list[Row]:
        kind = list if isinstance(value, list) else collections.deque
        extend = make.names.bind(kind.extend)
        parts = list(parts_of(value))  # whatever a subclass overrides
        return [("do", ("call", extend, name, ("list", *make.all(parts))))] if parts else []

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        s.guard(TypeIs, origin, type(real))
        twin: Any = []
        if type(real) is collections.deque:
            twin = collections.deque(maxlen=guard_limit(s, real, origin))
        return s.outside.register(ListShadow(real, origin, twin))

    def getitem(self, s: Session, obj: Any, key: Any) -> Any:
        shadow = s.outside.shadow(obj)
        if isinstance(shadow, ListShadow):
            if type(key) is slice and may_stand(key.start) and type(obj) is list:
                count = _count(s, key, len(shadow.base))
                if count:
                    places = (s.binary("+", key.start, i) for i in range(count))
                    return [self.getitem(s, obj, place) for place in places]
            key = shadow.key(s, key)
            if type(key) is SymKey:
                return shadow.numbered[key][1]
            if type(key) is int and isinstance(obj, list):
                shadow.touch(s, key)
                return list.__getitem__(obj, key)
        return super().getitem(s, obj, s.known(key))

    def setitem(self, s: Session, obj: Any, key: Any, value: Any) -> None:
        shadow = s.outside.shadow(obj)
        key = shadow.key(s, key) if isinstance(shadow, ListShadow) else s.known(key)
        if isinstance(shadow, ListShadow) and shadow.put(s, key, value):
            return
        self.complete(s, obj)
        if s.lends(key):
            key = s.call_native(_place, (key,))  # asked before the values are
        obj[key] = self._values(s, key, value) if type(key) is slice else value

    def _values(self, s: Session, key: slice, value: Any) -> list[Any]:
        """Values that a slice is set to: `value` is asked for its iterator, not for its length."""
        try:
            values = s.call(iter, (value,), {})
        except TypeError:
            values = None
        if values is None:
            cast(Any, [])[key] = None  # raises, in this version's words
        return s.list_of(values)

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        if fn.__name__ == "append":  # these only store: nothing is looked at
            return fn(*args, **kwargs)
        if fn.__name__ == "__setitem__" and len(args) == 2 and not kwargs:
            return self.setitem(s, owner, *args)
        if fn.__name__ == "extend" and len(args) == 1:
            given = s.list_of(args[0]) if isinstance(owner, list) else list(s.iter(args[0]))
            return fn(given, **kwargs)  # a deque asks for no length
        return super().invoke(s, owner, fn, args, kwargs)


def guard_limit(s: Session, real: Any, origin: Origin) -> int | None:
    """Maximum length of a deque, guarded; None if it has no limit."""
    maxlen: int | None = collections.deque.maxlen.__get__(real)
    s.guard(Equals, Attribute(origin, "maxlen"), maxlen)
    return maxlen


def _place(key: Any) -> Any:
    """An index or a slice with its numbers, as native code asks for them."""
    if type(key) is slice:
        step, start, stop = map(_place, (key.step, key.start, key.stop))
        return slice(start, stop, step)
    return operator.index(key) if hasattr(type(key), "__index__") else key
