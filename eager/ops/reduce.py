"""Reductions over dimensions: sums, products, extremes, truth. tensor -> tensor with fewer
dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.core import return_types
from eager.core.casts import full_precision
from eager.core.dispatch import apply
from eager.core.op import Sample, Samples
from eager.core.registry import Out, public
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.kinds import ArgReduce, Reduce
from eager.ops.pointwise import maximum, minimum, where
from eager.ops.view import as_ints, norm_dim, norm_dims
from eager.sizes.aval import Aval
from eager.sizes.symint import integral, is_single


def over_dims(*, empty: bool = True) -> Samples:
    """Calls of a reduction: everything, one dimension, several, kept; 0-dim, empty and
    transposed."""

    def make() -> Any:
        x = s.values((2, 3, 4))
        yield s.call(x)
        yield s.call(x, 1)
        yield s.call(x, (0, 2))
        yield s.call(x, dim=-1, keepdim=True)
        yield s.call(s.values(()))
        yield s.call(x.transpose(2, 0, 1), 0)
        if empty:
            yield s.call(s.values((0, 3)))
            yield s.call(s.values((0, 3)), 0)

    return make


def along_dim(*, grad: bool = True) -> Samples:
    """Calls of a reduction over at most one dimension."""
    return lambda: [
        s.call(s.values((2, 3, 4)), grad=grad),
        s.call(s.values((2, 3, 4)), 1, grad=grad),
        s.call(s.values((2, 3, 4)), dim=-1, keepdim=True, grad=grad),
        s.call(s.values(()), grad=grad),
        s.call(s.integers((3, 4)), 0, grad=False),
    ]


def restore(g: Tensor, aval: Aval, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    """A reduced tensor with its reduced dimensions back as 1, ready to broadcast against the
    operand."""
    if keepdim:
        return g
    return g.reshape(tuple(1 if i in dim else n for i, n in enumerate(aval.shape)))


# ----------------------------------------------------------------------------- sum and product
SUM = Reduce(
    "sum",
    ("x",),
    lambda g, avals, dim, keepdim: (restore(g, avals[0], dim, keepdim).expand(avals[0].shape),),
    monoid="sum",
    by_parts=True,
)


def _prod_vjp(
    g: Tensor, x: Tensor, out: Tensor, avals: Any, dim: Any, keepdim: bool
) -> tuple[Tensor]:
    """g * out / x; beside a single zero the others' product; 0 beside several."""
    zero = x == 0
    zeros = zero.sum(dim, keepdim=True)
    others = apply(PROD, where(zero, 1.0, x), dim=dim, keepdim=True)
    whole = restore(out, avals[0], dim, keepdim) / where(zero, 1.0, x)
    slope = where(zeros == 0, whole, where((zeros == 1) & zero, others, 0.0))
    return (restore(g, avals[0], dim, keepdim) * slope,)


PROD = Reduce("prod", ("x",), _prod_vjp, monoid="prod")


@public(
    out=Out(dtype="decides"),
    samples=s.both(
        over_dims(), lambda: [s.call(s.integers((3, 4)), 1), s.call(s.booleans((3, 4)))]
    ),
    on_gpus="full",
)
def sum(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Sum over `dim` (all by default). Ints and bools give int64; `dtype` converts first."""
    x = input if dtype is None else input.to(dtype)
    out = apply(SUM, x, dim=norm_dims(dim, x.ndim, "sum"), keepdim=keepdim)
    return out if dtype is None else out.to(dtype)  # of small ints it is int64


@public(
    out=Out(dtype="decides"),
    samples=s.both(
        along_dim(),
        lambda: [
            s.call(np.array([[0.0, 1.5], [2.0, 3.0]])),
            s.call(np.array([[0.0, 1.5], [2.0, 0.0]])),
        ],
    ),
    on_gpus="full",
)
@full_precision
def prod(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Product over one dimension, or of everything. Ints and bools give int64."""
    x = input if dtype is None else input.to(dtype)
    dims = norm_dims(dim, x.ndim, "prod")
    out = apply(PROD, x, dim=dims, keepdim=keepdim)
    return out if dtype is None else out.to(dtype)


@public(
    namespace=False, torch="Tensor.sum_to_size", samples=lambda: [s.call(s.values((2, 3)), 1, 3)]
)
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Sum over the dimensions along which `size` was broadcast to this shape."""
    shape = as_ints(size)
    lead = input.ndim - len(shape)
    dims = tuple(range(lead)) + tuple(
        i + lead
        for i, n in enumerate(shape)
        if is_single(n) and not is_single(input.shape[i + lead])
    )
    if input.dtype.category < dt.FLOAT:
        input = input.to(dt.int64)
    out = apply(SUM, input, dim=dims, keepdim=True) if dims else input
    return out.reshape(shape) if tuple(out.shape) != shape else out


# ---------------------------------------------------------------------------------- extremes
def _extreme_vjp(
    g: Tensor, x: Tensor, out: Tensor, avals: Any, dim: Any, keepdim: bool
) -> tuple[Tensor]:
    """The gradient is shared evenly among the elements that attain the extreme."""
    mask = (x == restore(out, avals[0], dim, keepdim)).to(g.dtype)
    return (restore(g, avals[0], dim, keepdim) * (mask / mask.sum(dim, keepdim=True)),)


AMAX = Reduce("amax", ("x",), _extreme_vjp, monoid="max")
AMIN = Reduce("amin", ("x",), _extreme_vjp, monoid="min")
ARGMAX = ArgReduce("argmax", ("x",), monoid="max")
ARGMIN = ArgReduce("argmin", ("x",), monoid="min")


def _some_dims(name: str, input: Tensor, dim: Any) -> None:
    if dim is not None and not isinstance(dim, int) and not dim and not input.numel():
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )


@public(out=Out(exact=True), samples=over_dims(empty=False))
def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Largest element over `dim`; ties share the gradient evenly. NaN wins."""
    _some_dims("amax", input, dim)
    return apply(AMAX, input, dim=norm_dims(dim, input.ndim, "amax"), keepdim=keepdim)


@public(out=Out(exact=True), samples=over_dims(empty=False))
def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Smallest element over `dim`; ties share the gradient evenly. NaN wins."""
    _some_dims("amin", input, dim)
    return apply(AMIN, input, dim=norm_dims(dim, input.ndim, "amin"), keepdim=keepdim)


@public(
    out=Out(exact=True),
    method=True,
    samples=lambda: [s.call(s.values((3, 4))), s.call(s.values((3, 4)), dim=1)],
)
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """(min, max) over one dimension or everything."""
    if dim is None and not input.numel():
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    return return_types.aminmax(
        amin(input, () if dim is None else dim, keepdim),
        amax(input, () if dim is None else dim, keepdim),
    )


def _arg(op: ArgReduce, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    d = None if dim is None else norm_dim(dim, input.ndim, op.name)
    if input.ndim == 0:
        d = None
    return apply(op, input, dim=d, keepdim=keepdim)


@public(out=Out(exact=True), samples=along_dim(grad=False))
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the largest element along `dim`, or in the flattened tensor: int64, the first of
    several."""
    if input.dtype is dt.bool_:
        raise RuntimeError("argmax(): does not support bool input")
    return _arg(ARGMAX, input, dim, keepdim)


@public(out=Out(exact=True), samples=along_dim(grad=False))
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Index of the smallest element along `dim`, or in the flattened tensor: int64, the first of
    several."""
    if input.dtype is dt.bool_:
        raise RuntimeError("argmin(): does not support bool input")
    return _arg(ARGMIN, input, dim, keepdim)


def _extreme(input: Tensor, dim: Any, keepdim: bool, maximal: bool) -> Any:
    if not isinstance(input, Tensor):
        raise TypeError(f"max, min: the input must be Tensor, got {type(input).__name__}")
    if dim is None:
        return amax(input) if maximal else amin(input)
    if isinstance(dim, Tensor):
        return maximum(input, dim) if maximal else minimum(input, dim)
    dim = integral(dim)
    indices = _arg(ARGMAX if maximal else ARGMIN, input, dim, True)
    d = norm_dim(dim, input.ndim, "max" if maximal else "min")
    values = input.gather(d, indices) if input.ndim else input.clone()
    if not keepdim and input.ndim:
        values, indices = values.squeeze(d), indices.squeeze(d)
    kind = return_types.max if maximal else return_types.min
    return kind(values, indices)


def _extremes() -> list[Sample]:
    return [
        s.call(s.values((3, 4))),
        s.call(s.values((3, 4)), 1),
        s.call(s.values((3, 4)), dim=0, keepdim=True),
        s.call(s.values((3, 4)), s.values((4,), seed=1)),
    ]


@public(samples=_extremes)
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """max(x): the largest element; max(x, dim): (values, indices); max(x, y): elementwise."""
    return _extreme(input, dim if other is None else other, keepdim, True)


@public(samples=_extremes)
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """min(x): the smallest element; min(x, dim): (values, indices); min(x, y): elementwise."""
    return _extreme(input, dim if other is None else other, keepdim, False)


# ------------------------------------------------------------------------------------- truth
ANY = Reduce("any", ("x",), monoid="any")
ALL = Reduce("all", ("x",), monoid="all")


def _truths() -> list[Sample]:
    return [
        s.call(s.booleans((3, 4)), grad=False),
        s.call(s.booleans((3, 4)), 1, grad=False),
        s.call(s.integers((3, 4)), 0, keepdim=True, grad=False),
        s.call(s.booleans((0, 2)), grad=False),
        s.call(s.values((3, 4)), grad=False),
        s.call(np.array([[0, 1], [2, 3]], np.uint8), 1, grad=False),
    ]


@public(samples=_truths)
def any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """True where any element over `dim` is not zero: bool, or uint8 of uint8."""
    return _truth(ANY, input, dim, keepdim)


@public(samples=_truths)
def all(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """True where no element over `dim` is zero: bool, or uint8 of uint8."""
    return _truth(ALL, input, dim, keepdim)


def _truth(op: Reduce, input: Tensor, dim: Any, keepdim: bool) -> Tensor:
    out = apply(op, input, dim=norm_dims(dim, input.ndim, op.name), keepdim=keepdim)
    return out.to(dt.uint8) if input.dtype is dt.uint8 else out


@public(
    samples=lambda: [
        s.call(s.integers((3, 4)), grad=False),
        s.call(s.integers((3, 4)), 1, grad=False),
    ]
)
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    return sum(input != 0, dim)


@public(
    out=Out(dtype="checked"),
    samples=lambda: [s.call(np.array([1.0, float("nan"), 3.0]), grad=False)],
)
def nansum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """`sum` with NaN counted as 0."""
    return sum(where(input != input, 0, input), dim, keepdim, dtype=dtype)


@public(
    out=Out(dtype="checked"),
    samples=lambda: [s.call(np.array([1.0, float("nan"), 3.0]), grad=False)],
)
def nanmean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Mean of the elements that are not NaN."""
    if input.dtype.category < dt.FLOAT:
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{input.dtype}"
        )
    counted = sum(input == input, dim, keepdim)
    return nansum(input, dim, keepdim, dtype=dtype) / counted


@public(method=False, samples=lambda: [s.call(s.values((3,)), s.values((3,)), grad=False)])
def equal(input: Tensor, other: Tensor) -> bool:
    """True if both have the same shape and elements: a Python bool."""
    if input.shape != other.shape:
        return False
    return bool(all(input == other)) if input.numel() else True


def is_floating(x: Tensor) -> bool:
    return x.dtype.category >= dt.FLOAT


setattr(Tensor, "equal", equal)  # noqa: B010
