"""A second process starts from what the first compiled."""

import os
import subprocess
import sys

import pytest

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
print(made.graph is None, "build" in made.trail.seconds)
print("#include" in explain(step)(x, w, eager.tensor([0, 2])).stages["source"])
"""


def run(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    env = {**os.environ, "CHECK": "0", "JITCAP_CACHE_DIR": str(tmp_path / "cache")}
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
