"""Ops of kind `extern`: what only a library does. Matrix decompositions and solvers by NumPy's
LAPACK -> tensors.

Compiled code calls LAPACK itself for systems, inverses, determinants and Cholesky factors, and
these kernels back for the others. Shapes are (*B, M, N). Derivatives are in eager's own
ops, with sources at each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from eager.base.dataclass import dataclass
from eager.base.dtype import from_numpy, real_of
from eager.core.dispatch import apply
from eager.core.op import REGISTRY, Attrs, Op
from eager.sizes.aval import Aval


class LinAlgError(RuntimeError):
    """A matrix that cannot be factored: singular, or not positive definite."""


@dataclass(frozen=True, eq=False)
class Extern(Op):
    """`numpy(*arrays, **attrs)` does the work; `shapes(*avals, **attrs)` says the avals of the
    results."""

    numpy: Callable[..., Any] = field(kw_only=True)
    shapes: Callable[..., tuple[Aval, ...]] = field(kw_only=True)
    square: bool = True
    core: tuple[int, ...] | None = field(default=(2, 2), kw_only=True)
    kind: ClassVar[str] = "extern"
    analytic: ClassVar[bool] = False
    raises: ClassVar[bool] = True

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        first = avals[0]
        if first.ndim < 2:
            raise RuntimeError(
                f"linalg.{self.name}: The input tensor must have at least 2 dimensions, got "
                f"{first!r}"
            )
        if self.square and first.shape[-1] != first.shape[-2]:
            raise RuntimeError(
                f"linalg.{self.name}: A must be batches of square matrices, but they are "
                f"{first.shape[-2]} by {first.shape[-1]} matrices"
            )
        if not first.dtype.is_floating_point and not first.dtype.is_complex:
            raise RuntimeError(
                f"linalg.{self.name}: Expected a floating point or complex tensor as input. Got "
                f"{first.dtype}"
            )
        return self.shapes(*avals, **attrs)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        wide = [np.asarray(a) for a in arrays]
        wide = [a.astype(from_numpy(a.dtype).compute.np, copy=False) for a in wide]
        lenient = attrs.get("lenient", False)
        attrs = {k: v for k, v in attrs.items() if k != "lenient"}
        try:
            result = self.numpy(*wide, **attrs)
        except np.linalg.LinAlgError as error:
            if lenient:
                return self._one_by_one(wide, attrs, outs)
            raise LinAlgError(
                f"linalg.{self.name}: {error} (input of shape {list(arrays[0].shape)})"
            ) from None
        results = result if isinstance(result, tuple) else (result,)
        return tuple(
            np.ascontiguousarray(np.asarray(r).astype(o.dtype.np, copy=False)).reshape(o.shape)
            for r, o in zip(results, outs, strict=True)
        )

    def _one_by_one(
        self, arrays: list[Any], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        """Each matrix of a batch by itself: NaN where it cannot be done."""
        results = [np.full(o.shape, np.nan, o.dtype.np) for o in outs]
        for at in np.ndindex(arrays[0].shape[:-2]):
            try:
                found = self.numpy(*(a[at] for a in arrays), **attrs)
            except np.linalg.LinAlgError:
                continue
            for into, part in zip(
                results, found if type(found) is tuple else (found,), strict=True
            ):
                into[at] = part
        return tuple(results)


def each_matrix(kernel: Callable[..., tuple[Any, ...]]) -> Callable[..., tuple[Any, ...]]:
    """A kernel on one matrix as a kernel on a batch (*B, M, N) of them."""

    def batched(x: Any, **attrs: Any) -> tuple[Any, ...]:
        lead = x.shape[:-2]
        done = [kernel(x[at], **attrs) for at in np.ndindex(lead)]
        done = done or [kernel(np.ones(x.shape[-2:], x.dtype), **attrs)]  # for shape and dtype
        stacked = (np.stack(parts) for parts in zip(*done, strict=True))
        return tuple(p[: math.prod(lead)].reshape((*lead, *p.shape[1:])) for p in stacked)

    return batched


def adjoint(x: Any) -> Any:
    t = x.transpose(-1, -2)
    return t.conj() if x.dtype.is_complex else t


def like(x: Aval, *shape: int) -> Aval:
    return Aval(shape, x.dtype, x.device)


# The derivatives are those of Giles, "An extended collection of matrix derivative results" (2008),
# unless said otherwise.
def _inv_vjp(g: Any, out: Any) -> tuple[Any, ...]:
    h = adjoint(out)
    return (-(h @ g @ h),)


INV = Extern("inv", ("x",), _inv_vjp, numpy=np.linalg.inv, shapes=lambda x, lenient=False: (x,))


def _solve_vjp(g: Any, a: Any, out: Any) -> tuple[Any, ...]:
    gb = apply(SOLVE, adjoint(a), g)
    return -(gb @ adjoint(out)), gb


SOLVE = Extern(
    "solve",
    ("a", "b"),
    _solve_vjp,
    numpy=np.linalg.solve,
    shapes=lambda a, b, lenient=False: (b,),
)


def _det_vjp(g: Any, x: Any, out: Any) -> tuple[Any, ...]:
    cofactor = g * (out.conj() if out.dtype.is_complex else out)
    return (cofactor.unsqueeze(-1).unsqueeze(-1) * adjoint(apply(INV, x)),)


DET = Extern(
    "det", ("x",), _det_vjp, numpy=np.linalg.det, shapes=lambda x: (like(x, *x.shape[:-2]),)
)


def _slogdet_vjp(g: Any, x: Any, out0: Any) -> tuple[Any, ...]:
    """The sign of complex matrices turns by the imaginary part of tr(A^-1 dA)."""
    gradient = g[1]
    if out0.dtype.is_complex:
        gradient = apply(REGISTRY["complex"], gradient, (g[0] * out0.conj()).imag)
    return (gradient.unsqueeze(-1).unsqueeze(-1) * adjoint(apply(INV, x)),)


SLOGDET = Extern(
    "slogdet",
    ("x",),
    _slogdet_vjp,
    n_outputs=2,
    numpy=lambda x: tuple(np.linalg.slogdet(x)),
    shapes=lambda x: (like(x, *x.shape[:-2]), Aval(x.shape[:-2], real_of(x.dtype), x.device)),
)


def _cholesky_vjp(g: Any, out: Any) -> tuple[Any, ...]:
    """Giles, section 3.5: the lower triangle of L^H G, mirrored."""
    middle = (adjoint(out) @ g).tril()
    middle = 0.5 * (middle + adjoint(middle.tril(-1)))
    inverse = apply(INV, out)
    return (adjoint(inverse) @ middle @ inverse,)


CHOLESKY = Extern(
    "cholesky",
    ("x",),
    _cholesky_vjp,
    numpy=np.linalg.cholesky,
    shapes=lambda x, lenient=False: (x,),
)


def _eigh_vjp(g: Any, out: Any) -> tuple[Any, ...]:
    values, vectors = out
    g_values, g_vectors = g
    h = adjoint(vectors)
    middle: Any = 0
    if g_vectors is not None:
        gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
        safe = gaps.masked_fill(gaps == 0, float("inf"))
        middle = (h @ g_vectors) / safe
    if g_values is not None:
        middle = g_values.diag_embed() + middle
    s = vectors @ middle @ h
    return (0.5 * (s + adjoint(s)),)


EIGH = Extern(
    "eigh",
    ("x",),
    _eigh_vjp,
    n_outputs=2,
    numpy=lambda x: tuple(np.linalg.eigh(x)),
    shapes=lambda x: (Aval(x.shape[:-1], real_of(x.dtype), x.device), x),
)


def _qr_vjp(g: Any, out: Any, mode: str) -> tuple[Any, ...]:
    """Walter, Lehmann, "On evaluating higher-order derivatives of the QR decomposition" (2018), for
    M >= N; for M < N that of the first M columns, on which the others depend by Q."""
    q, r = out
    gq, gr = g
    m, n = q.shape[-2], r.shape[-1]
    if mode == "r" or (mode == "complete" and m > n):
        raise RuntimeError(
            f"The QR decomposition is not differentiable when mode={mode!r}"
            + (" and nrows > ncols" if mode == "complete" else "")
        )
    middle: Any = 0
    if gr is not None:
        middle = gr @ adjoint(r)
    if gq is not None:
        middle = middle - adjoint(q) @ gq
    if m >= n:
        half = middle.triu()
        right = q @ (half + adjoint(half) - _real_diagonal(half))
        right = right if gq is None else right + gq
        return (adjoint(apply(SOLVE, r, adjoint(right))),)
    skew = (adjoint(middle) - middle).tril()
    skew = skew - 0.5 * skew.diagonal(0, -2, -1).diag_embed()
    first = r.narrow(-1, 0, m)
    left = q @ adjoint(apply(SOLVE, first, adjoint(skew)))
    full = apply(REGISTRY["pad"], left, 0.0, pads=(*((0, 0),) * (left.ndim - 1), (0, n - m)))
    return (full if gr is None else full + q @ gr,)


def _real_diagonal(x: Any) -> Any:
    along = x.diagonal(0, -2, -1)
    return (along.real.to(x.dtype) if x.dtype.is_complex else along).diag_embed()


def _qr_shapes(x: Aval, mode: str) -> tuple[Aval, ...]:
    *lead, m, n = x.shape
    k = m if mode == "complete" else min(m, n)
    return like(x, *lead, m, k) if mode != "r" else like(x, 0), like(x, *lead, k, n)


def _qr_kernel(x: Any, mode: Any) -> tuple[Any, Any]:
    if mode == "r":
        return np.empty(0, x.dtype), np.linalg.qr(x, "r")
    q, r = np.linalg.qr(x, mode)
    return q, r


QR = Extern("qr", ("x",), _qr_vjp, n_outputs=2, square=False, numpy=_qr_kernel, shapes=_qr_shapes)


def _svd_vjp(g: Any, out: Any, full: bool) -> tuple[Any, ...]:
    """Townsend, "Differentiating the singular value decomposition" (2016), for distinct singular
    values. The vectors beyond the first min(M, N) have no gradient."""
    u, s, vh = out
    gu, gs, gvh = g
    k = s.shape[-1]
    if full:
        u, vh = u.narrow(-1, 0, k), vh.narrow(-2, 0, k)
        gu = None if gu is None else gu.narrow(-1, 0, k)
        gvh = None if gvh is None else gvh.narrow(-2, 0, k)
    squares = s * s
    gaps = squares.unsqueeze(-2) - squares.unsqueeze(-1)
    f = 1 / gaps.masked_fill(gaps == 0, float("inf"))
    uh, v = adjoint(u), adjoint(vh)
    middle: Any = 0 if gs is None else gs.diag_embed()
    outside: Any = 0
    if gu is not None and gvh is not None and u.dtype.is_complex:  # the phase that both share
        phase = (uh @ gu).diagonal(0, -2, -1)
        middle = middle + (_quotient(phase - phase.conj(), 2 * s)).diag_embed()
    if gu is not None:
        x = uh @ gu
        middle = middle + f * (x - adjoint(x)) * s.unsqueeze(-2)
        outside = outside + _quotient(gu - u @ x, s.unsqueeze(-2)) @ vh
    if gvh is not None:
        gv = adjoint(gvh)
        y = vh @ gv
        middle = middle + s.unsqueeze(-1) * (f * (y - adjoint(y)))
        outside = outside + u @ adjoint(_quotient(gv - v @ y, s.unsqueeze(-2)))
    return (u @ middle @ vh + outside,)


def _quotient(x: Any, s: Any) -> Any:
    """x / s, and 0 where x is: no gradient of a vector whose singular value is 0 is no fault."""
    zero = x == 0
    return apply(REGISTRY["where"], zero, 0.0, x / apply(REGISTRY["where"], zero, 1.0, s))


def _svd_shapes(x: Aval, full: bool) -> tuple[Aval, ...]:
    *lead, m, n = x.shape
    k = min(m, n)
    rows, columns = (m, n) if full else (k, k)
    values = Aval((*lead, k), real_of(x.dtype), x.device)
    return like(x, *lead, m, rows), values, like(x, *lead, columns, n)


SVD = Extern(
    "svd",
    ("x",),
    _svd_vjp,
    n_outputs=3,
    square=False,
    numpy=lambda x, full: tuple(np.linalg.svd(x, full_matrices=full)),
    shapes=_svd_shapes,
)
