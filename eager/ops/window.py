"""Ops of kind `window`: sliding windows over the spatial dimensions. max_pool, sum_pool and its
gradient -> tensors.

x is (N, C, *S) with one to three spatial dimensions. Average pooling is `sum_pool` over a divisor.
The kernels visit one window tap at a time and combine whole shifted slices, so they need no
gathered windows.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from eager.base import dtype as dt
from eager.core.dispatch import apply
from eager.core.op import Attrs, Op
from eager.core.tensor import Tensor
from eager.ops.conv_kernels import Geometry, taps
from eager.ops.index import SCATTER
from eager.ops.kinds import need_order
from eager.sizes.aval import Aval


def pooled_size(size: tuple[int, ...], attrs: Attrs) -> tuple[int, ...]:
    """Spatial size of the result. In ceil mode the last window may hang over, but must start
    inside."""
    dilation = attrs.get("dilation", (1,) * len(size))
    out = []
    for s, k, t, p, d in zip(
        size, attrs["kernel"], attrs["stride"], attrs["padding"], dilation, strict=True
    ):
        room = s + 2 * p - d * (k - 1) - 1
        count = (-(-room // t) if attrs["ceil"] else room // t) + 1
        if attrs["ceil"] and (count - 1) * t >= s + p:
            count -= 1
        out.append(count)
    return tuple(out)


def _padded(x: Any, attrs: Attrs, out: tuple[int, ...], value: Any) -> Any:
    """x with its padding, and what windows hanging over the far end read, filled with `value`."""
    dilation = attrs.get("dilation", (1,) * len(out))
    need = tuple(
        max(s + 2 * p, (o - 1) * t + d * (k - 1) + 1)
        for s, p, o, t, d, k in zip(
            x.shape[2:], attrs["padding"], out, attrs["stride"], dilation, attrs["kernel"],
            strict=True,
        )
    )  # fmt: skip
    if need == x.shape[2:]:
        return x
    padded = np.full(x.shape[:2] + need, value, x.dtype)
    padded[_inner(x.shape, attrs)] = x
    return padded


def _inner(shape: tuple[int, ...], attrs: Attrs) -> tuple[slice, ...]:
    inside = (slice(p, p + s) for s, p in zip(shape[2:], attrs["padding"], strict=True))
    return (slice(None), slice(None), *inside)


def _geometry(attrs: Attrs) -> Geometry:
    kernel = attrs["kernel"]
    dilation = attrs.get("dilation", (1,) * len(kernel))
    return Geometry(kernel, attrs["stride"], attrs["padding"], dilation)


class Window(Op):
    """Base: attrs kernel, stride, padding (tuples of one int per spatial dim), ceil."""

    kind: ClassVar[str] = "window"

    def out_shape(self, x: Aval, attrs: Attrs) -> tuple[int, ...]:
        spatial = x.shape[2:]
        if len(spatial) != len(attrs["kernel"]):
            raise RuntimeError(
                f"{self.name}: input {x.shape} must be (N, C, *spatial) with "
                f"{len(attrs['kernel'])} spatial dimensions"
            )
        if any(2 * p > k for p, k in zip(attrs["padding"], attrs["kernel"], strict=True)):
            raise RuntimeError(
                "pad should be at most half of effective kernel size, but got "
                f"pad={attrs['padding']} and kernel_size={attrs['kernel']}"
            )
        out = pooled_size(spatial, attrs)
        if any(s <= 0 for s in out):
            raise RuntimeError(
                f"{self.name}: input of spatial size {spatial} gives a result of size {out}, which "
                f"is too small (kernel {attrs['kernel']}, padding {attrs['padding']})"
            )
        return (*x.shape[:2], *out)


def _lowest(dtype: np.dtype) -> Any:
    if dtype.kind in "biu":
        return False if dtype.kind == "b" else np.iinfo(dtype).min
    return -np.inf


class MaxPool(Window):
    """max_pool(x; kernel, stride, padding, dilation, ceil) -> (values, int64 flat index into the
    input plane).

    NaN wins, the first of equal values wins, and padding never wins."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        (x,) = avals
        need_order(self.name, x)
        shape = self.out_shape(x, attrs)
        return Aval(shape, x.dtype, x.device), Aval(shape, dt.int64, x.device)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        x = arrays[0].astype(outs[0].dtype.compute.np, copy=False)
        out = outs[0].shape[2:]
        places = np.arange(math.prod(x.shape[2:])).reshape(1, 1, *x.shape[2:])
        padded = _padded(x, attrs, out, _lowest(x.dtype))
        places = _padded(places, attrs, out, -1)
        best: Any = None
        index: Any = None
        for _, where in taps(_geometry(attrs), out):
            value, place = padded[(..., *where)], places[(..., *where)]
            if best is None:
                best = value.copy()
                index = np.broadcast_to(place, best.shape).copy()
                continue
            wins = (value > best) | (value != value) | ((index < 0) & (place >= 0))
            np.copyto(best, value, where=wins)
            np.copyto(index, place, where=wins)
        return best.astype(outs[0].dtype.np, copy=False), index


def _max_pool_vjp(g: Any, out1: Any, avals: Any) -> tuple[Any, ...]:
    gradient, index = g[0], out1
    shape = avals[0].shape
    flat = (*shape[:2], math.prod(shape[2:]))
    zeros = Tensor._full(0, Aval(flat, gradient.dtype, avals[0].device))
    rows = (*shape[:2], math.prod(index.shape[2:]))
    total = apply(SCATTER, zeros, index.reshape(rows), gradient.reshape(rows), dim=2, reduce="add")
    return (total.reshape(shape),)


MAX_POOL = MaxPool("max_pool", ("x",), vjp=_max_pool_vjp, n_outputs=2)


class SumPool(Window):
    """sum_pool(x; kernel, stride, padding, ceil): the sum of each window; padding counts as 0."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        (x,) = avals
        return (Aval(self.out_shape(x, attrs), x.dtype, x.device),)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        x = arrays[0].astype(outs[0].dtype.compute.np, copy=False)
        out = outs[0].shape[2:]
        padded = _padded(x, attrs, out, 0)
        total = np.zeros(outs[0].shape, x.dtype)
        for _, where in taps(_geometry(attrs), out):
            total += padded[(..., *where)]
        return (total.astype(outs[0].dtype.np, copy=False),)


def _sum_pool_vjp(
    g: Any,
    avals: Any,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    ceil: bool,
) -> tuple[Any, ...]:
    rest = {"kernel": kernel, "stride": stride, "padding": padding, "ceil": ceil}
    return (apply(SUM_POOL_GRAD, g, input_shape=tuple(avals[0].shape), **rest),)


SUM_POOL = SumPool("sum_pool", ("x",), vjp=_sum_pool_vjp)


class SumPoolGrad(Window):
    """sum_pool_grad(g; input_shape, kernel, stride, padding, ceil): each input's sum over the
    windows that hold it."""

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        (g,) = avals
        x = Aval(tuple(attrs["input_shape"]), g.dtype, g.device)
        want = self.out_shape(x, attrs)
        if g.shape != want:
            raise RuntimeError(
                f"{self.name}: gradient {g.shape}, expected {want} for input {x.shape}"
            )
        return (x,)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        g = arrays[0].astype(outs[0].dtype.compute.np, copy=False)
        zeros = np.zeros(outs[0].shape, g.dtype)
        padded = _padded(zeros, attrs, g.shape[2:], 0)
        for _, where in taps(_geometry(attrs), g.shape[2:]):
            padded[(..., *where)] += g
        total = np.ascontiguousarray(padded[_inner(outs[0].shape, attrs)])
        return (total.astype(outs[0].dtype.np, copy=False),)


def _sum_pool_grad_vjp(
    g: Any,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    ceil: bool,
) -> tuple[Any, ...]:
    return (apply(SUM_POOL, g, kernel=kernel, stride=stride, padding=padding, ceil=ceil),)


SUM_POOL_GRAD = SumPoolGrad("sum_pool_grad", ("operand",), vjp=_sum_pool_grad_vjp)
