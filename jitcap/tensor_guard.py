"""Beside the guards: what an entry assumes of a tensor from outside. tensor -> TensorLike.

The test is in two steps. A parameter or buffer usually has the very array that was checked at the
last call: then nothing else needs to be looked at but what can change on the tensor itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from eager.tensor import Tensor
from jitcap.capture.origin import Origin
from jitcap.guards import Guard, Names


@dataclass(frozen=True, slots=True, eq=False)
class TensorLike(Guard):
    """Class, shape, element type, strides (in bytes; None for contiguous), requires_grad, leaf or not."""

    cls: type
    shape: tuple[int, ...]
    dtype: Any
    strides: tuple[int, ...] | None
    requires_grad: bool
    leaf: bool

    @staticmethod
    def of(tensor: Tensor, origin: Origin, where: str) -> TensorLike:
        array = tensor._array
        strides = None if array.flags.c_contiguous else array.strides
        return TensorLike(
            origin, where, type(tensor), array.shape, array.dtype, strides,
            tensor.requires_grad, tensor._node is None,
        )  # fmt: skip

    def test(self, names: Names) -> str:
        v = names.var(self.origin)
        own = [
            f"type({v}) is {names.bind(self.cls)}",
            f"{v}._requires_grad is {self.requires_grad}",
        ]
        if self.requires_grad:
            own.append(f"{v}._node is {None}" if self.leaf else f"{v}._node is not {None}")
        return f"{' and '.join(own)} and {self.array_test(names, f'{v}._array')}"

    def array_test(self, names: Names, array: str) -> str:
        """The condition on the array."""
        check = names.bind(_same_layout)
        layout = (self.shape, self.dtype, self.strides)
        return f"{check}({array}, {names.bind(layout)})"

    def expected(self) -> str:
        return _describe(self.cls, self.shape, self.dtype, self.strides, self.requires_grad)

    def got(self, value: Any) -> str:
        if not isinstance(value, Tensor):
            return f"a {type(value).__qualname__}"
        array = value._array
        strides = None if array.flags.c_contiguous else array.strides
        return _describe(type(value), array.shape, array.dtype, strides, value.requires_grad)

    def key(self) -> tuple[Any, ...]:
        return (TensorLike, self.shape, self.strides, self.requires_grad)


def _same_layout(array: Any, layout: tuple[Any, ...]) -> bool:
    shape, dtype, strides = layout
    return (
        array.shape == shape
        and array.dtype is dtype
        and (array.flags.c_contiguous if strides is None else array.strides == strides)
    ) or (
        array.dtype == dtype
        and array.shape == shape
        and strides is None
        and array.flags.c_contiguous
    )


def _describe(
    cls: type, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...] | None, grad: bool
) -> str:
    layout = "" if strides is None else f", strides {strides} bytes"
    return f"{cls.__name__} {dtype}{list(shape)}{layout}{', requires_grad' if grad else ''}"
