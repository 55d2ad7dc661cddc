"""Muon: orthogonalised momentum, for matrices. (parameters, gradients) -> parameters in place."""

from __future__ import annotations

import math
from typing import Any

from eager.base import dtype as dt
from eager.core.tensor import Tensor
from eager.ops.products import addmm
from eager.optim.optimizer import Optimizer, Params, check, settings, zeros_like

_RATES = (None, "original", "match_rms_adamw")


class Muon(Optimizer):
    """p = p (1 - lr weight_decay) - lr' O with O the momentum's nearest orthogonal matrix, found by
    `ns_steps` Newton-Schulz steps in bfloat16 (Jordan et al. 2024). Parameters are matrices;
    embeddings, biases and heads are for another optimizer. ValueError for other shapes."""

    like_parameter = "momentum_buffer"
    by_element = False

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check("learning rate", lr, lr >= 0)
        check("momentum value", momentum, momentum >= 0)
        check("weight_decay value", weight_decay, weight_decay >= 0)
        check("ns_steps, which are fewer than 100", ns_steps, ns_steps < 100)
        check("ns_coefficients, which are three", ns_coefficients, len(ns_coefficients) == 3)
        if adjust_lr_fn not in _RATES:
            raise ValueError(f"adjust_lr_fn is one of {_RATES}, not {adjust_lr_fn!r}")
        super().__init__(params, settings(locals()))

    def allocate(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if parameter.dim() != 2:
            raise ValueError(
                f"Muon is for matrices; a parameter has shape {tuple(parameter.shape)}"
            )
        return {"momentum_buffer": zeros_like(parameter)}

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        lr, momentum, buffer = group["lr"], group["momentum"], state["momentum_buffer"]
        buffer.lerp_(gradient, 1 - momentum)
        step = gradient.lerp(buffer, momentum) if group["nesterov"] else buffer
        step = _orthogonalised(step, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = parameter.shape
        if group["adjust_lr_fn"] == "match_rms_adamw":
            rate = lr * 0.2 * math.sqrt(max(rows, columns))
        else:
            rate = lr * math.sqrt(max(1, rows / columns))
        parameter.mul_(1 - lr * group["weight_decay"])
        parameter.add_(step.to(parameter.dtype), alpha=-rate)


def _orthogonalised(x: Tensor, coefficients: Any, steps: int, eps: float) -> Tensor:
    """x with singular values near one: `steps` times a x + (b A + c A^2) x with A = x x^T."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    x = (x.T if tall else x).to(dt.bfloat16)
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = addmm(x, addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)  # rounded once
    return x.T if tall else x
