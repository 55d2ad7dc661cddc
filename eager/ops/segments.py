"""Reductions over segments of a dimension, whose lengths data decide. composites on tensors."""

from __future__ import annotations

from typing import Final

import numpy as np

from eager.base import dtype as dt
from eager.core.dispatch import must_hold
from eager.core.registry import public
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.create import arange
from eager.ops.index_and_sort import scatter_reduce
from eager.ops.move import cat
from eager.ops.pointwise import where
from eager.ops.search_and_count import searchsorted
from eager.sizes.aval import Aval

# The name in `scatter_reduce`, and what a segment without elements has.
_REDUCES: Final[dict[str, tuple[str, float]]] = {
    "sum": ("sum", 0.0), "mean": ("sum", 0.0), "prod": ("prod", 1.0),
    "max": ("amax", float("-inf")), "min": ("amin", float("inf")),
    "amax": ("amax", float("-inf")), "amin": ("amin", float("inf")),
}  # fmt: skip
_lengths = np.array([2, 0, 3])


@public(
    method=False,
    samples=lambda: (
        [
            s.call(s.values((5, 2), seed=i), how, lengths=_lengths, initial=initial)
            for i, how in enumerate(_REDUCES)
            for initial in (None, 1.5)
        ]
        + [s.call(s.values((5,)), "sum", offsets=np.array([0, 1, 1, 4]), unsafe=True)]
    ),
)
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Tensor:
    """The sum, mean, prod, max or min of each segment along `axis`: (*rows, sum of lengths, *rest)
    -> (*rows, segments, *rest), where `lengths` is (*rows, segments) and `axis` its last dimension.
    `offsets`, (*rows, segments + 1), say instead where segments begin, and where the last one ends.

    A segment without elements has `initial`, else 0, NaN, 1, -inf or inf. RuntimeError for lengths
    that are negative, or (unless `unsafe`) whose sum is not the size of `axis`."""
    if reduce not in _REDUCES:
        raise RuntimeError(
            f"segment_reduce(): reduce must be one of {', '.join(_REDUCES)}, got {reduce}"
        )
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if not data.dtype.is_floating_point:
        raise NotImplementedError(f"segment_reduce(): not implemented for {data.dtype}")
    axis = axis + data.ndim if axis < 0 else axis
    starts = _starts(data, lengths, offsets, axis, unsafe)  # (*rows, segments + 1)
    rows, count = data.shape[:axis], starts.shape[-1] - 1
    places = arange(data.shape[axis], device=data.device).expand((*rows, data.shape[axis]))
    # 0: before the first segment; count + 1: behind the last one
    segment = searchsorted(starts.contiguous(), places.contiguous(), right=True)
    rest = data.shape[axis + 1 :]
    segment = segment.reshape((*segment.shape, *(1 for _ in rest))).expand(data.shape)
    how, identity = _REDUCES[reduce]
    first = identity if initial is None else initial
    device = str(data.device)
    start = Tensor._full(first, Aval((*rows, count + 2, *rest), data.dtype, device))
    out = scatter_reduce(start, axis, segment, data, how).narrow(axis, 1, count)
    if reduce != "mean":
        return out
    sizes = starts.diff(dim=-1).reshape((*rows, count, *(1 for _ in rest)))
    mean = out / sizes.clamp(min=1).to(data.dtype)
    return mean if initial is not None else where(sizes > 0, mean, float("nan"))


def _starts(
    data: Tensor, lengths: Tensor | None, offsets: Tensor | None, axis: int, unsafe: bool
) -> Tensor:
    """Start of each segment, and the end of the last one."""
    given = lengths if offsets is None else offsets
    if given is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if axis != given.ndim - 1:
        raise RuntimeError(
            f"segment_reduce(): Expected axis to be the last dimension of lengths but got {axis}."
        )
    if lengths is None or offsets is not None:
        return given
    must_hold((lengths >= 0).all(), "lengths contains negative value!")
    if not unsafe:
        must_hold(
            lengths.sum(-1).eq(data.shape[axis]).all(),
            "segment_reduce(): Expected all rows of lengths along axis to sum to "
            f"data.size({axis}) when !unsafe.",
        )
    ends = lengths.cumsum(-1)
    zero = Tensor._full(0, Aval((*ends.shape[:-1], 1), dt.int64, str(data.device)))
    return cat([zero, ends], -1)
