"""Under `nn.SyncBatchNorm`: batch normalisation over the batches of all ranks. (N, C, ...) on each
rank -> the same shape.

One gathering has each rank's means, sums of squares around them and count, which are put together
by Chan, Golub and LeVeque's rule ("Updating Formulae and a Pairwise Algorithm for Computing Sample
Variances", 1979). The gradient is that of the sum of all ranks' losses: the derivative of the
gathering is the one collective of the backward.
"""

from __future__ import annotations

import math
from typing import Any

from eager.autograd import no_grad
from eager.core.dispatch import must_hold
from eager.core.tensor import Tensor
from eager.distributed.functional import all_gather_tensor
from eager.nn.functional.register import wide
from eager.ops.create import full
from eager.ops.move import cat


def sync_batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    momentum: float,
    eps: float,
    group: Any = None,
) -> Tensor:
    """Normalise each channel (dimension 1) by the mean and variance over the group's batches, which
    also move the running ones (in place; the unbiased variance).

    Raises ValueError where `input` has another number of channels than a parameter, and, on all
    ranks, where they have one value per channel together."""
    channels, shape = input.shape[1], (1, -1, *(1,) * (input.ndim - 2))
    for vector in (running_mean, running_var, weight, bias):
        if vector is not None and vector.numel() != channels:
            raise ValueError(
                f"SyncBatchNorm: {vector.numel()} channels are expected, the input has shape "
                f"{list(input.shape)}, its channels are dimension 1"
            )
    x = wide(input)
    dims = (0, *range(2, x.ndim))
    count = math.prod(x.shape[:1] + x.shape[2:])
    mean = x.sum(dims) / max(count, 1)
    squares = (x - mean.reshape(shape)).square().sum(dims)
    own = cat([mean, squares, full((1,), count, dtype=x.dtype, device=x.device)])
    each = all_gather_tensor(own[None], 0, group)
    means, squares, counts = each.split([channels, channels, 1], 1)
    total = counts.sum()
    few = "SyncBatchNorm: more than 1 value per channel is expected in training, over all ranks"
    must_hold(total > 1, few, lambda: ValueError(few))
    mean = (counts * means).sum(0) / total
    squares = (squares + counts * (means - mean).square()).sum(0)
    if running_mean is not None and running_var is not None:
        with no_grad():
            for running, value in ((running_mean, mean), (running_var, squares / (total - 1))):
                running.copy_(running * (1 - momentum) + value.detach() * momentum)
    out = (x - mean.reshape(shape)) * (squares / total + eps).rsqrt().reshape(shape)
    if weight is not None:
        out = out * weight.reshape(shape)
    if bias is not None:
        out = out + bias.reshape(shape)
    return out.to(input.dtype)
