"""NumPy's kernels that compiled code calls back: counted, shown with the line, kept on disk."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest

import eager
from codegen.runtime.callback import ARRAY, NUMBER, Callback
from eager.core import attributes
from eager.core.op import REGISTRY
from eager.sizes.aval import Aval
from jitcap import custom_op, explain, jit
from jitcap.compile import graph_cache as graphs

pytestmark = pytest.mark.once


def decomposed(x):
    return eager.linalg.eigh(x @ x.t())[0].sum()


def test_they_are_counted_and_shown_with_the_line():
    x = eager.rand(3, 3)
    step = jit(decomposed)
    step(x)
    assert step.stats.callbacks == 1
    assert "1 callbacks" in str(step.stats)
    shown = explain(decomposed)(x)
    line = decomposed.__code__.co_firstlineno + 1
    assert shown.callbacks == (f"eigh (at {__file__}:{line})",)
    assert f"callback into NumPy: {shown.callbacks[0]}" in str(shown)
    assert "1 callbacks" in shown.summary()


def test_those_of_a_backward_that_is_asked_for_later():
    x = eager.rand(3, 3, requires_grad=True)
    step = jit(lambda x: eager.linalg.pinv(x).sum())
    out = step(x)
    before = step.stats.callbacks
    out.backward()
    assert step.stats.callbacks >= before >= 1


def test_a_program_without_one_has_none():
    step = jit(lambda x: (x * 2).sum())
    step(eager.ones(3))
    assert step.stats.callbacks == 0


PROGRAM = """
import sys
import eager
from jitcap import custom_op, jit

def step(x, n):
    return eager.linalg.eigh(x @ x.t() + n)[0], eager.linalg.pinv(x)

@custom_op("test::twice")
def twice(x):
    return x * 2

def mine(x):
    return twice(x) + 1

x = eager.arange(9.0).reshape(3, 3) / 9
for fn, args in ((step, (x, 0.5)), (mine, (x,))):
    made = jit(fn)
    found = made(*args)
    (version,) = made._entries.compiled.values()
    flat = [t.tolist() for t in (found if isinstance(found, tuple) else (found,))]
    print(version.graph is None, made.stats.callbacks, flat)
"""


def test_they_are_kept_on_disk_unless_they_are_the_users(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    env = {**os.environ, "CHECK": "0", "JITCAP_CACHE_DIR": str(tmp_path / "cache")}
    runs = [
        subprocess.run(
            [sys.executable, program], capture_output=True, text=True, check=True, env=env
        )
        for _ in range(2)
    ]
    first, second = (run.stdout.splitlines() for run in runs)
    assert first[0].startswith("False 2 ")
    assert second[0] == first[0].replace("False", "True")
    assert second[1] == first[1]  # captured again: what a custom op does is the program's
    assert second[1].startswith("False 1 ")


def test_a_function_of_the_users_may_call_operations():
    """Where it is called plainly, too."""

    @custom_op("test::of_operations")
    def of_operations(x):
        return (x * 2).sum() + x.square()

    x = eager.arange(3.0)
    for _ in range(2):
        assert of_operations(x).tolist() == [6, 7, 10]


def test_a_callback_is_data_and_back():
    out = Aval((2,), eager.complex64)
    attrs = {"a": (1, (2.5, -math.inf), None), "b": eager.float16, "c": "x", "d": True, "e": 1 - 2j}
    made = Callback(REGISTRY["fft_c2c"], attrs, (ARRAY, NUMBER, 3, 0.1, 2j), (out,), "f.py:3")
    again = graphs._call(graphs._call_data(made), attributes.NONE)
    assert (again.op, dict(again.attrs), again.operands) == (made.op, attrs, made.operands)
    assert (again.outs, again.where) == (made.outs, made.where)
    odd = Callback(made.op, {"a": np.ones(2)}, (), (), "")
    assert graphs._call_data(odd) is None


@pytest.mark.parametrize(
    "change",
    [
        {"op": "no_such"}, {"op": None}, {"outs": [[[2], "float99", "cpu"]]}, {"operands": 3},
        {"attrs": {"a": ["run", "x"]}}, {"attrs": {"a": ["t", ["d"]]}}, {"attrs": []},
        {"outs": [[2]]}, {"op": "test_of_data"},
    ],
)  # fmt: skip
def test_other_data_is_refused(change):
    if "test_of_data" not in REGISTRY:
        custom_op("test::of_data", lambda x: x)
    data = graphs._call_data(Callback(REGISTRY["fft_c2c"], {"a": 1}, (ARRAY,), (), ""))
    with pytest.raises((LookupError, TypeError, ValueError, AttributeError)):
        graphs._call(data | change, attributes.NONE)
