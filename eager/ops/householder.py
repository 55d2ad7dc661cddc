"""Products of Householder reflections H = 1 - tau v v^H, as `geqrf` stores them. matrices, tau ->
matrices.

The vectors v stand below the diagonal; above it they are 0, on it 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from eager.core.dispatch import apply
from eager.core.registry import public, under
from eager.core.return_types import shown_as
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.extern import Extern
from eager.ops.index_and_sort import iota
from eager.ops.pointwise import where
from eager.sizes.aval import Aval


@shown_as("geqrf")
class Geqrf(NamedTuple):
    a: Tensor
    tau: Tensor


def _raw_kernel(x: Any) -> tuple[Any, Any]:
    h, tau = np.linalg.qr(x, "raw")
    return np.swapaxes(h, -1, -2), tau


def _raw_shapes(x: Aval) -> tuple[Aval, ...]:
    *lead, m, n = x.shape
    return x, Aval((*lead, min(m, n)), x.dtype, x.device)


GEQRF = Extern("geqrf", ("x",), n_outputs=2, square=False, numpy=_raw_kernel, shapes=_raw_shapes)


@public(samples=lambda: [s.call(s.values((4, 3)), grad=False)])
def geqrf(input: Tensor) -> Geqrf:
    """R, with the vectors of the reflections below its diagonal, and their factors tau."""
    return Geqrf(*apply(GEQRF, input))


def _vectors(a: Tensor, count: int) -> list[Tensor]:
    ones = (iota(a.shape[-2], like=a).unsqueeze(1) == iota(a.shape[-1], like=a)).to(a.dtype)
    v = a.tril(-1) + ones
    return [v.narrow(-1, i, 1) for i in range(count)]


def _check(name: str, A: Tensor, tau: Tensor) -> None:
    if A.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if A.dtype is not tau.dtype:
        raise RuntimeError(f"{name}: tau dtype {tau.dtype} does not match input dtype {A.dtype}")
    if A.ndim - tau.ndim != 1 or tuple(A.shape[:-2]) != tuple(tau.shape[:-1]):
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, and its batch, got "
            f"{list(tau.shape)} for {list(A.shape)}"
        )
    if tau.shape[-1] > A.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )


def _stored() -> Any:
    return s.values((4, 3), -0.5, 0.5)


@under("linalg")(lambda: [s.call(_stored(), s.values((3,), 0.2, 1.2))])
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first columns (as many as A has) of the product of the reflections."""
    _check("torch.linalg.householder_product", A, tau)
    m, n = A.shape[-2:]
    if m < n:
        raise RuntimeError(
            "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to "
            "input.shape[-1]"
        )
    eye = (iota(m, like=A).unsqueeze(1) == iota(n, like=A)).to(A.dtype)
    eye = where(eye != eye, A, eye)  # of A's shape, and on its tape also where there is no tau
    return _reflected(eye, A, tau, list(range(tau.shape[-1]))[::-1], left=True)


def _reflected(C: Tensor, A: Tensor, tau: Tensor, order: list[int], *, left: bool) -> Tensor:
    """C with the reflections in that order applied, from the left or from the right."""
    vectors = _vectors(A, tau.shape[-1])
    for i in order:
        v, t = vectors[i], tau.narrow(-1, i, 1).unsqueeze(-1)
        C = C - t * (v @ (v.mH @ C)) if left else C - t * ((C @ v) @ v.mH)
    return C


@public()
def orgqr(input: Tensor, tau: Tensor) -> Tensor:
    """The former name of `linalg.householder_product`."""
    return householder_product(input, tau)


@public(
    samples=lambda: [
        s.call(_stored(), s.values((3,), 0.2, 1.2), s.values((4, 2), seed=1)),
        s.call(_stored(), s.values((3,), 0.2, 1.2), s.values((2, 4), seed=1), False, True),
    ]
)
def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False
) -> Tensor:
    """Q @ other (other @ Q when not `left`; Q^H for Q when `transpose`), Q the whole product of the
    reflections."""
    _check("torch.ormqr", input, tau)
    if other.ndim < 2 or other.shape[-2 if left else -1] != input.shape[-2]:
        raise RuntimeError(
            f"torch.ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2]"
        )
    if other.dtype is not input.dtype:
        raise RuntimeError(
            f"torch.ormqr: Expected input and other to have the same dtype, but input has dtype "
            f"{input.dtype} and other has dtype {other.dtype}"
        )
    order = list(range(tau.shape[-1]))
    tau = tau.conj() if transpose and tau.dtype.is_complex else tau
    return _reflected(other, input, tau, order if left == transpose else order[::-1], left=left)
