"""Under `distributed.checkpoint`: `metadata.json`, which says what is where. entries <-> JSON.

A tensor is in parts, which cover it as the cells of a grid. Its bytes are in the files of the ranks
(safetensors), under the entry's name; dtypes that those lack are there as bytes.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Any, Final

import numpy as np

from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.distributed.checkpoint.folder import DATA, METADATA, open_inside
from eager.distributed.checkpoint.leaves import SEQUENCES, Path, named
from eager.distributed.checkpoint.together import CheckpointException
from eager.serialization.refusal import DAMAGE, LoadError, size_of

FORMAT: Final = 1
FIELDS: Final = frozenset({"format", "files", "entries", "crc32"})
MAX_DIMENSIONS: Final = 64  # NumPy's
DTYPES: Final = {d.name: d.np for d in dt.ALL} | {
    name: np.dtype(name) for name in ("uint16", "uint32", "uint64")
}


@dataclass(frozen=True)
class Box:
    """A box of a tensor: the file (its number) that has it, where it begins, and its sizes."""

    file: int
    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    crc32: int


@dataclass(frozen=True)
class Entry:
    """A tensor (a NumPy array, where `is_array`) in parts, or a plain `value` as JSON, of no
    dtype. `is_told`: not of an object's state, where buffers of replicas may differ."""

    path: Path
    value: Any = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    parts: tuple[Box, ...] = ()
    is_array: bool = False
    is_told: bool = False

    @property
    def name(self) -> str:
        return named(self.path)


@dataclass(frozen=True)
class Metadata:
    """Everything in a checkpoint: entries by name, and the files with their sizes."""

    files: tuple[tuple[str, int], ...]
    entries: dict[str, Entry]


def to_json(metadata: Metadata) -> bytes:
    """The text of `metadata.json`."""
    entries = []
    for entry in metadata.entries.values():
        row: dict[str, Any] = {"path": list(entry.path)}
        if entry.dtype:
            row |= {"dtype": entry.dtype, "shape": entry.shape, "array": entry.is_array}
            row["parts"] = [
                {"file": p.file, "offsets": p.offsets, "sizes": p.sizes, "crc32": p.crc32}
                for p in entry.parts
            ]
        else:
            row["value"] = entry.value
        entries.append(row)
    body = {"format": FORMAT, "files": metadata.files, "entries": entries}
    return json.dumps(body | {"crc32": checksum(body)}).encode()


def checksum(body: dict[str, Any]) -> int:
    """The checksum that stands in the text, of everything else in it."""
    text = json.dumps({name: value for name, value in body.items() if name != "crc32"})
    return zlib.crc32(text.encode())


def _is_whole(body: dict[str, Any]) -> bool:
    """True if the text is as it was written; older ones have no checksum."""
    return "crc32" not in body or body["crc32"] == checksum(body)


def read_metadata(folder: FilePath) -> Metadata:
    """The content of a checkpoint's `metadata.json`. CheckpointException for one that is none."""
    file = folder / METADATA
    try:
        with open_inside(folder, METADATA) as opened:
            text = opened.read()
    except FileNotFoundError:
        why = "there is no finished checkpoint" if folder.is_dir() else "there is no such folder"
        raise CheckpointException(f"{file}: {why}") from None
    name = "the beginning"
    try:
        body = json.loads(text)
        if body["format"] != FORMAT:
            raise LoadError(f"it has format {body['format']!r:.40}, this version reads {FORMAT}")
        if not body.keys() <= FIELDS or not _is_whole(body):
            raise LoadError("its checksum is another one")
        files = tuple((_file(row[0]), size_of(row[1], "a size")) for row in body["files"])
        entries: dict[str, Entry] = {}
        for row in body["entries"]:
            name = f"{row['path']!r:.200}"
            entry = _entry(row, len(files))
            if entry.name in entries:
                raise LoadError("an entry is there twice")
            entries[entry.name] = entry
    except DAMAGE as error:
        raise CheckpointException(f"{file}, {name}: {_why(error)}") from error
    return Metadata(files, entries)


def _why(error: Any) -> str:
    what = error.args[0] if isinstance(error, LoadError) else f"{type(error).__name__}: {error}"
    return f"{what!s:.300}; the file is damaged, or was not written by distributed.checkpoint"


def _file(name: Any) -> str:
    if type(name) is not str or not DATA.fullmatch(name):
        raise LoadError(f"{name!r:.80} is no name of a rank's file")
    return name


def _entry(row: Any, files: int) -> Entry:
    path = tuple(map(_step, row["path"]))
    if "value" in row:
        return Entry(path, row["value"])
    dtype, is_array = row["dtype"], row["array"]
    if dtype not in DTYPES or type(is_array) is not bool:
        raise LoadError(f"the dtype {dtype!r:.40} is not there")
    shape = _sizes(row["shape"])
    parts = []
    for part in row["parts"]:
        number = size_of(part["file"], "a file's number")
        offsets, sizes = _sizes(part["offsets"]), _sizes(part["sizes"])
        if number >= files or not len(offsets) == len(sizes) == len(shape) or 0 in sizes:
            raise LoadError("a part is outside of the tensor, or in no file")
        parts.append(Box(number, offsets, sizes, size_of(part["crc32"], "a checksum")))
    require_grid(shape, parts)
    return Entry(path, None, dtype, shape, tuple(parts), is_array)


def _step(step: Any) -> Any:
    if type(step) in (str, int):
        return step
    if type(step) is list and len(step) == 2 and step[0] in SEQUENCES:
        return step[0], size_of(step[1], "an index")
    raise LoadError(f"{step!r:.80} is no key and no index")


def _sizes(values: Any) -> tuple[int, ...]:
    if type(values) is not list or len(values) > MAX_DIMENSIONS:
        raise LoadError("no list of sizes")
    return tuple(size_of(n, "a size") for n in values)


def require_grid(shape: Sequence[int], parts: Sequence[Box]) -> None:
    """LoadError where the parts do not cover the tensor once."""
    if 0 in shape:
        covered = not parts
    else:
        cuts = [sorted({p.offsets[d] for p in parts} | {n}) for d, n in enumerate(shape)]
        after = [dict(pairwise(c)) for c in cuts]
        cells = math.prod(len(c) - 1 for c in cuts)
        covered = all(c[0] == 0 for c in cuts) and all(
            at + size == after[d].get(at)
            for p in parts
            for d, (at, size) in enumerate(zip(p.offsets, p.sizes, strict=True))
        )
        covered = covered and len({p.offsets for p in parts}) == len(parts) == cells
    if not covered:
        raise LoadError("its parts overlap, or do not cover it")


def crc_of(array: Any) -> int:
    """Checksum of the bytes of a contiguous array."""
    return zlib.crc32(array.reshape(-1).view(np.uint8))
