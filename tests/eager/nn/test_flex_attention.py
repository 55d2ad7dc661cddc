"""flex_attention against PyTorch's (which has no gradients on a CPU): functions of scores, masks."""

import numpy as np
import pytest

import eager
from eager.nn.attention import flex_attention as ours
from jitcap import jit

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("torch.nn.attention.flex_attention")

B, H, L, S, E = 2, 4, 20, 24, 4


def forms(lib, module):
    """Pairs (score_mod, mask_mod) in a library."""
    document = lib.from_numpy(np.arange(B * S).reshape(B, S) // 7)
    slopes = lib.from_numpy((2.0 ** -np.arange(1, H + 1)).astype("f4"))
    causal, near = (lambda b, h, q, k: q >= k), (lambda b, h, q, k: q - k <= 5)
    return [
        (None, None),
        (lambda s, b, h, q, k: s + slopes[h] * (k - q), causal),
        (lambda s, b, h, q, k: 5 * lib.tanh(s / 5), module.and_masks(causal, near)),
        (None, lambda b, h, q, k: document[b, q] == document[b, k]),
        (None, module.or_masks(lambda b, h, q, k: k < 6, causal)),
        (None, lambda b, h, q, k: (q >= k) & (q != 3)),  # a row that sees nothing
    ]


def attend(lib, module, score, mask, arrays):
    q, k, v = (lib.from_numpy(x) for x in arrays)
    block = mask and module.create_block_mask(mask, B, H, L, S, device="cpu")
    return module.flex_attention(q, k, v, score, block, return_lse=True)


@pytest.mark.filterwarnings("ignore")
def test_functions_of_scores_and_masks():
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((B, H, n, E)).astype("f4") for n in (L, S, S)]
    pairs = zip(forms(torch, theirs), forms(eager, ours), strict=True)
    for (score, mask), own in pairs:
        expected = attend(torch, theirs, score, mask, arrays)
        for got, want in zip(attend(eager, ours, *own, arrays), expected, strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_attention_under_jit_too():
    torch_like = eager.nn.functional.scaled_dot_product_attention
    eager.manual_seed(0)
    q, k, v = (eager.randn(1, 4, 9, 4, requires_grad=True) for _ in range(3))
    mask = ours.create_block_mask(lambda b, h, q, k: q >= k, None, None, 9, 9)

    def flex(q, k, v):
        return ours.flex_attention(q, k, v, block_mask=mask)

    def plain(q, k, v):
        return torch_like(q, k, v, is_causal=True)

    def gradients(f):
        def step(q, k, v):
            return eager.autograd.grad((f(q, k, v) ** 2).sum(), (q, k, v))

        return step

    expected = gradients(plain)(q, k, v)
    for made in (gradients(flex), jit(gradients(flex), backend="python")):
        for got, want in zip(made(q, k, v), expected, strict=True):
            eager.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_what_does_not_fit_is_refused():
    q = eager.ones(1, 4, 8, 2)
    with pytest.raises(ValueError, match="enable_gqa"):
        ours.flex_attention(q, q[:, :2], q[:, :2])
    with pytest.raises(ValueError, match="4 dimensions"):
        ours.flex_attention(q[0], q[0], q[0])
    small = ours.create_block_mask(ours.noop_mask, None, None, 4, 4)
    with pytest.raises(ValueError, match="create_block_mask"):
        ours.flex_attention(q, q, q, block_mask=small)
    assert ours.flex_attention(q, q[:, :2], q[:, :2], enable_gqa=True).shape == q.shape
    assert ours.create_mask(ours.noop_mask, None, 2, 3, 4).shape == (1, 2, 3, 4)
