"""Under `distributed.checkpoint`: load. one folder -> the state on each rank, of any number."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from eager.autograd import no_grad
from eager.base.host_only import host_only
from eager.core.tensor import Tensor, wrap
from eager.distributed.checkpoint import leaves
from eager.distributed.checkpoint.folder import open_inside
from eager.distributed.checkpoint.leaves import build, is_numeric, is_stateful, is_walked, named
from eager.distributed.checkpoint.metadata import (
    DTYPES,
    Box,
    Entry,
    Metadata,
    crc_of,
    read_metadata,
)
from eager.distributed.checkpoint.plan import told
from eager.distributed.checkpoint.states import where_in
from eager.distributed.checkpoint.together import CheckpointException, group_for, together
from eager.distributed.checkpoint.under_way import settle
from eager.distributed.data_parallel import unwrapped
from eager.distributed.shards import Shard, shard_of
from eager.serialization import safetensors
from eager.serialization.own import decode_plain
from eager.serialization.refusal import DAMAGE, LoadError


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Read a checkpoint into `state_dict`, which is made as the one that was saved.

    Tensors are copied into those that are there, of which a sharded one takes its own part, however
    many ranks there are now and were then; plain values take the place of those that are there;
    objects get the state that was saved for them by `load_state_dict()`. What is in the checkpoint
    alone is left out. Nothing in it is run, and no file outside of the folder is read.

    Raises CheckpointException, on all ranks, naming the rank, the file, the entry and the cause:
    something is missing, has another shape, or is damaged. Whatever can be seen without reading
    tensors is seen before the first is written."""
    host_only("distributed.checkpoint.load")
    folder = Path(checkpoint_id)
    group = group_for(process_group, no_dist)
    what = f"loading the checkpoint {folder}"
    is_first = group is None or group.rank() == 0

    def read() -> Metadata | None:
        settle()
        return read_metadata(folder) if is_first else None

    metadata = together(group, what, read)[0]
    assert metadata is not None
    reader = _Reader(folder, metadata)
    try:
        together(group, what, lambda: reader.check(state_dict))
        together(group, what, lambda: reader.fill(state_dict, ()) and None)
    finally:
        reader.close()


class _Reader:
    """The files of a checkpoint, each opened once, and what is read of them."""

    def __init__(self, folder: Path, metadata: Metadata) -> None:
        self.folder, self.metadata = folder, metadata
        self.opened: dict[int, tuple[Any, dict[str, Any]]] = {}

    def close(self) -> None:
        self.opened.clear()

    def fault(self, file: str, name: str, why: str) -> CheckpointException:
        return CheckpointException(f"{self.folder / file}, {name}: {why}")

    # ------------------------------------------------------------------------------ what is there
    def check(self, state_dict: Any) -> None:
        """Raises CheckpointException for what is missing or does not fit."""
        if not isinstance(state_dict, dict):
            raise TypeError(f"load: a dict is filled, not a {type(state_dict).__name__}")
        missing = []
        for path, value in leaves.flatten(state_dict):
            name, entry = named(path), self.metadata.entries.get(named(path))
            if is_stateful(value):
                if not any(self.below(path)):
                    missing.append(name)
            elif entry is None:
                if any(self.below(path)):
                    why = f"it has entries of its own, and {value!r:.40} is to be loaded"
                    raise self.fault("metadata.json", name, f"{why}: give the object, or its state")
                missing.append(name)
            elif is_numeric(value):
                self.require_fit(name, entry, value)
        if missing:
            raise CheckpointException(f"{self.folder}: there is no {told(missing)} in it")
        for number in range(len(self.metadata.files)):
            self.open(number)

    def require_fit(self, name: str, entry: Entry, value: Any) -> None:
        shard = shard_of(value) if isinstance(value, Tensor) else None
        shape = tuple(value.shape if shard is None else shard.shape)
        if not entry.dtype:
            raise self.fault(
                "metadata.json", name, "it is a plain value, and a tensor is to be loaded"
            )
        self.require_shape(entry, shape)

    def require_shape(self, entry: Entry, shape: tuple[int, ...]) -> None:
        if shape != entry.shape:
            why = f"it has the shape {list(entry.shape)}, and the one to be loaded {list(shape)}"
            raise self.fault("metadata.json", entry.name, why)

    def below(self, path: leaves.Path) -> Iterator[Entry]:
        n = len(path)
        return (e for e in self.metadata.entries.values() if e.path[:n] == path)

    # ------------------------------------------------------------------------------------ reading
    def fill(self, value: Any, path: leaves.Path) -> Any:
        """The value with what is read in its place: the same object where it can be written."""
        if is_stateful(value):
            self.restore(unwrapped(value), path)
            return value
        if is_walked(value):
            inner = {step: self.fill(v, (*path, step)) for step, v in leaves.steps_into(value)}
            if isinstance(value, Mapping):
                for step, new in inner.items():
                    if value[step] is not new:
                        value[step] = new  # type: ignore[index]
                return value
            parts = list(inner.values())
            if type(value) is tuple:
                return tuple(parts)
            value[:] = parts
            return value
        entry = self.metadata.entries[named(path)]
        if isinstance(value, Tensor):
            with no_grad():
                value.copy_(wrap(self.array(entry, shard_of(value))))
            return value
        return self.value(entry, None)

    def restore(self, target: Any, path: leaves.Path) -> None:
        """Give an object the state that was saved for one like it."""
        where = where_in(target)
        found: dict[leaves.Path, Any] = {}
        for entry in self.below(path):
            inner = entry.path[len(path) :]
            found[inner] = self.value(entry, where(inner, entry.shape) if entry.dtype else None)
        try:
            state = build(found)
        except ValueError as error:
            raise self.fault("metadata.json", named(path), str(error)) from None
        try:
            target.load_state_dict(state)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise CheckpointException(f"{self.folder}, {named(path)}: {why}") from error

    def value(self, entry: Entry, shard: Shard | None) -> Any:
        if entry.dtype:
            array = self.array(entry, shard)
            return array if entry.is_array else wrap(array)
        try:
            return decode_plain(entry.value)
        except DAMAGE as error:
            what = error.args[0] if isinstance(error, LoadError) else error
            raise self.fault("metadata.json", entry.name, f"no plain value: {what}") from error

    def array(self, entry: Entry, shard: Shard | None) -> Any:
        """The tensor, or this rank's part of it, in new memory."""
        offsets, sizes = (0,) * len(entry.shape), entry.shape
        if shard is not None:
            self.require_shape(entry, tuple(shard.shape))
            offsets, sizes = shard.offsets, tuple(shard.sizes)
        boxes = []
        for part in entry.parts:
            start = [max(a, b) for a, b in zip(offsets, part.offsets, strict=True)]
            stop = [
                min(a + n, b + m)
                for a, n, b, m in zip(offsets, sizes, part.offsets, part.sizes, strict=True)
            ]
            if all(a < b for a, b in zip(start, stop, strict=True)):
                boxes.append((self.box(entry, part), part, start, stop))
        out: Any = np.empty(sizes, DTYPES[entry.dtype])
        for array, part, start, stop in boxes:
            there = _slices(start, stop, part.offsets)
            out[_slices(start, stop, offsets)] = array[there]
            if array[there].shape == array.shape and crc_of(array) != part.crc32:
                name = self.metadata.files[part.file][0]
                raise self.fault(name, entry.name, "its checksum is another one: it is damaged")
        return out

    def box(self, entry: Entry, part: Box) -> Any:
        """The bytes of a part where they lie in their file."""
        raw, header = self.open(part.file)
        name, dtype = self.metadata.files[part.file][0], DTYPES[entry.dtype]
        try:
            found, shape, start, stop = safetensors.extent(entry.name, header[entry.name])
        except DAMAGE as error:
            raise self.fault(
                name, entry.name, f"its entry is missing or damaged: {error}"
            ) from error
        expected = [*part.sizes] if found.np == dtype else [*part.sizes, dtype.itemsize]
        if stop > raw.size or shape != expected or found.np not in (dtype, np.uint8):
            raise self.fault(name, entry.name, f"{found} of {shape} is not the part {expected}")
        return raw[start:stop].view(dtype).reshape(part.sizes)

    def open(self, number: int) -> tuple[Any, dict[str, Any]]:
        """The bytes of a file's tensors, and its header."""
        if number in self.opened:
            return self.opened[number]
        name, size = self.metadata.files[number]
        try:
            with open_inside(self.folder, name) as file:
                state = os.fstat(file.fileno())
                if not stat.S_ISREG(state.st_mode) or state.st_size != size:
                    raise LoadError(f"a file of {state.st_size} bytes, where {size} were written")
                header = safetensors.read_header(file)
                begin = file.tell()
                raw = np.memmap(file, np.uint8, "r", begin) if begin < size else np.empty(0, "u1")
        except (OSError, LoadError) as error:
            what = error.args[0] if isinstance(error, LoadError) else error.strerror
            raise self.fault(name, "the file", f"{what}") from error
        self.opened[number] = raw, header
        return self.opened[number]


def _slices(start: Any, stop: Any, origin: Any) -> tuple[slice, ...]:
    return tuple(slice(a - o, b - o) for a, b, o in zip(start, stop, origin, strict=True))
