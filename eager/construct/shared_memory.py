"""At the edge: memory that processes share. Tensor -> the same values in a file without a name,
which forked processes have, and others map when they are sent the tensor."""

from __future__ import annotations

import mmap
import os
from typing import Any

import numpy as np

from eager.base.process.nameless_file import nameless_file
from eager.construct.interop import _rebuild, numpy
from eager.core.registry import public
from eager.core.storage import owner_of
from eager.core.tensor import Tensor, wrap


class SharedMemory(mmap.mmap):
    """Memory of a file without a name: whoever is sent its descriptor maps the same."""

    descriptor: int

    def __new__(cls, size: int, descriptor: int | None = None) -> SharedMemory:
        if descriptor is None:
            descriptor = nameless_file()
            os.ftruncate(descriptor, size)
        made = super().__new__(cls, descriptor, size)
        made.descriptor = descriptor
        return made

    def __del__(self) -> None:
        os.close(self.descriptor)


def _memory(x: Tensor) -> SharedMemory | None:
    """The shared memory that a tensor lies in."""
    base = owner_of(numpy(x, force=True)).base
    memory = getattr(base, "obj", base)
    return memory if isinstance(memory, SharedMemory) else None


@public(namespace=False)
def share_memory_(self: Tensor) -> Tensor:
    """Move the tensor, its values included, to memory that is shared by processes that are forked
    later, and by those that are sent the tensor through `multiprocessing`: a write of one is seen
    by all. Views that were made before keep the old memory. Nothing is done for a tensor that lies
    there already, or on a device.

    Raises RuntimeError for a view: share its base."""
    if self._view is not None:
        raise RuntimeError("share_memory_: this tensor is a view; share the memory of its base")
    if self.is_cpu and not is_shared(self):
        _share(type(self))
        array = numpy(self, force=True)
        memory = SharedMemory(max(array.nbytes, 1))
        shared = np.frombuffer(memory, array.dtype, array.size).reshape(array.shape)
        shared[...] = array
        self.data = wrap(shared, self._storage.apart())
    return self


@public(namespace=False)
def is_shared(self: Tensor) -> bool:
    """True if other processes write the same memory (`share_memory_`), and always on a device."""
    return not self.is_cpu or _memory(self) is not None


def _share(cls: type) -> None:
    """From now on the tensors of a class, and views, are sent with the memory that they share."""
    from multiprocessing.reduction import ForkingPickler  # slow to import

    for each in {cls, Tensor}:
        ForkingPickler.register(each, _reduce)
    ForkingPickler.register(SharedMemory, _reduce_memory)


def _reduce(x: Tensor) -> Any:
    """Parts of a tensor for another process: its memory and offset there, where that is shared."""
    memory = _memory(x) if x.is_cpu else None
    parts: Any = x.__reduce_ex__(4)[1]
    cls, array, *rest = parts
    if memory is None:
        return _rebuild, (cls, array, *rest)
    shared = numpy(x, force=True)
    first = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    offset = shared.__array_interface__["data"][0] - first
    return _within, (cls, memory, shared.shape, shared.dtype, offset, shared.strides, *rest)


def _within(
    cls: type, memory: SharedMemory, shape: Any, dtype: Any, offset: int, strides: Any, *rest: Any
) -> Any:
    _share(cls)
    return _rebuild(cls, np.ndarray(shape, dtype, memory, offset, strides), *rest)


def _reduce_memory(memory: SharedMemory) -> Any:
    from multiprocessing.reduction import DupFd

    return _mapped, (len(memory), DupFd(memory.descriptor))


def _mapped(size: int, descriptor: Any) -> SharedMemory:
    return SharedMemory(size, descriptor.detach())
