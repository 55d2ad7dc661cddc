"""Linear algebra under the names that it had before `linalg`. matrices (*B, M, N) -> factors,
solutions."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

from eager import linalg
from eager.base.compat_warnings import warn
from eager.core.registry import Out, public
from eager.core.return_types import shown_as
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.pointwise import where
from eager.random import randn

_OUT: Final = Out(overlap="any")


@shown_as("qr")
class Qr(NamedTuple):
    Q: Tensor
    R: Tensor


@shown_as("slogdet")
class Slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


@shown_as("svd")
class Svd(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor


@shown_as("triangular_solve")
class TriangularSolve(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor


@public("qr", out=_OUT)
def former_qr(input: Tensor, some: bool = True) -> Qr:
    """`linalg.qr`, reduced or (when not `some`) complete."""
    warn("qr is deprecated: use linalg.qr")
    return Qr(*linalg.qr(input, "reduced" if some else "complete"))


@public("svd", out=_OUT)
def former_svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Svd:
    """`linalg.svd` with V for V^H; zeros for both when not `compute_uv`."""
    if not compute_uv:
        m, n = input.shape[-2:]
        u, v = (input.new_zeros((*input.shape[:-2], k, k)) for k in (m, n))
        return Svd(u, linalg.svdvals(input), v)
    u, values, vh = linalg.svd(input, not some)
    return Svd(u, values, vh.mH)


@public("slogdet", out=_OUT)
def former_slogdet(input: Tensor) -> Slogdet:
    """`linalg.slogdet`."""
    return Slogdet(*linalg.slogdet(input))


public("matrix_power")(linalg.matrix_power)


@public("cholesky", out=_OUT)
def former_cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """`linalg.cholesky`."""
    warn("cholesky is deprecated: use linalg.cholesky")
    return linalg.cholesky(input, upper=upper)


@public(samples=lambda: [s.call(linalg._definite(3, 3))])
def logdet(input: Tensor) -> Tensor:
    """log of the determinant; NaN where it is negative, the complex logarithm of a complex one."""
    sign, size = linalg.slogdet(input)
    if sign.dtype.is_complex:
        return sign.log() + size
    return where(sign < 0, math.nan, size)


@public(out=_OUT)
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of the matrix of which `linalg.cholesky` gives L."""
    if L.ndim < 2 or L.shape[-1] != L.shape[-2]:
        raise RuntimeError(
            f"cholesky_inverse: A must be batches of square matrices, got {list(L.shape)}"
        )
    eye = (L.new_ones(L.shape[-1]).diag()).expand(L.shape)
    return linalg.cholesky_solve(eye, L, upper)


@public(out=_OUT)
def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolve:
    """(X with A X = b, A), reading one triangle of A."""
    if b.ndim < 2 or A.ndim < 2:
        raise RuntimeError(
            f"torch.triangular_solve: Expected b and A to have at least 2 dimensions, but they "
            f"have {b.ndim} and {A.ndim} dimensions instead"
        )
    B, coefficient = b, A
    if transpose:
        A, upper = A.mT, not upper
    return TriangularSolve(
        linalg.solve_triangular(A, B, upper=upper, unitriangular=unitriangular), coefficient.clone()
    )


@public()
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv`."""
    return linalg.pinv(input, rtol=rcond)


@public()
def matrix_exp(input: Tensor) -> Tensor:
    """`linalg.matrix_exp`."""
    return linalg.matrix_exp(input)


@public(method=False, out=_OUT)
def chain_matmul(*matrices: Any) -> Tensor:
    """`linalg.multi_dot`."""
    warn("chain_matmul is deprecated: use linalg.multi_dot")
    return linalg.multi_dot(matrices) if len(matrices) > 1 else matrices[0].clone()


@public(method=False)
def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """U, S, V of about the q largest singular values of A - M, by random projection (Halko,
    Martinsson, Tropp 2009, algorithms 4.4 and 5.1)."""
    A = A if M is None else A - M
    wide = A.shape[-2] < A.shape[-1]
    A = A.mH if wide else A
    count = 6 if q is None else q
    draws = randn(*A.shape[:-2], A.shape[-1], count, dtype=A.dtype)
    basis = linalg.qr(A @ draws)[0]
    for _ in range(2 if niter is None else niter):
        basis = linalg.qr(A @ linalg.qr(A.mH @ basis)[0])[0]
    U, S, Vh = linalg.svd(basis.mH @ A, full_matrices=False)
    U, V = basis @ U, Vh.mH
    return (V, S, U) if wide else (U, S, V)


@public(method=False)
def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """The principal components V of the rows of A, less their mean if `center`: U diag(S) V^T is
    about that. ValueError for a `q` that A cannot have."""
    most = min(A.shape[-2:])
    if q is None:
        q = min(6, most)
    elif not 0 <= q <= most:
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={most}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)
