"""Modules that pad and resize. (N, C, *S) -> (N, C, *S')."""

from __future__ import annotations

from typing import Any, ClassVar

from eager.core.tensor import Tensor
from eager.nn import functional as F
from eager.nn.modules.module import Module
from eager.sizes.symint import is_int


class _Pad(Module):
    """One int for all sides, or (before, after) from the last dimension to the first."""

    n: ClassVar[int]
    mode: ClassVar[str]

    def __init_subclass__(cls, n: int = 0, mode: str = "constant") -> None:
        """The class for `n` dimensions."""
        cls.n, cls.mode = n, mode

    def __init__(self, padding: Any) -> None:
        super().__init__()
        whole = is_int(padding)
        self.padding = (padding,) * (2 * self.n) if whole else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ConstantPad1d(_ConstantPad, n=1):
    """Pads with `value`."""


class ConstantPad2d(_ConstantPad, n=2):
    """Pads with `value`."""


class ConstantPad3d(_ConstantPad, n=3):
    """Pads with `value`."""


class ZeroPad1d(_ZeroPad, n=1):
    """Pads with zeros."""


class ZeroPad2d(_ZeroPad, n=2):
    """Pads with zeros."""


class ZeroPad3d(_ZeroPad, n=3):
    """Pads with zeros."""


class ReflectionPad1d(_Pad, n=1, mode="reflect"):
    """Pads with the mirror image, without repeating the edge."""


class ReflectionPad2d(_Pad, n=2, mode="reflect"):
    """Pads with the mirror image, without repeating the edge."""


class ReflectionPad3d(_Pad, n=3, mode="reflect"):
    """Pads with the mirror image, without repeating the edge."""


class ReplicationPad1d(_Pad, n=1, mode="replicate"):
    """Pads with copies of the edge."""


class ReplicationPad2d(_Pad, n=2, mode="replicate"):
    """Pads with copies of the edge."""


class ReplicationPad3d(_Pad, n=3, mode="replicate"):
    """Pads with copies of the edge."""


class _Circular(_Pad):
    def forward(self, input: Tensor) -> Tensor:
        if input.ndim - self.n not in (1, 2):
            raise ValueError(
                f"expected {self.n + 1}D or {self.n + 2}D input (got {input.ndim}D input)"
            )
        return super().forward(input)


class CircularPad1d(_Circular, n=1, mode="circular"):
    """Pads with the opposite side."""


class CircularPad2d(_Circular, n=2, mode="circular"):
    """Pads with the opposite side."""


class CircularPad3d(_Circular, n=3, mode="circular"):
    """Pads with the opposite side."""


class Upsample(Module):
    """Resizes to `size` or by `scale_factor`."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        if self.scale_factor is not None:
            return f"scale_factor={float(self.scale_factor)}, mode={self.mode!r}"
        return f"size={self.size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample with mode "nearest"."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample with mode "bilinear" and aligned corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)


class PixelShuffle(Module):
    """(*, C r^2, H, W) -> (*, C, H r, W r)."""

    _shown = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Module):
    """(*, C, H r, W r) -> (*, C r^2, H, W)."""

    _shown = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Module):
    """Interleaves groups of channels."""

    _shown = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)


class Unfold(Module):
    """The windows of an image as columns."""

    _shown = ("kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(Module):
    """Columns back into an image, adding where windows overlap."""

    _shown = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self,
        output_size: Any,
        kernel_size: Any,
        dilation: Any = 1,
        padding: Any = 0,
        stride: Any = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(
            input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride
        )
