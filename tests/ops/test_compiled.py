"""The registry's samples once more, through `jit`: values and gradients of compiled code against eager."""

import numpy as np
import op_harness as harness
import pytest

import eager

jitcap = pytest.importorskip("jitcap", reason="jitcap cannot be imported")
if not hasattr(jitcap, "jit"):
    pytest.skip("jitcap has no jit yet", allow_module_level=True)

pytestmark = [pytest.mark.compiled, pytest.mark.slow]

# These run as plain Python and say so in a warning, which has a test of its own.
SIZES_DEPEND_ON_VALUES = {"argwhere", "masked_select", "nonzero"}
# One sample of each layout and one with arguments are enough: the rest is eager's business.
CASES = [
    pytest.param(p, sample, id=f"{p.torch}:{i}")
    for p in harness.cases()
    for i, sample in enumerate(harness.samples(p))
    if i in (0, 1) and p.name not in SIZES_DEPEND_ON_VALUES
]


TOLERANCE = {
    "float32": (1e-5, 5e-6),
    "float64": (1e-9, 1e-11),
    "float16": (4e-3, 4e-3),
    "bfloat16": (3e-2, 3e-2),
}


def _compare(mine, expected, dtype=eager.float32):
    a, b = harness.flat(mine), harness.flat(expected)
    assert len(a) == len(b)
    rtol, atol = TOLERANCE[dtype.name]
    for x, y in zip(a, b, strict=True):
        assert harness.dtype_name(x) == harness.dtype_name(y)
        p, q = harness.to_numpy(x), harness.to_numpy(y)
        assert p.shape == q.shape
        np.testing.assert_allclose(p, q, rtol=rtol, atol=atol)


@pytest.mark.parametrize(("p", "sample"), CASES)
def test_compiled_value(p, sample):
    expected, _ = harness.call(p.fn, sample, lambda x: harness.ours(x, eager.float32))
    mine, _ = harness.call(jitcap.jit(p.fn), sample, lambda x: harness.ours(x, eager.float32))
    _compare(mine, expected)


@pytest.mark.parametrize("dtype", [eager.float64, eager.float16, eager.bfloat16], ids=repr)
@pytest.mark.parametrize(("p", "sample"), [c for c in CASES if c.id.endswith(":0")])
def test_compiled_value_of_other_types(p, sample, dtype):
    try:
        expected, _ = harness.call(p.fn, sample, lambda x: harness.ours(x, dtype))
    except RuntimeError as error:
        pytest.skip(str(error))
    mine, _ = harness.call(jitcap.jit(p.fn), sample, lambda x: harness.ours(x, dtype))
    _compare(mine, expected, dtype)


@pytest.mark.parametrize(("p", "sample"), [c for c in CASES if c.values[1].grad])
def test_compiled_gradient(p, sample):
    try:
        expected = harness.gradients(p, p.fn, sample, eager, eager.float32)
    except RuntimeError as error:
        pytest.skip(str(error))
    mine = harness.gradients(p, jitcap.jit(p.fn), sample, eager, eager.float32)
    _compare(mine or [], expected or [])
