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
import time
from dataclasses import dataclass
from pathlib import Path

import eager
from benchmarks import competitors, more
from benchmarks.workloads import Workload
from eager.base.recorder import Options, Span, Work, recorder
from jitcap.profiling.peaks import Peaks
from jitcap.profiling.peaks import measure as measure_peaks

COPIES = [1 << power for power in range(14, 28, 2)]  # elements
SIDE = 1536  # of the matrices
ELSEWHERE = ("launch", "loop")  # kinds: the time between the parts of a step

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


def measure(workload: Workload, peaks: Peaks, options: Options, seconds: float) -> list[Row]:
    """The fastest of the steps, part by part; what loses most comes first."""
    call = competitors.jit(workload).call
    for _ in range(3):
        call()
    steps, least, fastest = 0, math.inf, list[Span]()
    begun = recorder.start(options)
    try:
        call()  # builds with clocks are made
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or steps < 3:
            inner = recorder.start(options)
            call()
            spans = recorder.stop(options, inner)
            parts = [s for s in spans if s.own >= 0 and s.part.kind not in ELSEWHERE]
            steps += 1
            if (spent := sum(s.own for s in parts)) < least:
                least, fastest = spent, parts
    finally:
        recorder.stop(options, begun)
    rows: dict[Work, Row] = {}
    for span in fastest:
        row = rows.setdefault(span.part, Row(span.part, 0, 0.0, 0.0))
        row.runs += span.runs
        row.seconds += span.own / 1e9
        row.floor += span.runs * peaks.floor_us(span.part) / 1e6
    return sorted(rows.values(), key=lambda row: row.floor - row.seconds)


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
    options = Options(cpu_time=args.cpu_time)
    peaks = measure_peaks(COPIES, SIDE, 0.4, options)
    copies = ", ".join(f"{n / 2**20:.2g} MiB {r / 1e9:.0f}" for n, r in peaks.copies.items())
    print(f"copy GB/s: {copies}; products {peaks.product / 1e9:.0f} GFLOP/s", end="; ")
    print(f"element-wise {peaks.elementwise / 1e9:.0f}")
    measured = {}
    for name in args.only.split(",") if args.only else more.BY_NAME:
        measured[name] = measure(more.BY_NAME[name], peaks, options, args.seconds)
        show(name, measured[name], args.worst)
        if args.svg:
            args.svg.write_text(picture(measured, peaks))


if __name__ == "__main__":
    main()
