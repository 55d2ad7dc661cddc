"""nn.functional: convolutions. tensors -> the ops conv and conv_input_grad, with PyTorch's ways to
say the geometry."""

from __future__ import annotations

from typing import Any

from eager.core.casts import lower_precision, product_rounded_once
from eager.core.dispatch import apply
from eager.core.op import Sample
from eager.core.tensor import Tensor
from eager.nn.functional.register import functional, per_dim
from eager.ops import samples as s
from eager.ops.contract import CONV, CONV_INPUT_GRAD, require_steps
from eager.ops.move import PAD
from eager.sizes.symint import Ints


def _batched(name: str, input: Tensor, n: int) -> tuple[Tensor, bool]:
    """(N, C, *S), and whether the batch dimension had to be added."""
    if input.ndim == n + 1:
        return input.unsqueeze(0), True
    if input.ndim != n + 2:
        short = "input.unsqueeze(0) adds the channels, once more the batch"
        hint = f": {tuple(input.shape)} has no channels, {short}" if input.ndim == n else ""
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input "
            f"of size: {list(input.shape)}{hint}"
        )
    return input, False


def _with_bias(out: Tensor, bias: Tensor | None, single: bool) -> Tensor:
    if bias is not None:
        out = out + bias.reshape((1, -1, *(1,) * (out.ndim - 2)))
    return out.squeeze(0) if single else out


def _padding(
    padding: Ints | str,
    input: Tensor,
    weight: Tensor,
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[Tensor, tuple[int, ...]]:
    """Numbers for "same" and "valid"; what "same" puts on one side only is padded here."""
    n = weight.ndim - 2
    if not isinstance(padding, str):
        sizes = per_dim(padding, n)
        if min(sizes) < 0:
            raise RuntimeError("negative padding is not supported")
        return input, sizes
    if padding == "valid":
        return input, (0,) * n
    if padding != "same":
        raise RuntimeError(f"Invalid padding string {padding!r}, should be one of 'valid', 'same'")
    if any(t != 1 for t in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    if any(t % 2 for t in total):
        extra = ((0, 0), (0, 0), *((0, t % 2) for t in total))
        input = apply(PAD, input, 0.0, pads=extra)
    return input, tuple(t // 2 for t in total)


def _same_kind(n: int, input: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    if weight.ndim != n + 2:
        raise RuntimeError(
            f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight"
            f"{list(weight.shape)}, but got {input.ndim}-dimensional input of size "
            f"{list(input.shape)} instead"
        )
    if bias is not None and bias.dtype is not input.dtype:
        raise RuntimeError(
            f"Input type ({input.dtype}) and bias type ({bias.dtype}) should be the same"
        )


def _conv(
    name: str,
    n: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints | str,
    dilation: Ints,
    groups: int,
) -> Tensor:
    _same_kind(n, input, weight, bias)
    x, single = _batched(name, input, n)
    stride, dilation = per_dim(stride, n), per_dim(dilation, n)
    if min(dilation) < 1:
        raise RuntimeError("dilation should be greater than zero")
    if min(weight.shape[2:]) < 1:
        size = list(weight.shape[2:])
        raise RuntimeError(f"kernel size should be greater than zero, but got {size}")
    x, padding = _padding(padding, x, weight, stride, dilation)
    out = apply(CONV, x, weight, stride=stride, padding=padding, dilation=dilation, groups=groups)
    return _with_bias(out, bias, single)


def _images(n: int, channels: int, *more: Any, size: int = 5) -> tuple[Any, ...]:
    return (s.values((2, channels, *(size,) * n)), *more)


@functional(
    lambda: [
        Sample((*_images(1, 3), s.values((4, 3, 2)), s.values((4,)))),
        Sample((*_images(1, 4), s.values((4, 2, 3))), {"padding": 1, "stride": 2, "groups": 2}),
    ]
)
@lower_precision
@product_rounded_once
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """input (N, C, L) or (C, L), weight (O, C / groups, K) -> (N, O, L')."""
    return _conv("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@functional(
    lambda: [
        Sample((*_images(2, 3), s.values((4, 3, 3, 2)), s.values((4,)))),
        Sample((*_images(2, 3), s.values((4, 3, 3, 3))), {"padding": 1, "stride": (2, 1)}),
        Sample((*_images(2, 2), s.values((4, 1, 2, 2))), {"padding": "same", "groups": 2}),
        Sample((*_images(2, 2), s.values((3, 2, 2, 2))), {"dilation": 2}),
    ]
)
@lower_precision
@product_rounded_once
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """input (N, C, H, W) or (C, H, W), weight (O, C / groups, KH, KW) -> (N, O, H', W')."""
    return _conv("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@functional(lambda: [Sample((*_images(3, 2, size=3), s.values((3, 2, 2, 2, 2)), s.values((3,))))])
@lower_precision
@product_rounded_once
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """input (N, C, D, H, W) or (C, D, H, W), weight (O, C / groups, KD, KH, KW) -> (N, O, D', H',
    W')."""
    return _conv("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(
    name: str,
    n: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Ints,
    padding: Ints | str,
    output_padding: Ints,
    groups: int,
    dilation: Ints,
) -> Tensor:
    """The gradient of a convolution with respect to its input, read forwards (Zeiler et al.
    2010)."""
    x, single = _batched(name, input, n)
    if x.shape[1] != weight.shape[0]:
        raise RuntimeError(
            f"Given transposed=1, weight of size {list(weight.shape)}, expected "
            f"input{list(x.shape)} to "
            f"have {weight.shape[0]} channels, but got {x.shape[1]} channels instead"
        )
    stride, dilation = per_dim(stride, n), per_dim(dilation, n)
    padding, extra = per_dim(padding, n), per_dim(output_padding, n)
    require_steps(stride, padding, dilation)
    for e, t, d in zip(extra, stride, dilation, strict=True):
        if e >= max(t, d):
            raise RuntimeError(
                "output padding must be smaller than either stride or dilation, but got "
                f"output_padding: {e}"
            )
    size = tuple(
        (i - 1) * t - 2 * p + d * (k - 1) + e + 1
        for i, t, p, d, k, e in zip(
            x.shape[2:], stride, padding, dilation, weight.shape[2:], extra, strict=True
        )
    )
    more = tuple(e // t for e, t in zip(extra, stride, strict=True))
    if any(more):  # a result this long has further windows: they carry zeros
        x = apply(PAD, x, 0.0, pads=((0, 0), (0, 0), *((0, m) for m in more)))
    shape = (x.shape[0], weight.shape[1] * groups, *size)
    geometry = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return _with_bias(
        apply(CONV_INPUT_GRAD, x, weight, input_shape=shape, **geometry), bias, single
    )


@functional(
    lambda: [
        Sample((*_images(1, 3), s.values((3, 4, 2)), s.values((4,)))),
        Sample((*_images(1, 4), s.values((4, 2, 3)), None, 2, 1, 1, 2)),
    ]
)
@lower_precision
@product_rounded_once
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    """input (N, C, L), weight (C, O / groups, K) -> (N, O, L')."""
    return _conv_transpose(
        "conv_transpose1d",
        1,
        input,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
    )


@functional(
    lambda: [
        Sample((*_images(2, 3), s.values((3, 4, 3, 2)), s.values((4,)))),
        Sample((*_images(2, 2, size=3), s.values((2, 3, 3, 3)), None, 2, 1, 1)),
    ]
)
@lower_precision
@product_rounded_once
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    """input (N, C, H, W), weight (C, O / groups, KH, KW) -> (N, O, H', W')."""
    return _conv_transpose(
        "conv_transpose2d",
        2,
        input,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
    )


@functional(lambda: [Sample((*_images(3, 2, size=2), s.values((2, 3, 2, 2, 2)), s.values((3,))))])
@lower_precision
@product_rounded_once
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Ints = 1,
    padding: Ints | str = 0,
    output_padding: Ints = 0,
    groups: int = 1,
    dilation: Ints = 1,
) -> Tensor:
    """input (N, C, D, H, W), weight (C, O / groups, KD, KH, KW) -> (N, O, D', H', W')."""
    return _conv_transpose(
        "conv_transpose3d",
        3,
        input,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
    )
