"""The front of profiles: a `with` block -> `Profile`, which prints where the time went.

`p.table()` is by kernel, line or function, `p.chrome_trace(path)` for Perfetto, `p.html(path)` a
page with the timeline, the roofline and the source.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from eager.base.process.locks import cached_property
from eager.base.recorder import Options, Span, now, recorder
from jitcap.profiling import page, table, trace
from jitcap.profiling.memory import Memory, memory_of, named_now
from jitcap.profiling.peaks import Peaks, peaks
from jitcap.profiling.rows import Row, Timeline, rows_of, timeline

SHOWN: Final = 20  # rows of a `repr`, which fits a screen


class Profile:
    """Record of what ran between `start()` and `stop()`, or in a `with` block, on all threads.

    `table()`, `rows()`, `chrome_trace()` and `html()` raise RuntimeError before the end."""

    def __init__(self, *, memory: bool = False) -> None:
        self._options = Options(memory=memory)
        self._memory: Memory | None = None
        self._begun = self._begin = self._end = self._thread = 0
        self._running = False
        self._spans: list[Span] | None = None
        self._modelled: list[Span] = []

    def start(self) -> None:
        """Begin, or begin again: what was recorded is forgotten. RuntimeError if it runs."""
        if self._running:
            raise RuntimeError("the profile runs already")
        self._running, self._spans = True, None
        self.__dict__.pop("timeline", None)
        self._begun = recorder.start(self._options)
        self._modelled_before, self._held_before = len(recorder.modelled), len(recorder.held)
        self._thread, self._begin = threading.get_ident(), now()

    def stop(self) -> None:
        """End. RuntimeError if it does not run."""
        if not self._running:
            raise RuntimeError("the profile does not run")
        self._end, self._running = now(), False
        self._modelled = recorder.modelled[self._modelled_before :]
        held = recorder.held[self._held_before :]
        self._spans = recorder.stop(self._options, self._begun)
        if self._options.memory:
            self._memory = memory_of(self.timeline, held, named_now())

    def __enter__(self) -> Profile:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @cached_property
    def timeline(self) -> Timeline:
        """All spans with their own times."""
        if self._spans is None:
            raise RuntimeError("the profile has not ended: leave its `with` block, or call stop()")
        return timeline(self._spans, self._begin, self._end, self._thread)

    @property
    def memory(self) -> Memory:
        """Memory over time, with what held it at the peak. RuntimeError unless it was asked for:
        `profile(memory=True)`."""
        if self._memory is None:
            raise RuntimeError("memory is recorded by jitcap.profile(memory=True), until its end")
        return self._memory

    @property
    def modelled(self) -> Timeline | None:
        """Timeline of simulated devices, on the clock of their cost model: nothing of it was
        measured. None where they had nothing to do."""
        if not self._modelled:
            return None
        first, last = min(s.start for s in self._modelled), max(s.end for s in self._modelled)
        rows = tuple((s, s.part, s.end - s.start) for s in self._modelled)
        return Timeline(rows, first, last, 0, 0)

    @property
    def peaks(self) -> Peaks | None:
        """Peaks of the machine; measured at the first question, which takes some seconds."""
        return peaks()

    @property
    def wall_us(self) -> float:
        """Microseconds of the block, without what the profiler took for its builds."""
        return self.timeline.wall / 1e3

    def rows(self, group: str = "kernel") -> Sequence[Row]:
        """The rows, which sum to `wall_us` where one thread runs: by "kernel", "line" or
        "module" (function). Raises ValueError for another group."""
        return rows_of(self.timeline, group)

    def modelled_rows(self) -> Sequence[Row]:
        """The rows of simulated devices: microseconds of their model."""
        return [] if self.modelled is None else rows_of(self.modelled)

    def table(self, sort: str = "time", group: str = "kernel", limit: int | None = None) -> str:
        """The rows as text: sorted by "time", "calls", or "loss", which is time beyond that of the
        roofline; all, or `limit` of them. Simulated devices have a table of their own below it, by
        their model. Raises ValueError for another sort or group."""
        whole = table.text(self.timeline, self.rows(group), self.peaks, sort, limit)
        modelled = self.modelled
        return whole if modelled is None else f"{whole}\n\n{table.modelled(modelled, limit)}"

    def chrome_trace(self, path: str | Path) -> None:
        """Write the spans as trace events, which Perfetto and chrome://tracing open."""
        trace.write(self.timeline, self.modelled, self._memory, Path(path))

    def html(self, path: str | Path) -> None:
        """Write a page of its own: timeline, roofline, the source with its time; with `memory=True`
        bytes over time, and what holds them."""
        text = page.page(self.timeline, self.peaks, self._memory)
        Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")

    def __repr__(self) -> str:
        if self._spans is None:
            return "<a profile that runs>" if self._running else "<a profile that was not started>"
        return self.table(limit=SHOWN)

    def _repr_html_(self) -> str:
        return page.fragment(self.timeline, self.peaks)


def profile(*, memory: bool = False) -> Profile:
    """A profile, to be started by `with`: each kernel, library call, callback and eager op that
    runs, guards, launches, compiles and the Python around them, with time and place.

    A compiled program that runs is built a second time, with clocks, at its first call inside; that
    time is no row. Results are those without a profile, bit for bit. `memory`: record how long the
    memory lives that is made inside, and who holds it at the peak (`p.memory`)."""
    return Profile(memory=memory)
