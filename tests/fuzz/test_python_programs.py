"""Random Python functions, plain against @jit: the same values, gradients and side effects.

A failure prints the program and its seed; `fuzz_seeds` says how to run others. All of it can be
captured: each program is one graph.
"""

import importlib.util
import linecache
import warnings
from pathlib import Path

import fuzz_seeds
import numpy as np
import pytest

import eager
from jitcap import jit

spec = importlib.util.spec_from_file_location(
    "fuzz_programs", Path(__file__).parent / "programs.py"
)
programs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(programs)


def define(seed):
    """The function of this seed, its log, and its text."""
    text = programs.program(seed)
    name = f"<fuzz {seed}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope = {"torch": eager, "log": []}
    exec(compile(text, name, "exec"), scope)
    return scope["program"], scope["log"], text


def inputs(seed):
    rng = np.random.default_rng(seed)
    x, y = (eager.from_numpy(rng.standard_normal((3, 4)).astype(np.float32)) for _ in range(2))
    return x.requires_grad_(), y, int(rng.integers(0, 5)), float(rng.normal())


def run(function, log, seed, flags):
    """Everything that can be seen of two calls: outputs, gradient, log."""
    seen = []
    for scale, flag in zip((None, 2.5), flags, strict=True):
        x, y, n, first_scale = inputs(seed)
        outs = function(x, y, n, first_scale if scale is None else scale, flag=flag)
        if outs[0].requires_grad:
            outs[0].sum().backward()
        grad = None if x.grad is None else x.grad.numpy().copy()
        seen.append([*(out.detach().numpy().copy() for out in outs), grad, list(log)])
        log.clear()
    return seen


def one(seed, backend="eager"):
    """Run one program. Raises AssertionError for a difference; gives the counts."""
    function, log, text = define(seed)
    flags = (True, False) if "if flag" in text else (True, True)
    plain = run(function, log, seed, flags)
    step = jit(function, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = run(step, log, seed, flags)
    for expected_call, actual_call in zip(plain, compiled, strict=True):
        for expected, actual in zip(expected_call, actual_call, strict=True):
            if isinstance(expected, np.ndarray):
                np.testing.assert_allclose(
                    actual, expected, rtol=2e-5, atol=2e-6, err_msg=f"seed {seed}\n{text}"
                )
            else:
                assert actual == expected, f"seed {seed}\n{text}"
    counts = fuzz_seeds.counts_of(step)
    fuzz_seeds.check_stats(counts, step, splits=0)
    versions = (1, 2) if "if flag" in text or "if scale" in text else (1,)
    assert counts["graphs"] == counts["compiles"] in versions, f"seed {seed}\n{text}\n{step.stats}"
    return counts


@pytest.mark.parametrize("seed", fuzz_seeds.seeds(25))
def test_same_as_plain_python(seed):
    backend = None if seed % 4 == 0 else "python"  # loops as Python are compiled in no time
    fuzz_seeds.note("python", seed, one(seed, backend=backend))
