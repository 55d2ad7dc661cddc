"""At the edge: what PyTorch's own optimizers import from `optim.optimizer` and
`utils._foreach_utils`, under its private names. Optimizers that were written after them do, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from eager.autograd import set_grad_enabled
from eager.base.dtype import DType, float32, float64, get_default_dtype
from eager.core.tensor import Tensor
from eager.ops.complex import view_as_real

# Of several tensors at once, or of all in one kernel: where PyTorch does so unasked, or can.
_FOREACH: Final = ("cuda", "xpu", "mtia")
_FUSED: Final = ("mps", "cuda", "xpu", "hpu", "cpu", "mtia")
_params_doc = _foreach_doc = _fused_doc = _maximize_doc = ""
_capturable_doc = _differentiable_doc = ""


def _get_foreach_kernels_supported_devices() -> list[str]:
    return list(_FOREACH)


def _get_fused_kernels_supported_devices() -> list[str]:
    return list(_FUSED)


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    return ["cuda", "xpu", "hpu", *(["xla"] if supports_xla else [])]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: list[list[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Any, DType], tuple[list[list[Tensor | None]], list[int]]]:
    """(device, dtype) of the first list's tensors -> what of each list is there, and the numbers
    that they had. A list may be empty."""
    groups: dict[Any, Any] = {}
    for i, first in enumerate(tensorlistlist[0]):
        assert first is not None
        key = first.device, first.dtype
        if key not in groups:
            groups[key] = [[] for _ in tensorlistlist], []
        lists, indices = groups[key]
        for taken, given in zip(lists, tensorlistlist, strict=True):
            if given:
                taken.append(given[i])
        if with_indices:
            indices.append(i)
    return groups


def _device_has_foreach_support(device: Any) -> bool:
    return device.type in (*_FOREACH, "cpu")


def _has_foreach_support(tensors: list[Any], device: Any) -> bool:
    return _device_has_foreach_support(device) and all(
        t is None or isinstance(t, Tensor) for t in tensors
    )


def _default_to_fused_or_foreach(
    params: list[Any], differentiable: bool, use_fused: bool = False
) -> tuple[bool, bool]:
    """Flags: whether to update all in one kernel, or several at once, if nobody said."""
    if differentiable:
        return False, False
    kinds = [(p.device.type, p.is_floating_point()) for p in params if p is not None]
    fused = use_fused and all(kind in _FUSED and floating for kind, floating in kinds)
    return fused, not fused and all(kind in _FOREACH for kind, _ in kinds)


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A `step` that records its operations if its optimizer is differentiable."""

    @functools.wraps(func)
    def use_grad(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)

    return use_grad


def _disable_dynamo_if_unsupported(
    single_tensor_fn: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return lambda func: func  # all is compiled


def _get_value(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _to_scalar(x: Any) -> Any:
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _stack_if_compiling(x: Any) -> Any:
    return x


def _dispatch_sqrt(x: Any) -> Any:
    return x.sqrt() if isinstance(x, Tensor) else x**0.5


def _view_as_real(params: list[Any], *state_and_grads: list[Any]) -> None:
    """Replace complex parameters, and what belongs to each, by views of real numbers."""
    for i, parameter in enumerate(params):
        if parameter.is_complex():
            for each in (params, *state_and_grads):
                each[i] = view_as_real(each[i])


def _get_scalar_dtype(is_fused: bool | None = None) -> DType:
    """The dtype of the count of steps."""
    return float64 if not is_fused and get_default_dtype() == float64 else float32
