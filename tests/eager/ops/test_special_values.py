"""Zeros with a sign, infinities, NaN, poles and the ends of the range, as PyTorch has them, in eager
and in one compiled graph."""

import math

import numpy as np
import pytest

import eager
from eager.nn import functional as F
from jitcap import jit

pytestmark = pytest.mark.once

INF, NAN = math.inf, math.nan
LARGEST = float(np.finfo("f4").max)
# (function, arguments, values)
CASES = [
    (lambda x: x.asinh(), [[-0.0, 0.0, LARGEST, -LARGEST, INF]],
     [-0.0, 0.0, 89.415986, -89.415986, INF]),
    (lambda x: x.acosh(), [[1.0, LARGEST, INF, -2.0]], [0.0, 89.415986, INF, NAN]),
    (eager.heaviside, [[NAN, 0.0, -0.0, 1.0, -1.0], [0.5] * 5], [0.0, 0.5, 0.5, 1.0, 0.0]),
    (eager.remainder, [[-0.0, 0.0, -3.0, 3.0, 0.0], [2.0, -2.0, 3.0, -3.0, -INF]],
     [-0.0, 0.0, -0.0, 0.0, 0.0]),
    (eager.remainder, [[5.0, -5.0, 5.0, -5.0, NAN], [3.0, 3.0, -3.0, -INF, 1.0]],
     [2.0, 1.0, -1.0, -5.0, NAN]),
    (lambda x: x.digamma(), [[-0.9999998807907104, -88.72283935546875, -1.0, 2.0]],
     [-8388607.5, 1.8446367, NAN, 0.42278434]),
    (lambda x: eager.polygamma(1, x), [[INF, 2.0]], [0.0, 0.64493407]),
    (eager.special.xlog1py, [[INF, 2.0, 0.0, 0.0], [1e-38, 1e-9, -1.0, NAN]],
     [INF, 2e-9, 0.0, NAN]),
    (lambda x: x.double().erfc(), [[INF, 30.0, -INF, NAN, 3.0]], [0.0, 0.0, 2.0, NAN, 2.2090497e-5]),
    (lambda x: x.lgamma(), [[-1e-37, 1e-37, -0.5, -1.0, -INF]],
     [85.195653, 85.195653, 1.2655121, INF, INF]),
    (eager.special.spherical_bessel_j0, [[INF, -INF, 0.0, NAN]], [0.0, 0.0, 1.0, NAN]),
    (lambda x, y: x**y, [[0.0, -0.0, 0.0, 0.0], [-1.0, -1.0, -2.0, 0.0]], [INF, -INF, INF, 1.0]),
]  # fmt: skip


def _same(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-5)
    zero = np.equal(want, 0)
    np.testing.assert_array_equal(np.signbit(got)[zero], np.signbit(want)[zero])


@pytest.mark.parametrize("backend", [None, "python", "cpp"])
def test_special_values(backend):
    operands = [[eager.tensor(x) for x in given] for _, given, _ in CASES]

    def step(operands):
        return [fn(*xs) for (fn, _, _), xs in zip(CASES, operands, strict=True)]

    results = (step if backend is None else jit(step, backend=backend))(operands)
    for (_, _, want), got in zip(CASES, results, strict=True):
        _same(got.numpy(), np.array(want, "f4"))


@pytest.mark.parametrize("backend", [None, "python", "cpp"])
def test_the_sign_bit_of_nan(backend):
    def signs(x):
        return eager.signbit(x), eager.copysign(eager.ones_like(x), x)

    run = signs if backend is None else jit(signs, backend=backend)
    x = np.copysign([NAN, 0.0, INF, 1e-320], np.array([[-1.0], [1.0]])).repeat(5, 1)
    for dtype in ("f4", "f8", "f2"):
        found, ones = run(eager.from_numpy(x.astype(dtype)))
        np.testing.assert_array_equal(found.numpy(), np.signbit(x))
        np.testing.assert_array_equal(ones.numpy(), np.copysign(1, x))


def test_complex_branches_are_those_of_numpy():
    x = np.array([complex(-2, -0.0), complex(-2, 0.0), -2 - 1j, 1e-3j], "c16")
    np.testing.assert_allclose(eager.from_numpy(x).acosh().numpy(), np.arccosh(x))


def test_nan_is_one_value_to_mode():
    x = eager.tensor([[NAN, NAN, 1.0], [NAN, 2.0, 2.0], [3.0, NAN, 1.0]])
    for fn in (eager.mode, jit(eager.mode, backend="python")):
        values, places = fn(x)
        np.testing.assert_array_equal(values.numpy(), np.array([NAN, 2.0, 1.0], "f4"))
        assert places.tolist() == [1, 2, 2]


# at 0.5, 2.25, 7.5 and 20, to all digits of float64
BESSEL = {
    "i0": [1.0634833707413236, 2.7270783071907956, 268.16131151518937, 43558282.559553534],
    "i1": [0.2578943053908963, 2.003967456929593, 249.58436542268814, 42454973.38512777],
    "modified_bessel_k0": [
        0.9244190712276659,
        0.08404311197465811,
        0.00024917761635611437,
        5.741237815336525e-10,
    ],
    "modified_bessel_k1": [
        1.656441120003301,
        0.10121630256832526,
        0.0002652973901252895,
        5.883057969557038e-10,
    ],
    "bessel_j0": [0.9384698072408129, 0.08274985128873404, 0.2663396578803784, 0.16702466434058316],
    "bessel_y1": [
        -1.471472392670243,
        0.02719205773801714,
        -0.25912851048611624,
        -0.1655116143625213,
    ],
}


@pytest.mark.parametrize("name", BESSEL)
def test_bessel_functions_have_the_precision_of_float64(name):
    x = eager.tensor([0.5, 2.25, 7.5, 20.0], dtype=eager.float64)
    got = getattr(eager.special, name)(x).numpy()
    np.testing.assert_allclose(got, BESSEL[name], rtol=1e-13)


def test_incomplete_gammas_of_large_numbers():
    a = eager.tensor([1e6, 1e6, 1e10, 3e300, 1e5 + 1], dtype=eager.float64)
    x = eager.tensor([1e6, 1.001e6, 1e10, 3e300, 1e5], dtype=eager.float64)
    want = [0.5001329807590223, 0.8413447863672274, 0.5000013298, 0.5, 0.499158956895]
    np.testing.assert_allclose(eager.special.gammainc(a, x).numpy(), want, rtol=1e-9)
    total = eager.special.gammainc(a, x) + eager.special.gammaincc(a, x)
    np.testing.assert_allclose(total.numpy(), 1.0)


@pytest.mark.parametrize("n", [6, 7, 8])
def test_means_of_windows_that_begin_in_the_padding(n):
    x = eager.ones(1, 1, n, n)
    out = F.avg_pool2d(x, 2, 3, 1, ceil_mode=True, count_include_pad=False)
    assert (out == 1).all()
    corner = F.avg_pool2d(x, 2, 3, 1, ceil_mode=True)[0, 0, 0, 0]
    assert corner == 0.25


@pytest.mark.parametrize(
    ("sizes", "want"),
    [((-1, 2), [1, 2, 3, 2, 1]), ((-2, 2), [2, 3, 2, 1]), ((1, -1), [1, 0, 1, 2]),
     ((2, -3), [2, 1, 0]), ((-4, 2), [2, 1]), ((-1, -1), [1, 2])],
)  # fmt: skip
def test_a_mirror_shows_what_is_cut(sizes, want):
    x = eager.arange(4.0).reshape(1, 1, 4)
    assert F.pad(x, sizes, mode="reflect").flatten().tolist() == want


def test_correlations_of_complex_numbers():
    rows = np.array([[1 + 1j, 2, 3j], [2, 1j, 4]], "c8")
    got = eager.corrcoef(eager.from_numpy(rows)).numpy()
    np.testing.assert_allclose(got, np.corrcoef(rows), rtol=1e-5)


def test_loaded_state_is_shared():
    def optimizer():
        weight = eager.ones(2, requires_grad=True)
        return eager.optim.Adam([weight]), weight

    first, weight = optimizer()
    weight.sum().backward()
    first.step()
    saved = first.state_dict()
    second, other = optimizer()
    second.load_state_dict(saved)
    for name in ("exp_avg", "exp_avg_sq", "step"):
        assert second.state[other][name] is saved["state"][0][name]
    assert second.param_groups[0] is not saved["param_groups"][0]


# (function of x, y and the number 3.3; the same in float32 of that number rounded to 16 bits, or not)
BESIDE_NUMBERS = [
    (lambda x, y, s: x + s, lambda x, y, s, r: x + r),
    (lambda x, y, s: s - x, lambda x, y, s, r: r - x),
    (lambda x, y, s: x % s, lambda x, y, s, r: np.mod(x, r)),
    (lambda x, y, s: x < s, lambda x, y, s, r: x < r),
    (lambda x, y, s: x * s, lambda x, y, s, r: x * s),
    (lambda x, y, s: x / s, lambda x, y, s, r: x / s),
    (lambda x, y, s: eager.add(x, y, alpha=s), lambda x, y, s, r: x + r * y),
    (lambda x, y, s: eager.sub(x, y, alpha=s), lambda x, y, s, r: x - r * y),
    (lambda x, y, s: eager.add(x, s, alpha=3), lambda x, y, s, r: x + 3 * r),
    (lambda x, y, s: x + eager.tensor(3.3), lambda x, y, s, r: x + r),
    (lambda x, y, s: x.clone().add_(s), lambda x, y, s, r: x + r),
]


@pytest.mark.parametrize("dtype", [eager.float16, eager.bfloat16])
@pytest.mark.parametrize("backend", [None, "python", "cpp"])
def test_numbers_beside_16_bit_floats(dtype, backend):
    rng = np.random.default_rng(0)
    x, y = (eager.from_numpy(rng.normal(size=200) * 5).to(dtype) for _ in range(2))

    def step(x, y, s):
        return [fn(x, y, s) for fn, _ in BESIDE_NUMBERS]

    results = (step if backend is None else jit(step, backend=backend))(x, y, 3.3)
    s, r = np.float32(3.3), eager.tensor(3.3, dtype=dtype).float().numpy()
    for (_, exact), got in zip(BESIDE_NUMBERS, results, strict=True):
        want = exact(x.float().numpy(), y.float().numpy(), s, r)
        if want.dtype != bool:
            want = eager.from_numpy(want).to(dtype).float().numpy()
        np.testing.assert_array_equal(got.float().numpy(), want)


def test_two_numbers_give_the_default_dtype():
    for got, want, dtype in (
        (eager.add(4, 3.3), 7.3, eager.float32),
        (eager.div(4, 3), 4 / 3, eager.float32),
        (eager.sub(4, 3.5), 0.5, eager.float32),
        (eager.mul(2j, 3), 6j, eager.complex64),
        (eager.div(7.5, 2, rounding_mode="trunc"), 3.0, eager.float32),
        (eager.add(4, 3), 7, eager.int64),
        (eager.floor_divide(7, 2), 3, eager.int64),
    ):
        assert got.dtype is dtype
        assert got.item() == pytest.approx(want)


# Just above the middle of two neighbours in float16, where float32 does not see it.
MIDDLE = 1 + 2**-11 + 2**-40


@pytest.mark.parametrize("backend", ["python", "cpp"])
def test_float64_becomes_float16_by_way_of_float32(backend):
    x = eager.tensor([MIDDLE, 2049.0001, 65519.99], dtype=eager.float64)
    for got in (x.half(), jit(lambda x: x.half(), backend=backend)(x)):
        assert got.tolist() == [1.0, 2048.0, 65504.0]
    assert eager.full((1,), MIDDLE, dtype=eager.float16).item() == 1.0
    assert eager.tensor([MIDDLE], dtype=eager.float16).item() == 1.0


@pytest.mark.parametrize("dtype", [eager.float16, eager.bfloat16])
def test_draws_in_16_bits_are_finite(dtype):
    from_here = eager.distributions
    eager.manual_seed(0)
    zero, one = eager.zeros(20_000, dtype=dtype), eager.ones(20_000, dtype=dtype)
    for law in (
        from_here.Laplace(zero, one),
        from_here.Gumbel(zero, one),
        from_here.Exponential(one),
        from_here.Weibull(one, one),
        from_here.Geometric(one * 0.3),
    ):
        drawn = law.sample()
        assert drawn.dtype is dtype
        assert drawn.isfinite().all()
    for fill in (lambda x: x.exponential_(), lambda x: x.geometric_(0.3)):
        assert fill(zero.clone()).isfinite().all()
    uniform = eager.rand(20_000, dtype=dtype)
    assert 0 <= uniform.min() <= uniform.max() < 1
    compiled = jit(lambda x: (x.clone().exponential_(), eager.rand(20_000, dtype=x.dtype)))
    eager.manual_seed(1)
    drawn = compiled(zero)
    eager.manual_seed(1)
    for got, want in zip(drawn, compiled.original(zero), strict=True):
        np.testing.assert_allclose(got.float().numpy(), want.float().numpy(), rtol=1e-2)


COMPLEX_VALUES = {
    "nan_to_num": (eager.nan_to_num, np.nan_to_num),
    "nan_to_num of given numbers": (
        lambda z: z.nan_to_num(1.0, 2.0, 3.0),
        lambda z: np.nan_to_num(z, nan=1.0, posinf=2.0, neginf=3.0),
    ),
    "log10": (eager.log10, np.log10),
    "atanh": (lambda z: z[3:].atanh(), lambda z: np.arctanh(z[3:])),
}


@pytest.mark.parametrize("name", COMPLEX_VALUES)
def test_complex_numbers_part_by_part(name):
    parts = [(INF, 1), (NAN, -INF), (-INF, NAN), (0, 0), (1, 0), (-1, 0), (0, 2)]
    values = np.array([complex(*pair) for pair in parts])
    function, reference = COMPLEX_VALUES[name]
    with np.errstate(all="ignore"):
        got, want = function(eager.tensor(values)).numpy(), reference(values)
    np.testing.assert_array_equal(np.isnan(got.view(float)), np.isnan(want.view(float)))
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_the_angle_of_zero_has_no_gradient():
    z = eager.tensor([1 + 1j, 0j], requires_grad=True)
    z.angle().sum().backward()
    assert z.grad.tolist() == [-0.5 + 0.5j, 0j]


@pytest.mark.parametrize("backend", [None, "python", "cpp"])
def test_powers_of_zero_fall_without_end_at_negative_exponents(backend):
    def step(base, x):
        return eager.autograd.grad((base**x).sum() + (0.0**x).sum(), x)[0]

    x = eager.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    got = (step if backend is None else jit(step, backend=backend))(eager.zeros(3), x)
    assert got.tolist() == [-INF, 0.0, 0.0]


def test_nothing_has_a_median_that_is_no_number():
    assert eager.zeros(0, 3).nanmedian().isnan()


def test_a_number_falls_into_a_bucket():
    assert eager.bucketize(0.5, eager.tensor([0.0, 1.0])).item() == 1


def test_the_kth_value_does_not_keep_the_others():
    found = eager.arange(12.0).reshape(3, 4).kthvalue(2, 0)
    for each in found:
        assert each.stride() == (1,) and each.untyped_storage().nbytes() <= 32


def test_bits_of_floats_are_refused_in_the_words_of_the_library():
    with pytest.raises(NotImplementedError, match='"bitwise_not" not implemented'):
        eager.bitwise_not(eager.ones(2))
