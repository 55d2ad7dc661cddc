"""Between tiling and the memory plan: equal updates side by side, to be launched as one. Tiled +
texts -> batches.

An optimizer updates each parameter by the same expression, as soon as its gradient is there. The
updates of all parameters are moved to where the last of them stands, and the emitter makes one
launch of each batch: one loop shared by the threads, over all blocks of all tensors.

One sweep from the end to the start. A kernel may move down to an equal one when nothing in between
touches what it writes or writes what it reads. Only kernels that touch no temporaries move, so that
memory never grows by it: a gradient that stays in `.grad` outlives the program anyway; one that
dies in its update does so at once. What can fail stays before the first item that writes an input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from codegen.ir import Fused, Kernel, Library

Item = Kernel | Library
Batch = tuple[Item, ...]


def batch_updates(fused: Fused, keys: Mapping[str, str]) -> tuple[Batch, ...]:
    """`fused.items` in an order of execution, in batches: an item alone, or kernels of one `keys`
    entry (kernel name -> what is equal for kernels that one launch can run) that are independent of
    one another."""
    return _Sweep(fused, keys).run()


@dataclass(eq=False, slots=True)
class _Sweep:
    fused: Fused
    keys: Mapping[str, str]
    batches: list[list[Item]] = field(default_factory=list)  # from the end to the start
    open: dict[str, int] = field(default_factory=dict)  # key -> place in `batches`
    read: dict[str, int] = field(default_factory=dict)  # memory -> the earliest batch that reads it
    written: dict[str, int] = field(default_factory=dict)

    def run(self) -> tuple[Batch, ...]:
        last = max(self.fused.failing(), default=-1)
        for i, item in reversed(tuple(enumerate(self.fused.items))):
            if i == last:
                self.open.clear()
            reads, writes = (self.fused.homes(x) for x in (item.reads(), item.writes()))
            key = self.keys.get(item.name) if isinstance(item, Kernel) else None
            if key is not None and any(map(self.is_temporary, (*reads, *writes))):
                key = None
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
        """Whether all batches from the one at `place` on upwards are indifferent to the kernel.

        Places grow towards the start of the program."""
        return all(
            self.read.get(name, -1) < place and self.written.get(name, -1) < place
            for name in writes
        ) and all(self.written.get(name, -1) < place for name in reads)

    def note(self, place: int, reads: Iterable[str], writes: Iterable[str]) -> None:
        for known, names in ((self.read, reads), (self.written, writes)):
            for name in names:
                known[name] = max(known.get(name, -1), place)

    def is_temporary(self, name: str) -> bool:
        """Whether memory of the arena is held for it (a single number does not count)."""
        buffer = self.fused.buffers.get(name)
        return buffer is not None and buffer.kind == "temp" and buffer.size > 1
