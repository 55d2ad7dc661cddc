"""Capture: what results of branches and loops could be the same as. names -> refusals.

After one way of a branch two names may stand for one object, and for two after the other; in the
graph they are two. `Ties.add` notes it, and `wrote`, `compared` and `check` begin the capture
again, without that branch, where it could show.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eager.tensor import UNREAD, Tensor
from jitcap.capture.breaks import Aliased, Break
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.tensors import TENSOR_FIELDS


class Ties:
    """What results of branches could be the same as: `add` notes it, and `wrote`, `compared` and
    `check` begin the capture again where that could show."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.open: list[Any] = []  # branches whose ways are interpreted: code, instruction
        self.regions: list[Any] = []  # rounds of loops that are read now: see `repeat`
        self.reasons: dict[Any, str] = {}  # why a loop (its code, where it begins) is none
        self.branched: set[Any] = set()  # codes of the frames that had one
        self.ties: list[tuple[Any, Tensor, Any, dict[int, Any]]] = []
        self.marks: list[tuple[Any, Tensor, Any]] = []  # tensors as they were after the branch
        self.frozen: dict[int, Any] = {}  # id of traced memory -> the branch
        self.hidden: list[tuple[Any, Tensor]] = []  # whose history has another name in Python
        self.objects: dict[int, Any] = {}  # by id of a result: the truth, the objects it may be
        self.escaped: set[int] = set()  # ids of traced memory that leaves
        self.histories: set[int] = set()  # ids of nodes of the tape of tensors that leave

    def add(self, key: Any, result: Tensor, sources: Sequence[Any], *, hidden: bool) -> None:
        if hidden:
            self.hidden.append((key, result))
        if not sources:
            return
        memory = result._array.storage
        behind = {id(storage): storage for _, storage in sources}
        for _, _, own, theirs in self.ties:
            if id(own) in behind:
                behind.update(theirs)
        self.ties.append((key, result, memory, behind))
        self.marks += [(key, x, self._mark(x)) for x in (result, *(x for x, _ in sources))]
        for storage in (memory, *behind.values()):
            self.frozen.setdefault(id(storage), (key, storage))

    def together(self, memory: Any) -> list[Any]:
        """The memory that could be the same as this one, by what is noted."""
        found, more = {id(memory): memory}, True
        while more and id(memory) in self.frozen:
            more = False
            for _, _, own, behind in self.ties:
                group = {id(own): own, **behind}
                if not found.keys().isdisjoint(group) and not group.keys() <= found.keys():
                    found.update(group)
                    more = True
        return list(found.values())

    def _mark(self, x: Tensor) -> Any:
        """What one of two names would show of what is done to the other, besides its elements."""
        shadow = self.session.outside.shadow(x)
        loaded = () if shadow is None else (UNREAD, getattr(shadow, "grad", None))
        grad = None if any(x._grad is g for g in loaded) else x._grad
        own = {k: v for k, v in x.__dict__.items() if k not in TENSOR_FIELDS}
        extra = getattr(shadow, "extra", {})
        kept = {k: id(v) for k, v in own.items() if extra.get(k, MISSING) is not v}
        return id(grad), x._requires_grad, x._retains, len(x._hooks or ()), kept

    def wrote(self, memory: Any) -> None:
        """Traced memory is about to be written."""
        if id(memory) in self.frozen:
            raise _again(self.frozen[id(memory)][0])

    def compared(self, *values: Any) -> None:
        """The program asks whether values are the same object."""
        for key, result, _, _ in self.ties:
            if any(v is result for v in values):
                raise _again(key)

    def check(self) -> None:
        """Everything has left that will."""
        owners, out = self.session.owners, self.escaped
        for key, _, memory, behind in self.ties:
            others = {i for i in behind if i in owners or i in out}
            for _, _, own, theirs in self.ties:
                if own is not memory and id(own) in out and not behind.keys().isdisjoint(theirs):
                    others.add(id(own))
            if id(memory) in out and others:
                raise _again(key)
        for key, x, mark in self.marks:
            if self._mark(x) != mark:
                raise _again(key)
        for key, result in self.hidden:
            if id(result._node) in self.histories:
                raise _again(key)


def _again(key: Any) -> Aliased:
    what = "after one way of this branch two names stand for one object"
    return Break.aliased(what, frozenset({key}))
