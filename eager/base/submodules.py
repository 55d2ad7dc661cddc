"""At the edge: the submodules under which PyTorch keeps its classes. a name of PyTorch's -> the
module here that has them.

`from torch.distributions.beta import Beta` is a line of many programs.
"""

from __future__ import annotations

import sys

_HOMES = {
    "distributions": {
        "categorical": "bernoulli",
        "counts": "binomial geometric multinomial negative_binomial one_hot_categorical poisson",
        "distribution": "exp_family independent",
        "gamma": "beta chi2 dirichlet fishersnedecor inverse_gamma studentT",
        "location_scale": "cauchy generalized_pareto gumbel half_cauchy half_normal laplace pareto "
        "von_mises weibull",
        "matrices": "lkj_cholesky lowrank_multivariate_normal wishart",
        "normal": "exponential multivariate_normal uniform",
        "registry": "constraint_registry",
        "relaxed": "continuous_bernoulli logistic_normal relaxed_bernoulli relaxed_categorical",
        "transformed": "kumaraswamy log_normal mixture_same_family transformed_distribution",
    },
    "utils.data": {"sampler": "distributed"},
    "optim": {"adam": "adamax adamw nadam radam", "rms": "adadelta adagrad rmsprop"},
    "nn.modules": {
        "batchnorm": "instancenorm",
        "linear": "flatten",
        "loss": "distance",
        "shape": "channelshuffle fold padding pixelshuffle upsampling",
    },
    "nn.utils": {"clip": "clip_grad", "convert": "convert_parameters"},
}


def name_submodules(package: str) -> None:
    """Give the submodules of a package that is imported PyTorch's names, too."""
    path = f"eager.{package}"
    for home, names in _HOMES[package].items():
        module = sys.modules[f"{path}.{home}"]
        for name in names.split():
            sys.modules[f"{path}.{name}"] = module
            setattr(sys.modules[path], name, module)
