"""How often sizes that vary are compiled: training steps over many batch sizes and lengths.

    python -m benchmarks.sizes [--most N]

Prints, for each program, the calls, the compiles, and the largest difference from eager's results.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import eager
import eager.nn.functional as F
from eager import nn
from jitcap import jit

WORDS = 61


class Block(nn.Module):
    """A layer of a GPT."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: Any) -> Any:
        b, t, c = x.shape  # x [b, t, c]
        q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
        q, k, v = (a.view(b, t, self.heads, c // self.heads).transpose(1, 2) for a in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).contiguous().view(b, t, c))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class GPT(nn.Module):
    """Two layers of width 32."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 32), nn.Embedding(256, 32)
        self.blocks = nn.ModuleList([Block(32, 4) for _ in range(2)])
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, WORDS, bias=False)

    def forward(self, x: Any) -> Any:
        h = self.words(x) + self.places(eager.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


class Recurrent(nn.Module):
    """A language model with recurrent layers."""

    def __init__(self, kind: type, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, 16), nn.Linear(24, WORDS)
        self.core = kind(16, 24, layers, batch_first=True, dropout=dropout)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Any) -> Any:
        return self.head(self.drop(self.core(self.words(x))[0]))


def convolutions() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def perceptron() -> Any:
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10))


def floats(*shape: int) -> Any:
    return eager.from_numpy(np.random.default_rng(shape).standard_normal(shape, dtype=np.float32))


def ints(high: int, *shape: int) -> Any:
    return eager.from_numpy(np.random.default_rng(shape).integers(0, high, shape))


def step_of(model: Any) -> Callable[[Any, Any], Any]:
    optimizer = eager.optim.AdamW(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        logits = model(x)
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def decoding(model: Any) -> Callable[..., Any]:
    """One more token with a cache of keys and values, which grows."""
    layer, heads = model.blocks[0], model.blocks[0].heads

    def token(x: Any, keys: Any, values: Any) -> tuple[Any, Any, Any]:
        b, t, c = x.shape
        q, k, v = layer.qkv(layer.norm1(x)).split(c, dim=2)
        q, k, v = (a.view(b, t, heads, c // heads).transpose(1, 2) for a in (q, k, v))
        keys, values = eager.cat([keys, k], dim=2), eager.cat([values, v], dim=2)
        mixed = F.scaled_dot_product_attention(q, keys, values)
        return layer.out(mixed.transpose(1, 2).reshape(b, t, c)), keys, values

    return token


def shuffled(sizes: range) -> list[int]:
    order = [*sizes]
    random.Random(0).shuffle(order)
    return order


Batches = Callable[[], Iterator[tuple[Any, Any]]]


def programs(most: int) -> dict[str, tuple[Callable[[], Any], Batches]]:
    batches, lengths = shuffled(range(2, 2 + most)), shuffled(range(2, 2 + most // 2))

    def labelled(*shape: int) -> Batches:
        return lambda: ((floats(n, *shape), ints(10, n)) for n in batches)

    def of_words() -> Iterator[tuple[Any, Any]]:
        return ((ints(WORDS, n, 12), ints(WORDS, n, 12)) for n in batches)

    def of_lengths() -> Iterator[tuple[Any, Any]]:
        return ((ints(WORDS, 4, n), ints(WORDS, 4, n)) for n in lengths)

    def loader() -> Iterator[tuple[Any, Any]]:
        return ((floats(n, 20), ints(10, n)) for n in (64, 64, 64, 19) * 5)

    return {
        "MLP, batch sizes": (perceptron, labelled(20)),
        "CNN, batch sizes": (convolutions, labelled(1, 8, 8)),
        "GRU, batch sizes": (lambda: Recurrent(nn.GRU), of_words),
        "GPT, batch sizes": (GPT, of_words),
        "GPT, lengths": (GPT, of_lengths),
        "LSTM, lengths": (lambda: Recurrent(nn.LSTM), of_lengths),
        "GRU, lengths": (lambda: Recurrent(nn.GRU), of_lengths),
        "LSTM of two layers, dropout": (lambda: Recurrent(nn.LSTM, 2, 0.2), of_lengths),
        "MLP, a short last batch": (perceptron, loader),
    }


def twice(build: Callable[[], Any]) -> tuple[Any, Any]:
    """The same model two times."""
    made = []
    for _ in range(2):
        eager.manual_seed(0)
        made.append(build())
    eager.manual_seed(1)
    return made[0], made[1]


def compare(build: Callable[[], Any], batches: Batches) -> tuple[Any, float]:
    """(statistics of the compiled step, largest difference of its losses from eager's)."""
    plain, compiled = map(step_of, twice(build))
    compiled = jit(compiled)
    worst = 0.0
    for x, y in batches():
        state = eager.get_rng_state()
        want = plain(x, y).item()
        eager.set_rng_state(state)
        worst = max(worst, abs(compiled(x, y).item() - want))
    return compiled.stats, worst


def decode(tokens: int) -> tuple[Any, float]:
    eager.manual_seed(0)
    plain = decoding(GPT())
    compiled, worst = jit(plain), 0.0
    mine = other = (floats(1, 4, 5, 8), floats(1, 4, 5, 8))
    with eager.no_grad():
        for i in range(tokens):
            a, *mine = compiled(floats(1, 1, 32) * i, *mine)
            b, *other = plain(floats(1, 1, 32) * i, *other)
            worst = max(worst, float((a - b).abs().max()))
    return compiled.stats, worst


def report(name: str, stats: Any, worst: float, seconds: float) -> None:
    counts = f"{stats.calls} calls, {stats.compiles} compiles, {stats.fallbacks} plain"
    print(f"{name:28} {counts:40} difference {worst:.1e}, {seconds:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=200, help="how many batch sizes")
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    asked = parser.parse_args()
    for name, (build, batches) in programs(asked.most).items():
        if asked.only in name:
            start = time.perf_counter()
            report(name, *compare(build, batches), time.perf_counter() - start)
    if asked.only in "decoding":
        start = time.perf_counter()
        report("decoding", *decode(256), time.perf_counter() - start)


if __name__ == "__main__":
    main()
