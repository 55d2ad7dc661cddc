"""How near each compiled step is to what the machine can do: python -m benchmarks.roofline

    measured    every kernel and library step of the step, by a clock around its call
    floor       the larger of its bytes at the speed of a copy of that size, its floating-point
                operations at the speed of a large product, its element-wise ones at that of a loop
                in registers; the peaks are measured first, with our own compiled code

Bytes are those of the buffers that it reads and writes, each once; a program that is fused better
would need fewer, so a share of 1 says that this code is run well, and not that there is no better.
`--worst` shows the parts of a step that lose most; `--svg docs/roofline.svg` draws the picture.
"""

import argparse
import math
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import eager
import jitcap
from benchmarks import competitors, more
from benchmarks.workloads import Workload
from codegen.ir.schema import Library
from codegen.targets.cpp import clocks, program
from eager.base.recorder import Work

MOST = 1 << 16  # parts of a step that are timed
TIMED = """
#include <time.h>
static inline double jc_clock() {{ timespec t; clock_gettime({clock}, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }}
static double *const jc_spent = (double *){address};
struct JcTimed {{ int i; double start; JcTimed(int i) : i(i), start(jc_clock()) {{}}
  ~JcTimed() {{ jc_spent[2 * i] += jc_clock() - start; jc_spent[2 * i + 1] += 1; }} }};
"""  # noqa: E501


class Clocks(clocks.Clocks):
    """The parts of the programs that were compiled, and their clocks: (seconds, runs) of each."""

    def __init__(self, clock: str) -> None:
        super().__init__()
        self.clock = clock
        self.spent: Any = np.zeros((MOST, 2))


# ---------------------------------------------------------------------------------- timed code


@contextmanager
def timed(clocks: Clocks) -> Iterator[None]:
    """Programs that are compiled inside have a clock around each part."""
    call_kernel, lines, main = program.call_kernel, program._Emission.step, program._Emission.main

    def kernel(name: str, texts: Any, places: Any, sites: Any) -> str:
        fused = places.fused
        by_name = {item.name: item for item in fused.kernels() if item.name in texts}
        call = [call_kernel(name, texts, places, sites)]
        return " ".join(clocks.around([by_name[text] for text in texts], call, fused.buffers))

    def step(self: Any, item: Library, places: Any, batched: Any) -> list[str]:
        made = lines(self, item, places, batched)
        if item.bodies:  # its parts have their own
            return made
        return clocks.around([item], made, places.fused.buffers)

    def whole(self: Any, *args: Any) -> str:
        head, mark, rest = main(self, *args).partition("JC_MODULE")
        return (
            head + TIMED.format(address=clocks.spent.ctypes.data, clock=clocks.clock) + mark + rest
        )

    with (
        mock.patch.object(program, "call_kernel", kernel),
        mock.patch.object(program._Emission, "step", step),
        mock.patch.object(program._Emission, "main", whole),
        tempfile.TemporaryDirectory() as folder,
        mock.patch.dict(os.environ, {"JITCAP_CACHE_DIR": folder}),
    ):
        yield


# ---------------------------------------------------------------------------------- peaks


@dataclass
class Peaks:
    """Bytes a second of a copy by the bytes that move; operations a second."""

    copies: dict[int, float]
    product: float
    elementwise: float

    def bandwidth(self, nbytes: float) -> float:
        """Of the copy of the nearest size."""
        return self.copies[min(self.copies, key=lambda size: abs(math.log(size / max(nbytes, 1))))]

    def floor(self, work: Work) -> float:
        return max(
            work.nbytes / self.bandwidth(work.nbytes),
            work.products / self.product,
            work.operations / self.elementwise,
        )


def measure_peaks(clock: str) -> Peaks:
    """By our own compiled code, timed inside it."""
    clocks = Clocks(clock)

    def rate(fn: Any, *args: Any) -> tuple[float, Work]:
        step = jitcap.jit(fn)
        first = len(clocks.parts)
        step(*args)
        least = math.inf
        end = time.perf_counter() + 0.4
        while time.perf_counter() < end:
            clocks.spent[:] = 0
            step(*args)
            least = min(least, float(clocks.spent[first:, 0].sum()))
        return least, clocks.parts[first]

    def copy(x: Any, y: Any) -> None:
        y.copy_(x)

    def chains(x: Any) -> Any:  # so many that none waits for the one before
        parts = [x + i for i in range(8)]
        for i in range(16):
            parts = [part * 0.5 + i for part in parts]
        return sum(parts)

    with timed(clocks):
        copies = {}
        for power in range(14, 28, 2):
            x = eager.zeros(1 << power)
            least, work = rate(copy, x, eager.ones(1 << power))
            copies[int(work.nbytes)] = work.nbytes / least
        x = eager.ones(1536, 1536)
        least, work = rate(lambda a, b: a @ b, x, x)
        product = work.products / least
        least, work = rate(chains, eager.ones(1 << 15))
        return Peaks(copies, product, work.operations / least)


# ---------------------------------------------------------------------------------- workloads


@dataclass
class Row:
    """A part of a step: how often it runs in one, and in how long all of its runs are over."""

    work: Work
    runs: float
    seconds: float
    floor: float

    @property
    def kind(self) -> str:
        return (
            "products" if self.work.products else "loops" if self.work.kind == "kernel" else "steps"
        )


def measure(workload: Workload, peaks: Peaks, clock: str, seconds: float) -> list[Row]:
    """The fastest of the steps, part by part; what loses most comes first."""
    clocks = Clocks(clock)
    with timed(clocks):
        call = competitors.jit(workload).call
        for _ in range(3):
            call()
        steps, least, spent = 0, math.inf, clocks.spent
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or steps < 3:
            clocks.spent[:] = 0
            call()
            steps += 1
            if clocks.spent[:, 0].sum() < least:
                least, spent = float(clocks.spent[:, 0].sum()), clocks.spent.copy()
    rows = [
        Row(work, runs, taken, runs * peaks.floor(work))
        for work, (taken, runs) in zip(clocks.parts, spent[: len(clocks.parts)], strict=True)
        if runs
    ]
    return sorted(rows, key=lambda row: row.floor - row.seconds)


def show(name: str, rows: list[Row], worst: int) -> None:
    spent, floor = (1e3 * sum(getattr(row, key) for row in rows) for key in ("seconds", "floor"))
    print(f"{name:13} {spent:8.2f} ms, floor {floor:8.2f}: {floor / spent:.0%}", flush=True)
    for row in rows[:worst]:
        w = row.work
        print(
            f"   {1e3 * row.seconds:8.3f} ms, floor {1e3 * row.floor:8.3f}, {row.runs:4.0f} x "
            f"{w.nbytes / 2**20:8.2f} MiB {w.products / 1e9:7.3f} GFLOP {w.operations / 1e9:7.3f} "
            f"{w.name} {w.shapes} {' '.join(w.lines)}"[:240]
        )


# ---------------------------------------------------------------------------------- picture

KINDS = {
    "products": ("products and convolutions", "#1f5fa8"),
    "loops": ("generated loops", "#2e8b57"),
    "steps": ("other library steps", "#c4711d"),
}
LEFT, WIDE, LINE, TOP = 110, 560, 20, 62


def picture(measured: dict[str, list[Row]], peaks: Peaks) -> str:
    """A bar for each step, as wide as its time: the floor of each kind of part in full colour, what
    it takes beyond that pale."""
    height = TOP + LINE * len(measured) + 12
    text = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDE + 80}" height="{height}" '
            'font-family="sans-serif" font-size="12">'
        ),
        '<rect width="100%" height="100%" fill="white"/>',
        (
            f'<text x="10" y="18">Each step by its parts: the floor dark, what is beyond it pale. '
            f"Products {peaks.product / 1e9:.0f} GFLOP/s, loops {peaks.elementwise / 1e9:.0f} G/s, "
            f"copies {max(peaks.copies.values()) / 1e9:.0f} GB/s.</text>"
        ),
    ]
    for i, (label, colour) in enumerate(KINDS.values()):
        x = LEFT + 190 * i
        text.append(f'<rect x="{x}" y="32" width="12" height="12" fill="{colour}"/>')
        text.append(f'<text x="{x + 18}" y="42">{label}</text>')
    for i, (name, rows) in enumerate(measured.items()):
        y, x = TOP + LINE * i, float(LEFT)
        total = sum(row.seconds for row in rows)
        text.append(f'<text x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{name}</text>')
        for kind, (_, colour) in KINDS.items():
            own = [row for row in rows if row.kind == kind]
            spent = sum(row.seconds for row in own)
            floor = sum(min(row.floor, row.seconds) for row in own)
            for part, opacity in ((floor, 1.0), (spent - floor, 0.35)):
                width = WIDE * part / total
                text.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="14" '
                    f'fill="{colour}" fill-opacity="{opacity}"/>'
                )
                x += width
        text.append(f'<text x="{LEFT + WIDE + 6}" y="{y + 11}">{1e3 * total:.3g} ms</text>')
    return "\n".join([*text, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.roofline", description=__doc__)
    parser.add_argument("--only", help="comma-separated workloads")
    parser.add_argument("--seconds", type=float, default=1.0, help="timed, for each workload")
    parser.add_argument("--worst", type=int, default=0, help="parts to show")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu-time", action="store_true", help="of the processor: --threads 1")
    parser.add_argument("--svg", type=Path, help="the file for the picture")
    args = parser.parse_args()
    eager.set_num_threads(args.threads)
    clock = "CLOCK_THREAD_CPUTIME_ID" if args.cpu_time else "CLOCK_MONOTONIC"
    peaks = measure_peaks(clock)
    copies = ", ".join(f"{n / 2**20:.2g} MiB {r / 1e9:.0f}" for n, r in peaks.copies.items())
    print(f"copy GB/s: {copies}; products {peaks.product / 1e9:.0f} GFLOP/s", end="; ")
    print(f"element-wise {peaks.elementwise / 1e9:.0f}")
    measured = {}
    for name in args.only.split(",") if args.only else more.BY_NAME:
        measured[name] = measure(more.BY_NAME[name], peaks, clock, args.seconds)
        show(name, measured[name], args.worst)
        if args.svg:
            args.svg.write_text(picture(measured, peaks))


if __name__ == "__main__":
    main()
