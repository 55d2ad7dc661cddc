"""Constructors of former times: `LongTensor([1, 2])`, by type. sizes, values -> tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager.conversion import LEGACY, to
from eager.device import Size
from eager.dtype import DType, set_default_dtype
from eager.interop import copied
from eager.notice import warn
from eager.registry import public
from eager.sym import SymNumber
from eager.symint import SymInt
from eager.tensor import Tensor


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


def _legacy_constructor(name: str, dtype: DType) -> Any:
    def make(*args: Any) -> Tensor:
        """Legacy constructor: `Tensor(...)` of the type that its name says. TypeError for a number
        that is no size."""
        if _is_size(args):
            return to(Tensor(*args), dtype)
        if isinstance(args[0], float):
            raise TypeError(f"{name}(): data must be a sequence (got float)")
        return copied(args[0], dtype=dtype)

    make.__name__ = make.__qualname__ = name
    return public(name, method=False)(make)


LEGACY_CONSTRUCTORS = [_legacy_constructor(*each) for each in LEGACY.items()]


def set_default_tensor_type(t: Any) -> None:
    """The default floating point type by the name of its constructor: `"eager.DoubleTensor"`, or
    that constructor. TypeError for what is none, or none of floating point numbers."""
    name = (t if isinstance(t, str) else getattr(t, "__name__", "")).rpartition(".")[2]
    warn("set_default_tensor_type is deprecated: use set_default_dtype and set_default_device")
    if name not in LEGACY:
        raise TypeError(f"invalid type object: {t!r} is no constructor of tensors")
    set_default_dtype(LEGACY[name])
