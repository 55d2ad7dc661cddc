"""Modules of pooling. (N, C, *S) -> (N, C, *S').

A family shares arguments, call and printing; a class of it adds its function.
"""

from __future__ import annotations

from typing import Any

from eager.core.tensor import Tensor
from eager.nn import functional as F
from eager.nn.functional.register import per_dim
from eager.nn.modules.module import Module


class _MaxPool(Module):
    _pool: Any  # its function
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )


class MaxPool1d(_MaxPool):
    """The largest value of each window."""

    _pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest value of each window."""

    _pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """The largest value of each window."""

    _pool = staticmethod(F.max_pool3d)


class _MaxUnpool(Module):
    _pool: Any  # its function
    _dims = 2
    _shown = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = per_dim(kernel_size, self._dims)
        self.stride = self.kernel_size if stride is None else per_dim(stride, self._dims)
        self.padding = per_dim(padding, self._dims)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return self._pool(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpool):
    """The values back at the places `MaxPool1d` took them from."""

    _pool = staticmethod(F.max_unpool1d)
    _dims = 1


class MaxUnpool2d(_MaxUnpool):
    """The values back at the places `MaxPool2d` took them from."""

    _pool = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """The values back at the places `MaxPool3d` took them from."""

    _pool = staticmethod(F.max_unpool3d)
    _dims = 3


class AvgPool1d(Module):
    """The mean of each window."""

    _shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = per_dim(kernel_size, 1)
        self.stride = self.kernel_size if stride is None else per_dim(stride, 1)
        self.padding = per_dim(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _AvgPool(Module):
    _pool: Any  # its function
    _shown = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPool):
    """The mean of each window."""

    _pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """The mean of each window."""

    _pool = staticmethod(F.avg_pool3d)


class _LPPool(Module):
    _pool: Any  # its function
    _shown = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPool):
    """The p-norm of each window."""

    _pool = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """The p-norm of each window."""

    _pool = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """The p-norm of each window."""

    _pool = staticmethod(F.lp_pool3d)


class _Adaptive(Module):
    _pool: Any  # its function
    _shown = ("output_size",)

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size


class _AdaptiveAvg(_Adaptive):
    def forward(self, input: Tensor) -> Tensor:
        return self._pool(input, self.output_size)


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return self._pool(input, self.output_size, self.return_indices)


class AdaptiveAvgPool1d(_AdaptiveAvg):
    """Means of windows spread over the input so that the result has `output_size`."""

    _pool = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Maxima of windows spread over the input so that the result has `output_size`."""

    _pool = staticmethod(F.adaptive_max_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvg):
    """Means of windows spread over the input so that the result has `output_size`."""

    _pool = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveMaxPool2d(_AdaptiveMax):
    """Maxima of windows spread over the input so that the result has `output_size`."""

    _pool = staticmethod(F.adaptive_max_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvg):
    """Means of windows spread over the input so that the result has `output_size`."""

    _pool = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool3d(_AdaptiveMax):
    """Maxima of windows spread over the input so that the result has `output_size`."""

    _pool = staticmethod(F.adaptive_max_pool3d)


class _FractionalMaxPool(Module):
    _pool: Any  # its function
    n = 0

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{type(self).__name__} requires specifying either an output size, or a pooling "
                "ratio, and only one of them"
            )
        self.kernel_size = per_dim(kernel_size, self.n)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else per_dim(output_size, self.n)
        self.output_ratio = None
        if output_ratio is not None:
            each = isinstance(output_ratio, tuple | list)
            self.output_ratio = tuple(output_ratio) if each else (output_ratio,) * self.n
            if not all(0 < r < 1 for r in self.output_ratio):
                raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return self._pool(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest values of windows at random places that shrink the input by any ratio."""

    _pool = staticmethod(F.fractional_max_pool2d)
    n = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest values of windows at random places that shrink the input by any ratio."""

    _pool = staticmethod(F.fractional_max_pool3d)
    n = 3
