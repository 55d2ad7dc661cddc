"""Special functions on arrays against the C library's, over their whole range."""

import math

import numpy as np
import pytest

import eager
from eager.base import special_arrays

pytestmark = pytest.mark.once


def _reference(f, x):
    return np.array([f(float(v)) for v in x])


@pytest.mark.parametrize(("dtype", "bound"), [(np.float64, 1e-15), (np.float32, 3e-7)])
def test_erf(dtype, bound):
    x = np.concatenate([np.linspace(-7, 7, 3001), [1e-20, 30.0, 1e30]]).astype(dtype)
    expected = _reference(math.erf, x)
    assert np.abs(special_arrays.erf(x) - expected).max() <= bound
    small = np.abs(x) < 1
    relative = np.abs(special_arrays.erf(x) / np.where(expected == 0, 1, expected) - 1)[
        small & (x != 0)
    ]
    assert relative.max() <= bound


def test_erf_of_special_values():
    found = special_arrays.erf(np.array([0.0, -0.0, np.inf, -np.inf, np.nan]))
    assert found[:4].tolist() == [0.0, 0.0, 1.0, -1.0]
    assert np.signbit(found[1])
    assert np.isnan(found[4])


def test_lgamma():
    x = np.linspace(-6.3, 60, 4001)
    expected = _reference(math.lgamma, x)
    with np.errstate(all="ignore"):
        found = special_arrays.lgamma(x)
    error = np.abs(found - expected) / np.maximum(1, np.abs(expected))
    assert error.max() < 1e-13
    with np.errstate(all="ignore"):
        assert (
            special_arrays.lgamma(np.array([0.0, -1.0, np.inf, -np.inf])).tolist() == [np.inf] * 4
        )
        assert special_arrays.lgamma(np.array(5.0)).shape == ()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_erfinv_and_ndtri_as_far_as_numbers_reach(dtype):
    """Against C's erfc, which tells of a unit of the result's last place 2 x^2 of its own."""
    near_one = 2.0 ** -np.arange(1, 25 if dtype is np.float32 else 54)
    y = np.concatenate([np.linspace(0.001, 0.999, 999), 1 - near_one]).astype(dtype)
    x = eager.erfinv(eager.tensor(y)).numpy()
    assert x.dtype == dtype and (eager.erfinv(eager.tensor(-y)).numpy() == -x).all()
    powers = np.arange(1, 120 if dtype is np.float32 else 1000)
    p = np.concatenate([np.linspace(0.001, 0.5, 500), 2.0**-powers]).astype(dtype)
    z = -eager.special.ndtri(eager.tensor(p)).numpy() / math.sqrt(2)
    for found, tail in ((x, 1 - y.astype(float)), (z, 2 * p.astype(float))):
        wide = found.astype(float)
        error = np.abs(_reference(math.erfc, wide) / tail - 1) / (1 + 2 * wide**2)
        assert error.max() < 4 * np.finfo(dtype).eps, (tail[error.argmax()], error.max())
    ends = eager.tensor([1.0, -1.0, -0.0, 1.5, np.nan], dtype=getattr(eager, np.dtype(dtype).name))
    np.testing.assert_array_equal(
        eager.erfinv(ends).numpy(), [np.inf, -np.inf, -0.0, np.nan, np.nan]
    )
    found = eager.special.ndtri((ends + 1) / 2).numpy()
    np.testing.assert_array_equal(found, [np.inf, -np.inf, 0.0, np.nan, np.nan])


def test_bessel_functions_satisfy_their_equations():
    """Wronskians, across the places where the series change; torch's J and Y are off by 1e-6."""
    x = eager.tensor(
        np.concatenate([np.linspace(0.05, 30, 301), [2.0, 8.0, np.nextafter(8.0, 9.0)]])
    )
    s = eager.special
    waves = s.bessel_j1(x) * s.bessel_y0(x) - s.bessel_j0(x) * s.bessel_y1(x)
    np.testing.assert_allclose((waves * x).numpy(), 2 / np.pi, rtol=1e-12)
    k0, k1 = s.scaled_modified_bessel_k0(x), s.scaled_modified_bessel_k1(x)
    decays = s.i0e(x) * k1 + s.i1e(x) * k0
    np.testing.assert_allclose((decays * x).numpy(), 1, rtol=1e-12)
    ends = eager.tensor([0.0, -1.0, float("inf")], dtype=eager.float64)
    assert s.bessel_y0(ends).numpy()[:2].tolist()[0] == -np.inf and s.bessel_y1(ends)[1].isnan()
    assert s.modified_bessel_k0(ends).tolist()[::2] == [np.inf, 0.0]


def test_functions_of_other_namespaces_write_into_out():
    factor, info = eager.empty(0), eager.empty(0, dtype=eager.int32)
    found = eager.linalg.cholesky_ex(eager.eye(2) * 4, out=(factor, info))
    assert found.L is factor and factor.tolist() == [[2.0, 0.0], [0.0, 2.0]] and info.item() == 0
    assert eager.linalg.inv(factor, out=factor) is factor and factor[0].tolist() == [0.5, 0.0]
    assert eager.special.expm1(eager.zeros(1), out=eager.empty(1)).tolist() == [0.0]
    unit = eager.tensor([[3.0, 4.0]])
    assert eager.nn.functional.normalize(unit, out=unit) is unit
    eager.testing.assert_close(unit, eager.tensor([[0.6, 0.8]]))
    assert eager.fft.fft(eager.ones(2), out=None).tolist() == [2, 0]
