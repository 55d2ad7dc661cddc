"""`eager.masked`: reductions and normalisations of the elements where a mask holds. tensor, mask ->
tensor.

An element that the mask leaves out counts as the operation's neutral number; where that is not one
number (the mean) the elements are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.core.op import Sample
from eager.core.registry import PUBLIC, under
from eager.core.tensor import Tensor
from eager.ops import composite, order_statistics, reduce, scan
from eager.ops import samples as s
from eager.ops.index_and_sort import dt_limits
from eager.ops.pointwise import where

F = TypeVar("F", bound=Callable[..., Any])
_mask = np.array([[True, False, True, True], [True, True, False, True], [False, True, True, True]])


def _masked(samples: Callable[[], list[Sample]]) -> Callable[[F], F]:
    """Register as `torch.masked.<name>`; autocast treats it as the function of all elements."""

    def register(fn: F) -> F:
        plain = PUBLIC.get(fn.__name__)
        return under("masked")(samples, plain and plain.on_gpus)(fn)

    return register


def _x() -> Any:
    return s.values((3, 4))


def _samples() -> list[Sample]:
    return [s.call(_x(), 1, mask=_mask), s.call(_x(), 0)]


def _values_only() -> list[Sample]:
    return [s.call(_x(), 1, mask=_mask, grad=False)]


def _fill(input: Tensor, mask: Tensor | None, neutral: Any) -> Tensor:
    """`input` with a neutral number where the mask does not hold."""
    if mask is None:
        return input
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher "
                         "than of the input)")  # fmt: skip
    mask = mask if mask.dtype is dt.bool_ else mask != 0
    return where(mask.expand(input.shape), input, neutral)


def _limit(input: Tensor, low: bool) -> Any:
    if input.dtype.is_complex:
        return -math.inf if low else math.inf
    return dt_limits(input.dtype)[0 if low else 1]


# --------------------------------------------------------------------------------- reductions
def _reduction(
    name: str, fn: Callable[..., Tensor], neutral: Callable[[Tensor], Any]
) -> Callable[..., Tensor]:
    def reduced(
        input: Tensor,
        dim: Any = None,
        *,
        keepdim: bool = False,
        dtype: DType | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        if dtype is None and name in ("sum", "prod") and input.dtype.category < dt.FLOAT:
            dtype = dt.int64
        x = input if dtype is None else input.to(dtype)
        out = fn(_fill(x, mask, neutral(x)), dim, keepdim)
        return out if dtype is None else out.to(dtype)

    reduced.__name__ = reduced.__qualname__ = name
    reduced.__doc__ = f"`{name}` over `dim` of the elements where the mask holds."
    return _masked(_samples)(reduced)


sum = _reduction("sum", reduce.sum, lambda x: 0)
prod = _reduction("prod", reduce.prod, lambda x: 1)
amax = _reduction("amax", reduce.amax, lambda x: _limit(x, True))
amin = _reduction("amin", reduce.amin, lambda x: _limit(x, False))
logsumexp = _reduction("logsumexp", composite.logsumexp, lambda x: _limit(x, True))


def _arg(name: str, fn: Callable[..., Tensor], low: bool) -> Callable[..., Tensor]:
    def reduced(
        input: Tensor,
        dim: int | None = None,
        *,
        keepdim: bool = False,
        dtype: DType | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        x = input if dtype is None else input.to(dtype)
        out = fn(_fill(x, mask, _limit(x, low)), dim, keepdim)
        return out.to(input.dtype if dtype is None else dtype)  # so it is in PyTorch

    reduced.__name__ = reduced.__qualname__ = name
    reduced.__doc__ = f"`{name}` along `dim` of the elements where the mask holds."
    return _masked(_values_only)(reduced)


argmax = _arg("argmax", reduce.argmax, True)
argmin = _arg("argmin", reduce.argmin, False)


def _count(input: Tensor, dim: Any, keepdim: bool, mask: Tensor | None) -> Tensor:
    ones = Tensor._full(1, input.aval).to(dt.int64)
    return reduce.sum(_fill(ones, mask, 0), dim, keepdim)


@_masked(_samples)
def mean(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The mean over `dim` of the elements where the mask holds; NaN of none. ValueError for ints
    without `dtype`."""
    kind = input.dtype if dtype is None else dtype
    if kind.category < dt.FLOAT:
        raise ValueError(
            "mean(): Could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {kind}"
        )
    total = sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask)
    return total / _count(input, dim, keepdim, mask)


def _spread(
    input: Tensor, dim: Any, correction: float, keepdim: bool, dtype: Any, mask: Tensor | None
) -> Tensor:
    kind = dtype or (input.dtype if input.dtype.category >= dt.FLOAT else dt.float32)
    x = input.to(kind)
    apart = x - mean(x, dim, keepdim=True, mask=mask)
    total = sum(apart * apart.conj(), dim, keepdim=keepdim, mask=mask)
    count = (_count(input, dim, keepdim, mask).to(dt.float64) - correction).clamp(min=0).to(kind)
    return total / count


def _correction(unbiased: bool | None, correction: float | None) -> float:
    if correction is not None:
        return correction
    return 1.0 if unbiased is None else float(unbiased)


@_masked(_samples)
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The variance over `dim` of the elements where the mask holds; NaN of none."""
    return _spread(input, dim, _correction(unbiased, correction), keepdim, dtype, mask)


@_masked(_samples)
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The standard deviation over `dim` of the elements where the mask holds; NaN of none."""
    return _spread(input, dim, _correction(unbiased, correction), keepdim, dtype, mask).sqrt()


@_masked(_values_only)
def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The lower median along `dim` of the elements where the mask holds; NaN of none."""
    x = input if dtype is None else input.to(dtype)
    wide = x if x.dtype.category >= dt.FLOAT else x.to(dt.float32)
    out = order_statistics.nanmedian(_fill(wide, mask, math.nan), dim, keepdim).values
    if wide is not x:
        if bool(out.isnan().any()):
            raise ValueError(
                "masked median expects no fully masked out rows if dtype is not floating point"
            )
        return out.to(x.dtype)
    return out


@_masked(lambda: [s.call(_x(), 2.0, 1, mask=_mask), s.call(_x(), 3.0, 0)])
def norm(
    input: Tensor,
    ord: float = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The p-norm over `dim` of the elements where the mask holds."""
    neutral = math.inf if ord == -math.inf else 0
    return composite.norm(_fill(input, mask, neutral), ord, dim, keepdim, dtype=dtype)


# ---------------------------------------------------------------------------------- along dim
def _along(
    name: str, fn: Callable[..., Tensor], neutral: Callable[[Tensor], Any]
) -> Callable[..., Tensor]:
    def normalised(
        input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None
    ) -> Tensor:
        x = input if dtype is None else input.to(dtype)
        out = fn(_fill(x, mask, neutral(x)), dim)
        return out.to(x.dtype) if x.dtype.category < dt.FLOAT else out

    normalised.__name__ = normalised.__qualname__ = name
    normalised.__doc__ = f"`{name}` along `dim` of the elements where the mask holds."
    # (log_softmax is -inf where the mask does not hold: no differences.)
    return _masked(_values_only if name == "log_softmax" else _samples)(normalised)


cumsum = _along("cumsum", scan.cumsum, lambda x: 0)
cumprod = _along("cumprod", scan.cumprod, lambda x: 1)
softmax = _along("softmax", composite.softmax, lambda x: _limit(x, True))
log_softmax = _along("log_softmax", composite.log_softmax, lambda x: _limit(x, True))
softmin = _along("softmin", lambda x, dim: composite.softmax(-x, dim), lambda x: _limit(x, False))


@_masked(lambda: [s.call(_x(), 2.0, 1, mask=_mask)])
def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """The elements where the mask holds over their p-norm along `dim`, the others 0."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    x = _fill(input, mask, 0)
    return (x if dtype is None else x.to(dtype)) / length.clamp(min=eps)


@_masked(lambda: [s.call(_x(), s.values((3, 4), seed=1), input_mask=_mask, grad=False)])
def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """log(exp(input) + exp(other)), each where its mask holds."""
    a = _fill(input, input_mask, _limit(input, True))
    b = _fill(other, other_mask, _limit(other, True))
    out = a.logaddexp(b)
    return out if dtype is None else out.to(dtype)
