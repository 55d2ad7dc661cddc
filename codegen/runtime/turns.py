"""Beside the cache: of the processes that lack one entry, one makes it. a key -> its turn.

A turn is a locked file, which the system unlocks when its process ends, however it ends. Who waits
longer than a compile may take makes the entry, too: entries are published by a rename. A thread
that has a turn waits for no other, so that nobody waits in a circle.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from codegen.runtime import cache

PATIENCE: Final = 300.0  # seconds: no compiler works longer
NAP: Final = 0.005

_held: Final[set[tuple[int, str]]] = set()  # (thread, key)


class Turn:
    """The turn of making the entry `key` of the process's cache."""

    def __init__(self, key: str) -> None:
        self.path = Path(cache.default().roots[-1]) / "tmp" / f"{key}.turn"
        self._file: int | None = None
        self._mine = threading.get_ident(), key
        self._given_up = False

    def take(self) -> bool:
        """Take it, if nobody else has it. On a disk without locks everybody has it."""
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            return True
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return False
        except OSError:
            os.close(file)
            return True
        if os.fstat(file).st_nlink == 0:  # who had it before removed the file meanwhile
            os.close(file)
            return self.take()
        self._file = file
        _held.add(self._mine)
        return True

    def wait(self) -> None:
        """Take it when the process that has it is done, or gone. Returns without it where that
        takes too long, where this thread has another, or after `release`."""
        if any(thread == self._mine[0] for thread, _ in tuple(_held)):
            return
        until = time.monotonic() + PATIENCE
        while not (self._given_up or self.take()) and time.monotonic() < until:
            time.sleep(NAP)

    def release(self) -> None:
        """Give it to the next; it may not be taken again."""
        self._given_up = True
        file, self._file = self._file, None
        if file is not None:
            _held.discard(self._mine)
            with suppress(OSError):
                self.path.unlink()
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)  # of a forked process's copy, too
            os.close(file)
