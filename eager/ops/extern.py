"""Ops of kind `extern`: what only a library does. Matrix decompositions and solvers by NumPy's
LAPACK -> tensors.

Compiled code calls back to these kernels. Shapes are (*B, M, N). Derivatives are in eager's own
ops, with sources at each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from eager.aval import Aval
from eager.dispatch import apply
from eager.op import Attrs, Op


@dataclass(frozen=True, eq=False)
class Extern(Op):
    """`numpy(*arrays, **attrs)` does the work; `shapes(*avals, **attrs)` says the avals of the
    results."""

    numpy: Callable[..., Any] = field(kw_only=True)
    shapes: Callable[..., tuple[Aval, ...]] = field(kw_only=True)
    square: bool = True
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
        wide = [np.asarray(a).astype(outs[0].dtype.compute.np, copy=False) for a in arrays]
        try:
            result = self.numpy(*wide, **attrs)
        except np.linalg.LinAlgError as error:
            raise RuntimeError(
                f"linalg.{self.name}: {error} (input of shape {list(arrays[0].shape)})"
            ) from None
        results = result if isinstance(result, tuple) else (result,)
        return tuple(
            np.ascontiguousarray(np.asarray(r).astype(o.dtype.np, copy=False)).reshape(o.shape)
            for r, o in zip(results, outs, strict=True)
        )


def _adjoint(x: Any) -> Any:
    t = x.transpose(-1, -2)
    return t.conj() if x.dtype.is_complex else t


def _like(x: Aval, *shape: int) -> Aval:
    return Aval(shape, x.dtype, x.device)


# The derivatives are those of Giles, "An extended collection of matrix derivative results" (2008),
# unless said otherwise.
def _inv_vjp(g: Any, out: Any) -> tuple[Any, ...]:
    h = _adjoint(out)
    return (-(h @ g @ h),)


INV = Extern("inv", ("x",), _inv_vjp, numpy=np.linalg.inv, shapes=lambda x: (x,))


def _solve_vjp(g: Any, a: Any, out: Any) -> tuple[Any, ...]:
    gb = apply(SOLVE, _adjoint(a), g)
    return -(gb @ _adjoint(out)), gb


SOLVE = Extern("solve", ("a", "b"), _solve_vjp, numpy=np.linalg.solve, shapes=lambda a, b: (b,))


def _det_vjp(g: Any, x: Any, out: Any) -> tuple[Any, ...]:
    return ((g * out).unsqueeze(-1).unsqueeze(-1) * _adjoint(apply(INV, x)),)


DET = Extern(
    "det", ("x",), _det_vjp, numpy=np.linalg.det, shapes=lambda x: (_like(x, *x.shape[:-2]),)
)


def _slogdet_vjp(g: Any, x: Any) -> tuple[Any, ...]:
    gradient = g[1]
    if gradient is None:
        return (None,)
    return (gradient.unsqueeze(-1).unsqueeze(-1) * _adjoint(apply(INV, x)),)


SLOGDET = Extern(
    "slogdet",
    ("x",),
    _slogdet_vjp,
    n_outputs=2,
    numpy=lambda x: tuple(np.linalg.slogdet(x)),
    shapes=lambda x: (_like(x, *x.shape[:-2]),) * 2,
)


def _lower_half(x: Any) -> Any:
    """The lower triangle with half the diagonal: the derivative of "is lower triangular" (Giles,
    section 3.5)."""
    return x.tril() - 0.5 * x.diagonal(0, -2, -1).diag_embed()


def _cholesky_vjp(g: Any, out: Any) -> tuple[Any, ...]:
    h = _adjoint(out)
    middle = _lower_half(h @ g)
    inverse = apply(INV, out)
    s = _adjoint(inverse) @ middle @ inverse
    return (0.5 * (s + _adjoint(s)),)


CHOLESKY = Extern(
    "cholesky", ("x",), _cholesky_vjp, numpy=np.linalg.cholesky, shapes=lambda x: (x,)
)


def _eigh_vjp(g: Any, out: Any) -> tuple[Any, ...]:
    values, vectors = out
    g_values, g_vectors = g
    h = _adjoint(vectors)
    middle: Any = 0
    if g_vectors is not None:
        gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
        safe = gaps.masked_fill(gaps == 0, float("inf"))
        middle = (h @ g_vectors) / safe
    if g_values is not None:
        middle = g_values.diag_embed() + middle
    s = vectors @ middle @ h
    return (0.5 * (s + _adjoint(s)),)


EIGH = Extern(
    "eigh",
    ("x",),
    _eigh_vjp,
    n_outputs=2,
    numpy=lambda x: tuple(np.linalg.eigh(x)),
    shapes=lambda x: (_like(x, *x.shape[:-1]), x),
)


def _qr_vjp(g: Any, out: Any, avals: Any) -> tuple[Any, ...]:
    """Walter, Lehmann, "On evaluating higher-order derivatives of the QR decomposition" (2018), for
    M >= N."""
    if avals[0].shape[-2] < avals[0].shape[-1]:
        raise RuntimeError("linalg.qr: the derivative needs at least as many rows as columns")
    q, r = out
    gq, gr = g
    m: Any = 0
    if gr is not None:
        m = r @ _adjoint(gr)
    if gq is not None:
        m = m - _adjoint(gq) @ q
    m = m.tril()
    symmetric = m + _adjoint(m) - m.diagonal(0, -2, -1).diag_embed()
    right = q @ symmetric
    if gq is not None:
        right = right + gq
    return (_adjoint(apply(SOLVE, r, _adjoint(right))),)


def _qr_shapes(x: Aval) -> tuple[Aval, ...]:
    *lead, m, n = x.shape
    k = min(m, n)
    return _like(x, *lead, m, k), _like(x, *lead, k, n)


QR = Extern(
    "qr",
    ("x",),
    _qr_vjp,
    n_outputs=2,
    square=False,
    numpy=lambda x: tuple(np.linalg.qr(x)),
    shapes=_qr_shapes,
)


def _svd_vjp(g: Any, out: Any) -> tuple[Any, ...]:
    """Townsend, "Differentiating the singular value decomposition" (2016), for distinct singular
    values."""
    u, s, vh = out
    gu, gs, gvh = g
    squares = s * s
    gaps = squares.unsqueeze(-2) - squares.unsqueeze(-1)
    f = 1 / gaps.masked_fill(gaps == 0, float("inf"))
    uh, v = _adjoint(u), _adjoint(vh)
    middle: Any = 0 if gs is None else gs.diag_embed()
    outside: Any = 0
    if gu is not None:
        x = uh @ gu
        middle = middle + f * (x - _adjoint(x)) * s.unsqueeze(-2)
        outside = outside + ((gu - u @ x) / s.unsqueeze(-2)) @ vh
    if gvh is not None:
        gv = _adjoint(gvh)
        y = vh @ gv
        middle = middle + s.unsqueeze(-1) * (f * (y - _adjoint(y)))
        outside = outside + (u / s.unsqueeze(-2)) @ _adjoint(gv - v @ y)
    return (u @ middle @ vh + outside,)


def _svd_shapes(x: Aval) -> tuple[Aval, ...]:
    *lead, m, n = x.shape
    k = min(m, n)
    return _like(x, *lead, m, k), _like(x, *lead, k), _like(x, *lead, k, n)


SVD = Extern(
    "svd",
    ("x",),
    _svd_vjp,
    n_outputs=3,
    square=False,
    numpy=lambda x: tuple(np.linalg.svd(x, full_matrices=False)),
    shapes=_svd_shapes,
)
