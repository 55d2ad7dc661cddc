"""Claim: two processes of one thread train the GPT at 1.7 times the samples/s of one, in at most
0.6 of the time of torch's data parallel over gloo (python -m benchmarks.ranks).

Every process has one thread. In turns: one process alone (the other sleeps), two with
`DistributedDataParallel` over MPI, two with torch's over gloo, each on a batch of its own of 8.
Then all-reduce alone, of 1 kB to 100 MB: ours, mpi4py's and gloo's. Medians; JSON with `--out`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

BATCH, SIZES = 8, [1 << 10, 10 << 10, 100 << 10, 1 << 20, 10 << 20, 100 << 20]  # bytes


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranks", description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7, help="turns of each")
    parser.add_argument("--steps", type=int, default=3, help="steps in a turn")
    parser.add_argument("--small", action="store_true", help="a GPT and tensors that take no time")
    parser.add_argument("--out", type=Path, help="file for JSON")
    parser.add_argument("--store", help=argparse.SUPPRESS)  # of a rank: where gloo's ranks meet
    args = parser.parse_args()
    if args.store:
        measure(args)
        return
    one = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "JITCAP_THREADS")
    mpiexec = Path(sys.executable).parent / "mpiexec"
    with tempfile.TemporaryDirectory() as folder:
        command = [mpiexec, "-n", str(args.ranks), sys.executable, "-m", "benchmarks.ranks"]
        command += [*sys.argv[1:], "--store", f"{folder}/store"]
        environment = os.environ | dict.fromkeys(one, "1")
        sys.exit(subprocess.run(command, env=environment, check=False).returncode)


def measure(args: argparse.Namespace) -> None:
    """Be one rank; rank 0 prints."""
    import torch
    import torch.distributed as gloo

    import eager.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("mpi")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    gloo.init_process_group("gloo", init_method=f"file://{args.store}", rank=rank, world_size=ranks)
    found = {"steps": steps(args, rank), "all_reduce": reductions(args, rank)}
    if rank == 0:
        report(found, ranks)
        if args.out:
            args.out.write_text(json.dumps(found))
    gloo.destroy_process_group()
    dist.destroy_process_group()


def report(found: dict[str, Any], ranks: int) -> None:
    one, ours, theirs = (median(found["steps"][name]) for name in ("one", "ours", "gloo"))
    print(f"GPT step, batch {BATCH} a process, one thread a process, medians:")
    for name, seconds, samples in (
        ("one process", one, BATCH), (f"{ranks} processes", ours, ranks * BATCH),
        (f"torch, {ranks} processes", theirs, ranks * BATCH),
    ):  # fmt: skip
        print(f"  {name:>20} {1e3 * seconds:9.1f} ms {samples / seconds:9.1f} samples/s")
    print(f"samples/s of {ranks} processes / of one: {ranks * one / ours:.2f} (asked: 1.7 of two)")
    print(f"time / torch's over gloo: {ours / theirs:.2f} (asked: 0.6)")
    print("all-reduce, microseconds:")
    for size, row in found["all_reduce"].items():
        print(f"  {size:>11} B", *(f"{k} {1e6 * median(v):9.0f}" for k, v in row.items()))


def steps(args: argparse.Namespace, rank: int) -> dict[str, list[float]]:
    """Seconds of a step, by who runs it; those of rank 0."""
    import torch

    import eager
    import eager.distributed as dist
    import jitcap
    from benchmarks import data, workloads
    from benchmarks.models import gpt

    config = gpt.Config(2, 2, 16, 16) if args.small else gpt.Config()
    batch = data.text_batch(BATCH, config.context)

    def step(namespace: Any, wrap: Callable[[Any], Any]) -> Callable[[], Any]:
        model = wrap(gpt.build(namespace, config))
        program = workloads.training(namespace, model, batch)
        made = workloads.training_step(program)
        return program.runner(jitcap.jit(made) if namespace is eager else made)

    calls = {
        "one": step(eager, lambda model: model),
        "ours": step(eager, eager.nn.parallel.DistributedDataParallel),
        "gloo": step(torch, torch.nn.parallel.DistributedDataParallel),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(args.rounds + 1):  # the first compiles
        for name, call in calls.items():
            rest(dist)
            if rank == 0 or name != "one":
                call()
                start = time.perf_counter()
                for _ in range(args.steps):
                    call()
                if turn:
                    times[name].append((time.perf_counter() - start) / args.steps)
    rest(dist)
    return times


def rest(dist: Any) -> None:
    """Wait for the other ranks, asleep."""
    work = dist.barrier(async_op=True)
    while not work.is_completed():
        time.sleep(1e-3)


def reductions(args: argparse.Namespace, rank: int) -> dict[int, dict[str, list[float]]]:
    """Seconds of an all-reduce of so many bytes of float32, by who does it."""
    import numpy as np
    import torch
    import torch.distributed as gloo
    from mpi4py import MPI

    import eager
    import eager.distributed as dist

    found = {}
    for size in SIZES[:2] if args.small else SIZES:
        arrays = [np.zeros(size // 4, np.float32) for _ in range(3)]
        ours, theirs, array = eager.from_numpy(arrays[0]), torch.from_numpy(arrays[1]), arrays[2]
        calls: dict[str, Callable[[], Any]] = {
            "ours": lambda x=ours: dist.all_reduce(x),
            "mpi4py": lambda x=array: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, x),
            "gloo": lambda x=theirs: gloo.all_reduce(x),
        }
        count = max(1, min(100, (10 << 20) // size))
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(args.rounds):
            for name, call in calls.items():
                MPI.COMM_WORLD.Barrier()
                call()
                start = time.perf_counter()
                for _ in range(count):
                    call()
                times[name].append((time.perf_counter() - start) / count)
        found[size] = times
    return found


if __name__ == "__main__":
    main()
