"""A second process starts from what the first compiled."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import codegen
import eager
import jitcap
from eager.base.process import threads

pytestmark = pytest.mark.once

PROGRAM = """
import numpy as np, eager
from jitcap import explain, jit

def step(x, w, ids):
    h = (x @ w).softmax(-1)
    loss = (h[ids] * 2.0).sum()
    loss.backward()
    return loss

x = eager.ones(4, 3)
w = eager.tensor(np.eye(3, dtype=np.float32), requires_grad=True)
fn = jit(step)
print(fn(x, w, eager.tensor([0, 2])).item(), w.grad.numpy().sum())
w.grad = None
try:
    fn(x, w, eager.tensor([0, 9]))
except IndexError as error:
    print(error)
(made,) = fn._entries.compiled.values()
print(made.graph is None, "compiler" in made.trail.seconds)
print("#include" in explain(step)(x, w, eager.tensor([0, 2])).stages["source"])
"""


# Routines whose members each have memory of their own.
TEAMS = """
import os, eager
from jitcap import config, jit

a = eager.randn(64, 40, 40)
eye = 40 * eager.eye(40)
tasks = lambda: len(os.listdir("/proc/self/task"))

fn = jit(lambda a: (eager.linalg.inv(a + eye), eager.fft.fft(a), a.sort()[0]))
before = tasks()
for n in (eager.get_num_threads(), 2, 9):
    with config(threads=n):
        got = [float(abs(each).sum()) for _ in range(8) for each in fn(a)]
    assert got == 8 * got[:3]
    print(*got[:3], ";", tasks() - before)
"""


def run(tmp_path, program=PROGRAM, **variables):
    (tmp_path / "program.py").write_text(program)
    program = tmp_path / "program.py"
    env = {**os.environ, "CHECK": "0", "JITCAP_CACHE_DIR": str(tmp_path / "cache"), **variables}
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=True, env=env
    )
    return done.stdout.splitlines()


@pytest.mark.slow
def test_the_second_process_compiles_nothing(tmp_path):
    first, second = run(tmp_path), run(tmp_path)
    assert first[2] == "False True"
    assert second[2] == "True False"
    assert first[:2] == second[:2]
    assert "out of bounds" in second[1]
    assert second[3] == "True"
    # Damaged entries are compiled again.
    for manifest in (tmp_path / "cache").rglob("*.json"):
        manifest.write_text(manifest.read_text()[:-20])
    third = run(tmp_path)
    assert third[:2] == first[:2]
    assert third[2] == "False True"


def test_a_team_is_as_large_as_the_process_that_runs_it_says(tmp_path):
    """Not as the one that compiled it said, which had one thread, as launchers give their workers."""
    first, second = (
        run(tmp_path, TEAMS, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS=str(n)) for n in (1, 2)
    )
    assert len({row.split(";")[0] for row in first + second}) == 1
    helpers = [[int(row.split(";")[1]) for row in rows] for rows in (first, second)]
    assert [helpers[0][0], helpers[1][0]] == [0, 1]
    assert helpers[0][2] == min(9, threads.processors()) - 1, "as scratch memory allows"


TRAINING = """
import eager, jitcap
from eager import nn

model = nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 10))
optimizer = eager.optim.AdamW(model.parameters())

@jitcap.jit
def step(x, y):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss

x, y = eager.ones(32, 48), eager.arange(32) % 10
for _ in range(3):
    loss = step(x, y)
(made,) = step._entries.compiled.values()
recalled = made.graph is None
print(eager.__file__, recalled, step.stats.fallbacks, len(step.stats.refusals), float(loss))
"""


def test_a_second_install_without_a_compiler(tmp_path):
    """What one installation compiled serves another one elsewhere, with files of other times, on a
    machine that has no compiler; nothing runs op by op."""
    (filled,) = run(tmp_path, TRAINING)
    other = tmp_path / "other"
    for package in (eager, codegen, jitcap):
        folder = Path(package.__file__).parent
        shutil.copytree(folder, other / folder.name, ignore=shutil.ignore_patterns("__pycache__"))
        os.utime(other / folder.name / "__init__.py", (0, 0))
    folders = [tmp_path / "cache", *(p for p in (tmp_path / "cache").rglob("*") if p.is_dir())]
    for folder in folders:  # it may lie on a disk that is read-only
        folder.chmod(0o500)
    (served,) = run(tmp_path, TRAINING, PYTHONPATH=str(other), PATH="/nowhere")
    for folder in folders:
        folder.chmod(0o700)
    assert served.startswith(str(other))
    assert served.split()[1:] == ["True", "0", "0", filled.split()[-1]]
    assert filled.split()[1] == "False"
