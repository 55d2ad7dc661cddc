"""Capture: what a rolled loop leaves behind. values of the recorded step -> objects, as in Python.

A value of the step is a tensor that it made, what a carry went in as, an element of what the loop
goes through, or what was there before: `found.append(h)` and `h` are the same object in the end,
and so are they here. Where two objects share memory without being one (a view of `h` in a list),
that is noted (`Ties`): the loop is left as it stands if anybody could tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eager.core.grad_fn_names import label_of, put_name
from eager.core.tensor import Tensor
from eager.ops.move import flip
from jitcap.capture.kinds.symbolic.sequences import StackedChunk

Leaves = Sequence[Tensor]
Place = tuple[str, Any]  # what a value of the step is: see `Behind.kind`


class NotRolled(BaseException):
    """The step is not the same for all counters, or cannot be said so."""


class Behind:
    """`given` stand for the `start` of the carries and `ends` are what they are carried on as;
    `rows` maps the id of what stands for an element to that, and to the element of each step;
    `was_there(x)`: whether an object is older than the step; `is_outer(x)`: whether its memory is;
    `together(memory)`: what is noted to be perhaps the same."""

    def __init__(
        self,
        given: Leaves,
        start: Leaves,
        ends: Leaves,
        rows: dict[int, tuple[Tensor, Callable[[int], Tensor]]],
        was_there: Callable[[Tensor], bool],
        is_outer: Callable[[Tensor], bool],
        together: Callable[[Any], list[Any]],
    ) -> None:
        self.given, self.start, self.ends, self.rows = given, start, ends, rows
        self.was_there, self.is_outer, self.together = was_there, is_outer, together
        self.kinds: dict[int, Place] = {}
        self.passed = False  # whether a value that looks new may be what a carry went in as
        self.places = {id(t): k for k, t in enumerate(given)}
        self.ys: dict[int, Tensor] = {}  # what is stacked, by id
        self.shared: list[tuple[Tensor, Tensor]] = []  # leaves of one memory
        self.final: set[int] = set()  # ids of what locals are in the end
        self.listed: set[int] = set()  # ids of what is there of other steps than the last, too
        self.last: dict[int, Tensor] = {}  # those of them that are carried on, as the loop gives it
        self.stacks: dict[int, Tensor] = {}
        self.made: dict[tuple[int, int], Tensor] = {}  # by id and step
        carried = {id(t._array.storage): t for t in given}
        for x in ends:
            if self.kind(x)[0] == "new" and id(x._array.storage) in carried:
                raise NotRolled

    def kind(self, x: Tensor) -> Place:
        if id(x) not in self.kinds:
            self.kinds[id(x)] = self._kind(x)
        return self.kinds[id(x)]

    def _kind(self, x: Tensor) -> Place:
        if id(x) in self.places:
            return "carry", self.places[id(x)]
        if id(x) in self.rows:
            return "row", self.rows[id(x)][1]
        if self.was_there(x):
            return "same", x
        memory = {id(row._array.storage) for row, _ in self.rows.values()}
        if self.is_outer(x) or id(x._array.storage) in memory:
            raise NotRolled
        could_be = {id(m) for m in self.together(x._array.storage)}
        known = {id(t._array.storage) for t in self.given}
        if len(could_be) > 1 and not could_be - {id(x._array.storage)} <= known:
            raise NotRolled
        self.passed |= len(could_be) > 1
        return "new", x

    def wants_last(self, x: Tensor) -> None:
        """A value of the last step is there after the loop."""
        self.final.add(id(x))
        if not any(x is end for end in self.ends):
            self._wants(x)

    def wants(self, x: Tensor) -> None:
        """A value of every step is there after the loop."""
        self.listed |= self._wants(x)

    def _wants(self, x: Tensor) -> set[int]:
        waiting, found = [x], set[int]()
        while waiting:
            kind, what = self.kind(x := waiting.pop())
            if kind == "carry" and id(x) not in found:
                waiting.append(self.ends[what])
            elif kind == "new":
                self.ys.setdefault(id(x), x)
            found.add(id(x))
        return found

    def share(self, wanted: Leaves) -> None:
        """Note the pairs of values that may share memory without being one object."""
        every = {id(x): x for x in (*self.given, *self.ends, *wanted)}
        by_memory: dict[int, list[Tensor]] = {}
        for x in every.values():
            if self.kind(x)[0] in ("carry", "new"):
                by_memory.setdefault(id(x._array.storage), []).append(x)
        groups = [[*every.values()]] if self.passed else by_memory.values()
        for first, *others in groups:
            self.shared += [(first, x) for x in others]

    # ---- behind the loop

    def finish(self, last: Leaves, ys: Leaves, length: int, reverse: bool) -> None:
        """The loop is a node: its last carries, and what it stacked."""
        self.length, self.reverse = length, reverse
        for x, value in zip(self.ends, last, strict=True):
            if id(x) in self.final:
                self.last.setdefault(id(x), value)
        self.stacks = dict(zip(self.ys, ys, strict=True))

    def at(self, x: Tensor, i: int) -> Tensor:
        """The object that a value of the step is in the step `i`."""
        if i == self.length - 1 and id(x) in self.last and not self._is_known(x, i):
            return self.last[id(x)]
        while True:
            kind, what = self.kind(x)
            if kind == "carry":
                if i == 0:
                    start: Tensor = self.start[what]
                    return start
                x, i = self.ends[what], i - 1
                continue
            if kind == "row":
                row: Tensor = what(i)
                return row
            return x if kind == "same" else self._new(x, i)

    def _new(self, x: Tensor, i: int) -> Tensor:
        if i == self.length - 1 and id(x) in self.last:
            return self.last[id(x)]
        if (id(x), i) not in self.made:
            at = self.length - 1 - i if self.reverse else i
            row = self.stacks[id(x)][at]
            # One that stays alone has memory of its own, as in Python: that of all steps is let go.
            self.made[id(x), i] = row if id(x) in self.listed else row.clone()
            put_name(self.made[id(x), i], label_of(x))
        return self.made[id(x), i]

    def is_piece(self, x: Tensor, length: Any) -> bool:
        """True if `pieces` can give the tensor's value in every step."""
        kind, what = self.kind(x)
        if kind == "carry":
            return bool(self.kind(self.ends[what])[0] == "new" and length > 1)
        return kind in ("new", "row")

    def pieces(self, x: Tensor, loop: Any) -> tuple[Any, ...]:
        """The step's value `x` in all steps, in order: tensors, and `Piece`s."""
        kind, what = self.kind(x)
        if kind == "carry":
            one_less = self._in_time(self.stacks[id(self.ends[what])])[: self.length - 1]
            rest = StackedChunk(
                one_less, lambda: self.at(x, 1), lambda: self.at(x, self.length - 1)
            )
            return self.start[what], rest
        rows = zip(loop.slices, loop.stacks, strict=True)
        whole = next(w for y, w in rows if y is x) if kind == "row" else self.stacks[id(x)]
        ends = (lambda: self.at(x, 0), lambda: self.at(x, self.length - 1))
        return (StackedChunk(self._in_time(whole), *ends),)

    def whole(self, x: Tensor) -> Tensor:
        """Tensor of a value that is new in each step, stacked over all steps in order."""
        return self._in_time(self.stacks[id(x)])

    def _in_time(self, whole: Tensor) -> Tensor:
        return flip(whole, 0) if self.reverse else whole

    def ties(self) -> Iterator[tuple[Tensor, list[Tensor]]]:
        """Results that share memory with others without being one object."""
        for a, b in self.shared:
            others = self._results(a)
            for x in self._results(b):
                yield x, [y for y in others if y is not x]
        if self.passed:
            for x, start in zip(self.given, self.start, strict=True):
                yield from ((y, [start]) for y in self._results(x) if y is not start)

    def _results(self, x: Tensor) -> list[Tensor]:
        """Objects that a value is in some step and that are there after the loop, one of each
        memory."""
        some = {*range(min(len(self.given) + 1, self.length)), self.length - 1}
        end = {self.length - 1} if id(x) in self.last else set()
        found = [self.at(x, i) for i in sorted(some) if i in end or self._is_known(x, i)]
        return list({id(t): t for t in found}.values())

    def _is_known(self, x: Tensor, i: int) -> bool:
        """True if it is an object that is there after the loop, other than as a last carry."""
        kind, what = self.kind(x)
        while kind == "carry" and i > 0:
            i -= 1
            kind, what = self.kind(x := self.ends[what])
        return kind != "new" or id(x) in self.ys
