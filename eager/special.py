"""`eager.special`: the special functions under the names that `torch.special` has for them.
tensors -> tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

from eager.op import Sample
from eager.ops import samples as s
from eager.ops.composite import log_softmax as log_softmax
from eager.ops.composite import logsumexp as logsumexp
from eager.ops.composite import softmax as softmax
from eager.ops.elementary import logit as logit
from eager.ops.elementary import round as round
from eager.ops.pointwise import where
from eager.registry import PUBLIC, public
from eager.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])
_SAME: Final = (
    "digamma", "erf", "erfc", "erfinv", "exp2", "expit", "expm1", "log1p", "sinc", "xlogy",
)  # fmt: skip
globals().update({name: PUBLIC[name].fn for name in _SAME})
_xlogy = PUBLIC["xlogy"].fn
psi = PUBLIC["digamma"].fn
gammaln = PUBLIC["lgamma"].fn


def _special(*samples: Sample) -> Callable[[F], F]:
    def register(fn: F) -> F:
        torch = f"special.{fn.__name__}"
        return public(torch=torch, method=False, namespace=False, samples=lambda: samples)(fn)

    return register


@_special(Sample((s.values((3, 4), 0.1, 2.0),)))
def entr(input: Tensor) -> Tensor:
    """-x log x; 0 at 0, and minus infinity below it."""
    inside = -_xlogy(input, input)
    return where(input < 0, -math.inf, inside)


@_special(Sample((s.values((3, 4)), s.values((3, 4), -0.5, 2.0, seed=1))))
def xlog1py(input: Any, other: Any) -> Tensor:
    """x log(1 + y); 0 where x is 0, unless y is NaN."""
    return _xlogy(input, 1 + other)


@_special(Sample((s.values((3, 4)),)))
def ndtr(input: Tensor) -> Tensor:
    """The probability that a normal variable is at most x."""
    return (input * -math.sqrt(0.5)).erfc() * 0.5
