"""Python's numbers: exact beyond 64 bits, with their own exceptions, signs, types and hashes."""

import cmath
import decimal
import enum
import fractions
import math
import operator

import numpy as np

import eager

from .harness import Program, after, case


def vector():
    return eager.tensor([1.0, 2.0])


def over(step, values, observe=lambda: None):
    """`step(x, value)` for one value after the other."""
    x = vector()
    return Program(step, [(x, value) for value in values], observe)


# ---- beyond 64 bits


@case("numbers")
def counter_beyond_64_bits():
    state = {"n": 2**63}

    def step(x):
        state["n"] = state["n"] * 3 + 1
        return x * 2, state["n"] % 11

    x = vector()
    return Program(step, [(x,), (x,), (x,), after(lambda: state.update(n=5), x)], lambda: state)


@case("numbers", one_graph=True, cpp=True)
def counter_stays_one_graph():
    state = {"n": 0}

    def step(x):
        state["n"] += 1
        return x * state["n"]

    x = vector()
    return Program(step, [(x,)] * 4, lambda: state)


@case("numbers")
def counter_hashed_modulo_2_64():
    state = {"h": 14695981039346656037}

    def step(x):
        for byte in b"step":
            state["h"] = ((state["h"] ^ byte) * 1099511628211) % 2**64
        return x + 1, state["h"], state["h"] >> 60

    x = vector()
    return Program(step, [(x,)] * 4, lambda: state)


@case("numbers")
def linear_congruential_generator():
    class Rng:
        state = 12345

        def draw(self):
            self.state = (self.state * 6364136223846793005 + 1442695040888963407) & (2**64 - 1)
            return self.state >> 33

    rng = Rng()

    def step(x):
        return x * (rng.draw() % 7), rng.draw()

    x = vector()
    return Program(step, [(x,)] * 4, lambda: rng.state)


@case("numbers")
def power_of_a_count_modulo():
    return over(lambda x, n: (x + 1, n**25 % 11), [3, 5, 7, 12])


@case("numbers")
def two_to_a_count():
    return over(lambda x, n: (x + 1, 2**n), [3, 62, 63, 64, 200])


@case("numbers")
def power_of_an_item():
    return over(lambda x, k: (x.sum().item() ** 30, x.sum().item() ** 0.5), [0, 1])


@case("numbers")
def power_of_an_integer_item():
    x = eager.tensor([7, 9])
    return Program(lambda x: (x.sum().item() ** 30, x.sum().item() ** 30 % 10), [(x,)] * 2)


@case("numbers")
def integer_item_overflows_in_a_product():
    def step(x):
        n = x.max().item()
        return n * n, n + n, -n - n, n * 4 // 3

    return Program(step, [(eager.tensor([2**62, 1]),), (eager.tensor([3, 1]),)])


@case("numbers")
def huge_quotients():
    return over(lambda x, n: (10**n * 3 / 7, 10**n * 3 // 7, 10**n * 3 % 7), [2, 5, 30, 40])


@case("numbers")
def huge_number_meets_a_tensor():
    def step(x, n):
        big = n * 10**6
        return x * (big % 1000), x * 1.0, big

    return over(step, [1, 2, 10**15, 10**30])


@case("numbers")
def huge_int_scales_a_float_tensor():
    return over(lambda x, n: x * n, [2, 3, 2**40, 2**62])


@case("numbers")
def factorial_of_a_count():
    def step(x, n):
        f = 1
        for i in range(2, n + 1):
            f *= i
        return x + 1, f, math.factorial(n) == f, math.comb(n, 3), math.gcd(f, 2**70)

    return over(step, [5, 20, 21, 30])


@case("numbers")
def fibonacci_grows():
    state = {"a": 0, "b": 1}

    def step(x):
        for _ in range(26):  # whatever is made of the sum of sums must not double each time
            state["a"], state["b"] = state["b"], state["a"] + state["b"]
        return x * 2, state["a"] % 1000

    x = vector()
    return Program(step, [(x,)] * 5, lambda: state)


@case("numbers")
def integers_compare_beyond_floats():
    def step(x, n):
        f = float(n)
        return n == f, n < f, n > f, n + 1.0 == f, hash(n) == hash(f), x

    return over(step, [2**53, 2**53 + 1, 2**53 + 2, 2**60 + 1, -(2**53) - 1])


@case("numbers")
def int_division_beyond_floats():
    return over(lambda x, n: (n / 3, n // 3, divmod(n, -7), (n + 1) / n), [9, 2**53 + 1, 2**62 + 1])


@case("numbers")
def bits_of_a_count():
    def step(x, n):
        return n.bit_length(), bin(n), n & 0xFF, n | 1, n ^ 3, ~n, n << 70, n >> 1, n.bit_count(), x

    return over(step, [5, 6, 2**64 - 1, -9])


@case("numbers")
def shift_by_a_count():
    return over(lambda x, n: (x + 1, 1 << n, 2**100 >> n), [1, 2, 63, 64, 99, -1])


@case("numbers")
def modular_inverse():
    return over(lambda x, n: (pow(3, n, 1000007), pow(n, -1, 97), x), [5, 6, 2**65, 97])


@case("numbers")
def digits_of_a_float():
    def step(x, f):
        return f.hex(), f.as_integer_ratio(), f.is_integer(), repr(f), x * f

    return over(step, [0.5, 0.1, 1e300, 5e-324, math.inf])


# ---- what Python raises


def effects_then(compute):
    """`compute(number)` after effects, for a number from outside and for one of the graph."""

    def build(values):
        seen = []

        def step(x, f):
            seen.append("begun")
            value = compute(f)
            seen.append("done")
            return x * 2, value

        return over(step, values, lambda: seen)

    return build


def effects_of_the_graph(compute):
    def build(values):
        seen, total = [], eager.tensor([0.0])

        def step(x):
            seen.append("begun")
            total.add_(1)
            value = compute(x.sum().item())
            seen.append("done")
            total.add_(1)
            return x * 2, value

        return Program(step, [(eager.tensor([v, 0.0]),) for v in values], lambda: (seen, total))

    return build


DOMAINS = {
    "sqrt": (math.sqrt, [4.0, 2.0, -1.0, 9.0]),
    "log": (math.log, [1.0, 2.0, 0.0, -1.0, 3.0]),
    "log_of_two": (lambda f: math.log(f, 2), [8.0, 2.0, 0.0]),
    "exp": (math.exp, [1.0, 2.0, 1000.0, -1000.0]),
    "divide": (lambda f: 1 / f, [1.0, 2.0, 0.0, -0.0]),
    "floor_divide": (lambda f: 7.0 // f, [2.0, 3.0, 0.0]),
    "modulo": (lambda f: 5 % f, [2.0, 3.0, -3.0, 0.0, math.inf]),
    "divmod": (lambda f: divmod(-7, f), [2.0, 0.0]),
    "int": (int, [2.5, -2.5, math.inf, math.nan, 1e30]),
    "round": (round, [2.5, 3.5, -0.5, math.inf]),
    "round_digits": (lambda f: round(f, 1), [2.25, 2.35, -0.04]),
    "floor": (math.floor, [2.5, -2.5, 1e30, math.nan]),
    "ceil": (math.ceil, [2.5, -2.5, -0.5, math.inf]),
    "trunc": (math.trunc, [2.5, -0.5, math.inf]),
    "negative_root": (lambda f: f**0.5, [4.0, 2.0, -1.0]),
    "negative_power": (lambda f: f**-2, [4.0, 2.0, 0.0]),
    "power_overflows": (lambda f: f**400, [1.5, 2.0, 10.0]),
    "two_to_the_float": (lambda f: 2.0**f, [1.5, 2.0, 2000.0]),
    "math_pow": (lambda f: math.pow(f, 0.5), [4.0, 2.0, -1.0]),
    "acos": (math.acos, [0.5, 1.0, 2.0]),
    "asin": (math.asin, [0.5, -1.0, -2.0]),
    "sin_of_inf": (math.sin, [0.5, 1.0, math.inf]),
    "sinh": (math.sinh, [0.5, 1.0, 1000.0]),
    "expm1": (math.expm1, [0.5, 1.0, 1000.0]),
    "log1p": (math.log1p, [0.5, 1.0, -1.0]),
    "log2": (math.log2, [8.0, 3.0, 0.0]),
    "atanh": (math.atanh, [0.5, 0.25, 1.0]),
    "gamma": (math.gamma, [5.0, 0.5, -1.0, 200.0]),
    "fmod": (lambda f: math.fmod(5.0, f), [3.0, -3.0, 0.0]),
    "fsum": (lambda f: math.fsum([f, 1e100, 1.0, -1e100]), [1.0, 2.0, math.nan]),
    "index": (lambda f: [10, 20, 30][int(f)], [0.0, 2.0, 3.0, -1.0]),
    "float_index": (lambda f: [10, 20, 30][f], [0.0, 1.0]),
    "range": (lambda f: list(range(int(f))), [2.0, 3.0, -1.0]),
    "repeat": (lambda f: "ab" * int(f), [2.0, 3.0]),
    "chr": (lambda f: chr(int(f)), [97.0, 98.0, -1.0]),
    "to_bytes": (lambda f: int(f).to_bytes(1, "big"), [97.0, 255.0, 256.0]),
    "ldexp": (lambda f: math.ldexp(f, 3), [0.5, -0.0, 1.0]),
    "frexp": (math.frexp, [0.5, 8.0, 0.0]),
    "copysign": (lambda f: math.copysign(3.0, f), [0.0, -0.0, 1.0, -1.0]),
    "atan2": (lambda f: math.atan2(f, -1.0), [0.0, -0.0, 1.0]),
    "isclose": (lambda f: math.isclose(f, 0.1 + 0.2), [0.3, 0.4]),
    "complex_sqrt": (lambda f: cmath.sqrt(f), [4.0, -4.0, complex(-1, -0.0)]),
    "conjugate": (lambda f: (f.real, f.imag, f.conjugate()), [1.5, -0.0]),
    "not_a_number": (lambda f: (f == f, f < 1, f in [f], min(f, 1.0), max(1.0, f)), [1.0, math.nan]),
    "clamp": (lambda f: max(0.0, min(f, 1.0)), [0.5, 2.0, -0.0, math.nan]),
    "is_zero": (lambda f: "yes" if f != 0 else "no", [1.0, 0.0, -0.0, math.nan]),
    "zero_is": (lambda f: "yes" if 0 != f else "no", [1.0, 0.0, 2.0]),
    "all_not_zero": (lambda f: all([f != 0, f != 1]), [2.0, 0.0, 1.0]),
    "truth": (lambda f: "yes" if f else "no", [1.0, 0.0, -0.0, math.nan]),
    "hash": (lambda f: {f: 1}.get(2.0, "no"), [2.0, 3.0, 2.0]),
    "as_text": (lambda f: f"{f} {f:.3f} {f!r} {f:>8.1e}|" + str(f), [1.5, -0.0, 1e22, math.nan]),
}  # fmt: skip


def _domain_cases():
    for name, (compute, values) in DOMAINS.items():
        for kind, make in (("outside", effects_then), ("graph", effects_of_the_graph)):
            build = lambda compute=compute, values=values, make=make: make(compute)(values)
            build.__name__ = f"{name}_of_a_number_of_the_{kind}"
            if not (kind == "graph" and any(isinstance(v, complex) for v in values)):
                case("numbers")(build)


_domain_cases()


@case("numbers")
def assert_that_the_sum_is_not_zero():
    def step(x):
        assert x.sum().item() != 0, "nothing there"
        return x / x.sum()

    return Program(step, [(eager.tensor(v),) for v in ([1.0, 2.0], [1.0, -1.0], [2.0, 2.0])])


@case("numbers")
def loss_is_not_zero_decides():
    taken = []

    def step(x):
        if x.sum().item() != 0:
            taken.append("then")
            return x * 2
        taken.append("else")
        return x - 1

    calls = [(eager.tensor(v),) for v in ([1.0, 2.0], [1.0, -1.0], [2.0, 2.0])]
    return Program(step, calls, lambda: taken)


@case("numbers")
def integer_item_modulo_an_item():
    def step(x):
        a, b = x[0].item(), x[1].item()
        return a % b, a // b, divmod(a, b)

    calls = [(eager.tensor(v),) for v in ([7, 2], [-7, 2], [7, -2], [5, 0], [9, 4])]
    return Program(step, calls)


@case("numbers")
def integer_item_to_a_negative_power():
    def step(x):
        a, b = x[0].item(), x[1].item()
        return a**b

    calls = [(eager.tensor(v),) for v in ([2, 3], [2, -1], [0, -1], [0, 0], [-2, 3])]
    return Program(step, calls)


@case("numbers")
def float_item_to_the_power_of_an_item():
    def step(x):
        a, b = x[0].item(), x[1].item()
        return a**b

    calls = [(eager.tensor(v),) for v in ([2.0, 3.0], [-2.0, 0.5], [0.0, -1.0], [10.0, 400.0])]
    return Program(step, calls)


@case("numbers")
def items_and_bits():
    def step(x):
        n = x.sum().item()
        return n & 3, n | 8, n ^ 1, n << 2, n >> 1, ~n, -n, +n, abs(n)

    return Program(step, [(eager.tensor(v),) for v in ([3, 4], [-3, -4], [1, 2])])


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
def operators_by_name():
    def step(x, n):
        return (
            operator.floordiv(n, 4), operator.mod(n, -4), operator.pow(n, 3), operator.lshift(n, 2),
            operator.neg(n), operator.index(n), operator.truediv(n, 4), operator.xor(n, 5), x * n,
        )  # fmt: skip

    return over(step, [9, 10, -9, 2**65])


@case("numbers")
def augmented_assignment_of_each_kind():
    def step(x, n):
        a = b = c = d = e = n
        a **= 3
        b //= 4
        c %= -4
        d <<= 3
        e /= 4
        return a, b, c, d, e, x

    return over(step, [9, -9, 2**63, 0])


@case("numbers")
def chained_comparisons_of_numbers():
    return over(
        lambda x, f: (0 <= f < 1, 0 < f <= f, not 0.5 > f != 2, x), [0.0, 0.5, -0.0, math.nan]
    )


@case("numbers")
def int_of_text_and_back():
    def step(x, n):
        return int(str(n)), int(f"{n:x}", 16), float(str(n / 4)), str(n)[::-1], len(str(n)), x

    return over(step, [10, 11, 255, 2**70])


@case("numbers")
def sum_of_floats_in_order():
    def step(x, f):
        return sum([0.1] * 10) + f, sum([f, 1e16, -1e16]), sum([f, 1, True]), x

    return over(step, [0.1, 0.2, 1.0])


@case("numbers")
def mean_of_losses_kept_in_a_list():
    losses = []

    def step(x):
        losses.append(x.sum().item())
        return sum(losses) / len(losses), max(losses), min(losses), sorted(losses)[-1]

    return Program(step, [(eager.tensor([v, 1.0]),) for v in (1.0, 3.0, -2.0)], lambda: losses)


@case("numbers")
def item_is_an_index():
    names = ["a", "b", "c"]

    def step(x):
        i = x.argmax().item()
        return names[i], x[i], x[i].item()

    calls = [(eager.tensor(v),) for v in ([1.0, 2.0, 0.0], [3.0, 2.0, 0.0], [0.0, 1.0, 5.0, 7.0])]
    return Program(step, calls)


@case("numbers")
def item_is_a_dictionary_key():
    counts = {}

    def step(x):
        label = x.argmax().item()
        counts[label] = counts.get(label, 0) + 1
        return x * 2

    calls = [(eager.tensor(v),) for v in ([1.0, 2.0], [3.0, 2.0], [0.0, 1.0])]
    return Program(step, calls, lambda: counts)


@case("numbers")
def item_in_a_set():
    seen = set()

    def step(x):
        n = x.sum().item()
        new = n not in seen
        seen.add(n)
        return new, len(seen)

    return Program(step, [(eager.tensor([v, 1.0]),) for v in (1.0, 1.0, 2.0, -1.0)], lambda: seen)


@case("numbers")
def divisor_becomes_zero_in_state():
    state = {"count": 2, "log": []}

    def step(x):
        state["log"].append("begin")
        state["count"] -= 1
        return x / state["count"], 10 // state["count"]

    x = vector()
    return Program(step, [(x,), (x,), (x,)], lambda: state)


@case("numbers")
def rate_schedule_raises_late():
    state = {"t": 0, "rates": []}

    def step(p, g):
        state["t"] += 1
        rate = 1.0 / (3 - state["t"])
        state["rates"].append(rate)
        p.sub_(rate * g)
        return p

    p, g = eager.tensor([1.0, 1.0]), eager.tensor([0.5, 0.25])
    return Program(step, [(p, g)] * 5, lambda: (state, p))


@case("numbers")
def inverse_square_root_warmup():
    state = {"step": -1}

    def step(x):
        state["step"] += 1
        return x * min(state["step"] ** -0.5, state["step"] * 4**-1.5)

    x = vector()
    return Program(step, [(x,)] * 3, lambda: state)


@case("numbers")
def cosine_schedule():
    state = {"step": 0}

    def step(x):
        state["step"] += 1
        rate = 0.5 * (1 + math.cos(math.pi * state["step"] / 4))
        return x * rate, rate

    x = vector()
    return Program(step, [(x,)] * 5, lambda: state)


@case("numbers")
def bias_correction_with_counts():
    state = {"t": 0}

    def step(x, beta):
        state["t"] += 1
        return x / (1 - beta ** state["t"]), math.sqrt(1 - beta ** state["t"])

    x = vector()
    return Program(step, [(x, 0.9), (x, 0.9), (x, 0.0), (x, 1.0), (x, 2.0)], lambda: state)


@case("numbers")
def float_division_by_an_int_too_large():
    return over(lambda x, n: (x, n / 10, float(n), n * 1.0), [10, 10**300, 10**320])


@case("numbers")
def text_of_too_many_digits():
    return over(lambda x, n: (x, len(str(10**n))), [10, 20, 5000])


@case("numbers")
def slices_by_numbers():
    def step(x, n):
        items = list(range(10))
        return items[n:], items[:n], items[::n], x

    return over(step, [1, 2, -1, True, 10**30, 0])


# ---- numbers beyond the range of the graph that meet a tensor


MEETING = {
    "power_modulo": (lambda n: n**25 % 11, [3, 5, 7, 12]),
    "two_to_the_n": (lambda n: 2**n % 7, [3, 62, 63, 64, 200]),
    "hash": (lambda n: (n * 6364136223846793005 + 1442695040888963407) % 2**64 % 5, [1, 2, 3, 2**40]),
    "huge_quotient": (lambda n: n * 10**30 * 3 / 7, [1, 2, 5]),
    "huge_floor": (lambda n: n * 10**30 // 10**29, [1, 2, 5]),
    "square_and_back": (lambda n: (n * n) // n, [3, 5, 2**40, 2**62]),
    "difference_of_huge": (lambda n: (2**64 + n) - 2**64, [1, 2, 3]),
    "true_division": (lambda n: n / 3, [1, 2**53 + 1, 2**62 + 1]),
    "comparison": (lambda n: int(n * n > 2**63), [3, 5, 2**32, 2**33]),
    "negative_power": (lambda n: n**-1, [1, 2, 4, 2**40]),
    "rounded": (lambda n: round(n / 2), [1, 3, 5, 6]),
    "rounded_digits": (lambda n: round(n / 3, 1), [1, 2, 5]),
    "floor_of_quotient": (lambda n: math.floor(n / 4) + math.ceil(n / 4), [1, 2, 7, -7]),
    "minimum_of_huge": (lambda n: min(n * 2**62, 9), [1, 2, 4, -1]),
    "conditional": (lambda n: n * 2**62 if n < 0 else n, [1, 2, -1, -4]),
    "factorial": (lambda n: math.factorial(n) % 13, [5, 12, 21, 25]),
    "int_of_a_float": (lambda n: int(n * 1e19) % 10, [1, 2, 3]),
    "bool_sum": (lambda n: (n > 1) + (n > 2), [1, 2, 3]),
    "float_power": (lambda n: (n / 2) ** 0.5, [2, 8, -2]),
    "float_overflow": (lambda n: min((n * 1.0) ** 300, 5.0), [1, 2, 100]),
    "modulo_of_a_float": (lambda n: -n % 0.75 + n % -4, [1, 2, 5]),
}  # fmt: skip


def _meeting_cases():
    for name, (compute, values) in MEETING.items():

        def build(compute=compute, values=values):
            counter = {"n": 0}

            def step(x, n):
                counter["n"] = n
                return x * compute(counter["n"])

            return over(step, values, lambda: dict(counter))

        build.__name__ = f"{name}_meets_a_tensor"
        case("numbers")(build)


_meeting_cases()


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
