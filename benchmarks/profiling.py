"""Claim: a profile's rows sum to the time of the block, cost next to nothing, and leave the object
code alone: python -m benchmarks.profiling

    wall       microseconds of a step inside the profile, by a clock of its own around the steps
    rows       the sum of all rows, and its share of the wall time; of it the Python outside, which
               has the loop, and the clocks themselves
    cost       processor time of a step inside a profile, over that of one outside: the median of
               pairs
    object     the machine code that calls run, before the profile and behind it: the same bytes

Exits with 1 where rows miss more than 5 % and 1 us, or where the object is another one.
"""

import argparse
import gc
import hashlib
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import eager
import jitcap
from benchmarks import competitors, workloads
from codegen.targets.cpp.runtime.cpu import RUNNERS
from jitcap.profiling.rows import OUTSIDE


def objects() -> dict[str, str]:
    """The digests of the loaded objects that calls go to, by path."""
    paths = sorted({str(runner.module.path) for runner in RUNNERS})
    return {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}


def seconds(call: Callable[[], Any], count: int) -> float:
    """Processor time of `count` calls."""
    start = time.process_time()
    for _ in range(count):
        call()
    return time.process_time() - start


def cost(call: Callable[[], Any], count: int, pairs: int) -> float:
    """The median of inside over outside."""
    ratios = []
    for _ in range(pairs):
        outside = seconds(call, count)
        with jitcap.profile():
            call()  # call structures are made
            inside = seconds(call, count)
        ratios.append(inside / outside)
    return statistics.median(ratios)


def measure(workload: workloads.Workload, pairs: int) -> bool:
    """Print a line; True if all holds."""
    call = competitors.jit(workload).call
    for _ in range(3):
        call()
    gc.collect()  # the objects of the workload before
    before = objects()
    start = time.perf_counter()
    call()
    count = max(1, min(200, int(0.3 / (time.perf_counter() - start))))
    with jitcap.profile():
        call()  # the second build is made, and call structures
        with jitcap.profile() as p:
            start = time.perf_counter()
            for _ in range(count):
                call()
            wall = 1e6 * (time.perf_counter() - start)
    rows = sum(row.us for row in p.rows())
    outside = sum(row.us for row in p.rows() if row.name == OUTSIDE.name)
    missing = abs(wall - rows) / count
    same = objects() == before
    good = same and (missing <= 1 or missing <= 0.05 * wall / count)
    print(
        f"{workload.name:10} {wall / count:12,.1f} us, rows {rows / count:12,.1f} us "
        f"({rows / wall:.1%}, outside {outside / count:.1f} us), "
        f"cost {cost(call, count, pairs):.3f}, "
        f"{len(before)} objects {'the same' if same else 'CHANGED'}{'' if good else '   FAILED'}",
        flush=True,
    )
    return good


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiling", description=__doc__)
    parser.add_argument("--only", help="comma-separated workloads")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    eager.set_num_threads(args.threads)
    chosen = args.only.split(",") if args.only else [w.name for w in workloads.WORKLOADS]
    found = [measure(w, args.pairs) for w in workloads.WORKLOADS if w.name in chosen]
    raise SystemExit(0 if all(found) else 1)


if __name__ == "__main__":
    main()
