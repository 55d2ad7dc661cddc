"""Losses over many classes are computed in chunks of rows: as eager computes them whole, or left
alone where more is asked of the logits."""

import pytest

import eager as torch
import eager.nn.functional as F
import jitcap
from codegen.fuse import chunk_rows
from jitcap import jit

CLASSES, DEPTH = 90, 7


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(chunk_rows, "LARGE", 1 << 10)
    monkeypatch.setattr(chunk_rows, "CHUNK", 8 << 10)


def data(rows, kind=torch.float32):
    torch.manual_seed(rows)
    x, w = (torch.randn(n, DEPTH).to(kind).requires_grad_() for n in (rows, CLASSES))
    b = torch.randn(CLASSES).to(kind).requires_grad_()
    return x, w, b, torch.randint(0, CLASSES, (rows,))


def smooth(x, w, b, y):
    """Everything that a loss may have, and what stands beside it."""
    logits = F.linear(x, w, b)
    weight = torch.linspace(0.5, 2.0, CLASSES).to(x.dtype)
    loss = F.cross_entropy(logits, y, weight, label_smoothing=0.1)
    penalty = (torch.logsumexp(logits.float(), -1) ** 2).mean()
    right = (logits.argmax(-1) == y).float().mean()
    (loss + 1e-2 * penalty).backward()
    return loss.detach(), penalty.detach(), right


def summed(x, w, b, y):
    """One number for each row, and tied weights: the projection is the embedding, too."""
    h = x + F.embedding(y.clamp(min=0), w)
    losses = F.cross_entropy(h @ w.t(), y, reduction="none")
    losses.sum().backward()
    return losses.detach()


def scored(x, w, b, y):
    """No gradients."""
    logits = (x @ w.t() + b).detach()
    return F.cross_entropy(logits, y, reduction="sum"), logits.max(-1).values


def returned(x, w, b, y):
    logits = F.linear(x, w, b)
    F.cross_entropy(logits, y).backward()
    return logits.detach()


def scaled(x, w, b, y):
    """The gradient of each row needs the loss of all."""
    (F.cross_entropy(F.linear(x, w, b), y) ** 2).backward()


def dropped(x, w, b, y):
    logits = F.linear(x, w, b).cumsum(0)
    F.cross_entropy(logits, y).backward()


def run(fn, x, w, b, y):
    for p in (x, w, b):
        p.grad = None
    out = fn(x, w, b, y)
    out = out if isinstance(out, tuple) else () if out is None else (out,)
    return [*out, *(p.grad for p in (x, w, b) if p.grad is not None)]


def assert_same(fn, args, rtol=1e-4):
    for got, expected in zip(run(jit(fn), *args), run(fn, *args), strict=True):
        torch.testing.assert_close(got, expected, rtol=rtol, atol=rtol / 10, equal_nan=True)


def is_chunked(fn, args):
    return " = scan(" in jitcap.explain(fn)(*args).stages["chunked"]


@pytest.mark.parametrize("fn", [smooth, summed, scored])
def test_the_logits_are_never_whole(fn):
    args = data(33)
    assert is_chunked(fn, args)
    args[3][::5] = -100
    assert_same(fn, args)
    with torch.no_grad():
        args[0][2, 0], args[0][20, 3] = float("nan"), float("inf")
    assert_same(fn, args)
    args[3][:] = -100
    assert_same(fn, args)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_sums_over_rows_are_carried_in_the_computing_type(kind):
    args = data(32, kind)
    assert is_chunked(smooth, args)
    assert_same(smooth, args, rtol=1e-4 if kind is torch.float64 else 3e-2)


@pytest.mark.parametrize("fn", [returned, scaled, dropped])
def test_what_needs_more_than_rows_is_left_alone(fn):
    args = data(32)
    assert not is_chunked(fn, args)
    assert_same(fn, args)


@pytest.mark.parametrize("rows", [31, 1, 0])
def test_rows_that_are_no_chunks_are_left_alone(rows):
    args = data(rows)
    assert not is_chunked(smooth, args)
    assert_same(smooth, args)


def test_a_step_of_an_optimizer_reads_the_sums():
    x, w, b, y = data(32)
    ours, theirs = (w.detach().clone().requires_grad_() for _ in range(2))

    def step(w, x, y, optimizer):
        optimizer.zero_grad()
        for _ in range(2):  # gradients are accumulated
            F.cross_entropy(x @ w.t(), y).backward()
        optimizer.step()

    a, b = (torch.optim.AdamW([p], lr=0.1) for p in (ours, theirs))
    x = x.detach()
    compiled = jit(step)
    for _ in range(2):
        compiled(ours, x, y, a)
        step(theirs, x, y, b)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)
