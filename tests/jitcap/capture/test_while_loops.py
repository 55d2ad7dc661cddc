"""`while` on a value of the run: which become one node, and that all answer as Python does."""

from types import SimpleNamespace

import pytest

import eager
from jitcap import explain, jit

pytestmark = pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")


def plain(x):
    while x.sum() < 50:
        x = x * 1.5
    return x


def counts(x):
    n = 0
    while n < 6 and x.sum() < 50:
        x, n = x * 1.5, n + 1
    return x, n


def until_done(x):
    done = False
    while not done:
        x = x * 1.5
        done = x.sum() > 50
    return x + 1


def left_in_the_middle(x):
    while True:
        x = x * 1.5
        if x.sum() > 50:
            break
        x = x + 1
    return x


def left_at_the_end(x):
    for i in range(2):
        while x.sum() < 50 * (i + 1):
            x = x * 1.5
            if x[0] > 30:
                break
        x = x / 2
    return x


def a_branch_inside(x):
    y = x * 0
    while x.sum() < 50:
        x = x * 1.5 if x[0] > 2 else x + 1
        y = y + x
    return x, y


def nested(x):
    n = eager.tensor(0)
    while n < 4:
        while x.sum() < 10 * n:
            x = x * 1.5
        n = n + 1
    return x, n


def two_rounds_back(x):
    state = (x, x + 1)
    while (total := state[0].sum()) < 50:
        state = (state[0] * 1.5, state[0])
    return *state, total


def another_kind_at_first(x):
    n = eager.tensor(0)
    while n < 3:
        n = n + 1.5
    return n


def an_index(x):
    i = 0
    while i < 3 and x[i] < 3:
        i += 1
    return i


def large_numbers(x):
    n = 1
    while x.sum() < 90:
        x, n = x + 1, n * 1_000_003
    return n


def either_of_two(x):
    while x.sum() < 50 or (x[0] < 9 and not x[1] > 60):
        x = x * 1.5
    return x


def goes_on_early(x):
    rounds = 0
    while x.sum() < 50:
        rounds += 1
        if x[0] > 4:
            x = x * 2
            continue
        x = x * 1.5
    return x, rounds


def writes_in_place(x):
    x, c, n = x * 1, eager.zeros(4), eager.tensor(0)
    while x.sum() < 50:
        x *= 1.5
        c[n % 4] += x.sum()
        n += 1
    return x, c, n, x._version, c._version


def writes_an_input(x):
    while x.sum() < 50:
        x *= 1.5
    return x.sum()


def fills_a_buffer(x):
    found, n, token = eager.zeros(8, dtype=eager.int64), 0, eager.tensor(1)
    while n < 8 and token != 3:
        token = (token * 7 + n + x[0].long()) % 5
        found[n] = token
        n += 1
    return found, n


def keeps_the_best(x):
    state = SimpleNamespace(best=eager.tensor(1e9), bad=0)
    w, kept = x * 1, x * 0
    while state.bad < 3:
        loss = ((w - 1) ** 2).sum()
        if loss < state.best - 1e-2:
            state.best, state.bad = loss, 0
            kept.copy_(w)
        else:
            state.bad += 1
        w -= 0.6 * (w - 1)
    return kept, state.best, state.bad, kept._version


def steps_as_large_as_it_can(x):
    """Adaptive steps of an ODE."""
    t, h, y, steps = eager.tensor(0.0), eager.tensor(0.1), x, 0
    while t < 1.0 and steps < 90:
        first = -y
        second = -(y + h * first)
        if ((second - first) * h / 2).abs().max() < 1e-2:
            y, t, h = y + h * (first + second) / 2, t + h, h * 1.5
        else:
            h = h * 0.5
        h = eager.minimum(h, 1.0 - t) if t < 1.0 else h
        steps += 1
    return y, steps


def nested_with_a_for(x):
    total = x * 0
    while x.sum() < 60:
        y = x
        while y.max() > 2:
            y = y / 2
            total += y
        for i in range(3):
            x = x + y[i].abs() + 0.1
    return x, total


def a_list_by_turns(x):
    pair = [x * 1, x + 1]
    while pair[0].sum() < 50:
        pair[0], pair[1] = pair[1] * 1, pair[0] * 1.5 + 1
    return pair[0], pair[1]


def a_variable_of_a_closure(x):
    n = eager.tensor(0)

    def grown(v):
        nonlocal n
        n = n + 1
        return v * 1.5

    while x.sum() < 50:
        x = grown(x)
    return x, n


def returns_inside(x):
    while x.sum() < 50:
        x = x * 1.5
        if x[0] > 20:
            return x * 2
    return x


def the_condition_is_met_at_first(x):
    n = eager.tensor(0)
    while not (x > 20).any() or n < 2:
        x, n = x * 1.5, n + 1
        if n > 50:
            raise ValueError
    return x, n


# ---- a `for` that data may end


def for_left(x):
    for i in range(40):
        x = x * 1.1
        if x.sum() > 60:
            break
    return x, i


def for_else(x):
    for i in range(3, 40, 2):  # noqa: B007
        x = x + i
        if x.sum() > 600:
            break
    else:
        x = x - 1
    return x


def for_returns(x):
    for i in range(40, 3, -1):
        x = x * 1.1 + i
        if x.sum() > 500:
            return x * 2, i
    return x, -1


def for_together(x):
    for k, (i, j) in enumerate(zip(range(40), range(100, 0, -1), strict=False), 5):
        x = x * 1.1 + i - j * 0.1
        if x[k % 3] > 20:
            break
    return x, i, j, k


def for_left_in_three_places(x):
    for i in range(40):
        x = x * 1.2
        if x[0] > 20:
            y = x * 2
            break
        if x[1] > 25:
            return x, i
    else:
        y = x
    return y, i


def for_goes_on(x):
    total = x * 0
    for i in range(40):
        if x[i % 3] < 0.15:
            continue
        total = total + x * i
        if total.sum() > 60:
            break
        x = x * 1.1
    return total, x


def for_in_for(x):
    n = 0
    for j in range(3):
        for i in range(30):
            x, n = x * 1.1, n + 1
            if x.sum() > 60 * (j + 1):
                break
    return x, n, i


def for_in_a_branch(x):
    n = 0
    for i in range(30):
        if x[0] < 5:
            x = x + 1
            if x.sum() > 20:
                break
        else:
            x, n = x * 0.9, n + i
    return x, n


def for_rows(x):
    total = x
    for row in eager.outer(eager.arange(40.0), x):
        total = total + row
        if total.sum() > 100:
            break
    return total


def for_listed(x):
    rows, total = [x * i for i in range(20)], 0
    for i, row in enumerate(reversed(rows)):
        total = total + row * i
        if total.sum() > 300:
            break
    return total, i


def for_fills(x):
    w = eager.zeros(40)
    for i in range(40):
        w[i] = x.sum()
        x = x * 1.1
        if x.sum() > 60:
            break
    return w, i


def for_changes_state(x):
    state, n = SimpleNamespace(x=x, k={"y": x}), 0

    def more():
        nonlocal n
        n += 1

    for _ in range(30):
        state.x = state.x * 1.1
        state.k["y"] = state.k["y"] + state.x
        more()
        if state.x.sum() > 40:
            break
    return state.x, state.k["y"], n


def for_as_often(x):
    for i in range(1, int(x.abs().sum()), 2):
        x = x * 1.01 + i
    return x


def for_as_often_nested(x):
    n = 0
    for _ in range(int(x.abs().max())):
        for _ in range(20):
            x, n = x * 1.01, n + 1
            if x[0] > 45:
                break
    return x, n


def for_ends_in_a_while(x):
    k = 0
    while x.sum() < 50 and k < 4:
        for i in range(20):  # noqa: B007
            x = x * 1.05 + 0.01
            if x[0] > 30:
                break
        k += 1
    return x, k


def for_converges(x):
    a = eager.outer(x, x) + eager.eye(3)
    u = x * 0 + 1
    for _ in range(100):
        v = 1 / (a.t() @ u + 1e-6)
        new = 1 / (a @ v + 1e-6)
        done = (new - u).abs().max() < 1e-3
        u = new
        if done:
            break
    return u, v


def bisects(x):
    low, high = x[0] * 0, x.abs().max() + 1
    while high - low > 1e-3:
        middle = (low + high) / 2
        if middle * middle < x.abs().sum():
            low = middle
        else:
            high = middle
        if high - low < 1e-2:
            break
    return low, high


def one_object_twice(x):
    a, b, n = x * 1, x * 2, 0
    while n < 3 and x.sum() < 1000:
        m = a + b
        if m.sum() > 10:
            a = b = m
        else:
            a = m
        n += 1
    a.add_(1)
    return a, b, a is b


def an_iterator_of_both(x):
    numbers = iter(range(30))
    for _ in numbers:
        x = x * 1.2
        if x.sum() > 60:
            break
    return x, list(numbers)


def an_index_of_a_list(x):
    names = [*"abcdefgh"]
    for i in range(8):
        x = x * 1.3
        if x.sum() > 30:
            break
    return names[i], f"{i:02d}"


def a_row_written(x):
    m = eager.outer(eager.arange(20.0), x)
    for row in m:
        if row.sum() > 30:
            break
    row.add_(100)
    return m


def a_row_of_one(x):
    rows = list(eager.outer(eager.arange(20.0), x))
    for row in rows:
        if row.sum() > 30:
            break
    return row is rows[0], row is rows[19]


ONE = [
    for_left, for_else, for_returns, for_together, for_left_in_three_places, for_goes_on,
    for_in_for, for_in_a_branch, for_rows, for_listed, for_fills, for_changes_state, for_as_often,
    for_as_often_nested, for_ends_in_a_while, for_converges, bisects,
    either_of_two, goes_on_early, writes_in_place, writes_an_input, fills_a_buffer, keeps_the_best,
    steps_as_large_as_it_can, nested_with_a_for, a_list_by_turns, a_variable_of_a_closure,
    returns_inside, the_condition_is_met_at_first,
    plain, counts, until_done, left_in_the_middle, left_at_the_end, a_branch_inside, nested,
    two_rounds_back, another_kind_at_first, an_index, large_numbers,
]  # fmt: skip


def writes_afterwards(x):
    y = x
    while x.sum() < 50:
        x = x * 1.5
    x.add_(1)
    return y, x


def writes_what_another_begins_as(x):
    y = x = x * 1
    while x.sum() < 50:
        x *= 1.5
        y = y + 1
    return x, y


def reads_what_it_writes(x):
    last, n, x = x[0] * 1, 0, x * 1
    while last < 20:
        row = x[n % 3]
        x[n % 3] = x[n % 3] * 2
        last, n = row + 0, n + 1
    return x, n, last


def another_entry(x):
    found = {"x": x}
    while found["x"].sum() < 50:
        found["x"] = found["x"] * 1.5
        found["sum"] = found["x"].sum()
    return [*found.values()]


def asks_who_it_is(x):
    y = x
    while x.sum() < 50:
        x = x * 1.5
    return x is y


def hands_another_on(x):
    y = x * 1
    while x.sum() < 50:
        x = x + 1
        if x[0] > 4:
            x = y
            y = y + 20
    x.add_(1)
    return x, y


def appends(x):
    found = []
    while x.sum() < 50:
        x = x * 1.5
        found.append(x)
    return found


def grows(x):
    while x.sum() < 50:
        x = eager.cat([x, x * 1.5])
    return x


def a_first_value_stays(x):
    while x.sum() < 50:
        last = x
        x = x * 1.5
    return last


OTHERS = [
    one_object_twice, an_iterator_of_both, an_index_of_a_list, a_row_written, a_row_of_one,
    writes_afterwards, writes_what_another_begins_as, reads_what_it_writes, another_entry, asks_who_it_is, hands_another_on, appends, grows,
    a_first_value_stays,
]  # fmt: skip
STARTS = ([1.0, 2.0, 3.0], [40.0, 20.0, 30.0], [0.1, 0.2, 5.0])


def answer(fn, start):
    x = eager.tensor(start)
    try:
        found = fn(x)
    except UnboundLocalError as error:
        return str(error)
    parts = found if isinstance(found, tuple | list) else [found]
    shown = [p.tolist() if isinstance(p, eager.Tensor) else p for p in parts]
    return type(found), shown, [p is x for p in parts], x.tolist()


@pytest.mark.parametrize("fn", [*ONE, *OTHERS], ids=lambda fn: fn.__name__)
def test_it_answers_as_python(fn):
    compiled = jit(fn, backend="eager")
    for start in STARTS:
        assert answer(compiled, start) == answer(fn, start)
    if fn in ONE:
        assert (compiled.stats.compiles, compiled.stats.splits) == (1, 0)


@pytest.mark.once
def test_compiled_code():
    def every(x):
        found = plain(x), *counts(x), left_at_the_end(x), *a_branch_inside(x), *nested(x)
        more = *goes_on_early(x), *fills_a_buffer(x), *keeps_the_best(x), *nested_with_a_for(x)
        return *found, *more, *steps_as_large_as_it_can(x), returns_inside(x)

    for backend in ("cpp", "python"):
        compiled = jit(every, fullgraph=True, backend=backend)
        for start in STARTS:
            pairs = zip(compiled(eager.tensor(start)), every(eager.tensor(start)), strict=True)
            for found, expected in pairs:
                assert eager.allclose(eager.as_tensor(found), eager.as_tensor(expected), rtol=1e-6)


def test_explain_says_so():
    notes = explain(plain)(eager.ones(3)).notes
    assert [note.partition(": ")[2] for note in notes] == [
        "a loop on a value of the run is one while_loop"
    ]


def test_what_has_a_gradient_splits_there():
    def step(x, w):
        while x.sum() < 50:
            x = x * w
        x.sum().backward()
        return x.detach()

    grads = []
    for wrap in (lambda fn: fn, lambda fn: jit(fn, backend="eager")):
        w = eager.tensor([1.5, 2.0, 2.5]).requires_grad_(True)
        wrap(step)(eager.ones(3), w)
        grads.append(w.grad.tolist())
    assert grads[0] == grads[1]
