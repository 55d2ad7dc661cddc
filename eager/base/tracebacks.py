"""At the edge: what a user reads of an error. exception -> the same, without our own frames.

Public functions end with

    except Exception as error:
        trim(error)
        raise

which costs nothing where nothing is raised. A bare `raise` adds no entry for its own frame, so the
traceback ends at the user's line. `JITCAP_TRACEBACK=full` (`config.traceback`) keeps all frames.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final

from eager.base.compat_warnings import OURS
from eager.base.config import config, on_change

_HELPERS: Final = frozenset({"numpy", "contextlib", "functools"})  # where we call them
# Few refusals have these types: they may be faults of ours, whose place is worth knowing.
_FAULTS: Final = (AttributeError, KeyError, NameError, ZeroDivisionError)

_full = config.traceback == "full"  # once: tracing by dispatch sees who reads the environment


def _follow() -> None:
    global _full
    _full = config.traceback == "full"


on_change.append(_follow)


def trim(error: BaseException) -> None:
    """Drop our frames from the traceback of an error that leaves a public function, and the error
    of ours that it was made of from its context. Frames of the program's, which we called, stay."""
    if _full or _package(type(error).__module__) == "jitcap":
        return
    kept: list[TracebackType] = []
    behind: list[TracebackType] = []  # ours, behind the last one of theirs
    link = error.__traceback__
    while link is not None:
        package = _package(link.tb_frame.f_globals.get("__name__", ""))
        if package in OURS or (behind and package in _HELPERS):
            behind.append(link)
        else:
            kept.append(link)
            behind = []
        link = link.tb_next
    error.__traceback__ = _linked(kept + behind if isinstance(error, _FAULTS) else kept)
    context = error.__context__
    if context is not None and error.__cause__ is None and _is_within(context):
        error.__suppress_context__ = True


def _linked(links: list[TracebackType]) -> TracebackType | None:
    following: TracebackType | None = None
    for link in reversed(links):
        if link.tb_next is not following:
            link.tb_next = following
        following = link
    return following


def _is_within(error: BaseException) -> bool:
    """True if an error came from our own code alone; one that was never raised is the program's."""
    link = error.__traceback__
    if link is None:
        return False
    while link is not None:
        if _package(link.tb_frame.f_globals.get("__name__", "")) not in OURS | _HELPERS:
            return False
        link = link.tb_next
    return True


def _package(module: Any) -> str:
    return str(module).partition(".")[0]
