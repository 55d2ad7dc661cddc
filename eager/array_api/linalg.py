"""`linalg` of the array API standard. tensors -> tensors."""

from __future__ import annotations

from typing import Any

from eager import linalg as _linalg
from eager.array_api import functions as _xp
from eager.array_api.creation import asarray as _asarray
from eager.array_api.creation import finfo, functions, real_of
from eager.array_api.functions import Axis, axes_of, broadcast_arrays, count_nonzero, unstack
from eager.array_api.functions import matrix_transpose as matrix_transpose
from eager.array_api.functions import tensordot as tensordot
from eager.array_api.functions import vecdot as vecdot
from eager.core.tensor import Tensor

matmul = functions.matmul
det, inv, matrix_power, slogdet = _linalg.det, _linalg.inv, _linalg.matrix_power, _linalg.slogdet


def eigh(x: Tensor, /) -> Any:
    """Eigenvalues and eigenvectors of each symmetric or Hermitian matrix."""
    return _linalg.eigh(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """Eigenvalues of each symmetric or Hermitian matrix."""
    return _linalg.eigvalsh(x)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """The orthogonal and the triangular factor of each matrix: Q, R."""
    return _linalg.qr(x, mode)


def svdvals(x: Tensor, /) -> Tensor:
    """The singular values of each matrix."""
    return _linalg.svdvals(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of each matrix."""
    return _linalg.matrix_norm(x, ord, keepdim=keepdims)


def vector_norm(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """A norm over axes."""
    return _linalg.vector_norm(x, ord, None if axis is None else axes_of(x, axis), keepdims)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """Number of singular values of each matrix that are larger than rtol * the largest."""
    values = _linalg.svdvals(x)
    if rtol is None:
        rtol = max(x.shape[-2:]) * finfo(real_of(x.dtype)).eps
    bound = _asarray(rtol, dtype=values.dtype)
    limit = _xp.max(values, axis=-1, keepdims=True) * bound.reshape((*bound.shape, 1))
    return count_nonzero(values > limit, axis=-1)


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverse of each matrix."""
    if rtol is None:
        rtol = max(x.shape[-2:]) * finfo(real_of(x.dtype)).eps
    return _linalg.pinv(x, rtol=rtol)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of each matrix."""
    return functions.diagonal(x, offset, -2, -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of a diagonal of each matrix."""
    return _xp.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of each element of one vector with each of another."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ValueError("outer() is of two vectors")
    return x1[:, None] * x2[None, :]


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The vector product along an axis of size 3."""
    if x1.shape[axis] != 3 or x2.shape[axis] != 3:
        raise ValueError("cross() is of vectors with 3 elements")
    a, b = unstack(x1, axis=axis), unstack(x2, axis=axis)
    parts = [a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)]
    return functions.stack(broadcast_arrays(*parts), axis)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of each positive definite matrix."""
    return _linalg.cholesky(x, upper=upper)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The x with x1 @ x == x2: a vector where x2 has one axis, else matrices."""
    return _linalg.solve(x1, x2[:, None])[..., 0] if x2.ndim == 1 else _linalg.solve(x1, x2)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """Singular values and vectors: U, S, Vh."""
    return _linalg.svd(x, full_matrices)
