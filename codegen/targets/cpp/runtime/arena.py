"""Under the compiled calls: the temporaries' memory. A size -> one warm block per thread.

`arena()` is shared by all artifacts that run on the thread (none needs its contents between calls)
and grown to the largest demand. What escapes a call lies in blocks of `eager.base.process.memory`.
"""

from __future__ import annotations

import ctypes
import threading

from codegen.schedule.plan import ALIGN
from eager.base.process.memory import Block, size_class


class ArenaStruct(ctypes.Structure):
    """JcArena of jitcap_call.h: where the temporaries lie now, and whether a call is using them."""

    _fields_ = (
        ("base", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("busy", ctypes.c_int64),
    )


class ErrorRecord(ctypes.Structure):
    """jc::Error of jitcap_rt.h: the 64 bytes before the arena."""

    _fields_ = (
        ("code", ctypes.c_int64),
        ("site", ctypes.c_int64),
        ("value", ctypes.c_int64),
        ("bound", ctypes.c_int64),
        ("unused", ctypes.c_int64 * 4),
    )


class Arena:
    """Temporary memory of one thread: 64-byte aligned, grown and never shrunk while it lives."""

    def __init__(self) -> None:
        self.struct = ArenaStruct()
        self.address = ctypes.addressof(self.struct)
        self._block: Block | None = None
        self.reserve(0)

    def reserve(self, size: int) -> None:
        """Make at least `size` bytes available. The contents are not kept."""
        if self._block is not None and size <= self.struct.bytes:
            return
        total = size_class(size + ALIGN)
        self._block = Block(total)
        self.struct.base = self._block.address + ALIGN
        self.struct.bytes = total - ALIGN

    def error(self) -> ErrorRecord:
        """The error record of the last call."""
        return ErrorRecord.from_address(self.struct.base - ALIGN)


class _ThreadArena(threading.local):
    def __init__(self) -> None:
        self.arena = Arena()


_arenas = _ThreadArena()


def arena() -> Arena:
    """The calling thread's arena."""
    return _arenas.arena


def renew() -> None:
    """The calling thread gets a new arena; the old one goes with the last that runs on it."""
    _arenas.arena = Arena()
