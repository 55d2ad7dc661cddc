"""Beside the pipeline: texts of stages for a reader. (stage, text) -> the text without what an
earlier stage has.

A stage that changes nothing says so; a function that an earlier stage has just so is named; and the
line of the program that statements in a row come from is said once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

SHORTEST: Final = 3  # lines of a function that is not repeated
LONG: Final = 40  # lines of a block of which only parts are told
RUN: Final = 6  # lines that are not repeated
_FUNCTION: Final = r"(?m)^(?:def|struct|static .*?void) (\w+?)(?:_t|_blocks)?\b"
_PLACE: Final = r"  (?:# )?([^\s/]+:\d+)$"


class Abridged:
    """Texts of one compile, those that were told before known."""

    UNCHANGED: Final = "unchanged: as in "

    def __init__(self) -> None:
        self.stages: dict[str, str] = {}  # by text
        self.blocks: dict[str, str] = {}  # the stage that has it, by text
        self.lines: dict[str, str] = {}  # likewise

    def tell(self, stage: str, text: str, *, whole: bool = False) -> str:
        """The text of the next stage. `whole`: what is left of it is a program still."""
        text = text.strip("\n")
        mark = comment(text)
        first = self.stages.setdefault(text, stage)
        if first != stage:
            return f"{mark} {self.UNCHANGED}{first}"
        parts: list[str] = []
        left: dict[str, list[str]] = {}  # functions that are not repeated, by their stage
        for block in text.split("\n\n"):
            known = self.blocks.setdefault(block, stage)
            name = re.search(_FUNCTION, block)
            if name and known != stage and block.count("\n") + 1 >= SHORTEST:
                left.setdefault(known, []).append(name[1])
            elif whole:
                parts.append(block)
            else:
                parts.append(_placed_once(self._changed(block.split("\n"), stage, mark)))
        said = (f"{mark} as in {known}: {', '.join(names)}" for known, names in left.items())
        return "\n\n".join([*parts, *said])

    def _changed(self, lines: list[str], stage: str, mark: str) -> Iterator[str]:
        """A long block without the lines that an earlier stage has, too."""
        runs = groupby(lines, lambda line: self.lines.setdefault(line, stage))
        for known, run in [(known, [*run]) for known, run in runs]:
            if known == stage or len(lines) < LONG or len(run) < RUN:
                yield from run
            else:
                start = run[0][: len(run[0]) - len(run[0].lstrip())]
                yield f"{start}{mark} {len(run)} lines as in {known}"


def comment(text: str) -> str:
    """The sign before a comment in it."""
    return "//" if "#include" in text else "#"


def _placed_once(lines: Iterable[str]) -> str:
    """Lines of which those in a row that come from one line of the program say it once."""
    shown, last = [], ""
    for line in lines:
        found = re.search(_PLACE, line)
        if found is None:
            shown.append(line)
        else:
            shown.append(line[: found.start()] if found[1] == last else line)
            last = found[1]
    return "\n".join(shown)
