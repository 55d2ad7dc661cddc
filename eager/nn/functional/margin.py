"""nn.functional: losses of margins and distances. pairs or triplets of tensors -> a number (or one
per element)."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.core.casts import full_precision, on_gpus, rounded_once
from eager.core.dispatch import apply
from eager.core.op import Sample
from eager.core.registry import public
from eager.core.tensor import Tensor, wrap
from eager.nn.functional.register import functional, legacy_reduction, reduced
from eager.ops import samples as s
from eager.ops.activation import logsigmoid
from eager.ops.index import GATHER, TAKE
from eager.ops.index_and_sort import iota
from eager.ops.pointwise import where
from eager.ops.view import broadcast_tensors
from eager.sizes.aval import result_type


def _two(*shape: int) -> tuple[Any, Any]:
    return s.values(shape), s.values(shape, seed=1)


def _signs(*shape: int) -> Any:
    return s.booleans(shape).astype(float) * 2 - 1


@functional(lambda: [Sample((*_two(3, 4), _signs(3, 4), 0.13)), Sample((*_two(3), _signs(3), 0.5))])
@full_precision
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -t (x1 - x2) + margin)."""
    loss = (-target * (input1 - input2) + margin).clamp(min=0)
    return reduced(loss, legacy_reduction(size_average, reduce, reduction))


@functional(lambda: [Sample((s.values((3, 4)), _signs(3, 4)))])
@full_precision
@rounded_once
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """x where t is 1, max(0, margin - x) where it is -1."""
    far = where(target != 1, (margin - input).clamp(min=0), 0.0)
    near = where(target != -1, input, 0.0)
    return reduced(far + near, legacy_reduction(size_average, reduce, reduction))


@functional(lambda: [Sample((s.values((3, 4)), _signs(3, 4)))])
@full_precision
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-t x))."""
    loss = -logsigmoid(target * input)
    return reduced(loss, legacy_reduction(size_average, reduce, reduction))


@functional(lambda: [Sample((*_two(3, 4), _signs(3)), {"margin": 0.1})])
@full_precision
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos where t is 1, max(0, cos - margin) where it is -1: (N, D), (N, D) and (N), or (D),
    (D) and (). RuntimeError for other numbers of dimensions."""
    if target.ndim > 1 or not input1.ndim == input2.ndim == target.ndim + 1:
        raise RuntimeError(
            f"{target.ndim}D target tensor expects {target.ndim + 1}D input tensors, but found "
            f"inputs with sizes {list(input1.shape)} and {list(input2.shape)}"
        )
    kind = dt.get_default_dtype()
    a, b = (x if x.dtype.category >= dt.FLOAT else x.to(kind) for x in (input1, input2))
    cosine = cosine_similarity(a, b, -1)
    far = where(target == -1, (cosine - margin).clamp(min=0), 0.0)
    loss = where(target == 1, 1 - cosine, 0.0) + far
    return reduced(loss, legacy_reduction(size_average, reduce, reduction))


@functional(lambda: [Sample(_two(3, 4)), Sample(_two(3, 4), {"dim": 0})])
@on_gpus("full")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along dim."""
    kind = result_type((x1.aval, x2.aval))
    if not kind.is_floating_point and not kind.is_complex:
        raise RuntimeError(f"cosine_similarity() is for floating point tensors, got {kind}")
    x1, x2 = broadcast_tensors(x1.to(kind), x2.to(kind))
    length1 = x1.norm(dim=dim, keepdim=True).clamp(min=eps)  # its gradient at 0 is 0
    length2 = x2.norm(dim=dim, keepdim=True).clamp(min=eps)
    return ((x1 / length1) * (x2 / length2)).sum(dim)


@functional(lambda: [Sample(_two(3, 4)), Sample(_two(3, 4), {"p": 1.0, "keepdim": True})])
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Tensor:
    """The p-norm of x1 - x2 + eps along the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


@functional(
    lambda: [
        Sample((*_two(3, 4), s.values((3, 4), -1.7, 2.2, 2))),
        Sample((*_two(3, 4), s.values((3, 4), -1.7, 2.2, 2)), {"swap": True, "margin": 9.0}),
    ]
)
@full_precision
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(a, p) - d(a, n) + margin); with `swap`, d(a, n) is the smaller of it and d(p, n)."""
    _positive(margin)
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and negative "
            f"{negative.ndim}D inputs"
        )
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
    loss = (near - far + margin).clamp(min=0)
    return reduced(loss, legacy_reduction(size_average, reduce, reduction))


def _positive(margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")


@functional()
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Any = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with a distance of one's own."""
    _positive(margin)
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced((near - far + margin).clamp(min=0), reduction)


@functional(
    lambda: [
        Sample((s.values((3, 4)), s.integers((3,), 0, 4))),
        Sample((s.values((3, 4)), s.integers((3,), 0, 4)), {"p": 2, "margin": 0.5}),
    ]
)
@full_precision
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: Any = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over wrong classes of max(0, margin - x[t] + x[i]) ** p, times the target class's
    weight."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    _multi_margin_operands(input, target, p, weight)
    x = input if input.ndim == 2 else input.reshape(1, -1)
    index = target.reshape(-1, 1)
    right = apply(GATHER, x, index, dim=1)
    excess = (margin - right + x).clamp(min=0)
    excess = excess if p == 1 else excess * excess
    if weight is not None:
        excess = excess * apply(TAKE, weight, index, dim=0)
    own = index == iota(x.shape[1], like=x)
    loss = where(own, 0.0, excess).sum(1) / x.shape[1]
    loss = loss if input.ndim == 2 else loss.squeeze(0)
    return reduced(loss, reduction)


def _multi_margin_operands(input: Tensor, target: Tensor, p: int, weight: Tensor | None) -> None:
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    classes = input.shape[-1] if input.ndim else 1
    if input.ndim > 2 or not classes:
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )
    samples = input.shape[0] if input.ndim == 2 else 1
    if target.ndim > 1 or target.numel() != samples:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples. Expected target size [{samples}], but got {list(target.shape)}"
        )
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    if target.dtype is not dt.int64:
        raise RuntimeError(f"expected scalar type Long but found {target.dtype}")
    if weight is not None and weight.dtype is not input.dtype:
        raise RuntimeError(f"expected a weight of dtype {input.dtype}, but found {weight.dtype}")


@functional(lambda: [Sample((s.values((2, 4)), np.array([[3, 0, -1, 1], [1, -1, 2, 0]])))])
@full_precision
def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over pairs of a label and another class of max(0, 1 - x[label] + x[other]); a row of
    `target` lists its labels up to the first -1."""
    reduction = legacy_reduction(size_average, reduce, reduction)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if input.ndim > 2 or input.shape != target.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    x, labels = (
        input.reshape(-1, input.shape[-1] if input.ndim else 1),
        target.reshape(-1, target.shape[-1] if target.ndim else 1),
    )
    classes = x.shape[1]
    named = (labels < 0).long().cumsum(1) == 0
    place = where(named, labels, 0)
    right = apply(GATHER, x, place, dim=1)
    own = ((place.unsqueeze(2) == iota(classes, like=place)) & named.unsqueeze(2)).any(1)
    excess = (1 - right.unsqueeze(2) + x.unsqueeze(1)).clamp(min=0)
    counts = named.unsqueeze(2) & ~own.unsqueeze(1)
    loss = where(counts, excess, 0.0).sum((1, 2)) / classes
    loss = loss if input.ndim == 2 else loss.squeeze(0)
    return reduced(loss, legacy_reduction(size_average, reduce, reduction))


@on_gpus("full")
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows, as the upper triangle of their matrix."""
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.is_floating_point():
        raise RuntimeError(f"pdist only supports floating-point dtypes, got {input.dtype}")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    n = input.shape[0]
    rows, columns = np.triu_indices(n, 1)
    places: list[Tensor] = [wrap(i.astype(np.int64)) for i in (rows, columns)]
    a, b = (apply(TAKE, input, i.to(input.device), dim=0) for i in places)
    return (a - b).norm(p, -1)


public(
    samples=lambda: [Sample((s.values((4, 3)),)), Sample((s.values((4, 3)), 1.0))], method=False
)(pdist)


@functional(lambda: [Sample((s.values((3, 4)), s.booleans((3, 4)).astype(float)))])
@full_precision
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of the logistic loss of each label."""
    loss = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    loss = (loss if weight is None else loss * weight).mean(-1)
    return reduced(loss, legacy_reduction(size_average, reduce, reduction))
