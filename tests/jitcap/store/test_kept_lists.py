"""Lists in a kept version are data from disk, too: reading one runs and raises nothing."""

import json

import pytest

import eager
from eager import nn
from jitcap.base.equality import identity
from jitcap.capture.capture import capture
from jitcap.store import records
from jitcap.store.codec import Reader, Writer
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


def test_columns_of_guards_that_are_none(kept):
    groups, _ = kept.rest["guards"]
    first = next(
        group for group in groups if len(group) > 2
    )  # a class, and a column for each field
    name, *columns = first
    for changed in (
        [groups, [10**6]], [groups, [-1]], [groups, [True]], [groups, ["x"]], [groups], [groups, 1],
        [[["os.stat_result", [1]]], []], [[["Aval"]], []], [[first[:-1]], []], [[first[:1]], []],
        [[[*first, columns[-1]]], []], [[[name, *[[7]] * len(columns)]], []],
        [[[name, [None, [0, 1]], *columns[1:]]], []], [[[*first[:-1], [["x"], [0] * 99]]], []],
        [[[*first[:-1], [["x"], [-1]]]], []],
    ):  # fmt: skip
        kept.is_miss(rest={**kept.rest, "guards": changed})


def test_guards_come_back_from_columns_in_their_order():
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 2))
    optimizer = eager.optim.AdamW(model.parameters())

    def step(x):
        model(x).sum().backward()
        optimizer.step()

    captured = capture(step, (eager.ones(2, 2),), {})
    captured.code()
    names = captured.names.namespace
    writer = Writer({id(value): name for name, value in names.items()}, set())
    again = Reader(names).table(json.loads(json.dumps(writer.table(captured.guards.items))))
    assert [*map(_parts, again)] == [*map(_parts, captured.guards.items)]


def _parts(value):
    """A guard or an origin by its fields."""
    if type(value) is tuple:
        return [*map(_parts, value)]
    if type(value) not in records.names():
        return identity(value)
    return type(value), [_parts(field) for (field,) in records.columns(type(value), (value,))]
