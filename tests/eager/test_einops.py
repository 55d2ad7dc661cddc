"""einops on our tensors, beside einops on arrays, and in compiled programs."""

import os
import subprocess
import sys

import numpy as np
import pytest

import eager
from jitcap import jit

pytest.importorskip("einops")
from eager import einops  # noqa: E402

X = eager.arange(48.0).reshape(2, 4, 6)
PATTERNS = [
    (einops.rearrange, "a b (c d) -> (a d) b c", {"d": 2}),
    (einops.rearrange, "a b ... -> ... (a b)", {}),
    (einops.repeat, "a b c -> a (b n) c m", {"n": 2, "m": 3}),
    (einops.reduce, "a (b two) c -> a b", {"two": 2, "reduction": "max"}),
    (einops.reduce, "a b c -> a 1 c", {"reduction": "mean"}),
    (einops.reduce, "a b c -> c", {"reduction": "prod"}),
]


@pytest.mark.parametrize(("fn", "pattern", "sizes"), PATTERNS)
def test_functions_give_what_they_give_for_arrays(fn, pattern, sizes):
    found, expected = fn(X, pattern, **sizes), fn(X.numpy(), pattern, **sizes)
    assert type(found) is eager.Tensor
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_packing_and_products():
    packed, shapes = einops.pack([X, X[:, 0]], "a * c")
    np.testing.assert_array_equal(packed.numpy(), np.concatenate([X.numpy(), X.numpy()[:, :1]], 1))
    assert [x.shape for x in einops.unpack(packed, shapes, "a * c")] == [(2, 4, 6), (2, 6)]
    assert einops.einsum(X, X, "a b c, a d c -> a b d").tolist() == (X @ X.mT).tolist()
    assert einops.parse_shape(X, "a _ c") == {"a": 2, "c": 6}
    assert einops.rearrange([X, X], "n a b c -> a n b c").shape == (2, 2, 4, 6)
    with pytest.raises(einops.EinopsError):
        einops.rearrange(X, "a b -> b a")


class Attention(eager.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = einops.EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d",
                                 c=width, d=3 * width)  # fmt: skip
        self.join = einops.Rearrange("b h t d -> b t (h d)")
        self.mean = einops.Reduce("b t c -> b c", "mean")

    def forward(self, x):
        parts = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (einops.rearrange(t, "b t (h d) -> b h t d", h=self.heads) for t in parts)
        weights = (einops.einsum(q, k, "b h i d, b h j d -> b h i j")).softmax(-1)
        return self.mean(self.join(weights @ v))


def test_a_training_step_is_one_graph_for_any_batch():
    def step(model, optimizer, x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    eager.manual_seed(0)
    losses = []
    for run in (step, compiled := jit(step)):
        eager.manual_seed(1)
        model = Attention(8, 2)
        optimizer = eager.optim.SGD(model.parameters(), lr=0.1)
        batches = [eager.randn(n, 5, 8) for n in (4, 3, 4, 2)]
        losses.append([run(model, optimizer, x).item() for x in batches])
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert (compiled.stats.splits, compiled.stats.fallbacks) == (0, 0)
    assert compiled.stats.compiles <= 2


ALONE = """
import sys
import {0}
assert ("einops" in sys.modules) is ("{0}" == "einops")
import {1}
from jitcap import jit
turn = lambda x: einops.rearrange(x, "a b -> b a") + einops.reduce(x, "a b -> b 1", "sum")
step = jit(turn, backend="eager", fullgraph=True)
x = eager.nn.Parameter(eager.ones(2, 3))
assert step(x).tolist() == turn(x).tolist() == [[3, 3]] * 3
assert "eager.einops" not in sys.modules
assert einops.__loader__ is einops.__spec__.loader
assert type(einops._backends.__loader__) is type(einops.__loader__)
"""


@pytest.mark.parametrize("order", [("eager", "einops"), ("einops", "eager")])
def test_einops_takes_our_tensors_whichever_is_imported_first(order):
    program = ALONE.format(*order)
    path = os.pathsep.join(sys.path)
    env = os.environ | {"PYTHONPATH": path}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
