"""Peaks of the machine: compiled code that does one thing -> `Peaks`, measured once and kept.

Bytes a second of copies of a few sizes, operations a second of a large matrix product and of loops
in registers. They are kept in the compile cache's folder, for the processor and the number of
threads; `measure()` does it again.
"""

from __future__ import annotations

import functools
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import eager
from codegen.runtime import cache
from codegen.targets.cpp.runtime import build
from eager.base.config import config
from eager.base.dataclass import dataclass
from eager.base.process import threads
from eager.base.process.locks import rlock
from eager.base.recorder import Options, Work, recorder
from jitcap.api import jit, stance

SECONDS: Final = 0.2  # for each of the figures
COPIES: Final = (1 << 14, 1 << 18, 1 << 22, 1 << 25)  # elements of float32
SIDE: Final = 512  # of the matrices
CALCULATES: Final = ("kernel", "product", "step")
_lock: Final = rlock()  # two that measure at once disturb each other


@dataclass(frozen=True, slots=True)
class Peaks:
    """Bytes a second of a copy, by the bytes that move; operations a second of products, and of
    loops."""

    copies: Mapping[int, float]
    product: float
    elementwise: float

    def bandwidth(self, nbytes: float) -> float:
        """Bandwidth of the copy of the nearest size."""
        return self.copies[min(self.copies, key=lambda n: abs(math.log(n / max(nbytes, 1.0))))]

    def floor_us(self, part: Work) -> float:
        """The least time of one run of a part, in microseconds."""
        seconds = max(
            part.nbytes / self.bandwidth(part.nbytes),
            part.products / self.product,
            part.operations / self.elementwise,
        )
        return 1e6 * seconds

    def is_sound(self) -> bool:
        """True if every figure is a positive number."""
        figures = (*self.copies, *self.copies.values(), self.product, self.elementwise)
        return bool(self.copies) and all(0 < x < math.inf for x in figures)

    def __str__(self) -> str:
        copies = ", ".join(f"{n / 2**20:.3g} MiB {r / 1e9:.0f}" for n, r in self.copies.items())
        return (
            f"products {self.product / 1e9:.0f} GFLOP/s, loops {self.elementwise / 1e9:.0f} "
            f"GFLOP/s, copies GB/s: {copies}"
        )


def peaks() -> Peaks | None:
    """Those of this machine, from disk or measured now (which takes some seconds). None where there
    is no C++ compiler."""
    with _lock:
        return _known(threads.get_num_threads())


@functools.lru_cache(maxsize=8)
def _known(count: int) -> Peaks | None:
    key = cache.digest("peaks", build.isa(), str(count), build.headers_digest())
    entry = cache.default().get(key)
    if entry is not None:
        with suppress(*cache.DAMAGED):
            data = entry.data
            copies = {int(n): float(rate) for n, rate in data["copies"]}
            kept = Peaks(copies, float(data["product"]), float(data["elementwise"]))
            if kept.is_sound():
                return kept
            cache.default().delete(key)
    try:
        build.compiler()
    except build.NoCompiler:
        return None
    found = measure()
    data = {"product": found.product, "elementwise": found.elementwise}
    with suppress(OSError):
        cache.default().put(key, {**data, "copies": [*found.copies.items()]}, {})
    return found


def measure(
    counts: Sequence[int] = COPIES,
    side: int = SIDE,
    seconds: float = SECONDS,
    options: Options | None = None,
) -> Peaks:
    """The figures of this machine now, by compiled code: copies of so many elements, a product of
    square matrices, a loop; each for so many seconds."""

    def copy(x: Any, y: Any) -> None:
        y.copy_(x)

    def product(a: Any, b: Any) -> Any:
        return a @ b

    def chains(x: Any) -> Any:  # so many that none waits for the one before
        parts = [x + i for i in range(8)]
        for i in range(16):
            parts = [part * 0.5 + i for part in parts]
        return sum(parts)

    compiled = functools.partial(jit, backend="cpp", dynamic=False)
    fastest = functools.partial(_fastest, seconds, options or Options())
    with eager.no_grad(), stance("default"), config(debug=0):
        copied, copies = compiled(copy), {}
        for count in counts:
            least, part = fastest(copied, eager.zeros(count), eager.ones(count))
            copies[int(part.nbytes)] = part.nbytes / least
        square = eager.ones(side, side)
        least, part = fastest(compiled(product), square, square)
        rate = part.products / least
        least, part = fastest(compiled(chains), eager.ones(1 << 15))
        return Peaks(copies, rate, part.operations / least)


def _fastest(
    seconds: float, options: Options, step: Callable[..., Any], *args: Any
) -> tuple[float, Work]:
    """The seconds of the fastest run of a function that is one part, and the part."""
    begun = recorder.start(options)
    try:
        step(*args)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            step(*args)
    finally:
        spans = recorder.stop(options, begun)
    mine = threading.get_ident()
    runs = [s for s in spans if s.thread == mine and s.part.kind in CALCULATES]
    largest = max((s.part for s in runs), key=lambda p: p.nbytes + p.products + p.operations)
    return min(s.own for s in runs if s.part is largest) / 1e9, largest
