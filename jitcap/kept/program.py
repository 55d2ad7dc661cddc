"""Kept versions: generated code as data. statements <-> shapes, and rows that fill them.

A version has thousands of statements of few shapes: `v5 = v4['lr']` and `v6 = v4['eps']` are one,
`%s = %s[%s]`, with other holes. On disk lie the shapes, and a line for each statement: the number
of its shape, and what is in its holes, each a letter and a number:

    v t n C     a variable, or a constant of the version
    l m r       one of the `literals`, of the `members` (names of attributes), of the `runs` (long
                rows of variables)

Reading checks each shape (`language`), and that lines fill them. The first call compiles nothing
but the shapes; the whole entry is compiled at the second call.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from jitcap.capture.result import entry_source
from jitcap.kept.harmless import attribute, container
from jitcap.kept.language import LET, TAKE, Shape, functions_of, is_attribute, parse
from jitcap.kept.names import Unreadable, may_ask, may_call
from jitcap.tensor_guard import Seen

_ITEM: Final = r"(?:[vt]\d+(?:\._array)?|r\[\d+\]|None)\b"
_TOKEN: Final = re.compile(
    r"b?'(?:[^'\\]|\\.)*'|b?\"(?:[^\"\\]|\\.)*\""  # a literal text
    rf"|(?<=[(\[]){_ITEM}(?:, {_ITEM}){{7,}}"  # many values in a row: one hole
    r"|(?<![\w.])[vtnC]\d+\b(?!=)"  # a variable, and no keyword
    r"|(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])"
)
_VARIABLE: Final = re.compile(r"[vtnC]\d+", re.ASCII)
_HOLE: Final = re.compile(r"[vtnClmr]\d{1,9}", re.ASCII)
_RUN: Final = re.compile(rf"{_ITEM}(?:, {_ITEM})+", re.ASCII)
_READ: Final = re.compile(r"(v\d+) = ([vC]\d+)\.(\w+)", re.ASCII)


# ---- to disk


class _Table:
    """Values by number, each once."""

    def __init__(self, letter: str) -> None:
        self.letter = letter
        self.numbers: dict[Any, int] = {}

    def hole(self, value: Any) -> str:
        """What stands for a value in a line; 1 is not True, nor 1.0."""
        key = (type(value), value)
        return f"{self.letter}{self.numbers.setdefault(key, len(self.numbers))}"

    def values(self) -> list[Any]:
        return [value for _, value in self.numbers]


class Rows:
    """Collects statements as lines."""

    def __init__(self) -> None:
        self._shapes = _Table("")
        self._literals = _Table("l")
        self._members = _Table("m")
        self._runs = _Table("r")

    def of(self, lines: Iterable[str]) -> str:
        """Some statements. A line that begins with a space belongs to the one before."""
        statements: list[str] = []
        for line in lines:
            if line.startswith(" "):
                statements[-1] += f"\n{line}"
            else:
                statements.append(line)
        return "\n".join(map(self._line, statements))

    def tables(self) -> dict[str, list[Any]]:
        """What the lines refer to."""
        literals = [
            ["bytes", v.decode("latin-1")] if isinstance(v, bytes) else v
            for v in self._literals.values()
        ]
        return {
            "shapes": self._shapes.values(),
            "literals": literals,
            "members": self._members.values(),
            "runs": self._runs.values(),
        }

    def _line(self, statement: str) -> str:
        read = _READ.fullmatch(statement)
        if read is not None:
            target, base, name = read.groups()
            shape = self._shapes.hole("%s = %s.%s")
            return f"{shape} {target} {base} {self._members.hole(name)}"
        holes = map(self._hole, _TOKEN.findall(statement))
        shape = _TOKEN.sub("\0", statement).replace("%", "%%").replace("\0", "%s")
        return " ".join([self._shapes.hole(shape), *holes])

    def _hole(self, token: str) -> str:
        if _VARIABLE.fullmatch(token):
            return token
        if _RUN.fullmatch(token):
            return self._runs.hole(token)
        return self._literals.hole(ast.literal_eval(token))


# ---- from disk


@dataclass(frozen=True, slots=True)
class Action:
    """What a line does: its function, what it does with the result, and where runs are."""

    function: Callable[..., Any]
    prefix: str
    target: bool
    runs: bool


@dataclass(slots=True)
class Section:
    """The guards, or the body: lines, and the shapes that they use."""

    rows: list[list[str]]
    shapes: dict[str, Shape]
    called: set[str] = field(default_factory=set)  # constants that are called
    seen: set[str] = field(default_factory=set)  # constants whose `check` or `apart` is called
    changed: set[str] = field(default_factory=set)  # what a method of containers is called of

    def actions(self, space: dict[str, Any]) -> dict[str, Action]:
        """The shapes as functions, with other names in `space`."""
        functions = functions_of(self.shapes, space)
        return {
            index: Action(functions[index], shape.prefix, shape.target, "r" in shape.kinds)
            for index, shape in self.shapes.items()
        }


class Program:
    """The statements of one version, read and checked. Raises Unreadable."""

    def __init__(self, tables: Mapping[str, Any], guards: str, body: str) -> None:
        self._values: dict[str, Any] = {
            f"l{i}": _literal(value) for i, value in enumerate(tables["literals"])
        }
        self._spelled = {hole: repr(value) for hole, value in self._values.items()}
        for i, name in enumerate(tables["members"]):
            if not is_attribute(name):
                raise Unreadable(f".{name}")
            self._values[f"m{i}"] = self._spelled[f"m{i}"] = name
        self._runs = {f"r{i}": _run(text) for i, text in enumerate(tables["runs"])}
        self._spelled |= self._runs
        self.guards = self._section(tables["shapes"], guards, guard=True)
        self.body = self._section(tables["shapes"], body, guard=False)

    def _section(self, texts: list[Any], lines: str, *, guard: bool) -> Section:
        """Some lines, looked through: every one fills a shape."""
        rows = [line.split(" ") for line in lines.split("\n")]
        shapes: dict[str, Shape] = {}
        marked = 0
        for row in rows:
            index = row[0]
            shape = shapes.get(index)
            if shape is None:
                if not (index.isascii() and index.isdecimal()):
                    raise Unreadable("no line")
                marks = tuple(hole[:1] if hole[:1] in ("m", "r") else "" for hole in row[1:])
                shape = shapes[index] = Shape(texts[int(index)], marks, guard)
            if len(row) != shape.size:
                raise Unreadable("no line")
            if shape.marks:
                kinds = zip(row[1:], shape.kinds, strict=True)
                marked += len([kind for hole, kind in kinds if kind and hole[:1] == kind])
        if marked != lines.count(" m") + lines.count(" r"):
            raise Unreadable("no line")
        tables = self._values.keys() | self._runs.keys()
        for hole in {*lines.replace("\n", " ").split(" ")} - shapes.keys():
            if not _HOLE.fullmatch(hole) or (hole[0] in "lmr" and hole not in tables):
                raise Unreadable("no hole")
        section = Section(rows, shapes)
        parse(shapes)
        self._check_parts(section, guard)
        return section

    def _check_parts(self, section: Section, guard: bool) -> None:
        """Whether variables stand where a value is stored, constants where one is called."""
        shapes = section.shapes
        letters = {TAKE: "C", LET: "v" if guard else "tn"}
        wanted = {index: letters[s.prefix] for index, s in shapes.items() if s.target}
        calling = {i: s for i, s in shapes.items() if s.called or s.seen or s.changed}
        for row in section.rows:
            if row[0] in wanted and row[1][:1] not in wanted[row[0]]:
                raise Unreadable("no variable")
            if row[0] in calling:
                shape = calling[row[0]]
                section.called.update(row[i + 1] for i in shape.called)
                section.seen.update(row[i + 1] for i in shape.seen)
                section.changed.update(row[i + 1] for i in shape.changed)
        if any(name[0] != "C" for name in section.called | section.seen):
            raise Unreadable("a call of a value")

    @property
    def attaches(self) -> bool:
        """Whether results are attached to a region."""
        return any(shape.attaches for shape in self.body.shapes.values())

    def check(self, names: Mapping[str, Any], section: Section) -> None:
        """Whether what is called, of the objects `names`, may be. Raises Unreadable."""
        allowed = may_ask if section is self.guards else may_call
        if not all(allowed(names.get(name)) for name in section.called):
            raise Unreadable("a call of another function")
        if any(type(names.get(name)) is not Seen for name in section.seen):
            raise Unreadable("no arrays seen")

    def find(
        self,
        names: dict[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        take: Callable[[str, Any], None],
    ) -> dict[str, Any] | None:
        """The values of all variables if the guards hold for a call. `take` is told each object of
        the program by name. May raise READ_ERRORS."""
        actions = self.guards.actions({"args": args, "kwargs": kwargs, "MISS": False})
        values = {**self._values, **names}
        for row in self.guards.rows:
            action = actions[row[0]]
            if action.runs:
                given = self._given(action, row, values)
            else:
                given = [values[hole] for hole in (row[2:] if action.target else row[1:])]
            result = action.function(*given)
            if action.target:
                values[row[1]] = result
                if action.prefix == TAKE:
                    take(row[1], result)
            elif result is False:
                return None
        self._check_names(values)
        return values

    def _check_names(self, values: Mapping[str, Any]) -> None:
        """Whether each name of the body is there when it is read, and what methods are called of is
        a container. Raises Unreadable, Foreign."""
        known = set(values)
        for row in self.body.rows:
            target = self.body.shapes[row[0]].target
            for hole in row[1 + target :]:
                names = _VARIABLE.findall(self._runs[hole]) if hole[0] == "r" else (hole,)
                if not known.issuperset(names):
                    raise Unreadable("a name that nothing provides")
                if hole in self.body.changed and hole in values:
                    container(values[hole])
            if target:
                known.add(row[1])

    def run(self, values: dict[str, Any], space: dict[str, Any]) -> Any:
        """The body, for the call whose values were found. `space`: what it calls."""
        actions = self.body.actions(space)
        result = None
        for row in self.body.rows:
            action = actions[row[0]]
            result = action.function(*self._given(action, row, values))
            if action.target:
                values[row[1]] = result
            elif action.prefix:
                space[action.prefix[0]] = values[action.prefix[0]] = result
        return result

    def _given(self, action: Action, row: list[str], values: Mapping[str, Any]) -> list[Any]:
        """What is in the holes of a line, but for the one that gets the result."""
        holes = row[2:] if action.target else row[1:]
        if not action.runs:
            return [values[hole] for hole in holes]
        return [self._items(hole, values) if hole[0] == "r" else values[hole] for hole in holes]

    def _items(self, hole: str, values: Mapping[str, Any]) -> list[Any]:
        """The values of a run."""
        return [_item(text, values) for text in self._runs[hole].split(", ")]

    def source(self) -> str:
        """The whole entry, as capture wrote it."""
        takes = {i for i, shape in self.guards.shapes.items() if shape.prefix == TAKE}
        checks = self._texts(self.guards, takes)
        return entry_source((c.replace("\n", "\n    ") for c in checks), self._texts(self.body, ()))

    def _texts(self, section: Section, without: Iterable[str]) -> Iterator[str]:
        spelled = self._spelled
        for row in section.rows:
            if row[0] not in without:
                holes = tuple([spelled.get(hole, hole) for hole in row[1:]])
                yield section.shapes[row[0]].text % holes


def _literal(value: Any) -> Any:
    if type(value) is list:
        tag, text = value
        if tag != "bytes":
            raise Unreadable("no literal")
        return text.encode("latin-1")
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is not str and type(value) is not int:
        raise Unreadable("no literal")
    return value


def _run(text: Any) -> str:
    if type(text) is not str or not _RUN.fullmatch(text):
        raise Unreadable("no row of values")
    return text


def _item(text: str, values: Mapping[str, Any]) -> Any:
    """The value of one item of a run."""
    if text == "None":
        return None
    if text[:2] == "r[":
        return values["r"][int(text[2:-1])]
    name, _, array = text.partition(".")
    return attribute(values[name], "_array") if array else values[name]
