"""nn.functional: padding, resizing and regrouping of images. tensor -> the same values in other
places."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from eager.base import dtype as dt
from eager.base.compat_warnings import warn
from eager.core.casts import on_gpus, rounded_once
from eager.core.dispatch import apply
from eager.core.op import Sample
from eager.core.sym import holds
from eager.core.tensor import Tensor
from eager.nn.functional.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from eager.nn.functional.register import functional, per_dim
from eager.ops import samples as s
from eager.ops.contract import CONV_INPUT_GRAD
from eager.ops.index import TAKE
from eager.ops.index_and_sort import iota
from eager.ops.move import CAT, apart, constant_pad
from eager.ops.pointwise import where
from eager.sizes.symint import Ints, SymInt, index, integer, known_eq


# --------------------------------------------------------------------------------- padding
def _reflected(x: Tensor, dim: int, before: int, after: int) -> tuple[Tensor, Tensor]:
    n = x.shape[dim]
    head, tail = x.narrow(dim, 1, before), x.narrow(dim, n - 1 - after, after)
    return head.flip(dim), tail.flip(dim)


def _replicated(x: Tensor, dim: int, before: int, after: int) -> tuple[Tensor, Tensor]:
    head, tail = x.narrow(dim, 0, 1), x.narrow(dim, x.shape[dim] - 1, 1)
    return tuple(
        edge.expand([count if d == dim else -1 for d in range(x.ndim)])
        for edge, count in ((head, before), (tail, after))
    )


def _wrapped(x: Tensor, dim: int, before: int, after: int) -> tuple[Tensor, Tensor]:
    return x.narrow(dim, x.shape[dim] - before, before), x.narrow(dim, 0, after)


# What stands before and after a tensor: views of it, so that nothing is gathered or scattered.
_AROUND: dict[str, Callable[[Tensor, int, int, int], tuple[Tensor, Tensor]]] = {
    "reflect": _reflected,
    "replicate": _replicated,
    "circular": _wrapped,
}


@functional(
    lambda: [
        Sample((s.values((2, 3, 4)), (1, 2)), {"value": 0.5}),
        Sample((s.values((2, 3, 4)), (1, -1, 0, 2))),
        Sample((s.values((2, 3, 4)), (2, 1)), {"mode": "reflect"}),
        Sample((s.values((2, 3, 4, 4)), (2, 1, 0, 1)), {"mode": "replicate"}),
        Sample((s.values((2, 3, 4)), (1, 2)), {"mode": "circular"}),
        Sample((s.values((2, 3, 4)), (-1, 2)), {"mode": "circular"}),
        Sample((s.values((2, 3, 4)), (2, -1)), {"mode": "reflect"}),
    ]
)
def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Pad the last dimensions: `pad` is (before, after) of the last one, then of the one before it,
    ...

    mode: "constant" (negative sizes cut), "reflect", "replicate", "circular". Raises for an odd
    count or sizes too large to reflect."""
    if len(pad) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    pairs = [(integer(pad[i]), integer(pad[i + 1])) for i in range(0, len(pad), 2)]
    if len(pairs) > input.ndim:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but "
            "got padding "
            f"length {len(pad)} and input of dimension {input.ndim}"
        )
    if mode == "constant":
        pads = ((0, 0),) * (input.ndim - len(pairs)) + tuple(reversed(pairs))
        return constant_pad(input, pads, 0.0 if value is None else value)
    if mode not in _AROUND:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(pairs) not in (1, 2, 3) or input.ndim - len(pairs) not in (1, 2):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {input.ndim}D input tensor: all but a "
            "constant one is of the last one to three of (N, C, *) or (C, *)"
        )
    for i, (before, after) in enumerate(pairs):
        input = _pad_from_inside(input, input.ndim - 1 - i, before, after, mode)
    return input


def _pad_from_inside(input: Tensor, dim: int, before: int, after: int, mode: str) -> Tensor:
    n = input.shape[dim]
    limit = n - 1 if mode == "reflect" else n
    if mode != "replicate" and max(before, after) > limit:
        raise RuntimeError(
            f"pad: sizes ({before}, {after}) at dimension {dim} are too large to {mode} an input "
            "of shape "
            f"{list(input.shape)}: at most {limit}"
        )
    cut = (max(-before, 0), max(-after, 0))
    if sum(cut) >= n and mode == "replicate":  # nothing of the middle is left: its nearest element
        places = (iota(n + before + after, like=input) - before).clamp(0, n - 1)
        return apply(TAKE, input, places, dim=dim)
    middle = input.narrow(dim, cut[0], n - sum(cut)) if any(cut) else input
    around = input if mode == "reflect" else middle  # what is cut still shows in the mirror
    head, tail = _AROUND[mode](around, dim, max(before, 0), max(after, 0))
    parts = [part for part in (head, middle, tail) if part.shape[dim]]
    return apply(CAT, *parts, dim=dim) if len(parts) > 1 else (*parts, middle)[0].clone()


# -------------------------------------------------------------------------------- resizing
def _scaled(size: int, factor: Any) -> int:
    """`size * factor`, cut to an int."""
    whole = isinstance(factor, float) and factor.is_integer()
    return index(math.floor(size * (int(factor) if whole and isinstance(size, SymInt) else factor)))


def _is_positive(size: Any) -> bool:
    number = size.number() if isinstance(size, SymInt) else size
    return holds("sizes greater than 0", operator.gt, number, 0)


def _out_size(input: Tensor, size: Any, scale: Any) -> tuple[int, ...]:
    n = input.ndim - 2
    if (size is None) == (scale is None):
        raise ValueError("exactly one of size and scale_factor should be defined")
    for what, values in (("output size", size), ("scale_factor", scale)):
        if isinstance(values, tuple | list) and len(values) != n:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got input "
                f"with spatial dimensions of {list(input.shape[2:])} and {what} of {values}"
            )
    factors = scale if isinstance(scale, tuple | list) else (scale,) * n
    sizes = tuple(map(_scaled, input.shape[2:], factors)) if size is None else per_dim(size, n)
    for given in (input.shape[2:], sizes):
        if not all(map(_is_positive, given)):
            raise RuntimeError(
                "Input and output sizes should be greater than 0, but got input "
                f"{list(input.shape[2:])} output {list(sizes)}"
            )
    return sizes


def _ratios(
    input: Tensor, out: tuple[int, ...], scale: Any, recompute: bool | None, align: bool
) -> list[float]:
    """Input places per output place, per dimension."""
    n = len(out)
    sizes = tuple(input.shape[2:])
    if align:
        return [(i - 1) / (o - 1) if o > 1 else 0.0 for i, o in zip(sizes, out, strict=True)]
    if scale is not None and not recompute:
        factors = scale if isinstance(scale, tuple | list) else (scale,) * n
        return [1.0 / f for f in factors]
    return [i / o for i, o in zip(sizes, out, strict=True)]


def _nearest(x: Tensor, dim: int, out: int, ratio: float, half: float) -> Tensor:
    n = x.shape[dim]
    if _repeats(n, out, ratio):  # a view and no indices
        shape = list(x.shape)
        wide = [*shape[: dim + 1], out // n, *shape[dim + 1 :]]
        shape[dim] = out
        return x.unsqueeze(dim + 1).expand(wide).reshape(shape)
    places = ((iota(out, dt.float32, like=x) + half) * ratio).floor().to(dt.int64).clamp(max=n - 1)
    return apply(TAKE, x, places, dim=dim)


def _repeats(n: int, out: int, ratio: float) -> bool:
    """True if each element is repeated equally often (is sure to be, where sizes are symbols)."""
    if not isinstance(ratio, float) or known_eq(out % n, 0) is not True:
        return False
    times = out // n
    return isinstance(times, int) and times * ratio == 1


def _positions(out: int, ratio: float, align: bool, x: Tensor) -> Tensor:
    """Position in the input of each output element."""
    whole = iota(out, x.dtype.compute, like=x)
    return whole * ratio if align else (whole + 0.5) * ratio - 0.5


def _linear(x: Tensor, dim: int, out: int, ratio: float, align: bool) -> Tensor:
    n = x.shape[dim]
    places = _positions(out, ratio, align, x).clamp(min=0)
    low = places.floor().clamp(max=n - 1)
    share = _along(places - low, dim, x)
    below = low.to(dt.int64)
    above = (below + 1).clamp(max=n - 1)
    left, right = apply(TAKE, x, below, dim=dim), apply(TAKE, x, above, dim=dim)
    return left * (1 - share) + right * share


def _cubic(x: Tensor, dim: int, out: int, ratio: float, align: bool) -> Tensor:
    """Cubic convolution with a = -0.75 (Keys 1981)."""
    n = x.shape[dim]
    places = _positions(out, ratio, align, x)
    low = places.floor()
    t, first = places - low, low.to(dt.int64) - 1
    total: Any = 0
    for tap, weight in enumerate(cubic_weights(t)):
        value = apply(TAKE, x, (first + tap).clamp(0, n - 1), dim=dim)
        total = value * _along(weight, dim, x) + total
    return total


def _smoothed(x: Tensor, dim: int, out: int, ratio: float, align: bool, *, cubic: bool) -> Tensor:
    """Each output place a mean of all places under a filter as wide as it stands for: a product
    with the weights (out, n) along `dim`. The filters are Pillow's (cubic: a = -0.5)."""
    n = x.shape[dim]
    wide = max(ratio, 1.0)
    centre = (iota(out, x.dtype.compute, like=x) + 0.5) * ratio
    places = iota(n, x.dtype.compute, like=x)
    apart = (places + 0.5 - centre.unsqueeze(1)).abs() / wide  # (out, n)
    reach = wide * (2.0 if cubic else 1.0)
    first = (centre - reach + 0.5).trunc().clamp(min=0).unsqueeze(1)
    past = (centre + reach + 0.5).trunc().clamp(max=n).unsqueeze(1)
    weights = _cubic_filter(apart) if cubic else (1 - apart).clamp(min=0)
    weights = where((places >= first) & (places < past), weights, 0.0)
    weights = (weights / weights.sum(1, keepdim=True)).to(x.dtype)
    return (x.movedim(dim, -1) @ weights.T).movedim(-1, dim)


def _of_bytes(x: Tensor, dim: int, out: int, weigh: Callable[..., Tensor]) -> Tensor:
    """Bytes (as float64) weighted along `dim` in fixed point: by weights of as many binary places,
    22 at most, as let the largest fit 16 bits."""
    n = x.shape[dim]
    if out == n:
        return x
    row = iota(n, x.dtype, like=x)
    weights = weigh((row == row.unsqueeze(1)).to(x.dtype))  # (out, n)
    bits = iota(22, x.dtype, like=x) + 1
    fits = (weights.max() * 2**bits + 0.5).trunc() < 2**15
    unit = 2 ** fits.to(x.dtype).sum()
    whole = (weights * unit + where(weights < 0, -0.5, 0.5)).trunc()
    total = (x.movedim(dim, -1) @ whole.T).movedim(-1, dim)
    return ((total + unit / 2) / unit).floor().clamp(0, 255)


def _cubic_filter(d: Tensor) -> Tensor:
    return where(d < 1, _near(d, -0.5), where(d < 2, _far(d, -0.5), 0.0))


def cubic_weights(t: Tensor) -> list[Tensor]:
    """Weights of the four samples around a position that lies `t` behind the second of them."""
    a = -0.75
    return [_far(t + 1, a), _near(t, a), _near(1 - t, a), _far(2 - t, a)]


def _near(d: Tensor, a: float) -> Tensor:
    """The kernel of cubic convolution (Keys 1981) at distances up to 1; `_far`: from 1 to 2."""
    return ((a + 2) * d - (a + 3)) * d * d + 1


def _far(d: Tensor, a: float) -> Tensor:
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def _along(values: Tensor, dim: int, x: Tensor) -> Tensor:
    return values.reshape([-1 if d == dim else 1 for d in range(x.ndim)]).to(x.dtype)


_SPATIAL = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}


@functional(
    lambda: [
        Sample((s.values((2, 3, 4)),), {"scale_factor": 2}),
        Sample((s.values((2, 3, 4, 5)),), {"size": (3, 7)}),
        Sample((s.values((2, 3, 4, 5)),), {"scale_factor": 2, "mode": "bilinear"}),
        Sample((s.values((2, 3, 4, 5)),), {"size": 7, "mode": "bilinear", "align_corners": True}),
        Sample((s.values((2, 3, 4, 5)),), {"size": (7, 6), "mode": "bicubic"}),
        Sample((s.values((2, 3, 4, 4)),), {"size": (3, 2), "mode": "area"}),
    ]
)
@on_gpus("full")
@rounded_once
def interpolate(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize the spatial dimensions of (N, C, *S) to `size` or by `scale_factor`.

    mode: nearest, nearest-exact, linear (3-D), bilinear and bicubic (4-D), trilinear (5-D),
    area. With `antialias` (bilinear, bicubic) what is made smaller is smoothed over all that a
    place stands for, as Pillow does. uint8 is rounded after each dimension, the last one first;
    of images it is weighted in fixed point."""
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError("Anti-alias option is restricted to bilinear and bicubic modes")
    out = _out_size(input, size, scale_factor)
    if not out:
        raise NotImplementedError(
            f"Only 3D, 4D and 5D tensors (N, C, *S) can be interpolated, got {input.ndim}D"
        )
    if mode == "area":
        pools = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
        return pools[input.ndim - 3](input, out)
    if mode in ("nearest", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            "| bicubic | trilinear"
        )
    align = bool(align_corners)
    ratios = _ratios(input, out, scale_factor, recompute_scale_factor, align)
    if mode in ("nearest", "nearest-exact"):
        half = 0.5 if mode == "nearest-exact" else 0.0
        found = input
        for d, (o, r) in enumerate(zip(out, ratios, strict=True), 2):
            found = _nearest(found, d, o, r, half)
        return apart(found, input)
    if _SPATIAL.get(mode) != input.ndim - 2:
        raise NotImplementedError(
            f"Got {input.ndim}D input, but {mode} mode needs {_SPATIAL.get(mode, 0) + 2}D input"
        )
    step = _cubic if mode == "bicubic" else _linear
    if antialias:
        step = partial(_smoothed, cubic=mode == "bicubic")
    if input.dtype is dt.uint8 and input.ndim == 4:
        found = input.double()
        for d, (o, r) in reversed([*enumerate(zip(out, ratios, strict=True), 2)]):
            found = _of_bytes(found, d, o, partial(step, dim=0, out=o, ratio=r, align=align))
        return found.to(dt.uint8)
    if input.dtype is dt.uint8:
        for d, (o, r) in reversed([*enumerate(zip(out, ratios, strict=True), 2)]):
            input = step(input.float(), d, o, r, align).round().clamp(0, 255)
        return input.to(dt.uint8)
    for d, (o, r) in enumerate(zip(out, ratios, strict=True), 2):
        input = step(input, d, o, r, align)
    return input


@functional()
def upsample(
    input: Tensor,
    size: Ints | None = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The old name of `interpolate`."""
    warn("nn.functional.upsample is deprecated: use nn.functional.interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


@functional()
def upsample_nearest(input: Tensor, size: Ints | None = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "nearest"."""
    warn("nn.functional.upsample_nearest is deprecated: use nn.functional.interpolate")
    return interpolate(input, size, scale_factor, "nearest")


@functional()
def upsample_bilinear(input: Tensor, size: Ints | None = None, scale_factor: Any = None) -> Tensor:
    """`interpolate` with mode "bilinear" and aligned corners."""
    warn("nn.functional.upsample_bilinear is deprecated: use nn.functional.interpolate")
    return interpolate(input, size, scale_factor, "bilinear", True)


# ------------------------------------------------------------------------------ regrouping
def _at_least(name: str, x: Tensor, ndim: int) -> None:
    if x.ndim < ndim:
        raise RuntimeError(f"{name} expects at least {ndim} dimensions, got shape {[*x.shape]}")


@functional(lambda: [Sample((s.values((2, 8, 2, 3)), 2))])
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """(*, C r^2, H, W) -> (*, C, H r, W r) (Shi et al. 2016)."""
    r = upscale_factor
    _at_least("pixel_shuffle", input, 3)
    *lead, c, h, w = input.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            "of "
            f"upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    n = len(lead)
    split = input.reshape((*lead, c // (r * r), r, r, h, w))
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return apart(split.permute(order).reshape((*lead, c // (r * r), h * r, w * r)), input)


@functional(lambda: [Sample((s.values((2, 2, 4, 6)), 2))])
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """(*, C, H r, W r) -> (*, C r^2, H, W): undoes `pixel_shuffle`."""
    r = downscale_factor
    _at_least("pixel_unshuffle", input, 3)
    *lead, c, h, w = input.shape
    n = len(lead)
    split = input.reshape((*lead, c, h // r, r, w // r, r))
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return apart(split.permute(order).reshape((*lead, c * r * r, h // r, w // r)), input)


@functional(lambda: [Sample((s.values((2, 6, 2, 2)), 3))])
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """(N, g c, *) -> (N, c g, *): interleave the groups of channels."""
    _at_least("channel_shuffle", input, 3)
    n, c, *rest = input.shape
    split = input.reshape((n, groups, c // groups, *rest))
    return apart(split.transpose(1, 2).reshape(input.shape), input)


def _windows(*given: Any) -> list[tuple[int, ...]]:
    """Kernel size, dilation, padding and stride of windows in an image."""
    pairs = [per_dim(value, 2) for value in given]
    names = ("kernel size", "dilation", "padding", "stride")
    for name, pair in zip(names, pairs, strict=True):
        if min(pair) < (name != "padding"):
            least = "non-negative" if name == "padding" else "greater than zero"
            raise RuntimeError(f"{name} should be {least}, but got {pair}")
    return pairs


@functional(
    lambda: [
        Sample((s.values((2, 3, 4, 5)), 2)),
        Sample((s.values((2, 3, 4, 5)), (2, 3)), {"padding": 1, "stride": 2, "dilation": (2, 1)}),
    ]
)
def unfold(
    input: Tensor, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """The windows of (N, C, H, W) as columns: (N, C KH KW, number of windows)."""
    if input.ndim == 3:
        return unfold(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    kernel, spread, edge, step = _windows(kernel_size, dilation, padding, stride)
    x = pad(input, (edge[1], edge[1], edge[0], edge[0])) if any(edge) else input
    for d in (0, 1):  # (N, C, H', W', KH, KW)
        x = x.unfold(2 + d, spread[d] * (kernel[d] - 1) + 1, step[d])
        x = x[..., :: spread[d]]
    n, c, h, w = x.shape[:4]
    columns = x.permute(0, 1, 4, 5, 2, 3).reshape((n, c * kernel[0] * kernel[1], h * w))
    return apart(columns, input)


@functional(
    lambda: [
        Sample((s.values((2, 12, 12)), (4, 5), 2)),
        Sample((s.values((2, 12, 6)), (4, 5), (2, 2)), {"padding": 1, "stride": (3, 2)}),
    ]
)
def fold(
    input: Tensor,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints = 1,
    padding: Ints = 0,
    stride: Ints = 1,
) -> Tensor:
    """Columns (N, C KH KW, L) back into an image (N, C, H, W), adding where windows overlap: the
    adjoint of `unfold`."""
    if input.ndim == 2:
        one = input.unsqueeze(0)
        return fold(one, output_size, kernel_size, dilation, padding, stride).squeeze(0)
    size = per_dim(output_size, 2)
    kernel, spread, edge, step = _windows(kernel_size, dilation, padding, stride)
    taps = kernel[0] * kernel[1]
    places = tuple(
        (s_ + 2 * p - d * (k - 1) - 1) // t + 1
        for s_, p, d, k, t in zip(size, edge, spread, kernel, step, strict=True)
    )
    n, rows, columns = input.shape
    if rows % taps or columns != places[0] * places[1]:
        raise RuntimeError(
            f"fold: expected (N, C * {taps}, {places[0] * places[1]}) columns for "
            f"output_size={size}, "
            f"kernel_size={kernel}, got {list(input.shape)}"
        )
    channels = rows // taps
    # A depthwise filter per tap that has a single 1 there: its transposed convolution puts the
    # columns back.
    one_tap = (iota(taps, like=input).unsqueeze(1) == iota(taps, like=input)).to(input.dtype)
    weight = one_tap.expand((channels, taps, taps)).reshape((rows, 1, *kernel))
    return apply(
        CONV_INPUT_GRAD,
        input.reshape((n, rows, *places)),
        weight,
        input_shape=(n, channels, *size),
        stride=step,
        padding=edge,
        dilation=spread,
        groups=channels,
    )
