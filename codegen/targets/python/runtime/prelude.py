"""Python runtime: what the text of kernels calls. Each imports all of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from codegen.ir.monoid import MONOIDS
from codegen.runtime.artifact import failure
from eager.base import dtype as dt
from eager.base.scalar import NUMPY
from eager.ops.philox import scalar_words

globals().update({d.name: d.np.type for d in dt.ALL})
empty = np.empty
m = NUMPY


def identity(monoid: str, kind: Any) -> Any:
    """Identity element of a monoid: combined with it, others are unchanged."""
    return kind(MONOIDS[monoid].unit(dt.from_numpy(np.dtype(kind))))


def sum_step(total: Any, x: Any) -> Any:
    return total | x if isinstance(total, np.bool_) else total + x


def prod_step(total: Any, x: Any) -> Any:
    return total * x


max_step, min_step = np.maximum, np.minimum
any_step, all_step = np.logical_or, np.logical_and


def _arg_step(better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def step(state: tuple[Any, int | None], x: Any, at: int) -> tuple[Any, int | None]:
        best, where = state
        if where is None or (best == best and (better(x, best) or x != x)):  # NaN
            return x, at
        return state

    return step


def cast(x: Any, to: type) -> Any:
    return np.asarray(x).astype(to)[()]


def checked(x: Any, lo: int, hi: int, where: str) -> Any:
    if not lo <= x <= hi:
        raise failure(where, int(x), hi + 1)
    return x


def random_uniform(seed: Any, ordinal: Any, index: Any, kind: type) -> Any:
    w0, w1 = scalar_words(int(seed), int(ordinal), int(index))
    if kind is np.float32:
        return np.float32(w0 >> 8) * np.float32(2.0**-24)
    return np.float64((w0 << 21) ^ (w1 >> 11)) * 2.0**-53


def random_normal(seed: Any, ordinal: Any, index: Any, kind: type) -> Any:
    w0, w1 = scalar_words(int(seed), int(ordinal), int(index))
    t: Any = kind
    if kind is np.float32:
        u0, u1 = (t(w >> 8) * t(2.0**-24) for w in (w0, w1))
    else:
        u0, u1 = (t(w) * t(2.0**-32) for w in (w0, w1))
    return np.sqrt(np.log(t(1) - u0) * t(-2)) * np.cos(u1 * t(2 * math.pi))


argmax_step = _arg_step(lambda x, best: x > best)
argmin_step = _arg_step(lambda x, best: x < best)


def random_bits(seed: Any, ordinal: Any, index: Any, kind: type) -> Any:
    return np.int64(scalar_words(int(seed), int(ordinal), int(index))[0])
