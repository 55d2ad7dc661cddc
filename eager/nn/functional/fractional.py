"""nn.functional: fractional max pooling. tensor, and draws of where windows begin -> the maxima of
windows that shrink it by any ratio."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from eager.base import dtype as dt
from eager.core.op import Sample
from eager.core.tensor import Tensor
from eager.nn.functional.register import functional, per_dim
from eager.ops import samples as s
from eager.ops.index_and_sort import iota
from eager.random import rand
from eager.sizes.symint import Ints, index


def _sizes(name: str, x: Tensor, n: int, kernel: Any, size: Any, ratio: Any) -> tuple[int, ...]:
    """The sizes of the result, from themselves or from their ratios to those of the input."""
    if (size is None) == (ratio is None):
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if x.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}: Expected {n + 1}D or {n + 2}D tensor, but got: {list(x.shape)}"
        )
    full = x.shape[-n:]
    if size is not None:
        out = per_dim(size, n)
    else:
        ratios = ratio if isinstance(ratio, tuple | list) else (ratio,) * n
        out = tuple(index(math.trunc(m * r)) for m, r in zip(full, ratios, strict=True))
    for have, window, wanted in zip(full, kernel, out, strict=True):
        if wanted + window - 1 > have:
            raise RuntimeError(
                f"{name}: a pool of {window} and an output of {wanted} are too large for an input "
                f"of {have}"
            )
    return out


def _starts(draws: Tensor, size: int, window: int, out: int) -> Tensor:
    """Start of each window along a dimension, by planes: (N, C) draws from [0, 1) -> int64 (N, C,
    out). The steps differ by one at most, and the last window ends where the input does.

    Source: Graham, "Fractional max-pooling" (2014)."""
    if out == 1:
        return (draws.unsqueeze(2) * 0).long() + (size - window)
    step = (size - window) / (out - 1)
    u = draws.unsqueeze(2)
    inner = ((iota(out, like=u).to(u.dtype) + u) * step).long() - (u * step).long()
    return inner.clamp(max=size - window).where(
        iota(out, like=u) < out - 1, inner * 0 + (size - window)
    )


def _fractional(n: int) -> Any:
    name = f"fractional_max_pool{n}d"

    def pool(
        input: Tensor,
        kernel_size: Ints,
        output_size: Ints | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        kernel = per_dim(kernel_size, n)
        out = _sizes(name, input, n, kernel, output_size, output_ratio)
        x = input.unsqueeze(0) if input.ndim == n + 1 else input
        planes = tuple(x.shape[:2])
        draws = _random_samples
        if draws is None:
            draws = rand((*planes, n), dtype=x.dtype, device=x.device)
        elif draws.dtype is not x.dtype:
            raise RuntimeError("Expect _random_samples to have the same dtype as input")
        elif draws.shape[1:] == (planes[1], n) and draws.shape[0] >= planes[0]:
            draws = draws[: planes[0]]
        else:
            raise RuntimeError(
                f"{name}: _random_samples must be of shape {(*planes, n)}, or of more "
                f"examples, got {tuple(draws.shape)}"
            )
        places = _positions(draws, x.shape[2:], kernel, out).flatten(2)
        in_windows = (*planes, *out, math.prod(kernel))
        windows = x.flatten(2).gather(2, places).reshape(in_windows)
        best = windows.argmax(-1, keepdim=True)
        results = tuple(
            values.gather(-1, best).squeeze(-1) for values in (windows, places.reshape(in_windows))
        )
        if input.ndim == n + 1:
            results = tuple(r.squeeze(0) for r in results)
        return results if return_indices else results[0]

    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = (
        "The largest value of each of `output_size` windows (or `output_ratio` times as many as "
        "the input has places) that begin where `_random_samples` (N, C, dimensions) say, at "
        "random by default; with `return_indices` also its flat place."
    )

    def samples() -> list[Sample]:
        image, draws = s.values((2, 3, *(6, 7, 5)[:n])), s.values((2, 3, n), 0.0, 0.99)
        return [Sample((image, 2, 3), {"_random_samples": draws, "return_indices": True})]

    return functional(samples)(pool)


def _positions(draws: Tensor, size: Sequence[int], kernel: Any, out: Any) -> Tensor:
    """The flat places of all windows' elements: (N, C, *out, *kernel).

    The draws are for the dimensions from the last to the first, but for three dimensions from the
    first to the last: as in PyTorch."""
    n = len(out)
    total: Any = 0
    axes = list(itertools.repeat(1, 2 * n))
    for d in range(n):
        draw = draws[..., d if n == 3 else n - 1 - d]
        first = _starts(draw, size[d], kernel[d], out[d])  # (N, C, out)
        along = (first.unsqueeze(3) + iota(kernel[d], like=first)).to(dt.int64)
        shape = [*axes]
        shape[d], shape[n + d] = out[d], kernel[d]
        total = total * size[d] + along.reshape((*draw.shape, *shape))
    return total


fractional_max_pool2d = _fractional(2)
fractional_max_pool3d = _fractional(3)


def _with_indices(pool: Any) -> Any:
    def with_indices(
        input: Tensor,
        kernel_size: Ints,
        output_size: Ints | None = None,
        output_ratio: Any = None,
        return_indices: bool = False,  # both come back either way, as in PyTorch
        _random_samples: Tensor | None = None,
    ) -> Any:
        return pool(input, kernel_size, output_size, output_ratio, True, _random_samples)

    with_indices.__name__ = with_indices.__qualname__ = f"{pool.__name__}_with_indices"
    with_indices.__doc__ = f"`{pool.__name__}`, and where each value was."
    return with_indices


fractional_max_pool2d_with_indices = _with_indices(fractional_max_pool2d)
fractional_max_pool3d_with_indices = _with_indices(fractional_max_pool3d)
