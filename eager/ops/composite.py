"""Functions of other ops: statistics, softmax, norms, triangles, differences. tensors -> tensors,
through dispatch.

They are run like user code: the tape, capture and the compiler see the primitive ops. Softmax is
amax, sub, exp, sum and div on purpose, because that is what the compiler fuses into one pass.
"""

from __future__ import annotations

import math
from typing import Any

from eager.base import dtype as dt
from eager.base.compat_warnings import warn
from eager.base.dtype import DType
from eager.core.casts import full_precision, rounded_once
from eager.core.dispatch import apply
from eager.core.op import Sample
from eager.core.registry import Out, public
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.create import IOTA, made
from eager.ops.define import not_for
from eager.ops.extern import SVD
from eager.ops.move import cat, stack
from eager.ops.part_views import own_dim
from eager.ops.pointwise import where
from eager.ops.reduce import SUM, amax, amin, is_floating, over_dims, sum
from eager.ops.view import constant, norm_dim, norm_dims
from eager.sizes.symint import is_empty, most


# -------------------------------------------------------------------------------- statistics
def _need_float(x: Tensor, name: str) -> None:
    if not is_floating(x):
        raise RuntimeError(
            f"{name}(): could not infer output dtype. Input dtype must be either a floating point "
            f"or complex dtype. Got: {x.dtype.name}: use x.float().{name}()"
        )


def _count(x: Tensor, dims: tuple[int, ...]) -> int:
    return math.prod(x.shape[d] for d in dims)


@public(out=Out(dtype="checked"), samples=over_dims())
def mean(
    input: Tensor,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Mean over `dim` (all by default). RuntimeError for ints and bools without `dtype`."""
    x = input if dtype is None else input.to(dtype)
    _need_float(x, "mean")
    average = _average if x.dtype.compute is x.dtype else _rounded_average
    return average(x, norm_dims(dim, x.ndim, "mean"), keepdim)


def _average(x: Tensor, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    total: Tensor = apply(SUM, x, dim=dims, keepdim=keepdim)
    return total / _count(x, dims)


_rounded_average = rounded_once(_average)


def _variance_args(dim: Any, unbiased: Any, correction: Any) -> tuple[Any, float]:
    """PyTorch's overloads: var(x, unbiased), var(x, dim, unbiased), var(x, dim, correction=...)."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    return dim, correction


def _variance(
    x: Tensor, dim: Any, correction: float, keepdim: bool, name: str
) -> tuple[Tensor, Tensor]:
    _need_float(x, name)
    dims = norm_dims(dim, x.ndim, name)
    average = mean(x, dims, keepdim=True)
    total = sum(_squared(x - average), dims, keepdim)
    count = _count(x, dims)
    if type(count) is int and count <= correction:
        warn(
            f"std() and var() of {count} elements have no degrees of freedom with correction="
            f"{correction}, and are NaN: pass correction=0 (unbiased=False) for so few"
        )
    spread = total / most(count - correction, 0)
    if not keepdim:
        average = average.squeeze(dims) if dims else average
    return spread, average


def _squared(x: Tensor) -> Tensor:
    """|x|^2: real, also of complex numbers."""
    return x.real * x.real + x.imag * x.imag if x.dtype.is_complex else x * x


def _root(total: Tensor) -> Tensor:
    """sqrt with derivative 0 at 0, as the norm of a zero vector has it."""
    zero = total == 0
    return where(zero, 0.0, where(zero, 1.0, total).sqrt())


def _spread_samples() -> list[Sample]:
    x = s.values((2, 3, 4))
    return [
        s.call(x),
        s.call(x, 1),
        s.call(x, (0, 2), unbiased=False),
        s.call(x, dim=-1, keepdim=True),
        s.call(x, dim=1, correction=2),
        s.call(x, False),
    ]


@public(out=Out(overlap="any"), samples=_spread_samples)
@rounded_once
def var(
    input: Tensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Tensor:
    """Variance over `dim`, divided by n - correction (1, or 0 with unbiased=False)."""
    dim, correction = _variance_args(dim, unbiased, correction)
    return _variance(input, dim, correction, keepdim, "var")[0]


@public(out=Out(overlap="any"), samples=_spread_samples)
@rounded_once
def std(
    input: Tensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> Tensor:
    """Standard deviation over `dim`: the root of `var`."""
    return _root(var(input, dim, unbiased, keepdim, correction=correction))


@public(method=False, samples=_spread_samples)
def var_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> tuple[Tensor, Tensor]:
    """(variance, mean) over `dim`."""
    dim, correction = _variance_args(dim, unbiased, correction)
    return _variance(input, dim, correction, keepdim, "var_mean")


@public(method=False, samples=_spread_samples)
def std_mean(
    input: Tensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    *,
    correction: Any = None,
) -> tuple[Tensor, Tensor]:
    """(standard deviation, mean) over `dim`."""
    spread, average = var_mean(input, dim, unbiased, keepdim, correction=correction)
    return _root(spread), average


# ------------------------------------------------------------------------------------- norms
@public(
    out=Out(overlap="any"),
    samples=lambda: [
        s.call(s.values((3, 4))),
        s.call(s.values((3, 4)), dim=1),
        s.call(s.values((3, 4)), 1, 0),
        s.call(s.values((3, 4)), 3, 1, True),
        s.call(s.values((3, 4)), float("inf"), 1),
        s.call(s.values((3, 4)), -float("inf"), 1),
        s.call(s.values((3, 4)), "fro"),
        s.call(s.values((2, 3)) * 0),
    ],
    on_gpus="full",
)
def norm(
    input: Tensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    dtype: DType | None = None,
) -> Tensor:
    """Vector p-norm over `dim` (all by default); "fro" is the 2-norm, "nuc" the sum of a matrix's
    singular values. The gradient at 0 is 0."""
    x = input if dtype is None else input.to(dtype)
    if x.dtype.category < dt.FLOAT:
        raise RuntimeError(f"norm: expected a floating point or complex tensor, got {x.dtype}")
    if p == "nuc":
        return _nuclear(x, dim, keepdim)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"norm: order {p!r} is not supported: 'fro', 'nuc' or a number")
    dims = norm_dims(dim, x.ndim, "norm")
    if x.dtype.compute is not x.dtype:  # 16-bit floats would overflow inside
        return _vector_norm(x.to(x.dtype.compute), p, dims, keepdim).to(x.dtype)
    return _vector_norm(x, p, dims, keepdim)


def _nuclear(x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    rows, columns = norm_dims(dim, x.ndim, "norm")
    out = sum(apply(SVD, x.movedim((rows, columns), (-2, -1)), full=False)[1], -1)
    return out.unsqueeze(rows).unsqueeze(columns) if keepdim else out


def _vector_norm(x: Tensor, p: Any, dims: tuple[int, ...], keepdim: bool) -> Tensor:
    if p in ("fro", 2, None):
        return _root(sum(_squared(x), dims, keepdim))
    size = x.abs()
    if p == 1:
        return sum(size, dims, keepdim)
    if p == math.inf:
        return amax(size, dims, keepdim)
    if p == -math.inf:
        return amin(size, dims, keepdim)
    if p == 0:  # the slope is 0, but there is one
        return sum(where(size != size, 1.0, size.sign()), dims, keepdim)
    if p < 1:  # the slope at 0 is infinite; the gradient is 0
        zero = size == 0
        size = where(zero, 0.0 if p > 0 else math.inf, where(zero, 1.0, size) ** p)
    else:
        size = size**p
    total = sum(size, dims, keepdim)
    zero = (total == 0) | (total == math.inf)  # the root's slope there may be infinite
    if p < 0:
        return where(zero, where(total == 0, math.inf, 0.0), where(zero, 1.0, total) ** (1.0 / p))
    return where(zero, total, where(zero, 1.0, total) ** (1.0 / p))


@public(
    samples=lambda: [
        s.call(s.values((3, 4)), s.values((3, 4), seed=1)),
        s.call(s.values((3,)), s.values((3,), seed=1), 1),
    ]
)
@full_precision
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """The p-norm of input - other."""
    return norm(input - other, p)


# ---------------------------------------------------------------------------- softmax family
def _shifted(x: Tensor, dims: Any) -> tuple[Tensor, Tensor]:
    """(x - max, max), the max a constant: what is computed does not depend on it."""
    high = constant(amax(x, dims, keepdim=True))
    return x - high, high


def _softmax_input(input: Tensor, dtype: DType | None) -> Tensor:
    x = input if dtype is None else input.to(dtype)
    if not is_floating(x):
        raise NotImplementedError(
            f"softmax is for floating point tensors, got {x.dtype}; give a dtype"
        )
    return x


def _softmax() -> list[Sample]:
    return [
        s.call(s.values((3, 4)), 1),
        s.call(s.values((2, 3, 4)), 0),
        s.call(s.values((3, 4), -500.0, 500.0), -1),
        s.call(s.values(()), 0),
        s.call(s.values((0, 3)), 1),
        s.call(s.values((4, 3)).T, -1),
    ]


@public(samples=_softmax, on_gpus="full")
def softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along `dim`, without overflow."""
    x = _softmax_input(input, dtype)
    d = norm_dim(dim, x.ndim, "softmax")
    if is_empty(x.numel()):
        return x.clone()
    return _softmax_along(x, d)


@rounded_once
def _softmax_along(x: Tensor, d: int) -> Tensor:
    e = _shifted(x, d)[0].exp()
    return e / sum(e, d, keepdim=True)


@public(samples=_softmax, on_gpus="full")
def log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """log(softmax(x)) along `dim`, without overflow or cancellation."""
    x = _softmax_input(input, dtype)
    d = norm_dim(dim, x.ndim, "log_softmax")
    if is_empty(x.numel()):
        return x.clone()
    return _log_softmax_along(x, d)


@rounded_once
def _log_softmax_along(x: Tensor, d: int) -> Tensor:
    below = _shifted(x, d)[0]
    return below - sum(below.exp(), d, keepdim=True).log()


@public(
    out=Out(overlap="any"),
    samples=lambda: [
        s.call(s.values((3, 4)), 1),
        s.call(s.values((3, 4), -500, 500), (0, 1)),
        s.call(s.values((3, 4)), 0, True),
        s.call([[-float("inf")] * 2, [1.0, float("inf")]], 1, grad=False),
    ],
    on_gpus="full",
)
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) over `dim`, without overflow; -inf of nothing but -inf. The phase of complex
    numbers is that of the sum, within pi."""
    dims = norm_dims(dim, input.ndim, "logsumexp")
    input = input if input.dtype.category >= dt.FLOAT else input.to(dt.get_default_dtype())
    if is_empty(input.numel()):
        return sum(input.exp(), dims, keepdim).log()
    size = input.real if input.dtype.is_complex else input
    high = constant(amax(size, dims, keepdim=True))
    high = where(high.abs() == math.inf, 0.0, high)
    total = sum((input - high).exp(), dims, keepdim).log()
    if not keepdim and dims:
        high = high.squeeze(dims)
    return total + high


# --------------------------------------------------------------------------- triangles, diag
def iota_along(n: int, dim: int, ndim: int, like: Tensor) -> Tensor:
    """0 .. n-1 along `dim`, size 1 elsewhere, beside a tensor."""
    places = made(IOTA, place=like.device, shape=(n,), dtype=dt.int64)
    return places.reshape([n if d == dim else 1 for d in range(ndim)])


def _below(input: Tensor, diagonal: int) -> Tensor:
    """Mask of the elements with column - row <= diagonal, in the last two dimensions."""
    if input.ndim < 2:
        raise RuntimeError(
            f"tril, triu: input tensor must have at least 2 dimensions, got {input.ndim}"
        )
    rows, columns = input.shape[-2:]
    return iota_along(columns, 1, 2, input) - iota_along(rows, 0, 2, input) <= diagonal


def _triangles() -> list[Sample]:
    return [
        s.call(s.values((3, 4))),
        s.call(s.values((2, 4, 3)), -1),
        s.call(s.values((3, 4)), diagonal=1),
    ]


@public(inplace=True, samples=_triangles)
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of the last two dimensions, 0 elsewhere."""
    return where(_below(input, diagonal), input, _zero_like(input))


@public(inplace=True, samples=_triangles)
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of the last two dimensions, 0 elsewhere."""
    return where(_below(input, diagonal - 1), _zero_like(input), input)


def _zero_like(input: Tensor) -> Any:
    return False if input.dtype is dt.bool_ else 0


@public(
    samples=lambda: [
        s.call(s.values((3,))),
        s.call(s.values((2, 3)), 1),
        s.call(s.values((3,)), -1, 0, 1),
    ]
)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last dimension as a diagonal of a new matrix (dimensions dim1, dim2), 0 elsewhere."""
    ndim = input.ndim + 1
    if norm_dim(dim1, ndim, "diag_embed") == norm_dim(dim2, ndim, "diag_embed"):
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    n = input.shape[-1] + abs(offset)
    out = input.new_zeros((*input.shape[:-1], n, n)).diagonal_scatter(input, offset, -2, -1)
    a, b = norm_dim(dim1, out.ndim, "diag_embed"), norm_dim(dim2, out.ndim, "diag_embed")
    return out.movedim((-2, -1), (a, b))


@public(
    samples=lambda: [
        s.call(s.values((3,))),
        s.call(s.values((3, 4)), 1),
        s.call(s.values((3,)), -1),
    ]
)
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A vector as a diagonal matrix; the diagonal of a matrix."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return input.diagonal(diagonal).clone()


@public(samples=lambda: [s.call(s.values((3,)), 1), s.call(s.values((2, 3)))])
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    return diag_embed(input.reshape(-1), offset)


@public(samples=lambda: [s.call(s.values((3, 3))), s.call(s.values((2, 3)))], on_gpus="given")
@full_precision
def trace(input: Tensor) -> Tensor:
    """Sum of the diagonal of a matrix."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    not_for("trace", dt.BOOL)([input.aval])
    return sum(input.diagonal())


@public(
    samples=lambda: [
        s.call(s.values((3, 4))),
        s.call(s.values((5,)), 2),
        s.call(s.values((3, 4)), 1, 0),
    ]
)
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None
) -> Tensor:
    """Differences of neighbours along `dim`, n times."""
    d = own_dim(dim, input.ndim, "diff")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0:
        return input.clone()
    parts = [x for x in (prepend, input, append) if x is not None]
    x = input if len(parts) == 1 else cat(parts, d)
    for _ in range(n):
        size = most(x.shape[d] - 1, 0)
        left, right = x.narrow(d, 0, size), x.narrow(d, x.shape[d] - size, size)
        x = left ^ right if x.dtype is dt.bool_ else right - left
    return x


@public(
    samples=lambda: [
        s.call(s.values((3,)), s.values((3,), seed=1)),
        s.call(s.values((2, 3)), s.values((2, 3), seed=1), dim=-1),
    ],
    on_gpus="widest",
)
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Vector product along a dimension of size 3 (the first such by default)."""
    if dim is None:
        warn("cross: without dim it is the first dimension of size 3: pass dim, or linalg.cross")
        dim = next((d for d, n in enumerate(input.shape) if n == 3), None)
    if dim is None or input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError("cross(): inputs need a dimension of size 3")
    if input.dtype is not other.dtype:
        raise RuntimeError(f"expected scalar type {input.dtype} but found {other.dtype}")
    a, b = input.unbind(dim), other.unbind(dim)
    parts = [a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)]
    return stack(parts, dim)
