"""Capture: what two ways of a branch leave, for `branch`. a value of each -> one, with slots.

What differs is chosen when the run knows: tensors and numbers of the graph. What holds others (see
`trees`) is made anew of what is chosen of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

import numpy as np

from eager.base.dataclass import dataclass
from eager.core.sym import SymNumber
from eager.core.tape import full
from eager.core.tensor import Tensor
from eager.sizes.symint import of_data
from jitcap.autodiff.joint import behind
from jitcap.capture.control.arm_compatibility import (
    CONSTANTS,
    check_tensors,
    is_placed,
    number_kind,
    word_of,
)
from jitcap.capture.control.checkpoint import Differ, is_loop, same_place
from jitcap.capture.control.histories import Overwritten, Unsayable
from jitcap.capture.control.loop_iterables import same_constant, same_look
from jitcap.capture.control.value_trees import (
    Entries,
    empty_like,
    entries,
    is_tuple,
    refill,
    same_keys,
)
from jitcap.capture.host import HostCall
from jitcap.capture.interpret import NULL
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.deferred import COPIED, SAMPLES, Deferred, copied
from jitcap.capture.kinds.symbolic.chosen import Chosen


@dataclass(frozen=True, slots=True)
class _SlotPhi:
    """Stands for a value that is chosen."""

    number: int


@dataclass(slots=True, eq=False)
class _ValuePhi:
    """Stands for what holds others, of which the ways left `pair`."""

    pair: tuple[Any, Any]
    held: Entries = field(default_factory=dict)
    made: Any = MISSING


@dataclass(slots=True, eq=False)
class _ChosenPhi:
    """Stands for a value that is of two kinds, and chosen by `truth`."""

    truth: Any
    ways: tuple[Any, Any]
    made: Any = MISSING


class Phi:
    """The values of both ways. `changed`: ids of what a way has changed, and has put back. `last`:
    by which truth the one or the other is left, if nothing of the call comes behind. `used`: ids of
    the nodes of the tape that each way has used up."""

    def __init__(
        self, session: Any, was_there: Callable[[Any], bool], spans: Sequence[tuple[float, float]],
        overwritten: Overwritten, changed: set[int], last: SymNumber | None, used: list[set[int]],
    ) -> None:  # fmt: skip
        self.session, self.was_there, self.spans = session, was_there, spans
        self.overwritten, self.changed, self.last, self.used = overwritten, changed, last, used
        self.alone: dict[int, Any] = {}  # by id: what stands for a value that one way leaves alone
        self.blanks: list[Tensor] = []  # what the other way leaves in its place
        self.leaves: list[tuple[Any, Any]] = []  # what is chosen
        self.results: list[Any] = []  # and what the choices are
        self.slots: dict[tuple[int, int], int] = {}  # pairs of leaves
        self.wholes: dict[tuple[int, int], _ValuePhi] = {}

    def values(self, a: Any, b: Any) -> Any:
        if a is b:
            if isinstance(a, Tensor) and not self.was_there(a):
                raise Differ("a tensor of both ways")
            return a
        if number_kind(a) is not None and number_kind(a) is number_kind(b):
            known = not isinstance(a, SymNumber) and not isinstance(b, SymNumber)
            return a if known and same_constant(a, b) else self._slot(a, b)
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            left = self.overwritten.as_left(a, b)
            if self.last is None or same_look(a.aval, b.aval):
                check_tensors(self.session, self.spans, a, b, *left)
                return self._slot(a, b)
        if type(a) is type(b) and type(a) in CONSTANTS and a == b:
            return a
        if is_loop(a) and type(a) is type(b) and same_place(a, b):
            return a
        whole = self._whole(a, b) if type(a) is type(b) else None
        if whole is not None:
            return whole
        differ = Differ(f"one way leaves a {word_of(a)}, the other a {word_of(b)}")
        if self.last is None:
            raise differ
        return _ChosenPhi(self.last, (self._alone(0, a, differ), self._alone(1, b, differ)))

    def _alone(self, k: int, x: Any, differ: Differ) -> Any:
        """The value of one way, which the other has nothing like, as it leaves."""
        spent = self.used[1 - k] - self.used[k]
        history = [x._node, *behind((x,))] if isinstance(x, Tensor) and x._node else ()
        if any(id(node) in spent for node in history):
            raise differ
        if type(x) in CONSTANTS or self.was_there(x):
            return x
        if id(x) in self.alone:
            return self.alone[id(x)]
        if isinstance(x, SymNumber) and number_kind(x) is not None:
            return self._of_way(k, x, SAMPLES[x.pytype][0])
        if type(x) is Chosen:
            ways = [self._alone(k, each, differ) for each in x.ways]
            return _ChosenPhi(self._of_way(k, x.truth, False), (ways[0], ways[1]))
        if isinstance(x, Tensor):
            return self._tensor_alone(k, x, differ)
        if type(x) not in (tuple, list, dict) or id(x) in self.changed:
            raise differ
        held = self.alone[id(x)] = _ValuePhi((x, x))
        held.held = {key: self._alone(k, y, differ) for key, y in (entries(x) or {}).items()}
        return held

    def _tensor_alone(self, k: int, x: Tensor, differ: Differ) -> Any:
        shown = x._hooks or x._retains or x._storage.inference or is_placed(self.session, x)
        if type(x) is not Tensor or shown or any(map(of_data, x.shape)):
            raise differ
        if x._requires_grad and x._node is None:
            raise differ
        self.blanks.append(full(0, x.aval))
        slot = self.alone[id(x)] = self._of_way(k, x, self.blanks[-1])
        return slot

    def locals(
        self, first: dict[str, Any], second: dict[str, Any], read: frozenset[str]
    ) -> dict[str, Any]:
        """Locals behind both ways; of those that are not read any more what is the same."""
        merged = {}
        for name in dict.fromkeys((*first, *second)):
            a, b = first.get(name, NULL), second.get(name, NULL)
            if a is b:
                merged[name] = a
            elif name in read:
                merged[name] = self.values(a, b)
        return merged

    def _slot(self, a: Any, b: Any) -> Any:
        number = self.slots.setdefault((id(a), id(b)), len(self.leaves))
        if number == len(self.leaves):
            self.leaves.append((a, b))
        return _SlotPhi(number)

    def _whole(self, a: Any, b: Any) -> _ValuePhi | None:
        """One of both, if they hold values by the same names."""
        if (id(a), id(b)) in self.wholes:
            return self.wholes[id(a), id(b)]
        first, second = (self._held(x) for x in (a, b))
        if first is None or second is None or not same_keys(first, second):
            return None
        whole = self.wholes[id(a), id(b)] = _ValuePhi((a, b))
        pairs = zip(first.items(), second.values(), strict=True)
        whole.held = {key: self.values(x, y) for (key, x), y in pairs}
        return whole

    def _held(self, x: Any) -> Entries | None:
        own = {id(x), id(getattr(x, "__dict__", x))}
        known = self.session.outside.shadow(x) is None and own.isdisjoint(self.changed)
        return entries(x) if known else None

    # ---- calls of the host

    def calls(self, ways: Sequence[list[HostCall]]) -> list[HostCall]:
        """Those of both, which are made or not, with slots."""
        found = []
        for k, each in enumerate(ways):
            for call in each:
                shown = partial(self._shown, k)
                when = self._of_way(k, True if call.when is None else call.when, False)
                given, named = copied((call.args, call.kwargs), shown)
                found.append(replace(call, args=given, kwargs=named, when=when))
        return found

    def made_call(self, call: HostCall) -> HostCall:
        """One of them, when the choices are made."""
        given, named = copied((call.args, call.kwargs), self._filled)
        return replace(call, args=given, kwargs=named, when=self.fill(call.when))

    def _of_way(self, k: int, value: Any, other: Any) -> Any:
        """A value of one way; after the other one nobody looks."""
        return self._slot(value, other) if k == 0 else self._slot(other, value)

    def _shown(self, k: int, value: Any) -> Any:
        """A slot for what a call of a way shows."""
        if isinstance(value, SymNumber) and number_kind(value) is not None:
            return self._of_way(k, value, SAMPLES[value.pytype][0])  # no text raises for it
        if isinstance(value, Tensor):
            if type(value) is not Tensor or value._requires_grad or any(map(of_data, value.shape)):
                raise Unsayable("one way shows a tensor with a gradient, or of a size by data")
            return self._of_way(k, value, full(0, value.aval))
        return self._in_text(value, partial(self._shown, k))

    def _in_text(self, value: Any, leaf: Callable[[Any], Any]) -> Any:
        if type(value) is Deferred and value.cls is not np.ndarray:
            given, named = copied((value.args, value.kwargs), leaf)
            return Deferred(value.fn, given, named, value.cls)
        outside = self.session.outside
        known = isinstance(value, (*COPIED, *CONSTANTS)) or type(value) is _SlotPhi
        known = known or (isinstance(value, type) and id(value) not in self.session.made)
        if not known and outside.shadow(value) is None and not outside.is_fixed(value):
            raise Unsayable("one way shows an object of its own")
        return MISSING

    def _filled(self, value: Any) -> Any:
        return self.fill(value) if type(value) is _SlotPhi else self._in_text(value, self._filled)

    # ---- when the choices are made

    def fill(self, value: Any) -> Any:
        if type(value) is _SlotPhi:
            return self.results[value.number]
        if type(value) is _ChosenPhi:
            if value.made is MISSING:
                truth, (a, b) = self.fill(value.truth), value.ways
                value.made = Chosen(truth, (self.fill(a), self.fill(b)))
            return value.made
        if type(value) is not _ValuePhi:
            return value
        if value.made is MISSING:
            value.made = empty = empty_like(value.pair[0])
            value.made = refill(empty, {k: self.fill(v) for k, v in value.held.items()})
        return value.made

    def ties(self) -> Iterator[tuple[Any, list[Any]]]:
        """Merged containers, and the values that each could be the same as: one that was there, or
        another container that is the same after one of the ways."""
        for w in self.wholes.values():
            others = [v for v in self.wholes.values() if v is not w]
            same = [v.made for v in others if v.pair[0] is w.pair[0] or v.pair[1] is w.pair[1]]
            tied = [
                x for x in w.pair if self.was_there(x) or len(self.session.ties.could_be(x)) > 1
            ]
            yield w.made, [*tied, *same]


def shown_by(calls: Iterable[HostCall]) -> list[Any]:
    """The tensors and numbers that calls of the host are about."""
    found: list[Any] = [call.when for call in calls]

    def look(value: Any) -> Any:
        if type(value) is Deferred:
            copied((value.args, value.kwargs), look)
        found.append(value)
        return MISSING

    for call in calls:
        copied((call.args, call.kwargs), look)
    return found


def made_inside(values: Iterable[Any], was_there: Callable[[Any], bool]) -> Iterator[Any]:
    """The tensors and numbers of the graph in what a way has made."""
    stack, seen = list(values), set[int]()
    while stack:
        value = stack.pop()
        if isinstance(value, Tensor) or (isinstance(value, SymNumber) and number_kind(value)):
            yield value
        elif type(value) is Chosen:
            stack += (value.truth, *value.ways)
        elif id(value) not in seen and (is_tuple(type(value)) or not was_there(value)):
            seen.add(id(value))
            stack += (entries(value) or {}).values()
