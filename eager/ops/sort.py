"""Ops of kind `sort`: sort along one dimension -> (values, indices). argsort, topk, median and the
like select from it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from eager import dtype as dt
from eager.aval import Aval
from eager.dispatch import apply
from eager.op import Attrs, Op
from eager.ops.index import SCATTER
from eager.tensor import Tensor


class Sort(Op):
    """sort(x; dim, descending) -> (values, int64 indices). Stable; NaN counts as the largest
    value."""

    kind: ClassVar[str] = "sort"

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        (x,) = avals
        return x, Aval(x.shape, dt.int64, x.device)

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
        if attrs["descending"]:
            # Sorting the mirror image upwards and mirroring the result keeps equal values in order.
            order = np.argsort(np.flip(keys, dim), axis=dim, kind="stable")
            order = np.flip(x.shape[dim] - 1 - order, dim)
        else:
            order = np.argsort(keys, axis=dim, kind="stable")
        order = np.ascontiguousarray(order)
        return np.take_along_axis(x, order, dim), order


def _sort_vjp(g: Any, out1: Any, avals: Any, dim: int) -> tuple[Any, ...]:
    if not avals[0].shape:
        return (g[0],)
    # The indices are a permutation, so nothing is added twice: the inverse permutation of the
    # gradient.
    zeros = Tensor._full(0, avals[0])
    return (apply(SCATTER, zeros, out1, g[0], dim=dim, reduce="set"),)


SORT = Sort("sort", ("x",), vjp=_sort_vjp, n_outputs=2)
