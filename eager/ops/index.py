"""Ops of kind `index`: reads and writes at places given by integer tensors. gather, take, scatter
... -> tensors.

In the graph writes are pure: `scatter`, `index_add` and `index_put` return a new tensor. Every
index is checked: IndexError names the op, the index and the size. Only `index` and `index_put`
(advanced indexing) read negative indices as counted from the end.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from eager.base import dtype as dt
from eager.core.dispatch import apply
from eager.core.op import REGISTRY, Attrs, Op
from eager.core.tensor import Tensor
from eager.ops import index_kernels as kernels
from eager.sizes.aval import Aval, broadcast_shapes


class Index(Op):
    """Base: refuses index tensors that are not integers."""

    kind: ClassVar[str] = "index"
    element: ClassVar[Any] = None  # an `Element`; those that write are routines of the backends

    def integer(self, *indices: Aval) -> None:
        for index in indices:
            if index.dtype.category != dt.INT:
                raise (RuntimeError if self.name in ("gather", "scatter", "take") else IndexError)(
                    f"{self.name}: tensors used as indices must be integer tensors, got {index!r}"
                )

    def same_dtype(self, x: Aval, src: Aval) -> None:
        if x.dtype is not src.dtype:
            raise RuntimeError(
                f"{self.name}: expected the source to have the dtype of the tensor that is "
                "written, "
                f"got {src!r} for {x!r}"
            )


class Gather(Index):
    """gather(x, index; dim): out[i][j] = x[index[i][j]][j] for dim=0; index may be smaller than x
    elsewhere."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        x, index = avals
        self.integer(index)
        _check_extents("gather", index, x, attrs["dim"])
        return (Aval(index.shape, x.dtype, x.device),)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        x, index = arrays
        dim = attrs["dim"]
        if not x.ndim:
            kernels.check_bounds("gather", index, 1, 0, negative=False)
            return (x.copy(),)
        kernels.check_bounds("gather", index, x.shape[dim], dim, negative=False)
        inner = tuple(slice(n) if d != dim else slice(None) for d, n in enumerate(index.shape))
        found = np.take_along_axis(x[inner], index.astype(np.int64, copy=False), dim)
        return (np.asarray(found, order="C"),)  # NumPy's lies as the index does

    @staticmethod
    def element(m: Any, at: tuple[Any, ...], xs: tuple[Any, ...], attrs: Attrs) -> Any:
        (x, index), dim = xs, attrs["dim"]
        chosen = m.looked_up(index, at, dim, x.shape[dim])
        return x[(*at[:dim], chosen, *at[dim + 1 :])]


def _check_extents(name: str, index: Aval, x: Aval, dim: int) -> None:
    """Other dimensions of an index must fit into x's."""
    small = index.ndim == x.ndim and all(
        d == dim or i <= s for d, (i, s) in enumerate(zip(index.shape, x.shape, strict=True))
    )
    if not small:
        raise RuntimeError(
            f"{name}: index of shape {index.shape} must have as many dimensions as the tensor of "
            "shape "
            f"{x.shape}, and no larger ones apart from dimension {dim}"
        )


def _zeros(shape: tuple[int, ...], like: Tensor) -> Tensor:
    return Tensor._full(0, Aval(tuple(shape), like.dtype, str(like.device)))


def _one_hot(g: Any, index: Any, size: int, dim: int) -> Any:
    """g where `index` (of size 1 along dim) equals the position along dim, 0 elsewhere: a scatter
    that fuses."""
    along = [1] * index.ndim
    along[dim] = size
    where = {} if index.is_cpu else {"device": str(index.device)}
    places = apply(REGISTRY["iota"], shape=(size,), dtype=dt.int64, **where).reshape(along)
    return apply(REGISTRY["where"], places == index, g, 0.0)


def _gather_vjp(g: Any, index: Any, avals: Any, dim: int) -> tuple[Any, ...]:
    shape = avals[0].shape
    if shape and index.shape == (*shape[:dim], 1, *shape[dim + 1 :]):
        return _one_hot(g, index, shape[dim], dim), None
    return apply(SCATTER, _zeros(shape, g), index, g, dim=dim, reduce="add"), None


GATHER = Gather("gather", ("x", "index"), vjp=_gather_vjp, by_parts=True)


class Take(Index):
    """take(x, index; dim): slices of x along dim; out = x.shape[:dim] + index.shape +
    x.shape[dim+1:]."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        x, index = avals
        self.integer(index)
        dim = attrs["dim"]
        return (Aval((*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]), x.dtype, x.device),)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        x, index = arrays
        dim = attrs["dim"]
        kernels.check_bounds("take", index, x.shape[dim], dim, negative=False)
        return (np.take(x, index.astype(np.int64, copy=False), dim),)

    @staticmethod
    def element(m: Any, at: tuple[Any, ...], xs: tuple[Any, ...], attrs: Attrs) -> Any:
        (x, index), dim = xs, attrs["dim"]
        end = dim + index.ndim
        chosen = m.looked_up(index, at[dim:end], dim, x.shape[dim])
        return x[(*at[:dim], chosen, *at[end:])]


def _take_vjp(g: Any, index: Any, avals: Any, dim: int) -> tuple[Any, ...]:
    shape = avals[0].shape
    rows = g.reshape((*shape[:dim], index.numel(), *shape[dim + 1 :]))
    return apply(INDEX_ADD, _zeros(shape, g), index.reshape((-1,)), rows, dim=dim), None


TAKE = Take("take", ("x", "index"), vjp=_take_vjp, by_parts=True)


class Scatter(Index):
    """scatter(x, index, src; dim, reduce): x with src[i][j] combined in at [index[i][j]][j]
    (dim=0).

    reduce: "set" (the last of several writes to a place stays), "add", "prod", "amax", "amin"."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        x, index, src = avals
        self.integer(index)
        self.same_dtype(x, src)
        _check_extents("scatter", index, x, attrs["dim"])
        _check_extents("scatter", index, src, -1)
        return (x,)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        x, index, src = arrays
        dim = attrs["dim"]
        out = x.copy(order="C")
        values = src[tuple(slice(n) for n in index.shape)]
        if not x.ndim:
            kernels.check_bounds("scatter", index, 1, 0, negative=False)
            flat = np.zeros(1, np.int64)
        else:
            kernels.check_bounds("scatter", index, x.shape[dim], dim, negative=False)
            flat = kernels.flat_positions(x.shape, index, dim)
        kernels.combine_at(out, flat, values, attrs["reduce"])
        return (out,)


def _scatter_vjp(g: Any, index: Any, avals: Any, dim: int, reduce: str) -> tuple[Any, ...]:
    own = g
    if reduce == "set":
        own = apply(SCATTER, g, index, _zeros(index.shape, g), dim=dim, reduce="set")
    return own, None, _fill_up(apply(GATHER, g, index, dim=dim), avals[2].shape)


def _scatter_reduce_vjp(
    g: Any, out: Any, x: Any, index: Any, src: Any, dim: int, reduce: str
) -> tuple[Any, ...]:
    inner = _cut(src, index.shape)
    if reduce == "prod":
        own, theirs = _prod_slopes(g, out, x, index, inner, dim)
        return own, None, _fill_up(theirs, src.shape)
    return _extremum_vjp(g, out, x, index, inner, src.shape, dim)


def _prod_slopes(g: Any, out: Any, x: Any, index: Any, src: Any, dim: int) -> tuple[Any, Any]:
    """The others' product: the whole by the factor, or, where the factor is zero, the product
    with 1 in its place; 0 beside another zero."""
    where = REGISTRY["where"]
    place = {"dim": dim, "reduce": "prod"}
    factor = apply(where, x == 0, 1.0, x)
    own = g * apply(SCATTER_REDUCE, factor, index, src, **place) / factor
    zero = src == 0
    zeros = apply(SCATTER, _zeros(x.shape, g), index, zero.to(g.dtype), dim=dim, reduce="add")
    single = zero & (apply(GATHER, zeros, index, dim=dim) == 1)
    others = apply(SCATTER_REDUCE, x, index, apply(where, single, 1.0, src), **place)
    whole = apply(GATHER, g * out, index, dim=dim) / apply(where, zero, 1.0, src)
    return own, apply(where, single, apply(GATHER, g * others, index, dim=dim), whole)


def _extremum_vjp(
    g: Any, out: Any, x: Any, index: Any, src: Any, src_shape: tuple[int, ...], dim: int
) -> tuple[Any, ...]:
    """amax and amin: the gradient is shared equally by all that reached the extremum."""
    own = (x == out).to(g.dtype)
    theirs = (src == apply(GATHER, out, index, dim=dim)).to(g.dtype)
    share = g / apply(SCATTER, own, index, theirs, dim=dim, reduce="add")
    return own * share, None, _fill_up(theirs * apply(GATHER, share, index, dim=dim), src_shape)


def _cut(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else x[tuple(slice(n) for n in shape)]


def _fill_up(x: Any, shape: tuple[int, ...]) -> Any:
    """x with zeros appended up to `shape`: what the index did not reach has no gradient."""
    if x.shape == shape:
        return x
    pads = tuple((0, want - have) for want, have in zip(shape, x.shape, strict=True))
    return apply(REGISTRY["pad"], x, 0.0, pads=pads)


# Two ops, because only the second one's derivative keeps its operands and its result.
SCATTER = Scatter("scatter", ("x", "index", "src"), vjp=_scatter_vjp, by_parts=True)
SCATTER_REDUCE = Scatter("scatter_reduce", ("x", "index", "src"), vjp=_scatter_reduce_vjp)


def scatter_by(reduce: str) -> Scatter:
    """The op that combines by `reduce`: set, add; prod, amax, amin."""
    return SCATTER if reduce in ("set", "add") else SCATTER_REDUCE


class IndexAdd(Index):
    """index_add(x, index, src; dim): x with src's slice i added to its slice index[i] along dim;
    index 1-d."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        x, index, src = avals
        dim = attrs["dim"]
        self.integer(index)
        self.same_dtype(x, src)
        if index.ndim != 1 or src.shape != (*x.shape[:dim], index.numel, *x.shape[dim + 1 :]):
            raise RuntimeError(
                f"index_add: index {index.shape} and source {src.shape} do not fit the tensor of "
                "shape "
                f"{x.shape} along dimension {dim}"
            )
        return (x,)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        x, index, src = arrays
        dim = attrs["dim"]
        kernels.check_bounds("index_add", index, x.shape[dim], dim, negative=False)
        wide = outs[0].dtype.compute.np  # 16-bit sums are rounded once
        out = x.astype(wide, order="C", copy=True)
        kernels.add_rows(np.moveaxis(out, dim, 0), index, np.moveaxis(src.astype(wide), dim, 0))
        return (out.astype(outs[0].dtype.np, copy=False),)


def _index_add_vjp(g: Any, index: Any, dim: int) -> tuple[Any, ...]:
    return g, None, apply(TAKE, g, index, dim=dim)


INDEX_ADD = IndexAdd("index_add", ("x", "index", "src"), vjp=_index_add_vjp, by_parts=True)


def _placement(
    name: str, x: Aval, indices: tuple[Aval, ...], dims: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The broadcast shape of the indices, and the result's shape: at the first indexed dimension
    when the indexed dimensions are adjacent, in front otherwise (as NumPy does)."""
    try:
        picked = broadcast_shapes(*(i.shape for i in indices))
    except RuntimeError:
        shapes = ", ".join(str(i.shape) for i in indices)
        raise IndexError(
            f"{name}: shape mismatch: indexing tensors could not be broadcast together with "
            f"shapes {shapes}"
        ) from None
    rest = [n for d, n in enumerate(x.shape) if d not in dims]
    at = start_of(dims)
    return picked, (*rest[:at], *picked, *rest[at:])


def start_of(dims: tuple[int, ...]) -> int:
    """Position in the result of the dimensions that the indices make."""
    return dims[0] if dims == tuple(range(dims[0], dims[0] + len(dims))) else 0


def _numpy_index(
    name: str, x: Any, indices: tuple[Any, ...], dims: tuple[int, ...]
) -> tuple[Any, ...]:
    key: list[Any] = [slice(None)] * x.ndim
    for index, dim in zip(indices, dims, strict=True):
        kernels.check_bounds(name, index, x.shape[dim], dim, negative=True)
        key[dim] = index
    return tuple(key)


class Advanced(Index):
    """index(x, *indices; dims): x at the places the broadcast indices name along `dims`
    (increasing)."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        x, *indices = avals
        self.integer(*indices)
        _, shape = _placement("index", x, tuple(indices), attrs["dims"])
        return (Aval(shape, x.dtype, x.device),)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        x, *indices = arrays
        key = _numpy_index("index", x, tuple(indices), attrs["dims"])
        return (np.ascontiguousarray(x[key]).reshape(outs[0].shape),)

    @staticmethod
    def element(m: Any, at: tuple[Any, ...], xs: tuple[Any, ...], attrs: Attrs) -> Any:
        (x, *indices), dims = xs, attrs["dims"]
        start = start_of(dims)
        end = start + max(i.ndim for i in indices)
        rest = iter((*at[:start], *at[end:]))
        chosen = {
            dim: m.looked_up(index, at[end - index.ndim : end], dim, x.shape[dim], negative=True)
            for dim, index in zip(dims, indices, strict=True)
        }
        return x[tuple(chosen[d] if d in chosen else next(rest) for d in range(x.ndim))]


def _index_vjp(g: Any, avals: Any, indices: Any, dims: tuple[int, ...]) -> tuple[Any, ...]:
    zeros = _zeros(avals[0].shape, g)
    total = apply(INDEX_PUT, zeros, g, *indices, dims=dims, accumulate=True)
    return total, *(None for _ in indices)


INDEX = Advanced("index", ("x", "*indices"), vjp=_index_vjp, by_parts=True)


class IndexPut(Index):
    """index_put(x, value, *indices; dims, accumulate): x with value written (or added) where
    `index` would read.

    `value` broadcasts to the shape `index` would return."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        x, value, *indices = avals
        self.integer(*indices)
        self.same_dtype(x, value)
        _, shape = _placement("index_put", x, tuple(indices), attrs["dims"])
        if broadcast_shapes(value.shape, shape) != shape:
            raise RuntimeError(
                f"shape mismatch: value tensor of shape {value.shape} cannot be broadcast to "
                "indexing "
                f"result of shape {shape}"
            )
        return (x,)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        x, value, *indices = arrays
        key = _numpy_index("index_put", x, tuple(indices), attrs["dims"])
        out = x.copy(order="C")
        if attrs["accumulate"]:
            places = np.arange(x.size).reshape(x.shape)[key]
            values = np.broadcast_to(value, places.shape)
            kernels.combine_at(out, places, np.ascontiguousarray(values), "add")
        else:
            out[key] = value
        return (out,)


def _index_put_vjp(
    g: Any, value: Any, indices: Any, dims: tuple[int, ...], accumulate: bool
) -> tuple[Any, ...]:
    picked = apply(INDEX, g, *indices, dims=dims)
    kept = g
    if not accumulate:
        kept = apply(INDEX_PUT, g, _zeros((), g), *indices, dims=dims, accumulate=False)
    return kept, picked, *(None for _ in indices)


INDEX_PUT = IndexPut("index_put", ("x", "value", "*indices"), vjp=_index_put_vjp, by_parts=True)
