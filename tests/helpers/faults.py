"""Ranks that fail: how a job ends, what it leaves, and how it goes on. `python faults.py [KILLS]`

Each fault of `FAULTS` once, and so many kills at random moments of a training. It prints how long a
job took to end, and what it said.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ranks_faults

import jitcap.launch

LIMIT = 60.0  # seconds: the job's end after a fault, its start among them
FAULTS = {  # kind: the one message, with rank and cause
    "step": r"rank 1 of 2 \(process \d+\) was killed by SIGKILL",
    "save": r"rank 1 of 2 \(process \d+\) was killed by SIGKILL",
    "async": r"rank 1 of 2 \(process \d+\) was killed by SIGKILL",
    "compile": r"rank 1 of 2 \(process \d+\) was killed by SIGKILL",
    "full": r"saving the checkpoint .*/run/3: rank 1: OSError: \[Errno 28\] No space left on device",
    "slow": r"waited for 4 s: another rank has not come to it",
    "shapes": r"rank 1's model is not that of rank 0: 0.weight of \[9, 6\]",
    "packages": r"the ranks do not run the same program: rank 1 has numpy 1.0, not",
    "code": r"the ranks do not run the same program: rank 1 has the program",
}


def job(folder, steps, *fault, processes=2, program=ranks_faults.__file__):
    """A started training."""
    # As python -m jitcap.launch, which imports our packages first.
    launch = [sys.executable, "-I", jitcap.launch.__file__, "-n", processes]
    command = [*launch, program, folder, steps]
    with (folder / "output").open("w") as output:
        return subprocess.Popen(
            [*map(str, command), *fault], stdout=output, stderr=output, start_new_session=True
        )


def alive(folder, word=""):
    """Processes that were started with the folder (and a word) as arguments, and still run."""
    found, wanted = [], {str(folder).encode(), *word.encode().split()}
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if wanted <= {*each.read_bytes().split(b"\0")}:
                found.append(int(each.parent.name))
    return found


def losses(folder, rank=0):
    """The bits of the loss of each step, as its last run had it."""
    lines = (folder / f"losses.{rank}").read_text().splitlines()
    return dict(line.split() for line in lines if line.count(" ") == 1)


def ended(folder, process, limit=LIMIT):
    """Seconds until a job ended. It leaves no process and no shared memory behind."""
    start = time.monotonic()
    process.wait(limit)
    seconds = time.monotonic() - start
    until = time.monotonic() + 5
    while alive(folder) and time.monotonic() < until:
        time.sleep(0.01)
    assert not alive(folder), "processes are left"
    shared = folder / "shared"
    left = [f for f in shared.read_text().split() if Path(f).exists()] if shared.exists() else ()
    assert not left, f"{left} are left"
    return seconds


def fail(kind, folder, expected, steps=6):
    """One fault, and the training after it. The message, and the seconds until the end."""
    folder.mkdir()
    program = Path(ranks_faults.__file__)
    if kind == "code":  # one rank has a program of its own, under the same name
        text = program.read_text().replace('os.environ["RANK"] == "1"', "True")
        both = 'import os, runpy\nrunpy.run_path(f"{__file__}.{os.environ[\'RANK\']}", run_name="__main__")\n'
        program = folder / "program.py"
        program.write_text(both)
        for rank, more in enumerate(("", "\n# another line\n")):
            (folder / f"program.py.{rank}").write_text(text + more)
    process = job(folder, steps, kind, program=program)
    if kind == "compile":
        kill_compiling(folder, process)
    seconds = ended(folder, process)
    said = (folder / "output").read_text()
    assert process.returncode, said
    assert re.search(FAULTS[kind], said), said
    assert process.returncode == 137 or "killed" not in FAULTS[kind], process.returncode
    process = job(folder, steps)
    ended(folder, process)
    assert process.returncode == 0, (folder / "output").read_text()
    assert [losses(folder, rank) for rank in (0, 1)] == expected, kind
    return seconds


def kill_compiling(folder, process):
    """Kill the second rank once a compiler runs."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until and process.poll() is None:
        pids = _begun(folder)
        for pid in pids:
            children = Path(f"/proc/{pid}/task/{pid}/children")
            if len(pids) == 2 and children.exists() and children.read_text().strip():
                os.kill(_rank_one(pids), signal.SIGKILL)
                return
        time.sleep(0.005)
    raise AssertionError("no compiler was seen")


def _rank_one(pids):
    for pid in pids:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
        if b"PMI_RANK=1" in environ:
            return int(pid)
    raise AssertionError("rank 1 is not there")


def uninterrupted(folder, steps):
    """The losses of both ranks of a training that nothing stops."""
    folder.mkdir()
    process = job(folder, steps)
    ended(folder, process, 10 * LIMIT)
    assert process.returncode == 0, (folder / "output").read_text()
    return [losses(folder, rank) for rank in (0, 1)]


def kill_at_random(kills, root, expected, steps, seed=0):
    """So many kills of a random rank at a random moment, in trainings that go on after each until
    they are done. Counts of what was found."""
    draw = random.Random(seed)
    counts = {"kills": 0, "early": 0, "named": 0, "trainings": 0, "slowest end": 0.0}
    folder = None
    while counts["kills"] < kills or folder is not None:
        if folder is None:
            folder = root / str(counts["trainings"])
            folder.mkdir(parents=True)
        process = job(folder, steps)
        if counts["kills"] < kills:
            killed = kill_one(folder, process, draw)
            seconds = ended(folder, process)
        else:
            killed, seconds = False, ended(folder, process, 10 * LIMIT)
        said = (folder / "output").read_text()
        if killed and process.returncode:
            counts["kills"] += 1
            counts["early"] += not (folder / "pids").exists()  # before MPI was there
            counts["named"] += bool(re.search(FAULTS["step"].replace("1", "[01]", 1), said))
            (folder / "pids").unlink(missing_ok=True)
            counts["slowest end"] = max(counts["slowest end"], round(seconds, 2))
            continue
        assert process.returncode == 0, said
        assert [losses(folder, rank) for rank in (0, 1)] == expected
        counts["trainings"] += 1
        folder = None
    return counts


def kill_one(folder, process, draw):
    """Kill a rank at a random moment: of its start, one time in four, or of its training. False
    where the job was over before."""
    early, wanted = draw.random() < 0.25, draw.randrange(1, 3)
    while process.poll() is None:
        if len(alive(folder, "--as-rank") if early else _begun(folder)) >= wanted:
            break
        time.sleep(0.01)
    until = time.monotonic() + draw.random() ** 2 * 4
    while process.poll() is None and time.monotonic() < until:
        time.sleep(0.001)
    running = alive(folder, "--as-rank")
    if process.poll() is None and running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(draw.choice(running), signal.SIGKILL)
            return True
    return False


def _begun(folder):
    """Processes of a job whose training has begun."""
    pids = folder / "pids"
    return pids.read_text().split() if pids.exists() else []


def main():
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    try:
        expected = uninterrupted(root / "whole", 6)
        for kind in FAULTS:
            print(f"{kind}: {fail(kind, root / kind, expected):.1f} s", flush=True)
        expected = uninterrupted(root / "long", 60)
        print(kill_at_random(kills, root / "kills", expected, 60))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
