"""Random matrix products of compiled code against float64: sizes, strides, batches, types, threads.

`run(20000, seed)` is the long form."""

import ctypes

import numpy as np
import pytest

from codegen.targets.cpp.runtime import build, cpu, support
from eager.base.config import config
from eager.base.dtype import by_name

SOURCE = """#include "jitcap_dot.h"
JC_MODULE
using namespace jc;
#define PRODUCT(S, T) JC_ENTRY void product_##S(i64 m, i64 n, i64 k, S *a, i64 ar, i64 ac, S *b, i64 br, i64 bc, T *c, i64 rank, const i64 *dims) { \\
    dot<S>(m, n, k, {a, ar, ac}, {b, br, bc}, c, rank, dims); }
PRODUCT(f32, f32) PRODUCT(f64, f64) PRODUCT(bf16, f32) PRODUCT(f16, f32)
"""  # noqa: E501
SHORT = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}
MOST = 2_000_000  # multiplications of a product
EDGES = (0, 1, 6, 14, 16, 28, 32, 64, 128, 256, 384, 512, 1000, 2049)


def size(rng):
    kind = rng.random()
    if kind < 0.4:
        return int(rng.integers(1, 20))
    return int(np.exp(rng.uniform(0, np.log(700)))) if kind < 0.9 else int(rng.choice(EDGES))


def matrices(rng, batch, rows, cols, kind):
    """Of any strides: padded, turned, every second, backwards, one row or column for all."""
    stored, seen = {
        0: ((rows, cols + 3), lambda x: x[..., :cols]),
        1: ((cols, rows + 5), lambda x: x[..., :rows].swapaxes(-1, -2)),
        2: ((rows * 2, cols * 3), lambda x: x[..., ::2, ::3]),
        3: ((rows, cols), lambda x: x[..., ::-1, ::-1]),
        4: ((1, cols), lambda x: np.broadcast_to(x, (*batch, rows, cols))),
        5: ((rows, 1), lambda x: np.broadcast_to(x, (*batch, rows, cols))),
    }[int(rng.integers(6))]
    x = rng.standard_normal((*batch, *stored))
    if x.size and rng.random() < 0.05:
        x.flat[rng.integers(x.size)] = rng.choice([np.inf, np.nan])
    x = seen(x.astype(kind))
    return np.broadcast_to(x[:1], x.shape) if batch and rng.random() < 0.3 else x


def steps(x):
    return [s // x.itemsize for s in x.strides]


def run(cases, seed, teams=(1, 2, 7)):
    """How many were computed; an assertion names the first that is wrong, or differs by team."""
    library = cpu.load(
        cpu.build_shared({"fuzz.cpp": SOURCE}, support.isa_flags(config.isa)).result()
    )
    rng = np.random.default_rng(seed)
    before = support.api().threads
    for case in range(cases):
        name = str(rng.choice(list(SHORT)))
        m, n, k = size(rng), size(rng), size(rng)
        if m * n * k > MOST:
            continue
        batch = tuple(map(int, rng.integers(1, 4, rng.integers(0, 3))))
        a = matrices(rng, batch, m, k, by_name(name).np)
        b = matrices(rng, batch, k, n, by_name(name).np)
        wide = np.float64 if name == "float64" else np.float32
        *outer_a, ar, ac = steps(a)
        *outer_b, br, bc = steps(b)
        dims = [v for each in zip(batch, outer_a, outer_b, strict=True) for v in each] or [1, 0, 0]
        got = []
        for team in teams:
            out = np.full((*batch, m, n), 7, wide)
            args = (m, n, k, a, ar, ac, b, br, bc, out, len(dims) // 3, np.array(dims))
            support.api().threads = team
            getattr(library.library, f"product_{SHORT[name]}")(
                *(
                    ctypes.c_void_p(x.ctypes.data)
                    if isinstance(x, np.ndarray)
                    else ctypes.c_long(x)
                    for x in args
                )
            )
            got.append(out)
        support.api().threads = before
        x, y = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(invalid="ignore"):
            want, scale = x @ y, np.abs(x) @ np.abs(y) * max(1, k) ** 0.5
            close = np.abs(got[0] - want) <= scale * (1e-14 if name == "float64" else 1e-6) + 1e-30
        text = f"case {case}: {name} {m, n, k} of {batch}, strides {a.strides} {b.strides}"
        assert (close | ~np.isfinite(want)).all(), text
        assert not np.isfinite(got[0][~np.isfinite(want)]).any(), text
        assert len({out.tobytes() for out in got}) == 1, f"{text}: differs by team"
    return cases


def test_random_products():
    try:
        run(400, 0)
    except build.NoCompiler as error:
        pytest.skip(str(error))
