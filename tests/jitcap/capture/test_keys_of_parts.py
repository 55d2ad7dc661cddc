"""Keys that the program makes of objects from outside: tuples, bound methods, frozen sets."""

import collections
import functools

import pytest

from jitcap import jit

Pair = collections.namedtuple("Pair", "a b")


class Model:
    def forward(self):
        return 2


class Row(tuple):
    __slots__ = ()


KEYS = {
    "tuple": lambda m: (m, 1),
    "nested": lambda m: (1, (m,)),
    "method": lambda m: m.forward,
    "tuple of a method": lambda m: (m.forward, 1),
    "named tuple": lambda m: Pair(m, 1),
    "subclass": lambda m: Row([m, 2]),
    "frozen set": lambda m: frozenset([m, 1]),
    "object": lambda m: m,
    "function": lambda m: m.forward.__func__,
}


def insert(table, key):
    made = key()
    if made not in table:
        table[made] = (made, 2)
        return "new"
    return table[made][1], [k is v[0] for k, v in table.items() if type(v) is tuple]


def memoise(table, key):
    return table.setdefault(key(), []).append(1), len(table[key()])


def remove(table, key):
    table[key()] = 3
    del table[key()]
    return table.pop(key(), "none"), key() in table.keys()


def update(table, key):
    was = (key(), 1) in table.items()
    table.update({key(): 1})
    return was, [k == key() for k in table], table == {key(): 1}


def count(table, key):
    counts = collections.Counter({k: 1 for k in table})
    counts[key()] += 1
    table[key()] = 1
    return sorted(counts.values())


@pytest.mark.filterwarnings("ignore::jitcap.JitcapWarning")
@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("program", [insert, memoise, remove, update, count])
def test_a_key_is_found_again(name, program):
    for held in ({}, {5: 6}, {None: 1}):
        told = []
        for wrap in (lambda fn: fn, functools.partial(jit, backend="eager")):
            model = Model()
            key = functools.partial(KEYS[name], model)
            table = {key() if k is None else k: v for k, v in held.items()}
            if program is memoise and None in held:
                table[key()] = []
            run = wrap(lambda table=table, key=key: program(table, lambda: KEYS[name](key.args[0])))
            told.append(([attempt(run) for _ in range(3)], list(table.values()) == [1]))
        assert told[0] == told[1]


def attempt(run):
    try:
        return run()
    except (TypeError, IndexError) as error:
        return type(error).__name__, str(error)
