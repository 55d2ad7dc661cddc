"""`python tests/never_wrong/census.py [part of a name]`: how many cases are right today, by group, and what is wrong
with each of the others.
"""

import collections
import importlib
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("JITCAP_STRICT", "1")
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
harness = importlib.import_module("tests.never_wrong.harness")
for path in sorted(HERE.glob("*/*.py")):
    importlib.import_module(f"tests.never_wrong.{path.parent.name}.{path.stem}")


def main(part: str = "") -> None:
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    wrong = {}
    chosen = {name: each for name, each in harness.CASES.items() if part in f"{each.group}-{name}"}
    for name, each in chosen.items():
        start = time.perf_counter()
        with tempfile.TemporaryDirectory() as cache:
            found = harness.check(name, Path(cache))
        if (seconds := time.perf_counter() - start) > 1:
            print(f"---- {name} takes {seconds:.1f} s")
        counts[each.group]["wrong" if found else "right"] += 1
        if found:
            wrong[name] = found
            print(f"---- {name} ({each.group})\n{found}\n", flush=True)
    for group, count in counts.items():
        print(f"{group}: {count['right']} right, {count['wrong']} wrong")
    print(f"all: {len(chosen) - len(wrong)} right, {len(wrong)} wrong")
    print("wrong:", *wrong)


if __name__ == "__main__":
    main(*sys.argv[1:])
