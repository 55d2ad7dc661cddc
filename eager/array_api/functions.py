"""Functions of arrays in the array API standard, but for `linalg` and `fft`. tensors -> tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from eager.array_api.creation import INTEGERS, full, functions, result_type
from eager.base import dtype as dt
from eager.base.dtype import DType, bool_
from eager.core.tensor import Tensor
from eager.sizes.aval import broadcast_shapes

Axis = int | tuple[int, ...] | None

# Functions with the standard's name, arguments and results; on the right PyTorch's name.
_SAME: Final = {
    name: name
    for name in (
        "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_or "
        "bitwise_right_shift bitwise_xor ceil conj copysign cos cosh divide exp expm1 floor "
        "floor_divide hypot imag isfinite isinf isnan log log10 log1p log2 logaddexp logical_and "
        "logical_not logical_or logical_xor maximum minimum multiply nextafter positive pow real "
        "reciprocal remainder round sign signbit sin sinh sqrt square subtract tan tanh trunc "
        "matmul where"
    ).split()
} | {
    "bitwise_invert": "bitwise_not",
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "negative": "neg",
}  # fmt: skip


globals().update({name: getattr(functions, torch) for name, torch in _SAME.items()})

__all__ = [  # noqa: PLE0604
    *_SAME,
    "all", "any", "argmax", "argmin", "argsort", "broadcast_arrays", "broadcast_to", "clip",
    "concat", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "expand_dims", "flip",
    "isin", "matrix_transpose", "max", "mean", "min", "moveaxis", "nonzero", "permute_dims", "prod",
    "repeat", "reshape", "roll", "searchsorted", "sort", "squeeze", "stack", "std", "sum", "take",
    "take_along_axis", "tensordot", "tile", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "unstack", "var", "vecdot",
]  # fmt: skip


# ---- elements


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """Each element within bounds, which are numbers or arrays; of the dtype of `x`."""
    if min is None and max is None:
        return x.clone()
    return functions.clip(x, min, max).to(x.dtype)


# ---- of axes


def axes_of(x: Tensor, axis: Axis) -> tuple[int, ...]:
    """The axes, from 0 on. Raises IndexError for one that `x` has not."""
    if axis is None:
        return tuple(range(x.ndim))
    given = (axis,) if isinstance(axis, int) else axis
    for each in given:
        if not -x.ndim <= each < x.ndim:
            raise IndexError(f"axis {each} of an array with {x.ndim} dimensions")
    return tuple(each % x.ndim for each in given)


def _totals(dtype: DType, asked: DType | None) -> DType:
    """The dtype in which sums and products add up."""
    if asked is not None:
        return asked
    return dt.int64 if dtype in INTEGERS or dtype is bool_ else dtype


def sum(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over axes. () is over none."""
    kind = _totals(x.dtype, dtype)
    axes = axes_of(x, axis)
    return functions.sum(x, axes, keepdims, dtype=kind) if axes else x.to(kind)


def prod(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over axes."""
    out = x.to(_totals(x.dtype, dtype))
    for each in sorted(axes_of(x, axis), reverse=True):
        out = functions.prod(out, each, keepdims)
    return out


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean over axes."""
    axes = axes_of(x, axis)
    return functions.mean(x, axes, keepdims) if axes else x.clone()


def var(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance over axes: the sum of squares divided by n - correction."""
    axes = axes_of(x, axis)
    count = math.prod(x.shape[a] for a in axes)
    divisor = count - correction if count > correction else math.nan  # too few values
    away = x - mean(x, axis=axes, keepdims=True)
    return sum(away * away, axis=axes, keepdims=keepdims) / divisor


def std(
    x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The square root of the variance."""
    return functions.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest value over axes."""
    axes = axes_of(x, axis)
    return functions.amax(x, axes, keepdims) if axes else x.clone()


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest value over axes."""
    axes = axes_of(x, axis)
    return functions.amin(x, axes, keepdims) if axes else x.clone()


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Bool tensor: true where any element over axes is true (not zero)."""
    out = x.to(bool_)
    for each in sorted(axes_of(x, axis), reverse=True):
        out = functions.any(out, each, keepdims)
    return out


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Bool tensor: true where all elements over axes are true (not zero)."""
    return functions.logical_not(any(functions.logical_not(x), axis=axis, keepdims=keepdims))


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Number of elements over axes that are not zero."""
    return sum(x != 0, axis=axis, keepdims=keepdims, dtype=dt.int64)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first largest value, of the flat array where `axis` is None."""
    return _arg_reduce(functions.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The index of the first smallest value, of the flat array where `axis` is None."""
    return _arg_reduce(functions.argmin, x, axis, keepdims)


def _arg_reduce(fn: Any, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    if axis is not None:
        return fn(x, axes_of(x, axis)[0], keepdims)
    out = fn(x)
    return out.reshape((1,) * x.ndim) if keepdims else out


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Sums of the first elements along an axis; `include_initial` puts the empty one first."""
    return _cumulative(functions.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Products of the first elements along an axis; `include_initial` puts the empty one first."""
    return _cumulative(functions.cumprod, 1, x, axis, dtype, include_initial)


def _cumulative(
    fn: Any, first: int, x: Tensor, axis: int | None, dtype: DType | None, include: bool
) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"an axis is needed for an array with {x.ndim} dimensions")
        axis = 0
    (axis,) = axes_of(x, axis)
    out = fn(x.to(_totals(x.dtype, dtype)), axis)
    if not include:
        return out
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return concat((full(shape, first, dtype=out.dtype), out), axis=axis)


def diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Differences of neighbours along an axis, `n` times over."""
    return functions.diff(x, n, axes_of(x, axis)[0], prepend, append)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum of conj(x1) * x2 along an axis."""
    return sum(functions.conj(x1) * x2, axis=axis, dtype=result_type(x1, x2))


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """The sum of products over the last axes of x1 and the first of x2, or over pairs of axes."""
    return functions.tensordot(x1, x2, axes)


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes swapped."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose() of an array with {x.ndim} dimensions")
    return functions.transpose(x, -2, -1)


# ---- order and places


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The values in order along an axis."""
    return functions.sort(x, axes_of(x, axis)[0], descending, stable=stable)[0]


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The places of the values in order along an axis."""
    return functions.argsort(x, axes_of(x, axis)[0], descending, stable=stable)


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Indices at which the values x2 belong in the sorted x1."""
    return functions.searchsorted(x1, x2, side=side, sorter=sorter)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of what is not zero, an array for each axis."""
    if x.ndim == 0:
        raise ValueError("nonzero() of an array without dimensions")
    return tuple(functions.nonzero(x, as_tuple=True))


class UniqueAll(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The distinct values, where each is first, which each element is, and how often each is."""
    values, inverse, counts = functions.unique(x, return_inverse=True, return_counts=True)
    order = functions.argsort(inverse.reshape(-1), stable=True)
    starts = cumulative_sum(counts, include_initial=True)[:-1]
    return UniqueAll(values, order[starts], inverse, counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The distinct values, and how often each is."""
    return UniqueCounts(*functions.unique(x, return_counts=True))


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The distinct values, and which of them each element is."""
    return UniqueInverse(*functions.unique(x, return_inverse=True))


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct values."""
    return functions.unique(x)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Bool tensor: true where an element of x1 is among x2."""
    return functions.isin(x1, x2, invert=invert)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The parts at `indices` (one axis) along an axis."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"an axis is needed for an array with {x.ndim} dimensions")
        axis = 0
    return functions.index_select(x, axes_of(x, axis)[0], _positive(indices, x.shape[axis]))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """The elements at `indices` along an axis, for each place of the others."""
    (axis,) = axes_of(x, axis)
    places = _positive(indices, x.shape[axis])
    together = broadcast_shapes(_without(x, axis), _without(places, axis))
    sizes = [
        (*together[:axis], size, *together[axis:]) for size in (x.shape[axis], indices.shape[axis])
    ]
    return functions.gather(broadcast_to(x, sizes[0]), axis, broadcast_to(places, sizes[1]))


def _without(x: Tensor, axis: int) -> tuple[int, ...]:
    """The shape of the other axes."""
    return (*x.shape[:axis], *x.shape[axis + 1 :])


def _positive(indices: Tensor, size: int) -> Tensor:
    return functions.where(indices < 0, indices + size, indices).to(dt.int64)


# ---- shapes


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """The arrays one after the other along an axis; flat ones where that is None."""
    kind = result_type(*arrays)
    given = [x.reshape(-1) if axis is None else x for x in arrays]
    return functions.cat([x.to(kind) for x in given], 0 if axis is None else axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """The arrays along a new axis."""
    kind = result_type(*arrays)
    return functions.stack([x.to(kind) for x in arrays], axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts along an axis."""
    return tuple(functions.unbind(x, axes_of(x, axis)[0]))


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Another shape of as many elements. ValueError where `copy` is False and it needs one."""
    out = functions.reshape(x, shape)
    if copy is False and out.data_ptr() != x.data_ptr():
        raise ValueError(f"reshape of {tuple(x.shape)} to {tuple(shape)} needs a copy")
    return out.clone() if copy else out


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Without axes of size 1. ValueError for another size."""
    axes = axes_of(x, axis)
    for each in axes:
        if x.shape[each] != 1:
            raise ValueError(f"axis {each} has {x.shape[each]} elements, and is not squeezed")
    return functions.reshape(x, [n for i, n in enumerate(x.shape) if i not in axes])


def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    """A new axis of size 1."""
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"axis {axis} of an array with {x.ndim + 1} dimensions")
    return functions.unsqueeze(x, axis)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The axes in another order."""
    return functions.permute(x, axes)


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """Axes at other places."""
    return functions.moveaxis(x, source, destination)


def flip(x: Tensor, /, *, axis: Axis = None) -> Tensor:
    """Axes backwards: all where `axis` is None."""
    return functions.flip(x, axes_of(x, axis))


def roll(x: Tensor, /, shift: Any, *, axis: Axis = None) -> Tensor:
    """Elements moved along axes, the last ones to the front; all in a row if `axis` is None."""
    if isinstance(axis, tuple) and isinstance(shift, int):
        shift = (shift,) * len(axis)
    return functions.roll(x, shift, None if axis is None else axes_of(x, axis))


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element (along an axis) several times."""
    return functions.repeat_interleave(x, repeats, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The whole array several times along each axis."""
    return functions.tile(x, repetitions)


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """The array in a shape that it is repeated to."""
    return functions.broadcast_to(x, shape)


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """The arrays in the shape that they have together."""
    return tuple(functions.broadcast_tensors(*arrays))
