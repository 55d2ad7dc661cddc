"""Beside every slow stage: folders for work in progress. A kind -> an empty folder of this process.

Who makes one removes it. What a killed process left is removed by the next process that makes some
in the same place: of this user, an hour old, and made by a process that is gone.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

STALE_SECONDS: Final = 3600.0  # older than any compile takes
_NAME: Final = re.compile(r"jitcap-[a-z]+-(\d+)-")


def folder(kind: str, parent: str | None = None) -> Path:
    """A new folder, by default among the temporary files. Raises OSError."""
    parent = parent or tempfile.gettempdir()
    _sweep_once(parent)
    return Path(tempfile.mkdtemp(prefix=f"jitcap-{kind}-{os.getpid()}-", dir=parent))


@functools.cache
def _sweep_once(parent: str) -> None:
    sweep(parent)


def sweep(parent: str) -> None:
    """Remove what killed processes left. Raises nothing."""
    try:
        with os.scandir(parent) as entries:
            named = [(each, found) for each in entries if (found := _NAME.match(each.name))]
    except OSError:
        return
    for each, found in named:
        try:
            state = each.stat(follow_symlinks=False)
        except OSError:
            continue
        old = state.st_uid == os.getuid() and time.time() - state.st_mtime > STALE_SECONDS
        if old and not _is_alive(int(found[1])):
            shutil.rmtree(each.path, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # somebody else's
    return True
