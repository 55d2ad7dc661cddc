"""The registry's samples once more, through `jit`: values and gradients of compiled code against eager."""

import itertools

import numpy as np
import op_harness as harness
import pytest
import share

import eager

jitcap = pytest.importorskip("jitcap", reason="jitcap cannot be imported")
if not hasattr(jitcap, "jit"):
    pytest.skip("jitcap has no jit yet", allow_module_level=True)

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::UserWarning"),  # of samples
]

# These run between two compiled parts and say so in a warning, which has a test of its own: the
# values of tensors decide on sizes, or where they lie in memory.
VALUES_DECIDE = {
    *("argwhere", "bincount", "equal", "masked_select", "nonzero"),
    *("nonzero_static", "as_strided", "as_strided_copy", "as_strided_scatter"),
    *("unique", "unique_consecutive"),
}
NO_DERIVATIVE = {"floor_divide"}  # in the reference as little
# Calls of a few functions are compiled together: a compiler process for each would take minutes.
TOGETHER = 6
FUNCTIONS = [p for p in harness.cases() if p.name not in VALUES_DECIDE]
CASES = [FUNCTIONS[i : i + TOGETHER] for i in range(0, len(FUNCTIONS), TOGETHER)]
DTYPES = (eager.float32, eager.float64, eager.float16, eager.bfloat16)


TOLERANCE = {
    "float32": (1e-5, 5e-6),
    "float64": (1e-9, 1e-11),
    "float16": (4e-3, 4e-3),
    "bfloat16": (3e-2, 3e-2),
}


def _chosen(p):
    """(dtype, sample, whether with gradients): of the first two samples (one of each layout, one with
    arguments) the later in the first dtype, with gradients, and the other one in another dtype, in
    turn. In scripts/nightly both in the first dtype, and the other one in all others."""
    samples = sorted(harness.samples(p)[:2], key=lambda s: s.grad)
    turn = 1 + FUNCTIONS.index(p) % 3
    others = DTYPES[1:] if share.ALL else DTYPES[turn : turn + 1]
    pairs = [(DTYPES[0], sample) for sample in (samples if share.ALL else samples[-1:])]
    for dtype, sample in pairs + [*itertools.product(others, samples[:1])]:
        yield dtype, sample, dtype is DTYPES[0] and sample.grad and p.name not in NO_DERIVATIVE


def _calls(p):
    """(dtype, tensors, arguments by position, by name) of the calls to make."""
    for asked, sample, grad in _chosen(p):
        for dtype in (asked, eager.float64):

            def make(x, dtype=dtype, grad=grad):
                return harness.ours(x, dtype, grad)

            try:
                (args, kwargs), made = harness.call(lambda *a, **k: (a, k), sample, make)
                p.fn(*args, **kwargs)
            except RuntimeError:  # no such op on 16-bit floats, in eager as little
                assert dtype in harness.HALVES
                continue
            yield dtype, made, args, kwargs
            break


def _compare(mine, expected, dtype, what):
    a, b = harness.flat(mine), harness.flat(expected)
    assert len(a) == len(b), what
    rtol, atol = TOLERANCE[dtype.name]
    for x, y in zip(a, b, strict=True):
        assert harness.dtype_name(x) == harness.dtype_name(y), what
        p, q = harness.to_numpy(x), harness.to_numpy(y)
        assert p.shape == q.shape, what
        np.testing.assert_allclose(p, q, rtol=rtol, atol=atol, err_msg=what)


@pytest.mark.parametrize("functions", CASES, ids=lambda ps: "-".join(p.torch for p in ps))
def test_compiled(functions):
    """Values in one graph, gradients in another that continues it."""
    calls = [(p, list(_calls(p))) for p in functions]
    leaves = [[t for _, made, *_ in each for t in made if t.requires_grad] for _, each in calls]

    def every():
        return [[p.fn(*args, **kwargs) for _, _, args, kwargs in each] for p, each in calls]

    def gradients(results):
        """Of one number that depends on all results; a list for each function."""
        totals = [harness.weighted_sum(each, eager) for each in results]
        totals = [t for t in totals if t is not None]
        if not totals:
            return [[] for _ in calls]
        every_leaf = [t for tensors in leaves for t in tensors]
        found = eager.autograd.grad(totals, every_leaf, allow_unused=True, materialize_grads=True)
        found = iter(found)
        return [[next(found) for _ in tensors] for tensors in leaves]

    eager.manual_seed(0)
    expected = every()
    eager.manual_seed(0)
    step = jitcap.jit(every)
    results = step()
    assert (step.stats.graphs, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)
    for (p, each), mine, wanted in zip(calls, results, expected, strict=True):
        for (dtype, *_), a, b in zip(each, mine, wanted, strict=True):
            _compare(a, b, dtype, p.torch)
    for (p, _), mine, wanted in zip(calls, gradients(results), gradients(expected), strict=True):
        _compare(mine, wanted, DTYPES[0], f"gradient of {p.torch}")
