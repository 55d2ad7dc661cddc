"""Searching and counting: searchsorted, bincount, unique, histograms, membership. tensors ->
tensors.

What has a size known beforehand is an op of compiled code; the sizes of `unique` and `bincount` are
found by the run.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from eager.base import dtype as dt
from eager.core.dispatch import apply
from eager.core.registry import public, require_tensors
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor
from eager.ops import dynamic_by_mask
from eager.ops import samples as s
from eager.ops.dynamic import Dynamic, find
from eager.ops.kinds import Host, need_order
from eager.ops.pointwise import is_integral
from eager.ops.view import norm_dim
from eager.sizes.aval import Aval


def _searched(boundaries: Any, values: Any, right: bool) -> Any:
    """Row by row when the boundaries have several rows."""
    side: Any = "right" if right else "left"
    if boundaries.ndim == 1:
        return np.searchsorted(boundaries, values, side)
    if not boundaries.size or not values.size:
        return np.zeros(values.shape, np.int64)
    rows = zip(
        boundaries.reshape(-1, boundaries.shape[-1]),
        values.reshape(-1, values.shape[-1]),
        strict=True,
    )
    return np.stack([np.searchsorted(b, v, side) for b, v in rows]).reshape(values.shape)


SEARCHSORTED = Host(
    "searchsorted",
    ("boundaries", "values"),
    numpy=_searched,
    rule=lambda boundaries, values, right: (Aval(values.shape, dt.int64, values.device),),
)
_ordered = np.array([-1.0, 0.2, 0.9, 1.4])


@public(
    samples=lambda: [
        s.call(_ordered, s.values((3, 4)), grad=False),
        s.call(_ordered, s.values((3,)), right=True, grad=False),
        s.call(np.stack([_ordered, _ordered + 1]), s.values((2, 3)), grad=False),
    ]
)
def searchsorted(
    sorted_sequence: Tensor,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Index at which each element would be inserted to keep the (last dimension's) order: int64.
    `sorter` are the indices that sort the sequence."""
    need_order("searchsorted", sorted_sequence.aval)
    right = _right_side(right, side)
    if sorter is not None:
        _check_sorter(sorted_sequence, sorter)
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    values = input if isinstance(input, Tensor) else Tensor._full(input, Aval((), dt.float64))
    rows = sorted_sequence.shape[:-1]
    if sorted_sequence.ndim > 1 and tuple(rows) != tuple(values.shape[:-1]):
        raise RuntimeError(
            "searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions "
            "of boundaries tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(sorted_sequence.shape)} and input value tensor {list(values.shape)}"
        )
    found = apply(SEARCHSORTED, sorted_sequence, values, right=right)
    return found.to(dt.int32) if out_int32 else found


def _right_side(right: bool, side: str | None) -> bool:
    if side not in (None, "left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True"
        )
    return right if side is None else side == "right"


def _check_sorter(sequence: Tensor, sorter: Tensor) -> None:
    if sorter.shape != sequence.shape:
        raise RuntimeError(
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
            f"tensor {list(sequence.shape)} and got sorter tensor {list(sorter.shape)}"
        )
    if sorter.dtype is not dt.int64:
        raise RuntimeError(
            f"torch.searchsorted(): sorter must be a tensor of long dtype but got {sorter.dtype}"
        )


@public(samples=lambda: [s.call(s.values((3, 4)), _ordered, grad=False)])
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False
) -> Tensor:
    """The interval between `boundaries` that each element falls into."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


# ---------------------------------------------------------------------------------- counting
_NEGATIVE = "bincount only supports 1-d non-negative integral inputs."


def _counted(x: Any) -> Any:
    if x.size and x.min() < 0:
        raise RuntimeError(_NEGATIVE)
    return x


BINCOUNT = Dynamic(
    "bincount",
    ("x",),
    numpy=lambda x, least: np.bincount(_counted(x), minlength=least).astype(np.int64),
    rule=lambda n, x, least: (Aval((n,), dt.int64, x.device),),
    most=lambda x, least: None,
    there=dynamic_by_mask.bincount,
    negative=_NEGATIVE,
)
BINCOUNT_WEIGHTED = Dynamic(
    "bincount_weighted",
    ("x", "weights"),
    numpy=lambda x, w, least: np.bincount(_counted(x), w, least).astype(w.dtype),
    rule=lambda n, x, weights, least: (Aval((n,), weights.dtype, x.device),),
    most=lambda x, weights, least: None,
    there=dynamic_by_mask.bincount,
    negative=_NEGATIVE,
)


@public(
    samples=lambda: [
        s.call(np.array([0, 2, 2, 5]), grad=False),
        s.call(np.array([0, 2]), minlength=5, grad=False),
        s.call(np.array([0, 2, 2]), np.array([0.5, 1.0, 2.0]), grad=False),
    ]
)
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Number of occurrences of each non-negative int (or the sum of its weights)."""
    if not is_integral(input):
        raise NotImplementedError(f"\"bincount_cpu\" not implemented for '{input.dtype.name}'")
    if input.ndim != 1:
        raise RuntimeError(_NEGATIVE)
    derived = weights is not None and weights.requires_grad  # which raises
    least: Any = minlength
    known = derived or not input.shape[0] or type(least) is not SymNumber
    if known and minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        raise RuntimeError("weights should be 1-d and have the same length as input")
    if weights is not None and weights.dtype is not dt.float32:
        weights = weights.to(dt.float64)
    if not known:  # but by the run
        size, values = dynamic_by_mask.bincount(input, weights, least=minlength)
        holds: Any = (size.clamp(max=minlength) >= 0)._array
        holds.storage.tracer.check("bincount: no negative input or minlength", holds.read())
        return cast("Tensor", values(size.clamp(min=0).item()))
    if weights is None:
        return find(BINCOUNT, input, least=minlength)
    return find(BINCOUNT_WEIGHTED, input, weights, least=minlength)


HISTC = Host(
    "histc",
    ("x",),
    stops=True,
    numpy=lambda x, bins, low, high: np.histogram(
        x.astype(dt.from_numpy(x.dtype).compute.np, copy=False), bins, (low, high)
    )[0],
    rule=lambda x, bins, low, high: (Aval((bins,), x.dtype, x.device),),
)


@public(samples=lambda: [s.call(s.values((20,)), 5, -1.0, 2.0, grad=False)])
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts in equal bins of [min, max]; both 0 stand for the extremes of the data."""
    if not input.dtype.is_floating_point:
        raise NotImplementedError(f"\"histogram_cpu\" not implemented for '{input.dtype.name}'")
    if bins <= 0:
        raise RuntimeError(f"histc(): bins must be > 0, but got {bins}")
    if min == 0 and max == 0 and not input.numel():
        return input.new_zeros(bins)
    if min == 0 and max == 0:
        min, max = input.min().item(), input.max().item()
    if not (math.isfinite(min) and math.isfinite(max)):
        raise RuntimeError(f"histc(): range of [{min}, {max}] is not finite")
    if min > max:
        raise RuntimeError("histc(): max must be larger than min")
    return apply(HISTC, input, bins=bins, low=float(min), high=float(max))


# ----------------------------------------------------------------------------------- unique
def _unique(x: Any, dim: int | None) -> Any:
    values, inverse, counts = np.unique(
        x, return_inverse=True, return_counts=True, axis=dim, equal_nan=False
    )
    shape = x.shape if dim is None else (-1,)
    return values, inverse.reshape(shape).astype(np.int64), counts.astype(np.int64)


def _runs(x: Any, dim: int | None) -> Any:
    """Runs of equal neighbours along `dim` (of the flattened array for None)."""
    flat = x.reshape(-1) if dim is None else np.moveaxis(x, dim, 0)
    n = flat.shape[0]
    rows = flat.reshape(n, math.prod(flat.shape[1:]))
    starts = np.concatenate([[True], (rows[1:] != rows[:-1]).any(1)])[:n]
    places = np.flatnonzero(starts)
    counts = np.diff(np.concatenate([places, [n]]))
    inverse = np.cumsum(starts) - 1
    values = flat[places] if dim is None else np.moveaxis(flat[places], 0, dim)
    return values, inverse.reshape(x.shape if dim is None else (-1,)), counts


def _distinct(n: Any, x: Aval, dim: int | None) -> tuple[Aval, ...]:
    """The distinct elements, or slices; where each went; how often each is."""
    shape = (n,) if dim is None else (*x.shape[:dim], n, *x.shape[dim + 1 :])
    places = x.shape if dim is None else (x.shape[dim],)
    return (
        Aval(shape, x.dtype, x.device),
        Aval(places, dt.int64, x.device),
        Aval((n,), dt.int64, x.device),
    )


def _most_distinct(x: Aval, dim: int | None) -> Any:
    return x.numel if dim is None else x.shape[dim]


UNIQUE = Dynamic(
    "unique", ("x",), n_outputs=3, numpy=_unique, rule=_distinct, most=_most_distinct,
    there=dynamic_by_mask.unique,
)  # fmt: skip
RUNS = Dynamic(
    "unique_consecutive", ("x",), n_outputs=3, numpy=_runs, rule=_distinct, most=_most_distinct,
    there=dynamic_by_mask.runs,
)  # fmt: skip


def _chosen(found: Any, return_inverse: bool, return_counts: bool) -> Any:
    values, inverse, counts = found
    if not return_inverse and not return_counts:
        return values
    return (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))


_repeated = np.array([[3, 1, 3], [1, 1, 2]])


@public(
    samples=lambda: [
        s.call(_repeated, grad=False),
        s.call(_repeated, return_inverse=True, return_counts=True, grad=False),
        s.call(_repeated, dim=0, grad=False),
    ]
)
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements (or slices along `dim`), sorted; and where each went, how often it
    is."""
    need_order("unique", input.aval)
    d = None if dim is None else norm_dim(dim, input.ndim, "unique")
    return _chosen(find(UNIQUE, input, dim=d), return_inverse, return_counts)


@public(
    samples=lambda: [
        s.call(np.array([1, 1, 2, 2, 2, 1]), grad=False),
        s.call(np.array([1, 1, 2, 1]), return_inverse=True, return_counts=True, grad=False),
    ]
)
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The elements without repetitions of their neighbours."""
    need_order("unique", input.aval)
    d = None if dim is None else norm_dim(dim, input.ndim, "unique_consecutive")
    return _chosen(find(RUNS, input, dim=d), return_inverse, return_counts)


# -------------------------------------------------------------------------------- membership
@public(samples=lambda: [s.call(_repeated, np.array([1, 7]), grad=False)], method=False)
def isin(elements: Any, test_elements: Any, *, invert: bool = False) -> Tensor:
    """Bool tensor: true where an element is among `test_elements`; one of them may be a number."""
    require_tensors("isin", "one", (elements, test_elements))
    flat = test_elements.reshape(-1) if isinstance(test_elements, Tensor) else test_elements
    if isinstance(flat, Tensor):
        each = elements.unsqueeze(-1) if isinstance(elements, Tensor) else elements
        found: Tensor = (flat == each).any(-1)
    else:
        found = elements == flat
    return ~found if invert else found


@public(method=True, samples=None)
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> bool:
    """True if all elements are close (see `isclose`): a Python bool. RuntimeError for two
    dtypes."""
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype} did not match {other.dtype}")
    return bool(input.isclose(other, rtol, atol, equal_nan).all())


@public(
    method=False,
    samples=lambda: [
        s.call(s.integers((2, 4), 0, 60), (3, 4, 5)),
        s.call(s.integers((4,), 0, 7), 7),
    ],
)
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The places in `shape` that flat indices name, one tensor per dimension. ValueError for
    indices that are no ints."""
    if indices.dtype.category is not dt.INT:
        raise ValueError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    places, rest = [], indices.to(dt.int64)
    for size in reversed(sizes):
        places.append(rest % size)
        rest = rest // size
    return tuple(reversed(places))
