"""Matrices that do not change in a loop are packed once, in front of it: as eager computes."""

import pytest

import eager as torch
import jitcap
from codegen.targets.cpp import epilogue
from eager.base.config import config
from jitcap import jit

ROWS, STEPS = 6, 20


def data(width, state, kind=torch.float32):
    torch.manual_seed(width)
    shapes = (STEPS, ROWS, width), (state, width), (state, state), (state,)
    return tuple((torch.randn(s) / 8).to(kind).requires_grad_() for s in shapes)


def cell(x, w, u, b):
    """Both directions multiply by u: as it lies, and turned."""
    h = torch.zeros(ROWS, u.shape[0], dtype=x.dtype)
    for i in range(STEPS):
        h = torch.tanh(x[i] @ w.t() + torch.sigmoid(h @ u.t() + b) * h)
    (h**2).sum().backward()
    return h.detach()


def settled(x, w, u, b):
    """A loop of unknown length; m changes in it, and is packed by each product."""
    h, m = x[0].detach() @ w.detach().t(), u.detach()
    while (h.abs().max() > 1e-2).item():
        h = 0.5 * torch.tanh(h @ u.detach() + b.detach()) @ m
        m = 0.9 * m
    return h


def run(fn, args):
    for p in args:
        p.grad = None
    return [fn(*args), *(p.grad for p in args if p.grad is not None)]


def packed(fn, args):
    """How many matrices are packed, and how many products read such."""
    text = jitcap.explain(fn)(*args).stages["packed"]
    return text.count(" = pack("), text.count(" = dot_packed(")


@pytest.mark.parametrize(("kind", "tiles"), [(torch.float32, False), (torch.float64, True)])
def test_a_cell_packs_its_weights_once(monkeypatch, kind, tiles):
    if tiles:
        monkeypatch.setattr(epilogue, "LEAST_BYTES", 1)
        monkeypatch.setattr(epilogue, "MOST_MATRICES", 9)
    args = data(70, 83, kind)
    assert packed(cell, args) == (2, 2)
    expected, compiled = run(cell, args), jit(cell)
    first = run(compiled, args)
    for got, want in zip(first, expected, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    for team in (1, 3):
        with config(threads=team):
            assert all(map(torch.equal, run(compiled, args), first))


def test_what_changes_in_a_loop_is_not_packed():
    args = data(70, 83)
    assert packed(settled, args) == (1, 1)
    torch.testing.assert_close(jit(settled)(*args), settled(*args), rtol=1e-4, atol=1e-5)


def test_what_is_not_worth_packing_is_left_alone():
    assert packed(cell, data(12, 9)) == (0, 0)
