"""Without a C++ compiler programs run op by op, say so once, and give the same results."""

import numpy as np
import pytest

from codegen import interpret
from codegen.runtime import build, cpu
from tests.codegen.checking import compiled, floats, run_eager, same


def refuse(*args, **kwargs):
    raise build.NoCompiler("no C++ compiler found (looked for c++)")


def test_it_runs_and_says_so(monkeypatch):
    monkeypatch.setattr(cpu, "build_shared", refuse)
    monkeypatch.setattr(interpret, "_announced", [])

    def step(x, y):
        x.mul_(0.5).add_(y)
        return (x @ y.t()).softmax(-1), x.sum()

    x, y = floats(5, 6), floats(5, 6, seed=1)
    expected = run_eager(step, (x, y))
    with pytest.warns(UserWarning, match="op by op"):
        artifact, inputs = compiled(step, (x, y))
    for got, want in zip(artifact.run(inputs), expected, strict=True):
        same(np.asarray(got), want, 1e-6, 1e-6)
    np.testing.assert_allclose(x, floats(5, 6) * 0.5 + y, rtol=1e-6)
    compiled(lambda x: x + 1, (x,))  # no second warning
