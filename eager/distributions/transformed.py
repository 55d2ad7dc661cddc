"""Distributions of transformed draws, and mixtures. distributions and transforms -> a
distribution."""

from __future__ import annotations

import math
from typing import Any

from eager.autograd import no_grad
from eager.core.tensor import Tensor
from eager.distributions import constraints as c
from eager.distributions.categorical import Categorical
from eager.distributions.distribution import Distribution, Independent
from eager.distributions.normal import Normal, Uniform
from eager.distributions.scalar_transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    Transform,
    _summed,
)
from eager.distributions.utils import broadcast_all, euler_constant
from eager.ops.pointwise import where


class TransformedDistribution(Distribution):
    """The distribution of transform(x) for draws x of another; several transforms in order."""

    def __init__(
        self, base_distribution: Distribution, transforms: Any, validate_args: Any = None
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"transforms must be a Transform or a list, but was {self.transforms}")
        transform = ComposeTransform(self.transforms)
        base = base_distribution
        # What the transforms take as one value is one value of the base, too.
        taken, given = transform.domain.event_dim, transform.codomain.event_dim
        own = (*base.batch_shape, *base.event_shape)
        if len(own) < taken:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {taken}, but got {own}."
            )
        more = taken - len(base.event_shape)
        shape = transform.forward_shape(own)
        wanted = tuple(transform.inverse_shape(shape))
        if wanted != own:
            base = base.expand(wanted[: len(wanted) - len(base.event_shape)])
        self.base_dist = Independent(base, more) if more > 0 else base
        split = len(shape) - max(given, len(base.event_shape) + given - taken)
        super().__init__(shape[:split], shape[split:], validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @c.dependent_property(is_discrete=False)
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        inner = self.transforms[-1].codomain
        more = len(self._event_shape) - inner.event_dim
        return c.independent(inner, more) if more > 0 else inner

    def _through(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._through(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        events, y = len(self._event_shape), value
        total: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            slope = transform.log_abs_det_jacobian(x, y)
            more = events - transform.codomain.event_dim
            total = total - _summed(slope, more)
            events, y = more + transform.domain.event_dim, x
        rest = events - len(self.base_dist.event_shape)
        density: Tensor = total + _summed(self.base_dist.log_prob(y), rest)
        return density

    def _sign(self) -> Any:
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return sign

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        sign, below = self._sign(), self.base_dist.cdf(value)
        return below if isinstance(sign, int) and sign == 1 else sign * (below - 0.5) + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        sign = self._sign()
        if not (isinstance(sign, int) and sign == 1):
            value = sign * (value - 0.5) + 0.5
        return self._through(self.base_dist.icdf(value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class LogNormal(TransformedDistribution):
    """exp(x) of a normal x."""

    arg_constraints = {"loc": c.real, "scale": c.positive}
    support = c.positive

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None) -> None:
        base = Normal(loc, scale, validate_args)
        self.loc, self.scale = base.loc, base.scale
        super().__init__(base, ExpTransform(), validate_args)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale**2 / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale**2).exp()

    @property
    def variance(self) -> Tensor:
        return (self.scale**2).expm1() * (2 * self.loc + self.scale**2).exp()

    def __repr__(self) -> str:
        return Distribution.__repr__(self)


class Kumaraswamy(TransformedDistribution):
    """Distribution like a beta distribution, with a `cdf` in closed form:
    1 - (1 - x^concentration1) to the power `concentration0`."""

    arg_constraints = {"concentration1": c.positive, "concentration0": c.positive}
    support = c.unit_interval

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: Any = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        zero = self.concentration0.detach() * 0
        steps = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        super().__init__(Uniform(zero, zero + 1, validate_args), steps, validate_args)

    def _moment(self, n: int) -> Tensor:
        b, step = self.concentration0, 1 + n / self.concentration1
        return b * (step.lgamma() + b.lgamma() - (step + b).lgamma()).exp()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        return where((a < 1) | (b < 1), math.nan, log_mode).exp()

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean**2

    def __repr__(self) -> str:
        return Distribution.__repr__(self)


class MixtureSameFamily(Distribution):
    """One of the distributions in the last batch dimension of `component_distribution`, chosen by a
    Categorical over it."""

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: Any = None,
    ) -> None:
        self.mixture_distribution = mixture_distribution
        self.component_distribution = component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(  # noqa: TRY004 - as PyTorch
                " The Mixture distribution needs to be an instance of Categorical"
            )
        batch = tuple(component_distribution.batch_shape)
        count = mixture_distribution.probs.shape[-1]
        if not batch or batch[-1] != count:
            raise ValueError(
                f"`mixture_distribution` has {count} components, but `component_distribution` has "
                f"the batch shape {batch}"
            )
        super().__init__(batch[:-1], component_distribution.event_shape, validate_args)

    def __repr__(self) -> str:
        parts = f"{self.mixture_distribution},\n  {self.component_distribution}"
        return f"MixtureSameFamily(\n  {parts})"

    @c.dependent_property
    def support(self) -> Any:
        return c.MixtureSameFamilyConstraint(self.component_distribution.support)

    def _apart(self, value: Tensor) -> Tensor:
        """With a dimension for the components."""
        return value.unsqueeze(value.ndim - len(self._event_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        each = self.component_distribution.log_prob(self._apart(value))
        return (each + self.mixture_distribution.logits).logsumexp(-1)

    def cdf(self, value: Tensor) -> Tensor:
        each = self.component_distribution.cdf(self._apart(value))
        return (each * self.mixture_distribution.probs).sum(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        events = len(self._event_shape)
        with no_grad():
            drawn = self.component_distribution.sample(sample_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            dim = drawn.ndim - events - 1
            index = chosen.reshape((*chosen.shape, *(1,) * (events + 1)))
            index = index.expand((*chosen.shape, 1, *self._event_shape))
            return drawn.gather(dim, index).squeeze(dim)

    def _weights(self) -> Tensor:
        probs = self.mixture_distribution.probs
        return probs.reshape((*probs.shape, *(1,) * len(self._event_shape)))

    @property
    def mean(self) -> Tensor:
        dim = -1 - len(self._event_shape)
        return (self._weights() * self.component_distribution.mean).sum(dim)

    @property
    def variance(self) -> Tensor:
        dim = -1 - len(self._event_shape)
        inside = (self._weights() * self.component_distribution.variance).sum(dim)
        apart = self.component_distribution.mean - self.mean.unsqueeze(dim)
        return inside + (self._weights() * apart * apart).sum(dim)
