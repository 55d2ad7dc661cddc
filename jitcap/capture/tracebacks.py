"""Beside capture: what runs elsewhere shows the user's line. (place, call) -> frames like Python's.

An instruction that is executed between two compiled parts has no frame of its own, and a host call
(a warning, a log record) is made by the entry. Both names come from a function that is made for
the place: the same file, line, name and globals, nothing but a call.
"""

from __future__ import annotations
import __future__

import sys
import warnings
from collections.abc import Callable, Iterator
from dis import opmap
from functools import lru_cache
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, Final

from eager.base.compat_warnings import is_ours, is_passed_over
from jitcap.capture.interpret import Frame

Args = tuple[Any, ...]
Kwargs = dict[str, Any]
_FUTURE: Final = sum(
    {getattr(__future__, name).compiler_flag for name in __future__.all_feature_names}
)
_INTERNAL: Final = ("jitcap.capture.", "jitcap.graph_breaks.", "jitcap.base.stack")


def _shim(fn: Any, args: Any, kwargs: Any) -> Any:
    return fn(*args, **kwargs)


_CALL: Final = compile("call()", "", "eval")  # of a constant, so that no name is needed
_NAMED, _CONSTANT = (bytes([opmap[op], 0]) for op in ("LOAD_NAME", "LOAD_CONST"))
_CALL_CODE: Final = _CALL.co_code.replace(_NAMED, _CONSTANT)


@lru_cache(maxsize=1024)
def _placed(template: CodeType, code: CodeType, columns: tuple[int, int, int, int]) -> CodeType:
    """A code that seems to be another one, all of it at one place of that."""
    line, end_line, column, end_column = columns
    line = line or code.co_firstlineno
    kind, where = 13, b"\0"  # a line alone, which is the first
    if end_column > 0:
        numbers = max(end_line - line, 0), column + 1, end_column + 1
        kind, where = 14, b"\0" + b"".join(map(_varint, numbers))
    units = len(template.co_code) // 2
    sizes = [8] * (units // 8) + [units % 8] * (units % 8 > 0)
    return template.replace(
        co_filename=code.co_filename,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_firstlineno=line,
        co_linetable=b"".join(bytes([0x80 | kind << 3 | size - 1]) + where for size in sizes),
        # what `exec`, `eval` and `compile` of the program inherit
        co_flags=template.co_flags & ~_FUTURE | code.co_flags & _FUTURE,
    )


def _varint(number: int) -> bytes:
    """Encode a number as CPython's location tables do: six bits at a time, the lowest first."""
    found = b""
    while number > 63:
        found += bytes([0x40 | number & 63])
        number >>= 6
    return found + bytes([number])


def caller_at(frame: Frame) -> Callable[..., Any]:
    """`call(fn, args, kwargs)`, which seems to stand where an interpreted frame does."""
    code = _placed(_shim.__code__, frame.code, frame.instruction.columns)
    return FunctionType(code, frame.globals, code.co_name)


def call_in(frame: Frame, names: dict[str, Any], call: Callable[[], Any]) -> Any:
    """`call()` in the name of an interpreted frame, with these locals."""
    code = _placed(_CALL, frame.code, frame.instruction.columns)
    code = code.replace(co_code=_CALL_CODE, co_consts=(call,), co_names=())
    return eval(code, frame.globals, names)


def links(error: BaseException) -> Iterator[TracebackType]:
    """The entries of a traceback, outermost first."""
    link = error.__traceback__
    while link is not None:
        yield link
        link = link.tb_next


def is_of(code: CodeType, link: TracebackType) -> bool:
    """True if a traceback entry is of a function with this code."""
    found = link.tb_frame.f_code
    return found.co_qualname == code.co_qualname and found.co_filename == code.co_filename


def _stands_in(frame: FrameType) -> bool:
    """True if a call is made in the name of this frame; not one that `locate` put there."""
    if frame.f_code.co_code == _shim.__code__.co_code:
        return frame.f_locals["fn"] is not sys._getframe
    return frame.f_code.co_code == _CALL_CODE


def locate(error: BaseException, place: Frame) -> None:
    """Put the user's line on the traceback of `error`, in place of the interpreter's frames. The
    frame there keeps this one and those that called it: they let go of what leads back to it."""
    frame = caller_at(place)(sys._getframe, (), {})
    link = below(error, place)
    error.__traceback__ = TracebackType(link, frame, frame.f_lasti, frame.f_lineno)
    del error, frame, link


def below(error: BaseException, place: Frame) -> TracebackType | None:
    """The entries of a traceback that are the program's, of frames that `place` called."""
    kept = [
        old
        for old in links(error)
        if not old.tb_frame.f_globals.get("__name__", "").startswith(_INTERNAL)
        and not (is_of(place.code, old) and _stands_in(old.tb_frame))
    ]
    link: TracebackType | None = None
    for old in reversed(kept):
        if old.tb_next is not link:  # else it stays what the program may have put there
            old = TracebackType(link, old.tb_frame, old.tb_lasti, old.tb_lineno)
        link = old
    return link


def _no_traceback() -> TracebackType:
    """Traceback of no frame of the program, and none of capture."""
    return TracebackType(None, sys._getframe(), 0, 1)


_NONE: Final = _no_traceback()


def caught(error: BaseException) -> None:
    """A captured program handles `error`. Its traceback is that of capture, and would hold what
    the program lets go of."""
    error.__traceback__ = _NONE


def report_level(fn: Any, args: Args, kwargs: Kwargs) -> tuple[int, Args, Kwargs]:
    """From how far up a warning or a log record is told, 1 for the caller; and the call from there.
    Of any other call 1, too."""
    if fn is warnings.warn and 2 < len(args) <= 4:
        kwargs = {**kwargs, **dict(zip(("stacklevel", "source"), args[2:], strict=False))}
        args = args[:2]
    level = kwargs.get("stacklevel", 1)
    tells = fn is warnings.warn or getattr(fn, "__module__", "") == "logging"
    if not tells or type(level) is not int or level < 1 or "skip_file_prefixes" in kwargs:
        return 1, args, kwargs
    return level, args, {k: v for k, v in kwargs.items() if k != "stacklevel"}


def report_above(levels: int, fn: Any, /, *args: Any, **kwargs: Any) -> None:
    """A warning or a log record in the name of the `levels`-th frame above the function that is
    compiled that is the program's."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None:
        level += not is_passed_over(frame)
        levels -= not is_ours(frame.f_globals)
        if levels <= 0:
            break
        frame = frame.f_back
    fn(*args, **kwargs, stacklevel=level)


def warn_above(levels: int, *args: Any, **kwargs: Any) -> None:
    """Call `report_above` with `warnings.warn`; an entry that is kept on disk names it."""
    report_above(levels, warnings.warn, *args, **kwargs)
