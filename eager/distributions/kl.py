"""Kullback-Leibler divergences in closed form, by the pair of types. two distributions ->
tensor."""

from __future__ import annotations

from typing import Any

from eager.distributions.categorical import Bernoulli, Categorical
from eager.distributions.distribution import Distribution, Independent
from eager.distributions.normal import Normal
from eager.tensor import Tensor


def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    apart = ((p.loc - q.loc) / q.scale) ** 2
    return 0.5 * (ratio + apart - 1 - ratio.log())


def _categorical(p: Categorical, q: Categorical) -> Tensor:
    return (p.probs * (p.logits - q.logits)).sum(-1)


def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    ones = p.probs * (p.probs.log() - q.probs.log())
    zeros = (1 - p.probs) * ((-p.probs).log1p() - (-q.probs).log1p())
    return ones + zeros


def _independent(p: Independent, q: Independent) -> Tensor:
    return p._sum(kl_divergence(p.base_dist, q.base_dist))


_PAIRS: dict[tuple[type, type], Any] = {
    (Normal, Normal): _normal,
    (Categorical, Categorical): _categorical,
    (Bernoulli, Bernoulli): _bernoulli,
    (Independent, Independent): _independent,
}


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q). NotImplementedError for a pair without a closed form here."""
    found = _PAIRS.get((type(p), type(q)))
    if found is None:
        raise NotImplementedError(
            f"no closed form for kl_divergence({type(p).__name__}, {type(q).__name__})"
        )
    result: Tensor = found(p, q)
    return result
