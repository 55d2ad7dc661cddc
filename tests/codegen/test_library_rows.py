"""Pools, scans, sorts and scatters in compiled code against eager's kernels: all element types,
ties, NaN, bad indices."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import eager  # noqa: F401  (fills the registry)
from codegen.runtime.artifact import Array
from eager.ops.index import scatter_by
from tests.codegen.library_step import compiled, reference

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


def same(op: str, *operands: Any, unit: float = 0, name: str = "", **attrs: Any) -> None:
    """Bitwise equal, or to within `unit` of the largest value."""
    for got, want in zip(
        compiled(op, *operands, name=name, **attrs), reference(op, *operands, **attrs), strict=True
    ):
        if unit:
            np.testing.assert_allclose(
                got.astype(float), want.astype(float), rtol=unit, atol=unit * np.abs(want).max()
            )
        else:
            np.testing.assert_array_equal(got, want)


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
@pytest.mark.parametrize(("shape", "attrs"), POOLS)
def test_pools(shape: tuple[int, ...], attrs: dict[str, Any], dtype: str) -> None:
    attrs = {"ceil": False} | attrs
    x = draw(shape, dtype)
    same("sum_pool", x, **attrs)
    (out,) = reference("sum_pool", x, **attrs)
    same("sum_pool_grad", draw(out.shape, dtype), input_shape=shape, **attrs)
    same("max_pool", x, dilation=(1,) * len(attrs["kernel"]), **attrs)


def test_max_pool_with_ties_nan_infinity_and_dilation() -> None:
    x = draw((2, 2, 12, 37), distinct=3)
    x[0, 0, 3, 3:5], x[1, 1], x[0, 1, 5, 5] = np.nan, -np.inf, np.inf
    same("max_pool", x, kernel=(3, 2), stride=(1, 1), padding=(1, 1), dilation=(2, 3), ceil=False)
    same("max_pool", x, kernel=(3, 3), stride=(2, 1), padding=(1, 1), dilation=(1, 1), ceil=True)


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
@pytest.mark.parametrize(("shape", "dim"), LINES)
def test_scans(op: str, shape: tuple[int, ...], dim: int) -> None:
    same(op, draw(shape), dim=dim)


@pytest.mark.parametrize("op", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_scans_of_all_types(op: str, dtype: str) -> None:
    same(op, draw((3, 21, 18), dtype), dim=1)
    same(op, draw((3, 21), dtype), dim=1)


def test_running_extremes_with_ties_and_nan() -> None:
    x = draw((4, 30), distinct=4)
    x[1, 10], x[2, [0, 4]] = np.nan, np.nan
    same("cummax", x, dim=1)
    same("cummin", x, dim=0)


# ---------------------------------------------------------------------------------- sorts


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_sorts_of_all_types_are_stable(dtype: str, descending: bool) -> None:
    x = draw((3, 200), dtype, distinct=2 if dtype == "bool" else 50)
    same("sort", x, dim=1, descending=descending)
    same("sort", draw((30, 7), dtype), dim=0, descending=descending)
    same("sort", x, dim=1, descending=descending, keep=30)
    same("sort", draw((300, 7), dtype, distinct=20), dim=0, descending=descending, keep=5)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("n", [1, 2, 48, 49, 5000])
def test_sorts_of_nan_zeros_and_infinities(n: int, descending: bool) -> None:
    x = np.resize(
        np.array([0.0, -0.0, np.nan, 1, -1, np.inf, -np.inf, -np.nan, 1e-40], np.float32), (3, n)
    )
    same("sort", x, dim=1, descending=descending)
    same("sort", x.astype(np.float64).T, dim=0, descending=descending)
    same("sort", x, dim=1, descending=descending, keep=n // 9)


# ---------------------------------------------------------------------------------- scatters


def places(shape: tuple[int, ...], size: int, dtype: str = "int64", low: int = 0) -> Array:
    return np.random.default_rng(3 + sum(shape)).integers(low, size, shape).astype(dtype)


@pytest.mark.parametrize("reduce", ["set", "add", "prod", "amax", "amin"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_scatter(reduce: str, dim: int) -> None:
    x, src = draw((6, 7, 8)), draw((5, 6, 9))
    index = places((5, 6, 8) if dim != 2 else (5, 6, 9), x.shape[dim])
    same(scatter_by(reduce).name, x, index, src, dim=dim, reduce=reduce)


@pytest.mark.parametrize("reduce", ["set", "add", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", FLOATS + INTS)
def test_scatter_of_all_types(reduce: str, dtype: str) -> None:
    x, src = draw((4, 9), dtype, distinct=2), draw((4, 20), dtype, distinct=2)
    same(scatter_by(reduce).name, x, places((4, 20), 9, "int32"), src, dim=1, reduce=reduce)


def test_scatter_into_vectors_scalars_and_with_nothing() -> None:
    same("scatter", draw((9,)), places((30,), 9), draw((30,)), dim=0, reduce="add")
    same("scatter", draw(()), places((), 1), draw(()), dim=0, reduce="set")
    same("scatter", draw((3, 4)), places((0, 4), 3), draw((2, 4)), dim=0, reduce="set")


@pytest.mark.parametrize("dtype", FLOATS + ["int32", "bool"])
@pytest.mark.parametrize(("shape", "dim"), [((50, 30), 0), ((4, 9, 3), 1), ((3, 8), 1), ((8,), 0)])
def test_index_add(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    index = places((40,), shape[dim])
    src = draw((*shape[:dim], 40, *shape[dim + 1 :]), dtype, distinct=2 if dtype == "bool" else 0)
    unit = {"float32": 2e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1e-2}.get(dtype, 0)
    same(
        "index_add",
        draw(shape, dtype, distinct=2 if dtype == "bool" else 0),
        index,
        src,
        dim=dim,
        unit=unit,
    )


@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(accumulate: bool) -> None:
    x, i, j = draw((5, 6, 7)), places((4, 1), 5, low=-5), places((3,), 6, low=-6)
    rest: dict[str, Any] = {"accumulate": accumulate, "unit": 2e-6}
    same("index_put", x, draw((4, 3, 7)), i, j, dims=(0, 1), **rest)
    same("index_put", x, draw((3, 7)), i, j, dims=(0, 1), **rest)
    same("index_put", x, draw((4, 1, 1)), i, j, dims=(0, 1), **rest)
    same("index_put", x, draw(()), j, dims=(1,), **rest)
    same("index_put", x, draw((4, 3, 6)), i, j, dims=(0, 2), **rest)
    same("index_put", x, draw((5, 3, 7)), j, dims=(1,), **rest)
    same("index_put", draw((9,)), draw((3,)), places((3,), 9), dims=(0,), **rest)


def test_an_index_out_of_range_is_an_error_of_the_users_line() -> None:
    bad = np.array([0, 1, 9])
    for op, operands, attrs in (
        ("scatter", (draw((5,)), bad, draw((3,))), {"dim": 0, "reduce": "add"}),
        ("index_add", (draw((5, 2)), bad, draw((3, 2))), {"dim": 0}),
        ("index_put", (draw((5,)), draw((3,)), bad), {"dims": (0,), "accumulate": True}),
    ):
        with pytest.raises(IndexError, match=r"9.*size 5"):
            compiled(op, *operands, **attrs)


# ---------------------------------------------------------------------------------- callbacks


def test_a_callback_sees_strided_operands() -> None:
    same("sort", draw((30, 7)).T, name="callback", dim=0, descending=False)
