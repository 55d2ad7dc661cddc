"""Adafactor: Adam with little memory. (parameters, gradients) -> parameters in place."""

from __future__ import annotations

from typing import Any

from eager.base import dtype as dt
from eager.base.dtype import finfo
from eager.core.tensor import Tensor
from eager.ops.composite import norm
from eager.optim.adam import step_count
from eager.optim.optimizer import Optimizer, Params, check, settings, zeros_like


class Adafactor(Optimizer):
    """Steps of the size of Adam's, relative to the parameter's own; of a matrix's squared gradients
    only the means of rows and columns are kept (Shazeer, Stern 2018), in PyTorch's form."""

    by_element = False

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check("learning rate", lr, lr >= 0)
        check("beta2_decay value", beta2_decay, beta2_decay <= 0)
        check("epsilon values", eps, (eps[0] is None or eps[0] >= 0) and eps[1] >= 0)
        check("clipping threshold d", d, d >= 1)
        check("weight_decay value", weight_decay, weight_decay >= 0)
        super().__init__(params, settings(locals()))

    def allocate(self, parameter: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if parameter.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if parameter.dim() <= 1:
            return {"step": step_count(), "variance": zeros_like(parameter)}
        rows, columns = parameter[..., :1], parameter[..., :1, :]
        return {"step": step_count(), "row_var": zeros_like(rows), "col_var": zeros_like(columns)}

    def _is_outdated(self, parameter: Tensor, state: dict[str, Any]) -> bool:
        held = [*state.values()][1:2]
        return bool(held) and held[0].dtype is not parameter.dtype and self._is_ahead(parameter)

    def update(
        self, parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]
    ) -> None:
        if self._is_outdated(parameter, state):  # whose name depends on the dimensions
            self._allocate_again()
            state = self._slots[parameter]
        lr, (eps1, eps2) = group["lr"], group["eps"]
        eps1 = finfo(parameter.dtype).eps if eps1 is None else eps1
        if group["maximize"]:
            gradient = -gradient
        state["step"].add_(1)
        count = state["step"].to(dt.float64)
        fresh = (count ** group["beta2_decay"]).to(parameter.dtype)  # weight of the new squares
        rate = (1 / count.sqrt()).clamp(max=lr)
        size = (_rms(parameter).clamp(min=eps2)) * rate
        if group["weight_decay"] != 0:
            parameter.mul_(1 - lr * group["weight_decay"])
        estimate = _estimate(gradient, state, fresh, eps1)
        step = estimate.clamp_(min=eps1 * eps1).rsqrt_().mul_(gradient)
        scale = size / (_rms(step) / group["d"]).clamp(min=1.0)
        parameter.sub_(step * scale.to(parameter.dtype))


def _rms(x: Tensor) -> Tensor:
    """The root of the mean square, in double precision."""
    return norm(x).to(dt.float64) / x.numel() ** 0.5


def _estimate(gradient: Tensor, state: dict[str, Any], fresh: Tensor, eps: float) -> Tensor:
    """The running mean square of each element, of a matrix from those of its rows and columns."""
    squares = gradient * gradient
    if gradient.dim() <= 1:
        return state["variance"].lerp_(squares, fresh).clone()
    rows, columns = state["row_var"], state["col_var"]
    rows.lerp_(squares.mean(-1, keepdim=True), fresh)
    columns.lerp_(squares.mean(-2, keepdim=True), fresh)
    return (rows @ columns).div_(rows.mean(-2, keepdim=True).clamp_(min=eps))
