"""Before the memory plan: equal updates side by side, to be launched as one. Items -> batches.

An optimizer updates each parameter by the same expression, as soon as its gradient is there. The
updates of all parameters are moved to where the last of them stands, and the emitter makes one
launch of each batch: one loop shared by the threads, over all blocks of all tensors.

One sweep from the end to the start. A kernel may move down to an equal one when nothing in between
touches what it writes or writes what it reads.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Generic, Protocol, TypeVar

from codegen.ir.schema import Fused
from eager.base.dataclass import dataclass


class Item(Protocol):
    """A unit of execution. Its order with units that touch other memory may change."""

    @property
    def name(self) -> str: ...
    def reads(self) -> tuple[str, ...]: ...
    def writes(self) -> tuple[str, ...]: ...


T = TypeVar("T", bound=Item)
K = TypeVar("K")


def batch_updates(
    fused: Fused, items: Sequence[T], keys: Mapping[str, Hashable], barrier: T | None = None
) -> tuple[tuple[T, ...], ...]:
    """`items` in an order of execution, in batches: an item alone, or those of one `keys` entry
    (name -> what is equal for kernels that one launch can run) that are independent of one
    another. No batch has items from before and from behind the `barrier`."""
    sweep: _Sweep[T] = _Sweep(fused, keys)
    return sweep.run(items, barrier)


@dataclass(frozen=True, eq=False, slots=True)
class Batched(Generic[T, K]):
    """Items in batches, in an order of execution: one launch each. `known`: what the emitter makes
    of them, by name."""

    fused: Fused
    batches: tuple[tuple[T, ...], ...]
    known: Mapping[str, K]

    @property
    def text(self) -> str:
        """One line per launch, for `explain`."""
        return "\n".join(" ".join(item.name for item in batch) for batch in self.batches)


@dataclass(eq=False, slots=True)
class _Sweep(Generic[T]):
    fused: Fused
    keys: Mapping[str, Hashable]
    batches: list[list[T]] = field(default_factory=list)  # from the end to the start
    open: dict[Hashable, int] = field(default_factory=dict)  # key -> place in `batches`
    read: dict[str, int] = field(default_factory=dict)  # memory -> the earliest batch that reads it
    written: dict[str, int] = field(default_factory=dict)

    def run(self, items: Sequence[T], barrier: T | None) -> tuple[tuple[T, ...], ...]:
        for item in reversed(items):
            if item is barrier:
                self.open.clear()
            reads, writes = (self.fused.homes(x) for x in (item.reads(), item.writes()))
            key = self.keys.get(item.name)
            place = self.open.get(key, -1) if key is not None else -1
            if place < 0 or not self.may_move(place, reads, writes):
                place = len(self.batches)
                self.batches.append([])
            if key is not None:
                self.open[key] = place
            self.batches[place].append(item)
            self.note(place, reads, writes)
        return tuple(tuple(reversed(batch)) for batch in reversed(self.batches))

    def may_move(self, place: int, reads: Iterable[str], writes: Iterable[str]) -> bool:
        """True if an item with these reads and writes commutes with each batch from the one at
        `place` on.

        Places grow towards the start of the program."""
        return all(
            self.read.get(name, -1) < place and self.written.get(name, -1) < place
            for name in writes
        ) and all(self.written.get(name, -1) < place for name in reads)

    def note(self, place: int, reads: Iterable[str], writes: Iterable[str]) -> None:
        for known, names in ((self.read, reads), (self.written, writes)):
            if place == len(self.batches) - 1:  # the earliest of all
                known.update(dict.fromkeys(names, place))
                continue
            for name in names:
                known[name] = max(known.get(name, -1), place)
