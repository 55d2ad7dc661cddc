"""Beside everything: how deep calls may go. A block that needs more frames -> a higher limit.

The limit is the program's, which reads and sets it: what a block adds is taken back at its end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from eager.base.process.locks import lock

MANY: Final = 10_000  # passes recurse over expressions, and an interpreted call is several of ours

_lock = lock()
_extra = 0  # what all threads have added to the program's limit
_last = 0  # the limit that was set; another one is the program's own


@contextmanager
def room(frames: int = MANY) -> Iterator[None]:
    """So many frames more, in the block."""
    add_frames(frames)
    try:
        yield
    finally:
        add_frames(-frames)


def add_frames(count: int) -> None:
    """The limit is one for all threads, and the program may have set it meanwhile."""
    global _extra, _last
    with _lock:
        own = own_limit()
        _extra += count
        _last = own + _extra
        sys.setrecursionlimit(_last)


def own_limit() -> int:
    """The program's limit."""
    now = sys.getrecursionlimit()
    return now - _extra if now == _last else now
