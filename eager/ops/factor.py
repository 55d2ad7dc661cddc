"""Ops of kind `extern`: further decompositions of matrices, with kernels in NumPy. matrices (*B, M,
N) -> factors.

What NumPy's LAPACK has stands in `extern.py`. Here are LU with its pivots, eigenvalues of general
matrices, the pseudo-inverse, the matrix exponential, and solving by a Cholesky factor.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.core.dispatch import apply
from eager.ops.extern import SOLVE, Extern, adjoint, each_matrix, like
from eager.ops.move import CAT
from eager.sizes.aval import Aval


# --------------------------------------------------------------------------- pseudo-inverse
def _pinv_kernel(x: Any, atol: Any, rtol: Any, hermitian: bool) -> Any:
    """atol, rtol: one number per matrix, or one for all."""
    if hermitian:
        lower = np.tril(x, -1) + np.eye(x.shape[-1]) * x.real
        x = lower + np.conj(np.swapaxes(np.tril(x, -1), -1, -2))
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    if not s.size:
        return np.swapaxes(np.zeros_like(x), -1, -2)
    limit = np.maximum(np.asarray(atol)[..., None], np.asarray(rtol)[..., None] * s[..., :1])
    kept = s > limit
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(s.dtype)
    v, uh = np.conj(np.swapaxes(vh, -1, -2)), np.conj(np.swapaxes(u, -1, -2))
    return (v * inverse[..., None, :]) @ uh


def _pinv_vjp(g: Any, out: Any, x: Any) -> tuple[Any, ...]:
    """Golub, Pereyra, "The differentiation of pseudo-inverses" (1973)."""
    h, gh = adjoint(out), adjoint(g)
    first = gh @ out @ h
    second = h @ out @ gh
    own = (first - x @ (out @ first)) + (second - (second @ out) @ x) - h @ g @ h
    return own, None, None


PINV = Extern(
    "pinv",
    ("x", "atol", "rtol"),
    _pinv_vjp,
    core=(2, 0, 0),
    square=False,
    numpy=_pinv_kernel,
    shapes=lambda x, atol, rtol, hermitian: (like(x, *x.shape[:-2], x.shape[-1], x.shape[-2]),),
)


# -------------------------------------------------------------------------------- eigenvalues
def _eig_kernel(x: Any) -> tuple[Any, Any]:
    values, vectors = np.linalg.eig(x)
    wide = np.result_type(x.dtype, np.complex64)
    return values.astype(wide), vectors.astype(wide)


def _eig_shapes(x: Aval) -> tuple[Aval, ...]:
    kind = dt.complex_of(x.dtype)
    return Aval(x.shape[:-1], kind, x.device), Aval(x.shape, kind, x.device)


def _eig_vjp(g: Any, out: Any) -> tuple[Any, ...]:
    """Boeddeker et al., "On the computation of complex-valued gradients" (2017), section 4, for
    vectors of length 1 and distinct values."""
    values, vectors = out
    g_values, g_vectors = g
    h = adjoint(vectors)
    middle: Any = 0
    if g_vectors is not None:
        turned = h @ g_vectors
        along = turned.diagonal(0, -2, -1).real.to(values.dtype)
        turned = turned - (h @ vectors) * along.unsqueeze(-2)
        gaps = (values.unsqueeze(-2) - values.unsqueeze(-1)).conj()
        middle = turned / gaps.masked_fill(gaps == 0, float("inf"))
    if g_values is not None:
        middle = g_values.diag_embed() + middle
    return (apply(SOLVE, h, middle @ h),)


EIG = Extern("eig", ("x",), _eig_vjp, n_outputs=2, numpy=_eig_kernel, shapes=_eig_shapes)


# -------------------------------------------------------------------------- LU with pivots
def _size(x: Any) -> Any:
    """Magnitude by which LAPACK compares: |re| + |im| of complex numbers."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def _pivots_kernel(x: Any) -> tuple[Any, Any]:
    """The rows' order after partial pivoting, and LAPACK's pivots (counted from 1)."""
    work = np.array(x)
    m, n = work.shape
    order, pivots = np.arange(m), np.arange(1, min(m, n) + 1)
    for k in range(min(m, n)):
        best = k + int(np.argmax(_size(work[k:, k])))
        pivots[k] = best + 1
        if best != k:
            work[[k, best]] = work[[best, k]]
            order[[k, best]] = order[[best, k]]
        if work[k, k] != 0:
            work[k + 1 :, k] /= work[k, k]
            work[k + 1 :, k + 1 :] -= np.outer(work[k + 1 :, k], work[k, k + 1 :])
    return order, pivots.astype(np.int32)


def _pivots_shapes(x: Aval) -> tuple[Aval, ...]:
    *lead, m, n = x.shape
    return (
        Aval((*lead, m), dt.int64, x.device),
        Aval((*lead, min(m, n)), dt.int32, x.device),
    )


PIVOTS = Extern(
    "pivots",
    ("x",),
    n_outputs=2,
    square=False,
    stops=True,
    numpy=each_matrix(_pivots_kernel),
    shapes=_pivots_shapes,
)


def _plain_lu_kernel(x: Any) -> tuple[Any]:
    """L (below the diagonal, ones on it) and U of a square matrix, rows as they are."""
    work = np.array(x)
    for k in range(len(work) - 1):
        if work[k, k] != 0:
            work[k + 1 :, k] /= work[k, k]
            work[k + 1 :, k + 1 :] -= np.outer(work[k + 1 :, k], work[k, k + 1 :])
    return (work,)


def _plain_lu_vjp(g: Any, out: Any) -> tuple[Any, ...]:
    """de Hoog, Anderssen, Lukas, "Differentiation of matrix functionals using triangular
    factorization" (2011)."""
    lower, upper = unpacked(out)
    lh, uh = adjoint(lower), adjoint(upper)
    middle = (lh @ g.tril(-1)).tril(-1) + (g.triu() @ uh).triu()
    left = apply(SOLVE, lh, middle)
    return (adjoint(apply(SOLVE, upper, adjoint(left))),)


PLAIN_LU = Extern(
    "plain_lu",
    ("x",),
    _plain_lu_vjp,
    numpy=lambda x: each_matrix(_plain_lu_kernel)(x)[0],
    shapes=lambda x: (x,),
)


def unpacked(lu: Any) -> tuple[Any, Any]:
    """L and U of a square matrix that holds both."""
    ones = lu.new_ones(lu.shape[-1]).diag()
    return lu.tril(-1) + ones, lu.triu()


def packed_lu(rows: Any) -> Any:
    """L and U in one matrix (*B, M, N), of a matrix whose rows are in order: the square part is
    factored, the rest solved by its factors."""
    m, n = rows.shape[-2:]
    k = min(m, n)
    square = apply(PLAIN_LU, rows.narrow(-2, 0, k).narrow(-1, 0, k))
    lower, upper = unpacked(square)
    if n > k:
        beside = apply(SOLVE, lower, rows.narrow(-1, k, n - k))
        return apply(CAT, square, beside, dim=rows.ndim - 1)
    if m > k:
        below = rows.narrow(-2, k, m - k)
        below = apply(SOLVE, upper.transpose(-1, -2), below.transpose(-1, -2)).transpose(-1, -2)
        return apply(CAT, square, below, dim=rows.ndim - 2)
    return square


# ---------------------------------------------------------------------------- exponential
def _exp_kernel(x: Any) -> tuple[Any]:
    """Scaling and squaring over a Taylor polynomial of degree 18 (Bader, Blanes, Casas 2019)."""
    norm = float(np.abs(x).sum(0).max()) if x.size else 0.0
    if not math.isfinite(norm):
        return (np.full_like(x, math.nan),)
    halvings = max(0, int(np.ceil(np.log2(norm)))) + 1 if norm > 0 else 0
    scaled = x.astype(np.result_type(x.dtype, np.float64)) / 2.0**halvings
    total = term = np.eye(len(x), dtype=scaled.dtype)
    for i in range(1, 19):
        term = term @ scaled / i
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return (total.astype(x.dtype),)


def _exp_vjp(g: Any, x: Any) -> tuple[Any, ...]:
    """The upper right block of exp [[A^H, G], [0, A^H]] (Mathias 1996)."""
    h = adjoint(x)
    n, ndim = x.shape[-1], x.ndim
    upper = apply(CAT, h, g, dim=ndim - 1)
    lower = apply(CAT, h * 0, h, dim=ndim - 1)
    whole = apply(MATRIX_EXP, apply(CAT, upper, lower, dim=ndim - 2))
    return (whole.narrow(-2, 0, n).narrow(-1, n, n),)


MATRIX_EXP = Extern(
    "matrix_exp",
    ("x",),
    _exp_vjp,
    numpy=lambda x: each_matrix(_exp_kernel)(x)[0],
    shapes=lambda x: (x,),
)


# -------------------------------------------------------------- solving by a Cholesky factor
def _cholesky_solve_kernel(factor: Any, b: Any, upper: bool) -> Any:
    half = np.triu(factor) if upper else np.tril(factor)
    other = np.conj(np.swapaxes(half, -1, -2))
    return np.linalg.solve(half, np.linalg.solve(other, b)) if upper else np.linalg.solve(
        other, np.linalg.solve(half, b)
    )  # fmt: skip


def _cholesky_solve_vjp(g: Any, factor: Any, out: Any, upper: bool) -> tuple[Any, ...]:
    """By A^-1 = (L L^H)^-1. (As in PyTorch, not cut to the triangle that is read.)"""
    gb = apply(CHOLESKY_SOLVE, factor, g, upper=upper)
    outer = gb @ adjoint(out)
    both = -(outer + adjoint(outer))
    return (factor @ both if upper else both @ factor), gb


CHOLESKY_SOLVE = Extern(
    "cholesky_solve",
    ("factor", "b"),
    _cholesky_solve_vjp,
    numpy=_cholesky_solve_kernel,
    shapes=lambda factor, b, upper: (b,),
)
