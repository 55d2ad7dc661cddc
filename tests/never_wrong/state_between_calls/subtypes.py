"""Subtypes of numbers, strings and containers, taken for their base."""

import collections
import datetime
import enum
import math
import re
import types

import numpy as np

import eager
from tests.never_wrong.harness import case
from tests.never_wrong.scene import nothing, rows, scene
from tests.never_wrong.scene_subjects import Bits, Color, Count, Flags, Mode, Name, Pair, Point


@case("subtypes")
def a_subclass_of_int():
    def step(x, n):
        return x * n, type(n).__name__, n + 1, repr(n), f"{n}", n.unit if type(n) is Count else ""

    x = eager.ones(2)
    return rows(step, (x, 2), (x, Count(2)), (x, True), (x, np.int64(2)), (x, Color.BLUE), (x, 2))


@case("subtypes")
def bool_for_int_in_an_attribute():
    class State:
        n = 1

    state = State()

    def step(x):
        return state.n + state.n, type(state.n).__name__, [10, 20][state.n]

    return scene(
        step,
        lambda: setattr(state, "n", True),
        lambda: setattr(state, "n", 1.0),
        lambda: setattr(state, "n", 1),
    )


@case("subtypes")
def a_float_that_is_an_int():
    def step(x, n):
        return x * n, n / 2, type(n).__name__, n // 2

    x = eager.tensor([1, 2])
    return rows(step, (x, 2), (x, 2.0), (x, np.float64(2)), (x, np.float32(2)), (x, np.int32(2)))


@case("subtypes")
def numpy_scalars_keep_their_type():
    scale = {"f": np.float32(0.1), "d": np.float64(0.1), "i": np.int8(100), "b": np.bool_(True)}

    def step(x):
        return (
            scale["f"] * 3,
            scale["d"] * 3,
            scale["i"] + np.int8(1),
            scale["b"] | False,
            x * scale["f"],
        )

    return scene(step, lambda: scale.update(f=np.float64(0.1), i=100))


@case("subtypes")
def a_numpy_float_is_returned():
    def step(x, lr):
        return (
            lr,
            lr * 2,
            type(lr).__name__,
            repr(lr),
            x * lr,
            lr.dtype if hasattr(lr, "dtype") else None,
        )

    x = eager.ones(2)
    return rows(step, (x, np.float64(0.5)), (x, np.float64(0.25)), (x, 0.5), (x, np.float32(0.5)))


@case("subtypes")
def a_subclass_of_str_as_key():
    table = {"train": 1, "TEST": 2}

    def step(x, name):
        return table.get(name, 0), name == "TRAIN", type(name).__name__, name.upper()

    x = eager.ones(1)
    return rows(
        step, (x, "train"), (x, Name("train")), (x, Mode.TRAIN), (x, "TRAIN"), (x, Name("TEST"))
    )


@case("subtypes")
def a_string_enumeration_is_formatted():
    def step(x, mode):
        return f"{mode}", str(mode), repr(mode), mode == "train", "%s" % mode, mode.upper()

    x = eager.ones(1)
    return rows(step, (x, Mode.TRAIN), (x, "train"), (x, Mode.TEST))


@case("subtypes")
def an_int_enumeration_is_formatted():
    def step(x, color):
        return (
            f"{color}",
            f"{color:03d}",
            str(color),
            repr(color),
            "%d" % color,
            f"{color!r}",
            x * color,
        )

    x = eager.ones(1)
    return rows(step, (x, Color.RED), (x, 1), (x, Color.BLUE), (x, Bits.A))


@case("subtypes")
def arithmetic_of_enumerations():
    def step(x, color):
        return color + 1, color | 2, type(color * 2).__name__, color == 1, color in (1, 5), -color

    x = eager.ones(1)
    return rows(step, (x, Color.RED), (x, Bits.A), (x, 1), (x, Color.BLUE))


@case("subtypes")
def flags_are_combined():
    state = {"flags": Flags.A}

    def step(x):
        both = state["flags"] | Flags.B
        return (
            both,
            Flags.A in both,
            both & Flags.B is Flags.B,
            ~Flags.A,
            bool(state["flags"] & Flags.A),
        )

    return scene(step, lambda: state.update(flags=Flags.B), lambda: state.update(flags=Flags(0)))


@case("subtypes")
def members_of_an_enumeration():
    def step(x, key):
        try:
            return Color(key), Color["RED"], list(Color), len(Color), Color.RED is Color(1)
        except ValueError as error:
            return str(error)

    x = eager.ones(1)
    return rows(step, (x, 1), (x, 2), (x, 3), (x, 1.0), (x, True))


@case("subtypes")
def an_attribute_of_an_enumeration_member():
    class Level(enum.Enum):
        LOW = 1

        @property
        def scale(self):
            return self.weight

    Level.LOW.weight = 2

    def step(x):
        return x * Level.LOW.scale

    return scene(step, lambda: setattr(Level.LOW, "weight", 3))


@case("subtypes")
def a_named_tuple_for_a_tuple():
    def step(x, p):
        return x * p[0], type(p).__name__, p + (1,), getattr(p, "_fields", None), p == (1, 5)

    x = eager.ones(1)
    return rows(step, (x, (1, 5)), (x, Point(1)), (x, Pair(1, 5)), (x, (1, 5)))


@case("subtypes")
def a_named_tuple_with_tensors():
    def step(x, p):
        q = p._replace(x=x * 2)
        return q, q.x is q[0], q._asdict(), type(q)._make([1, 2])

    x = eager.ones(1)
    return rows(step, (x, Point(x)), (x, Point(1, x)), (x, Point(x, None)))


@case("subtypes")
def a_class_for_a_named_tuple():
    def step(x, p):
        return p.total(), p.a, [*p]

    x = eager.ones(1)
    return rows(step, (x, Pair(1)), (x, Pair(2, x)), (x, Pair(True)))


@case("subtypes")
def a_subclass_of_float():
    class Celsius(float):
        def __mul__(self, other):
            return "hot"

        __rmul__ = __mul__

        def __bool__(self):
            return False

    def step(x, t):
        return t * 2, 2 * t, bool(t), t + 1

    x = eager.ones(1)
    return rows(step, (x, 2.0), (x, Celsius(2.0)), (x, 2.0))


@case("subtypes")
def an_int_with_attributes():
    class Tagged(int):
        pass

    n = Tagged(3)
    n.tag = "a"

    def step(x):
        return n.tag, x * n, n == 3, n

    return scene(step, lambda: setattr(n, "tag", "b"))


@case("subtypes")
def a_string_with_attributes():
    class Tagged(str):  # noqa: SLOT000
        tag = "class"

    name = Tagged("abc")

    def step(x):
        return name.tag, name.upper(), name[1:], type(name[1:]).__name__, name

    return scene(step, lambda: setattr(name, "tag", "own"))


@case("subtypes")
def an_int_that_hashes_otherwise():
    class Key(int):
        def __hash__(self):
            return 7

        def __eq__(self, other):
            return False

    table = {1: "one"}

    def step(x, key):
        return table.get(key), key in table, key in [1], key == 1

    x = eager.ones(1)
    return rows(step, (x, 1), (x, Key(1)), (x, True))


@case("subtypes")
def a_negative_zero_for_zero():
    state = {"v": 0.0}

    def step(x):
        return math.copysign(1.0, state["v"]), x * state["v"], state["v"], str(state["v"])

    return scene(step, lambda: state.update(v=-0.0), lambda: state.update(v=0))


@case("subtypes")
def a_negative_zero_in_a_tuple():
    def step(x, pair):
        return math.copysign(1.0, pair[1]), pair, x * pair[1]

    x = eager.ones(1)
    return rows(step, (x, (1, 0.0)), (x, (1, -0.0)), (x, (1, 0)), (x, (True, 0.0)))


@case("subtypes")
def a_complex_with_negative_zero():
    def step(x, z):
        return z.imag, z, str(z), z * 2

    x = eager.ones(1)
    return rows(step, (x, 1 + 0j), (x, complex(1, -0.0)), (x, complex(math.nan, 0)), (x, 1))


@case("subtypes")
def a_frozen_set_with_another_type_of_member():
    def step(x, members):
        return sorted(map(repr, members)), 1 in members, sum(members)

    x = eager.ones(1)
    return rows(
        step,
        (x, frozenset([1, 2])),
        (x, frozenset([1.0, 2])),
        (x, frozenset([True, 2])),
        (x, {1, 2}),
    )


@case("subtypes")
def a_range_that_equals_another():
    def step(x, r):
        return r.stop, len(r), list(r), repr(r)

    x = eager.ones(1)
    return rows(step, (x, range(0, 3, 2)), (x, range(0, 4, 2)), (x, range(0)), (x, range(5, 5)))


@case("subtypes")
def a_slice_that_equals_another():
    def step(x, s):
        return x[s], type(s.start).__name__, s.start

    x = eager.arange(4.0)
    return rows(
        step, (x, slice(1, 3)), (x, slice(True, 3)), (x, slice(1, None)), (x, slice(np.int64(1), 3))
    )


@case("subtypes")
def equal_keys_of_other_types():
    table = {1: "a"}

    def step(x):
        return list(table), [type(k).__name__ for k in table]

    def change(key):
        return lambda: (table.clear(), table.update({key: "a"}))

    return scene(step, change(True), change(1.0), change(Count(1)), change(Color.RED))


@case("subtypes")
def equal_patterns_and_bytes():
    def step(x, pattern, text):
        return pattern.flags, bool(pattern.match(text)), type(text).__name__

    x = eager.ones(1)
    return rows(
        step,
        (x, re.compile("a"), "A"),
        (x, re.compile("a", re.I), "A"),
        (x, re.compile(b"a"), b"a"),
        (x, re.compile("a"), "a"),
    )


@case("subtypes")
def bytes_and_bytearray():
    def step(x, data):
        if type(data) is bytearray:
            data.append(7)
        return data[0], len(data), type(data).__name__, data == b"ab"

    x = eager.ones(1)
    shared = bytearray(b"ab")
    return rows(
        step, (x, b"ab"), (x, shared), (x, shared), (x, memoryview(b"ab")), observe=lambda: shared
    )


@case("subtypes", one_graph=True)
def dates_and_spans():
    def step(x, day, span):
        later = day + span
        return x * later.day, later, later.isoformat(), span.total_seconds(), day < later, {day: 1}

    x, day = eager.ones(1), datetime.datetime(2024, 2, 28, 23)
    hour = datetime.timedelta(hours=1)
    zoned = day.replace(tzinfo=datetime.timezone.utc)
    return rows(
        step,
        (x, day, hour),
        (x, datetime.datetime(2024, 2, 28, 23), hour * 25),
        (x, day.replace(fold=1), hour),  # equal, and another one
        (x, zoned, hour),
        (x, datetime.datetime(2023, 2, 28), hour),
    )


class Plain:
    def __init__(self, scale):
        self.scale = scale

    def __repr__(self):
        return f"Plain({self.scale})"

    def __eq__(self, other):
        return self.scale == other.scale

    __hash__ = None


class Shown(types.SimpleNamespace):
    def __repr__(self):
        return f"Shown({self.scale})"


class Listed(list):
    pass


class Named(dict):
    pass


class Paired(tuple):  # noqa: SLOT001
    pass


class Queued(collections.deque):
    pass


def _holders(scale):
    plain = Plain(scale)
    return [
        types.SimpleNamespace(a=scale, b=[scale], c=types.SimpleNamespace(d=plain)),
        Listed([scale, [scale]]),
        Listed([plain]),
        Named(a=[scale]),
        Named(a=plain),
        Paired([scale, [plain]]),
        Queued([scale, [scale]]),
    ]


@case("subtypes")
def all_that_is_held_is_shown():
    def step(x, held):
        texts = repr(held), str(held), f"{held}", "%s" % (held,), ascii(held)
        return x, texts, repr([held]), f"{(held, 1)}", str({1: held}), str(ValueError(held))

    x = eager.tensor([1.0])
    return rows(step, *((x, held) for scale in (1, 2, 1) for held in _holders(scale)))


@case("subtypes")
def all_that_is_held_is_compared():
    def step(x, held, other):
        found = held == other, held in [other], [other].count(held), [other] != [held]
        spaced = types.SimpleNamespace(a=held) == types.SimpleNamespace(a=other)
        return (
            x,
            found,
            [held] in [[other]],
            (held, 1) in ((other, 1),),
            {1: held} == {1: other},
            spaced,
        )

    x = eager.tensor([1.0])
    pairs = [pair for scale in (1, 2, 1) for pair in zip(_holders(1), _holders(scale), strict=True)]
    return rows(step, *((x, *pair) for pair in pairs))


@case("subtypes")
def a_namespace_that_shows_itself_is_compared_by_what_it_holds():
    def step(x, scale):
        made = Shown(scale=scale)
        return x, made == Shown(scale=3), [made] == [Shown(scale=3)], repr([made]), f"{made}"

    x = eager.tensor([1.0])
    return rows(step, (x, 3), (x, 4))


@case("subtypes")
def a_member_of_an_enumeration_is_looked_up():
    """By a member, of this one or another, which hashes and compares itself; what is not found is
    asked of a method of the program; what it finds keeps what is stored on it."""
    log, state = [], {"found": True}

    class Bit(enum.Flag):
        ONE = 1
        TWO = 2

    class Own(enum.Enum):
        A = 1

        def __hash__(self):
            return 5

        def __eq__(self, other):
            return self is other

    class Asked(enum.Enum):
        A = Bit.ONE
        B = 2

        @classmethod
        def _missing_(cls, value):
            log.append(value)
            return cls.B if state["found"] else None

        def count(self):
            self.times = getattr(self, "times", 0) + 1
            return self.times

    def step(x):
        found = []
        for kind, value in ((Bit, Bit.ONE), (Own, Own.A), (Asked, Bit.ONE), (Asked, 7)):
            try:
                found.append(kind(value).name)
            except ValueError as error:
                found.append(type(error).__name__)
        both = Bit.ONE | Bit.TWO  # is made once
        return x * 2, found, both is Bit(3), Asked(2).count(), Asked["B"].count()

    change = lambda: state.update(found=False)  # noqa: E731
    return scene(step, nothing, change, observe=lambda: log)


@case("subtypes")
def an_enumeration_that_is_made_inside_knows_its_module():
    return scene(lambda x: (x * 2, enum.Enum("Made", "a b")["b"].__module__))
