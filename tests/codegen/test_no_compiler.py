"""Without a C++ compiler programs run op by op, say so once, and give the same results."""

import numpy as np
import pytest

import eager
from codegen.targets.cpp.runtime import build, cpu
from jitcap import jit
from tests.codegen.checking import floats, run_eager, same


def refuse(*args, **kwargs):
    raise build.NoCompiler("no C++ compiler found (looked for c++)")


def test_it_runs_and_says_so(monkeypatch, recwarn):
    monkeypatch.setattr(cpu, "build_shared", refuse)

    def step(x, y):
        x.mul_(0.5).add_(y)
        return (x @ y.t()).softmax(-1), x.sum()

    x, y = floats(5, 6), floats(5, 6, seed=1)
    expected = run_eager(step, (x, y))
    compiled = jit(step)
    with pytest.warns(UserWarning, match="op by op: no C\\+\\+ compiler"):
        results = compiled(eager.from_numpy(x), eager.from_numpy(y))
    for got, want in zip(results, expected, strict=True):
        same(got.numpy(), want, 1e-6, 1e-6)
    np.testing.assert_allclose(x, floats(5, 6) * 0.5 + y, rtol=1e-6)
    assert "no C++ compiler" in str(compiled.stats)
    recwarn.clear()
    compiled(eager.from_numpy(x), eager.from_numpy(y))
    assert not recwarn.list
