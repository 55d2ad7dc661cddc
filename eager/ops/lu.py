"""LU decompositions over `factor`: factoring, unpacking, solving. matrices (*B, M, N) -> P, L, U;
solutions.

The order of the rows is data without a derivative; the factors are those of the matrix with its
rows in that order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from eager.base import dtype as dt
from eager.core.dispatch import apply
from eager.core.registry import Out, public, under
from eager.core.return_types import shown_as
from eager.core.tensor import Tensor
from eager.ops import factor
from eager.ops import samples as s
from eager.ops.extern import SOLVE, LinAlgError
from eager.ops.index_and_sort import iota
from eager.ops.kinds import Host
from eager.sizes.aval import Aval, broadcast_shapes

_linalg = under("linalg", Out(overlap="any"))


@shown_as("linalg_lu")
class LU(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor


@shown_as("lu_unpack")
class Unpacked(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor


@shown_as("linalg_lu_factor")
class LUFactor(NamedTuple):
    LU: Tensor
    pivots: Tensor


@shown_as("linalg_lu_factor_ex")
class LUFactorEx(NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor


def _order_kernel(pivots: Any, rows: int) -> Any:
    out = np.broadcast_to(np.arange(rows), (*pivots.shape[:-1], rows)).copy()
    for at in np.ndindex(pivots.shape[:-1]):
        for k, p in enumerate(pivots[at] - 1):
            out[at][[k, p]] = out[at][[p, k]]
    return out


ORDER = Host(
    "pivots_order",
    ("pivots",),
    stops=True,
    core=(1,),
    numpy=_order_kernel,
    rule=lambda pivots, rows: (Aval((*pivots.shape[:-1], rows), dt.int64, pivots.device),),
)


def _factored(A: Tensor, pivot: bool) -> tuple[Tensor, Tensor, Tensor]:
    """L and U in one matrix, the rows' order, LAPACK's pivots."""
    if A.ndim < 2:
        raise RuntimeError(
            "linalg.lu_factor: Expected tensor with 2 or more dimensions. Got size: "
            f"{list(A.shape)}"
        )
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    order, pivots = apply(factor.PIVOTS, A.detach())
    rows = A.gather(-2, order.unsqueeze(-1).expand(A.shape))
    return factor.packed_lu(rows), order, pivots


def _permutation(order: Tensor, dtype: Any) -> Tensor:
    """P with P[order[i], i] = 1."""
    return (iota(order.shape[-1], like=order).unsqueeze(-1) == order.unsqueeze(-2)).to(dtype)


def _l_and_u(packed: Tensor) -> tuple[Tensor, Tensor]:
    """L (M, K) with ones on its diagonal, and U (K, N)."""
    m, n = packed.shape[-2:]
    k = min(m, n)
    ones = (iota(m, like=packed).unsqueeze(1) == iota(k, like=packed)).to(packed.dtype)
    return packed.narrow(-1, 0, k).tril(-1) + ones, packed.narrow(-2, 0, k).triu()


def _square() -> Any:
    return s.values((3, 3)) + 2 * np.eye(3)


@_linalg(lambda: [s.call(_square()), s.call(s.values((2, 4, 3))), s.call(s.values((3, 4)))])
def lu(A: Tensor, *, pivot: bool = True) -> LU:
    """A = P L U: rows permuted, lower triangular with ones on the diagonal, upper triangular."""
    packed, order, _ = _factored(A, pivot)
    return LU(_permutation(order, A.dtype), *_l_and_u(packed))


@_linalg(lambda: [s.call(_square()), s.call(s.values((2, 4, 3)))])
def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactor:
    """L and U in one matrix, and the pivots: the row (counted from 1) that each row was exchanged
    with."""
    packed, _, pivots = _factored(A, pivot)
    return LUFactor(packed, pivots)


@_linalg(lambda: [s.call(_square())])
def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """`lu_factor`, and per matrix 0, or which number on the diagonal of U (from 1) is the first
    0."""
    packed, _, pivots = _factored(A, pivot)
    zeros = packed.detach().diagonal(0, -2, -1) == 0
    info = (zeros.to(dt.int32).argmax(-1) + 1) * zeros.any(-1) if zeros.shape[-1] else zeros.sum(-1)
    if check_errors and bool((info != 0).any()):
        raise LinAlgError("linalg.lu_factor: the diagonal of U has a zero: the matrix is singular")
    return LUFactorEx(packed, pivots, info.to(dt.int32))


def _solved(packed: Tensor, pivots: Tensor, B: Tensor, adjoint: bool) -> Tensor:
    lower, upper = factor.unpacked(packed)
    order = apply(ORDER, pivots, rows=packed.shape[-1])
    lead = broadcast_shapes(tuple(packed.shape[:-2]), tuple(B.shape[:-2]))
    lower, upper, B = (x.expand(*lead, *x.shape[-2:]) for x in (lower, upper, B))
    swap = _permutation(order, packed.dtype)
    if adjoint:
        half = apply(SOLVE, upper.mH, B)
        return swap @ apply(SOLVE, lower.mH, half)
    return apply(SOLVE, upper, apply(SOLVE, lower, swap.mT @ B))


@_linalg()
def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False
) -> Tensor:
    """X with A X = B (X A = B when not `left`; A^H for A when `adjoint`), for the factors of A."""
    if LU.ndim < 2 or LU.shape[-1] != LU.shape[-2]:
        raise RuntimeError(
            "linalg.lu_solve: A must be batches of square matrices, but they are "
            f"{list(LU.shape[-2:])} matrices"
        )
    if LU.dtype is not B.dtype:
        raise RuntimeError(
            "linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type "
            f"{LU.dtype} and B of type {B.dtype} instead"
        )
    if pivots.dtype is not dt.int32:
        raise RuntimeError(
            "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32. Got "
            f"{pivots.dtype}"
        )
    if B.ndim < 2 or LU.shape[-1] != B.shape[-2 if left else -1]:
        raise RuntimeError(
            f"linalg.lu_solve: Incompatible shapes of A and B for the equation: "
            f"{list(LU.shape[-2:])} and {list(B.shape[-2:])}"
        )
    if tuple(pivots.shape) != tuple(LU.shape[:-1]):
        raise RuntimeError("linalg.lu_solve: Number of pivots per batch should be same as the "
                           "dimension of the matrix")  # fmt: skip
    if left:
        return _solved(LU, pivots, B, adjoint)
    return _solved(LU, pivots, B.mH, not adjoint).mH


@public("lu_solve")
def former_lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X with A X = b, for the factors of A."""
    return lu_solve(LU_data, LU_pivots, b)


@public("lu")
def former_lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> Any:
    """`linalg.lu_factor`, with infos when asked."""
    found = lu_factor_ex(A, pivot=pivot)
    return tuple(found) if get_infos else (found.LU, found.pivots)


@public(method=False)
def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Unpacked:
    """P, L and U of what `lu_factor` gives; empty tensors for what is not asked."""
    if LU_pivots.dtype is not dt.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 "
            "dtype. Note: this function is intended to be used with the output produced by "
            "torch.linalg.lu_factor"
        )
    none = LU_data.new_empty(0)
    lower, upper = _l_and_u(LU_data) if unpack_data else (none, none)
    if not unpack_pivots:
        return Unpacked(none, lower, upper)
    order = apply(ORDER, LU_pivots, rows=LU_data.shape[-2])
    return Unpacked(_permutation(order, LU_data.dtype), lower, upper)
