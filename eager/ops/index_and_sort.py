"""Composites over `index` and `sort`: what users call to pick, write and order elements. tensors ->
ops -> tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.compat_warnings import warn_once
from eager.base.dtype import DType
from eager.core import return_types
from eager.core.dispatch import apply
from eager.core.op import Sample
from eager.core.registry import Out, public
from eager.core.tensor import Tensor
from eager.device import CPU
from eager.ops import samples as s
from eager.ops.create import IOTA, made
from eager.ops.define import not_for
from eager.ops.index import GATHER, INDEX_ADD, INDEX_PUT, SCATTER, TAKE, scatter_by
from eager.ops.kinds import need_order
from eager.ops.pointwise import where
from eager.ops.sort import SORT
from eager.ops.view import constant, norm_dim
from eager.sizes.aval import Aval
from eager.sizes.symint import integer


def iota(n: int, dtype: DType = dt.int64, *, like: Tensor | None = None) -> Tensor:
    """0 .. n-1, beside a tensor."""
    return made(IOTA, place=CPU if like is None else like.device, shape=(n,), dtype=dtype)


def iota_along(dim: int, ndim: int, n: int, *, like: Tensor | None = None) -> Tensor:
    """0 .. n-1 along `dim` of `ndim` dimensions, to broadcast against a tensor."""
    return iota(n, like=like).reshape([n if d == dim else 1 for d in range(ndim)])


# --------------------------------------------------------------------------------- picking
@public(
    out=Out(overlap="none", exact=True),
    samples=lambda: [
        Sample((s.values((3, 4)), 1, s.integers((3, 1), 0, 4))),
        Sample((s.values((3, 4)), 0, s.integers((2, 3), 0, 3))),
    ],
)
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """out[i][j] = input[index[i][j]][j] for dim 0. RuntimeError for an index out of range."""
    if sparse_grad:
        warn_once("gather sparse", "gather: sparse_grad=True: the gradient is dense")
    d = norm_dim(dim, input.ndim, "gather")
    if index.ndim != input.ndim and index.numel() == 0:
        return input.reshape(-1)[:0].reshape(index.shape)
    if not input.ndim and index.ndim == 1:
        return apply(GATHER, input.reshape(1), index, dim=0)
    return apply(GATHER, input, index, dim=d)


@public(
    out=Out(overlap="none", exact=True),
    samples=lambda: [
        Sample((s.values((3, 4)), 1, s.integers((5,), 0, 4))),
        Sample((s.values((3, 4)), 0, s.integers((2,), 0, 3))),
    ],
)
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of `input` along `dim` that the one-dimensional `index` names."""
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if not input.ndim:
        return input.clone()
    return apply(TAKE, input, index.reshape(-1), dim=norm_dim(dim, input.ndim, "index_select"))


@public(
    out=Out(overlap="none", exact=True),
    samples=lambda: [Sample((s.values((3, 4)), s.integers((2, 3), -12, 12)))],
)
def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened `input`; of the shape of `index`. Negative indices count from the
    end."""
    flat = input.reshape(-1)
    index = where(index < 0, index + flat.shape[0], index)
    return apply(TAKE, flat, index, dim=0)


@public(samples=lambda: [Sample((s.values((3, 4)), s.integers((3, 2), 0, 4), 1))])
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with broadcasting, and negative indices from the end; over the flattened input when
    `dim` is None."""
    if indices.dtype not in (dt.int32, dt.int64):
        raise RuntimeError(
            f"take_along_dim(): dtype of indices should be int32 or int64 but got {indices.dtype}"
        )
    indices = indices.to(dt.int64)
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1))
    d = norm_dim(dim, input.ndim, "take_along_dim")
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    shape = [
        max(n, m) if i != d else n
        for i, (n, m) in enumerate(zip(input.shape, indices.shape, strict=True))
    ]
    indices = where(indices < 0, indices + input.shape[d], indices)
    full = [m if i == d else n for i, (n, m) in enumerate(zip(shape, indices.shape, strict=True))]
    return gather(input.expand(shape), d, indices.expand(full))


# --------------------------------------------------------------------------------- writing
_REDUCE = {
    None: "set",
    "add": "add",
    "sum": "add",
    "multiply": "prod",
    "prod": "prod",
    "amax": "amax",
    "amin": "amin",
}


def _source(src: Any, input: Tensor, index: Tensor) -> Tensor:
    """A number stands for a tensor of it."""
    if isinstance(src, Tensor):
        return src
    return Tensor._full(src, Aval(tuple(index.shape), input.dtype, str(input.device)))


@public(
    out=Out(overlap="none"),
    inplace=True,
    samples=lambda: [
        Sample((s.values((3, 4)), 1, np.array([[0, 2], [3, 1], [1, 0]]), s.values((3, 2))))
    ],
)
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    """`input` with src[i][j] written at [index[i][j]][j] (dim 0), or combined with what is there by
    `reduce`."""
    if reduce not in (None, "add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    source = _source(value if src is None else src, input, index)
    d = norm_dim(dim, input.ndim, "scatter")
    how = _REDUCE[reduce]
    return apply(scatter_by(how), input, index, source, dim=d, reduce=how)


@public(
    out=Out(overlap="none"),
    inplace=True,
    samples=lambda: [Sample((s.values((3, 4)), 1, s.integers((3, 5), 0, 4), s.values((3, 5))))],
    on_gpus="widest",
)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with src[i][j] added at [index[i][j]][j] (dim 0)."""
    return apply(
        SCATTER, input, index, src, dim=norm_dim(dim, input.ndim, "scatter_add"), reduce="add"
    )


@public(
    inplace=True,
    samples=lambda: [
        Sample(
            (s.values((3, 4)), 1, s.integers((3, 5), 0, 4), s.values((3, 5), 0.3, 2.1, 1), how),
            {"include_self": own},
        )
        for how in ("sum", "mean", "amax", "amin")
        for own in (True, False)
    ],
)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """`scatter` with reduce in sum, prod, mean, amax, amin. Without `include_self` only `src`
    counts where it lands."""
    d = norm_dim(dim, input.ndim, "scatter_reduce")
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError("reduce argument must be either sum, prod, mean, amax or amin.")
    if reduce in ("amax", "amin"):
        need_order("scatter_reduce", input.aval)
    base = input if include_self else _reset(input, d, index, reduce)
    if reduce != "mean":
        how = _REDUCE[reduce]
        return apply(scatter_by(how), base, index, src, dim=d, reduce=how)
    total = apply(SCATTER, base, index, src, dim=d, reduce="add")
    counted = dt.real_of(input.dtype)
    ones = Tensor._full(1, Aval(tuple(index.shape), counted, str(input.device)))
    start = Tensor._full(
        1 if include_self else 0, Aval(tuple(input.shape), counted, str(input.device))
    )
    count = apply(SCATTER, start, index, ones, dim=d, reduce="add").clamp(min=1)
    return (
        total / count
        if input.dtype.category >= dt.FLOAT
        else total.div(count, rounding_mode="floor")
    )


def _reset(input: Tensor, dim: int, index: Tensor, reduce: str) -> Tensor:
    """`input` with the neutral element of `reduce` where something will be written."""
    if reduce in (
        "amax",
        "amin",
    ):  # any value that is written is neutral to itself: the worst one is safe
        info = dt_limits(input.dtype)
        neutral = info[0] if reduce == "amax" else info[1]
    else:
        neutral = 1 if reduce == "prod" else 0
    return scatter(input, dim, index, value=neutral)


def dt_limits(dtype: DType) -> tuple[Any, Any]:
    """The lowest and highest value of a type (infinities for floating types)."""
    if dtype.category >= dt.FLOAT:
        return float("-inf"), float("inf")
    if dtype is dt.bool_:
        return False, True
    bits = dtype.itemsize * 8
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed else (0, (1 << bits) - 1)


@public(
    inplace=True,
    samples=lambda: [
        Sample((s.values((3, 4)), 0, np.array([2, 0, 2]), s.values((3, 4), seed=1)), {"alpha": 2.0})
    ],
)
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    """`input` with `alpha` times the slices of `source` added at the slices `index` names along
    `dim`."""
    source = source if alpha == 1 else source * alpha
    d = norm_dim(dim, input.ndim, "index_add")
    if not input.ndim:
        return apply(
            INDEX_ADD, input.reshape(1), index.reshape(-1), source.reshape(-1), dim=0
        ).reshape(())
    return apply(INDEX_ADD, input, index.reshape(-1), source, dim=d)


@public(
    inplace=True,
    samples=lambda: [Sample((s.values((3, 4)), 1, np.array([2, 0]), s.values((3, 2), seed=1)))],
)
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` with the slices `index` names along `dim` replaced by those of `source`."""
    if source.ndim and index.numel() != source.shape[norm_dim(dim, source.ndim, "index_copy")]:
        raise IndexError(
            f"index_copy_(): Number of indices ({index.numel()}) should be equal to "
            f"source.size(dim) ({source.shape[dim]})"
        )
    return _put_slices(input, norm_dim(dim, input.ndim, "index_copy"), index, source)


@public(inplace=True, samples=lambda: [Sample((s.values((3, 4)), 1, np.array([2, 0]), 0.5))])
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """`input` with the slices `index` names along `dim` filled with a number or 0-d tensor."""
    if index.dtype.category != dt.INT:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    d = norm_dim(dim, input.ndim, "index_fill")
    complex_value = value.dtype.is_complex if isinstance(value, Tensor) else type(value) is complex
    if complex_value and not input.dtype.is_complex:
        raise RuntimeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported"
        )
    if not isinstance(value, Tensor):
        full = Tensor._full(value, Aval((), input.dtype, str(input.device)))
        return _put_slices(input, d, index, full)
    if value.ndim:
        raise RuntimeError(
            "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    # An index that is named twice is filled once: so counts its gradient.
    n = input.shape[d] if input.ndim else 1
    plain = Tensor._full(False, Aval((n,), dt.bool_, str(input.device)))
    filled = _put_slices(plain, 0, index, Tensor._full(True, Aval((), dt.bool_)))
    shape = [n if i == d else 1 for i in range(input.ndim)]
    return where(filled.reshape(shape), value.to(input.dtype), input)


def _put_slices(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    x = input if input.ndim else input.reshape(1)
    out = apply(INDEX_PUT, x, source, index.reshape(-1), dims=(dim,), accumulate=False)
    return out if input.ndim else out.reshape(())


@public(
    inplace=True,
    samples=lambda: [
        Sample((s.values((3, 4)), 1, np.array([2, 0, 2]), s.values((3, 3), 0.3, 2.1, 1), how))
        for how in ("prod", "mean", "amax", "amin")
    ],
)
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Tensor:
    """`input` with the slices of `source` combined into the slices that `index` names along `dim`
    by prod, mean, amax or amin."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    if index.ndim > 1 or index.dtype not in (dt.int64, dt.int32):
        raise IndexError("index_reduce(): Index is supposed to be a vector of int32 or int64")
    x, src = (t if t.ndim else t.reshape(1) for t in (input, source))
    d = norm_dim(dim, x.ndim, "index_reduce")
    along = [-1 if i == d else 1 for i in range(x.ndim)]
    places = index.to(dt.int64).reshape(along).expand(src.shape)
    out = scatter_reduce(x, d, places, src, reduce, include_self=include_self)
    return out.reshape(input.shape)


@public(
    inplace=True,
    samples=lambda: [
        Sample((s.values((3, 4)), np.array([1, -2, 5]), s.values((3,), seed=1), add))
        for add in (False, True)
    ],
)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """`input`, flattened, with `source` written (or added) where `index` says."""
    if index.numel() != source.numel():
        raise RuntimeError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel()}, index.numel() = {index.numel()}"
        )
    places, values = index.reshape(-1), source.reshape(-1)
    flat = apply(
        INDEX_PUT, input.reshape(-1), values, places, dims=(0,), accumulate=bool(accumulate)
    )
    return flat.reshape(input.shape)


@public(inplace=True, samples=lambda: [Sample((s.values((3, 4, 2)), 2, 1, 1.5))], on_gpus="full")
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """`input` with its slices along `dim` that have a p-norm above `maxnorm` scaled down to it."""
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions"
        )
    d = norm_dim(dim, input.ndim, "renorm")
    length = input.norm(p, [i for i in range(input.ndim) if i != d], keepdim=True)
    return input * where(length > maxnorm, maxnorm / (length + 1e-7), 1.0)


# -------------------------------------------------------------------------------- ordering
@public(
    samples=lambda: [
        Sample((s.values((3, 4)),)),
        Sample((s.values((3, 4)), 0, True)),
        Sample((np.array([1.0, np.nan, 0.0]),), grad=False),
    ]
)
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    """Sorted along `dim` (always stably), with the indices. NaN counts as the largest value."""
    return return_types.sort(*sorted_along(input, dim, descending, "sort"))


def sorted_along(
    input: Tensor, dim: int, descending: bool, name: str, keep: int | None = None
) -> tuple[Tensor, Tensor]:
    """(values, indices) of the op `sort`, called by the public function `name`."""
    attrs = {} if keep is None or not input.ndim else {"keep": keep}
    d = norm_dim(dim, input.ndim, name)
    return apply(SORT, input, dim=d, descending=bool(descending), **attrs)


@public(samples=lambda: [Sample((s.values((3, 4)),)), Sample((s.values((3, 4)), 0, True))])
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """The indices that sort `input` along `dim`."""
    return sorted_along(input, dim, descending, "argsort")[1]


@public(samples=lambda: [Sample((s.values((3, 4)),))])
def msort(input: Tensor) -> Tensor:
    """Sorted along the first dimension."""
    return sorted_along(input, 0, False, "msort")[0]


@public(samples=lambda: [Sample((s.values((3, 4)), 2)), Sample((s.values((3, 4)), 2, 0, False))])
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k largest (or smallest) elements along `dim`, in order. RuntimeError when there are fewer
    than k."""
    not_for("topk", dt.BOOL)([input.aval])
    k, d = integer(k), norm_dim(dim, input.ndim, "topk")
    if not 0 <= k <= (input.shape[d] if input.ndim else 1):
        raise RuntimeError("topk(): selected index k out of range")
    return return_types.topk(*sorted_along(input, d, largest, "topk", k))


@public(
    out=Out(overlap="none"),
    samples=lambda: [Sample((s.values((3, 4)), 2)), Sample((s.values((3, 4)), 3, 0, True))],
)
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest element along `dim` (counted from 1), and its index."""
    not_for("kthvalue", dt.BOOL)([input.aval])
    k, d = integer(k), norm_dim(dim, input.ndim, "kthvalue")
    if not 1 <= k <= (input.shape[d] if input.ndim else 1):
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(d))
    values, indices = sorted_along(input, d, False, "kthvalue", k)
    found = pick(values, indices, d, k - 1, keepdim)
    return return_types.kthvalue(*(each.clone() for each in found))  # views keep all


def pick(
    values: Tensor, indices: Tensor, dim: int, at: int, keepdim: bool
) -> tuple[Tensor, Tensor]:
    if not values.ndim:
        return values, indices
    if keepdim:
        return values.narrow(dim, at, 1), indices.narrow(dim, at, 1)
    return values.select(dim, at), indices.select(dim, at)


@public(
    samples=lambda: [
        Sample((s.values((3, 4)),)),
        Sample((s.values((3, 4)), 1)),
        Sample((np.array([1.0, np.nan, 0.0]), 0), grad=False),
    ]
)
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median of all elements, or (values, indices) along `dim`. NaN wins."""
    not_for("median", dt.BOOL)([input.aval])
    if dim is None:
        if not input.numel():
            return input.sum() / 0  # NaN
        return shared(input, median(input.reshape(-1), 0).values)
    d = norm_dim(dim, input.ndim, "median")
    values, indices = sorted_along(input, d, False, "median")
    if not input.ndim:
        return return_types.median(values, indices)
    n = input.shape[d]
    middle = pick(values, indices, d, (n - 1) // 2, keepdim)
    last = pick(values, indices, d, n - 1, keepdim)  # NaN, if there is one, is sorted last
    nan = last[0] != last[0]
    return return_types.median(*(where(nan, a, b) for a, b in zip(last, middle, strict=True)))


def shared(input: Tensor, chosen: Tensor) -> Tensor:
    """`chosen`, one of the elements of `input`, by a way on which all that equal it share the
    gradient evenly; `chosen` itself where it is NaN."""
    if not input.dtype.is_floating_point:
        return chosen
    largest = where(input <= constant(chosen), input, -math.inf).amax()
    return where(chosen == chosen, largest, chosen)
