"""Capture: the state before a branch, to come back to. session, frame -> what a way has changed.

`State` says which objects differ; here is which entry of them, what it was and what it is, for the
kinds of objects whose entries can be chosen: attributes, dictionaries, lists (that may get longer),
cells, `.grad`. Anything else that differs cannot be said (`Unsayable`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from types import CellType
from typing import Any, Final

from eager.base.dataclass import dataclass
from eager.core.tensor import UNREAD, Tensor
from jitcap.base.call_policy import is_python_class
from jitcap.base.modes import Modes
from jitcap.capture.control.histories import PLACE, Place, Unsayable, place_of
from jitcap.capture.control.state import (
    HOST_CALL,
    State,
    fields_of_instance,
    parts_of,
    shadows_of,
)
from jitcap.capture.interpret import Frame
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.cells import CellShadow
from jitcap.capture.kinds.counted import SizedIterator
from jitcap.capture.kinds.mappings import DictShadow
from jitcap.capture.kinds.tensors import TensorShadow
from jitcap.capture.outside import Shadow


class Spoiled(Unsayable):
    """Error: the changes of a way cannot be undone, either."""


class Differ(Unsayable):
    """They leave values of two kinds, which are chosen from nowhere; what each goes on with may
    well be of one."""


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """The entry `key` of an object: what it was (MISSING: nothing), and is."""

    obj: Any
    key: Any
    before: Any
    after: Any

    def show(self) -> str:
        where = self.obj.origin.show() if isinstance(self.obj, Shadow) else type(self.obj).__name__
        return f"{self.key!r} of {where}"

    def put(self, value: Any) -> None:
        """Set the entry, or remove it."""
        obj, key = self.obj, self.key
        if isinstance(obj, DictShadow):
            if value is MISSING:
                obj.kind.__delitem__(obj.twin, key)
            else:
                obj.kind.__setitem__(obj.twin, key, value)
        elif isinstance(obj, CellShadow | CellType):
            cell = obj.twin if isinstance(obj, CellShadow) else obj
            if value is MISSING:
                del cell.cell_contents
            else:
                cell.cell_contents = value
        elif isinstance(obj, Tensor):
            obj._grad = value
        elif isinstance(obj, list):
            end = key + 1 if value is not MISSING and key < len(obj) else len(obj)
            list.__setitem__(obj, slice(key, end), [] if value is MISSING else [value])
        elif value is MISSING:
            dict.__delitem__(obj, key)
        else:
            dict.__setitem__(obj, key, value)


class Before(State):
    """The state before a branch in `frame`."""

    def __init__(self, session: Any, frame: Frame) -> None:
        super().__init__(session)
        self.frame = frame
        self.fast, self.stack = dict(frame.fast), list(frame.stack)
        self.handled, self.pc = list(frame.handled), frame.pc
        self.depth = len(session.vm.frames)
        self.modes = Modes.now()
        self.tables = {
            id(s): (dict(s.twin), set(s.known), set(s.unasked), s.whole)
            for s, _ in self.shadows.values()
            if isinstance(s, DictShadow)
        }
        self.cells = {
            id(s): s.twin.cell_contents if s.changed() else MISSING
            for s, _ in self.shadows.values()
            if isinstance(s, CellShadow)
        }
        self.copies = {key: _copy(obj) for key, obj in self.seen.items() if key in self.marks}
        self.grads = {id(obj): obj._grad for obj in self.seen.values() if isinstance(obj, Tensor)}
        tensors = [t for t in self.seen.values() if isinstance(t, Tensor)]
        self.storages = {id(t._storage): (t._storage, t._storage.version) for t in tensors}
        self.places = {id(t): (t, place_of(t)) for t in tensors}
        self.histories = {key: s.history for key, (s, _) in self.storages.items()}
        self.made: dict[Any, Change] = {}
        self.host_calls = len(session.host_calls)
        self.spoiled = False  # a way that was given up has changed what cannot be put back

    def changes(self) -> tuple[dict[Any, Change], dict[int, tuple[Any, int]]]:  # type: ignore[override]
        """Changes up to now, by object and key; and the counters of writes that went on."""
        found: dict[Any, Change] = {}
        self.made = found
        self._add_loaded()
        try:
            for obj in super().changes():
                if obj is self.frame or obj in ("the mode of autograd", HOST_CALL):
                    continue
                for change in self._of(obj):
                    found[id(change.obj), change.key] = change
        except Unsayable as why:
            raise Spoiled(*why.args) from None
        return found, {
            key: (storage, storage.version)
            for key, (storage, version) in self.storages.items()
            if storage.version != version
        }

    def _add_loaded(self) -> None:
        """Counters of tensors from outside that were loaded since: the program had not written."""
        for shadow in shadows_of(self.session):
            if id(shadow) not in self.shadows and isinstance(shadow, TensorShadow):
                storage = shadow.twin._storage
                self.storages.setdefault(id(storage), (storage, 0))
                self.histories.setdefault(id(storage), 0)

    def overwritten(self) -> dict[int, tuple[Tensor, Place]]:
        """The tensors that writes in place gave another history, and their places on the tape."""
        return {
            key: (t, place_of(t))
            for key, (t, before) in self.places.items()
            if t._view is None and place_of(t) != before
        }

    def calls(self) -> list[Any]:
        """Of the host, that were put off since."""
        found: list[Any] = self.session.host_calls[self.host_calls :]
        return found

    def look_back(self, refused: bool) -> None:
        """A way is given up: what it has changed is to be put back. Raises Spoiled where that
        cannot be, and the program would go on: where it was not `refused`."""
        try:
            self.changes()
        except Spoiled:
            self.spoiled = True
            if not refused:
                raise

    def restore_frame(self) -> None:
        self.frame.fast = dict(self.fast)
        self.frame.stack = list(self.stack)
        self.frame.handled = list(self.handled)

    def put_back(self) -> None:
        """Everything as it was; what was loaded stays loaded."""
        del self.session.host_calls[self.host_calls :]
        for where, change in tuple(self.made.items()):
            change.put(change.before)
            shadow, key = change.obj, change.key
            if not isinstance(shadow, DictShadow) or key not in shadow.unasked:
                continue
            if id(shadow) not in self.tables or key not in self.tables[id(shadow)][1]:
                shadow.known.discard(key)  # it was set, and never read
                shadow.unasked.discard(key)
                shadow.touch(self.session, key)
                before = dict.get(shadow.twin, key, MISSING)
                self.made[where] = replace(change, before=before)
        for key, (storage, version) in self.storages.items():
            if storage.version != version:
                storage.version = version
            if storage.history != self.histories[key]:
                storage.history = self.histories[key]
        for t, place in self.places.values():
            if place_of(t) != place:
                place.put(t)
        self.modes.put()
        self.made = {}

    def private_iterators(self) -> set[int]:
        """The ids of iterators on the stack, of loops, that nothing else refers to."""
        loops = {id(v) for v in self.stack if is_loop(v)}
        if loops:
            for obj in self.seen.values():
                values = obj.fast.values() if isinstance(obj, Frame) else parts_of(obj)
                loops.difference_update(map(id, values))
        return {i for i in loops if [id(v) for v in self.stack].count(i) == 1}

    def _of(self, obj: Any) -> Iterator[Change]:
        if isinstance(obj, DictShadow):
            yield from self._of_table(obj)
        elif isinstance(obj, TensorShadow):
            yield from self._of_stand_in(obj)
        elif isinstance(obj, CellShadow):
            before = self.cells.get(id(obj), MISSING)
            before = obj.base if before is MISSING else before
            yield Change(obj, "the variable", before, obj.twin.cell_contents)
        elif isinstance(obj, Tensor):
            yield from self._of_tensor(obj)
        elif isinstance(obj, dict | list | CellType) or _has_fields(obj):
            yield from self._of_made(obj)
        else:
            shown = obj.origin.show() if isinstance(obj, Shadow) else obj
            what = shown if isinstance(shown, str) else "a value of the run"
            raise Unsayable(f"{what} is changed in one way")

    def _of_table(self, s: DictShadow) -> Iterator[Change]:
        before, known, _, _ = self.tables.get(id(s), ({}, set(), set(), False))
        if s.reordered():
            raise Unsayable(f"the order of {s.origin.show()} is changed")
        for key in {**before, **s.base, **s.twin}:
            old = before.get(key, MISSING)
            if key not in before and not (key in known and key in s.base):
                old = s.base.get(key, MISSING)  # loaded since, or not there
            new = dict.get(s.twin, key, MISSING)
            if new is not old:
                if new is MISSING:
                    raise Unsayable(f"{key!r} of {s.origin.show()} is removed")
                yield Change(s, key, old, new)

    def _of_stand_in(self, s: TensorShadow) -> Iterator[Change]:
        before = dict(self.shadows[id(s)][1]) if id(s) in self.shadows else {}
        now = dict(s.mark())
        for name in {*before, *now}:
            if before.get(name) == now.get(name) or name == "_storage":
                continue
            if name != "_grad":
                raise Unsayable(f"{name} of {s.origin.show()} is changed")
            old = self.grads.get(id(s.twin), UNREAD)
            yield Change(s.twin, "_grad", s.grad if old is UNREAD else old, s.twin._grad)

    def _of_tensor(self, t: Tensor) -> Iterator[Change]:
        before, now = self.copies[id(t)], _copy(t)
        for name in {*before, *now}:
            if name == "_counts" or before.get(name) is now.get(name):
                continue
            if name in PLACE and self._is_moved(t):
                continue
            if name != "_grad":
                raise Unsayable(f"{name.strip('_')} of a tensor is changed")
            yield Change(t, name, before.get(name), now.get(name))

    def _is_moved(self, t: Tensor) -> bool:
        """True if a tensor's position on the tape is as it was, or a write in place changed it."""
        before = self.places[id(t)][1]
        storage = t._storage
        written = id(storage) in self.histories and storage.history != self.histories[id(storage)]
        now = place_of(t)
        return written or now == before or now.history != before.history

    def _of_made(self, obj: Any) -> Iterator[Change]:
        before, now = self.copies[id(obj)], _copy(obj)
        if isinstance(obj, list) and len(before) > len(now):
            raise Unsayable("a list is shorter after one way")
        target = object.__getattribute__(obj, "__dict__") if _has_fields(obj) else obj
        kept = [k for k in now if k in before]
        if kept != [k for k in before if k in now] or len(kept) != len(before):
            raise Unsayable("an entry is removed, or another order is made")
        for key, value in now.items():
            old = before.get(key, MISSING)
            if old is not value:
                yield Change(target, key, old, value)


_PLAIN: Final[tuple[Any, ...]] = (
    type(iter([])), type(iter(())), type(iter(range(0))), type(iter("")), type(reversed([])),
)  # fmt: skip


def is_loop(value: Any) -> bool:
    """An iterator of a builtin type that can be copied where it is."""
    if type(value) in _PLAIN or type(value) is SizedIterator:
        return True
    return type(value) in (enumerate, zip) and all(is_loop(part) for part in _inner(value))


def _inner(value: Any) -> tuple[Any, ...]:
    """The iterators in one that enumerates or zips."""
    _, args, *rest = value.__reduce__()
    if rest:  # a strict zip
        return (None,)
    return args[:1] if type(value) is enumerate else args


def copied(value: Any) -> Any:
    """Another iterator at the same place."""
    if type(value) is SizedIterator:
        return value.copy()
    if type(value) in _PLAIN:
        return copy.copy(value)
    make, args = value.__reduce__()
    parts = [copied(x) if is_loop(x) else x for x in args]
    return make(*parts)


def copies(stack: list[Any], loops: set[int], tried: dict[int, Any]) -> list[Any]:
    """Copy of a stack with other iterators, of the same loops."""
    made = [copied(v) if id(v) in loops else v for v in stack]
    pairs = zip(stack, made, strict=True)
    tried.update({id(b): (b, tried[id(a)][1]) for a, b in pairs if a is not b and id(a) in tried})
    return made


def same_place(a: Any, b: Any) -> bool:
    """True if two iterators will give the same: what they go through is the same, and their
    position in it."""
    if a is b or type(a) is not type(b):
        return a is b
    if type(a) is tuple:
        return len(a) == len(b) and all(map(same_place, a, b))
    if type(a) is SizedIterator:
        return bool(a.place() == b.place())
    if is_loop(a):
        return same_place(a.__reduce__()[1:], b.__reduce__()[1:])
    return type(a) in (int, range, str) and bool(a == b)


def _has_fields(obj: Any) -> bool:
    """An instance whose state is its dictionary."""
    cls = type(obj)
    return (
        is_python_class(cls)
        and not isinstance(obj, type | dict | list | Tensor | Shadow | Frame)
        and "__dict__" in dir(cls)
        and type(getattr(obj, "__dict__", None)) is dict
        and not any("__slots__" in vars(base) for base in cls.__mro__[:-1])
    )


def _copy(obj: Any) -> dict[Any, Any]:
    if isinstance(obj, dict):
        return dict(dict.items(obj))
    if isinstance(obj, list):
        return dict(enumerate(list.__iter__(obj)))
    if isinstance(obj, CellType):
        try:
            return {"cell_contents": obj.cell_contents}
        except ValueError:
            return {}
    if isinstance(obj, Tensor):
        return fields_of_instance(obj)
    return dict(object.__getattribute__(obj, "__dict__")) if _has_fields(obj) else {}
