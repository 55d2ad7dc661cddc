"""Running reductions along a dimension: cumsum, cumprod, cummax. tensor -> tensor of the same
shape."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.core import return_types
from eager.core.dispatch import apply
from eager.core.op import Attrs, Sample, aval_of
from eager.core.registry import Out, public
from eager.core.tape import zeros_of
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.elementary import complex_logaddexp
from eager.ops.kinds import Scan
from eager.ops.move import flip
from eager.ops.pointwise import where
from eager.ops.view import norm_dim


def _backwards(x: Tensor, dim: int) -> Tensor:
    """The running sum from the end."""
    if not x.ndim:
        return x
    return flip(apply(CUMSUM, flip(x, dim), dim=dim), dim)


def _cumprod_vjp(g: Tensor, x: Tensor, out: Tensor, dim: int) -> tuple[Tensor]:
    """sum_{i>=k} g_i out_i / x_k; at the first zero the products are taken without it, after it
    all is 0."""
    zero = x == 0
    first = zero & (zero.cumsum(dim) == 1)
    without = apply(CUMPROD, where(first, 1.0, x), dim=dim)
    ordinary = _backwards(g * out, dim) / where(zero, 1.0, x)
    return (where(first, _backwards(g * without, dim), ordinary),)


CUMSUM = Scan("cumsum", ("x",), lambda g, dim: (_backwards(g, dim),), monoid="sum")
CUMPROD = Scan("cumprod", ("x",), _cumprod_vjp, monoid="prod")


def _extreme_vjp(g: tuple[Tensor, Any], out1: Tensor, dim: int) -> tuple[Tensor]:
    return (zeros_of(g[0]).scatter_add(dim, out1, g[0]),)


CUMMAX = Scan("cummax", ("x",), _extreme_vjp, n_outputs=2, monoid="max")
CUMMIN = Scan("cummin", ("x",), _extreme_vjp, n_outputs=2, monoid="min")


@dataclass(frozen=True, eq=False)
class _Logarithmic(Scan):
    """A running logsumexp: stable only as a recurrence."""

    kind: ClassVar[str] = "extern"

    def compute(self, arrays: tuple[Any, ...], attrs: Attrs, outs: Any) -> tuple[Any, ...]:
        (x,) = arrays
        if not x.shape:
            return (x.copy(),)
        if x.dtype.kind == "c":
            return (_complex_logcumsumexp(x, attrs["dim"]),)
        wide = x.astype(aval_of(x).dtype.compute.np, copy=False)
        return (np.logaddexp.accumulate(wide, axis=attrs["dim"]).astype(x.dtype, order="C"),)


def _complex_logcumsumexp(x: Any, dim: int) -> Any:
    out = np.moveaxis(x.copy(), dim, 0)
    for i in range(1, len(out)):
        out[i] = complex_logaddexp(out[i - 1], out[i])
    return np.ascontiguousarray(np.moveaxis(out, 0, dim))


def _logcumsumexp_vjp(g: Tensor, x: Tensor, out: Tensor, dim: int) -> tuple[Tensor]:
    """exp(x) * sum_{i>=k} g_i exp(-out_i), with the positive and negative parts of g in
    logarithms, which complex numbers have themselves."""
    kind = g.dtype
    if kind.is_complex:
        return ((_logarithms_backwards(g.log() - out, dim) + x).exp(),)
    if kind is dt.float32:  # the parts are large where they cancel
        g, x, out = g.double(), x.double(), out.double()
    total = zeros_of(g)
    for sign in (1.0, -1.0):
        part = where(g * sign > 0, g * sign, 0.0).log() - out
        total = total + sign * (_logarithms_backwards(part, dim) + x).exp()
    return (total.to(kind),)


def _logarithms_backwards(x: Tensor, dim: int) -> Tensor:
    """The running logsumexp from the end."""
    return flip(apply(LOGCUMSUMEXP, flip(x, dim), dim=dim), dim) if x.ndim else x


LOGCUMSUMEXP = _Logarithmic("logcumsumexp", ("x",), _logcumsumexp_vjp, monoid="logaddexp")


def _samples() -> list[Sample]:
    return [
        s.call(s.values((3, 4)), 0),
        s.call(s.values((3, 4)), -1),
        s.call(s.values(()), 0),
        s.call(s.values((4, 3)).T, 1),
        s.call(s.values((0, 3)), 0),
    ]


def _ints() -> list[Sample]:
    return [s.call(s.integers((3, 4)), 1, grad=False)]


def _zeros() -> list[Sample]:
    return [s.call(np.array([2.0, 0.0, 3.0, 0.0, 4.0]), 0), s.call(np.array([0.0, 1.5, 3.0]), 0)]


@public(out=Out(dtype="decides"), samples=s.both(_samples, _ints), inplace=True, on_gpus="full")
def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Running sum along `dim`. Ints and bools give int64."""
    x = input if dtype is None else input.to(dtype)
    out = apply(CUMSUM, x, dim=norm_dim(dim, x.ndim, "cumsum"))
    return out if dtype is None else out.to(dtype)


@public(
    out=Out(dtype="decides"), samples=s.both(_samples, _ints, _zeros), inplace=True, on_gpus="full"
)
def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Running product along `dim`. Ints and bools give int64."""
    x = input if dtype is None else input.to(dtype)
    out = apply(CUMPROD, x, dim=norm_dim(dim, x.ndim, "cumprod"))
    return out if dtype is None else out.to(dtype)


@public(
    samples=lambda: [
        s.call(s.values((3, 4)), 1),
        s.call(np.array([1.0, 3.0, 3.0, 2.0]), 0, grad=False),
    ]
)
def cummax(input: Tensor, dim: int) -> Any:
    """Running maximum along `dim` and where it was (the last such)."""
    return return_types.cummax(*apply(CUMMAX, input, dim=norm_dim(dim, input.ndim, "cummax")))


@public(
    samples=lambda: [
        s.call(s.values((3, 4)), 1),
        s.call(np.array([3.0, 1.0, 1.0, 2.0]), 0, grad=False),
    ]
)
def cummin(input: Tensor, dim: int) -> Any:
    """Running minimum along `dim` and where it was (the last such)."""
    return return_types.cummin(*apply(CUMMIN, input, dim=norm_dim(dim, input.ndim, "cummin")))


@public(
    out=Out(exact=True),
    samples=lambda: [s.call(s.values((3, 4)), 1), s.call(s.values((3, 4), -90.0, 90.0), 0)],
)
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log of the running sum of exp along `dim`, without overflow."""
    if input.dtype.category < dt.FLOAT:
        raise NotImplementedError(f"logcumsumexp is not implemented for {input.dtype}")
    return apply(LOGCUMSUMEXP, input, dim=norm_dim(dim, input.ndim, "logcumsumexp"))
