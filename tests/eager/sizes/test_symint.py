"""Sizes as polynomials of symbols: arithmetic is Python's, what is known holds, guards say the rest."""

import math
import operator
import random

import pytest

import eager
from eager.core.op import REGISTRY
from eager.sizes.aval import Aval
from eager.sizes.polynomial import Scope, remembered
from eager.sizes.symint import Fixing, SymInt, bounds, evaluate, known_eq, known_le, known_lt
from jitcap.graph.symbols import Sizes, holds

pytestmark = pytest.mark.once

NAMES = ("n", "m", "k")


def scope_of(rng=None):
    """A scope with three symbols, and these."""
    scope = Sizes()
    symbols = []
    for name in NAMES:
        lo = rng.choice([0, 1, 2, 2, 5]) if rng else 2
        hi = rng.choice([math.inf, lo + rng.randrange(40)]) if rng else math.inf
        now = lo + rng.randrange(1 + min(30, hi - lo)) if rng else 32
        symbols.append(scope.symbol(name, now, lo, hi))
    return scope, symbols


def polynomial(rng, symbols, depth=3):
    """A random size."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([*symbols, *symbols, rng.randrange(-3, 70)])
    x = polynomial(rng, symbols, depth - 1)
    y = polynomial(rng, symbols, depth - 1)
    kind = rng.choice(["add", "sub", "mul", "mul", "floordiv", "mod", "by", "by"])
    if kind == "by":
        return rng.choice([operator.floordiv, operator.mod, operator.mul])(x, rng.randrange(1, 9))
    if kind in ("floordiv", "mod") and (rng.random() < 0.7 or y == 0):
        y = rng.choice(symbols) + rng.randrange(1, 5)
    return getattr(operator, kind)(x, y)


def samples(rng, symbols, count=40):
    """Values within the symbols' first ranges."""
    ranges = [(int(bounds(s)[0]), bounds(s)[1]) for s in symbols]
    return [
        {
            name: lo + rng.randrange(1 + int(min(60, hi - lo)))
            for name, (lo, hi) in zip(NAMES, ranges, strict=True)
        }
        for _ in range(count)
    ]


def kept(scope, values):
    return all(holds(relation, size, values) == held for relation, size, held in scope.guards)


@pytest.mark.parametrize("seed", range(150))
def test_arithmetic_is_pythons(seed):
    """Every operation at every value of the symbols, where the guards so far hold."""
    rng = random.Random(seed)
    scope, symbols = scope_of(rng)
    trials = samples(rng, symbols)
    x, y = polynomial(rng, symbols), polynomial(rng, symbols)
    d = rng.choice([rng.randrange(1, 12), rng.choice(symbols) + 1, symbols[0] * symbols[1] + 1])
    found = {
        "+": (x + y, lambda a, b, _: a + b),
        "-": (x - y, lambda a, b, _: a - b),
        "*": (x * y, lambda a, b, _: a * b),
        "//": (x // d, lambda a, _, c: a // c),
        "%": (x % d, lambda a, _, c: a % c),
        "ceil": (-(-x // d), lambda a, _, c: -(-a // c)),
    }
    for values in trials:
        if kept(scope, values):
            plain = (evaluate(x, values), evaluate(y, values), evaluate(d, values))
            for name, (size, rule) in found.items():
                assert evaluate(size, values) == rule(*plain), (name, x, y, d, values)


@pytest.mark.parametrize("seed", range(150))
def test_what_is_known_holds(seed):
    """Ranges and answers that need no guard, at every value."""
    rng = random.Random(seed)
    scope, symbols = scope_of(rng)
    trials = samples(rng, symbols)
    x, y = polynomial(rng, symbols), polynomial(rng, symbols, 2)
    trials = [v for v in trials if kept(scope, v)]
    before = len(scope.guards)
    (lo, hi), eq, le, lt = bounds(x), known_eq(x, y), known_le(x, y), known_lt(x, y)
    assert len(scope.guards) == before, "a question asked for a guard"
    for values in trials:
        a, b = evaluate(x, values), evaluate(y, values)
        assert lo <= a <= hi, (x, values)
        assert eq in (None, a == b), (x, y, values)
        assert le in (None, a <= b), (x, y, values)
        assert lt in (None, a < b), (x, y, values)


@pytest.mark.parametrize("seed", range(150))
def test_guards_imply_what_was_answered(seed):
    """Wherever all guards hold, comparisons come out as they did; elsewhere a guard says so."""
    rng = random.Random(seed)
    scope, symbols = scope_of(rng)
    trials = samples(rng, symbols, 150)
    answers = []
    for _ in range(6):
        x, y = polynomial(rng, symbols, 2), polynomial(rng, symbols, 2)
        for fn in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
            answers.append((fn, x, y, fn(x, y)))
    now = {name: s.hint for name, s in scope.symbols.items()}
    assert kept(scope, now)
    for values in [now, *trials]:
        if kept(scope, values):
            for fn, x, y, answer in answers:
                assert fn(evaluate(x, values), evaluate(y, values)) == answer, (fn, x, y, values)


@pytest.mark.parametrize("seed", range(40))
def test_text_is_python(seed):
    """What prints evaluates to the same."""
    rng = random.Random(seed)
    _, symbols = scope_of(rng)
    x = polynomial(rng, symbols)
    for values in samples(rng, symbols, 10):
        assert eval(repr(x), {}, values) == evaluate(x, values)


def test_normal_form():
    """Equal sizes are equal, and what is constant is an int."""
    scope, (n, m, _) = scope_of()
    assert (n + 1) - 1 is not n
    equal = [
        ((n + 1) - 1, n),
        (n * 64 // 64, n),
        ((n * 64 + 63) // 64, n),
        (n * m, m * n),
        ((n + m) * (n - m), n * n - m * m),
        ((n + 5) // 2, (n + 1) // 2 + 2),
        (5 * n // 2, 2 * n + n // 2),
        (n * m // (2 * m), n // 2),
        (n // 2 // 2, n // 4),
        ((n // 2 + 1) // 3, (n + 2) // 6),
        (4 * n % 6, 2 * (2 * n % 3)),
        ((n - 1) // n, 0),
        (n * m * 64 // (m * 64), n),
        (-(-n // 2), (n + 1) // 2),
        (n // 2 * 2 + n % 2, n),
    ]
    for x, y in equal:
        assert known_eq(x, y), (x, y)
        assert x == y
    assert type(n - n) is int
    assert type(n * 4 % 4) is int
    assert not scope.guards


def test_nothing_divided_by_what_may_be_negative():
    scope = Sizes()
    part = scope.symbol("n", 32, 2) // 2 - 3
    assert (part % part, 3 * part % part, (0 * part) // part) == (0, 0, 0)


def test_known_without_a_guard():
    """What shapes of convolutions, pooling, slices, pads and reshapes ask."""
    scope, (n, m, _) = scope_of()
    out = (n + 2 - 3) // 2 + 1  # of a window of 3, padding 1, stride 2
    true = [
        out >= 1,
        (out - 1) * 2 + 3 <= n + 2,
        out <= n,
        n // 2 <= n,
        n - n // 2 >= 0,
        n % m < m,
        n % m <= n,
        n // m * m <= n,
        n * m >= 4,
        n * m + n > m,
        n != 1,
        2 * n != 2 * m + 1,
        (n + m) * 64 % 64 == 0,
        -(-n // m) >= 1,
        max(n, 1) is n,
        min(n - 1, n) == n - 1,
    ]
    assert all(true)
    assert not scope.guards


def test_guards_are_the_simplest():
    """One guard for one question, as a person would ask it; what follows needs none."""
    scope, (n, m, k) = scope_of()
    assert n * k * 64 == m * k * 64
    assert n == m
    assert m + 1 == n + 1
    assert n // 8 * 8 == n
    assert n % 8 == 0
    assert n * m >= 32 * m
    assert n >= 30
    assert [(r, str(s), held) for r, s, held in scope.guards] == [
        ("==", "m - n", True),
        ("==", "(n%8)", True),
        (">=", "n - 32", True),
    ]


def test_needing_the_int_fixes_it():
    """`range`, an index and int() make a guard, once."""
    scope = Fixing()
    n = scope.symbol("n", 4)
    assert list(range(n)) == [0, 1, 2, 3]
    assert [10, 20, 30, 40, 50][n] == 50
    assert int(n) == 4
    assert scope.guards == ["n - 4 == 0"]
    assert bounds(n) == (4, 4)


def test_division_by_zero_raises():
    scope, (n, _, _) = scope_of()
    with pytest.raises(ZeroDivisionError):
        n // 0
    with pytest.raises(ZeroDivisionError):
        n % (n - n)


def test_sizes_of_two_captures_are_not_equal():
    """A table of shapes may outlive a capture."""
    _, (n, _, _) = scope_of()
    _, (m, _, _) = scope_of()
    assert n != m
    assert {n: 1}.get(m) is None


def test_what_is_no_size_is_refused_or_a_number():
    """Operators with other values go to run-time numbers; unknown types are Python's TypeError."""
    scope = Fixing()
    n = scope.symbol("n", 6)
    assert n / 4 == 1.5
    assert n * 0.5 == 3.0
    with pytest.raises(TypeError):
        n + "a"
    assert (n == "a") is False
    assert isinstance(n, SymInt)


def test_products_of_halves_are_positive():
    """Though of `h - h % 2` times `w`, which is simpler, less is known."""
    scope = Fixing()
    h, w = scope.symbol("h", 8), scope.symbol("w", 9)
    assert known_lt(0, 4 * (h // 2) * w)
    assert known_lt(0, 4 * (h // 2) * (w // 2))


def test_answers_about_known_sizes_are_kept_whatever_varies():
    asked = []

    @remembered
    def rule(shape, aval, n):
        asked.append((shape, aval, n))
        return shape, aval.shape, n

    symbol = Scope().symbol("s0", 5)
    known, open_ = Aval((2, 3), eager.float32), Aval((symbol, 3), eager.float32)
    for _ in range(2):
        assert rule((2, 3), known, 1) == ((2, 3), (2, 3), 1)
        rule((symbol, 3), known, 1)
        rule((2, 3), open_, 1)
        rule((2, 3), known, symbol)
    assert len(asked) == 1 + 3 * 2
    broadcast = REGISTRY["add"].abstract
    assert broadcast((known, known), {}) is broadcast((known, known), {})
