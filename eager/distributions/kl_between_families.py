"""Kullback-Leibler divergences between two families: the cross-entropy less the entropy, from
moments. two distributions -> tensor."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from eager.core.tensor import Tensor
from eager.distributions.categorical import Bernoulli
from eager.distributions.counts import Binomial, Poisson
from eager.distributions.distribution import Distribution
from eager.distributions.gamma import Beta, Gamma
from eager.distributions.kl import register_kl
from eager.distributions.location_scale import Gumbel, Laplace, Pareto
from eager.distributions.normal import Exponential, Normal, Uniform
from eager.distributions.relaxed import ContinuousBernoulli
from eager.distributions.utils import euler_constant
from eager.ops.create import full_like
from eager.ops.pointwise import where

# ------------------------------------------------------ moments: p -> the mean of a function of x
_MEAN_LOG: dict[type, Any] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -euler_constant - p.rate.log(),
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.scale.log() + 1 / p.alpha,
    Uniform: lambda p: _mean_log_between(p.low, p.high),
}
# of exp((loc - x) * t)
_LAPLACE_TRANSFORM: dict[type, Any] = {
    Exponential: lambda p, t, loc: (loc * t).exp() * p.rate / (p.rate + t),
    Gamma: lambda p, t, loc: (loc * t).exp() * (1 + t / p.rate) ** -p.concentration,
    Normal: lambda p, t, loc: ((loc - p.loc) * t + 0.5 * (p.scale * t) ** 2).exp(),
    Uniform: lambda p, t, loc: (
        (((loc - p.low) * t).exp() - ((loc - p.high) * t).exp()) / (t * (p.high - p.low))
    ),
}


def _by_family(table: dict[type, Any], p: Distribution) -> Any:
    return next(table[base] for base in type(p).__mro__ if base in table)


def _mean_log_between(low: Tensor, high: Tensor) -> Tensor:
    return (high.xlogy(high) - low.xlogy(low)) / (high - low) - 1


def _mean_distance(p: Normal, loc: Tensor) -> Tensor:
    """The mean of |x - loc|."""
    z = (p.loc - loc) / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * (-0.5 * z * z).exp()
    return near + (p.loc - loc) * (math.sqrt(0.5) * z).erf()


# ------------------------------------------------- cross-entropies: -(the mean over p of log q(x))
def _to_exponential(p: Any, q: Any) -> Tensor:
    return _inside(p, 0, math.inf, q.rate * p.mean - q.rate.log())


def _to_gamma(p: Any, q: Any) -> Tensor:
    total = q.concentration.lgamma() - q.concentration * q.rate.log()
    powers = (q.concentration - 1) * _by_family(_MEAN_LOG, p)(p)
    return _inside(p, 0, math.inf, total - powers + q.rate * p.mean)


def _to_normal(p: Any, q: Any) -> Tensor:
    spread = p.variance + (p.mean - q.loc) ** 2
    return (math.sqrt(2 * math.pi) * q.scale).log() + spread / (2 * q.scale**2)


def _to_uniform(p: Any, q: Any) -> Tensor:
    return where((q.low > 0) | (q.high < 1), math.inf, (q.high - q.low).log())


def _to_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return _inside(p, 0, 1, -p.mean * q.logits - (-q.probs).log1p() - q._log_norm())


def _to_gumbel(p: Any, q: Any) -> Tensor:
    t = 1 / q.scale
    return q.scale.log() + (p.mean - q.loc) * t + _by_family(_LAPLACE_TRANSFORM, p)(p, t, q.loc)


def _to_laplace(p: Normal, q: Laplace) -> Tensor:
    return (2 * q.scale).log() + _mean_distance(p, q.loc) / q.scale


def _to_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    powers = (a - 1) * _mean_log_between(p.low, p.high)
    powers = powers + (b - 1) * _mean_log_between(1 - p.high, 1 - p.low)
    return _inside(p, 0, 1, a.lgamma() + b.lgamma() - (a + b).lgamma() - powers)


def _to_pareto(p: Uniform, q: Pareto) -> Tensor:
    tail = (
        (q.alpha + 1) * _mean_log_between(p.low, p.high) - q.alpha.log() - q.alpha * q.scale.log()
    )
    return _inside(p, q.scale, math.inf, tail)


def _to_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log()


def _inside(p: Any, low: Any, high: Any, result: Tensor) -> Tensor:
    """The result, infinite where a uniform p has values outside of the bounds of q; the other
    families that are asked for have none."""
    if not isinstance(p, Uniform):
        return result
    return where((p.low < low) | (p.high > high), math.inf, result)


def _cross_less_entropy(cross_entropy: Any, p: Any, q: Any) -> Tensor:
    cross: Tensor = cross_entropy(p, q)
    return cross - p.entropy()


def _infinite(p: Any, q: Any) -> Tensor:
    """Infinity for each distribution p: values that it has q can't have."""
    return full_like(p.mean, math.inf)


_REAL, _POSITIVE = (Gumbel, Laplace, Normal), (Exponential, Gamma)
_WITHIN_ONE = (Beta, ContinuousBernoulli)
_CROSS_ENTROPIES: list[tuple[Any, type, tuple[type, ...]]] = [
    (_to_exponential, Exponential, (*_WITHIN_ONE, Gamma, Pareto, Uniform)),
    (_to_gamma, Gamma, (Beta, Exponential, Pareto, Uniform)),
    (_to_normal, Normal, (*_WITHIN_ONE, *_POSITIVE, Gumbel, Laplace, Pareto, Uniform)),
    (_to_uniform, Uniform, _WITHIN_ONE),
    (_to_continuous_bernoulli, ContinuousBernoulli, (Beta, Uniform)),
    (_to_gumbel, Gumbel, (*_POSITIVE, Normal, Uniform)),
    (_to_laplace, Laplace, (Normal,)),
    (_to_beta, Beta, (Uniform,)),
    (_to_pareto, Pareto, (Uniform,)),
    (_to_poisson, Poisson, (Bernoulli,)),
]
_BEYOND: list[tuple[type, tuple[type, ...]]] = [
    (Exponential, _REAL),
    (Gamma, _REAL),
    (Pareto, (*_REAL, *_POSITIVE, *_WITHIN_ONE)),
    (Uniform, (*_REAL, *_POSITIVE, Pareto)),
    (Beta, (*_REAL, *_POSITIVE, Pareto)),
    (ContinuousBernoulli, (*_REAL, *_POSITIVE, Pareto)),
    (Bernoulli, (Poisson,)),
    (Binomial, (Poisson,)),
]

for _cross_entropy, _q, _families in _CROSS_ENTROPIES:
    for _p in _families:
        register_kl(_p, _q)(partial(_cross_less_entropy, _cross_entropy))
for _q, _families in _BEYOND:
    for _p in _families:
        register_kl(_p, _q)(_infinite)
