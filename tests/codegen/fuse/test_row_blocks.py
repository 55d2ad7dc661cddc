"""Attention by blocks of rows: as eager computes it with its scores held, however it is written; or
left alone where the scores are asked for."""

import pytest

import eager as torch
import eager.nn.functional as F
import jitcap
from codegen.fuse import panels, row_blocks, row_groups, windows
from eager.base.config import config
from eager.nn.attention import flex_attention
from jitcap import jit


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(row_groups, "LEAST", 1 << 8)
    monkeypatch.setattr(row_groups, "FEWEST", 16)
    monkeypatch.setattr(row_blocks, "BLOCK", 8 << 10)
    monkeypatch.setattr(row_blocks, "TILE", 32)
    monkeypatch.setattr(panels, "FEWEST", 1)


@pytest.fixture
def found(monkeypatch):
    """The windows of the groups that are computed by blocks."""
    seen = []

    def noted(group):
        seen.append(windows.window_of(group))
        return seen[-1]

    monkeypatch.setattr(row_blocks, "window_of", noted)
    return seen


def data(rows=50, columns=50, batch=(2, 3), depth=4, kind=torch.float32):
    torch.manual_seed(rows)
    sizes = (rows, columns, columns)
    made = [torch.randn(*batch, n, depth, dtype=kind, requires_grad=True) for n in sizes]
    return made, torch.randn(*batch, rows, depth, dtype=kind)


def run(fn, inputs, *more):
    for x in inputs:
        x.grad = None
    torch.manual_seed(1)
    out = fn(*inputs, *more)
    out = out if isinstance(out, tuple) else (out,)
    return [*(o.detach() for o in out), *(x.grad for x in inputs if x.grad is not None)]


def assert_same(fn, inputs, *more, rtol=1e-4):
    for got, expected in zip(run(jit(fn), inputs, *more), run(fn, inputs, *more), strict=True):
        torch.testing.assert_close(got, expected, rtol=rtol, atol=rtol, equal_nan=True)


def causal(q, k, v, g):
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.2)
    out.backward(g)
    return out


def by_hand(q, k, v, g):
    """A soft cap, a linear bias and a window; the sum of exponentials divides the result."""
    i, j = torch.arange(q.shape[-2]).unsqueeze(1), torch.arange(k.shape[-2])
    scores = 2 * torch.tanh(q @ k.transpose(-2, -1) / 2) - 0.1 * (i - j)
    scores = scores.masked_fill((j > i) | (i - j >= 9), float("-inf"))
    e = torch.exp(scores - scores.detach().amax(-1, keepdim=True))
    out = (e @ v) / e.sum(-1, keepdim=True)
    (out * g).sum().backward()
    return out, scores.detach().amax(-1)


def einsum(q, k, v, g):
    """No softmax; the loss needs the elements, too."""
    scores = torch.einsum("bhid,bhjd->bhij", q, k)
    weights = scores / (1 + (scores * scores).mean(-1, keepdim=True))
    out = torch.einsum("bhij,bhjd->bhid", weights, v)
    ((out * g).sum() + (weights**2).sum()).backward()
    return out


def padded(q, k, v, g, mask, bias):
    scores = q @ k.transpose(-2, -1) + bias
    out = F.softmax(scores.masked_fill(mask, float("-inf")), -1) @ v
    out.backward(g)
    return out


def returned(q, k, v, g):
    weights = F.softmax(q @ k.transpose(-2, -1), -1)
    (weights @ v).backward(g)
    return weights


def over_rows(q, k, v, g):
    weights = F.softmax(q @ k.transpose(-2, -1), -2)
    out = weights @ v
    out.backward(g)
    return out


def twice(q, k, v, g):
    out = F.softmax(q @ k.transpose(-2, -1), -1) @ v
    (first,) = torch.autograd.grad((out * g).sum(), q, create_graph=True)
    (first * first).sum().backward()
    return first


def test_causal_attention_with_dropout_skips_columns(found):
    for rows, columns in ((50, 50), (70, 33), (33, 70)):
        inputs, g = data(rows, columns)
        assert_same(causal, inputs, g)
    assert found == [windows.Window(last=1)] * 3


def test_a_window_is_found_in_a_mask_by_hand(found):
    inputs, g = data(60, 60)
    assert_same(by_hand, inputs, g)
    assert found == [windows.Window(-9, 1)]
    inputs, g = data(90, 40)  # the last rows see no column
    assert_same(by_hand, inputs, g)


def test_what_zeros_do_not_cancel_needs_the_columns_that_a_mask_leaves_out(found):
    """NaN and infinities in queries, values or gradients; rows that see nothing; a finite mask."""
    hidden = torch.zeros(50, 50, dtype=torch.bool)
    hidden[11] = True

    def added(q, k, v, g):
        scores = q @ k.transpose(-2, -1) + torch.full((50, 50), float("-inf")).triu(1)
        out = F.softmax(scores.masked_fill(hidden, float("-inf")), -1) @ v
        out.backward(g)
        return out

    compiled = {fn: jit(fn) for fn in (causal, added)}
    for place, value in enumerate(("nan", "inf", "-inf", "nan")):
        inputs, g = data()
        with torch.no_grad():
            [*inputs, g][place][1, 2, 30] = float(value)
        for fn, fast in compiled.items():
            for x, y in zip(run(fast, inputs, g), run(fn, inputs, g), strict=True):
                torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-4, equal_nan=True)
    assert found == [windows.Window(last=1)] * 2


def test_any_function_of_scores(found):
    inputs, g = data(40, 64)
    assert_same(einsum, inputs, g)
    assert found == [windows.Window()]


def test_masks_and_biases_that_are_tensors(found):
    inputs, g = data(48, 37, batch=(3,))
    mask = torch.rand(48, 37) < 0.3
    mask[5] = True  # a row of NaN
    bias = torch.randn(3, 1, 1, requires_grad=True)
    assert_same(padded, [*inputs], g, mask, bias)
    columns = torch.randn(37, requires_grad=True)
    assert_same(lambda q, k, v, b, g: padded(q, k, v, g, mask, b), [*inputs, columns], g)
    assert len(found) == 2


def test_grouped_queries_and_modules(found):
    torch.manual_seed(0)
    q, g = torch.randn(2, 4, 40, 4, requires_grad=True), torch.randn(2, 4, 40, 4)
    k, v = (torch.randn(2, 2, 40, 4, requires_grad=True) for _ in range(2))

    def grouped(q, k, v, g):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        out.backward(g)
        return out

    assert_same(grouped, [q, k, v], g)
    layer = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.randn(2, 40, 16, requires_grad=True)

    def module(x, *params):
        out = layer(x, x, x, need_weights=False)[0]
        out.pow(2).sum().backward()
        return out

    assert_same(module, [x, *layer.parameters()])
    assert len(found) == 2


def test_flex_attention(found):
    """Documents, and a window by a function of the mask."""
    document = torch.arange(2 * 48).reshape(2, 48) // 11

    def step(q, k, v, g):
        near = flex_attention.and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k < 9)
        mask = flex_attention.and_masks(near, lambda b, h, q, k: document[b, q] == document[b, k])
        mask = flex_attention.create_block_mask(mask, 2, None, 48, 48)
        capped = lambda s, b, h, q, k: 4 * torch.tanh(s / 4) + 0.1 * h  # noqa: E731
        out, lse = flex_attention.flex_attention(q, k, v, capped, mask, return_lse=True)
        ((out * g).sum() + lse.sum()).backward()
        return out, lse

    inputs, g = data(48, 48)
    assert_same(step, inputs, g)
    assert found == [windows.Window(-9, 1)]


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_other_types(found, kind):
    inputs, g = data(kind=kind)

    def step(q, k, v, g):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.backward(g)
        return out

    assert_same(step, inputs, g, rtol=1e-9 if kind is torch.float64 else 5e-2)
    assert found


@pytest.mark.parametrize("tile", [32, 64])
def test_products_of_16_bits_by_tiles_take_panels_of_16_bits(found, monkeypatch, tile):
    """Nothing of these gradients needs whole rows; tiles of odd and of even length."""
    monkeypatch.setattr(row_blocks, "TILE", tile)

    def step(q, k, v, g):
        i, j = torch.arange(33).unsqueeze(1), torch.arange(50)
        scores = (q @ k.transpose(-2, -1)).masked_fill((j > i) | (i - j >= 5), float("-inf"))
        e = torch.exp(scores - scores.detach().amax(-1, keepdim=True))
        out = (e @ v) / e.sum(-1, keepdim=True)
        out.backward(g)
        return out

    inputs, g = data(33, 50, depth=8, kind=torch.bfloat16)
    assert_same(step, inputs, g, rtol=5e-2)
    assert found


def test_scores_that_are_asked_for_are_held(found):
    inputs, g = data()
    assert_same(returned, inputs, g)
    assert_same(over_rows, inputs, g)
    assert not found


def test_a_deep_product_is_not_computed_again(found):
    """The gradient of a last layer of one result is shallow, and of the hidden layer's shape."""

    def step(x, hidden, head):
        out = torch.relu(x @ hidden) @ head
        (out * out).sum().backward()
        return out

    sizes = (60, 200), (200, 40), (40, 1)
    assert_same(step, [torch.randn(*size, requires_grad=True) for size in sizes], rtol=1e-3)
    assert not found


def test_second_derivatives():
    inputs, g = data(40, 40, batch=(2,))
    assert_same(twice, inputs, g, rtol=1e-3)


def test_a_sum_with_a_divisor_is_not_that_of_the_result(found):
    """sum_j dP E / F beside E V: the result does not tell it."""
    inputs, g = data(40, 64, batch=(3,))
    f = 1 + torch.rand(3, 40, 64)

    def step(q, k, v, g):
        e = torch.exp(q @ k.transpose(-2, -1) / 4)
        out = e @ v
        dp = g @ v.transpose(-2, -1)
        inner = (dp * e / f).sum(-1, keepdim=True)
        return out, ((dp - inner) * e) @ k

    with torch.no_grad():
        assert_same(step, inputs, g)
    assert found


def test_sizes_that_are_symbols(found):
    """One program is right for all, however large; and for any number of threads."""
    for fn in (causal, by_hand):
        step = jit(fn, dynamic=True)
        sizes = ((50, 40, (2, 3)), (33, 70, (3, 2)), (2, 90, (2, 5)), (130, 3, (3, 4)))
        for rows, columns, batch in sizes:
            inputs, g = data(rows, columns, batch)
            expected = run(fn, inputs, g)
            for number in (1, 3):
                with config(threads=number):
                    got = run(step, inputs, g)
                for a, b in zip(got, expected, strict=True):
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)
    assert found == [windows.Window(last=1), windows.Window(-9, 1)]


def test_not_the_number_of_threads():
    inputs, g = data(200, 200, batch=(2,), depth=8)
    step, results = jit(causal), []
    for number in (1, 2, 3, 16):
        with config(threads=number):
            results.append(run(step, inputs, g))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_scores_take_no_memory():
    (q, k, v), g = data(1400, 1400, batch=(4,), depth=16)
    text = jitcap.explain(causal)(q, k, v, g).stages["plan"]
    arena = int(text.split()[1])
    assert 4 * arena < 4 * 1400 * 1400 * 4  # of one matrix of scores
