"""Linear algebra under the names that it had before `linalg`. matrices (*B, M, N) -> factors,
solutions."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from eager import linalg
from eager.ops import samples as s
from eager.ops.pointwise import where
from eager.registry import public
from eager.tensor import Tensor


class Svd(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor


class TriangularSolve(NamedTuple):
    solution: Tensor
    cloned_coefficient: Tensor


@public("qr")
def former_qr(input: Tensor, some: bool = True) -> linalg.QR:
    """`linalg.qr`, reduced or (when not `some`) complete."""
    return linalg.qr(input, "reduced" if some else "complete")


@public("svd")
def former_svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> Svd:
    """`linalg.svd` with V for V^H; zeros for both when not `compute_uv`."""
    if not compute_uv:
        m, n = input.shape[-2:]
        u, v = (input.new_zeros((*input.shape[:-2], k, k)) for k in (m, n))
        return Svd(u, linalg.svdvals(input), v)
    u, values, vh = linalg.svd(input, not some)
    return Svd(u, values, vh.mH)


@public("cholesky")
def former_cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """`linalg.cholesky`."""
    return linalg.cholesky(input, upper=upper)


@public(samples=s.calls(s.call(linalg._definite(3, 3))))
def logdet(input: Tensor) -> Tensor:
    """log of the determinant; NaN where it is negative."""
    sign, size = linalg.slogdet(input)
    return where(sign < 0, math.nan, size)


@public()
def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of the matrix of which `linalg.cholesky` gives L."""
    if L.ndim < 2 or L.shape[-1] != L.shape[-2]:
        raise RuntimeError(
            f"cholesky_inverse: A must be batches of square matrices, got {list(L.shape)}"
        )
    eye = (L.new_ones(L.shape[-1]).diag()).expand(L.shape)
    return linalg.cholesky_solve(eye, L, upper)


@public()
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


@public(method=False)
def chain_matmul(*matrices: Any) -> Tensor:
    """`linalg.multi_dot`."""
    return linalg.multi_dot(matrices)
