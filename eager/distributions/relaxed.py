"""Distributions on [0, 1] and on simplexes that stand for discrete ones: relaxed and continuous
Bernoulli, relaxed categorical, logistic normal. parameters -> draws and densities."""

from __future__ import annotations

import math
from typing import Any

from eager.construct.interop import tensor
from eager.core.tensor import Tensor
from eager.distributions import constraints as c
from eager.distributions.categorical import Categorical
from eager.distributions.counts import _OfTrials
from eager.distributions.distribution import Distribution, ExponentialFamily, OfProbs
from eager.distributions.normal import Normal
from eager.distributions.scalar_transforms import ExpTransform, SigmoidTransform
from eager.distributions.transformed import TransformedDistribution
from eager.distributions.transforms_of_parts import StickBreakingTransform
from eager.distributions.utils import clamp_probs
from eager.nn.functional import binary_cross_entropy_with_logits
from eager.ops.pointwise import where
from eager.random import rand


def _as_tensor(temperature: Any) -> Tensor:
    return temperature if isinstance(temperature, Tensor) else tensor(float(temperature))


# --------------------------------------------------------------------------------- relaxed
class _AtTemperature(Distribution):
    """With a `temperature` that is the same for the whole batch."""

    temperature: Tensor

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = super().expand(batch_shape, _instance)
        new.temperature = self.temperature
        return new


class LogitRelaxedBernoulli(_AtTemperature, _OfTrials):
    """The logits of `RelaxedBernoulli`."""

    support = c.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        self.temperature = _as_tensor(temperature)
        self._trials(probs, logits)
        super().__init__(self.probs.shape, validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = clamp_probs(
            rand(
                self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device
            )
        )
        p = clamp_probs(self.probs)
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        apart = self.logits - value * self.temperature
        return self.temperature.log() + apart - 2 * apart.exp().log1p()


class _Relaxed(TransformedDistribution):
    """A relaxed distribution, of one over its logits or logarithms."""

    base_dist: Any
    has_rsample = True

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """Between 0 and 1, the nearer to them the lower the temperature (Maddison et al. 2017)."""

    arg_constraints = {"probs": c.unit_interval, "logits": c.real}
    support = c.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args)


class ExpRelaxedCategorical(_AtTemperature):
    """The logarithms of `RelaxedOneHotCategorical`."""

    arg_constraints = {"probs": c.simplex, "logits": c.real_vector}
    support = c.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        self.temperature = _as_tensor(temperature)
        self._categorical = Categorical(probs, logits)
        shape = tuple(self._categorical.logits.shape)
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        u = clamp_probs(
            rand(
                self._extended_shape(sample_shape),
                dtype=self.logits.dtype,
                device=self.logits.device,
            )
        )
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self._event_shape[0]
        scale = math.lgamma(n) + self.temperature.log() * (n - 1)
        score = self.logits - value * self.temperature
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(_Relaxed):
    """A point of the simplex, the nearer to a corner the lower the temperature (Jang et al.
    2017)."""

    arg_constraints = {"probs": c.simplex, "logits": c.real_vector}
    support = c.simplex

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args)
        super().__init__(base, ExpTransform(), validate_args)


class LogisticNormal(TransformedDistribution):
    """Normal draws broken off a stick: a point of the simplex with one number more."""

    arg_constraints = {"loc": c.real, "scale": c.positive}
    support = c.simplex
    base_dist: Any
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: Any = None) -> None:
        base = Normal(loc, scale, validate_args)
        base = base if base.batch_shape else base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        return self.base_dist.base_dist.scale


# ------------------------------------------------------------------------------ continuous
class ContinuousBernoulli(_OfTrials, OfProbs, ExponentialFamily):
    """The density p^x (1 - p)^(1 - x) on [0, 1], scaled to 1 (Loaiza-Ganem, Cunningham 2019).

    Where p is within `lims`, near 1/2, its formulas are Taylor's."""

    support = c.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: Any = None,
    ) -> None:
        self._trials(probs, logits)
        if validate_args and not self.arg_constraints["probs"].check(self.probs).all():
            raise ValueError("The parameter probs has invalid values")
        self.probs = clamp_probs(self.probs)
        self._lims = lims
        super().__init__(self.probs.shape, validate_args=validate_args)

    def _apart(self, far: Any, near: Any) -> Tensor:
        """`far` of p (moved to the limit where it is near 1/2), or `near` of p - 1/2."""
        low, high = self._lims
        outside = (self.probs <= low) | (self.probs > high)
        return where(outside, far(where(outside, self.probs, low)), near(self.probs - 0.5))

    def _log_norm(self) -> Tensor:
        def far(p: Tensor) -> Tensor:
            low, high = where(p <= 0.5, p, 0.0), where(p >= 0.5, p, 1.0)
            width = where(p <= 0.5, (-2.0 * low).log1p(), (2.0 * high - 1.0).log())
            return ((-p).log1p() - p.log()).abs().log() - width

        return self._apart(
            far, lambda x: math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x * x) * (x * x)
        )

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.icdf(
            rand(
                self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device
            )
        )

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        shape = (self.logits + value * 0).shape
        logits, value = self.logits.expand(shape), value.expand(shape)
        loss = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._log_norm() - loss

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inside = self._apart(
            lambda p: (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1),
            lambda x: value + x * 0,
        )
        return where(value <= 0, 0.0, where(value >= 1, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        def far(p: Tensor) -> Tensor:
            rest = (-p).log1p()
            return ((value * (2 * p - 1) - p).log1p() - rest) / (p.log() - rest)

        return self._apart(far, lambda x: value + x * 0)

    def entropy(self) -> Tensor:
        zero, one = (-self.probs).log1p(), self.probs.log()
        return self.mean * (zero - one) - self._log_norm() - zero

    @property
    def mean(self) -> Tensor:
        return self._apart(
            lambda p: p / (2 * p - 1) + 1 / ((-p).log1p() - p.log()),
            lambda x: 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x * x) * x,
        )

    @property
    def variance(self) -> Tensor:
        return self._apart(
            lambda p: p * (p - 1) / (1 - 2 * p) ** 2 + 1 / ((-p).log1p() - p.log()) ** 2,
            lambda x: 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x * x) * (x * x),
        )
