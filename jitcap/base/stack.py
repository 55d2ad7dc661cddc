"""Beside the entry: frames of ours do not count. A call beneath many of them -> a higher limit.

Plain Python ends a recursion at `sys.getrecursionlimit()` frames of the program. A function that
runs in parts, or that comes back to its `@jit` at each level, has ours between them.
"""

from __future__ import annotations

import linecache
import sys
import threading
from collections.abc import Callable
from types import FrameType, FunctionType
from typing import Any, Final, TypeVar

from eager.base.process.recursion import add_frames

SLACK: Final = 50  # so few are not worth a limit that the program can see
MOST: Final = 1000  # calls in each other: each takes a part of the stack of C
_IN_C: Final = int(sys.version_info < (3, 12))  # where a call of an object by C counts, too

_PASSED: Final = (
    "importlib._bootstrap"  # in a file's name: see `eager.base.compat_warnings.is_passed_over`
)
T = TypeVar("T", bound=Callable[..., Any])


def passed_over(made: T) -> T:
    """A function, or a class for its methods: their frames are none to the `stacklevel` of a
    warning or a log record, so what runs plainly beneath tells of the program's lines."""
    for fn in [made] if isinstance(made, FunctionType) else vars(made).values():
        if isinstance(fn, FunctionType):
            name = f"{fn.__code__.co_filename} {_PASSED}"
            fn.__code__ = fn.__code__.replace(co_filename=name)
            linecache.lazycache(name, fn.__globals__)
    return made


def own_file(name: str) -> str:
    """The path in a code's file name, without the mark of what is passed over."""
    return name.removesuffix(f" {_PASSED}")


class _Ours(threading.local):
    calls = 0  # in each other
    frames = 0  # of the thread, between those of the program
    counted = 0  # id of the last one


_ours = _Ours()


@passed_over
def beneath(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`fn(*args, **kwargs)`: what runs there is the program's again, and the frames of ours above
    it do not count. No more than there are: a recursion without end has to end."""
    calls, known, last = before = _ours.calls, _ours.frames, _ours.counted
    here = sys._getframe()
    frame: FrameType | None = here
    new = _IN_C
    while frame is not None and id(frame) != last and (last or _is_ours(frame)):
        new, frame = new + _is_ours(frame), frame.f_back
    _ours.calls, _ours.frames, _ours.counted = calls + 1, known + new, id(here)
    more = 0 if known + new <= SLACK or calls >= MOST else new if known > SLACK else known + new
    del here, frame  # they would hold what the program lets go of
    if more:
        add_frames(more)
    try:
        return fn(*args, **kwargs)
    finally:
        _ours.calls, _ours.frames, _ours.counted = before
        if more:
            add_frames(-more)


def _is_ours(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    return name.startswith("jitcap.")
