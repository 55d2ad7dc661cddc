"""`eager.nn.utils.parametrizations`: weights of a known length, of norm 1, or orthogonal. (module,
name) -> the module, with that weight computed from others (see `parametrize`).

Names of parameters and buffers are PyTorch's, so that state dicts fit.
"""

from __future__ import annotations

import functools
from typing import Any, Final, TypeVar

from eager.autograd import no_grad
from eager.base.dtype import finfo
from eager.core.tensor import Tensor
from eager.linalg import householder_product, matrix_exp, solve
from eager.nn.functional import normalize
from eager.nn.modules import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from eager.nn.modules.module import Module
from eager.nn.utils.parametrize import register_parametrization
from eager.nn.utils.weights import length_except
from eager.ops.create import eye
from eager.ops.householder import geqrf
from eager.ops.move import cat
from eager.random import randn

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

M = TypeVar("M", bound=Module)


def _weight(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")  # noqa: TRY004
    return weight


# ----------------------------------------------------------------------------- weight norm
class _WeightNorm(Module):
    """g * v / |v|, with one length g for each index of dimension `dim` (-1: one)."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / length_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return length_except(weight, self.dim), weight


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """The weight is computed from its length, `original0`, and its direction, `original1` (Salimans
    and Kingma 2016). State dicts of the older `nn.utils.weight_norm` fit, too."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    module._register_load_state_dict_pre_hook(functools.partial(_rename_older, name))
    return module


def _rename_older(name: str, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    older = [f"{prefix}{name}_{part}" for part in "gv"]
    if all(key in state_dict for key in older):
        for i, key in enumerate(older):
            state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)


# --------------------------------------------------------------------------- spectral norm
class _SpectralNorm(Module):
    """The weight divided by its largest singular value, which power iteration follows in
    training."""

    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                "Dimension out of range (expected to be in range of "
                f"[-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % weight.ndim, eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            with no_grad():
                rows = self._matrix(weight)
                for name, n in zip(("_u", "_v"), rows.shape, strict=True):
                    start = normalize(rows.new_empty(n).normal_(), dim=0, eps=eps)
                    self.register_buffer(name, start)
            self._power_method(rows, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        """`dim` as rows, the other dimensions as columns."""
        return weight.movedim(self.dim, 0).flatten(1)

    def _power_method(self, rows: Tensor, iterations: int) -> None:
        with no_grad():
            for _ in range(iterations):
                self._u.copy_(normalize(rows.mv(self._v), dim=0, eps=self.eps))
                self._v.copy_(normalize(rows.mH.mv(self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        rows = self._matrix(weight)
        if self.training:
            self._power_method(rows, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the next call overwrites the buffers
        return weight / u.vdot(rows.mv(v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """The weight divided by its largest singular value (Miyato et al. 2018). `dim` counts the
    outputs: 1 for transposed convolutions, else 0."""
    weight = _weight(module, name)
    if dim is None:
        dim = int(isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d))
    parametrization = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return register_parametrization(module, name, parametrization)


# ------------------------------------------------------------------------------ orthogonal
_MAPS: Final = ("matrix_exp", "cayley", "householder")


def _made_orthogonal(tall: Tensor) -> Tensor:
    """The Q of tall = Q R with a diagonal of R that is real and not negative."""
    stored, tau = geqrf(tall)
    signs = stored.diagonal(dim1=-2, dim2=-1).sgn()
    return householder_product(stored, tau) * signs.unsqueeze(-2)


def _is_orthogonal(square: Tensor) -> bool:
    n = square.shape[-1]
    near = (square.mH @ square - eye(n, dtype=square.dtype, device=square.device)).abs().max()
    return bool(near <= 10.0 * n * finfo(square.dtype).eps)


class _Orthogonal(Module):
    """A matrix with orthonormal columns (rows, where it has fewer) from one without constraint.

    With a trivialization it starts from `base`, which is what it was set to (Lezcano Casado
    2019)."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.dtype.is_complex and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        Q = self._mapped(X.mT if wide else X)
        if self.use_trivialization:
            Q = self.base @ Q
        return Q.mT if wide else Q

    def _mapped(self, X: Tensor) -> Tensor:
        """Orthonormal columns from a tall matrix."""
        n, k = X.shape[-2:]
        if self.orthogonal_map == "householder":
            below = X.tril(-1)
            tau = 2.0 / (1.0 + (below * below).sum(-2))
            # What is on the diagonal is 1 or -1, and not learned.
            signs = X.diagonal(dim1=-2, dim2=-1).int()
            return householder_product(below, tau) * signs.unsqueeze(-2)
        X = X.tril()
        if n != k:
            X = cat([X, X.new_zeros(*X.shape[:-1], n - k)], dim=-1)
        A = X - X.mH
        if self.orthogonal_map == "matrix_exp":
            Q = matrix_exp(A)
        else:
            one = eye(n, dtype=A.dtype, device=A.device)
            Q = solve(one - A * 0.5, one + A * 0.5)
        return Q[..., :k]

    def right_inverse(self, Q: Tensor) -> Tensor:
        """Called without gradients."""
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. "
                f"Got a tensor of shape {Q.shape}."
            )
        wide = Q.shape[-2] < Q.shape[-1]
        tall = Q.mT if wide else Q
        if not self.use_trivialization:
            found = self._reflections(tall)
            return found.mT if wide else found
        n, k = tall.shape[-2:]
        if n != k:  # to a square one, by random columns
            more = randn(*tall.shape[:-1], n - k, dtype=tall.dtype, device=tall.device)
            self.base = _made_orthogonal(cat([tall, more], dim=-1))
        else:
            self.base = tall.clone() if _is_orthogonal(tall) else _made_orthogonal(tall)
        start = Q.new_zeros(Q.shape)  # minus the identity, for the
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)  # reflections' signs; the other maps give it
        return start

    def _reflections(self, tall: Tensor) -> Tensor:
        """Tensor that the map makes the matrix from, where there is an inverse."""
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False."
            )
        stored, tau = geqrf(tall)
        signs = stored.diagonal(dim1=-2, dim2=-1)
        sign = signs.sign()
        sign[tau == 0.0] *= -1  # no reflection at all
        signs.copy_(sign)
        return stored


def orthogonal(
    module: M,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> M:
    """The weight has orthonormal columns, or rows where it has fewer. `orthogonal_map` is
    "matrix_exp" (of square and complex weights, by default), "cayley" or "householder"."""
    weight = _weight(module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.dtype.is_complex else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(f"orthogonal_map has to be one of {_MAPS}. Got: {orthogonal_map}")
    parametrization = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)
