"""On the tape: what is kept for derivatives. tensor -> the tensor, when its derivative is taken.

A tensor is kept as it is, as a hook of the user's packed it, or, where its memory can be made anew,
as the way to it there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eager.core import tensor as tensor_module
from eager.core.mode import mode
from eager.core.storage import Storage
from eager.core.tensor import Tensor, bare
from eager.core.traced import Traced, UnknownValue


def stale(dtype: Any, shape: Sequence[int], name: str, found: int, expected: int) -> str:
    """The message about a saved value that was overwritten."""
    return (
        "one of the variables needed for gradient computation has been modified by an inplace "
        f"operation: [{dtype} {list(shape)}], saved by {name}, is at version {found}; expected "
        f"version {expected} instead. Hint: clone() it before the in-place operation."
    )


class Saved:
    """A tensor kept for the derivative, and the version it must still have then."""

    __slots__ = ("name", "tensor", "version")

    tensor: Any  # or Packed

    def __init__(self, tensor: Tensor, name: str) -> None:
        storage = tensor._storage
        if mode.saved_hooks is not None:
            if type(tensor._array) is Traced:
                raise UnknownValue(f"saved_tensors_hooks looks at what {name} saves")
            self.tensor = Packed(tensor, *mode.saved_hooks)
        elif storage.again is not None:
            self.tensor = Packed(tensor, *_made_again(tensor), storage)
        else:
            self.tensor = tensor
        self.version = storage.version
        self.name = name

    def own(self) -> None:
        """Keep a copy instead, with the same place on the tape."""
        kept = bare(self.tensor).clone()
        kept._node, kept._index, kept._requires_grad = (
            self.tensor._node,
            self.tensor._index,
            self.tensor._requires_grad,
        )
        self.tensor, self.version = kept, kept._storage.version

    def get(self) -> Tensor:
        t = self.tensor
        if type(t) is Packed:
            self.check()
            return t.get()
        if t._storage.version != self.version:
            self.check()
        return t

    def check(self) -> None:
        """RuntimeError if the tensor was written since."""
        t = self.tensor
        storage = t.storage if type(t) is Packed else t._storage
        if storage is None or storage.version == self.version:
            return
        aval = t.aval
        if type(t) is not Packed and type(t._array) is Traced:
            t._array.storage.tracer.check_overwritten(t)
        raise RuntimeError(stale(aval.dtype, aval.shape, self.name, storage.version, self.version))


class Packed:
    """Saved tensor as a user's hook packed it, and how it is unpacked. `storage`: what must still
    have its version then."""

    __slots__ = ("aval", "index", "leaf", "node", "packed", "storage", "unpack")

    def __init__(
        self,
        tensor: Tensor,
        pack: Callable[..., Any],
        unpack: Callable[..., Any],
        storage: Storage | None = None,
    ) -> None:
        self.storage, self.aval = storage, tensor.aval
        self.leaf = tensor if tensor._node is None and tensor._requires_grad else None
        self.node, self.index = tensor._node, tensor._index
        before, mode.saved_hooks = mode.saved_hooks, None
        try:
            self.packed = pack(bare(tensor))
        finally:
            mode.saved_hooks = before
        self.unpack = unpack

    def get(self) -> Tensor:
        """The tensor, with its place on the tape."""
        tensor = self.unpack(self.packed)
        if not isinstance(tensor, Tensor):
            raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor")
        if self.leaf is not None:
            return self.leaf if mode.enabled else bare(tensor)
        tensor = bare(tensor)
        tensor._node, tensor._index = self.node, self.index
        tensor._requires_grad = self.node is not None
        return tensor


def _made_again(tensor: Tensor) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Hooks that keep the way to a tensor in memory that can be made anew, and not the memory."""
    remake = tensor._storage.again
    chain = () if tensor._view is None else tensor._view.chain

    def unpack(_: None) -> Tensor:
        made: Tensor = remake()
        for op, attrs in chain:
            made = tensor_module.replay_view(op, made, attrs)
        return made

    return lambda _: None, unpack
