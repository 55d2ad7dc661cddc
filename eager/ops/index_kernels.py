"""Eager kernels of `index`: bounds checks and additions at repeated places. NumPy arrays -> NumPy
arrays.

`np.add.at` is fast for flat one-dimensional indices only, so everything is brought to that form,
and rows (embeddings) are added by whichever takes fewer vector operations: one per distinct place
or one per repetition.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray


class OutOfBounds(RuntimeError):
    """An index of gather or scatter that names no element."""


def check_bounds(name: str, index: Array, size: int, dim: int, *, negative: bool) -> None:
    """IndexError (gather, scatter: RuntimeError, as in PyTorch) naming the first index that lies
    outside `size` (or below zero, where that is not allowed)."""
    if not index.size:
        return
    low, high = int(index.min()), int(index.max())
    bad = high if high >= size else low
    if high >= size or low < (-size if negative else 0):
        raise (OutOfBounds if name in ("gather", "scatter") else IndexError)(
            f"{name}: index {bad} is out of bounds for dimension {dim} with size {size}"
        )


def flat_positions(shape: tuple[int, ...], index: Array, dim: int) -> Array:
    """Flat positions, in an array of `shape`, of the elements that `index` names along `dim`."""
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    flat = index.astype(np.int64) * strides[dim]
    for d, stride in enumerate(strides):
        if d != dim:
            axis = [1] * index.ndim
            axis[d] = index.shape[d]
            flat = flat + (np.arange(index.shape[d]) * stride).reshape(axis)
    return flat


COMBINE: dict[str, Any] = {
    "add": np.add,
    "prod": np.multiply,
    "amax": np.maximum,
    "amin": np.minimum,
}


def combine_at(out: Array, flat: Array, values: Array, reduce: str) -> None:
    """out.ravel()[flat] = values, or combined with what is there; later values win for "set". `out`
    is contiguous."""
    target = out.reshape(-1)
    flat, values = flat.reshape(-1), values.reshape(-1)
    if reduce == "set":
        target[flat] = values
    else:
        COMBINE[reduce].at(target, flat, values)


def add_rows(out: Array, index: Array, rows: Array) -> None:
    """out[index[i]] += rows[i] for a one-dimensional index; out (V, *R), rows (n, *R)."""
    if not index.size:
        return
    if rows.ndim == 1:
        np.add.at(out, index, rows)
        return
    order = np.argsort(index, kind="stable")
    places = index[order]
    starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    counts = np.diff(np.append(starts, len(places)))
    repeats = int(counts.max())
    if len(starts) <= repeats:
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            out[places[start]] += rows[order[start : start + count]].sum(0, dtype=out.dtype)
        return
    for turn in range(repeats):  # the turn-th row of every place: no place twice
        chosen = starts[counts > turn] + turn
        out[places[chosen]] += rows[order[chosen]]
