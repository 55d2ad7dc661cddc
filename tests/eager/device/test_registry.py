"""A seeded slice of the registry's samples on the simulated GPU; `scripts/device` runs all."""

import random

import device_jit
import device_ops
import op_harness
import pytest

import eager

pytest.importorskip("triton.language")
DTYPES = (eager.float32, eager.bfloat16, eager.int64)
CHOSEN = sorted(random.Random(4).sample([p.torch for p in device_ops.cases()], 12))


@pytest.mark.parametrize("name", CHOSEN)
def test_as_on_the_cpu(name):
    """Values everywhere, gradients in float32; right, or right by way of the host."""
    for p in (p for p in device_ops.cases() if p.torch == name):
        for dtype, found in device_ops.outcomes(p, (eager.float32,)):
            assert found.what in ("right", "host", "refused", "unchecked"), (dtype, found)


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_compiled_as_on_the_cpu():
    """With gradients, in several types."""
    rows = random.Random(5).sample(device_ops.cases(), 12)
    for dtype, chosen in zip(DTYPES, (rows[k::3] for k in range(3)), strict=True):
        jobs = [device_jit.Job(p, s, dtype) for p in chosen for s in op_harness.samples(p)[:2]]
        for job, found in device_jit.outcomes(jobs):
            assert found.what in ("right", "host", "refused", "unchecked"), (
                job.p.torch,
                dtype,
                found,
            )


def test_the_outcomes_are_told_apart():
    named = {p.torch: p for p in device_ops.cases()}
    (sample, *_) = named["exp"].samples()
    assert device_ops.outcome(named["exp"], sample, eager.float64, True).what == "right"
    (sample, *_) = named["linalg.svdvals"].samples()
    assert device_ops.outcome(named["linalg.svdvals"], sample, eager.float32, True).what == "host"
