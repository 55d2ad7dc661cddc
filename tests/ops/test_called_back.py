"""The functions that compiled code leaves to NumPy: exactly those that the documentation lists."""

import re
from pathlib import Path

import op_harness as harness
import pytest

import codegen
import eager
from codegen.ir import Program
from eager import dispatch
from eager.sym import SymNumber
from eager.tensor import wrap
from eager.traced import UnknownValue
from tests.codegen.tracing import ProgramTracer

LIMITS = Path(__file__).resolve().parents[2] / "docs" / "limits.md"
LISTED = re.compile(r"^ *\| (`.*`) \| `\w+` \| .+ \|$", re.MULTILINE)
MOST = 28
# The sizes of their results depend on values: they run between two compiled parts.
VALUES_DECIDE = {"bincount", "masked_select", "unique", "unique_consecutive"}


def documented():
    rows = LISTED.findall(LIMITS.read_text())
    return sorted(name for row in rows for name in re.findall(r"`([\w.]+)`", row))


def callbacks(p):
    """What the code of the first sample calls back; None where the sample needs values."""
    if p.name in VALUES_DECIDE or not harness.samples(p):
        return None
    tracer = ProgramTracer()
    token = dispatch.current_tracer.set(tracer)
    try:
        found, _ = harness.call(
            p.fn,
            harness.samples(p)[0],
            lambda x: wrap(tracer.input(harness.ours(x, eager.float32).numpy())),
        )
        tensors = [t for t in harness.flat(found) if isinstance(t, eager.Tensor)]
        outputs = tuple(t._array.read() if hasattr(t._array, "read") else None for t in tensors)
    except UnknownValue:
        return None
    finally:
        dispatch.current_tracer.reset(token)
    if any(isinstance(x, SymNumber) for x in harness.flat(found)) or None in outputs:
        return None
    inputs = tuple(v for v, _ in tracer.inputs)
    program = Program(inputs, tuple(tracer.calls), outputs, ())
    results, _, _ = codegen.run_stages(program)
    return results["source"].signature.callbacks


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_documented_functions_are_called_back_and_no_others():
    found = {p.name: callbacks(p) for p in harness.cases()}
    assert sum(calls is not None for calls in found.values()) > 340
    assert sorted(name for name, calls in found.items() if calls) == documented()
    assert len(documented()) <= MOST
