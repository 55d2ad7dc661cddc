"""Beside every printer: lines that repeat are printed once, in a loop. Lines -> fewer lines.

Lines repeat where they are equal but for numbers that grow by the same amount from round to round,
as those of a stack of equal layers do:

    v3 = mul(v1, v2)              for i in range(3):
    v4 = relu(v3)                     v[2*i + 3] = mul(v[2*i + 1], v[2])
    v5 = mul(v3, v2)                  v[2*i + 4] = relu(v[2*i + 3])
    v6 = relu(v5)          ->
    v7 = mul(v5, v2)
    v8 = relu(v7)

A name whose number grows is an element of a family, in the whole text: `v[8]` for v8. Python that
makes a dictionary of each family runs as before, and so does C where a family is an array. Where it
may be a list, several in a row are a part of it: `v[2*i + 3:2*i + 9]`.

The shape in a comment at the end may be another in each of a few rounds, as in the updates of the
parameters of a layer: all stand there, "float32[96, 32] | [96] | [32, 32]"; "[...]" are those of
the line before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from eager.base.dataclass import dataclass

ROUNDS: Final = 3  # of a loop, at least
SAVED: Final = 600  # letters that a loop saves, at least; a line counts as some more
GRAM: Final = 8  # equal lines in a row that tell of a longer period
TRIED: Final = 64  # long periods that are tried
DEPTH: Final = 3  # of loops in loops
SLICED: Final = 4  # members of a family in a row, at least, that are a slice
SHAPES: Final = 12  # rounds with other shapes, at most
# Text in quotes, trailing comments, and numbers that are no integers hold no number that grows.
_NO_INTEGER: Final = r"(?<![\w.])(?:\d+\.\d*(?:e[-+]?\d+)?|\d+e[-+]?\d+)"
_FIXED: Final = rf"'[^'\n]*'|\"[^\"\n]*\"|  (?:#|//)[^\n]*|{_NO_INTEGER}"
_SHAPE: Final = re.compile(r"  # \w+(\[[^\]]*\])[^\[\]]*$")  # the only one of a comment
_TOKEN: Final = re.compile(rf"({_FIXED})|(\d+)")
_HERE: Final = "\ue002"  # where the shape stands
_OPEN, _CLOSE = "\ue000", "\ue001"  # around the index of a number that grows
_GROWS: Final = re.compile(rf"([A-Za-z_]\w*)?{_OPEN}(\d+){_CLOSE}(\w*)")
_WORD: Final = re.compile(r"(?<![.\w])[A-Za-z_]\w*")

_WORD_MASK: Final = (1 << 64) - 1

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Number = tuple[int, ...]  # the first round's, then by how much it grows in each loop around it


@dataclass(frozen=True, slots=True)
class Line:
    """A line, or several that belong together: text, with the numbers between."""

    texts: tuple[str, ...]
    numbers: tuple[Number, ...]
    shapes: tuple[str, ...] = ()  # of its comment, in each round

    @staticmethod
    def of(text: str) -> Line:
        texts, numbers, at = [], [], 0
        shape = _SHAPE.search(text)
        if shape:
            text = text[: shape.start(1)] + _HERE + text[shape.end(1) :]
        for found in _TOKEN.finditer(text):
            if found[2] and (found[2] == "0" or found[2][0] != "0"):
                texts.append(text[at : found.start()])
                numbers.append((int(found[2]),))
                at = found.end()
        return Line((*texts, text[at:]), tuple(numbers), (shape[1],) if shape else ())

    @property
    def length(self) -> int:
        return 28 + sum(map(len, self.texts))

    @property
    def kind(self) -> object:
        """Equal for lines that may be rounds of one loop, if their shapes are."""
        shapes = self.shapes if len(self.shapes) > 1 else ()
        return self.texts, tuple([n[1:] for n in self.numbers]), shapes


@dataclass(frozen=True, slots=True)
class Loop:
    """Lines that are repeated `count` times."""

    count: int
    body: tuple[Line | Loop, ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """A text with loops, and the families of names whose members stand in them: what comes before
    and after the number -> the name of the family."""

    text: str
    families: dict[tuple[str, str], str]


class Fixed(str):
    """Lines that stay as they are: their names are their own."""

    __slots__ = ()


def fold_text(lines: Sequence[str], *, braces: bool = False, slices: bool = False) -> Folded:
    """The lines with loops for what repeats, in Python or (`braces`) in C; families are lists if
    there are `slices`. Each of `lines` may be several that stay together; all begin at the same
    indentation."""
    found = _fold([Line((x,), ()) if type(x) is Fixed else Line.of(x) for x in lines], 0)
    text = "\n".join(x for x in lines if type(x) is not Fixed)
    printer = _Printer(found, text, braces=braces, slices=slices)
    return Folded("\n".join(x for each in found for x in printer.show(each)), printer.families)


# ---------------------------------------------------------------------------- where it repeats


def _fold(lines: Sequence[Line], depth: int) -> list[Line | Loop]:
    """Loops of equal shapes, and then of others in what is left."""
    result: list[Line | Loop] = []
    left: list[Line] = []
    for each in _once(lines, depth, equal=True):
        if isinstance(each, Line):
            left.append(each)
        else:
            result += [*_once(left, depth, equal=False), each]
            left = []
    return [*result, *_once(left, depth, equal=False)]


def _once(lines: Sequence[Line], depth: int, *, equal: bool) -> list[Line | Loop]:
    if depth == DEPTH or len(lines) < ROUNDS:
        return list(lines)
    saved, period, rounds = _loops(lines, equal=equal)
    result: list[Line | Loop] = []
    at = 0
    while at < len(lines):
        body: list[Line] = []
        if saved[at] >= SAVED:
            step, stop = int(period[at]), int(at + period[at] * rounds[at])
            body = [_grown(lines[at + k : stop : step]) for k in range(step)]
        if body and all(map(_can_be_spelled, body)):
            result.append(Loop(int(rounds[at]), tuple(_fold(body, depth + 1))))
            at = stop
        else:
            result.append(lines[at])
            at += 1
    return result


def _loops(lines: Sequence[Line], *, equal: bool) -> tuple[Numbers, Numbers, Numbers]:
    """The loop that saves most, if it begins at a line: (letters saved, period, rounds)."""
    known: dict[object, int] = {}
    kinds = [known.setdefault(line.kind, len(known)) for line in lines]
    kind, shape = np.array(kinds), np.array([hash(line.shapes) for line in lines])
    # A number for each line, of which second differences vanish where those of all its numbers do.
    sums = np.array([_weighted(line) for line in lines], np.uint64)
    length = np.cumsum([0, *(line.length for line in lines)])
    saved, best, rounds = (np.zeros(len(lines), np.int64) for _ in range(3))
    for period in _periods(kinds):
        end = len(lines) - 2 * period
        if end <= 0:
            continue
        first, second, third = (slice(k * period, k * period + end) for k in range(3))
        alike = (kind[first] == kind[second]) & (kind[second] == kind[third])
        alike &= sums[first] + sums[third] == 2 * sums[second]
        if equal:
            alike &= (shape[first] == shape[second]) & (shape[second] == shape[third])
        edges = np.flatnonzero(np.diff(np.concatenate([[0], alike, [0]])))
        for start, stop in edges.reshape(-1, 2).tolist():
            at = np.arange(start, stop - period + 1)
            count = np.minimum((stop - at) // period + 2, len(lines) if equal else SHAPES)
            gain = (count - 1) * (length[at + period] - length[at])
            at, count, gain = (x[gain > saved[at]] for x in (at, count, gain))
            saved[at], best[at], rounds[at] = gain, period, count
    return saved, best, rounds


def _periods(kinds: Sequence[int]) -> list[int]:
    """Short ones, and the most frequent distances between lines before equal lines; also some
    multiples, after which numbers that do not grow are equal, too."""
    last: dict[tuple[int, ...], int] = {}
    counts = Counter[int]()
    for at in range(len(kinds)):
        gram = tuple(kinds[at : at + GRAM])
        counts[at - last.get(gram, at)] += 1
        last[gram] = at
    frequent = (period * k for period, _ in counts.most_common(TRIED) for k in (1, 2, 3, 4))
    return sorted({*range(1, GRAM + 1), *frequent} - {0})


def _weighted(line: Line) -> int:
    """The sum of the numbers of a line, each times an odd number of its own."""
    total, weight = 0, 1
    for first, *_ in line.numbers:
        weight = weight * 0x9E3779B97F4A7C15 & _WORD_MASK
        total += first * weight
    return total & _WORD_MASK


def _growth(first: Line, second: Line) -> tuple[int, ...]:
    return tuple([b[0] - a[0] for a, b in zip(first.numbers, second.numbers, strict=True)])


def _grown(rounds: Sequence[Line]) -> Line:
    """The line of the first round, with how much its numbers grow, and the shapes of all."""
    first = rounds[0]
    pairs = zip(first.numbers, _growth(first, rounds[1]), strict=True)
    differ = any(line.shapes != first.shapes for line in rounds)
    shapes = tuple([line.shapes[0] for line in rounds]) if differ else first.shapes
    return Line(first.texts, tuple([(*number, by) for number, by in pairs]), shapes)


# ---------------------------------------------------------------------------- how it is spelled


def _marked(line: Line) -> str:
    """The text of a line, with the positions of the numbers that grow for these."""
    parts = [line.texts[0]]
    for k, (number, text) in enumerate(zip(line.numbers, line.texts[1:], strict=True)):
        grows = any(number[1:])
        parts += [f"{_OPEN}{k}{_CLOSE}" if grows else str(number[0]), text]
    return "".join(parts)


def _can_be_spelled(line: Line) -> bool:
    """True if at most one number grows in each name, and no part of another word."""
    text = _marked(line)
    return not any(
        text[found.end() :].startswith(_OPEN) or (found[3] and not found[1])
        for found in _GROWS.finditer(text)
    )


class _Printer:
    """Loops with variables and families of names that the text does not have."""

    def __init__(
        self, found: Sequence[Line | Loop], text: str, *, braces: bool, slices: bool
    ) -> None:
        words = {*_WORD.findall(text)}
        self.variables = [x for x in "ijlnopqrstuw" if x not in words][:DEPTH]
        self.families = _families(found, words.union(self.variables))
        self.braces, self.slices = braces, slices
        self.shapes: tuple[str, ...] = ()  # of the line before
        self.members = [
            (re.compile(rf"(?<![.\w'\"]){before}(\d+){after}(?!\w)"), rf"{name}[\1]")
            for (before, after), name in self.families.items()
        ]

    def show(self, each: Line | Loop, depth: int = 0) -> list[str]:
        if isinstance(each, Line):
            new = len(each.shapes) < 2 or each.shapes != self.shapes
            self.shapes = each.shapes
            return [self._line(each).replace(_HERE, " | ".join(each.shapes) if new else "[...]")]
        inside = [x for part in each.body for x in self.show(part, depth + 1)]
        start = inside[0][: len(inside[0]) - len(inside[0].lstrip())]
        i = self.variables[depth]
        if self.braces:
            step, head = "  ", f"for (int {i} = 0; {i} < {each.count}; {i}++) {{"
        else:
            step, head = "    ", f"for {i} in range({each.count}):"
        lines = [step + line if line else line for part in inside for line in part.split("\n")]
        return [start + head, *lines, *([start + "}"] if self.braces else [])]

    def _line(self, line: Line) -> str:
        text = _marked(line)

        def member(found: re.Match[str]) -> str:
            index = _affine(line.numbers[int(found[2])], self.variables)
            if found[1]:
                return f"{self.families[found[1], found[3]]}[{index}]"
            before, after = text[: found.start()].rstrip()[-1:], text[found.end() :].lstrip()[:1]
            alone = before in "([{,:=" and after in ")]},:"
            return index if alone or index.isidentifier() else f"({index})"

        shown = _GROWS.sub(member, text)
        if line.numbers:
            for pattern, name in self.members:
                shown = pattern.sub(name, shown)
        return re.sub(_LIST, _sliced, shown) if self.slices else shown


_LIST: Final = r"\w+\[[^\[\],]*\](?:, \w+\[[^\[\],]*\])+(?![\[.(])"
_CONSTANT: Final = r"(?<![\w*])\d+(?![\d*])"


def _sliced(found: re.Match[str]) -> str:
    """A list of members, of which those in a row are a slice."""
    shown: list[str] = []
    row: list[str] = []  # as they stand, and where the next one would be
    following = None
    for member in [*found[0].split(", "), ""]:
        name, _, index = member[:-1].partition("[")
        constant = re.search(_CONSTANT, index)
        at = int(constant[0]) if constant else 0
        rest = re.sub(_CONSTANT, "@", index, count=1) if constant else f"{index} + @"
        if (name, rest, at) != following:
            shown += _slice(row, following)
            row = []
        row.append(member)
        following = name, rest, at + 1
    is_target = found.string[found.end() :].startswith(" = ")
    return shown[0].lstrip("*") if is_target and len(shown) == 1 else ", ".join(shown)


def _slice(row: Sequence[str], following: tuple[str, str, int] | None) -> Sequence[str]:
    if len(row) < SLICED or following is None:
        return row
    return [f"*{row[0][:-1]}:{following[1].replace('@', str(following[2]))}]"]


def _families(found: Sequence[Line | Loop], taken: set[str]) -> dict[tuple[str, str], str]:
    """Names of their own for the families of names in loops."""
    families: dict[tuple[str, str], str] = {}
    stack = list(reversed(found))
    while stack:
        each = stack.pop()
        if isinstance(each, Loop):
            stack += reversed(each.body)
            continue
        for before, _, after in _GROWS.findall(_marked(each)):
            if before and (before, after) not in families:
                name = before.rstrip("_") + ("_" + after.lstrip("_") if after else "")
                while name in taken:
                    name += "_"
                taken.add(name)
                families[before, after] = name
    return families


def _affine(number: Number, variables: Sequence[str]) -> str:
    """A number that grows, by the variables of the loops: "12*i + 3", "300 - 12*i"."""
    first, *growth = number
    terms = [*zip(growth, variables, strict=False), (first, "")]
    text = ""
    for by, name in sorted(terms, key=lambda term: term[0] < 0):  # what is taken away comes last
        if by:
            size = abs(by)
            product = f"{size}*{name}" if name and size > 1 else name or str(size)
            sign = "-" if by < 0 else "+"
            text = f"{text} {sign} {product}" if text else ("-" if by < 0 else "") + product
    return text
