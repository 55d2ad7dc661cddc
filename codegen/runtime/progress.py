"""Beside the stages: how far a compile is, for somebody who waits. stage, counts -> a line.

On a terminal a compile that takes longer than two seconds shows one line, which it rewrites and
wipes at its end. Elsewhere (a log, a pipe, a notebook) nothing is shown, and no thread started; nor
for a compile that runs beside the program, whose terminal it is.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from codegen.runtime import beside
from eager.base.process.locks import lock

PATIENCE: Final = 2.0  # seconds
EACH: Final = 0.2
_now: Final[list[str]] = [""]
_showing: Final = lock()  # held by the compile whose line it is


def at(stage: str, done: int = 0, of: int = 0, what: str = "kernels") -> None:
    """The compile is at this stage, in which `done` of so many are done. One that runs beside the
    program ends here if it is not wanted any more (`beside.Stopped`)."""
    if beside.is_here():
        beside.check()
        return
    _now[0] = f"{stage}, {done} of {of} {what}" if of else stage


@contextmanager
def shown(name: str) -> Iterator[None]:
    """Show how far the block is, if it takes long and stderr is a terminal. Of compiles beside or
    inside each other the first has the line."""
    stream = sys.stderr
    if beside.is_here() or not _is_terminal(stream) or not _showing.acquire(blocking=False):
        yield
        return
    over = threading.Event()
    thread = threading.Thread(
        target=_show, args=(name, stream, over), name="jitcap-progress", daemon=True
    )
    try:
        thread.start()
        yield
    finally:
        over.set()
        thread.join()
        _showing.release()


def _is_terminal(stream: Any) -> bool:
    try:
        return stream.isatty() is True
    except Exception:  # noqa: BLE001 - a program's own stream, or None: nothing is shown
        return False


def _show(name: str, stream: Any, over: threading.Event) -> None:
    begun = time.monotonic()
    if over.wait(PATIENCE):
        return
    with suppress(OSError, ValueError):  # the terminal is gone
        while True:
            seconds = time.monotonic() - begun
            stream.write(f"\r{f'jit {name}: {_now[0]}, {seconds:.0f} s':.79}\x1b[K")
            stream.flush()
            if over.wait(EACH):
                break
        stream.write("\r\x1b[K")
        stream.flush()
