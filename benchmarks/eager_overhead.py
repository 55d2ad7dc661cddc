"""Claim: an eager op on a tiny tensor takes at most about three times NumPy's own call.

`python -m benchmarks.eager_overhead` times pairs of calls on three elements and prints
nanoseconds and ratios; `--json FILE` keeps them.
"""

import argparse
import json
import timeit
from pathlib import Path

import numpy as np

import eager

# Each pair does the same: with eager on `x`, `y`, and with NumPy on `a`, `b`.
PAIRS = {
    "add": ("x + y", "a + b"),
    "add number": ("x + 2.0", "a + 2.0"),
    "multiply": ("x * y", "a * b"),
    "divide": ("x / y", "a / b"),
    "compare": ("x > y", "a > b"),
    "exp": ("x.exp()", "np.exp(a)"),
    "tanh": ("x.tanh()", "np.tanh(a)"),
    "sum": ("x.sum()", "a.sum()"),
    "mean": ("x.mean()", "a.mean()"),
    "max along": ("m.amax(1)", "n.max(1)"),
    "matmul": ("m @ m", "n @ n"),
    "reshape": ("m.reshape(9)", "n.reshape(9)"),
    "transpose": ("m.t()", "n.T"),
    "index": ("m[1]", "n[1]"),
    "slice": ("x[1:]", "a[1:]"),
    "where": ("eager.where(x > y, x, y)", "np.where(a > b, a, b)"),
    "concatenate": ("eager.cat([x, y])", "np.concatenate([a, b])"),
    "in place": ("x.add_(y)", "np.add(a, b, out=a)"),
    "recorded add": ("w + y", "a + b"),
}


def nanoseconds(code: str, scope: dict[str, object], repeats: int, number: int) -> float:
    return min(timeit.repeat(code, globals=scope, repeat=repeats, number=number)) / number * 1e9


def measure(repeats: int, number: int) -> dict[str, dict[str, float]]:
    a, b = np.array([1, 2, 3], np.float32), np.array([3, 2, 1], np.float32)
    n = np.eye(3, dtype=np.float32)
    x, y, m = (eager.tensor(array) for array in (a, b, n))
    w = eager.tensor(a, requires_grad=True)
    scope = {"eager": eager, "np": np, "a": a, "b": b, "n": n, "x": x, "y": y, "m": m, "w": w}
    rows = {}
    for name, (ours, numpys) in PAIRS.items():
        mine, theirs = (nanoseconds(code, scope, repeats, number) for code in (ours, numpys))
        rows[name] = {"eager": mine, "numpy": theirs, "ratio": mine / theirs}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.eager_overhead", description=__doc__
    )
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--number", type=int, default=5000)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = measure(args.repeats, args.number)
    print(f"{'':14}{'eager ns':>10}{'NumPy ns':>10}{'ratio':>8}")
    for name, row in rows.items():
        print(f"{name:14}{row['eager']:10.0f}{row['numpy']:10.0f}{row['ratio']:8.1f}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
