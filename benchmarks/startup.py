"""Claim: the first gpt step takes under 10 s cold, and 2 s from the cache in a new process.

`python -m benchmarks.startup` measures both and prints the number of distinct kernels.
"""

import argparse

from benchmarks import first_call


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--only", default="gpt", help="one workload")
    parser.add_argument("--competitor", default="jit", choices=sorted(first_call.CACHE_VARIABLES))
    args = parser.parse_args()
    record = first_call.cold_and_warm(args.only, args.competitor)
    for kind in ("cold", "warm"):
        row = record[kind]
        counters = ", ".join(
            f"{row[name]} {name}" for name in ("graphs", "splits", "kernels") if name in row
        )
        print(
            f"{args.only} {kind}: first step {row['first']:.2f} s, second {row['second']:.3f} s"
            + (f"; {counters}" if counters else "")
        )


if __name__ == "__main__":
    main()
