"""Limits on gradients. parameters -> their gradients scaled or cut in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from eager.autograd import no_grad
from eager.base.compat_warnings import warn
from eager.core import sharded
from eager.core.dispatch import must_hold
from eager.core.tensor import Tensor
from eager.ops.move import stack


def _with_gradients(parameters: Any) -> list[Tensor]:
    tensors = [parameters] if isinstance(parameters, Tensor) else parameters
    return [p for p in tensors if p.grad is not None]


def get_total_norm(
    tensors: Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The p-norm of all elements of all tensors together: a 0-d tensor. Of the gradients that
    backward left for sharded parameters, that of all ranks, which all call it (a copy of one is a
    tensor like any other). RuntimeError if it is not finite (when asked)."""
    given = list(tensors)
    return _total_norm(given, given, norm_type, error_if_nonfinite)


def _total_norm(
    gradients: list[Tensor], of: list[Tensor], norm_type: float, error_if_nonfinite: bool
) -> Tensor:
    """`of` says where the gradients lie: themselves, or their parameters."""
    if sharded.total_norm is None:
        total = norm_of(gradients, norm_type)
    else:
        total = sharded.total_norm(gradients, of, norm_type)
    if error_if_nonfinite:
        _require_finite(total, norm_type)
    return total


def norm_of(tensors: Sequence[Tensor], norm_type: float) -> Tensor:
    """The p-norm of all elements that are here: a 0-d tensor."""
    if not tensors:
        return Tensor([0.0]).squeeze(0)
    with no_grad():
        norms = [t.norm(float(norm_type)) for t in tensors]
        return stack(norms).norm(float(norm_type))


def _require_finite(total: Tensor, norm_type: float) -> None:
    what = (
        f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it "
        "cannot be clipped. To disable this error and scale the gradients by the non-finite norm "
        "anyway, set `error_if_nonfinite=False`"
    )
    finite = total.detach().isfinite()
    if total.device.type == "cpu":
        must_hold(finite, what)  # a compiled step checks it before it writes
    elif not finite.item():
        raise RuntimeError(what)


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients so that their norm (all of them as one vector, of sharded parameters
    that of all ranks) is at most `max_norm`. Returns the norm before."""
    learned = _with_gradients(parameters)
    gradients: list[Any] = [p.grad for p in learned]
    total = _total_norm(gradients, learned, norm_type, error_if_nonfinite)
    clip_grads_with_norm_(learned, max_norm, total)
    return total


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Multiply the gradients by min(1, max_norm / (total_norm + 1e-6)): no look at the values, so
    it stays in the graph."""
    with no_grad():
        factor = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
        for p in _with_gradients(parameters):
            gradient: Any = p.grad
            gradient.mul_(factor)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Limit each element of the gradients to [-clip_value, clip_value]."""
    with no_grad():
        for p in _with_gradients(parameters):
            gradient: Any = p.grad
            gradient.clamp_(min=-clip_value, max=clip_value)


def clip_grad_norm(parameters: Any, max_norm: float, norm_type: float = 2.0) -> Tensor:
    """`clip_grad_norm_` under its name of before."""
    warn("nn.utils.clip_grad_norm is now deprecated in favor of clip_grad_norm_.", FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type)
