"""Several processes of a program, started by mpiexec as a user does."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

MPIEXEC = Path(sys.executable).parent / "mpiexec"


def needs_mpi():
    if not importlib.util.find_spec("mpi4py") or not MPIEXEC.exists():
        pytest.skip("several processes need mpi4py and mpich: pip install 'jitcap[distributed]'")


def run_ranks(processes, *program, limit=90):
    """The ended job of `python program...` in so many processes."""
    needs_mpi()
    command = [MPIEXEC, "-n", str(processes), sys.executable, *program]
    return subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)


def all_pass(done):
    """The last line says which cases failed: none."""
    assert done.returncode == 0, done.stderr
    failures = json.loads(done.stdout.splitlines()[-1])
    assert not failures, "\n".join(f"{k}: {''.join(v)}" for k, v in failures.items())
