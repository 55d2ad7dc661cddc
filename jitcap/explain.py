"""Beside the pipeline: all about one compile, as an object. one call -> Explanation."""

from __future__ import annotations

import html
from dataclasses import field
from pathlib import Path
from typing import Any

from eager.base.dataclass import dataclass
from jitcap.base.diagnostics import Trail


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
    timings   stage -> seconds
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

    def __str__(self) -> str:
        parts = [self.summary()]
        parts += [f"split: {s}" for s in self.splits]
        parts += [f"guard: {g}" for g in self._telling()]
        parts += [f"callback into NumPy: {c}" for c in self.callbacks]
        parts += [f"note: {n}" for n in self.notes]
        parts += [f"── {name}\n{text.rstrip()}" for name, text in self.stages.items()]
        return "\n".join(parts)

    def _telling(self) -> tuple[str, ...]:
        """The guards for a reader: those on parts of the program as one."""
        if not self.parts:
            return self.guards
        rest = f"{self.parts} on functions, classes and modules of the program (.guards has all)"
        return (*self.guards[: len(self.guards) - self.parts], rest)

    def summary(self) -> str:
        """One line: what came out, and where the time went."""
        counts = (
            f"{len(self.graphs)} graphs, {len(self.splits)} splits, "
            f"{len(self.guards)} guards, {len(self.kernels)} kernels, "
            f"{len(self.callbacks)} callbacks"
        )
        times = ", ".join(f"{n} {s * 1e3:.1f} ms" for n, s in self.timings.items())
        return f"{self.name}: {counts}; {times}"

    def html(self, path: str | Path) -> None:
        """Write a page of its own that needs nothing else: one folding section per stage."""
        esc = html.escape
        lists = (
            ("splits", self.splits),
            ("guards", self._telling()),
            ("callbacks", self.callbacks),
            ("notes", self.notes),
        )
        body = "".join(
            f"<h2>{title}</h2><ul>{''.join(f'<li><code>{esc(str(x))}</code>' for x in rows)}</ul>"
            for title, rows in lists
            if rows
        )
        body += "".join(
            f"<details><summary>{esc(name)}</summary><pre>{esc(text)}</pre></details>"
            for name, text in self.stages.items()
        )
        Path(path).write_text(
            f"<!doctype html><meta charset=utf-8><title>{esc(self.name)}</title><style>{_STYLE}"
            f"</style><h1>{esc(self.name)}</h1><p>{esc(self.summary())}</p>{body}\n",
            encoding="utf-8",
        )


_STYLE = (
    "body{font:15px/1.5 system-ui;max-width:70em;margin:2em auto;padding:0 1em}"
    "pre{background:#8881;padding:1em;overflow:auto}summary{cursor:pointer;font-weight:600}"
    "details{margin:.5em 0}:root{color-scheme:light dark}"
)


def explanation(
    name: str,
    trail: Trail,
    *,
    graphs: tuple[Any, ...] = (),
    splits: tuple[Any, ...] = (),
    guards: tuple[str, ...] = (),
    parts: int = 0,
) -> Explanation:
    """The record of one compile with its texts rendered."""
    return Explanation(
        name, graphs, splits, guards, tuple(trail.kernels), trail.stages, dict(trail.seconds),
        tuple(trail.notes), tuple(trail.callbacks), parts,
    )  # fmt: skip
