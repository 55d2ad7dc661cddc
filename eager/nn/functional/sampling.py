"""nn.functional: images read at given places. image and coordinates -> interpolated values.

`affine_grid` makes the coordinates, `grid_sample` reads there: together the sampler of spatial
transformers (Jaderberg et al. 2015).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from eager.base import dtype as dt
from eager.base.compat_warnings import warn
from eager.core.casts import full_precision, on_gpus, rounded_once
from eager.core.dispatch import apply
from eager.core.op import Sample
from eager.core.registry import public
from eager.core.tensor import Tensor
from eager.nn.functional.register import functional
from eager.nn.functional.shape import cubic_weights
from eager.ops import samples as s
from eager.ops.index import GATHER
from eager.ops.index_and_sort import iota
from eager.ops.move import stack
from eager.ops.pointwise import where
from eager.sizes.aval import Aval


def _theta() -> Any:
    return s.values((2, 2, 3), -0.9, 0.9)


@functional(
    lambda: [
        Sample((_theta(), (2, 3, 4, 5)), {"align_corners": False}),
        Sample((_theta(), (2, 3, 4, 5)), {"align_corners": True}),
        Sample((s.values((2, 3, 4), -0.9, 0.9), (2, 1, 2, 3, 4)), {"align_corners": False}),
    ]
)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The (N, H, W, 2) sampling places of 2-D affine maps `theta` (N, 2, 3), in [-1, 1]
    coordinates; (N, D, H, W, 3) those of 3-D maps (N, 3, 4)."""
    n, _, *sizes = size
    d = len(sizes)
    if d not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {tuple(size)}."
        )
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (d, d + 1):
        raise ValueError(
            f"Expected a batch of {d}D affine matrices of shape Nx{d}x{d + 1} for size "
            f"{tuple(size)}. Got {tuple(theta.shape)}."
        )
    _warn_of_corners(align_corners)

    def axis(count: int) -> Tensor:
        places = iota(count, theta.dtype.compute, like=theta)
        if align_corners:
            return places * (2.0 / max(count - 1, 1)) - 1.0
        return (places * 2.0 + 1.0) / count - 1.0

    axes = [axis(c).reshape((-1, *(1,) * (d - 1 - i))).expand(sizes) for i, c in enumerate(sizes)]
    ones = Tensor._full(1, Aval(tuple(sizes), axes[0].dtype, theta.aval.device))
    base = stack((*reversed(axes), ones), -1).reshape((1, -1, d + 1)).expand((n, -1, d + 1))
    return (base.to(theta.dtype) @ theta.transpose(1, 2)).reshape((n, *sizes, d))


def _warn_of_corners(align_corners: bool | None) -> None:
    if align_corners is None:
        warn(
            "grid_sample and affine_grid take align_corners=False by default (it was True before "
            "PyTorch 1.3): pass align_corners"
        )


def _grid() -> tuple[Any, Any]:
    return s.values((2, 3, 4, 5)), s.values((2, 3, 2, 2), -1.15, 1.1, 1)


@functional(
    lambda: [
        Sample(_grid(), {"align_corners": False}),
        Sample(_grid(), {"align_corners": True, "padding_mode": "border"}),
        Sample(_grid(), {"align_corners": False, "padding_mode": "reflection"}),
        Sample(_grid(), {"align_corners": False, "mode": "nearest"}),
        Sample(_grid(), {"align_corners": True, "mode": "bicubic"}),
    ]
)
@on_gpus("widest")
@full_precision
@rounded_once
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """input (N, C, H, W) at the places grid (N, H', W', 2) of (x, y) in [-1, 1] -> (N, C, H', W');
    volumes likewise.

    mode: bilinear, nearest or bicubic. padding_mode: what lies outside is zeros, the border, or the
    reflection. Raises ValueError for other words."""
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    _warn_of_corners(align_corners)
    n = input.ndim - 2
    if n not in (2, 3) or grid.ndim != input.ndim:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            f"got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.shape[0] != input.shape[0] or grid.shape[-1] != n:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, and grid to have "
            f"size {n} in last dimension, but got {list(input.shape)} and {list(grid.shape)}"
        )
    if mode == "bicubic":
        if n != 2:
            raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
        return _bicubic(input, grid, padding_mode, bool(align_corners))
    sizes = input.shape[:1:-1]  # W, H, ...: as the grid counts
    places = [
        _coordinate(grid[..., d], size, padding_mode, bool(align_corners))
        for d, size in enumerate(sizes)
    ]
    if mode == "nearest":
        whole = [p.round() for p in places]
        read = _read(input, whole)
        if not grid.requires_grad:
            return read
        always = Tensor._full(True, Aval((), dt.bool_, grid.aval.device))
        return where(always, read, whole[0].unsqueeze(1))  # the grid has a gradient, of zeros
    low = [p.floor() for p in places]
    shares = [(p - q).unsqueeze(1) for p, q in zip(places, low, strict=True)]
    total: Any = 0.0
    for corner in itertools.product((0, 1), repeat=n):
        weight: Any = 1.0
        for c, share in zip(corner, shares, strict=True):
            weight = weight * (share if c else 1 - share)
        total = total + _read(input, [q + c for q, c in zip(low, corner, strict=True)]) * weight
    return total


def _enumerated(n: int) -> None:
    def sampler(
        input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
    ) -> Tensor:
        mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
        padding = ("zeros", "border", "reflection")[padding_mode]
        return grid_sample(input, grid, mode, padding, align_corners)

    sampler.__name__ = sampler.__qualname__ = f"grid_sampler_{n}d"
    sampler.__doc__ = "`grid_sample` with numbers for the words."
    public(sampler.__name__, method=False)(sampler)


_enumerated(2)
_enumerated(3)


def _bicubic(input: Tensor, grid: Tensor, padding_mode: str, align: bool) -> Tensor:
    """Cubic convolution over 4 x 4 pixels, each of them padded by itself."""
    h, w = input.shape[2:]
    x = _coordinate(grid[..., 0], w, "zeros", align)
    y = _coordinate(grid[..., 1], h, "zeros", align)
    left, top = x.floor(), y.floor()
    across, down = cubic_weights(x - left), cubic_weights(y - top)
    columns = [_inside((left + i).detach(), w, padding_mode, align) for i in range(-1, 3)]
    rows = [_inside((top + i).detach(), h, padding_mode, align) for i in range(-1, 3)]
    total: Any = 0.0
    for row, v in zip(rows, down, strict=True):
        line: Any = 0.0
        for column, u in zip(columns, across, strict=True):
            line = line + _read(input, [column, row]) * u.unsqueeze(1)
        total = total + line * v.unsqueeze(1)
    return total


def _coordinate(at: Tensor, size: int, padding_mode: str, align: bool) -> Tensor:
    """[-1, 1] as a place in 0 .. size-1; inside it unless the padding is zeros."""
    place = (at + 1) * ((size - 1) / 2) if align else ((at + 1) * size - 1) / 2
    return _inside(place, size, padding_mode, align)


def _inside(place: Tensor, size: int, padding_mode: str, align: bool) -> Tensor:
    """A place as the padding has it: unchanged, at the border, or reflected."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        low, span = (0.0, size - 1) if align else (-0.5, size)
        distance = (place - low).abs()
        turns = (distance / max(span, 1)).floor()
        rest = distance - turns * max(span, 1)
        back = turns - 2 * (turns / 2).floor()  # 1 on the way back
        place = rest + back * (span - 2 * rest) + low
    within = (place > 0) & (place < size - 1)  # PyTorch's gradient is zero on the border itself
    return where(within, place, place.detach().nan_to_num(0.0).clamp(0, size - 1))


def _read(input: Tensor, places: list[Tensor]) -> Tensor:
    """The pixels at whole places (x, y, ...), 0 outside and at NaN: (N, C, *places)."""
    n, c = input.shape[:2]
    inside: Any = None
    flat: Any = 0
    for place, size in reversed(list(zip(places, input.shape[:1:-1], strict=True))):
        within = (place >= 0) & (place <= size - 1)
        inside = within if inside is None else inside & within
        flat = flat * size + where(within, place, 0).to(dt.int64)
    index = flat.reshape((n, 1, -1)).expand((n, c, places[0][0].numel()))
    pixels = apply(GATHER, input.reshape((n, c, math.prod(input.shape[2:]))), index, dim=2)
    pixels = pixels.reshape((n, c, *places[0].shape[1:]))
    return where(inside.unsqueeze(1), pixels, 0.0)  # a product would keep NaN and infinities
