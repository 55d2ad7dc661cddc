"""Ops of kind `sort`: sort along one dimension -> (values, indices). argsort, topk, median and the
like select from it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from eager.base import dtype as dt
from eager.core.dispatch import apply
from eager.core.op import Attrs, Op
from eager.core.tensor import Tensor
from eager.ops.index import SCATTER
from eager.ops.kinds import need_order
from eager.sizes.aval import Aval


class Sort(Op):
    """sort(x; dim, descending, keep) -> (values, int64 indices), only the first `keep` if that is
    given. Stable; NaN counts as the largest value."""

    kind: ClassVar[str] = "sort"
    rounds: ClassVar[bool] = False

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        (x,) = avals
        need_order(self.name, x)
        dim, shape = attrs["dim"], x.shape
        if "keep" in attrs:
            shape = (*shape[:dim], attrs["keep"], *shape[dim + 1 :])
        return Aval(shape, x.dtype, x.device), Aval(shape, dt.int64, x.device)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        x = arrays[0]
        if not x.ndim:
            return x.copy(), np.zeros((), np.int64)
        dim = attrs["dim"]
        keys = x.astype(
            outs[0].dtype.compute.np, copy=False
        )  # the same order, without slow 16-bit sorts
        n = x.shape[dim]
        keep = attrs.get("keep", n)
        if 0 < keep <= n // 8:
            chosen = _foremost(keys, keep, dim, attrs["descending"])
            order = _order(np.take_along_axis(keys, chosen, dim), dim, attrs["descending"])
            order = np.take_along_axis(chosen, order, dim)
        else:
            order = _order(keys, dim, attrs["descending"]).take(range(keep), dim)
        order = np.ascontiguousarray(order)
        return np.take_along_axis(x, order, dim), order


def _order(keys: Any, dim: int, descending: bool) -> Any:
    """The stable order."""
    if not descending:
        return np.argsort(keys, axis=dim, kind="stable")
    # Sorting the mirror image upwards and mirroring the result keeps equal values in order.
    order = np.argsort(np.flip(keys, dim), axis=dim, kind="stable")
    return np.flip(keys.shape[dim] - 1 - order, dim)


def _foremost(keys: Any, keep: int, dim: int, descending: bool) -> Any:
    """The places along `dim` of the `keep` elements that the stable order has first, in rising
    order: all beyond the `keep`-th, and the first that equal it."""
    at = keys.shape[dim] - keep if descending else keep - 1
    last = np.take(np.partition(keys, at, dim), [at], dim)
    nan, last_nan = keys != keys, last != last
    beyond = (keys > last) | (nan & ~last_nan) if descending else (keys < last) | (~nan & last_nan)
    equal = (keys == last) | (nan & last_nan)
    left = keep - beyond.sum(dim, keepdims=True)
    chosen = np.moveaxis(beyond | (equal & (equal.cumsum(dim) <= left)), dim, -1)
    places = np.nonzero(chosen)[-1].reshape(*chosen.shape[:-1], keep)
    return np.moveaxis(places, -1, dim)


def _sort_vjp(g: Any, out1: Any, avals: Any, dim: int) -> tuple[Any, ...]:
    if not avals[0].shape:
        return (g[0],)
    # The indices are a permutation, so nothing is added twice: the inverse permutation of the
    # gradient.
    zeros = Tensor._full(0, avals[0])
    return (apply(SCATTER, zeros, out1, g[0], dim=dim, reduce="set"),)


SORT = Sort("sort", ("x",), vjp=_sort_vjp, n_outputs=2)
