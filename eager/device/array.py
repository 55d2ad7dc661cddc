"""Arrays of tensors whose memory is a device's. (buffer, strides) -> views of it.

Host code cannot reach the elements: what NumPy would take them by (`__array__`, the buffer
protocol, `.data`) is refused. Views are computed from the rules of the op records alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from eager.base.dtype import DType
from eager.device.pool import Buffer
from eager.device.protocol import Region
from eager.sizes.aval import Aval, OfAval, contiguous_strides


def _refusal(what: str) -> Any:
    def refuse(self: DeviceArray, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            f"{what}: the memory of a tensor on {self.aval.device} cannot be reached from the "
            "host. Use Tensor.cpu() to copy the tensor to host memory first."
        )

    return refuse


class DeviceArray(OfAval):
    """A strided array in a device's memory; strides and offset are in elements."""

    __slots__ = ("aval", "buffer", "offset", "strides")

    def __init__(
        self, buffer: Buffer, aval: Aval, strides: tuple[int, ...] | None = None, offset: int = 0
    ) -> None:
        self.buffer = buffer
        self.aval = aval
        self.strides = contiguous_strides(aval.shape) if strides is None else strides
        self.offset = offset

    @property
    def dtype(self) -> DType:
        return self.aval.dtype

    @property
    def itemsize(self) -> int:
        return self.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.aval.nbytes

    @property
    def address(self) -> int:
        """Address of the first element in the device's memory."""
        start: int = self.buffer.address
        return start + self.offset * self.itemsize if self.offset else start

    @property
    def span(self) -> int:
        """Elements from the first to the last, both included; 0 of none."""
        if not self.size:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    @property
    def contiguous(self) -> bool:
        """True if the elements lie in row-major order without gaps, as a property."""
        return self.is_contiguous()

    def is_contiguous(self) -> bool:
        """True if the elements lie in row-major order without gaps."""
        step = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if n != 1 and stride != step and self.size:
                return False
            step *= n
        return True

    def reinterpreted(self, dtype: DType) -> DeviceArray:
        """View of the memory as elements of another type; the last dimension, whose stride is 1,
        grows or shrinks with their size."""
        old, new = self.itemsize, dtype.itemsize
        shape, strides = self.shape, self.strides
        if old != new:
            shape = (*shape[:-1], shape[-1] * old // new)
            strides = (*(s * old // new for s in strides[:-1]), 1)
        aval = replace(self.aval, shape=shape, dtype=dtype)
        return DeviceArray(self.buffer, aval, strides, self.offset * old // new)

    def memory(self) -> DeviceArray:
        """All of the memory that it lies in, as a vector."""
        aval = replace(self.aval, shape=(self.buffer.nbytes // self.itemsize,))
        return DeviceArray(self.buffer, aval)

    def overlaps_itself(self) -> bool:
        """True if two elements may have one address in memory."""
        reach = 0
        for stride, n in sorted(zip(self.strides, self.shape, strict=True)):
            if n > 1:
                if stride <= reach:
                    return True
                reach += (n - 1) * stride
        return False

    def overlaps(self, other: DeviceArray) -> bool:
        """True if the two reach into the same bytes, from the first to the last."""
        a, b = self.region(), other.region()
        same = self.buffer.pool is other.buffer.pool
        return same and a.address < b.address + b.nbytes and b.address < a.address + a.nbytes

    def region(self, *, writes: bool = False, reads: bool = True) -> Region:
        """Bytes of the array, from the first element to the last."""
        return Region(self.address, self.span * self.itemsize, writes, reads)

    def view(self, op: Any, attrs: Mapping[str, Any]) -> DeviceArray | None:
        """The view op's result over the same memory; None where only a copy can do it."""
        (aval,) = op.abstract((self.aval,), attrs)
        placed = op.restride(self.aval.shape, self.strides, attrs)
        if placed is None:
            return None
        strides, offset = placed
        start = self.offset * self.itemsize // aval.dtype.itemsize
        return DeviceArray(self.buffer, aval, strides, start + offset)

    # ---- what host code must not get
    __array__ = _refusal("a NumPy array")
    __buffer__ = _refusal("the buffer protocol")
    __len__ = _refusal("a sequence")
    __iter__ = _refusal("iteration")
    __bool__ = _refusal("a truth value")
    data = property(_refusal(".data"))

    def __repr__(self) -> str:
        return (
            f"DeviceArray({self.aval!r} on {self.aval.device}, strides {self.strides}, "
            f"offset {self.offset})"
        )
