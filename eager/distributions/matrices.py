"""Distributions over matrices, and over vectors with a covariance of low rank: Wishart,
LKJCholesky, LowRankMultivariateNormal. parameters -> draws and densities."""

from __future__ import annotations

import math
from typing import Any

from eager import linalg
from eager.autograd import no_grad
from eager.base.dtype import finfo
from eager.core.tensor import Tensor
from eager.distributions import constraints as c
from eager.distributions.distribution import Distribution, ExponentialFamily
from eager.distributions.gamma import Beta
from eager.distributions.normal import OfCovariance
from eager.distributions.utils import broadcast_all
from eager.ops.create import arange, eye
from eager.ops.pointwise import where
from eager.random import _standard_gamma, randn
from eager.sizes.aval import broadcast_shapes


class LowRankMultivariateNormal(Distribution):
    """The normal distribution over vectors with the covariance `cov_factor @ cov_factor.mT +
    diag(cov_diag)`, of which only a small matrix is ever factored (Woodbury)."""

    arg_constraints = {
        "loc": c.real_vector,
        "cov_factor": c.independent(c.real, 2),
        "cov_diag": c.independent(c.positive, 1),
    }
    support = c.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: Any = None
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        n = loc.shape[-1]
        if cov_factor.ndim < 2 or cov_factor.shape[-2] != n:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {n} x m")
        if cov_diag.shape[-1:] != (n,):
            raise ValueError(f"cov_diag must be a batch of vectors with shape {(n,)}")
        batches = (loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        try:
            batch = broadcast_shapes(*map(tuple, batches))
        except RuntimeError as error:
            raise ValueError(f"Incompatible batch shapes: {batches}") from error
        self.loc = loc.expand(*batch, n)
        self.cov_factor = cov_factor.expand(*batch, n, cov_factor.shape[-1])
        self.cov_diag = cov_diag.expand(*batch, n)
        super().__init__(batch, (n,), validate_args)

    def _small(self) -> Tensor:
        """The Cholesky factor of I + W^T D^-1 W, which is as small as the rank."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        product = scaled @ self.cov_factor
        one = eye(product.shape[-1], dtype=product.dtype, device=product.device)
        return linalg.cholesky(product + one)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape, kind = self._extended_shape(sample_shape), self.loc.dtype
        place = self.loc.device
        few = randn((*shape[:-1], self.cov_factor.shape[-1], 1), dtype=kind, device=place)
        along = (self.cov_factor @ few).squeeze(-1)
        return self.loc + along + self.cov_diag.sqrt() * randn(shape, dtype=kind, device=place)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        apart, factor = value - self.loc, self._small()
        seen = ((self.cov_factor.mT / self.cov_diag.unsqueeze(-2)) @ apart.unsqueeze(-1)).squeeze(
            -1
        )
        factor = factor.expand(*seen.shape[:-1], *factor.shape[-2:])
        white = linalg.solve_triangular(factor, seen.unsqueeze(-1), upper=False).squeeze(-1)
        distance = (apart * apart / self.cov_diag).sum(-1) - (white * white).sum(-1)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + self._log_det() + distance)

    def _log_det(self) -> Tensor:
        inner = self._small().diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return 2 * inner + self.cov_diag.log().sum(-1)

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        return 0.5 * (n * (1.0 + math.log(2 * math.pi)) + self._log_det())

    @property
    def covariance_matrix(self) -> Tensor:
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @property
    def precision_matrix(self) -> Tensor:
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        white = linalg.solve_triangular(self._small(), scaled, upper=False)
        return self.cov_diag.reciprocal().diag_embed() - white.mT @ white

    @property
    def scale_tril(self) -> Tensor:
        return linalg.cholesky(self.covariance_matrix)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self.cov_factor * self.cov_factor).sum(-1) + self.cov_diag


class Wishart(OfCovariance, ExponentialFamily):
    """The sum of `df` outer products of normal vectors with themselves, from their covariance, its
    inverse or its Cholesky factor."""

    arg_constraints = {
        "covariance_matrix": c.positive_definite,
        "precision_matrix": c.positive_definite,
        "scale_tril": c.lower_cholesky,
        "df": c.greater_than(0),
    }
    support = c.positive_definite
    has_rsample = True

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: Any = None,
    ) -> None:
        name, matrix = self._matrix(
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        n = matrix.shape[-1]
        df = df if isinstance(df, Tensor) else matrix.new_tensor(float(df))
        batch = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(df.shape))
        self.df = df.expand(batch)
        setattr(self, name, matrix.expand(*batch, n, n))
        super().__init__(batch, (n, n), validate_args)
        self._factorize(name, matrix, batch)

    def _check_parameters(self) -> None:
        n = self._event_shape[-1]
        if (self.df <= n - 1).any():
            raise ValueError(
                f"Value of df={self.df} expected to be greater than ndim - 1 = {n - 1}."
            )
        super()._check_parameters()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """By Bartlett's decomposition: the Cholesky factor has normal draws below its diagonal and
        the roots of chi-squared ones on it."""
        n, shape = self._event_shape[-1], self._extended_shape(sample_shape)
        half = 0.5 * (self.df.unsqueeze(-1) - arange(n, dtype=self.df.dtype, device=self.df.device))
        squares = 2 * _standard_gamma(half.expand(shape[:-1]))
        diagonal = squares.sqrt().clamp(min=finfo(squares.dtype).eps)
        noise = randn(shape, dtype=self.df.dtype, device=self.df.device).tril(-1)
        factor = self.scale_tril @ (noise + diagonal.diag_embed())
        return factor @ factor.mT

    def _digamma(self) -> Tensor:
        """The derivative of the logarithm of gamma of several dimensions, at df / 2."""
        steps = arange(self._event_shape[-1], dtype=self.df.dtype, device=self.df.device) / 2
        return ((self.df / 2).unsqueeze(-1) - steps).digamma().sum(-1)

    def _half_log_det(self) -> Tensor:
        """Half the log determinant of twice the covariance."""
        n = self._event_shape[-1]
        return n * math.log(2.0) / 2 + self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        nu, n = self.df, self._event_shape[-1]
        both = broadcast_shapes(tuple(value.shape), tuple(self.scale_tril.shape))
        value, factor = value.expand(both), self.scale_tril.expand(both)
        half = linalg.solve_triangular(factor, value, upper=False)
        white = linalg.solve_triangular(factor, half.mT, upper=False)
        trace = white.diagonal(dim1=-2, dim2=-1).sum(-1)
        log_det = linalg.slogdet(value)[1]
        total = nu * self._half_log_det() + (nu / 2).mvlgamma(n)
        return (nu - n - 1) / 2 * log_det - trace / 2 - total

    def entropy(self) -> Tensor:
        nu, n = self.df, self._event_shape[-1]
        spread = (nu / 2).mvlgamma(n) - (nu - n - 1) / 2 * self._digamma()
        return (n + 1) * self._half_log_det() + spread + nu * n / 2

    def _times(self, count: Tensor) -> Tensor:
        return count.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        return self._times(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        count = self.df - self._event_shape[-1] - 1
        return self._times(where(count <= 0, math.nan, count)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = covariance.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._times(self.df) * (covariance * covariance + outer)


class LKJCholesky(Distribution):
    """Cholesky factors of `dim` x `dim` matrices of correlations, with a density that is a power of
    the determinant (Lewandowski, Kurowicka, Joe 2009)."""

    arg_constraints = {"concentration": c.positive}
    support = c.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: Any = None) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        below = (
            arange(dim, dtype=self.concentration.dtype, device=self.concentration.device) - 1
        ).clamp(min=0.0)  # 0, 0, 1, 2, ...
        rest = self.concentration.unsqueeze(-1) + 0.5 * (dim - 2) - 0.5 * below
        self._lengths = Beta(below + 0.5, rest)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """By the onion method: each row is a point of a sphere, as long as a beta draw says."""
        with no_grad():
            lengths = self._lengths.sample(sample_shape).unsqueeze(-1)
            normal = randn(
                self._extended_shape(sample_shape), dtype=lengths.dtype, device=lengths.device
            ).tril(-1)
            size = normal.norm(dim=-1, keepdim=True)
            rows = lengths.sqrt() * normal / where(size == 0, 1.0, size)  # nothing in the first
            tiny = finfo(rows.dtype).tiny
            diagonal = (1 - (rows * rows).sum(-1)).clamp(min=tiny).sqrt()
            return rows + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n, a = self.dim, self.concentration
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        powers = 2 * (a - 1).unsqueeze(-1) + n - arange(2, n + 1, dtype=a.dtype, device=a.device)
        half = a + 0.5 * (n - 1)
        scale = 0.5 * (n - 1) * math.log(math.pi) + (half - 0.5).mvlgamma(n - 1)
        return (powers * diagonal.log()).sum(-1) - scale + half.lgamma() * (n - 1)
