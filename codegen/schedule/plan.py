"""After the last change of order: where everything lies. Fused -> Plan (arena offsets of the
temporaries).

Live ranges over the order of execution, then greedy best fit by decreasing size: each temporary
goes to the lowest offset that is free during its life. Temporaries whose lives do not overlap share
memory; offsets are multiples of 64 bytes. Where sizes are symbolic, that is done at run time, for
each vector of sizes once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from codegen.ir.schema import Fused, Plan
from codegen.ir.sizes import Size, is_static, round_up, same

_NO_ROOM: Final = np.iinfo(np.int64).max
ALIGN: Final = 64  # bytes: a cache line, and a vector of AVX-512


def plan(fused: Fused, scratch: Mapping[str, tuple[int, Size]]) -> Plan:
    """`scratch`: what items need besides while they run, by name: (position, bytes)."""
    blocks = blocks_of(fused, scratch)
    if not is_static(size for _, _, size in blocks.values()):
        return Plan({}, 0, blocks)
    offsets, size = assign_offsets(blocks)
    return Plan(offsets, size)


def blocks_of(
    fused: Fused, scratch: Mapping[str, tuple[int, Size]]
) -> dict[str, tuple[int, int, Size]]:
    """All that needs memory: (first item, last item, bytes) by name."""
    lives = live_ranges(fused)
    room = {n: round_up(_some(fused.buffers[n].nbytes), ALIGN) for n in lives}
    blocks = {n: (a, b, room[n]) for n, (a, b) in lives.items()}
    return blocks | {n: (i, i, round_up(size, ALIGN)) for n, (i, size) in scratch.items()}


def line_up(plan: Plan) -> Plan:
    """`plan` with offsets that are expressions of the symbols: for a body, which is run where its
    caller says. A block takes the place of one that is as large and not needed any more."""
    if not plan.is_symbolic:
        return plan
    offsets: dict[str, Size] = {}
    total: Size = 0
    taken: list[tuple[int, Size, Size]] = []  # the last item that needs it, place, bytes
    for name, (first, last, size) in sorted(plan.blocks.items(), key=lambda b: b[1][0]):
        free = (i for i, (end, _, room) in enumerate(taken) if end < first and same(room, size))
        at = next(free, None)
        if at is None:
            taken.append((last, total, size))
            offsets[name], total = total, total + size
        else:
            offsets[name] = taken[at][1]
            taken[at] = last, *taken[at][1:]
    return Plan(offsets, total)


def _some(nbytes: Size) -> Size:
    return max(nbytes, 1) if is_static((nbytes,)) else nbytes


def live_ranges(fused: Fused) -> dict[str, tuple[int, int]]:
    """First and last item that touches each temporary, or what lies in its memory."""
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    homes = {b.name: b.alias or b.name for b in fused.buffers.values()}
    homes = {name: home for name, home in homes.items() if fused.buffers[home].kind == "temp"}
    for i, item in enumerate(fused.items):
        for name in (*item.reads(), *item.writes()):
            if name in homes:
                last[homes[name]] = i
                first.setdefault(homes[name], i)
    return {home: (i, last[home]) for home, i in first.items()}


def assign_offsets(lives: dict[str, tuple[int, int, int]]) -> tuple[dict[str, int], int]:
    """(first, last, bytes) per name -> (offset per name, total bytes)."""
    offsets: dict[str, int] = {}
    placed = np.zeros((4, len(lives)), np.int64)  # offset, end, first, last; sorted by offset
    total = 0
    by_size = sorted(lives.items(), key=lambda t: (-t[1][2], t[1][0], t[0]))
    for i, (name, (first, last, size)) in enumerate(by_size):
        starts, ends, firsts, lasts = placed[:, :i]
        alive = (lasts >= first) & (firsts <= last)
        at = _gap(starts.compress(alive), ends.compress(alive), size)
        offsets[name] = at
        k = starts.searchsorted(at)
        placed[:, k + 1 : i + 1] = placed[:, k:i].copy()
        placed[:, k] = at, at + size, first, last
        total = max(total, at + size)
    return offsets, total


def _gap(starts: Any, ends: Any, size: int) -> int:
    """Start of the smallest gap that fits between these blocks, or the end of the last.

    On NumPy arrays, because every block is compared with every other: 20,000 of them would take
    minutes in plain Python.
    """
    if not len(starts):
        return 0
    ends = np.maximum.accumulate(ends)
    room = starts  # before each block: the arrays are the caller's copies
    room[1:] -= ends[:-1]
    room[room < size] = _NO_ROOM
    i = int(room.argmin())
    if room[i] == _NO_ROOM:
        return int(ends[-1])
    return int(ends[i - 1]) if i else 0
