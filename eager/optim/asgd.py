"""Averaged SGD. (parameters, gradients) -> parameters in place, and their average."""

from __future__ import annotations

from typing import Any

from eager.core.tensor import Tensor
from eager.ops.pointwise import where
from eager.optim.adam import number
from eager.optim.optimizer import Optimizer, Params, check, settings, zeros_like


class ASGD(Optimizer):
    """p = p (1 - lambd eta) - eta g with eta = lr / (1 + lambd lr t)^alpha; `state[p]["ax"]` is the
    average of p from step `t0` on (Polyak, Juditsky 1992)."""

    like_parameter = "ax"
    by_element = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check("learning rate", lr, lr >= 0)
        check("weight_decay value", weight_decay, weight_decay >= 0)
        super().__init__(params, settings(locals()))

    def allocate(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        eta, mu = number(0), number(1)  # the first step sets the rate
        return {"step": number(0), "eta": eta, "mu": mu, "ax": zeros_like(parameter)}

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        lr, lambd = _scalar(group["lr"]), group["lambd"]
        if group["maximize"]:
            gradient = -gradient
        if group["weight_decay"] != 0:
            gradient = gradient.add(parameter, alpha=group["weight_decay"])
        count, average, weight = state["step"], state["ax"], state["mu"]
        count.add_(1)
        state["eta"].copy_(where(count == 1, lr, state["eta"]))  # the rate of the first step
        rate = state["eta"].item()
        parameter.mul_(1 - lambd * rate).add_(gradient, alpha=-rate)
        moved = average + (parameter - average) * weight.to(parameter.dtype)
        average.copy_(where(weight == 1, parameter, moved))
        state["eta"].fill_(lr / (1 + lambd * lr * count.item()) ** group["alpha"])
        weight.copy_(1 / (count - group["t0"]).clamp(min=1))


def _scalar(rate: Any) -> Any:
    """A rate as a number or a 0-dim tensor."""
    return rate.reshape(()) if isinstance(rate, Tensor) else rate
