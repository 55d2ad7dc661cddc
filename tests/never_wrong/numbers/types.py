"""Zeros, nan, the types of numbers, and numbers that become something else."""

import collections
import decimal
import enum
import fractions
import math

import numpy as np

import eager
from jitcap import graph_break
from tests.never_wrong.harness import Program, after, case, over, vector

# ---- zeros, nan


@case("numbers")
def minus_zero_is_another_rate():
    return over(lambda x, f: (x * f, 1.0 if math.copysign(1, f) > 0 else -1.0), [0.0, -0.0, 0.0])


@case("numbers")
def minus_zero_in_a_closure():
    zero = [0.0]

    def step(x):
        return x * zero[0], str(zero[0])

    x = vector()
    return Program(step, [(x,), after(lambda: zero.__setitem__(0, -0.0), x), (x,)])


@case("numbers")
def minus_zero_in_a_tuple_attribute():
    class Box:
        pair = (0.0, 1)

    def step(x):
        return x + Box.pair[0], repr(Box.pair), math.atan2(Box.pair[0], -1)

    x = vector()
    return Program(step, [(x,), after(lambda: setattr(Box, "pair", (-0.0, True)), x)])


@case("numbers")
def minus_zero_as_a_default():
    def scale(x, by=0.0):
        return x * by, math.copysign(1.0, by)

    def step(x):
        return scale(x)

    x = vector()
    return Program(step, [(x,), after(lambda: setattr(scale, "__defaults__", (-0.0,)), x)])


@case("numbers")
def nan_in_state():
    state = {"best": math.nan}

    def step(x, f):
        if not state["best"] <= f:
            state["best"] = f
        return x * 1, state["best"] == state["best"], [state["best"]] == [state["best"]]

    x = vector()
    calls = [(x, 1.0), (x, 0.5), after(lambda: state.update(best=math.nan), x, math.nan), (x, 2.0)]
    return Program(step, calls, lambda: state)


@case("numbers")
def nan_is_found_by_identity():
    nan = math.nan
    held = [nan, 1.0]

    def step(x, f):
        return f in held, held.count(f), nan in held, x

    x = vector()
    return Program(step, [(x, nan), (x, float("nan")), (x, 1.0)])


# ---- types of numbers


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Metres(float):
    def __add__(self, other):
        return Metres(float(self) + float(other) + 100)

    def __repr__(self):
        return f"{float(self)}m"


class Count(int):
    def __bool__(self):
        return False

    def __eq__(self, other):
        return "maybe"

    __hash__ = int.__hash__


@case("numbers")
def bool_int_float_and_numpy_at_one_place():
    def step(x, n):
        return x * n, type(n).__name__, n + n, -n, n == 1, isinstance(n, int), repr(n), n / 2

    return over(step, [1, True, 1.0, np.float64(1.0), np.int64(1), Level.LOW, 2, False])


@case("numbers")
def bool_after_counts():
    def step(x, n):
        return x + n, n is True, type(n) is bool, f"{n}", [10, 20][n]

    return over(step, [0, 1, True, False, 0])


@case("numbers")
def number_then_tensor_then_none():
    def step(x, n):
        if n is None:
            return x
        if isinstance(n, float):
            return x - n
        return x + n

    return over(step, [1, 2, eager.tensor([1.0, 1.0]), None, 0.5, True])


@case("numbers")
def global_number_becomes_a_tensor():
    box = {"scale": 2}

    def step(x):
        return x * box["scale"]

    x = vector()
    tensor = eager.tensor(3.0)
    return Program(step, [(x,), after(lambda: box.update(scale=tensor), x), (x,)])


@case("numbers")
def subclass_of_float():
    def step(x, f):
        return x * f, f + 1, 1 + f, f * 2, repr(f), type(f + f).__name__

    return over(step, [1.5, Metres(1.5), Metres(2.5), 2.5])


@case("numbers")
def subclass_of_int_with_its_own_truth():
    def step(x, n):
        return "yes" if n else "no", n == 3, [n] == [3], n in (3, 4), x * 2

    return over(step, [3, Count(3), Count(0), 0])


@case("numbers")
def enum_members_are_their_own_text():
    def step(x, level):
        return (
            f"{level}",
            str(level),
            repr(level),
            f"{level:>5}",
            "%s %d" % (level, level),
            x * level,
        )

    return over(step, [Level.LOW, Level.HIGH, 1])


@case("numbers")
def arithmetic_of_bools():
    def step(x, flag):
        other = not flag
        return flag + flag, flag & other, flag | other, flag ^ 1, -flag, flag * 0.5, flag // 1, x

    return over(step, [True, False])


@case("numbers")
def mask_item_is_a_bool():
    def step(x):
        flag = (x > 0).all().item()
        return flag, type(flag).__name__, flag + 1, not flag, flag & True, f"{flag}"

    return Program(step, [(eager.tensor([1.0]),), (eager.tensor([-1.0]),)])


@case("numbers")
def item_of_float32_keeps_its_digits():
    def step(x):
        f = x[0].item()
        return f, f * 3, f == 0.1, repr(f), x * f

    return Program(step, [(eager.tensor([0.1, 2.0]),), (eager.tensor([0.3, 2.0]),)])


@case("numbers")
def half_items():
    def step(x):
        f = x.sum().item()
        return f, f + 1e-4, x * (f + 1e-4)

    return Program(step, [(eager.tensor([0.1, 2.0], dtype=eager.float16),)] * 2)


@case("numbers")
def int32_items_do_not_wrap():
    def step(x):
        n = x[0].item()
        return n + n, n * n, (x + x)[0].item()

    return Program(step, [(eager.tensor([2**31 - 1], dtype=eager.int32),)] * 2)


@case("numbers")
def numpy_floats_of_warnings():
    def step(x, f):
        return 1 / f, f // 2, type(f * 2).__name__, x * f

    return over(step, [np.float64(2.0), np.float64(4.0), np.float64(0.0)])


@case("numbers")
def numpy_warns_at_each_call():
    """Of what is computed when the program is captured, too: it splits there."""

    def step(x, c):
        y = x * float(c)
        return y * 2, np.float32(c), np.array([1.0]).astype(complex).real, np.nanmean([np.nan])

    return over(step, [np.complex128(1 + 2j)] * 3 + [np.complex128(3)])


@case("numbers")
def numpy_ints_wrap():
    def step(x, n):
        return n + n, n * n, type(n + 1).__name__, n // 3, x

    return over(step, [np.int64(2), np.int64(3), np.int64(2**62), np.int32(2**30)])


@case("numbers")
def fractions_stay_exact():
    third = fractions.Fraction(1, 3)
    state = {"sum": fractions.Fraction(0)}

    def step(x, n):
        state["sum"] += third / n
        return x * float(state["sum"]), state["sum"].denominator, third < state["sum"]

    return over(step, [1, 2, 3, 7], lambda: state)


@case("numbers")
def decimals_stay_exact():
    state = {"sum": decimal.Decimal("0.1")}

    def step(x, n):
        state["sum"] = state["sum"] * 3 + decimal.Decimal(n)
        return x * 2, str(state["sum"]), state["sum"] == decimal.Decimal("1.3")

    return over(step, [1, 2, 3], lambda: state)


@case("numbers")
def decimal_context_changes_between_calls():
    decimal.getcontext().prec = 28

    def step(x):
        return x * 2, decimal.Decimal(1) / decimal.Decimal(7)

    def change():
        decimal.getcontext().prec = 5

    def close():
        decimal.getcontext().prec = 28

    x = vector()
    return Program(step, [(x,), after(change, x)], close=close)


@case("numbers")
def complex_numbers_at_a_float_s_place():
    def step(x, f):
        z = f * 2
        return z, abs(z), z == 2, z.real, x

    return over(step, [1.0, 1j, 1 + 0j, 2.0])


@case("numbers")
def float_equal_to_an_int():
    table = {1: "int", 2.5: "float"}

    def step(x, k):
        return table.get(k, "none"), k in table, [1, 2].index(k) if k in (1, 2) else -1, x * k

    return over(step, [1, 1.0, True, 2.5, 3])


@case("numbers")
def keys_of_a_dictionary_keep_their_type():
    def step(x, k):
        made = {k: "first"}
        made[int(k)] = "second"
        return made, list(made), x

    return over(step, [1, 1.0, True, 2])


@case("numbers")
def rounding_to_even_and_digits():
    def step(x, f, d):
        return round(f), round(f, d), round(f, -d), x

    x = vector()
    return Program(step, [(x, 2.5, 1), (x, 3.5, 1), (x, 2.675, 2), (x, 12345.678, 3)])


@case("numbers")
def rounding_integers():
    return over(
        lambda x, n: (round(n, -2), round(n), type(round(n, -1)).__name__), [150, 250, 2**70]
    )


@case("numbers")
def constants_beyond_64_bits():
    def step(x, f):
        return x * (10**30 * 3 / 7 / 1e30), f * (10**30), 10**30 * 3 // 7, x * f

    return over(step, [1.0, 2.0])


@case("numbers")
def all_of_an_item_that_is_not_zero():
    def step(x):
        return "yes" if all([x.sum().item() != 0]) else "no"

    return Program(step, [(eager.tensor(v),) for v in ([1.0], [0.0], [2.0])])


@case("numbers")
def not_equal_to_zero_is_a_value():
    def step(x):
        total = x.sum().item()
        return total != 0, not total != 0, (total != 0) + 1, [total != 0, total == 0]

    return Program(step, [(eager.tensor(v),) for v in ([1.0], [0.0], [2.0])])


@case("numbers")
def filter_of_items_that_are_not_zero():
    def step(xs):
        return [i for i, x in enumerate(xs) if x.item() != 0]

    make = lambda *values: [eager.tensor(v) for v in values]
    return Program(step, [(make(1.0, 2.0),), (make(1.0, 0.0),), (make(0.0, 0.0),)])


@case("numbers")
def rounded_float_meets_a_tensor():
    return over(lambda x, a: (x + round(a), x * round(a, 1), x[round(a)]), [0.5, 1.2, 0.6, -0.4])


@case("numbers")
def constants_without_a_literal():
    table = {
        "inf": math.inf, "nan": math.nan, "zero": -0.0, "complex": complex(0.0, -0.0),
        "bad": complex(math.nan, -math.inf), "np": np.float64(0.1), "pair": (math.inf, -0.0, (math.nan,)),
        "fraction": fractions.Fraction(1, 3), "huge": 10**5000, "enum": Level.HIGH, "slice": slice(1, None),
        "dtype": np.dtype("f4"), "set": frozenset([math.inf]), "range": range(10**20), "more": ...,
    }  # fmt: skip

    def step(x, key):
        value = table[key]
        return x, value, [value, (value,)], {key: value}

    return Program(step, [(eager.tensor([1.0]), key) for key in table])


@case("numbers")
def huge_numbers_of_no_literal_are_stored():
    state = {"n": 10**4400}

    def step(x):
        state["n"] = state["n"] * 10 + 1
        return x * (state["n"] % 10), state["n"] % 1000, [math.inf, state["n"] > 1e300]

    return Program(step, [(vector(),)] * 3, lambda: state["n"] % 10**20)


@case("numbers", compiles=1)
def an_int_that_is_not_used():
    return over(lambda x, step_number: x * 2, [0, 1, 2, 3])


@case("numbers", compiles=1)
def an_int_that_is_passed_on_and_not_used():
    def inner(x, step_number=None, *, verbose=0):
        return x + 1

    return over(lambda x, n: inner(x, n, verbose=n), [0, 1, 2, 3])


@case("numbers")
def attribute_is_a_number_then_a_tensor():
    class Box:
        scale = 2

    box = Box()

    def step(x):
        return x * box.scale, x + (box.scale if box.scale is not None else 0)

    x = vector()
    tensor = eager.tensor([3.0, 4.0])
    changes = [tensor, 0.5, None, True, tensor, 2]
    calls = [after(lambda v=v: setattr(box, "scale", v), x) for v in changes]
    return Program(step, [(x,), *calls])


@case("numbers")
def cell_list_item_and_default_become_tensors():
    scale, held = 2, [2]

    def change(value):
        nonlocal scale
        scale, held[0] = value, value
        inner.__defaults__ = (value,)

    def inner(x, by=2):
        return x * by

    def step(x):
        return x * scale, x + held[0], inner(x)

    x = vector()
    tensor = eager.tensor([3.0, 4.0])
    return Program(
        step, [(x,), *[after(lambda v=v: change(v), x) for v in (tensor, 1, 1.5, tensor)]]
    )


@case("numbers")
def nan_in_other_containers():
    nan = float("nan")
    pair, queue, table = (nan, 1.0), collections.deque([0.5, nan]), {"a": nan}

    def step(x, f):
        return (
            f in pair, f in queue, f in table.values(), pair.index(1.0), (f, 1.0) == pair, x,
            queue.count(f), [f] == [nan], [f] < [nan], {"a": f} == table, f != f, [(0, f)] == [(0, nan)],
        )  # fmt: skip

    x = vector()
    return Program(step, [(x, 1.0), (x, nan), (x, float("nan")), (x, 0.5), (x, nan)])


@case("numbers")
def nan_becomes_a_member():
    nan = math.nan
    held = [nan, 2.0]

    def step(x, f):
        return f in held, x

    x = vector()
    return Program(step, [(x, 1.0), (x, 3.0), (x, nan), (x, 2.0)])


@case("numbers")
def nan_is_removed():
    nan = math.nan

    def step(x, f):
        held = [1.0, f, nan]
        try:
            held.remove(nan)
            held.remove(f)
        except ValueError as error:
            return str(error), len(held)
        return x, len(held)

    x = vector()
    return Program(step, [(x, 1.0), (x, nan), (x, float("nan"))])


@case("numbers", compiles=1)
def a_rate_among_rates():
    """What is no NaN costs no version."""
    return over(lambda x, rate: (rate in (0.5, 2.0), x * rate), [0.1, 0.2, 0.3])


@case("numbers", compiles=1)
def an_int_that_is_passed_on_and_returned():
    def inner(x, step_number, *more):
        return x + 1, step_number, more

    return over(lambda x, n: inner(x, n, n), [0, 1, 2, 2**70])


@case("numbers")
def an_int_that_is_passed_on_and_used():
    def inner(x, n, k):
        return x.sum(n), x * k, k > 3

    x = eager.ones(2, 2)
    return Program(lambda x, n, k: inner(x, n, k), [(x, 0, 1), (x, 1, 1), (x, 1, 5), (x, -1, True)])


@case("numbers")
def an_int_that_is_passed_on_to_a_branch():
    seen = []

    def report(n, text):
        if n % 2 == 0:
            seen.append((n, text))

    def step(x, n):
        report(n, "even")
        return x * 2

    return over(step, [0, 1, 2, 3, 4], lambda: list(seen))


@case("numbers")
def legacy_constructors():
    def step(x, n):
        return (
            eager.LongTensor([n, 2]), eager.FloatTensor(x), eager.Tensor(x * 2), eager.LongTensor(n),
            eager.Tensor(n, 2).shape, eager.DoubleTensor([x.sum().item(), n]), eager.FloatTensor(),
            eager.IntTensor(x.shape), eager.Tensor(eager.ones(2)),
        )  # fmt: skip

    return over(step, [1, 2, 3])


@case("numbers")
def legacy_constructors_as_classes():
    """A tensor is an instance of what has its dtype."""

    def step(x, other):
        if isinstance(x, eager.LongTensor):
            x = x.float() * 2
        if isinstance(x, eager.FloatTensor | eager.DoubleTensor):
            x = x * 3
        return x, isinstance(x.sum(), eager.DoubleTensor), isinstance(other, eager.FloatTensor)

    x = eager.ones(2)
    return Program(
        step, [(x, 3), (x.double(), x), (x.long(), None), (x.bool(), eager.nn.Parameter(x))]
    )


@case("numbers")
def a_method_of_a_number_behind_a_split():
    def step(x, n):
        bits, add = n.bit_length, n.__add__
        graph_break()
        return bits(), add(2), add.__self__, x

    return over(step, [5, 6, 2**64 - 1, -9])
