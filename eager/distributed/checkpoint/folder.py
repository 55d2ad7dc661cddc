"""Under `distributed.checkpoint`: folders that are there whole or not at all. files in a folder
beside -> a checkpoint under its name.

A new checkpoint is a folder that is renamed. One that takes the place of another is moved into its
folder file by file, under names that no other save uses; renaming `metadata.json` onto the old one
is the one step in which it becomes the new one. What is unfinished has a lock that ends with its
process, so that the next save can tell what a killed one left, and removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

METADATA: Final = "metadata.json"
DATA: Final = re.compile(r"[0-9a-f]{8}-\d{5}\.safetensors")
_PART: Final = ".part"


class Unfinished:
    """A folder beside the place of a checkpoint, in which it is made. OSError where it cannot be
    made."""

    def __init__(self, target: Path) -> None:
        self.target = target
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target.parent)
        while True:
            self.number = os.urandom(4).hex()
            self.path = target.with_name(f".{target.name}.{self.number}{_PART}")
            self.path.mkdir()
            with suppress(FileNotFoundError, BlockingIOError):  # another save swept it
                self._lock = _locked(self.path)
                return

    def commit(self) -> None:
        """Put it in its place: from now on it is what is read there."""
        _sync(self.path)
        old = _data_files(self.target) if self.target.is_dir() else None
        if old is None:
            self.path.rename(self.target)
        else:
            for file in _data_files(self.path):
                file.rename(self.target / file.name)
            _sync(self.target)
            (self.path / METADATA).replace(self.target / METADATA)
            _sync(self.target)
            for file in old:
                file.unlink(missing_ok=True)
        _sync(self.target.parent)
        self.close()

    def close(self) -> None:
        """Let go of it; what is not in its place is removed."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def write_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """A new file, which is on the disk when this returns."""
    with path.open("xb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())


def open_inside(folder: Path, name: str) -> BinaryIO:
    """A plain file of the folder to read. OSError for a link, which may lead out of it."""
    return os.fdopen(os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")


def checkpoints(folder: Path) -> list[Path]:
    """The finished checkpoints in a folder, the oldest first."""
    found = []
    for path in folder.iterdir() if folder.is_dir() else ():
        with suppress(OSError):
            if not path.name.startswith("."):
                found.append(((path / METADATA).stat().st_mtime_ns, path.name, path))
    return [path for _, _, path in sorted(found)]


def keep_last(target: Path, count: int) -> None:
    """Remove the checkpoints beside `target` whose names differ from its own in numbers alone, but
    for the `count` that were saved last."""
    family = _family(target.name)
    alike = [p for p in checkpoints(target.parent) if _family(p.name) == family]
    for path in alike[:-count]:
        gone = path.with_name(f".{path.name}.{os.urandom(4).hex()}{_PART}")
        path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)


def _family(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _data_files(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if DATA.fullmatch(p.name)]


def _locked(folder: Path) -> int | None:
    """A handle that locks a folder; None on a disk without locks. BlockingIOError where another
    process has it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return handle


def _sweep(parent: Path) -> None:
    """Remove what killed processes left."""
    for path in parent.glob(f".*{_PART}"):
        with suppress(OSError):
            handle = _locked(path)
            if handle is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(handle)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
