"""Under every tensor: what its views share. memory -> version counter, and the memory as bytes.

The bytes themselves belong to the NumPy array; a `Storage` is the identity that a tensor and all
its views have in common. `UntypedStorage` and `TypedStorage` are how users see the memory.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from eager.base.dtype import DType
from eager.core.mode import mode
from eager.device import CPU, device


class Storage:
    """Counts the writes (`version`) and the recorded writes (`history`) to one piece of memory.

    `version` lets the tape notice that a value it saved was overwritten; `history` tells a view
    that its base was given a new derivative. Class attributes are the initial counts: creating a
    storage costs nothing but the object.
    """

    version = 0
    history = 0
    inference = False  # whether its tensors are inference tensors: never saved for a derivative
    sealed = False  # whether they are written in inference mode alone, and count no versions
    again: Any = None  # a function that makes the memory anew: the tape does not keep it then

    def moved(self, to: Storage) -> Storage:
        """Storage of a tensor that gets other memory, `to`: its views and bases keep theirs."""
        own = to.apart()
        own.version, own.history = self.version, self.history
        return own

    def apart(self) -> Storage:
        """Storage of a tensor that shares the memory and counts its writes for itself."""
        return Storage()

    def detached(self) -> Storage:
        """Storage of the result of `detach()`: writes show in both and are counted."""
        return self

    def like(self) -> Storage:
        """Another of its kind."""
        return Storage()

    def counted(self) -> int:
        """The version, as users see it. RuntimeError where none is counted."""
        if self.sealed:
            raise RuntimeError("inference tensors do not count versions: a clone() of one does")
        return self.version


class InferenceStorage(Storage):
    """Storage of a tensor made in inference mode, and of its views. The storage of what `detach()`
    gives of one outside of the mode is not `sealed`: it may be written."""

    inference = True

    def __init__(self, sealed: bool = True) -> None:
        self.sealed = sealed

    def apart(self) -> Storage:
        return InferenceStorage(mode.inference)

    def detached(self) -> Storage:
        return self.apart() if self.sealed and not mode.inference else self

    def like(self) -> Storage:
        return InferenceStorage(self.sealed)


def new_storage() -> Storage:
    """Storage for a new tensor in the current mode."""
    return InferenceStorage() if mode.inference else Storage()


OUTSIDE: Final = (
    "{} an inference tensor outside of inference_mode() is not allowed: its writes are not "
    "counted. Use a clone() of it, which is made outside and so a normal tensor"
)


def owner_of(array: Any) -> Any:
    """The array whose memory `array` and its views look at."""
    while (base := array.base) is not None:
        if not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)  # what `as_strided` puts between the two
        if not isinstance(base, np.ndarray):
            break
        array = base
    return array


def memory_of(array: Any) -> Any:
    """The whole memory of the array that owns `array`'s, as bytes that share it."""
    owner = owner_of(array)
    if not owner.size:
        return np.empty(0, np.uint8)
    steps = zip(owner.shape, owner.strides, strict=True)
    span = sum((n - 1) * step for n, step in steps) + owner.itemsize
    first = as_strided(owner, (1,), (owner.itemsize,)).view(np.uint8)
    return as_strided(first, (span,), (1,))


class UntypedStorage:
    """The bytes that a tensor and its views share: `tensor.untyped_storage()`, or `(n)` new ones.

    A storage shares memory with the tensors that it comes from."""

    device = CPU
    copied: Any = None  # its copy on the device where a loaded one is to lie

    def __init__(self, size: int = 0, *, device: Any = None) -> None:
        self._bytes: Any = np.zeros(size, np.uint8)
        self._storage = new_storage()

    @classmethod
    def over(cls, memory: Any, storage: Storage | None = None) -> UntypedStorage:
        """The storage of a flat array of bytes; `storage` says whose views share it."""
        out = cls()
        out._bytes, out._storage = memory, storage or out._storage
        return out

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first `nbytes` bytes of a file, mapped; writes reach the file if it is `shared`."""
        mode: Any = "r+" if shared else "c"
        return cls.over(np.memmap(filename, np.uint8, mode, shape=(nbytes,)).view(np.ndarray))

    def data_ptr(self) -> int:
        return int(self._bytes.ctypes.data) if self._bytes.size else 0

    def nbytes(self) -> int:
        return int(self._bytes.size)

    def element_size(self) -> int:
        return 1

    size = __len__ = nbytes

    def untyped(self) -> UntypedStorage:
        return self

    def cpu(self) -> UntypedStorage:
        return self

    def clone(self) -> UntypedStorage:
        return self.over(self._bytes.copy())

    def tolist(self) -> list[int]:
        values: list[int] = self._bytes.tolist()
        return values

    def __getitem__(self, index: Any) -> Any:
        found = self._bytes[index]
        return self.over(found, self._storage) if isinstance(index, slice) else int(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._bytes[index] = value._bytes if isinstance(value, UntypedStorage) else value
        self._storage.version += 1

    def __repr__(self) -> str:
        return f"eager.storage.UntypedStorage({self.nbytes()} bytes)"


class TypedStorage:
    """An `UntypedStorage` with the dtype of its elements: `tensor.storage()`."""

    def __init__(self, *, wrap_storage: UntypedStorage, dtype: DType) -> None:
        self._untyped, self.dtype = wrap_storage, dtype

    @property
    def device(self) -> device:
        return self._untyped.device

    def untyped(self) -> UntypedStorage:
        return self._untyped

    def data_ptr(self) -> int:
        return self._untyped.data_ptr()

    def nbytes(self) -> int:
        return self._untyped.nbytes()

    def element_size(self) -> int:
        return self.dtype.itemsize

    def size(self) -> int:
        return self.nbytes() // self.dtype.itemsize

    __len__ = size

    @property
    def _elements(self) -> Any:
        return self._untyped._bytes.view(self.dtype.np)

    def tolist(self) -> list[Any]:
        values: list[Any] = self._elements.tolist()
        return values

    def __getitem__(self, index: int) -> Any:
        return self._elements[index].item()

    def __repr__(self) -> str:
        return f"eager.storage.TypedStorage({self.size()} of {self.dtype})"
