"""Without a C++ compiler programs run op by op, say so once, and give the same results."""

import os
import subprocess
import sys

import numpy as np
import pytest

import eager
import jitcap
from codegen.targets.cpp.runtime import build, cpu
from jitcap import JitcapWarning, config, jit
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


def test_nothing_is_said_of_support_that_nobody_uses(tmp_path):
    """The first notice is the one that counts: the function's own."""
    program = "import eager, jitcap; jitcap.jit(lambda x: x @ x)(eager.ones(300, 300))"
    env = {**os.environ, "PATH": "/nowhere", "CXX": "", "JITCAP_CACHE_DIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert "runs op by op: no C++ compiler" in ran.stderr
    assert "support code" not in ran.stderr


def broken(*args, **kwargs):
    raise build.CompileError("graph.cpp:1: error: something odd")


REAL = cpu.build_shared


def broken_for_symbols(seen):
    """The second graph of a function of one argument is that with symbols."""

    def build_shared(files, *args, **kwargs):
        seen.append(files)
        return broken() if len(seen) == 2 else REAL(files, *args, **kwargs)

    return build_shared


@pytest.mark.parametrize("how", ["all sizes", "symbols"])
def test_code_that_does_not_compile_is_told_of_once_and_raised_where_faults_are(how, monkeypatch):
    monkeypatch.setattr(
        cpu, "build_shared", broken if how == "all sizes" else broken_for_symbols([])
    )

    def step(x):
        return x * 2 + 1

    sizes = (3, 4, 5) if how == "symbols" else (3,)

    def run():
        jitcap.reset()
        compiled = jit(step, backend="cpp")
        return [compiled(eager.ones(n)).tolist() == [3] * n for n in sizes]

    with config(strict=False, check=False), pytest.warns(JitcapWarning) as told:
        assert all(run())
    faults = [str(w.message) for w in told if "something odd" in str(w.message)]
    assert len(faults) == 1
    words = (
        "for each size by itself" if how == "symbols" else "runs op by op, code generation failed"
    )
    assert words in faults[0]
    if how == "symbols":
        monkeypatch.setattr(cpu, "build_shared", broken_for_symbols([]))
    with config(strict=True), pytest.raises(build.CompileError, match="something odd"):
        run()
