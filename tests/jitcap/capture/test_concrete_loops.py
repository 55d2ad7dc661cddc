"""Loops over plain numbers, which run at once: that what comes out is Python's, and that they do."""

from types import SimpleNamespace

import pytest

import eager
from jitcap import jit
from jitcap.capture.control import concrete_loops
from jitcap.capture.interpret import Interpreter

ROUNDS = 10 * concrete_loops.TURNS


def leaves(x, n):
    t = 0
    for i in range(n):
        if i > 300:
            break
        t += i
    return x + t, i


def nested(x, n):
    t = 0
    for i in range(n):
        for j in range(i % 7):
            if j == 3:
                continue
            t = (t * 3 + j) % 1009
    return x + t, (i, j)


def leaves_both(x, n):
    t = 0
    for i in range(n):
        k = i
        while k > 0:
            k -= 3
            t += 1
            if t > 700:
                break
        else:
            continue
        break
    return x + t, (i, k)


def raises(x, n):
    t = 0
    for i in range(n):
        try:
            t += 100 // (i - 500)
        except ZeroDivisionError:
            t += 7777
    return x + t, t


def raises_out(x, n):
    t = 0
    for i in range(n):
        t += 100 // (i - 500)
    return x + t, t


def iterator_is_shared(x, n):
    numbers, t = iter(range(n)), 0
    for i in numbers:
        if i == 500:
            break
        t += i
    return x + t, next(numbers, None)


def swaps(x, n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, (a + b) % 10007
    return x + a, b


def builtins(x, n):
    t = 0
    for i in range(n):
        t = max(min(t + i, 10**6) - abs(3 - i), 0) % 100003
        t += int(float(t) // 3) + round(t / 7) + len("ab") + pow(t, 2, 11)
    return x + t, t


def calls_another(x, n):
    found, t = [], 0
    for i in range(n):
        t += i
        if i % 100 == 0:
            found.append(t)
    return x + sum(found), found


def texts(x, n):
    s = ""
    for i in range(n):
        s = s + "ab" if i % 2 else s + "c"
        if len(s) > 50:
            s = s[3:]
    return x + len(s), s


def tensors_between(x, n):
    h = x
    for i in range(n):
        if i % 300 == 0:
            h = h * 2 + i
    return h, i


def none_at_first(x, n):
    last, c = None, 0
    for i in range(n):
        if last is None or i - last > 10:
            last, c = i, c + 1
    return x + c, last


def forever(x, n):
    i, t = 0, 0.5
    while True:
        i += 1
        t = t * 1.0000001 + i
        if i >= n:
            break
        if not i % 3:
            continue
        t -= 1
    return x + t, t


def bound_late(x, n):
    for i in range(n):
        if i == n - 1:
            z = i
    return x + z, z


def returns(x, n):
    t = 0
    for i in range(n):
        t += i
        if t > 5000:
            return x + t, i
    return x, n


def yields(x, n):
    def numbers():
        t = 0
        for i in range(n):
            t = t * 2 % 1013 + i
            if i % 100 == 0:
                yield t

    return x + sum(numbers()), n


def chooses(x, n):
    t = 0
    for i in range(n):
        t += (i if i % 2 else -i) * (3 if t > 0 and i else 5) % 17
    return x + t, t


def another_type(x, n):
    t = 0
    for i in range(n):
        t = (1, 2) if i == 400 else i
    return x + t, t


def same_object(x, n):
    a = 10**20
    b = a
    for i in range(n):
        b = b if i % 2 else a
    return x + (a is b), b


def local_of_another(x, n):
    t = 0

    def add(k):
        nonlocal t
        t += k

    for i in range(n // 4):
        add(i)
    return x + t, t


BOUND = eager.tensor(3000.0)


def branches(x, n):
    t = c = 0
    for i in range(n // 8):
        c += i
        if BOUND > c:
            t += 1
        else:
            t += i % 5
    return x + t, (c, i)


PROGRAMS = [
    leaves, nested, leaves_both, raises, raises_out, iterator_is_shared, swaps, builtins,
    calls_another, texts, tensors_between, none_at_first, forever, bound_late, returns, yields,
    chooses, another_type, same_object, local_of_another, branches,
]  # fmt: skip


def answer(fn, x, n):
    try:
        t, more = fn(x, n)
    except (ZeroDivisionError, UnboundLocalError) as error:
        return repr(error)
    return t.tolist(), repr(more)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_what_a_loop_leaves_is_pythons(fn):
    x = eager.ones(2, dtype=eager.float64)
    for n in (ROUNDS, ROUNDS + 1, 3):
        assert answer(jit(fn, backend="eager"), x, n) == answer(fn, x, n)


def rounds(x, n):
    t = 1
    for i in range(n):
        t = (t * 31 + abs(i)) % 1000003
    while t > 100:
        t -= 1
    return x + t


def test_a_hundred_thousand_rounds_are_not_interpreted(monkeypatch):
    steps, real = [], Interpreter.step
    monkeypatch.setattr(Interpreter, "step", lambda *a: (steps.append(0), real(*a))[1])
    x = eager.ones(2)
    step = jit(rounds, fullgraph=True, backend="eager")
    assert step(x, 100_000).tolist() == rounds(x, 100_000).tolist()
    assert len(steps) < 100 * concrete_loops.TURNS


def _each(n):
    for i in range(n):
        yield i


def _again(n):
    yield from _each(n)


def delegates(x, n):
    return x + sum(list(_again(n)))


def asks_an_attribute(x, n):
    counts = SimpleNamespace(done=0)
    while counts.done < n:
        counts.done += 1
    return x + counts.done


def asks_a_cell(x, n):
    t = 0

    def shown():
        return t

    while t < n:
        t += 1
    return x + shown()


@pytest.mark.parametrize("fn", [delegates, asks_an_attribute, asks_a_cell])
def test_a_loop_that_begins_in_another_way_is_interpreted(fn):
    step = jit(fn, fullgraph=True, backend="eager")
    assert step(eager.ones(2), ROUNDS).tolist() == fn(eager.ones(2), ROUNDS).tolist()


def test_a_builtin_that_a_loop_calls_is_guarded(monkeypatch):
    x = eager.ones(2)
    step = jit(rounds, backend="eager")
    assert step(x, ROUNDS).tolist() == rounds(x, ROUNDS).tolist()
    monkeypatch.setitem(rounds.__globals__, "abs", lambda i: i + 1)
    assert step(x, ROUNDS).tolist() == rounds(x, ROUNDS).tolist()
    assert step.stats.compiles == 2
    assert "abs" in str(step.stats.recompiles[0])
