"""Modules that normalise by channel. Statistics of the batch are kept in buffers.

(N, C, *S) -> normalised, scaled and shifted.
"""

from __future__ import annotations

from typing import Any

from eager.base import dtype as dt
from eager.base import lazy_imports
from eager.base.compat_warnings import warn
from eager.core.tensor import Tensor
from eager.nn import functional as F
from eager.nn import init
from eager.nn.modules.module import Module
from eager.nn.parameter import Parameter
from eager.ops.create import ones, zeros


class _Stats(Module):
    """Affine parameters and running statistics per channel: what batch and instance normalisation
    share."""

    dims: tuple[int, ...] = ()
    _version = 2  # 1 had no `num_batches_tracked`
    _counts = False  # whether an older state is completed

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: Any,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = Parameter(ones(num_features, device=device, dtype=dtype))
        else:
            self.register_parameter("weight", None)
        if affine and bias:
            self.bias = Parameter(zeros(num_features, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        if track_running_stats:
            self.register_buffer("running_mean", zeros(num_features, device=device, dtype=dtype))
            self.register_buffer("running_var", ones(num_features, device=device, dtype=dtype))
            self.register_buffer("num_batches_tracked", zeros((), device=device, dtype=dt.int64))
        else:
            self.register_buffer("running_mean", None)
            self.register_buffer("running_var", None)
            self.register_buffer("num_batches_tracked", None)

    def reset_running_stats(self) -> None:
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.dims:
            wanted = " or ".join(f"{d}D" for d in self.dims)
            raise ValueError(
                f"expected {wanted} input (got {input.ndim}D input) in {type(self).__name__}: the "
                f"input has shape {tuple(input.shape)}"
            )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        """Load a state; one that was saved before there was a count of batches keeps the present
        count."""
        key, count = f"{prefix}num_batches_tracked", self.num_batches_tracked
        version = local_metadata.get("version")
        if self._counts and (version is None or version < 2) and count is not None:
            state_dict.setdefault(key, count)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Stats):
    _counts = True

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum: Any = 0.0 if self.momentum is None else self.momentum
        updates = self.training and self.track_running_stats
        if updates and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the plain average over all batches
                momentum = 1.0 / self.num_batches_tracked.item()
        by_batch = self.training or self.running_mean is None
        keep = not self.training or self.track_running_stats
        mean, var = (self.running_mean, self.running_var) if keep else (None, None)
        return self._normalise(input, mean, var, by_batch, momentum)

    def _normalise(
        self, input: Tensor, mean: Any, var: Any, by_batch: bool, momentum: float
    ) -> Tensor:
        return F.batch_norm(input, mean, var, self.weight, self.bias, by_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    """(N, C) or (N, C, L), each channel over batch and length."""

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """(N, C, H, W), each channel over batch and image."""

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """(N, C, D, H, W), each channel over batch and volume."""

    dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """(N, C, ...), each channel over the batches of all ranks of `process_group` (default: all) and
    the other dimensions.

    In training alone, and where `eager.distributed` has a process group; else as `BatchNorm`. The
    ranks' batches may have any sizes, and one may be empty."""

    dims = tuple(range(2, 26))

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype)
        self.process_group = process_group

    def _normalise(
        self, input: Tensor, mean: Any, var: Any, by_batch: bool, momentum: float
    ) -> Tensor:
        if by_batch and self.training:
            distributed = lazy_imports.submodule("eager", "distributed")
            if distributed.is_initialized() and distributed.get_world_size(self.process_group) > 1:
                return distributed.sync_batch_norm(
                    input, mean, var, self.weight, self.bias, momentum, self.eps,
                    self.process_group,
                )  # fmt: skip
        return super()._normalise(input, mean, var, by_batch, momentum)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """`module`, in which layers of `BatchNorm` are replaced by this one, with their parameters
        and buffers. A layer alone: the one that replaces it."""
        made = module
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            made = cls(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group,
            )  # fmt: skip
            made._parameters.update(module._parameters)
            made._buffers.update(module._buffers)
            made.training = module.training
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


class _InstanceNorm(_Stats):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        single = input.ndim == self.dims[0]
        if not self.affine and input.shape[0 if single else 1] != self.num_features:
            warn(
                f"the input has {input.shape[0 if single else 1]} channels, and num_features is "
                f"{self.num_features}, which is not used as affine=False"
            )
        out = F.instance_norm(
            input.unsqueeze(0) if single else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out.squeeze(0) if single else out


class InstanceNorm1d(_InstanceNorm):
    """(N, C, L) or (C, L), each channel of each sample on its own."""

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """(N, C, H, W) or (C, H, W), each channel of each sample on its own."""

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """(N, C, D, H, W) or (C, D, H, W), each channel of each sample on its own."""

    dims = (4, 5)
