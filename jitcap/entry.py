"""Around the pipeline: the compiled versions of a function. A call -> its result.

`Entries` holds the versions. A call tries them in order of last use; each is one generated function
that checks its guards, gathers the arrays, runs the artifact and replays the effects. When none
fits, `miss` captures and compiles (`jitcap/pipeline.py`) under a lock: other threads wait, then try
again; with `mode="background"` it only captures, and the call runs plainly. What cannot be captured
runs in parts or plainly, with a record of why. No such thing runs plainly under `fullgraph=True`
(or `stance("fail_on_split")`): every way that leads there goes through `_refuse`, which raises the
record instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from codegen import CheckFailed
from codegen.runtime import progress
from eager.base.config import config
from eager.base.process.locks import rlock
from jitcap.background import Job, Jobs
from jitcap.base.breaks import Break, Place, Record
from jitcap.base.call_policy import function_of, name_of
from jitcap.base.diagnostics import Recompile, Stats, Trail, announce, note_fault, on_behalf, say
from jitcap.base.garbage import collection_paused
from jitcap.base.module_path import readable
from jitcap.base.stack import beneath, passed_over
from jitcap.capture.builtins.clocks import CLOCK
from jitcap.capture.capture import beginning
from jitcap.capture.kinds.modules import builtins_are_replaced
from jitcap.capture.result import Captured, Version, misfit, mismatches, why_not
from jitcap.graph_breaks.split import FAILURES, Splitter, splittable
from jitcap.pipeline import (
    blamed_call,
    compile_call,
    compile_captured,
    everything,
    front,
    region_of,
)
from jitcap.store import versions
from jitcap.versions.dynamism import NEAR, Varying
from jitcap.versions.plain import Plain
from jitcap.versions.version import MISS, STANCE, Call, Compiled, Options, Room

_REPLACED: Final = Record("builtins", "a builtin is replaced while the function is called")
_REPLACED_TEXT: Final = str(_REPLACED)
# Refusals of the call, not of a place.
WHOLE: Final = frozenset(
    {"async", "version", "aliasing", "builtins", "finalizer", "frames", "device"}
)
FILLS: Final = 3  # calls that fill a cache and run plainly, before the program is split around it
REFUSALS: Final = 3  # refused captures, one after the other, from which on they get rare


def _MEANWHILE(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """In the place of a version that is being compiled."""
    return MISS


@passed_over
class Entries:
    """The compiled versions of one function, the most recently used first."""

    def __init__(self, fn: Callable[..., Any], options: Options) -> None:
        self.fn = fn
        self.options = options
        self.stats = Stats()
        self.versions: tuple[Call, ...] = ()  # replaced, never changed: readers need no lock
        self.compiled: dict[Call, Compiled] = {}
        self.varying = Varying.of(options)
        self.unsafe: set[str] = {CLOCK} if options.verify else set()  # and lines: not captured
        self.failures: dict[Call, int] = {}
        self.fills, self.room, self.patience = 0, Room(), Room()
        self.limit: Record | None = None  # why calls run plainly where there is none
        self.refused: list[Record] = []  # why it ran plainly, since something was compiled
        self.splits: list[Record] = []
        self.plain: list[str] = []  # why calls, or parts of them, run as plain Python
        self.splitter: Splitter | None = None  # runs in parts what is not captured as a whole
        self.jobs = Jobs(options, self.stats.tasks)
        self._lock = rlock()

    @property
    def name(self) -> str:
        return name_of(self.fn)

    def prefer(self, version: Call) -> None:
        """Move to the front what was just used."""
        others = tuple(v for v in self.versions if v is not version)
        self.versions = (version, *others)

    def miss(self, args: tuple[Any, ...], kwargs: dict[str, Any], stance: str) -> Any:
        """No version fits: compile one and run it, or run plainly what cannot be compiled."""
        if builtins_are_replaced():
            return self._on_replaced_builtins(args, kwargs, stance)
        with on_behalf():
            seen, version, raised = self.versions, None, None
            if self.splitter is None:
                if not self._admits(stance):
                    return beneath(self.fn, args, kwargs)
                with self._lock:
                    again = self.versions is not seen  # another thread compiled meanwhile
                    if not again:
                        version, raised = self._new_version(args, kwargs, stance)
                if again:
                    return self.retry(args, kwargs, stance)
            if version is None and self.splitter is not None:
                return self._in_parts(args, kwargs, stance)
            if version is _MEANWHILE:
                return _run_plainly(self.fn, args, kwargs)
            if version is None:
                return self._plainly(args, kwargs, raised, stance)
            result = self._run(version, args, kwargs, stance)
            if result is MISS:
                return self._unstable(args, kwargs, stance)
            self.refused, self.patience = [], Room()
            return result

    def _admits(self, stance: str) -> bool:
        """True if the call is to be compiled: after many refusals few are, which is noted."""
        if self._is_strict(stance) or self.patience.admits(len(self.refused), REFUSALS):
            return True
        self._note_plain(_given_up(self.refused[0]), stance=stance)
        return False

    def _on_replaced_builtins(self, args: Any, kwargs: Any, stance: str) -> Any:
        """Counted without an announcement, which would run the program's builtins."""
        if self.options.fullgraph or stance == "fail_on_split":
            raise Break.of(_REPLACED)
        self.stats.fallbacks += 1
        if _REPLACED_TEXT not in self.stats.refusals:
            self.stats.refusals.append(_REPLACED_TEXT)
        return self.fn(*args, **kwargs)

    def _is_strict(self, stance: str) -> bool:
        """True if running plainly, or in parts, is an error."""
        return self.options.fullgraph or stance == "fail_on_split"

    def _run(
        self, version: Call, args: tuple[Any, ...], kwargs: dict[str, Any], stance: str
    ) -> Any:
        """The version's answer; the function's own where a check of the version failed."""
        try:
            return version(args, kwargs)
        except CheckFailed as error:
            failure = error.without_frames()
        return self.discard(version, failure, args, kwargs, stance)

    def discard(
        self,
        version: Call,
        failure: CheckFailed,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        stance: str,
    ) -> Any:
        """A run was given up: the function runs plainly, which is said if it does not raise. What
        is compiled from now on splits at that line, and a version that fails again and again is
        dropped."""
        with self._lock:
            record = self._discarded(failure)
            failed = self.failures[version] = self.failures.get(version, 0) + 1
            if self._is_strict(stance):
                raise Break.of(record) from failure
            self.unsafe.add(failure.place)
            if failed >= FAILURES:
                self._keep(tuple(v for v in self.versions if v is not version))
        with on_behalf():
            result = beneath(self.fn, args, kwargs)
            self._say_discarded(record)
            return result

    def _discarded(self, failure: CheckFailed) -> Record:
        self.stats.discards += 1
        file, _, line = failure.place.rpartition(":")
        at = Place(file, int(line or 0), function=self.name)
        record = Record("failed check", str(failure), at)
        if config.debug >= 2:
            say(f"a call of @jit {self.name} runs as plain Python: {record}")
        return record

    def _say_discarded(self, record: Record) -> None:
        ran = f"@jit {self.name} ran a call as plain Python: {record}"
        announce((self.fn, record.kind, record.place), ran)

    def _in_parts(self, args: tuple[Any, ...], kwargs: dict[str, Any], stance: str) -> Any:
        """Run what is not captured as a whole: compiled segments, and what lies between them."""
        plain, bound = function_of(self.fn) or (None, ())
        assert self.splitter is not None and plain is not None  # noqa: PT018 - one fact
        if self._is_strict(stance) and self.splits:
            raise everything(self.splits[0], plain, (*bound, *args), kwargs)
        return self.splitter.call(plain, (*bound, *args), kwargs)

    def _split(self) -> None:
        """From now on it runs in parts."""
        if self.jobs.are_made:
            what = f"@jit {self.name} is split: its parts compile while calls wait for them"
            announce((self.fn, "parts"), f"{what}, not in the background")
        self.splitter = Splitter(
            self._part, self._report_split, self._discarded, self._say_discarded,
            self._note_plain, MISS, self.options, self.unsafe,
        )  # fmt: skip

    def _part(self, captured: Captured, plain: Plain) -> Call:
        """Compile one segment."""
        trail, start = Trail(captured.name), time.perf_counter()
        with progress.shown(captured.name):
            made = compile_captured(captured, self.options, trail, plain)
        if len(captured.graph):
            _count(self, made, time.perf_counter() - start)
        made.trail.stats = self.stats
        self.compiled[made.call] = made
        return made.call

    def _report_split(self, record: Record) -> None:
        """Count and announce a place where the program is split."""
        self.stats.splits += 1
        if config.debug >= 2:
            say(f"a split of @jit {self.name}: {record}")
        self.splits.append(record)
        self.stats.refuse("split", str(record))
        announce((self.fn, record.kind, record.place), f"@jit {self.name} is split: {record}")

    def retry(self, args: tuple[Any, ...], kwargs: dict[str, Any], stance: str) -> Any:
        """Try all versions; compile when none fits."""
        for version in self.versions:
            result = self._run(version, args, kwargs, stance)
            if result is not MISS:
                return result
        return self.miss(args, kwargs, stance)

    def _plainly(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], raised: Record | None, stance: str
    ) -> Any:
        """Run the function itself. Where capture met an exception, Python's own is raised here; if
        none is, capture was wrong, says so, and the next call goes in parts around that place."""
        result = beneath(self.fn, args, kwargs)
        if raised is not None:
            what = f"capture met {raised.what}, which Python does not raise"
            wrong = raised.kind == "exception"  # and no check that fails earlier
            record = Record("internal" if wrong else raised.kind, what, raised.place)
            if config.strict and wrong:
                with blamed_call(self.fn, args, kwargs, self.options):
                    raise RuntimeError(str(record))
            if self._is_strict(stance) or not _has_parts(self.fn):
                self._refuse(record, stance)
            else:
                self._report_split(record)
                self._split()
        return result

    def _unstable(self, args: tuple[Any, ...], kwargs: dict[str, Any], stance: str) -> Any:
        """A version that does not fit the very call it was made for: something moves by itself."""
        found = self.compiled.get(self.versions[0])
        why = why_not(found.captured, args, kwargs) if found else None
        what = f"the guards do not hold for the call they were made from: {why}"
        result = beneath(self.fn, args, kwargs)  # if it raises, that was why
        self._refuse(Record("internal", what, beginning(self.fn)), stance)
        return result

    # ---- compiling

    def _new_version(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], stance: str
    ) -> tuple[Call | None, Record | None]:
        """A new version for this call, from disk or compiled, in the place of the least recently
        used where there are many; or None, perhaps with the exception that the program raises.
        `_MEANWHILE` while it is compiled beside the program."""
        job = self.jobs.fitting(args, kwargs)
        if job is not None:
            return _version_of(self, job, args, kwargs, stance)
        if not self._has_room(stance):
            return None, None
        _record_recompile(self, args, kwargs, stance)
        start = time.perf_counter()
        config.require_valid()
        keys = versions.keys_of(self.fn, args, kwargs, self.options, self.varying.names)
        keys = None if self.unsafe or not front().parts else keys
        # From level 2 on kernels are told of, which those of earlier processes cannot be.
        made = keys and config.debug < 2 and _recalled(self, keys, args, kwargs)
        if made:
            return _add(self, made, None, time.perf_counter() - start), None
        known, unsafe = self.varying.known(), frozenset(self.unsafe)
        try:
            if self.jobs.are_made:
                self.jobs.begin(self.fn, args, kwargs, self.varying, unsafe, keys)
                return _MEANWHILE, None
            keep = keys and partial(versions.prepare, self.fn, frozenset(self.varying.names))
            made = compile_call(self.fn, args, kwargs, self.options, known, unsafe, keep)
        except Exception as fault:  # noqa: BLE001 - raised again there, if it is no refusal
            return None, self._not_compiled(fault, args, kwargs, stance)
        made.varying = frozenset(self.varying.names)
        return _add(self, made, keys, time.perf_counter() - start), None

    def _has_room(self, stance: str) -> bool:
        """True if there is to be one more version at all; if not, that is noted."""
        never_plain = self._is_strict(stance) or stance == "fail_on_recompile"
        held = len(self.versions) + len(self.jobs.all)
        if never_plain or self.room.admits(held, config.entries):
            return True
        self.limit = self.limit or _limit(self.stats, beginning(self.fn))
        self._note_plain(self.limit)
        return False

    def _not_compiled(
        self, fault: Exception, args: tuple[Any, ...], kwargs: dict[str, Any], stance: str
    ) -> Record | None:
        """Note why a call runs in parts from now on, or plainly. The program's exception, if it is
        that."""
        if not isinstance(fault, Break):
            if config.strict or config.check:
                raise fault
            what = f"the compiler failed: {type(fault).__name__}: {fault}"
            self._refuse(Record("internal", what, beginning(self.fn)), stance)
        elif fault.kind == "exception":
            raised = fault.record()
            return replace(raised, kind="data dependent") if fault.unsure else raised
        elif fault.kind == "cache" and self.fills < FILLS and not self._is_strict(stance):
            self.fills += 1
        elif self._is_strict(stance):
            raise everything(fault.record(), self.fn, args, kwargs) from None
        elif fault.kind not in WHOLE and _has_parts(self.fn, fault.deep):
            self._split()
        else:
            self._refuse(fault.record(), stance)
        return None

    def _keep(self, versions: tuple[Call, ...]) -> None:
        """Drop the others."""
        for version in self.versions:
            if version not in versions:
                self.compiled.pop(version, None)
                self.failures.pop(version, None)
        self.versions = versions

    def _refuse(self, record: Record, stance: str) -> None:
        """A call that cannot be compiled runs plainly, unless that is an error."""
        self._note_plain(record, stance=stance)
        self.refused.append(record)

    def _note_plain(self, *records: Record, stance: str = "default") -> None:
        """Count a call that runs plainly, as a whole or in part, for these reasons: each is kept
        and announced once. Raises them where nothing may run plainly."""
        if self._is_strict(stance):
            raise Break.of(*records)
        self.stats.fallbacks += 1
        for text in map(str, records):
            if text not in self.stats.refusals:
                self.stats.refuse("plain", text)
                self.plain.append(text)
            announce((self.fn, text), f"@jit {self.name} runs as plain Python: {text}")


def _run_plainly(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the function itself, whose version is being compiled: all that it calls is plain, too."""
    token = STANCE.set("eager")
    try:
        return beneath(fn, args, kwargs)
    finally:
        STANCE.reset(token)


def _has_parts(fn: Any, deep: Any = None) -> bool:
    """True if what is not captured as a whole can be split; `deep` calls itself too deep."""
    plain = (function_of(fn) or (None,))[0] if front().parts else None
    return plain is not None and plain.__code__ is not deep and splittable(plain)


def _version_of(
    entries: Entries, job: Job, args: tuple[Any, ...], kwargs: dict[str, Any], stance: str
) -> tuple[Call | None, Record | None]:
    """The version that a job made, for a call that it fits."""
    jobs = entries.jobs
    if not jobs.are_made:  # of several ranks all change at one call
        job.task.wait()
    if not job.task.is_over:
        return _MEANWHILE, None
    jobs.all.remove(job)
    try:
        made, seconds = job.finished(entries.options)
    except Exception as fault:  # noqa: BLE001 - raised again there, if it is no refusal
        if not job.takes_sizes:
            return None, entries._not_compiled(fault, args, kwargs, stance)
        note_fault(entries.name, fault)
        jobs.failed.add(job.plain.varying)
        return entries._new_version(args, kwargs, stance)
    made.varying = job.varying
    return _add(entries, made, job.keys, seconds, " in the background"), None


def _recalled(
    entries: Entries, keys: versions.Keys, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Compiled | None:
    """The version of an earlier process that fits the call."""
    make = partial(region_of, entries.options)
    with collection_paused():
        made = versions.recall(keys, entries.fn, args, kwargs, entries.options, make)
    if made is not None:
        entries.varying.names |= made.varying
    return made


def _add(
    entries: Entries, made: Compiled, keys: versions.Keys | None, seconds: float, how: str = ""
) -> Call:
    """The version, which calls try from now on. `keys`: under which it is to be kept on disk."""
    _count(entries, made, seconds, how)
    made.trail.stats = entries.stats
    entries.compiled[made.call] = made
    entries._keep((made.call, *entries.versions)[: config.entries])
    if keys:
        versions.remember(keys, entries.fn, made)
    return made.call


def _record_recompile(
    entries: Entries, args: tuple[Any, ...], kwargs: dict[str, Any], stance: str
) -> None:
    """Say which guard of the nearest version failed (the fewest guards did); what varies from the
    last one, and from the nearest of the others, is generalised."""
    compiled: list[Version] = [job.captured for job in entries.jobs.all[:NEAR]]
    compiled += [entries.compiled[version].captured for version in entries.versions[:NEAR]]
    if not compiled:
        return
    nearest = min(compiled, key=lambda v: misfit(v, args, kwargs))
    reason = why_not(nearest, args, kwargs) or "another thread changed what is guarded"
    record = Recompile(entries.name, reason)
    entries.stats.recompiles.append(record)
    said = mismatches(nearest, args, kwargs) or [reason]
    entries.stats.note("recompile", "\n".join(map(readable, said)))
    if stance == "fail_on_recompile":
        raise RuntimeError(f'stance("fail_on_recompile"): {record}')
    if config.debug >= 2:
        say(f"recompile {record}")
    entries.varying.learn(compiled, args, kwargs)


def _count(entries: Entries, made: Compiled, seconds: float, how: str = "") -> None:
    """Count a version, and the time that it took; `how` it was made."""
    stats, executable = entries.stats, made.executable
    stats.compiles += 1
    stats.graphs += 1
    stats.kernels += len(executable.kernels)
    stats.callbacks += len(executable.callbacks)
    stats.compile_seconds += seconds
    stats.note("compile", made.about(), seconds, made.trail.seconds)
    stats.programs.extend(executable.runs)
    if executable.refused:
        stats.fallbacks += 1
        stats.refusals.append(f"a graph runs op by op: {executable.refused}")
    if config.debug >= 1:
        counts = f"{stats.graphs} graphs, {stats.splits} splits so far"
        times = f"{made.trail.line()}, total {seconds * 1e3:.1f} ms"
        say(f"jit {beginning(entries.fn)}: {made.about()}{how}; {counts}; {times}")


def capture_again(entries: Entries, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Make a version for this call that has its graph, before one from disk that fits, too. Where
    capture refuses it, or fails, there is none."""
    with entries._lock, suppress(Exception):
        known, unsafe = entries.varying.known(), frozenset(entries.unsafe)
        made = compile_call(entries.fn, args, kwargs, entries.options, known, unsafe)
        made.varying, made.trail.stats = frozenset(entries.varying.names), entries.stats
        entries.compiled[made.call] = made
        entries._keep((made.call, *entries.versions)[: config.entries])


def _given_up(first: Record) -> Record:
    """Reason why little is compiled any more."""
    what = f"{REFUSALS} calls could not be compiled; the first: {first.kind}: {first.what}"
    what = f"{what}. It is tried again, more and more rarely"
    return Record("limit", what, first.place)


def _limit(stats: Stats, place: Place) -> Record:
    """Record that there are as many versions as there may be, and why the last ones were made."""
    reasons = "; ".join(r.reason for r in stats.recompiles[-3:])
    what = f"{config.entries} versions are kept (config.entries), and calls that fit none"
    rarely = "the least recently used makes room, more and more rarely"
    return Record("limit", f"{what}: {rarely}. Last misses: {reasons}", place)
