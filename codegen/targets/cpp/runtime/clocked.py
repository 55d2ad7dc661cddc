"""Around the compiled entries while a profile runs: builds with clocks. runners -> spans.

A program that runs then is built a second time, with a clock around each part; its own object stays
as it is, and calls go to it again when the profile ends. Runners notice nothing: they make their
call structures anew, here with the second build in them.
"""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from codegen.runtime.artifact import Array, Signature
from codegen.targets.cpp.clocks import LAUNCH
from codegen.targets.cpp.runtime import build
from codegen.targets.cpp.runtime.arena import Arena
from codegen.targets.cpp.runtime.cpu import RUNNERS, Clocked, PerThread, Runner
from eager.base.process.locks import lock
from eager.base.process.memory import owner_of
from eager.base.recorder import Events, Recorder, Work, clock, now, recorder

CAPACITY: Final = 1 << 14  # events of one call; those of more rounds of a loop are summed up
WITHOUT: Final = Work("compiled code (no build with clocks)", "kernel")
_builds: Final[weakref.WeakKeyDictionary[Runner, Clocked | None]] = weakref.WeakKeyDictionary()
_lock: Final = lock()
_plain: Final = Runner.__call__, Runner.new_state


class ClocksStruct(ctypes.Structure):
    """JcClocks of jitcap_clocks.h."""

    _fields_ = (
        ("events", ctypes.c_void_p),
        ("capacity", ctypes.c_long),
        ("count", ctypes.c_long),
        ("late", ctypes.c_void_p),
        ("clock", ctypes.c_long),
    )


class _Timed(PerThread):
    """The call structure of a build with clocks: after each call its events are the recorder's."""

    def __init__(self, runner: Runner, arena: Arena, made: Clocked) -> None:
        module, signature, self.works = made
        super().__init__(runner, arena, module)
        self.symbols = [name for name, _ in signature.symbols]
        self.parts: dict[Any, Sequence[Work]] = {}  # by the values of the symbols
        self.events = np.zeros((CAPACITY, 4), np.int64)
        self.late = np.zeros((len(self.works({})), 2), np.int64)
        of_thread = recorder.asked("cpu_time")
        kind = time.CLOCK_THREAD_CPUTIME_ID if of_thread else time.CLOCK_MONOTONIC
        self.clocks = ClocksStruct(
            self.events.ctypes.data, CAPACITY, 0, self.late.ctypes.data, kind
        )
        self.plan.clocks = ctypes.addressof(self.clocks)
        self._entry, self.call = self.call, self._called

    def _works(self) -> Sequence[Work]:
        """Work of the parts in a call of the sizes that were taken last."""
        values = None if self.sizing is None else self.sizing.values
        if values not in self.parts:
            start = now()
            numbers = values if type(values) is tuple else (values,) if self.symbols else ()
            sizes = dict(zip(self.symbols, map(int, numbers), strict=True))
            self.parts[values] = self.works(sizes)
            recorder.own(start)
        return self.parts[values]

    def _called(self, inputs: list[Any], outputs: list[Array]) -> int:
        try:
            return self._entry(inputs, outputs)
        finally:
            clocks = self.clocks
            found = self.events[: clocks.count].copy()
            late = None
            if clocks.count == CAPACITY:
                late = self.late.copy()
                self.late[:] = 0
            clocks.count = 0
            recorder.spans.append(Events(self._works(), found, late, threading.get_ident()))
            if recorder.asked("memory"):
                for x in outputs:
                    recorder.hold(owner_of(x), x.nbytes, "a result of compiled code")


class _Untimed(PerThread):
    """The call structure of a program of which there is no second build: one row for all of it."""

    def __init__(self, runner: Runner, arena: Arena) -> None:
        super().__init__(runner, arena)
        self.call = clock(lambda *_: WITHOUT, self.call)


def _new_state(runner: Runner, arena: Arena) -> PerThread:
    start = now()
    made = _second_build(runner)
    state = _Untimed(runner, arena) if made is None else _Timed(runner, arena, made)
    recorder.own(start)
    return state


def _second_build(runner: Runner) -> Clocked | None:
    """The build of a runner's program with clocks, made once."""
    with _lock:
        if runner not in _builds:
            _builds[runner] = _made(runner)
        return _builds[runner]


def _made(runner: Runner) -> Clocked | None:
    if runner.clocked is None:
        return None
    try:
        made = runner.clocked()
    except (build.NoCompiler, build.CompileError, OSError):
        return None
    return made if _alike(runner.signature, made[1]) else None


def _alike(one: Signature, other: Signature) -> bool:
    """True if the builds are called alike; the functions that they call back may be other objects
    that do the same."""
    names = ("kinds", "outputs", "arena_bytes", "sites", "symbols", "blocks")
    same = all(getattr(one, name) == getattr(other, name) for name in names)
    return same and len(one.hosts) == len(other.hosts)


def install(_: Recorder) -> None:
    """Calls from now on are timed."""
    if Runner.new_state is not _new_state:
        Runner.__call__ = clock(lambda *_: LAUNCH, _plain[0])  # type: ignore[method-assign]
        _renew(_new_state)


def remove(_: Recorder) -> None:
    """Calls from now on are as if there had been no profile."""
    Runner.__call__ = _plain[0]  # type: ignore[method-assign]
    _renew(_plain[1])


def _renew(new_state: Any) -> None:
    Runner.new_state = new_state  # type: ignore[method-assign]
    for runner in tuple(RUNNERS):
        runner.forget_states()
