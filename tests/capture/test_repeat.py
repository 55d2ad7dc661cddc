"""`while` on a value of the run: which become one node, and that all answer as Python does."""

import pytest

import eager
from jitcap import explain, jit

pytestmark = pytest.mark.filterwarnings("ignore::jitcap.record.JitcapWarning")


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


ONE = [
    plain, counts, until_done, left_in_the_middle, left_at_the_end, a_branch_inside, nested,
    two_rounds_back, another_kind_at_first, an_index, large_numbers,
]  # fmt: skip


def writes_afterwards(x):
    y = x
    while x.sum() < 50:
        x = x * 1.5
    x.add_(1)
    return y, x


def writes_inside(x):
    x = y = x * 1
    while x.sum() < 50:
        x *= 1.5
    return x, y


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


def returns_inside(x):
    while x.sum() < 50:
        x = x * 1.5
        if x[0] > 20:
            return x * 2
    return x


def a_first_value_stays(x):
    while x.sum() < 50:
        last = x
        x = x * 1.5
    return last


OTHERS = [
    writes_afterwards, writes_inside, asks_who_it_is, hands_another_on, appends, grows,
    returns_inside, a_first_value_stays,
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


def test_compiled_code():
    def every(x):
        return plain(x), *counts(x), left_at_the_end(x), *a_branch_inside(x), *nested(x)

    for backend in ("cpp", "python"):
        compiled = jit(every, fullgraph=True, backend=backend)
        for start in STARTS:
            pairs = zip(compiled(eager.tensor(start)), every(eager.tensor(start)), strict=True)
            for found, expected in pairs:
                assert eager.allclose(eager.tensor(found), eager.tensor(expected), rtol=1e-6)


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
