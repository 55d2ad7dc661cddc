"""Capture: warnings of what runs natively, C or a library. One that would be shown now -> Break.

It belongs to each call of the program, and capture is none of them: the part splits there, and what
warns is called in the name of the program's line. Warnings that Python code of the program or ours
gives are calls, and recorded like others.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from eager.base.compat_warnings import OURS, tell
from eager.base.process.locks import lock
from eager.core.dispatch import current_tracer
from jitcap.base.breaks import Break
from jitcap.base.diagnostics import JitcapWarning

# What runs natively, in whose frames C warns; in those of `warnings`, of what is freed.
_NATIVE: Final = OURS | {"numpy"} | (sys.stdlib_module_names - {"warnings"})
# A file that is not closed is found where the last name goes: nothing can be raised there.
_PASSED_ON: Final = (JitcapWarning, ResourceWarning)
_warnings: Final[Any] = warnings
_lock: Final = lock()
_shown_by: Final[list[Callable[[Any], None]]] = []  # else, once for each capture at work


@contextmanager
def refused() -> Iterator[None]:
    """Refuse what would warn, in the thread that captures; others warn as ever."""
    with _lock:
        _shown_by.append(_shown_by[0] if _shown_by else _warnings._showwarnmsg)
        _warnings._showwarnmsg = _show
    try:
        yield
    finally:
        with _lock:
            before = _shown_by.pop()
            if not _shown_by:
                _warnings._showwarnmsg = before


def _show(message: Any) -> None:
    """Show a warning, or refuse it: the interpreter asks where no filter is against it."""
    frame = sys._getframe(1)
    notice = frame.f_code is tell.__code__  # about how the program is run
    within = current_tracer.get() is not None and _is_native(frame) and not notice
    if not within or issubclass(message.category, _PASSED_ON):
        next(iter(_shown_by), _warnings._showwarnmsg)(message)
        return
    while _is_native(frame) and frame.f_back is not None:
        frame.f_globals.pop("__warningregistry__", None)  # it has not been shown yet
        frame = frame.f_back
    raise Break("effect", f"a {message.category.__name__} is shown: {message.message}")


def _is_native(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] in _NATIVE
