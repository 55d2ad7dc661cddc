"""Seeds and counts of the fuzzers: which programs a run takes, and what became of them.

    JITCAP_FUZZ_SEEDS=1000:2000   these seeds instead of the usual few
    JITCAP_FUZZ_COUNTS=file       a JSON line for each program, appended: seed, graphs, splits ...

`scripts/fuzz` runs ranges of seeds, goes on where it stopped, and sums the lines.
"""

import json
import os
import sys
from pathlib import Path


def seeds(usual):
    """The range that the environment asks for, or the first `usual` seeds: all on the Python that
    has the reference, the even ones on one newer Python, the odd ones on the next."""
    text, minor = os.environ.get("JITCAP_FUZZ_SEEDS"), sys.version_info.minor
    if text is None:
        return range(usual) if minor <= 11 else range(minor % 2, usual, 2)
    first, _, last = text.partition(":")
    return range(int(first), int(last or int(first) + 1))


def counts_of(*steps):
    """What happened to jitted functions, summed. One graph: compiled whole, and nothing else. What
    raises at each call is never compiled."""
    stats = [step.stats for step in steps]
    names = ("calls", "compiles", "graphs", "splits", "fallbacks")
    sums = {name: sum(getattr(s, name) for s in stats) for name in names}
    whole = sums["compiles"] > 0 and sums["splits"] == sums["fallbacks"] == 0
    never = sums["compiles"] == sums["fallbacks"] == sums["splits"] == 0
    return {**sums, "programs": 1, "one_graph": int(whole), "never_compiled": int(never)}


def note(fuzzer, seed, counts):
    """Write a line for the sums, if somebody keeps them."""
    path = os.environ.get("JITCAP_FUZZ_COUNTS")
    if path:
        with Path(path).open("a") as file:
            file.write(json.dumps({"fuzzer": fuzzer, "seed": seed, **counts}) + "\n")


def check_stats(counts, *steps, splits=None):
    """No fault of capture among the reasons why something was split or ran plainly; as many splits
    as expected, if that is known."""
    for step in steps:
        for reason in step.stats.refusals:
            assert not reason.startswith("internal:"), reason
    assert counts["graphs"] or counts["fallbacks"] or counts["splits"] or not counts["compiles"]
    if splits is not None:
        reasons = [reason for step in steps for reason in step.stats.refusals]
        assert counts["splits"] == splits, reasons
        assert counts["fallbacks"] == 0, reasons
