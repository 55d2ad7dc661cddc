"""Convolutions alone: python -m benchmarks.convolutions [--threads 2] [--only vgg]

Ours (`@jit` of the one op, its call included) and torch's, forward and both gradients, timed in
turns; a row shows the best milliseconds of both, and how many times as fast ours is.
"""

import argparse
import functools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import eager
from eager.core.dispatch import apply
from eager.ops.contract import CONV, CONV_INPUT_GRAD, CONV_WEIGHT_GRAD
from jitcap import jit

# network: (channels in, out, size of the map, kernel, stride, groups)
SHAPES = {
    "resnet-18": (
        (64, 64, 32, 3, 1, 1), (64, 128, 32, 3, 2, 1), (128, 128, 16, 3, 1, 1),
        (256, 256, 8, 3, 1, 1), (256, 512, 8, 3, 2, 1), (256, 512, 8, 1, 2, 1),
        (512, 512, 4, 3, 1, 1),
    ),
    "vgg-11": (
        (3, 64, 32, 3, 1, 1), (128, 256, 8, 3, 1, 1), (256, 512, 4, 3, 1, 1),
        (512, 512, 2, 3, 1, 1),
    ),
    "senet": ((512, 32, 1, 1, 1, 1), (32, 512, 1, 1, 1, 1)),
    "mobilenet": (
        (32, 32, 32, 3, 1, 32), (96, 96, 16, 3, 2, 96), (384, 384, 8, 3, 1, 384),
        (512, 1024, 2, 1, 1, 1),
    ),
    "u-net": ((32, 32, 64, 3, 1, 1), (128, 128, 16, 3, 1, 1), (256, 256, 8, 3, 1, 1)),
    "tiny": ((256, 256, 2, 3, 1, 1), (512, 512, 1, 3, 1, 1), (6, 16, 14, 5, 1, 1)),
}  # fmt: skip


def cases() -> Iterator[tuple[str, tuple[int, ...]]]:
    for name, shapes in SHAPES.items():
        for batch in (8,) if name == "u-net" else (32, 128):
            for shape in shapes:
                yield f"{name:9}", (batch, *shape)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="of rows whose text contains it")
    parser.add_argument("--seconds", type=float, default=0.1, help="for an op and a competitor")
    args = parser.parse_args()
    eager.set_num_threads(args.threads)
    torch.set_num_threads(args.threads)
    ratios = []
    for name, shape in cases():
        n, c, o, size, k, stride, groups = shape
        text = f"{name} {n:3} x {c:3} -> {o:4}, {size:2}x{size:<2} {k}x{k}/{stride} in {groups:3}"
        if args.only in text:
            times = [best(pair, args.seconds) for pair in calls(*shape)]
            ratios += [theirs / ours for ours, theirs in times]
            shown = " | ".join(f"{a * 1e3:8.3f} {b * 1e3:8.3f} {b / a:5.2f}" for a, b in times)
            print(f"{text} | {shown}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{len(ratios)} ops: geometric mean {mean:.2f}, least {min(ratios):.2f}")


def calls(
    n: int, c: int, o: int, size: int, k: int, stride: int, groups: int
) -> Iterator[tuple[Callable[[], Any], Callable[[], Any]]]:
    """Ours and torch's: forward, the gradient of the input, that of the weight."""
    pad = k // 2 * (k == 3)
    out = (size + 2 * pad - k) // stride + 1
    attrs = {"groups": groups, "stride": (stride,) * 2, "padding": (pad,) * 2, "dilation": (1, 1)}
    x, w = torch.randn(n, c, size, size), torch.randn(o, c // groups, k, k)
    g = torch.randn(n, o, out, out)
    rest = (None, attrs["stride"], attrs["padding"], (1, 1), False, (0, 0), groups)
    backward = functools.partial(torch.ops.aten.convolution_backward, g, x, w, *rest)
    theirs = (
        lambda: torch.conv2d(x, w, None, stride, pad, 1, groups),
        lambda: backward((True, False, False)),
        lambda: backward((False, True, False)),
    )
    ours = (
        (CONV, x, w, attrs),
        (CONV_INPUT_GRAD, g, w, attrs | {"input_shape": tuple(x.shape)}),
        (CONV_WEIGHT_GRAD, g, x, attrs | {"weight_shape": tuple(w.shape)}),
    )
    for (op, a, b, known), reference in zip(ours, theirs, strict=True):
        compiled = jit(lambda a, b, op=op, known=known: apply(op, a, b, **known))
        yield (
            functools.partial(compiled, eager.tensor(a.numpy()), eager.tensor(b.numpy())),
            reference,
        )


def best(pair: tuple[Callable[[], Any], ...], seconds: float, rounds: int = 7) -> list[float]:
    """The shortest time of each."""
    shortest = [math.inf] * len(pair)
    for call in pair:
        call()
    for _ in range(rounds):
        for i, call in enumerate(pair):
            call()
            end = time.perf_counter() + seconds / rounds
            while True:
                start = time.perf_counter()
                call()
                now = time.perf_counter()
                shortest[i] = min(shortest[i], now - start)
                if now > end:
                    break
    return shortest


if __name__ == "__main__":
    main()
