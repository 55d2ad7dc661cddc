"""Bessel functions and their like: series over the scalar vocabulary. tensor -> tensor.

Each function is one or two Chebyshev series in a variable that makes it smooth, fitted to its
integral when first used (Clenshaw's recurrence sums them), so that compiled code has them too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eager.core.registry import under
from eager.ops import samples as s
from eager.ops.define import UnaryFn, unary
from eager.ops.pointwise import where

_SPLIT = 8.0  # the small arguments are up to here


# ------------------------------------------------------------------------------- the series
def _scaled_integral(order: int, x: float) -> float:
    """exp(-x) I_order(x): a mean over a circle, which the trapezoidal rule gives to rounding."""
    n = 64 + int(12 * math.sqrt(x))
    t = 2 * np.pi * np.arange(n) / n
    return float(np.mean(np.exp(-2 * x * np.sin(t / 2) ** 2) * np.cos(order * t)))


def _power_series(order: int, x: float) -> float:
    """I_order(x) x^-order, by its power series, whose terms are positive."""
    half = x * x / 4
    term = total = 0.5**order
    for k in range(1, 60):
        term *= half / (k * (k + order))
        total += term
    return total


def _fitted(f: Callable[[float], float], degree: int) -> tuple[float, ...]:
    """Chebyshev coefficients of f on [-1, 1]."""
    nodes = np.cos(np.pi * (np.arange(120) + 0.5) / 120)
    return tuple(np.polynomial.chebyshev.chebfit(nodes, [f(t) for t in nodes], degree).tolist())


@functools.cache
def _small(order: int) -> tuple[float, ...]:
    """exp(-x) I(x), over x for order 1, on [0, 8]: t = x / 4 - 1."""

    def f(t: float) -> float:
        x = 4 * (t + 1)
        return math.exp(-x) * _power_series(order, x)

    return _fitted(f, 32)


@functools.cache
def _large(order: int) -> tuple[float, ...]:
    """sqrt(x) exp(-x) I(x) from 8 on: t = 16 / x - 1."""

    def f(t: float) -> float:
        x = 16 / (t + 1)
        return _scaled_integral(order, x) * math.sqrt(x)

    return _fitted(f, 26)


def _sum(m: Any, t: Any, coefficients: tuple[float, ...]) -> Any:
    """Clenshaw's recurrence."""
    after: Any = 0.0
    now: Any = coefficients[-1]
    for c in reversed(coefficients[1:-1]):
        now, after = t * 2.0 * now - after + c, now
    return t * now - after + coefficients[0]


def _scaled(m: Any, x: Any, order: int) -> Any:
    """exp(-|x|) I_order(x) for order 0 or 1."""
    size = m.abs(x)
    near = _sum(m, m.min(size, _SPLIT) * 0.25 - 1.0, _small(order))
    wide = m.max(size, _SPLIT)
    far = _sum(m, 16.0 / wide - 1.0, _large(order)) * m.rsqrt(wide)
    if not order:
        return m.where(size <= _SPLIT, near, far)
    odd = m.where(size <= _SPLIT, near * size, far)
    return m.where(x < 0.0, -odd, odd)


# ---------------------------------------------------------------------------- the functions
_anywhere = s.both(s.on(-6.0, 6.0), s.on(5.0, 40.0))
i0 = unary(
    "i0",
    lambda m, x: _scaled(m, x, 0) * m.exp(m.abs(x)),
    lambda g, x: (g * i1(x),),
    samples=_anywhere,
    takes="real",
)
i0e = unary(
    "i0e",
    lambda m, x: _scaled(m, x, 0),
    lambda g, x, out: (g * (i1e(x) - x.sgn() * out),),
    samples=_anywhere,
    torch="special.i0e",
    method=False,
    namespace=False,
    inplace=False,
    takes="real",
)


def _over(y: Any, x: Any) -> Any:
    """y / x, and its limit 1/2 at 0."""
    zero = x == 0
    return where(zero, 0.5, y / where(zero, 1.0, x))


_elsewhere: dict[str, Any] = {"method": False, "namespace": False, "inplace": False}
i1: UnaryFn = unary(
    "i1",
    lambda m, x: _scaled(m, x, 1) * m.exp(m.abs(x)),
    lambda g, x, out: (g * (i0(x) - _over(out, x)),),
    samples=_anywhere,
    torch="special.i1",
    **_elsewhere,
    takes="real",
)
i1e: UnaryFn = unary(
    "i1e",
    lambda m, x: _scaled(m, x, 1),
    lambda g, x, out: (g * (i0e(x) - out * x.sgn() - _over(out, x)),),
    samples=_anywhere,
    torch="special.i1e",
    **_elsewhere,
    takes="real",
)


def _no_slope(name: str, fn: UnaryFn) -> UnaryFn:
    """Under a name of `torch.special` whose function has no derivative there."""

    def called(input: Any) -> Any:
        return fn(input.detach())

    called.__name__ = called.__qualname__ = name
    called.__doc__ = f"Elementwise {name}; no gradient."
    return under("special")(s.on(-6.0, 6.0, grad=False))(called)


modified_bessel_i0 = _no_slope("modified_bessel_i0", i0)
modified_bessel_i1 = _no_slope("modified_bessel_i1", i1)
spherical_bessel_j0 = _no_slope(
    "spherical_bessel_j0", lambda x: where(x.isinf(), 0.0, (x / math.pi).sinc())
)
