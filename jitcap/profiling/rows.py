"""Spans of a profile -> rows that sum to its wall time, by kernel, by the user's line, by module.

A span's own time is what no span inside it has. What is left of the wall time on the thread that
profiled is a row, too: Python that runs outside of all spans. Bodies that equal layers share have
the places of the first of them: inside the call of another its module takes their place.
"""

from __future__ import annotations

import ast
import functools
import linecache
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from typing import Any, Final

from eager.base.dataclass import dataclass
from eager.base.nesting import Nested, nested
from eager.base.recorder import Span, UserLine, Work
from jitcap.base.module_path import moved

GROUPS: Final = ("kernel", "line", "module")
BACKWARD: Final = ", backward"
OUTSIDE: Final = Work("Python outside of @jit and of eager's ops", "python")
GUARDS: Final = Work("guards of {}, and its inputs", "guards")
EFFECTS: Final = Work("Python in {}: results, effects", "python")
PLAIN: Final = Work("Python in {}: no compiled code ran", "python")


@dataclass(slots=True, eq=False)
class Row:
    """Runs of equal parts: microseconds, number of runs, and what all of them moved and computed.
    `lines` and, of derivatives, the lines of what they are derivatives of (`forward`), those with
    most of the work first; `modules`. `work`: of one run, for each part, with its number of
    runs."""

    name: str
    kind: str
    shapes: str = ""
    lines: tuple[str, ...] = ()
    forward: tuple[str, ...] = ()
    modules: dict[str, None] = field(default_factory=dict)
    us: float = 0.0
    least: float = math.inf  # microseconds of the fastest run
    calls: int = 0
    nbytes: float = 0.0
    products: float = 0.0
    operations: float = 0.0
    work: list[tuple[Work, float]] = field(default_factory=list)

    @classmethod
    def of(cls, part: Work) -> Row:
        """A row for the runs of a part, without any yet."""
        places = sorted(part.places, key=lambda place: -part.places[place])
        forward = tuple(dict.fromkeys(place.forward for place in places if place.forward))
        modules = dict.fromkeys(place.module for place in places if place.module)
        return cls(part.name, part.kind, part.shapes, part.lines, forward, modules)

    @property
    def gbs(self) -> float:
        """Gigabytes a second."""
        return self.nbytes / self.us / 1e3 if self.us else 0.0

    @property
    def gflops(self) -> float:
        """Thousand millions of operations a second."""
        return (self.products + self.operations) / self.us / 1e3 if self.us else 0.0

    def take(self, part: Work, us: float, runs: int, share: float = 1.0) -> None:
        self.us += us * share
        if runs:
            self.least = min(self.least, us * share / runs)
        self.calls += runs
        self.nbytes += part.nbytes * runs * share
        self.products += part.products * runs * share
        self.operations += part.operations * runs * share
        self.work.append((part, runs * share))


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """All that ran, with its own time in nanoseconds; `wall` without what the profiler took."""

    spans: tuple[tuple[Span, Work, int], ...]
    begin: int
    end: int
    thread: int
    taken: int

    @property
    def wall(self) -> int:
        return self.end - self.begin - self.taken


def timeline(spans: Sequence[Span], begin: int, end: int, thread: int) -> Timeline:
    """The spans that lie in a profile, each with its own time."""
    inside = [s for s in spans if s.start >= begin and s.end <= end]
    by_thread: dict[int | str, list[Span]] = defaultdict(list)
    for s in inside:
        by_thread[s.thread].append(s)
    found: list[tuple[Span, Work, int]] = []
    covered = taken = 0
    known: dict[Any, Work] = {}
    for ident, own in by_thread.items():
        opened, top = nested(own)
        found += [row for entry in opened for row in _parts(entry, known)]
        if ident == thread:
            covered = top
            taken = sum(s.end - s.start for s in own if s.part.kind == "profiler")
    rest = max(0, end - begin - covered)
    found.append((Span(OUTSIDE, begin, begin, thread, rest), OUTSIDE, rest))
    return Timeline(tuple(found), begin, end, thread, taken)


def _parts(entry: Nested, known: dict[Any, Work]) -> Iterator[tuple[Span, Work, int]]:
    """The rows of a span: a call is guards, then what comes after compiled code. `known`: what was
    moved already."""
    s, own = entry.span, max(entry.own, 0)
    if s.part.kind != "call":
        yield s, _moved(entry, known), own
        return
    if entry.before < 0:
        yield s, _named(PLAIN, s.part.name), own
        return
    guards = min(max(entry.before, 0), own)
    yield s, _named(GUARDS, s.part.name), guards
    yield s, _named(EFFECTS, s.part.name), own - guards


def _moved(entry: Nested, known: dict[Any, Work]) -> Work:
    """A part, with the modules of those whose calls of a shared body it runs in."""
    part, outer = entry.span.part, entry.outer
    while outer is not None:
        if (pair := outer.span.part.moved) is not None:
            key = part, pair
            if key not in known:
                known[key] = _with_modules(part, *pair)
            part = known[key]
        outer = outer.outer
    return part


def _with_modules(part: Work, old: str, new: str) -> Work:
    places: dict[UserLine, float] = defaultdict(float)
    for place, share in part.places.items():
        places[place._replace(module=moved(place.module, old, new))] += share
    return replace(part, places=dict(places))


@functools.cache
def _named(part: Work, name: str) -> Work:
    return Work(part.name.format(name), part.kind)


def rows_of(line: Timeline, group: str = "kernel") -> list[Row]:
    """The rows, those with most time first. Raises ValueError for another group."""
    if group not in GROUPS:
        raise ValueError(f"group={group!r}: there are {', '.join(map(repr, GROUPS))}")
    rows: dict[Any, Row] = {}
    known: dict[Work, list[tuple[Row, float]]] = {}  # the rows that a part is in, with its shares
    for span, part, own in line.spans:
        if part.kind in ("range", "profiler"):
            continue
        if part not in known:
            known[part] = []
            for key, new, share in _whole(part) if group == "kernel" else _shares(part, group):
                row = rows.setdefault(key, new)
                row.modules |= new.modules
                known[part].append((row, share))
        for row, share in known[part]:
            row.take(part, own / 1e3, span.runs, share)
    return sorted(rows.values(), key=lambda row: -row.us)


Keyed = tuple[tuple[Any, ...], Row, float]  # what rows of one thing have in common; the share of it


def _whole(part: Work) -> Iterator[Keyed]:
    new = Row.of(part)
    yield (new.kind, new.name, new.shapes, new.lines, new.forward), new, 1.0


def _shares(part: Work, group: str) -> Iterator[Keyed]:
    """The rows of the lines, or of the modules, that a part comes from: of a derivative those of
    what it is the derivative of. A line of no module counts for its function."""
    whole = sum(part.places.values())
    if not whole:
        yield (part.name,), Row(part.name, group), 1.0
        return
    for place, work in part.places.items():
        line = place.forward or place.line
        name = text_of(line) if group == "line" else place.module or function_of(line)
        name = f"{name or part.name}{BACKWARD if place.forward else ''}"
        new = Row.of(Work(name, group, places={place: 1.0}))
        yield (name, *(place[::2] if group == "line" else ())), new, work / whole


def text_of(place: str) -> str:
    """The source of a line."""
    file, _, number = place.rpartition(":")
    return linecache.getline(file, int(number)).strip() if number.isdigit() else ""


def function_of(place: str) -> str:
    """The qualified name of the function that a line lies in: "Block.forward"."""
    file, _, number = place.rpartition(":")
    if not number.isdigit():
        return place
    line, found = int(number), ""
    for name, first, last in _functions(file):
        if first <= line <= last:
            found = name  # the last one is the innermost
    return found or f"the module {file}"


@functools.lru_cache(maxsize=256)
def _functions(file: str) -> list[tuple[str, int, int]]:
    """The functions of a file: qualified name, first line, last line; outer ones first."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:  # no Python: a notebook's magic, say
        return []
    return [*_inside(tree, "")]


def _inside(node: ast.AST, prefix: str) -> Iterator[tuple[str, int, int]]:
    for child in ast.iter_child_nodes(node):
        name = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}."
            if not isinstance(child, ast.ClassDef):
                yield name[:-1], child.lineno, child.end_lineno or child.lineno
        yield from _inside(child, name)
