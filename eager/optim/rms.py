"""RMSprop, Adagrad and Adadelta: gradients divided by a running size of theirs."""

from __future__ import annotations

from typing import Any

from eager.core.tensor import Tensor
from eager.ops.updates import is_elsewhere
from eager.optim.adam import step_count
from eager.optim.optimizer import Optimizer, Params, check, parts_full, settings, zeros_like


class RMSprop(Optimizer):
    """p -= lr g / (sqrt(v) + eps) with v the average of g^2 (less the squared average of g if
    `centered`) (Hinton 2012)."""

    like_parameter = "square_avg"
    by_element = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check("learning rate", lr, lr >= 0)
        check("epsilon value", eps, eps >= 0)
        check("momentum value", momentum, momentum >= 0)
        check("weight_decay value", weight_decay, weight_decay >= 0)
        check("alpha value", alpha, alpha >= 0)
        super().__init__(
            params,
            settings(
                locals(),
                "alpha eps centered weight_decay capturable foreach maximize differentiable",
            ),
        )

    def allocate(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": step_count(), "square_avg": zeros_like(parameter)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(parameter)
        if group["centered"]:
            state["grad_avg"] = zeros_like(parameter)
        return state

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        alpha = group["alpha"]
        if group["maximize"]:
            gradient = -gradient
        if group["weight_decay"] != 0:
            gradient = gradient.add(parameter, alpha=group["weight_decay"])
        state["step"].add_(1)
        square = state["square_avg"]
        square.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"]
            mean.lerp_(gradient, 1 - alpha)
            scale = square.addcmul(mean, mean, value=-1).sqrt_()
        else:
            scale = square.sqrt()
        scale = scale.add(group["eps"])
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"]
            buffer.mul_(group["momentum"]).addcdiv_(gradient, scale)
            parameter.add_(buffer, alpha=-group["lr"])
        else:
            parameter.addcdiv_(gradient, scale, value=-group["lr"])


class Adagrad(Optimizer):
    """p -= lr g / (sqrt(sum of g^2 so far) + eps) (Duchi, Hazan, Singer 2011)."""

    like_parameter = "sum"
    by_element = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check("learning rate", lr, lr >= 0)
        check("lr_decay value", lr_decay, lr_decay >= 0)
        check("weight_decay value", weight_decay, weight_decay >= 0)
        check(
            "initial_accumulator_value value",
            initial_accumulator_value,
            initial_accumulator_value >= 0,
        )
        check("epsilon value", eps, eps >= 0)
        super().__init__(
            params,
            settings(
                locals(),
                "weight_decay initial_accumulator_value foreach maximize differentiable fused",
            ),
        )
        self._ahead = None  # PyTorch's allocates at once, too

    def allocate(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        total = parts_full(group["initial_accumulator_value"], parameter)
        return {"step": step_count(), "sum": total}

    def _is_outdated(self, parameter: Tensor, state: dict[str, Any]) -> bool:
        return is_elsewhere(parameter, state.get("sum")) and not self._opt_called

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        if group["maximize"]:
            gradient = -gradient
        if group["weight_decay"] != 0:
            gradient = gradient.add(parameter, alpha=group["weight_decay"])
        count, total = state["step"], state["sum"]
        count.add_(1)
        rate = group["lr"]
        if group["lr_decay"] != 0:
            rate = rate / (1 + (count.item() - 1) * group["lr_decay"])
        total.addcmul_(gradient, gradient, value=1)
        parameter.addcdiv_(gradient, total.sqrt().add(group["eps"]), value=-rate)


class Adadelta(Optimizer):
    """Steps as large as past steps were, relative to past gradients (Zeiler 2012)."""

    like_parameter = "square_avg"
    by_element = True

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check("learning rate", lr, lr >= 0)
        check("rho value", rho, 0 <= rho <= 1)
        check("epsilon value", eps, eps >= 0)
        check("weight_decay value", weight_decay, weight_decay >= 0)
        super().__init__(params, settings(locals(), "capturable foreach differentiable"))

    def allocate(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": step_count(),
            "square_avg": zeros_like(parameter),
            "acc_delta": zeros_like(parameter),
        }

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        rho, eps = group["rho"], group["eps"]
        if group["maximize"]:
            gradient = -gradient
        if group["weight_decay"] != 0:
            gradient = gradient.add(parameter, alpha=group["weight_decay"])
        state["step"].add_(1)
        square, moved = state["square_avg"], state["acc_delta"]
        square.mul_(rho).addcmul_(gradient, gradient, value=1 - rho)
        delta = moved.add(eps).sqrt_().div_(square.add(eps).sqrt_()).mul_(gradient)
        moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        parameter.add_(delta, alpha=-group["lr"])
