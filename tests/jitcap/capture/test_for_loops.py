"""Python loops that become scans: which do, that what comes out is Python's, and which do not."""

import numpy as np
import pytest

import eager
from eager import nn
from eager.nn import functional as F
from jitcap import explain, jit
from jitcap.capture.control import for_loops

pytestmark = pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
STEPS = for_loops.LEAST + 4


def floats(*shape, seed=0, dtype=np.float64, grad=True):
    data = 0.4 * np.random.default_rng(seed).standard_normal(shape)
    return eager.tensor(data.astype(dtype)).requires_grad_(grad)


def inputs():
    return floats(3, 4), floats(3, STEPS, 4, seed=1), floats(4, 4, seed=2)


def recurrence(h, x, w):
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t]).tanh()
    return h


def backwards(h, x, w):
    for t in reversed(range(x.shape[1])):
        h = (h @ w + x[:, t]).tanh()
    return h


def every_other(h, x, w):
    x = eager.cat([x, x * 2], 1)
    for t in range(1, x.shape[1], 2):
        h = (h @ w + x[:, t]).tanh() * 0.9
    return h


def neighbours(h, x, w):
    for t in range(1, x.shape[1]):
        h = (h @ w + x[:, t] * x[:, t - 1]).tanh()
    return h


def from_the_end(h, x, w):
    for t in range(x.shape[1]):
        h = (h @ w + x[:, -1 - t] - x[:, t - x.shape[1], :]).tanh()
    return h


def outputs(h, x, w):
    found, sums = [], []
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t]).tanh()
        found.append(h)
        sums.append((h.sum(), h * 2))
    return eager.stack(found, 1), sums[-1][1] + sums[0][0]


def outputs_backwards(h, x, w):
    found = []
    for t in range(x.shape[1] - 1, -1, -1):
        h = (h @ w + x[:, t]).tanh()
        found.append(h)
    found.reverse()
    return eager.stack(found)


def last_values(h, x, w):
    state = (h, h * 0)
    for t in range(x.shape[1]):
        before, state = state, ((state[0] @ w + x[:, t]).tanh(), state[1] + 1)
        both = state[0] * state[1]
        name = "a"
    assert name == "a"
    return before[0], both, state[1] * t


def numbers(h, x, w):
    for t in range(x.shape[1]):
        h = (h @ w).tanh() + x[:, t] * (t + 1) / 7.5
    return h


def grows_a_history(h, x, w):
    h = eager.zeros(3, 4, dtype=eager.float64)
    for t in range(x.shape[1]):
        h = h + x[:, t] @ w
    return h


def another_kind_at_first(h, x, w):
    state = None
    for t in range(x.shape[1]):
        state = x[:, t] @ w if state is None else (state + x[:, t]) @ w
    return state


def another_dtype_at_first(h, x, w):
    total = eager.zeros(3, 4)
    for t in range(x.shape[1]):
        total = (total + x[:, t]) @ w
    return total


def nested(h, x, w):
    for t in range(x.shape[1]):
        for k in range(for_loops.LEAST):
            h = (h @ w * 0.5 + x[:, t] * x[:, k]).tanh()
    return h


def without_a_gradient(h, x, w):
    for t in range(x.shape[1]):
        with eager.no_grad():
            scale = (h @ w).abs().mean()
        h = (h @ w + x[:, t].detach()).tanh() * scale
    return h


def one_behind_another(h, x, w):
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t]).tanh()
    for t in range(x.shape[1]):
        h = (h @ w - x[:, t]).sin()
    return h


def over_rows(h, x, w):
    found = []
    for i, row in enumerate(x.transpose(0, 1), 2):
        before, h = h, (h @ w + row * i).tanh()
        found.append((before, h))
    return eager.stack([h for _, h in found], 1), found[0][0] * i, row


def together(h, x, w):
    rows = list(x.unbind(1))
    for (a, b), k in zip(zip(rows, reversed(rows), strict=True), range(5, 99, 2), strict=False):
        h = (h @ w + a * b * k * 0.01).tanh()
    for row in reversed(rows):
        scratch = {"row": row}  # nobody reads it after the loop
        h = (h @ w).sin() + scratch["row"]
    return h


def over_parts(h, x, w):
    last = h
    for part in x.reshape(-1, 4).split(3):
        h, last = (h @ w + part - last).tanh(), part
    return h, last


ROLLED = [
    recurrence, backwards, every_other, neighbours, from_the_end, outputs, outputs_backwards,
    last_values, numbers, grows_a_history, another_kind_at_first, another_dtype_at_first, nested,
    without_a_gradient, one_behind_another, over_rows, together, over_parts,
]  # fmt: skip


def by_the_counter(h, x, w):
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t]).tanh()
        if t == 7:
            h = h * 2
    return h


def leaves_early(h, x, w):
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t]).tanh()
        if t == 3:
            break
    return h * t


def other_weights(h, x, w):
    ws = [w * i for i in range(x.shape[1])]
    for t in range(x.shape[1]):
        h = (h @ ws[t] + x[:, t]).tanh()
    return h


def looks_at_its_outputs(h, x, w):
    found = [h]
    for t in range(x.shape[1]):
        found.append((found[-1] @ w + x[:, t]).tanh())
    return found[-1]


def counts_its_outputs(h, x, w):
    found = []
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t]).tanh() + len(found)
        found.append(h)
    return h


def reaches_its_outputs_elsewhere(h, x, w):
    found = []
    box = {"all": found}
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t]).tanh() * (1 + len(box["all"]))
        found.append(h)
    return h


def an_index_that_lags(h, x, w):
    k = 0
    for t in range(x.shape[1]):
        h = (h @ w + x[:, k]).tanh()
        k = t
    return h


def a_first_value_that_is_read(h, x, w):
    scale = 3.0
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t]).tanh() * scale
        scale = h.abs().mean()
    return h


def counts(h, x, w):
    n = 0
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t]).tanh() * n
        n += 1
    return h + n


def keeps_the_best(h, x, w):
    best = {}
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t]).tanh()
        best["h"] = h
    return best["h"]


def writes_in_place(h, x, w):
    h = h * 1
    start = h
    for t in range(x.shape[1]):
        h += x[:, t] @ w
    return h + start


def wraps_around(h, x, w):
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t - 1]).tanh()
    return h


def first_is_another(h, x, w):
    first = True
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t]).tanh()
        if first:
            h = h * 3
        first = False
    return h


def asks_who_it_is(h, x, w):
    start = h
    for t in range(x.shape[1]):
        h = (h @ w).tanh() * (3.0 if h is start else 1.0) + x[:, t]
    return h


def asks_for_a_history(h, x, w):
    h = h.detach()
    for t in range(x.shape[1]):
        h = (h @ w).tanh() * (3.0 if h.requires_grad else 1.0) + x[:, t]
    return h


def two_steps_back(h, x, w):
    before = h
    for t in range(x.shape[1]):
        before, h = h, (before @ w + x[:, t]).tanh()
    return h + before


def closes_over(h, x, w):
    found = []
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t]).tanh()
        found.append(lambda h=h: h * 2)
    return found[0]() + found[-1]()


def moves_its_iterator(h, x, w):
    rows = iter(eager.cat([x, x], 1).unbind(1))
    for row in rows:
        h = (h @ w + row).tanh() + next(rows)
    return h


def rows_that_differ(h, x, w):
    rows = x.unbind(1)
    rows[-1].tag = 2.0
    for row in rows:
        h = (h @ w + row).tanh() * (row.tag if hasattr(row, "tag") else 1.0)
    return h


def changes_what_it_goes_through(h, x, w):
    rows = list(x.unbind(1))
    for i, row in enumerate(rows):
        h = (h @ w + row).tanh()
        rows[i - 1] = h
    return h + rows[3]


OTHERS = [
    by_the_counter, leaves_early, other_weights, looks_at_its_outputs, counts_its_outputs, an_index_that_lags,
    a_first_value_that_is_read,
    reaches_its_outputs_elsewhere, counts, keeps_the_best, writes_in_place, wraps_around,
    first_is_another, asks_who_it_is, asks_for_a_history, two_steps_back, closes_over,
    moves_its_iterator, rows_that_differ, changes_what_it_goes_through,
]  # fmt: skip


def total(found):
    parts = found if isinstance(found, tuple) else (found,)
    return sum((p * p).sum() for p in parts)


def twice(fn, given):
    first = eager.autograd.grad(total(fn(*given)), given, create_graph=True, allow_unused=True)
    first = [g for g in first if g is not None]
    second = eager.autograd.grad(total(tuple(first)), given, allow_unused=True)
    return [*first, *(g for g in second if g is not None)]


def agree(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.once
@pytest.mark.parametrize("fn", [*ROLLED, *OTHERS], ids=lambda fn: fn.__name__)
def test_values_and_gradients_are_those_of_the_loop(fn):
    given = inputs()
    compiled = jit(fn, fullgraph=True, backend="eager")
    agree([total(compiled(*given))], [total(fn(*given))])
    agree(twice(compiled, given), twice(fn, given))
    within = jit(lambda *given: twice(fn, given), fullgraph=True, backend="eager")
    agree(within(*given), twice(fn, given))


def once(fn, given):
    grads = eager.autograd.grad(total(fn(*given)), given, allow_unused=True)
    return [g for g in grads if g is not None]


@pytest.mark.once
@pytest.mark.parametrize("fn", ROLLED, ids=lambda fn: fn.__name__)
def test_compiled_code(fn):
    given = inputs()
    agree(jit(lambda *given: once(fn, given), fullgraph=True)(*given), once(fn, given))


@pytest.mark.parametrize("fn", ROLLED, ids=lambda fn: fn.__name__)
def test_these_loops_are_rolled(fn):
    notes = explain(fn)(*inputs()).notes
    assert notes
    assert all("steps is one scan" in note for note in notes)


def test_one_object_stays_one():
    """What a loop leaves in lists and locals is what it leaves in the carries."""

    def loop(h, x, w):
        before, after, views, rows = [], [], [], []
        for t in range(x.shape[0]):
            before.append(h)
            h = (h @ w + x[t]).tanh()
            after.append(h)
            views.append(h.T)
            rows.append(x[t])
            last = h
        return h, last, before, after, views, rows

    def written(h, x, w):
        start = h
        h, last, before, after, views, rows = loop(h, x, w)
        last.add_(1)
        before[0].mul_(2)
        rows[3].zero_()
        return h, start, after[-1], views[-1], x

    def asked(h, x, w):
        start = h
        h, last, before, after, _, _ = loop(h, x, w)
        return h is last, h is after[-1], before[0] is start, before[4] is after[3], h is before[-1]

    def returned(h, x, w):
        h, last, before, after, _, _ = loop(h, x, w)
        return h, last, before, after

    def given():
        return floats(3, 4, grad=False), floats(STEPS, 3, 4, grad=False), floats(4, 4, grad=False)

    def wrapped(fn):
        return jit(fn, fullgraph=True, backend="eager")

    agree(wrapped(written)(*given()), written(*given()))
    assert wrapped(asked)(*given()) == (True, True, True, True, False)
    start, x, w = given()
    h, last, before, after = wrapped(returned)(start, x, w)
    assert h is last
    assert h is after[-1]
    assert before[0] is start
    assert all(a is b for a, b in zip(before[1:], after, strict=False))
    assert explain(returned)(*given()).notes


def test_stacked_outputs_are_not_copied():
    def run(h, x, w):
        found = []
        for row in x:
            h = (h @ w + row).tanh()
            found.append(h)
        parts = eager.cat([h.unsqueeze(1) for h in found], 1), eager.cat(found, 1)
        return eager.stack(found), *parts, eager.stack(found[::-1]), h

    given = floats(3, 4), floats(STEPS, 3, 4, seed=1), floats(4, 4, seed=2)
    agree(jit(run, backend="python")(*given), run(*given))
    assert "cat(" not in explain(run)(*given).stages["passes"]


def test_explain_says_where_and_how_long():
    (note,) = explain(recurrence)(*inputs()).notes
    first = recurrence.__code__.co_firstlineno + 1  # the head of the loop, or its first line
    said = [
        f"{__file__}:{line}: a loop of {STEPS} steps is one scan" for line in (first, first + 1)
    ]
    assert note in said


def test_short_loops_stay_as_they_are():
    h, x, w = inputs()
    assert not explain(recurrence)(h, x[:, : for_loops.LEAST - 1], w).notes


def test_loops_of_cheap_operations_are_fused_instead():
    def soften(x):
        for _ in range(STEPS):
            x = (x * 0.5 + 1).sin()
        return x

    x = floats(5, grad=False)
    assert not explain(soften)(x).notes
    agree([jit(soften)(x)], [soften(x)])


def test_what_ends_a_kernel_or_is_too_much_for_one_is_rolled():
    def normalised(x):
        for _ in range(STEPS):
            x = x / (x * x).sum(-1, keepdim=True)
        return x

    def many(x):
        for _ in range(120):
            x = x + 0.01 * (x - x * x)
        return x

    x = floats(2, 5)
    assert explain(normalised)(x.detach()).notes
    assert explain(many)(x).notes  # and the gradients of these operations
    unrolled = explain(many)(x.detach())
    assert not unrolled.notes
    assert max(map(len, unrolled.stages.values())) < 100_000  # each value is written out once


def test_what_an_object_holds_is_changed_as_often():
    class Cell:
        def __init__(self):
            self.h, self.calls = eager.zeros(3, 4, dtype=eager.float64), 0

        def __call__(self, x, w):
            self.h, self.calls = (self.h @ w + x).tanh(), self.calls + 1
            return self.h

    def run(cell, x, w):
        for t in range(x.shape[1]):
            cell(x[:, t], w)
        return cell.h

    _, x, w = inputs()
    mine, plain = Cell(), Cell()
    agree([jit(run)(mine, x, w)], [run(plain, x, w)])
    assert mine.calls == plain.calls == STEPS


def test_an_optimizer_in_the_loop():
    def fit(model, optimizer, x, y):
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        return loss

    x, y = floats(8, 4, grad=False, dtype=np.float32), floats(8, 2, grad=False, dtype=np.float32)
    results = []
    for wrap in (lambda fn: fn, jit):
        eager.random.manual_seed(0)
        model = nn.Linear(4, 2)
        loss = wrap(fit)(model, eager.optim.SGD(model.parameters(), lr=0.1), x, y)
        results.append([loss, *model.parameters()])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-5)


def test_draws_and_what_comes_after_them():
    def run(h, x, w):
        for t in range(x.shape[1]):
            h = F.dropout((h @ w + x[:, t]).tanh(), 0.4)
        return h, eager.rand(3)

    given = inputs()
    compiled = jit(run, fullgraph=True)
    for seed in (1, 2):
        eager.random.manual_seed(seed)
        expected = [*run(*given), eager.rand(2)]
        eager.random.manual_seed(seed)
        agree([*compiled(*given), eager.rand(2)], expected)
    assert explain(run)(*given).notes


def test_a_split_behind_and_inside_a_loop():
    def run(h, x, w):
        for t in range(x.shape[1]):
            h = (h @ w + x[:, t]).tanh()
        k = int(np.asarray(h.detach().numpy()).size)
        for t in range(x.shape[1]):
            h = (h @ w - x[:, t]).tanh() * k
            if t == 5:
                h.detach().numpy().tolist()
        return h

    given = inputs()
    agree([jit(run)(*given)], [run(*given)])


@pytest.mark.once
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_layers(kind):
    eager.random.manual_seed(0)
    model = kind(4, 5, num_layers=2, bidirectional=True, dropout=0.3)
    x = floats(STEPS, 3, 4, dtype=np.float32)

    def run(x):
        out, _ = model(x)
        return [out, *eager.autograd.grad((out * out).sum(), [x, *model.parameters()])]

    compiled = jit(run, fullgraph=True)
    eager.random.manual_seed(1)
    expected = run(x)
    eager.random.manual_seed(1)
    for a, b in zip(compiled(x), expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-3, atol=1e-4)
    assert len(explain(run)(x).notes) == 4


def test_kernels_do_not_depend_on_the_length():
    def step(h, x, w):
        return eager.autograd.grad(recurrence(h, x, w).sum(), (h, x, w))

    kernels = set()
    for length in (40, 400):
        compiled = jit(step, fullgraph=True)
        compiled(floats(8, 16), floats(8, length, 16, seed=1), floats(16, 16, seed=2))
        kernels.add(compiled.stats.kernels)
    assert len(kernels) == 1


def test_sizes_that_vary_are_compiled_twice():
    def run(h, x, w):
        for t in range(x.shape[1]):
            h = (h @ w + x[:, t]).tanh()
        return h

    compiled = jit(run, fullgraph=True)
    w = floats(4, 4, seed=2, grad=False)
    for rows in (3, 5, 6, 9):
        given = floats(rows, 4, grad=False), floats(rows, STEPS, 4, seed=1, grad=False), w
        agree([compiled(*given)], [run(*given)])
    assert compiled.stats.compiles == 2
