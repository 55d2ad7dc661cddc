"""The benchmark harness: timing is interleaved, the report is complete, workloads agree with torch."""

import json
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import codegen
import jitcap
from benchmarks import competitors, measure, more, plan, report, roofline, workloads
from benchmarks.models.gpt import Config
from codegen.targets.cpp.clocks import Clocks
from eager.base.recorder import Options
from tests.codegen.checking import floats
from tests.codegen.tracing import trace

# Sizes of the workloads of `benchmarks/more.py` that train in a moment.
SMALL = {
    "vit": {"batch": 2, "image": 16, "patch": 8, "width": 16, "layers": 2, "heads": 2},
    "unet": {"batch": 2, "image": 8, "width": 8, "groups": 2},
    "lstm": {"batch": 2, "time": 3, "words": 11, "width": 8},
    "dlrm": {"batch": 4, "tables": 3, "rows": 7},
    "vae": {"batch": 64},
    "gcn": {"nodes": 9, "edges": 20, "features": 4, "width": 5},
    "mobilenet": {"batch": 2, "stages": ((8, 2, 2),)},
    "vgg": {"batch": 4, "plan": (8, 0, 8, 0, 8, 0, 8, 0, 8, 0)},
    "densenet": {"batch": 2, "blocks": (2, 1), "growth": 4},
    "classes": {"rows": 4, "width": 5, "classes": 11},
    "rk4": {"systems": 4, "steps": 2},
    "blackscholes": {"options": 5},
    "gpt-bf16": {"batch": 2, "config": Config(2, 2, 8, 8, 65)},
    "decoding": {"batch": 2, "tokens": 3, "config": Config(2, 2, 8, 8, 11)},
}


def test_the_eight_workloads():
    names = ["tiny", "gelu", "softmax", "layernorm", "mlp", "gru", "resnet", "gpt"]
    assert [workload.name for workload in workloads.WORKLOADS] == names


def test_turns_are_interleaved():
    order = []
    calls = {name: lambda name=name: order.append(name) for name in "ab"}
    timings = measure.interleave(calls, rounds=2, seconds=0.004)
    turns = [name for i, name in enumerate(order) if i == 0 or order[i - 1] != name]
    assert turns == ["a", "b"] * 3  # calibration, then two rounds
    assert all(timing.minimum <= timing.median for timing in timings.values())


def test_report_names_every_workload_and_ratio(tmp_path):
    times = {
        "jit": {"median": 0.001, "minimum": 0.001},
        "eager": {"median": 0.003, "minimum": 0.002},
    }
    compiled = {"jit": {"cold": {"first": 1.5, "kernels": 4}, "warm": {"first": 0.2}}}
    results = {"mlp": {"times": times, "compile": compiled, "faults": ["odd"]}}
    text = report.show(results, ["eager", "jit"])
    assert "3.00x" in text
    assert "1.50 / 0.20" in text
    assert "mlp: odd" in text
    report.save_json(tmp_path / "r.json", results, {})
    assert json.loads((tmp_path / "r.json").read_text())["workloads"]["mlp"]["times"] == times


def test_a_missing_package_is_named():
    absent = competitors.Competitor("x", "x", ("no_such_package",), lambda workload: None)
    assert absent.missing() == "no_such_package"


@pytest.mark.parametrize(
    "name", ["tiny", "mlp", "gru", pytest.param("resnet", marks=pytest.mark.nightly)]
)
def test_eager_and_torch_start_alike(name):
    """The first loss (or value) of a workload is the same in both namespaces."""
    eager, torch = pytest.importorskip("eager"), pytest.importorskip("torch")
    outs = []
    for namespace in (eager, torch):
        assert isinstance(namespace, types.ModuleType)
        program = workloads.BY_NAME[name].build(namespace)
        outs.append(program.loss(*program.args).detach().numpy())
    np.testing.assert_allclose(outs[0], outs[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("workload", more.MORE, ids=lambda workload: workload.name)
def test_more_workloads_are_one_graph_and_compute_what_torch_does(workload):
    """Three steps of each, small."""
    eager, torch = pytest.importorskip("eager"), pytest.importorskip("torch")
    outs = []
    for namespace in (eager, torch):
        program = workload.build(namespace, **SMALL[workload.name])
        step = workloads.training_step(program) if program.optimizer else program.loss
        if namespace is eager:
            step = compiled = jitcap.jit(step, backend="eager")
        results = [program.runner(step)() for _ in range(3)]
        parts = [part for out in results for part in (out if isinstance(out, tuple) else [out])]
        outs.append([part.detach().numpy() for part in parts])
    assert (compiled.stats.graphs, compiled.stats.splits, compiled.stats.fallbacks) == (1, 0, 0)
    rtol = {"vae": 0.03, "gpt-bf16": 2e-3}.get(workload.name, 1e-4)
    for ours, theirs in zip(*outs, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=1e-6)


def test_the_parts_of_a_step_beside_their_floors():
    """A product as counted by hand; a loop and a step, as they are called, and in the picture."""
    eager = pytest.importorskip("eager")
    program, _ = trace(lambda a, b: a @ b, floats(64, 48), floats(48, 40))
    fused = codegen.run_stages(program)[0]["tiled"].fused
    clocks = Clocks()
    clocks.around(fused.items, [], fused.buffers)
    work = clocks.works({})[1]
    assert work.products == 2 * 64 * 48 * 40
    assert work.nbytes == 4 * (64 * 48 + 48 * 40 + 64 * 40)
    peaks = roofline.Peaks({100: 1e9, 10_000: 2e9}, product=1e9, elementwise=1e12)
    assert peaks.floor_us(work) == pytest.approx(245.76)

    loop = workloads.Program(lambda a: (eager.exp(a) * 2).cumsum(0), (eager.ones(30),))
    workload = workloads.Workload("small", "", lambda namespace: loop)
    rows = roofline.measure(workload, peaks, Options(cpu_time=True), seconds=0.0)
    row, step = sorted(rows, key=lambda row: row.kind)  # not by the clock
    assert (row.kind, row.runs, row.work.nbytes) == ("loops", 1, 4 * 60)
    assert (step.work.name, step.runs) == ("cumsum", 1)
    assert ">small</text>" in roofline.picture({"small": [row]}, peaks)


def test_the_plan_of_larger_machines(capsys):
    """Parameters as models have them, messages as by hand, and a table that says it predicts."""
    shape = plan.SMALL[2]
    model = plan.program_of(shape).model
    assert sum(p.numel() for p in model.parameters()) == shape.parameters
    assert plan.all_reduce(1e9, 4, 0.0, 1e9) == pytest.approx(1.5)
    assert plan.all_reduce(0.0, 1024, 1e-6, 1e9) == pytest.approx(20e-6)  # a tree
    assert plan.all_gather(1e9, 4, 1.0, 1e9) == pytest.approx(3.75)
    sizes = plan.Sizes()
    sent = plan.traffic(shape, "fully_shard", 2, sizes)
    assert sum(sent.values()) == shape.parameters * (2 * 2 + 4) / 2
    held = [plan.memory(shape, method, 4, sizes) for method in plan.METHODS]
    assert held == sorted(held, reverse=True) and held[0] == 16 * shape.parameters
    plan.predict(np.array([650.0, 5.0, 36.0, 69.0, 28.0]), 0.01)
    said = capsys.readouterr().out
    assert said.startswith("PREDICTION, not measured") and said.count(" GB\n") == 24


def test_a_benchmark_runs_on_the_kernels_of_its_processor():
    """Whatever the environment says; and it tells which those are, once."""
    core = {}
    for name in ("Prescott", ""):
        env = {**os.environ, "OPENBLAS_CORETYPE": name, "OPENBLAS_L2_SIZE": "1"}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.eager_overhead", "--help"],
            cwd=Path(__file__).parent.parent, env=env, capture_output=True, text=True, check=True,
        )  # fmt: skip
        core[name] = re.findall(r"^BLAS .*: (\w+)$", done.stderr, re.M)
        assert done.stderr.count("@jit: native (") == 1
    assert core["Prescott"] == core[""] != []
