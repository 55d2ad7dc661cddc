"""Checking a guard runs none of the program's code, and takes no value for another.

An argument that was a number may be a tensor at the next call, an array, or an object whose
`__eq__` raises; a dictionary may be one that makes entries when it is read. Nothing of that may be
noticed: neither an exception, nor an effect, nor the answer for the value before.
"""

import collections
import functools
import itertools

import numpy as np
import pytest
import share

import eager
from eager import nn
from jitcap import jit

compiled = functools.partial(jit, backend="eager")
LOG = []


class Equal:
    def __eq__(self, other):
        LOG.append("eq")
        return True

    def __hash__(self):
        LOG.append("hash")
        return hash(5)

    def __rmul__(self, other):
        return 8

    def __repr__(self):
        return "Equal()"


class EqualArray:
    __hash__ = None

    def __eq__(self, other):
        return np.array([True, False])

    def __repr__(self):
        return "EqualArray()"


class Raises:
    def __eq__(self, other):
        raise RuntimeError("eq")

    __hash__ = object.__hash__

    def __repr__(self):
        return "Raises()"


class Int(int):
    def __eq__(self, other):
        LOG.append("Int")
        return True

    __hash__ = int.__hash__


class Text(str):
    __slots__ = ()

    def __eq__(self, other):
        LOG.append("Text")
        return True

    __hash__ = str.__hash__


VALUES = [
    2, 2.0, True, None, eager.tensor([2.0, 3.0]), eager.tensor(2.0), np.array([2, 3]), np.array(2),
    np.float32(2), np.float32(-0.0), np.float32(0.0), np.int64(2), 0j, -0j, complex("nan"),
    Equal(), EqualArray(), Raises(), Int(2), Int(3), Text("ab"), "ab", b"ab",
    (1, 2), (True, 2), (1.0, 2), (Int(1), 2), (1, 2, 3, 4, 5), (1, 2, 3, 4, True), [1, 2],
    range(0, 3, 2), range(0, 4, 2), slice(0, 2), slice(False, 2), slice(eager.tensor(1), None),
    slice(Equal(), None), frozenset([1, 2]), frozenset([True, 2]), frozenset([1.0, 2]),
    frozenset([Equal()]), {1, 2}, {True, 2}, {Equal()}, {5}, {0, 8}, {8, 0},
    eager.float32, np.dtype("f4"), np.float64(0.0), 0.0, -0.0, float("nan"), float("inf"),
    np.datetime64(1, "D"), np.datetime64(24, "h"), eager.device("cpu"),
]  # fmt: skip


def scaled(x, v):
    return x * v


def described(x, v):
    if isinstance(v, (int, float, complex, str, bytes, tuple)):
        return repr(v)
    if isinstance(v, range | slice):
        return v.start, v.stop, v.step
    if isinstance(v, set | frozenset):
        return [repr(i) for i in v]
    return v is None, type(v).__name__


def argument(fn, jit):
    step = jit(fn)
    return lambda v: step(eager.ones(2), v)


def attribute(fn, jit):
    class Holder:
        value = None

    holder = Holder()
    step = jit(lambda x: fn(x, holder.value))

    def call(v):
        holder.value = v
        return step(eager.ones(2))

    return call


def item(fn, jit):
    values = [None]
    step = jit(lambda x: fn(x, values[0]))

    def call(v):
        values[0] = v
        return step(eager.ones(2))

    return call


def cell(fn, jit):
    value = None
    step = jit(lambda x: fn(x, value))

    def call(v):
        nonlocal value
        value = v
        return step(eager.ones(2))

    return call


def shown(value):
    if isinstance(value, eager.Tensor):
        return "tensor", str(value.dtype), repr(value.tolist())
    if isinstance(value, list | tuple):
        return [type(value), *map(shown, value)]
    return type(value), repr(value)


def outcome(call, value):
    """What comes of a call, and how often the program's own comparisons ran."""
    LOG.clear()
    try:
        result = shown(call(value))
    except Exception as error:
        result = "raised", type(error), str(error)
    return result, len(LOG)


@pytest.mark.parametrize("place", [argument, attribute, item, cell])
@pytest.mark.parametrize("fn", [scaled, described])
def test_one_value_after_another(fn, place, recwarn):
    """Each value after one other; at an argument a choice of all pairs."""
    pairs = list(zip(VALUES, VALUES[7:] + VALUES[:7], strict=True))
    if place is argument and fn is described:
        pairs += share.of(itertools.permutations(VALUES, 2), 100)
    for values in pairs:
        compare(fn, place, values)


@pytest.mark.parametrize("values", [VALUES, VALUES[::-1]], ids=["forth", "back"])
def test_all_values_in_one_function(values, recwarn):
    """So that each meets the guards of all that came before it."""
    for fn in (scaled, described):
        compare(fn, argument, [*values, *values])


def compare(fn, place, values):
    """One function and its jitted twin give the same for each, one after another."""
    plain, step = place(fn, lambda f: f), place(fn, compiled)
    for value in values:
        (expected, ran), (got, ran_too) = outcome(plain, value), outcome(step, value)
        assert got == expected, (value, values)
        assert ran_too <= ran, (value, values)


def check(program):
    """The same results; and where all guards hold, no more of the program's code runs."""
    steps = []

    def jitted(fn):
        steps.append(compiled(fn))
        return steps[-1]

    def run(jit):
        LOG.clear()
        for result in program(jit):
            yield shown(result), len(LOG), sum(s.stats.compiles + s.stats.splits for s in steps)
            LOG.clear()

    known = -1
    for (expected, least, _), (got, ran, made) in zip(run(lambda f: f), run(jitted), strict=True):
        assert got == expected
        assert made > known or ran <= least
        known = made


def test_reading_makes_no_entries(recwarn):
    def program(jit):
        table = collections.defaultdict(lambda: LOG.append("made") or 7, a=1)
        step = jit(lambda x: x * table["a"])
        yield step(eager.ones(1))
        del table["a"]
        plain = dict(table)
        yield "a" in plain
        yield step(eager.ones(1))
        yield dict(table)

    check(program)


def test_classes_of_dictionaries_and_lists(recwarn):
    class Table(dict):
        def __getitem__(self, key):
            LOG.append("getitem")
            return dict.__getitem__(self, key) + 1

        def __contains__(self, key):
            LOG.append("contains")
            return dict.__contains__(self, key)

        def __len__(self):
            LOG.append("len")
            return 1 + dict.__len__(self)

        def __iter__(self):
            LOG.append("iter")
            return dict.__iter__(self)

    class Row(list):
        def __getitem__(self, index):
            LOG.append("item")
            return list.__getitem__(self, index)

    class Pair(tuple):
        __slots__ = ()

        def __getitem__(self, index):
            LOG.append("pick")
            return tuple.__getitem__(self, index) + 1

    def program(jit):
        table, row, pair = Table(a=1, b=2), Row([1, 2]), Pair((1, 2))
        step = jit(lambda x: x * dict.get(table, "a") + sum(row) + len(pair))
        read = jit(lambda x: x * table["a"] + row[0] + pair[1])
        absent = jit(lambda x: x * dict.get(table, "c", 5))
        listed = jit(lambda x: [*dict.keys(table)])
        for _ in range(3):
            yield [f(eager.ones(1)) for f in (step, read, absent, listed)]
        table["a"], row[1], table["c"] = 5, 3, 6
        yield [f(eager.ones(1)) for f in (step, read, absent, listed)]
        row.append(4)
        pair = Pair((3, 4))
        yield [f(eager.ones(1)) for f in (step, read, absent, listed)]

    check(program)


def test_the_order_of_an_ordered_dict():
    def program(jit):
        table = collections.OrderedDict(a=1, b=2)
        step = jit(lambda x: [x * v for v in table.values()] + [*table])
        yield step(eager.ones(1))
        table.move_to_end("a")
        yield step(eager.ones(1))
        yield step(eager.ones(1))

    check(program)
    step = compiled(lambda t: [*t])
    table = collections.OrderedDict(a=1, b=2)
    table.move_to_end("a")
    assert step(table) == step(table) == ["b", "a"]
    assert (step.stats.compiles, step.stats.fallbacks) == (1, 0)


def test_slots_and_attributes(recwarn):
    class Slotted:
        __slots__ = ("scale",)

        def __getattr__(self, name):
            LOG.append(name)
            return 3

    class Watched:
        def __init__(self):
            self.scale = 2

        def __getattribute__(self, name):
            LOG.append(name)
            return object.__getattribute__(self, name)

    def program(jit):
        slotted, watched = Slotted(), Watched()
        slotted.scale = 2
        step = jit(lambda x: x * slotted.scale)
        raw = jit(lambda x: x * object.__getattribute__(watched, "scale"))
        for _ in range(2):
            yield step(eager.ones(1)), raw(eager.ones(1))
        del slotted.scale
        for _ in range(2):
            yield step(eager.ones(1))
        slotted.scale = 4
        object.__getattribute__(watched, "__dict__")["scale"] = 5
        yield step(eager.ones(1)), raw(eager.ones(1))

    check(program)


class Key:
    def __init__(self, name):
        self.name = name

    def __hash__(self):
        LOG.append("hash")
        return hash(self.name)

    def __eq__(self, other):
        LOG.append("eq")
        return self.name == other.name


def test_keys_that_hash_in_python(recwarn):
    def program(jit):
        first, second, late = Key("a"), Key("b"), Key("c")
        table = {first: 1, second: 2}
        step = jit(lambda x: x * table[second])
        absent = jit(lambda x: x * table.get(late, 9))
        for _ in range(3):
            yield step(eager.ones(1)), absent(eager.ones(1))
        table[second] = 5
        yield step(eager.ones(1)), absent(eager.ones(1))
        table[late] = 6
        yield step(eager.ones(1)), absent(eager.ones(1))

    check(program)


def test_a_parameter_becomes_something_else(recwarn):
    class Strange:
        def __getattr__(self, name):
            LOG.append(name)
            return None

        def __hash__(self):
            LOG.append("hash")
            return 0

        def __rmul__(self, x):
            return x

    def program(jit):
        model = nn.Linear(2, 2)
        nn.init.ones_(model.weight)
        other = [model.weight]

        @jit
        def step(x):
            loss = (x * other[0]).sum()
            if other[0].grad is None:
                loss = loss * 2
            return loss.detach()

        for _ in range(2):
            yield step(eager.ones(2))
        other[0] = Strange()
        yield step(eager.ones(2))

    check(program)


@pytest.mark.filterwarnings("ignore:@jit")  # a key that does not equal itself
@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan"), -0.0, 0.0, 1e308])
def test_the_value_of_a_number_is_asked_for(value):
    step = compiled(lambda x, v: (x, [f"{v:.3g}"], {v: 1}, repr(v * 2)))
    for v in (value, value, 0.0, -0.0, 1.5):
        assert shown(step(eager.ones(1), v)) == shown(step.original(eager.ones(1), v))
    assert step.stats.fallbacks == 0


def test_a_miss_is_explained_without_the_programs_code():
    class Loud(int):
        def __repr__(self):
            LOG.append("repr")
            return "loud"

    step = compiled(lambda x, v: x * v)
    step(eager.ones(1), 2)
    LOG.clear()
    step(eager.ones(1), Loud(2))
    step(eager.ones(1), 2.5)
    step(eager.ones(1), Loud(3))
    assert LOG == []
    assert step.stats.recompiles[0].reason.startswith("expected 2, got a ")


def test_a_key_that_is_removed_and_comes_back_moves_to_the_end():
    """Also where keys were read in another order than the dictionary's."""

    def program(jit):
        @jit
        def step(table, key):
            total = table["b"] + table["a"]
            table.pop(key)
            table[key] = total
            return [*table]

        for key in "ab":
            table = {"a": 1, "b": 2}
            yield step(table, key), [*table]

    check(program)


def test_text_about_tables_that_change():
    """The text of a table is as the table is at that line, whatever the table's class."""

    def program(jit):
        counts, order = collections.defaultdict(int), collections.OrderedDict(n=0)
        row = collections.deque([0])

        @jit
        def step(x):
            counts["z"] += 1
            order["n"] += 2
            row[0] += 3
            said = repr(counts), str(order), f"{row}", type(type(x)).__name__
            counts["z"] += 1
            order["n"] += 2
            row[0] += 3
            return said, x

        for _ in range(3):
            yield step(eager.tensor([1.0])), dict(counts), list(order.items()), list(row)

    check(program)
