"""Links of the page: which of the user's lines a line comes from. texts -> runs of places.

Printed stages name the user's line ("file.py:12") or a kernel, of which the lines are known. A line
that names nothing comes from what the head of its block names: the last line before it that is not
indented.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

Run = list[object]  # [first line, last line, places]
_WORD: Final = re.compile(r"[A-Za-z_]\w*")


class Places:
    """The user's lines, numbered as they are met."""

    def __init__(self, known: Iterable[tuple[str, int]]) -> None:
        self.files: list[str] = []
        self.rows: list[tuple[int, int]] = []  # (file, line) of a place
        self._numbers: dict[tuple[str, int], int] = {}
        for file, line in known:
            self.number(file, line)
        named: dict[str, list[str]] = {}
        for file in self.files:
            for name in {file, file.rpartition("/")[2]}:
                named.setdefault(name, []).append(file)
        self._named = named
        longest = sorted(map(re.escape, named), key=len, reverse=True)
        self._mention = re.compile(rf"(?<![\w/])({'|'.join(longest)}):(\d+)\b") if named else None

    def number(self, file: str, line: int) -> int:
        """The number of a place; -1 of none."""
        if not file or not line:
            return -1
        key = file, line
        if key not in self._numbers:
            if file not in self.files:
                self.files.append(file)
            self._numbers[key] = len(self.rows)
            self.rows.append((self.files.index(file), line))
        return self._numbers[key]

    def of(self, place: str) -> int:
        """The number of a place that is written "file:line"."""
        file, _, line = place.rpartition(":")
        return self.number(file, int(line)) if line.isdigit() else -1

    def mentioned(self, text: str) -> tuple[int, ...]:
        """The places that a text names; of files that share a name, those whose line is known."""
        if self._mention is None or ":" not in text:
            return ()
        found: dict[int, None] = {}
        for name, digits in self._mention.findall(text):
            files, line = self._named[name], int(digits)
            known = [(f, line) for f in files if (f, line) in self._numbers]
            found |= dict.fromkeys(self.number(*key) for key in known or [(files[0], line)])
        return tuple(found)

    def runs(self, text: str, kernels: Mapping[str, Sequence[int]]) -> list[Run]:
        """The lines of a text, in runs that come from the same places. `kernels`: theirs, by
        name."""
        found: list[Run] = []
        head: tuple[int, ...] = ()
        for i, line in enumerate(text.split("\n")):
            own = self.mentioned(line)
            if not own and kernels:
                own = _of_kernels(line, kernels)
            if line[:1] not in (" ", "\t", "}", ")", ""):
                head = own
            places = own or (head if line.strip() else ())
            if not places:
                continue
            if found and found[-1][1] == i - 1 and found[-1][2] == [*places]:
                found[-1][1] = i
            else:
                found.append([i, i, [*places]])
        return found


def _of_kernels(line: str, kernels: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    found: dict[int, None] = {}
    for name in _WORD.findall(line):
        while name not in kernels and "_" in name:  # "k3_add_mul", "k3_blocks"
            name = name.rpartition("_")[0]
        found |= dict.fromkeys(kernels.get(name, ()))
    return tuple(found)
