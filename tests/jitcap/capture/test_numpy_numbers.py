"""NumPy's numbers beside what is no number: it makes arrays of that, or asks classes of the program in
its own way. Operands of which one is derived from a builtin number are asked in Python's order."""

import math
import operator
from fractions import Fraction

import numpy as np
import pytest

import eager
from jitcap import jit


@pytest.mark.parametrize("other", [[1, 2.5], [], (2,), range(3), "ab", b"ab", 1j, None, 2, 2.0])
def test_equality_is_numpys(other):
    given = [np.float64(2), other]

    def step(x):
        a, b = given
        return x + 1, a == b, b == a, a != b, b != a

    compiled, x = jit(step, backend="eager"), eager.ones(2)
    assert repr(compiled(x)[1:]) == repr(step(x)[1:])


class Reflected:
    def __init__(self, k):
        self.k = k

    def __rmul__(self, other):
        return "rmul", self.k, type(other).__name__

    __rand__ = __radd__ = __rmul__


class Universal(Reflected):
    def __array_ufunc__(self, ufunc, how, *given):
        return ufunc.__name__, how, len(given)


class NoUfunc(Reflected):
    __array_ufunc__ = None


class Array(Reflected):
    def __array__(self, dtype=None, copy=None):
        return np.array([self.k, 2.0])


class Converts:
    def __init__(self, k):
        self.k = k

    def __array__(self, dtype=None, copy=None):
        return np.array([self.k, 2.0])

    def __float__(self):
        return float(self.k)


class Asked(float):
    """All operators but those that are reflected are those of a float."""

    def __radd__(self, other):
        return "radd", type(other).__name__

    __rmul__ = __rmod__ = __rand__ = __radd__


class AskedInt(int):
    __radd__ = __rmul__ = __rmod__ = __rand__ = Asked.__radd__


def outcome(fn, *args):
    try:
        found = fn(*args)
    except Exception as error:
        return type(error).__name__, str(error)
    return type(found).__name__, repr(found)


OPERATORS = [operator.mul, operator.add, operator.and_, operator.mod, operator.eq, operator.lt]
NUMBERS = [
    np.float64, np.float32, np.int64, np.uint8, np.bool_, int, float, complex, bool, str, Fraction,
    lambda k: np.array([k, 1]), lambda k: [k, 1], lambda k: eager.ones(2) * k,
]  # fmt: skip


@pytest.mark.parametrize("cls", [Reflected, Universal, NoUfunc, Array, Converts, Asked, AskedInt])
@pytest.mark.parametrize("number", NUMBERS, ids=range(len(NUMBERS)))
@pytest.mark.filterwarnings("ignore:@jit")
def test_operands_of_the_program(cls, number):
    for op in OPERATORS:
        compiled = jit(lambda a, b, op=op: op(a, b), backend="eager")
        for k in (1, 2, 3):
            for a, b in ((number(k), cls(k)), (cls(k), number(k))):
                assert outcome(compiled, a, b) == outcome(op, a, b), op
        assert not [text for text in compiled.stats.refusals if text.startswith("internal")]


@pytest.mark.filterwarnings("ignore:@jit")
def test_elements_of_lists_are_compared_by_numpy():
    compiled = jit(lambda a, b: ([a] == [b], {"k": a} == {"k": b}), backend="eager")
    for a in (np.float64(1), np.float64(2), np.int64(3)):
        for b in (a + 0, [a], Universal(1), NoUfunc(2)):
            assert outcome(compiled, a, b) == outcome(compiled.original, a, b)


CALLS = {
    "array": lambda k: np.array(OUTSIDE[k]).dtype,
    "sum": lambda k: np.sum(OUTSIDE[k]),
    "ufunc": lambda k: np.sqrt(OUTSIDE[k]),
    "list": lambda k: np.float64(k) * OUTSIDE[k],
    "compared": lambda k: np.complex64(k) > (k, 1),
    "method": lambda k: (np.uint8(200).__add__(float(k)), np.int64(2).__eq__(OUTSIDE[k])),
    "hypot": lambda k: (math.hypot(Converts(k), OUTSIDE[k][0]), math.hypot(Fraction(k, 3), k / 2)),
    "key": lambda k: {Fraction(k, 3): k},
}
OUTSIDE = {k: [k + 0.5, 1.5] for k in range(4)}


@pytest.mark.parametrize("name", CALLS)
def test_numpy_is_given_the_values_of_numbers_from_outside(name):
    program = CALLS[name]
    compiled = jit(program, backend="eager")
    for k in (1, 2, 3):
        assert outcome(compiled, k) == outcome(program, k)
    assert not compiled.stats.splits


def _counts(kind):
    """A counter of NumPy's, that the program replaces; beside numbers of Python and the graph's."""
    count = kind(0)

    def step(x):
        nonlocal count
        count += kind(1)
        mean = x.sum().item() / np.int64(count)
        told = f"{count}", repr(count), count.dtype.name, count.item(), type(count / 2), mean
        return x * count + eager.tensor([count, 1]), count > 3, count % 3, x[int(count) % 2], told

    return step


def _schedules(kind):
    """What programs make of the number of a step, an epoch, a rate."""
    start = kind(1)

    def step(x, n=None):
        t = start if n is None else n
        rate = 0.5 * (1 + np.cos(np.pi * t / 20)) + np.exp(-t) + np.clip(t, 1, 3)
        rate += np.interp(t, [0, 10], [0, 1.0]) + np.max([t, 2.5]) + np.round(t / 3, 1)
        return x * rate, np.sqrt(t), np.float32(t), np.int64(t), x * np.minimum(t, 3), np.isnan(t)

    return step


KINDS = {
    _counts: [np.int64, np.int32, np.uint8, np.float32, np.float16, np.float64],
    _schedules: [np.int64, np.float32, np.float64, int, float],
}


@pytest.mark.parametrize(("program", "kind"), [(p, k) for p in KINDS for k in KINDS[p]])
def test_numbers_that_vary_are_compiled_for_once(program, kind):
    plain, compiled = program(kind), jit(program(kind), backend="eager")
    for k in range(1, 9):
        given = (eager.tensor([0.5, k]), *(() if program is _counts else (kind(k),)))
        expected, got = plain(*given), compiled(*given)
        assert repr(got[1:]) == repr(expected[1:])
        assert got[0].dtype is expected[0].dtype
        eager.testing.assert_close(got[0], expected[0])
    assert (compiled.stats.splits, compiled.stats.fallbacks) == (0, 0)
    assert compiled.stats.compiles <= 3  # `count > 3` is another way


@pytest.mark.parametrize("value", [b"ab", "ab", None, Converts(1)])
def test_text_of_bytes(value):
    def program():
        return str(value, "ascii")

    assert outcome(jit(program, backend="eager")) == outcome(program)


def _sliced(i, step=1):
    a, b = DATA[i : i + 3], DATA[: i + 1 : step]
    last = eager.from_numpy(DATA[i : i + 2]) * 2, PERMUTED[i : i + 3]
    return eager.tensor(a).sum(), eager.from_numpy(b).sum(), a.shape, last


def _rows(i):
    return ROWS[PERMUTED[i : i + 3]].sum(0), DATA[i] * ROWS[0]


DATA, PERMUTED = np.arange(20.0), np.random.default_rng(0).permutation(20)
ROWS = eager.arange(40.0).reshape(20, 2)


@pytest.mark.parametrize("program", [_sliced, _rows])
def test_arrays_are_sliced_at_numbers_that_vary(program):
    """A row of batches, and what other calls have written since."""
    compiled = jit(program, backend="eager")
    for i in (0, 4, 3, 9, 5, 2, 17):
        DATA[i + 1] += 100
        assert outcome(compiled, i) == outcome(program, i)
    assert (compiled.stats.splits, compiled.stats.fallbacks) == (0, 0)
    assert compiled.stats.compiles <= 5  # also for the shapes at the end
