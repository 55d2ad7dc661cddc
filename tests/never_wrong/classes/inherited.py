"""What classes inherit from Python's own: object's refusal of arguments, how a dictionary or a date
compares, the order of a set, sentinels that a library compares by identity."""

import collections
import copy
import dataclasses
import datetime as dt
import enum
from typing import ClassVar

from tests.never_wrong.harness import Program, case, over, vector


def refused(call, *args):
    try:
        return call(*args)
    except TypeError as error:
        return str(error)


class Mixin:
    def __init__(self, size):
        super().__init__(size)  # of which the next class may be `object`
        self.size = size


class Base:
    def __init__(self, size):
        self.base = size


class Both(Mixin, Base):
    pass


class Registered:
    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)


@case("objects")
def object_refuses_arguments():
    def step(x, cls):
        made = refused(cls, 3)
        return x * (2 if isinstance(made, str) else made.base), made

    return over(step, [Both, Mixin, Both, Mixin])


@case("objects")
def object_refuses_arguments_when_asked_by_name():
    def step(x, n):
        class Plain:
            pass

        class Filled:
            def __init__(self, n):
                self.n = n

        class Made:
            def __new__(cls, n):
                return object.__new__(cls)

        calls = [(object.__new__,), (object.__new__, Plain, n), (object.__init__, Plain(), n)]
        calls += [(object.__new__, Filled, n), (object.__init__, Filled(n), n)]
        calls += [(object.__new__, Made, n), (object.__init__, Made(n), n)]
        found = [refused(*call) for call in calls]
        return x * n, [f if isinstance(f, str) else type(f).__name__ for f in found]

    return over(step, [1, 2, 3])


@case("objects")
def a_subclass_is_made_with_an_option_that_none_takes():
    def step(x, n):
        return x * n, refused(lambda: type("Sub", (Registered,), {}, option=n) and "made")

    return over(step, [1, 2])


# ---- comparisons


class Table(dict):
    def __eq__(self, other):
        return NotImplemented if type(other) is dict else "of the table"

    __hash__ = None


class Row(list):
    def __lt__(self, other):
        return NotImplemented

    def __eq__(self, other):
        return NotImplemented


@case("comparison")
def a_dictionary_answers_for_a_class_that_does_not():
    def step(x, other):
        count = collections.Counter("aab")
        found = [count == other, count != other, other == count, other != count]
        found += [Table(a=2, b=1) == other, other == Table(a=2, b=1), Table() == Table()]
        return x * 2, found

    tables = [{"a": 2, "b": 1}, {"a": 2}, collections.Counter(a=2, b=1), collections.OrderedDict()]
    return over(step, tables)


@case("comparison")
def a_list_answers_for_a_class_that_does_not():
    def step(x, other):
        row = Row([1, 2])
        return x, row == other, other == row, row != other, row == row, other > row

    return over(step, [[1, 2], [3], [1, 2]])


class Day(dt.date, enum.Enum):
    first = 2020, 1, 1
    second = 2021, 2, 2


@case("comparison")
def members_that_are_dates():
    def step(x, day):
        found = [day == Day.first, Day.second < day, day < Day.second, Day(day) is Day.first]
        return x * day.year, found, str(day), format(day), day == dt.date(2020, 1, 1)

    return over(step, [Day.first, Day.second, Day.first])


# ---- what is the same object


@case("identity")
def what_native_code_passes_on_is_the_same_dictionary():
    def step(x, given):
        chain = collections.ChainMap({"a": 1}, given)
        child = chain.new_child({"b": x})
        same = [child.maps[-1] is given, child.parents.maps[0] is chain.maps[0]]
        child.maps[-1]["seen"] = x * 2
        return child["b"], same, [a is b for a, b in zip([*chain.maps], chain.maps, strict=True)]

    return over(step, [{}, {"k": 1}, {}])


@case("identity")
def functions_of_a_property():
    def step(x, n):
        def get(self):
            return n

        class Here:
            size = property(get)

        held = Here.__dict__["size"]
        return x * Here().size, held.fget is get, held.fset, held.fget(None)

    return over(step, [1, 2, 3])


@case("identity")
def text_of_a_function():
    def step(x, n):
        def inner():
            return n

        texts = [f"{inner!r}", "%s" % inner, "{}".format(inner), repr([inner]), str({n: inner})]  # noqa: UP031, UP032
        return x * n, [text.partition(" at 0x")[0] for text in texts]

    return over(step, [1, 2])


@case("dataclasses")
def variables_of_the_class_are_no_fields():
    def step(x, n):
        @dataclasses.dataclass
        class Options:
            size: int
            rate: int = 10
            shared: ClassVar[int] = 1000

        return x * Options(n).rate, repr(Options(5))

    return over(step, [1, 2, 3])


# ---- the order of a set


@case("containers")
def sets_that_grew():
    # As strings, whose order differs from process to process, and as numbers, whose does not.
    words, numbers = ["simsalabim", "abracadabra", "x"], [34, 145, 195, 16, 65, 30, 126]
    grown: list[set] = [set(), *map(set, words)]
    for number in numbers:
        grown[0].add(number)

    def step(x, members):
        found = [*members]
        members.add("new")
        return x * len(members), found, members - {"a"}

    return Program(step, [(vector(), each) for each in grown] * 2, lambda: [[*s] for s in grown])


# ---- what is looked for in the class


class Proxy:
    def __getattr__(self, name):
        LOG.append(name)
        raise AttributeError(name)


LOG: list[str] = []


@case("protocols")
def copies_ask_the_class():
    def step(x, n):
        a, b = copy.copy(Proxy()), copy.deepcopy([Proxy()])[0]
        return x * n, vars(a), vars(b)

    return Program(step, [(vector(), 1), (vector(), 2)], lambda: [*LOG], LOG.clear)


# ---- exceptions


@case("exceptions")
def what_is_thrown_into_a_generator_has_a_context():
    def step(x, n):
        found = []

        def inner():
            try:
                raise KeyError(n)
            except KeyError:
                try:
                    yield n
                except ValueError as error:
                    found.append((error.args, type(error.__context__)))
                yield n + 1

        def outer():
            try:
                raise IndexError(n)
            except IndexError:
                try:
                    yield from [n, n]
                except ValueError as error:
                    found.append((error.args, type(error.__context__)))
                    yield from inner()

        for make in (inner, outer):
            made = make()
            next(made)
            found.append(made.throw(ValueError("thrown")))
        return x * n, found

    return over(step, [1, 2])
