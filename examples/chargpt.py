"""Train a small character GPT on the text of Python's own manual, then let it write.

The text is `pydoc_data.topics`, which every Python has: nothing is downloaded.
"""

import argparse
import pydoc_data.topics
import time
from dataclasses import dataclass

import numpy as np

import eager as torch
from eager import nn
from eager.nn import functional as F
from jitcap import jit


@dataclass(frozen=True)
class Config:
    """Sizes of the model."""

    vocab: int
    layers: int = 3
    heads: int = 4
    width: int = 128
    context: int = 64


class Block(nn.Module):
    """Causal self-attention and a four times wider MLP, each normalised first and added."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.ln1 = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.ln2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
        )

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        parts = self.qkv(x).split(c, dim=2)
        # three times (b, t, c) -> (b, heads, t, c / heads)
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    """Token ids (batch, time) to logits (batch, time, vocab)."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocab, config.width)
        self.places = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.layers)])
        self.ln = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocab)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


def sample(model: GPT, start: list[int], count: int, context: int) -> list[int]:
    """Continue `start` by `count` characters, each drawn from the model's distribution."""
    ids = list(start)
    model.eval()
    with torch.no_grad():
        for _ in range(count):
            window = torch.tensor([ids[-context:]])
            probabilities = torch.softmax(model(window)[0, -1], dim=-1)
            ids.append(int(torch.multinomial(probabilities, 1).item()))
    return ids


def batch(ids: np.ndarray, size: int, time_steps: int, rng: np.random.Generator) -> tuple:
    """Inputs and targets one character ahead, each (size, time_steps)."""
    starts = rng.integers(0, len(ids) - time_steps - 1, size)
    rows = np.stack([ids[s : s + time_steps + 1] for s in starts])
    x, y = np.ascontiguousarray(rows[:, :-1]), np.ascontiguousarray(rows[:, 1:])
    return torch.from_numpy(x), torch.from_numpy(y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--eager", action="store_true", help="without @jit")
    args = parser.parse_args()

    text = "".join(pydoc_data.topics.topics.values())
    characters = sorted(set(text))
    number = {character: i for i, character in enumerate(characters)}
    ids = np.array([number[character] for character in text], dtype=np.int64)

    torch.manual_seed(0)
    config = Config(vocab=len(characters))
    model = GPT(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rng = np.random.default_rng(0)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        logits = model(x)
        loss = F.cross_entropy(logits.view(-1, config.vocab), y.view(-1))
        loss.backward()
        optimizer.step()
        return loss

    if not args.eager:
        step = jit(step)
    start, tokens = time.perf_counter(), 0
    for i in range(1, args.steps + 1):
        loss = step(*batch(ids, args.batch, config.context, rng))
        tokens += args.batch * config.context
        if i == 1 or i % 50 == 0:
            now = time.perf_counter()
            print(f"step {i:5d}  loss {loss.item():.4f}  {tokens / (now - start):8.0f} tokens/s")
            start, tokens = now, 0
    if not args.eager:
        stats = step.stats
        print(f"{stats.graphs} graph(s), {stats.splits} splits, {stats.kernels} kernels, "
              f"compiled in {stats.compile_seconds:.2f} s")  # fmt: skip
    print("".join(characters[i] for i in sample(model, [number["\n"]], 300, config.context)))


if __name__ == "__main__":
    main()
