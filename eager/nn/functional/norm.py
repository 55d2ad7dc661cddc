"""nn.functional: normalisations. tensor -> (x - mean) / sqrt(var + eps) over some dimensions,
scaled and shifted.

All are the same reductions and pointwise ops, so compiled code runs each in one kernel. 16-bit
floats are normalised in float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from eager.autograd import Function, is_grad_enabled, no_grad
from eager.base import dtype as dt
from eager.core.casts import on_gpus, rounded_once
from eager.core.dispatch import apply
from eager.core.op import Sample
from eager.core.registry import Out, with_out
from eager.core.tensor import Tensor
from eager.nn.functional.register import functional, wide
from eager.ops import samples as s
from eager.ops.move import PAD
from eager.ops.pointwise import div

_quotient = with_out(div, Out())


def _statistics(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and 1 / sqrt(variance + eps) over `dims`, which stay as 1."""
    mean = x.mean(dims, keepdim=True)
    centred = x - mean
    variance = (centred * centred).mean(dims, keepdim=True)
    return mean, variance, (variance + eps).rsqrt()


class Standardise(Function):
    """x, dims, eps -> (x - mean) / sqrt(variance + eps), and the mean and variance (no gradient).

    The derivative is written out: it needs two sums, where the steps one by one would need a third
    that has to wait for them (Ioffe, Szegedy 2015, section 3)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, dims: tuple[int, ...], eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        mean, variance, scale = _statistics(x, dims, eps)
        # Not the result: the next layer may overwrite it in place.
        ctx.save_for_backward(x, mean, scale)
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(mean, variance)
        ctx.settings = dims, eps
        return (x - mean) * scale, mean, variance

    @staticmethod
    def backward(ctx: Any, g: Tensor, *_: Any) -> tuple[Any, ...]:
        x, mean, scale = ctx.saved_tensors
        dims, eps = ctx.settings
        if is_grad_enabled():  # to be differentiated again: by way of x
            mean, _variance, scale = _statistics(x, dims, eps)
        normal = (x - mean) * scale
        along = (g * normal).mean(dims, keepdim=True)
        return (g - g.mean(dims, keepdim=True) - normal * along) * scale, None, None


def _affine(x: Tensor, weight: Any, bias: Any) -> Tensor:
    if weight is not None:
        x = x * weight
    return x if bias is None else x + bias


@functional(
    lambda: [
        Sample((s.values((3, 4)), (4,), s.values((4,)), s.values((4,), seed=1))),
        Sample((s.values((2, 3, 4)), (3, 4))),
    ]
)
@on_gpus("full")
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise over the last dimensions, which must be `normalized_shape` (Ba, Kiros, Hinton
    2016)."""
    dims = _last_dims(input, normalized_shape, weight=weight, bias=bias)
    x = wide(input)
    normal, _, _ = Standardise.apply(x, dims, eps)
    return _affine(normal, weight, bias).to(input.dtype)


def _last_dims(
    input: Tensor, normalized_shape: Sequence[int], **parameters: Tensor | None
) -> tuple[int, ...]:
    """The dimensions of `normalized_shape`. RuntimeError unless the input ends in it, and the
    parameters have it."""
    shape = tuple(normalized_shape)
    n = len(shape)
    if n == 0 or tuple(input.shape[max(input.ndim - n, 0) :]) != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape "
            f"[*, {', '.join(map(str, shape))}], but got input of size{list(input.shape)}"
        )
    for name, vector in parameters.items():
        if vector is not None and tuple(vector.shape) != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(vector.shape)} and normalized_shape = {list(shape)}"
            )
    return tuple(range(input.ndim - n, input.ndim))


@functional(
    lambda: [
        Sample((s.values((3, 4)), (4,), s.values((4,))), {"eps": 1e-6}),
        Sample((s.values((2, 3, 4)), (3, 4))),
    ]
)
@on_gpus("full")
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """x / sqrt(mean(x^2) + eps) over the last dimensions (Zhang, Sennrich 2019); eps is the type's
    precision by default."""
    dims = _last_dims(input, normalized_shape, weight=weight)
    x = wide(input)
    if eps is None:
        eps = 2.0**-52 if x.dtype.itemsize == 8 else 2.0**-23
    scaled = x * ((x * x).mean(dims, keepdim=True) + eps).rsqrt()
    return _affine(scaled, weight, None).to(input.dtype)


def _per_channel(x: Tensor | None, ndim: int) -> Tensor | None:
    """(C) as (1, C, 1, ...)."""
    return None if x is None else x.reshape((1, -1, *(1,) * (ndim - 2)))


@functional(
    lambda: [
        Sample((s.values((4, 3)), s.values((3,)), s.values((3,), 0.5, 2), s.values((3,)))),
        Sample((s.values((4, 3, 2, 2)), None, None, s.values((3,))), {"training": True}),
    ]
)
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel (dimension 1) over all others (Ioffe, Szegedy 2015).

    In training by the batch's mean and variance, which also move the running ones (in place; the
    unbiased variance); otherwise by the running ones. Raises ValueError when training has a single
    value per channel or `eps` is not positive (negative otherwise), RuntimeError for other
    statistics or parameters than one per channel."""
    x = wide(input)
    count = math.prod(x.shape[:1] + x.shape[2:])
    if training and count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.shape}: "
            "use larger batches (DataLoader(drop_last=True) leaves out a last one of 1), or eval()"
        )
    if eps < 0 or (training and eps == 0):
        at_least = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm eps must be {at_least}, but got {eps}")
    _require_channels(
        x, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias
    )
    if not x.numel():  # an empty batch
        scale, shift = (None if p is None or not p.numel() else p[0] for p in (weight, bias))
        return _affine(x.clone(), scale, shift).to(input.dtype)
    if training:
        dims = (0, *range(2, x.ndim))
        normal, mean, variance = Standardise.apply(x, dims, eps)
        if running_mean is not None:
            _move(running_mean, mean, momentum)
        if running_var is not None:
            _move(running_var, variance * (count / (count - 1)), momentum)
    else:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "Expected running_mean and running_var to be defined when training=False"
            )
        shape = (1, -1, *(1,) * (x.ndim - 2))
        scale = (running_var.reshape(shape) + eps).rsqrt()
        normal = (x - running_mean.reshape(shape)) * scale
    return _affine(normal, _per_channel(weight, x.ndim), _per_channel(bias, x.ndim)).to(input.dtype)


def _require_channels(x: Tensor, **each: Tensor | None) -> None:
    """RuntimeError unless each vector has an element per channel of `x`, dimension 1."""
    channels = x.shape[1] if x.ndim > 1 else 0
    for name, vector in each.items():
        if vector is not None and vector.numel() != channels:
            raise RuntimeError(
                f"{name} should contain {channels} elements not {vector.numel()}: the input has "
                f"shape {list(x.shape)}, its channels are dimension 1"
            )


def _move(running: Tensor, new: Tensor, momentum: float) -> None:
    """running = (1 - momentum) * running + momentum * new, in place."""
    with no_grad():
        value = new.detach().reshape(running.shape)
        running.copy_(running * (1 - momentum) + value * momentum)


@functional(
    lambda: [
        Sample((s.values((2, 4, 3)), 2, s.values((4,)), s.values((4,), seed=1))),
        Sample((s.values((2, 4)), 2)),
    ]
)
@on_gpus("full")
def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each of `num_groups` groups of channels of each sample (Wu, He 2018)."""
    if input.ndim < 2:
        raise RuntimeError(
            f"Expected at least 2 dimensions for input tensor but received {input.ndim}"
        )
    n, c = input.shape[:2]
    if c % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            "shape "
            f"{list(input.shape)} and num_groups={num_groups}"
        )
    rest = math.prod(input.shape[2:])
    x = wide(input).reshape((n, num_groups, c // num_groups * rest))
    normal = Standardise.apply(x, (2,), eps)[0].reshape(input.shape)
    weight, bias = _per_channel(weight, input.ndim), _per_channel(bias, input.ndim)
    return _affine(normal, weight, bias).to(input.dtype)


@functional(
    lambda: [
        Sample((s.values((2, 3, 4)),)),
        Sample((s.values((2, 3, 4)), None, None, s.values((3,)), s.values((3,), seed=1))),
    ]
)
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel of each sample (Ulyanov, Vedaldi, Lempitsky 2016)."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    dims = tuple(range(2, input.ndim))
    count = math.prod(input.shape[2:])
    if count == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {input.shape}"
        )
    x = wide(input)
    normal, mean, variance = Standardise.apply(x, dims, eps)
    if running_mean is not None:
        _move(running_mean, mean.mean(0), momentum)
    if running_var is not None:
        _move(running_var, variance.mean(0) * (count / (count - 1)), momentum)
    return _affine(normal, _per_channel(weight, x.ndim), _per_channel(bias, x.ndim)).to(input.dtype)


@functional(
    lambda: [
        Sample((s.values((3, 4)),)),
        Sample((s.values((3, 4)),), {"p": 1.0, "dim": 0}),
    ]
)
@on_gpus("full")
@rounded_once
def normalize(
    input: Tensor, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """input / max(its p-norm along dim, eps), in `out` if it is given."""
    length = input.norm(p, dim, keepdim=True).clamp(min=eps)
    return input / length if out is None else _quotient(input, length, out=out)


@functional(lambda: [Sample((s.values((2, 5, 3)), 3)), Sample((s.values((2, 4, 3, 3)), 2))])
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """x / (k + alpha * mean of the squares over `size` neighbouring channels) ** beta."""
    low = size // 2
    pads = tuple((low, size - 1 - low) if d == 1 else (0, 0) for d in range(input.ndim))
    squares = apply(PAD, input * input, 0.0, pads=pads)
    total = squares.unfold(1, size, 1).sum(-1)
    whole = input.dtype.category < dt.FLOAT
    mean = total.div(size, rounding_mode="trunc") if whole else total / size
    return input / (mean * alpha + k).pow(beta)
