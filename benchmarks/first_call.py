"""Compile times: a workload's first call in a process of its own, with an empty or a filled cache.

`python -m benchmarks.first_call gpt jit` prints one line of JSON; `cold_and_warm` runs it twice
over one cache directory. `background` in the place of `jit`: with `mode="background"`; `ready` is
when its version is there.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import competitors, more

# Where each system keeps what it compiled.
CACHE_VARIABLES = {
    "jit": ("JITCAP_CACHE_DIR",),
    "background": ("JITCAP_CACHE_DIR",),
    "compile": ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"),
    "jax": ("JAX_COMPILATION_CACHE_DIR",),
}
# JAX keeps only what took over a second to compile unless told otherwise.
CACHE_SETTINGS = {"jax": {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}}


def environment(competitor: str, folder: str) -> dict[str, str]:
    """This process's environment with the competitor's cache in `folder`."""
    places = {name: str(Path(folder) / name) for name in CACHE_VARIABLES[competitor]}
    return os.environ | places | CACHE_SETTINGS.get(competitor, {})


def first_call(workload: str, competitor: str, folder: str) -> dict[str, Any]:
    """Run the child and read its line; raises CalledProcessError with its output."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.first_call", workload, competitor],
        env=environment(competitor, folder),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{competitor} on {workload} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def cold_and_warm(workload: str, competitor: str, folder: str | None = None) -> dict[str, Any]:
    """{"cold": ..., "warm": ...}: the child's record with an empty cache, then with a full one."""
    if folder is not None:
        return {kind: first_call(workload, competitor, folder) for kind in ("cold", "warm")}
    with tempfile.TemporaryDirectory() as fresh:
        return cold_and_warm(workload, competitor, fresh)


def stats_record(stats: Any) -> dict[str, Any]:
    """The counters of `step.stats` as plain numbers ({} for the others)."""
    names = ("calls", "compiles", "graphs", "splits", "fallbacks", "kernels", "compile_seconds")
    return {name: getattr(stats, name) for name in names if hasattr(stats, name)}


def main() -> None:
    workload, competitor = sys.argv[1:3]
    if competitor == "background":
        runner = competitors.jit(more.BY_NAME[workload], competitor)
    else:
        runner = competitors.BY_NAME[competitor].make(more.BY_NAME[workload])
    begin = time.perf_counter()
    runner.call()
    times = {"first": time.perf_counter() - begin}
    start = time.perf_counter()
    runner.call()
    times["second"] = time.perf_counter() - start
    for task in getattr(runner.stats, "tasks", ()):
        task.wait()
        times["ready"] = time.perf_counter() - begin
    print(json.dumps({**times, **stats_record(runner.stats)}))


if __name__ == "__main__":
    main()
