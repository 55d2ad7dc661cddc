"""Results -> table on the terminal, JSON file, PNG."""

import json
from pathlib import Path
from typing import Any

from benchmarks.competitors import COMPETITORS

LABELS = {competitor.name: competitor.label for competitor in COMPETITORS}


def milliseconds(seconds: float) -> str:
    """Three significant digits."""
    ms = seconds * 1e3
    decimals = 4 if ms < 0.1 else 3 if ms < 1 else 2 if ms < 10 else 1
    return f"{ms:.{decimals}f}"


def table(rows: list[list[str]]) -> str:
    """Rows of cells as aligned text; the first row is the header."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join(lines)


def line(results: dict[str, Any], workload: str) -> str:
    """One workload's medians, for whoever waits for the rest."""
    medians = (
        f"{LABELS[name]} {milliseconds(timing['median'])}"
        for name, timing in results[workload]["times"].items()
    )
    return f"  {workload}, ms: {', '.join(medians)}"


def times_table(results: dict[str, Any], names: list[str]) -> str:
    """Milliseconds per call, median and (minimum)."""
    rows = [["ms: median (min)", *(LABELS[name] for name in names)]]
    for workload, result in results.items():
        cells = []
        for name in names:
            timing = result["times"].get(name)
            cells.append(
                f"{milliseconds(timing['median'])} ({milliseconds(timing['minimum'])})"
                if timing
                else "-"
            )
        rows.append([workload, *cells])
    return table(rows)


def ratio(result: dict[str, Any], name: str) -> float | None:
    """How many times longer than @jit the competitor takes, by medians."""
    ours, theirs = result["times"].get("jit"), result["times"].get(name)
    return theirs["median"] / ours["median"] if ours and theirs else None


def ratios_table(results: dict[str, Any], names: list[str]) -> str:
    """Times of the others as multiples of @jit's: above 1, @jit is faster."""
    others = [name for name in names if name != "jit"]
    rows = [["times @jit's", *(LABELS[name] for name in others)]]
    for workload, result in results.items():
        ratios = (ratio(result, name) for name in others)
        rows.append([workload, *("-" if r is None else f"{r:.2f}x" for r in ratios)])
    return table(rows)


def compile_table(results: dict[str, Any], names: list[str]) -> str:
    """Seconds of the first call, with an empty cache and with a filled one in a new process."""
    names = [name for name in names if any(name in r["compile"] for r in results.values())]
    rows = [["first call, s: cold / warm", *(LABELS[name] for name in names), "@jit kernels"]]
    for workload, result in results.items():
        records = [result["compile"].get(name) for name in names]
        cells = [
            f"{r['cold']['first']:.2f} / {r['warm']['first']:.2f}" if r else "-" for r in records
        ]
        ours = result["compile"].get("jit")
        rows.append([workload, *cells, str(ours["cold"].get("kernels", "-")) if ours else "-"])
    return table(rows)


def show(results: dict[str, Any], names: list[str]) -> str:
    """The whole report as text."""
    parts = [times_table(results, names)]
    if "jit" in names:
        parts.append(ratios_table(results, names))
    if any(result["compile"] for result in results.values()):
        parts.append(compile_table(results, names))
    faults = [f"{w}: {fault}" for w, r in results.items() for fault in r["faults"]]
    return "\n\n".join(parts) + "".join(f"\n{fault}" for fault in faults)


def save_json(path: Path, results: dict[str, Any], machine: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine, "workloads": results}, indent=1) + "\n")


def save_png(path: Path, results: dict[str, Any], names: list[str]) -> str:
    """Bars of every competitor's time over @jit's, on a log scale; a word when it cannot."""
    try:
        import matplotlib as mpl
    except ImportError:
        return "no picture: matplotlib is not installed"
    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, 4.5))
    width = 0.8 / max(1, len(names))
    for i, name in enumerate(names):
        values = [ratio(result, name) or 0 for result in results.values()]
        places = [x + (i - (len(names) - 1) / 2) * width for x in range(len(results))]
        axes.bar(places, values, width, label=LABELS[name])
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(yscale="log", ylabel="time as a multiple of @jit's", title="Steps on 2 CPU threads")
    axes.set_xticks(range(len(results)), list(results))
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return f"picture: {path}"
