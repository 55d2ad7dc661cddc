"""Claim: code whose sizes are symbols is as fast as code for these sizes alone, and is compiled in
at most half as much time again.

`python -m benchmarks.symbols` takes turns with both at the same sizes: microseconds a call, medians
and their ratio; `--compile` compiles each in a process of its own with an empty cache: seconds of
CPU, of the process and of the C++ compilers that it starts.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import eager
import eager.nn.functional as F
from benchmarks import sizes
from eager import nn
from jitcap import jit

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def step(model: Any, *data: Any) -> Program:
    return sizes.step_of(model), data


def words(*shape: int) -> tuple[Any, Any]:
    return sizes.ints(sizes.WORDS, *shape), sizes.ints(sizes.WORDS, *shape)


def three(x: Any, y: Any, w: Any) -> Any:
    """Little work on many sizes, so that the call itself is timed."""
    a = x.view(x.shape[0] // 2, 2, -1) * 2 + 1
    b = eager.softmax(x @ w, dim=-1) + y
    return a.sum(1), b, eager.cat([x[1:], x[:-1]]).mean()


PROGRAMS: dict[str, Callable[[], Program]] = {
    "call": lambda: (three, (sizes.floats(4, 6), sizes.floats(4, 5), sizes.floats(6, 5))),
    "softmax": lambda: (lambda x: eager.softmax(x, dim=-1), (sizes.floats(256, 512),)),
    "layernorm": lambda: (
        lambda x, w, b: F.layer_norm(x, (x.shape[-1],), w, b),
        (sizes.floats(256, 512), sizes.floats(512), sizes.floats(512)),
    ),
    "gelu": lambda: (F.gelu, (sizes.floats(256, 512),)),
    "mlp": lambda: step(sizes.perceptron(), sizes.floats(256, 20), sizes.ints(10, 256)),
    "gru": lambda: step(sizes.Recurrent(nn.GRU), *words(16, 24)),
    "resnet": lambda: step(sizes.convolutions(), sizes.floats(64, 1, 8, 8), sizes.ints(10, 64)),
    "gpt": lambda: step(sizes.GPT(), *words(8, 48)),
}


def compiled(name: str, dynamic: bool) -> tuple[Any, tuple[Any, ...]]:
    eager.manual_seed(0)
    fn, data = PROGRAMS[name]()
    return jit(fn, dynamic=dynamic), data


def microseconds(name: str, rounds: int) -> dict[str, float]:
    made = [compiled(name, dynamic) for dynamic in (True, False)]
    for fn, data in made * 3:
        fn(*data)
    start = time.perf_counter()
    made[1][0](*made[1][1])
    number = max(1, round(0.005 / (time.perf_counter() - start)))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for row, (fn, data) in zip(times, made, strict=True):
            start = time.perf_counter()
            for _ in range(number):
                fn(*data)
            row.append((time.perf_counter() - start) / number * 1e6)
    ratio = statistics.median(a / b for a, b in zip(*times, strict=True))
    return {"symbols": min(times[0]), "static": min(times[1]), "ratio": ratio}


def spent(name: str, dynamic: bool) -> float:
    """Seconds of CPU of the first call, with an empty cache."""
    code = (
        "import os, sys, time; from benchmarks import symbols; before = sum(os.times()[:4]);"
        f"fn, data = symbols.compiled({name!r}, {dynamic}); fn(*data);"
        "print(sum(os.times()[:4]) - before)"
    )
    with tempfile.TemporaryDirectory() as kept:
        space = {**os.environ, "JITCAP_CACHE_DIR": kept}
        done = subprocess.run(
            [sys.executable, "-c", code], env=space, check=True, capture_output=True
        )
    return float(done.stdout)


def seconds(name: str, rounds: int) -> dict[str, float]:
    times = [[spent(name, dynamic) for dynamic in (True, False)] for _ in range(rounds)]
    symbols, static = (min(row) for row in zip(*times, strict=True))
    return {"symbols": symbols, "static": static, "ratio": symbols / static}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.symbols", description=__doc__)
    parser.add_argument("--compile", action="store_true", help="the time of compiles")
    parser.add_argument("--only", help="programs by name, with commas")
    parser.add_argument("--rounds", type=int, help="40, or 2 compiles")
    parser.add_argument("--json", help="a file")
    args = parser.parse_args()
    measure, unit, rounds = (seconds, "s", 2) if args.compile else (microseconds, "us", 40)
    rows = {}
    for name in args.only.split(",") if args.only else PROGRAMS:
        rows[name] = row = measure(name, args.rounds or rounds)
        print(f"{name:10}{row['symbols']:10.2f} {unit}{row['static']:10.2f} {unit}", end="")
        print(f"{row['ratio']:8.3f}", flush=True)
    mean = math.prod(row["ratio"] for row in rows.values()) ** (1 / len(rows))
    print(f"{'mean':10}{mean:34.3f}")
    if args.json:
        Path(args.json).write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
