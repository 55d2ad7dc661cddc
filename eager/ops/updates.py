"""Updates of parameters by optimizers, where the library does so many times: tensors, settings ->
the tensors are written."""

from __future__ import annotations

from typing import Any

from eager.core.sym import sqrt
from eager.core.tensor import Tensor
from eager.core.traced import repeatable


def is_elsewhere(parameter: Tensor, held: Tensor | None) -> bool:
    """True if state of a parameter has another dtype, or lies on another device, than the parameter
    has now."""
    if held is None:
        return False
    return held.dtype is not parameter.dtype or held.device != parameter.device


def is_unusual(parameter: Tensor, gradient: Tensor, held: Tensor | None) -> bool:
    """True if a parameter is not updated straight away: `is_elsewhere`, or its gradient is
    complex."""
    return gradient.dtype.is_complex or is_elsewhere(parameter, held)


def is_written(state: Tensor) -> bool:
    """True if a tensor was written since it was made."""
    return state._storage.version != 0


@repeatable
def adam(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    count: Tensor,
    largest: Tensor | None,
    lr: Any,
    beta1: Any,
    beta2: Any,
    eps: Any,
    decay: Any,
    decoupled: Any,
    maximize: Any,
) -> None:
    """A step of `eager.optim.Adam`; `largest` with amsgrad."""
    if maximize:
        gradient = -gradient
    if decay != 0:
        if decoupled:
            parameter.mul_(1 - lr * decay)
        else:
            gradient = gradient.add(parameter, alpha=decay)
    count.add_(1)
    mean.lerp_(gradient, 1 - beta1)
    square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
    step = count.item()
    correction = sqrt(1 - beta2**step)
    if largest is not None:
        square = largest.maximum(square)
        largest.copy_(square)
    scale = (square.sqrt() / correction).add_(eps)
    parameter.addcdiv_(mean, scale, value=-(lr / (1 - beta1**step)))
