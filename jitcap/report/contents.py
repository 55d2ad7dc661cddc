"""Contents of the page: all that it shows, as data. Explanation -> what JSON can say.

    texts    every text once: stages, rewrites, files, what happened
    places   the user's lines, [file, line]; texts say by runs [first line, last line, places] which
             of their lines come from which
    parts    what was compiled: stages, rewrites, pictures of the graphs, the memory plan

Texts that are longer than all others together may be are cut, and say so: a page is for reading.
"""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from jitcap.base.diagnostics import Event, Trail
from jitcap.compile.rewrites import Rewrite
from jitcap.graph.graph import Graph, Where
from jitcap.graph.subgraphs import everywhere
from jitcap.report.kernels import kernel_lines
from jitcap.report.links import Places
from jitcap.report.memory import memory_map
from jitcap.report.picture import Pictures

BUDGET: Final = 1_500_000  # characters of all stages
LONG: Final = 4000  # lines of a source file, of which else only the part in question is shown
AROUND: Final = 60  # lines before and after that part


def _most(lengths: Iterable[int]) -> int:
    """Characters that are kept of a text, so that those of all are within the budget."""
    left, room = BUDGET, sorted(lengths)
    for i, length in enumerate(room):
        if length * (len(room) - i) > left:
            return left // (len(room) - i)
        left -= length
    return BUDGET


class Contents:
    """The data of a page. `profile`: one that was taken, with `rows()` and `wall_us`."""

    def __init__(self, explanation: Any, profile: Any = None) -> None:
        self.explanation = explanation
        self.profile = profile
        self.texts: dict[str, int] = {}
        self.most = _most(map(len, {*explanation.stages.values()}))
        self.trails: Sequence[Trail] = explanation.trails
        counts = Counter(
            (where.file, where.line)
            for trail in self.trails
            for graph in trail.made.values()
            if isinstance(graph, Graph)
            for where in (n.where for n in everywhere(graph))
            if where.file
        )
        files = Counter[str]()
        for (file, _), n in counts.items():
            files[file] += n
        order = {file: i for i, (file, _) in enumerate(files.most_common())}
        self.places = Places(sorted(counts, key=lambda key: (order[key[0]], key[1])))

    def data(self) -> dict[str, Any]:
        """All of it."""
        parts = [part for each in self._trails() for part in self._parts(*each)]
        story, events = self._story()
        return {
            "name": self.explanation.name,
            "summary": self.explanation.summary(),
            "parts": parts or [self._empty()],
            "events": events,
            "story": self._text(story),
            "guards": self._text(self.explanation.all_guards() or "none"),
            "profile": self._profile(),
            "files": [*self._files()],
            "places": self.places.rows,
            "texts": [*self.texts],
        }

    # ---------------------------------------------------------------------------- texts

    def _text(
        self, text: str, kernels: Mapping[str, Sequence[int]] | None = None
    ) -> dict[str, Any]:
        """A text with its links; of a long one its begin."""
        if len(text) > self.most:
            begin = text[: max(text.rfind("\n", 0, self.most), 0)]
            left = text.count("\n") - begin.count("\n")
            text = f"{begin}\n# … {left} more lines: print(explanation.stages[...]) has all"
        language = "cpp" if "#include" in text else "python"
        links = self.places.runs(text, kernels or {})
        return {"text": self._number(text), "links": links, "language": language}

    def _number(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def _files(self) -> Iterator[dict[str, Any]]:
        """The user's files, or of long ones the part that places lie in."""
        for i, file in enumerate(self.places.files):
            lines = [line.rstrip("\n") for line in linecache.getlines(file)]
            used = [line for f, line in self.places.rows if f == i]
            first, end = 1, len(lines)
            if len(lines) > LONG and used:
                first, end = max(1, min(used) - AROUND), min(len(lines), max(used) + AROUND)
            text = "\n".join(lines[first - 1 : end]) or f"# there is no source of {file}"
            yield {"name": file, "first": first, "text": self._number(text)}

    # ---------------------------------------------------------------------------- parts

    def _trails(self) -> Iterator[tuple[str, Trail]]:
        many = len(self.trails) > 1
        yield from ((f"part {i} " if many else "", t) for i, t in enumerate(self.trails, 1))

    def _parts(self, prefix: str, trail: Trail) -> Iterator[dict[str, Any]]:
        """Parts that one log tells: what was compiled first, what came next, ..."""
        by_round: dict[int, dict[str, str]] = {}
        for key in trail.texts:
            stage, _, number = key.rpartition(" ")
            again = stage in trail.texts and number.isdigit()
            by_round.setdefault(int(number) if again else 1, {})[stage if again else key] = key
        for turn, keys in by_round.items():
            name = f"{prefix}{trail.name}" if turn == 1 else f"{prefix}{trail.name}, {turn}"
            yield self._part(name, prefix, trail, keys)

    def _part(
        self, name: str, prefix: str, trail: Trail, keys: Mapping[str, str]
    ) -> dict[str, Any]:
        made = {stage: trail.made[key] for stage, key in keys.items() if key in trail.made}
        results = getattr(made.get("source") or made.get("plan"), "results", {})
        lines = kernel_lines(results)
        kernels = {name: self._numbers(lines[name]) for name in lines}
        stages = []
        for stage, key in keys.items():
            text = self.explanation.stages.get(prefix + key)
            if text is not None:
                stages.append({"name": stage, **self._text(text, kernels)})
        pictures = Pictures(self._of_where)
        shown = [(s, pictures.add(g)) for s, g in made.items() if isinstance(g, Graph)]
        again = trail.rewrites.get(keys.get("passes", ""), list)
        return {
            "name": name,
            "stages": stages,
            "rewrites": [self._rewrite(each) for each in again()],
            "graphs": pictures.made,
            "pictures": shown,
            "modules": [*pictures.modules],
            "memory": memory_map(results, self._numbers),
        }

    def _empty(self) -> dict[str, Any]:
        """A part without anything: what came from disk has no log."""
        return {
            "name": self.explanation.name, "stages": [], "rewrites": [], "graphs": [],
            "pictures": [], "modules": [], "memory": None,
        }  # fmt: skip

    def _rewrite(self, each: Rewrite) -> dict[str, Any]:
        return {"name": each.title, **self._text(str(each))}

    # ---------------------------------------------------------------------------- places

    def _of_where(self, where: Where) -> int:
        return self.places.number(where.file, where.line)

    def _numbers(self, lines: Iterable[str]) -> list[int]:
        return [p for p in dict.fromkeys(map(self.places.of, lines)) if p >= 0]

    # ---------------------------------------------------------------------------- what happened

    def _story(self) -> tuple[str, list[dict[str, Any]]]:
        """Story of what happened, in its order: as text and as events with their lines in it."""
        lines: list[str] = []
        events = []
        for event in self.explanation.history or self._compiles():
            first, *rest = event.text.split("\n")
            inside = self.explanation.inside
            times = [(name, s, inside.get(name, "")) for name, s in event.stages.items()]
            events.append({
                "kind": event.kind, "call": event.call, "text": f"{event.kind}: {first}",
                "seconds": event.seconds, "times": times, "line": len(lines),
            })  # fmt: skip
            took = f" in {event.seconds * 1e3:.1f} ms" if event.seconds else ""
            lines += [
                f"call {event.call}: {event.kind}{took}: {first}",
                *("    " + x for x in rest),
            ]
            if times:
                top = [f"{name} {s * 1e3:.1f} ms" for name, s, whole in times if not whole]
                lines.append("    " + ", ".join(top))
        told = "\n".join(lines)
        lines += [f"split: {s}" for s in map(str, self.explanation.splits) if s not in told]
        lines += [f"callback into NumPy: {c}" for c in self.explanation.callbacks]
        lines += [f"note: {note}" for note in self.explanation.notes]
        return "\n".join(lines), events

    def _compiles(self) -> Iterator[Event]:
        """The compiles alone, of what was not called."""
        for _, trail in self._trails():
            seconds = sum(s for name, s in trail.seconds.items() if name not in trail.inside)
            yield Event("compile", 0, trail.name, seconds, dict(trail.seconds))

    def _profile(self) -> dict[str, Any] | None:
        """The rows of the profile: µs, share of the time, runs, GB/s, GFLOP/s, what, lines."""
        if self.profile is None:
            return None
        wall = self.profile.wall_us or 1.0
        lines = [f"{'us':>12} {'share':>6} {'runs':>7} {'GB/s':>7} {'GFLOP/s':>8}  what"]
        for row in self.profile.rows():
            lines.append(
                f"{row.us:12,.1f} {row.us / wall:6.1%} {row.calls:7,} {row.gbs:7.1f} "
                f"{row.gflops:8.1f}  {row.kind} {row.name} {row.shapes}  # {' '.join(row.lines)}"
            )
        return self._text("\n".join(lines))
