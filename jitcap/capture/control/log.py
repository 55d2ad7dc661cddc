"""Capture: the write log. an object that is about to be written -> what it was, while one asks.

Every write of capture to an object that the program may reach is announced to `Log.writing`, before
it is made. While a `Region` is open (a way of a branch, a round, a step, a part of the graph), it
keeps what the object was at its first write; what differs at the end is what the region changed.
Native code may write what it is given: that is announced as a whole. What is only loaded from
outside is no write. What is announced may stay as it is, so `may_alias`, which asks until the
capture ends whether an alias was changed, and `templates`, which counts writes, take snapshots of
their own.
"""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from types import FunctionType
from typing import Any, Final, Self

import numpy as np

from eager import random
from eager.core.storage import Storage
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor
from eager.core.traced import Traced
from jitcap.base.call_policy import is_python_class
from jitcap.base.modes import Modes
from jitcap.base.walks import reach
from jitcap.capture.inputs import Shadow
from jitcap.capture.interpret import Frame
from jitcap.capture.kinds.contents import (
    Snapshot,
    kind_of,
    namespace_of,
    reachable,
    value_of,
)
from jitcap.capture.kinds.tensors import tensors_of
from jitcap.graph.tracer import part_number

_FIXED: Final = frozenset({int, float, complex, bool, str, bytes, type(None), tuple, SymNumber})
_FILLED: Final = (
    list, dict, set, bytearray, collections.deque, np.ndarray, random.Generator,
)  # fmt: skip


# Functions that change no elements of a tensor, but the tensor; others end with "_".
_MARKING: Final = frozenset({"retain_grad", "register_hook", "register_post_accumulate_grad_hook"})


HOST_CALL: Final = "a call of the host"
MODE: Final = "the mode of autograd"
_REST: Final = (HOST_CALL, "a number drawn by the host", "a seed", MODE)


def _rest_of(session: Any) -> tuple[Any, ...]:
    draws = session.tracer.draws.values()
    return (
        len(session.host_calls),
        len(session.drawn),
        tuple((id(d), d.seed) for d in draws if d.reseeded),
        Modes.now(),
    )


class Log:
    """The regions of one capture that are open, the innermost last."""

    def __init__(self) -> None:
        self.open: list[Region] = []

    def goes_back(self) -> bool:
        """True if what is written now may be put back."""
        return any(region.goes_back for region in self.open)

    def writing(self, obj: Any) -> None:
        """An object is about to be written, or may be."""
        if self.open and type(obj) not in _FIXED:
            self.open[-1].note(obj)

    def calling(self, fn: Any, args: Iterable[Any], kwargs: dict[str, Any]) -> None:
        """A call of what is no function of the program: see `giving`."""
        if self.open and type(fn) is not FunctionType:
            self.giving((getattr(fn, "__self__", None), *args, *kwargs.values()))

    def giving(self, values: Iterable[Any]) -> None:
        """Native code gets values, and may write to containers and instances. An iterator is moved,
        and those that it goes through. What is written to tensors is announced by itself."""
        for value in values if self.open else ():
            if type(value) in _FIXED or isinstance(value, Tensor):
                continue
            fields = namespace_of(value) if is_python_class(type(value)) else []
            if fields or isinstance(value, _FILLED) or hasattr(type(value), "__next__"):
                self.open[-1].note(value)
            for held in (x for each in fields for x in each.values()):
                if isinstance(held, _FILLED) or hasattr(type(held), "__next__"):
                    self.open[-1].note(held)

    def running(self, function: FunctionType, owner: Any, given: Sequence[Any]) -> None:
        """A function of `eager` is run, which may write to the tensor that it is called on."""
        name = function.__name__
        if self.open and (name.endswith("_") or name in _MARKING):
            self.writing(given[0] if owner is None and given else owner)


def memory_of(x: Any) -> Any:
    """The traced memory of a tensor; None where there is none."""
    return x._array.storage if isinstance(x, Tensor) and type(x._array) is Traced else None


class Region:
    """A piece of the program that is read between two moments: a way of a branch, a round, a step,
    a part of the graph. It is open inside of `with`; what it has written, the region around it has,
    too."""

    goes_back = False

    def __init__(self, session: Any) -> None:
        self.session = session
        self.records: dict[int, Snapshot] = {}  # what was written, as it was, by id
        self.frames: dict[int, list[Any]] = {}  # what one led to, of which not all counts
        self.rest = _rest_of(session)
        # Roots from which the program's objects are reachable now.
        self.roots: list[Any] = [*session.vm.frames, *session.vm.generators]
        self.made, self.loaded = len(session.made), len(session.outside.by_real)
        self.begun = part_number()

    def open(self) -> None:
        self.session.log.open.append(self)

    def close(self) -> None:
        regions = self.session.log.open
        assert regions.pop() is self
        if regions:
            regions[-1].take(self)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(self, inner: Region) -> None:
        """Note what a region inside has written."""
        for key, record in inner.records.items():
            self.records.setdefault(key, record)
        self.frames = inner.frames | self.frames

    def note(self, obj: Any) -> None:
        """An object is about to be written, and what is written with it."""
        s, memory, waiting = self.session, memory_of(obj), [obj]
        while waiting:
            each = waiting.pop()
            shadow = s.outside.by_twin.get(id(each))
            for part in (each,) if shadow is None else shadow.parts():
                if (
                    part is not None
                    and id(part) not in self.records
                    and id(part) not in self.frames
                ):
                    self.records[id(part)] = Snapshot.of(part, reachable(s, part), memory)
                    waiting += kind_of(type(each)).others(each)

    def written(self) -> list[Snapshot]:
        """The objects that were there when the region began, or come from outside, and differ."""
        changed = [r for r in self.records.values() if r.is_changed()]
        outside = self._counters_outside() if changed else frozenset()
        return [r for r in changed if self._had(r, outside)]

    def _counters_outside(self) -> frozenset[int]:
        """Ids of the counters of writes of tensors from outside."""
        return frozenset(id(x.twin._counts) for x in tensors_of(self.session))

    def _had(self, record: Snapshot, outside: frozenset[int]) -> bool:
        if isinstance(record.obj, Shadow):
            return True
        if self._is_new(record.memory):
            return False
        if isinstance(record.obj, Storage):
            return id(record.obj) in outside or id(record.obj) in self._counters
        return id(record.obj) in self.seen

    def was_there(self, x: Any) -> bool:
        """True if the program could reach an object when the region began."""
        memory = memory_of(x)
        if self._is_new(memory) and not any(id(x) in r.records for r in self._inside()):
            return False  # no walk: most are results of operations
        return id(x) in self.seen

    def _is_new(self, memory: Any) -> bool:
        """True for memory that a part of the graph has allocated that began later."""
        return memory is not None and memory.part is not None and memory.part.number >= self.begun

    def _inside(self) -> list[Region]:
        """The region, and those inside that are open."""
        regions = self.session.log.open
        return regions[regions.index(self) :] if self in regions else [self]

    @functools.cached_property
    def _counters(self) -> set[int]:
        """Ids of the counters of writes of the tensors that were there."""
        return {id(t._counts) for t in self.seen.values() if isinstance(t, Tensor)}

    def changed(self) -> Iterator[Any]:
        """The objects that differ now, and words for what is no object."""
        yield from (r.obj for r in self.written())
        for what, before, now in zip(_REST, self.rest, _rest_of(self.session), strict=True):
            if before != now:
                yield what

    @functools.cached_property
    def seen(self) -> dict[int, Any]:
        """The objects that the program could reach when the region began, by id, without what was
        loaded since."""
        s = self.session
        shadows = [*s.outside.by_real.values()]
        twins = [part.twin for x in shadows[: self.loaded] for part in x.parts()]
        made = itertools.islice(s.made.values(), self.made)
        late = {id(part.twin) for x in shadows[self.loaded :] for part in x.parts()}
        before: dict[int, list[Any]] = {}
        for region in reversed(self._inside()):
            before |= {id(value_of(r.obj)): r.parts for r in region.records.values()}
            before |= region.frames

        def parts(obj: Any) -> list[Any]:
            held = before[id(obj)] if id(obj) in before else reachable(s, obj)
            return [x for x in held if id(x) not in late and id(x) not in s.idle]

        return {id(x): x for x in reach([*self.roots, *made, *twins], parts, id)}


def known_elsewhere(session: Any, frame: Frame, rest: dict[str, Any], values: list[Any]) -> bool:
    """True if the program can reach one of the values if `rest` are the locals of the frame."""
    region = Region(session)
    held = [*rest.values(), *frame.stack, *frame.handled, frame.namespace, frame.function]
    region.frames[id(frame)] = held
    return any(id(value) in region.seen for value in values)
