"""Adam and AdamW. Sources: Kingma, Ba 2015; Loshchilov, Hutter 2019; amsgrad: Reddi, Kale, Kumar
2018."""

from __future__ import annotations

from typing import Any

from eager.base import dtype as dt
from eager.core.sym import sqrt
from eager.core.tensor import Tensor
from eager.ops import updates
from eager.optim.optimizer import Optimizer, Params, check, settings, zeros_like
from eager.sizes.aval import Aval


def number(value: float) -> Tensor:
    """State that is one number: a 0-d float32 tensor, as in PyTorch."""
    return Tensor._full(value, Aval((), dt.float32))


def step_count() -> Tensor:
    """A count of the updates of a parameter, which starts at 0."""
    return number(0)


def check_betas(betas: tuple[float, float]) -> None:
    for i, beta in enumerate(betas):
        check(f"beta parameter at index {i}", beta, 0 <= beta < 1)


class Adam(Optimizer):
    """p -= lr m / (sqrt(v) + eps), with m and v the bias-corrected averages of the gradient and of
    its square.

    `weight_decay` adds to the gradient, or shrinks the parameter directly with
    `decoupled_weight_decay`."""

    like_parameter = "exp_avg"
    by_element = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if foreach and not capturable and any(isinstance(x, Tensor) for x in (lr, *betas)):
            raise ValueError(
                "lr or betas as a Tensor are not supported for capturable=False and foreach=True"
            )
        if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        check("learning rate", lr, lr >= 0)
        check("epsilon value", eps, eps >= 0)
        check_betas(betas)
        check("weight_decay value", weight_decay, weight_decay >= 0)
        super().__init__(
            params,
            settings(locals(), "foreach capturable differentiable fused decoupled_weight_decay"),
        )

    def allocate(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {
            "step": step_count(),
            "exp_avg": zeros_like(parameter),
            "exp_avg_sq": zeros_like(parameter),
        }
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(parameter)
        return state

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        beta1, beta2 = group["betas"]
        updates.adam(
            parameter,
            gradient,
            state["exp_avg"],
            state["exp_avg_sq"],
            state["step"],
            state["max_exp_avg_sq"] if group["amsgrad"] else None,
            group["lr"],
            beta1,
            beta2,
            group["eps"],
            group["weight_decay"],
            group["decoupled_weight_decay"],
            group["maximize"],
        )


class AdamW(Adam):
    """Adam with decoupled weight decay."""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


class Adamax(Optimizer):
    """Adam with the largest gradient so far in place of the mean square (Kingma, Ba 2015, section
    7.1)."""

    like_parameter = "exp_avg"
    by_element = True

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check("learning rate", lr, lr >= 0)
        check("epsilon value", eps, eps >= 0)
        check_betas(betas)
        check("weight_decay value", weight_decay, weight_decay >= 0)
        super().__init__(params, settings(locals()))

    def allocate(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": step_count(),
            "exp_avg": zeros_like(parameter),
            "exp_inf": zeros_like(parameter),
        }

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        beta1, beta2 = group["betas"]
        if group["maximize"]:
            gradient = -gradient
        if group["weight_decay"] != 0:
            gradient = gradient.add(parameter, alpha=group["weight_decay"])
        count, mean, largest = state["step"], state["exp_avg"], state["exp_inf"]
        count.add_(1)
        mean.lerp_(gradient, 1 - beta1)
        largest.copy_((largest * beta2).maximum(gradient.abs().add_(group["eps"])))
        parameter.addcdiv_(mean, largest, value=-(group["lr"] / (1 - beta1 ** count.item())))


class NAdam(Optimizer):
    """Adam with Nesterov momentum (Dozat 2016)."""

    like_parameter = "exp_avg"
    by_element = True

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check("learning rate", lr, lr >= 0)
        check("epsilon value", eps, eps >= 0)
        check_betas(betas)
        check("weight_decay value", weight_decay, weight_decay >= 0)
        check("momentum_decay value", momentum_decay, momentum_decay >= 0)
        super().__init__(params, settings(locals(), "foreach capturable differentiable"))

    def allocate(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": step_count(),
            "mu_product": number(1),
            "exp_avg": zeros_like(parameter),
            "exp_avg_sq": zeros_like(parameter),
        }

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        lr, decay, fall = group["lr"], group["weight_decay"], group["momentum_decay"]
        beta1, beta2 = group["betas"]
        if group["maximize"]:
            gradient = -gradient
        if decay != 0:
            if group["decoupled_weight_decay"]:
                parameter.mul_(1 - lr * decay)
            else:
                gradient = gradient.add(parameter, alpha=decay)
        mean, square, product = state["exp_avg"], state["exp_avg_sq"], state["mu_product"]
        state["step"].add_(1)
        step = state["step"].item()
        now = beta1 * (1 - 0.5 * 0.96 ** (step * fall))
        then = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * fall))
        product.mul_(now)
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        scale = (square / (1 - beta2**step)).sqrt().add(group["eps"])
        so_far = product.item()
        parameter.addcdiv_(gradient, scale, value=-lr * (1 - now) / (1 - so_far))
        parameter.addcdiv_(mean, scale, value=-lr * then / (1 - so_far * then))


class RAdam(Optimizer):
    """Adam with a rectified variance (Liu et al. 2020)."""

    like_parameter = "exp_avg"
    by_element = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check("learning rate", lr, lr >= 0)
        check("epsilon value", eps, eps >= 0)
        check_betas(betas)
        check("weight_decay value", weight_decay, weight_decay >= 0)
        super().__init__(
            params,
            settings(locals(), "maximize foreach capturable decoupled_weight_decay differentiable"),
        )

    def allocate(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": step_count(),
            "exp_avg": zeros_like(parameter),
            "exp_avg_sq": zeros_like(parameter),
        }

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        lr, decay = group["lr"], group["weight_decay"]
        beta1, beta2 = group["betas"]
        if group["maximize"]:
            gradient = -gradient
        if decay != 0:
            if group["decoupled_weight_decay"]:
                parameter.mul_(1 - lr * decay)
            else:
                gradient = gradient.add(parameter, alpha=decay)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        state["step"].add_(1)
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        factor = _rectified(state["step"], square, beta2, group["eps"])
        corrected = mean / (1 - beta1 ** state["step"].item())
        parameter.add_(corrected * factor, alpha=-lr)


def _rectified(count: Tensor, square: Tensor, beta2: float, eps: float) -> Tensor:
    """1 while the variance is not tractable (rho <= 5), then the rectified 1 / sqrt(v).

    Chosen by `where`, so that the compiler sees one program for all steps."""
    step = count.item()
    limit = 2 / (1 - beta2) - 1
    correction = 1 - beta2**step
    rho = count.double() * (-2 * beta2**step / correction) + limit
    safe = rho.clamp(min=5.1)
    rectifier = (
        (safe - 4) * (safe - 2) * limit / ((limit - 4) * (limit - 2) * safe)
    ).sqrt()  # 0-d float64
    adaptive = sqrt(correction) / square.sqrt().add(eps)
    return (adaptive * rectifier).where(rho > 5.0, adaptive.new_ones(()))
