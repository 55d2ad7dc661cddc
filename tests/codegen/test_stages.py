"""Every transformation is a row of the table, and prints; kernels print as Python that runs."""

import functools

import pytest

import codegen
import eager
from codegen import show
from codegen.ir import expr
from codegen.targets.python.runtime.flat import FlatProgram
from eager.nn import functional as F
from jitcap import config, explain
from tests.codegen.checking import floats, ints, run_eager, same
from tests.codegen.tracing import trace
from tests.helpers.work import calls_made


def step(x, w, i):
    h = F.softmax(x @ w + x.sum(1, keepdim=True), -1)
    return eager.cat([h, h[i] * 2], 1), eager.where(h > 0.1, h, 0).max(0)[1]


ARGS = floats(6, 8), floats(8, 8, seed=1), ints(0, 6, 6)


def called(function, names, arrays):
    function(*map(arrays.__getitem__, names))


@pytest.mark.parametrize(
    "name", ["fused", "hoisted", "placed", "split", "cut", "scheduled", "tiled"]
)
def test_printed_kernels_run(name):
    program, inputs = trace(step, *ARGS)
    results, texts, _ = codegen.run_stages(program)
    printed, functions = {}, {}
    exec(texts[name], printed)
    fused = getattr(results[name], "fused", results[name])
    kernels = show.Kernels()
    for kernel in fused.kernels():
        first, arguments = kernels.call(kernel).rstrip(")").split("(")
        functions[kernel.name] = functools.partial(called, printed[first], arguments.split(", "))
    for got, expected in zip(
        FlatProgram(fused, functions)(inputs), run_eager(step, ARGS), strict=True
    ):
        same(got, expected, 1e-5, 1e-6, name)


@pytest.mark.parametrize("backend", codegen.BACKENDS)
def test_each_stage_prints(backend):
    texts = codegen.run_stages(trace(lambda x: x.sum(0) * 2, floats(4, 5))[0], backend)[1]
    names = [stage.name for stage in codegen.BACKENDS[backend].stages]
    assert list(texts) == ["program", *names]
    assert len(set(names)) == len(names)
    assert not [name for name in names if " object at 0x" in texts[name]]


def test_a_user_sees_each_stage(tmp_path):
    names = [stage.name for stage in codegen.BACKENDS["cpp"].stages]
    x = eager.from_numpy(floats(4, 5))
    with config(dump=str(tmp_path), backend="cpp"):
        stages = explain(lambda x: (x * 2).sum(0))(x).stages
    assert set(names) <= set(stages)
    written = {path.stem.partition("_")[2]: path.suffix for path in tmp_path.rglob("*.*")}
    assert {written[name] for name in ("spelled", "source")} == {".cpp"}
    assert {written[name] for name in ("fused", "placed", "scheduled", "tiled")} == {".py"}
    assert {written[name] for name in ("loops", "inlined", "groups", "plan")} == {".txt"}


def test_what_several_expressions_hold_is_walked_once():
    with expr.interning():
        roots = []
        x = expr.Local(eager.float32, "x")
        for _ in range(100):
            x = expr.Apply(eager.float32, "add", (x, x))
            roots.append(x)
        found = tuple(expr.walk(*roots))
        assert len(found) == 101
        assert calls_made(lambda: tuple(expr.walk(*roots))) < 10
