"""nn.functional: images read at given places. image and coordinates -> interpolated values.

`affine_grid` makes the coordinates, `grid_sample` reads there: together the sampler of spatial
transformers (Jaderberg et al. 2015).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eager import dtype as dt
from eager.aval import Aval
from eager.casts import full_precision
from eager.dispatch import apply
from eager.nn.functional.register import functional
from eager.op import Sample
from eager.ops import samples as s
from eager.ops.index import GATHER
from eager.ops.index_and_sort import iota
from eager.ops.move import stack
from eager.ops.pointwise import where
from eager.tensor import Tensor


def _theta() -> Any:
    return s.values((2, 2, 3), -0.9, 0.9)


@functional(
    lambda: [
        Sample((_theta(), (2, 3, 4, 5)), {"align_corners": False}),
        Sample((_theta(), (2, 3, 4, 5)), {"align_corners": True}),
    ]
)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The (N, H, W, 2) sampling places of 2-D affine maps `theta` (N, 2, 3), in [-1, 1]
    coordinates."""
    n, _, h, w = size

    def axis(count: int) -> Tensor:
        places = iota(count, theta.dtype.compute)
        if align_corners:
            return places * (2.0 / max(count - 1, 1)) - 1.0
        return (places * 2.0 + 1.0) / count - 1.0

    x = axis(w).expand((h, w))
    y = axis(h).unsqueeze(1).expand((h, w))
    ones = Tensor._full(1, Aval((h, w), x.dtype))
    base = stack((x, y, ones), -1).reshape((1, h * w, 3)).expand((n, h * w, 3))
    return (base.to(theta.dtype) @ theta.transpose(1, 2)).reshape((n, h, w, 2))


def _grid() -> tuple[Any, Any]:
    return s.values((2, 3, 4, 5)), s.values((2, 3, 2, 2), -1.15, 1.1, 1)


@functional(
    lambda: [
        Sample(_grid(), {"align_corners": False}),
        Sample(_grid(), {"align_corners": True, "padding_mode": "border"}),
        Sample(_grid(), {"align_corners": False, "padding_mode": "reflection"}),
        Sample(_grid(), {"align_corners": False, "mode": "nearest"}, grad=False),
    ]
)
@full_precision
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """input (N, C, H, W) at the places grid (N, H', W', 2) of (x, y) in [-1, 1] -> (N, C, H', W').

    mode: bilinear or nearest. padding_mode: what lies outside is zeros, the border, or the
    reflection. Raises ValueError for other words, NotImplementedError for volumes."""
    if mode not in ("bilinear", "nearest"):
        raise ValueError(f"grid_sample: mode {mode!r}; expected 'bilinear' or 'nearest'")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    if input.ndim != 4:
        raise NotImplementedError(f"grid_sample: images (N, C, H, W) only, got {input.ndim}D")
    h, w = input.shape[2:]
    x = _place(grid[..., 0], w, padding_mode, bool(align_corners))
    y = _place(grid[..., 1], h, padding_mode, bool(align_corners))
    if mode == "nearest":
        return _read(input, x.round(), y.round())
    left, top = x.floor(), y.floor()
    right_share, low_share = (x - left).unsqueeze(1), (y - top).unsqueeze(1)
    total: Any = _read(input, left, top) * ((1 - right_share) * (1 - low_share))
    total = total + _read(input, left + 1, top) * (right_share * (1 - low_share))
    total = total + _read(input, left, top + 1) * ((1 - right_share) * low_share)
    return total + _read(input, left + 1, top + 1) * (right_share * low_share)


def _place(at: Tensor, size: int, padding_mode: str, align: bool) -> Tensor:
    """[-1, 1] as a place in 0 .. size-1; inside it unless the padding is zeros."""
    place = (at + 1) * ((size - 1) / 2) if align else ((at + 1) * size - 1) / 2
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
    return where(within, place, place.detach().clamp(0, size - 1))


def _read(input: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The pixels at whole (x, y), 0 outside: (N, C, H', W')."""
    n, c, h, w = input.shape
    inside = (x >= 0) & (x <= w - 1) & (y >= 0) & (y <= h - 1)
    column, row = x.clamp(0, w - 1).to(dt.int64), y.clamp(0, h - 1).to(dt.int64)
    flat = (row * w + column).reshape((n, 1, -1)).expand((n, c, x[0].numel()))
    pixels = apply(GATHER, input.reshape((n, c, h * w)), flat, dim=2).reshape((n, c, *x.shape[1:]))
    return pixels * inside.unsqueeze(1).to(input.dtype)
