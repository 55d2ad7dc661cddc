"""Claim: the compiled gpt step needs no more memory than eager's (python -m benchmarks.memory).

Each competitor runs in a process of its own; its peak is the growth of the resident set over what
it was before the first step, so that interpreter and libraries do not count.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import competitors, more

MIB = 1024 * 1024


def resident() -> int:
    """Bytes of the resident set now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak() -> int:
    """Largest resident set of this process so far, in bytes; compilers it ran are not counted."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def child(workload: str, competitor: str, steps: int) -> dict[str, Any]:
    """Run `steps` steps here and return the figures."""
    runner = competitors.BY_NAME[competitor].make(more.BY_NAME[workload])
    before = resident()
    for _ in range(steps):
        runner.call()
    return {"before": before, "peak": peak(), "growth": peak() - before, "after": resident()}


def measure(workload: str, competitor: str, steps: int, cache: str) -> dict[str, Any]:
    """Run `child` in a new process."""
    command = [sys.executable, "-m", "benchmarks.memory", "--only", workload]
    command += ["--child", competitor, "--steps", str(steps)]
    environment = os.environ | {"JITCAP_CACHE_DIR": cache}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{competitor} on {workload} failed:\n{done.stderr[-2000:]}")
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return record


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("--only", default="gpt", help="one workload")
    parser.add_argument("--competitors", default="eager,jit", help="comma-separated")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child(args.only, args.child, args.steps)))
        return
    names = args.competitors.split(",")
    with tempfile.TemporaryDirectory() as cache:
        records = {name: measure(args.only, name, args.steps, cache) for name in names}
    for name, record in records.items():
        print(
            f"{args.only} {name:>8}: {record['growth'] / MIB:8.0f} MiB over the "
            f"{record['before'] / MIB:.0f} MiB before the first step"
        )
    if {"eager", "jit"} <= set(records):
        print(f"@jit / eager: {records['jit']['growth'] / records['eager']['growth']:.2f}")


if __name__ == "__main__":
    main()
