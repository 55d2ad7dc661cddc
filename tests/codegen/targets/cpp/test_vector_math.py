"""jitcap_elementary.h against float64 (for float32) and extended precision (for float64).

Each function is compiled once as a vector loop and once as a scalar loop: the two must agree bit by
bit, and stay within the bound (units of the last place) over random bit patterns, ordinary ranges
and special values.
"""

import ctypes

import numpy as np
import pytest

import eager
from codegen.targets.cpp.runtime import build, cpu
from jitcap import explain, jit

LONG = np.longdouble
EXTENDED = np.finfo(LONG).nmant > 60


def real_pow(x, y):
    return np.power(x, y)


# name -> (reference, bound for f32, bound for f64 (None: libm itself, not tested), interval). What
# NumPy lacks is C's of long doubles, by its name.
UNARY = {
    "exp": (np.exp, 1.0, 1.0, (-110, 95)),
    "expm1": (np.expm1, 1.6, 1.6, (-30, 95)),
    "exp2": (np.exp2, 0.8, 0.7, (-160, 135)),
    "log": (np.log, 0.9, 1.0, (0, 100)),
    "log1p": (np.log1p, 1.0, 1.1, (-1, 50)),
    "log2": (np.log2, 0.51, 1.0, (0, 100)),
    "sin": (np.sin, 1.43, 1.43, (-100, 100)),
    "cos": (np.cos, 1.43, 1.43, (-100, 100)),
    "tan": (np.tan, 0.51, 1.3, (-100, 100)),
    "tanh": (np.tanh, 1.6, 2.4, (-12, 12)),
    "sinh": (np.sinh, 0.51, 2.0, (-95, 95)),
    "cosh": (np.cosh, 0.51, 1.6, (-95, 95)),
    "asin": (np.arcsin, 0.51, 0.65, (-1, 1)),
    "acos": (np.arccos, 0.51, 1.0, (-1, 1)),
    "atan": (np.arctan, 1.3, 0.7, (-30, 30)),
    "erf": ("erf", 1.3, 1.3, (-5, 5)),
    "lgamma": ("lgamma", 0.55, None, (-20, 40)),
    "sqrt": (np.sqrt, 0.5, 0.5, (0, 100)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 1.5, 1.5, (0, 100)),
    "floor": (np.floor, 0, 0, (-100, 100)),
    "ceil": (np.ceil, 0, 0, (-100, 100)),
    "trunc": (np.trunc, 0, 0, (-100, 100)),
    "round": (np.rint, 0, 0, (-100, 100)),
}
BINARY = {
    "pow": (real_pow, 0.51, 0.8, (-20, 20)),
    "atan2": (np.arctan2, 1.7, 1.1, (-10, 10)),
    "fmod": (np.fmod, 0, 0, (-100, 100)),
    "mod": (np.remainder, 0, 0, (-100, 100)),
    "floor_div": (np.floor_divide, 0, 0, (-100, 100)),
    "min": (np.minimum, 0, 0, (-1, 1)),
    "max": (np.maximum, 0, 0, (-1, 1)),
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, np.inf, -np.inf, np.nan]


def source():
    lines = ['#include "jitcap_math.h"', "using namespace jc;"]
    lines += [
        f"JC_ENTRY void {name}_long(const f64 *a, long double *o, i64 n)"
        f" {{ for (i64 i = 0; i < n; i++) o[i] = __builtin_{name}l(a[i]); }}"
        for name, (reference, *_) in UNARY.items()
        if isinstance(reference, str)
    ]
    for ctype in ("f32", "f64"):
        width = "JC_W32" if ctype == "f32" else "JC_W64"
        for suffix, n in (("v", width), ("s", "1")):
            head = f"JC_ENTRY void %s_{ctype}_{suffix}(const {ctype} *a, const {ctype} *b, {ctype} *o, i64 n)"
            body = "{{ for (i64 i = 0; i < n; i += %s) store(o + i, jc::{}({})); }}" % n
            one, two = f"load<{n}>(a + i)", f"load<{n}>(a + i), load<{n}>(b + i)"
            lines += [head % name + body.format(name, one) for name in UNARY]
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


def in_long_doubles(library, name, a):
    out = np.empty(len(a), LONG)
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, out)]
    getattr(library, f"{name}_long")(*pointers, ctypes.c_int64(len(a)))
    return out


def inputs(dtype, interval, seed):
    """Random bit patterns, a uniform sample of the interval, values near 0 and near 1, and special
    values."""
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
    near = (1 + np.array([[1], [-1]]) * 2.0 ** rng.uniform(-54, -1, 2048)).ravel().astype(dtype)
    every = np.concatenate([edges, near, patterns, ordinary, small])
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
        if isinstance(reference, str):
            exact = in_long_doubles(library, reference, a.astype(np.float64))
        else:
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
    if bound is None or (dtype == "float64" and bound and not EXTENDED):
        pytest.skip("the function is libm's, or there is no wider reference")
    special = np.array(SPECIAL, dtype)
    x, y = (g.ravel() for g in np.meshgrid(special, special))
    a, b = inputs(np.dtype(dtype), interval, 2), inputs(np.dtype(dtype), interval, 3)
    b = np.random.default_rng(4).permutation(b)
    if name == "pow":  # powers over the whole range of numbers, of bases near to and far from 1
        with np.errstate(divide="ignore", over="ignore"):
            of_e = np.exp(a[-4096:] * np.repeat([1e-8, 1e-3, 1, 10], 1024)).astype(dtype)
            power = np.linspace(-745, 710, 4096) / np.log(of_e.astype(np.float64))
        a, b = np.concatenate([of_e, a]), np.concatenate([power.astype(dtype), b])
    pad = np.zeros(-len(x) % 64, dtype)
    a, b = np.concatenate([x, pad, a]), np.concatenate([y, pad, b])
    check(library, name, reference, bound, a, b, [a, b])


def test_powers_that_are_numbers_are_exact(library):
    """Two to every power, subnormal ones too, and whole numbers to whole powers below 2^53."""
    powers = np.arange(-1088.0, 1024.0)
    twos = np.ldexp(1.0, powers.astype(int))
    np.testing.assert_array_equal(call(library, "exp2", "v", powers, powers), twos)
    np.testing.assert_array_equal(call(library, "pow", "v", np.full_like(powers, 2), powers), twos)
    pairs = [(b, e) for b in range(3, 200) for e in range(2, 34) if b**e < 2**53]
    x, y = np.array((pairs + [(1, 1)] * (-len(pairs) % 64)), np.float64).T.copy()
    exact = [int(b) ** int(e) for b, e in zip(x, y, strict=True)]
    np.testing.assert_array_equal(call(library, "pow", "v", x, y), exact)


def test_two_to_a_power_is_exp2():
    """A base that is the constant 2 needs no logarithm."""
    x = eager.tensor(np.linspace(-1100, 1100, 301))

    def program(x):
        return 2.0**x

    with np.errstate(over="ignore", under="ignore"):
        np.testing.assert_allclose(jit(program)(x).numpy(), np.exp2(x.numpy()), 1e-15)
    assert "exp2(" in explain(program)(x).stages["source"]


def test_a_power_alone_is_pythons():
    """Of a float64 that has no lanes, as of the corrections of Adam."""
    power = jit(lambda x, y: x**y)
    rng = np.random.default_rng(5)
    for x, y in zip(rng.uniform(0.5, 1, 200), rng.integers(1, 3000, 200), strict=True):
        made = power(eager.tensor(x, dtype=eager.float64), eager.tensor(y, dtype=eager.float64))
        assert made.item() == float(x) ** float(y)
    source = explain(lambda x, y: (x**y).sin())(
        eager.tensor(x), eager.tensor(1.0, dtype=eager.float64)
    )
    assert "pow_alone(" in source.stages["source"]
