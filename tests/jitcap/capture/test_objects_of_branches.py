"""Objects that both ways of a branch, or the rounds of a loop, make: their values, and who is who
afterwards, beside plain Python."""

from collections import namedtuple
from dataclasses import dataclass

import pytest

import eager
from jitcap import jit

pytestmark = pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")

Named = namedtuple("Named", "y t")


@dataclass
class Data:
    y: object
    t: object
    word: str = "w"


@dataclass(frozen=True)
class Frozen:
    y: object
    t: object


class Slots:
    __slots__ = ("t", "y")

    def __init__(self, y, t):
        self.y, self.t = y, t


class Pair(list):
    """No plain list: it is left to Python."""


def listed(y, t):
    return [y, {"t": t}]


KINDS = [Named, Data, Frozen, Slots, listed]


def canonical(value, seen):
    """A value as data, with a number for each object: equal where the same are the same."""
    if isinstance(value, int | str | None):
        return value
    if id(value) in seen:
        return seen[id(value)][0]
    seen[id(value)] = len(seen), value
    if isinstance(value, eager.Tensor):
        return value.tolist()
    if isinstance(value, list | tuple):
        return type(value).__name__, [canonical(x, seen) for x in value]
    if not isinstance(value, dict):
        names = getattr(type(value), "__slots__", ()) or vars(value)
        return type(value).__name__, {n: canonical(getattr(value, n), seen) for n in names}
    return {k: canonical(x, seen) for k, x in value.items()}


def answers(fn, *more):
    found = []
    for start in ([1.0, 2.0], [-1.0, -2.0], [9.0, 30.0], [1.0, 2.0]):
        kept = {"kept": None}
        result = fn(eager.tensor(start), kept, *more)
        found.append(canonical([result, kept], {}))
    return found


def check(fn, *more, one):
    step = jit(fn, backend="eager")
    assert answers(step, *more) == answers(fn, *more)
    assert (step.stats.splits == step.stats.fallbacks == 0) is one, step.stats.refusals


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_both_ways_make_one(make):
    def returned(x, kept, make):
        if x.sum() > 0:
            return make(x * 2, x + 1)
        return make(x - 2, x * 1)

    def kept_and_returned(x, kept, make):
        made = make(x, x + 1)
        if x.sum() > 0:
            made = make(x * 2, x + 1)
            kept["kept"] = made
        else:
            other = made = make(x - 2, x * 1)
            kept["kept"] = other
        return made, made

    check(returned, make, one=True)
    check(kept_and_returned, make, one=True)


@pytest.mark.parametrize("make", [Named, Data, Frozen, Slots], ids=lambda make: make.__name__)
def test_rounds_make_one(make):
    def steps(x, kept, make):
        state, t = make(x * 1, eager.tensor(0.0)), 0
        while state.t < 3:
            y = state.y * 1.5
            if y.sum() < 20:
                state = make(y, state.t + 1)
            else:
                state = make(y / 2, state.t + 0.5)
            t += 1
        return state.y, state.t, t

    check(steps, make, one=True)


def one_way_replaces(x, kept):
    state = Data(x * 1, x + 1)
    if x.sum() > 0:
        state = Data(state.y * 2, state.t)
    return state.y + state.t


def a_round_changes(x, kept):
    state = Data(x * 1, x + 1)
    while state.y.sum() < 20:
        state = Data(state.y + 3, state.t)
        state.t = state.t * 2
    return state


def one_way_changes_it(x, kept):
    state = Data(x * 1, x + 1)
    if x.sum() > 0:
        state.y = x * 5
    else:
        state = Data(x * 2, x)
    return state.y, state.t


ONE = [one_way_replaces, a_round_changes, one_way_changes_it]


def who_it_is(x, kept):
    old = pair = (x, x + 1)
    if x.sum() > 0:
        pair = (x * 2, x)
    return pair is old


def who_it_is_behind_a_loop(x, kept):
    old = pair = (x, x + 1)
    while pair[0].sum() < 5:
        pair = (pair[0] + 3, x)
    return pair is old


def who_it_is_in_a_round(x, kept):
    pair, before, times = (x * 1, x + 1), (x, x), 0
    for _ in range(4):
        times += pair is before
        before = pair
        if x.sum() > 0:
            pair = (pair[0] * 2, x)
        if pair[0].sum() > 30:
            break
    return times


def both_leave(x, kept):
    kept["kept"] = pair = (x, x + 1)
    if x.sum() > 0:
        pair = (x * 2, x)
    return pair


def two_that_may_be_one(x, kept):
    a = b = Data(x * 1, x + 1)
    if x.sum() > 0:
        a = Data(x * 2, x)
    if x[0] > 5:
        b = Data(x * 3, x)
    return a, b


def changed_behind(x, kept):
    a = b = Data(x * 1, x + 1)
    if x.sum() > 0:
        a = Data(x * 2, x)
    a.y = x * 7
    return b.y, a.y


def a_loop_that_hands_it_on(x, kept):
    a = kept["kept"] = Data(x * 1, x + 1)
    n = eager.tensor(0)
    while n < x[0]:
        kept["kept"] = a
        a = Data(a.y + 1, x)
        n = n + 1
    return a


def of_a_class_of_its_own(x, kept):
    made = Pair([x * 2]) if x.sum() > 0 else Pair([x - 1])
    return made, len(made)


SPLITS = [
    who_it_is, who_it_is_behind_a_loop, who_it_is_in_a_round, both_leave, two_that_may_be_one,
    one_way_changes_it, changed_behind, a_loop_that_hands_it_on, of_a_class_of_its_own,
]  # fmt: skip


@pytest.mark.parametrize("fn", [*ONE, *SPLITS], ids=lambda fn: fn.__name__)
def test_who_is_who(fn):
    check(fn, one=fn in ONE)
