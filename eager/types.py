"""At the edge: `eager.types`, names of kinds of values, for annotations."""

from __future__ import annotations

import os
from builtins import bool as _bool
from builtins import bytes as _bytes
from builtins import float as _float
from builtins import int as _int
from builtins import str as _str
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

from eager.core.storage import UntypedStorage
from eager.core.tensor import Tensor
from eager.device import Size
from eager.device import device as _device

__all__ = ["Device", "FileLike", "Number", "Storage"]

Storage = UntypedStorage
Device: TypeAlias = _device | _str | _int | None
FileLike: TypeAlias = _str | os.PathLike[_str] | IO[_bytes]
Number: TypeAlias = _int | _float | _bool
IntLikeType, FloatLikeType, BoolLikeType = _int, _float, _bool
_Number = (_int, _float, _bool)  # for isinstance
_size: TypeAlias = Size | list[_int] | tuple[_int, ...]
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]
_layout = Any
