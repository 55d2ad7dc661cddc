"""Special functions on arrays against the C library's, over their whole range."""

import math

import numpy as np
import pytest

from eager import special_arrays


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
