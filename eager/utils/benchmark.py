"""At the edge: `eager.utils.benchmark`, how long a statement takes. a statement -> Measurement.

    Timer("x @ y", globals={"x": x, "y": y}).blocked_autorange()

A statement is text that is compiled once, or a function. Threads are set to `num_threads` while it
runs; what runs on a device is waited for.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
import timeit as _timeit
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from eager import cuda
from eager.base.config import config
from eager.base.process import threads

__all__ = ["Compare", "Language", "Measurement", "TaskSpec", "Timer", "select_unit", "timer"]
_UNITS: Final = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


class Language:
    """Languages of statements: Python alone."""

    PYTHON: Final = 0


def timer() -> float:
    """Seconds of a clock, after everything that runs on GPUs is done."""
    if cuda.is_available() and cuda.is_initialized():
        cuda.synchronize()
    return time.perf_counter()


def select_unit(t: float) -> tuple[str, float]:
    """Unit for a time in seconds, and the seconds that it has: ("ms", 1e-3)."""
    return next(((unit, size) for unit, size in _UNITS if t >= size), _UNITS[-1])


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """Names of what is measured: rows and columns of a comparison."""

    stmt: str
    setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt if "\n" not in self.stmt else f"stmt:\n{self.stmt}"


@dataclasses.dataclass
class Measurement:
    """Times of a task: `raw_times` are seconds of `number_per_run` runs each."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    @property
    def times(self) -> list[float]:
        """Seconds of one run, of each block."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """Range that holds the middle half of the times."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def title(self) -> str:
        return self.task_spec.title

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    def __repr__(self) -> str:
        unit, size = select_unit(self.median)
        runs = f"{len(self.raw_times)} measurement{'s' if len(self.raw_times) > 1 else ''}"
        lines = [f"{self.title}", f"  Median: {self.median / size:.2f} {unit}"]
        if len(self.raw_times) > 1:
            lines.append(f"  IQR:    {self.iqr / size:.2f} {unit}")
        threads_used = f"{self.task_spec.num_threads} thread"
        lines.append(f"  {runs}, {self.number_per_run} runs per measurement, {threads_used}")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Those of one task as one; they must have as many runs per block. AssertionError else."""
        found: dict[TaskSpec, list[Measurement]] = {}
        for each in measurements:
            found.setdefault(each.task_spec, []).append(each)
        merged = []
        for task, group in found.items():
            number = group[0].number_per_run
            assert all(each.number_per_run == number for each in group)
            merged.append(Measurement(number, [t for each in group for t in each.raw_times], task))
        return merged


class Timer:
    """Measures a statement of Python: text, with `setup` and `globals`, or a function.

    Raises ValueError for a statement of another language."""

    def __init__(
        self,
        stmt: str | Callable[[], Any] = "pass",
        setup: str | Callable[[], Any] = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = Language.PYTHON,
    ) -> None:
        if global_setup or language not in (Language.PYTHON, "python", "py"):
            raise ValueError("Timer measures statements of Python, which have no global_setup")
        self._timer = _timeit.Timer(stmt, setup, timer, globals)
        self._clock = timer
        text = [each if isinstance(each, str) else repr(each) for each in (stmt, setup)]
        self._task = TaskSpec(text[0], text[1], label, sub_label, description, env, num_threads)

    def _time(self, number: int) -> float:
        before = threads.get_num_threads()
        with config(threads=before):  # which is unset again behind it, if it was
            threads.set_num_threads(self._task.num_threads)
            try:
                return max(self._timer.timeit(number), 1e-9)
            finally:
                threads.set_num_threads(before)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """One block of `number` runs, after a hundredth as many."""
        self._time(max(number // 100, 2))
        return Measurement(number, [self._time(number)], self._task)

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Blocks that are long beside the clock, until they took `min_run_time` together."""
        number = self._number(min_run_time)
        return self._blocks(number, callback, lambda times: sum(times) < min_run_time)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Blocks until the middle half of their times is within `threshold` of the median."""
        number = self._number(0.05)

        def go_on(times: list[float]) -> bool:
            found = Measurement(number, times, self._task)
            settled = len(times) >= 3 and found.iqr < threshold * found.median
            done = sum(times) >= min_run_time and settled
            return not done and sum(times) < max_run_time

        return self._blocks(number, callback, go_on)

    def _blocks(
        self,
        number: int,
        callback: Callable[[int, float], Any] | None,
        go_on: Callable[[list[float]], bool],
    ) -> Measurement:
        times: list[float] = []
        while not times or go_on(times):
            times.append(self._time(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task)

    def _number(self, min_run_time: float) -> int:
        """Runs of a block, that reading the clock is less than a thousandth of."""
        overhead = statistics.median(_timeit.Timer(timer=self._clock).timeit(0) for _ in range(5))
        number = 1
        while True:
            took = self._time(number)
            if took >= min_run_time / 1000 and overhead / took <= 1e-4:
                return number
            if took > min_run_time or number >= 10**7:
                return number
            number *= 10

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> Any:
        """Raises NotImplementedError: instructions are not counted."""
        raise NotImplementedError("Timer.collect_callgrind: use timeit or blocked_autorange")


class Compare:
    """A table of measurements: a row for each sub-label and number of threads, a column for each
    description."""

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results = list(results)
        self._trim = self._colour = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Print times with three figures."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Mark the fastest of each row (with `rowwise`) or column when printed."""
        self._colour = True
        self._rowwise = rowwise

    def print(self) -> None:
        print(str(self))  # noqa: T201

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = dict.fromkeys(each.task_spec.label for each in merged)
        return "\n".join(
            self._table(label, [m for m in merged if m.task_spec.label == label])
            for label in labels
        )

    def _table(self, label: str | None, found: list[Measurement]) -> str:
        unit, size = select_unit(min(each.median for each in found))
        columns = list(dict.fromkeys(each.task_spec.description or "" for each in found))
        rows = list(dict.fromkeys(map(_row, found)))
        best: dict[Any, float] = {}
        axis = _row if getattr(self, "_rowwise", False) else _column
        for each in found:
            best[axis(each)] = min(best.get(axis(each), each.median), each.median)
        cells: dict[tuple[Any, str], str] = {}
        for each in found:
            value = each.median / size
            text = f"{value:.3g}" if self._trim else f"{value:.1f}"
            marked = self._colour and each.median == best[axis(each)]
            cells[_row(each), _column(each)] = f"{text}*" if marked else text
        names = [f"{name} ({n} thread{'s' if n > 1 else ''})" for n, name in rows]
        left = max(map(len, [*names, ""]))
        widths = [max(len(c), *(len(cells.get((row, c), "")) for row in rows)) for c in columns]
        lines = [f"[ {label or ''} ]".center(left + sum(w + 3 for w in widths), "-")]
        head = "  ".join(c.rjust(w) for c, w in zip(columns, widths, strict=True))
        lines.append(f"{'':{left}}  {head}")
        for row, name in zip(rows, names, strict=True):
            values = (
                cells.get((row, c), "").rjust(w) for c, w in zip(columns, widths, strict=True)
            )
            lines.append(f"{name:{left}}  {'  '.join(values)}")
        unit_name = {
            "s": "seconds",
            "ms": "milliseconds",
            "us": "microseconds",
            "ns": "nanoseconds",
        }
        return "\n".join([*lines, f"Times are in {unit_name[unit]} ({unit})."])


def _row(each: Measurement) -> tuple[int, str]:
    return each.task_spec.num_threads, each.task_spec.sub_label or each.task_spec.stmt


def _column(each: Measurement) -> str:
    return each.task_spec.description or ""
