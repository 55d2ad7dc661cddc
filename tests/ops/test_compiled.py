"""The registry's samples once more, through `jit`: values and gradients of compiled code against eager."""

import numpy as np
import op_harness as harness
import pytest

import eager

jitcap = pytest.importorskip("jitcap", reason="jitcap cannot be imported")
if not hasattr(jitcap, "jit"):
    pytest.skip("jitcap has no jit yet", allow_module_level=True)

pytestmark = [pytest.mark.compiled, pytest.mark.slow]

# These run between two compiled parts and say so in a warning, which has a test of its own.
VALUES_DECIDE = {
    *("argwhere", "bincount", "equal", "masked_select", "nonzero"),
    *("unique", "unique_consecutive"),
}
NO_DERIVATIVE = {"floor_divide"}  # in the reference as little
# All calls of one function are compiled together: a compiler process for each would take minutes.
CASES = [pytest.param(p, id=p.torch) for p in harness.cases() if p.name not in VALUES_DECIDE]
DTYPES = (eager.float32, eager.float64, eager.float16, eager.bfloat16)


TOLERANCE = {
    "float32": (1e-5, 5e-6),
    "float64": (1e-9, 1e-11),
    "float16": (4e-3, 4e-3),
    "bfloat16": (3e-2, 3e-2),
}


def _calls(p, dtypes=DTYPES, grad=False):
    """(dtype, tensors, arguments by position, by name) of the calls to make: one sample of each layout
    and one with arguments are enough, in the first dtype; the first sample in the others.
    """
    samples = [s for s in harness.samples(p)[:2] if s.grad or not grad]
    for k, dtype in enumerate(dtypes):
        for sample in samples if k == 0 else samples[:1]:

            def make(x, dtype=dtype):
                return harness.ours(x, dtype, grad)

            try:
                (args, kwargs), made = harness.call(lambda *a, **k: (a, k), sample, make)
                p.fn(*args, **kwargs)
            except RuntimeError:  # no such op on 16-bit floats, in eager as little
                assert dtype in harness.HALVES
                continue
            yield dtype, made, args, kwargs


def _compare(mine, expected, dtype):
    a, b = harness.flat(mine), harness.flat(expected)
    assert len(a) == len(b)
    rtol, atol = TOLERANCE[dtype.name]
    for x, y in zip(a, b, strict=True):
        assert harness.dtype_name(x) == harness.dtype_name(y)
        p, q = harness.to_numpy(x), harness.to_numpy(y)
        assert p.shape == q.shape
        np.testing.assert_allclose(p, q, rtol=rtol, atol=atol)


@pytest.mark.parametrize("p", CASES)
def test_compiled_value(p):
    calls = list(_calls(p))

    def every():
        return [p.fn(*args, **kwargs) for _, _, args, kwargs in calls]

    eager.manual_seed(0)
    expected = every()
    eager.manual_seed(0)
    step = jitcap.jit(every)
    for (dtype, *_), mine, wanted in zip(calls, step(), expected, strict=True):
        _compare(mine, wanted, dtype)
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)


@pytest.mark.parametrize("p", [c for c in CASES if c.values[0].name not in NO_DERIVATIVE])
def test_compiled_gradient(p):
    calls = list(_calls(p, DTYPES[:1], grad=True))

    def every():
        return [p.fn(*args, **kwargs) for _, _, args, kwargs in calls]

    def gradients(run):
        eager.manual_seed(0)
        total = harness.weighted_sum(run(), eager)
        leaves = [t for _, made, _, _ in calls for t in made if t.requires_grad]
        if total is None or not total.requires_grad or not leaves:
            return []
        return eager.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)

    expected = gradients(every)
    if not expected:
        pytest.skip("not differentiable")
    _compare(gradients(jitcap.jit(every)), expected, eager.float32)
