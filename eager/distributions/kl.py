"""Kullback-Leibler divergences in closed form, by the pair of types. two distributions ->
tensor."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from eager import linalg
from eager.core.tensor import Tensor
from eager.distributions.categorical import Bernoulli, Categorical
from eager.distributions.counts import Binomial, Geometric, OneHotCategorical, Poisson
from eager.distributions.distribution import Distribution, Independent
from eager.distributions.gamma import Beta, Dirichlet, Gamma, InverseGamma
from eager.distributions.location_scale import (
    Cauchy,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    Pareto,
)
from eager.distributions.matrices import LowRankMultivariateNormal, Wishart
from eager.distributions.normal import Exponential, MultivariateNormal, Normal, Uniform
from eager.distributions.relaxed import ContinuousBernoulli
from eager.distributions.transformed import TransformedDistribution
from eager.distributions.utils import euler_constant
from eager.nn.functional import softplus
from eager.ops.pointwise import where

_PAIRS: dict[tuple[type, type], Any] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator for the divergence of a pair of types (and of their subclasses)."""
    if not (isinstance(type_p, type) and isinstance(type_q, type)):
        raise TypeError(f"register_kl: {type_p} and {type_q} must be classes of distributions")

    def register(fn: Any) -> Any:
        _PAIRS[type_p, type_q] = fn
        return fn

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q). NotImplementedError for a pair without a closed form here."""
    found = _PAIRS.get((type(p), type(q))) or _of_bases(type(p), type(q))
    if found is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}"
        )
    result: Tensor = found(p, q)
    return result


def _of_bases(p: type, q: type) -> Any:
    """The divergence of the nearest classes of which these are subclasses, or None."""
    pairs = ((a, b) for a in p.__mro__ for b in q.__mro__)
    return next((_PAIRS[pair] for pair in pairs if pair in _PAIRS), None)


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    apart = ((p.loc - q.loc) / q.scale) ** 2
    return 0.5 * (ratio + apart - 1 - ratio.log())


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    each = where(q.probs == 0, math.inf, p.probs * (p.logits - q.logits))
    return where(p.probs == 0, 0.0, each).sum(-1)


register_kl(OneHotCategorical, OneHotCategorical)(_categorical)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    ones = where(p.probs == 0, 0.0, where(q.probs == 0, math.inf, ones))
    return ones + where(p.probs == 1, 0.0, where(q.probs == 1, math.inf, zeros))


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return where(p.total_count > q.total_count, math.inf, p.total_count * each)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL between Independents of different numbers of dimensions")
    return p._sum(kl_divergence(p.base_dist, q.base_dist))


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    """KL divergence of the base distributions: one bijection on both changes nothing."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL between distributions of different transforms")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Wishart, Wishart)
def _wishart(p: Any, q: Any) -> Tensor:
    n = p.event_shape[-1]
    scale = q.df * (q._half_log_det() - p._half_log_det())
    factor = linalg.solve_triangular(
        q.scale_tril + 0 * p.scale_tril, p.scale_tril + 0 * q.scale_tril, upper=False
    )
    spread = p.df / 2 * ((factor**2).sum((-2, -1)) - n) + (p.df - q.df) / 2 * p._digamma()
    return scale + spread + (q.df / 2).mvlgamma(n) - (p.df / 2).mvlgamma(n)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    own, other = (d._log_norm() + (-d.probs).log1p() for d in (p, q))
    return p.mean * (p.logits - q.logits) + own - other


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    apart = (a - b) * a.digamma() + b.lgamma() - a.lgamma()
    return q.concentration * (p.rate / q.rate).log() + apart + (q.rate - p.rate) * (a / p.rate)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    constant = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return constant + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._both(), q._both())


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, apart = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * (-apart / p.scale).exp() - 1


register_kl(InverseGamma, InverseGamma)(_gamma)


@register_kl(HalfCauchy, HalfCauchy)
def _half_cauchy(p: HalfCauchy, q: HalfCauchy) -> Tensor:
    return _cauchy(p.base_dist, q.base_dist)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    spread = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return spread.log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    apart = q.loc / q.scale - p.loc / q.scale
    moment = (apart + (1 + ratio).lgamma()).exp()
    return -ratio.log() - apart + ratio * euler_constant + moment - (1 + euler_constant)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    found = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return where(p.scale < q.scale, math.inf, found)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return where((q.low > p.low) | (q.high < p.high), math.inf, found)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be "
            "computed"
        )
    p, q = (MultivariateNormal(d.loc, scale_tril=d.scale_tril) for d in (p, q))
    half = q._half_log_det() - p._half_log_det()
    n = p.event_shape[0]
    factor = linalg.solve(q.scale_tril, p.scale_tril + 0 * q.scale_tril)
    apart = (q.loc - p.loc).unsqueeze(-1)
    white = linalg.solve(q.scale_tril + 0 * p.scale_tril, apart)
    return half + 0.5 * ((factor**2).sum((-2, -1)) + (white**2).sum((-2, -1)) - n)
