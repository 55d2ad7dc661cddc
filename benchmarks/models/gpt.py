"""A GPT: pre-norm transformer decoder with learned positions, as in nanoGPT, without dropout."""

from dataclasses import dataclass
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Config:
    """Sizes of a GPT; the defaults are the benchmark's."""

    layers: int = 6
    heads: int = 6
    width: int = 384
    context: int = 256
    vocab: int = 65
    qkv_bias: bool = True


def attention(torch: ModuleType, config: Config) -> type:
    """Causal self-attention over x of shape (batch, time, width)."""
    nn, F = torch.nn, torch.nn.functional

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = nn.Linear(config.width, 3 * config.width, bias=config.qkv_bias)
            self.out = nn.Linear(config.width, config.width)

        def forward(self, x: Any) -> Any:
            b, t, c = x.shape
            q, k, v = self.qkv(x).split(c, dim=2)
            # (b, t, c) -> (b, heads, t, c / heads)
            q = q.view(b, t, config.heads, c // config.heads).transpose(1, 2)
            k = k.view(b, t, config.heads, c // config.heads).transpose(1, 2)
            v = v.view(b, t, config.heads, c // config.heads).transpose(1, 2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).contiguous().view(b, t, c))

    return Attention


def block(torch: ModuleType, config: Config) -> type:
    """One decoder layer: attention and a four times wider MLP, each added to its input."""
    nn = torch.nn
    Attention = attention(torch, config)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1 = nn.LayerNorm(config.width)
            self.attn = Attention()
            self.ln2 = nn.LayerNorm(config.width)
            self.up = nn.Linear(config.width, 4 * config.width)
            self.act = nn.GELU(approximate="tanh")
            self.down = nn.Linear(4 * config.width, config.width)

        def forward(self, x: Any) -> Any:
            x = x + self.attn(self.ln1(x))
            return x + self.down(self.act(self.up(self.ln2(x))))

    return Block


def build(torch: ModuleType, config: Config | None = None) -> Any:
    """Model from token ids (batch, time) to logits (batch, time, vocab)."""
    nn = torch.nn
    config = config or Config()
    Block = block(torch, config)

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(config.vocab, config.width)
            self.places = nn.Embedding(config.context, config.width)
            self.blocks = nn.ModuleList([Block() for _ in range(config.layers)])
            self.ln = nn.LayerNorm(config.width)
            self.head = nn.Linear(config.width, config.vocab, bias=False)

        def forward(self, ids: Any) -> Any:
            places = torch.arange(ids.shape[1], device=ids.device)
            x = self.tokens(ids) + self.places(places)
            for layer in self.blocks:
                x = layer(x)
            return self.head(self.ln(x))

    return GPT()
