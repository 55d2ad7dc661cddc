"""What builtins, containers, attributes and text do in detail: who is asked when, what is written
before it is read, what is the same object, which keywords there are."""

import collections
import copy
import io
import itertools
import json
import logging
import operator
from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.never_wrong.harness import Program, after, case, over, vector


class Thing:
    def __init__(self, **fields):
        self.__dict__.update(fields)


# ---- what is written before it is read


@case("containers", one_graph=True)
def an_entry_is_set_and_deleted():
    def step(table, x):
        table["b"] = 5
        del table["b"]
        return x * 2

    return Program(step, [({"a": 1, "b": 2}, vector()), ({"a": 1}, vector()), ({"b": 1}, vector())])


@case("containers", one_graph=True)
def an_entry_is_set_and_popped():
    def step(table, x):
        table["b"] = 5
        names = list(table) if "a" in table else []
        return x * table.pop("b"), names

    tables = [{"a": 1, "b": 2}, {"b": 1, "c": 1}, {"c": 3}, collections.OrderedDict(b=1, a=2)]
    return Program(step, [(table, vector()) for table in tables])


@case("containers", one_graph=True)
def an_entry_is_set_deleted_and_set():
    def step(table, x):
        table["b"] = 5
        del table["b"]
        table["b"] = x * 2
        return list(table)

    return Program(step, [(dict(a=1, b=2, c=3), vector()), (dict(a=1, c=3), vector())])


@case("containers")
def an_attribute_is_set_and_deleted():
    def step(thing, x):
        thing.kept = x * 3
        y = thing.kept + 1
        del thing.kept
        return y, vars(thing)

    return Program(step, [(Thing(a=1, kept=2), vector()), (Thing(a=1), vector())])


# ---- who is the same object


def twice_the_same(step):
    one = Thing()
    return Program(step, [(Thing(), Thing(), vector()), (one, one, vector())])


@case("aliasing", compiles=2)
def ids_are_compared():
    def step(a, b, x):
        return x * 2 if id(a) == id(b) else x * len({hash(a), hash(b)})

    return twice_the_same(step)


@case("aliasing", compiles=2)
def ids_of_lists_are_compared():
    def step(a, b, x):
        return x * 2 if id(a) == id(b) else x

    one = [1]
    return Program(step, [([1], [1], vector()), (one, one, vector())])


@case("aliasing", compiles=2)
def things_become_keys():
    def step(a, b, x):
        tables = [dict([(a, 1), (b, 2)]), dict.fromkeys([a, b]), collections.Counter((a, b))]
        return x, [len(t) for t in tables], len(collections.OrderedDict([(a, 1), (b, 2)]))

    return twice_the_same(step)


@case("aliasing", compiles=2)
def tensors_become_keys():
    def step(p, q, x):
        return x * len(dict([(p, 1), (q, 2)])), len(dict.fromkeys([p, q]))

    one = vector()
    return Program(step, [(vector(), vector(), vector()), (one, one, vector())])


@case("aliasing", compiles=2)
def keys_from_outside_are_compared():
    def step(a, b, x):
        return x * len(a.keys() & b.keys()), a.keys() == b.keys()

    one, other = Thing(), Thing()
    return Program(step, [({one: 1}, {other: 1}, vector()), ({one: 1}, {one: 1}, vector())])


@case("aliasing", compiles=2)
def things_are_found_in_lists():
    def step(a, b, x):
        found = [a, b].count(a), [a, b].index(b), operator.countOf([a, b], a)
        return x, found, operator.indexOf((a, b), b)

    return twice_the_same(step)


@dataclass
class Holder:
    value: Any


@case("aliasing", compiles=2)
def containers_of_things_are_compared():
    def step(a, b, x):
        return x, (a, b) == (b, a), [a] == [b], {1: a} == {1: b}, (1, a) in [(1, b)]

    return twice_the_same(step)


@case("aliasing", compiles=2)
def holders_of_things_are_compared():
    def step(a, b, x):
        return x, Holder(a) == Holder(b)

    return twice_the_same(step)


@case("aliasing", compiles=2)
def neighbours_are_grouped():
    def step(a, b, x):
        return x, len(list(itertools.groupby([a, b])))

    return twice_the_same(step)


# ---- one value after the other


@case("evaluation order", one_graph=True)
def a_sum_of_what_is_written_in_place():
    def step(x, n):
        return sum(x.mul_(n) for _ in range(3)), sum((x for _ in range(2)), x * n)

    return over(step, [2, 3])


@case("evaluation order", one_graph=True)
def a_sum_of_a_list_that_grows():
    def step(x, n):
        grown = []

        def lists():
            for i in range(n):
                grown.append(i)
                yield grown

        return x, sum(lists(), [])

    return over(step, [3, 2])


@case("evaluation order", one_graph=True)
def the_largest_of_a_generator():
    def step(x, n):
        log = []

        def values():
            for i in range(n):
                log.append(i)
                yield i

        def key(value):
            log.append(("key", value))
            return -value

        return x, max(values(), key=key), min(values(), key=key, default=3), log

    return over(step, [3, 2])


@case("evaluation order")
def too_many_values_to_unpack():
    def step(x, n):
        log = []

        def values():
            for i in range(n):
                log.append(i)
                yield i

        try:
            a, b = values()
        except ValueError as error:
            return x, str(error), log
        return x, a, b, log

    return over(step, [5, 2, 1])


@case("numbers", one_graph=True)
def floats_are_summed_as_python_does():
    def step(x, a, b):
        items = [v.item() for v in x * 0.1]
        numbers = sum([a, b, -a]), sum([1, 2, a]), sum([a, True, b], 0.5), sum(items), sum([], a)
        return x * sum([a, b, -a]) + sum([items[0], a, items[1], -a]), numbers

    return Program(step, [(vector(), 1e16, 1.0), (vector(), 0.1, 0.7), (vector(), 1e308, 1e308)])


@case("containers")
def sums_of_what_is_no_number():
    def step(x, start):
        try:
            return x, sum([[1], [2]], []), sum([x, x]), sum(["a"], start)
        except TypeError as error:
            return x, str(error)

    return over(step, ["", b"", 0])


class Counted:
    steps = 0

    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return Counted(self.value + other.value + Counted.steps)

    def __eq__(self, other):
        return self.value == other.value + Counted.steps

    def __bool__(self):
        return self.value > Counted.steps


@case("protocols")
def itertools_ask_the_programs_methods():
    def step(x):
        things = [Counted(1), Counted(1), Counted(2)]
        sums = [c.value for c in itertools.accumulate(things)], sum(things, Counted(0)).value
        groups = [(k.value, len(list(group))) for k, group in itertools.groupby(things)]
        return x, sums, groups, list(itertools.compress("abc", things))

    def close():
        Counted.steps = 0

    def again():
        Counted.steps = 1

    return Program(step, [(vector(),), after(again, vector())], close=close)


@case("iterators", one_graph=True)
def itertools_of_numbers_and_tensors():
    def step(x, n):
        groups = [(k, list(group)) for k, group in itertools.groupby([1, 1, n, 3, 3])]
        late = [list(group) for _, group in list(itertools.groupby([1, 1, n]))]
        keyed = [(k, list(g)) for k, g in itertools.groupby("aAbC", key=str.lower)]
        products = list(itertools.accumulate([1, n, 3], lambda a, b: a * b, initial=2))
        none = list(itertools.accumulate([])), list(itertools.groupby([]))
        sums = list(itertools.accumulate([x, x * n])), list(itertools.compress([x, x * 2], [0, n]))
        return groups, late, keyed, products, none, sums

    return over(step, [1, 2])


# ---- keywords, and what special methods must answer


@case("builtins", one_graph=True)
def builtins_have_keywords():
    def step(x, n):
        made = dict(s=n, self=1), str(object=n), round(number=n / 3, ndigits=2), round(2.5, None)
        return x * dict(s=2)["s"], made, json.dumps(obj=[1, n]), copy.copy(x=[n])

    return over(step, [1, 4])


class Rough:
    def __float__(self):
        return 3

    def __int__(self):
        return 3.5

    def __complex__(self):
        return 2


@case("protocols")
def numbers_of_a_class_that_answers_wrongly():
    def step(x, kind):
        try:
            return x * kind(Rough())
        except TypeError as error:
            return x, str(error)

    return over(step, [float, int, complex])


class Copied(list):
    of = 1

    def __copy__(self):
        return Copied([Copied.of, *self])


@case("copies")
def a_list_copies_itself():
    def step(values, x):
        return x * copy.copy(values)[0], copy.copy(values)

    def again():
        Copied.of = 5

    def close():
        Copied.of = 1

    return Program(
        step, [(Copied([2]), vector()), after(again, Copied([2]), vector())], close=close
    )


# ---- text is about what was there when it was made


class Pair(NamedTuple):
    x: Any
    y: Any


class Entries(dict):
    pass


class Values(list):
    pass


@case("text", one_graph=True)
def text_is_made_before_a_change():
    def step(x, n):
        loss = x.sum().item()
        table, parts, pair = {"a": loss}, [f"{loss}"], Pair(x + 0, n)
        entries, values = Entries(a=loss), Values([loss])
        texts = [
            "{}".format(x),
            "%(a)s %(a).1f" % table,
            ",".join(parts),
            str(pair),
            str(entries),
            repr(values),
            "%s %s" % (n, table),
        ]
        x.add_(1)
        pair.x.add_(1)
        table["a"] = entries["b"] = n
        parts.append("x")
        values.append(n)
        return texts

    return over(step, [1, 2])


@case("text")
def records_are_logged_before_a_change():
    out = []
    logger = logging.getLogger("never_wrong.details")
    logger.setLevel(logging.INFO)

    class Collect(logging.Handler):
        def emit(self, record):
            out.append(record.getMessage())

    class Meter:
        def __init__(self):
            self.n = 0

        def __repr__(self):
            return f"meter {self.n}"

    collect = Collect()
    logger.addHandler(collect)
    meter, table, values = Meter(), {"a": 1, "b": 2}, Values([1])

    def step(x, n):
        meter.n = n
        logger.info("%s", meter)
        meter.n += 1
        logger.info("%s %s", table, values)
        table["c"] = n
        values.append(n)
        logger.info("%s", collections.OrderedDict(table))
        return x * 2

    return Program(
        step,
        [(vector(), 1), (vector(), 2)],
        lambda: (list(out), meter, table),
        lambda: logger.removeHandler(collect),
    )


@case("text")
def the_length_of_what_is_written():
    def step(out, x, n):
        size = out.write(f"{n}")
        later = out.write(f"{x.sum().item()}")
        return x * 2 if isinstance(size, int) and type(later) is int else x

    return Program(step, [(io.StringIO(), vector(), 1), (io.StringIO(), vector(), 20)])
