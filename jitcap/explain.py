"""Behind the pipeline: all about one compile, as an object. Compiled -> Explanation."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from eager.base import lazy_imports
from eager.base.config import config
from eager.base.dataclass import dataclass
from eager.base.fold_text import fold_text
from jitcap.base.abridge import Abridged
from jitcap.base.diagnostics import (
    SCREEN,
    Event,
    Trail,
    announce,
    merged,
    on_screen,
    write_dump,
)
from jitcap.base.module_path import readable
from jitcap.base.times import shown
from jitcap.capture.capture import is_of_the_text
from jitcap.versions.version import Compiled

LONGEST: Final = 12  # stages in the `repr`
MOST: Final = 100  # lines of guards in the print
SOME: Final = 4  # splits and notes there


@dataclass(frozen=True, slots=True)
class Explanation:
    """Report of the compiler on one call.

    graphs    the captured graphs, one per region
    splits    where the program was split, or runs as plain Python, and why (none: one graph)
    guards    what the compiled version relies on, in words: data first, then the program's own
              functions, classes and modules, of which there are `parts`
    kernels   what was emitted: name, source, what was fused
    callbacks what compiled code calls back in NumPy: the op, and the user's line
    stages    stage -> text, in the order of the pipeline
    timings   stage -> seconds; `inside`: the stage that one is a part of
    trails    the log of each compile, which has more than its texts
    history   what happened to a function that was called: compiles, recompiles, splits
    """

    name: str
    graphs: tuple[Any, ...]
    splits: tuple[Any, ...]
    guards: tuple[str, ...]
    kernels: tuple[Any, ...]
    stages: dict[str, str]
    timings: dict[str, float]
    notes: tuple[str, ...] = field(default=())
    callbacks: tuple[str, ...] = field(default=())
    parts: int = 0
    inside: dict[str, str] = field(default_factory=dict)
    trails: tuple[Trail, ...] = field(default=(), repr=False)
    history: tuple[Event, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        parts = [self.counts(), shown(self.timings, self.inside)]
        parts += [f"split: {s}" for s in self.splits]
        parts += [_guards(self._telling())] * bool(self.guards)
        parts += [f"callback into NumPy: {c}" for c in self.callbacks]
        parts += [f"note: {n}" for n in self.notes]
        parts += _told(self.abridged())
        return "\n".join(parts)

    def __repr__(self) -> str:
        """The counts, the longest stages, and how to see the rest: a screen."""
        longest = sorted(self.timings, key=lambda name: -self.timings[name])[:LONGEST]
        inside = {part: whole for part, whole in self.inside.items() if part in longest}
        top = {n: s for n, s in self.timings.items() if n in inside or n not in self.inside}
        lengths = [
            f"{name} {'=' if Abridged.UNCHANGED in text[:20] else text.count(chr(10)) + 1}"
            for name, text in self.abridged().items()
        ]
        told = f"stages, with their lines (=: as before): {', '.join(lengths)}"
        lines = [self.counts(), shown(top, inside), *textwrap.wrap(told, SCREEN[1])]
        for title, rows in (("split", self.splits), ("note", self.notes)):
            lines += [f"{title}: {str(row).splitlines()[0]}" for row in rows[:SOME]]
            lines += [f"{len(rows) - SOME} {title}s more"] * (len(rows) > SOME)
        how = (
            "print(e): all of it; e.stages[name], e.guards, e.kernels: parts; e.html(path): a page"
        )
        return on_screen("\n".join(lines), how) + f"\n{how}"

    def abridged(self) -> dict[str, str]:
        """The stages without what an earlier one has: "unchanged: as in fused"."""
        told = Abridged()
        return {name: told.tell(name, text) for name, text in self.stages.items()}

    def _telling(self) -> tuple[str, ...]:
        """The guards for a reader: those on parts of the program as one."""
        if not self.parts:
            return self.guards
        rest = f"{self.parts} on functions, classes and modules of the program (.guards has all)"
        return (*self.guards[: len(self.guards) - self.parts], rest)

    def all_guards(self) -> str:
        """The guards in lines, those on parts of the program too; in loops, what repeats."""
        return _guards(self.guards, len(self.guards))

    def counts(self) -> str:
        """Numbers of what came out."""
        return (
            f"{self.name}: {len(self.graphs)} graphs, {len(self.splits)} splits, "
            f"{len(self.guards)} guards, {len(self.kernels)} kernels, "
            f"{len(self.callbacks)} callbacks"
        )

    def summary(self) -> str:
        """One line: what came out, and where the time went."""
        top = {n: s for n, s in self.timings.items() if n not in self.inside}
        times = ", ".join(f"{n} {s * 1e3:.1f} ms" for n, s in top.items())
        return f"{self.counts()}; {1e3 * sum(top.values()):.1f} ms: {times}"

    def html(self, path: str | Path, profile: Any = None) -> None:
        """Write a page that needs nothing else: the user's source beside graphs, kernels and their
        code, linked by line; what each pass changed, the memory plan, what happened. With a
        `jitcap.Profile` of a run, its rows are shown beside."""
        text = _report().page(self, profile)
        Path(path).write_text(text, encoding="utf-8", errors="backslashreplace")

    def _repr_html_(self) -> str:
        """The page in a frame, for notebooks."""
        return str(_report().fragment(self))


def _told(stages: Mapping[str, str]) -> Iterator[str]:
    """Stages with their headings; those in a row that change nothing are one line."""
    for text, those in groupby(stages.items(), lambda item: item[1]):
        names = ", ".join(name for name, _ in those)
        unchanged = text.lstrip("#/ ")
        same = unchanged.startswith(Abridged.UNCHANGED)
        yield f"── {names}: {unchanged}" if same else f"── {names}\n{text}"


def _guards(guards: Iterable[str], most: int = MOST) -> str:
    """Guards in `most` lines, those of one object and line of the program together; in loops, what
    repeats."""
    rows: list[tuple[str, str, list[str]]] = []
    for each in guards:
        test, _, place = each.partition("  # ")
        what, _, expected = test.partition(": ")
        key = what, place.rpartition("/")[2]
        if not rows or rows[-1][:2] != key:
            rows.append((*key, []))
        rows[-1][2].append(expected)
    lines = (
        f"guard: {what}{': ' * bool(all_of[0])}{'; '.join(all_of)}{'  # ' * bool(place)}{place}"
        for what, place, all_of in rows
    )
    shown = fold_text([*lines]).text.split("\n")
    left = len(shown) - most
    more = [f"{left} lines of guards more: .guards has all, and the stage entry tests them"]
    return "\n".join([*shown[:most], *(more if left > 0 else [])])


def _report() -> Any:
    """The package of the page, which is imported when one is asked for."""
    return lazy_imports.submodule("jitcap", "report")


def explanation_of(
    name: str,
    made: Sequence[Compiled],
    splits: tuple[Any, ...] = (),
    history: tuple[Event, ...] = (),
    notes: tuple[str, ...] = (),
) -> Explanation:
    """The explanation of one region, or of the parts of a split function, with its texts. `notes`
    come behind those of the compiles."""
    parts = [m for m in made if m.graph] or made
    trails = [m.trail for m in parts]
    trail = trails[0] if len(parts) == 1 else merged(name, trails)
    every = [g for m in parts for g in m.captured.guards.items]
    stay = [g for g in every if is_of_the_text(g)]
    guards = tuple(
        f"{readable(g.origin.show())}: {g.expected()}  # {g.where}"
        for g in [*(g for g in every if not is_of_the_text(g)), *stay]
    )
    return Explanation(
        name, tuple(m.graph for m in parts), splits, guards, tuple(trail.kernels), trail.stages,
        dict(trail.seconds), (*trail.notes, *notes), tuple(trail.callbacks), len(stay),
        dict(trail.inside), tuple(trails), history,
    )  # fmt: skip


def dump_page(made: Compiled) -> None:
    """Write the page of a compile beside the files of its stages (`JITCAP_DUMP`)."""
    trail = made.trail
    try:
        write_dump(trail, "index.html", _report().page(explanation_of(trail.name, [made])))
    except Exception as fault:  # a page is no reason for a program to end
        if config.strict:
            raise
        announce(("page", trail.name), f"JITCAP_DUMP: no page of {trail.name}: {fault!r}")
