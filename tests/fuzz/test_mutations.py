"""Programs whose world changes between calls, plain against @jit: results, exceptions and effects.

A failure prints the program, the mutations and the seed (see `worlds`, and `fuzz_seeds` for more
seeds). `backend="eager"` runs the captured graph op by op: capture and guards are meant here.
"""

import importlib.util
import random
import re
import sys
import warnings
from pathlib import Path

import fuzz_seeds
import pytest

import eager
from jitcap import jit

_spec = importlib.util.spec_from_file_location("worlds", Path(__file__).with_name("worlds.py"))
worlds = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(worlds)

CALLS = 6  # of each program, with a mutation before each but the first


def outcome(step):
    try:
        result = "returned", worlds.shape(step(eager.ones(2)))
    except RecursionError:  # its text says where the stack was full
        result = "raised", "RecursionError"
    except Exception as error:
        result = "raised", type(error).__name__, str(error)
    return re.sub(r"0x[0-9a-f]+|world_\d+", "", repr(result))


def one(seed, process=0):
    """Run one program. Raises AssertionError for a difference; gives the counts. Other processes
    change the world otherwise, and before the first call, too."""
    (plain, text), (compiled, _) = worlds.world(seed), worlds.world(seed)
    step = jit(compiled["step"], backend="eager")
    rng, happened, mutations = random.Random(seed + process * 10**6), [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for call in range(CALLS):
            if call or process:
                change, choices = rng.choice(worlds.MUTATIONS), rng.random()
                happened.append(change.__name__)
                failed = []
                for world in (plain, compiled):
                    try:
                        change(world, random.Random(choices))
                    except Exception as error:  # it makes no sense here
                        failed.append(type(error))
                assert len(failed) != 1, failed
                mutations += not failed
            where = f"seed {seed}, after {happened}\n{text}\n{step.stats}"
            expected, got = outcome(plain["step"]), outcome(step)
            assert got == expected, f"{where}\nexpected {expected}\ngot      {got}"
            expected, got = worlds.state_of(plain), worlds.state_of(compiled)
            for name in expected:
                a, b = (re.sub(r"0x[0-9a-f]+", "", repr(s[name])) for s in (expected, got))
                assert a == b, f"{where}\nin {name}: expected {a}\ngot {b}"
    del sys.modules[f"world_{seed}"]
    counts = fuzz_seeds.counts_of(step) | {"mutations": mutations}
    fuzz_seeds.check_stats(counts, step)
    return counts


@pytest.mark.parametrize("seed", fuzz_seeds.seeds(60))
def test_the_world_changes_between_calls(seed):
    fuzz_seeds.note("mutations", seed, one(seed))
