"""Capture: the state before a branch, to come back to. session, frame -> what a way has changed.

A `Region` says which objects differ; here is which entry of them, what it was and what it is, for
the kinds of objects whose entries can be chosen: attributes, dictionaries, lists (that may get
longer), cells, `.grad`. Anything else that differs cannot be said (`Unsayable`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final

from eager.base.dataclass import dataclass
from eager.core.storage import Storage
from eager.core.tensor import Tensor
from jitcap.base.modes import Modes
from jitcap.capture.control.histories import Unsayable
from jitcap.capture.control.log import HOST_CALL, MODE, Region
from jitcap.capture.inputs import Shadow
from jitcap.capture.interpret import Frame
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.contents import PLACE, Place, kind_of, parts_of, place_of, value_of
from jitcap.capture.kinds.symbolic.sequences import SizedIterator


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
        way = kind_of(type(self.obj)).put
        assert way is not None
        way(self.obj, self.key, value)


class Checkpoint(Region):
    """A region that begins in `frame`, with all that it takes to come back there."""

    goes_back = True

    def __init__(self, session: Any, frame: Frame) -> None:
        super().__init__(session)
        self.frame = frame
        self.frames[id(frame)] = parts_of(frame)
        self.fast, self.stack = dict(frame.fast), list(frame.stack)
        self.handled, self.pc = list(frame.handled), frame.pc
        self.depth = len(session.vm.frames)
        self.modes = Modes.now()
        self.made_changes: dict[Any, Change] = {}
        self.host_calls = len(session.host_calls)
        self.counted = {key: [*rows] for key, rows in session.counts.items()}
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
        return found, {
            id(r.obj): (r.obj, r.obj.version)
            for r in self.written()
            if isinstance(r.obj, Storage) and r.obj.version != r.state[0]
        }

    def version(self, storage: Storage) -> int:
        """The counter of writes when the region began."""
        record = self.records.get(id(storage))
        return storage.version if record is None else record.state[0]

    def open_writes(self, storage: Storage) -> list[Any]:
        """Numbers of writes since that its counter has not: only the run knows them."""
        rows = self.session.counts.get(id(storage), [])
        known = len(self.counted.get(id(storage), ()))
        return [count - most for _, most, count in rows[known:]]

    def _moved(self) -> Iterator[tuple[Tensor, Place]]:
        """The tensors that have another position on the tape, and the one that they had."""
        for record in self.written():
            t, before = value_of(record.obj), record.entries.get(PLACE)
            if type(before) is Place and place_of(t) != before:
                yield t, before

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
        self.note(value_of(change.obj))
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
        self.frame.handled, self.frame.pc = list(self.handled), self.pc

    def put_back(self) -> None:
        """Everything as it was; what was loaded stays loaded."""
        del self.session.host_calls[self.host_calls :]
        for change in self.made_changes.values():
            change.put(change.before)
        for record in self.written():
            if isinstance(record.obj, Storage):
                record.obj.version, record.obj.history = record.state
        for t, place in self._moved():
            place.put(t)
        self.modes.put()
        self.session.counts = {key: [*rows] for key, rows in self.counted.items()}
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
        record = self.records.get(id(obj))
        if record is None or kind_of(type(obj)).put is None or not record.keeps_rest():
            shown = obj.origin.show() if isinstance(obj, Shadow) else obj
            what = shown if isinstance(shown, str) else "a value of the run"
            raise Unsayable(f"{what} is changed in one way")
        for key, before, now in record.differences():
            change = Change(obj, key, before, now)
            if now is MISSING:
                raise Unsayable(f"{change.show()} is removed in one way")
            if key != PLACE:
                yield change
            elif not self._is_written(value_of(obj), before):
                raise Unsayable(f"the history of {change.show()} is changed")

    def _is_written(self, t: Tensor, before: Place) -> bool:
        """True if a write in place gave a tensor its position on the tape."""
        storage = self.records.get(id(t._storage))
        written = storage is not None and t._storage.history != storage.state[1]
        return written or place_of(t).history != before.history


_PLAIN: Final[tuple[Any, ...]] = (
    type(iter([])), type(iter(())), type(iter(range(0))), type(iter("")), type(reversed([])),
    reversed,
)  # fmt: skip


def is_loop(value: Any) -> bool:
    """An iterator of a builtin type that can be copied where it is."""
    if type(value) in _PLAIN or type(value) is SizedIterator:
        return True
    return type(value) in (enumerate, zip) and all(map(is_loop, inner_iterators(value)))


def inner_iterators(value: Any) -> tuple[Any, ...]:
    """The iterators in one that enumerates or zips."""
    inner: tuple[Any, ...] = value.__reduce__()[1]
    return inner[:1] if type(value) is enumerate else inner


def copied(value: Any) -> Any:
    """Another iterator at the same place."""
    if type(value) is SizedIterator:
        return value.copy()
    if type(value) in _PLAIN:
        return copy.copy(value)
    make, args, *strict = value.__reduce__()
    made = make(*(copied(x) if is_loop(x) else x for x in args))
    for state in strict:
        made.__setstate__(state)
    return made


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
