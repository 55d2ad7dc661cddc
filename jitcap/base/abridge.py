"""Beside the pipeline: texts of stages for a reader. (stage, text) -> the text without what an
earlier stage has.

A stage that changes nothing says so; a function, and lines in a row, that an earlier stage has just
so are named; and the line of the program that statements in a row come from is said once.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from eager.base.dataclass import dataclass

SHORTEST: Final = 3  # lines of a function that is not repeated
LONG: Final = 8  # lines in a row that are those of another function
SAVED: Final = 100  # letters that a reference to lines in a row saves, at least
TRIED: Final = 8  # earlier lines that are equal to one
NAMED: Final = 4  # values that are named one by one
_FUNCTION: Final = r"(?m)^(?:def|struct|static .*?void) (\w+?)(?:_t|_blocks)?\b"
_VALUE: Final = r"\s*([A-Za-z_]\w*(?:\[[^\]=]*\])?)(?:\[[^=]*\])?[^=(]* = "
_PLACE: Final = r"  (?:# )?([^\s/]+:\d+)$"


@dataclass(frozen=True, eq=False, slots=True)
class Block:
    """Lines that were told: of which stage, and of which function in it."""

    stage: str
    function: str
    lines: Sequence[str]


class Abridged:
    """Texts of one compile, those that were told before known."""

    UNCHANGED: Final = "unchanged: as in "

    def __init__(self) -> None:
        self.stages: dict[str, str] = {}  # by text
        self.blocks: dict[str, str] = {}  # the stage that has it, by text
        # Where a line was told, by what it says without its indentation.
        self.places: dict[str, list[tuple[Block, int]]] = defaultdict(list)

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
                continue
            lines = Block(stage, name[1] if name else "", block.split("\n"))
            told = [*self._changed(lines, mark)]
            parts.append(block if whole else _placed_once(told))
        said = (f"{mark} as in {known}: {', '.join(names)}" for known, names in left.items())
        return "\n\n".join([*parts, *said])

    def _changed(self, block: Block, mark: str) -> Iterator[str]:
        """The lines of a block, with references for those that an earlier stage has in a row."""
        lines, at = block.lines, 0
        new: list[int] = []
        while at < len(lines):
            is_head = at == 0 and block.function
            found, count = (None, 0) if is_head else self._known(block, at)
            if found is not None:
                reference = _reference(block, at, count, found, mark)
                if sum(map(len, lines[at : at + count])) - len(reference) >= SAVED:
                    yield reference
                    at += count
                    continue
            yield lines[at]
            new.append(at)
            at += 1
        for at in new:
            places = self.places[lines[at].lstrip()]
            if len(places) < TRIED:
                places.append((block, at))

    def _known(self, block: Block, at: int) -> tuple[Block | None, int]:
        """The longest stretch from a line on that an earlier stage has, and its number of lines; of
        several that in the function of the same name."""
        best: tuple[Block | None, int] = None, 0
        score = 0, False
        for earlier, start in self.places.get(block.lines[at].lstrip(), ()):
            if earlier.stage == block.stage:
                continue
            count = _alike(block.lines, at, earlier.lines, start)
            if block.function != earlier.function and count < LONG:
                continue
            letters = sum(map(len, block.lines[at : at + count]))
            if (letters, earlier.function == block.function) > score:
                best, score = (earlier, count), (letters, earlier.function == block.function)
        return best


def _alike(lines: Sequence[str], at: int, others: Sequence[str], start: int) -> int:
    """Number of lines in a row that are equal but for indentation, which is further in by the same
    in all."""
    count = 0
    by = _indentation(lines[at]) - _indentation(others[start])
    for line, other in zip(lines[at:], others[start:], strict=False):
        if line.lstrip() != other.lstrip() or (
            line and _indentation(line) - _indentation(other) != by
        ):
            break
        count += 1
    return count


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _reference(block: Block, at: int, count: int, found: Block, mark: str) -> str:
    """Comment in the place of lines: in which stage they stand, and what they define, or in which
    function."""
    lines = block.lines[at : at + count]
    start = lines[0][: _indentation(lines[0])]
    known = "1 line" if count == 1 else f"{count} lines"
    if block.function or found.function:
        of = "" if block.function == found.function else f"{found.function or 'lines'} of "
        return f"{start}{mark} {known} as in {of}{found.stage}"
    names = [match[1] for line in lines if (match := re.match(_VALUE, line))]
    several = names if len(names) <= NAMED else [names[0], "…", names[-1]]
    said = f": {', '.join(several)}".replace(", …,", " …") if names else ""
    return f"{start}{mark} {known} as in {found.stage}{said}"


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
