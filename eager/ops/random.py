"""Ops of kind `random`: draws from a counter-based generator. (seed, ordinal) -> tensor of draws.

The element with flat index i of a draw depends on (seed, ordinal, i) alone, so eager and compiled
code draw bitwise the same words whatever is fused or recomputed. Which seed and ordinal:
`eager/random/__init__.py`.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from eager.base import dtype as dt
from eager.core.op import Attrs, Op
from eager.ops.kinds import require_sizes
from eager.ops.philox import blocks
from eager.sizes.aval import Aval

DISTRIBUTIONS = ("uniform", "normal", "bits")


class Random(Op):
    """random(seed, ordinal; shape, dtype, dist): draws for the flat index i from the Philox words
    w0, w1 of element i.

    "uniform": float32 (w0 >> 8) * 2**-24; float64 ((w0 << 21) ^ (w1 >> 11)) * 2**-53. In [0, 1).
    "normal":  sqrt(-2 log(1 - u0)) * cos(2 pi u1) with u = (w >> 8) * 2**-24 (float32) or w *
    2**-32 (float64). "bits":    int64 w0, in [0, 2**32); `dtype` is int64."""

    kind: ClassVar[str] = "random"
    rounds: ClassVar[bool] = False

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        dtype, dist = attrs["dtype"], attrs["dist"]
        allowed = (dt.int64,) if dist == "bits" else (dt.float32, dt.float64)
        if dist not in DISTRIBUTIONS or dtype not in allowed:
            raise RuntimeError(f"random: no draws of dtype {dtype} from distribution {dist!r}")
        require_sizes(attrs["shape"])
        return (Aval(tuple(attrs["shape"]), dtype),)

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        seed, ordinal = map(int, arrays)
        n = math.prod(attrs["shape"])
        out = np.empty(n, attrs["dtype"].np)
        fill = _FILL[attrs["dist"], attrs["dtype"].name]
        for where, w0, w1 in blocks(seed, ordinal, n):
            fill(out[where], w0, w1)
        return (out.reshape(attrs["shape"]),)


def _uniform32(out: Any, w0: Any, w1: Any) -> None:
    # 24 bits: exact in float32
    np.multiply(
        (w0 >> np.uint64(8)).astype(np.uint32), np.float32(2**-24), out=out, casting="unsafe"
    )


def _uniform64(out: Any, w0: Any, w1: Any) -> None:
    bits = (w0 << np.uint64(21)) ^ (w1 >> np.uint64(11))
    np.multiply(bits, 2.0**-53, out=out)


def _normal32(out: Any, w0: Any, w1: Any) -> None:
    u0, u1 = np.empty_like(out), np.empty_like(out)
    _uniform32(u0, w0, w1)
    _uniform32(u1, w1, w0)
    _box_muller(out, u0, u1)


def _normal64(out: Any, w0: Any, w1: Any) -> None:
    _box_muller(out, w0 * 2.0**-32, w1 * 2.0**-32)


def _box_muller(out: Any, u0: Any, u1: Any) -> None:
    """Box and Muller, "A note on the generation of random normal deviates" (1958); 1 - u0 > 0, so
    always finite."""
    one = out.dtype.type(1)
    np.log(one - u0, out=u0)
    np.sqrt(u0 * -2, out=u0)
    np.cos(u1 * out.dtype.type(2 * math.pi), out=u1)
    np.multiply(u0, u1, out=out)


def _bits(out: Any, w0: Any, w1: Any) -> None:
    out[...] = w0.astype(np.int64)


_FILL = {
    ("uniform", "float32"): _uniform32,
    ("uniform", "float64"): _uniform64,
    ("normal", "float32"): _normal32,
    ("normal", "float64"): _normal64,
    ("bits", "int64"): _bits,
}

RANDOM = Random("random", ("seed", "ordinal"))
