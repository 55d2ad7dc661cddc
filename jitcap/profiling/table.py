"""Rows of a profile -> text that fits a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Final

from jitcap.profiling.peaks import Peaks
from jitcap.profiling.rows import Row, Timeline, rows_of

HEAD: Final = (
    f"{'us':>12} {'share':>6} {'calls':>7} {'us/call':>10} {'fastest':>10} {'GB/s':>7} "
    f"{'GFLOP/s':>8} {'roof':>5}  what"
)
NAME: Final = 60  # characters of what runs


def floor_us(row: Row, peaks: Peaks | None) -> float:
    """The least time of all runs of a row; 0 where nothing is known."""
    if peaks is None:
        return 0.0
    return sum(
        peaks.floor_us(part) * runs for part, runs in row.work if part.nbytes or part.products
    )


def ordered(rows: Sequence[Row], peaks: Peaks | None, sort: str) -> list[Row]:
    """Raises ValueError for another sort."""
    keys: dict[str, Callable[[Row], float]] = {
        "time": lambda row: row.us,
        "calls": lambda row: row.calls,
        "loss": lambda row: row.us - floor_us(row, peaks),
    }
    if sort not in keys:
        raise ValueError(f"sort={sort!r}: there are {', '.join(map(repr, keys))}")
    return sorted(rows, key=keys[sort], reverse=True)


def text(
    line: Timeline, rows: Sequence[Row], peaks: Peaks | None, sort: str, limit: int | None
) -> str:
    """The table, with a line on the whole above it and one on what is left out below."""
    shown = ordered(rows, peaks, sort)[:limit]
    wall = line.wall / 1e3
    lines = [f"{wall:,.1f} us in all; {sum(row.us for row in rows):,.1f} in {len(rows)} rows", HEAD]
    lines += [_line(row, wall, peaks) for row in shown]
    if len(shown) < len(rows):
        rest = sum(row.us for row in rows) - sum(row.us for row in shown)
        lines.append(f"{rest:12,.1f} {_share(rest, wall)} in {len(rows) - len(shown)} other rows")
    if line.taken:
        took = f"{line.taken / 1e9:.1f} s"
        lines.append(f"(not counted: {took} for second builds, with clocks, at first calls)")
    if peaks is not None:
        lines.append(f"roof: the share of what this machine can do: {peaks}")
    return "\n".join(lines)


def modelled(line: Timeline, limit: int | None) -> str:
    """The table of what simulated devices did."""
    rows, wall = rows_of(line), line.wall / 1e3
    busy = sum(row.us for row in rows)
    head = f"simulated devices, by their model and not measured: {busy:,.1f} us of {wall:,.1f} us"
    shown = [_line(row, wall, None) for row in rows[:limit]]
    return "\n".join([head, HEAD, *shown])


def _line(row: Row, wall: float, peaks: Peaks | None) -> str:
    each, least = (row.us / row.calls, row.least) if row.calls else (0.0, 0.0)
    gbs = f"{row.gbs:7.1f}" if row.nbytes else " " * 7
    gflops = f"{row.gflops:8.1f}" if row.products or row.operations else " " * 8
    floor = floor_us(row, peaks)
    roof = f"{min(floor / row.us, 9.99):5.0%}" if floor and row.us else " " * 5
    numbers = f"{row.us:12,.1f} {_share(row.us, wall)} {row.calls:7,} {each:10,.2f} {least:10,.2f}"
    return f"{numbers} {gbs} {gflops} {roof}  {what(row)}".rstrip()


def what(row: Row) -> str:
    """Name of a row, with its shapes and where it comes from."""
    name = f"{row.name}, called back in NumPy" if row.kind == "callback" else row.name
    name = name if len(name) <= NAME else name[: NAME - 3] + "..."
    shapes = f" [{row.shapes}]" if row.shapes else ""
    if row.kind == "module":
        return name
    texts = {
        "": _shown(row.lines, short), "of ": _shown(row.forward, short),
        "in ": _shown([*row.modules], str),
    }  # fmt: skip
    places = ", ".join(f"{before}{text}" for before, text in texts.items() if text)
    return f"{name}{shapes}  {places}".rstrip()


def short(line: str) -> str:
    """A line, without the folder of its file."""
    file, _, number = line.rpartition(":")
    return f"{PurePath(file).name}:{number}"


def _shown(values: Sequence[str], short: Callable[[str], str]) -> str:
    """The first, and how many more there are."""
    more = f" and {len(values) - 1} more" if len(values) > 1 else ""
    return f"{short(values[0])}{more}" if values else ""


def _share(us: float, wall: float) -> str:
    return f"{us / wall if wall else 0:6.1%}"
