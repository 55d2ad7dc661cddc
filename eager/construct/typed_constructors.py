"""Constructors of former times: `LongTensor([1, 2])`, by type. sizes, values -> tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager.base.compat_warnings import warn
from eager.base.dtype import DType, set_default_dtype
from eager.construct.interop import copied
from eager.core.registry import public
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor
from eager.device import Size
from eager.ops.conversion import LEGACY, to
from eager.sizes.symint import SymInt


def _is_size(args: tuple[Any, ...]) -> bool:
    return len(args) != 1 or isinstance(args[0], int | np.integer | Size | SymNumber | SymInt)


@public(namespace=False)
def new(self: Tensor, *args: Any) -> Tensor:
    """The legacy constructor of this tensor's type, on its device: of sizes, or of values."""
    if _is_size(args):
        return self.new_zeros(*args or (0,))
    if isinstance(args[0], Tensor):
        return to(args[0].detach(), self.dtype)
    return copied(args[0], dtype=self.dtype, device=self.device)


class _TypedTensor(type):
    """The class of `FloatTensor` and its like: a tensor is an instance of what has its dtype."""

    def __instancecheck__(cls, instance: Any) -> bool:
        fits = isinstance(instance, Tensor) and instance.dtype is LEGACY[cls.__name__]
        return fits and instance.device.type == "cpu"


def _legacy_constructor(name: str, dtype: DType) -> Any:
    def make(cls: Any, *args: Any) -> Tensor:
        if _is_size(args):
            return to(Tensor(*args), dtype)
        if isinstance(args[0], float):
            raise TypeError(f"{name}(): data must be a sequence (got float)")
        return copied(args[0], dtype=dtype)

    doc = f"""Legacy constructor: `Tensor(...)` of {dtype}. TypeError for a number that is no size.
    A tensor of that dtype on the host is an instance of it."""
    return _TypedTensor(name, (), {"__new__": make, "__doc__": doc, "__module__": "eager"})


LEGACY_CONSTRUCTORS = [_legacy_constructor(*each) for each in LEGACY.items()]


def set_default_tensor_type(t: Any) -> None:
    """The default floating point type by the name of its constructor: `"eager.DoubleTensor"`, or
    that constructor. TypeError for what is none, or none of floating point numbers."""
    name = (t if isinstance(t, str) else getattr(t, "__name__", "")).rpartition(".")[2]
    warn("set_default_tensor_type is deprecated: use set_default_dtype and set_default_device")
    if name not in LEGACY:
        raise TypeError(f"invalid type object: {t!r} is no constructor of tensors")
    set_default_dtype(LEGACY[name])
