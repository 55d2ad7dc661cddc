"""Transforms of vectors and matrices, and of the parts of a value each by its own. tensor -> tensor
and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eager import linalg
from eager.base.dtype import finfo
from eager.construct.interop import from_numpy
from eager.core.tensor import Tensor
from eager.device import Size
from eager.distributions import constraints as c
from eager.distributions.scalar_transforms import (
    PlainTransform,
    Transform,
    _clipped_sigmoid,
    _summed,
)
from eager.nn.functional import logsigmoid, pad, softplus
from eager.ops.create import eye
from eager.ops.index_and_sort import iota
from eager.ops.move import cat, stack


# ------------------------------------------------------------------------ vectors, matrices
class StickBreakingTransform(PlainTransform):
    """n numbers to n + 1 probabilities: each breaks its share off what is left of a stick."""

    bijective = True
    domain = c.real_vector
    codomain = c.simplex

    def _logits(self, x: Tensor) -> Tensor:
        """From what 0 means equal shares."""
        n = x.shape[-1]
        return x - (n - iota(n)).to(x.dtype).log()

    def _call(self, x: Tensor) -> Tensor:
        share = _clipped_sigmoid(self._logits(x))
        return pad(share, [0, 1], value=1.0) * pad((1 - share).cumprod(-1), [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        n = y.shape[-1] - 1
        broken = y[..., :-1]
        left = (1 - broken.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return broken.log() - left.log() + (n - iota(n)).to(y.dtype).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        logits = self._logits(x)
        return (-logits + logsigmoid(logits) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(PlainTransform):
    """Matrices to lower triangular ones with a positive diagonal."""

    domain = c.independent(c.real, 2)
    codomain = c.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(PlainTransform):
    """Matrices to positive definite ones, by their Cholesky factors."""

    domain = c.independent(c.real, 2)
    codomain = c.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform()._inverse(linalg.cholesky(y))


def _below(size: int, diagonal: int = -1) -> Any:
    """The flat places of a square matrix that lie below its diagonal, row by row."""
    return np.flatnonzero(np.tril(np.ones((size, size), bool), diagonal))


def _picked(matrix: Tensor, diagonal: int = -1) -> Tensor:
    places = from_numpy(_below(matrix.shape[-1], diagonal))
    return matrix.flatten(-2).index_select(-1, places)


def _size_of(count: int) -> int:
    """The size of a square matrix that has `count` places below its diagonal. ValueError where none
    has."""
    size = math.isqrt(8 * count + 1) // 2 + 1
    if size * (size - 1) // 2 != count:
        raise ValueError("Input is not a flattened lower-diagonal number")
    return size


class CorrCholeskyTransform(PlainTransform):
    """n (n - 1) / 2 numbers to the Cholesky factor of an n x n matrix of correlations: each row is
    broken off a stick of length 1."""

    bijective = True
    domain = c.real_vector
    codomain = c.corr_cholesky

    def _call(self, x: Tensor) -> Tensor:
        n = _size_of(x.shape[-1])
        eps = finfo(x.dtype).eps
        partial = x.tanh().clamp(-1 + eps, 1 - eps)
        order = np.zeros(n * n, np.int64)
        order[_below(n)] = np.arange(x.shape[-1])
        square = partial.index_select(-1, from_numpy(order)).unflatten(-1, (n, n)).tril(-1)
        left = (1 - square * square).sqrt().cumprod(-1)
        return (square + eye(n, dtype=x.dtype, device=x.device)) * pad(
            left[..., :-1], [1, 0], value=1.0
        )

    def _inverse(self, y: Tensor) -> Tensor:
        left = pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1.0)
        return (_picked(y) / _picked(left).sqrt()).atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = _picked(1 - (y * y).cumsum(-1), -2)
        return 0.5 * left.log().sum(-1) - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = _size_of(shape[-1])
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


class ReshapeTransform(Transform):
    """Values of shape `in_shape` to `out_shape`."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(in_shape) != math.prod(out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.domain = c.independent(c.real, len(self.in_shape))
        self.codomain = c.independent(c.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        return _reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        return _reshaped(shape, self.out_shape, self.in_shape)


def _reshaped(shape: Any, before: Size, after: Size) -> Any:
    cut = len(shape) - len(before)
    if cut < 0:
        raise ValueError("Too few dimensions on input")
    if tuple(shape[cut:]) != tuple(before):
        raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {tuple(before)}")
    return (*shape[:cut], *after)


# -------------------------------------------------------------------------- parts of a value
class _OfParts(Transform):
    """Each part of a value along `dim` by its own transform."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        self.bijective = all(t.bijective for t in self.transforms)

    def _split(self, x: Tensor) -> Any:
        raise NotImplementedError

    def _joined(self, parts: list[Tensor]) -> Tensor:
        raise NotImplementedError

    def _each(self, fn: Callable[..., Tensor], *values: Tensor) -> list[Tensor]:
        return [fn(*of) for of in zip(self.transforms, *map(self._split, values), strict=True)]

    def _call(self, x: Tensor) -> Tensor:
        return self._joined(self._each(lambda t, part: t(part), x))

    def _inverse(self, y: Tensor) -> Tensor:
        return self._joined(self._each(lambda t, part: t.inv(part), y))


class CatTransform(_OfParts):
    """Parts of the given lengths (1 by default), as `cat` joins them."""

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise ValueError(f"{len(self.transforms)} transforms need as many lengths")
        self.domain = c.cat([t.domain for t in self.transforms], dim, self.lengths)
        self.codomain = c.cat([t.codomain for t in self.transforms], dim, self.lengths)

    @property
    def length(self) -> int:
        return sum(self.lengths)

    def _split(self, x: Tensor) -> Any:
        return x.split(self.lengths, self.dim)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slopes = self._each(
            lambda t, x, y: _summed(t.log_abs_det_jacobian(x, y), self.event_dim - t.event_dim),
            x,
            y,
        )
        dim = self.dim - x.ndim * (self.dim >= 0) + self.event_dim
        if dim < 0:
            return cat(slopes, dim)
        total: Tensor = sum(slopes[1:], slopes[0])
        return total


class StackTransform(_OfParts):
    """One index of `dim` for each, as `stack` joins them."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.domain = c.stack([t.domain for t in self.transforms], dim)
        self.codomain = c.stack([t.codomain for t in self.transforms], dim)

    def _split(self, x: Tensor) -> Any:
        return x.unbind(self.dim)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return stack(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return stack(self._each(lambda t, x, y: t.log_abs_det_jacobian(x, y), x, y), self.dim)


class CumulativeDistributionTransform(Transform):
    """By a distribution's `cdf`, to [0, 1]."""

    bijective = True
    codomain = c.unit_interval
    sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        y: Tensor = self.distribution.cdf(x)
        return y

    def _inverse(self, y: Tensor) -> Tensor:
        x: Tensor = self.distribution.icdf(y)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slope: Tensor = self.distribution.log_prob(x)
        return slope
