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
