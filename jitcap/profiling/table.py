"""Rows of a profile -> text that fits a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Final

from jitcap.profiling.peaks import Peaks
from jitcap.profiling.rows import Row, Timeline

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
    if not row.lines:
        return name + shapes
    file, _, number = row.lines[0].rpartition(":")
    more = f" and {len(row.lines) - 1} more" if len(row.lines) > 1 else ""
    return f"{name}{shapes}  {PurePath(file).name}:{number}{more}"


def _share(us: float, wall: float) -> str:
    return f"{us / wall if wall else 0:6.1%}"
