"""Every kind of op: the loops as Python and as C++ against eager, over odd shapes, strides and
element types."""

import ml_dtypes
import numpy as np
import pytest

import eager
import eager.nn.functional as F
from tests.codegen.checking import check, check_each, compiled, floats, ints

SHAPES = [(), (1,), (5,), (16,), (17,), (0,), (3, 1), (1, 37), (4, 33), (2, 3, 5), (0, 4)]
DTYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
INTS = [np.int8, np.uint8, np.int16, np.int32, np.int64]


def test_pointwise():
    def fn(x, y):
        return (x * y + 1).tanh() - y / 3

    check_each([(fn, (floats(*shape), floats(*shape, seed=1))) for shape in SHAPES])


@pytest.mark.parametrize("dtype", DTYPES)
def test_float_types_round_where_eager_rounds(dtype):
    exact = {"rtol": 0, "atol": 0}
    check(
        lambda x, y: x * y + x - 0.1,
        floats(67, dtype=dtype),
        floats(67, seed=1, dtype=dtype),
        **exact,
    )
    check(
        lambda x: (x.sum(1), x.amax(0), x.mean(1)),
        floats(6, 35, dtype=dtype),
        rtol=1e-2 if dtype != np.float64 else 1e-12,
        atol=1e-2,
    )


@pytest.mark.parametrize("dtype", INTS)
def test_int_types(dtype):
    x, y = ints(-100, 100, 37, dtype=dtype), ints(1, 9, 37, dtype=dtype)
    check(
        lambda x, y: (x + y, x * y, x // y, x % y, x & y, x < y, x.sum(), x.to(eager.float32) / y),
        x,
        y,
    )


def test_bool():
    x = floats(41)
    check(
        lambda x: (
            eager.where(x > 0, x, 0.0),
            ~(x > 0),
            ((x > 0) | (x < -1)).sum(),
            (x > 0).any(),
            (x > 2).all(),
        ),
        x,
    )


def test_broadcast():
    def fn(x, y):
        return (x - y).exp() * y

    shapes = [((5, 7), (7,)), ((5, 1, 9), (4, 1)), ((1,), (3, 4)), ((), (2, 3))]
    check_each([(fn, (floats(*a), floats(*b))) for a, b in shapes])


def test_views_and_moves():
    fns = [
        lambda x: x.permute(2, 0, 1) * 2,
        lambda x: x[1:4, ::2] + x[:3, 1::2],
        lambda x: (x.reshape(10, -1).t() + 1).reshape(-1),
        lambda x: x[:, 3].unsqueeze(0).expand(4, 5, 40) * x[0, :5],
        lambda x: x.diagonal(0, 0, 1) + 1,
        lambda x: x.unfold(2, 8, 4).sum(-1),
        lambda x: eager.flip(x, (1, 2)),
        lambda x: F.pad(x, (1, 2, 3, -1)) * 2,
        lambda x: eager.cat([x, x * 2, x[:, :2]], 1) + 1,
    ]
    check_each([(fn, (floats(5, 6, 40),)) for fn in fns])


def test_strided_inputs():
    base = floats(12, 20)
    fns = [lambda x: (x * 2).sum(), lambda x: x.exp() + 1]
    strided = (base.T, base[::2, 1::3], np.broadcast_to(base[:, :1], (12, 20)), base[:, 0])
    check_each([(fn, (x,)) for x in strided for fn in fns])


def test_reductions():
    shapes = [(7, 11), (1, 1), (33, 100), (3, 5, 64), (300, 3), (2, 70000)]
    fns = [
        lambda x: (x.sum(), x.sum(0), x.sum(-1), x.mean(-1, keepdim=True)),
        lambda x: (x.amax(0), x.amin(-1), x.argmax(-1), x.argmin(0), x.argmax()),
    ]
    for fn, how in zip(fns, ({"rtol": 1e-4, "atol": 1e-3}, {}), strict=True):
        check_each([(fn, (floats(*shape),)) for shape in shapes], **how, backends=("cpp",))


def test_the_place_of_truth():
    """True lanes are -1 in a mask, which is below False."""
    x = np.array([[1, -1, 3], [-2, -1, -4]], np.float32)
    check(
        lambda x: (
            *(x > 0).max(0),
            *(x > 0).max(1),
            *(x < 0).min(1),
            *(x.repeat(1, 9) > 2).max(1),
            *(x.repeat(9, 1) > 2).min(0),
        ),
        x,
    )


def test_the_place_where_all_are_as_extreme_as_can_be():
    """What equals the start of the search is found, too: the first of them."""
    low, high = np.full((3, 21), -np.inf, np.float32), np.full((3, 21), 127, np.int8)
    check(
        lambda x, y: (
            *(x.argmax(0), x.argmax(1), x.argmax(), (-x).argmin(1), x.T.argmax(), (-x.T).argmin()),
            *(y.argmin(0), y.argmin(1), y.argmin(), (-y - 1).argmax(1)),
        ),
        low,
        high,
    )


@pytest.mark.filterwarnings("ignore:.*encountered in")
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint8, np.float32, np.float64])
def test_division_with_a_rest(dtype):
    """Vectors divide in floating point where the quotient fits; to the bit as NumPy everywhere."""
    if np.issubdtype(dtype, np.integer):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        edges = [0, 1, 2, 3, 7, 49, low, high, low + 1, high - 1]
        edges += [n for n in (-1, -7, 2**31, 2**51 - 1, 2**51, -(2**51) - 1) if low <= n <= high]
    else:
        edges = [0.0, -0.0, 0.1, 0.3, -0.3, 7, -7, 1e30, -1e30, np.inf, -np.inf, np.nan]
        edges += [2.0**22, 2.0**51 + 1, np.finfo(dtype).tiny / 8, np.finfo(dtype).max]
    edges = np.array(edges).astype(dtype)
    draw = np.random.default_rng(0).integers(-50, 50, 2000)
    x = np.concatenate([np.repeat(edges, len(edges)), draw.astype(dtype)])
    y = np.concatenate([np.tile(edges, len(edges)), draw[::-1].astype(dtype)])
    if np.issubdtype(dtype, np.integer):
        y[y == 0] = 5  # a zero divisor is refused
    check(
        lambda x, y: (
            (x // y, x % y, x.fmod(y), x.div(y, rounding_mode="trunc"))
            + (x // 7, x % 7, x.fmod(7), x.div(7, rounding_mode="trunc"), x // 1, x % 64)
            + (x // 100, x[1::3] // 7)
        ),
        x,
        y,
        backends=("cpp",),
    )


def test_nan_and_infinity_are_kept():
    x = np.array([[1, np.nan, 3], [np.inf, -np.inf, 0], [-0.0, 0.0, 2]], np.float32)
    check(
        lambda x: (
            x.amax(1),
            x.amin(1),
            x.argmax(1),
            x.sum(1),
            F.softmax(x, 1),
            x / x,
            eager.maximum(x, x * 0),
        ),
        x,
    )


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_family(dim):
    def fn(x):
        return F.softmax(x * 0.5 + 1, dim), F.log_softmax(x, dim)

    masked = floats(9, 9)
    masked[3] = -np.inf
    check_each([*((fn, (floats(33, n),)) for n in (1, 5, 16, 65, 100)), (fn, (masked,))])


def test_norms():
    x, w, b = floats(4, 9, 64), floats(64), floats(64, seed=2)
    check(lambda x, w, b: F.layer_norm(x + 1, (64,), w, b), x, w, b, atol=1e-5)
    check(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        floats(6, 8, 5, 5),
        floats(8),
        floats(8),
        atol=1e-5,
    )


def test_index_ops():
    x, i = floats(50, 33), ints(0, 33, 50, 4)
    check_each(
        [
            (lambda x, i: eager.gather(x, 1, i) * 2, (x, i)),
            (lambda w, i: F.embedding(i, w) + 1, (x, ints(0, 50, 4, 6))),
            (lambda x, i: x[i].sum(-1), (x, ints(-50, 50, 7))),
        ]
    )
    check(
        lambda x, i, s: x.index_add(0, i, s), x, ints(0, 50, 20), floats(20, 33, seed=3), atol=1e-5
    )


@pytest.mark.parametrize("bad", [50, -1])
def test_index_out_of_range_is_an_index_error(bad):
    i = np.array([1, bad, 3])
    for backend in ("cpp", "python"):
        artifact, inputs = compiled(lambda w, i: F.embedding(i, w), (floats(50, 33), i), backend)
        with pytest.raises(IndexError, match=f"index {bad} is out of"):
            artifact.run(inputs)


def test_dot():
    calls = []
    for m, k, n in [(1, 1, 1), (3, 4, 5), (30, 40, 50), (17, 1, 9), (64, 64, 64)]:
        calls += [
            (lambda a, b: a @ b, (floats(m, k), floats(k, n))),
            (lambda a, b: a.t() @ b.t() + 1, (floats(k, m), floats(n, k))),
        ]
    check_each(calls, atol=1e-4)


def test_batched_dot_and_attention():
    q = floats(2, 3, 16, 8)
    check(lambda a, b: a @ b.transpose(-1, -2), q, floats(2, 3, 20, 8), atol=1e-4)
    check(lambda q: F.scaled_dot_product_attention(q, q * 2, q, is_causal=True), q, atol=1e-5)


def test_conv_pool_scan_sort():
    check(lambda x, w: F.conv2d(x, w, padding=1), floats(2, 3, 8, 8), floats(4, 3, 3, 3), atol=1e-4)
    check(lambda x: F.max_pool2d(x, 2), floats(2, 3, 8, 8))
    check(lambda x: x.cumsum(1) * 2, floats(5, 17), atol=1e-5)
    check(lambda x: x.sort(1), floats(5, 17))


def test_run_time_scalars():
    check(lambda x, lr, n: x * lr + n, floats(100), 0.1, 3)


def test_random_draws_are_the_same_bits():
    def draw(x):
        eager.manual_seed(7)
        return eager.rand(5, 33) + x * 0, eager.randn(70), F.dropout(x, 0.5)

    check(draw, floats(5, 33), rtol=1e-6)


def test_extern():
    check(lambda x: eager.linalg.inv(x @ x.t() + 3) * 2, floats(6, 6), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n", [1, 256, 33007])
def test_masks_and_bytes_alone(n):
    x = ints(0, 2, n).astype(bool)
    no, yes, late = np.zeros(n, bool), np.ones(n, bool), np.arange(n) == n - 1
    grid, small = ints(0, 2, 3, n).astype(bool), ints(-100, 100, n, dtype=np.int8)

    def fn(x, no, yes, late, grid, small):
        whole = (no.any(), yes.all(), late.any(), (~late).all(), x.any(), x.sum())
        rows = (grid.any(1), grid.all(0), grid.T.any(0), grid.sum(1), grid[:, ::2] ^ True)
        bits = (x & late, ~x | no, x == yes, eager.where(x, late, yes), (x ^ late).float())
        return *whole, *rows, *bits, small + small, small > 3, small.abs(), small.int(), -small

    check(fn, x, no, yes, late, grid, small)


def test_products_with_a_vector():
    def fn(a, b):
        return (
            a @ b,
            a.half() @ b.half(),
            a.T.contiguous().T @ b,
            a[:, ::2] @ b[::2],
            a[:, :1] @ b[:1],
        )

    calls = []
    for m, k, n in ((1, 40000, 1), (7, 33, 1), (1, 33, 70)):
        a, b = floats(m, k), floats(k, n, seed=1)
        a[0, 0] = np.inf
        calls.append((fn, (a, b)))
    check_each(calls, rtol=2e-3, atol=1e-3)
