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
from eager.core.storage import Storage
from eager.core.tensor import UNREAD, Tensor
from jitcap.base.modes import Modes
from jitcap.capture.control.contents import (
    entries_of,
    fields_in,
    fields_of_instance,
    has_fields,
    mark_of_part,
    own_of,
    parts_of,
)
from jitcap.capture.control.histories import PLACE, Place, Unsayable, place_of
from jitcap.capture.control.log import HOST_CALL, MODE, Record, Region
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
    """The entry `key` of an object: what it was (MISSING: nothing), and is. `owner`: the instance
    whose dictionary the object is."""

    obj: Any
    key: Any
    before: Any
    after: Any
    owner: Any = None

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


class Before(Region):
    """A region that begins in `frame`, with all that it takes to come back there."""

    def __init__(self, session: Any, frame: Frame) -> None:
        super().__init__(session)
        self.frame = frame
        self.parts[id(frame)] = frame, parts_of(frame)
        self.fast, self.stack = dict(frame.fast), list(frame.stack)
        self.handled, self.pc = list(frame.handled), frame.pc
        self.depth = len(session.vm.frames)
        self.modes = Modes.now()
        self.made_changes: dict[Any, Change] = {}
        self.host_calls = len(session.host_calls)
        self.spoiled = False  # a way that was given up has changed what cannot be put back

    def changes(self) -> tuple[dict[Any, Change], dict[int, tuple[Any, int]]]:
        """Changes up to now, by object and key; and the counters of writes that went on."""
        found: dict[Any, Change] = {}
        self.made_changes = found
        try:
            for obj in self.changed():
                if obj is HOST_CALL or obj is MODE or isinstance(obj, Storage):
                    continue
                for change in self._of(obj):
                    found[id(change.obj), change.key] = change
        except Unsayable as why:
            raise Spoiled(*why.args) from None
        storages = [r for r in self.written() if isinstance(r.obj, Storage)]
        return found, {
            id(c): (c, c.version)
            for c, before in ((r.obj, r.contents[0]) for r in storages)
            if c.version != before
        }

    def version(self, storage: Storage) -> int:
        """The counter of writes when the region began."""
        record = self.records.get(id(storage))
        return storage.version if record is None else record.contents[0]

    def _moved(self) -> Iterator[tuple[Tensor, Place]]:
        """The tensors that have another position on the tape, and the one that they had."""
        for obj, contents in ((r.obj, r.contents) for r in self.written()):
            t = obj.twin if isinstance(obj, TensorShadow) else obj
            if isinstance(t, Tensor) and place_of(t) != contents[2]:
                yield t, contents[2]

    def overwritten(self) -> dict[int, tuple[Tensor, Place]]:
        """The tensors that writes in place gave another history, and their places on the tape."""
        return {id(t): (t, place_of(t)) for t, _ in self._moved() if t._view is None}

    def was_there(self, x: Any) -> bool:
        return (
            any(x is v for v in self.stack)
            or any(x is v for v in self.fast.values())
            or super().was_there(x)
        )

    def put(self, change: Change, value: Any) -> None:
        """Set the entry of a change in this region."""
        obj = change.obj if change.owner is None else change.owner
        self.note(obj.twin if isinstance(obj, Shadow) else obj)
        change.put(value)

    def calls(self) -> list[Any]:
        """Calls of the host that were put off since."""
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
        for where, change in tuple(self.made_changes.items()):
            change.put(change.before)
            shadow, key = change.obj, change.key
            if not isinstance(shadow, DictShadow) or key not in shadow.unasked:
                continue
            if key not in self.records[id(shadow)].contents[1]:
                shadow.known.discard(key)  # it was set, and never read
                shadow.unasked.discard(key)
                shadow.touch(self.session, key)
                before = dict.get(shadow.twin, key, MISSING)
                self.made_changes[where] = replace(change, before=before)
        written = self.written()
        for record in written:
            if isinstance(record.obj, Storage):
                record.obj.version, record.obj.history = record.contents
        for t, place in self._moved():
            place.put(t)
        self.modes.put()
        self.made_changes = {}

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
            yield from _of_table(obj, *self.records[id(obj)].contents)
        elif isinstance(obj, TensorShadow):
            yield from _of_stand_in(obj, self.records[id(obj)])
        elif isinstance(obj, CellShadow):
            before = self.records[id(obj)].contents
            before = obj.base if before is MISSING else before
            yield Change(obj, "the variable", before, obj.twin.cell_contents)
        elif isinstance(obj, Tensor):
            yield from self._of_tensor(obj)
        elif self._says(obj):
            yield from _of_made(obj, self.records[id(obj)].contents)
        else:
            shown = obj.origin.show() if isinstance(obj, Shadow) else obj
            what = shown if isinstance(shown, str) else "a value of the run"
            raise Unsayable(f"{what} is changed in one way")

    def _says(self, obj: Any) -> bool:
        """True if what differs is an entry or an attribute of an object."""
        if not isinstance(obj, dict | list | CellType) and not has_fields(obj):
            return False
        own = own_of(obj) if isinstance(obj, dict | list | BaseException) else ()
        return own == self.records[id(obj)].mark[: len(own)]

    def _of_tensor(self, t: Tensor) -> Iterator[Change]:
        before, now = self.records[id(t)].contents[0], fields_of_instance(t)
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
        before, now = self.records[id(t)].contents[2], place_of(t)
        storage = self.records.get(id(t._storage))
        written = storage is not None and t._storage.history != storage.contents[1]
        return written or now == before or now.history != before.history


def _of_table(s: DictShadow, before: dict[Any, Any], known: frozenset[Any]) -> Iterator[Change]:
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


def _of_stand_in(s: TensorShadow, record: Record) -> Iterator[Change]:
    before, now = dict(record.mark), dict(mark_of_part(s) or ())
    for name in {*before, *now}:
        if before.get(name) == now.get(name):
            continue
        if name != "_grad":
            raise Unsayable(f"{name} of {s.origin.show()} is changed")
        old = record.contents[1]
        yield Change(s.twin, "_grad", s.grad if old is UNREAD else old, s.twin._grad)


def _of_made(obj: Any, before: dict[Any, Any]) -> Iterator[Change]:
    now = entries_of(obj)
    if isinstance(obj, list) and len(before) > len(now):
        raise Unsayable("a list is shorter after one way")
    target, owner = (fields_in(obj), obj) if has_fields(obj) else (obj, None)
    kept = [k for k in now if k in before]
    if kept != [k for k in before if k in now] or len(kept) != len(before):
        raise Unsayable("an entry is removed, or another order is made")
    for key, value in now.items():
        old = before.get(key, MISSING)
        if old is not value:
            yield Change(target, key, old, value, owner)


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
