"""Rprop: steps by the signs of gradients. (parameters, gradients) -> parameters in place."""

from __future__ import annotations

from typing import Any

from eager.core.tensor import Tensor
from eager.ops.pointwise import where
from eager.optim.adam import step_count
from eager.optim.optimizer import Optimizer, Params, check, parts_full, settings, zeros_like


class Rprop(Optimizer):
    """p -= step sign(g): each element's step grows by etas[1] while its sign stays, and shrinks by
    etas[0] (and waits) when it turns (Riedmiller, Braun 1993). For full batches."""

    like_parameter = "prev"
    by_element = True

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check("learning rate", lr, lr >= 0)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, settings(locals(), "capturable"))

    def allocate(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        size = parts_full(group["lr"], parameter)
        return {"step": step_count(), "prev": zeros_like(parameter), "step_size": size}

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        (down, up), (smallest, largest) = group["etas"], group["step_sizes"]
        if group["maximize"]:
            gradient = -gradient
        state["step"].add_(1)
        agree = gradient * state["prev"]
        same = Tensor._full(
            1, parameter.aval
        )  # the factors in the parameter's dtype, not in the default one
        factor = where(agree > 0, up * same, where(agree < 0, down * same, same))
        size = where(state["step"] == 1, group["lr"], state["step_size"])  # the first step's rate
        state["step_size"].copy_(size * factor).clamp_(smallest, largest)
        gradient = where(agree < 0, 0.0, gradient).to(parameter.dtype)
        parameter.addcmul_(gradient.sign(), state["step_size"], value=-1)
        state["prev"].copy_(gradient)
