"""Functions around gamma: polygamma, zeta, mvlgamma, the incomplete gammas. tensors -> tensors.

How many terms a sum needs depends on the values, so compiled code calls back for zeta and the
incomplete gammas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.special_arrays import erf
from eager.base.special_arrays import lgamma as log_gamma
from eager.core.dispatch import apply
from eager.core.registry import needs_tensors, public, under
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.elementary import digamma, lgamma, trigamma
from eager.ops.kinds import Host, need_order
from eager.sizes.aval import Aval, broadcast_shapes, result_type

# ---------------------------------------------------------------------------------- zeta
# B(2k) / (2k)!: the correction terms of Euler and Maclaurin.
_BERNOULLI = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
    43867 / 5109094217170944000,
    -174611 / 802857662698291200000,
)
_FAR = 10  # from where on the formula of Euler and Maclaurin is exact to rounding


def _zeta_kernel(x: Any, q: Any) -> Any:
    """sum 1 / (q + k)^x: terms one by one up to q + k > 10, then Euler's and Maclaurin's formula.
    NaN for x < 1, and where a negative number has a broken power; infinite at poles."""
    kind = np.result_type(x, q)
    kind = kind if kind.kind == "f" else dt.get_default_dtype().np
    x, q = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(q, np.float64))
    with np.errstate(all="ignore"):
        total, edge = np.zeros(x.shape), q
        while (near := edge < _FAR).any():
            total = np.where(near, total + edge**-x, total)
            edge = np.where(near, edge + 1, edge)
            if float(np.nanmin(edge)) < -1e7:
                break
        power = edge**-x
        total = total + edge * power / (x - 1) + 0.5 * power
        factor, power = x, power / edge
        for k, weight in enumerate(_BERNOULLI):
            total = total + weight * factor * power
            factor = factor * (x + (2 * k + 1)) * (x + (2 * k + 2))
            power = power / (edge * edge)
        pole = (q <= 0) & (q == np.floor(q))
        broken = (q <= 0) & ~pole & (x != np.floor(x))
    total = np.where(pole, np.inf, np.where(broken, np.nan, total))
    return np.where(x == 1, np.inf, np.where(x < 1, np.nan, total)).astype(kind)


def real_of_both(name: str, x: Aval, y: Aval) -> Aval:
    """The result of a function of two real numbers: broadcast, in their common type, of ints in the
    default float. NotImplementedError for complex numbers."""
    kind = result_type((x, y))
    kind = kind if kind.category >= dt.FLOAT else dt.get_default_dtype()
    out = Aval(broadcast_shapes(x.shape, y.shape), kind, x.device)
    need_order(name, out)
    return out


def _zeta_vjp(g: Any, x: Any, y: Any) -> tuple[Any, Any]:
    return None, g * -x * apply(ZETA, x + 1, y)


ZETA = Host(
    "zeta",
    ("x", "y"),
    _zeta_vjp,
    numpy=_zeta_kernel,
    rule=lambda x, y: (real_of_both("zeta", x, y),),
    core=(0, 0),
    underived="self",
)


def _two(op: Host) -> Callable[[Any, Any], Tensor]:
    """The function of an op on two operands, numbers as tensors of the other's type."""

    def fn(input: Any, other: Any) -> Tensor:
        like = input if isinstance(input, Tensor) else other
        kind = like.dtype if like.dtype.category >= dt.FLOAT else dt.get_default_dtype()
        x, y = (
            v if isinstance(v, Tensor) else Tensor._full(v, Aval((), kind)) for v in (input, other)
        )
        return apply(op, x, y)

    fn.__name__ = fn.__qualname__ = op.name
    return fn


zeta = needs_tensors("one")(_two(ZETA))
zeta.__doc__ = "The Hurwitz zeta function: the sum of 1 / (other + k)^input over k = 0, 1, ..."
_above_one = s.on_two(first=(1.2, 5.0), second=(0.3, 4.0), number=None, grad=False)
under("special")(_above_one)(zeta)


@public(
    torch="special.polygamma",
    inplace=False,
    samples=lambda: [s.call(n, s.values((3, 4), 0.2, 4.0), grad=n < 3) for n in (0, 2, 3)],
)
def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of `digamma`."""
    if isinstance(n, Tensor):  # as a method: x.polygamma(n)
        n, input = int(input), n
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        return digamma(input)
    if n == 1:
        return trigamma(input)
    x = input if input.dtype.category >= dt.FLOAT else input.to(dt.get_default_dtype())
    order = Tensor._full(n + 1, Aval((), x.dtype))
    return apply(ZETA, order, x) * ((-1.0) ** (n + 1) * math.factorial(n))


@public(
    torch="special.multigammaln",
    inplace=True,
    alias=("multigammaln",),
    samples=lambda: [s.call(s.values((3, 4), 1.2, 4.0), 2)],
)
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """log of the multivariate gamma function of dimension p."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    total = lgamma(input)
    for i in range(1, p):
        total = total + lgamma(input - i / 2)
    return total + p * (p - 1) / 4 * math.log(math.pi)


# ------------------------------------------------------------------------ incomplete gammas
def _lower_series(a: Any, x: Any) -> Any:
    """P(a, x) x^-a e^x gamma(a), by its power series."""
    term = total = 1 / a
    k = 0
    while (np.abs(term) > np.abs(total) * 1e-17).any():
        k += 1
        term = term * (x / (a + k))
        total = total + term
    return total


def _upper_fraction(a: Any, x: Any) -> Any:
    """Q(a, x) x^-a e^x gamma(a), by Legendre's continued fraction (Lentz's evaluation)."""
    b = x + 1 - a
    c, d = np.full_like(x, 1e300), 1 / b
    value, step = d, np.full_like(x, 2.0)
    k = 0
    while (np.abs(step - 1) > 4e-16).any() and k < 100_000:
        k += 1
        factor = -k * (k - a)
        b = b + 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        step = c * d
        value = value * step
    return value


_LARGE = 1e5  # series and fraction take some sqrt(a) steps


def _uniform(a: Any, x: Any) -> Any:
    """P(a, x) for large a, by the first terms of Temme's uniform expansion (DLMF 8.12)."""
    with np.errstate(all="ignore"):
        mu = (x - a) / a
        series = mu * mu * (0.5 - mu / 3 + mu * mu / 4)
        half = np.where(np.abs(mu) < 1e-3, series, mu - np.log1p(mu))
        eta = np.sign(mu) * np.sqrt(2 * half)
        first = np.where(np.abs(eta) < 1e-3, eta / 12 - 1 / 3, 1 / mu - 1 / eta)
        rest = np.exp(-a * half) / np.sqrt(2 * math.pi * a) * first
        return 0.5 * (1 + erf(eta * np.sqrt(a / 2))) - rest


def _incomplete(a: Any, x: Any, upper: bool) -> Any:
    kind = np.result_type(a, x)
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    low, high = (1.0, 0.0) if upper else (0.0, 1.0)
    out = np.full(a.shape, np.nan)
    out[(a > 0) & (x == 0) | (a == np.inf) & (x >= 0) & (x < np.inf)] = low
    out[(a >= 0) & (a < np.inf) & (x == np.inf) | (a == 0) & (x > 0)] = high
    large = inside & (a > _LARGE)
    below = _uniform(a[large], x[large])
    out[large], inside = 1 - below if upper else below, inside & ~large
    for chosen, part, is_upper in (
        (inside & (x <= np.maximum(a, 1)), _lower_series, False),
        (inside & (x > np.maximum(a, 1)), _upper_fraction, True),
    ):
        p, q = a[chosen], x[chosen]
        share = part(p, q) * np.exp(p * np.log(q) - q - log_gamma(p))
        out[chosen] = share if is_upper == upper else 1 - share
    return out.astype(kind)


def _slope(x: Any, y: Any) -> Any:
    return ((x - 1) * y.log() - y - lgamma(x)).exp()


def _gamma_op(name: str, upper: bool) -> Host:
    sign = -1 if upper else 1
    return Host(
        name,
        ("x", "y"),
        lambda g, x, y: (None, g * sign * _slope(x, y)),
        numpy=lambda a, x: _incomplete(a, x, upper),
        rule=lambda x, y: (real_of_both(name, x, y),),
        core=(0, 0),
        underived="input",
    )


_positive = s.on_two(first=(0.2, 5.0), second=(0.1, 8.0), number=None, grad=False)
igamma, igammac = (
    needs_tensors("both")(_two(_gamma_op(name, upper)))
    for name, upper in (("igamma", False), ("igammac", True))
)
igamma.__doc__ = "The share of gamma(input) that lies below other: regularised, lower."
igammac.__doc__ = "The share of gamma(input) that lies above other: regularised, upper."
public(alias=("gammainc",), inplace=True, samples=_positive)(igamma)
public(alias=("gammaincc",), inplace=True, samples=_positive)(igammac)
