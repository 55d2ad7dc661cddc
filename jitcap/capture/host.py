"""Capture: calls of the host (print, logging, warnings, tqdm), made after the graph, in order."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from jitcap.capture.breaks import Break
from jitcap.capture.kinds.base import Args, Kwargs, Session
from jitcap.capture.kinds.functions import REPORTS
from jitcap.capture.kinds.text import snapshot
from jitcap.capture.located import caller_at
from jitcap.capture.origin import Computed, Fixed
from jitcap.guards import Holds


class HostCall:
    """A call whose result is not used. What it is given is looked at as it is now."""

    def __init__(
        self, fn: Any, args: Args, kwargs: Kwargs, at: Callable[..., Any] | None, where: str
    ) -> None:
        self.fn = fn
        self.args = tuple(map(snapshot, args))
        self.kwargs = {k: snapshot(v) for k, v in kwargs.items()}
        self.at = at  # a function that makes the call in the user's name
        self.where = where  # the user's line


def call(s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
    """A call of logging, tqdm ... that only reports: it is made after the graph ran."""
    if fn is logging.Logger.isEnabledFor:
        level = s.known(args[1])
        origin = s.outside.origin_of(args[0]) or Fixed(args[0], "logger")
        answer = Computed((origin,), f"{{}}.isEnabledFor({level!r})")
        s.guards.add(Holds(answer, s.line(), args[0].isEnabledFor(level)))
        return args[0].isEnabledFor(level)
    if fn.__name__ not in REPORTS:
        raise Break("unknown call", f"{fn.__qualname__}() is called")
    given = [v for v in (*args, *kwargs.values()) if not s.outside.is_fixed(v)]
    if any(s.lends(v, text=True) for v in given):
        raise Break("effect", f"{fn.__qualname__}() looks at an instance later")
    if fn.__name__ == "exception" or kwargs.get("exc_info"):
        raise Break("effect", "a traceback is logged")
    if fn.__module__ == "logging":
        report(s, fn, args, kwargs)
    else:
        s.host_call(fn, args, kwargs)
    return None


def report(s: Session, fn: Any, args: Args, kwargs: Kwargs) -> None:
    """Put off a call that tells from where it was made: a warning, a log record."""
    frames, level = s.vm.frames, kwargs.get("stacklevel", 1)
    if not 1 <= level <= len(frames):
        s.host_call(fn, args, kwargs)
        return
    frame = frames[-level]
    at = caller_at(frame.code, frame.instruction.line, frame.globals)
    s.host_call(fn, args, {k: v for k, v in kwargs.items() if k != "stacklevel"}, at)
