"""Subtypes taken for their base; numbers that have no literal; containers of the standard library."""

import array
import collections
import collections.abc
import copy
import dataclasses
import datetime
import enum
import fractions
import math
import pathlib
import re
import types
import typing
import uuid

import numpy as np

import eager

from .harness import Call, Program, case
from .scene import nothing, rows, scene

X = (1.0, 2.0, 3.0)


class Count(int):
    unit = "m"

    def __repr__(self):
        return f"Count({int(self)})"

    def __add__(self, other):
        return Count(int(self) + int(other) + 100)


class Name(str):
    def __eq__(self, other):
        return str(self).lower() == str(other).lower()

    def __hash__(self):
        return hash(str(self).lower())


class Color(enum.IntEnum):
    RED = 1
    BLUE = 2


class Mode(enum.StrEnum):
    TRAIN = "train"
    TEST = "test"


class Flags(enum.Flag):
    A = 1
    B = 2


class Bits(enum.IntFlag):
    A = 1
    B = 2


Point = collections.namedtuple("Point", "x y", defaults=[5])


class Pair(typing.NamedTuple):
    a: int
    b: object = None

    def total(self):
        return self.a * 10


class Missing(dict):
    def __missing__(self, key):
        return f"missing {key}"


# ---- subtypes of numbers and strings


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
        step, lambda: setattr(state, "n", True), lambda: setattr(state, "n", 1.0),
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
        return scale["f"] * 3, scale["d"] * 3, scale["i"] + np.int8(1), scale["b"] | False, x * scale["f"]

    return scene(step, lambda: scale.update(f=np.float64(0.1), i=100))


@case("subtypes")
def a_numpy_float_is_returned():
    def step(x, lr):
        return lr, lr * 2, type(lr).__name__, repr(lr), x * lr, lr.dtype if hasattr(lr, "dtype") else None

    x = eager.ones(2)
    return rows(step, (x, np.float64(0.5)), (x, np.float64(0.25)), (x, 0.5), (x, np.float32(0.5)))


@case("subtypes")
def a_subclass_of_str_as_key():
    table = {"train": 1, "TEST": 2}

    def step(x, name):
        return table.get(name, 0), name == "TRAIN", type(name).__name__, name.upper()

    x = eager.ones(1)
    return rows(step, (x, "train"), (x, Name("train")), (x, Mode.TRAIN), (x, "TRAIN"), (x, Name("TEST")))


@case("subtypes")
def a_string_enumeration_is_formatted():
    def step(x, mode):
        return f"{mode}", str(mode), repr(mode), mode == "train", "%s" % mode, mode.upper()

    x = eager.ones(1)
    return rows(step, (x, Mode.TRAIN), (x, "train"), (x, Mode.TEST))


@case("subtypes")
def an_int_enumeration_is_formatted():
    def step(x, color):
        return f"{color}", f"{color:03d}", str(color), repr(color), "%d" % color, f"{color!r}", x * color

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
        return both, Flags.A in both, both & Flags.B is Flags.B, ~Flags.A, bool(state["flags"] & Flags.A)

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
    class Tagged(str):
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
        step, (x, frozenset([1, 2])), (x, frozenset([1.0, 2])), (x, frozenset([True, 2])), (x, {1, 2})
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
    return rows(step, (x, slice(1, 3)), (x, slice(True, 3)), (x, slice(1, None)), (x, slice(np.int64(1), 3)))


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
    return rows(step, (x, b"ab"), (x, shared), (x, shared), (x, memoryview(b"ab")), observe=lambda: shared)


# ---- numbers without a literal


@case("literals")
def infinite_keys_and_defaults():
    state = {math.inf: 1, -math.inf: 2}

    def step(x, top=math.inf):
        state[math.inf] += 1
        state[-math.inf] = top
        return x * state[math.inf], min(top, 3)

    return scene(step, nothing, observe=lambda: dict(state))


@case("literals")
def nan_in_a_container():
    nan = math.nan
    items = [nan, 1.0]

    def step(x):
        return nan in items, items.index(nan), items == [nan, 1.0], items.count(nan), nan == nan

    return scene(step, lambda: items.__setitem__(0, float("nan")))


@case("literals")
def nan_is_stored_and_returned():
    state = {"best": math.nan}

    def step(x):
        old = state["best"]
        state["best"] = math.nan if old != old else 1.0
        return old, [math.inf, -math.inf, math.nan]

    return scene(step, lambda: state.update(best=2.0), nothing, observe=lambda: dict(state))


@case("literals")
def a_nan_argument_finds_its_version_again():
    log = []

    def step(x, v):
        log.append(v)
        return x * v, v != v

    x = eager.ones(1)
    return rows(step, (x, math.nan), (x, math.nan), (x, 1.0), (x, math.inf), observe=lambda: list(log))


@case("literals")
def infinity_decides():
    state = {"best": math.inf, "step": 0}

    def step(x):
        loss = 3.0 - state["step"]
        state["step"] += 1
        if loss < state["best"]:
            state["best"] = loss
        return state["best"], x * state["best"]

    return scene(step, nothing, lambda: state.update(best=-math.inf), nothing, observe=lambda: dict(state))


@case("literals")
def huge_ints_are_stored():
    state = {"n": 10**40, 10**30: "key"}

    def step(x):
        state["n"] = state["n"] * 3 + 1
        return state[10**30], state["n"] % 7, 10**25 in state

    return scene(step, nothing, nothing, observe=lambda: dict(state))


@case("literals")
def complex_numbers_as_keys_and_effects():
    state = {1j: 2}

    def step(x):
        state[complex(0, math.inf)] = complex(math.nan, -0.0)
        state[1j] *= 1j
        return state[1j], 1j.imag

    return scene(step, nothing, observe=lambda: [repr(v) for v in state.items()])


@case("literals")
def numpy_scalars_as_keys_and_effects():
    state = {np.int64(3): "a", "seen": []}

    def step(x):
        state["seen"].append(np.float32(0.1))
        state[np.int64(4)] = np.float64(math.inf)
        return state[3], state[np.int64(3)], 4 in state

    return scene(step, nothing, observe=lambda: dict(state))


@case("literals")
def a_dtype_and_a_device_as_keys():
    table = {eager.float32: 1, "cpu": 2, eager.device("cpu"): 3}

    def step(x):
        table["last"] = x.dtype
        table[x.device] = table.get(x.dtype, 0)
        return table[x.dtype], table[eager.device("cpu")]

    return scene(step, nothing, observe=lambda: [str(v) for v in table.items()])


@case("literals")
def fractions_and_dates():
    state = {"f": fractions.Fraction(1, 3), "d": datetime.date(2020, 1, 31)}

    def step(x):
        state["f"] += fractions.Fraction(1, 6)
        state["d"] += datetime.timedelta(days=1)
        return x * float(state["f"]), state["d"].isoformat(), state["f"].numerator

    return scene(
        step, nothing, lambda: state.update(f=fractions.Fraction(1)),
        observe=lambda: [repr(v) for v in state.values()],
    )


@case("literals")
def paths_and_uuids():
    state = {"p": pathlib.PurePosixPath("/a/b.txt"), "u": uuid.UUID(int=5)}

    def step(x):
        return state["p"].stem, (state["p"].parent / "c").as_posix(), state["u"].int, str(state["u"])

    return scene(step, lambda: state.update(p=pathlib.PurePosixPath("/x/y")), lambda: state.update(u=uuid.UUID(int=9)))


@case("literals")
def text_with_every_character():
    state = {"t": "'\"\\\n\t\0{}\ud800é"}

    def step(x):
        state["t"] += "{x}\\N"
        return state["t"], len(state["t"]), b"\x00'\"\\" + state["t"][:3].encode()

    return scene(step, nothing, lambda: state.update(t="{}"), observe=lambda: state["t"].encode("utf-8", "surrogatepass"))


@case("literals")
def ellipsis_and_notimplemented():
    state = {...: NotImplemented}

    def step(x):
        state["v"] = ...
        return state[...], x[..., 0], state["v"] is Ellipsis

    return scene(step, lambda: state.update({...: 1}), observe=lambda: dict(state))


@case("literals")
def the_result_is_one_of_many_kinds():
    def step(x):
        return {
            math.inf: {1, 2}, "r": range(3), "s": slice(1, None), (1, (math.nan,)): frozenset([1]),
            None: b"b", 1j: [np.float32(1.5), Color.RED, Flags.A | Flags.B, Point(x)], True: Mode.TEST,
        }

    return scene(step, nothing)


# ---- containers of the standard library


@case("containers")
def a_dict_with_missing():
    table = Missing(a=1)

    def step(x):
        return table["a"], table["b"], table.get("c"), "b" in table, len(table)

    return scene(step, lambda: table.update(b=2), lambda: setattr(Missing, "n", 1), observe=lambda: dict(table))


@case("containers")
def missing_that_stores():
    class Memo(dict):
        def __missing__(self, key):
            self[key] = key * 2
            return self[key]

    table = Memo()

    def step(x):
        return x * table[3], table[4]

    return scene(step, nothing, table.clear, observe=lambda: dict(table))


@case("containers")
def a_default_dict_grows_when_it_is_read():
    table = collections.defaultdict(list)

    def step(x):
        table["a"].append(1)
        table["b"]
        return x * len(table["a"]), table.get("c"), len(table)

    def change():
        table.default_factory = None

    return scene(step, nothing, change, observe=lambda: dict(table))


@case("containers")
def a_default_dict_with_another_factory():
    table = collections.defaultdict(int)

    def step(x, key):
        table[key] += 1
        return x * table[key]

    x = eager.ones(1)
    return Program(
        step,
        [
            Call((x, "a")),
            Call((x, "b"), before=lambda: setattr(table, "default_factory", lambda: 10)),
            Call((x, "c")),
            Call((x, "d"), before=lambda: setattr(table, "default_factory", None)),
        ],
        lambda: dict(table),
    )


@case("containers")
def a_counter():
    count = collections.Counter("aab")

    def step(x):
        count["a"] += 1
        count.update("bc")
        count.subtract(["b"])
        return count["z"], count.most_common(1), count.total(), +count, count & collections.Counter("ab")

    return scene(step, nothing, lambda: count.update("zz"), observe=lambda: dict(count))


@case("containers")
def an_ordered_dict_moves_to_the_end():
    table = collections.OrderedDict(a=1, b=2, c=3)

    def step(x):
        table.move_to_end("a")
        return list(table), table == collections.OrderedDict(b=2, c=3, a=1), next(reversed(table))

    return scene(step, nothing, lambda: table.move_to_end("b", last=False), observe=lambda: list(table))


@case("containers")
def the_order_of_a_dictionary_changes():
    table = {"a": 1, "b": 2}

    def step(x):
        return list(table), [v for v in table.values()], next(iter(table))

    def change():
        table["a"] = table.pop("a")

    return scene(step, change, nothing)


@case("containers")
def the_order_of_items_with_object_keys():
    class Key:
        def __init__(self, n):
            self.n = n

    a, b = Key(1), Key(2)
    table = {a: "a", b: "b"}

    def step(x):
        return [k.n for k in table], list(table.values())

    def change():
        table[a] = table.pop(a)

    return scene(step, change)


@case("containers")
def a_popitem_and_a_reversal():
    table = {"a": 1, "b": 2, "c": 3}

    def step(x):
        last = table.popitem()
        table["z"] = last[1]
        return last, list(reversed(table)), list(table.items())

    return scene(step, nothing, lambda: table.update(q=5), observe=lambda: list(table.items()))


@case("containers")
def views_of_a_dictionary_are_kept():
    table = {"a": 1}
    keys, items = table.keys(), table.items()

    def step(x):
        table["n"] = table.get("n", 0) + 1
        return list(keys), len(items), ("n", 1) in items, keys & {"a"}, keys == {"a", "n"}

    return scene(step, nothing, lambda: table.update(z=1), observe=lambda: list(items))


@case("containers")
def a_view_made_inside_is_returned():
    table = {"a": 1}

    def step(x):
        return table.keys(), table.values()

    return scene(step, lambda: table.update(b=2), observe=lambda: dict(table))


@case("containers")
def a_mapping_proxy():
    table = {"a": 1}
    proxy = types.MappingProxyType(table)

    def step(x):
        return x * proxy["a"], len(proxy), "b" in proxy, dict(proxy)

    return scene(step, lambda: table.update(a=2), lambda: table.update(b=2))


@case("containers")
def user_containers():
    d, l, s = collections.UserDict(a=1), collections.UserList([1]), collections.UserString("ab")

    def step(x):
        d["n"] = d.get("n", 0) + 1
        l.append(len(l))
        return x * d["a"], l[-1], s.upper(), len(l), "n" in d, l + [1]

    return scene(step, lambda: d.update(a=2), lambda: l.clear(), observe=lambda: (d.data, l.data))


@case("containers")
def a_deque_of_limited_length():
    window = collections.deque([1, 2, 3], maxlen=3)

    def step(x):
        window.append(window[-1] + 1)
        window.rotate(1)
        return x * window[0], window.maxlen, list(window), sum(window)

    return scene(step, nothing, lambda: window.appendleft(50), observe=lambda: list(window))


@case("containers")
def a_deque_with_another_length():
    class State:
        window = None

    state = State()
    state.window = collections.deque([1, 2], maxlen=2)

    def step(x):
        state.window.append(9)
        return list(state.window), len(state.window)

    return scene(
        step,
        lambda: setattr(state, "window", collections.deque([1, 2], maxlen=3)),
        lambda: setattr(state, "window", collections.deque([1, 2])),
        lambda: setattr(state, "window", [1, 2]),
        observe=lambda: list(state.window),
    )


@case("containers")
def a_deque_that_is_only_appended_to():
    window = collections.deque(maxlen=2)

    def step(x):
        window.append(x.sum())
        return x + 1

    return scene(step, nothing, nothing, window.clear, observe=lambda: list(window))


@case("containers")
def both_ends_of_a_deque():
    window = collections.deque([1, 2, 3])

    def step(x):
        first, last = window.popleft(), window.pop()
        window.extendleft([last, first])
        return first, last, window.index(first), window.count(2)

    return scene(step, nothing, lambda: window.extend([7, 8, 9]), observe=lambda: list(window))


@case("containers")
def an_array_of_numbers():
    numbers = array.array("i", [1, 2])

    def step(x):
        numbers.append(len(numbers))
        return x * numbers[0], sum(numbers), numbers.typecode

    return scene(step, lambda: numbers.__setitem__(0, 5), observe=lambda: list(numbers))


@case("containers")
def a_bytearray_is_written():
    data = bytearray(b"abc")

    def step(x):
        data[0] += 1
        data.extend(b"z")
        return x * data[1], bytes(data), data.find(b"z")

    return scene(step, nothing, lambda: data.__setitem__(1, 5), observe=lambda: bytes(data))


@case("containers")
def a_memoryview():
    data = bytearray(b"abc")
    view = memoryview(data)

    def step(x):
        view[0] = view[1]
        return x * view[2], bytes(view[1:]), len(view)

    return scene(step, lambda: data.__setitem__(1, 5), observe=lambda: bytes(data))


@case("containers")
def a_set_of_tuples_and_its_order():
    members = frozenset([("a", 1), ("b", 2)])

    def step(x, extra):
        return sorted(members | {extra}), len(members & {extra}), extra in members

    x = eager.ones(1)
    return rows(step, (x, ("a", 1)), (x, ("a", True)), (x, ("c", 3)), (x, ("a", 1.0)))


@case("containers")
def a_set_is_changed_in_place():
    members = {1, 2}

    def step(x):
        members.add(len(members) + 1)
        members.discard(1)
        return len(members), sorted(members), members >= {2}

    return scene(step, nothing, lambda: members.add(1), observe=lambda: sorted(members))


@case("containers")
def a_set_holds_equal_members_of_other_types():
    members = {1}

    def step(x):
        members.add(True)
        members.add(1.0)
        return sorted(map(repr, members)), [type(v).__name__ for v in members]

    return scene(step, lambda: (members.clear(), members.add(1.0)), lambda: (members.clear(), members.add(True)))


@case("containers")
def a_subclass_of_list():
    class Log(list):
        def append(self, item):
            super().append((len(self), item))

        def __len__(self):
            return list.__len__(self) + 100

    log = Log()

    def step(x):
        log.append("a")
        return len(log), log[-1], bool(log), [*log]

    return scene(step, nothing, observe=lambda: list.__len__(log))


@case("containers")
def a_subclass_of_dict_with_a_getter():
    class Loud(dict):
        def __getitem__(self, key):
            return "loud", dict.__getitem__(self, key)

        def keys(self):
            return ["k"]

    table = Loud(a=1)

    def inner(**kwargs):
        return kwargs

    def step(x):
        return table["a"], table.get("a"), {**{"a": 2}}, [*table], dict.copy(table)

    return scene(step, lambda: table.update(a=2), observe=lambda: dict.__getitem__(table, "a"))


@case("containers")
def a_subclass_of_tuple_and_set():
    class Shape(tuple):
        def __add__(self, other):
            return "sum"

        @property
        def rank(self):
            return len(self)

    class Names(set):
        def __contains__(self, item):
            return True

    shape, names = Shape((2, 3)), Names(["a"])

    def step(x):
        return shape + (1,), shape.rank, "z" in names, shape == (2, 3), len(names)

    return scene(step, lambda: names.add("b"))


@dataclasses.dataclass
class Config:
    lr: float = 0.5
    tags: list = dataclasses.field(default_factory=list)
    scale: int = 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int
    m: object = None


@dataclasses.dataclass(slots=True, order=True)
class Slotted:
    n: int = 1
    extra: list = dataclasses.field(default_factory=list, compare=False)


@case("containers")
def a_dataclass_is_compared_and_replaced():
    config = Config()

    def step(x):
        config.tags.append("a")
        other = dataclasses.replace(config, lr=config.lr * 2)
        return x * other.lr, other == config, other.tags is config.tags, dataclasses.asdict(config)

    return scene(step, lambda: setattr(config, "lr", 0.25), observe=lambda: config)


@case("containers")
def a_frozen_dataclass_as_key():
    table = {Frozen(1): "a"}

    def step(x, n):
        key = Frozen(n)
        try:
            key.n = 5
        except dataclasses.FrozenInstanceError as error:
            told = str(error)
        return table.get(key), key in table, told, key == Frozen(1), hash(key) == hash(Frozen(n))

    x = eager.ones(1)
    return rows(step, (x, 1), (x, 2), (x, True), (x, 1.0))


@case("containers")
def a_frozen_dataclass_is_changed_by_force():
    config = Frozen(2)

    def step(x):
        return x * config.n, config == Frozen(2)

    return scene(step, lambda: object.__setattr__(config, "n", 3))


@case("containers")
def a_dataclass_with_slots():
    state = Slotted()

    def step(x):
        state.n += 1
        state.extra.append(state.n)
        try:
            state.other = 1
        except AttributeError as error:
            return "other" in str(error), state < Slotted(5), sorted([Slotted(3), state])[0].n

    return scene(step, nothing, lambda: setattr(state, "n", 9), observe=lambda: state)


@case("containers")
def fields_of_a_dataclass_as_it_is():
    config = Config()

    def step(x):
        names = [f.name for f in dataclasses.fields(config)]
        return names, dataclasses.is_dataclass(config), dataclasses.astuple(config), repr(config)

    return scene(step, lambda: config.tags.append(1), lambda: setattr(config, "scale", math.inf))


@case("containers")
def a_deep_copy_inside():
    state = {"a": [1], "x": eager.ones(2)}
    state["b"] = state["a"]

    def step(x):
        other = copy.deepcopy(state)
        other["a"].append(2)
        other["x"].add_(1)
        return other, other["a"] is other["b"], copy.copy(state)["a"] is state["a"]

    return scene(step, lambda: state["a"].append(5), observe=lambda: state)


@case("containers")
def a_list_is_sorted_with_a_key():
    items, order = [3, 1, 2], {"sign": 1}

    def step(x):
        items.sort(key=lambda v: order["sign"] * v)
        items.reverse()
        return list(items), min(items, key=lambda v: abs(v - 2)), sorted(items, reverse=True)

    return scene(step, lambda: order.update(sign=-1), observe=lambda: list(items))


@case("containers")
def slices_of_a_list_are_assigned():
    items = [1, 2, 3, 4]

    def step(x):
        items[1:3] = [9]
        items[::2] = items[::2][::-1]
        del items[-1]
        items.insert(0, len(items))
        items *= 2 if len(items) < 4 else 1
        return list(items)

    return scene(step, nothing, lambda: items.extend([5, 6]), observe=lambda: items)


@case("containers")
def lists_are_compared_with_tensors_inside():
    x = eager.ones(1)
    items = [1, x]

    def step(y):
        return items == [1, y], x in items, items.index(y), y in [1, y]

    return rows(step, (x,), (x,), observe=lambda: items)


@case("containers")
def a_tuple_as_key_with_a_list_inside():
    table = {(1, "a"): 5}

    def step(x, key):
        try:
            return table[key]
        except (KeyError, TypeError) as error:
            return type(error).__name__, str(error)

    x = eager.ones(1)
    return rows(step, (x, (1, "a")), (x, (True, "a")), (x, (1, [2])), (x, (2, "a")), (x, [1]))


@case("containers")
def abstract_mappings_of_the_user():
    class Table(collections.abc.MutableMapping):
        def __init__(self):
            self.held = {}
            self.log = []

        def __getitem__(self, key):
            self.log.append(key)
            return self.held[key]

        def __setitem__(self, key, value):
            self.held[key] = value

        def __delitem__(self, key):
            del self.held[key]

        def __iter__(self):
            return iter(self.held)

        def __len__(self):
            return len(self.held)

    table = Table()

    def step(x):
        table.setdefault("a", 1)
        table.update(b=table["a"] + 1)
        return dict(table), table.pop("b"), "a" in table, table == {"a": 1}, {**table}

    return scene(step, nothing, table.clear, observe=lambda: (table.held, table.log))
