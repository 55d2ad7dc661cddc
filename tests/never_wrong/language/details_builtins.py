"""Builtins at their edges: what they refuse, what they warn of, what they ask an iterator."""

import collections
import functools
import itertools
import json
import math
import operator
from dataclasses import asdict, dataclass

from eager import nn
from tests.never_wrong.classes.own_builtins import each
from tests.never_wrong.harness import Program, after, case, over, vector


class Plain:
    pass


class Rows:
    """An old sequence: items and a length."""

    def __getitem__(self, index):
        return range(4)[index]

    def __len__(self):
        return 4


class Hinting:
    def __init__(self, hint):
        self.hint = hint

    def __length_hint__(self):
        return self.hint


class Own(int):
    pass


class OwnFloat(float):
    pass


class OwnComplex(complex):
    pass


class Answering:
    """Numbers of classes of its own, of which Python warns."""

    def __index__(self):
        return Own(3)

    def __int__(self):
        return True

    def __float__(self):
        return OwnFloat(2.0)

    def __complex__(self):
        return OwnComplex(1)


@case("builtins")
def what_cannot_be_summed():
    uses = (
        lambda: sum([], ""), lambda: sum([], b""), lambda: sum([], bytearray()),
        lambda: sum([b"a"], bytearray(b"b")), lambda: sum([[1]], []),
    )  # fmt: skip
    return over(lambda x, k: (x * k, each(uses, [])), [1.0, 2.0])


@case("builtins")
def names_of_attributes_that_are_no_text():
    thing = Plain()
    uses = (
        lambda: hasattr(math, 1), lambda: hasattr(thing, b"x"), lambda: getattr(math, 1),
        lambda: getattr([], None, 3), lambda: setattr(thing, 1, 2), lambda: delattr(thing, 2.0),
        lambda: object.__getattribute__(thing, 1), lambda: object.__setattr__(thing, 1, 2),
        lambda: object.__delattr__(thing, 1), lambda: thing.__getattribute__(None),
    )  # fmt: skip
    return over(lambda x, k: (x * k, each(uses, [])), [1.0, 2.0], lambda: thing)


@case("builtins")
def truth_of_not_implemented():
    def step(x, k):
        kept = [v for v in (NotImplemented, 0, k) if v]
        return x if NotImplemented else x * 2, not NotImplemented, kept

    return over(step, [1.0, 2.0])


@case("builtins")
def special_methods_whose_numbers_python_warns_of():
    asked = Answering()
    uses = (
        lambda: int(asked), lambda: float(asked), lambda: complex(asked), lambda: hex(asked),
        lambda: operator.index(asked), lambda: [1, 2, 3, 4][asked], lambda: "ab" * asked,
        lambda: list(range(asked)), lambda: math.sqrt(asked), lambda: "%d" % asked,
        lambda: [1, 2, 3, 4][:asked], lambda: chr(asked), lambda: round(2.5, asked),
    )  # fmt: skip
    return over(lambda x, k: (x * k, each(uses, [])), [1.0, 2.0])


@case("builtins")
def iterators_asked_how_much_is_left():
    hint = operator.length_hint
    given = [1, 2, 3]

    def begun(iterator):
        next(iterator)
        return hint(iterator)

    uses = (
        lambda: hint(iter(given)), lambda: hint(reversed(given)), lambda: hint(iter("abc")),
        lambda: hint(iter({1: 2})), lambda: hint(iter({1, 2})), lambda: begun(iter(range(5))),
        lambda: begun(iter(given)), lambda: hint(itertools.repeat(0, 7)), lambda: hint(given),
        lambda: hint(itertools.repeat(0)), lambda: hint(map(str, given), 9), lambda: hint(3, 4),
        lambda: hint(filter(None, given)), lambda: hint((v for v in given), 2),
        lambda: hint(3, "a"),
        lambda: hint(iter(Rows())), lambda: hint(reversed(Rows())), lambda: hint(Rows(), 9),
        lambda: hint(Hinting(5)), lambda: hint(Hinting(NotImplemented), 6),
        lambda: hint(Hinting(-1)), lambda: hint(Hinting("a")),
    )  # fmt: skip
    calls = [(vector(),), after(lambda: given.append(4), vector())]
    return Program(lambda x: (x * 2, each(uses, [])), calls)


@case("builtins")
def attributes_of_descriptors_change():
    Pair = collections.namedtuple("Pair", "first second")

    class Held:
        @property
        def value(self):
            "before"

        @functools.cached_property
        def kept(self):
            "before"

    def step(x, text):
        old = Pair.first.__doc__, Held.value.__doc__, Held.kept.__doc__
        Pair.first.__doc__ = Held.value.__doc__ = Held.kept.__doc__ = text
        return x * 2, old, Pair.first.__doc__, Pair.second.__doc__

    def observe():
        return Pair.first.__doc__, Held.value.__doc__, Held.kept.__doc__

    return Program(step, [(vector(), "a"), (vector(), "b"), (vector(), "a")], observe)


@case("builtins")
def classes_of_an_extension():
    def step(x, given):
        text = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode({"b": given, "a": 1})
        return x * 2, text, json.JSONDecoder(parse_float=str).decode(text)

    return Program(step, [(vector(), given) for given in ([1, 2.5, None], "text", {"c": (True,)})])


class Unlimited:
    def __getitem__(self, index):
        return index


class NoIteration(Unlimited):
    __iter__ = None


class NoContents:
    __contains__ = None

    def __iter__(self):
        return iter([1])


class NoIterator:
    def __iter__(self):
        return 3


class NoTruth:
    __bool__ = None


class NoLength:
    __len__ = None


class NoWayBack(Rows):
    __reversed__ = None


@case("builtins")
def special_methods_that_a_class_hides():
    uses = (
        lambda v: iter(v), lambda v: [*v], lambda v: [u for u in v], lambda v: 1 in v,
        lambda v: 1 not in v, lambda v: bool(v), lambda v: not v, lambda v: 1 if v else 2,
        lambda v: len(v), lambda v: v[1], lambda v: list(reversed(v)),
    )  # fmt: skip
    classes = NoIteration, NoContents, NoIterator, NoTruth, NoLength, NoWayBack, Plain

    def step(x, cls):
        return x * 2, [str(found).split(" object at")[0] for found in each(uses, [], cls())]

    return Program(step, [(vector(), cls) for cls in classes])


@case("sets", one_graph=True)
def classes_are_in_sets():
    """A class is told apart by identity; dataclasses.asdict asks such a set from 3.12 on."""

    @dataclass
    class Settings:
        rate: float
        names: list

    kinds, plain = {nn.Linear, nn.ReLU}, frozenset({int, str, Settings})
    layers = [nn.Linear(2, 2), nn.ReLU(), nn.Tanh()]

    def step(x, n):
        for layer in layers:
            x = x + n if type(layer) in kinds else x * 2
        kinds.add(nn.Tanh) if n == 3 else kinds.discard(nn.Tanh)
        found = type(n) in plain, {int} <= plain, kinds == {nn.Linear, nn.ReLU}
        return x, found, asdict(Settings(0.5, [n])), sorted(c.__name__ for c in plain)

    return Program(
        step,
        [
            (vector(), 1),
            after(lambda: kinds.discard(nn.ReLU), vector(), 2),
            (vector(), 3),
            (vector(), 3),
            after(lambda: kinds.update({nn.ReLU}), vector(), 4),
        ],
        lambda: sorted(c.__name__ for c in kinds),
    )
