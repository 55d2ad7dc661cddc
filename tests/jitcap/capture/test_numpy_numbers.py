"""NumPy's numbers compared with what is no number: it makes arrays of that, or numbers of its own."""

import numpy as np
import pytest

import eager
from jitcap import jit


@pytest.mark.parametrize("other", [[1, 2.5], [], (2,), range(3), "ab", b"ab", 1j, None, 2, 2.0])
def test_equality_is_numpys(other):
    given = [np.float64(2), other]

    def step(x):
        a, b = given
        return x + 1, a == b, b == a, a != b, b != a

    compiled, x = jit(step, backend="eager"), eager.ones(2)
    assert repr(compiled(x)[1:]) == repr(step(x)[1:])
