"""`jitcap.profile`: rows that sum to the wall time, results as without, traces and pages."""

import gc
import json
import linecache
import math
import re
import shutil
import subprocess
import threading

import numpy as np
import pytest

import eager
import jitcap
from codegen.targets.cpp.runtime import clocked, cpu
from eager import nn, profiler
from eager.base.recorder import Options, Work, now, recorder
from eager.nn import functional as F
from jitcap import jit
from jitcap.profiling import memory_chart, peaks
from jitcap.profiling.peaks import Peaks

PEAKS = Peaks({1 << 20: 1e11}, 1e11, 1e11)


@pytest.fixture(autouse=True)
def known_peaks(monkeypatch):
    """No measuring of the machine."""
    monkeypatch.setattr("jitcap.profiling.report.peaks", lambda: PEAKS)


def training():
    eager.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    optimizer = eager.optim.AdamW(model.parameters())
    x, y = eager.randn(4, 8), eager.randint(0, 4, (4,))

    @jit
    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, model


def bits(*tensors):
    return [t.detach().numpy().tobytes() for t in tensors]


def summed(p):
    return sum(row.us for row in p.rows())


def test_results_are_those_without_and_the_object_stays_as_it_is(tmp_path):
    step, model = training()
    plain, other = training()
    step(), plain()
    (version,) = step._entries.compiled.values()
    runner = version.executable.run
    before = runner.module.path.read_bytes()
    with jitcap.profile() as p:
        found = [bits(step(), *model.parameters()) for _ in range(3)]
    assert found == [bits(plain(), *other.parameters()) for _ in range(3)]
    assert bits(step()) == bits(plain())
    assert runner.module.path.read_bytes() == before
    assert runner._local.state.module is runner.module
    assert b"JcTimed" not in before
    assert re.search(rb"\d\dk\d_\w*erf\w*E", before)  # a name that other profilers show
    assert version.call.__code__.co_name == "entry"
    assert version.call.__code__.co_filename == "<entry of training.<locals>.step>"
    assert step.stats.compiles == 1
    kinds = {row.kind: row for row in p.rows()}
    assert {"kernel", "launch", "guards", "python"} <= set(kinds)
    assert summed(p) == pytest.approx(p.wall_us, rel=1e-6)
    calls = {row.calls for row in p.rows() if row.kind in ("kernel", "guards")}
    assert min(calls) == 3
    _the_table_and_files(p, tmp_path)


def _the_table_and_files(p, tmp_path):
    assert f"{p.wall_us:,.1f} us in all" in p.table()
    assert "test_profile.py:" in p.table(group="line")
    assert "training.step" in p.table(group="module")
    few = p.table(sort="loss", limit=2).splitlines()
    assert "other rows" in few[4]
    calls = [int(line.split()[2]) for line in p.table(sort="calls").splitlines()[2:5]]
    assert calls == sorted(calls, reverse=True)
    assert len(repr(p).splitlines()) < 26
    for call in (lambda: p.table(sort="name"), lambda: p.table(group="file")):
        with pytest.raises(ValueError, match="there are"):
            call()
    p.chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {"ph", "ts", "pid", "tid", "name"} <= set.intersection(*map(set, events))
    assert all(e["dur"] > 0 for e in events if e["ph"] == "X")
    p.html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<canvas" in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http-equiv", "")
    assert "loss.backward()" in page
    assert "<table>" in p._repr_html_()


def test_a_slow_line_is_the_first_row():
    x, y = eager.ones(200_000), eager.ones(64)

    @jit
    def step():
        small = (y * 2).sum()
        large = x.sin().cos().exp().tanh().sin().cos().exp().tanh()  # slow
        return small, large

    step()
    with jitcap.profile() as p:
        for _ in range(3):
            step()
    with open(__file__) as file:
        slow = next(i for i, line in enumerate(file, 1) if line.endswith("# slow\n"))
    # A busy machine may stop Python for longer than all kernels take.
    kernel = next(row for row in p.rows() if row.kind == "kernel")
    line = next(row for row in p.rows("line") if row.lines)
    assert kernel.lines == (f"{__file__}:{slow}",) == line.lines
    assert "tanh" in kernel.name
    assert line.name.endswith("# slow")
    assert kernel.nbytes == 3 * 2 * 800_000
    assert kernel.operations > 0
    assert kernel.calls == 3


def test_what_an_earlier_process_compiled_has_rows_too():
    with jitcap.config(check=False):
        _after_an_earlier_process()


def _after_an_earlier_process():
    step, _ = training()
    step()
    step.reset()
    want = bits(step())
    assert [made.graph for made in step._entries.compiled.values()] == [None]
    with jitcap.profile() as p:
        step()
    assert any(row.kind == "kernel" and "test_profile" in str(row.lines) for row in p.rows())
    assert step.stats.compiles == 1
    assert [m.graph is None for m in step._entries.compiled.values()] == [True, False]
    assert want != bits(step())


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
def test_splits_errors_recompiles_nesting_and_resets():
    @jit
    def step(x, i):
        total = (x * 2).sum()
        if total.item() > 1e9:
            raise ValueError("large")
        return x[i] + total

    x, nine = eager.arange(5).float(), eager.tensor(9)
    with jitcap.profile() as outer:
        assert step(x, eager.tensor(2)).item() == 22
        with pytest.raises(IndexError), jitcap.profile() as inner:
            step(x, nine)
        with pytest.raises(ValueError, match="large"):
            step(x * 1e9, nine)
        assert step(eager.arange(6).float(), eager.tensor(5)).item() == 35
        step.reset()
        assert step(x, eager.tensor(1)).item() == 21
        with pytest.raises(RuntimeError, match="runs already"):
            outer.start()
        with pytest.raises(RuntimeError, match="not ended"):
            outer.table()
    assert recorder.spans == recorder.options == []
    assert summed(outer) == pytest.approx(outer.wall_us, rel=1e-6)
    assert summed(inner) == pytest.approx(inner.wall_us, rel=1e-6)
    assert inner.wall_us < outer.wall_us
    stages = [row.name for row in outer.rows() if row.kind == "compile"]
    assert any(name.startswith("capture of") for name in stages)
    with pytest.raises(RuntimeError, match="does not run"):
        outer.stop()
    assert cpu.Runner.new_state is not clocked._new_state


def test_backward_callbacks_loops_and_threads():
    weight = eager.ones(6, 6, requires_grad=True)

    @jit
    def loss(x):
        h = x[0]
        for i in range(len(x)):
            h = (h @ weight + x[i]).tanh()
        return h.sum() + eager.linalg.eigvalsh(h @ h.T).sum()

    x = eager.ones(20, 6, 6) / 9
    with jitcap.profile() as p:
        loss(x).backward()
        loss(x).backward()
        worker = threading.Thread(target=lambda: loss(x))
        worker.start()
        worker.join()
    kinds = {row.kind for row in p.rows()}
    assert {"kernel", "callback", "launch", "eager op"} <= kinds
    callbacks = [row for row in p.rows() if row.kind == "callback"]
    assert "called back in NumPy" in p.table()
    assert any("eigvalsh" in row.name or "eigh" in row.name for row in callbacks)
    threads = {span.thread for span, *_ in p.timeline.spans}
    assert len(threads) == 2


def test_without_a_second_build_there_is_one_row(monkeypatch):
    step = jit(lambda x: x * 2 + 1)
    step(eager.ones(3))
    (version,) = step._entries.compiled.values()
    monkeypatch.setattr(version.executable.run, "clocked", None)
    with jitcap.profile() as p:
        assert step(eager.ones(3)).tolist() == [3, 3, 3]
    assert [row.calls for row in p.rows() if row.name.startswith("compiled code")] == [1]


def test_ops_of_eager_have_their_shapes_and_lines():
    x = eager.ones(40, 30)
    with jitcap.profile() as p:
        (x @ x.T).relu()
    (dot,) = [row for row in p.rows() if row.name == "dot"]
    assert dot.shapes == "40x30 30x40"
    assert dot.products == 2 * 40 * 30 * 40
    assert dot.lines[0].startswith(__file__)
    assert np.isfinite(p.wall_us)


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
@pytest.mark.parametrize("make", [jitcap.profile, profiler.profile])
def test_a_profile_inside_splits_the_program_and_records(make):
    recording, x = make(), eager.ones(3)

    @jit
    def step(x):
        with recording:
            y = (x * 2).sum()
        return y + 1

    for _ in range(2):
        assert step(x).item() == 7
        rows = recording.rows() if make is jitcap.profile else recording.events()
        assert "mul" in str(rows)
    said = [str(split) for split in step.explanation().splits]
    assert len(said) == 1 and said[0].startswith("effect")
    assert "put the profile around the call" in said[0]


def test_peaks_are_measured_on_one_thread_beside_others(monkeypatch):
    big, wanted = Work("another's", "kernel", nbytes=1e12), Work("mine", "kernel", operations=8.0)

    def step():
        recorder.add(wanted, now())
        thread = threading.Thread(target=recorder.add, args=(big, now()))
        thread.start()
        thread.join()

    assert peaks._fastest(0.02, Options(), step)[1] is wanted


def test_the_peaks_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    answers = iter([PEAKS])  # measured once
    monkeypatch.setattr(peaks, "measure", lambda: next(answers))
    for _ in range(2):
        peaks._known.cache_clear()
        assert peaks.peaks() == PEAKS
    work = Work("k", "kernel", nbytes=1e5, operations=3e5)
    assert PEAKS.floor_us(work) == pytest.approx(3)
    assert "100 GFLOP/s" in str(PEAKS)
    peaks._known.cache_clear()


def test_peaks_on_disk_that_are_none_are_measured_again(monkeypatch, tmp_path):
    monkeypatch.setenv("JITCAP_CACHE_DIR", str(tmp_path / "cache"))
    bad = [
        Peaks({1 << 20: 0.0}, 1e11, 1e11),
        Peaks({1 << 20: 1e11}, math.nan, 1e11),
        Peaks({}, 1, 1),
    ]
    answers = iter([*bad, PEAKS])
    monkeypatch.setattr(peaks, "measure", lambda: next(answers))
    for wanted in (*bad, PEAKS, PEAKS):
        peaks._known.cache_clear()
        assert repr(peaks.peaks()) == repr(wanted)
    peaks._known.cache_clear()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(8), nn.Sequential(nn.Linear(8, 8), nn.GELU())

    def forward(self, x):
        return x + self.mlp(self.norm(x))


class Stack(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList([Block() for _ in range(layers)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@pytest.mark.parametrize("layers", [3, 12])  # few are copied in capture, many share a body
def test_rows_by_module_also_of_layers_that_share_what_was_captured(layers):
    model, x = Stack(layers), eager.randn(4, 8)

    @jit
    def step():
        loss = (model(x) ** 2).mean()
        loss.backward()
        return loss

    with jitcap.profile() as p:
        step()
    rows = {row.name: row for row in p.rows("module")}
    for i in range(layers):
        for part in ("norm", "mlp.0", "mlp.1"):
            assert rows[f"model.layers.{i}.{part}"].us > 0, (i, part)
            assert rows[f"model.layers.{i}.{part}, backward"].us > 0, (i, part)
    assert not {name for name in rows if name.startswith(f"model.layers.{layers}")}
    assert summed(p) == pytest.approx(sum(row.us for row in rows.values()))
    backward = [row for row in p.rows("line") if row.name.endswith(", backward")]
    lines = {line for row in backward for line in row.forward}
    assert {linecache.getline(__file__, int(x.rpartition(":")[2])).strip() for x in lines} >= {
        "return x + self.mlp(self.norm(x))", "loss = (model(x) ** 2).mean()",
    }  # fmt: skip
    assert all(row.lines[0].startswith(__file__) for row in backward)


@pytest.mark.parametrize("backend", ["python", "eager"])
def test_backends_that_compile_nothing_have_rows_by_op(backend):
    x, y = eager.ones(5, 3), eager.ones(3, 2)
    step = jit(lambda x, y: ((x @ y).relu() + 1).sum(), backend=backend)
    step(x, y)
    with jitcap.profile() as p:
        step(x, y)
    kinds = {row.kind for row in p.rows()}
    assert {"launch", "guards", "python"} <= kinds
    (dot,) = [row for row in p.rows() if row.name == "dot"]
    assert dot.products == (2 * 5 * 3 * 2 if backend == "eager" else 0)  # Python's is a loop
    assert dot.lines[0].startswith(__file__)
    assert any("relu" in row.name or "max" in row.name for row in p.rows())
    assert summed(p) == pytest.approx(p.wall_us, rel=1e-6)


def test_sizes_are_those_of_the_call():
    step = jit(lambda x: x.exp() + 1)
    for n in (100, 200, 300):
        step(eager.ones(n))
    assert step.stats.compiles == 2
    with jitcap.profile() as p:
        step(eager.ones(1000))
        step(eager.ones(5000))
    found = {row.shapes: row for row in p.rows() if row.kind == "kernel"}
    assert {shapes: row.nbytes for shapes, row in found.items()} == {"1,000": 8e3, "5,000": 4e4}


def test_debugging_tells_of_each_kernel(capsys):
    x = eager.ones(300, 4)
    with jitcap.config(debug=2):
        step = jit(lambda x: ((x.exp() * 2).sum(), x @ x.T))
        for _ in range(3):
            step(x)
    runs = re.split(r"── .*: kernels of run (\d)\n", capsys.readouterr().err)[1:]
    assert runs[::2] == ["1", "2"]  # the third is not told of
    for text in runs[1::2]:
        sums, product = text.splitlines()
        assert re.search(r"k0_exp_\S* +[\d.]+ us +[\d.]+ GB/s +[\d.]+ GFLOP/s  exp", sums)
        assert product.split()[0] == "dot" and "[300x4 4x300 300x300]" in product
        assert all("test_profile.py:" in line for line in (sums, product))


class Model(nn.Sequential):
    """A name that no other test's model has."""


def test_what_capture_had_in_the_place_of_a_model_has_no_memory():
    @jit(backend="python")
    def step(m, x):
        return (lambda y: m(y) + 1)(x)

    gc.disable()  # it is there until Python collects it
    try:
        step(Model(nn.Linear(3, 3)), eager.ones(2, 3))
        with jitcap.profile(memory=True) as p:
            eager.ones(3)
    finally:
        gc.enable()
    assert p.memory.peak[1]["arrays"] == 4 * 3


def test_memory_over_time_and_who_holds_it(tmp_path):
    model = Model(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    optimizer, x = eager.optim.AdamW(model.parameters()), eager.randn(64, 8)

    @jit
    def step():
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step()
    with jitcap.profile() as plain, pytest.raises(RuntimeError, match="memory=True"):
        plain.memory  # noqa: B018
    with jitcap.profile(memory=True) as p:
        step()
        kept = eager.ones(10_000) * 2
        eager.ones(20_000) * 3
    memory = p.memory
    names = {h.what: h for h in memory.holders}
    assert names["parameter Model.0.weight"].nbytes == 4 * 8 * 16
    assert {"gradient Model.2.bias.grad", "state AdamW exp_avg of Model.2.bias"} <= set(names)
    assert memory.peak[1]["arrays"] == 4 * (10_000 + 20_000 + 20_000)
    assert names["full"].place.startswith(__file__)
    assert memory.samples[-1][1]["arrays"] == 4 * 10_000
    assert max(sums["temporaries"] for _, sums in memory.samples) >= 4 * 64 * 16
    assert memory.plan and all(t.offset >= 0 and t.nbytes for t in memory.plan)
    assert "parameter Model.0.weight" in memory.table(None)  # models of other tests may be larger
    assert len(memory.table(limit=2).splitlines()) == 5
    p.chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert max(sum(e["args"].values()) for e in events if e["ph"] == "C") == memory.peak_bytes
    del kept


def test_memory_of_modules_in_a_circle():
    model = Model(nn.Linear(9, 17), nn.Linear(17, 5))
    model[0].outer, model[1].before = model[1], model[0]
    model[1].itself = model[1]
    apart = Model(nn.Linear(32, 32))  # no module holds it but one that it holds
    apart[0].outer = apart
    with jitcap.profile(memory=True) as p:
        eager.ones(3)
    held = {h.what for h in p.memory.holders}
    assert {"parameter Model.0.weight", "parameter Model.0.outer.weight"} <= held
    assert sum(h.nbytes for h in p.memory.holders if h.nbytes == 4 * 32 * 32) == 4 * 32 * 32


def test_the_page_shows_memory_over_time_and_what_holds_it(tmp_path):
    with jitcap.profile(memory=True) as p:
        first = eager.ones(10_000) + 1
        second = eager.ones(30_000) * 2
        del first
        third = eager.ones(5_000) * 3
    p.html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    text = re.search(r"const M=(\{.*?\});\n", page)[1]
    data = json.loads(text)
    assert data["k"] == ["named", "arrays", "temporaries"]
    assert max(map(sum, data["s"])) == p.memory.peak_bytes
    assert data["t"] == sorted(data["t"]) and len(data["t"]) == len(data["s"])
    held = [h for a, b, held in data["l"] if a <= data["peak"] < b for h in held]
    assert sum(data["h"][h][0] for h in held) == p.memory.peak_bytes
    assert {what for _, _, what, _ in data["h"]} >= {"add", "multiply"}
    assert re.search(r"120,000 arrays +multiply", page)
    last = {h.nbytes: h for h in p.memory.at(p.timeline.wall / 1e3)}
    assert {4 * 30_000, 4 * 5_000} <= set(last) and 4 * 10_000 not in last
    del second, third
    with jitcap.profile() as plain:
        eager.ones(3)
    plain.html(tmp_path / "plain.html")
    assert "<h2>Memory" not in (tmp_path / "plain.html").read_text()


def test_of_many_changes_the_page_has_the_most_bytes():
    samples = [
        (float(k), {"named": 0, "arrays": k * 7919 % 9973, "temporaries": 0}) for k in range(50_000)
    ]
    shown = [*memory_chart._decimated(samples)]
    assert len(shown) <= 2 + memory_chart.SAMPLES and shown[-1] == samples[-1]
    assert max(s["arrays"] for _, s in shown) == 9972
    assert [*memory_chart._decimated(samples[:10])] == samples[:10]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not there")
def test_the_scripts_of_the_page_are_programs(tmp_path):
    with jitcap.profile(memory=True) as p:
        eager.ones(3) + 1
    p.html(tmp_path / "page.html")
    script = re.search(r"<script>(.*)</script>", (tmp_path / "page.html").read_text(), re.DOTALL)[1]
    (tmp_path / "script.js").write_text(script)
    told = subprocess.run(
        ["node", "--check", tmp_path / "script.js"], capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
