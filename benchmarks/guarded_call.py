"""Claim: a call of a compiled version costs microseconds, and no more than it did before a change.

`python -m benchmarks.guarded_call` times the calls of programs whose kernels have next to nothing
to do, so that guards, gathering and effects are what is timed: microseconds, the least of many
short batches, since what else runs on the machine only adds. `--against DIR` takes turns with
another checkout (`git worktree add DIR COMMIT`) and prints both and old/new; `--json FILE`
keeps them.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def tiny() -> Callable[[], Any]:
    """A function of two tensors of three elements."""
    import eager
    from jitcap import jit

    a, b = eager.tensor([1.0, 2.0, 3.0]), eager.tensor([3.0, 2.0, 1.0])

    @jit
    def program(a: Any, b: Any) -> Any:
        return (a * b + a).sin() * b

    return lambda: program(a, b)


def training(layers: int, width: int) -> Callable[[], Any]:
    """A training step with AdamW of a network with two parameters to a layer."""
    import eager
    from eager import nn
    from eager.nn import functional as F
    from jitcap import jit

    eager.manual_seed(0)
    sizes = [4, *[width] * (layers - 1), 3]
    parts = [m for i, o in pairwise(sizes) for m in (nn.Linear(i, o), nn.ReLU())]
    model = nn.Sequential(*parts[:-1])
    optimizer = eager.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = eager.randn(2, 4), eager.tensor([0, 2])

    @jit
    def step(x: Any, y: Any) -> Any:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda: step(x, y)


PROGRAMS: dict[str, Callable[[], Callable[[], Any]]] = {
    "tiny": tiny,
    "mlp": lambda: training(2, 8),
    "80 parameters": lambda: training(40, 4),
}


def microseconds(call: Callable[[], Any], batches: int) -> float:
    """The least of batches of about half a millisecond: what else runs only adds."""
    for _ in range(5):
        call()
    start = time.perf_counter()
    for _ in range(50):
        call()
    number = max(5, round(0.0005 / ((time.perf_counter() - start) / 50)))
    samples = []
    for _ in range(batches):
        start = time.perf_counter()
        for _ in range(number):
            call()
        samples.append((time.perf_counter() - start) / number * 1e6)
    return min(samples)


def elsewhere(checkout: Path, batches: int) -> dict[str, float]:
    """The same programs with the packages of a checkout, in a process of its own."""
    with tempfile.TemporaryDirectory() as kept:
        space = {**os.environ, "PYTHONPATH": str(checkout), "JITCAP_CACHE_DIR": kept}
        command = [sys.executable, __file__, "--json", "-", "--batches", str(batches)]
        done = subprocess.run(command, env=space, cwd=kept, check=True, capture_output=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(old: Path, rounds: int, batches: int) -> dict[str, dict[str, float]]:
    """Checkouts in turn, and the least of each."""
    times: dict[Path, list[dict[str, float]]] = {old: [], ROOT: []}
    for _ in range(rounds):
        for checkout, found in times.items():
            found.append(elsewhere(checkout, batches))
    rows = {}
    for name in PROGRAMS:
        before, now = (min(row[name] for row in times[c]) for c in (old, ROOT))
        rows[name] = {"old": before, "new": now, "old/new": before / now}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guarded_call", description=__doc__)
    parser.add_argument("--against", type=Path, help="a checkout of the commit to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=600)
    parser.add_argument("--json", help="a file, or - for nothing but JSON on the output")
    args = parser.parse_args()
    result: dict[str, Any]
    if args.against and not (args.against / "jitcap").is_dir():
        parser.error(f"--against {args.against}: no checkout of jitcap there (git worktree add)")
    if args.against:
        result = compare(args.against.resolve(), args.rounds, args.batches)
        for name, row in result.items():
            print(f"{name:14}{row['old']:9.2f} us ->{row['new']:9.2f} us   {row['old/new']:.3f}")
        mean = math.prod(row["old/new"] for row in result.values()) ** (1 / len(result))
        print(f"{'mean':14}{mean:33.3f}")
    else:
        result = {name: microseconds(make(), args.batches) for name, make in PROGRAMS.items()}
        if args.json != "-":
            print("\n".join(f"{name:14}{us:9.2f} us" for name, us in result.items()))
    if args.json == "-":
        print(json.dumps(result))
    elif args.json:
        Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
