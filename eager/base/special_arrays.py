"""Beside the scalar vocabulary: special functions NumPy lacks, for whole arrays. array -> array.

The error function has two pieces: a polynomial in x^2 near 0, and for larger x the scaled
complement exp(x^2) erfc(x), smooth enough for a short Chebyshev series in (x - k) / (x + k)
(Schonfelder 1978). The series are fitted to `math.erf` and `math.erfc` when first used.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

_SPLIT, _LARGEST, _K = 1.0, 26.0, 3.75
_STIRLING = (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_BLOCK = 8192  # elements evaluated at a time: the dozens of passes over them stay in cache
# The inverse of the error function: erfinv(y) / y of w = -log(1 - y^2) by minimax polynomials (by
# Remez's exchange) in w - 3.125 for w < 6.25, to 2^-55.6, in sqrt(w) - 4.25 up to 6.01, to 2^-55,
# and, divided by sqrt(w), in 16 / sqrt(w) - 1.6 as far as numbers reach, to 2^-54.9. Highest power
# first.
ERFINV_NEAR = (3.3757693751453975e-21, -1.0088360236416692e-21, -3.575511733863201e-19,
    1.1443997313631353e-18, 1.5759817446647098e-17, -1.3003882936666423e-16, -4.286628213011458e-17,
    6.594697299415178e-15, -3.998977112058912e-14, -8.117006912025238e-14, 2.630354520758575e-12,
    -1.2976958354958864e-11, -5.414238973550337e-11, 1.0512183985844323e-09, -4.112661978419861e-09,
    -2.907038277506064e-08, 4.2347881907864355e-07, -1.365469184434907e-06, -1.3882523395792547e-05,
    0.0001867342080242568, -0.0007407025341539543, -0.006033670871427754, 0.24015818242558826,
    1.6536545626831027)  # fmt: skip
ERFINV_FAR = (-2.8589095625849747e-15, 3.5198195517698067e-14, -8.666784995782442e-14,
    -3.281388801809467e-13, 2.052110564079604e-12, -3.983467657241586e-12, 5.251220705808016e-13,
    3.346359695675675e-11, -1.8031611326549903e-10, 4.6387557791831335e-10, -2.046562931809838e-10,
    -3.0698372990125777e-09, 1.346210892094428e-08, -3.0138466982976016e-08, 2.558392041156299e-08,
    9.328695041574563e-08, -5.15238150019887e-07, 1.4901773015172473e-06, -3.211140220804031e-06,
    5.807267405310227e-06, -1.0197660935764796e-05, 2.1980128356848902e-05, -6.441975149182372e-05,
    0.00021217671325857076, -0.0006078940273999857, 0.0007127499726602467, 1.009978277161254,
    4.09222342366813)  # fmt: skip
NDTRI_TAIL = (1.51147178411178e-10, -3.2582997408838657e-10, -3.9296838510475413e-10,
    1.0087122387069328e-09, 9.91462496110703e-10, -2.5697318829790257e-09, 8.88269461673348e-11,
    7.950983283836628e-10, 3.625740646324754e-09, -8.102672562512558e-09, 1.2790162867901928e-08,
    -2.6126332588029077e-08, 5.7547348955805356e-08, -1.2681837773537077e-07,
    2.8938629997157765e-07, -6.948832995424592e-07, 1.7801046812266244e-06, -4.958851833657051e-06,
    1.553969359459326e-05, -6.413735017407217e-05, 0.00039990627094434287, -0.0013664394866556829,
    -0.01056793897944444, 0.9890609132540967)  # fmt: skip


def _fit(f: Callable[[float], float], low: float, high: float, degree: int) -> Any:
    """Power series coefficients, highest first, of a polynomial close to f on [low, high]."""
    nodes = np.cos(np.pi * (np.arange(200) + 0.5) / 200)
    middle, half = (high + low) / 2, (high - low) / 2
    values = np.array([f(middle + half * t) for t in nodes])
    chebyshev = np.polynomial.chebyshev
    series = chebyshev.Chebyshev(chebyshev.chebfit(nodes, values, degree), domain=[low, high])
    return series.convert(kind=np.polynomial.Polynomial).coef[::-1]


def _scaled_complement(t: float) -> float:
    """exp(x^2) erfc(x) at x = k (1 + t) / (1 - t), by its continued fraction where erfc is 0."""
    x = _K * (1 + t) / (1 - t)
    if x < 20:
        return math.exp(x * x) * math.erfc(x)
    tail = x
    for i in range(40, 0, -1):
        tail = x + i / 2 / tail
    return 1 / (tail * math.sqrt(math.pi))


@functools.cache
def near_coefficients(terms: int = 13) -> tuple[float, ...]:
    """erf(x) / x as a polynomial in x^2 on [0, 1]."""
    at_zero = 2 / math.sqrt(math.pi)
    fit = _fit(lambda u: math.erf(math.sqrt(u)) / math.sqrt(u) if u > 0 else at_zero, 0, 1, terms)
    return tuple(fit.tolist())


@functools.cache
def far_coefficients(terms: int = 22) -> tuple[float, ...]:
    """exp(x^2) erfc(x) as a polynomial in (x - k) / (x + k) for x in [0.9, 26.5]."""
    low, high = ((x - _K) / (x + _K) for x in (0.9, 26.5))
    return tuple(_fit(_scaled_complement, low, high, terms).tolist())


def _horner(x: Any, coefficients: tuple[float, ...]) -> Any:
    total = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        total *= x
        total += c
    return total


def _in_blocks(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """f over a flat array piece by piece; also takes numbers and other shapes."""

    @functools.wraps(f)
    def in_blocks(x: Any) -> Any:
        array = np.asarray(x)
        flat = np.ascontiguousarray(array).reshape(-1)
        out = np.empty_like(flat)
        for start in range(0, flat.size, _BLOCK):
            out[start : start + _BLOCK] = f(flat[start : start + _BLOCK])
        return out.reshape(array.shape)

    return in_blocks


@_in_blocks
def erf(x: Any) -> Any:
    """The error function of a float array, to a few units in the last place."""
    short = x.dtype == np.float32
    size = np.abs(x)
    near = x * _horner(np.minimum(size, 1) ** 2, near_coefficients(8 if short else 13))
    if bool((size < _SPLIT).all()):
        return near
    far = np.copysign(1 - _complement(size, 11 if short else 22), x)
    return np.where(size < _SPLIT, near, far)


def _complement(size: Any, terms: int) -> Any:
    """erfc for arguments from 1 on (NaN stays)."""
    limited = np.clip(size, _SPLIT, _LARGEST)
    t = (limited - _K) / (limited + _K)
    return np.exp(-(np.minimum(size, 40) ** 2)) * _horner(t, far_coefficients(terms))


@_in_blocks
def lgamma(x: Any) -> Any:
    """log|gamma| of a float array: recurrence up to 8, Stirling's series there, reflection below
    0."""
    wide = x.astype(np.float64, copy=False)
    reflected = wide < 0.5
    z = np.where(reflected, 1 - wide, wide)
    product = np.ones_like(z)
    for _ in range(8):
        small = z < 8
        product = np.where(small, product * z, product)
        z = np.where(small, z + 1, z)
    inverse = 1 / (z * z)
    series = _horner(inverse, _STIRLING) / z
    value = (z - 0.5) * np.log(z) - z + 0.5 * math.log(2 * math.pi) + series - np.log(product)
    value = np.where(np.isposinf(z), np.inf, value)
    sine = np.abs(np.sin(np.pi * (wide - np.rint(wide))))
    mirrored = math.log(math.pi) - np.log(sine) - value
    mirrored = np.where(np.isneginf(wide), np.inf, mirrored)
    return np.where(reflected, mirrored, value).astype(x.dtype)
