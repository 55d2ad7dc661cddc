"""Modules whose input sizes are those of their first input. sizes of outputs -> layers, once they
are called.

Until then their parameters have no shape: `initialize_parameters` gives them one, and the module
becomes an ordinary layer. Call it once before an optimizer is made and before it is compiled.
"""

from __future__ import annotations

from typing import Any

from eager.autograd import no_grad
from eager.base import dtype as dt
from eager.core.tensor import Tensor
from eager.nn.modules import batchnorm, conv
from eager.nn.modules.linear import Linear
from eager.nn.modules.module import Module
from eager.nn.parameter import UninitializedBuffer, UninitializedParameter
from eager.ops.create import zeros


def is_uninitialized(x: Any) -> bool:
    return isinstance(x, UninitializedParameter | UninitializedBuffer)


class LazyModuleMixin(Module):
    """Base of lazy modules: a subclass defines `initialize_parameters(*inputs)`, which gives its
    uninitialised parameters their shapes, and `cls_to_become`, what it is from then on."""

    cls_to_become: type[Module] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.has_uninitialized_params() or self.cls_to_become is not None:
            with no_grad():
                self.initialize_parameters(*args, **kwargs)
            if self.has_uninitialized_params():
                raise RuntimeError(f"module {self._get_name()} has not been fully initialized")
            if self.cls_to_become is not None:
                self.__class__ = self.cls_to_become  # type: ignore[assignment]
        return Module.__call__(self, *args, **kwargs)  # of a class that is another one by now

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """True if a parameter or buffer of its own has no shape yet."""
        own = [*self._parameters.values(), *self._buffers.values()]
        return any(map(is_uninitialized, own))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *notes: Any) -> None:
        for name, value in self._own_state().items():
            given = state_dict.get(prefix + name)
            if given is not None and is_uninitialized(value) and not is_uninitialized(given):
                value.materialize(tuple(given.shape))
        super()._load_from_state_dict(state_dict, prefix, *notes)


class LazyLinear(LazyModuleMixin, Linear):
    """`Linear` whose `in_features` is that of its first input."""

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        fresh = self.has_uninitialized_params()
        self.in_features = input.shape[-1]
        if fresh:
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()


class _LazyConv(LazyModuleMixin, conv._ConvNd):
    """The convolution `cls_to_become` without `in_channels`; parameters have its names."""

    def _postpone(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        if out_channels % self.groups:
            raise ValueError("out_channels must be divisible by groups")
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *_: Any, **__: Any) -> None:
        fresh = self.has_uninitialized_params()
        if input.ndim not in (self.n + 1, self.n + 2):
            raise RuntimeError(
                f"Expected {self.n + 1}D (unbatched) or {self.n + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {list(input.shape)}"
            )
        self.in_channels = input.shape[-self.n - 1]
        if self.in_channels % self.groups:
            raise ValueError("in_channels must be divisible by groups")
        if fresh:
            self.weight.materialize(self._weight_shape())
            if self.bias is not None:
                self.bias.materialize((self.out_channels,))
            self.reset_parameters()


class _LazyForward(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        rest: Any = (stride, padding, dilation, groups, False, padding_mode)
        super().__init__(0, 0, kernel_size, *rest)
        self._postpone(out_channels, bias, device, dtype)


class _LazyTranspose(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        rest: Any = (stride, padding, output_padding, groups, False, dilation, padding_mode)
        super().__init__(0, 0, kernel_size, *rest)
        self._postpone(out_channels, bias, device, dtype)


class LazyConv1d(_LazyForward, conv.Conv1d):
    """`Conv1d` whose `in_channels` is that of its first input."""

    cls_to_become = conv.Conv1d


class LazyConv2d(_LazyForward, conv.Conv2d):
    """`Conv2d` whose `in_channels` is that of its first input."""

    cls_to_become = conv.Conv2d


class LazyConv3d(_LazyForward, conv.Conv3d):
    """`Conv3d` whose `in_channels` is that of its first input."""

    cls_to_become = conv.Conv3d


class LazyConvTranspose1d(_LazyTranspose, conv.ConvTranspose1d):
    """`ConvTranspose1d` whose `in_channels` is that of its first input."""

    cls_to_become = conv.ConvTranspose1d


class LazyConvTranspose2d(_LazyTranspose, conv.ConvTranspose2d):
    """`ConvTranspose2d` whose `in_channels` is that of its first input."""

    cls_to_become = conv.ConvTranspose2d


class LazyConvTranspose3d(_LazyTranspose, conv.ConvTranspose3d):
    """`ConvTranspose3d` whose `in_channels` is that of its first input."""

    cls_to_become = conv.ConvTranspose3d


class _LazyNorm(LazyModuleMixin, batchnorm._Stats):
    """The normalisation `cls_to_become` without `num_features`."""

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, eps, momentum, False, False)  # type: ignore[call-arg]
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(device=device, dtype=dtype)
            self.bias = UninitializedParameter(device=device, dtype=dtype)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(device=device, dtype=dtype)
            self.running_var = UninitializedBuffer(device=device, dtype=dtype)
            self.num_batches_tracked = zeros((), dtype=dt.int64, device=device)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        fresh = self.has_uninitialized_params()
        self._check_input_dim(input)
        self.num_features = input.shape[self._channel_dim(input)]
        if fresh:
            for tensor in (self.weight, self.bias, self.running_mean, self.running_var):
                if is_uninitialized(tensor):
                    tensor.materialize((self.num_features,))
            self.reset_parameters()

    def _channel_dim(self, input: Tensor) -> int:
        return 1


class _LazyInstanceNorm(_LazyNorm):
    def _channel_dim(self, input: Tensor) -> int:
        return 1 if input.ndim == max(self.dims) else 0


class LazyBatchNorm1d(_LazyNorm, batchnorm.BatchNorm1d):
    """`BatchNorm1d` whose `num_features` is that of its first input."""

    cls_to_become = batchnorm.BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, batchnorm.BatchNorm2d):
    """`BatchNorm2d` whose `num_features` is that of its first input."""

    cls_to_become = batchnorm.BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, batchnorm.BatchNorm3d):
    """`BatchNorm3d` whose `num_features` is that of its first input."""

    cls_to_become = batchnorm.BatchNorm3d


class LazyInstanceNorm1d(_LazyInstanceNorm, batchnorm.InstanceNorm1d):
    """`InstanceNorm1d` whose `num_features` is that of its first input."""

    cls_to_become = batchnorm.InstanceNorm1d


class LazyInstanceNorm2d(_LazyInstanceNorm, batchnorm.InstanceNorm2d):
    """`InstanceNorm2d` whose `num_features` is that of its first input."""

    cls_to_become = batchnorm.InstanceNorm2d


class LazyInstanceNorm3d(_LazyInstanceNorm, batchnorm.InstanceNorm3d):
    """`InstanceNorm3d` whose `num_features` is that of its first input."""

    cls_to_become = batchnorm.InstanceNorm3d
