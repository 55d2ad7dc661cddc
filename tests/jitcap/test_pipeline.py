"""The road from a call to its version."""

import sys

import pytest

import eager
from jitcap import jit
from jitcap.capture.opcodes.table import OPCODES


def doubled(x):
    return x * 2


class Counter:
    calls = 0

    @jit(backend="eager")
    def step(self, x):
        self.calls += 1
        return x + self.calls


CALLED = {
    "function": jit(doubled, backend="eager"),
    "method": Counter().step,
    "module": jit(eager.nn.ReLU(), backend="eager"),
}


@pytest.mark.parametrize("kind", CALLED)
def test_few_frames_lie_between_the_call_and_the_first_opcode(kind, monkeypatch):
    """A debugger goes through them, and whoever looks for the place where something is done."""
    names = []

    def noting(opcode):
        def run(vm, frame, ins):
            above = sys._getframe(1)
            while names[-1:] != ["Jitted.__call__"]:
                names.append(above.f_code.co_qualname)
                above = above.f_back
            return opcode(vm, frame, ins)

        return run

    for name, opcode in OPCODES.items():
        monkeypatch.setitem(OPCODES, name, noting(opcode))
    assert CALLED[kind](eager.ones(3)).shape == (3,)
    assert len(names) <= 8, names[::-1]
