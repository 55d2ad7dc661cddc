"""Capture: tuples, lists, deques and sets. Elements from outside are loaded when they are read."""

from __future__ import annotations

import collections
import operator
from functools import partial
from typing import Any, Final

from jitcap.capture.breaks import Break
from jitcap.capture.kinds.base import UNLOADED, Args, Kwargs, Session, kind_of, kind_of_class
from jitcap.capture.kinds.constants import ConstantKind, NativeKind
from jitcap.capture.origin import Computed, Item, Origin
from jitcap.capture.outside import Shadow
from jitcap.capture.replay import EXTEND, Effect, Maker
from jitcap.guards import Length, TypeIs

DEPTH: Final = 12  # containers in containers that are settled with the outermost


class ContainerKind(NativeKind):
    """What containers share: their parts are settled with them."""

    contains_values = True

    def complete(self, s: Session, value: Any) -> None:
        """Load all elements."""

    def parts(self, value: Any) -> Any:
        return value

    def settle(self, s: Session, value: Any, depth: int) -> None:
        self.complete(s, value)
        if depth < DEPTH:
            for part in self.parts(value):
                kind = kind_of(part)
                if isinstance(kind, ContainerKind):
                    kind.settle(s, part, depth + 1)


class SequenceKind(ContainerKind):
    """Tuples, lists and deques: elements are compared one by one where Python code does it."""

    def contains(self, s: Session, obj: Any, item: Any) -> Any:
        self.settle(s, obj, 0)
        if s.lends(obj) or s.lends(item):
            return s.natively(operator.contains, (obj, item))
        if kind_of(item).python:  # told apart by identity
            return any(s.same(v, item) or s.truth(s.compare("==", v, item)) for v in obj)
        return item in obj


class TupleKind(SequenceKind):
    """A new tuple of the loaded elements; the same one when all of them are constants."""

    def load(self, s: Session, real: tuple[Any, ...], origin: Origin) -> Any:
        cls = type(real)
        if cls is tuple and all(type(x) in (int, str) for x in real):
            return s.outside.constant(real, origin)
        s.outside.guard(TypeIs(origin, s.line(), cls))
        s.outside.guard(Length(origin, s.line(), len(real)))
        items = [s.outside.load(x, Item(origin, i)) for i, x in enumerate(real)]
        twin = real
        if any(a is not b for a, b in zip(items, real, strict=True)):
            twin = tuple(items) if cls is tuple else tuple.__new__(cls, items)
        return s.outside.register(Shadow(real, origin, twin))


class ListShadow(Shadow):
    """A list or deque: elements are loaded one by one, or all when the whole is asked for."""

    mutable = True

    def __init__(self, real: Any, origin: Origin, twin: Any) -> None:
        super().__init__(real, origin, twin)
        self.base: list[Any] = [UNLOADED] * len(real)
        twin.extend(self.base)
        self.whole = not self.base
        self.measured = False
        self.length: Any = None  # as a run-time number

    def measure(self, s: Session) -> None:
        """Guard the length. Not before somebody looks: a log that only grows fits any length."""
        if not self.measured:
            self.measured = True
            s.guards.add(Length(self.origin, s.line(), len(self.real)))

    def touch(self, s: Session, index: int) -> None:
        """Load one element of a list. One that is there needs no guard on the length, and what
        is counted from the end is counted from the end at every call."""
        if self.whole:
            return
        count, size = len(self.base), len(self.twin)
        place = index + size if index < 0 else index
        if not 0 <= place < count:
            if index >= 0 or place < 0:  # appended by the program, counted from the start; or none
                self.measure(s)
        elif self.twin[place] is UNLOADED:
            key = place - count if index < 0 else place
            value = s.outside.load(self.real[place], Item(self.origin, key))
            self.base[place] = self.twin[place] = value

    @property
    def length_name(self) -> str:
        return f"len({self.origin.show()})"

    def grows(self) -> bool:
        """Whether the program appends to it, and has looked at its length only."""
        return self.measured and not self.whole and len(self.twin) > len(self.base)

    def size(self, s: Session) -> Any:
        """`len()`: a run-time number once it is known to vary."""
        if self.whole or self.length_name not in s.outside.dynamic:
            self.measure(s)
            return len(self.twin)
        if self.length is None:
            place = Computed((self.origin,), "len({})")
            self.length = s.number_input(len(self.real), place)
        added = len(self.twin) - len(self.base)
        return self.length + added if added else self.length

    def complete(self, s: Session) -> None:
        grown = len(self.twin) != len(self.base)
        if not self.whole and grown and self.length_name in s.outside.dynamic:
            raise Break("growing list", f"all of {self.origin.show()} is looked at")
        self.measure(s)
        if self.whole:
            return
        if isinstance(self.twin, list):
            for index in range(len(self.base)):
                self.touch(s, index)
        else:
            self._complete_deque(s)
        self.whole = True

    def _complete_deque(self, s: Session) -> None:
        """All at once, under what was appended before anybody looked."""
        place = enumerate(self.real)
        self.base = [s.outside.load(x, Item(self.origin, i)) for i, x in place]
        appended = self.appended()
        self.twin.clear()
        self.twin.extend([*self.base, *appended])

    def appended(self) -> list[Any]:
        """What was added at the end while nothing was looked at."""
        now = list(self.twin)
        start = next((i + 1 for i in reversed(range(len(now))) if now[i] is UNLOADED), 0)
        return now[start:]

    def changed(self) -> bool:
        if not self.whole and not isinstance(self.twin, list):
            return bool(self.appended())
        now = list(self.twin)
        return len(now) != len(self.base) or any(
            a is not b for a, b in zip(now, self.base, strict=True)
        )

    def replay(self, make: Maker) -> list[Effect]:
        items, base = list(self.twin), self.base
        write = partial(
            Effect, self.origin, make.names.var(self.origin),
            where=make.written_at(self.twin, None),
        )  # fmt: skip
        if isinstance(self.real, list):
            if len(items) > len(base) and all(a is b for a, b in zip(items, base, strict=False)):
                return [write(EXTEND, value=f"[{make.all(items[len(base) :])}]")]
            return [write("{t}[:] = {v}", value=f"[{make.all(items)}]")]
        if not (self.whole and self.measured):  # nobody looked: it may hold more at another call
            return [write(EXTEND, value=f"[{make.all(self.appended())}]")]
        return [write("{t}.clear()"), write(EXTEND, value=f"[{make.all(items)}]")]

    def counters(self) -> set[str]:
        return {self.length_name} if self.grows() else set()


class ListKind(SequenceKind):
    """A list, or a deque."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        s.outside.guard(TypeIs(origin, s.line(), type(real)))
        maxlen = getattr(real, "maxlen", None)
        twin: Any = collections.deque(maxlen=maxlen) if type(real) is collections.deque else []
        return s.outside.register(ListShadow(real, origin, twin))

    def complete(self, s: Session, value: Any) -> None:
        shadow = s.outside.shadow(value)
        if isinstance(shadow, ListShadow):
            shadow.complete(s)

    def getitem(self, s: Session, obj: Any, key: Any) -> Any:
        shadow = s.outside.shadow(obj)
        if isinstance(shadow, ListShadow) and type(key) is int and isinstance(obj, list):
            shadow.touch(s, key)
            return list.__getitem__(obj, key)
        return super().getitem(s, obj, key)

    def setitem(self, s: Session, obj: Any, key: Any, value: Any) -> None:
        self.complete(s, obj)
        obj[key] = value

    def length(self, s: Session, obj: Any) -> Any:
        shadow = s.outside.shadow(obj)
        return shadow.size(s) if isinstance(shadow, ListShadow) else len(obj)

    def truth(self, s: Session, obj: Any) -> bool:
        return bool(self.length(s, obj) > 0)

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        if fn.__name__ == "append":  # these only store: nothing is looked at
            return fn(*args, **kwargs)
        if fn.__name__ == "extend" and len(args) == 1:
            return fn(s.list_of(args[0]), **kwargs)
        return super().invoke(s, owner, fn, args, kwargs)


class SetShadow(Shadow):
    """A set of constants."""

    mutable = True

    def __init__(self, real: set[Any], origin: Origin, twin: set[Any]) -> None:
        super().__init__(real, origin, twin)
        self.base = frozenset(real)
        twin |= real

    def changed(self) -> bool:
        return bool(self.twin != self.base)

    def replay(self, make: Maker) -> list[Effect]:
        write = partial(
            Effect, self.origin, make.names.var(self.origin),
            where=make.written_at(self.twin, None),
        )  # fmt: skip
        gone = [x for x in self.base if x not in self.twin]
        new = [x for x in self.twin if x not in self.base]
        effects = [write("{t}.difference_update({v})", value=f"[{make.all(gone)}]")] if gone else []
        return effects + ([write("{t}.update({v})", value=f"[{make.all(new)}]")] if new else [])


class FrozensetKind(ContainerKind):
    """A set that does not change; from outside it holds constants."""

    def check(self, real: Any, origin: Origin) -> None:
        if not all(isinstance(kind_of_class(type(x)), ConstantKind) for x in real):
            raise Break("opaque object", f"{origin.show()} is a set of objects, which has no order")

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        self.check(real, origin)
        return s.outside.constant(real, origin)

    def complete(self, s: Session, value: Any) -> None:
        if not all(type(x) in (int, float) for x in value):
            s.bound_to = "the order of a set"

    def contains(self, s: Session, obj: Any, item: Any) -> Any:
        item = s.known(item)
        if s.outside.shadow(obj) is None:
            s.hashing((item,))
        return super().contains(s, obj, item)


class SetKind(FrozensetKind):
    """A set."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        self.check(real, origin)
        s.outside.constant(set(real), origin)
        return s.outside.register(SetShadow(real, origin, set()))
