"""Under the profilers: what ran, when, on which thread. running code -> spans of time.

Whoever runs something that is worth a row has a module in `SOURCES`, which puts clocks there when a
recording starts and takes them away when the last one ends: in between calls go the ways that they
always go. Recordings may nest and overlap in time; each takes what began and ended inside it.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from eager.base.dataclass import dataclass
from eager.base.process.locks import rlock

now: Final = time.perf_counter_ns  # CLOCK_MONOTONIC, which compiled code asks, too
# The package that has something to say -> its modules with `install(recorder)` and `remove()`.
SOURCES: Final = MappingProxyType(
    {
        "eager": ("eager.core.op_clocks",),
        "codegen": (
            "codegen.targets.cpp.runtime.clocked",
            "codegen.python_clocks",
        ),
        "jitcap": ("jitcap.profiling.sources",),
    }
)


class UserLine(NamedTuple):
    """A line of the program ("file:line"), and the path of the module whose call it is in.
    `forward`: in a derivative, the line of what it is the derivative of."""

    line: str
    module: str = ""
    forward: str = ""


class Temporary(NamedTuple):
    """A value in the arena of a compiled call: its bytes there, and the part that makes it."""

    name: str
    offset: int
    nbytes: int
    what: str
    place: str


@dataclass(frozen=True, eq=False, slots=True)
class Work:
    """One thing that runs again and again. `places` in the program, each with its share of the
    work; what one run moves in bytes, computes in matrix products, and in other operations on
    floats. `code`: the name of the function that does it, in what was compiled; `moved`: of a call
    of a body, the module of whose call it was made, and the one whose call this is."""

    name: str
    kind: str
    shapes: str = ""
    places: Mapping[UserLine, float] = field(default_factory=dict)
    nbytes: float = 0.0
    products: float = 0.0
    operations: float = 0.0
    allocated: int = 0  # bytes of new memory
    stack: tuple[str, ...] = ()  # the user's lines that led there, the innermost first
    code: str = ""
    temporaries: tuple[Temporary, ...] = ()  # that live while it runs
    moved: tuple[str, str] | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines, that with most of the work first."""
        work: dict[str, float] = {}
        for place, share in self.places.items():
            if place.line:
                work[place.line] = work.get(place.line, 0.0) + share
        return tuple(sorted(work, key=lambda line: -work[line]))


@dataclass(frozen=True, eq=False, slots=True)
class Options:
    """Options of a recording. `stack`: with each op of eager all of the user's lines that led to
    it; `memory`: how long the memory lives that is made; `cpu_time`: parts of compiled code count
    the processor's time of their thread, so that only their own times can be used."""

    stack: bool = False
    memory: bool = False
    cpu_time: bool = False


class Span(NamedTuple):
    """One run of a part, in nanoseconds of the monotonic clock. `own`: the time of it that is in no
    span inside it; `runs`: how many it stands for."""

    part: Work
    start: int
    end: int
    thread: int | str
    own: int = -1  # not known yet
    runs: int = 1


@dataclass(frozen=True, eq=False, slots=True)
class Events:
    """Runs of parts that compiled code noted itself: rows (part, start, end, own time), and per
    part (own time, runs) of those that found no room."""

    parts: Sequence[Work]
    rows: Any
    late: Any
    thread: int

    def spans(self) -> Iterator[Span]:
        for part, start, end, own in self.rows.tolist():
            runs = 1 if part else 0  # the first is what is in no other: a part of its launch
            yield Span(self.parts[part], start, end, self.thread, own, runs)
        if self.late is not None:
            end = int(self.rows[:, 2].max())
            for part, (own, runs) in enumerate(self.late.tolist()):
                if runs:
                    yield Span(self.parts[part], end, end, self.thread, own, runs)


class Held:
    """Memory that lives as long as its `owner`, from when it was made until that is gone (`end`; 0:
    it is there)."""

    __slots__ = ("_owner", "end", "nbytes", "place", "start", "what")

    def __init__(self, owner: Any, nbytes: int, what: str, place: str) -> None:
        self.what, self.place, self.nbytes = what, place, nbytes
        self.start, self.end = now(), 0
        self._owner = weakref.ref(owner, self._gone)

    def _gone(self, _: Any) -> None:
        self.end = now()

    @property
    def owner(self) -> Any:
        """The owner; None when it is gone."""
        return self._owner()


class Recorder:
    """The clocks of a process. `spans`: what ended, in that order; `modelled`: what simulated
    devices do, with the name of a stream as a thread, in nanoseconds of their model; `options` of
    those that record are here, since one that asks is enough for a clock to be there."""

    def __init__(self) -> None:
        self.spans: list[Span | Events] = []
        self.modelled: list[Span] = []
        self.held: list[Held] = []  # for those that ask for memory, in the order of `start`
        self.options: list[Options] = []  # of the recordings that run
        self._lock = rlock()

    def start(self, options: Options) -> int:
        """Begin to record; the place in `spans` where it begins."""
        with self._lock:
            if not self.options:
                self._clear()  # of another thread, after the last recording
            self.options.append(options)
            self._each("install")
            return len(self.spans)

    def stop(self, options: Options, begun: int) -> list[Span]:
        """End a recording: all that ended since it has `begun`."""
        with self._lock:
            self.options.remove(options)
            found = self.spans[begun:]
            if self.options:
                self._each("install")
            else:
                self._each("remove")
                self._clear()
        return [s for x in found for s in ((x,) if isinstance(x, Span) else x.spans())]

    def _clear(self) -> None:
        self.spans, self.modelled, self.held = [], [], []

    def hold(self, owner: Any, nbytes: int, what: str, place: str = "") -> None:
        """Watch memory that was just made."""
        self.held.append(Held(owner, nbytes, what, place))

    def asked(self, option: str) -> bool:
        """True if a recording that runs has an option."""
        return any(getattr(options, option) for options in self.options)

    def _each(self, what: str) -> None:
        for package, modules in SOURCES.items():
            for module in modules if package in sys.modules else ():
                getattr(import_module(module), what)(self)

    def add(self, part: Work, start: int, end: int | None = None) -> None:
        """A span of this thread that ends now, or at `end`."""
        ended = now() if end is None else end
        self.spans.append(Span(part, start, ended, threading.get_ident()))

    def own(self, start: int) -> None:
        """From `start` until now the profiler has worked for itself."""
        self.add(PROFILER, start)


recorder: Final = Recorder()
PROFILER: Final = Work("the profiler's second build", "profiler")


def clock(work_of: Callable[..., Work], fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` with a clock around each call; `work_of` its arguments."""

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = now()
        try:
            return fn(*args, **kwargs)
        finally:
            end = now()
            recorder.add(work_of(*args, **kwargs), start, end)

    return timed
