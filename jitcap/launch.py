"""Beside the library: `python -m jitcap.launch --nproc-per-node 4 train.py ...`. A program -> N
processes of it, started by mpiexec.

Each process has the variables that PyTorch's launcher sets (RANK, WORLD_SIZE, LOCAL_RANK,
LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT), and one that ends by an exception, by `sys.exit` with
another status than 0, or by a signal ends the job. The last line says which rank it was. Shared
memory that MPI leaves behind is removed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

INSTALL: Final = "mpiexec is not found: pip install 'jitcap[distributed]'"
_CHILD: Final = "--as-rank"
_WATCHED: Final = "--watched"  # of those of the program, and of those that mpiexec starts
_PLACES: Final = (  # variables of launchers: the number of a process, and of how many
    ("PMI_RANK", "PMI_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
)
_UNUSED: Final = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}  # programs read and show them
_MEMORY: Final = Path("/dev/shm")  # noqa: S108
_GRACE: Final = 1.0  # seconds that MPI has to end a job
_NOTES: Final = "_JITCAP_LAUNCH_NOTES"  # a variable: the folder where they leave notes


def main(arguments: Sequence[str]) -> int:
    """Start the processes; the status with which the job ended."""
    if arguments[:1] == [_WATCHED]:
        return _watch(arguments[1:])
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
    program = [*how, given.script, *given.arguments]
    watched = [sys.executable, "-I", __file__, _WATCHED, *program]  # without our packages
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="jitcap-launch-") as folder:
        notes, begun = Path(folder), time.time()
        command = [mpiexec, "-n", str(given.nproc_per_node), *watched]
        try:
            with subprocess.Popen(command, env={**os.environ, _NOTES: folder}) as job:
                threading.Thread(target=_end_stuck, args=(job, notes), daemon=True).start()
                try:
                    status = job.wait()
                finally:
                    job.terminate()
        finally:
            told = _notes(notes, "shared")
            files = {Path(file) for note in told.values() for file in note["files"]}
            if len(told) < given.nproc_per_node:  # some ended before they knew of theirs
                _wait_for_ends(_notes(notes, "rank"))
                files |= _unused(begun)
            for file in files:
                file.unlink(missing_ok=True)
        ranks, ends = _notes(notes, "rank"), _notes(notes, "end")
        first = min(ends, key=lambda process: ends[process]["time"], default=0)
        if status and ends:
            status = ends[first]["status"]
            who = "rank {rank} of {ranks}".format_map(ranks[first]) if first in ranks else "one"
            sys.stderr.write(f"{who} (process {first}) {_ended(status)}\n")
    return status if status >= 0 else 128 - status


def _end_stuck(job: subprocess.Popen[bytes], notes: Path) -> None:
    """End a job of which one process has ended badly, where MPI does not: it knows of those alone
    that have begun to speak to it, and the others wait for all."""
    while job.returncode is None:
        time.sleep(_GRACE)
        ends = _notes(notes, "end").values()
        if any(time.monotonic() - end["time"] > _GRACE for end in ends):
            job.terminate()


def _wait_for_ends(processes: Iterable[int]) -> None:
    """Wait a little until processes are gone that were killed."""
    until = time.monotonic() + _GRACE
    while any(map(_has_memory, processes)) and time.monotonic() < until:
        time.sleep(0.01)


def _has_memory(process: int) -> bool:
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())  # a zombie has none
    except OSError:
        return False


def _unused(begun: float) -> set[Path]:
    """Files of memory that MPI shares, made by this user since a time, which no process has open
    or in its memory."""
    found = set()
    for file in _MEMORY.glob("mpich_shm_*"):
        with contextlib.suppress(FileNotFoundError):  # another job has ended
            state = file.stat()
            if state.st_uid == os.getuid() and state.st_ctime >= begun:
                found.add(file)
    for process in Path("/proc").glob("[0-9]*") if found else ():
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            found -= {Path(file) for file in _shared(process)}
            for handle in (process / "fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    found.discard(handle.readlink())
    return found


def _ended(status: int) -> str:
    if status < 0:
        return f"was killed by {signal.Signals(-status).name}"
    return f"ended with status {status}"


# ---- what the processes of a job leave for who started it
def _notes(folder: Path, kind: str) -> dict[int, dict[str, Any]]:
    """Notes of a kind, by the numbers of the processes that they are about."""
    files = folder.glob(f"*.{kind}")
    return {int(file.stem): json.loads(file.read_text()) for file in files}


def _take_note(process: int, kind: str, **what: Any) -> None:
    """Leave a note, unless there is one."""
    folder = os.environ.get(_NOTES)
    if folder is None:
        return
    note = Path(folder) / f"{process}.{kind}"
    if not note.exists():
        beside = note.with_suffix(f".{os.getpid()}.part")  # two processes write of one
        beside.write_text(json.dumps(what))
        beside.rename(note)


def _note_end(process: int, status: int) -> None:
    _take_note(process, "end", time=time.monotonic(), status=status)


def _watch(program: Sequence[str]) -> int:
    """Run a rank in a process of its own, to see how it ends."""
    command = [sys.executable, "-m", "jitcap.launch", _CHILD, *program]
    with subprocess.Popen(command, close_fds=False) as rank:  # one of them leads to mpiexec
        for name, size in _PLACES:
            if name in os.environ and size in os.environ:
                place = {"rank": int(os.environ[name]), "ranks": int(os.environ[size])}
                _take_note(rank.pid, "rank", **place)
        status = rank.wait()
    if status:
        _note_end(rank.pid, status)
    return status if status >= 0 else 128 - status


def shared_memory() -> list[str]:
    """Files of this process's memory that MPI shares with others of the machine."""
    return _shared(Path("/proc/self"))


def _shared(process: Path) -> list[str]:
    maps = process / "maps"
    text = maps.read_text() if maps.exists() else ""
    return sorted(set(re.findall(rf"{_MEMORY}/mpich_shm_\S+", text)))


def _run(arguments: Sequence[str]) -> NoReturn:
    """Be one rank: run the program as `__main__`, and end the job where it fails."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    _take_note(os.getpid(), "shared", files=shared_memory())
    _take_note(os.getpid(), "rank", rank=world.rank, ranks=world.size)
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    numbers = (world.rank, world.size, node.rank, node.size)
    os.environ.update(zip(names, map(str, numbers), strict=True))
    for name, value in _UNUSED.items():
        os.environ.setdefault(name, value)
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
        sys.stderr.flush()
        _note_end(os.getpid(), status)
        world.Abort(status)
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
