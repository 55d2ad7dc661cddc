"""Python's numbers: exact beyond 64 bits, with their own exceptions, signs, types and hashes."""

import cmath
import math
import operator

import eager
from tests.never_wrong.harness import Program, after, case, over, vector

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
        for _ in range(28):  # whatever is made of the sum of sums must not double each time
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


# ---- operators, schedules, indices


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
