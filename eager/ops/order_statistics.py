"""Order statistics over `sort`: quantiles, the median and mode, with and without NaN. tensor -> ops
-> tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.core import return_types
from eager.core.casts import full_precision
from eager.core.dispatch import must_hold
from eager.core.op import Sample
from eager.core.registry import Out, public
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.define import not_for
from eager.ops.index_and_sort import iota_along, pick, shared, sorted_along
from eager.ops.pointwise import where
from eager.ops.view import norm_dim
from eager.sizes.aval import Aval


@public(
    out=Out(overlap="any"),
    samples=lambda: [
        Sample((s.values((3, 4)), 0.3)),
        Sample((s.values((3, 4)), 0.6, 1, True), {"interpolation": "midpoint"}),
        Sample((s.values((3, 4)), 0.4, 0), {"interpolation": "nearest"}),
        Sample((np.array([[1.0, np.nan, 0.0], [2.0, 5.0, 4.0]]), 0.3, 1), grad=False),
        Sample((s.values((3, 4)), np.array([0.1, 0.7]), 0), grad=False),
    ],
)
@full_precision
def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The q-th quantile(s) along `dim` (of all elements by default); q a number or tensor. A place
    between two elements gives what `interpolation` says. NaN wins."""
    values, d = _ordered_along(input, dim, "quantile")
    last = values.narrow(-1, values.shape[-1] - 1, 1)
    known = where(last == last, values, last)  # NaN, if there is one, is sorted last
    return _quantiles(input, known, values.shape[-1] - 1, q, d, (dim, keepdim, interpolation))


@public(
    out=Out(overlap="any"),
    samples=lambda: [
        Sample((np.array([[1.0, np.nan, 0.0], [2.0, 5.0, 4.0]]), 0.3, 1), grad=False),
        Sample((np.array([1.0, np.nan, 0.0]), np.array([0.3, 0.9])), grad=False),
    ],
)
@full_precision
def nanquantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """`quantile` of the elements that are not NaN."""
    values, d = _ordered_along(input, dim, "nanquantile")
    places = (values == values).long().sum(-1, keepdim=True) - 1
    return _quantiles(input, values, places.clamp(min=0), q, d, (dim, keepdim, interpolation))


def _ordered_along(input: Tensor, dim: int | None, name: str) -> tuple[Tensor, int]:
    """The sorted values with `dim` last (all values for None), and where `dim` stood."""
    if input.numel() == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    d = 0 if dim is None else norm_dim(dim, input.ndim, name)
    x = input.reshape(-1) if dim is None or not input.ndim else input
    return sorted_along(x, d, False, name)[0].movedim(d, -1), d


def _quantiles(
    input: Tensor, values: Tensor, last: Any, q: Any, d: int, how: tuple[Any, bool, str]
) -> Tensor:
    """values (*rest, n) sorted, last: number or (*rest, 1), the place of the largest."""
    dim, keepdim, interpolation = how
    dtype = input.dtype
    if dtype not in (dt.float32, dt.float64):
        raise RuntimeError(f"quantile() input tensor must be float32 or float64, got {dtype}")
    if isinstance(q, Tensor) and q.ndim > 1:
        raise RuntimeError(f"quantile() q must be a scalar or 1D tensor, got {q.ndim} dimensions")
    if not isinstance(q, Tensor):
        q = Tensor._full(q, Aval((), dtype, input.aval.device))
    must_hold(((q >= 0) & (q <= 1)).all(), "quantile() q values must be in the range [0, 1]")
    q = q.to(input.device, dtype)
    place = q.reshape(-1) * last  # (len(q),) or (*rest, len(q))
    low, high = place.floor(), place.ceil()
    shape = (*values.shape[:-1], place.shape[-1])
    below, above = (
        values.gather(-1, each.to(dt.int64).expand(shape))
        for each in ((place.round(),) * 2 if interpolation == "nearest" else (low, high))
    )
    shares = {"linear": place - low, "lower": 0.0, "higher": 1.0, "midpoint": 0.5, "nearest": 0.0}
    if interpolation not in shares:
        raise RuntimeError(f"quantile() interpolation must be one of {', '.join(shares)}")
    out = _between(below, above, shares[interpolation]).movedim(-1, 0)  # (len(q), *rest)
    if keepdim and dim is None:
        out = out.reshape([-1, *[1] * input.ndim])
    elif keepdim and input.ndim:
        out = out.unsqueeze(d + 1)
    return out.squeeze(0) if q.ndim == 0 else out


def _between(below: Tensor, above: Tensor, share: Any) -> Tensor:
    if isinstance(share, float):
        return below if share == 0.0 else above if share == 1.0 else (below + above) * share
    return below + (above - below) * share


@public(
    samples=lambda: [
        Sample((np.array([[1.0, np.nan, 0.0], [2.0, 5.0, 4.0]]),), grad=False),
        Sample((np.array([[1.0, np.nan, 0.0], [2.0, 5.0, 4.0]]), 1), grad=False),
    ]
)
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """`median` of the elements that are not NaN; NaN where there are no others."""
    not_for("nanmedian", dt.BOOL)([input.aval])
    if dim is None:
        if not input.numel():
            return input.sum() / 0  # NaN
        return shared(input, nanmedian(input.reshape(-1), 0).values)
    d = norm_dim(dim, input.ndim, "nanmedian")
    values, indices = sorted_along(input, d, False, "nanmedian")
    if not input.ndim:
        return return_types.nanmedian(values, indices)
    known = (values == values).long().sum(d, keepdim=True)
    middle = (known - 1).clamp(min=0).div(2, rounding_mode="floor")
    found = pick(values.gather(d, middle), indices.gather(d, middle), d, 0, keepdim)
    return return_types.nanmedian(*found)


@public(
    samples=lambda: [
        Sample((np.array([[2.0, 1.0, 2.0], [3.0, 1.0, 1.0]]),), grad=False),
        Sample((np.array([[2.0, 1.0, 2.0], [2.0, 1.0, 1.0]]), 0, True), grad=False),
    ]
)
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent value along `dim`, the smallest of several, and where it stands last. All
    NaN are one value."""
    d = norm_dim(dim, input.ndim, "mode")
    values, indices = sorted_along(input, d, False, "mode")
    if not input.ndim:
        return return_types.mode(values, indices)
    places = iota_along(d, input.ndim, input.shape[d], like=input)
    before = values.roll(1, d)
    fresh = where(values == values, values != before, before == before)
    starts = where(fresh, places, 0).expand(values.shape).cummax(d).values  # of the run it is in
    longest = (places - starts).argmax(d, keepdim=True)
    found = pick(values.gather(d, longest), indices.gather(d, longest), d, 0, keepdim)
    return return_types.mode(*found)
