"""Continuous distributions from uniform or normal draws: Laplace, Cauchy, Gumbel, half-normal,
half-Cauchy, Pareto, Weibull, generalised Pareto, von Mises. parameters -> draws and densities."""

from __future__ import annotations

import math
from typing import Any

from eager.autograd import no_grad
from eager.base.dtype import finfo
from eager.core.tensor import Tensor
from eager.distributions import constraints as c
from eager.distributions.distribution import Distribution
from eager.distributions.normal import Exponential, Normal, Uniform
from eager.distributions.scalar_transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
)
from eager.distributions.utils import broadcast_all, euler_constant
from eager.ops.bessel import i0e, i1e
from eager.ops.pointwise import where
from eager.random import rand


class _LocScale(Distribution):
    arg_constraints = {"loc": c.real, "scale": c.positive}
    support = c.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = self._uniform(sample_shape, self.loc)
        tiny = 1e-7 if u.dtype.itemsize == 4 else 1e-16
        return self.icdf(u.clamp(tiny, 1 - tiny)).to(self.loc.dtype)

    def _standard(self, value: Any) -> Tensor:
        self._validate_sample(value)
        return (value - self.loc) / self.scale


class Laplace(_LocScale):
    """exp(-|x - loc| / scale) / (2 scale)."""

    def log_prob(self, value: Tensor) -> Tensor:
        return -(2 * self.scale).log() - self._standard(value).abs()

    def cdf(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        centred = value - 0.5
        return self.loc - self.scale * centred.sign() * (-2 * centred.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale * self.scale


class Cauchy(_LocScale):
    """1 / (pi scale (1 + ((x - loc) / scale)^2)); it has no mean."""

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._standard(value)
        return -math.log(math.pi) - self.scale.log() - (z * z).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self._standard(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()

    @property
    def mean(self) -> Tensor:
        return self.loc * math.nan

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self.loc * 0 + math.inf


class Gumbel(_LocScale):
    """The distribution of the largest of many draws."""

    @property
    def base_dist(self) -> Uniform:
        info = finfo(self.loc.dtype)
        return Uniform(self.loc * 0 + info.tiny, self.loc * 0 + (1 - info.eps))

    @property
    def transforms(self) -> list[Any]:
        turned = AffineTransform(0, -self.scale.new_ones(self.scale.shape))
        return [
            ExpTransform().inv,
            turned,
            ExpTransform().inv,
            AffineTransform(self.loc, -self.scale),
        ]

    def log_prob(self, value: Tensor) -> Tensor:
        y = -self._standard(value)
        return y - y.exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        return (-(-self._standard(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (math.pi**2 / 6) * self.scale * self.scale


class _Half(Distribution):
    """The absolute value of a draw of a symmetric distribution around 0 (`_whole`)."""

    arg_constraints = {"scale": c.positive}
    support = c.nonnegative
    has_rsample = True
    _whole: Any

    def __init__(self, scale: Any, validate_args: Any = None) -> None:
        (self.scale,) = broadcast_all(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def transforms(self) -> list[Any]:
        return [AbsTransform()]

    @property
    def base_dist(self) -> Any:
        return self._whole(self.scale * 0, self.scale, validate_args=False)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape).abs()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)

    @property
    def mode(self) -> Tensor:
        return self.scale * 0


class HalfNormal(_Half):
    """|x| of a normal x with mean 0."""

    _whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """|x| of a Cauchy x around 0."""

    _whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return self.scale * 0 + math.inf

    @property
    def variance(self) -> Tensor:
        return self.scale * 0 + math.inf


class Pareto(Distribution):
    """alpha scale^alpha / x^(alpha + 1) from `scale` on."""

    arg_constraints = {"alpha": c.positive, "scale": c.positive}
    has_rsample = True

    def __init__(self, scale: Any, alpha: Any, validate_args: Any = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @c.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        return c.greater_than_eq(self.scale)

    @property
    def base_dist(self) -> Exponential:
        return Exponential(self.alpha)

    @property
    def transforms(self) -> list[Any]:
        return [ExpTransform(), AffineTransform(0, self.scale)]

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(self._uniform(sample_shape, self.scale)).to(self.scale.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * value.log()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 1 - (self.scale / value) ** self.alpha

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * (-(-value).log1p() / self.alpha).exp()

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale**2 * a / ((a - 1) ** 2 * (a - 2))


class Weibull(Distribution):
    """scale times an exponential draw to the power 1 / concentration."""

    arg_constraints = {"scale": c.positive, "concentration": c.positive}
    support = c.positive
    has_rsample = True

    def __init__(self, scale: Any, concentration: Any, validate_args: Any = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def concentration_reciprocal(self) -> Tensor:
        return self.concentration.reciprocal()

    @property
    def base_dist(self) -> Exponential:
        return Exponential(self.scale.new_ones(self.scale.shape))

    @property
    def transforms(self) -> list[Any]:
        return [PowerTransform(self.concentration_reciprocal), AffineTransform(0, self.scale)]

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = self._uniform(sample_shape, self.scale)
        return self.icdf(u.clamp(min=1e-30)).to(self.scale.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        k, z = self.concentration, value / self.scale
        return (k / self.scale).log() + (k - 1) * z.log() - z**k

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -(-((value / self.scale) ** self.concentration)).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * (-(-value).log1p()) ** (1 / self.concentration)

    def entropy(self) -> Tensor:
        inverse = 1 / self.concentration
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + 1 / self.concentration).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k) ** (1 / k)

    @property
    def variance(self) -> Tensor:
        first = (1 + 1 / self.concentration).lgamma()
        second = (1 + 2 / self.concentration).lgamma()
        return self.scale**2 * (second.exp() - (2 * first).exp())


class GeneralizedPareto(Distribution):
    """Values above a threshold `loc`: a tail that falls as a power (concentration > 0), as an
    exponential (0), or that ends (< 0)."""

    arg_constraints = {"loc": c.real, "scale": c.positive, "concentration": c.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: Any = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @c.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        ends = self.loc - self.scale / where(self.concentration < 0, self.concentration, -1.0)
        return c.interval(self.loc, where(self.concentration < 0, ends, math.inf))

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Mask of elements whose tail is exponential, and a concentration to divide by."""
        zero = self.concentration.abs() <= 1e-8
        return zero, where(zero, 1.0, self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(self._uniform(sample_shape, self.loc)).to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, k = self._shape()
        power = 1 / k + 1
        falls = where(power == 0, 0.0, power * (k * z).log1p())
        return -self.scale.log() - where(zero, z, falls)

    def log_survival_function(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        z = (value - self.loc) / self.scale
        zero, k = self._shape()
        return where(zero, -z, -(k * z).log1p() / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        above = (-value).log1p()
        zero, k = self._shape()
        return self.loc + self.scale * where(zero, -above, (-k * above).expm1() / k)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1

    @property
    def mean(self) -> Tensor:
        k = where(self.concentration < 1, self.concentration, math.nan)
        return self.loc + self.scale / (1 - k)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        k = where(self.concentration < 0.5, self.concentration, math.nan)
        return self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k))


class VonMises(Distribution):
    """Angles around `loc`: exp(concentration cos(x - loc)) over its integral. The variance is that
    of points of the circle."""

    arg_constraints = {"loc": c.real, "concentration": c.positive}
    support = c.real

    def __init__(self, loc: Any, concentration: Any, validate_args: Any = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        k = self.concentration
        return k * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - i0e(k).log()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """By rejection from a wrapped Cauchy distribution (Best and Fisher 1979), in float64."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            loc, k = self.loc.double(), self.concentration.double()
            tau = 1 + (1 + 4 * k * k).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = where(k < 1e-5, 1 / k + k, (1 + rho * rho) / (2 * rho))
            angle, done = loc.new_zeros(shape), loc.new_zeros(shape) > 0
            while not done.all():
                u, chance, side = rand((3, *shape), dtype=loc.dtype, device=loc.device).unbind()
                z = (math.pi * u).cos()
                f = (1 + r * z) / (r + z)
                near = k * (r - f)
                good = (near * (2 - near) > chance) | ((near / chance).log() + 1 - near >= 0)
                angle = where(good & ~done, (side - 0.5).sign() * f.clamp(-1.0, 1.0).acos(), angle)
                done = done | good
            turned = (angle + math.pi + loc) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 1 - i1e(self.concentration) / i0e(self.concentration)
