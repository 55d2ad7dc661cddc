"""What the tests of tracing by dispatch share: an unknown CPython, and calls beside plain Python."""

import numpy as np
import pytest

import eager
import jitcap
from jitcap import JitcapWarning, jit
from jitcap.capture import bytecode

TOLERANCE = 2e-5


@pytest.fixture(autouse=True)
def unknown_python(monkeypatch):
    """The one function that says which CPython is known."""
    monkeypatch.setattr(bytecode, "is_known", lambda: False)
    jitcap.reset()
    with pytest.warns(JitcapWarning) as said:
        jit(lambda x: x + 1)(eager.ones(1))
    assert any("traced by dispatch" in str(w.message) for w in said)


def flat(value):
    """The tensors and numbers of a result."""
    if isinstance(value, eager.Tensor):
        return [value.detach().numpy().copy()]
    if isinstance(value, dict):
        value = list(value.values())
    return [x for v in value for x in flat(v)] if isinstance(value, tuple | list) else [value]


def close(a, b):
    for x, y in zip(flat(a), flat(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=TOLERANCE, atol=TOLERANCE)


def run(build, calls, *, jitted, **options):
    """Results of the calls, and what is left; `build` gives (step, what to look at)."""
    eager.manual_seed(0)
    step, look = build()
    step = jit(step, backend="python", **options) if jitted else step
    eager.manual_seed(5)
    found = [(flat(step(*args)), flat(look())) for args in calls]
    return found, step


def same(build, calls, *, compiles=1, fallbacks=0):
    """The function, traced, does what it does plainly; its statistics."""
    want, _ = run(build, calls, jitted=False)
    got, step = run(build, calls, jitted=True)
    for a, b in zip(got, want, strict=True):
        close(a, b)
    stats = step.stats
    assert (stats.compiles, stats.fallbacks) == (compiles, fallbacks), str(stats)
    assert stats.splits == 0
    return stats
