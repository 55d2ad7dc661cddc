"""Graphs and versions whose sizes are symbols, kept on disk and found again for other sizes."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import eager
from codegen import Target
from codegen.runtime import cache
from eager.core.attributes import decode, encode
from eager.sizes.symint import SymInt, terms_of
from jitcap import config, jit
from jitcap.base.diagnostics import Trail
from jitcap.compile import graph_cache as graphs
from jitcap.compile.compile_graph import compile_graph, recall
from jitcap.compile.optimise import run_passes
from jitcap.graph.symbols import Sizes
from jitcap.graph.tracer import trace
from tests.codegen.symbolic import f32

pytestmark = pytest.mark.once

TARGET = Target("cpp", config.isa)


def test_files_edited_since_the_import_say_nothing_of_what_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    path, build = tmp_path / "source.py", graphs.package_build.__wrapped__
    path.write_text("edited")
    monkeypatch.setattr(graphs, "_sources", lambda: [(str(path), path.stat())])
    made = [build()]
    os.utime(path, (1e9, 1e9))
    made += [build(), build()]
    assert made[0] != made[1] == made[2]
    assert len(cache.default().rows()) == 1


def traced():
    """(Scope, Graph) of a program whose masks want indices of 32 bits."""
    scope = Sizes()
    n, k = scope.symbol("n", 8), scope.symbol("k", 9)
    fn = lambda n, k, x: (eager.softmax(eager.tril(x), -1), x[1:].sum(0) + n // 2)
    return scope, trace(fn, n, k, f32(n, k)).graph


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path))
    with config(check=False):
        yield


def test_another_capture_finds_it(own_cache):
    first, graph = traced()
    made = compile_graph(graph)
    assert made.artifact.plan.get("compiler_us")
    second, graph = traced()
    found = compile_graph(graph)
    assert "compiler_us" not in found.artifact.plan
    asked = [[(r, str(size), holds) for r, size, holds in s.guards] for s in (first, second)]
    assert asked[0] == asked[1]
    for n, k in ((2, 3), (5, 17), (40, 33)):
        x = np.random.default_rng(n).standard_normal((n, k)).astype(np.float32)
        for got, want in zip(found.run([n, k, x]), graph.run([n, k, x]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_what_guards_said_is_in_the_key(own_cache):
    compile_graph(traced()[1])
    scope, graph = traced()
    assert scope.symbols["n"].lo == 2
    n = scope.symbols["n"]
    scope.answer(">=", SymInt((((n,), 1), ((), -5))))
    assert compile_graph(graph).artifact.plan.get("compiler_us")


def index_of(scope, graph):
    """The entry that says what compiling asked of sizes, and what it says."""
    place = graphs.place_of(run_passes(graph, Trail("f")), (None, ()), TARGET)
    entry = cache.default().get(place.key)
    return place, json.loads(json.dumps(entry.data))


def test_answers_that_do_not_hold_find_nothing(own_cache):
    first = compile_graph(traced()[1])
    scope, graph = traced()
    place, data = index_of(scope, graph)
    assert data["answers"]
    assert place.recall(lambda: None)[1] == first.key
    changes = [
        lambda rows: rows[0].__setitem__(2, False), lambda rows: rows[0].__setitem__(2, 1),
        lambda rows: rows[0].__setitem__(0, "<"), lambda rows: rows[0].__setitem__(1, 3),
        lambda rows: rows[0].__setitem__(1, ["s", [1, "m"]]), lambda rows: rows.append([]),
        lambda rows: rows.append(["==", ["s", [1, "n"]], False]), lambda rows: rows.clear(),
    ]  # fmt: skip
    for change in changes:
        rows = json.loads(json.dumps(data["answers"]))
        change(rows)
        cache.default().delete(place.key)
        cache.default().put(place.key, {"answers": rows}, {})
        scope, graph = traced()
        place, _ = index_of(scope, graph)
        assert place.recall(lambda: None) is None
        assert len(scope.guards) == place.known


def test_the_artifact_of_a_version_is_the_one_its_guards_were_made_for(own_cache, monkeypatch):
    """Another process answered otherwise, and compiled for that."""
    first = compile_graph(traced()[1])
    monkeypatch.setattr("codegen.ir.sizes.SHORT", 1 << 9)
    cache.default().delete(index_of(*traced())[0].key)
    scope, graph = traced()
    second = compile_graph(graph)
    assert second.artifact.plan.get("compiler_us")
    assert second.key != first.key
    assert recall(first.key, Trail("f")).artifact.run.module.path != second.artifact.run.module.path


@pytest.fixture
def signature(own_cache):
    """An artifact's data as it was written."""
    entry = cache.default().get(compile_graph(traced()[1]).key)
    data = json.loads(json.dumps(entry.data))
    assert graphs._signature(data).blocks is not None
    return data


BAD = ["n", -1, 1.5, None, True, [], ["s"], ["s", [1, "other"]], ["s", [1, ["//", 1, 0]]], ["t", 1]]


@pytest.mark.parametrize("size", BAD, ids=repr)
def test_crafted_sizes(signature, size):
    outputs, blocks = signature["outputs"], [[0, 0, size]]
    outputs = [[[size, *outputs[0][0][1:]], outputs[0][1]], *outputs[1:]]
    for changed in ({"outputs": outputs}, {"blocks": blocks}, {"arena_bytes": size}):
        with pytest.raises(cache.DAMAGED):
            graphs._signature({**signature, **changed})


@pytest.mark.parametrize(
    "rows", [[["n", 9]], [["n", -1]], [["n", 2]], [["n", "0"]], [[1, 0]], [["n", 0], ["n", 0]], [7]]
)
def test_crafted_symbols(signature, rows):
    with pytest.raises(cache.DAMAGED):
        graphs._signature({**signature, "symbols": rows})


def test_symbols_of_an_artifact_answer_nothing(signature):
    size = next(n for s in graphs._signature(signature).outputs for n in s.shape)
    assert isinstance(size, SymInt)
    for question in (bool, int, lambda n: n < 5, lambda n: n.number()):
        with pytest.raises((RuntimeError, NotImplementedError)):
            question(size)


# ---- versions, in other processes

PROGRAM = """
import sys
import numpy as np, eager
import eager.nn.functional as F
from eager import nn
from jitcap import assume_static, config, jit

kind, *sizes = sys.argv[1:]
if kind == "narrow":  # so that compiling asks, and its answers matter
    from codegen.ir import sizes as asked
    asked.SHORT = 1 << 12

def floats(*shape):
    return eager.from_numpy(np.random.default_rng(shape).standard_normal(shape, dtype=np.float32))

eager.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))

def training(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss, x[1:], (x.shape[0] + 1) // 2
    return step

def mask(x, y):
    return eager.softmax(eager.tril(x), -1), y.view(-1, 1)

def eighths(x, y):
    if x.shape[0] % 8 == 0:
        return x.view(-1, 8, 6).sum(1)
    return x * 2

def sorted_rows(x, y):  # NumPy's, called back
    return eager.sort(x, dim=0)[0]

optimizer = eager.optim.SGD(model.parameters(), lr=0.1)
twin = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))
twin.load_state_dict(model.state_dict())
plain = training(twin, eager.optim.SGD(twin.parameters(), lr=0.1))
step = training(model, optimizer)
dynamic = False if kind == "static" else None
pairs = {"step": (jit(step, dynamic=dynamic), plain)}
for f in (mask, eighths, sorted_rows):
    pairs[f.__name__] = jit(f, dynamic=dynamic), f
for n in map(int, sizes):
    x, y = floats(n, 6), eager.from_numpy(np.arange(n) % 3)
    if kind == "marked":
        assume_static(x, 0)
    for compiled, fn in pairs.values():
        got, want = compiled(x, y), fn(x, y)
        for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, want)), strict=True):
            if isinstance(a, int):
                assert a == b
            else:
                np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 2e-4, 2e-5)
for name, (compiled, _) in pairs.items():
    made = [*compiled._entries.compiled.values()]
    built = sum("compiler" in m.trail.seconds for m in made)
    recalled = sum(m.graph is None for m in made)
    print(name, compiled.stats.compiles, recalled, built, compiled.stats.fallbacks)
print("sympy" in sys.modules)
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    """A process that runs the program: per function (versions, recalled, built, run plainly)."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.py").write_text(PROGRAM)

    def run(cache, kind, *sizes):
        env = {**os.environ, "CHECK": "0", "JITCAP_CACHE_DIR": str(folder / cache)}
        done = subprocess.run(
            [sys.executable, folder / "program.py", kind, *map(str, sizes)],
            capture_output=True, text=True, env=env, check=False,
        )  # fmt: skip
        assert not done.returncode, done.stderr
        *rows, sympy = done.stdout.splitlines()
        assert sympy == "False"
        return {name: [*map(int, counts)] for name, *counts in map(str.split, rows)}

    return run


@pytest.mark.slow
def test_another_process_with_other_sizes_compiles_nothing(process):
    first = process("main", "plain", 32, 64, 17)
    assert first["step"] == [2, 0, 2, 0]
    assert first["eighths"] == [3, 0, 3, 0]
    second = process("main", "plain", 100, 33, 2, 32)
    for name, (versions, recalled, built, plainly) in second.items():
        assert built == plainly == 0, name
        assert recalled == versions, name
    assert second["step"][0] == 1
    assert second["eighths"][0] == 2
    # Those of sizes 0 and 1 are compiled, once.
    assert process("main", "plain", 1)["step"] == [1, 0, 1, 0]
    assert process("main", "plain", 1, 50)["step"] == [2, 2, 0, 0]
    # Nothing for any size where each is compiled.
    for kind, size in ("static", 100), ("marked", 101):
        assert process("main", kind, size)["mask"] == [1, 0, 1, 0]


@pytest.mark.slow
def test_what_compiling_asked_holds_in_another_process(process):
    """Indices fit into 32 bits, which are 12 here: a size beyond is not served by that code."""
    assert process("narrow", "narrow", 16, 32)["mask"] == [2, 0, 2, 0]
    assert process("narrow", "narrow", 24, 40)["mask"] == [1, 1, 0, 0]
    again = process("narrow", "narrow", 24, 5000, 6000)["mask"]
    assert again[1] == 1
    assert again[2] >= 1


def test_sizes_as_data():
    scope = Sizes()
    n, k = scope.symbol("n", 8), scope.symbol("k", 9)
    sizes = 3, n, n * k * 64 - 1, (n + 63) // 64 * k, n % 8 - k // 2, -n, (n * k) // (k + 1)
    asked = len(scope.guards)
    for size in sizes:
        data = json.loads(json.dumps(encode(size)))
        assert terms_of(decode(data, scope.symbols)) == terms_of(size)
    assert len(scope.guards) == asked


@pytest.mark.parametrize(
    "terms",
    [
        "n", [], [1], [[]], [["n"]], [["n", 1]], [[1]], [[0, "n"]], [[1.0, "n"]], [[True, "n"]],
        [["1", "n"]], [[1, "m"]], [[1, 2]], [[1, None]], [[1, "n"], [1, "n"]], [[1, "n", "k"]],
        [[1], [1, "n"]], [[1, ["/", ["s", [1, "n"]], 2]]], [[1, ["//", ["s", [1, "n"]], 0]]],
        [[1, ["//", 4, 2]]], [[1, ["//", ["s", [1, "n"]]]]], [[1, ["//", "n", 2]]],
        [[1, ["%", ["f", "0x1p1"], 2]]], [[1, ["//", ["s", [1, "n"]], True]]],
    ],
)  # fmt: skip
def test_other_data_are_no_size(terms):
    scope = Sizes()
    scope.symbol("n", 8)
    scope.symbol("k", 8)
    with pytest.raises((ValueError, LookupError, TypeError)):
        decode(["s", *terms], scope.symbols)


def chosen(x, w):
    n = int((x > 1).sum())
    return (x[x > 0] * 3).sum() + x[x[:, 1] > 0] @ w, x[:n] - x[n : 2 * n]


@pytest.mark.parametrize("inside", [False, True])
def test_sizes_that_data_decide(own_cache, inside):
    """What is expected of them is checked by the version that was kept, too."""

    def step(x, w):
        loss = chosen(x, w)[0].sum()
        if inside:
            x.grad = None
            loss.backward()
        return loss

    def outcome(fn, x):
        x = eager.tensor(x, requires_grad=True)
        loss = fn(x, eager.ones(4, 2))
        if not inside:
            loss.backward()
        return loss.item(), x.grad.numpy()

    first, second = (jit(step, backend="python") for _ in range(2))
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal((5, 4)).astype(np.float32) - 3 * (seed == 2)
        x[3:] = -1
        for fn in first, second:
            for a, b in zip(outcome(fn, x), outcome(step, x), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    (made,) = second._entries.compiled.values()
    assert made.graph is None
    assert second.stats.discards == first.stats.discards
