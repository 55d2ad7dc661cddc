"""The thread beside the program: one task after the other, and the end of the process."""

import os
import subprocess
import sys
import threading

import pytest

import eager
from codegen.runtime import beside
from jitcap import jit


def test_tasks():
    """One after the other; a fault is raised where the result is asked for."""
    order = []
    tasks = [beside.begin(lambda i=i: order.append(i) or i) for i in range(5)]
    for i, task in enumerate(tasks):
        task.wait()
        assert task.is_over
        assert task.result() == i
    assert order == [*range(5)]

    def fail():
        raise KeyError("x")

    failed = beside.begin(fail)
    failed.wait()
    with pytest.raises(KeyError):
        failed.result()


def test_a_task_is_done_at_once_where_there_are_no_threads(monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    task = beside.begin(lambda: 7)
    assert task.result() == 7
    fn = jit(lambda x: x + 1, mode="background", backend="eager")
    for _ in range(3):
        assert fn(eager.ones(2)).tolist() == [2, 2]
    assert fn.stats.compiles == 1


PROGRAM = """
import os, sys, time
import eager
from jitcap import jit

fn = jit(lambda x: (x @ x).tanh() * 3, mode="background")
print(fn(eager.ones(20, 20)).sum().item(), flush=True)
while "jitcap-build" not in str(os.listdir(os.environ["TMPDIR"])):
    time.sleep(0.01)
"""


def test_a_program_that_ends_leaves_nothing(tmp_path):
    compiler = tmp_path / "c++"
    compiler.write_text("#!/bin/sh\nexec sleep 100\n")
    compiler.chmod(0o755)
    env = {"CXX": str(compiler), "CHECK": "0", "TMPDIR": str(tmp_path / "tmp")}
    env["JITCAP_CACHE_DIR"] = str(tmp_path / "cache")
    (tmp_path / "tmp").mkdir()
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM], env={**os.environ, **env},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert not list((tmp_path / "tmp").iterdir())
    left = [p for p in (tmp_path / "cache" / "tmp").iterdir() if p.suffix != ".turn"]
    assert not left
