"""A seeded slice of the registry's samples on the simulated GPU; `scripts/device` runs all."""

import random

import device_ops
import pytest

import eager

pytest.importorskip("triton.language")
CHOSEN = sorted(random.Random(4).sample([p.torch for p in device_ops.cases()], 12))


@pytest.mark.parametrize("name", CHOSEN)
def test_as_on_the_cpu(name):
    """Values everywhere, gradients in float32; right, or right by way of the host."""
    for p in (p for p in device_ops.cases() if p.torch == name):
        for dtype, found in device_ops.outcomes(p, (eager.float32,)):
            assert found.what in ("right", "host", "refused"), (dtype, found)


def test_the_outcomes_are_told_apart():
    named = {p.torch: p for p in device_ops.cases()}
    (sample, *_) = named["exp"].samples()
    assert device_ops.outcome(named["exp"], sample, eager.float64, True).what == "right"
    (sample, *_) = named["sort"].samples()
    assert device_ops.outcome(named["sort"], sample, eager.float32, True).what == "host"
