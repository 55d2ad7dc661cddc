"""Loops that write a row of a tensor in each step: which become scans with one write behind them,
that what comes out is Python's, and which stay as they stand."""

import numpy as np
import pytest

import eager
from jitcap import explain, jit
from jitcap.capture.control import for_loops

pytestmark = pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
STEPS = for_loops.LEAST + 4


def floats(*shape, seed=0):
    data = 0.4 * np.random.default_rng(seed).standard_normal(shape)
    return eager.tensor(data)


def inputs(steps=STEPS):
    return floats(3, 4), floats(3, steps, 4, seed=1), floats(4, 4, seed=2).requires_grad_()


def zeros(*shape):
    return eager.zeros(*shape, dtype=eager.float64)


def columns(h, x, w):
    found = zeros(*x.shape)
    for t in range(x.shape[1]):
        h = (h @ w + x[:, t]).tanh()
        found[:, t] = h
    return found, h, found._version, found.grad_fn.name()


def backwards(h, x, w):
    found = zeros(*x.shape)
    for t in reversed(range(x.shape[1])):
        h = (h @ w + x[:, t]).tanh()
        found[:, t, :] = h
    return found


def from_the_end(h, x, w):
    found = zeros(x.shape[1], 3, 4)
    for t in range(x.shape[1]):
        h = h * 0.5 + x[:, t] @ w
        found[-1 - t] = h
    return found


def every_other(h, x, w):
    found = eager.ones(2 * x.shape[1], 3, 4, dtype=eager.float64)
    for t in range(0, 2 * x.shape[1], 2):
        h = (h @ w).tanh()
        found[t + 1] = h
    return found


def what_comes_in(h, x, w):
    before, rows, same, c = zeros(STEPS, 3, 4), zeros(STEPS, 3, 4), zeros(STEPS, 3, 4), x[:, 3] * 2
    for t in range(STEPS):
        before[t] = h
        rows[t] = x[:, t]
        same[t] = c
        h = (h @ w + x[:, t]).tanh()
    return before, rows, same, h


def changed_behind_the_write(h, x, w):
    found, total = zeros(STEPS, 3, 4), zeros(3, 4)
    for t in range(STEPS):
        h = (h @ w + x[:, t]).tanh().detach()
        row = h * 1
        found[t] = row
        row.add_(1)
        total = total * 0.5 + row
    return found, total


def with_numbers_and_lists(h, x, w):
    found, listed = zeros(STEPS, 3, 4), []
    for t, row in enumerate(x.unbind(1)):
        h = (h @ w + row).tanh()
        found[t] = h
        listed.append(h)
    return found, eager.stack(listed)


def of_an_object(h, x, w):
    class Buffers:
        pass

    own = Buffers()
    own.found = zeros(STEPS, 3, 4)
    for t in range(STEPS):
        h = (h @ w + x[:, t]).tanh()
        own.found[t] = h
    return own.found


def drawn(h, x, w):
    found = zeros(STEPS, 3, 4)
    for t in range(STEPS):
        h = (h @ w + eager.randn(3, 4, dtype=eager.float64)).tanh()
        found[t] = eager.rand_like(h)
    return found, h


def at_a_place(h, x, w):
    found, corner = zeros(5, STEPS, 3, 4), zeros(STEPS, 3, 4)
    for t in range(STEPS):
        h = (h @ w + x[:, t]).tanh()
        found[-2, t] = h
        corner[t, 1, :] = h[2]
    return found, corner


def numbers_of_a_matrix(h, x, w):
    found = zeros(4, STEPS)
    for t in range(STEPS):
        h = (h @ w + x[:, t]).tanh()
        found[1, t] = h.sum()
    return found


ROLLED = [at_a_place, numbers_of_a_matrix, columns, backwards, from_the_end, every_other, what_comes_in, changed_behind_the_write,
          with_numbers_and_lists, of_an_object, drawn]  # fmt: skip


def reads_the_row_before(h, x, w):
    found = zeros(STEPS, 3, 4)
    for t in range(1, STEPS):
        h = (h @ w + x[:, t]).tanh()
        found[t] = h + found[t - 1]
    return found


def reads_what_it_writes(h, x, w):
    found = eager.ones(STEPS, 3, 4, dtype=eager.float64)
    for t in range(STEPS):
        h = (h @ w + found[t]).tanh()
        found[t] = h
    return found


def reads_a_view(h, x, w):
    found = zeros(STEPS, 3, 4)
    first = found[0]
    for t in range(STEPS):
        h = (h @ w + first + x[:, t]).tanh()
        found[t] = h
    return found, first


def reads_all(h, x, w):
    found = zeros(STEPS, 3, 4)
    for t in range(STEPS):
        h = (h @ w + found.sum(0) + x[:, t]).tanh()
        found[t] = h
    return found


def two_rows(h, x, w):
    found = zeros(2 * STEPS, 3, 4)
    for t in range(STEPS):
        h = (h @ w + x[:, t]).tanh()
        found[2 * t] = h
        found[2 * t + 1] = h * 2
    return found


def of_another_dtype(h, x, w):
    found = eager.zeros(STEPS, 3, 4)
    for t in range(STEPS):
        h = (h @ w + x[:, t]).tanh()
        found[t] = h
    return found


def broadcast(h, x, w):
    found = zeros(STEPS, 3, 4)
    for t in range(STEPS):
        h = (h @ w + x[:, t]).tanh()
        found[t] = h[:, :1]
    return found


def now_and_then(h, x, w):
    found = zeros(STEPS, 3, 4)
    for t in range(STEPS):
        h = (h @ w + x[:, t]).tanh()
        if h.sum() > 0:
            found[t] = h
    return found


def out_of_range(h, x, w):
    found = zeros(STEPS - 1, 3, 4)
    for t in range(STEPS):
        h = (h @ w + x[:, t]).tanh()
        found[t] = h
    return found


def a_leaf(h, x, w):
    found = zeros(STEPS, 3, 4).requires_grad_()
    for t in range(STEPS):
        h = (h @ w + x[:, t]).tanh()
        found[t] = h
    return found


def at_no_place(h, x, w):
    found = zeros(5, STEPS, 3, 4)
    for t in range(STEPS):
        h = (h @ w + x[:, t]).tanh()
        found[5, t] = h
    return found


def the_diagonal(h, x, w):
    found = zeros(STEPS, STEPS, 3, 4)
    for t in range(STEPS):
        h = (h @ w + x[:, t]).tanh()
        found[t, t] = h
    return found


def with_another_mode(h, x, w):
    found = zeros(STEPS, 3, 4)
    with eager.no_grad():
        for t in range(STEPS):
            h = (h @ w + x[:, t]).tanh()
            with eager.enable_grad():
                found[t] = h @ w
    return found


AS_THEY_STAND = [with_another_mode, at_no_place, the_diagonal, reads_the_row_before, reads_what_it_writes, reads_a_view, reads_all, two_rows,
                 of_another_dtype, broadcast, now_and_then, out_of_range, a_leaf]  # fmt: skip


def outcome(fn, args):
    """What a call gives, its gradients included, or raises."""
    *_, w = args
    w.grad = None
    eager.manual_seed(0)
    try:
        found = fn(*args)
    except Exception as error:  # noqa: BLE001 - compared
        return type(error), str(error)
    found = found if isinstance(found, tuple) else (found,)
    first = found[0]
    if first.requires_grad:
        (first * first).sum().backward()
    values = [x.detach().numpy() if isinstance(x, eager.Tensor) else x for x in found]
    return [*values, None if w.grad is None else w.grad.numpy()]


def same(got, expected):
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        if isinstance(b, np.ndarray):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)
        else:
            assert a == b


@pytest.mark.parametrize("fn", ROLLED + AS_THEY_STAND)
def test_as_plain_python(fn):
    args = inputs()
    compiled = jit(fn, backend="eager")
    for _ in range(2):
        same(outcome(compiled, args), outcome(fn, args))


@pytest.mark.parametrize("fn", ROLLED)
def test_these_loops_are_rolled(fn):
    notes = explain(fn)(*inputs()).notes
    assert len(notes) == 1
    assert "steps is one scan" in notes[0]


@pytest.mark.parametrize("fn", [columns, backwards])
def test_of_any_length(fn):
    compiled = jit(fn, dynamic=True)
    for steps in (STEPS, 3, 2 * STEPS):
        same(outcome(compiled, inputs(steps)), outcome(fn, inputs(steps)))
    assert compiled.stats.compiles == 1
