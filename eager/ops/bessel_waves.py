"""The Bessel functions J, Y and K of orders 0 and 1, for `eager.special`. tensor -> tensor.

Near 0 they are power series and the logarithm times one, far from it a wave (or exp(-x)) times
smooth functions of 1 / x; the series are Chebyshev's, fitted when first used as those in
`bessel.py`. Like PyTorch's they have no derivative.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from eager.core.op import Sample
from eager.ops import samples as s
from eager.ops.bessel import _fitted, _sum
from eager.ops.define import UnaryFn, unary

_WAVES, _DECAYS = 8.0, 2.0  # from where on J and Y, and K, are computed the second way
_EULER = Decimal("0.57721566490153286060651209008240243104215933593992")
_DIGITS = 50  # terms of up to exp(8) cancel, and what is left is rounded to 16


# -------------------------------------------------------------------------------- the fits
def _power_series(x: float, order: int, sign: int, logarithmic: bool) -> float:
    """sum (sign x^2 / 4)^k / (k! (k + order)!), each term times psi(k + 1) + psi(k + order + 1) if
    it is `logarithmic`. In decimals: the terms cancel."""
    with localcontext() as context:
        context.prec = _DIGITS
        quarter = sign * Decimal(x) ** 2 / 4
        term, total = Decimal(1), Decimal(0)
        psi = -2 * _EULER + order  # psi(1) + psi(order + 1)
        for k in range(1, 80):
            total += term * psi if logarithmic else term
            term *= quarter / (k * (k + order))
            psi += Decimal(1) / k + Decimal(1) / (k + order)
        return float(total)


@functools.cache
def _near(order: int, sign: int, logarithmic: bool, end: float) -> tuple[float, ...]:
    """The power series on [0, end]: t = 2 x^2 / end^2 - 1."""

    def f(t: float) -> float:
        return _power_series(end * math.sqrt((t + 1) / 2), order, sign, logarithmic)

    return _fitted(f, 28)


@functools.cache
def _wave(order: int, part: int) -> tuple[float, ...]:
    """P (part 0), or Q x / 8 (part 1), of J = sqrt(2 / pi x) (P cos - Q sin) from 8 on, by Hankel's
    integral: t = 2 (8 / x)^2 - 1."""
    v = np.linspace(-9, 9, 1201)
    weights = np.exp(-v * v) * v ** (2 * order)

    def f(t: float) -> float:
        x = _WAVES / math.sqrt((t + 1) / 2)
        whole = np.sum(weights * (1 + 0.5j * v * v / x) ** (order - 0.5)) / np.sum(weights)
        return float(whole.imag * x / _WAVES if part else whole.real)

    return _fitted(f, 24)


@functools.cache
def _decay(order: int) -> tuple[float, ...]:
    """sqrt(x) exp(x) K(x) from 2 on, by its integral: t = 4 / x - 1."""
    s = np.linspace(-14, 14, 1401)

    def f(t: float) -> float:
        root = math.sqrt(2 * _DECAYS / (t + 1))
        falls = np.exp(-2 * np.square(root * np.sinh(np.clip(s / (2 * root), -300, 300))))
        return float(np.sum(falls * np.cosh(order * s / root)) * 0.01)

    return _fitted(f, 28)


# ---------------------------------------------------------------------------- the functions
def _first_kind(m: Any, x: Any, order: int) -> Any:
    size = m.abs(x)
    near = m.min(size, _WAVES)
    low = _sum(m, near * near * (2 / _WAVES**2) - 1.0, _near(order, -1, False, _WAVES))
    low = low * near * 0.5 if order else low
    p, q, wave, angle = _far(m, size, order)
    out = m.where(size <= _WAVES, low, wave * (p * m.cos(angle) - q * m.sin(angle)))
    return m.where(x < 0.0, -out, out) if order else out


def _second_kind(m: Any, x: Any, order: int) -> Any:
    near = m.max(m.min(x, _WAVES), 0.0)
    t = near * near * (2 / _WAVES**2) - 1.0
    half = near * 0.5
    regular = _sum(m, t, _near(order, -1, False, _WAVES))
    low = 2.0 * m.log(half) * regular - _sum(m, t, _near(order, -1, True, _WAVES))
    low = low * half - 2.0 / near if order else low
    p, q, wave, angle = _far(m, x, order)
    high = wave * (p * m.sin(angle) + q * m.cos(angle))
    out = m.where(x > _WAVES, high, low * (1 / math.pi))
    return m.where(m.eq(x, 0.0), -math.inf, m.where(x < 0.0, math.nan, out))


def _far(m: Any, x: Any, order: int) -> tuple[Any, Any, Any, Any]:
    """P and Q, the height of the wave, and its angle."""
    far = m.max(x, _WAVES)
    ratio = _WAVES / far
    t = 2.0 * ratio * ratio - 1.0
    p, q = (_sum(m, t, _wave(order, part)) for part in (0, 1))
    return p, q * ratio, m.rsqrt(far) * math.sqrt(2 / math.pi), far - (order / 2 + 0.25) * math.pi


def _modified(m: Any, x: Any, order: int, scaled: bool) -> Any:
    near = m.max(m.min(x, _DECAYS), 0.0)
    t = near * near * (2 / _DECAYS**2) - 1.0
    half = near * 0.5
    regular = _sum(m, t, _near(order, 1, False, _DECAYS))
    low = _sum(m, t, _near(order, 1, True, _DECAYS)) * 0.5 - m.log(half) * regular
    low = 1.0 / near - low * half if order else low
    far = m.max(x, _DECAYS)
    high = _sum(m, 2 * _DECAYS / far - 1.0, _decay(order)) * m.rsqrt(far)
    high = high if scaled else high * m.exp(-far)
    out = m.where(x > _DECAYS, high, low * m.exp(near) if scaled else low)
    return m.where(m.eq(x, 0.0), math.inf, m.where(x < 0.0, math.nan, out))


def _special(name: str, body: Callable[[Any, Any], Any], samples: Any) -> UnaryFn:
    elsewhere: dict[str, Any] = {
        "method": False,
        "namespace": False,
        "inplace": False,
        "takes": "real",
    }
    return unary(name, body, None, samples=samples, torch=f"special.{name}", **elsewhere)


def _between(*ranges: tuple[float, float]) -> Callable[[], list[Sample]]:
    """Calls without gradients; PyTorch's waves are off by 1e-6."""
    return lambda: [
        Sample((s.values(shape, *r),), {}, grad=False, rtol=2e-5, atol=2e-6)
        for r in ranges
        for shape in ((3, 4), ())
    ]


_anywhere = _between((-12.0, 12.0), (7.0, 60.0))
_above_0 = _between((0.05, 6.0), (1.5, 60.0))
FUNCTIONS = {
    name: _special(name, body, samples)
    for order in (0, 1)
    for name, body, samples in (
        (f"bessel_j{order}", functools.partial(_first_kind, order=order), _anywhere),
        (f"bessel_y{order}", functools.partial(_second_kind, order=order), _above_0),
        *(
            (
                f"{'scaled_' * scaled}modified_bessel_k{order}",
                functools.partial(_modified, order=order, scaled=scaled),
                _above_0,
            )
            for scaled in (False, True)
        ),
    )
}
