"""PyTorch's format before version 1.6: pickles one after another, then the bytes of each storage.
a file -> nested containers of tensors and plain values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, BinaryIO, Final

import numpy as np

from eager.base import dtype as dt
from eager.core.storage import TypedStorage, UntypedStorage
from eager.device import CPU
from eager.serialization.memory import Loaded
from eager.serialization.pickled import Machine
from eager.serialization.refusal import LoadError, size_of
from eager.serialization.torch_zip import StorageType, find, unpickled

MAGIC: Final = 0x1950A86A20F9469CFC6C


class _Bounded:
    """A file, of which no more is asked than is left: what is asked for is allocated first."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.size = file.seek(0, 2)
        self.tell, self.readline = file.tell, file.readline
        file.seek(0)

    def left(self) -> int:
        return self.size - self.tell()

    def read(self, count: int) -> bytes:
        return self.file.read(min(count, self.left()))

    def readinto(self, buffer: Any) -> int:
        return self.file.readinto(buffer)  # type: ignore[attr-defined]


class _Storages:
    """The storages that the pickle names: their memory is there before their bytes are read."""

    def __init__(self, file: _Bounded, place: Callable[[Any, str], Any]) -> None:
        self.file = file
        self.place = place
        self.made: dict[str, TypedStorage] = {}
        self.bytes = 0

    def __call__(self, what: Any) -> Any:
        if what[0] == "module":
            raise LoadError("a whole module", advice="save its state_dict() with torch.save")
        kind, storage_type, key, location, count, view = what
        if kind != "storage" or type(storage_type) is not StorageType or type(key) is not str:
            raise LoadError(f"{what!r:.120} is not a storage")
        dtype = storage_type.dtype or dt.uint8
        if key not in self.made:
            size = size_of(count, "a storage's size") * dtype.itemsize
            self.bytes += size
            if self.bytes > self.file.left():
                raise LoadError(f"a storage of {size} bytes, more than the file has")
            storage = self.place(Loaded.over(np.empty(size, np.uint8)), location)
            if storage.device != CPU:
                raise LoadError("an old file is read into the host's memory", advice=_TO_CPU)
            self.made[key] = TypedStorage(wrap_storage=storage, dtype=dtype)
        whole = self.made[key]
        if view is None:
            return whole if storage_type.dtype else whole.untyped()
        _, start, length = view
        start, item = size_of(start, "an offset"), whole.element_size()
        end = (start + size_of(length, "a storage's size")) * item
        if end > whole.nbytes():
            raise LoadError("a part of a storage ends behind it")
        part: Any = whole.untyped()[start * item : end]
        return TypedStorage(wrap_storage=part, dtype=whole.dtype)


_TO_CPU: Final = "load it with map_location='cpu', and save it again"


def _find(name: str) -> Any:
    if name == "torch._utils._rebuild_sparse_tensor":  # its places are checked when it is made
        raise LoadError("a sparse tensor in an old file", advice="torch.save it again")
    return find(name)


def read(file: BinaryIO, place: Callable[[UntypedStorage, str], Any], *, weights_only: bool) -> Any:
    """Value that `torch.save` wrote as a sequence of pickles. LoadError for another pickle."""
    bounded = _Bounded(file)
    storages = _Storages(bounded, place)

    def value(where: str) -> Any:
        return Machine(_find, storages, lambda *_: False, where).run(bounded)

    if value("the first pickle") != MAGIC:
        raise LoadError(
            "a bare pickle, not a file of torch.save", "byte 0", "read it with pickle.load"
        )
    version, system = value("the version"), value("what system it was")
    if version != 1001 or not isinstance(system, dict):
        raise LoadError(f"the version {version!r:.80}", "the version")
    out = unpickled(bounded, storages, "the pickle", find=_find, weights_only=weights_only)
    swapped = system.get("little_endian", True) is not (sys.byteorder == "little")
    for key in value("the list of storages"):
        if key not in storages.made:
            raise LoadError(f"the storage {key!r:.40} is none of a tensor", "the list of storages")
        _fill(storages.made.pop(key), bounded, key, swapped=swapped)
    if storages.made:
        raise LoadError("a storage is missing", "the list of storages")
    return out


def _fill(storage: TypedStorage, file: _Bounded, key: str, *, swapped: bool) -> None:
    """The bytes of a storage, after the number of its elements."""
    memory = storage.untyped()._bytes
    count = int.from_bytes(file.read(8), "little")
    if count != storage.size():
        raise LoadError(f"{count} elements, not {storage.size()}", f"the storage {key!r:.40}")
    if memory.nbytes > file.left():
        raise LoadError("the file ends in it", f"the storage {key!r:.40}")
    file.readinto(memoryview(memory))
    if swapped:
        part = storage.dtype.itemsize // (2 if storage.dtype.is_complex else 1)
        memory[:] = memory.reshape(-1, part)[:, ::-1].reshape(-1)
