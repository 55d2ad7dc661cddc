"""The normalisations as PyTorch's own graph code calls them: with statistics among the results.
tensors -> (normalised, mean, 1 / standard deviation)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eager.core.registry import public
from eager.core.tensor import Tensor
from eager.nn.functional.norm import batch_norm, group_norm, layer_norm
from eager.ops import samples as s

Three = tuple[Tensor, Tensor, Tensor]


def _statistics(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    mean = x.mean(dims, keepdim=True)
    return mean, (x.var(dims, keepdim=True, correction=0) + eps).rsqrt()


def _x() -> Any:
    return s.values((2, 4, 3))


@public(method=False, samples=lambda: [s.call(_x(), (3,), s.values((3,)), None, 1e-5)])
def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Three:
    """`layer_norm`, and the statistics of each group of elements."""
    out = layer_norm(input, normalized_shape, weight, bias, eps)
    dims = tuple(range(input.ndim - len(tuple(normalized_shape)), input.ndim))
    return (out, *_statistics(input.detach(), dims, eps))


@public(method=False, samples=lambda: [s.call(_x(), s.values((4,)), None, 2, 4, 3, 2, 1e-5)])
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> Three:
    """`group_norm`, and the statistics (N, group)."""
    out = group_norm(input, group, weight, bias, eps)
    mean, scale = _statistics(input.reshape(N, group, C // group * HxW), (2,), eps)
    return out, mean.squeeze(-1), scale.squeeze(-1)


@public(
    method=False,
    samples=lambda: [s.call(_x(), None, s.values((4,)), None, None, True, 0.1, 1e-5)],
)
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Three:
    """`batch_norm`, and the batch's statistics (empty when not in training)."""
    out = batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    mean, scale = _statistics(input.detach(), (0, *range(2, input.ndim)), eps)
    return out, mean.reshape(-1), scale.reshape(-1)
