"""Orthogonal polynomials, for `eager.special`: x and the degree, elementwise -> values.

All are three-term recurrences p[k+1] = (a x + b) p[k] - c p[k-1], so that a family is a row of a
table. The degree is data (a tensor); like PyTorch's they have no derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.core.dispatch import apply
from eager.core.registry import needs_tensors, under
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.gammas import real_of_both
from eager.ops.kinds import Host
from eager.sizes.aval import Aval

Next = Callable[[int, Any], tuple[Any, Any]]  # (k, x) -> (a x + b, c)


def _double(k: int, x: Any) -> tuple[Any, Any]:
    return 2 * x, 1


def _shifted(k: int, x: Any) -> tuple[Any, Any]:
    return 2 * (2 * x - 1), 1


# name: p[1], and the step from p[k-1], p[k] to p[k+1]
_FAMILIES: dict[str, tuple[Callable[[Any], Any], Next]] = {
    "chebyshev_polynomial_t": (lambda x: x, _double),
    "chebyshev_polynomial_u": (lambda x: 2 * x, _double),
    "chebyshev_polynomial_v": (lambda x: 2 * x - 1, _double),
    "chebyshev_polynomial_w": (lambda x: 2 * x + 1, _double),
    "shifted_chebyshev_polynomial_t": (lambda x: 2 * x - 1, _shifted),
    "shifted_chebyshev_polynomial_u": (lambda x: 2 * (2 * x - 1), _shifted),
    "shifted_chebyshev_polynomial_v": (lambda x: 2 * (2 * x - 1) - 1, _shifted),
    "shifted_chebyshev_polynomial_w": (lambda x: 2 * (2 * x - 1) + 1, _shifted),
    "hermite_polynomial_h": (lambda x: 2 * x, lambda k, x: (2 * x, 2 * k)),
    "hermite_polynomial_he": (lambda x: x, lambda k, x: (x, k)),
    "laguerre_polynomial_l": (
        lambda x: 1 - x,
        lambda k, x: ((2 * k + 1 - x) / (k + 1), k / (k + 1)),
    ),
    "legendre_polynomial_p": (
        lambda x: x,
        lambda k, x: ((2 * k + 1) * x / (k + 1), k / (k + 1)),
    ),
}


def _evaluate(x: Any, degree: Any, family: str) -> Any:
    """Degrees are cut to whole numbers; below 0 the value is 0."""
    first, step = _FAMILIES[family]
    kind = np.result_type(x, degree)
    x, degree = np.broadcast_arrays(x.astype(kind), np.trunc(degree.astype(np.float64)))
    out = np.where(degree == 0, 1, 0).astype(kind)
    before, now = np.ones_like(x), np.asarray(first(x), kind)
    last = degree[np.isfinite(degree)]
    with np.errstate(all="ignore"):
        for k in range(1, int(last.max(initial=0)) + 1):
            out = np.where(degree == k, now, out)
            factor, less = step(k, x)
            before, now = now, np.asarray(factor * now - less * before, kind)
    return out


POLYNOMIAL = Host(
    "polynomial",
    ("x", "degree"),
    numpy=_evaluate,
    rule=lambda x, degree, family: (real_of_both(family, x, degree),),
    stops=True,
    core=(0, 0),
)


def _function(family: str) -> Callable[[Any, Any], Tensor]:
    def evaluate(input: Any, n: Any) -> Tensor:
        tensor = input if isinstance(input, Tensor) else n
        x, degree = (
            v if isinstance(v, Tensor) else Tensor._full(v, Aval((), tensor.dtype))
            for v in (input, n)
        )
        x = x if x.dtype.category >= dt.FLOAT else x.to(dt.get_default_dtype())
        return apply(POLYNOMIAL, x, degree, family=family)

    evaluate.__name__ = evaluate.__qualname__ = family
    evaluate.__doc__ = f"The {family.replace('_', ' ')} of degree n at each element."
    degrees = np.array([0.0, 1.0, 3.0, 8.0])
    calls = lambda: [s.call(s.values((3, 4), -1.5, 1.5), degrees, grad=False)]
    return under("special")(calls)(needs_tensors("one")(evaluate))


FUNCTIONS = {family: _function(family) for family in _FAMILIES}
