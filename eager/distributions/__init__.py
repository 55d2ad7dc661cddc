"""Probability distributions over tensors: sampling, log densities, entropies. parameters -> draws
and densities.

Plain Python over the ops, so that losses written with them are captured and differentiated.
"""

from __future__ import annotations

from eager.distributions import categorical as categorical
from eager.distributions import normal as normal
from eager.distributions.categorical import Bernoulli as Bernoulli
from eager.distributions.categorical import Categorical as Categorical
from eager.distributions.distribution import Distribution as Distribution
from eager.distributions.distribution import Independent as Independent
from eager.distributions.kl import kl_divergence as kl_divergence
from eager.distributions.normal import Exponential as Exponential
from eager.distributions.normal import MultivariateNormal as MultivariateNormal
from eager.distributions.normal import Normal as Normal
from eager.distributions.normal import Uniform as Uniform
