"""A loop that computes rows by themselves is cut into blocks of rows: as eager computes, for any
number of threads."""

import pytest

import eager as torch
import jitcap
from eager.base.config import config
from jitcap import jit

STEPS, WIDTH = 16, 36


def data(rows, kind=torch.float32):
    torch.manual_seed(rows)
    shapes = (rows, STEPS, 24), (24, 3 * WIDTH), (WIDTH, 3 * WIDTH), (3 * WIDTH,), (rows, 1)
    return tuple((torch.randn(s) / 8).to(kind).requires_grad_() for s in shapes)


def cell(x, w, u, b, mask):
    h, outs = torch.zeros(x.shape[0], WIDTH, dtype=x.dtype), []
    for i in range(STEPS):
        new, keep, old = (x[:, i] @ w + h @ u + b).chunk(3, 1)
        h = torch.tanh(new + torch.softmax(keep, -1) * h) * mask + h * old.sigmoid()
        outs.append(h)
    y = torch.stack(outs, 1)
    (y**2).mean().backward()
    return y.detach()


def over_rows(x, w, u, b, mask):
    """Each row of a round is of all rows of the one before."""
    h = torch.zeros(x.shape[0], WIDTH, dtype=x.dtype)
    for i in range(STEPS):
        h = torch.tanh((x[:, i] @ w + h @ u + b)[:, :WIDTH] - h.mean(0))
    return h.detach()


def second_result(x, w, u, b, mask):
    """Of a sort, what is read is its second result."""
    h = torch.zeros(x.shape[0], WIDTH, dtype=x.dtype)
    for i in range(STEPS):
        h = torch.tanh((x[:, i] @ w + h @ u + b)[:, :WIDTH]) + 0.01 * h.sort(1).indices
    return h.detach()


def run(fn, args):
    for p in args:
        p.grad = None
    return [fn(*args), *(p.grad for p in args if p.grad is not None)]


def blocks(fn, args):
    text = jitcap.explain(fn)(*args).stages["split_loops"]
    return [int(part.split(",")[0]) for part in text.split("blocks=")[1:]]


@pytest.mark.parametrize(("rows", "kind"), [(48, torch.float32), (20, torch.float64)])
def test_blocks_of_rows(rows, kind):
    args = data(rows, kind)
    assert blocks(cell, args) == [3, 3] if rows == 48 else [2, 2]
    expected, compiled, seen = run(cell, args), jit(cell), []
    for team in (1, 2, 3):
        with config(threads=team):
            seen.append(run(compiled, args))
    for got in seen:
        assert all(map(torch.equal, got, seen[0]))
    for got, want in zip(seen[0], expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_rows_that_read_others_and_rows_that_are_no_blocks_are_left_alone():
    assert blocks(over_rows, data(32)) == blocks(cell, data(17)) == []
    assert blocks(second_result, data(32)) == []


def test_a_length_that_is_a_symbol():
    def steps(x, w):
        return torch.scan(lambda h, row: (torch.tanh(row + h @ w),) * 2, x[0], x)

    compiled, w = jit(steps), torch.randn(WIDTH, WIDTH) / 8
    for length in (4, 7, 2):
        x = torch.randn(length, 16, WIDTH)
        for got, want in zip(compiled(x, w), steps(x, w), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
