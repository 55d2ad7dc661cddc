"""An op with an odd index map is one entry: eager, its derivative and every backend follow."""

import numpy as np
import pytest

import codegen
import eager
from eager.core.dispatch import apply
from eager.core.op import REGISTRY
from eager.ops.kinds import Move
from jitcap import jit
from tests.codegen import numpy_backend
from tests.codegen.checking import check, floats


@pytest.fixture
def riffle():
    """The two halves of a pack of cards, one card from each in turn."""
    entry = Move(
        "riffle",
        ("x",),
        lambda g: (eager.cat([g[::2], g[1::2]]),),
        shape=lambda avals, attrs: avals[0].shape,
        numpy=lambda xs, attrs: np.stack(np.split(xs[0], 2), 1).reshape(xs[0].shape),
        element=lambda m, at, xs, attrs: xs[0][
            (at[0] % 2 * (xs[0].shape[0] // 2) + at[0] // 2, *at[1:])
        ],
    )
    yield lambda x: apply(entry, x)
    del REGISTRY["riffle"]


def test_every_backend(riffle, monkeypatch):
    monkeypatch.setitem(codegen.BACKENDS, "numpy", numpy_backend.BACKEND)
    np.testing.assert_array_equal(riffle(eager.arange(6)).numpy(), [0, 3, 1, 4, 2, 5])
    check(lambda x: riffle(x * 2) + x, floats(64, 5), backends=("cpp", "python", "numpy"))


@pytest.mark.parametrize("backend", ["cpp", "python", "eager"])
def test_gradients(riffle, backend):
    w = eager.from_numpy(floats(8))

    def step(x):
        (riffle(x) * w).sum().backward()
        return x.grad

    x = eager.from_numpy(floats(8)).requires_grad_()
    np.testing.assert_array_equal(
        jit(step, backend=backend)(x).numpy(), w.numpy()[[0, 2, 4, 6, 1, 3, 5, 7]]
    )
