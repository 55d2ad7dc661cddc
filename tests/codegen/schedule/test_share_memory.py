"""A result lies over a temporary that its kernel is the last to read, where that changes nothing."""

import pytest

import codegen
import eager as torch
from codegen.fuse import chunk_rows
from eager.nn import functional as F
from jitcap.compile.lower import lower
from tests.codegen import symbolic
from tests.codegen.checking import check_each, floats, ints
from tests.codegen.tracing import trace

N = 48
BLOCK = N * N * 4


def softmax(x):
    return torch.softmax(x @ x, -1) @ x


def by_columns(x):
    y = x @ x
    return (y - y.sum(0)) @ x


def chain(x):
    y = x
    for _ in range(4):
        y = F.gelu(y @ x)
    return y @ x


def two_results(x):
    """One of them takes the memory; the other is computed from what was in it."""
    y = x @ x
    return y.exp() @ x + y.tanh() @ x


def other_type(x):
    y = x @ x
    return (y * 4).int().float() @ x


def turned(x):
    """Reads where another row writes."""
    y = x @ x
    return (y.t().contiguous() * 2) @ x


def backwards(x):
    y = x @ x
    return torch.flip(y, (1,)).exp() @ x


def used_later(x):
    y = x @ x
    return y.exp() @ y


BLOCKS = [
    (softmax, 1), (by_columns, 1), (chain, 2), (two_results, 3), (other_type, 1), (turned, 2),
    (backwards, 2), (used_later, 2),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "blocks"), BLOCKS, ids=lambda x: getattr(x, "__name__", ""))
def test_memory(fn, blocks):
    program, _ = trace(fn, floats(N, N))
    assert codegen.run_stages(program)[0]["plan"].arena_bytes <= blocks * BLOCK + 1024


def test_values():
    calls = [(fn, [floats(N + 1, N + 1)]) for fn, _ in BLOCKS]
    check_each(calls, backends=("cpp",), rtol=1e-4, atol=1e-4)


def test_of_unknown_sizes():
    case = symbolic.Case(
        lambda n, x: chain(x), ("n",), lambda n: (symbolic.f32(n, n),), rtol=1e-3, atol=1e-3
    )
    done, _, _ = symbolic.traced(case)
    plan = codegen.run_stages(lower(done.graph, done.writes))[0]["plan"]
    assert len(plan.blocks) == 4  # of the products
    symbolic.run(case, "cpp", most=20)


def test_in_a_body(monkeypatch):
    """The gradient of a loss over many classes lies over its logits, of a few rows at a time."""
    monkeypatch.setattr(chunk_rows, "LARGE", 1 << 10)
    monkeypatch.setattr(chunk_rows, "CHUNK", 32 << 10)

    def loss(x, w, y):
        w.requires_grad_()
        return torch.autograd.grad(F.cross_entropy(x @ w, y), w)

    program, _ = trace(loss, floats(64, 8), floats(8, 512), ints(0, 512, 64))
    assert codegen.run_stages(program)[0]["plan"].arena_bytes < 40 << 10
