"""`eager.linalg`: linear algebra under PyTorch's names. matrices (*B, M, N) -> decompositions,
solutions, norms."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from eager.autograd.vmap_control_flow import differs
from eager.base import dtype as dt
from eager.base.misspelled import missing
from eager.core import return_types
from eager.core.casts import full_precision, lower_precision, on_gpus
from eager.core.dispatch import apply
from eager.core.op import Sample
from eager.core.registry import Out, public, under
from eager.core.return_types import shown_as
from eager.core.tensor import Tensor
from eager.ops import extern, factor
from eager.ops import samples as s
from eager.ops.extern import LinAlgError as LinAlgError
from eager.ops.householder import householder_product as householder_product
from eager.ops.lu import lu as lu
from eager.ops.lu import lu_factor as lu_factor
from eager.ops.lu import lu_factor_ex as lu_factor_ex
from eager.ops.lu import lu_solve as lu_solve
from eager.ops.move import apart, cat
from eager.ops.products import matmul
from eager.ops.view import broadcast_tensors
from eager.sizes.aval import broadcast_shapes

_OUT = Out(overlap="any")
_linalg = under("linalg", _OUT)


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


@shown_as("linalg_qr")
class QR(NamedTuple):
    Q: Tensor
    R: Tensor


@shown_as("linalg_svd")
class SVD(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


@shown_as("linalg_eigh")
class Eigh(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


@shown_as("linalg_slogdet")
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
    if _is_vector(A, B):
        A, one = _same_batch(A, B.unsqueeze(-1))
        if A.shape[-1] != one.shape[-2]:
            raise RuntimeError(
                f"linalg.solve: Incompatible shapes of A and B for the equation AX = B "
                f"({A.shape[-2]}x{A.shape[-1]} and {one.shape[-2]}x1)"
            )
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
    counts as ones when `unitriangular`. B is converted to A's dtype."""
    _two_matrices("linalg.solve_triangular", A, B, left)
    B = B.to(A.dtype)
    if unitriangular:
        ones = A.new_ones(A.shape[-1]).diag()
        A = (A.triu(1) if upper else A.tril(-1)) + ones
    return solve(A.triu() if upper else A.tril(), B, left=left)


@public(
    samples=lambda: [
        Sample((s.values((3, 2)), np.triu(_regular(3, 3)) if u else np.tril(_regular(3, 3))),
               {"upper": u}, grad=False)
        for u in (False, True)
    ],
    out=_OUT,
)  # fmt: skip
def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with L L^T X = B for the factor L that `linalg.cholesky` gives (L^T L when `upper`)."""
    _two_matrices("cholesky_solve", L, B, True)
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
    result, power = None, A
    while n:
        if n & 1:
            result = power if result is None else matmul(result, power)
        n >>= 1
        power = matmul(power, power) if n else power
    if result is None:
        return A - A + A.new_ones(A.shape[-1:]).diag_embed()
    return apart(result, A)


@_linalg()
@lower_precision
def multi_dot(tensors: Any) -> Tensor:
    """The product of all matrices, in the order that multiplies fewest numbers."""
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    sizes = [1 if tensors[0].ndim == 1 else tensors[0].shape[0]]
    sizes += [x.shape[-1] if x.ndim > 1 or not i else 1 for i, x in enumerate(tensors)]
    splits = _cheapest(sizes) if all(type(n) is int for n in sizes) else {}

    def product(i: int, j: int) -> Tensor:
        split = splits.get((i, j), j - 1)
        return tensors[i] if i == j else matmul(product(i, split), product(split + 1, j))

    return product(0, len(tensors) - 1)


def _cheapest(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Index at which to split each run of a chain of matrices, the i-th of sizes[i] x sizes[i + 1]
    (Godbole, "On efficient computation of matrix chain products", 1973)."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    splits = {}
    for i, j in ((i, i + length) for length in range(1, n) for i in range(n - length)):
        cost[i, j], splits[i, j] = min(
            (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
            for k in range(i, j)
        )
    return splits


@_linalg(lambda: [Sample((s.values((3, 4)),)), Sample((s.values((3, 4)), 1, 0))])
@on_gpus("full")
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
@on_gpus("full")
def matrix_norm(
    A: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """Frobenius ("fro"), nuclear ("nuc"), spectral (2, -2), row (inf, -inf) and column (1, -1)
    norms."""
    A = A if dtype is None else A.to(dtype)
    if A.dtype.category < dt.FLOAT:
        raise RuntimeError(
            f"linalg.matrix_norm: Expected a floating point or complex tensor, got {A.dtype}"
        )
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
@on_gpus("full")
def norm(
    A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """`vector_norm`, or `matrix_norm` for two dims and an `ord`."""
    two = (dim is None and A.ndim == 2) or (isinstance(dim, tuple | list) and len(dim) == 2)
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if dim is None and A.ndim not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D, got "
            f"{A.ndim}D"
        )
    if two:
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


# ------------------------------------------------------------- whether it could be done, too
def _with_info(name: str, out: Tensor, check_errors: bool, *, vector: bool = False) -> Any:
    """A result and, per matrix, 0 where it could be had (else the result is NaN)."""
    broken = out.detach().isnan().any(-1)
    broken = broken if vector else broken.any(-1)
    if check_errors and bool(broken.any()):
        raise LinAlgError(f"linalg.{name}: a matrix is singular, or not positive definite")
    return getattr(return_types, f"linalg_{name}_ex")(out, broken.to(dt.int32))


@_linalg(lambda: [Sample((_regular(3, 3),))])
def inv_ex(A: Tensor, *, check_errors: bool = False) -> Any:
    """`inv`, and whether it could be had."""
    return _with_info("inv", apply(extern.INV, A, lenient=True), check_errors)


@_linalg(lambda: [Sample((_regular(3, 3), s.values((3, 2))))])
def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> Any:
    """`solve`, and whether it could be had."""
    out = _solved(A, B, left, lenient=True)
    return _with_info("solve", out, check_errors, vector=_is_vector(A, B))


def _is_vector(A: Tensor, B: Tensor) -> bool:
    return B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])


@_linalg(lambda: [Sample((_definite(3, 3),), grad=False)])
def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    """`cholesky`, and whether it could be had."""
    lower = apply(extern.CHOLESKY, A, lenient=True)
    return _with_info("cholesky", lower.mH if upper else lower, check_errors)


# ------------------------------------------------------------------------------ eigenvalues
@shown_as("linalg_eig")
class Eig(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


@_linalg()
def eig(A: Tensor) -> Eig:
    """Complex eigenvalues and eigenvectors (of length 1) of any square matrix."""
    return Eig(*apply(factor.EIG, A))


@_linalg()
def eigvals(A: Tensor) -> Tensor:
    """The complex eigenvalues of any square matrix."""
    return apply(factor.EIG, A)[0]


# ------------------------------------------------------------------- least squares and ranks
@shown_as("linalg_lstsq")
class LstSq(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


@_linalg()
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LstSq:
    """X with the smallest |A X - B| (and the smallest X of several). What a driver of LAPACK's does
    not give is empty, as in PyTorch: only "gelsd" and "gelss" give singular values, "gels" no
    rank."""
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)"
        )
    if A.ndim < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's "
            f"dtype {A.dtype} and other's dtype {B.dtype}"
        )
    driver = driver or "gelsy"
    vector = B.ndim == A.ndim - 1 and B.shape == A.shape[:-1]
    right = B.unsqueeze(-1) if vector else B
    if right.ndim < 2 or right.shape[-2] != A.shape[-2]:
        raise RuntimeError(
            "torch.linalg.lstsq: input.size(-2) should match other.size(-2), got "
            f"{list(A.shape)} and {list(B.shape)}"
        )
    m, n = A.shape[-2:]
    limit = max(m, n) * dt.finfo(A.dtype).eps if rcond is None else rcond
    out = pinv(A, rtol=limit) @ right
    values = svdvals(A.detach())
    rank = (values > limit * values[..., :1]).sum(-1)
    residuals = out.real.reshape(-1)[:0]
    known = (rank == n).all()
    if m > n and driver != "gelsy" and (differs(known) or bool(known)):
        residuals = ((A @ out - right).abs() ** 2).sum(-2)
    none = values.new_empty(0)
    return LstSq(
        out.squeeze(-1) if vector else out,
        residuals,
        rank if driver != "gels" else none.to(dt.int64),
        values if driver in ("gelsd", "gelss") else none,
    )


@_linalg(lambda: [Sample((_regular(3, 4),), grad=False), Sample((np.ones((3, 3)),), grad=False)])
def matrix_rank(
    A: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:
    """Number of singular values above max(atol, rtol * the largest): int64."""
    atol, rtol = _limits(A, tol if atol is None else atol, 0.0 if tol is not None else rtol)
    values = (eigvalsh(A).abs() if hermitian else svdvals(A)).detach()
    if not values.shape[-1]:
        return values.sum(-1).to(dt.int64)
    limits = [x.unsqueeze(-1) if isinstance(x, Tensor) else x for x in (atol, rtol)]
    least = values.amax(-1, keepdim=True) * limits[1]
    return ((values > least) & (values > limits[0])).sum(-1)


@_linalg(lambda: [Sample((_regular(3, 3), p), grad=p in (None, -2)) for p in (None, -2, "fro", 1)])
def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number by a norm: |A| |A^-1|; infinite for a singular matrix."""
    if p in (None, 2, -2):
        values = svdvals(A)
        if not values.shape[-1]:
            return values.sum(-1)
        least, largest = values[..., -1], values[..., 0]
        return least / largest if p == -2 else largest / least
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError(f"linalg.cond(): A must be square for the norm {p}, got {list(A.shape)}")
    if not A.numel():
        return A.real.abs().sum((-2, -1)) if A.dtype.is_complex else A.sum((-2, -1))
    out = matrix_norm(A, p) * matrix_norm(apply(extern.INV, A, lenient=True), p)
    return out.masked_fill(out.isnan(), math.inf)


# -------------------------------------------------------------------- products, powers, tensors
@_linalg(lambda: [Sample((_regular(3, 3) / 3,))])
def matrix_exp(A: Tensor) -> Tensor:
    """exp(A) = 1 + A + A^2 / 2 + ..."""
    return apply(factor.MATRIX_EXP, A)


@_linalg(lambda: [Sample((s.values((2, 3)), s.values((1, 3), seed=1)))], on_gpus="widest")
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The vector product along a dimension of size 3."""
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    a, b = broadcast_tensors(input, other)
    if a.shape[dim] != 3 or input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[dim]} and "
            f"{other.shape[dim]}"
        )
    return a.cross(b, dim)


@_linalg(lambda: [Sample((s.values((2, 3)), s.values((3,), seed=1)))])
@lower_precision
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The sum of conj(x) * y along a dimension."""
    return (x.conj() * y).sum(dim)


@_linalg(lambda: [Sample((s.values((2, 3)),)), Sample((s.values((3,)),), {"N": 5})])
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The powers 0 .. N-1 of each element along a new last dimension."""
    x = x.reshape(1) if x.ndim == 0 else x
    n = x.shape[-1] if N is None else N
    if n <= 1:
        raise RuntimeError(f"N must be greater than 1, got {n}")
    ones = x.new_ones((*x.shape, 1))
    return cat([ones, x.unsqueeze(-1).expand(*x.shape, n - 1).cumprod(-1)], -1)


@_linalg(lambda: [Sample((s.values((2, 3, 4)),))])
def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices (a view)."""
    return A.diagonal(offset, dim1, dim2)


@_linalg(lambda: [Sample((_regular(4, 4).reshape(2, 2, 4),))])
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of the map that `tensordot(A, ., ind)` is."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    rows, columns = A.shape[ind:], A.shape[:ind]
    if math.prod(rows) != math.prod(columns):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), but got {math.prod(rows)} != {math.prod(columns)}"
        )
    return inv(A.reshape(math.prod(columns), -1)).reshape((*rows, *columns))


@_linalg(lambda: [Sample((_regular(4, 4).reshape(2, 2, 4), s.values((2, 2))))])
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B; `dims` of A are moved to its end first."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    shape = A.shape[B.ndim :]
    if math.prod(shape) != B.numel():
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {math.prod(shape)} != {B.numel()}"
        )
    return solve(A.reshape(B.numel(), -1), B.reshape(-1)).reshape(shape)


public("inverse", samples=lambda: [Sample((_regular(3, 3),))])(inv)
public("det")(det)

__getattr__ = missing(__name__)
