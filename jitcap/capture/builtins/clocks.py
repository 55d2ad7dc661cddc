"""Capture: what clocks say. function of `time`, `datetime.now` ... -> SymNumber, promise.

A clock is read anew at every call, in program order: before the graph where nothing was recorded
yet, else when the graph has run, as `print` is called then. What depends on that number otherwise
(a branch, an operand of the graph) is decided between two compiled parts. Registered beside the
handlers of `objects.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Final

from eager.core.sym import SymNumber
from jitcap.base.breaks import Break
from jitcap.base.origin import Drawn, Told
from jitcap.capture.builtins.host_rng import number
from jitcap.capture.kinds.base import Session, handles, handles_each
from jitcap.capture.kinds.deferred import Deferred

CLOCK: Final = "a clock"  # among what is not captured: a verified call reads it twice
_CLOCKS: Final = ("time", "perf_counter", "monotonic", "process_time", "thread_time")


@handles_each(*(getattr(time, f"{name}{unit}") for name in _CLOCKS for unit in ("", "_ns")))
def _tell(s: Session, clock: Callable[[], Any]) -> SymNumber:
    label = f"time.{clock.__name__}"
    if CLOCK in s.unsafe or any(call.fn is time.sleep for call in s.host_calls):
        raise Break("time and chance", f"{label}() is called")
    kind = Told if s.tracer.nodes or s.host_calls else Drawn
    drawn = kind(len(s.drawn), clock, (), label)
    return number(s, drawn, int if label.endswith("_ns") else float)


@handles(datetime.now)
def _now(s: Session, tz: Any = None) -> Deferred:
    return Deferred(datetime.fromtimestamp, (_tell(s, time.time), tz), cls=datetime)


@handles(datetime.today)
def _today(s: Session) -> Deferred:
    return _now(s)


@handles(date.today)
def _day(s: Session) -> Deferred:
    return Deferred(date.fromtimestamp, (_tell(s, time.time),), cls=date)
