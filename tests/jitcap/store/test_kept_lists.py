"""Lists in a kept version are data from disk, too: reading one runs and raises nothing."""

import pytest

from tests.jitcap.store.test_kept_crafted import EACH, OBJECT, kept, watch

pytestmark = pytest.mark.once
FIXTURES = (kept, watch)

READS = (
    ["part", OBJECT, 0, 1], ["part", "args", 0, 1], ["part", "m0", OBJECT, 1], ["joined", OBJECT],
    ["mapped", "v", OBJECT], ["mapped", "v", "args", OBJECT], ["mapped", ["run", "v"], "args"],
    ["mapped", ["attribute", "v", "'plain"], ["tuple", OBJECT]], ["mapped"], ["joined", 1], ["part"],
)  # fmt: skip
ROWS = (
    ["sets", ["attribute", "v", "'hidden"], "i", "args", "args"], ["sets", "v", "i", "args", "args"],
    ["sets", ["call", "v"], 1, "args", "None"], ["let", "u9", ["mapped", ["call", "v"], "args"]],
    ["let", "u9", ["part", "args", 0, 1]], ["let", "m9", ["joined", ["tuple", 1]]], ["sets"],
)  # fmt: skip


@pytest.mark.parametrize("term", READS, ids=lambda term: repr(term)[:50])
def test_a_list_that_would_run_the_program(kept, term):
    kept.is_miss(kept.with_guard(["let", "v999", term]))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: repr(row)[:50])
def test_a_loop_outside_the_language(kept, row):
    kept.is_miss({**kept.start, "body": [row, *kept.start["body"]]})
    kept.is_miss(kept.with_guard([*EACH, row]))
