"""Continuous distributions: Normal, Uniform, Exponential, MultivariateNormal, with differentiable
samples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eager import linalg
from eager.core.tensor import Tensor
from eager.distributions import constraints as c
from eager.distributions.distribution import Distribution, ExponentialFamily
from eager.distributions.utils import broadcast_all
from eager.linalg.deprecated import cholesky_inverse
from eager.random import rand, randn
from eager.sizes.aval import broadcast_shapes

_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


class Normal(ExponentialFamily):
    """The normal distribution with mean `loc` and standard deviation `scale`."""

    arg_constraints = {"loc": c.real, "scale": c.positive}
    support = c.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = randn(
            self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
        )
        return self.loc + noise * self.scale

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        apart = (value - self.loc) / self.scale
        return -(apart * apart) / 2 - self.scale.log() - _HALF_LOG_TWO_PI

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
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

    arg_constraints = dict.fromkeys(("low", "high"), c.dependent(is_discrete=False, event_dim=0))
    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: Any = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    def _check_parameters(self) -> None:
        if not (self.low < self.high).all():
            raise ValueError("Uniform is not defined when low>= high")

    @c.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return c.interval(self.low, self.high)

    def cdf(self, value: Tensor) -> Tensor:
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return self.low + value * (self.high - self.low)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device)
        return self.low + u * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inside = (self.low <= value) & (self.high > value)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return self.low * math.nan

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12


class Exponential(ExponentialFamily):
    """The exponential distribution of the given rate."""

    arg_constraints = {"rate": c.positive}
    support = c.nonnegative
    has_rsample = True

    def __init__(self, rate: Any, validate_args: Any = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = self._uniform(sample_shape, self.rate)
        return (-(-u).log1p() / self.rate).to(self.rate.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate * 0

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def mean(self) -> Tensor:
        return 1 / self.rate

    @property
    def variance(self) -> Tensor:
        return 1 / (self.rate * self.rate)


class derived:
    """A property that an attribute of the instance takes the place of."""

    def __init__(self, fn: Callable[[Any], Tensor]) -> None:
        self.fn = fn

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self.fn(instance)


class OfCovariance(Distribution):
    """With a covariance (..., n, n), given as it is, inverted, or as its lower Cholesky factor.

    The one that was given is an attribute, the others follow from the factor."""

    _factor: Tensor

    def _matrix(self, **matrices: Tensor | None) -> tuple[str, Tensor]:
        """The one that was given, and its name. ValueError for none or several, or one of fewer
        dimensions."""
        given = [(name, x) for name, x in matrices.items() if x is not None]
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        name, matrix = given[0]
        if matrix.ndim < 2:
            raise ValueError(
                f"{name} must be at least two-dimensional, with optional leading batch dimensions"
            )
        return name, matrix

    def _factorize(self, name: str, matrix: Tensor, batch: tuple[int, ...]) -> None:
        if name != "scale_tril":
            matrix = linalg.cholesky(linalg.inv(matrix) if name == "precision_matrix" else matrix)
        self._factor = matrix.expand(*batch, *matrix.shape[-2:])

    @derived
    def scale_tril(self) -> Tensor:
        return self._factor

    @derived
    def covariance_matrix(self) -> Tensor:
        return self._factor @ self._factor.mT

    @derived
    def precision_matrix(self) -> Tensor:
        return cholesky_inverse(self._factor)


class MultivariateNormal(OfCovariance):
    """The normal distribution over vectors, from its covariance or that one's Cholesky factor."""

    arg_constraints = {
        "loc": c.real_vector,
        "covariance_matrix": c.positive_definite,
        "precision_matrix": c.positive_definite,
        "scale_tril": c.lower_cholesky,
    }
    support = c.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: Any = None,
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = self._matrix(
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        n = loc.shape[-1]
        batch = broadcast_shapes(tuple(loc.shape[:-1]), tuple(matrix.shape[:-2]))
        self.loc = loc.expand(*batch, n)
        setattr(self, name, matrix.expand(*batch, n, n))
        super().__init__(batch, (n,), validate_args=validate_args)
        self._factorize(name, matrix, batch)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = randn(
            self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device
        )
        return self.loc + (self.scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self) -> Tensor:
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        apart = (value - self.loc).unsqueeze(-1)
        factor = self.scale_tril.expand(*apart.shape[:-2], *self.scale_tril.shape[-2:])
        white = linalg.solve_triangular(factor, apart, upper=False).squeeze(-1)
        n = self.event_shape[0]
        return -(white * white).sum(-1) / 2 - n * _HALF_LOG_TWO_PI - self._half_log_det()

    def entropy(self) -> Tensor:
        n = self.event_shape[0]
        return n * (0.5 + _HALF_LOG_TWO_PI) + self._half_log_det()

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self.scale_tril * self.scale_tril).sum(-1)
