"""The registry's samples on traced tensors: shape rules and index maps hold, values are eager's."""

import numpy as np
import op_harness as harness
import pytest
from value_tracer import traced, tracing, value

import eager


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("p", harness.cases(), ids=lambda p: p.torch)
def test_traced(p):
    for sample in harness.each(harness.samples(p)):
        expected, _ = harness.call(p.fn, sample, lambda x: harness.ours(x, eager.float32))
        with tracing() as tracer:
            try:
                found, _ = harness.call(
                    p.fn, sample, lambda x: traced(tracer, harness.ours(x, eager.float32).numpy())
                )
            except eager.core.traced.UnknownValue:  # it needs values
                continue
        for a, b in zip(harness.flat(found), harness.flat(expected), strict=True):
            if isinstance(a, eager.Tensor):
                np.testing.assert_allclose(value(a), harness.to_numpy(b), rtol=1e-5, atol=1e-6)
