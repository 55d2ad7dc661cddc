"""Matrix products in compiled code against eager's, over shapes, strides and batches."""

from __future__ import annotations

import numpy as np
import pytest

import eager
from jitcap import explain, jit
from tests.codegen.library_step import Array, call, compiled, reference

SHAPES = [
    ((3, 4), (4, 5)),
    ((1, 1), (1, 1)),
    ((65, 33), (33, 17)),
    ((2, 3, 7, 5), (2, 3, 5, 9)),
    ((300, 64), (64, 200)),
    ((1, 50), (50, 1)),
]


def draw(shape: tuple[int, ...], dtype: str = "float32") -> Array:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(dtype)


def check(*products: tuple[Array, Array]) -> None:
    calls = [call("dot", a, b) for a, b in products]
    for product, (got,) in zip(calls, compiled(*calls), strict=True):
        (want,) = product.reference()
        a, _ = product.operands
        scale = np.sqrt(a.shape[-1])
        tolerance = (1e-12 if a.dtype == np.float64 else 1e-6) * scale
        np.testing.assert_allclose(
            got, want, rtol=tolerance, atol=4 * tolerance, err_msg=str(product)
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dot(dtype: str) -> None:
    check(*((draw(a, dtype), draw(b, dtype)) for a, b in SHAPES))


def test_dot_of_transposed_operands() -> None:
    products = []
    for a, b in SHAPES:
        x, y = (
            draw((*a[:-2], a[-1], a[-2])).swapaxes(-1, -2),
            draw((*b[:-2], b[-1], b[-2])).swapaxes(-1, -2),
        )
        products += [(x, y), (draw(a), y), (x, draw(b))]
    check(*products)


def test_dot_of_strided_expanded_and_reversed_operands() -> None:
    q, k = draw((2, 16, 3, 8)), draw((2, 16, 3, 8))  # heads inside rows
    check(
        (q.transpose(0, 2, 1, 3), k.transpose(0, 2, 3, 1)),
        (draw((10, 12))[::2, ::3], draw((4, 6))),
        (np.broadcast_to(draw((1, 7)), (5, 7)), draw((7, 3))),
        (np.broadcast_to(draw((6, 7)), (4, 6, 7)), draw((4, 7, 3))),
        (draw((6, 7))[::-1], draw((7, 3))[:, ::-1]),
    )


def test_nan_and_infinity_pass_through() -> None:
    a, b = draw((20, 30)), draw((30, 40))
    a[3, 4], b[7, 8], b[4, 2] = np.nan, np.inf, 0
    ((got,),) = compiled(call("dot", a, b))
    (want,) = reference("dot", a, b)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_products_of_widened_16_bit_operands_read_16_bits(name: str) -> None:
    kind = getattr(eager, name)
    eager.manual_seed(0)
    x, w = eager.randn(20, 33), eager.randn(50, 33)
    y, z = (eager.randn(*shape).to(kind) for shape in ((3, 17, 70), (3, 40, 70)))

    def step(x, w, y, z):
        short, wide = x.to(kind), w.to(kind).float()
        product = short.float() @ wide.T  # of two that were rounded
        return product, y @ z.mT, y.float().mT @ (y.float() * 2), (short @ w.to(kind).T)[::2]

    text = str(explain(step)(x, w, y, z))
    product = "dot<bf16>(" if kind is eager.bfloat16 else "dot<f16>("
    assert text.count(product) == 3 and text.count("dot<f32>(") == 1
    for got, want in zip(jit(step, backend="cpp")(x, w, y, z), step(x, w, y, z), strict=True):
        assert got.dtype is want.dtype
        tolerance = 1e-5 if got.dtype is eager.float32 else 1e-2
        np.testing.assert_allclose(got.float(), want.float(), rtol=tolerance, atol=tolerance)
