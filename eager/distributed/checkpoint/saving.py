"""Under `distributed.checkpoint`: save. a state on each rank -> one folder, finished by all or
by none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eager.base.compat_warnings import tell
from eager.base.host_only import host_only
from eager.distributed.checkpoint.folder import METADATA, Unfinished, keep_last, write_file
from eager.distributed.checkpoint.metadata import Entry, Metadata, to_json
from eager.distributed.checkpoint.plan import described, planned, stored, told
from eager.distributed.checkpoint.together import CheckpointException, group_for, together
from eager.distributed.checkpoint.under_way import settle
from eager.serialization.safetensors import write_unchecked

File = tuple[str, int]  # name and bytes


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
    saving = Saving(state_dict, checkpoint_id, process_group, no_dist, keep)
    try:
        files = together(saving.group, saving.what, saving.write)
        together(saving.group, saving.what, lambda: saving.describe(files))
        together(saving.group, saving.what, saving.commit)
    finally:
        saving.close()
    if keep is not None:
        together(saving.group, saving.behind, saving.remove_older)


class Saving:
    """A checkpoint that is made, on one rank of those that make it: from a plan, on which they have
    agreed, to a folder under its name. `arrays` are what this rank writes; they share memory with
    the state."""

    def __init__(
        self,
        state_dict: Any,
        checkpoint_id: Any,
        process_group: Any,
        no_dist: bool,
        keep: int | None,
    ) -> None:
        if keep is not None and keep < 1:
            raise ValueError(
                f"save: keep={keep}: the checkpoint that is saved is kept, so 1 at least"
            )
        self.target, self.keep = Path(checkpoint_id).resolve(), keep
        self.what = f"saving the checkpoint {self.target}"
        self.behind = f"{self.what}: it is saved, and older ones cannot be removed"
        self.group = group_for(process_group, no_dist)
        self.rank = 0 if self.group is None else self.group.rank()
        self._made: Unfinished | None = None  # on the first rank
        try:
            self.folder: Any = together(self.group, self.what, self._begin)[0]
            self.arrays = self._agree(state_dict)
        except BaseException:
            self.close()
            raise

    def _begin(self) -> Path | None:
        settle()
        if self.rank:
            return None
        self._made = Unfinished(self.target)
        return self._made.path

    def _agree(self, state_dict: Any) -> dict[str, Any]:
        """Make the plan; the arrays that it has for this rank."""
        arrays: dict[str, Any] = {}

        def describe() -> dict[str, Entry]:
            entries, found = described(state_dict)
            arrays.update(found)
            return entries

        ranks = together(self.group, self.what, describe)
        try:
            plan = planned(ranks)
        except ValueError as error:  # on all ranks
            raise CheckpointException(f"{self.what}: {error}") from None
        if plan.differing and self.rank == 0:
            tell(
                f"distributed.checkpoint: {told(plan.differing)} differ between ranks, and the "
                "first rank's are saved; give what each rank has of its own a name with the rank "
                "in it",
                UserWarning,
            )
        self.entries = plan.entries
        return {name: arrays[name] for name in plan.writes[self.rank]}

    def write(self) -> File | None:
        """Write this rank's file; None where it has nothing to write. The first rank has one in any
        case: by its name others know which save it was that became the checkpoint."""
        if self.rank and not self.arrays:
            return None
        tensors = {name: stored(array) for name, array in self.arrays.items()}
        file: Path = self.folder / f"{self.number}-{self.rank:05d}.safetensors"
        write_file(file, lambda opened: write_unchecked(tensors, None, opened))
        return file.name, file.stat().st_size

    @property
    def number(self) -> str:
        """The number that the names of its files begin with."""
        return self.folder.name.split(".")[-2]

    def describe(self, files: Sequence[File | None]) -> None:
        """Write `metadata.json`, once the files of all ranks are there; the first rank does."""
        if self._made is None:
            return
        numbers = {r: i for i, r in enumerate(r for r, file in enumerate(files) if file)}
        entries = {
            name: replace(e, parts=tuple(replace(p, file=numbers[p.file]) for p in e.parts))
            for name, e in self.entries.items()
        }
        text = to_json(Metadata(tuple(file for file in files if file), entries))
        write_file(self.folder / METADATA, lambda opened: opened.write(text))

    def commit(self) -> None:
        """Put it in its place, when everything is on the disk; the first rank does."""
        if self._made is not None:
            self._made.commit()

    def remove_older(self) -> None:
        """Remove the checkpoints that are not kept; the first rank does."""
        if self.keep is not None and self.rank == 0:
            keep_last(self.target, self.keep)

    def close(self) -> None:
        """Let go of it; what is not in its place is removed."""
        if self._made is not None:
            self._made.close()
