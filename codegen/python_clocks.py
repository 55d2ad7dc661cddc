"""Around the programs of the Python backend while a profile runs. kernels, steps -> spans."""

from __future__ import annotations

import weakref
from typing import Any, Final

from codegen.targets.cpp.clocks import LAUNCH, Callers, work_of
from codegen.targets.python.runtime.flat import FlatProgram
from eager.base.recorder import Recorder, Work, clock

_plain: Final = FlatProgram.__call__, FlatProgram.do
_callers: Final[weakref.WeakKeyDictionary[FlatProgram, Callers]] = weakref.WeakKeyDictionary()


def _work(program: FlatProgram, item: Any, _: Any, memory: Any) -> Work:
    callers = _callers.setdefault(program, {})
    return work_of(item, program.fused.buffers, memory.sizes, callers)


def install(_: Recorder) -> None:
    """Programs from now on are timed."""
    FlatProgram.__call__ = clock(lambda *_: LAUNCH, _plain[0])  # type: ignore[method-assign]
    FlatProgram.do = clock(_work, _plain[1])  # type: ignore[method-assign]


def remove(_: Recorder) -> None:
    """Programs from now on run as if there had been no profile."""
    FlatProgram.__call__, FlatProgram.do = _plain  # type: ignore[method-assign]
