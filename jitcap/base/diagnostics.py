"""Beside the pipeline: what it did, as data. stages, times, refusals -> Trail, Stats, a warning.

Nothing here decides anything. `Trail` is the log of one compile (texts are rendered only when asked
for), `Stats` what `step.stats` shows, `announce` says a thing once per place.
"""

from __future__ import annotations

import sys
import textwrap
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from operator import is_not
from pathlib import Path
from typing import Any, Final

from codegen.runtime import progress
from codegen.runtime.artifact import Runs
from codegen.runtime.beside import Task
from codegen.targets.cpp.runtime.build import CompileError
from eager.base.compat_warnings import tell
from eager.base.config import config
from eager.base.dataclass import dataclass
from jitcap.base.abridge import Abridged


class JitcapWarning(UserWarning):
    """Something is slower than it could be: a fallback, a split, a limit. Said once per place."""


@dataclass(frozen=True, slots=True)
class Recompile:
    """Reason why a call did not fit what was compiled, guard by guard of the nearest version."""

    function: str
    reason: str

    def __str__(self) -> str:
        return f"{self.function}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened to a function at its `call`-th call: `kind` is "compile" (with the
    seconds of its stages), "recompile", "split" or "plain"."""

    kind: str
    call: int
    text: str
    seconds: float = 0.0
    stages: Mapping[str, float] = field(default_factory=dict)


SHOWN: Final = 8  # recompiles in the print of Stats, the last ones
SCREEN: Final = 38, 100  # lines and columns of a `repr`, at most
COMPILER: Final = "compiler"  # the stage of the C++ compiler


def on_screen(text: str, more: str) -> str:
    """The first lines of a text; if that is not all, `more` says how to see the rest."""
    height, width = SCREEN
    rows = [
        row for line in text.splitlines() for row in textwrap.wrap(line, width, **_WRAPPED) or [""]
    ]
    if len(rows) > height:
        rows = [*rows[: height - 1], f"... {len(rows) - height + 1} lines more: {more}"]
    return "\n".join(rows)


_WRAPPED: Final[dict[str, Any]] = {"subsequent_indent": "    ", "break_on_hyphens": False}


@dataclass(slots=True)
class Stats:
    """Statistics of one jitted function. `kernels` and `callbacks` (NumPy's kernels, called by
    compiled code) count those of all compiled versions.

    `fallbacks` counts the calls that ran as plain Python, as a whole or in part, because something
    failed or a limit was reached, and the graphs that run op by op; `refusals` says why, once each,
    splits included. `discards` counts the runs that were given up because a check failed: then the
    function ran plainly. What lies between the parts of a split program is no fallback. `programs`:
    what those on a device did; `recordings` and `replays` are of all. `history`: compiles,
    recompiles, splits and what ran plainly, in order."""

    calls: int = 0
    compiles: int = 0
    graphs: int = 0
    splits: int = 0
    fallbacks: int = 0
    discards: int = 0
    kernels: int = 0
    callbacks: int = 0
    compile_seconds: float = 0.0
    recompiles: list[Recompile] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    programs: list[Runs] = field(default_factory=list)
    tasks: list[Task[Any]] = field(default_factory=list, repr=False)
    history: list[Event] = field(default_factory=list, repr=False)

    @property
    def recordings(self) -> int:
        return sum(runs.recordings for runs in self.programs)

    @property
    def replays(self) -> int:
        return sum(runs.replays for runs in self.programs)

    @property
    def pending(self) -> int:
        return sum(not (task.is_over or task.is_lost) for task in tuple(self.tasks))

    def note(
        self,
        kind: str,
        text: str,
        seconds: float = 0.0,
        stages: Mapping[str, float] | None = None,
    ) -> None:
        """Add to the history what happens at this call."""
        self.history.append(Event(kind, self.calls, text, seconds, dict(stages or {})))

    def refuse(self, kind: str, text: str) -> None:
        """Add a reason why something is split, or runs plainly."""
        self.refusals.append(text)
        self.note(kind, text)

    def __str__(self) -> str:
        counts = (
            f"{self.calls} calls, {self.compiles} compiles, {self.graphs} graphs, "
            f"{self.splits} splits, {self.fallbacks} fallbacks, {self.discards} discards, "
            f"{self.kernels} kernels, {self.callbacks} callbacks, "
            f"{self.compile_seconds:.3f} s compiling"
        )
        counts += f", {self.pending} pending" if self.pending else ""
        if self.programs:
            sizes, queued = (sum(getattr(r, n) for r in self.programs) for n in ("sizes", "queued"))
            counts += (
                f"; on a device {queued} runs launch by launch, {self.recordings} recordings, "
                f"{self.replays} replays, for {sizes} sizes"
            )
        earlier = len(self.recompiles) - SHOWN
        lines = [f"  {earlier} recompiles, then"] if earlier > 0 else []
        lines += [f"  {r}" for r in (*self.recompiles[-SHOWN:], *self.refusals)]
        return "\n".join([counts, *lines])

    def __repr__(self) -> str:
        """The print, as much of it as a screen holds."""
        return on_screen(str(self), "print(stats)")


@dataclass(slots=True)
class Trail:
    """The log of one compile: each stage's text (made on demand) and seconds, in order. `made`:
    what a text is of, where more is asked of it; `rewrites`: the passes once more, one by one."""

    name: str
    texts: dict[str, Callable[[], str]] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)
    rewrites: dict[str, Callable[[], list[Any]]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    inside: dict[str, str] = field(default_factory=dict)  # stages that are parts of others
    kernels: list[Any] = field(default_factory=list)
    callbacks: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stats: Stats | None = None  # of the function, for what is compiled later
    folder: str = ""  # of its dump
    told: Abridged = field(default_factory=Abridged)  # what was printed so far
    dumped: Abridged = field(default_factory=Abridged)  # and written
    write_page: Callable[[], None] | None = None  # of its dump, again after a later compile

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of the block under `name`."""
        start = time.perf_counter()
        progress.at(name)
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def keep(self, name: str, text: Callable[[], str], level: int = 3, made: Any = None) -> str:
        """The text of stage `name`, and what it is of: for explain, the dump, and `JITCAP_DEBUG`
        from `level` on. The name that it has got."""
        key, count = name, 1
        while key in self.texts:
            count += 1
            key = f"{name} {count}"
        self.texts[key] = text
        if made is not None:
            self.made[key] = made
        if config.debug >= level:
            say(f"── {self.name}: {key}\n{self.told.tell(key, text())}")
        if config.dump:
            told = text()
            self.texts[key] = lambda: told  # the page has it, too
            _dump(self, key, told)
        return key

    @property
    def stages(self) -> dict[str, str]:
        return {name: text() for name, text in tuple(self.texts.items())}  # a backward adds some

    def line(self) -> str:
        """One line: milliseconds per stage, and of those inside others the compiler's."""
        shown = {n: s for n, s in self.seconds.items() if n not in self.inside or n == COMPILER}
        return ", ".join(
            f"{f'({n}' if n in self.inside else n} {s * 1e3:.1f} ms{')' * (n in self.inside)}"
            for n, s in shown.items()
        )

    def spend(self, part: str, seconds: float, whole: str) -> None:
        """Count the time of a part of a stage."""
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds
        self.inside[part] = whole


def merged(name: str, trails: list[Trail]) -> Trail:
    """The logs of the parts of one function as one log: stage names get the part's number."""
    whole = Trail(name)
    for i, trail in enumerate(trails, 1):
        whole.texts |= {f"part {i} {stage}": text for stage, text in tuple(trail.texts.items())}
        whole.kernels += trail.kernels
        whole.callbacks += trail.callbacks
        whole.notes += trail.notes
        whole.inside |= trail.inside
        for stage, seconds in trail.seconds.items():
            whole.seconds[stage] = whole.seconds.get(stage, 0.0) + seconds
    return whole


_dumps: Final[Counter[str]] = Counter()  # compiles by the name of what was compiled


def _dump(trail: Trail, stage: str, text: str) -> None:
    """One file per stage: C++, Python, or text for people; a folder for each compile of a name
    (step, step_2). A full disk is not the program's problem."""
    program = text.startswith(("import ", "from "))
    suffix = "cpp" if "#include" in text else "py" if program else "txt"
    if not trail.folder:
        safe = "".join(c if c.isalnum() else "_" for c in trail.name)
        _dumps[safe] += 1
        trail.folder = f"{safe}_{_dumps[safe]}" if _dumps[safe] > 1 else safe
    if suffix != "cpp":  # which is what was compiled
        text = trail.dumped.tell(stage, text, whole=suffix == "py") + "\n"
    number = len(trail.texts)
    write_dump(trail, f"{number:02d}_{stage.replace(' ', '_')}.{suffix}", text)


def write_dump(trail: Trail, name: str, text: str) -> None:
    """Write a file of a dump; a full disk is announced."""
    path = Path(config.dump) / trail.folder / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        announce(("dump", config.dump), f"JITCAP_DUMP: cannot write {path}: {error}")


def say(text: str) -> None:
    """A line of `JITCAP_DEBUG`."""
    print(text, file=sys.stderr)  # noqa: T201


_announced: set[Any] = set()


_waiting: ContextVar[tuple[Any, list[tuple[Any, str]]] | None] = ContextVar(
    "what a call has to announce at its end", default=None
)


@contextmanager
def on_behalf() -> Iterator[None]:
    """Context of a call of the program: while that catches warnings, or redirects them, none of
    ours is announced; it is said at the end, to whoever called, unless an error is on its way."""
    if _waiting.get() is not None:
        yield
        return
    texts: list[tuple[Any, str]] = []
    token = _waiting.set((_audience(), texts))
    try:
        yield
    finally:
        _waiting.reset(token)
    for place, text in texts:
        announce(place, text)


@contextmanager
def put_off() -> Iterator[list[tuple[Any, str]]]:
    """The announcements of the block, none of which is made: in a thread beside the program there
    is no line of the user's to attribute them to."""
    texts: list[tuple[Any, str]] = []
    token = _waiting.set(((None,) * 4, texts))
    try:
        yield texts
    finally:
        _waiting.reset(token)


def _audience() -> tuple[Any, ...]:
    """State of the process that decides who hears a warning."""
    shown = getattr(warnings, "_showwarnmsg_impl", None)
    return warnings.filters, warnings.showwarning, shown, sys.stderr


def announce(place: Any, text: str) -> None:
    """Warn once per `place` (a hashable), attributed to the user's own line."""
    if place in _announced:
        return
    waiting = _waiting.get()
    if waiting is not None and any(map(is_not, waiting[0], _audience())):
        waiting[1].append((place, text))
        return
    _announced.add(place)
    tell(text, JitcapWarning)


def forget_announcements() -> None:
    """Everything may be said again (after `jitcap.reset()`)."""
    _announced.clear()


def note_fault(name: str, fault: Exception) -> None:
    """Report that symbolic sizes are given up: code that the C++ compiler refuses is a fault of
    ours, which is said once. Raises it under `JITCAP_STRICT`."""
    if isinstance(fault, CompileError):
        if config.strict:
            raise fault
        announce(("fault", name, "sizes"), f"{name} is compiled for each size by itself: {fault}")
    elif config.debug >= 2:
        say(f"{name} is compiled for these sizes only: {fault}")
