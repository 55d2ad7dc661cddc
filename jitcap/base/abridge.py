"""Beside the pipeline: texts of stages for a reader. (stage, text) -> the text without what an
earlier stage has.

A stage that changes nothing says so, and so does a function that an earlier stage has just so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from typing import Final

SHORTEST: Final = 3  # lines of a function that is not repeated
LONG: Final = 40  # lines of a block of which only parts are told
RUN: Final = 6  # lines that are not repeated
_FUNCTION: Final = re.compile(
    r"^(?:def|struct|static .*?void) (\w+?)(?:_t|_blocks)?\b", re.MULTILINE
)


class Abridged:
    """Texts of one compile, those that were told before known."""

    def __init__(self) -> None:
        self.stages: dict[str, str] = {}  # by text
        self.blocks: dict[str, str] = {}  # the stage that has it, by text
        self.lines: dict[str, str] = {}  # likewise

    def tell(self, stage: str, text: str) -> str:
        """The text of the next stage."""
        text = text.strip("\n")
        mark = comment(text)
        first = self.stages.setdefault(text, stage)
        if first != stage:
            return f"{mark} unchanged: as in {first}"
        parts: list[str] = []
        left: dict[str, list[str]] = {}  # functions that are not repeated, by their stage
        for block in text.split("\n\n"):
            known = self.blocks.setdefault(block, stage)
            if known != stage and block.count("\n") + 1 >= SHORTEST:
                left.setdefault(known, []).append(_name(block))
            else:
                parts.append("\n".join(self._changed(block.split("\n"), stage, mark)))
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


def _name(block: str) -> str:
    found = _FUNCTION.search(block)
    return found[1] if found else f"{block.splitlines()[0][:40]} ..."
