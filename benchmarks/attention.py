"""Attention alone: python -m benchmarks.attention [--threads 2] [--only "bfloat16 causal"]

`scaled_dot_product_attention` under our `@jit` and in torch, forward alone and with all gradients,
timed in turns. A row shows the best milliseconds of both, how many times as fast ours is, and our
GFLOP/s (2 products forward, 5 more backward; causal ones count as half of that).
"""

import argparse
import itertools
import math
from collections.abc import Callable
from typing import Any

import torch

import eager
from benchmarks.convolutions import best
from jitcap import jit

# batch, heads, tokens: about as much work in each
SIZES = ((8, 4, 1024), (2, 4, 2048), (1, 4, 4096), (1, 2, 8192))
DEPTHS = (32, 64, 128)  # of a head


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="of rows whose text contains all these words")
    parser.add_argument("--seconds", type=float, default=0.2, help="for an op and a competitor")
    args = parser.parse_args()
    eager.set_num_threads(args.threads)
    torch.set_num_threads(args.threads)
    ratios: dict[str, list[float]] = {"forward": [], "and gradients": []}
    for dtype, causal, size, depth in itertools.product(
        ("float32", "bfloat16"), (False, True), SIZES, DEPTHS
    ):
        shape = (*size, depth)
        text = f"{dtype:8} {'causal' if causal else 'whole':6} {shape!s:18}"
        if not all(word in text.split() or word in text for word in args.only.split()):
            continue
        shown = []
        for backward, found in zip((False, True), ratios.values(), strict=True):
            pair = [step(lib, dtype, shape, causal, backward) for lib in (eager, torch)]
            ours, theirs = best(tuple(pair), args.seconds, rounds=5)
            found.append(theirs / ours)
            work = math.prod(size) * size[2] * depth * 2 * (7 if backward else 2)
            speed = work / (1 + causal) / ours / 1e9
            shown.append(f"{ours * 1e3:8.1f} {theirs * 1e3:8.1f} {theirs / ours:5.2f} {speed:5.0f}")
        print(f"{text} | {' | '.join(shown)}", flush=True)
    for name, found in ratios.items():
        mean = math.exp(sum(map(math.log, found)) / len(found))
        print(f"{name}: {len(found)} rows, geometric mean {mean:.2f}, least {min(found):.2f}")


def step(
    lib: Any, dtype: str, shape: tuple[int, ...], causal: bool, backward: bool
) -> Callable[[], Any]:
    """Attention over (batch, heads, tokens, depth); all gradients, if `backward`."""
    lib.manual_seed(0)
    q, k, v, g = (lib.randn(*shape).to(getattr(lib, dtype)) for _ in range(4))
    attend = lib.nn.functional.scaled_dot_product_attention

    def forward(q: Any, k: Any, v: Any, g: Any) -> Any:
        return attend(q, k, v, is_causal=causal)

    def gradients(q: Any, k: Any, v: Any, g: Any) -> Any:
        out = attend(q, k, v, is_causal=causal)
        return out.detach(), lib.autograd.grad(out, (q, k, v), g)

    for x in (q, k, v):
        x.requires_grad_(backward)
    run = gradients if backward else forward
    run = jit(run) if lib is eager else run
    return lambda: run(q, k, v, g)


if __name__ == "__main__":
    main()
