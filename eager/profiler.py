"""At the edge: `eager.profiler`, how long named parts of a program take. parts -> counts and times.

A part is what `with record_function(name)` surrounds; operations are no parts, and compiled code
has none. What else PyTorch's profiler may be asked to record is ignored with a warning.
"""

from __future__ import annotations

import contextlib
import enum
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from eager.base.compat_warnings import ignore
from eager.base.dataclass import dataclass

_running: list[profile] = []  # the innermost last


class ProfilerActivity(enum.Enum):
    CPU = enum.auto()
    CUDA = enum.auto()
    XPU = enum.auto()
    MTIA = enum.auto()


@dataclass(frozen=True)
class Timing:
    """All the times that a part was run, in microseconds."""

    key: str
    count: int
    cpu_time_total: float

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count


class Timings(list[Timing]):
    """List of parts that `key_averages()` returns."""

    def table(self, sort_by: str | None = None, row_limit: int = 100, **layout: Any) -> str:
        """A line for each part, the one with the most `sort_by` first: the total time, "cpu_time"
        (the average) or "count". How wide columns are is not asked for."""
        del layout
        key = (sort_by or "cpu_time_total").removeprefix("self_")
        if key not in ("cpu_time_total", "cpu_time", "count"):
            ignore("table", sort_by=sort_by)
            key = "cpu_time_total"
        width = max([4, *(len(p.key) for p in self)])
        lines = [f"{'Name':<{width}}  {'Total us':>12}  {'Average us':>12}  {'Calls':>7}"]
        if not self:
            lines.append("no part has a name: `with record_function(name)` gives one")
        for p in sorted(self, key=lambda p: -getattr(p, key))[:row_limit]:
            lines.append(
                f"{p.key:<{width}}  {p.cpu_time_total:>12.1f}  {p.cpu_time:>12.1f}  {p.count:>7}"
            )
        return "\n".join(lines)


class record_function(contextlib.ContextDecorator):
    """A part of the program, by name: a `with` block, or a function."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.begun = 0.0

    def __enter__(self) -> record_function:
        if _running:
            self.begun = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        if _running and self.begun:
            _running[-1].spans.append((self.name, self.begun, time.perf_counter()))


class profile:
    """Records the parts that run inside its `with` block, or between `start()` and `stop()`."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] = (),
        on_trace_ready: Callable[[profile], Any] | None = None,
        **options: Any,
    ) -> None:
        others = [each.name for each in activities if each is not ProfilerActivity.CPU]
        ignore("profile", activities=others or None, **options)
        self.on_trace_ready = on_trace_ready
        self.spans: list[tuple[str, float, float]] = []
        self.step_num = 0

    def start(self) -> None:
        _running.append(self)

    def stop(self) -> None:
        _running.remove(self)
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """A step of the training is done."""
        self.step_num += 1

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def key_averages(self, **grouping: Any) -> Timings:
        """The parts by name. They are grouped by nothing else."""
        ignore("key_averages", **grouping)
        found: dict[str, list[float]] = {}
        for name, begun, ended in self.spans:
            found.setdefault(name, []).append((ended - begun) * 1e6)
        return Timings(Timing(name, len(times), sum(times)) for name, times in found.items())

    def export_chrome_trace(self, path: str) -> None:
        """The parts as a file that trace viewers read."""
        events = [
            {"name": name, "ph": "X", "pid": 0, "tid": 0, "ts": begun * 1e6,
             "dur": (ended - begun) * 1e6}
            for name, begun, ended in self.spans
        ]  # fmt: skip
        Path(path).write_text(json.dumps({"traceEvents": events}))


def schedule(**counts: int) -> None:
    """Ignore a schedule of steps, with a warning: all steps are recorded."""
    ignore("profiler.schedule", **counts)
