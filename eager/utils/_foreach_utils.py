"""`eager.utils._foreach_utils`: how PyTorch's optimizers group their tensors. A private module of
PyTorch's, which optimizers that were written after them import."""

from __future__ import annotations

from eager.optim.private_names import (
    _device_has_foreach_support,
    _get_foreach_kernels_supported_devices,
    _get_fused_kernels_supported_devices,
    _group_tensors_by_device_and_dtype,
    _has_foreach_support,
)

__all__ = [
    "_device_has_foreach_support",
    "_get_foreach_kernels_supported_devices",
    "_get_fused_kernels_supported_devices",
    "_group_tensors_by_device_and_dtype",
    "_has_foreach_support",
]
