"""Models, and data of any size, for tests of sizes that vary."""

from __future__ import annotations

from typing import Any

import numpy as np
import share

import eager
import eager.nn.functional as F
from eager import nn

# The loops as Python are those that C++ prints; tests/codegen/ir/test_symbols.py runs them at many sizes.
BACKENDS = ["eager", "python", "cpp"] if share.ALL else ["eager", "cpp"]


def floats(*shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng([seed, *shape]).standard_normal(shape, dtype=np.float32)
    return eager.from_numpy(values)


def ints(high: int, *shape: int, seed: int = 0) -> Any:
    return eager.from_numpy(np.random.default_rng([seed, *shape]).integers(0, high, shape))


def close(a: Any, b: Any) -> bool:
    return bool(np.allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5))


def cross_entropy(logits: Any, y: Any) -> Any:
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.heads = heads

    def forward(self, x: Any) -> Any:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        q, k, v = (a.view(b, t, self.heads, c // self.heads).transpose(1, 2) for a in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, words: int = 31, width: int = 16, length: int = 128) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, 2) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, x: Any) -> Any:
        h = self.words(x) + self.places(eager.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


class Recurrent(nn.Module):
    def __init__(self, kind: type) -> None:
        super().__init__()
        self.words, self.core, self.head = nn.Embedding(31, 8), kind(8, 12), nn.Linear(12, 31)

    def forward(self, x: Any) -> Any:
        h, _ = self.core(self.words(x).transpose(0, 1))
        return self.head(h).transpose(0, 1)
