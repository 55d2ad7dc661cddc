"""Convolutions and their gradients in compiled code against eager's, over strides, dilations,
groups and odd shapes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import eager  # noqa: F401  (fills the registry)
from codegen.runtime.artifact import Array
from eager.base.config import config
from tests.codegen.library_step import Call, call, compile_steps, compiled, reference


@dataclass(frozen=True)
class Case:
    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    dtype: str = "float32"

    @property
    def attrs(self) -> dict[str, object]:
        dims = len(self.x) - 2
        rest = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}
        return {name: (value,) * dims for name, value in rest.items()} | {"groups": self.groups}


CASES = [
    Case((2, 3, 8, 8), (16, 3, 3, 3), padding=1),
    Case((3, 5, 9, 7), (40, 5, 3, 3), padding=1),
    Case((2, 16, 9, 11), (33, 16, 3, 3), stride=2, padding=1),
    Case((2, 16, 9, 9), (32, 16, 1, 1), stride=2),
    Case((2, 8, 11, 13), (12, 4, 3, 2), stride=3, padding=1, dilation=2, groups=2),
    Case((2, 16, 11, 13), (16, 1, 3, 3), stride=2, padding=1, groups=16),
    Case((2, 6, 11, 13), (12, 1, 5, 5), padding=2, groups=6),
    Case((2, 5, 50), (33, 5, 7), stride=3, padding=5, dilation=2),
    Case((1, 2, 3000), (3, 2, 9), padding=4),
    Case((2, 4, 6, 7, 8), (12, 4, 3, 2, 3), stride=2, padding=1, dilation=2),
    Case((3, 40, 6, 7), (33, 40, 1, 1)),
    Case((1, 1, 1, 1), (1, 1, 1, 1)),
    Case((1, 7, 5, 5), (9, 7, 5, 5)),
    Case((2, 3, 4, 4), (5, 3, 2, 2), padding=3),
    Case((1, 64, 70, 90), (8, 64, 3, 3), padding=1),
    Case((33, 20, 4, 4), (37, 20, 3, 3), padding=1),
    Case((15, 64, 2, 3), (32, 16, 3, 3), padding=1, groups=4),
    Case((6, 14, 17, 5), (19, 14, 3, 3), stride=2, padding=2, dilation=2),
    Case((32, 31, 1, 1), (33, 31, 3, 3), padding=1),
    Case((5, 35, 5, 3), (35, 1, 3, 3), padding=1, groups=35),
    Case((2, 16, 6, 7), (16, 1, 3, 2), padding=1, stride=2, groups=16),
    Case((29, 15, 8, 8), (40, 15, 1, 1), stride=3),
    Case((9, 16, 3, 2, 3), (16, 16, 2, 3, 2), padding=1, stride=2),
    Case((2, 20, 12, 12), (70, 20, 3, 3), padding=1, dtype="float64"),
    Case((2, 6, 7, 9), (4, 3, 3, 3), stride=2, padding=1, groups=2, dtype="float64"),
    Case((17, 15, 3, 3), (33, 15, 3, 3), padding=1, dtype="float64"),
    # Few places, with filters as they lie.
    Case((1, 33, 4, 4), (40, 33, 3, 3), padding=1),
    Case((2, 64, 2, 5, 4), (65, 64, 2, 3, 2), padding=1, stride=2, dilation=2),
    Case((1, 40, 9), (32, 40, 3), stride=3, dtype="float64"),
]


def draw(shape: tuple[int, ...], dtype: str) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def close(got: Array, want: Array, what: str) -> None:
    unit = 2e-6 if want.dtype == np.float32 else 2e-13
    np.testing.assert_allclose(got, want, rtol=unit, atol=unit * np.abs(want).max(), err_msg=what)


def operands(case: Case) -> tuple[Array, Array, Array]:
    x, w = draw(case.x, case.dtype), draw(case.w, case.dtype)
    (out,) = reference("conv", x, w, **case.attrs)
    return x, w, draw(out.shape, case.dtype)


def check(*calls: Call) -> None:
    for each, (got,) in zip(calls, compiled(*calls), strict=True):
        close(got, each.reference()[0], str(each))


def test_forward() -> None:
    check(*(call("conv", *operands(case)[:2], **case.attrs) for case in CASES))


def test_input_gradient() -> None:
    calls = []
    for case in CASES:
        _, w, g = operands(case)
        calls.append(call("conv_input_grad", g, w, **case.attrs, input_shape=case.x))
    check(*calls)


def test_weight_gradient() -> None:
    calls = []
    for case in CASES:
        x, _, g = operands(case)
        calls.append(call("conv_weight_grad", g, x, **case.attrs, weight_shape=case.w))
    check(*calls)


def drawn(rng: np.random.Generator) -> Case:
    """A case of any number of dimensions, around what decides how it is computed."""
    while True:
        dims, groups = int(rng.integers(1, 4)), int(rng.choice([1, 1, 1, 2, 5]))
        n, c, o = (int(rng.choice([1, 3, 8, 14, 17, 33])) for _ in range(3))
        size, kernel = rng.integers(1, 9 - dims, dims), rng.integers(1, 4, dims)
        stride, padding, dilation = (int(rng.choice(x)) for x in ((1, 1, 2, 3), (0, 1, 2), (1, 2)))
        if (size + 2 * padding > dilation * (kernel - 1)).all():
            if rng.random() < 0.2:
                o, c, groups = c, 1, c  # depthwise
            x, w = (n, c * groups, *map(int, size)), (o, c, *map(int, kernel))
            w = (o if c == 1 and o == groups else o * groups, *w[1:])
            dtype = str(rng.choice(["float32", "float64"]))
            return Case(x, w, stride, padding, dilation, groups, dtype)


def test_drawn_cases() -> None:
    rng, calls = np.random.default_rng(0), []
    for case in (drawn(rng) for _ in range(12)):
        x, w, g = operands(case)
        calls.append(call("conv", x, w, **case.attrs))
        calls.append(call("conv_input_grad", g, w, **case.attrs, input_shape=case.x))
        calls.append(call("conv_weight_grad", g, x, **case.attrs, weight_shape=case.w))
    check(*calls)


def test_operands_of_any_strides() -> None:
    x = draw((2, 9, 8, 3), "float32").transpose(0, 3, 1, 2)
    w = draw((3, 3, 3, 4), "float32").T
    check(call("conv", x, w, **Case(x.shape, w.shape, padding=1).attrs))


def test_nan_stays_where_windows_see_it() -> None:
    for case in (CASES[0], Case((16, 4, 3, 3), (8, 4, 3, 3), padding=1)):
        x, w, _ = operands(case)
        x[0, 1, 2, 2], x[1, 0, 0, 0] = np.nan, np.inf
        made = call("conv", x, w, **case.attrs)
        (((got,),), (want,)) = compiled(made), made.reference()
        np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want))


def test_padding_is_not_multiplied_on_small_maps() -> None:
    case = Case((16, 4, 3, 3), (8, 4, 3, 3), padding=1)
    x, w, _ = operands(case)
    w[0, 0, 0, 0] = np.inf
    ((got,),) = compiled(call("conv", x, w, **case.attrs))
    assert not np.isnan(got).any()
    assert np.isinf(got[:, 0, 1:, 1:]).all()
    assert np.isfinite(got[:, 0, 0]).all()


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    calls = []
    for case in (
        Case((9, 16, 20, 20), (24, 16, 3, 3), padding=1),
        Case((64, 96, 4, 4), (96, 1, 3, 3), padding=1, groups=96),
        Case((32, 64, 4, 4), (64, 64, 3, 3), padding=1),
    ):
        x, w, g = operands(case)
        calls.append(call("conv", x, w, **case.attrs))
        calls.append(call("conv_input_grad", g, w, **case.attrs, input_shape=case.x))
        calls.append(call("conv_weight_grad", g, x, **case.attrs, weight_shape=case.w))
    for step, each in zip(compile_steps(*calls), calls, strict=True):
        many = step.run(*each.operands)[0]
        with config(threads=1):
            one = step.run(*each.operands)[0]
        np.testing.assert_array_equal(many, one, err_msg=str(each))


def test_an_empty_batch_has_a_zero_weight_gradient() -> None:
    g, x = draw((0, 16, 8, 8), "float32"), draw((0, 3, 8, 8), "float32")
    attrs = CASES[0].attrs | {"weight_shape": (16, 3, 3, 3)}
    ((got,),) = compiled(call("conv_weight_grad", g, x, **attrs))
    np.testing.assert_array_equal(got, np.zeros((16, 3, 3, 3), np.float32))
