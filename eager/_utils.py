"""At the edge: `eager._utils`, a private module of PyTorch's that libraries import. Tensors <-> one
flat tensor."""

from __future__ import annotations

from collections.abc import Iterable

from eager.base.dtype import int32
from eager.core.tensor import Tensor
from eager.ops.index_and_sort import iota
from eager.ops.move import cat, repeat_interleave
from eager.ops.search_and_count import searchsorted


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """All elements, one tensor after the other."""
    return cat([each.reshape(-1) for each in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Views of consecutive parts of `flat`, with the shapes of `tensors`."""
    like = list(tensors)
    parts = flat.split([each.numel() for each in like])
    return tuple(part.view(each.shape) for part, each in zip(parts, like, strict=True))


def _convert_indices_from_coo_to_csr(
    input: Tensor, size: int, *, out_int32: bool = False
) -> Tensor:
    """Places where rows begin, and where the last one ends, of sorted rows of elements."""
    starts = searchsorted(input, iota(size + 1).to(input.dtype))
    return starts.to(int32) if out_int32 else starts


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Rows and columns of elements, from where rows begin and the columns."""
    counts = crow_indices[1:] - crow_indices[:-1]
    rows = repeat_interleave(iota(counts.shape[0]).to(crow_indices.dtype), counts)
    pair = [col_indices, rows] if transpose else [rows, col_indices]
    both = cat([each.unsqueeze(0) for each in pair])
    return both.to(int32) if out_int32 else both
