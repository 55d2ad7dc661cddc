"""jitcap_simd.h and the integer half of jitcap_math.h against NumPy: memory, masks, conversions."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

from codegen.targets.cpp.runtime import build, cpu
from eager.base.scalar import VOCABULARY

TYPES = {
    "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "u8": np.uint8, "bool": np.bool_, "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
}  # fmt: skip
INTS = ["i8", "i16", "i32", "i64", "u8"]
WIDTHS = ["1", "JC_W64", "JC_W32"]
N = 512
INT_OPS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floor_div": np.floor_divide,
    "mod": np.remainder, "fmod": np.fmod, "min": np.minimum, "max": np.maximum,
    "and_": np.bitwise_and, "or_": np.bitwise_or, "xor_": np.bitwise_xor,
    "shl": np.left_shift, "shr": np.right_shift, "pow": VOCABULARY["pow"].numpy,
}  # fmt: skip
REDUCTIONS = {"Sum": np.sum, "Prod": np.prod, "Min": np.min, "Max": np.max}

HEAD = """
#include "jitcap_kernel.h"
using namespace jc;
template <int N, class S, class T> void convert(const S *a, T *o) {
  typedef vec<T, 1> R;
  for (int i = 0; i < 512; i += N) {
    auto v = load<N>(a + i);
    if constexpr (same<S, bool>) store(o + i, from_mask<R>(v));
    else if constexpr (same<T, bool>) store(o + i, to_bool(v));
    else store(o + i, cvt<R>(v));
  }
}
template <int N, class T> void tails(const T *a, T *o) {  // n elements at a time for n = 0 .. N
  for (int n = 0; n <= N; n++, a += N, o += N) store_n(o, load_n<N>(a, n), n);
}
template <int N, class T> void gathers(const T *a, const i64 *index, T *o) {
  for (int i = 0; i < 96; i += N) {
    auto pick = [&](int n) { return lanes_of<decltype(load<N>(a))>(n, [&](int l) { return ld1(a + index[i + l]); }); };
    store(o + i, pick(N));
    store(o + 96 + i, strided<N>(a + i, 3));
    store_strided(o + 300 + 2 * i, 2, load<N>(a + i));
    store_n(o + 192 + i, pick(N / 2), N / 2);
  }
}
template <int N, class T> void streams(const T *a, T *o) {
  for (int i = 0; i < 448; i += N) store_stream(o + i, load<N>(a + i));
  fence();
}
template <int N, class T, class F> void pairs(const T *a, const T *b, T *o, F f) {
  for (int i = 0; i < 512; i += N) store(o + i, f(load<N>(a + i), load<N>(b + i)));
}
"""


def source():
    lines = [HEAD]
    void = "JC_ENTRY void"
    for w in WIDTHS:
        for s in TYPES:
            lines.append(
                f"{void} tails_{s}_{w}(const {s} *a, {s} *o) {{ tails<{w}>(a, o); }}\n"
                f"{void} streams_{s}_{w}(const {s} *a, {s} *o) {{ streams<{w}>(a, o); }}\n"
                f"{void} gathers_{s}_{w}(const {s} *a, const i64 *x, {s} *o) {{ gathers<{w}>(a, x, o); }}"
            )
            lines += [
                f"{void} convert_{s}_{t}_{w}(const {s} *a, {t} *o) {{ convert<{w}>(a, o); }}"
                for t in TYPES
            ]
        for s in INTS:
            lines += [
                f"{void} {op}_{s}_{w}(const {s} *a, const {s} *b, {s} *o) {{"
                f" pairs<{w}>(a, b, o, [](auto x, auto y) {{ return jc::{op}(x, y); }}); }}"
                for op in INT_OPS
            ]
        for s in [*INTS, "f32", "f64"]:
            lines += [
                f"{void} {r}_{s}_{w}(const {s} *a, {s} *o) {{ *o = reduce<{r}>(load<{w}>(a)); }}"
                for r in REDUCTIONS
            ]
    return "\n".join(lines)


@pytest.fixture(scope="module", params=["native", "haswell", "x86-64"])
def library(request):
    march = request.param
    needed = {"native": None, "haswell": "avx2", "x86-64": "sse2"}[march]
    if needed and needed not in build.isa().split():
        pytest.skip(f"this processor does not run {march} code")
    try:
        build.compiler()
    except build.NoCompiler as error:
        pytest.skip(str(error))
    return ctypes.CDLL(
        str(cpu.build_shared({"simd.cpp": source()}, [f"-march={march}", "-O1"]).result())
    )


def call(library, name, *arrays):
    getattr(library, name)(*(ctypes.c_void_p(a.ctypes.data) for a in arrays))


def sample(name, seed=0):
    """512 values: random bits for integers, moderate numbers and specials for floats."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(TYPES[name])
    if name == "bool":
        return rng.integers(0, 2, N).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max, N, dtype, endpoint=True)
        values[:6] = [0, 1, info.max, info.min, 2, 3]
        return values
    values = (rng.normal(size=N) * 10.0 ** rng.uniform(-8, 4, N)).astype(np.float32)
    values[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 65504, 1e-7, 3e38]
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def same(a, b):
    with np.errstate(all="ignore"):
        nan = (a != a) & (b != b)
    bits = np.dtype(f"u{a.dtype.itemsize}")
    return np.all((a.view(bits) == b.view(bits)) | nan)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("source_type", TYPES)
def test_convert(library, source_type, width):
    a = sample(source_type)
    for target in TYPES:
        x = a
        if np.dtype(TYPES[target]).kind in "iu" and source_type in {"f32", "f64", "f16", "bf16"}:
            x = np.clip(np.nan_to_num(a.astype(np.float64)), -100, 100).astype(a.dtype)
            if target == "u8":
                x = np.abs(x)
        out = np.zeros(N, TYPES[target])
        call(library, f"convert_{source_type}_{target}_{width}", x, out)
        through = x.astype(np.float32) if source_type in {"f16", "bf16"} else x
        if target in {"f16", "bf16"} and source_type != "bool":
            through = through.astype(np.float32)  # 16-bit floats are stored from f32
        with np.errstate(all="ignore"):
            expected = through.astype(TYPES[target])
        assert same(out, expected), (source_type, target)


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("width", WIDTHS)
def test_every_16_bit_float_survives(library, name, width):
    every = np.arange(1 << 16, dtype=np.uint16).view(TYPES[name])
    for chunk in every.reshape(-1, N):
        wide = np.zeros(N, np.float32)
        call(library, f"convert_{name}_f32_{width}", chunk.copy(), wide)
        assert same(wide, chunk.astype(np.float32))
        back = np.zeros(N, TYPES[name])
        call(library, f"convert_f32_{name}_{width}", wide, back)
        assert same(back, chunk)


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("width", WIDTHS)
def test_rounding_to_16_bits(library, name, width):
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 1 << 32, 64 * N, np.uint32)
    ties = (rng.integers(0, 1 << 16, 64 * N, np.uint32) << 16) | 0x8000
    half = (rng.integers(0, 1 << 16, 64 * N, np.uint16).view(np.float16)).astype(np.float32)
    close = half.view(np.uint32) + rng.choice(np.array([0x1000, 0xFFF, 0x1001], np.uint32), 64 * N)
    for chunk in (
        np.concatenate([bits, ties.astype(np.uint32), close]).view(np.float32).reshape(-1, N)
    ):
        out = np.zeros(N, TYPES[name])
        call(library, f"convert_f32_{name}_{width}", chunk.copy(), out)
        with np.errstate(all="ignore"):
            assert same(out, chunk.astype(TYPES[name]))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", TYPES)
def test_partial_load_and_store(library, name, width):
    a, out = sample(name), sample(name, 5)
    before = out.copy()
    call(library, f"tails_{name}_{width}", a, out)
    lanes = [i for i in range(N) if not same(out[i : i + 1], before[i : i + 1])]
    for w in (1, 2, 4, 8, 16):  # the width is the compiler's: one of them must explain everything
        expected = before.copy()
        for n in range(min(w, N // w - 1) + 1):
            expected[n * w : n * w + n] = a[n * w : n * w + n]
        if same(out, expected):
            return
    raise AssertionError(lanes)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", TYPES)
def test_stores_past_the_caches(library, name, width):
    a = sample(name)
    for shift in (0, 1):  # whole lines, and addresses that need ordinary stores
        memory = np.zeros(N + 128, a.dtype)
        start = (-memory.ctypes.data % 64) // a.dtype.itemsize + shift
        out = memory[start : start + N]
        call(library, f"streams_{name}_{width}", a, out)
        assert same(out[:448].copy(), a[:448])
        assert not np.any(out[448:].astype(np.float32))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", TYPES)
def test_lanes_from_anywhere(library, name, width):
    a, out = sample(name), np.zeros(N, TYPES[name])
    index = np.random.default_rng(2).permutation(96)
    call(library, f"gathers_{name}_{width}", a, index, out)
    assert same(out[:96], a[index])
    step = next(w for w in (1, 2, 4, 8, 16) if same(out[96:192], strided(a, w)))
    halves = np.arange(96) % step < step // 2
    assert same(out[192:288][halves], a[index][halves])
    assert not np.any(out[192:288][~halves].astype(np.float32))
    assert same(out[300:492:2], a[:96])


def strided(a, w):
    return np.concatenate([a[i : i + 3 * w : 3] for i in range(0, 96, w)])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", INTS)
def test_integer_ops(library, name, width):
    for op, reference in INT_OPS.items():
        a, b = sample(name, 1), sample(name, 2)
        if op in {"shl", "shr"}:
            b = np.abs(b % 70).astype(b.dtype)
        else:
            b[::7] = 0
            b[3::7] = -1 if name != "u8" else 1
            a[3::14] = np.iinfo(a.dtype).min
        out = np.zeros_like(a)
        call(library, f"{op}_{name}_{width}", a, b, out)
        with np.errstate(all="ignore"):
            expected = reference(a, b)
        assert np.array_equal(out, expected), (op, a[out != expected], b[out != expected])


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [*INTS, "f32", "f64"])
def test_reduce(library, name, width):
    a = (sample(name, 3)[100:] if name in INTS else np.linspace(-2, 3, N)).astype(TYPES[name])
    for reduction, reference in REDUCTIONS.items():
        out = np.zeros(1, a.dtype)
        call(library, f"{reduction}_{name}_{width}", a, out)
        with np.errstate(all="ignore"):
            expected = [reference(a[:w], **dtype_of(reduction, a)) for w in (1, 2, 4, 8, 16)]
        assert any(np.isclose(float(out[0]), float(e), 1e-5) for e in expected), reduction


def dtype_of(reduction, a):
    return {"dtype": a.dtype} if reduction in {"Sum", "Prod"} else {}


@pytest.mark.parametrize("width", WIDTHS[1:])
@pytest.mark.parametrize("reduction", ["Min", "Max"])
def test_reduce_keeps_nan(library, reduction, width):
    for position in range(2):
        a = np.arange(16, dtype=np.float64)
        a[position] = np.nan
        out = np.zeros(1)
        call(library, f"{reduction}_f64_{width}", a, out)
        assert np.isnan(out[0])
