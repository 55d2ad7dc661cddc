"""Under `distributed.checkpoint`: async_save. a state on each rank -> a `Future`, and one folder,
finished by all or by none while the program goes on.

Threads take no part in collectives, whose order is the program's. In the unfinished folder each
rank leaves a note when its file is written: the file, or what went wrong. The thread of the first
rank reads the notes of all. It puts the checkpoint in its place, and the folder of notes is gone;
or it says there what went wrong, until the others have read that and removed their notes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from eager.base.host_only import host_only
from eager.distributed.checkpoint.metadata import read_metadata
from eager.distributed.checkpoint.saving import Saving
from eager.distributed.checkpoint.together import CheckpointException, failure, text_of, together
from eager.distributed.checkpoint.under_way import SaveFuture, follow
from eager.distributed.engine import default_pg_timeout

PAUSE: Final = 0.02  # seconds between looks at the notes
FAILED: Final = "failed"  # the first rank's word to the others


def async_save(
    state_dict: Mapping[str, Any],
    *,
    checkpoint_id: Any,
    process_group: Any = None,
    no_dist: bool = False,
    keep: int | None = None,
) -> Future[None]:
    """Begin to write a state into the folder `checkpoint_id`, as `save` does, and return a `Future`
    of its end.

    All ranks call this. It waits for the save before, agrees on who writes what, and copies what
    this rank writes: the state may change when it returns. Files are written in a thread of each
    rank, which is in no collective, and the first rank's puts the checkpoint in its place once all
    files are on the disk; until then the one before is what is loaded. Any rank may ask for
    `result()`, or none: the next save or load waits for the end, and so does the end of the
    process.

    Raises what `save` does while it agrees and copies. What goes wrong later comes out of
    `result()` on all ranks, as CheckpointException; where nobody asks, out of the next save or
    load, or on standard error when the process ends."""
    host_only("distributed.checkpoint.async_save")
    saving = Saving(state_dict, checkpoint_id, process_group, no_dist, keep)

    def stage() -> None:
        saving.arrays = {name: array.copy() for name, array in saving.arrays.items()}

    try:
        together(saving.group, saving.what, stage)
    except BaseException:
        saving.close()
        raise
    future = SaveFuture()
    future.set_running_or_notify_cancel()  # it cannot be taken back
    follow(future)
    threading.Thread(target=_run, args=(saving, future), name="jitcap-checkpoint").start()
    return future


def _run(saving: Saving, future: SaveFuture) -> None:
    try:
        with closing(saving):
            _finish(saving)
        together(None, saving.behind, saving.remove_older)
    except CheckpointException as error:
        future.set_exception(error)
    except BaseException as error:  # noqa: BLE001 - of who asks
        future.set_exception(CheckpointException(f"{saving.what}: {text_of(error)}"))
    else:
        future.set_result(None)


def _finish(saving: Saving) -> None:
    """Write this rank's file, and see what becomes of the checkpoint."""
    file, error = None, None
    try:
        file = saving.write()
    except Exception as fault:  # noqa: BLE001 - it is told to all ranks
        error = text_of(fault)
        _remove_data(saving, f"{saving.rank:05d}")
    saving.arrays = {}
    end = _follow if saving.rank else _lead
    end(saving, [error, file])


def _follow(saving: Saving, note: Any) -> None:
    """Leave a note for the first rank, and wait for its word."""
    mine = _note(saving, saving.rank)
    failed = saving.folder / FAILED
    _write(mine, note)
    try:
        _wait(saving, lambda: failed.exists() or not saving.folder.exists(), "the first rank's end")
        if failed.exists():
            raise CheckpointException(json.loads(failed.read_text()))
    finally:
        with suppress(OSError):
            mine.unlink()
    files = read_metadata(saving.target).files
    if not any(name.startswith(saving.number) for name, _ in files):
        raise CheckpointException(f"{saving.what}: the first rank has given it up")


def _lead(saving: Saving, note: Any) -> None:
    """Commit when the notes of all ranks say that it can be done; else tell them."""
    others = range(1, 1 if saving.group is None else saving.group.size())
    notes = [_note(saving, rank) for rank in others]
    try:
        _wait(saving, lambda: all(path.exists() for path in notes), "the files of all ranks")
        said = [note, *(json.loads(path.read_text()) for path in notes)]
        problem = failure(saving.group, saving.what, [error for error, _ in said])
        if problem is not None:
            raise problem
        saving.describe([file and tuple(file) for _, file in said])
        for path in notes:
            path.unlink()
        saving.commit()
    except Exception as error:
        if not isinstance(error, CheckpointException):
            error = failure(saving.group, saving.what, [text_of(error)]) or error
        if saving.folder.exists():
            _remove_data(saving)
            with suppress(OSError, CheckpointException):  # the others see that the folder is gone
                _write(saving.folder / FAILED, str(error))
                _wait(saving, lambda: not any(path.exists() for path in notes), "all ranks")
        raise error from None


def _note(saving: Saving, rank: int) -> Path:
    return saving.folder / f"{rank}.note"


def _remove_data(saving: Saving, rank: str = "*") -> None:
    """Make room for a note, where the disk is full."""
    for path in saving.folder.glob(f"{saving.number}-{rank}.safetensors"):
        path.unlink()


def _write(path: Path, what: Any) -> None:
    """A file that is there whole or not at all."""
    beside = path.with_suffix(".writing")
    beside.write_text(json.dumps(what))
    beside.rename(path)


def _wait(saving: Saving, is_over: Callable[[], bool], what: str) -> None:
    """Look until something is so. CheckpointException after the group's timeout."""
    limit = default_pg_timeout if saving.group is None else saving.group.timeout
    until = time.monotonic() + limit.total_seconds()
    while not is_over():
        if time.monotonic() > until:
            raise CheckpointException(f"{saving.what}: {what} did not come within {limit}")
        time.sleep(PAUSE)
