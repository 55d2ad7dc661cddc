"""Beside the entry: runs a function in parts where it cannot be captured whole. frame -> value.

Each part (a *segment*) is captured and compiled like a function; what lies between two segments is
one instruction, executed as CPython would. A function called by such an instruction is split in
turn. Segments are found by where they begin, so a loop compiles its body once: its second round
finds the segments of the first.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import ContextDecorator, suppress
from dataclasses import field
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final

from codegen import CheckFailed
from eager.amp import GradScaler, autocast
from eager.autograd import no_grad
from eager.base.config import config
from eager.base.dataclass import dataclass
from eager.base.process.locks import rlock
from eager.compiler import NO_CAPTURE
from eager.control_flow import cond as control_flow
from eager.control_flow import while_loop as repeat
from eager.nn import Module
from jitcap.base.breaks import Break, Place, Record
from jitcap.base.call_policy import HOST_MODULES, is_library_space, is_native
from jitcap.base.diagnostics import note_fault
from jitcap.base.stack import beneath, passed_over
from jitcap.capture import sizes
from jitcap.capture.builtins import polyfills
from jitcap.capture.bytecode import decode
from jitcap.capture.capture import beginning
from jitcap.capture.frames import real_frame
from jitcap.capture.interpret import CO_ASYNC, CO_GENERATOR, Frame, Interpreter
from jitcap.capture.opcodes.table import OPCODES
from jitcap.capture.result import Captured, require_fit, why_not
from jitcap.compile.anticipate import anticipated
from jitcap.graph_breaks.concrete import ConcreteWorld
from jitcap.graph_breaks.segment import RETURNED, STOPPED, capture_segment, live, point_of
from jitcap.versions.dynamism import Varying
from jitcap.versions.plain import Plain
from jitcap.versions.version import Options, Room

Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]
VERSIONS: Final = 8  # of one segment that are kept
DEPTH: Final = 40  # of split functions that call each other
FAILURES: Final = 3  # after so many checks that failed at run time a version is not tried again
DISCARDED: Final = object()  # what a segment answers when a check failed
UNFINISHED: Final = 8  # attempts whose effects or live values could not be made again


@dataclass(slots=True)
class Point:
    """A place where segments begin."""

    varying: Varying
    versions: list[tuple[Call, Captured]] = field(default_factory=list)
    plain: bool = False  # the last capture from here was refused
    failures: int = 0  # of checks at run time
    limit: Record | None = None  # why nothing more is compiled from here
    room: Room = field(default_factory=Room)
    patience: Room = field(default_factory=Room)  # where it is plain, or at a limit
    full: Record | None = None  # why a call runs plainly where there is no room


@passed_over
class Splitter:
    """The segments of one jitted function and of the functions it calls.

    `assemble` compiles a captured segment, `report` takes the record of each split, `discarded` the
    failed check of each run that was given up, `say_discarded` its record when the call did not
    raise, `note_plain` the reasons for which a call ran without its compiled parts, `miss` is what
    a version answers when it does not fit, `options` say whether sizes may be symbols. `unsafe` are
    lines where a check failed at run time: they are not captured."""

    def __init__(
        self,
        assemble: Callable[[Captured, Plain], Call],
        report: Callable[[Record], None],
        discarded: Callable[[CheckFailed], Record],
        say_discarded: Callable[[Record], None],
        note_plain: Callable[..., None],
        miss: Any,
        options: Options,
        unsafe: set[str] | None = None,
    ) -> None:
        self._options = options
        self._assemble = assemble
        self._report = report
        self._discarded = discarded
        self._say_discarded = say_discarded
        self._note_plain = note_plain
        self._miss = miss
        self._unsafe = set() if unsafe is None else unsafe
        self._points: dict[tuple[CodeType, int], tuple[Any, dict[tuple[Any, ...], Point]]] = {}
        self._lock = rlock()
        self._unfinished = 0
        self._again = False  # whether the capture that is under way was refused before
        self._raises = False  # whether it ends where the program raises
        self._reported: set[tuple[str, Any]] = set()
        self._last: Record | None = None  # split
        self._deep: dict[CodeType, Record] = {}  # what calls itself too deep, and runs plainly
        self._limit: Record | None = None  # why the function runs plainly
        self._patience = Room()
        self._given_up: Record | None = None  # the limit after too many refusals
        self._state = threading.local()

    def call(self, fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """`fn(*args, **kwargs)`, in parts. Raises what the function raises."""
        if getattr(self._state, "frames", ()):
            return self._call(fn, args, kwargs)
        self._state.frames, self._state.full = (), False
        limits: dict[Record, None] = {}  # that this call met, in order
        self._state.limits = limits
        discards: dict[Record, None] = {}
        self._state.discards = discards
        try:
            result = self._call(fn, args, kwargs)
        finally:
            if limits:
                self._note_plain(*limits)
        for record in discards:
            self._say_discarded(record)
        return result

    def _meet(self, limit: Record) -> None:
        self._state.limits[limit] = None

    def _call(self, fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        callers = self._state.frames
        depth = len(callers)
        given_up = self._limit is not None and self._limit is self._given_up
        if given_up and not depth and self._patience.admits(1, 1):
            self._limit, self._unfinished = None, UNFINISHED  # one more, and it is back
        limit = self._limit
        if depth >= DEPTH:
            what = f"functions that are split call each other more than {DEPTH} deep"
            limit = Record("limit", what, beginning(fn))
        if self._deep and not depth and self._patience.admits(1, 1):
            self._deep.clear()
        limit = limit or self._deep.get(fn.__code__)
        if limit is not None:
            self._meet(limit)
            return beneath(fn, args, kwargs)
        if not splittable(fn):
            return fn(*args, **kwargs)
        fn = READ_TOO.get(fn, fn)
        frame = None
        with suppress(TypeError):
            frame = real_frame(fn, args, kwargs)
        if frame is None:  # the arguments do not fit: in Python's own words
            return fn(*args, **kwargs)
        full = self._state.full
        self._state.frames, self._state.full = (*callers, frame), False
        vm = Interpreter(ConcreteWorld(frame, self.call, self._splits, callers), OPCODES)
        vm.passthrough, vm.catches, vm.outer = (), (BaseException,), sys.exception()
        vm.frames.append(frame)
        try:
            return beneath(self._run, (vm, frame), {})
        finally:
            vm.passing = vm.outer = None  # they may hold these frames: no cycle, as in `unwind`
            self._state.frames, self._state.full = callers, full

    def _run(self, vm: Interpreter, frame: Frame) -> Any:
        key = frame.code, id(frame.globals)  # an id is only unique while the object lives
        _, points = self._points.setdefault(key, (frame.globals, {}))
        plain = False
        while True:
            outcome = None if plain else self._segment(points, frame)
            if outcome is DISCARDED:  # what raises is one of the instructions that come now
                plain, outcome = True, None
            if outcome is not None:
                if outcome[0] == RETURNED:
                    frame.leave()
                    return outcome[1]
                _, frame.pc, frame.fast, frame.stack, frame.handled = outcome
            done = _step(vm, frame)
            if done is not None:
                frame.leave()
                return done.value

    def _splits(self, fn: FunctionType) -> bool:
        return self._limit is None and fn.__code__ not in self._deep and splittable(fn)

    def _segment(self, points: dict[tuple[Any, ...], Point], frame: Frame) -> Any:
        """Run the segment that begins here; None when there is none, DISCARDED if it failed."""
        if self._limit is not None:
            self._meet(self._limit)
            return None
        place = point_of(frame)
        point = points.get(place)
        if point is None:
            if self._state.full:  # any instruction would be a new place
                return None
            point = points.setdefault(place, Point(Varying.of(self._options)))
        given = live(frame)
        for version in tuple(point.versions):
            outcome = self._try(point, version, given)
            if outcome is not self._miss:
                return outcome
        made = None
        given_up = point.plain or point.limit is not None
        if not given_up or point.patience.admits(1, 1):
            with self._lock, anticipated(self._options.backend):
                made = self._compile(point, frame)
        if made is not None:
            outcome = self._try(point, made, given)
            if outcome is not self._miss:
                point.plain, point.limit, point.patience = False, None, Room()
                return outcome
            why = why_not(made[1], given, {})
            what = f"the guards do not hold for the part they were made from: {why}"
            point.limit = Record("internal", what, _place(frame))
        if point.limit is not None:
            self._meet(point.limit)
        return None

    def _try(self, point: Point, version: tuple[Call, Captured], given: tuple[Any, ...]) -> Any:
        """A version's answer. One that failed too often is not tried again."""
        try:
            return version[0](given, {})
        except CheckFailed as failure:
            with self._lock:
                self._state.discards[self._discarded(failure)] = None
                self._unsafe.add(failure.place)
                point.failures += 1
                if point.failures >= FAILURES:
                    point.failures = 0
                    point.versions = [v for v in point.versions if v is not version]
        return DISCARDED

    def _compile(self, point: Point, frame: Frame) -> tuple[Call, Captured] | None:
        if not point.room.admits(len(point.versions), VERSIONS):
            point.full = point.full or _full(point, frame)
            self._meet(point.full)
            self._state.full = True
            return None
        self._again = point.plain
        if point.versions:
            point.varying.learn([known for _, known in point.versions], live(frame), {})
        varying = point.varying.known()
        static = frozenset(name for name in varying if not sizes.is_size(name))
        plain = static | (varying & {sizes.DATA})
        captured = self._capture(frame, plain)
        if captured is None:
            point.plain = True
            return None
        version = None if plain == varying else self._symbolic(frame, captured.limit, varying)
        if version is None and captured.graph.has_data_sizes:
            version = self._symbolic(frame, captured.limit, plain)
            if version is None:
                captured = self._capture(frame, static)
                if captured is None:
                    point.plain = True
                    return None
        try:
            if version is None:
                part = Part.of(frame, captured.limit, static)
                version = self._assemble(captured, part), captured
        except Exception as fault:
            if config.strict or config.check:
                raise
            what = f"the compiler failed: {type(fault).__name__}: {fault}"
            point.limit = Record("internal", what, _place(frame))
            return None
        kept = point.versions[: VERSIONS - 1]  # one that ends where a call raised may fit any call
        point.versions = [*kept, version] if self._raises else [version, *kept]
        return version

    def _symbolic(
        self, frame: Frame, limit: int | None, varying: frozenset[str]
    ) -> tuple[Call, Captured] | None:
        """A version of the same part for all sizes, where that can be captured and compiled."""
        try:
            captured = capture_segment(frame, limit, varying, frozenset(self._unsafe))[0]
            require_fit(captured, varying, live(frame), {})
            return self._assemble(captured, Part.of(frame, limit, varying)), captured
        except Exception as refusal:  # noqa: BLE001 - it is compiled for these sizes instead
            note_fault(f"a part of {frame.code.co_qualname}", refusal)
        return None

    def _capture(self, frame: Frame, varying: frozenset[str]) -> Captured | None:
        """Capture to the return, or to the first instruction that cannot be captured."""
        unsafe, self._raises = frozenset(self._unsafe), False
        try:
            return capture_segment(frame, None, varying, unsafe)[0]
        except Break as refusal:
            self._raises = refusal.kind == "exception"
            self._note(refusal, frame)
            if refusal.done <= 0:
                return None
            limit = refusal.done
        try:
            return capture_segment(frame, limit, varying, unsafe)[0]
        except Break as refusal:
            if refusal.before <= 0:
                self._note(refusal, frame)
                return None
            limit = refusal.before  # an iterator or a generator that cannot be made again
        try:
            return capture_segment(frame, limit, varying, unsafe)[0]
        except Break as refusal:
            self._note(refusal, frame)
            return None

    def _note(self, refusal: Break, frame: Frame) -> None:
        """Report a split once per place; a loop over an iterator from outside is none."""
        self._unfinished += refusal.done < 0 and not self._again
        if refusal.kind == "history" and self._last is not None:
            refusal.because = self._last.place
        record = refusal.record()
        if refusal.deep is not None:
            self._deep[refusal.deep] = record
        last = f"the last refusal: {record.kind}: {record.what}"
        kept = refusal.kind == "frames" and refusal.done < 0  # at the end of the part: no place
        if refusal.kind in ("finalizer", "frames", "builtins") and not kept:
            self._limit = record  # from here on in frames of its own
        if self._unfinished > UNFINISHED:
            what = f"{UNFINISHED} parts have effects or values that cannot be made again; {last}"
            what = f"{what}. They are tried again, more and more rarely"
            self._given_up = self._given_up or Record("limit", what, record.place)
            self._limit = self._limit or self._given_up
        key = (record.kind, record.place)
        quiet = kept or refusal.kind in ("exception", "iteration", "cache")
        quiet = quiet or frame.code in _CODES  # the call of it was told of
        if quiet or key in self._reported:
            return
        self._reported.add(key)
        self._last = record
        self._report(record)


def _full(point: Point, frame: Frame) -> Record:
    """Record that a part has as many versions as are kept."""
    why = why_not(point.versions[0][1], live(frame), {})
    what = f"{VERSIONS} versions of the part that begins here are kept, and calls that fit none"
    rarely = "the oldest makes room, more and more rarely"
    return Record("limit", f"{what}: {rarely}. The last miss: {why}", _place(frame))


@dataclass(frozen=True, slots=True)
class Part:
    """A segment: what a verified version of it is compared with. Its plain run executes the same
    number of instructions one by one (`limit`; None: up to the return)."""

    code: CodeType
    globals: dict[str, Any]
    function: Any
    pc: int
    limit: int | None
    varying: frozenset[str]

    @staticmethod
    def of(frame: Frame, limit: int | None, varying: frozenset[str]) -> Part:
        return Part(frame.code, frame.globals, frame.function, frame.pc, limit, varying)

    @property
    def place(self) -> str:
        return (
            f"{self.code.co_qualname} at {self.code.co_filename}:{self._frame(()).instruction.line}"
        )

    @property
    def called(self) -> None:
        return None

    def run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        frame = self._frame(args)
        vm = Interpreter(ConcreteWorld(frame, _never, lambda _: False), OPCODES)
        vm.passthrough, vm.catches = (), (BaseException,)
        vm.frames.append(frame)
        while frame.count != self.limit:
            done = _step(vm, frame)
            if done is not None:
                return RETURNED, done.value
            frame.count += 1
        return STOPPED, frame.pc, frame.fast, frame.stack, frame.handled

    def capture(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Captured | None:
        with suppress(Break):
            return capture_segment(self._frame(args), self.limit, self.varying)[0]
        return None

    def _frame(self, args: tuple[Any, ...]) -> Frame:
        """A frame of its own with these live values."""
        frame = Frame(self.code, self.globals, self.function)
        frame.pc = self.pc
        if args:
            fast, stack, handled = args
            frame.fast, frame.stack, frame.handled = dict(fast), list(stack), list(handled)
        return frame


def _never(*_: Any) -> Any:
    raise AssertionError("a plain run splits nothing")


def _place(frame: Frame) -> Place:
    """Position of a frame in the source."""
    code, (line, end_line, column, end_column) = frame.code, frame.instruction.columns
    return Place(code.co_filename, line, end_line, column, end_column, code.co_qualname)


def _step(vm: Interpreter, frame: Frame) -> Any:
    """One instruction; in an `except` block, as there: what it calls may ask `sys.exc_info()`."""
    error = frame.handled[-1]
    if error is None:
        return vm.step(frame)
    link, context = error.__traceback__, error.__context__
    try:
        raise error
    except BaseException:  # noqa: BLE001 - it is handled already
        error.__traceback__, error.__context__ = link, context
        del error, context
        return vm.step(frame)


@lru_cache(maxsize=4096)
def _readable(code: CodeType) -> bool:
    """True if every instruction can be executed one by one."""
    if code.co_flags & (CO_GENERATOR | CO_ASYNC):
        return False
    return all(ins.op in OPCODES for ins in decode(code).instructions)


# Functions of the library in which a value decides what of the user's runs, and how they are read.
READ_TOO: Final[dict[Any, Any]] = {
    control_flow.cond: polyfills.cond,
    control_flow.switch: polyfills.switch,
    repeat.while_loop: polyfills.while_loop,
    GradScaler.step: GradScaler.step,
}


_CODES: Final = frozenset(fn.__code__ for fn in READ_TOO.values())
# What decorators make of a function of the user's: a context, and in it the call.
_AROUND: Final = frozenset(
    around(beginning).__code__ for around in (no_grad(), autocast("cpu"), ContextDecorator())
)


def splittable(fn: FunctionType) -> bool:
    """True if a function's instructions are worth reading: the user's, or a module's `__call__`."""
    if fn in READ_TOO or (fn.__code__ in _AROUND and not is_native(fn)):
        return True
    if hasattr(fn, NO_CAPTURE) or not _readable(fn.__code__):
        return False
    module = fn.__globals__.get("__name__", "")
    if module.startswith(Module.__module__.rpartition(".")[0]):
        return True
    if module.partition(".")[0] in HOST_MODULES or "site-packages" in fn.__code__.co_filename:
        return False
    return not is_native(fn) and not is_library_space(fn.__globals__)
