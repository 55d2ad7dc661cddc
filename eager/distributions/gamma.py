"""Distributions made of gamma draws: Gamma, Chi2, InverseGamma, Beta, Dirichlet, StudentT,
FisherSnedecor. parameters -> draws and densities."""

from __future__ import annotations

import math
from typing import Any

from eager.core.tensor import Tensor
from eager.distributions import constraints as c
from eager.distributions.distribution import Distribution, ExponentialFamily
from eager.distributions.scalar_transforms import PowerTransform
from eager.distributions.utils import broadcast_all
from eager.ops.move import stack
from eager.ops.pointwise import where
from eager.random import _standard_gamma, randn


class Gamma(ExponentialFamily):
    """rate^a x^(a - 1) exp(-rate x) / gamma(a), a the concentration."""

    arg_constraints = {"concentration": c.positive, "rate": c.positive}
    support = c.nonnegative
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: Any = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return _standard_gamma(self.concentration.expand(shape)) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.concentration, self.rate
        return a.xlogy(b) + (a - 1).xlogy(value) - b * value - a.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.concentration.igamma(self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / (self.rate * self.rate)


class Chi2(Gamma):
    """The sum of the squares of `df` normal draws."""

    arg_constraints = {"df": c.positive}

    def __init__(self, df: Any, validate_args: Any = None) -> None:
        (self.df,) = broadcast_all(df)
        super().__init__(0.5 * self.df, self.df * 0 + 0.5, validate_args=validate_args)


class InverseGamma(Distribution):
    """1 / x of a gamma x."""

    arg_constraints = {"concentration": c.positive, "rate": c.positive}
    support = c.positive
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: Any = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def base_dist(self) -> Gamma:
        return Gamma(self.concentration, self.rate)

    @property
    def transforms(self) -> list[Any]:
        return [PowerTransform(-self.rate.new_ones(()))]

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.rate / _standard_gamma(
            self.concentration.expand(self._extended_shape(sample_shape))
        )

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.concentration, self.rate
        return a * b.log() - (a + 1) * value.log() - b / value - a.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.concentration.igammac(self.rate / value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return where(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)


class Dirichlet(ExponentialFamily):
    """Positive vectors of sum 1: gamma draws of the concentrations (*, K), over their sum."""

    arg_constraints = {"concentration": c.independent(c.positive, 1)}
    support = c.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: Any = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = tuple(concentration.shape)
        super().__init__(shape[:-1], shape[-1:], validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        drawn = _standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)))
        return drawn / drawn.sum(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a = self.concentration
        return (a - 1).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, total = self.concentration, self.concentration.sum(-1)
        k = a.shape[-1]
        spread = (total - k) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() + spread

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, keepdim=True)
        corner = (self.concentration < 1).all(-1, keepdim=True)
        first = self.concentration * 0  # of the corners, which are all alike
        first[..., 0] = 1.0
        return where(corner, first, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        rest = total - self.concentration
        return self.concentration * rest / (total * total * (total + 1))


class Beta(ExponentialFamily):
    """x^(a - 1) (1 - x)^(b - 1) / B(a, b) on [0, 1]."""

    arg_constraints = {"concentration1": c.positive, "concentration0": c.positive}
    support = c.unit_interval
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: Any = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    def _both(self) -> Dirichlet:
        both = stack([self.concentration1, self.concentration0], -1)
        return Dirichlet(both, validate_args=False)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._both().rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._both().log_prob(stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._both().entropy()

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._both().mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))


class StudentT(Distribution):
    """loc + scale times a normal draw over the root of a chi-squared one of `df` over `df`."""

    arg_constraints = {"df": c.positive, "loc": c.real, "scale": c.positive}
    support = c.real
    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: Any = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        squares = 2 * _standard_gamma((0.5 * self.df).expand(shape))
        normal = randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + self.scale * normal * (squares / self.df).rsqrt()

    def log_prob(self, value: Any) -> Tensor:
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1) * (y * y / self.df).log1p() - self._log_total()

    def _log_total(self) -> Tensor:
        half = 0.5 * self.df
        spread = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi)
        return spread + half.lgamma() - (half + 0.5).lgamma()

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        slope = (half + 0.5).digamma() - half.digamma()
        log_beta = half.lgamma() + math.lgamma(0.5) - (half + 0.5).lgamma()
        return self.scale.log() + (half + 0.5) * slope + 0.5 * self.df.log() + log_beta

    @property
    def mean(self) -> Tensor:
        return where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        df = self.df
        safe = where(df > 2, df, 3.0)
        wide = where(df > 1, self.scale * 0 + math.inf, math.nan)
        return where(df > 2, self.scale**2 * df / (safe - 2), wide)


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared draws, each over its degrees of freedom."""

    arg_constraints = {"df1": c.positive, "df2": c.positive}
    support = c.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: Any = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        first = _standard_gamma((0.5 * self.df1).expand(shape)) / self.df1
        return first / (_standard_gamma((0.5 * self.df2).expand(shape)) / self.df2)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        ratio = self.df1 / self.df2
        a, b = 0.5 * self.df1, 0.5 * self.df2
        total = (a + b).lgamma() - a.lgamma() - b.lgamma()
        powers = a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()
        return total + powers

    @property
    def mean(self) -> Tensor:
        safe = where(self.df2 > 2, self.df2, math.nan)
        return safe / (safe - 2)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return where(self.df1 <= 2, math.nan, mode)

    @property
    def variance(self) -> Tensor:
        df2 = where(self.df2 > 4, self.df2, math.nan)
        return 2 * df2**2 * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2) ** 2 * (df2 - 4))
