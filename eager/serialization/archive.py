"""Under two of the formats: zip files whose entries are read whole. file -> names and bytes.

Both formats store their entries as they are. So what can be read out of a file is never more than
the file, and every entry has a checksum.
"""

from __future__ import annotations

import zipfile
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

    def mapped(self, name: str) -> Any:
        """The bytes of an entry where they lie in the file: what is written to them stays out of
        it. The checksum is not looked at."""
        entry = self.entry(name)
        with self.zip.open(entry) as part:  # which looks at the header
            begin = part._orig_compress_start  # type: ignore[attr-defined]
        if not entry.file_size:
            return np.empty(0, np.uint8)
        file: Any = self.file
        return np.memmap(file, np.uint8, "c", begin, (entry.file_size,))

    def array(self, name: str) -> Any:
        """The bytes of an entry in a new array."""
        entry = self.entry(name)
        out: Any = np.empty(entry.file_size, np.uint8)
        left = memoryview(out)
        try:
            with self.zip.open(entry) as part:
                while count := part.readinto(left):  # type: ignore[attr-defined]
                    left = left[count:]
        except zipfile.BadZipFile as error:  # the header, or the checksum
            raise LoadError(str(error), name) from error
        if left:
            raise LoadError(f"the entry ends {len(left)} bytes early", name)
        return out
