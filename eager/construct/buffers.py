"""At the edge: memory itself. an object with a buffer -> Tensor -> the storage that it lies in."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.compat_warnings import warn
from eager.base.dtype import DType
from eager.construct.interop import numpy
from eager.core.registry import public
from eager.core.storage import TypedStorage, UntypedStorage, memory_of
from eager.core.tensor import Tensor, wrap
from eager.core.traced import Traced, UnknownValue
from eager.ops.conversion import known


@public(method=False)
def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A flat tensor that shares the memory of an object with Python's buffer protocol: `count`
    elements from byte `offset` on. ValueError where they are not there."""
    memory = memoryview(buffer).cast("B")
    left = memory.nbytes - offset
    if not memory.nbytes or offset < 0 or left <= 0:
        raise ValueError(f"offset ({offset} bytes) must be in the buffer of {memory.nbytes} bytes")
    if count == 0 or count < -1:
        raise ValueError(f"both buffer length and count ({count}) must not be 0")
    if count < 0 and left % dtype.itemsize:
        raise ValueError(
            f"buffer length ({left} bytes) after offset must be a multiple of element size "
            f"({dtype.itemsize})"
        )
    if count * dtype.itemsize > left:
        raise ValueError(f"{count} elements of {dtype} do not fit into {left} bytes")
    if memory.readonly:
        warn(
            "frombuffer: the buffer is not writable, and the tensor shares its memory: writing to "
            "it raises. Copy the buffer (bytearray(...)) to write"
        )
    out: Tensor = wrap(np.frombuffer(memory, dtype.np, count, offset))
    return out.requires_grad_() if requires_grad else out


@public(namespace=False)
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The bytes that this tensor and its views share."""
    if not self.is_cpu:
        raise NotImplementedError(
            f"the storage of a tensor on {self.device} is not there: the host cannot reach its "
            "bytes. Use .cpu() first"
        )
    return UntypedStorage.over(memory_of(numpy(self, force=True)), self._storage)


@public(namespace=False, alias=("_typed_storage",))
def storage(self: Tensor) -> TypedStorage:
    """The memory that this tensor and its views share, as elements of its dtype."""
    return TypedStorage(wrap_storage=untyped_storage(self), dtype=self.dtype)


@public(namespace=False)
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """True if both are the same elements of the same memory, in the same order."""
    if type(self._array) is Traced or type(tensor._array) is Traced:
        raise UnknownValue("is_set_to() of a tensor that is being captured")
    look = [(x.dtype, x.device, x.data_ptr(), x.shape, x.stride()) for x in (self, tensor)]
    return look[0] == look[1]


@public(namespace=False)
def apply_(self: Tensor, callable: Any) -> Tensor:
    """Each element becomes what a Python function returns for it: slow, on the CPU, and not on the
    tape."""
    return _called_for(self, "apply_()", callable)


@public(namespace=False)
def map_(self: Tensor, other: Tensor, callable: Any) -> Tensor:
    """Each element becomes what a Python function returns for it and for that of `other`, which is
    expanded; as `apply_`."""
    if not isinstance(other, Tensor):
        raise TypeError(f"map_(): argument 'other' must be Tensor, not {type(other).__name__}")
    if other.dtype is not self.dtype:
        raise TypeError(f"map_: expected {self.type()} for 'other' (got {other.type()})")
    return _called_for(self, "map_()", callable, other.expand(self.shape))


def _called_for(self: Tensor, name: str, fn: Any, *others: Tensor) -> Tensor:
    if any(x.requires_grad for x in (self, *others)):
        raise RuntimeError(
            f"Can't call {name} on Variable that requires grad. Use var.detach().{name} instead."
        )
    arrays = [known(x, name) for x in (self, *others)]
    for place in np.ndindex(arrays[0].shape):
        arrays[0][place] = _element(fn(*(x[place].item() for x in arrays)), self.dtype)
    return self


def _element(value: Any, dtype: DType) -> Any:
    """The result of a function as an element of `dtype`. TypeError if it is no number."""
    if dtype.category != dt.INT:
        return (bool, None, float, complex)[dtype.category](value)  # type: ignore[misc]
    return dt.stored(int(value) if isinstance(value, float) else operator.index(value), dtype)


@public(namespace=False)
def dim_order(self: Tensor, *, ambiguity_check: bool = False) -> tuple[int, ...]:
    """The dimensions from the widest stride to the narrowest; those of one stride in their order.
    RuntimeError with `ambiguity_check` where several orders describe the same memory."""
    strides = self.stride()
    order = tuple(sorted(range(self.ndim), key=lambda d: -strides[d]))
    if ambiguity_check and (1 in self.shape or 0 in self.shape or len({*strides}) < self.ndim):
        raise RuntimeError(
            f"The tensor does not have unique dim order, or cannot map to exact one of {order}"
        )
    return order


@public(method=False)
def is_storage(obj: Any) -> bool:
    return isinstance(obj, UntypedStorage | TypedStorage)


@public()
def is_inference(input: Tensor) -> bool:
    """True if the tensor, or the one that it is a view of, was made in `inference_mode()`: then it
    is never saved for a derivative, and is written in that mode alone."""
    return input._storage.inference


@public()
def is_same_size(input: Tensor, other: Tensor) -> bool:
    return input.shape == other.shape
