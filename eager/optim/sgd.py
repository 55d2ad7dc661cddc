"""Stochastic gradient descent, with momentum. Source: Sutskever et al. 2013, in PyTorch's form
(momentum without the rate)."""

from __future__ import annotations

from typing import Any

from eager.core.tensor import Tensor
from eager.optim.optimizer import Optimizer, Params, check, settings, zeros_like


class SGD(Optimizer):
    """v = momentum v + (1 - dampening) g; p -= lr v (or lr (g + momentum v) with `nesterov`)."""

    like_parameter = "momentum_buffer"
    by_element = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check("learning rate", lr, lr >= 0)
        check("momentum value", momentum, momentum >= 0)
        check("weight_decay value", weight_decay, weight_decay >= 0)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, settings(locals()))

    def allocate(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any] | None:
        if group["momentum"] == 0:
            return None
        # With dampening the first step differs (the velocity starts as the whole gradient), so it
        # has to see that there is none yet.
        if group["dampening"] != 0:
            return {}
        return {"momentum_buffer": zeros_like(parameter)}

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        if group["maximize"]:
            gradient = -gradient
        if group["weight_decay"] != 0:
            gradient = gradient.add(parameter, alpha=group["weight_decay"])
        momentum = group["momentum"]
        if momentum != 0:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = gradient.clone()
            else:
                buffer.mul_(momentum).add_(gradient, alpha=1 - group["dampening"])
            if group["nesterov"]:
                gradient = gradient.add(buffer, alpha=momentum)
            else:
                gradient = buffer
        parameter.add_(gradient, alpha=-group["lr"])
