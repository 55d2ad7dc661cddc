"""Eager kernels of `contract`: convolution and its two gradients on NumPy arrays, by gathered
windows and matrix products.

The windows of a block of samples are copied into a matrix (im2col) whose size is bounded, and one
batched matrix product does the arithmetic. Depthwise filters have nothing to multiply as matrices:
they add up one shifted slice per filter tap. Sources: Chellapilla, Puri, Simard, "High performance
convolutional neural networks for document processing" (2006), for im2col.

Shapes: x (N, C, *S), w (O, C / groups, *K), g and results (N, O, *P). One- to three-dimensional.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from eager.base.dataclass import dataclass

Array = Any  # np.ndarray; NumPy's types do not know an index tuple with an ellipsis

# Bytes of gathered windows held at a time: large enough for good matrix products, small enough to
# stay near the caches.
_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Geometry:
    """Per spatial dimension: filter size, stride, (symmetric) zero padding, dilation; and the
    number of groups."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int = 1

    def out_size(self, size: tuple[int, ...]) -> tuple[int, ...]:
        """Spatial size of the result for an input of spatial size `size`."""
        return tuple(
            (s + 2 * p - d * (k - 1) - 1) // t + 1
            for s, k, t, p, d in zip(
                size, self.kernel, self.stride, self.padding, self.dilation, strict=True
            )
        )

    @property
    def pointwise(self) -> bool:
        """A 1x1 filter that reads every input once: a plain matrix product."""
        ones = (1,) * len(self.kernel)
        return self.kernel == ones and self.stride == ones and not any(self.padding)


def pad_spatial(x: Array, padding: tuple[int, ...]) -> Array:
    """x with `padding[i]` zeros on both sides of spatial dimension i."""
    if not any(padding):
        return x
    shape = x.shape[:2] + tuple(s + 2 * p for s, p in zip(x.shape[2:], padding, strict=True))
    out = np.zeros(shape, x.dtype)
    inner = tuple(slice(p, p + s) for s, p in zip(x.shape[2:], padding, strict=True))
    out[(slice(None), slice(None), *inner)] = x
    return out


def taps(geo: Geometry, out_size: tuple[int, ...]) -> Iterator[tuple[int, tuple[slice, ...]]]:
    """Filter taps: the flat number of each, and the slices of the padded input that it reads for
    all results."""
    for number, tap in enumerate(itertools.product(*map(range, geo.kernel))):
        yield (
            number,
            tuple(
                slice(k * d, k * d + t * (o - 1) + 1, t)
                for k, d, t, o in zip(tap, geo.dilation, geo.stride, out_size, strict=True)
            ),
        )


def _windows(xp: Array, geo: Geometry, out_size: tuple[int, ...]) -> Array:
    """A view of padded xp as (N, groups, C / groups, *K, *P)."""
    n, c, *_ = xp.shape
    sn, sc, *ss = xp.strides
    per_group = c // geo.groups
    return as_strided(
        xp,
        shape=(n, geo.groups, per_group, *geo.kernel, *out_size),
        strides=(
            sn, sc * per_group, sc,
            *(s * d for s, d in zip(ss, geo.dilation, strict=True)),
            *(s * t for s, t in zip(ss, geo.stride, strict=True)),
        ),
        writeable=False,
    )  # fmt: skip


def _blocks(n: int, bytes_per_sample: int) -> Iterator[slice]:
    step = max(1, _BLOCK_BYTES // max(bytes_per_sample, 1))
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))


def _is_depthwise(geo: Geometry, channels: int) -> bool:
    return geo.groups > 1 and geo.groups == channels


def conv(x: Array, w: Array, geo: Geometry) -> Array:
    """Cross-correlation of x with the filters w (what deep learning calls convolution)."""
    n, c = x.shape[:2]
    o = w.shape[0]
    out_size = geo.out_size(x.shape[2:])
    points = math.prod(out_size)
    xp = pad_spatial(x, geo.padding)
    out = np.empty((n, o, *out_size), x.dtype)
    if not out.size:
        return out
    if _is_depthwise(geo, c):
        return _depthwise(xp, w, geo, out)
    flat = out.reshape(n, geo.groups, o // geo.groups, points)
    weight = w.reshape(geo.groups, o // geo.groups, -1)
    if geo.pointwise:
        np.matmul(weight, np.ascontiguousarray(x).reshape(n, geo.groups, -1, points), out=flat)
        return out
    windows = _windows(xp, geo, out_size)
    taps_per_group = weight.shape[2]
    for block in _blocks(n, geo.groups * taps_per_group * points * x.itemsize):
        columns = windows[block].reshape(-1, geo.groups, taps_per_group, points)
        np.matmul(weight, columns, out=flat[block])
    return out


def _depthwise(xp: Array, w: Array, geo: Geometry, out: Array) -> Array:
    """One input channel per group: the filters' taps scale shifted slices of the input."""
    multiplier = w.shape[0] // geo.groups
    out[...] = 0
    weight = w.reshape(w.shape[0], -1)
    source: Any = np.repeat(xp, multiplier, axis=1) if multiplier > 1 else xp
    column = (-1,) + (1,) * len(geo.kernel)
    for number, where in taps(geo, out.shape[2:]):
        out += source[(..., *where)] * weight[:, number].reshape(column)
    return out


def _reversible(geo: Geometry) -> bool:
    """True if the input gradient is itself a convolution: no stride, no more padding than the
    filter reaches."""
    reach = zip(geo.padding, geo.kernel, geo.dilation, strict=True)
    return all(t == 1 for t in geo.stride) and all(p <= d * (k - 1) for p, k, d in reach)


def _reverse(geo: Geometry) -> Geometry:
    reach = zip(geo.padding, geo.kernel, geo.dilation, strict=True)
    padding = tuple(d * (k - 1) - p for p, k, d in reach)
    return Geometry(geo.kernel, geo.stride, padding, geo.dilation, geo.groups)


def _mirrored(w: Array, groups: int) -> Array:
    """The filters read backwards, with inputs and outputs exchanged: (O, C / g, *K) -> (C, O / g,
    *K)."""
    o, per_group, *kernel = w.shape
    flipped = w[(slice(None), slice(None), *(slice(None, None, -1) for _ in kernel))]
    split = flipped.reshape(groups, o // groups, per_group, *kernel).swapaxes(1, 2)
    return np.ascontiguousarray(split).reshape(groups * per_group, o // groups, *kernel)


def conv_input_grad(g: Array, w: Array, input_shape: tuple[int, ...], geo: Geometry) -> Array:
    """The gradient of `conv` with respect to x: each result's gradient is added to every place its
    window read."""
    if _reversible(geo):
        return conv(g, _mirrored(w, geo.groups), _reverse(geo))
    n, o = g.shape[:2]
    c = input_shape[1]
    size = input_shape[2:]
    out_size = g.shape[2:]
    points = math.prod(out_size)
    grad = np.zeros((n, c, *(s + 2 * p for s, p in zip(size, geo.padding, strict=True))), g.dtype)
    if grad.size and g.size:
        weight = np.ascontiguousarray(w.reshape(geo.groups, o // geo.groups, -1).swapaxes(1, 2))
        flat = np.ascontiguousarray(g).reshape(n, geo.groups, o // geo.groups, points)
        for block in _blocks(n, geo.groups * weight.shape[1] * points * g.itemsize):
            columns: Any = np.matmul(weight, flat[block])
            columns = columns.reshape(-1, c, math.prod(geo.kernel), *out_size)
            target: Any = grad[block]
            for number, where in taps(geo, out_size):
                target[(..., *where)] += columns[:, :, number]
    inner = tuple(slice(p, p + s) for s, p in zip(size, geo.padding, strict=True))
    return np.ascontiguousarray(grad[(slice(None), slice(None), *inner)])


def conv_weight_grad(g: Array, x: Array, weight_shape: tuple[int, ...], geo: Geometry) -> Array:
    """The gradient of `conv` with respect to w: gradients times windows, summed over samples and
    places."""
    n, o = g.shape[:2]
    out_size = g.shape[2:]
    points = math.prod(out_size)
    groups = geo.groups
    total = np.zeros((groups, o // groups, math.prod(weight_shape[1:])), g.dtype)
    if not g.size or not total.size:
        return total.reshape(weight_shape)
    windows = _windows(pad_spatial(x, geo.padding), geo, out_size)
    taps_per_group = total.shape[2]
    # The samples of a block join the sum inside the product: (O / groups, N P) x (N P, C / groups
    # K).
    order = (1, *range(2, 3 + len(geo.kernel)), 0, *range(3 + len(geo.kernel), windows.ndim))
    flat = g.reshape(n, groups, o // groups, points)
    for block in _blocks(n, groups * taps_per_group * points * g.itemsize):
        left = flat[block].transpose(1, 2, 0, 3).reshape(groups, o // groups, -1)
        columns = windows[block].transpose(order).reshape(groups, taps_per_group, -1)
        total += np.matmul(left, columns.swapaxes(1, 2))
    return total.reshape(weight_shape)
