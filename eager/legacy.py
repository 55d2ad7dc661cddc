"""Constructors of former times: `LongTensor([1, 2])`, by type. sizes, values -> tensor."""

from __future__ import annotations

from typing import Any

from eager.conversion import LEGACY, to
from eager.device import Size
from eager.dtype import DType
from eager.interop import tensor
from eager.registry import public
from eager.sym import SymNumber
from eager.symint import SymInt
from eager.tensor import Tensor


def _legacy_constructor(name: str, dtype: DType) -> Any:
    def make(*args: Any) -> Tensor:
        """Legacy constructor: `Tensor(...)` of the type that its name says. TypeError for a number
        that is no size."""
        if len(args) != 1 or isinstance(args[0], int | Size | SymNumber | SymInt):
            return to(Tensor(*args), dtype)
        if isinstance(args[0], float):
            raise TypeError(f"{name}(): data must be a sequence (got float)")
        return tensor(args[0], dtype=dtype)

    make.__name__ = make.__qualname__ = name
    return public(name, method=False)(make)


LEGACY_CONSTRUCTORS = [_legacy_constructor(*each) for each in LEGACY.items()]
