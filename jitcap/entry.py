"""The end of the pipeline: a captured program and its compiled graph -> the guarded call.

`Entries` holds the compiled versions of one function. A call tries them in order of last use; each
is one generated function that checks its guards, gathers the arrays, runs the artifact and replays
the effects. When none fits, `miss` captures and compiles under a lock (other threads wait, then try
again); what cannot be captured runs in parts or plainly, with a record of why. Nothing runs plainly
under `fullgraph=True` (or `stance("fail_on_split")`): every way that leads there goes through
`_refuse`, which raises the record instead.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Final

from codegen import CheckFailed
from eager.base.config import config
from eager.base.dataclass import dataclass
from eager.base.locks import rlock
from jitcap.autodiff.compiled_function import Region
from jitcap.autodiff.joint import Joint
from jitcap.base.breaks import Break, Place, Record
from jitcap.base.call_policy import name_of
from jitcap.base.diagnostics import Recompile, Stats, Trail, announce, note_fault, on_behalf, say
from jitcap.base.origin import APART
from jitcap.base.stack import beneath, passed_over
from jitcap.by_dispatch.capture import capture, everything
from jitcap.capture import bytecode
from jitcap.capture.builtins.clocks import CLOCK
from jitcap.capture.capture import beginning
from jitcap.capture.dynamism import Varying
from jitcap.capture.kinds.modules import builtins_are_replaced
from jitcap.capture.result import Captured, link, misfit, require_fit, why_not
from jitcap.capture.sizes import DATA, is_size
from jitcap.capture.version import MISS, Call, Compiled, Options, Room
from jitcap.compile.anticipate import anticipated
from jitcap.compile.pipeline import Executable, begin_graph, compile_graph, op_by_op
from jitcap.graph.graph import Graph
from jitcap.graph.show import module
from jitcap.graph_breaks.split import FAILURES, Splitter, splittable
from jitcap.store import versions
from jitcap.verify import Plain, Verified, search_nans
from jitcap.verify.bisect import readable as readable

_REPLACED: Final = Record("builtins", "a builtin is replaced while the function is called")
_REPLACED_TEXT: Final = str(_REPLACED)
# Refusals of the call, not of a place.
WHOLE: Final = frozenset(
    {"async", "version", "aliasing", "builtins", "finalizer", "frames", "device"}
)
FILLS: Final = 3  # calls that fill a cache and run plainly, before the program is split around it
NEAR: Final = 4  # versions among which the nearest is looked for: each of their guards is tested
REFUSALS: Final = 3  # refused captures, one after the other, from which on they get rare
Keep = Callable[[Captured, bool], versions.Files]  # of a captured version (with its graph?)


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
            return self._miss(args, kwargs, stance)

    def _miss(self, args: tuple[Any, ...], kwargs: dict[str, Any], stance: str) -> Any:
        seen = self.versions
        if self.splitter is not None:
            return self._in_parts(args, kwargs, stance)
        if not (self._is_strict(stance) or self.patience.admits(len(self.refused), REFUSALS)):
            self._note_plain(_given_up(self.refused[0]), stance=stance)
            return beneath(self.fn, args, kwargs)
        with self._lock:
            again = self.versions is not seen  # another thread compiled meanwhile
            if not again:
                version, raised = self._new_version(args, kwargs, stance)
        if again:
            return self.retry(args, kwargs, stance)
        if version is None and self.splitter is not None:
            return self._in_parts(args, kwargs, stance)
        if version is None:
            return self._plainly(args, kwargs, raised, stance)
        result = self._run(version, args, kwargs, stance)
        if result is MISS:
            return self._unstable(args, kwargs, stance)
        self.refused, self.patience = [], Room()
        return result

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
            failure = error
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

    def _has_parts(self, deep: Any = None) -> bool:
        """True if what is not captured as a whole can be split; `deep` calls itself too deep."""
        fn = (function_of(self.fn) or (None,))[0] if bytecode.is_known() else None
        return fn is not None and fn.__code__ is not deep and splittable(fn)

    def _in_parts(self, args: tuple[Any, ...], kwargs: dict[str, Any], stance: str) -> Any:
        """Run what is not captured as a whole: compiled segments, and what lies between them."""
        plain, bound = function_of(self.fn) or (None, ())
        assert self.splitter is not None and plain is not None  # noqa: PT018 - one fact
        if self._is_strict(stance) and self.splits:
            raise everything(self.splits[0], plain, (*bound, *args), kwargs)
        return self.splitter.call(plain, (*bound, *args), kwargs)

    def _split(self) -> None:
        """From now on it runs in parts."""
        self.splitter = Splitter(
            self._part, self._report_split, self._discarded, self._say_discarded,
            self._note_plain, MISS, self.options, self.unsafe,
        )  # fmt: skip

    def _part(self, captured: Captured, plain: Plain) -> Call:
        """Compile one segment."""
        trail, start = Trail(captured.name), time.perf_counter()
        _name_inputs(captured)
        made = assemble(captured, self.options, trail, plain)
        if len(captured.graph):
            self._count(made, time.perf_counter() - start)
        made.trail.stats = self.stats
        self.compiled[made.call] = made
        return made.call

    def _report_split(self, record: Record) -> None:
        """Count and announce a place where the program is split."""
        self.stats.splits += 1
        if config.debug >= 2:
            say(f"a split of @jit {self.name}: {record}")
        self.splits.append(record)
        self.stats.refusals.append(str(record))
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
                raise RuntimeError(str(record))
            if self._is_strict(stance) or not self._has_parts():
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
        """Call `_try_compile`, and note the guard that failed. Where there are as many versions as
        are kept the least recently used makes room, if there is to be one more at all."""
        never_plain = self._is_strict(stance) or stance == "fail_on_recompile"
        if not never_plain and not self.room.admits(len(self.versions), config.entries):
            self.limit = self.limit or _limit(self.stats, beginning(self.fn))
            self._note_plain(self.limit)
            return None, None
        _record_recompile(self, args, kwargs, stance)
        made = self._try_compile(args, kwargs, stance)
        if made[0] is not None:
            self._keep(self.versions[: config.entries])
        return made

    def _keep(self, versions: tuple[Call, ...]) -> None:
        """Drop the others."""
        for version in self.versions:
            if version not in versions:
                self.compiled.pop(version, None)
                self.failures.pop(version, None)
        self.versions = versions

    def _try_compile(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], stance: str
    ) -> tuple[Call | None, Record | None]:
        """A new version for this call, or None when it has to run plainly: because the program
        raised the exception that comes with it, or for a reason that was announced."""
        start = time.perf_counter()
        config.require_valid()
        keys = versions.keys_of(self.fn, args, kwargs, self.options, self.varying.names)
        keys = None if self.unsafe or not bytecode.is_known() else keys
        if keys is not None:
            with collection_paused():
                recalled = versions.recall(keys, self.fn, args, kwargs, self.options, self._region)
            if recalled is not None:
                self.varying.names |= recalled.varying
                return self._add(recalled, start), None
        try:
            learnt = self.varying.known(), frozenset(self.unsafe)
            keep = keys and partial(versions.prepare, self.fn, frozenset(self.varying.names))
            made = compile_call(self.fn, args, kwargs, self.options, *learnt, keep)
        except Break as refusal:
            if refusal.kind == "exception":
                raised = refusal.record()
                return None, replace(raised, kind="data dependent") if refusal.unsure else raised
            if refusal.kind == "cache" and self.fills < FILLS and not self._is_strict(stance):
                self.fills += 1
                return None, None
            if self._is_strict(stance):
                raise everything(refusal.record(), self.fn, args, kwargs) from None
            if refusal.kind not in WHOLE and self._has_parts(refusal.deep):
                self._split()
                return None, None
            self._refuse(refusal.record(), stance)
            return None, None
        except Exception as fault:
            if config.strict or config.check:
                raise
            what = f"the compiler failed: {type(fault).__name__}: {fault}"
            self._refuse(Record("internal", what, beginning(self.fn)), stance)
            return None, None
        made.varying = frozenset(self.varying.names)
        version = self._add(made, start)
        if keys is not None:
            versions.remember(keys, self.fn, made)
        return version, None

    def _add(self, made: Compiled, start: float) -> Call:
        """A new version, which is tried first from now on."""
        self._count(made, time.perf_counter() - start)
        made.trail.stats = self.stats
        self.compiled[made.call] = made
        self.versions = (made.call, *self.versions)
        return made.call

    def _region(self, joint: Joint, writes: tuple[tuple[int, int], ...], trail: Trail) -> Region:
        return Region(joint, writes, _compiler(self.options, trail))

    def _count(self, made: Compiled, seconds: float) -> None:
        _add_to(self.stats, made, seconds)
        if config.debug >= 1:
            counts = f"{self.stats.graphs} graphs, {self.stats.splits} splits so far"
            times = f"{made.trail.line()}, total {seconds * 1e3:.1f} ms"
            say(f"jit {beginning(self.fn)}: {made.about()}; {counts}; {times}")

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
                self.stats.refusals.append(text)
                self.plain.append(text)
            announce((self.fn, text), f"@jit {self.name} runs as plain Python: {text}")


def _record_recompile(
    entries: Entries, args: tuple[Any, ...], kwargs: dict[str, Any], stance: str
) -> None:
    """Say which guard of the nearest version failed (the fewest guards did); what varies from the
    last one is generalised."""
    if not entries.versions:
        return
    compiled = [entries.compiled[version].captured for version in entries.versions[:NEAR]]
    captured, nearest = compiled[0], min(compiled, key=lambda v: misfit(v, args, kwargs))
    reason = why_not(nearest, args, kwargs) or "another thread changed what is guarded"
    record = Recompile(entries.name, reason)
    entries.stats.recompiles.append(record)
    if stance == "fail_on_recompile":
        raise RuntimeError(f'stance("fail_on_recompile"): {record}')
    if config.debug >= 2:
        say(f"recompile {record}")
    entries.varying.learn(captured, args, kwargs)


def function_of(fn: Any) -> tuple[FunctionType, tuple[Any, ...]] | None:
    """The Python function behind `fn` and what is bound to it; None for other callables."""
    if type(fn) is FunctionType:
        return fn, ()
    if type(fn) is MethodType and type(fn.__func__) is FunctionType:
        return fn.__func__, (fn.__self__,)
    return None


def compile_call(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    varying: frozenset[str] = frozenset(),
    unsafe: frozenset[str] = frozenset(),
    keep: Keep | None = None,
) -> Compiled:
    """The whole road for one call: capture, (joint, partition), compile, assemble. Runs nothing.

    Sizes among `varying` are symbols where that compiles, else what they are now, and a size that
    data decide splits. `keep` as in `assemble`. Raises Break when the program cannot be captured.
    """
    static = frozenset(name for name in varying if not is_size(name))
    first: Exception | None = None
    together = frozenset(name for name in varying if not name.startswith(APART))
    for names in dict.fromkeys((varying, varying - {DATA}, together)):
        if names != static:
            try:
                return _compile_call(fn, args, kwargs, options, names, unsafe, keep)
            except Exception as refusal:  # noqa: BLE001 - raised again below, if sizes are not why
                first = first or refusal
                note_fault(name_of(fn), refusal)
    try:
        return _compile_call(fn, args, kwargs, options, static, unsafe, keep)
    except Break as refusal:
        if isinstance(first, Break) and first.kind == refusal.kind == "data dependent":
            raise first from refusal  # what is asked of a size, not that there is one
        raise


def _compile_call(
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    varying: frozenset[str],
    unsafe: frozenset[str],
    keep: Keep | None,
) -> Compiled:
    trail = Trail(name_of(fn))
    with collection_paused():
        with trail.stage("capture"), anticipated(options.backend):
            captured = capture(fn, args, kwargs, dynamic=varying, unsafe=unsafe)
            _name_inputs(captured)
        require_fit(captured, varying, args, kwargs)
        return assemble(captured, options, trail, Whole(fn, varying), keep)


@contextmanager
def collection_paused() -> Iterator[None]:
    """No garbage collection: a compile makes many objects that live, and scanning them each time a
    few thousand more exist takes as long as all the rest. Nor are they scanned at its end, as young
    ones: they count as old, unless the program has frozen some, which no call thaws alone."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def assemble(
    captured: Captured,
    options: Options,
    trail: Trail,
    plain: Plain | None = None,
    keep: Keep | None = None,
) -> Compiled:
    """The road from a captured region on: (joint, partition), compile, assemble. `plain` is what
    `verify=True` compares with; `keep` makes ready what is kept on disk, while the C++ compiler
    runs."""
    graph, region = captured.graph, None
    _require_host(graph, options)
    trail.notes += captured.rolled
    if captured.joint is not None:
        joint = captured.joint
        trail.keep("joint", lambda: module(joint.graph))
        with trail.stage("partition"):
            region = Region(joint, captured.writes, _compiler(options, trail))
            graph = region.forward
    oracle = plain if options.verify else None
    code, files = None, None
    with begin_graph(
        graph, captured.writes, backend=options.backend, strides=captured.strides, trail=trail
    ) as begun:
        with trail.stage("assemble"):
            captured.add_guards()  # that compiling asked for
            if oracle is None:
                code = captured.code()
            if code is not None and keep is not None and begun.waits:
                files = keep(captured, False)
        executable = begun.result()
    run = _with_oracle(executable.run, graph, options)
    call: Call
    with trail.stage("assemble"):
        if code is not None:
            call = link(code, captured.names.namespace, run, MISS, region)
        else:
            assert oracle is not None
            call = Verified(captured, run, region, oracle, _compiler(options, Trail("verify")))
    trail.keep("entry", captured.show)
    return Compiled(call, captured, executable, trail, captured.graph, files=files)


def _require_host(graph: Graph, options: Options) -> None:
    """Raises Break where values would be looked at that the host cannot reach."""
    asked = [name for name in ("verify", "check_nans") if getattr(options, name)]
    if asked and any(n.aval.device != "cpu" for n in graph.inputs):
        raise Break("device", f"{asked[0]}=True looks at every value, and these live on a device")


def _add_to(stats: Stats, made: Compiled, seconds: float) -> None:
    """Count a version, and the time that it took."""
    stats.compiles += 1
    stats.graphs += 1
    stats.kernels += len(made.executable.kernels)
    stats.callbacks += len(made.executable.callbacks)
    stats.compile_seconds += seconds
    _count_runs(stats, made.executable)
    if made.executable.refused:
        stats.fallbacks += 1
        stats.refusals.append(f"a graph runs op by op: {made.executable.refused}")


def _count_runs(stats: Stats, made: Executable) -> None:
    stats.programs.extend(made.runs)


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


def _name_inputs(captured: Captured) -> None:
    """Graph inputs by the names that the user knows."""
    for node, given in zip(captured.graph.inputs, captured.inputs, strict=True):
        if given.origin is not None and "symbol" not in node.attrs:
            node.attrs["name"] = readable(given.origin.show())  # type: ignore[index]


def _compiler(options: Options, trail: Trail) -> Callable[[Graph], Any]:
    """Compiler of a region's backward, which runs when the backward is first asked for."""

    def compile_backward(graph: Graph) -> Any:
        try:
            made = compile_graph(graph, backend=options.backend, trail=trail)
            run, refused = made.run, made.refused
            if trail.stats is not None:
                trail.stats.callbacks += len(made.callbacks)
                _count_runs(trail.stats, made)
        except Exception as fault:
            if config.strict or config.check or graph.has_symbols:
                raise
            refused = f"compiling it failed: {type(fault).__name__}: {fault}"
            what = f"the backward of {trail.name} runs op by op: {refused}"
            announce((trail.name, refused), what)
            run = op_by_op(graph, ())
        if refused and trail.stats is not None:
            trail.stats.fallbacks += 1
            trail.stats.refusals.append(f"backward of {trail.name}: {refused}")
        return _with_oracle(run, graph, options)

    return compile_backward


def _with_oracle(run: Any, graph: Graph, options: Options) -> Any:
    return search_nans(run, graph) if options.check_nans else run


@dataclass(frozen=True, slots=True)
class Whole:
    """A function that was captured as a whole: what a verified version of it is compared with."""

    fn: Callable[..., Any]
    varying: frozenset[str]

    @property
    def place(self) -> str:
        plain = function_of(self.fn)
        code = plain[0].__code__ if plain else None
        name = name_of(self.fn)
        return f"{name} at {code.co_filename}:{code.co_firstlineno}" if code else name

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.fn(*args, **kwargs)

    def capture(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured | None:
        try:
            return capture(self.fn, args, kwargs, dynamic=self.varying)
        except Break:
            return None
