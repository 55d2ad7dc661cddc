"""`python -m benchmarks`: the eight workloads for every competitor, in interleaved order.

`--set more` runs fourteen others, `--only` names of either. Prints times, ratios and compile times,
and writes JSON and a PNG.
"""

import argparse
import gc
import importlib
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def limit_threads(threads: int, *, jax: bool) -> None:
    """So many for everybody; must come before NumPy, torch and JAX are imported."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "JITCAP_THREADS"):
        os.environ[name] = str(threads)
    if jax and hasattr(os, "sched_setaffinity"):  # it sizes its pool by the processors it may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", help="comma-separated workloads")
    parser.add_argument("--set", choices=("eight", "more", "all"), default="eight", help="which")
    parser.add_argument("--competitors", help="comma-separated: eager,jit,torch,compile,jax")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="of the processors: --threads 1")
    parser.add_argument("--rounds", type=int, default=5, help="turns per competitor")
    parser.add_argument("--seconds", type=float, default=5.0, help="timed per competitor, in all")
    parser.add_argument("--quick", action="store_true", help="short, and no compile times")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for JSON and PNG")
    return parser.parse_args()


def choose(table: dict[str, Any], names: str | None) -> list[Any]:
    """The named entries, or all; an unknown name ends the program with the known ones."""
    if names is None:
        return list(table.values())
    unknown = [name for name in names.split(",") if name not in table]
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are: {', '.join(table)}")
    return [table[name] for name in names.split(",")]


def agreement(outputs: dict[str, Any], tolerance: float) -> list[str]:
    """A line for every competitor whose first result is not the first competitor's."""
    import numpy as np

    def array(out: Any) -> Any:
        if isinstance(out, tuple):
            return np.concatenate([array(part) for part in out])
        return np.asarray(out.detach().numpy() if hasattr(out, "detach") else out)

    arrays = {name: array(out) for name, out in outputs.items()}
    if not arrays:
        return []
    reference_name, reference = next(iter(arrays.items()))
    scale = float(np.abs(reference).max()) or 1.0
    return [
        f"{name}'s first result differs from {reference_name}'s by {gap:.1e} of the largest value"
        for name, array in arrays.items()
        if (gap := float(np.abs(array - reference).max()) / scale) > tolerance
    ]


def run_workload(workload: Any, competitors: list[Any], args: argparse.Namespace) -> dict[str, Any]:
    """Compile times first (children fill the cache), then the interleaved timing."""
    from benchmarks import first_call, measure

    result: dict[str, Any] = {"what": workload.what, "times": {}, "compile": {}, "faults": []}
    calls, outputs, stats = {}, {}, {}
    for competitor in competitors:
        if competitor.name == "jax" and not workload.in_jax:
            continue
        print(f"  {workload.name}: {competitor.label} ...", file=sys.stderr)
        try:
            if not args.quick and competitor.name in first_call.CACHE_VARIABLES:
                times = first_call.cold_and_warm(workload.name, competitor.name)
                result["compile"][competitor.name] = times
            runner = competitor.make(workload)
            outputs[competitor.name] = runner.call()
        except Exception as error:  # noqa: BLE001  one competitor's failure is a line, not the end
            result["faults"].append(f"{competitor.label} failed: {type(error).__name__}: {error}")
            continue
        calls[competitor.name], stats[competitor.name] = runner.call, runner.stats
    result["faults"] += agreement(outputs, workload.tolerance)
    outputs.clear()
    timings = measure.interleave(
        calls, args.rounds, args.seconds, time.process_time if args.cpu_time else time.perf_counter
    )
    result["times"] = {name: timing.as_dict() for name, timing in timings.items()}
    result["jit"] = first_call.stats_record(stats.get("jit"))
    return result


def describe_machine() -> dict[str, Any]:
    versions = {}
    for name in ("numpy", "torch", "jax"):
        if name in sys.modules:
            versions[name] = sys.modules[name].__version__
    return {
        "processor": processor_name(),
        "threads": int(os.environ["OMP_NUM_THREADS"]),
        "python": platform.python_version(),
        **versions,
    }


def processor_name() -> str:
    """The model as the kernel names it (Linux), else what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((row.split(":")[1].strip() for row in lines if row.startswith("model name")), "")


def main() -> None:
    args = options()
    limit_threads(args.threads, jax="jax" in (args.competitors or "jax"))
    if args.quick:
        args.rounds, args.seconds = min(args.rounds, 3), min(args.seconds, 1.0)
    # After the thread limits: this imports NumPy.
    report = importlib.import_module("benchmarks.report")
    more = importlib.import_module("benchmarks.more")
    of_set = {w.name: w for w in more.SETS[args.set]}
    workloads = choose(more.BY_NAME if args.only else of_set, args.only)
    rivals = choose(importlib.import_module("benchmarks.competitors").BY_NAME, args.competitors)
    for rival in rivals:
        if missing := rival.missing():
            print(f"{rival.label}: skipped, {missing} is not installed")
    rivals = [rival for rival in rivals if not rival.missing()]
    names, results = [rival.name for rival in rivals], {}
    args.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", cache)
        for workload in workloads:
            results[workload.name] = run_workload(workload, rivals, args)
            # After each, so that a run that is stopped leaves what it measured.
            report.save_json(args.out / "benchmarks.json", results, describe_machine())
            print(report.line(results, workload.name), file=sys.stderr)
            gc.collect()
    print(report.show(results, names))
    print(f"figures: {args.out / 'benchmarks.json'}")
    print(report.save_png(args.out / "benchmarks.png", results, names))


if __name__ == "__main__":
    main()
