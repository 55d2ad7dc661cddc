"""Capture: the outside world as one capture sees it. real object, origin -> twin, guards.

Nothing that existed before the call is ever touched. What is read from outside enters through
`Outside.load`, which makes the guard and answers with the value to work with: a constant, a
run-time number, a stand-in tensor, or a *twin*: a real object of the same type whose contents are
loaded when they are first read. Program code changes twins at will; `effects` compares them with
what was loaded, and replays the difference.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from types import CellType
from typing import TYPE_CHECKING, Any, Final

from jitcap.capture.breaks import Break
from jitcap.capture.origin import Attribute, Computed, Contents, DictOf, Item, ItemBy, Keys, Origin
from jitcap.guards import Absent, AbsentBy, Equals, Length

if TYPE_CHECKING:
    from jitcap.capture.world import World


class Unloaded:
    """Stands in a list's twin for an element that nobody has read."""

    def __repr__(self) -> str:
        return "<unloaded>"


UNLOADED: Final = Unloaded()
MISSING: Final = Unloaded()


class Shadow:
    """A real object, where it came from, and its twin."""

    def __init__(self, real: Any, origin: Origin, twin: Any) -> None:
        self.real = real
        self.origin = origin
        self.twin = twin

    def kin(self) -> Any:
        """What the objects have in common that this one could be the same as."""
        return type(self.real)

    def complete(self, world: World) -> None:
        """Load everything, so that native code may look at the twin."""

    def changed(self) -> bool:
        """Whether the twin differs from what was loaded."""
        return False


class DictShadow(Shadow):
    """A dictionary: entries are loaded one by one, or all in order when the whole is asked for."""

    def __init__(self, real: dict[Any, Any], origin: Origin, twin: dict[Any, Any]) -> None:
        super().__init__(real, origin, twin)
        self.base: dict[Any, Any] = {}  # what was loaded, by key
        self.known: set[Any] = set()  # keys whose presence or absence is guarded
        self.whole = False
        self.owner: type | None = None  # of an instance dictionary: the class of the instance
        # The class whose methods keep the twin consistent, whatever a subclass overrides.
        self.kind: Any = (
            collections.OrderedDict if isinstance(real, collections.OrderedDict) else dict
        )

    def kin(self) -> Any:
        return type(self.real), self.owner

    def before_delete(self, world: World, key: Any) -> None:
        """A key that is removed and comes back moves to the end: then the order matters."""
        self.touch(world, key)
        if key in self.base:
            self.complete(world)

    def touch(self, world: World, key: Any) -> None:
        """Make the twin tell the truth about `key`."""
        if self.whole or key in self.known:
            return
        self.known.add(key)
        real_key, origin = world.outside.key_of(key)
        value = dict.get(self.real, real_key, MISSING)
        if value is MISSING:
            absent = Absent(self.origin, world.line(), real_key)
            if origin is not None:
                absent = AbsentBy(self.origin, world.line(), origin)  # type: ignore[assignment]
            world.guards.add(absent)
            return
        step = Item(self.origin, real_key) if origin is None else ItemBy(self.origin, origin)
        self.base[key] = value = world.outside.load(value, step)
        self.kind.__setitem__(self.twin, key, value)

    def complete(self, world: World) -> None:
        if self.whole:
            return
        keys = list(dict.keys(self.real))
        listed = Keys(self.origin)
        if all(type(k) in (int, str) for k in keys):
            world.guards.add(Equals(listed, world.line(), keys))
            twins = keys
        else:
            world.guards.add(Length(listed, world.line(), len(keys)))
            twins = [world.outside.load(k, Item(listed, i)) for i, k in enumerate(keys)]
        for key in twins:
            self.touch(world, key)
        now = dict(self.twin)
        self.kind.clear(self.twin)
        for key in (*(k for k in twins if k in now), *(k for k in now if k not in self.base)):
            self.kind.__setitem__(self.twin, key, now[key])
        self.whole = True

    def size(self, world: World) -> int:
        """`len()`: of an unchanged dictionary the number is guarded, not every key."""
        if not self.whole and not self.stored() and not self.removed():
            world.guards.add(Length(self.origin, world.line(), len(self.real)))
            return len(self.real)
        self.complete(world)
        return len(self.twin)

    def removed(self) -> list[Any]:
        return [k for k in self.base if k not in self.twin]

    def stored(self) -> list[Any]:
        """Keys whose value the program set, in the twin's order."""
        base = self.base
        return [k for k, v in dict.items(self.twin) if k not in base or base[k] is not v]

    def reordered(self) -> bool:
        """Whether a key was moved, or was removed and inserted again: new keys come last."""
        if not self.whole:
            return False
        now = list(self.twin)
        kept = [k for k in self.base if k in self.twin]
        return now != kept + [k for k in now if k not in self.base]

    def changed(self) -> bool:
        return bool(self.removed() or self.stored() or self.reordered())


class ListShadow(Shadow):
    """A list or deque: elements are loaded one by one, or all when the whole is asked for."""

    def __init__(self, real: Any, origin: Origin, twin: Any) -> None:
        super().__init__(real, origin, twin)
        self.base: list[Any] = [UNLOADED] * len(real)
        twin.extend(self.base)
        self.whole = not self.base
        self.measured = False
        self.length: Any = None  # as a run-time number

    def measure(self, world: World) -> None:
        """Guard the length. Not before somebody looks: a log that only grows fits any length."""
        if not self.measured:
            self.measured = True
            world.guards.add(Length(self.origin, world.line(), len(self.real)))

    def touch(self, world: World, index: int) -> None:
        """Load one element of a list. One that is there needs no guard on the length, and what
        is counted from the end is counted from the end at every call."""
        if self.whole:
            return
        count, size = len(self.base), len(self.twin)
        place = index + size if index < 0 else index
        if not 0 <= place < count:
            if index >= 0 or place < 0:  # appended by the program, counted from the start; or none
                self.measure(world)
        elif self.twin[place] is UNLOADED:
            key = place - count if index < 0 else place
            value = world.outside.load(self.real[place], Item(self.origin, key))
            self.base[place] = self.twin[place] = value

    @property
    def length_name(self) -> str:
        return f"len({self.origin.show()})"

    def grows(self) -> bool:
        """Whether the program appends to it, and has looked at its length only."""
        return self.measured and not self.whole and len(self.twin) > len(self.base)

    def size(self, world: World) -> Any:
        """`len()`: a run-time number once it is known to vary."""
        if self.whole or self.length_name not in world.outside.dynamic:
            self.measure(world)
            return len(self.twin)
        if self.length is None:
            place = Computed((self.origin,), "len({})")
            self.length = world.number_input(len(self.real), place)
        added = len(self.twin) - len(self.base)
        return self.length + added if added else self.length

    def complete(self, world: World) -> None:
        grown = len(self.twin) != len(self.base)
        if not self.whole and grown and self.length_name in world.outside.dynamic:
            raise Break("growing list", f"all of {self.origin.show()} is looked at")
        self.measure(world)
        if self.whole:
            return
        if isinstance(self.twin, list):
            for index in range(len(self.base)):
                self.touch(world, index)
        else:
            self._complete_deque(world)
        self.whole = True

    def _complete_deque(self, world: World) -> None:
        """All at once, under what was appended before anybody looked."""
        place = enumerate(self.real)
        self.base = [world.outside.load(x, Item(self.origin, i)) for i, x in place]
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


class SetShadow(Shadow):
    """A set of constants."""

    def __init__(self, real: set[Any], origin: Origin, twin: set[Any]) -> None:
        super().__init__(real, origin, twin)
        self.base = frozenset(real)
        twin |= real

    def changed(self) -> bool:
        return bool(self.twin != self.base)


class CellShadow(Shadow):
    """A closure cell; its content is loaded at the first read."""

    def __init__(self, real: CellType, origin: Origin) -> None:
        super().__init__(real, origin, CellType())
        self.base: Any = UNLOADED

    def touch(self, world: World) -> None:
        if self.base is UNLOADED:
            self.base = world.outside.load(self.real.cell_contents, Contents(self.origin))
            self.twin.cell_contents = self.base

    def store(self, value: Any) -> None:
        if self.base is UNLOADED:
            self.base = MISSING
        self.twin.cell_contents = value

    def changed(self) -> bool:
        return self.base is not UNLOADED and self.twin.cell_contents is not self.base


class ObjectShadow(Shadow):
    """An instance of a Python class: its dictionary is a twin too; slots are loaded singly."""

    def __init__(self, real: Any, origin: Origin, twin: Any) -> None:
        super().__init__(real, origin, twin)
        self.slots: dict[str, Any] = {}  # name -> what was loaded (MISSING: it is unset)
        self.fields: DictShadow | None = None
        if hasattr(real, "__dict__"):
            self.fields = DictShadow(real.__dict__, DictOf(origin), twin.__dict__)
            self.fields.owner = type(real)

    def touch_slot(self, world: World, name: str, descriptor: Any) -> None:
        if name not in self.slots:
            try:
                value = descriptor.__get__(self.real, type(self.real))
            except AttributeError:
                self.slots[name] = MISSING
                world.guards.add(Equals(_Has(self.origin, name), world.line(), False))
                return
            value = world.outside.load(value, Attribute(self.origin, name))
            self.slots[name] = value
            descriptor.__set__(self.twin, value)

    def complete(self, world: World) -> None:
        if self.fields is not None:
            self.fields.complete(world)
        for name, descriptor in slots_of(type(self.real)):
            self.touch_slot(world, name, descriptor)

    def written_slots(self) -> Iterator[tuple[str, Any]]:
        """(name, new value or MISSING) of the slots that the program set or deleted."""
        for name, descriptor in slots_of(type(self.real)):
            if name in self.slots:
                try:
                    now = descriptor.__get__(self.twin, type(self.real))
                except AttributeError:
                    now = MISSING
                if now is not self.slots[name]:
                    yield name, now

    def changed(self) -> bool:
        return next(self.written_slots(), None) is not None


class _Has(Attribute):
    """`hasattr(base, name)`."""

    def expr(self, var: Callable[[Origin], str], bind: Callable[[Any], str]) -> str:
        return f"hasattr({var(self.base)}, {self.name!r})"


def slots_of(cls: type) -> Iterator[tuple[str, Any]]:
    """The slot descriptors of a class and its bases."""
    for base in cls.__mro__:
        for name in _slot_names(base):
            mangled = f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") else name
            descriptor = vars(base).get(mangled)
            if descriptor is not None and name not in ("__dict__", "__weakref__"):
                yield mangled, descriptor


def _slot_names(base: type) -> tuple[str, ...]:
    names = vars(base).get("__slots__", ())
    return (names,) if isinstance(names, str) else tuple(names)
