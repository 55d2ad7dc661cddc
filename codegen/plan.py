"""After the last change of order: where everything lies. Fused -> Plan (arena offsets of the
temporaries).

Live ranges over the order of execution, then greedy best fit by decreasing size: each temporary
goes to the lowest offset that is free during its life. Temporaries whose lives do not overlap share
memory; offsets are multiples of 64 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from codegen.ir import Fused, Plan
from codegen.sizes import round_up

ALIGN: Final = 64


def plan(fused: Fused, scratch: Mapping[str, tuple[int, int]]) -> Plan:
    """`scratch`: what items need besides while they run, by name: (position, bytes)."""
    lives = live_ranges(fused)
    room = {n: round_up(max(fused.buffers[n].nbytes, 1), ALIGN) for n in lives}
    blocks = {n: (a, b, room[n]) for n, (a, b) in lives.items()}
    own = {n: (i, i, round_up(size, ALIGN)) for n, (i, size) in scratch.items()}
    offsets, size = place(blocks | own)
    return Plan(offsets, size)


def live_ranges(fused: Fused) -> dict[str, tuple[int, int]]:
    """First and last item that touches each temporary."""
    lives: dict[str, tuple[int, int]] = {}
    for i, item in enumerate(fused.items):
        for name in (*item.reads(), *item.writes()):
            b = fused.buffers.get(name)
            if b is not None and b.kind == "temp" and not b.alias:
                first = lives.get(name, (i, i))[0]
                lives[name] = (first, i)
    return lives


def place(lives: dict[str, tuple[int, int, int]]) -> tuple[dict[str, int], int]:
    """(first, last, bytes) per name -> (offset per name, total bytes)."""
    offsets: dict[str, int] = {}
    placed = np.zeros((4, len(lives)), np.int64)  # offset, end, first, last; sorted by offset
    total = 0
    by_size = sorted(lives.items(), key=lambda t: (-t[1][2], t[1][0], t[0]))
    for i, (name, (first, last, size)) in enumerate(by_size):
        starts, ends, firsts, lasts = placed[:, :i]
        alive = (lasts >= first) & (firsts <= last)
        at = _gap(starts[alive], ends[alive], size)
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
    free = np.concatenate([[0], ends[:-1]])
    room = starts - free
    fits = np.flatnonzero(room >= size)
    return int(free[fits[room[fits].argmin()]] if len(fits) else ends[-1])
