"""Probability distributions over tensors: sampling, log densities, entropies. parameters -> draws
and densities.

Plain Python over the ops, so that losses written with them are captured and differentiated.
"""

from __future__ import annotations

from eager.base.submodules import name_submodules as _name_submodules
from eager.distributions import (
    categorical,
    constraints,
    kl_between_families,  # noqa: F401  registers them
    normal,
    transforms,
)
from eager.distributions.categorical import Bernoulli, Categorical
from eager.distributions.counts import (
    Binomial,
    Geometric,
    Multinomial,
    NegativeBinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from eager.distributions.distribution import Distribution, ExponentialFamily, Independent
from eager.distributions.gamma import (
    Beta,
    Chi2,
    Dirichlet,
    FisherSnedecor,
    Gamma,
    InverseGamma,
    StudentT,
)
from eager.distributions.kl import kl_divergence, register_kl
from eager.distributions.location_scale import (
    Cauchy,
    GeneralizedPareto,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    Pareto,
    VonMises,
    Weibull,
)
from eager.distributions.matrices import LKJCholesky, LowRankMultivariateNormal, Wishart
from eager.distributions.normal import Exponential, MultivariateNormal, Normal, Uniform
from eager.distributions.registry import biject_to, transform_to
from eager.distributions.relaxed import (
    ContinuousBernoulli,
    LogisticNormal,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from eager.distributions.transformed import (
    Kumaraswamy,
    LogNormal,
    MixtureSameFamily,
    TransformedDistribution,
)
from eager.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform",
    "Categorical", "Cauchy", "Chi2", "ComposeTransform", "ContinuousBernoulli",
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet", "Distribution",
    "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma",
    "GeneralizedPareto", "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent",
    "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal",
    "LogisticNormal", "LowRankMultivariateNormal", "LowerCholeskyTransform", "MixtureSameFamily",
    "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform",
    "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "StudentT", "TanhTransform", "Transform", "TransformedDistribution",
    "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "categorical", "constraints",
    "identity_transform", "kl_divergence", "normal", "register_kl", "transform_to", "transforms",
]  # fmt: skip

_name_submodules("distributions")
