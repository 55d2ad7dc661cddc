"""nn.functional: activations that are not one pointwise op. tensor -> softmax and its kin, gated
units, attention-free choices.

The pointwise ones (relu, gelu, ...) live with the other pointwise ops, in
`eager/ops/activation.py`.
"""

from __future__ import annotations

from typing import Any

from eager.base import dtype as dt
from eager.base.compat_warnings import warn, warn_once
from eager.base.dtype import DType
from eager.core.casts import lower_precision, rounded_once
from eager.core.op import Sample
from eager.core.registry import public
from eager.core.tensor import Tensor
from eager.nn.functional.register import functional
from eager.ops import samples as s
from eager.ops.define import not_for
from eager.ops.part_views import own_dim
from eager.ops.pointwise import where
from eager.ops.view import norm_dim
from eager.random import draw


def _dim(name: str, input: Tensor, dim: int | None) -> int:
    """PyTorch's old default when `dim` is not given: 0 for 0, 1 and 3 dimensions, else 1."""
    if dim is not None:
        return dim
    warn(f"{name}: the implicit choice of dim is deprecated: pass dim, for example dim=-1")
    return 0 if input.ndim in (0, 1, 3) else 1


@functional(
    lambda: [Sample((s.values((3, 4)),), {"dim": 1}), Sample((s.values((3, 4)),), {"dim": 0})]
)
def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """exp(x) / sum(exp(x)) along dim, computed after subtracting the largest value."""
    return input.softmax(_dim("softmax", input, dim), dtype=dtype)


@functional(lambda: [Sample((s.values((3, 4)),), {"dim": -1})])
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """log(softmax(x)), without the overflow that the composition would have."""
    return input.log_softmax(_dim("log_softmax", input, dim), dtype=dtype)


@functional(lambda: [Sample((s.values((3, 4)),), {"dim": -1})])
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """softmax(-x)."""
    return (-input).softmax(_dim("softmin", input, dim), dtype=dtype)


@functional()
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A differentiable sample from a categorical distribution (Jang, Gu, Poole 2017); one-hot
    forwards when `hard`."""
    if eps != 1e-10:
        warn_once("gumbel_softmax eps", "gumbel_softmax: eps is deprecated and has no effect")
    uniform = draw("uniform", tuple(logits.shape), logits.dtype.compute, None, logits.device).to(
        logits.dtype
    )
    exponential = -((-uniform).log1p())
    noise = -exponential.clamp(min=2.0**-126).log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    d = norm_dim(dim, logits.ndim, "gumbel_softmax")
    best = soft.argmax(d, keepdim=True)
    one_hot = logits.new_zeros(logits.shape).scatter(d, best, value=1.0)
    return one_hot - soft.detach() + soft


@functional(lambda: [Sample((s.values((3, 4)),)), Sample((s.values((4, 3)), 0))])
@rounded_once
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along dim times the sigmoid of the second (Dauphin et al. 2017)."""
    d = own_dim(dim, input.ndim, "glu")
    size = input.shape[d]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {d} is size {size}")
    a, b = input.narrow(d, 0, size // 2), input.narrow(d, size // 2, size // 2)
    return a * b.sigmoid()


@public(
    namespace=False,
    samples=lambda: [
        Sample((s.values((2, 3, 4)), s.values((3,), 0.1, 0.5))),
        Sample((s.values((3, 4)), s.values((1,), 0.1, 0.5))),
    ],
)
@lower_precision
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x for x > 0, weight * x below; one weight, or one per channel (dimension 1)."""
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}"
        )
    if weight.numel() != 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.numel() != channels:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
        weight = weight.reshape((-1, *(1,) * (input.ndim - 2)))
    else:
        weight = weight.reshape(())
    return where(input > 0, input, input * weight)


@functional()
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Leaky ReLU with a slope drawn per element from [lower, upper] in training, their mean
    otherwise."""
    if lower > upper:
        raise RuntimeError(
            f"rrelu: Lower bound should be less than or equal to the upper bound, got {lower} and "
            f"{upper}"
        )
    not_for("rrelu", dt.BOOL, dt.INT)([input.aval])
    slope: Any = (lower + upper) / 2
    if training:
        uniform = draw("uniform", tuple(input.shape), input.dtype.compute, None, input.device).to(
            input.dtype
        )
        slope = uniform * (upper - lower) + lower
    out = where(input > 0, input, input * slope)
    return input.copy_(out) if inplace else out


@functional()
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    return input.sigmoid()


@functional()
def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return input.tanh()
