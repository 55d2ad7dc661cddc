"""After fuse, on the CPU: collectives beside kernels. Fused -> Fused in another order.

A start moves up to right behind the last producer of what it sends, with the kernels that compute
for it alone (the copies into a bucket); a wait moves down to right before who first reads the
result. Collectives keep their order among themselves, on which the ranks rely. A move is shorter,
or is not made, where it would make the temporaries of the program need more memory at their peak.
Nothing is estimated: how long kernels and messages take is not asked. (Compare `simple_overlap` of
pytorch/pytorch.)

Inputs are written behind the last collective, when no other rank can fail the run any more, so that
updates do not run beside it. They could, into temporaries that are copied at the end. Measured on
two cores with AdamW: the copies take 0.4 to 0.8 of the time of the update (1 to 100 MB), and that
is 3 of 92 ms of a step of a small GPT. So 2 % of a step could be hidden, where the last message is
as long as the update, for the memory of all parameters and their state once more: not worth it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from codegen.ir.schema import Access, Buffer, Fused, Kernel, Library
from codegen.ir.sizes import hint, is_contiguous, same

IN_PLACE: Final = ("start_all_reduce", "start_broadcast")  # may write the result over the operand
SLACK: Final = 1 << 16  # bytes, by which the peak may grow: messages of a few numbers
TRIES: Final = 4  # places between, for a start that cannot be as early as its operand is there
Key: TypeAlias = tuple[int, int]  # a position of today, and what stands behind it: 0 itself
Keys: TypeAlias = dict[int, Key]


def overlap(fused: Fused) -> Fused:
    """The items with starts as early, and waits as late, as can be."""
    if not any(_half(item) for item in fused.items):
        return fused
    return replace(fused, items=tuple(fused.items[i] for i in _Order(fused).run()))


def _half(item: Kernel | Library) -> str:
    return item.op.half if isinstance(item, Library) else ""


class _Order:
    """The new order of the items, by their keys."""

    def __init__(self, fused: Fused) -> None:
        self.items = fused.items
        self.readers, writers = fused.touching()
        self.writer = {name: places[-1] for name, places in writers.items()}
        self.keys: Keys = {i: (i, 0) for i in range(len(fused.items))}
        self.moved = 0  # so far
        self.lives = _Lives(receive_in_place(fused))
        self.peak = self.lives.peak(self.order())

    def order(self) -> list[int]:
        return sorted(self.keys, key=self.keys.__getitem__)

    def run(self) -> list[int]:
        """Starts first: how far a wait can move depends on what is started with its result."""
        starts = [i for i, item in enumerate(self.items) if _half(item) == "start"]
        waits = [i for i, item in enumerate(self.items) if _half(item) == "wait"]
        for before, start in zip([None, *starts], starts, strict=False):
            own = self.feeders(start)
            least = -1 if before is None else self.keys[before][0]
            # As early as can be, or when the result of the one before is there, or between.
            waited = max((self.keys[w][0] for w in waits if w < start), default=-1)
            between = (start - (start - waited >> k) for k in range(1, TRIES))
            self.take_first(self.moves([*own, start], at) for at in (least, waited, *between))
        for wait, later in zip(reversed(waits), [None, *reversed(waits)], strict=False):
            self.take_first([self.down(wait, wait if later is None else later)])
        return self.order()

    def take_first(self, ways: Iterable[Keys]) -> None:
        """The first of some changes of keys that needs no more memory than there was."""
        for change in ways:
            kept = {i: self.keys[i] for i in change}
            self.keys.update(change)
            if not change or self.lives.peak(self.order()) <= self.peak + SLACK:
                return
            self.keys.update(kept)

    def feeders(self, start: int) -> list[int]:
        """The kernels whose results nobody but the start reads (and its wait), in order."""
        found = {start}
        stack = [start]
        while stack:
            for name in self.items[stack.pop()].reads():
                at = self.writer.get(name)
                if at is not None and at not in found and self.is_for(at, found):
                    found.add(at)
                    stack.append(at)
        return sorted(found - {start})

    def is_for(self, at: int, those: set[int]) -> bool:
        """True if a kernel is read by those items alone, and by waits."""
        readers = [r for name in self.items[at].writes() for r in self.readers.get(name, ())]
        alone = all(r in those or _half(self.items[r]) == "wait" for r in readers)
        return isinstance(self.items[at], Kernel) and bool(readers) and alone

    def moves(self, items: Sequence[int], least: int) -> Keys:
        """New keys of items that move up: right behind what they read, and behind `least`."""
        change: Keys = {}
        for i in items:
            makers = [self.writer[n] for n in self.items[i].reads() if n in self.writer]
            places = [change.get(w, self.keys[w])[0] for w in makers]
            at = max([*places, least])
            self.moved += 1
            if (at, self.moved) < self.keys[i]:
                change[i] = at, self.moved
        return change

    def down(self, wait: int, later: int) -> Keys:
        """The new key of a wait: right before its first reader; of what nobody reads, before the
        `later` wait."""
        reads = [self.keys[r] for n in self.items[wait].writes() for r in self.readers.get(n, ())]
        at, behind = min(reads, default=(0, 1))
        right_before = (at - 1, len(self.items) + self.moved + 1)
        new = self.keys[later] if not reads else self.keys[wait] if behind else right_before
        return {wait: new} if new > self.keys[wait] else {}


class _Lives:
    """Memory that the temporaries of a program need, by the order of its items."""

    def __init__(self, fused: Fused) -> None:
        self.touched = [
            [home for home in fused.homes((*item.reads(), *item.writes())) if _is_temp(fused, home)]
            for item in fused.items
        ]
        names = dict.fromkeys(name for names in self.touched for name in names)
        self.bytes = {name: hint(fused.buffers[name].nbytes) for name in names}

    def peak(self, order: Sequence[int]) -> int:
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        for place, i in enumerate(order):
            for name in self.touched[i]:
                first.setdefault(name, place)
                last[name] = place
        change = np.zeros(len(order) + 1, np.int64)
        for name, size in self.bytes.items():
            change[first[name]] += size
            change[last[name] + 1] -= size
        return int(change.cumsum().max())


def _is_temp(fused: Fused, home: str) -> bool:
    return home in fused.buffers and fused.buffers[home].kind == "temp"


def receive_in_place(fused: Fused) -> Fused:
    """After place_writes: what is received lies where its result belongs, and where nothing else
    needs it, so does what is sent."""
    items = list(fused.items)
    steps = [x for x in items if isinstance(x, Library) and x.op.half]
    if not steps:
        return fused
    buffers = dict(fused.buffers)
    readers, _ = fused.touching()
    starts = {x.outs[0]: x for x in steps if x.op.half == "start"}
    for i, item in enumerate(items):
        if not isinstance(item, Library) or item.op.half != "wait":
            continue
        handle, x = (access.buffer for access in item.operands if isinstance(access, Access))
        out, start = buffers[item.outs[0]], starts[handle]
        if out.alias:
            continue  # it lies in an input, which is read until it is written
        home = out.name if out.kind == "output" else handle
        for name in {handle, out.name} - {home}:
            buffers[name] = replace(buffers[name], alias=home)
        sent = start.operands[0]
        if len(readers[x]) == 2 and isinstance(sent, Access) and _is_whole(sent, start, buffers):
            buffers[x] = replace(buffers[x], alias=home)
            items[i] = replace(item, operands=item.operands[:1], avals=item.avals[:1])
    return replace(fused, buffers=buffers, items=tuple(items))


def _is_whole(sent: Access, start: Library, buffers: Mapping[str, Buffer]) -> bool:
    """True if what is sent is a temporary, all of it, and the result is as large."""
    b = buffers[sent.buffer]
    straight = same(sent.offset, 0) and is_contiguous(sent.shape, sent.strides)
    return (
        start.name in IN_PLACE
        and b.kind == "temp"
        and not b.alias
        and straight
        and same(b.size, buffers[start.outs[0]].size)
    )
