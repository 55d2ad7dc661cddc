"""Native code that asks the user's objects: sorts, searches, texts, operators, conversions."""

import bisect
import collections
import dataclasses
import functools
import heapq
import math
import operator

import numpy as np

import eager
from jitcap import graph_break
from tests.never_wrong.harness import case, over
from tests.never_wrong.scene import nothing, scene
from tests.never_wrong.state_between_calls.dunder import loud


@case("native")
def a_list_of_user_objects_is_sorted_in_place():
    def use(x, a, b):
        values = [b, a, b, a, a, b]
        values.sort()
        first = [v is a for v in values]
        values.sort(reverse=True)
        return first, [v is a for v in values], sorted(values, key=lambda v: (v, 1))[0] is a

    return loud(use)


@case("native")
def a_sort_that_fails_leaves_a_list_half_sorted():
    log = []

    class Item:
        def __init__(self, n):
            self.n = n

        def __lt__(self, other):
            log.append((self.n, other.n))
            if len(log) % 5 == 0:
                raise ValueError("enough")
            return self.n < other.n

    items = [Item(n) for n in (5, 3, 4, 1, 2)]

    def step(x):
        try:
            items.sort()
        except ValueError as error:
            return str(error), [i.n for i in items]
        return [i.n for i in items]

    return scene(step, nothing, observe=lambda: (log, [i.n for i in items]))


@case("native")
def heaps_and_bisections():
    def use(x, a, b):
        heap = [b, a, b]
        heapq.heapify(heap)
        heapq.heappush(heap, a)
        least = heapq.heappop(heap)
        place = bisect.bisect_left([a, b], b)
        values = [a, b]
        bisect.insort(values, a)
        return least is a, [v is a for v in heap], place, [v is a for v in values]

    return loud(use)


@case("native")
def a_comparison_function_as_a_key():
    def use(x, a, b):
        key = functools.cmp_to_key(lambda p, q: p.n - q.n)
        return [v is a for v in sorted([b, a], key=key)], max([a, b], key=lambda v: -v.n) is a

    return loud(use)


@case("native")
def searches_in_containers():
    def use(x, a, b):
        nested = [(a, 1), (b, 2)]
        values = {"p": a, "q": b}.values()
        removed = [b, a, b]
        removed.remove(a)
        return (
            (a, 1) in nested, nested.index((b, 2)), b in values, b in iter([a, b]), len(removed),
            operator.countOf([a, b, a], a), operator.indexOf([a, b], b),
        )  # fmt: skip

    return loud(use)


@case("native")
def a_value_that_is_not_there_in_python_s_words():
    def use(x, a, b):
        told = []
        for call in (lambda: [b].index(a), lambda: [b].remove(a), lambda: (b,).index(a)):
            try:
                call()
            except ValueError as error:
                told.append(str(error))
        return told

    return loud(use)


@case("native")
def orders_of_containers():
    def use(x, a, b):
        return (1, a) < (1, b), [a] >= [b], max([(1, a), (1, b)])[1] is b, (a, b) != (a, a)

    return loud(use)


@case("native")
def dataclasses_in_containers():
    @dataclasses.dataclass(order=True)
    class Point:
        p: int
        q: object = None

    log = []

    class Part:
        def __eq__(self, other):
            log.append("eq")
            return True

        def __lt__(self, other):
            log.append("lt")
            return False

    points = [Point(1, Part()), Point(1, Part()), Point(0, Part())]

    def step(x):
        points[0].p += 1
        return (
            points[0] == points[1], points[1] in [points[0]], sorted(points)[0] is points[2],
            points[0] < points[1], [points[1]] == [points[0]], {"k": points[0]} == {"k": points[1]},
        )  # fmt: skip

    return scene(step, nothing, observe=lambda: (list(log), [p.p for p in points]))


@case("native")
def operators_that_give_up():
    class Base:
        def __init__(self, log):
            self.log = log

        def __add__(self, other):
            self.log.append("add")
            return NotImplemented

        def __lt__(self, other):
            self.log.append("lt")
            return NotImplemented

        def __eq__(self, other):
            self.log.append("eq")
            return NotImplemented

        def __isub__(self, other):
            self.log.append("isub")
            return NotImplemented

        def __sub__(self, other):
            self.log.append("sub")
            return 7

        def __neg__(self):
            return self.log.append("neg")

    class Derived(Base):
        def __radd__(self, other):
            self.log.append("radd")
            return NotImplemented

        def __gt__(self, other):
            self.log.append("gt")
            return NotImplemented

    log = []
    a, b = Base(log), Derived(log)

    def words(call):
        try:
            return call()
        except TypeError as error:
            return str(error)

    def step(x):
        c = a
        c -= 1
        calls = (
            lambda: a + b, lambda: b + a, lambda: a + a, lambda: 1 + b, lambda: a + "s",
            lambda: a < b, lambda: b > a, lambda: a < 1, lambda: a == b, lambda: a != b,
            lambda: [] + b, lambda: a * 2, lambda: "s" * a, lambda: ~a, lambda: -a, lambda: a @ x,
            lambda: divmod(a, 2), lambda: a**2, lambda: a >= b,
        )  # fmt: skip
        return c, [words(call) for call in calls]

    return scene(step, nothing, observe=lambda: list(log))


@case("native")
def numbers_of_the_user_s_in_the_library():
    class Number:
        def __init__(self, n, log):
            self.n, self.log = n, log

        def __float__(self):
            self.log.append("float")
            return self.n + 0.5

        def __index__(self):
            self.log.append("index")
            return self.n

    log = []
    number = Number(2, log)

    def step(x):
        number.n += 1
        made = int(number), float(number), complex(number), range(number), [0] * number
        return made, "%d %s" % (number, "abcdef"[number]), bytes(number), eager.zeros(number)

    return scene(step, nothing, observe=lambda: list(log))


@case("native")
def what_special_methods_return_is_checked():
    class Odd:
        def __init__(self, value):
            self.value = value

        def __len__(self):
            return self.value

        def __str__(self):
            return self.value

        def __format__(self, spec):
            return self.value

        def __hash__(self):
            return self.value

        def __index__(self):
            return self.value

        def __iter__(self):
            return self.value

    def words(call, odd):
        try:
            return call(odd)
        except (TypeError, ValueError, OverflowError) as error:
            return type(error).__name__, str(error)

    def step(x):
        told = []
        for value in (-1, "s", 1.5, 2**70, 3):
            odd = Odd(value)
            told += [
                words(call, odd)
                for call in (len, bool, str, format, hash, operator.index, iter, list, int)
            ]
        return told

    return scene(step, nothing)


@case("native")
def a_container_of_the_user_s_is_searched_and_listed():
    log = []

    class Bag:
        def __init__(self, *items):
            self.items = items

        def __len__(self):
            log.append("len")
            return len(self.items)

        def __getitem__(self, i):
            log.append(i)
            return self.items[i]

    bag = Bag(1, 2, 3)

    def step(x):
        bag.items += (len(log),)
        return 2 in bag, 9 in bag, list(bag), list(reversed(bag)), sum(bag), max(bag), [*bag][0]

    return scene(step, nothing, observe=lambda: list(log))


@case("native")
def subclasses_of_dict_and_list_with_methods_of_their_own():
    log = []

    class Table(dict):
        def __getitem__(self, key):
            log.append(key)
            return dict.__getitem__(self, key)

        def __contains__(self, key):
            log.append(("in", key))
            return True

    class Row(list):  # noqa: FURB189
        def __iter__(self):
            log.append("iter")
            return iter([7])

    table, row = Table(a=1), Row([1, 2])

    def step(x):
        table["b"] = table["a"] + 1
        row.append(3)
        return "c" in table, table.get("b"), [*row], len(row), sum(row), row[0], dict(table)

    return scene(step, nothing, observe=lambda: (list(log), dict.copy(table)))


@case("native")
def keys_that_are_frozen_dataclasses():
    @dataclasses.dataclass(frozen=True)
    class Key:
        p: int
        q: str = "q"

    table = {Key(1): 1, Key(2): 2}

    def step(x):
        table[Key(3)] = len(table)
        return table[Key(1)], Key(2) in table, {Key(1), Key(1, "q")} == {Key(1)}, table.get(Key(9))

    return scene(step, lambda: table.update({Key(1): 5}), observe=lambda: list(table.items()))


@case("native")
def a_callable_object_in_the_hands_of_native_code():
    class Rank:
        def __init__(self):
            self.calls = 0

        def __call__(self, value):
            self.calls += 1
            return -value

    rank = Rank()
    return scene(
        lambda x: (sorted([1, 3, 2], key=rank), max([1, 3], key=rank), list(map(rank, [4]))),
        nothing,
        observe=lambda: rank.calls,
    )


@case("native")
def texts_of_containers_of_user_objects():
    def use(x, a, b):
        first = f"{[a]} {(b,)!r} {{'k': a}}"
        return first, str({"k": a}), "{0!s:>5} {1:x}".format(a, b), "%s%r" % ([a], b), repr([[b]])

    return loud(use)


@case("native")
def a_user_object_beside_tensors():
    class Scale:
        def __init__(self):
            self.log = []

        def __rmul__(self, other):
            self.log.append("rmul")
            return other * 2

        def __mul__(self, other):
            self.log.append("mul")
            return other * 3

        def __eq__(self, other):
            self.log.append("eq")
            return True

        __hash__ = None

    scale = Scale()
    return scene(lambda x: (scale * x, scale == x), nothing, observe=lambda: list(scale.log))


@case("native")
def a_bound_method_of_an_object_made_inside():
    class Items(list):
        pass

    class Bad(Exception):
        pass

    kept = []

    def step(x, n):
        items, bad = Items(), Bad(n)
        append, note = items.append, bad.add_note
        graph_break()
        append(n)
        note("text")
        items.append(graph_break() or n)
        kept.append((append, items))
        return items, append.__self__ is items, bad.__notes__

    def observe():
        for append, _ in kept:
            append("late")
        return kept

    return over(step, [1, 2, 3], observe)


def answering():
    """A log, and classes of objects that write into it what native code asks them."""
    log = []

    class Answers:
        """An object that says what native code asks it."""

        def __init__(self, value):
            self.value = value

        def __float__(self):
            log.append("float")
            return float(self.value)

        def __index__(self):
            log.append("index")
            return self.value

        def __eq__(self, other):
            log.append("eq")
            return self.value == getattr(other, "value", other)

        def __hash__(self):
            log.append("hash")
            return hash(self.value)

        def __mul__(self, other):
            log.append("mul")
            return Answers(self.value * other.value)

        def __rmul__(self, other):
            log.append("rmul")
            return Answers(self.value * other)

    class Pair:
        """What is a pair by its iterator."""

        def __init__(self, *parts):
            self.parts = parts

        def __iter__(self):
            log.append("iter")
            return iter(self.parts)

    return log, Answers, Pair


def _from_an_iterator(*uses):
    """Native code runs through an iterator over objects from outside, and of the function's own."""
    log, Answers, _ = answering()
    held = [Answers(n) for n in (3, 1)]

    def step(x):
        out = []
        for use in uses:
            out.append(use(v for v in held))
            out.append(use(map(lambda n: Answers(n), (2, 5))))
            out.append(use(iter([Answers(4)])))
            out.append(use({"a": Answers(2)}.values()))
            log.append("---")
        return x * len(log), out

    return scene(step, nothing, lambda: setattr(held[0], "value", 7), observe=lambda: list(log))


@case("native")
def numbers_are_taken_from_an_iterator_over_objects():
    return _from_an_iterator(
        math.fsum, lambda given: math.prod(given).value, lambda given: np.fromiter(given, float)
    )


@case("native")
def bytes_are_taken_from_an_iterator_over_objects():
    return _from_an_iterator(bytes, bytearray)


@case("native")
def an_iterator_over_objects_is_searched():
    return _from_an_iterator(lambda given: operator.countOf(given, 1))


@case("native")
def pairs_are_taken_from_an_iterator_over_objects():
    log, _, Pair = answering()
    held = [Pair("a", 1), Pair("b", 2)]

    def step(x):
        made = collections.defaultdict(int, (pair for pair in held))
        more = collections.defaultdict(list, map(lambda n: Pair(n, x), "cd"))
        return made, more, made["z"], more["z"], collections.defaultdict(int, held, k=1)

    return scene(step, nothing, observe=lambda: list(log))


@case("native")
def a_dictionary_takes_pairs_from_a_list_of_objects():
    log, _, Pair = answering()
    held = [Pair("a", 1), Pair("b", 2)]

    def step(x):
        made = {"a": 0}
        made.update(held)
        return x * len(made), made

    return scene(step, nothing, observe=lambda: list(log))


@case("native")
def a_set_takes_the_members_of_a_list_from_outside():
    log, Answers, _ = answering()
    held = [Answers(n) for n in (3, 1)]

    def step(x):
        found = {1}
        found.update(held)
        log.append("---")
        found.update({"a": Answers(6)}.values())
        return x * len(found), len({2}.union(held)), {5}.isdisjoint(held)

    return scene(step, nothing, observe=lambda: list(log))
