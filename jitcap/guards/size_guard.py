"""Beside the guards: what an entry assumes and computes of sizes. places, tests -> one comparison.

The sizes and strides of the tensors whose sizes are symbols, and the ints that are symbols, decide
many guards, the numbers of the graph, and more: all that is one block of the entry (`SizeBlock`).
Most calls have the sizes of the last one. Then the block is one comparison, and what it computed is
taken from there (`LastSizes`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from jitcap.base.origin import Computed, Origin, Variable
from jitcap.base.terms import Row, Term, attribute, names_in
from jitcap.base.walks import after_parents

BLOCK: Final[Row] = ("sizes",)  # the row of an entry in whose place the block goes


class LastSizes:
    """Memo of a size block: its last key, and what it computed: one pair, which is replaced as a
    whole, since other threads read it."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last: tuple[Any, tuple[Any, ...]] = (None, ())


class SizeBlock:
    """The part of an entry that nothing but sizes decides.

    `tensors` are places of tensors whose own type and element type are tested before it, `ints` of
    what is found to be an int before it. See `block_of`."""

    def __init__(self, tensors: Iterable[Origin], ints: Iterable[Origin]) -> None:
        self.tensors, self.ints = [*tensors], [*ints]
        self.state = ""  # the name of its `LastSizes`; "" until its place in the entry is known
        self.key: list[Term] = []  # what is compared
        self.rows: list[Row] = []  # what is done for other sizes
        self.tests: set[Row] = set()  # those among them
        self._tensors = {id(o) for o in self.tensors}
        # Of each place: whether sizes decide what is there, and whether the block must come before
        # it is read.
        self._known: dict[int, tuple[bool, bool]] = {id(o): (True, False) for o in self.ints}
        self._keep: list[Origin] = []

    def begin(self, state: str, variable: Variable) -> None:
        """Here is its place: what it compares was read."""
        self.state = state
        for tensor in map(variable, self.tensors):
            self.key += [attribute(tensor, "_array", name) for name in ("shape", "strides")]
        self.key += map(variable, self.ints)

    def decides(self, places: Iterable[Origin]) -> bool:
        """True if the values at these origins follow from the sizes."""
        return all(self._look(origin)[0] for origin in places)

    def precedes(self, places: Iterable[Origin]) -> bool:
        """True if the block must come before one of these origins is read."""
        return any(self._look(origin)[1] for origin in places)

    def computes(self, origin: Origin) -> bool:
        """True if the value at an origin is computed in the block."""
        return self._look(origin) == (True, True)

    def _look(self, origin: Origin) -> tuple[bool, bool]:
        for top in after_parents(origin, lambda o: o.parents(), lambda o: id(o) in self._known):
            parents = top.parents()
            above = [self._known[id(p)] for p in parents]
            decided = isinstance(top, Computed) and above != [] and all(d for d, _ in above)
            decided = decided or (top.is_size and id(parents[0]) in self._tensors)
            self._known[id(top)] = decided, decided or any(after for _, after in above)
            self._keep.append(top)
        return self._known[id(origin)]

    def row(self, rest: Iterable[Row]) -> Row:
        """The block, with the values for the `rest` of the entry."""
        used = {name for row in rest for name in names_in(row)}
        made = [row[1] for row in self.rows if row[0] == "let" and row[1] in used]
        return ("sizes", self.state, ("tuple", *self.key), ("rows", *self.rows), ("tuple", *made))


def block_of(tensors: Iterable[Origin], ints: Iterable[Origin]) -> SizeBlock | None:
    """The block of these tensors and ints, but for tensors that are found by sizes of others."""
    tensors, ints = [*tensors], [*ints]
    every = SizeBlock(tensors, ints)
    tensors = [o for o in tensors if not every.precedes((o,))]
    return SizeBlock(tensors, ints) if tensors or ints else None
