"""Beside capture: what runs elsewhere shows the user's line. (place, call) -> frames like Python's.

An instruction that is executed between two compiled parts has no frame of its own, and a host call
(a warning, a log record) is made by the entry. Both names come from a function that is made for
the place: the same file, line, name and globals, nothing but a call.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dis import opmap
from functools import lru_cache
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, Final

from jitcap.capture.interpret import Frame

_OURS: Final = ("jitcap", "eager", "codegen")
_INTERNAL: Final = ("jitcap.capture.", "jitcap.split")


def _shim(fn: Any, args: Any, kwargs: Any) -> Any:
    return fn(*args, **kwargs)


@lru_cache(maxsize=1024)
def _code_at(code: CodeType, line: int) -> CodeType:
    """The line table counts from the first line; the call is on the one after it."""
    return _shim.__code__.replace(
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=max(line - 1, 1),
    )


def caller_at(code: CodeType, line: int, space: dict[str, Any]) -> Callable[..., Any]:
    """`call(fn, args, kwargs)`, which seems to stand at that line of the user's function."""
    return FunctionType(_code_at(code, line), space, code.co_name)


_CALL: Final = compile("call()", "", "eval")  # of a constant, so that no name is needed
_NAMED, _CONSTANT = (bytes([opmap[op], 0]) for op in ("LOAD_NAME", "LOAD_CONST"))
_CALL_CODE: Final = _CALL.co_code.replace(_NAMED, _CONSTANT)


def call_in(frame: Frame, names: dict[str, Any], call: Callable[[], Any]) -> Any:
    """`call()` in the name of an interpreted frame, with these locals."""
    code = frame.code
    expression = _CALL.replace(
        co_code=_CALL_CODE,
        co_consts=(call,),
        co_names=(),
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=frame.instruction.line or code.co_firstlineno,
    )
    return eval(expression, frame.globals, names)


def links(error: BaseException) -> Iterator[TracebackType]:
    """The entries of a traceback, outermost first."""
    link = error.__traceback__
    while link is not None:
        yield link
        link = link.tb_next


def is_of(code: CodeType, link: TracebackType) -> bool:
    """Whether an entry is about a function with this code."""
    found = link.tb_frame.f_code
    return found.co_qualname == code.co_qualname and found.co_filename == code.co_filename


def _stands_in(frame: FrameType) -> bool:
    """Whether a call is made in the name of this frame; not one that `locate` put there."""
    if frame.f_code.co_code == _shim.__code__.co_code:
        return frame.f_locals["fn"] is not sys._getframe
    return frame.f_code.co_code == _CALL_CODE


def locate(error: BaseException, code: CodeType, line: int, space: dict[str, Any]) -> None:
    """Put the user's line on the traceback of `error`, in place of the interpreter's frames."""
    kept = [
        old
        for old in links(error)
        if not old.tb_frame.f_globals.get("__name__", "").startswith(_INTERNAL)
        and not (is_of(code, old) and _stands_in(old.tb_frame))
    ]
    link: TracebackType | None = None
    for old in reversed(kept):
        link = TracebackType(link, old.tb_frame, old.tb_lasti, old.tb_lineno)
    frame = caller_at(code, line, space)(sys._getframe, (), {})
    error.__traceback__ = TracebackType(link, frame, frame.f_lasti, line)


def warn_above(levels: int, message: Any, category: Any, **kwargs: Any) -> None:
    """`warnings.warn` in the name of the `levels`-th frame above the function that is compiled."""
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, level + levels - 1, **kwargs)
