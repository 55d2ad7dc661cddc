"""`eager.linalg`: linear algebra under PyTorch's names. matrices (*B, M, N) -> decompositions,
solutions, norms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from eager import dtype as dt
from eager.aval import broadcast_shapes
from eager.casts import full_precision, lower_precision
from eager.dispatch import apply
from eager.op import Sample, Samples
from eager.ops import extern, factor
from eager.ops import samples as s
from eager.ops.products import matmul
from eager.registry import public
from eager.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def _linalg(samples: Samples | None = None) -> Callable[[F], F]:
    """Register as `torch.linalg.<name>`: neither a method nor in `eager`."""

    def register(fn: F) -> F:
        name = f"linalg.{fn.__name__}"
        return public(torch=name, samples=samples, method=False, namespace=False)(fn)

    return register


def _regular(*shape: int) -> Any:
    """A matrix far from singular, with distinct eigenvalues."""
    n = min(shape[-2:])
    x = s.values(shape, -1, 1)
    for i in range(n):
        x[..., i, i] += 2.0 + i
    return x


def _definite(*shape: int) -> Any:
    x = _regular(*shape)
    return x @ x.swapaxes(-1, -2)


class QR(NamedTuple):
    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


class Eigh(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class SlogDet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


@_linalg(lambda: [Sample((_regular(3, 3),)), Sample((_regular(2, 3, 3),))])
@full_precision
def inv(A: Tensor) -> Tensor:
    """The inverse. RuntimeError for a singular matrix."""
    return apply(extern.INV, A)


@_linalg(
    lambda: [Sample((_regular(3, 3), s.values((3, 2)))), Sample((_regular(3, 3), s.values((3,))))]
)
@full_precision
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B (X A = B when not `left`); B may be a vector. RuntimeError for a singular
    matrix."""
    return _solved(A, B, left, lenient=False)


def _solved(A: Tensor, B: Tensor, left: bool, *, lenient: bool) -> Tensor:
    if A.ndim < 2:
        raise RuntimeError("linalg.solve: The input tensor A must have at least 2 dimensions.")
    if B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1]):
        A, one = _same_batch(A, B.unsqueeze(-1))
        return apply(extern.SOLVE, A, one, lenient=lenient).squeeze(-1)
    if not left:
        return _solved(A.mT, B.mT, True, lenient=lenient).mT
    A, B = _same_batch(A, B)
    if A.shape[-1] != B.shape[-2]:
        raise RuntimeError(
            f"linalg.solve: Incompatible shapes of A and B for the equation AX = B "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )
    return apply(extern.SOLVE, A, B, lenient=lenient)


def _same_batch(A: Tensor, B: Tensor) -> tuple[Tensor, Tensor]:
    """Both with the batch dimensions that they have together, and of one dtype."""
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"Expected both matrices to have the same dtype, but found {A.dtype} and {B.dtype}"
        )
    lead = broadcast_shapes(tuple(A.shape[:-2]), tuple(B.shape[:-2]))
    return A.expand(*lead, *A.shape[-2:]), B.expand(*lead, *B.shape[-2:])


@_linalg(
    lambda: [
        Sample((_regular(3, 3), s.values((3, 2))), {"upper": False}),
        Sample((_regular(2, 3, 3), s.values((2, 3, 2))), {"upper": True, "unitriangular": True}),
        Sample((_regular(3, 3), s.values((2, 3))), {"upper": True, "left": False}),
    ]
)
def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X with A X = B (X A = B when not `left`) for the upper or lower triangle of A, whose diagonal
    counts as ones when `unitriangular`."""
    _two_matrices("linalg.solve_triangular", A, B, left)
    if unitriangular:
        ones = A.new_ones(A.shape[-1]).diag()
        A = (A.triu(1) if upper else A.tril(-1)) + ones
    return solve(A.triu() if upper else A.tril(), B, left=left)


@public(
    samples=lambda: [
        Sample((s.values((3, 2)), np.triu(_regular(3, 3)) if u else np.tril(_regular(3, 3))),
               {"upper": u}, grad=False)
        for u in (False, True)
    ]
)  # fmt: skip
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with L L^T X = B for the factor L that `linalg.cholesky` gives (L^T L when `upper`)."""
    L, B = _same_batch(L, B)
    return apply(factor.CHOLESKY_SOLVE, L, B, upper=upper)


def _two_matrices(name: str, A: Tensor, B: Tensor, left: bool) -> None:
    """RuntimeError unless A is square and fits the matrix B."""
    if A.ndim < 2 or B.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor must have at least 2 dimensions.")
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {A.shape[-2]} by "
            f"{A.shape[-1]} matrices"
        )
    if A.shape[-1] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"{name}: Incompatible shapes of A and B for the equation {'AX' if left else 'XA'} = B "
            f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})"
        )


@_linalg(lambda: [Sample((_regular(3, 3),)), Sample((_regular(2, 3, 3),))])
def det(A: Tensor) -> Tensor:
    """The determinant."""
    return apply(extern.DET, A)


@_linalg(lambda: [Sample((_regular(3, 3),))])
def slogdet(A: Tensor) -> SlogDet:
    """Sign and logarithm of the absolute value of the determinant."""
    return SlogDet(*apply(extern.SLOGDET, A))


@_linalg(lambda: [Sample((_definite(3, 3),), grad=False)])  # differences would leave the symmetric
@full_precision
def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """L with L L^H = A for a positive definite A. RuntimeError for another."""
    lower = apply(extern.CHOLESKY, A)
    return lower.mH if upper else lower


@_linalg()
def qr(A: Tensor, mode: str = "reduced") -> QR:
    """Q with orthonormal columns and R upper triangular, A = Q R. mode: "reduced", "complete" (Q
    square) or "r" (Q empty)."""
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', "
            "or 'complete'"
        )
    return QR(*apply(extern.QR, A, mode=mode))


@_linalg()
def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVD:
    """A = U diag(S) Vh, singular values in falling order; U and Vh square when `full_matrices`."""
    if driver is not None:
        raise RuntimeError("torch.linalg.svd: keyword argument `driver=` is for CUDA tensors")
    return SVD(*apply(extern.SVD, A, full=full_matrices))


@_linalg(lambda: [Sample((_regular(3, 3),)), Sample((_regular(4, 3),))])
def svdvals(A: Tensor) -> Tensor:
    """The singular values in falling order."""
    return apply(extern.SVD, A, full=False)[1]


@_linalg()
def eigh(A: Tensor, UPLO: str = "L") -> Eigh:
    """Eigenvalues (rising) and eigenvectors of a symmetric or Hermitian matrix, of which the lower
    ("L") or the upper ("U") triangle is read."""
    return Eigh(*apply(extern.EIGH, _triangle(A, UPLO)))


@_linalg(lambda: [Sample((_definite(3, 3),), grad=False)])
def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues (rising) of a symmetric or Hermitian matrix."""
    return apply(extern.EIGH, _triangle(A, UPLO))[0]


def _triangle(A: Tensor, UPLO: str) -> Tensor:
    """A matrix whose lower triangle is the one that is meant."""
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return A if UPLO in "Ll" else A.transpose(-2, -1).conj()


@_linalg(
    lambda: [Sample((_regular(4, 3),)), Sample((_definite(3, 3),), {"hermitian": True}, grad=False)]
)
@full_precision
def pinv(
    A: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
) -> Tensor:
    """The pseudo-inverse; singular values below max(atol, rtol * the largest) count as 0. By
    default rtol is the larger size times the type's precision, or 0 where atol is given."""
    atol, rtol = _limits(A, atol, rcond if rtol is None else rtol)
    return apply(factor.PINV, A, atol, rtol, hermitian=hermitian)


def _limits(A: Tensor, atol: Any, rtol: Any) -> tuple[Any, Any]:
    if rtol is None:
        positive = isinstance(atol, Tensor) or (atol is not None and atol > 0)
        rtol = 0.0 if positive else max(A.shape[-2:]) * dt.finfo(A.dtype).eps
    return 0.0 if atol is None else atol, rtol


@_linalg(lambda: [Sample((_regular(3, 3), 3)), Sample((_regular(3, 3), -2))])
def matrix_power(A: Tensor, n: int) -> Tensor:
    """A multiplied by itself n times (the inverse for negative n), by repeated squaring."""
    if n < 0:
        return matrix_power(inv(A), -n)
    result = None
    while n:
        if n & 1:
            result = A if result is None else matmul(result, A)
        n >>= 1
        A = matmul(A, A) if n else A
    if result is None:
        return A - A + A.new_ones(A.shape[-1:]).diag_embed()
    return result


@_linalg()
@lower_precision
def multi_dot(tensors: Any) -> Tensor:
    """The product of all matrices, from left to right."""
    first, *rest = tensors
    for x in rest:
        first = matmul(first, x)
    return first


@_linalg(lambda: [Sample((s.values((3, 4)),)), Sample((s.values((3, 4)), 1, 0))])
def vector_norm(
    x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The p-norm over `dim`, of all elements by default."""
    x = x if dtype is None else x.to(dtype)
    return x.norm(ord, dim, keepdim)


@_linalg(
    lambda: [
        Sample((_regular(3, 4),)),
        Sample((_regular(3, 3), 1)),
        Sample((_regular(3, 3), "nuc")),
    ]
)
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Frobenius ("fro"), nuclear ("nuc"), spectral (2, -2), row (inf, -inf) and column (1, -1)
    norms."""
    A = A if dtype is None else A.to(dtype)
    rows, columns = (d % A.ndim for d in dim)
    if ord == "fro":
        return A.norm(2, (rows, columns), keepdim)
    if not isinstance(ord, str) and abs(ord) in (1, math.inf):
        return _sums_norm(A, ord, rows, columns, keepdim)
    values = svdvals(A.movedim((rows, columns), (-2, -1)))
    if ord == "nuc":
        out = values.sum(-1)
    else:
        out = values.amax(-1) if ord > 0 else values.amin(-1)
    return (
        out.reshape([1 if d in (rows, columns) else n for d, n in enumerate(A.shape)])
        if keepdim
        else out
    )


def _sums_norm(A: Tensor, ord: float, rows: int, columns: int, keepdim: bool) -> Tensor:
    summed, kept = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = A.abs().sum(summed, keepdim=True)
    out = sums.amax(kept, keepdim=True) if ord > 0 else sums.amin(kept, keepdim=True)
    return out if keepdim else out.squeeze((rows, columns))


@_linalg(lambda: [Sample((s.values((3, 4)),)), Sample((s.values((3, 4)), None, 0))])
def norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """`vector_norm`, or `matrix_norm` for two dims and an `ord`."""
    two = (dim is None and A.ndim == 2) or (isinstance(dim, tuple | list) and len(dim) == 2)
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if two:
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


public("inverse", samples=lambda: [Sample((_regular(3, 3),))])(inv)
public("det")(det)
public("slogdet")(slogdet)
