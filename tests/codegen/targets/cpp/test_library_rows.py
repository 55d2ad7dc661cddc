"""Pools, scans, sorts and scatters in compiled code against eager's kernels: all element types,
ties, NaN, bad indices."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import eager  # noqa: F401  (fills the registry)
from codegen.runtime.artifact import Array
from eager.ops.index import scatter_by
from tests.codegen.library_step import Call, call, compile_steps, compiled, reference

FLOATS = ["float32", "float64", "float16", "bfloat16"]
INTS = ["bool", "uint8", "int8", "int16", "int32", "int64"]


def draw(shape: tuple[int, ...], dtype: str = "float32", distinct: int = 0) -> Array:
    """Random values of any type; `distinct` many different ones, to have ties."""
    rng = np.random.default_rng(7 + sum(shape))
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    if distinct or dtype in INTS:
        low = 0 if dtype in ("bool", "uint8") else -(distinct or 100) // 2
        return rng.integers(low, low + (2 if dtype == "bool" else distinct or 100), shape).astype(
            kind
        )
    return rng.standard_normal(shape).astype(kind)


def same(*calls: Call, unit: float = 0) -> None:
    """Bitwise equal, or to within `unit` of the largest value."""
    for each, found in zip(calls, compiled(*calls), strict=True):
        for got, want in zip(found, each.reference(), strict=True):
            if unit:
                atol = unit * np.abs(want).max()
                got, want = got.astype(float), want.astype(float)
                np.testing.assert_allclose(got, want, rtol=unit, atol=atol, err_msg=str(each))
            else:
                np.testing.assert_array_equal(got, want, str(each))


# ---------------------------------------------------------------------------------- pools

POOLS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 8, 8), {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0)}),
    ((2, 3, 17, 40), {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1)}),
    ((2, 3, 17, 40), {"kernel": (3, 5), "stride": (1, 1), "padding": (1, 2)}),
    ((1, 2, 7, 7), {"kernel": (3, 3), "stride": (2, 2), "padding": (1, 1), "ceil": True}),
    ((2, 3, 50), {"kernel": (4,), "stride": (3,), "padding": (2,), "ceil": True}),
    ((2, 2, 6, 7, 8), {"kernel": (2, 3, 2), "stride": (1, 2, 3), "padding": (1, 1, 0)}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pools(dtype: str) -> None:
    calls = []
    for shape, attrs in POOLS:
        attrs = {"ceil": False} | attrs
        x = draw(shape, dtype)
        (out,) = reference("sum_pool", x, **attrs)
        calls += [
            call("sum_pool", x, **attrs),
            call("sum_pool_grad", draw(out.shape, dtype), input_shape=shape, **attrs),
            call("max_pool", x, dilation=(1,) * len(attrs["kernel"]), **attrs),
        ]
    same(*calls)


def test_max_pool_with_ties_nan_infinity_and_dilation() -> None:
    x = draw((2, 2, 12, 37), distinct=3)
    x[0, 0, 3, 3:5], x[1, 1], x[0, 1, 5, 5] = np.nan, -np.inf, np.inf
    common = {"padding": (1, 1)}
    same(
        call("max_pool", x, kernel=(3, 2), stride=(1, 1), dilation=(2, 3), ceil=False, **common),
        call("max_pool", x, kernel=(3, 3), stride=(2, 1), dilation=(1, 1), ceil=True, **common),
    )
    small = draw((3, 13, 3, 3), distinct=3)  # one result of each map
    small[0, 0, 1, 0], small[0, 2:5], small[1, :, 0, 0] = np.nan, -np.inf, np.inf
    same(
        *(
            call("max_pool", small, kernel=k, stride=k, padding=pad, dilation=d, ceil=False)
            for k, pad, d in [
                ((2, 2), (0, 0), (1, 1)),
                ((3, 2), (0, 0), (1, 2)),
                ((3, 3), (1, 0), (1, 1)),
                ((2, 3), (0, 1), (2, 1)),
            ]
        )
    )


# ---------------------------------------------------------------------------------- scans

LINES = [
    ((7,), 0),
    ((5, 33), 1),
    ((5, 33), 0),
    ((3, 6, 20), 1),
    ((4, 1, 3), 1),
    ((), 0),
    ((40, 300), 1),
]


@pytest.mark.parametrize("op", ["cumsum", "cumprod", "cummax", "cummin"])
def test_scans(op: str) -> None:
    same(
        *(call(op, draw(shape), dim=dim) for shape, dim in LINES),
        *(
            call(op, draw(shape, dtype), dim=1)
            for shape in ((3, 21, 18), (3, 21))
            for dtype in FLOATS + INTS
        ),
    )


def test_running_extremes_with_ties_and_nan() -> None:
    x = draw((4, 30), distinct=4)
    x[1, 10], x[2, [0, 4]] = np.nan, np.nan
    same(call("cummax", x, dim=1), call("cummin", x, dim=0))


# ---------------------------------------------------------------------------------- sorts


@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_sorts_of_all_types_are_stable(dtype: str) -> None:
    x = draw((3, 200), dtype, distinct=2 if dtype == "bool" else 50)
    wide = draw((300, 7), dtype, distinct=20)
    calls = []
    for descending in (False, True):
        calls += [
            call("sort", x, dim=1, descending=descending),
            call("sort", draw((30, 7), dtype), dim=0, descending=descending),
            call("sort", x, dim=1, descending=descending, keep=30),
            call("sort", wide, dim=0, descending=descending, keep=5),
        ]
    same(*calls)


def test_sorts_of_nan_zeros_and_infinities() -> None:
    values = [0.0, -0.0, np.nan, 1, -1, np.inf, -np.inf, -np.nan, 1e-40]
    calls = []
    for n, descending in itertools.product((1, 2, 48, 49, 5000), (False, True)):
        x = np.resize(np.array(values, np.float32), (3, n))
        calls += [
            call("sort", x, dim=1, descending=descending),
            call("sort", x.astype(np.float64).T, dim=0, descending=descending),
            call("sort", x, dim=1, descending=descending, keep=n // 9),
        ]
    same(*calls)


# ---------------------------------------------------------------------------------- scatters


def places(shape: tuple[int, ...], size: int, dtype: str = "int64", low: int = 0) -> Array:
    return np.random.default_rng(3 + sum(shape)).integers(low, size, shape).astype(dtype)


REDUCTIONS = ["set", "add", "prod", "amax", "amin"]


def test_scatter() -> None:
    x, src = draw((6, 7, 8)), draw((5, 6, 9))
    calls = []
    for reduce, dim in itertools.product(REDUCTIONS, (0, 1, 2)):
        index = places((5, 6, 8) if dim != 2 else (5, 6, 9), x.shape[dim])
        calls.append(call(scatter_by(reduce).name, x, index, src, dim=dim, reduce=reduce))
    same(*calls)


@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_scatter_of_all_types(dtype: str) -> None:
    x, src = draw((4, 9), dtype, distinct=2), draw((4, 20), dtype, distinct=2)
    index = places((4, 20), 9, "int32")
    same(*(call(scatter_by(r).name, x, index, src, dim=1, reduce=r) for r in REDUCTIONS))


def test_scatter_into_vectors_scalars_and_with_nothing() -> None:
    same(
        call("scatter", draw((9,)), places((30,), 9), draw((30,)), dim=0, reduce="add"),
        call("scatter", draw(()), places((), 1), draw(()), dim=0, reduce="set"),
        call("scatter", draw((3, 4)), places((0, 4), 3), draw((2, 4)), dim=0, reduce="set"),
    )


@pytest.mark.parametrize("dtype", FLOATS + ["int32", "bool"])
def test_index_add(dtype: str) -> None:
    distinct = 2 if dtype == "bool" else 0
    calls = []
    for shape, dim in (((50, 30), 0), ((4, 9, 3), 1), ((3, 8), 1), ((8,), 0)):
        src = draw((*shape[:dim], 40, *shape[dim + 1 :]), dtype, distinct)
        index = places((40,), shape[dim])
        calls.append(call("index_add", draw(shape, dtype, distinct), index, src, dim=dim))
    unit = {"float32": 2e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1e-2}.get(dtype, 0)
    same(*calls, unit=unit)


def test_index_put() -> None:
    x, i, j = draw((5, 6, 7)), places((4, 1), 5, low=-5), places((3,), 6, low=-6)
    operands: list[tuple[tuple[Array, ...], tuple[int, ...]]] = [
        ((x, draw((4, 3, 7)), i, j), (0, 1)),
        ((x, draw((3, 7)), i, j), (0, 1)),
        ((x, draw((4, 1, 1)), i, j), (0, 1)),
        ((x, draw(()), j), (1,)),
        ((x, draw((4, 3, 6)), i, j), (0, 2)),
        ((x, draw((5, 3, 7)), j), (1,)),
        ((draw((9,)), draw((3,)), places((3,), 9)), (0,)),
    ]
    calls = [
        call("index_put", *each, dims=dims, accumulate=accumulate)
        for each, dims in operands
        for accumulate in (False, True)
    ]
    same(*calls, unit=2e-6)


def test_an_index_out_of_range_is_an_error_of_the_users_line() -> None:
    bad = np.array([0, 1, 9])
    calls = [
        call("scatter", draw((5,)), bad, draw((3,)), dim=0, reduce="add"),
        call("index_add", draw((5, 2)), bad, draw((3, 2)), dim=0),
        call("index_put", draw((5,)), draw((3,)), bad, dims=(0,), accumulate=True),
    ]
    for step, each in zip(compile_steps(*calls), calls, strict=True):
        with pytest.raises(IndexError, match=r"9.*size 5"):
            step.run(*each.operands)


# ---------------------------------------------------------------------------------- callbacks


def test_a_callback_sees_strided_operands() -> None:
    x = np.arange(12).reshape(4, 3)
    same(call("dot", x.T, x))  # no routine multiplies ints
