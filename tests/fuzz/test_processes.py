"""Several processes over one cache on disk: what one keeps, another reads, in a world that changes
otherwise. The programs are those of the mutation tester (`worlds`)."""

import collections
import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import fuzz_seeds
import pytest

from jitcap.store import versions

BLOCK = 50  # programs over one cache
PROCESSES = 3  # the first two at the same time
ROOT = Path(__file__).resolve().parents[2]
CHILD = f"""
import sys
sys.path += [{str(ROOT)!r}, {str(ROOT / "tests" / "helpers")!r}]
from tests.fuzz.test_processes import child
child(*map(int, sys.argv[1:]))
"""


def child(first, last, process):
    """What one process does. Prints its sums, with the versions that it read from disk, as JSON."""
    mutations = importlib.import_module("tests.fuzz.test_mutations")
    counts, recall = collections.Counter(), versions.recall

    def counted(*args):
        found = recall(*args)
        counts["recalled"] += found is not None
        return found

    versions.recall = counted
    for seed in range(first, last):
        counts.update(mutations.one(seed, process))
    print(json.dumps(counts))


def start(cache, *numbers):
    # Nothing is kept on disk while stages are verified.
    environ = {**os.environ, "JITCAP_CACHE_DIR": cache, "CHECK": "0", "JITCAP_STRICT": "1"}
    command = [sys.executable, "-c", CHILD, *map(str, numbers)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environ, text=True, stdout=pipe, stderr=pipe)


def one(block):
    """A block of programs in every process. Raises AssertionError for a difference; gives the
    counts."""
    first, counts = block * BLOCK, collections.Counter()
    with tempfile.TemporaryDirectory() as cache:
        for together in ((0, 1), range(2, PROCESSES)):
            running = [start(cache, first, first + BLOCK, process) for process in together]
            for each, (said, complaint) in [(each, each.communicate()) for each in running]:
                assert each.returncode == 0, f"block {block}: {complaint[-4000:]}"
                counts.update(json.loads(said.splitlines()[-1]))
    return dict(counts)


@pytest.mark.slow
@pytest.mark.parametrize("block", fuzz_seeds.seeds(1))
def test_one_reads_what_another_kept(block):
    counts = one(block)
    assert counts["recalled"]
    fuzz_seeds.note("processes", block, counts)
