"""Under two of the formats: zip files whose entries are read whole. file -> names and bytes.

Both formats store their entries as they are. So what can be read out of a file is never more than
the file, and every entry has a checksum.
"""

from __future__ import annotations

import zipfile
import zlib
from typing import Any, BinaryIO

import numpy as np

from eager.serialization.refusal import LoadError


class Archive:
    """A zip file of stored entries, each name once. LoadError for another."""

    def __init__(self, file: BinaryIO) -> None:
        try:
            self.file = file
            self.zip = zipfile.ZipFile(file)
        except zipfile.BadZipFile as error:
            raise LoadError(str(error), "the list of the zip file's entries") from error
        self.entries: dict[str, zipfile.ZipInfo] = {}
        for entry in self.zip.infolist():
            if entry.filename in self.entries:
                raise LoadError("two entries have this name", entry.filename)
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise LoadError(
                    "the entry is compressed",
                    entry.filename,
                    "tensor files are not: unpack the file and zip it with `zip -0`",
                )
            self.entries[entry.filename] = entry
        size = file.seek(0, 2)
        for entry in self.entries.values():
            if not 0 <= entry.header_offset < size:
                raise LoadError(f"it begins at byte {entry.header_offset}", entry.filename)
        if sum(entry.file_size for entry in self.entries.values()) > size:
            raise LoadError(f"its entries are larger than the file's {size} bytes")

    def read(self, name: str) -> bytes:
        """The bytes of an entry."""
        return bytes(self.array(name))

    def entry(self, name: str) -> zipfile.ZipInfo:
        if name not in self.entries:
            raise LoadError("the entry is missing", name)
        return self.entries[name]

    def begin(self, entry: zipfile.ZipInfo) -> int:
        """The first byte of an entry, whose header is looked at."""
        try:
            with self.zip.open(entry) as part:
                begin: int = part._orig_compress_start  # type: ignore[attr-defined]
        except zipfile.BadZipFile as error:
            raise LoadError(str(error), entry.filename) from error
        return begin

    def mapped(self, name: str) -> Any:
        """The bytes of an entry where they lie in the file: what is written to them stays out of
        it. The checksum is not looked at."""
        entry = self.entry(name)
        begin = self.begin(entry)
        if not entry.file_size:
            return np.empty(0, np.uint8)
        file: Any = self.file
        return np.memmap(file, np.uint8, "c", begin, (entry.file_size,))

    def array(self, name: str) -> Any:
        """The bytes of an entry in a new array."""
        entry = self.entry(name)
        self.file.seek(self.begin(entry))
        out: Any = np.empty(entry.file_size, np.uint8)
        count = fill(out, self.file)
        if count < out.size:
            raise LoadError(f"the entry ends {out.size - count} bytes early", name)
        if zlib.crc32(out) != entry.CRC:
            raise LoadError("its checksum is another one", name)
        return out


def fill(memory: Any, file: BinaryIO) -> int:
    """Read the bytes of an array from a file. How many there were."""
    left = memoryview(memory)
    if not hasattr(file, "readinto"):
        data = file.read(memory.size)
        left[: len(data)] = data
        return len(data)
    while left and (count := file.readinto(left)):
        left = left[count:]
    return memory.size - len(left)
