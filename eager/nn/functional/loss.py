"""nn.functional: losses. predictions and targets -> a number (or one per element).

All are compositions of pointwise ops and reductions; the class of a target is picked by `gather`,
whose gradient is a comparison of positions, so that cross-entropy and its gradient (softmax minus
one-hot) fuse with what is around them.
"""

from __future__ import annotations

import math
from typing import Any

from eager.base import dtype as dt
from eager.base.compat_warnings import ignore, warn
from eager.core.casts import full_precision
from eager.core.dispatch import apply, must_hold
from eager.core.op import Sample
from eager.core.tensor import Tensor
from eager.nn.functional.register import functional, legacy_reduction, reduced, warn_of_sizes, wide
from eager.ops import samples as s
from eager.ops.activation import logsigmoid
from eager.ops.define import binary_op
from eager.ops.elementary import xlogy
from eager.ops.index import GATHER, TAKE
from eager.ops.index_kernels import OutOfBounds
from eager.ops.pointwise import where


# -------------------------------------------------------------------------- classification
def _classes(*shape: int, of: int = 4) -> Any:
    return s.integers(shape, 0, of)


def _labels_first(input: Tensor, target: Tensor) -> str:
    if not input.dtype.is_floating_point:
        return f", and the input is {input.dtype}: the scores come first, the labels second"
    return ": labels are class numbers, use target.long()"


def _where_classes(input: Tensor, target: Tensor, dim: int) -> str:
    """Advice about what may have been meant, or ""."""
    if target.ndim == input.ndim and target.shape[dim] == 1:
        return f": use target.squeeze({dim})"
    if input.ndim > 2 and target.shape == input.shape[:-1]:
        return f": classes are dimension 1, use input.transpose(1, {input.ndim - 1})"
    return ""


def _class_dim(name: str, input: Tensor, target: Tensor) -> int:
    """1, or 0 for an unbatched (C) input. Raises ValueError and RuntimeError for targets that do
    not fit."""
    if input.ndim == 0:
        raise ValueError(f"{name}: the input needs a class dimension, got a 0-d tensor")
    if target.dtype not in (dt.int64, dt.uint8):
        raise RuntimeError(
            f"{name}: expected target dtype to be int64 or uint8, got {target.dtype}"
            + _labels_first(input, target)
        )
    dim = 0 if input.ndim == 1 else 1
    expected = (*input.shape[:dim], *input.shape[dim + 1 :])
    if input.ndim > 1 and target.ndim and target.shape[0] != input.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size "
            f"({target.shape[0]}). The batch is the first dimension of both: the input has shape "
            f"{tuple(input.shape)}, the target {tuple(target.shape)}"
        )
    if input.ndim == 1 and target.ndim == 1 and target.shape[0] != 1:
        raise ValueError(
            f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}"
        )
    if tuple(target.shape) != expected:
        raise RuntimeError(
            f"{name}: Expected target size {list(expected)}, got {list(target.shape)} for an "
            f"input of size {list(input.shape)}{_where_classes(input, target, dim)}"
        )
    return dim


def _check_weight(weight: Tensor | None, classes: Any, dtype: Any = None) -> None:
    """Raises RuntimeError unless each class has a weight, of the type if one is given."""
    if weight is None:
        return
    if tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but "
            f"got weight tensor of shape: {list(weight.shape)}"
        )
    if dtype not in (None, weight.dtype):
        raise RuntimeError(f"expected a weight tensor of dtype {dtype}, got {weight.dtype}")


def _picked_loss(
    scores: Tensor,
    total: Tensor | None,
    target: Tensor,
    dim: int,
    weight: Tensor | None,
    ignore_index: int,
) -> tuple[Tensor, Tensor]:
    """The weighted loss `total - scores[target]` of each target and its weight, both zero where it
    is `ignore_index`."""
    valid = target != ignore_index
    safe = where(valid, target, 0)
    try:
        picked = apply(GATHER, scores, safe.unsqueeze(dim), dim=dim).squeeze(dim)
    except OutOfBounds as error:
        bad, n = str(error).split()[2], scores.shape[dim]
        raise IndexError(
            f"Target {bad} is out of bounds: label {bad}, and there are {n} classes, 0 to {n - 1} "
            f"(ignore_index is {ignore_index})"
        ) from None
    loss = -picked if total is None else total - picked
    if weight is None:
        return where(valid, loss, 0.0), valid.to(scores.dtype)
    scale = where(valid, apply(TAKE, weight, safe, dim=0), 0.0)
    return where(valid, loss * scale, 0.0), scale


def _log_sum_exp(logits: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The logits less their maximum, and the logarithm of the sum of their exponentials.

    Shifting changes nothing in `log(sum) - scores[target]`, so the maximum needs no gradient: the
    derivative is softmax minus one-hot, without a reduction of its own."""
    scores = logits - logits.detach().amax(dim, keepdim=True)
    return scores, scores.exp().sum(dim).log()


def _even_loss(scores: Tensor, total: Tensor, dim: int, weight: Tensor | None) -> Tensor:
    """The (weighted) sum over all classes of `total - scores`: the part of label smoothing."""
    if weight is None:
        return total * scores.shape[dim] - scores.sum(dim)
    along = weight.reshape([-1 if d == dim else 1 for d in range(scores.ndim)])
    return total * weight.sum() - (scores * along).sum(dim)


def _weighted(loss: Tensor, scale: Tensor, reduction: str) -> Tensor:
    """`reduced`, where the mean is over the weights."""
    return loss.sum() / scale.sum() if reduction == "mean" else reduced(loss, reduction)


@functional(
    lambda: [
        Sample((s.values((3, 4)), _classes(3))),
        Sample((s.values((3, 4)), _classes(3), s.values((4,), 0.5, 2))),
        Sample((s.values((3, 4, 2)), _classes(3, 2)), {"reduction": "sum", "ignore_index": 1}),
        Sample((s.values((4,)), _classes())),
    ]
)
@full_precision
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability (N, C, *) of each target class (N, *), weighted by class."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    dim = _class_dim("nll_loss", input, target)
    _check_weight(weight, input.shape[dim], input.dtype)
    loss, scale = _picked_loss(input, None, target, dim, weight, ignore_index)
    return _weighted(loss, scale, reduction)


@functional(
    lambda: [
        Sample((s.values((3, 4)), _classes(3))),
        Sample((s.values((3, 4)), _classes(3), s.values((4,), 0.5, 2)), {"label_smoothing": 0.1}),
        Sample((s.values((3, 4, 2)), _classes(3, 2)), {"reduction": "none", "ignore_index": 1}),
        Sample((s.values((3, 4)), s.values((3, 4), 0, 0.5)), {"label_smoothing": 0.1}),
        Sample((s.values((4,)), _classes())),
    ]
)
@full_precision
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross-entropy of logits (N, C, *) and targets: classes (N, *), or probabilities of the
    logits' shape.

    Classes equal to `ignore_index` count for nothing; `label_smoothing` mixes in the even
    distribution. Raises ValueError and RuntimeError for shapes that do not fit and for what has no
    meaning, IndexError for a class out of range."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if label_smoothing > 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if tuple(target.shape) == tuple(input.shape) and target.dtype.is_floating_point:
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _soft_cross_entropy(input, target, weight, reduction, label_smoothing)
    dim = _class_dim("cross_entropy", input, target)
    _check_weight(weight, input.shape[dim], input.dtype)
    scores, total = _log_sum_exp(wide(input), dim)
    loss, scale = _picked_loss(scores, total, target, dim, weight, ignore_index)
    if label_smoothing > 0:
        even = _even_loss(scores, total, dim, weight) * (label_smoothing / input.shape[dim])
        loss = loss * (1 - label_smoothing) + where(target != ignore_index, even, 0.0)
    return _weighted(loss, scale, reduction).to(input.dtype)


def _soft_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None, reduction: str, smoothing: float
) -> Tensor:
    dim = 0 if input.ndim == 1 else 1
    log_probs = input.log_softmax(dim)
    _check_weight(weight, input.shape[dim])
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / input.shape[dim]
    if weight is not None:
        target = target * weight.reshape([-1 if d == dim else 1 for d in range(input.ndim)])
    loss = -(log_probs * target).sum(dim)
    return loss.sum() / max(loss.numel(), 1) if reduction == "mean" else reduced(loss, reduction)


@functional(
    lambda: [
        Sample((s.values((3, 4)), s.values((5, 4), seed=1), _classes(3, of=5))),
        Sample(
            (s.values((3, 4)), s.values((5, 2, 4), seed=1), _classes(3, 2, of=5)),
            {"linear_bias": s.values((5, 2), seed=2), "ignore_index": 1},
        ),
    ]
)
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """`cross_entropy` of the logits `linear(input, linear_weight, linear_bias)`. The weight is (C,
    in_features), or (C, *, in_features) for logits (N, C, *).

    `options` only says in which pieces torch computes it. Raises RuntimeError for shapes that do
    not fit."""
    ignore("linear_cross_entropy", options=options)
    if input.ndim not in (1, 2) or linear_weight.ndim < 2:
        raise RuntimeError(
            "linear_cross_entropy: expected input with dimensionality 1 or 2 and linear_weight "
            f"with at least 2, got {input.ndim} and {linear_weight.ndim}"
        )
    classes, *more, features = linear_weight.shape
    if input.shape[-1] != features:
        raise RuntimeError(
            "linear_cross_entropy: expected equal input and linear_weight last dimensions "
            f"(in_features), got {input.shape[-1]} and {features}"
        )
    if linear_bias is not None and tuple(linear_bias.shape) != (classes, *more):
        raise RuntimeError(
            f"linear_cross_entropy: expected linear_bias shape {(classes, *more)}, got "
            f"{tuple(linear_bias.shape)}"
        )
    if more and input.ndim == 1:
        raise RuntimeError(
            f"linear_cross_entropy: linear_weight of shape {list(linear_weight.shape)} requires "
            f"batched input, got {list(input.shape)}"
        )
    logits = input @ linear_weight.reshape(-1, features).mT
    logits = logits.reshape(*input.shape[:-1], classes, *more)
    if linear_bias is not None:
        logits = logits + linear_bias
    if ignore_index is None:
        ignore_index = -100
    elif tuple(target.shape) == tuple(logits.shape):
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    return cross_entropy(
        logits,
        target,
        weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def _probabilities(*shape: int) -> Any:
    return s.values(shape, 0.1, 0.9)


def _cross_entropy_body(m: Any, x: Any, y: Any) -> Any:
    return (y - 1.0) * m.max(m.log1p(-x), -100.0) - y * m.max(m.log(x), -100.0)


def _cross_entropy_vjp(g: Tensor, x: Tensor, y: Tensor) -> tuple[Any, Any]:
    """Finite, as in PyTorch, where a probability is 0 or 1: saturated sigmoids give these."""
    slope = (x - y) / (x * (1 - x)).clamp(min=1e-12)
    return g * slope, g * ((-x).log1p().clamp(min=-100) - x.log().clamp(min=-100))


BINARY_CROSS_ENTROPY = binary_op(
    "binary_cross_entropy", _cross_entropy_body, _cross_entropy_vjp, result="float", takes="real"
)


@functional(
    lambda: [
        Sample((_probabilities(3, 4), 0.1 + 0.8 * s.booleans((3, 4)))),
        Sample((_probabilities(3), _probabilities(3), s.values((3,), 0.5, 2))),
    ]
)
@full_precision
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """-(t log p + (1 - t) log(1 - p)) of probabilities; the logarithms are kept above -100."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if tuple(target.shape) != tuple(input.shape):
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is "
            "deprecated. Please ensure they have the same size."
        )
    if target.dtype is not input.dtype:
        raise RuntimeError(f"Found dtype {target.dtype} but expected {input.dtype}")
    must_hold(
        ((input >= 0) & (input <= 1)).all(),
        "all elements of input should be between 0 and 1: apply sigmoid() to scores, or use "
        "binary_cross_entropy_with_logits",
    )
    must_hold(
        ((target >= 0) & (target <= 1)).all(), "all elements of target should be between 0 and 1"
    )
    loss = apply(BINARY_CROSS_ENTROPY, input, target)
    return reduced(loss if weight is None else loss * weight, reduction)


@functional(
    lambda: [
        Sample((s.values((3, 4)), s.booleans((3, 4)).astype(float))),
        Sample((s.values((3, 4)), _probabilities(3, 4)), {"pos_weight": s.values((4,), 0.5, 2)}),
    ]
)
@full_precision
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """`binary_cross_entropy` of sigmoid(input), without its overflow. `pos_weight` scales the
    positive term."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if tuple(target.shape) != tuple(input.shape):
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
            + (": input.squeeze(-1)?" if target.shape == input.shape[:-1] else "")
        )
    log_sigmoid = logsigmoid(input)
    if target.dtype.category < dt.FLOAT:
        raise RuntimeError(
            f"result type {input.dtype} can't be cast to the desired output type {target.dtype}: "
            "use target.float()"
        )
    if pos_weight is not None:
        log_sigmoid = log_sigmoid * ((pos_weight - 1) * target + 1)
    loss = ((1 - target) * input - log_sigmoid).to(target.dtype)
    return reduced(loss if weight is None else loss * weight, reduction)


# ------------------------------------------------------------------------------ regression
def _two(*shape: int) -> tuple[Any, Any]:
    return s.values(shape), s.values(shape, seed=1)


def _difference(input: Tensor, target: Tensor) -> Tensor:
    """input - target, where one of the two may be bool: 0 and 1."""
    if dt.bool_ in (input.dtype, target.dtype):
        kind = dt.promote_types(input.dtype, target.dtype)
        input, target = input.to(kind), target.to(kind)
    return input - target


def _of_size(weight: Tensor, input: Tensor) -> Tensor:
    if tuple(weight.shape) != tuple(input.shape):
        raise ValueError("Weights and input must have the same size.")
    return weight


@functional(lambda: [Sample(_two(3, 4)), Sample(_two(3, 4), {"reduction": "sum"})])
@full_precision
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """(x - t)^2."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    warn_of_sizes(input, target)
    difference = _difference(input, target)
    loss = difference * difference
    if weight is None:
        return reduced(loss, reduction)
    return _weighted(loss * _of_size(weight, input), weight, reduction)


@functional(
    lambda: [
        Sample(_two(3, 4)),
        Sample(_two(3, 4), {"reduction": "none"}),
        Sample(_two(3, 4), {"weight": s.values((3, 4), 0.5, 2.0)}),
    ]
)
@full_precision
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """|x - t|."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    warn_of_sizes(input, target)
    loss = (input - target).abs()
    if weight is None:
        return reduced(loss, reduction)
    return _weighted(loss * _of_size(weight, input), weight, reduction)


@functional(lambda: [Sample(_two(3, 4)), Sample(_two(3, 4), {"beta": 0.3})])
@full_precision
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """0.5 d^2 / beta for |d| < beta, |d| - 0.5 beta beyond, with d = x - t."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    warn_of_sizes(input, target)
    difference = _difference(input, target)
    size = difference.abs()
    if beta == 0:
        return reduced(size, reduction)
    return reduced(
        where(size < beta, difference * difference * (0.5 / beta), size - 0.5 * beta), reduction
    )


@functional(lambda: [Sample(_two(3, 4)), Sample(_two(3, 4), {"delta": 0.3})])
@full_precision
def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """0.5 d^2 for |d| <= delta, delta (|d| - 0.5 delta) beyond, with d = x - t."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    warn_of_sizes(input, target)
    difference = _difference(input, target)
    size = difference.abs()
    near = difference * difference * 0.5
    loss = where(size <= delta, near, (size - 0.5 * delta) * delta)
    return reduced(loss if weight is None else loss * _of_size(weight, input), reduction)


@functional(
    lambda: [
        Sample((s.values((3, 4), -2, 0), _probabilities(3, 4)), {"reduction": "batchmean"}),
        Sample((_two(3, 4)), {"log_target": True, "reduction": "sum"}),
    ]
)
@full_precision
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """t (log t - x) for log-probabilities x; "batchmean" divides the sum by the first dimension."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / (input.shape[0] if input.ndim else 1)
    if reduction == "mean":
        warn(
            "kl_div: reduction='mean' divides by the number of elements; reduction='batchmean' "
            "divides by the batch size, which is the divergence as it is defined"
        )
    return reduced(loss, reduction)


@functional(
    lambda: [
        Sample((s.values((3, 4)), s.integers((3, 4), 0, 5).astype(float))),
        Sample(
            (s.values((3, 4), 0.5, 2), s.values((3, 4), 1.5, 4)), {"log_input": False, "full": True}
        ),
    ]
)
@full_precision
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(x) - t x, or x - t log x; `full` adds Stirling's approximation of log t!."""
    if log_input:
        loss = input.exp() - target * input
    else:
        loss = input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + where(target > 1, stirling, 0.0)
    return reduced(loss, legacy_reduction(size_average, reduce, reduction))


@functional(
    lambda: [
        Sample((*_two(3, 4), _probabilities(3, 4))),
        Sample((*_two(3, 4), _probabilities(3, 1)), {"full": True}),
    ]
)
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """0.5 (log v + (x - t)^2 / v) with v = max(var, eps) (which gets no gradient from the max)."""
    if not isinstance(var, Tensor):
        var = input.new_ones(input.shape) * var
    what = "var has negative entry/entries"
    must_hold((var >= 0).all(), what, lambda: ValueError(what))
    if var.ndim == input.ndim - 1:
        var = var.unsqueeze(-1)
    if var.ndim != input.ndim or any(
        v not in (1, n) for v, n in zip(var.shape, input.shape, strict=True)
    ):
        raise ValueError("var is of incorrect size")
    safe = var + (var.detach().clamp(min=eps) - var.detach())
    loss = 0.5 * (safe.log() + (input - target) ** 2 / safe)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)
