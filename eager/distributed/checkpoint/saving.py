"""Under `distributed.checkpoint`: save. a state on each rank -> one folder, finished by all or
by none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from eager.base.compat_warnings import tell
from eager.base.host_only import host_only
from eager.distributed.checkpoint.folder import METADATA, Unfinished, keep_last, write_file
from eager.distributed.checkpoint.metadata import Entry, Metadata, to_json
from eager.distributed.checkpoint.plan import described, planned, stored, told
from eager.distributed.checkpoint.together import CheckpointException, group_for, together
from eager.distributed.groups import ProcessGroup
from eager.serialization.safetensors import write_unchecked


def save(
    state_dict: Mapping[str, Any],
    *,
    checkpoint_id: Any,
    process_group: Any = None,
    no_dist: bool = False,
    keep: int | None = None,
) -> None:
    """Write a state into the folder `checkpoint_id`, which all ranks see and all call this for.

    `state_dict` holds tensors, NumPy arrays, plain values, containers of them, and objects that
    have a `state_dict()`: modules, optimizers, schedules, scalers, `RandomStreams`. Of sharded
    tensors each rank writes its part; what several ranks have is written once, by one of them.
    The folder is what it was until everything is on the disk. With `keep`, of the checkpoints
    beside it whose names differ in their numbers alone, so many are left. `no_dist` saves this
    process's state alone.

    Raises CheckpointException, on all ranks, naming the one that failed and why: a full disk, a
    value that JSON does not have, ranks that have other values or shapes under one name."""
    host_only("distributed.checkpoint.save")
    if keep is not None and keep < 1:
        raise ValueError(f"save: keep={keep}: the checkpoint that is saved is kept, so 1 at least")
    target = Path(checkpoint_id).resolve()
    group = group_for(process_group, no_dist)
    is_first = group is None or group.rank() == 0
    what = f"saving the checkpoint {target}"
    made: list[Unfinished] = []  # on the first rank

    def begin() -> Path | None:
        if is_first:
            made.append(Unfinished(target))
            return made[0].path
        return None

    try:
        folder = together(group, what, begin)[0]
        metadata = _written(group, what, state_dict, folder)

        def commit() -> None:
            if is_first:
                write_file(made[0].path / METADATA, lambda opened: opened.write(metadata))
                made[0].commit()

        together(group, what, commit)
    finally:
        for each in made:
            each.close()
    if keep is not None:
        older = f"{what}: it is saved, and older ones cannot be removed"
        together(group, older, lambda: keep_last(target, keep) if is_first else None)


def _written(group: ProcessGroup | None, what: str, state_dict: Any, folder: Any) -> bytes:
    """Write the files of all ranks; what `metadata.json` has to say of them."""
    rank = 0 if group is None else group.rank()
    arrays: dict[str, Any] = {}

    def describe() -> dict[str, Entry]:
        entries, found = described(state_dict)
        arrays.update(found)
        return entries

    ranks = together(group, what, describe)
    try:
        plan = planned(ranks)
    except ValueError as error:  # on all ranks
        raise CheckpointException(f"{what}: {error}") from None
    if plan.differing and rank == 0:
        tell(
            f"distributed.checkpoint: {told(plan.differing)} differ between ranks, and the first "
            "rank's are saved; give what each rank has of its own a name with the rank in it",
            UserWarning,
        )

    def write() -> tuple[str, int] | None:
        mine = {name: stored(arrays[name]) for name in plan.writes[rank]}
        if not mine:
            return None
        number = folder.name.split(".")[-2]
        file = folder / f"{number}-{rank:05d}.safetensors"
        write_file(file, lambda opened: write_unchecked(mine, None, opened))
        return file.name, file.stat().st_size

    files = together(group, what, write)
    numbers = {r: i for i, r in enumerate(r for r, file in enumerate(files) if file)}
    entries = {
        name: replace(e, parts=tuple(replace(p, file=numbers[p.file]) for p in e.parts))
        for name, e in plan.entries.items()
    }
    return to_json(Metadata(tuple(file for file in files if file), entries))
