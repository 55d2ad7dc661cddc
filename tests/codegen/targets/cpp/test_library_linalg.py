"""Linear systems, inverses, determinants, Cholesky factors and polynomials in compiled code: against
eager, without a callback, and with eager's errors."""

import math

import numpy as np
import pytest
import share

import eager
from codegen.targets.cpp.runtime import support
from codegen.targets.cpp.signal import POLYNOMIALS
from jitcap import explain, jit

REAL = {"float32": 3e-5, "float64": 1e-12}


def compare(fn, *args, rtol):
    step = jit(fn)
    mine, expected = step(*args), fn(*args)
    for i, (a, b) in enumerate(zip(mine, expected, strict=True)):
        assert a.dtype is b.dtype, i
        assert a.shape == b.shape, i
        x, y = a.numpy(), b.numpy()
        scale = np.abs(y[np.isfinite(y)]).max(initial=1)
        np.testing.assert_allclose(x, y, rtol=10 * rtol, atol=rtol * scale, err_msg=str(i))
    assert (step.stats.fallbacks, step.stats.callbacks) == (0, 0), explain(fn)(*args).callbacks


@pytest.mark.parametrize(("batch", "kind"), share.in_turn([(), (3,), (2, 0), (2, 2)], [*REAL]))
def test_systems_and_factors(kind, batch):
    dtype, linalg = getattr(eager, kind), eager.linalg
    for n in (1, 2, 5, 40):
        eager.manual_seed(n)
        a, b = eager.randn(*batch, n, n, dtype=dtype), eager.randn(*batch, n, 3, dtype=dtype)
        p = a @ a.transpose(-1, -2) + n * eager.eye(n, dtype=dtype)

        def program(a, b, p):
            lower, upper = linalg.cholesky(p), linalg.cholesky(p, upper=True)
            return (
                linalg.solve(a, b), linalg.inv(a), linalg.det(a), *linalg.slogdet(a), lower, upper,
                eager.cholesky_solve(b, lower), eager.cholesky_solve(b, upper, upper=True),
                linalg.solve_triangular(p, b, upper=True), linalg.solve(a.transpose(-1, -2), b),
                linalg.cholesky_ex(p)[0], linalg.inv_ex(p)[0],
            )  # fmt: skip

        compare(program, a, b, p, rtol=REAL[kind])


@pytest.mark.parametrize("kind", REAL)
@pytest.mark.parametrize("shape", [(5, 5), (2, 4, 4), (3, 5, 2), (2, 5), (3, 1, 1)])
def test_factors_with_rows_exchanged(kind, shape):
    eager.manual_seed(0)
    a = eager.randn(*shape, dtype=getattr(eager, kind))
    compare(lambda a: (*eager.linalg.lu_factor(a), *eager.linalg.lu(a)), a, rtol=REAL[kind])


def test_no_rows():
    x = eager.zeros(2, 0, 0)
    compare(
        lambda x: (eager.linalg.det(x), *eager.linalg.slogdet(x), eager.linalg.inv(x)), x, rtol=1e-6
    )


@pytest.mark.parametrize(
    "fn",
    [
        eager.linalg.inv,
        eager.linalg.cholesky,
        lambda x: eager.linalg.solve(x, eager.ones(2, 1)),
        lambda x: eager.cholesky_solve(eager.ones(2, 1), x),
    ],
)
def test_what_cannot_be_done_is_eagers_error(fn):
    """And nothing is written before it."""
    x, total = eager.tensor([[1.0, 0.0], [0.0, 0.0]]), eager.zeros(2)

    def step(x):
        total.add_(1)
        return fn(x)

    with pytest.raises(RuntimeError) as expected:
        step(x)
    total.zero_()
    with pytest.raises(RuntimeError) as caught:
        jit(step)(x)
    assert str(caught.value) == str(expected.value)
    assert total.tolist() == [1, 1]


def test_what_cannot_be_done_of_a_batch():
    bad = eager.stack([eager.tensor([[1.0, 0.0], [0.0, 0.0]]), eager.eye(2)])

    def program(x):
        linalg = eager.linalg
        return linalg.inv_ex(x)[0], linalg.cholesky_ex(x)[0], linalg.det(x), *linalg.slogdet(x)

    compare(program, bad, rtol=1e-6)


def test_without_lapack_numpy_is_called_back(monkeypatch):
    monkeypatch.setattr(support.api(), "sgesv", None)
    step = jit(lambda x: eager.linalg.inv(x) + 0.25)
    assert step(eager.eye(2)).tolist() == [[1.25, 0.25], [0.25, 1.25]]
    assert step.stats.callbacks == 1


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_polynomials(kind):
    eager.manual_seed(0)
    dtype = getattr(eager, kind)
    x = eager.rand(3, 8, dtype=dtype) * 2 - 1
    degree = eager.tensor([0, 1, 2, 3.7, -1, 9, math.nan, math.inf], dtype=dtype)

    def program(x, degree):
        out = []
        for name in POLYNOMIALS:
            fn = getattr(eager.special, name)
            out += [fn(x, degree), fn(x, 3.0), fn(0.5, degree)]
        return out

    compare(program, x, degree, rtol=1e-5 if kind == "float32" else 1e-13)
