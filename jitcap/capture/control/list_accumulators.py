"""Capture: lists that the steps of a `for` append to. frame before the loop, its copy in which a
step runs -> stand-ins in the copy, by their places.

Such a list is a local that `.append` is called on, or what a comprehension builds, which lies on
the stack below the iterator. Nothing else of the step may reach it.
"""

from __future__ import annotations

import itertools
from typing import Any

from eager.core.tensor import Tensor
from jitcap.base.walks import reach
from jitcap.capture.control.log import known_elsewhere
from jitcap.capture.control.loop_results import NotRolled
from jitcap.capture.interpret import Frame
from jitcap.capture.kinds.contents import Holder, parts_of

Place = str | int  # the name of a local, or a place on the stack


class Appended(Holder):
    """Stands for a list that the step appends to, and does nothing else with."""

    def __init__(self, target: list[Any]) -> None:
        self.target = target
        self.values: list[Any] = []

    def append(self, value: Any) -> None:
        self.values.append(value)

    def held(self) -> list[Any]:
        return [self.values]  # a branch may choose what is appended

    def is_plain(self) -> bool:
        """True if it has only tensors, and each step appends one."""
        return len(self.values) == 1 and all(
            isinstance(x, Tensor) for x in (*self.values, *self.target)
        )


def stand_in(s: Any, frame: Frame, inner: Frame, end: int, *, sized: bool) -> dict[Place, Appended]:
    """Put stand-ins into the copy. `sized`: the lists become other objects behind the loop."""
    region = frame.bytecode.instructions[frame.pc : end]
    found: dict[Place, Appended] = {}
    for name in _named(region):
        value = inner.fast.get(name)
        if type(value) is not list or s.outside.shadow(value) is not None:
            continue
        others = [v for k, v in inner.fast.items() if k != name]
        if _reaches([*others, *inner.stack], value):
            raise NotRolled
        rest = {k: v for k, v in frame.fast.items() if k != name}
        if sized and known_elsewhere(s, frame, rest, [value]):
            raise NotRolled
        found[name] = inner.fast[name] = Appended(value)
    below = len(frame.stack) - 2
    if any(i.op == "LIST_APPEND" and i.arg == 2 for i in region) and below >= 0:
        value = frame.stack[below]
        others = [x for i, x in enumerate(inner.stack) if i != below]
        if type(value) is list and not _reaches([*inner.fast.values(), *others], value):
            found[below] = inner.stack[below] = Appended(value)
    return found


def value_at(frame: Frame, place: Place) -> Any:
    """The value on the stack or in the local that `place` names."""
    return frame.stack[place] if isinstance(place, int) else frame.fast.get(place)


def put(frame: Frame, place: Place, value: Any) -> None:
    """Another one there."""
    if isinstance(place, int):
        frame.stack[place] = value
    else:
        frame.fast[place] = value


def _named(region: Any) -> set[str]:
    """Locals on which `.append` is looked up."""
    return {
        a.arg
        for a, b in itertools.pairwise(region)
        if a.op == "LOAD_FAST" and b.op == "LOAD_ATTR" and b.arg == "append"
    }


def _reaches(values: list[Any], target: Any) -> bool:
    """True if `target` is reachable from one of `values`, or is one of them."""
    return any(value is target for value in reach(values, parts_of, id))
