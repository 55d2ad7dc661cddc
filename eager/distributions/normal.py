"""Continuous distributions: Normal, Uniform, Exponential, MultivariateNormal, with differentiable
samples."""

from __future__ import annotations

import math
from typing import Any

from eager import linalg
from eager.aval import broadcast_shapes
from eager.distributions.distribution import Distribution
from eager.interop import tensor
from eager.notice import ignore
from eager.random import rand, randn
from eager.tensor import Tensor

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


def _together(*parameters: Any) -> list[Tensor]:
    """Numbers and tensors as tensors of one shape."""
    tensors = [p if isinstance(p, Tensor) else tensor(float(p)) for p in parameters]
    shape = broadcast_shapes(*(tuple(t.shape) for t in tensors))
    return [t.expand(shape) for t in tensors]


class Normal(Distribution):
    """The normal distribution with mean `loc` and standard deviation `scale`."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None) -> None:
        ignore("Distribution", validate_args=validate_args)
        self.loc, self.scale = _together(loc, scale)
        super().__init__(self.loc.shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = randn(self._extended(sample_shape), dtype=self.loc.dtype)
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Tensor:
        apart = (value - self.loc) / self.scale
        return -(apart * apart) / 2 - self.scale.log() - _HALF_LOG_TWO_PI

    def cdf(self, value: Tensor) -> Tensor:
        return 0.5 * (1 + ((value - self.loc) / (self.scale * math.sqrt(2))).erf())

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + _HALF_LOG_TWO_PI + self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale


class Uniform(Distribution):
    """Uniform on [low, high)."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: Any = None) -> None:
        ignore("Distribution", validate_args=validate_args)
        self.low, self.high = _together(low, high)
        super().__init__(self.low.shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = rand(self._extended(sample_shape), dtype=self.low.dtype)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        inside = (self.low <= value) & (self.high > value)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12


class Exponential(Distribution):
    """The exponential distribution of the given rate."""

    has_rsample = True

    def __init__(self, rate: Any, validate_args: Any = None) -> None:
        ignore("Distribution", validate_args=validate_args)
        (self.rate,) = _together(rate)
        super().__init__(self.rate.shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = rand(self._extended(sample_shape), dtype=self.rate.dtype)
        return -(-u).log1p() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * value

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def mean(self) -> Tensor:
        return 1 / self.rate

    @property
    def variance(self) -> Tensor:
        return 1 / (self.rate * self.rate)


class MultivariateNormal(Distribution):
    """The normal distribution over vectors, from its covariance or that one's Cholesky factor."""

    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: Any = None,
    ) -> None:
        ignore("Distribution", validate_args=validate_args)
        if (covariance_matrix is None) + (precision_matrix is None) + (scale_tril is None) != 2:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        if precision_matrix is not None:
            covariance_matrix = linalg.inv(precision_matrix)
        if covariance_matrix is not None:
            scale_tril = linalg.cholesky(covariance_matrix)
        assert scale_tril is not None
        factor = scale_tril
        n = loc.shape[-1]
        batch = broadcast_shapes(tuple(loc.shape[:-1]), tuple(factor.shape[:-2]))
        self.loc = loc.expand(*batch, n)
        self.scale_tril = factor.expand(*batch, n, n)
        super().__init__(batch, (n,))

    @property
    def covariance_matrix(self) -> Tensor:
        return self.scale_tril @ self.scale_tril.mT

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = randn(self._extended(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self.scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Tensor:
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        apart = (value - self.loc).unsqueeze(-1)
        factor = self.scale_tril.expand(*apart.shape[:-2], *self.scale_tril.shape[-2:])
        white = linalg.solve(factor, apart).squeeze(-1)
        n = self.event_shape[0]
        return -(white * white).sum(-1) / 2 - n * _HALF_LOG_TWO_PI - self._half_log_det()

    def entropy(self) -> Tensor:
        n = self.event_shape[0]
        return n * (0.5 + _HALF_LOG_TWO_PI) + self._half_log_det()

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self.scale_tril * self.scale_tril).sum(-1)
