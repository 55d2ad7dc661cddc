"""`eager.special`: the special functions under the names that `torch.special` has for them.
tensors -> tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

from eager.base.misspelled import missing
from eager.core.casts import given_precision
from eager.core.dispatch import apply
from eager.core.op import Sample
from eager.core.registry import PUBLIC, Out, needs_tensors, under, with_out
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.bessel import i0 as i0
from eager.ops.bessel import i0e as i0e
from eager.ops.bessel import i1 as i1
from eager.ops.bessel import i1e as i1e
from eager.ops.bessel import modified_bessel_i0 as modified_bessel_i0
from eager.ops.bessel import modified_bessel_i1 as modified_bessel_i1
from eager.ops.bessel import spherical_bessel_j0 as spherical_bessel_j0
from eager.ops.bessel_waves import FUNCTIONS as _BESSEL
from eager.ops.composite import log_softmax as log_softmax
from eager.ops.composite import logsumexp as logsumexp
from eager.ops.composite import softmax as softmax
from eager.ops.define import binary_op, unary
from eager.ops.elementary import ERFCX, NDTRI
from eager.ops.elementary import logit as logit
from eager.ops.elementary import round as round
from eager.ops.gammas import igamma as gammainc  # noqa: F401
from eager.ops.gammas import igammac as gammaincc  # noqa: F401
from eager.ops.gammas import mvlgamma as multigammaln  # noqa: F401
from eager.ops.gammas import zeta as zeta
from eager.ops.pointwise import where
from eager.ops.polynomials import FUNCTIONS as _POLYNOMIALS

F = TypeVar("F", bound=Callable[..., Any])
_SAME: Final = (
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "log1p",
    "polygamma",
    "sinc",
    "xlogy",
)
globals().update({name: PUBLIC[name].fn for name in _SAME})
globals().update(_POLYNOMIALS)
globals().update(_BESSEL)
psi = PUBLIC["digamma"].fn
gammaln = PUBLIC["lgamma"].fn


_OUT: Final = Out(overlap="any")
_special = under("special", _OUT)


entr = unary(
    "entr",
    lambda m, x: m.where(x < 0.0, -math.inf, m.where(m.eq(x, 0), 0.0, -x * m.log(x))),
    lambda g, x: (g * (-1 - x.log()),),
    samples=s.on(0.1, 2.0),
    doc="-x log x; 0 at 0, and minus infinity below it.",
    torch="special.entr",
    method=False,
    namespace=False,
    inplace=False,
    takes="real",
)


def _log1p_vjp(g: Tensor, x: Any, y: Any) -> tuple[Any, Any]:
    log = y.log1p() if isinstance(y, Tensor) else math.log1p(y)
    zero = (x == 0) & (y <= -1)
    along = where(zero, 0.0, g * log) if isinstance(x, Tensor) else None
    return along, g * x / (1 + y) if isinstance(y, Tensor) else None


XLOG1PY = binary_op(
    "xlog1py",
    lambda m, x, y: m.where(m.is_nan(y), y, m.where(m.eq(x, 0), 0.0, x * m.log1p(y))),
    _log1p_vjp,
    result="float",
)


@_special(lambda: [Sample((s.values((3, 4)), s.values((3, 4), -0.5, 2.0, seed=1)))])
@needs_tensors("one")
def xlog1py(input: Any, other: Any) -> Tensor:
    """x log(1 + y); 0 where x is 0, unless y is NaN."""
    return apply(XLOG1PY, input, other)


@_special(lambda: [Sample((s.values((3, 4)),))])
def ndtr(input: Tensor) -> Tensor:
    """The probability that a normal variable is at most x."""
    return (input * -math.sqrt(0.5)).erfc() * 0.5


@_special(lambda: [Sample((s.values((3, 4), -1.5, 8.0),)), Sample((s.values((3,), 20.0, 60.0),))])
def erfcx(input: Tensor) -> Tensor:
    """exp(x^2) erfc(x), without overflow where x is large."""
    return apply(ERFCX, input)


@_special(lambda: [Sample((s.values((3, 4), 0.05, 0.95),))])
def ndtri(input: Tensor) -> Tensor:
    """The x below which a normal variable is with probability `input`."""
    return apply(NDTRI, input)


@_special(lambda: [Sample((s.values((3, 4), -12.0, 4.0),))])
@given_precision
def log_ndtr(input: Tensor) -> Tensor:
    """log(ndtr(x)), also where ndtr underflows."""
    t = input * math.sqrt(0.5)
    below = (apply(ERFCX, -t.clamp(max=0.0)) / 2).log() - t * t
    return where(input < -1.0, below, (-t.clamp(min=-1.0).erfc() / 2).log1p())


for _name, _fn in [*globals().items()]:
    if callable(_fn) and (_fn.__module__ or "").startswith("eager.ops.") and _name[0] != "_":
        globals()[_name] = with_out(_fn, _OUT)

__getattr__ = missing(__name__)
