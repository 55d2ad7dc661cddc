"""Ops that move elements to other places in memory of their own: cat, pad, flip, and writes into a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eager.aval import Aval
from eager.dispatch import apply
from eager.op import Attrs
from eager.ops.kinds import Move
from eager.ops.view import SELECT, SLICE, _at, norm_dim
from eager.registry import public
from eager.tensor import Tensor

Shape = tuple[int, ...]


# ---------------------------------------------------------------------------------- cat
def _cat_shape(avals: tuple[Aval, ...], attrs: Attrs) -> Shape:
    dim, first = attrs["dim"], avals[0].shape
    for i, a in enumerate(avals):
        same = len(a.shape) == len(first) and all(
            n == m for d, (n, m) in enumerate(zip(a.shape, first, strict=True)) if d != dim
        )
        if not same:
            raise RuntimeError(
                f"cat(): Sizes of tensors must match except in dimension {dim}. Tensor 0 has shape {first}, tensor {i} has "
                f"{a.shape}"
            )
    return (*first[:dim], sum(a.shape[dim] for a in avals), *first[dim + 1 :])


def _cat_vjp(g: Tensor, avals: tuple[Aval, ...], dim: int) -> tuple[Tensor, ...]:
    grads, start = [], 0
    for a in avals:
        grads.append(g.narrow(dim, start, a.shape[dim]))
        start += a.shape[dim]
    return tuple(grads)


CAT = Move(
    "cat",
    ("*xs",),
    _cat_vjp,
    shape=_cat_shape,
    numpy=lambda xs, attrs: np.concatenate(xs, axis=attrs["dim"], dtype=np.result_type(*xs), casting="unsafe"),
)


@public(method=False, alias=("concat", "concatenate"))
def cat(tensors: Sequence[Tensor], dim: int = 0, **kwargs: Any) -> Tensor:
    """The tensors one after the other along `dim`. RuntimeError when their other sizes differ."""
    dim = kwargs.get("axis", dim)
    if isinstance(tensors, Tensor) or not all(isinstance(x, Tensor) for x in tensors):
        raise TypeError("cat(): argument 'tensors' must be a tuple or list of Tensors")
    if not tensors:
        raise ValueError("cat(): expected a non-empty list of Tensors")
    if any(x.ndim == 0 for x in tensors):
        raise RuntimeError("zero-dimensional tensor cannot be concatenated")
    some = [x for x in tensors if tuple(x.shape) != (0,)] or list(tensors[:1])  # PyTorch's legacy: skips empty vectors
    return apply(CAT, *some, dim=norm_dim(dim, some[0].ndim, "cat"))  # type: ignore[no-any-return]


# ------------------------------------------------------------------- writes into a part
def _scattered(index: Any) -> Any:
    def kernel(arrays: tuple[Any, ...], attrs: Attrs) -> Any:
        base, src = arrays
        out = np.array(base, order="C")
        out[index(base, attrs)] = src
        return out

    return kernel


def _slice_at(x: Any, attrs: Attrs) -> Any:
    return _at(x.ndim, attrs["dim"], slice(attrs["start"], attrs["stop"], attrs["step"]))


def _slice_scatter_vjp(g: Tensor, avals: Any, dim: int, start: int, stop: int, step: int) -> tuple[Tensor, Tensor]:
    where = {"dim": dim, "start": start, "stop": stop, "step": step}
    hole = Tensor._full(0, Aval(avals[1].shape, g.dtype))
    return apply(SLICE_SCATTER, g, hole, **where), apply(SLICE, g, **where)


SLICE_SCATTER = Move(
    "slice_scatter",
    ("base", "src"),
    _slice_scatter_vjp,
    shape=lambda avals, attrs: avals[0].shape,
    numpy=_scattered(_slice_at),
)


def _select_scatter_vjp(g: Tensor, avals: Any, dim: int, index: int) -> tuple[Tensor, Tensor]:
    hole = Tensor._full(0, Aval(avals[1].shape, g.dtype))
    return apply(SELECT_SCATTER, g, hole, dim=dim, index=index), apply(SELECT, g, dim=dim, index=index)


SELECT_SCATTER = Move(
    "select_scatter",
    ("base", "src"),
    _select_scatter_vjp,
    shape=lambda avals, attrs: avals[0].shape,
    numpy=_scattered(lambda x, attrs: _at(x.ndim, attrs["dim"], attrs["index"])),
)
