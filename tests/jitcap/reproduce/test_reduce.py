"""Files that show a fault: their inputs, and how far the graph is reduced."""

import os
import signal
import time

import numpy as np
import pytest
from planted_faults import operations, run, written

import eager
from eager.base import dtype as dt
from eager.sizes.aval import Aval
from jitcap import explain, reproduce
from jitcap.compile.suspect import Suspect
from jitcap.graph.tracer import trace
from jitcap.reproduce.fault import Outcome, Shown
from jitcap.reproduce.inputs import Given, as_it_is, by_rule
from jitcap.reproduce.reduce import Reduction
from jitcap.reproduce.search import _candidates
from jitcap.reproduce.shrink import Candidate, keeping
from jitcap.reproduce.text import graph_text

NAMES = ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "complex64"]


@pytest.mark.parametrize("name", NAMES)
def test_inputs(name, tmp_path):
    """A rule gives values of that range; what is stored is the very value."""
    aval = Aval((300, 20), dt.by_name(name))
    value = np.random.default_rng(0).uniform(1, 90, aval.shape).astype(aval.dtype.np)
    value[0] = name != "bool"
    scope = vars(reproduce)
    for given in (by_rule(aval, value, 3), as_it_is(aval, value)):
        for text in (given.text(), given.text(tmp_path, 1)):
            made = eval(text, dict(scope))
            assert (made.dtype, made.shape) == (value.dtype, value.shape)
            assert made.tobytes() == given.value.tobytes()
    made = by_rule(aval, value, 3).value.astype(np.complex128).real
    assert made.min() >= (0 if name in ("bool", "complex64") else 0.99)
    assert made.max() <= 91
    assert len(np.unique(made)) > (1 if name == "bool" else 50)


def test_inputs_tell_a_range_in_two_digits():
    aval = Aval((4,), dt.float32)
    value = np.array([0.12345, -7.891, np.inf, np.nan], np.float32)
    assert by_rule(aval, value, 1).rule == 'random("float32[4]", -7.9, 0.13, seed=1)'
    number = Aval((), dt.float64, weak=True)
    assert by_rule(number, 0.1, 1) == Given(number, 0.1)
    assert by_rule(number, 0.1, 1).text() == "0.1"


def chain(x, y):
    for i in range(12):
        x = (x * y + i).sin() - y
    x = x.exp().tanh()
    for i in range(12):
        x = (x * y + i).cos() - y
    return x, x.sum(), (x + y).sum(0)


def candidate(fn, *tensors):
    graph = trace(fn, *tensors).graph
    given = tuple(as_it_is(n.aval, t._array) for n, t in zip(graph.inputs, tensors, strict=True))
    return Candidate(graph, given, "eager", as_it_is)


def names(found):
    return [n.op.name for n in found.graph.nodes]


@pytest.mark.parametrize("ops", [{"tanh"}, {"exp", "tanh"}, {"sin", "cos"}, {"tanh", "sum"}])
def test_the_smallest_graph(ops):
    """Faults of one operation, of neighbours, and of two that are far apart."""
    trials = []

    def try_(each):
        trials.append(each)
        there = ops <= set(names(each)) and max(n.aval.shape[-1:] for n in each.graph.inputs) > (2,)
        return Outcome("wrong" if there else "")

    whole = candidate(chain, eager.rand(16, 24), eager.rand(24))
    assert len(whole.graph) > 100
    reduction = Reduction(whole, Outcome("wrong"), try_)
    reduction.run()
    best = reduction.best
    assert reduction.whole
    assert sorted(names(best)) == sorted(ops)
    assert max(n.aval.shape for n in best.graph.inputs)[-1] == 3
    assert all(g.rule for g in best.given)
    assert len(trials) < 120


def test_what_is_left_computes_what_it_did():
    """Cut anywhere, the operations that are left give the values that they gave."""
    whole = candidate(chain, eager.rand(4, 3), eager.rand(3))
    known = dict(whole.graph.steps(whole.values))
    chance = np.random.default_rng(0)
    for _ in range(20):
        kept = [n for n in whole.units if chance.random() < 0.3]
        less = keeping(whole, kept)
        number = [n for n in whole.graph.nodes if n in set(kept)]
        pairs = zip(less.graph.nodes, number, strict=True)
        values = dict(less.graph.steps(less.values))
        assert all(np.array_equal(values[new], known[old]) for new, old in pairs)


def sized(x):
    y = (x * x.shape[0]).reshape(-1)
    return y[y > 0.5].exp(), (x + 1).sum(1)


def test_sizes_that_vary():
    """The sizes of now first, then symbols; what finds a size is an input."""
    (graph,) = explain(sized, backend="eager", dynamic=True)(eager.rand(4, 3)).graphs
    assert graph.takes_symbols
    assert graph.has_data_sizes
    x = eager.rand(4, 3)._array
    sizes = iter(x.shape)
    values = [next(sizes) if "symbol" in n.attrs else x for n in graph.inputs]
    found = [*_candidates(Suspect(graph, values, (), None, "eager"))]
    part = graph.with_(nodes=graph.nodes[:3], outputs=(graph.nodes[2],))
    found += _candidates(Suspect(part, None, (), None, "eager"))
    assert [c.graph.has_symbols for c, _ in found] == [False, False, False, True]
    for each, _ in found:
        scope = {}
        exec(graph_text(each, "wrong"), scope)
        fault = scope["FAULT"]
        again = fault._graph()
        assert [n.op for n in again.nodes] == [n.op for n in each.graph.nodes]
        for a, b in zip(again.run(fault.inputs()), each.graph.run(each.values), strict=True):
            assert np.array_equal(a, b)


class Dies(Shown):
    def __init__(self, how):
        super().__init__("", "eager", None)
        self.how = how

    def _found(self, backend, say):
        say("running", 0.3)
        self.how()


@pytest.mark.parametrize(
    ("how", "fault"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "SIGSEGV"),
        (lambda: time.sleep(100), "hang"),
        (lambda: 1 / 0, "invalid"),
        (lambda: os._exit(3), "exit"),
    ],
)
def test_a_child_that_dies(how, fault):
    """A crash or an endless loop of what is tried ends nothing else."""
    assert Dies(how).outcome().fault == fault


@pytest.mark.once
def test_verify_writes_a_file(tmp_path):
    script = tmp_path / "train.py"
    script.write_text("""
import eager
from jitcap import VerifyError, jit

@jit(backend="eager", verify=True)
def step(x):
    for i in range(20):
        x = x * 2 - x.sin()
    return x.tanh() + x

for _ in range(2):
    try:
        step(eager.rand(8))
    except VerifyError as error:
        print(error.file, str(error).count("jitcap_repro"))
""")
    ran = run(script, plant="pass", cwd=tmp_path, JITCAP_REPRODUCE="30")
    file = written(tmp_path)
    assert file.name == "step_tanh.py"
    assert ran.stdout.count(f"jitcap_repro/{file.name} (1 of ") == 2  # the second time it is known
    assert operations(file) == ["tanh"]
    assert "tanh at train.py:9" in file.read_text()


def test_no_file(monkeypatch, tmp_path):
    """What no file can show, it says."""
    monkeypatch.setenv("JITCAP_REPRODUCE", "20")
    monkeypatch.chdir(tmp_path)
    right = candidate(lambda x: x + 1, eager.rand(3))
    suspect = Suspect(right.graph, right.values, (), None, "eager")
    assert "does not show" in reproduce.write([suspect], "step", "a difference")
    monkeypatch.setenv("JITCAP_REPRODUCE", "0")
    assert reproduce.write([suspect], "step", "another") == ""
    assert not [*tmp_path.iterdir()]
