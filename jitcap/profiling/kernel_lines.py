"""Around a compiled graph from `JITCAP_DEBUG=2` on: a line for each kernel of its first runs.

    k0_exp_mul_sum       12.30 us    45.6 GB/s     7.8 GFLOP/s  exp mul sum [4,096]  train.py:23

In the order in which they ran; what runs in many rounds of a loop has one line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from jitcap.base.diagnostics import say
from jitcap.profiling.report import Profile
from jitcap.profiling.rows import Row, Timeline
from jitcap.profiling.table import what

RUNS: Final = 2  # the first is cold: memory is new, and libraries are loaded
KINDS: Final = ("kernel", "product", "step", "loop", "callback", "wait", "eager op")
Run = Callable[..., Any]


def told(run: Run, name: str) -> Run:
    """`run`, which says what its kernels did in each of its first runs."""
    done = 0

    def telling(*args: Any) -> Any:
        nonlocal done
        if done == RUNS:
            return run(*args)
        done += 1
        profile = Profile()
        with profile:
            results = run(*args)
        say("\n".join([f"── {name}: kernels of run {done}", *lines(profile.timeline)]))
        return results

    return telling


def lines(line: Timeline) -> list[str]:
    """A line for each part of compiled code that ran on the thread."""
    rows: dict[int, Row] = {}
    codes: dict[int, str] = {}
    for span, part, own in line.spans:
        if part.kind in KINDS and span.thread == line.thread:
            codes[id(part)] = part.code or part.name
            row = rows.setdefault(id(part), Row.of(part))
            row.take(part, own / 1e3, span.runs)
    width = max(map(len, codes.values()), default=0)
    return [f"   {codes[key]:<{width}} {_figures(row)}  {what(row)}" for key, row in rows.items()]


def _figures(row: Row) -> str:
    gbs = f"{row.gbs:8.1f} GB/s" if row.nbytes else " " * 13
    gflops = f"{row.gflops:8.1f} GFLOP/s" if row.products or row.operations else " " * 16
    runs = f" x {row.calls}" if row.calls > 1 else ""
    return f"{row.us:12,.2f} us {gbs} {gflops}{runs}"
