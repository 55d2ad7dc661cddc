"""Under `distributed.checkpoint`: the save of this process that goes on in a thread. a `Future` ->
its end, before the next save or load begins.
"""

from __future__ import annotations

import atexit
import sys
from concurrent.futures import Future

from eager.distributed.checkpoint.together import CheckpointException


class SaveFuture(Future[None]):
    """The end of a save: `result()` gives None, or raises what went wrong. It knows if anybody has
    asked."""

    asked = False

    def result(self, timeout: float | None = None) -> None:
        self.asked = True
        super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        self.asked = True
        return super().exception(timeout)


_last: list[SaveFuture] = []


def follow(future: SaveFuture) -> None:
    """Know of a save that begins."""
    if not _last:
        atexit.register(_last_words)
    _last[:] = [future]


def settle() -> None:
    """Wait for the save that is under way. CheckpointException where it failed, and nobody knows:
    once, at the next call of this module's users."""
    for future in _last:
        was_asked = future.asked
        error = future.exception()
        if error is not None and not was_asked:
            raise CheckpointException(f"the asynchronous save before it failed: {error}") from error


def _last_words() -> None:
    """At the end of the process, behind its threads."""
    for future in _last:
        if not future.asked and future.exception() is not None:
            sys.stderr.write(f"distributed.checkpoint.async_save: {future.exception()}\n")
