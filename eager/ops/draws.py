"""Draws whose number of trials depends on the values: gamma, Poisson, binomial. (parameters, key)
-> draws.

The key is drawn by Philox like every random number (`eager/random/__init__.py`); from it NumPy's
own generator makes the draws of one call, so eager and compiled code, which calls back, draw the
same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.core.dispatch import apply
from eager.ops.kinds import Host
from eager.sizes.aval import Aval, broadcast_shapes


def _generator(key: Any) -> np.random.Generator:
    """NumPy's generator of four 32-bit words."""
    words = np.asarray(key, np.uint64) & 0xFFFFFFFF
    pair = [int(words[0]) << 32 | int(words[1]), int(words[2]) << 32 | int(words[3])]
    return np.random.Generator(np.random.Philox(key=np.array(pair, np.uint64)))


def _wide(x: Any) -> Any:
    return np.asarray(x, np.float64)


def _rounded(drawn: Any, dtype: Any) -> Any:
    """Draws as an array: for parameters without dimensions NumPy's generator gives a number."""
    return np.asarray(drawn).astype(dtype)


def _invalid(x: Any, bad: Any, name: str) -> None:
    if bad.any():
        raise RuntimeError(f"{name}: a parameter is negative, or no number: {x[bad].flat[0]}")


def _gamma(alpha: Any, key: Any) -> Any:
    wide = _wide(alpha)
    _invalid(wide, ~(wide >= 0), "standard_gamma")
    drawn = _rounded(_generator(key).standard_gamma(wide), alpha.dtype)
    least = dt.finfo(dt.from_numpy(drawn.dtype)).tiny
    return np.maximum(drawn, np.asarray(least, drawn.dtype))  # its logarithm is finite


def _gamma_vjp(g: Any, alpha: Any, out: Any) -> tuple[Any, None]:
    return g * apply(GAMMA_GRAD, alpha, out), None


def _gamma_grad(alpha: Any, x: Any) -> Any:
    """dx/dalpha of a draw: -(dF/dalpha) / density, with F the distribution's function.

    F is a series of positive terms r_n = x / alpha * x^n / ((alpha + 1) ... (alpha + n)) over the
    density, whose derivative is that of its powers and gamma functions.
    Source: Figurnov et al., "Implicit reparameterization gradients" (2018)."""
    a, v = _wide(alpha), _wide(x)
    with np.errstate(all="ignore"):
        term = v / a
        slope = np.log(v) - _digamma(a + 1)
        total, n = term * slope, 0
        while n < 100_000:
            n += 1
            slope = slope - 1 / (a + n)
            term = term * v / (a + n)
            total = total + term * slope
            past = (a + n > v) & (term * np.abs(slope) <= 1e-17 * np.abs(total))
            if (past | ~np.isfinite(total)).all():
                break
    return (-total).astype(alpha.dtype)


def _digamma(x: Any) -> Any:
    """By its recurrence up to 10, then the asymptotic series."""
    shift, y = np.zeros_like(x), np.array(x)
    while (near := y < 10).any():
        shift = np.where(near, shift - 1 / y, shift)
        y = np.where(near, y + 1, y)
    s = 1 / (y * y)
    series = s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s / 132))))
    return shift + np.log(y) - 0.5 / y - series


def _poisson(rate: Any, key: Any) -> Any:
    wide = _wide(rate)
    _invalid(wide, ~(wide >= 0), "poisson")
    return _rounded(_generator(key).poisson(wide), rate.dtype)


def _binomial(count: Any, prob: Any, key: Any) -> Any:
    n, p = np.broadcast_arrays(_wide(count), _wide(prob))
    _invalid(n, ~(n >= 0), "binomial")
    _invalid(p, ~((p >= 0) & (p <= 1)), "binomial")
    return _rounded(_generator(key).binomial(n.astype(np.int64), p), np.asarray(prob).dtype)


def _like_first(x: Aval, *_: Aval) -> tuple[Aval, ...]:
    return (Aval(x.shape, x.dtype, x.device),)


def _of_both(n: Aval, p: Aval, key: Aval) -> tuple[Aval, ...]:
    kind = p.dtype if p.dtype.category >= dt.FLOAT else dt.get_default_dtype()
    return (Aval(broadcast_shapes(n.shape, p.shape), kind, p.device),)


STANDARD_GAMMA = Host(
    "standard_gamma", ("alpha", "key"), _gamma_vjp, numpy=_gamma, rule=_like_first
)
GAMMA_GRAD = Host(
    "standard_gamma_grad", ("alpha", "x"), numpy=_gamma_grad, rule=_like_first, core=(0, 0)
)
POISSON = Host("poisson", ("rate", "key"), numpy=_poisson, rule=_like_first, stops=True)
BINOMIAL = Host("binomial", ("count", "prob", "key"), numpy=_binomial, rule=_of_both, stops=True)
