"""At the edge: `eager.profiler`, PyTorch's names over the recorder. a program -> events, averages.

Events are the parts that `with record_function(name)` surrounds, ops of eager, and calls of jitted
functions with each kernel inside. Times are of the host's clock; what a GPU does is queued by them.
`jitcap.profile` says more of compiled code: bandwidth, share of the roofline, source.
"""

from __future__ import annotations

import contextlib
import enum
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from eager.base.compat_warnings import ignore, refuse
from eager.base.dataclass import dataclass
from eager.base.nesting import nested
from eager.base.recorder import Held, Options, Span, Work, now, recorder
from eager.base.stub_modules import Absent
from eager.core.dispatch import tracing

OTHERS: Final = (
    "with_modules", "experimental_config", "execution_trace_observer", "acc_events", "use_cuda",
    "use_device", "custom_trace_id_callback",
)  # fmt: skip
HIDDEN: Final = ("profiler", "launch")  # kinds that are no events


class ProfilerActivity(enum.Enum):
    CPU = enum.auto()
    CUDA = enum.auto()
    XPU = enum.auto()
    MTIA = enum.auto()


class ProfilerAction(enum.Enum):
    """Actions of a profile in one step of the program."""

    NONE = 0
    WARMUP = 1  # recorded and dropped: second builds are made there
    RECORD = 2
    RECORD_AND_SAVE = 3  # the last step of a cycle


def kineto_available() -> bool:
    """True: profiles have schedules and traces."""
    return True


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerAction]:
    """A function of the step's number: after `skip_first` steps come cycles of `wait` steps without
    a profile, `warmup` that are dropped and `active` that are recorded; `repeat` cycles, 0: without
    end. Raises ValueError for a negative number, or active=0."""
    if min(wait, warmup, repeat, skip_first) < 0 or active < 1:
        raise ValueError("schedule: numbers of steps are not negative, and active is at least 1")
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        at = step - skip_first
        if at < 0 or (repeat and at >= repeat * cycle):
            return ProfilerAction.NONE
        at %= cycle
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        last = at == cycle - 1
        return ProfilerAction.RECORD_AND_SAVE if last else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """An `on_trace_ready` that writes each trace into a folder, under the name that TensorBoard's
    plugin looks for: `<worker>.<nanoseconds>.pt.trace.json`."""
    refuse("tensorboard_trace_handler", "traces are written as plain JSON", use_gzip=use_gzip)

    def handle(found: profile) -> None:
        import socket  # slow

        Path(dir_name).mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json"
        found.export_chrome_trace(str(Path(dir_name) / name))

    return handle


@dataclass(frozen=True)
class Event:
    """One run of something: microseconds from the profile's begin on, in all and by itself."""

    name: str
    start: float
    end: float
    thread: int | str
    self_cpu_time_total: float
    input_shapes: str = ""
    stack: tuple[str, ...] = ()
    flops: float = 0.0
    self_cpu_memory_usage: int = 0
    kind: str = ""
    count: int = 1

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time_total(self) -> float:
        return max(self.end - self.start, self.self_cpu_time_total)


@dataclass(frozen=True)
class Timing:
    """All the runs of what has one name, in microseconds."""

    key: str
    count: int
    cpu_time_total: float
    self_cpu_time_total: float = 0.0
    input_shapes: str = ""
    stack: tuple[str, ...] = ()
    flops: float = 0.0
    self_cpu_memory_usage: int = 0  # bytes of the results of ops of eager

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0


SORTS: Final = (
    "self_cpu_time_total", "cpu_time_total", "cpu_time", "count", "flops", "self_cpu_memory_usage",
)  # fmt: skip


class Timings(list[Timing]):
    """List of averages that `key_averages()` returns."""

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_name_column_width: int = 55,
        header: str | None = None,
        top_level_events_only: bool = False,
        **layout: Any,
    ) -> str:
        """A line for each, the one with the most `sort_by` first: "cpu_time_total" (in all),
        "self_cpu_time_total" (without what is inside), "cpu_time" (the average), "count",
        "flops" or "self_cpu_memory_usage". Raises ValueError for another sort."""
        del layout  # how wide other columns are
        refuse(
            "table", "all events are rows: sort_by='cpu_time_total' puts the outer ones first",
            top_level_events_only=top_level_events_only,
        )  # fmt: skip
        key = sort_by or "cpu_time_total"
        if key not in SORTS:
            raise ValueError(f"table: sort_by={sort_by!r}: there are {', '.join(SORTS)}")
        rows = sorted(self, key=lambda p: -getattr(p, key))
        rows = rows if row_limit < 0 else rows[:row_limit]
        names = [_cut(f"{p.key} {p.input_shapes}".strip(), max_name_column_width) for p in rows]
        width = max([4, *map(len, names)])
        lines = [header] if header else []
        more = [
            (f"{title:>{size}}", [f"{getattr(p, name):>{size},.0f}" for p in rows])
            for name, title, size in (
                ("self_cpu_memory_usage", "Bytes", 14),
                ("flops", "FLOPs", 16),
            )
            if any(getattr(p, name) for p in rows)
        ]
        head = f"{'Self us':>12}  {'Total us':>12}  {'Average us':>12}  {'Calls':>7}"
        head = "  ".join([head, *(title for title, _ in more)])
        lines.append(f"{'Name':<{width}}  {head}")
        if not self:
            lines.append("nothing ran that is an op, a jitted call or a record_function(name)")
        lines += [
            f"{name:<{width}}  {p.self_cpu_time_total:>12.1f}  {p.cpu_time_total:>12.1f}  "
            + "  ".join([f"{p.cpu_time:>12.1f}  {p.count:>7}", *(cells[i] for _, cells in more)])
            for i, (name, p) in enumerate(zip(names, rows, strict=True))
        ]
        return "\n".join(lines)

    def total_average(self) -> Timing:
        """The sum of all."""
        own = sum(p.self_cpu_time_total for p in self)
        return Timing("Total", sum(p.count for p in self), own, own)


def _cut(name: str, width: int) -> str:
    return name if len(name) <= width else name[: width - 3] + "..."


class record_function(contextlib.ContextDecorator):
    """A part of the program, by name: a `with` block, or a function. Inside a jitted function it is
    no event: kernels there may be of several parts."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.begun = 0

    def _recreate_cm(self) -> record_function:  # a function may call itself
        return type(self)(self.name)

    def __enter__(self) -> record_function:
        self.begun = now() if recorder.options and not tracing() else 0
        return self

    def __exit__(self, *_: object) -> None:
        if recorder.options and self.begun:
            recorder.add(Work(self.name, "range"), self.begun)


@dataclass(eq=False)
class _Recording:
    """A stretch that is recorded."""

    options: Options
    begun: int
    begin: int
    held_before: int
    spans: list[Span] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    end: int = 0


EventList = Timings  # PyTorch's name
emit_nvtx = emit_itt = Absent("profiler.emit_nvtx", "marks for profilers of GPUs are not written")


class profile:
    """Records what runs inside its `with` block, or between `start()` and `stop()`.

    With a `schedule` the program calls `step()` after each of its steps, and what is recorded is
    the last cycle; `on_trace_ready(self)` is called at the end of each. `record_shapes`,
    `with_flops`, `with_stack` (the lines that lead to each op) and `profile_memory` (the bytes of
    the results of eager's ops, and when these and those of jitted calls are made and go) add to the
    events. Raises NotImplementedError for options that would do nothing."""

    def __init__(
        self,
        enabled: bool = True,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        **options: Any,
    ) -> None:
        others = [each.name for each in activities or () if each is not ProfilerActivity.CPU]
        ignore("profile", activities=others or None)
        if unknown := sorted(set(options) - set(OTHERS)):
            raise TypeError(f"profile() got an unexpected keyword argument {unknown[0]!r}")
        refuse("profile", "jitcap.profile() has lines and functions", **options)
        self.enabled = enabled
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.with_flops = record_shapes, with_flops
        self.with_stack, self.profile_memory = with_stack, profile_memory
        self.step_num = 0
        self._now: _Recording | None = None
        self._last: _Recording | None = None

    @property
    def _action(self) -> ProfilerAction:
        if self.schedule is None:
            return ProfilerAction.RECORD
        return self.schedule(self.step_num)

    def start(self) -> None:
        """Begin. RuntimeError if it runs."""
        if self._now is not None:
            raise RuntimeError("the profile runs already")
        if self.enabled and self._action is not ProfilerAction.NONE:
            self._begin()

    def stop(self) -> None:
        """End; what is recorded so far is ready."""
        kept = self._action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        self._end(keep=kept)

    def step(self) -> None:
        """A step of the program is done: the schedule says what becomes of the next."""
        done = self._action
        self.step_num += 1
        if self.schedule is None or not self.enabled:
            return
        coming = self._action
        if done is ProfilerAction.RECORD_AND_SAVE:
            self._end(keep=True)
        elif done is ProfilerAction.WARMUP:
            self._end(keep=False)
        if self._now is None and coming is not ProfilerAction.NONE:
            self._begin()

    def _begin(self) -> None:
        options = Options(stack=self.with_stack, memory=self.profile_memory)
        begun = recorder.start(options)
        self._now = _Recording(options, begun, now(), len(recorder.held))

    def _end(self, *, keep: bool) -> None:
        found, self._now = self._now, None
        if found is None:
            return
        found.end = now()
        found.held = recorder.held[found.held_before :]
        found.spans = recorder.stop(found.options, found.begun)
        if keep:
            self._last = found
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def events(self) -> list[Event]:
        """All that ran in the last recording, in order; none where there was no recording."""
        found = self._last
        if found is None:
            return []
        by_thread: dict[int | str, list[Span]] = {}
        for s in found.spans:
            if s.start >= found.begin and s.end <= found.end:
                by_thread.setdefault(s.thread, []).append(s)
        made = []
        for thread, spans in by_thread.items():
            for entry in nested(spans, ranges=True)[0]:
                s = entry.span
                if s.part.kind in HIDDEN:
                    continue
                start, end = ((t - found.begin) / 1e3 for t in (s.start, s.end))
                made.append(self._event(s, start, end, thread, max(entry.own, 0) / 1e3))
        return sorted(made, key=lambda e: (e.start, -e.end))

    def _event(self, s: Span, start: float, end: float, thread: int | str, own: float) -> Event:
        part = s.part
        shapes = part.shapes if self.record_shapes else ""
        stack = (part.stack or tuple(part.lines)) if self.with_stack else ()
        flops = (part.products + part.operations) * s.runs if self.with_flops else 0.0
        nbytes = part.allocated if self.profile_memory else 0
        return Event(
            part.name, start, end, thread, own, shapes, stack, flops, nbytes, part.kind, s.runs
        )

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0
    ) -> Timings:
        """The events by name; also by shapes, or by the innermost lines. RuntimeError where these
        were not recorded."""
        if group_by_input_shape and not self.record_shapes:
            raise RuntimeError("key_averages: shapes are recorded by profile(record_shapes=True)")
        if group_by_stack_n and not self.with_stack:
            raise RuntimeError("key_averages: lines are recorded by profile(with_stack=True)")
        groups: dict[Any, list[Event]] = {}
        for e in self.events():
            shapes = e.input_shapes if group_by_input_shape else ""
            groups.setdefault((e.name, shapes, e.stack[:group_by_stack_n]), []).append(e)
        return Timings(
            Timing(
                name, sum(e.count for e in events), sum(e.cpu_time_total for e in events),
                sum(e.self_cpu_time_total for e in events), shapes, stack,
                sum(e.flops for e in events), sum(e.self_cpu_memory_usage for e in events),
            )
            for (name, shapes, stack), events in groups.items()
        )  # fmt: skip

    def _memory(self) -> Iterator[tuple[float, int, int]]:
        """Microseconds, bytes that come (or go: negative), and those that are there then, of what
        was made in the last recording."""
        found, total = self._last, 0
        held = () if found is None else found.held
        changes = [(h.start, h.nbytes) for h in held] + [(h.end, -h.nbytes) for h in held if h.end]
        for moment, nbytes in sorted(changes):
            total += nbytes
            assert found is not None
            yield (moment - found.begin) / 1e3, nbytes, total

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Write `[[microseconds, ...], [bytes, ...]]` as JSON: the memory of what the recording
        made. RuntimeError without `profile_memory`, ValueError for another kind of file or a
        device."""
        if not self.profile_memory:
            raise RuntimeError("export_memory_timeline: memory needs profile(profile_memory=True)")
        if not path.endswith(".json") or device not in (None, "cpu"):
            raise ValueError("export_memory_timeline: a .json file, of the CPU")
        rows = [*self._memory()]
        times, sizes = [row[0] for row in rows], [row[2] for row in rows]
        Path(path).write_text(json.dumps([times, sizes]))

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as a file that Perfetto and chrome://tracing open; memory as events of
        the name "[memory]"."""
        process, main = os.getpid(), threading.get_ident()
        rows: list[dict[str, Any]] = [
            {
                "name": e.name, "ph": "X", "cat": e.kind, "pid": process,
                "tid": 0 if e.thread == main else e.thread, "ts": e.start, "dur": e.end - e.start,
                "args": {"shapes": e.input_shapes, "stack": list(e.stack)},
            }
            for e in self.events()
        ]  # fmt: skip
        rows += [
            {
                "name": "[memory]", "ph": "i", "s": "t", "cat": "cpu_instant_event", "pid": process,
                "tid": 0, "ts": moment,
                "args": {"Bytes": nbytes, "Total Allocated": total, "Device Type": 0},
            }
            for moment, nbytes, total in self._memory()
        ]  # fmt: skip
        Path(path).write_text(json.dumps({"traceEvents": rows}))

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write "outer line;inner line;name microseconds" for each, which flame graphs are made of.
        RuntimeError without `with_stack`, ValueError for another metric."""
        if not self.with_stack:
            raise RuntimeError("export_stacks: lines are recorded by profile(with_stack=True)")
        if metric != "self_cpu_time_total":
            raise ValueError(f"export_stacks: metric={metric!r}: there is self_cpu_time_total")
        sums: dict[str, float] = {}
        for e in self.events():
            line = ";".join([*reversed(e.stack), e.name]).replace(" ", "_")
            sums[line] = sums.get(line, 0.0) + e.self_cpu_time_total
        rows: Sequence[str] = [f"{line} {int(us)}" for line, us in sums.items() if int(us)]
        Path(path).write_text("\n".join(rows) + "\n")
