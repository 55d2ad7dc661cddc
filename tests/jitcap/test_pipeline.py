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


@pytest.mark.parametrize("backend", ["python", "cpp"])
def test_a_file_whose_name_has_lines(backend):
    """Names of files stand in comments of what is compiled."""
    made = {}
    for name in ("a\nraise SystemExit(3)  #", "a\n#error b", "a\r#error b"):
        exec(compile("def f(x): return (x @ x).sum(0) + x.exp()", name, "exec"), made)
        f = jit(made["f"], backend=backend)
        assert f(eager.zeros(2, 2)).tolist() == [[1, 1]] * 2
        assert f.stats.fallbacks == 0, f.stats.refusals


@pytest.mark.parametrize("name", ["class", "a b", "\ufb01", "plain"])
def test_an_attribute_of_any_name(name):
    """CPython reads `x.\ufb01` as `x.fi`, and no name with a blank."""

    def f(x):
        made = x * 2
        setattr(x, name, 3)
        setattr(made, name, x)
        return made

    compiled, x = jit(f, backend="eager"), eager.ones(2)
    assert compiled(x).__dict__[name] is x
    assert x.__dict__[name] == 3
    assert "fi" not in x.__dict__
    assert compiled.stats.graphs == 1
    checked = jit(f, backend="eager", verify=True)
    assert checked(eager.ones(2)).tolist() == [2, 2]
