"""What containers find by identity before they ask whether it is equal: as plain Python does, whichever call
the version was made for."""

import collections
import dataclasses
import operator

import pytest

import eager
from jitcap import jit

NAN = float("nan")


class Hashed:
    def __hash__(self):
        return 1


class NeverEqual:
    def __eq__(self, other):
        return False


class Unhashable:
    __hash__ = None


class NeverUnequal:
    def __ne__(self, other):
        return False


@dataclasses.dataclass
class Pair:
    first: object
    second: object = 1


KINDS = {
    "hashed": Hashed,
    "never equal": NeverEqual,
    "unhashable": Unhashable,
    "tuple": lambda: (NeverEqual(),),
    "function": lambda: lambda: 1,
}
QUESTIONS = [
    lambda k, row: k in row,
    lambda k, row: k in tuple(row),
    lambda k, row: [k] == [row[0]],
    lambda k, row: (k, 1) != (row[0], 1),
    lambda k, row: {"a": k} == {"a": row[0]},
    lambda k, row: Pair(k) == Pair(row[0]),
    lambda k, row: row.index(k) if k in row else None,
    lambda k, row: row.count(k),
    lambda k, row: row.remove(k) if k in row else len(row),
    lambda k, row: collections.deque(row).count(k),
    lambda k, row: k in {1: row[0]}.values(),
    lambda k, row: (1, k) in {1: row[0]}.items(),
    lambda k, row: operator.countOf(row, k),
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_object_or_another(kind):
    make = KINDS[kind]

    def arguments(is_there):
        k, other = make(), make()
        return k, [k if is_there else make(), other]

    for ask in QUESTIONS:
        for first in (True, False):
            step = jit(lambda x, k, row, ask=ask: (x, ask(k, row), len(row)), backend="eager")
            for is_there in (first, not first, first):
                k, row = arguments(is_there)
                expected = ask(k, row), len(row)
                got = step(eager.ones(2), *arguments(is_there))
                assert got[1:] == expected, (is_there, QUESTIONS.index(ask))
            assert step.stats.fallbacks == 0


def test_keys_that_are_found_by_identity():
    class Key:
        def __ne__(self, other):
            return False

    programs = [
        lambda x, k, d: (x, d.get(k, 0), k in d, k in d.keys(), (k, 1) in d.items()),
        lambda x, k, d: (x, d.setdefault(k, 7), list(d.values())),
    ]
    for make in (Key, lambda: lambda: 1, object):
        for program in programs:
            step = jit(program, backend="eager")
            for is_there in (True, False, True):
                k = make()
                wanted, found = ({k if is_there else make(): 1} for _ in range(2))
                expected = program(eager.ones(2), k, wanted)[1:]
                assert step(eager.ones(2), k, found)[1:] == expected, is_there
                assert [*found.values()] == [*wanted.values()]


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
def test_keys_that_do_not_equal_themselves():
    programs = [
        lambda x, d: [*d.items()],
        lambda x, d: (len(d), d.get(NAN, 7), d.get(float("nan"), 7)),
        lambda x, d: d.update(a=1),
        lambda x, d: d.update({NAN: 5}),
        lambda x, d: (d.pop("a", None), d.setdefault("a", 3)),
        lambda x, d: {k: v for k, v in d.items()},
        lambda x, d: [{NAN, k} for k in d],
    ]
    for program in programs:
        step = jit(program, backend="eager")
        for make in (lambda: {NAN: 1, "a": 2}, lambda: {1: 0, (NAN, 1): 2, NAN: 3, 2.5: 4}):
            wanted, found = make(), make()
            assert repr(step(eager.ones(2), found)) == repr(program(eager.ones(2), wanted))
            assert repr(found) == repr(wanted)


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
def test_numbers_that_do_not_equal_themselves():
    def program(x, a, b):
        return x, len({a, b}), {a: 1} == {b: 1}, a in [b]

    step = jit(program, backend="eager")
    for args in ((1.0, 1.0), (NAN, NAN), (NAN, float("nan"))):
        assert step(eager.ones(2), *args)[1:] == program(eager.ones(2), *args)[1:]


def test_a_container_that_holds_itself():
    """It goes through native code and back as what it is."""
    rows = [1, 2], collections.deque([1, 2]), {1: 2}, ([1], 2)
    for row in rows:
        (row[0] if type(row) is tuple else row).__setitem__(0, row)
    calls = list, tuple, lambda r: list(map(lambda v: v, r)), lambda r: max(r, key=lambda v: 0)
    for ask in (*calls, lambda r: min(r, r, key=len), lambda r: sorted(r, key=lambda v: 0)):
        step = jit(lambda row: ask(row))
        for row in rows:
            made, plain = step(row), ask(row)
            assert type(made) is type(plain)
            if type(plain) is int or plain is row:
                assert made is plain
            else:
                assert all(map(operator.is_, made, plain))
        assert not step.stats.splits
        assert not step.stats.fallbacks
