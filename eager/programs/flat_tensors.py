"""At the edge: `torch._utils`, of which programs take what lays tensors into one. tensors <-> one
tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import eager
from eager.core.tensor import Tensor


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """All elements, one tensor behind the other."""
    return eager.cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views of `flat`, of the shapes of `tensors`."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors, strict=True))
