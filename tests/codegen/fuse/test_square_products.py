"""A value that is stored and also multiplied by a square matrix: its elements belong to every row
of the product."""

import numpy as np
import pytest

import eager
from jitcap import jit

PROGRAMS = {
    "pointwise": lambda x, s, w: (h := x.exp(), h @ w),
    "broadcast": lambda x, s, w: (h := x / s, h @ w.t()),
    "reduction": lambda x, s, w: (h := x / s, (h.unsqueeze(1) * w).sum(-1), h.sum(-1)),
}


@pytest.mark.parametrize("columns", [8, 5])
@pytest.mark.parametrize("backend", ["python", "cpp"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_value_kept_beside_its_product(name, backend, columns):
    x, s = eager.randn(4, 8), eager.rand(4, 1) + 1
    w = eager.randn(8, columns) if name == "pointwise" else eager.randn(columns, 8)
    expected = PROGRAMS[name](x, s, w)
    for a, b in zip(jit(PROGRAMS[name], backend=backend)(x, s, w), expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)
