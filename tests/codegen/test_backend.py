"""A backend is a folder and a row: one of NumPy expressions, registered here, runs what it can
say."""

import numpy as np
import pytest

import codegen
import eager
from codegen import Unsupported
from eager.nn import functional as F
from jitcap import jit
from tests.codegen import numpy_backend
from tests.codegen.checking import check, floats


@pytest.fixture(autouse=True)
def row(monkeypatch):
    monkeypatch.setitem(codegen.BACKENDS, "numpy", numpy_backend.BACKEND)


CASES = {
    "pointwise": lambda x, y: (x * y).tanh() + 1,
    "gelu": lambda x, y: F.gelu(x),
    "sums": lambda x, y: (x.sum(0), y.sum(1), x.mean(), (x > y).any(1)),
    "norm": lambda x, y: (x - x.mean(1, keepdim=True)) / y.amax(0),
    "views": lambda x, y: x.t().reshape(2, -1) + y.reshape(2, -1),
    "product": lambda x, y: (x @ y.t()).relu(),
    "types": lambda x, y: ((x * 10).long() % 3, x.double() * 2, x.to(eager.bfloat16) + 1),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    check(CASES[name], floats(6, 8), floats(6, 8, seed=1), backends=("numpy",), rtol=1e-5)


def test_it_refuses_the_rest():
    with pytest.raises(Unsupported, match="index from data"):
        check(lambda x: x[eager.tensor([1, 0])], floats(4, 3), backends=("numpy",))


def test_a_user_names_it():
    step = jit(lambda x: x.exp() * 2, backend="numpy")
    x = eager.from_numpy(floats(5))
    np.testing.assert_allclose(step(x).numpy(), np.exp(x.numpy()) * 2, rtol=1e-6)
    assert step.stats.fallbacks == 0
