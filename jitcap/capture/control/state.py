"""Capture: everything that a program can change, at one moment. session -> what differs later.

For functions of which a run may take one and not the other (`eager.cond`): what they change shows
here. What is only loaded from outside meanwhile is no change: of a twin the difference to what was
loaded is looked at, of an object that was made inside its contents.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator
from contextlib import suppress
from types import CellType, FunctionType, MethodType
from typing import Any, Final

from eager import random
from eager.core.tensor import Tensor
from jitcap.base.call_policy import is_python_class
from jitcap.base.modes import Modes
from jitcap.base.origin import is_unset
from jitcap.base.walks import reach
from jitcap.capture.interpret import Frame, Generator
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.base import parts_of as items_of
from jitcap.capture.kinds.cells import is_empty
from jitcap.capture.kinds.objects import slots_of
from jitcap.capture.outside import Shadow

Mark = tuple[Any, ...]


class State:
    """The state of a session now. `changes()` is asked later: what is different by then."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.seen: dict[int, Any] = {}
        self.marks: dict[int, Mark] = {}
        self.shadows = {id(s): (s, s.mark()) for s in shadows_of(session)}
        self.rest = _rest(session)
        for obj in reach(_roots(session), lambda obj: _parts(session, obj), id):
            self.seen[id(obj)] = obj
            mark = self._mark(obj)
            if mark is not None:
                self.marks[id(obj)] = mark

    def changes(self) -> Iterator[Any]:
        """The objects that were there and are different now, and words for what is no object."""
        for shadow in shadows_of(self.session):
            _, before = self.shadows.get(id(shadow), (shadow, ()))  # it was loaded since
            if shadow.mark() != before:
                yield shadow
        for key, before in self.marks.items():
            obj = self.seen[key]
            now = self._mark(obj)
            if now is not None and now != before:  # None: it was loaded since, see above
                yield obj
        for what, before, now in zip(_REST, self.rest, _rest(self.session), strict=True):
            if before != now:
                yield what

    def _mark(self, obj: Any) -> Mark | None:
        """Equal as long as the object is not changed; None for what cannot be, or is a twin."""
        if self.session.outside.by_twin.get(id(obj)) is not None:
            return None
        return _mark_of_tensor(obj) if isinstance(obj, Tensor) else mark_of(obj)


def _roots(session: Any) -> list[Any]:
    """Roots from which the program's objects are reachable."""
    frames: list[Any] = [*session.vm.frames, *session.vm.generators, *session.made.values()]
    return frames + [s.twin for s in shadows_of(session)]


def _parts(session: Any, obj: Any) -> list[Any]:
    """Values that the program may reach through an object. The rest may change at any time: it is
    another thread's, or the host's."""
    if isinstance(obj, FunctionType) and id(obj) not in session.made:
        return []  # a function from outside has twins of its cells
    shadow = session.outside.by_twin.get(id(obj))
    found = None if shadow is None else shadow.reachable()
    return [p for p in (parts_of(obj) if found is None else found) if id(p) not in session.idle]


def known_elsewhere(session: Any, frame: Frame, rest: dict[str, Any], values: list[Any]) -> bool:
    """True if the program can reach one of the values if `rest` are the locals of the frame."""
    ids = {*map(id, values)}

    def parts(obj: Any) -> list[Any]:
        if obj is frame:
            return [*rest.values(), *frame.stack, *frame.handled, frame.namespace, frame.function]
        return _parts(session, obj)

    return any(id(obj) in ids for obj in reach(_roots(session), parts, id))


HOST_CALL: Final = "a call of the host"
_REST: Final = (
    HOST_CALL, "a number drawn by the host", "a seed", "the mode of autograd",
)  # fmt: skip


def _rest(session: Any) -> Mark:
    draws = session.tracer.draws.values()
    return (
        len(session.host_calls),
        len(session.drawn),
        tuple((id(d), d.seed) for d in draws if d.reseeded),
        Modes.now(),
    )


def shadows_of(session: Any) -> Iterator[Shadow]:
    for shadow in tuple(session.outside.by_real.values()):
        yield from shadow.parts()


def _mark_of_tensor(t: Tensor) -> Mark:
    """All that eager keeps of it."""
    fields = fields_of_instance(t)
    storage = fields.pop("_counts")
    hooks = [tuple(x or ()) for x in (t._hooks, t._accumulate_hooks)]
    counts = (0, 0) if storage is None else (storage.version, storage.history)
    return *((k, id(v)) for k, v in fields.items()), *hooks, *counts


def mark_of(obj: Any) -> Mark | None:
    """The contents of an object that can change, by identity; None for what cannot."""
    if isinstance(obj, list | collections.deque):
        return tuple(map(id, items_of(obj)))
    if isinstance(obj, dict):
        return tuple((_name(k), id(v)) for k, v in dict.items(obj))
    if isinstance(obj, set):
        return (frozenset(map(_name, items_of(obj))),)
    if isinstance(obj, CellType):
        return () if is_empty(obj) else (id(obj.cell_contents),)
    if isinstance(obj, Frame):
        return obj.pc, tuple(map(id, obj.stack)), tuple((k, id(v)) for k, v in obj.fast.items())
    if isinstance(obj, Generator):
        return obj.started, obj.running, id(obj.frame)
    if isinstance(obj, random.Generator):
        return obj.seed_value, obj.ordinal
    if isinstance(obj, FunctionType):
        return id(obj.__defaults__), id(obj.__kwdefaults__), id(obj.__code__)
    if isinstance(obj, type):
        return tuple((k, id(v)) for k, v in vars(obj).items()) if is_python_class(obj) else None
    if hasattr(type(obj), "__next__"):
        return (_position(obj),)
    if is_python_class(type(obj)):
        fields = fields_of_instance(obj)
        return tuple((k, id(v)) for k, v in fields.items())
    return None


def _position(iterator: Any) -> Any:
    """Length hint of a builtin iterator; None if it has none."""
    hint = getattr(iterator, "__length_hint__", None)
    return hint() if hint is not None else None


def fields_of_instance(obj: Any) -> dict[str, Any]:
    """The dictionary and the slots of an instance."""
    fields: dict[str, Any] = {}
    with suppress(AttributeError):
        fields.update(object.__getattribute__(obj, "__dict__"))
    for name, descriptor in slots_of(type(obj)):
        fields[name] = MISSING if is_unset(descriptor, obj) else descriptor.__get__(obj)
    return fields


def _name(key: Any) -> Any:
    return key if type(key) in (int, str) else id(key)


class Holder:
    """An object of the capture's own, in a frame of the program, that the program fills."""

    def held(self) -> list[Any]:
        raise NotImplementedError


def parts_of(obj: Any) -> list[Any]:
    """Values that an object refers to."""
    if isinstance(obj, Holder):
        return obj.held()
    if isinstance(obj, dict):
        return [*dict.keys(obj), *dict.values(obj)]
    if isinstance(obj, list | collections.deque | tuple | set | frozenset):
        return [*items_of(obj)]
    if isinstance(obj, CellType):
        return [] if is_empty(obj) else [obj.cell_contents]
    if isinstance(obj, Frame):
        return [*obj.stack, *obj.fast.values(), obj.namespace, *obj.handled, obj.function]
    if isinstance(obj, Generator):
        return [obj.frame]
    if isinstance(obj, FunctionType):
        return [*(obj.__closure__ or ()), obj.__defaults__, obj.__kwdefaults__, obj.__dict__]
    if isinstance(obj, MethodType):
        return [obj.__self__, obj.__func__]
    if isinstance(obj, functools.partial):
        return [obj.func, obj.args, obj.keywords]
    if isinstance(obj, Tensor):
        view = obj._view
        return [obj._grad, *([] if view is None else [view.base])]
    if isinstance(obj, type) or not is_python_class(type(obj)):
        return []
    return [*fields_of_instance(obj).values()]
