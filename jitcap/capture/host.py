"""Capture: calls of the host (print, logging, warnings, tqdm). function, arguments -> `HostCall`.

They are made after the graph ran, in program order, if they run no code of the program."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from eager.base.compat_warnings import is_ours
from eager.base.dataclass import dataclass
from jitcap.base.breaks import Break
from jitcap.base.call_policy import is_programs
from jitcap.base.origin import Computed, Fixed
from jitcap.base.terms import attribute, method
from jitcap.capture.kinds.base import Args, Kwargs, Session
from jitcap.capture.kinds.functions import REPORTS
from jitcap.capture.tracebacks import caller_at, report_above, report_level, warn_above


@dataclass(frozen=True, slots=True)
class HostCall:
    """A call whose result is not used."""

    fn: Any
    args: Args
    kwargs: Kwargs
    at: Callable[..., Any] | None  # a function that makes the call in the user's name
    where: str  # the user's line
    when: Any = None  # a number of the graph: whether it is made, where a branch decides that


def call(s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
    """A call of logging, tqdm ... that only reports: it is made after the graph ran."""
    import logging  # slow, and of those who have it

    if fn is logging.Logger.isEnabledFor:
        return _is_enabled(s, args[0], s.known(args[1]))
    if fn is logging.getLogger and not kwargs and all(type(v) is str for v in args):
        return s.outside.load(fn(*args), Computed((), ("call", "$0", ("star", "$1")), (fn, args)))
    if fn.__name__ not in REPORTS:
        raise Break("unknown call", f"{fn.__qualname__}() is called")
    given = [v for v in (*args, *kwargs.values()) if not s.outside.is_fixed(v)]
    if any(s.lends(v, text=True) for v in given):
        raise Break("effect", f"{fn.__qualname__}() looks at an instance later")
    if fn.__module__ != "logging":
        s.host_call(fn, args, kwargs)
        return None
    logger = logger_of(args)
    level = logging.getLevelNamesMapping().get(fn.__name__.upper(), logging.CRITICAL)
    if fn.__name__ == "log":
        level = s.known(args[isinstance(args[0], logging.Logger | logging.LoggerAdapter)])
    if type(level) is int and not _is_enabled(s, logger, level, unless=True):
        if isinstance(args[0], logging.Logger | logging.LoggerAdapter):
            return None
        ready = bool(logging.root.handlers)  # else a function of the module does that first
        s.guard_that(
            ("bool", attribute("$0", "handlers")), Fixed(logging.root, "logging.root"), answer=ready
        )
        if ready:
            return None
    if fn.__name__ == "exception" or kwargs.get("exc_info"):
        raise Break("frames", "a traceback is logged")
    require(s, logs_by_library, logger, f"a handler of the logger {logger.name} is the program's")
    report(s, fn, args, kwargs)
    return None


def logger_of(args: Args) -> Any:
    """The logger of a call: its first argument, or the root of the functions of the module."""
    import logging

    found = args[0] if args else None
    while isinstance(found, logging.LoggerAdapter):
        found = found.logger
    return found if isinstance(found, logging.Logger) else logging.root


def _is_enabled(s: Session, logger: Any, level: int, *, unless: bool = False) -> bool:
    """True if a logger takes a level; guarded, but with `unless` only where it does not."""
    notes = vars(logger_of((logger,)))["_cache"]
    noted = level in notes
    answer: bool = logger.isEnabledFor(level)
    if not noted:  # it is when the program has asked
        notes.pop(level, None)
    if not (unless and answer):
        origin = s.outside.origin_of(logger) or Fixed(logger, "logger")
        s.guard_that(method("$0", "isEnabledFor", "$1"), origin, level, answer=answer)
    return answer


# ---- what a call that is put off may run


def require(s: Session, test: Callable[[Any], bool], value: Any, what: str) -> None:
    """A call is put off only if it runs no code of the program, now and at every later call: that
    would see the world, or change it, too late. Such a call is made where it stands."""
    if not test(value):
        raise Break("effect", what)
    if (test, id(value)) not in s.required:
        s.required.add((test, id(value)))
        s.guard_that(("call", "$1", "$0"), Fixed(value, getattr(value, "__name__", "it")), test)


def prints_by_library(module: Any) -> bool:
    """True if the stream that `print` writes to, in the module `sys`, is a library's."""
    return not is_programs(module.stdout)


def logs_by_library(logger: Any) -> bool:
    """True if a record that a logger makes meets no filter, handler or stream of the program."""
    import logging

    parts: list[Any] = [logging.getLogRecordFactory(), logging.basicConfig]
    if not logger.hasHandlers():
        parts += [logging.lastResort, sys.stderr]
    while logger is not None:
        parts += [*logger.filters, *logger.handlers]
        for handler in logger.handlers:
            parts += [*handler.filters, handler.formatter, getattr(handler, "stream", None)]
        logger = logger.parent if logger.propagate else None
    return not any(map(is_programs, parts))


def warns_by_library(category: type) -> bool:
    """True if a warning is not raised as an error, and is shown by the library."""
    if is_programs(warnings.showwarning):
        return False
    for action, message, cls, module, line in warnings.filters:
        if issubclass(category, cls):
            if action == "error":
                return False
            if message is None and module is None and not line:
                return True
    return warnings.defaultaction != "error"  # type: ignore[attr-defined]


def require_unseen(s: Session) -> None:
    """A list in which warnings are recorded gets those that were put off at the end: the program
    may not have it."""
    put = getattr(warnings, "_showwarnmsg_impl", None)  # of the list, by `catch_warnings`
    warns = any(test is warns_by_library for test, _ in s.required)
    if warns and id(getattr(put, "__self__", None)) in s.outside.by_real:
        raise Break("effect", "warnings are recorded in a list that the program has")


def report(s: Session, fn: Any, args: Args, kwargs: Kwargs) -> None:
    """Put off a call that tells from where it was made: a warning, a log record."""
    level, args, kwargs = report_level(fn, args, {k: s.known(v) for k, v in kwargs.items()})
    above = level - len(s.vm.frames)
    if above > 0 and fn is warnings.warn:
        s.host_call(warn_above, (above, *args), kwargs)
    elif above > 0:
        s.host_call(report_above, (above, fn, *args), kwargs)
    else:
        s.host_call(fn, args, kwargs, caller_at(s.vm.frames[-level]))


def tell(s: Session, text: str, category: type[Warning]) -> None:
    """A warning of the library's, in the name of the innermost frame of the program."""
    ours = [*(is_ours(frame.globals) for frame in reversed(s.vm.frames)), False]
    s.call(warnings.warn, (text, category, 1 + ours.index(False)), {})
