"""Products alone: python -m benchmarks.products [--dtype bfloat16] [--threads 2] [--only 512]

Ours, as compiled code calls them, in a loop of C++ (results of 16-bit operands are float32);
OpenBLAS in the same loop, split over the same team; `torch.matmul(..., out=...)` in a loop of
Python. Each round times all of them, one after the other; a row shows the best of each in GFLOP/s,
and ours over the better of the others.
"""

import argparse
import ctypes
import functools
import math
import os
import time
from collections.abc import Callable, Iterator

import torch

import eager
from codegen.targets.cpp.runtime import cpu, support
from eager.base.config import config

SOURCE = """#include "jitcap_dot.h"
JC_MODULE
using namespace jc;
template <class S, class T> void repeat(int blas, i64 count, i64 m, i64 n, i64 k, JcView<S> a, JcView<S> b, T *c, i64 times) {
  const i64 batch[] = {count, m * k, k * n};
  for (i64 t = 0; t < times; t++) {
    if (!blas) dot(m, n, k, a, b, c, 1, batch);
    else if constexpr (same<S, T>)
      parallel(count, 1, count < threads() ? 1 : team_for_product(count * m, n, k), [=](i64 lo, i64 hi) {
        for (i64 i = lo; i < hi; i++) blas_product(m, n, k, {a.at + i * m * k, a.row, a.col}, {b.at + i * k * n, b.row, b.col}, c + i * m * n, n);
      });
  }
}
#define REPEAT(S, T) JC_ENTRY void repeat_##S(int blas, i64 count, i64 m, i64 n, i64 k, int ta, int tb, void *a, void *b, void *c, i64 times) { \\
  repeat<S, T>(blas, count, m, n, k, {(S *)a, ta ? 1 : k, ta ? m : 1}, {(S *)b, tb ? 1 : n, tb ? k : 1}, (T *)c, times); }
REPEAT(f32, f32) REPEAT(f64, f64) REPEAT(bf16, f32)
"""  # noqa: E501
SHORT = {"float32": "f32", "float64": "f64", "bfloat16": "bf16"}
ROUNDS = 7
SQUARES = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)
# name, rows, (in, out) of its linear layers, (count, tokens, head) of its attention
MODELS = (
    ("mlp", 64, ((64, 256), (256, 256), (256, 10)), ()),
    ("gru", 32, ((128, 384), (128, 10)), ()),
    ("resnet", 32, ((64, 10),), ()),
    ("gpt", 2048, ((384, 1152), (384, 384), (384, 1536), (1536, 384), (384, 96)), (48, 256, 64)),
    ("vit-b/16", 1576, ((768, 2304), (768, 768), (768, 3072), (3072, 768)), (96, 197, 64)),
    (
        "gpt-2", 1024, ((768, 2304), (768, 768), (768, 3072), (3072, 768), (768, 50257)),
        (12, 1024, 64),
    ),
)  # fmt: skip


def cases() -> Iterator[tuple[str, int, int, int, int, int, int]]:
    """(name, count, m, n, k, a is stored transposed, b is)."""
    for n in SQUARES:
        yield "square", 1, n, n, n, 0, 0
        yield "square", 1, n, n, n, 0, 1
    for name, rows, layers, attention in MODELS:
        for i, o in layers:
            yield name, 1, rows, o, i, 0, 1  # x W^T
            yield name, 1, rows, i, o, 0, 0  # the gradient of x: g W
            yield name, 1, o, i, rows, 1, 0  # of W: g^T x
        if attention:
            count, t, d = attention
            yield name, count, t, t, d, 0, 1  # scores
            yield name, count, t, d, t, 0, 0  # scores times values
            yield name, count, t, d, t, 1, 0  # the gradient of values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtype", default="float32", choices=SHORT)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--only", default="", help="of rows whose text contains it")
    parser.add_argument("--seconds", type=float, default=0.25, help="for a row and a competitor")
    parser.add_argument("--core", help="whose kernels OpenBLAS takes, say Haswell")
    args = parser.parse_args()
    if args.core:  # compiled code's OpenBLAS is not loaded yet
        os.environ["OPENBLAS_CORETYPE"] = args.core
    if args.threads:
        eager.set_num_threads(args.threads)
        torch.set_num_threads(args.threads)
    flags = support.isa_flags(config.isa)
    module = cpu.load(cpu.build_shared({"products.cpp": SOURCE}, flags).result())
    repeat = getattr(module.library, f"repeat_{SHORT[args.dtype]}")
    repeat.argtypes = [
        ctypes.c_int, *[ctypes.c_long] * 4, ctypes.c_int, ctypes.c_int, *[ctypes.c_void_p] * 3,
        ctypes.c_long,
    ]  # fmt: skip
    ratios = []
    for name, *case in cases():
        count, m, n, k, ta, tb = case
        text = f"{name:9} {count:3} x {m:5} {n:5} {k:5} {'NT'[ta]}{'NT'[tb]}"
        if args.only in text:
            rates = measure(repeat, getattr(torch, args.dtype), args.seconds, *case)
            ratios.append(rates[0] / max(rates[1:]))
            shown = " ".join(f"{rate:7.1f}" for rate in rates)
            print(f"{text} | {shown} | {ratios[-1]:.2f}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"{len(ratios)} products: geometric mean {mean:.3f}, least {min(ratios):.2f}")


def measure(
    repeat: Callable[..., None], dtype: torch.dtype, seconds: float,
    count: int, m: int, n: int, k: int, ta: int, tb: int,
) -> list[float]:  # fmt: skip
    """GFLOP/s of ours, OpenBLAS (which has no products of 16 bits) and torch."""
    a, b = (torch.randn(count * s).to(dtype) for s in (m * k, k * n))
    c = torch.zeros(count * m * n, dtype=torch.float32 if dtype.itemsize < 4 else dtype)
    x = a.view((count, k, m) if ta else (count, m, k))
    y = b.view((count, n, k) if tb else (count, k, n))
    x, y = x.mT if ta else x, y.mT if tb else y
    out = torch.empty(count, m, n, dtype=dtype)
    if count == 1:
        x, y, out = x[0], y[0], out[0]
    case = (count, m, n, k, ta, tb, *(v.data_ptr() for v in (a, b, c)))

    def of_torch(times: int) -> None:
        for _ in range(times):
            torch.matmul(x, y, out=out)

    calls = [functools.partial(repeat, 0, *case), of_torch]
    if dtype.itemsize >= 4:
        calls.insert(1, functools.partial(repeat, 1, *case))
    return _rates(calls, 2 * count * m * n * k, seconds)


def _rates(calls: list[Callable[[int], None]], flops: int, seconds: float) -> list[float]:
    """GFLOP/s of each, the best of its rounds. The threads of the one before first go to sleep."""
    times = max(1, int(seconds / ROUNDS * 50e9 / flops))
    best = [math.inf] * len(calls)
    for call in calls:
        call(1)
    for _ in range(ROUNDS):
        for i, call in enumerate(calls):
            time.sleep(0.02)
            call(max(1, times // 8))
            start = time.perf_counter()
            call(times)
            best[i] = min(best[i], (time.perf_counter() - start) / times)
    return [flops / b * 1e-9 for b in best]


if __name__ == "__main__":
    main()
