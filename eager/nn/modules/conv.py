"""Modules that convolve with learned filters. (N, C, *S) -> (N, O, *S')."""

from __future__ import annotations

import math
from typing import Any

from eager.core.tensor import Tensor
from eager.nn import functional as F
from eager.nn import init
from eager.nn.functional.register import per_dim
from eager.nn.modules.module import Module
from eager.nn.parameter import Parameter
from eager.ops.create import empty

_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """Base class of all convolutions: geometry, parameters, their initialisation, printing."""

    n = 0
    transposed = False
    _convolve: Any  # its function

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        _check(in_channels, out_channels, groups, padding_mode, padding)
        n = self.n
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = per_dim(kernel_size, n)
        self.stride = per_dim(stride, n)
        self.padding = padding if isinstance(padding, str) else per_dim(padding, n)
        self.dilation = per_dim(dilation, n)
        self.output_padding = per_dim(output_padding, n)
        self.groups = groups
        self.padding_mode = padding_mode
        if padding == "same" and any(step != 1 for step in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        self._reversed_padding = self._sides()
        self.weight = Parameter(empty(self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        pair = (self.in_channels, self.out_channels)
        first, second = pair if self.transposed else reversed(pair)
        return (first, second // self.groups, *self.kernel_size)

    def _sides(self) -> tuple[int, ...]:
        """The padding as `F.pad` wants it: (before, after) from the last dimension to the first."""
        if isinstance(self.padding, str):
            if self.padding == "valid":
                return (0, 0) * self.n
            total = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size, strict=True)]
            return tuple(side for t in reversed(total) for side in (t // 2, t - t // 2))
        return tuple(side for p in reversed(self.padding) for side in (p, p))

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.shape[1] * math.prod(self.kernel_size)
            if fan_in:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        if isinstance(self.padding, str) or any(self.padding):
            text += f", padding={self.padding}"
        if any(d != 1 for d in self.dilation):
            text += f", dilation={self.dilation}"
        if any(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return (
            text if self.padding_mode == "zeros" else text + f", padding_mode={self.padding_mode}"
        )


def _check(
    in_channels: int, out_channels: int, groups: int, padding_mode: str, padding: Any
) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups:
        raise ValueError("out_channels must be divisible by groups")
    if padding_mode not in _MODES:
        raise ValueError(f"padding_mode must be one of {set(_MODES)}, but got {padding_mode!r}")
    if isinstance(padding, str) and padding not in ("same", "valid"):
        raise ValueError(f"Invalid padding string {padding!r}, should be one of 'same', 'valid'")


class _Conv(_ConvNd):
    def __init__(
        self,
        in_channels: int,
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
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            0,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._reversed_padding, self.padding_mode), 0
        return self._convolve(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


class Conv1d(_Conv):
    """(N, C, L) or (C, L) -> (N, O, L')."""

    n = 1
    _convolve = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """(N, C, H, W) or (C, H, W) -> (N, O, H', W')."""

    n = 2
    _convolve = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """(N, C, D, H, W) or (C, D, H, W) -> (N, O, D', H', W')."""

    n = 3
    _convolve = staticmethod(F.conv3d)


class _ConvTranspose(_ConvNd):
    transposed = True

    def __init__(
        self,
        in_channels: int,
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
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        return self._convolve(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._extra(input, output_size),
            self.groups,
            self.dilation,
        )

    def _extra(self, input: Tensor, output_size: Any) -> Any:
        """The output padding that gives `output_size`. ValueError when none does."""
        if output_size is None:
            return self.output_padding
        sizes = list(output_size)[-self.n :]
        extra = []
        for i, wanted in enumerate(sizes):
            span = self.dilation[i] * (self.kernel_size[i] - 1)
            place = input.shape[i - self.n]
            least = (place - 1) * self.stride[i] - 2 * self.padding[i] + span + 1
            if not least <= wanted < least + self.stride[i]:
                raise ValueError(
                    f"requested an output size of {sizes}, but dimension {i} allows sizes from "
                    f"{least} to "
                    f"{least + self.stride[i] - 1} (for an input of {list(input.shape)})"
                )
            extra.append(wanted - least)
        return tuple(extra)


class ConvTranspose1d(_ConvTranspose):
    """(N, C, L) or (C, L) -> (N, O, L')."""

    n = 1
    _convolve = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """(N, C, H, W) or (C, H, W) -> (N, O, H', W')."""

    n = 2
    _convolve = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """(N, C, D, H, W) or (C, D, H, W) -> (N, O, D', H', W')."""

    n = 3
    _convolve = staticmethod(F.conv_transpose3d)
