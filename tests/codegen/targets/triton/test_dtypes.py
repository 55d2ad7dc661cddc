"""Arithmetic, comparisons, reductions, scans and conversions on every element type Triton has, against eager."""

import numpy as np
import pytest
import share
import triton_helpers as helpers

pytest.importorskip("triton.language")

import eager
from codegen.targets.triton.runtime.kernel import kernels_of
from eager.nn import functional as F

DTYPES = [eager.bool_, eager.uint8, eager.int8, eager.int16, eager.int32, eager.int64]
DTYPES += [eager.float16, eager.bfloat16, eager.float32, eager.float64]


def values(dtype, seed, shape=(6, 9)):
    low, high = (0, 2) if dtype is eager.bool_ else (0, 7) if dtype is eager.uint8 else (-5, 6)
    drawn = np.random.default_rng(seed).integers(low, high, shape).astype(np.float64)
    return eager.tensor(drawn + 0.25 * dtype.is_floating_point).to(dtype)


def divisor(y):
    return eager.where(y == 0, eager.ones_like(y), y)


def beyond(x):
    wild = eager.cat([x * 60, x * 3e4, x * 3e9, x * 3e19, x.log()])
    return tuple(wild.to(d) for d in DTYPES[1:6])


FUNCTIONS = {
    "arithmetic": lambda x, y: (x + y, x * y, x / divisor(y)),
    "difference": lambda x, y: (x - y, -x, x.abs(), eager.sign(x)),
    "division_beyond": lambda x, y: (y // (x * np.inf), (x * np.inf) // y, y // (x * 0.0)),
    "division": lambda x, y: (x // divisor(y), x % divisor(y), eager.fmod(x, divisor(y))),
    "comparison": lambda x, y: (x < y, x >= y, x == y, eager.where(x > y, x, y)),
    "extrema": lambda x, y: (eager.maximum(x, y), eager.minimum(x, y), x.clamp(0, 2)),
    "signs": lambda x, y: (x.sign(), eager.fmax(x, y), eager.fmin(x, y), x.isnan(), x.isfinite()),
    "sums": lambda x, y: (x.sum(), x.sum(0), x.sum(1), x.prod(1)),
    "extreme_of_rows": lambda x, y: (x.amax(1), x.amin(0), x.amax((0, 1))),
    "places": lambda x, y: (x.argmax(1), x.argmin(0), x.argmax()),
    "logic": lambda x, y: (x.any(1), x.all(), eager.logical_xor(x, y)),
    "conversions": lambda x, y: tuple(x.to(d) for d in DTYPES),
    "conversions_of_what_fits_nowhere": lambda x, y: (
        beyond(x.to(eager.float32)) + beyond(x.to(eager.float64))
    ),
    "running": lambda x, y: (x.cumsum(1), x.cumsum(0), *x.cummax(1)),
    "bits": lambda x, y: (x & y, x | y, x ^ y, ~x),
    "shifts": lambda x, y: (x << 2, x >> 1, x << 64, x >> 64, x << (y + 0), x >> (y + 0)),
    "powers": lambda x, y: (x**2, x ** y.abs()),
    "places_read": lambda x, y: (x[[0, -1, 2]], x.flip(1), F.pad(x, (1, 2)), eager.cat([x, y], 1)),
    "places_written": lambda x, y: x.scatter_add(1, (y != y).to(eager.int64), y),
    "products": lambda x, y: eager.cat([x] * 6, 0) @ eager.cat([y] * 6, 0).t(),
    "rounding": lambda x, y: (x.floor(), x.round(), x.trunc(), x.exp()),
}
PAIRS = [(name, dtype) for name in FUNCTIONS for dtype in DTYPES]


def parts(fn, x, y):
    """The results that eager has on this type; None if it refuses it."""
    try:
        with np.errstate(all="ignore"):
            return [t._array for t in helpers.leaves(fn(x, y))]
    except (RuntimeError, TypeError):
        return None


@pytest.mark.parametrize(("name", "dtype"), PAIRS, ids=lambda v: getattr(v, "name", v))
def test_interpreted(name, dtype):
    x, y = values(dtype, 0), values(dtype, 1)
    expected = parts(FUNCTIONS[name], x, y)
    if expected is None:
        pytest.skip("eager refuses it")
    if name == "products" and dtype is eager.bool_:
        pytest.skip("no product of bool")
    got, _ = helpers.run(FUNCTIONS[name], (x, y))
    for g, e in zip(got, expected, strict=True):
        assert g.dtype == e.dtype
        rtol = 1e-2 if e.dtype.itemsize == 2 else 1e-5
        np.testing.assert_allclose(g.astype(np.float64), e.astype(np.float64), rtol=rtol, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiles(name, record_property):
    """In a third of the types, in turn; in all of them in scripts/nightly."""
    kernels = []
    for dtype in DTYPES if share.ALL else DTYPES[[*FUNCTIONS].index(name) % 3 :: 3]:
        x, y = values(dtype, 0), values(dtype, 1)
        product_of_bools = name == "products" and dtype is eager.bool_
        if parts(FUNCTIONS[name], x, y) is not None and not product_of_bools:
            kernels += kernels_of(helpers.program_of(FUNCTIONS[name], (x, y))[0])
    helpers.compile_together(kernels)
    record_property("compiled", len(kernels))
