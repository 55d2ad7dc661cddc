"""Between the formats and tensors: pieces of memory <-> views of them, each checked.

A format stores each piece of memory once, and says of every tensor where in which piece it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.core.storage import UntypedStorage, memory_of
from eager.core.tensor import Tensor, wrap
from eager.device import CPU, places, transfer
from eager.device.array import DeviceArray
from eager.device.protocol import DeviceUnavailable
from eager.serialization.refusal import LoadError, UsersError, size_of
from eager.sizes.aval import Aval

_ALIGNMENT = 16  # of the first byte that is kept: every element type lies on a multiple of its size


def strided(
    storage: UntypedStorage, dtype: DType, offset: int, shape: Sequence[int], strides: Sequence[int]
) -> Tensor:
    """The tensor that lies at `offset` (counted, as the strides, in elements) of a storage.

    LoadError where it reaches outside: a damaged or malicious file."""
    shape = tuple(size_of(n, "a size") for n in shape)
    strides = tuple(size_of(s, "a stride") for s in strides)
    if len(shape) != len(strides):
        raise LoadError(f"a tensor has {len(shape)} sizes and {len(strides)} strides")
    item = dtype.itemsize
    last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    end = (size_of(offset, "an offset") + (0 if 0 in shape else last + 1)) * item
    if end > storage.nbytes():
        raise LoadError(
            f"a tensor of {dtype} ends at byte {end} of a memory of {storage.nbytes()} bytes"
        )
    if storage.device != CPU:
        return wrap(_there(storage, Aval(shape, dtype), strides, offset), storage._storage)
    steps = tuple(s * item for s in strides)
    if 0 in shape:
        return wrap(as_strided(np.empty(1, dtype.np), shape, steps), storage._storage)
    array: Any = np.ndarray(shape, dtype.np, storage._bytes, offset * item, steps)
    return wrap(array, storage._storage)


def _there(
    storage: UntypedStorage, aval: Aval, strides: tuple[int, ...], offset: int
) -> DeviceArray:
    """A part of a storage that is to lie on a device: all of it is copied there once."""
    place = storage.device
    if storage.copied is None:
        storage.copied = transfer.upload(storage._bytes, place).buffer
    return DeviceArray(storage.copied, replace(aval, device=str(place)), strides, offset)


class Loaded(UntypedStorage):
    """One that was read: a function given as `map_location` may say where it is to lie."""

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Loaded:
        place = f"cuda:{device}" if isinstance(device, int) else device or "cuda"
        self.device = places.resolved(place)
        return self


def relocation(map_location: Any) -> Callable[[UntypedStorage, str], UntypedStorage]:
    """Function of a storage and of its saved location, as `map_location` asks for."""

    def on(storage: UntypedStorage, location: Any) -> UntypedStorage:
        try:
            storage.device = places.resolved(location)
        except DeviceUnavailable as error:
            raise LoadError(
                f"a tensor was saved on {str(location)!r:.40}, and {error}",
                advice="load it with map_location='cpu'",
            ) from error
        return storage

    def moved(storage: UntypedStorage, location: str) -> UntypedStorage:
        if isinstance(map_location, dict):
            return on(storage, map_location.get(location, location))
        if map_location is None or not callable(map_location):
            return on(storage, location if map_location is None else map_location)
        try:
            moved = map_location(storage, location)
        except Exception as error:
            raise UsersError(error) from error
        return moved if isinstance(moved, UntypedStorage) else on(storage, location)

    return moved


class MemoryTable:
    """The pieces of memory that tensors lie in: each once, and of each the part that is used."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, int], int] = {}  # address, bytes -> number
        self.memory: list[Any] = []
        self.used: list[tuple[int, int]] = []  # the first byte in use, and the one after the last
        self._copied: dict[int, tuple[Any, Any]] = {}  # memory of devices: (buffer, its bytes)

    def locate(self, array: Any) -> tuple[int, int, Any]:
        """Number of the piece that an array lies in, its first byte there, and the array itself (a
        copy, if it runs backwards, or lies between the multiples of its elements)."""
        if type(array) is DeviceArray:
            array = self._from_device(array)
        if not array.size or any(step < 0 or step % array.itemsize for step in array.strides):
            array = array.copy()
        memory = memory_of(array)
        address = int(memory.ctypes.data)
        if (int(array.ctypes.data) - address) % array.itemsize:
            array = array.copy()
            memory = memory_of(array)
            address = int(memory.ctypes.data)
        number = self.numbers.setdefault((address, memory.size), len(self.memory))
        if number == len(self.memory):
            self.memory.append(memory)
            self.used.append((memory.size, 0))
        start = int(array.ctypes.data) - address if array.size else 0
        steps = zip(array.shape, array.strides, strict=True)
        end = start + sum((n - 1) * step for n, step in steps) + array.itemsize
        if array.size:
            first, last = self.used[number]
            self.used[number] = (min(first, start), max(last, end))
        return number, start, array

    def _from_device(self, array: DeviceArray) -> Any:
        """The array over a copy of its memory, which all that share it share."""
        buffer, item = array.buffer, array.itemsize
        if id(buffer) not in self._copied:
            whole = Aval((buffer.nbytes,), dt.uint8, array.aval.device)
            self._copied[id(buffer)] = buffer, transfer.download(DeviceArray(buffer, whole))
        _, memory = self._copied[id(buffer)]
        steps = tuple(s * item for s in array.strides)
        if not array.size:
            return np.empty(array.shape, array.dtype.np)
        return np.ndarray(array.shape, array.dtype.np, memory, array.offset * item, steps)

    def start(self, number: int) -> int:
        """The first byte of a piece that is kept."""
        return self.used[number][0] // _ALIGNMENT * _ALIGNMENT

    def used_bytes(self, number: int) -> Any:
        """The bytes of a piece from `start` to the last that a tensor uses."""
        return self.memory[number][self.start(number) : max(self.used[number][1], 0)]
