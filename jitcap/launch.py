"""Beside the library: `python -m jitcap.launch --nproc-per-node 4 train.py ...`. A program -> N
processes of it, started by mpiexec.

Each process has the variables that PyTorch's launcher sets (RANK, WORLD_SIZE, LOCAL_RANK,
LOCAL_WORLD_SIZE), and one that ends by an exception, or by `sys.exit` with another status than 0,
ends the job.
"""

from __future__ import annotations

import argparse
import os
import runpy
import shutil
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

INSTALL: Final = "mpiexec is not found: pip install 'jitcap[distributed]'"
_CHILD: Final = "--as-rank"  # of the processes that mpiexec starts


def main(arguments: Sequence[str]) -> int:
    """Start the processes; the status with which the job ended."""
    if arguments[:1] == [_CHILD]:
        _run(arguments[1:])
    parser = argparse.ArgumentParser(prog="python -m jitcap.launch", description=__doc__)
    parser.add_argument("-n", "--nproc-per-node", "--nproc_per_node", type=int, default=1)
    parser.add_argument("-m", "--module", action="store_true", help="script is a module's name")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    beside = Path(sys.executable).parent / "mpiexec"
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    if mpiexec is None:
        parser.exit(2, INSTALL + "\n")
    how = ["-m"] if given.module else []
    rank = [sys.executable, "-m", "jitcap.launch", _CHILD, *how, given.script, *given.arguments]
    return subprocess.run([mpiexec, "-n", str(given.nproc_per_node), *rank], check=False).returncode


def _run(arguments: Sequence[str]) -> NoReturn:
    """Be one rank: run the program as `__main__`, and end the job where it fails."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    numbers = (world.rank, world.size, node.rank, node.size)
    os.environ.update(zip(names, map(str, numbers), strict=True))
    is_module = arguments[0] == "-m"
    script, *rest = arguments[1:] if is_module else arguments
    sys.argv = [script, *rest]
    try:
        if is_module:
            sys.path[0] = str(Path.cwd())
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(script).resolve().parent)
            runpy.run_path(script, run_name="__main__")
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(ended.code + "\n")
    except BaseException:  # noqa: BLE001 - of the program, which ends by it
        status = 1
        traceback.print_exc()
    sys.stdout.flush()
    if status:
        sys.stderr.write(f"rank {world.rank} of {world.size} ends with status {status}\n")
        sys.stderr.flush()
        world.Abort(status)
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
