"""Numbers under @jit are Python's: of any size, exact, with Python's exceptions and effects."""

import functools
import math
import random
import types

import numpy as np
import pytest

import eager
from jitcap import jit

pytestmark = pytest.mark.filterwarnings("ignore:@jit")
eager_jit = functools.partial(jit, backend="eager")


def exact(value):
    if isinstance(value, float):
        return type(value).__name__, "nan" if value != value else float(value).hex()
    if isinstance(value, tuple | list):
        return type(value).__name__, [exact(x) for x in value]
    if isinstance(value, eager.Tensor):
        return "tensor", value.numpy().dtype.name, value.numpy().tobytes()
    return type(value).__name__, repr(value)


def outcome(fn, *args):
    try:
        return exact(fn(*args))
    except Exception as error:
        return type(error).__name__, str(error)


def alike(make, calls, backend="eager"):
    """`make()` gives a step and its state; plainly and compiled, call by call. The Jitted."""
    plain, plain_state = make()
    fn, state = make()
    compiled = jit(fn, backend=backend)
    for args in calls:
        assert outcome(compiled, *args) == outcome(plain, *args), args
        assert repr(state) == repr(plain_state), args
    return compiled


def pure(fn, calls, backend="eager"):
    """The same for a step without a state."""
    return alike(lambda: (fn, None), calls, backend)


def tensors(*values):
    return [(eager.tensor([v], dtype=eager.float64),) for v in values]


# ---- no operation has a hidden meaning


def branches(x):
    if x.sum().item() != 0:
        return x + 1
    return x - 1


def reversed_branch(x):
    if 0 != x.sum().item():  # noqa: SIM300
        return x + 1
    return x - 1


def every(x):
    return all(v.item() != 0 for v in x)


def asserted(x):
    assert x.sum().item() != 0, "a sum"
    return x


@pytest.mark.parametrize("step", [branches, reversed_branch, every, asserted])
def test_a_comparison_with_zero_is_one(step):
    pure(step, tensors(1.0, 0.0, 2.0, 0.0))


# ---- numbers from outside


def test_a_hash_of_64_bits():
    def make():
        state = types.SimpleNamespace(seed=2**63 + 11)

        def step(x):
            state.seed = (state.seed * 6364136223846793005 + 1442695040888963407) % 2**64
            return x + state.seed % 7, state.seed

        return step, state

    compiled = alike(make, [(eager.ones(2),)] * 6)
    assert compiled.stats.splits == 0
    assert compiled.stats.compiles == 1


@pytest.mark.parametrize(
    "expression",
    [
        "n ** 25 % 11", "2 ** n", "10 ** 30 * n / 7", "n << 70 >> 69", "~n ^ (n | 1) & 5", "-n // 3",
        "n % -5", "divmod(n, 4)", "pow(n, 5, 13)", "round(n / 3, 1)", "round(n / 2)", "n.bit_length()",
        "(n / 3).is_integer()", "hash(n)", "n in {1, 2, 3}", "{5: 'five', 6: 'six'}.get(n)",
        "f'{n:>8}|{n / 3:.3f}|{n!r}'", "'%d and %r' % (n, n / 2)", "math.sqrt(n)", "math.log(n)",
        "math.gcd(n, 12)", "math.floor(n / 2)", "int(n / 2)", "float(n)", "bool(n)", "complex(n, 1)",
        "n / (n - 5)", "math.sqrt(n - 6)", "math.exp(n * 150)", "5 % (n - 6)", "n ** -1", "abs(-n)",
        "n == 6.0", "type(n / 1)", "isinstance(n, bool)", "min(n, 6)", "1.0 * n ** 90", "str(n)",
        "[0, 1, 2, 3, 4, 5, 6, 7][n]", "n is None", "n and n / 5", "sum([n, n, n])",
    ],
)  # fmt: skip
def test_expressions_of_an_int(expression):
    scope = {"math": math}
    exec(f"def step(x, n):\n    y = {expression}\n    return x + n, y", scope)
    pure(scope["step"], [(eager.ones(2), n) for n in (5, 6, 7, 5, 4)])


def test_an_int_beyond_64_bits_in_a_tensor_operation():
    def step(x, n):
        return x + n, n + 1

    def fill(x, n):
        return eager.full((2,), n)

    for fn in (step, fill):
        pure(fn, [(eager.ones(2), n) for n in (1, 2, 3, 10**30, 2**63, -(2**63), 4)])


def test_exceptions_of_numbers_at_a_later_call():
    def make():
        log = []

        def step(x, n, a):
            log.append("in")
            y = x * (1 / a)
            log.append(math.sqrt(n))
            return y

        return step, log

    calls = [(4, 2.0), (9, 0.5), (9, 0.0), (-1, 1.0), (16, 1.0)]
    compiled = alike(make, [(eager.ones(2), n, a) for n, a in calls])
    assert compiled.stats.discards == 0  # the entry misses before anything runs


def test_a_number_that_is_not_used_raises():
    def step(x, a):
        1 / a
        return x

    pure(step, [(eager.ones(1), 2.0), (eager.ones(1), 0.0), (eager.ones(1), 1.0)])


def test_an_exception_that_is_met_inside():
    def step(x, n):
        try:
            y = 10 // n
        except ZeroDivisionError as error:
            y = len(str(error))
        return x * y

    pure(step, [(eager.ones(1), n) for n in (5, 2, 0, 1, 0)])


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, float("nan"), float("inf"), -1e308, 5e-324])
def test_the_sign_of_zero_and_nan(value):
    def step(x, a):
        table = {0.0: "zero"}
        return x + a, a, -a, math.copysign(1.0, a), a or "none", table.get(a)

    pure(step, [(eager.ones(1), v) for v in (1.0, value, -value, value, 2.0)])


def test_equal_numbers_of_different_types():
    def step(x, values):
        return x, values, [type(v) for v in values], {**dict.fromkeys(values)}

    calls = [(1, 2), (True, 2), (1.0, 2), (1, 2), (0.0, 2), (-0.0, 2), (False, 2), (0, 2)]
    pure(step, [(eager.ones(1), c) for c in calls])


def test_numbers_of_numpy_stay_numpys():
    def step(x, a):
        return x * a, a * 2, a / 3, a > 1, abs(a), -a, a**2

    with np.errstate(all="ignore"):
        compiled = pure(step, [(eager.ones(2), np.float64(v)) for v in (2.0, 0.5, -0.0, 3.0)])
    assert compiled.stats.compiles == 1


def test_a_schedule_of_large_and_small_numbers_compiles_once():
    def step(x, a, b):
        return x * (a / b) - a**b, a * b

    compiled = pure(step, [(eager.ones(1), 1.5 + i, 0.5 + i) for i in range(5)])
    assert (compiled.stats.compiles, compiled.stats.splits) == (1, 0)


def test_a_long_sum_of_numbers():
    def step(x, a):
        total = 0.0
        for _ in range(3000):
            total = total + a
        return x * total, total

    pure(step, [(eager.ones(1), 0.1), (eager.ones(1), 0.7)])


# ---- numbers that only the graph knows


WHOLE = ["v ** 30", "v * 10 ** 20 + 1", "2 * v // 3", "v % 7", "-v", "abs(v)", "~v & 5 | 2 ^ v", "v / 3",
         "v << 3 >> 1", "v / v", "7 // v", "7 % v", "v ** -1", "float(v)", "v + 0.5", "v == 3", "1 << v % 90",
         "round(v)", "round(v / 7, 2)", "divmod(v, 5)", "v * True", "f'{v:5}'", "str(v + 1)", "2 ** (v % 90)",
         "(v, [v])", "math.sqrt(v)", "v * v * v * v", "max(v, 1)", "min(2, v, -v)", "max([v, v // 2])",
         "max(1, v, True)", "min(v, 0.5)", "7 // max(v, 1)", "max(2**70, v)"]  # fmt: skip
WHOLES = (3, 1, 0, -2, 40, 2**62, 3)


@pytest.mark.parametrize("expression", WHOLE)
def test_expressions_of_an_int_of_the_graph(expression):
    scope = {"math": math}
    exec(f"def step(x):\n    v = x.sum().item()\n    return {expression}, x + 1", scope)
    pure(scope["step"], [(eager.tensor([v]),) for v in WHOLES])


REAL = [
    "v * 2",
    "1 / v",
    "v // 0.5",
    "v % 2.5",
    "v ** 2",
    "v ** 0.5",
    "v ** -1",
    "0.5 ** v",
    "-v",
    "math.sqrt(v)",
    "math.log(v)",
    "math.exp(v)",
    "math.sin(v)",
    "math.acos(v)",
    "math.tanh(v)",
    "math.log1p(v)",
    "math.cosh(v)",
    "math.floor(v)",
    "int(v)",
    "round(v)",
    "round(v, 2)",
    "abs(v)",
    "v > 1",
    "v != v",
    "f'{v:.3f}'",
    "complex(v)",
    "math.isnan(v)",
    "(v + 1) * (v - 1)",
    "v or 1",
    "max(v, 1.0)",
    "max(1.0, v)",
    "min((v, 0.0, -v))",
    "max(v, 0)",
    "min(v, 2.0, key=abs)",
    "1 / max(v, 0.5)",
    "math.log(max(v, 1e-9))",
]
REALS = (0.5, 2.0, 0.0, -0.0, -1.5, 1e308, float("inf"), float("nan"), 800.0, 0.25)


@pytest.mark.parametrize("expression", REAL)
def test_expressions_of_a_float_of_the_graph(expression):
    scope = {"math": math}
    exec(f"def step(x):\n    v = x.sum().item()\n    return {expression}, x + 1", scope)
    pure(scope["step"], tensors(*REALS))


@pytest.mark.parametrize("backend", ["eager", "python", "cpp"])
def test_numbers_of_the_graph_go_back_into_it(backend):
    def step(x, i):
        v, n = x.sum().item(), i.sum().item()
        y = x * (v / 3 + n * n - n // 2) + (n % 5)
        return y + math.sqrt(abs(v)), x - (n << 2), (v > 0) * x

    calls = [(2.0, 7), (0.5, -3), (-4.0, 0), (1.0, 2**31), (1.0, 2**40), (1.0, 2**62)]
    calls = [(eager.tensor([v], dtype=eager.float64), eager.tensor([n])) for v, n in calls]
    pure(step, calls, backend)


@pytest.mark.parametrize("backend", ["eager", "python", "cpp"])
def test_extremes_of_numbers_are_in_the_graph(backend, recwarn):
    """`best = min(best, loss)`, `sum / max(1, count)`."""
    best = [math.inf]

    @jit(backend=backend)
    def step(x):
        count, mean = int((x > 0).sum()), x.mean().item()
        best[0] = min(best[0], mean)
        shown = [max(v.item() for v in x.unbind()), max([mean, 0.25])]
        return x.sum() / max(1, count), x * best[0] + min(1.0, mean, 0.5), shown, min(3, count)

    def plain(x, least):
        mean = x.mean().item()
        count, least = int((x > 0).sum()), min(least, mean)
        results = x.sum() / max(1, count), x * least + min(1.0, mean, 0.5)
        return *results, [max(x.tolist()), max(mean, 0.25)], min(3, count)

    least = math.inf
    for values in ([1.0, 2.0], [-1.0, -3.0], [0.5, math.nan], [math.nan, 0.5], [4.0, 8.0]):
        x = eager.tensor(values)
        expected, found = plain(x, least), step(x)
        least = min(least, x.mean().item())
        assert repr(found) == repr(expected)
        assert repr(best[0]) == repr(least)
    assert step.stats.compiles == step.stats.graphs == 1 and not step.stats.splits


@pytest.mark.parametrize("backend", ["eager", "python"])
@pytest.mark.parametrize(
    ("expression", "bad"),
    [
        ("1 / v", 0.0), ("5 % v", 0.0), ("7 // v", 0.0), ("math.sqrt(v)", -1.0), ("math.log(v)", 0.0),
        ("math.exp(v)", 1000.0), ("int(v)", float("inf")), ("int(v)", float("nan")),
        ("v ** 2", 1e200), ("math.acos(v)", 2.0), ("math.sin(v)", float("inf")), ("v ** -1", 0.0),
        ("round(v)", float("nan")), ("math.cosh(v)", 1e3), ("math.floor(v)", float("-inf")),
    ],
)  # fmt: skip
def test_what_python_raises_leaves_no_half_step(expression, bad, backend):
    fails_at(expression, bad, backend)


@pytest.mark.parametrize(
    ("expression", "bad"), [("1 / v", 0.0), ("v ** 2", 1e200), ("int(v)", float("inf"))]
)
def test_no_half_step_in_cpp(expression, bad):
    fails_at(expression, bad, "cpp")


def fails_at(expression, bad, backend):
    """A step that raises in the middle of its effects at the second of three calls."""

    def make():
        p, log = eager.ones(2), []
        lines = [
            "def step(x):",
            "    p.add_(1)",
            "    log.append(1)",
            "    v = x.sum().item()",
            f"    y = {expression}",
            "    p.mul_(2)",
            "    log.append(2)",
            "    return y",
        ]
        exec("\n".join(lines), scope := {"math": math, "p": p, "log": log})
        return scope["step"], (p, log)

    compiled = alike(make, tensors(0.5, bad, 1.0), backend)
    assert (compiled.stats.discards, compiled.stats.splits) == (1, 0)


def test_ints_of_the_graph_overflow():
    def make():
        p = eager.zeros(2, dtype=eager.float64)

        def step(i):
            p.add_(1)
            n = i.sum().item()
            p.add_(n * n)
            return n * n

        return step, p

    compiled = alike(make, [(eager.tensor([v]),) for v in (3, 2**40, 5)])
    assert compiled.stats.discards == 1


def test_constants_of_the_program_are_known():
    def step(x):
        n = eager.tensor([3, 4]).sum().item()
        return x * n if n != 7 else x + n // 2

    compiled = pure(step, [(eager.ones(2),)] * 2)
    assert compiled.stats.splits == 0


# ---- text and exceptions


def test_the_text_of_an_exception_with_numbers():
    class Bad(ValueError):
        pass

    def make():
        log = []

        def step(x, n, a):
            try:
                raise Bad(n, a * 2)
            except Bad as error:
                log.append(str(error))
                log.append(f"{error} {error!r}")
                log.append(error.args)
            try:
                raise KeyError(x.sum().item())
            except KeyError as error:
                log.append(str(error))
            return x

        return step, log

    alike(make, [(eager.ones(2), n, n / 3) for n in (2, 3, 5, 10**25)])


def test_an_exception_that_escapes_says_the_number():
    def step(x, n):
        if n > 3:
            raise ValueError(n)
        return x + n

    pure(step, [(eager.ones(1), n) for n in (1, 2, 3, 4, 5, 1)])


# ---- draws


@pytest.mark.parametrize("backend", ["eager", "python"])
def test_draws_of_a_run_that_is_given_up(backend):
    def make():
        chance, arrays = random.Random(5), np.random.RandomState(3)
        modern, log = np.random.default_rng(2), []

        def step(x):
            a, b, c = chance.random(), arrays.uniform(), modern.normal()
            log.append((a, b, c))
            y = 1 / x.sum().item()
            return x * a + b * c + y

        return step, log

    compiled = alike(make, tensors(1.0, 0.0, 2.0, 0.0, 1.0), backend)
    assert compiled.stats.discards == 2


def test_arithmetic_on_draws():
    def make():
        chance = random.Random(1)

        def step(x):
            n = chance.randint(1, 6)
            return x + n, n**40, n / 7, f"{n}"

        return step, chance

    plain, expected = make()[0], []
    compiled = eager_jit(make()[0])
    for _ in range(5):
        expected.append(exact(plain(eager.ones(1))))
        assert exact(compiled(eager.ones(1))) == expected[-1]


def test_a_schedule_in_an_array_is_read_at_each_call():
    """Under an int that varies; who writes the array's memory finds what Python finds."""
    schedule = np.linspace(0, 1, 5)

    def read(x, i, t):
        return x * schedule[i], type(schedule[i]) is np.float64

    def written(x, i, t):
        t.add_(1)
        return x * schedule[i], i

    compiled = jit(read, backend="eager"), jit(written, backend="eager")
    for i in (0, 1, 2, 3):
        for fn, plain in zip(compiled, (read, written), strict=True):
            found = []
            for each in (fn, plain):
                schedule[:] = np.linspace(0, 1, 5) * (i + 1)
                memory = eager.from_numpy(schedule) if i != 1 else eager.zeros(5)
                found.append(each(eager.ones(2), i, memory))
            assert found[0][0].tolist() == found[1][0].tolist() and found[0][1] == found[1][1]
    assert compiled[0].stats.splits == 0 and compiled[0].stats.compiles <= 3
