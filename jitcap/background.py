"""Around the pipeline: versions that are compiled beside the program (`mode="background"`). a call
that no version fits -> a Job -> Compiled, for the first later call that its guards fit.

    capture     at the call, as always: refusals and errors come out there
    make        in a thread, one job after the other (`codegen/runtime/beside.py`)
    finish      at a later call: its guards are rendered, and it takes its place among the versions

Until then calls run plainly. What the program changes meanwhile makes a guard fail at that call, as
it would fail for a version that was there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from codegen.runtime.beside import Task
from eager.base.dataclass import dataclass
from eager.base.dtype import times_set
from jitcap.base import later
from jitcap.base.diagnostics import Trail, announce
from jitcap.base.modes import Modes
from jitcap.capture.result import Captured, misfit
from jitcap.capture.sizes import is_size
from jitcap.pipeline import Made, capture_call, finish, make, prepare
from jitcap.store.versions import Keys
from jitcap.versions.dynamism import Varying
from jitcap.versions.plain import Whole
from jitcap.versions.version import Compiled, Options


@dataclass(slots=True, eq=False)
class Job:
    """A captured call whose graphs are being compiled; `seconds` went into its capture."""

    captured: Captured
    trail: Trail
    plain: Whole
    made: later.Later[tuple[Made, float]]
    keys: Keys | None
    varying: frozenset[str]  # what was known to vary
    seconds: float
    dtype_set: int  # how often the default dtype was, by which passes go
    check: Callable[[tuple[Any, ...], dict[str, Any]], bool] | None = None

    @property
    def task(self) -> Task[Any]:
        return self.made.task

    def fits(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """True if its guards hold for a call. In the end those count that compiling asked for."""
        if self.task.is_over:
            return misfit(self.captured, args, kwargs) == 0
        self.check = self.check or self.captured.fits()
        return self.check(args, kwargs)

    @property
    def is_lost(self) -> bool:
        """True if there will be no result that counts."""
        return self.task.is_lost or self.dtype_set != times_set()

    @property
    def takes_sizes(self) -> bool:
        """True if it has symbols for sizes: where that does not compile, other sets of them may."""
        graph = self.captured.graph
        symbolic = graph.has_symbols or graph.has_data_sizes
        return symbolic and any(map(is_size, self.plain.varying))

    def finished(self, options: Options) -> tuple[Compiled, float]:
        """The version, and the seconds that it took. Raises what compiling it raised."""
        made, seconds = self.made.take()
        version = finish(self.captured, made, options, self.trail, self.plain)
        return version, seconds + self.seconds


class Jobs:
    """The versions of one function that are being compiled, the last first; `tasks` are all that
    is done for it beside the program. `failed`: sets of sizes that did not compile as symbols."""

    def __init__(self, options: Options, tasks: list[Any]) -> None:
        self.options = options
        self.tasks = tasks
        self.all: list[Job] = []
        self.failed: set[frozenset[str]] = set()

    @property
    def are_made(self) -> bool:
        """True if versions are compiled beside the program. Among several ranks they are not, which
        is said once."""
        asked = self.options.mode == later.BACKGROUND
        alone = asked and later.is_alone()
        if asked and not alone:
            what = "several ranks change to compiled code at one call: calls wait for it"
            announce(later.BACKGROUND, f"mode={self.options.mode!r} has no effect: {what}")
        return alone

    def begin(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        varying: Varying,
        unsafe: frozenset[str],
        keys: Keys | None,
    ) -> None:
        """Capture this call, and have the rest done. Raises what `capture_call` raises."""
        start = time.perf_counter()

        def rest(captured: Captured, trail: Trail, plain: Whole) -> None:
            prepare(captured, self.options)
            work = partial(_make, captured, self.options, trail, Modes.now())
            made = later.Later(work, self.tasks)
            seconds = time.perf_counter() - start
            names = frozenset(varying.names)
            job = Job(captured, trail, plain, made, keys, names, seconds, times_set())
            self.all.insert(0, job)

        known = varying.known()
        capture_call(fn, args, kwargs, self.options, known, unsafe, rest, self.failed)

    def fitting(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Job | None:
        """The job whose guards hold for this call."""
        for job in tuple(self.all):
            if job.is_lost:
                self.all.remove(job)
                job.made.leave()
            elif job.fits(args, kwargs):
                return job
        return None

    def drop(self) -> None:
        """Stop all that is done for this function."""
        for task in tuple(self.tasks):
            task.drop()


def _make(captured: Captured, options: Options, trail: Trail, modes: Modes) -> tuple[Made, float]:
    """The graphs of a captured call compiled, under the modes of the call; the seconds it took."""
    start, before = time.perf_counter(), Modes.now()
    modes.put()
    try:
        return make(captured, options, trail), time.perf_counter() - start
    finally:
        before.put()
