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

from benchmarks import competitors, measure, report, workloads


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


@pytest.mark.parametrize("name", ["tiny", "mlp", "gru", "resnet"])
def test_eager_and_torch_start_alike(name):
    """The first loss (or value) of a workload is the same in both namespaces."""
    eager, torch = pytest.importorskip("eager"), pytest.importorskip("torch")
    outs = []
    for namespace in (eager, torch):
        assert isinstance(namespace, types.ModuleType)
        program = workloads.BY_NAME[name].build(namespace)
        outs.append(program.loss(*program.args).detach().numpy())
    np.testing.assert_allclose(outs[0], outs[1], rtol=1e-4, atol=1e-5)


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
