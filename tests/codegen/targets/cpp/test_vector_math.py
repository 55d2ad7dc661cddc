"""jitcap_elementary.h against float64 (for float32) and extended precision (for float64).

Each function is compiled once as a vector loop and once as a scalar loop: the two must agree bit by
bit, and stay within the bound (units of the last place) over random bit patterns, ordinary ranges
and special values.
"""

import ctypes
import math

import numpy as np
import pytest

from codegen.targets.cpp.runtime import build, cpu

LONG = np.longdouble
EXTENDED = np.finfo(LONG).nmant > 60


def libm(name):
    return np.vectorize(getattr(math, name), otypes=[np.float64])


def real_pow(x, y):
    return np.power(x, y)


# name -> (reference, bound for f32, bound for f64 (None: libm itself, not tested), interval)
UNARY = {
    "exp": (np.exp, 1.0, 1.0, (-110, 95)),
    "expm1": (np.expm1, 1.6, 1.6, (-30, 95)),
    "exp2": (np.exp2, 0.9, 0.9, (-160, 135)),
    "log": (np.log, 0.9, 1.0, (0, 100)),
    "log1p": (np.log1p, 1.0, 1.1, (-1, 50)),
    "log2": (np.log2, 0.51, 1.0, (0, 100)),
    "sin": (np.sin, 1.43, 1.43, (-100, 100)),
    "cos": (np.cos, 1.43, 1.43, (-100, 100)),
    "tan": (np.tan, 0.51, None, (-100, 100)),
    "tanh": (np.tanh, 1.6, 2.4, (-12, 12)),
    "sinh": (np.sinh, 0.51, 2.0, (-95, 95)),
    "cosh": (np.cosh, 0.51, 1.6, (-95, 95)),
    "asin": (np.arcsin, 0.55, None, (-1, 1)),
    "acos": (np.arccos, 0.55, None, (-1, 1)),
    "atan": (np.arctan, 1.3, None, (-30, 30)),
    "erf": (libm("erf"), 1.3, None, (-5, 5)),
    "erfc": (libm("erfc"), 0.51, None, (-5, 12)),
    "sqrt": (np.sqrt, 0.5, 0.5, (0, 100)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5, 1.5, (0, 100)),
    "floor": (np.floor, 0, 0, (-100, 100)),
    "ceil": (np.ceil, 0, 0, (-100, 100)),
    "trunc": (np.trunc, 0, 0, (-100, 100)),
    "round": (np.rint, 0, 0, (-100, 100)),
}
BINARY = {
    "pow": (real_pow, 0.51, None, (-20, 20)),
    "atan2": (np.arctan2, 1.7, None, (-10, 10)),
    "fmod": (np.fmod, 0, 0, (-100, 100)),
    "mod": (np.remainder, 0, 0, (-100, 100)),
    "floor_div": (np.floor_divide, 0, 0, (-100, 100)),
    "min": (np.minimum, 0, 0, (-1, 1)),
    "max": (np.maximum, 0, 0, (-1, 1)),
}
OTHERS = ("erfinv", "lgamma", "digamma")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, np.inf, -np.inf, np.nan]


def source():
    lines = ['#include "jitcap_math.h"', "using namespace jc;"]
    for ctype in ("f32", "f64"):
        width = "JC_W32" if ctype == "f32" else "JC_W64"
        for suffix, n in (("v", width), ("s", "1")):
            head = f"JC_ENTRY void %s_{ctype}_{suffix}(const {ctype} *a, const {ctype} *b, {ctype} *o, i64 n)"
            body = "{{ for (i64 i = 0; i < n; i += %s) store(o + i, jc::{}({})); }}" % n
            one, two = f"load<{n}>(a + i)", f"load<{n}>(a + i), load<{n}>(b + i)"
            lines += [head % name + body.format(name, one) for name in (*UNARY, *OTHERS)]
            lines += [head % name + body.format(name, two) for name in BINARY]
    return "\n".join(lines)


def feature(name):
    return name in build.isa().split("flags=")[-1].split()


@pytest.fixture(scope="module", params=["native", "haswell", "x86-64"])
def library(request):
    """The functions compiled for this machine, and for older x86 where this one can run them."""
    march = request.param
    if march != "native" and not feature("avx2" if march == "haswell" else "sse2"):
        pytest.skip(f"this processor does not run {march} code")
    try:
        build.compiler()
    except build.NoCompiler as error:
        pytest.skip(str(error))
    return ctypes.CDLL(str(cpu.build_shared({"math.cpp": source()}, [f"-march={march}"]).result()))


def call(library, name, kind, a, b):
    out = np.empty_like(a)
    ctype = {"f4": "f32", "f8": "f64"}[a.dtype.str[1:]]
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, out)]
    getattr(library, f"{name}_{ctype}_{kind}")(*pointers, ctypes.c_int64(len(a)))
    return out


def inputs(dtype, interval, seed):
    """Random bit patterns, a uniform sample of the interval, values near 0, and special values."""
    rng = np.random.default_rng(seed)
    bits = np.dtype(f"u{dtype.itemsize}")
    n = 1 << 16
    patterns = rng.integers(0, np.iinfo(bits).max, n, bits, endpoint=True).view(dtype)
    ordinary = rng.uniform(*interval, 2 * n).astype(dtype)
    small = (rng.normal(size=n) * 10.0 ** rng.uniform(-8, 1, n)).astype(dtype)
    tiny = np.finfo(dtype).smallest_subnormal * np.array([1, -1, 3, 1000], dtype)
    extreme = np.array([np.finfo(dtype).max, np.finfo(dtype).min, np.finfo(dtype).tiny], dtype)
    multiples = (np.arange(-1000, 1000) * (np.pi / 2)).astype(dtype)
    edges = np.concatenate([np.array(SPECIAL, dtype), tiny, extreme, multiples])
    every = np.concatenate([edges, patterns, ordinary, small])
    return np.concatenate([every, np.zeros(-len(every) % 64, dtype)])


def ulps(got, exact):
    """Distance in units of the last place of `exact` rounded to got's type; 0 where both agree."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(got.dtype)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        spacing = np.abs(np.spacing(np.where(np.isinf(rounded), np.finfo(got.dtype).max, rounded)))
        error = np.abs(got.astype(exact.dtype) - exact) / spacing
    return np.where(same, np.minimum(np.nan_to_num(error), 0.5), np.nan_to_num(error, nan=np.inf))


def check(library, name, reference, bound, a, b, arguments):
    vector, scalar = call(library, name, "v", a, b), call(library, name, "s", a, b)
    both_nan = np.isnan(vector) & np.isnan(scalar)
    bits = np.dtype(f"u{a.dtype.itemsize}")
    assert np.all((vector.view(bits) == scalar.view(bits)) | both_nan), "vector != scalar"
    wide = np.float64 if a.dtype == np.float32 else LONG
    if bound == 0:
        wide = a.dtype
    with np.errstate(all="ignore"):
        exact = np.asarray(reference(*(x.astype(wide) for x in arguments)))
    error = ulps(vector, exact)
    worst = int(np.argmax(error))
    detail = [x[worst] for x in arguments]
    print(f"{name} {a.dtype}: {error[worst]:.3f} ulp at {detail}")
    assert error[worst] <= bound, (name, error[worst], detail, vector[worst], exact[worst])
    zeros = (exact == 0) & (vector == 0)
    assert np.all(np.signbit(exact[zeros]) == np.signbit(vector[zeros])), "sign of zero"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", UNARY)
def test_unary(library, name, dtype):
    reference, single, double, interval = UNARY[name]
    bound = single if dtype == "float32" else double
    if bound is None or (dtype == "float64" and not EXTENDED):
        pytest.skip("the function is libm's, or there is no wider reference")
    a = inputs(np.dtype(dtype), interval, 1)
    if name in {"sin", "cos", "tan"} and dtype == "float32":
        a = np.concatenate([a, np.float32(2.0) ** np.arange(64, dtype=np.float32)])
    check(library, name, reference, bound, a, a, [a])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", BINARY)
def test_binary(library, name, dtype):
    reference, single, double, interval = BINARY[name]
    bound = single if dtype == "float32" else double
    if bound is None:
        pytest.skip("the function is libm's")
    special = np.array(SPECIAL, dtype)
    x, y = (g.ravel() for g in np.meshgrid(special, special))
    a, b = inputs(np.dtype(dtype), interval, 2), inputs(np.dtype(dtype), interval, 3)
    b = np.random.default_rng(4).permutation(b)
    pad = np.zeros(-len(x) % 64, dtype)
    a, b = np.concatenate([x, pad, a]), np.concatenate([y, pad, b])
    check(library, name, reference, bound, a, b, [a, b])


def test_special_functions(library):
    """Functions without an independent NumPy reference: inverses, known values, Python's math."""
    x = np.linspace(-0.999999, 0.999999, 4096)
    y = call(library, "erfinv", "s", x, x)
    np.testing.assert_allclose(libm("erf")(y), x, 4e-15, 4e-16)
    assert same_bits(y, call(library, "erfinv", "v", x, x))
    edges = np.array([1.0, -1.0, 0.0, -0.0, 1.5, np.nan, 1e-300, -1e-8] * 8)
    got = call(library, "erfinv", "v", edges, edges)[:8]
    np.testing.assert_array_equal(got[:4], [np.inf, -np.inf, 0.0, -0.0])
    assert np.isnan(got[4:6]).all()
    np.testing.assert_allclose(got[6:], edges[6:8] * math.sqrt(math.pi) / 2, 1e-14)
    z = np.linspace(0.05, 30, 4096)
    np.testing.assert_allclose(call(library, "lgamma", "v", z, z), libm("lgamma")(z), 1e-14, 1e-14)
    psi = call(library, "digamma", "v", z, z)
    np.testing.assert_allclose(call(library, "digamma", "v", z + 1, z), psi + 1 / z, 1e-13, 1e-13)
    one = np.ones(64)
    np.testing.assert_allclose(call(library, "digamma", "v", one, one), -0.5772156649015329, 1e-14)
    reflected = call(library, "digamma", "v", 1 - z, z) - psi
    fine = np.abs(np.sin(np.pi * z)) > 0.1
    np.testing.assert_allclose(reflected[fine], (np.pi / np.tan(np.pi * z))[fine], 1e-9, 1e-9)


def same_bits(a, b):
    return np.array_equal(a.view(np.uint64), b.view(np.uint64))
