"""The functions that compiled code leaves to NumPy: exactly those that the documentation lists."""

import re
from pathlib import Path

import op_harness as harness
import pytest

import codegen
import eager
from codegen.ir.schema import Program
from eager.core import dispatch
from eager.core.tensor import wrap
from tests.codegen.tracing import ProgramTracer

LIMITS = Path(__file__).resolve().parents[3] / "docs" / "limits.md"
LISTED = re.compile(r"^ *\| (`.*`) \| `\w+` \| .+ \|$", re.MULTILINE)
MOST = 12


def documented():
    rows = LISTED.findall(LIMITS.read_text())
    return sorted(name for row in rows for name in re.findall(r"`([\w.]+)`", row))


def callbacks(p):
    """What the code of the first sample calls back; None where values decide what is done (sizes,
    numbers of the program): then there is more than one compiled part, or a plain run."""
    if not harness.samples(p):
        return None
    try:
        results, _, _ = codegen.run_stages(traced(p))
    except Exception:  # the tracer knows no numbers and no sizes that data decide
        return None
    return results["source"].signature.callbacks


def traced(p):
    """The first sample as a Program."""
    tracer = ProgramTracer()
    token = dispatch.current_tracer.set(tracer)
    try:
        found, _ = harness.call(
            p.fn,
            harness.samples(p)[0],
            lambda x: wrap(tracer.input(harness.ours(x, eager.float32).numpy())),
        )
        tensors = [t for t in harness.flat(found) if isinstance(t, eager.Tensor)]
        outputs = tuple(t._array.read() for t in tensors)
    finally:
        dispatch.current_tracer.reset(token)
    return Program(tuple(v for v, _ in tracer.inputs), tuple(tracer.calls), outputs, ())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_documented_functions_are_called_back_and_no_others():
    found = {p.name: callbacks(p) for p in harness.cases()}
    assert sum(calls is not None for calls in found.values()) > 440
    assert sorted(name for name, calls in found.items() if calls) == documented()
    assert len(documented()) <= MOST
