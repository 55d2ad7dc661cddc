"""Kept versions: generated code as data. statements <-> shapes, and rows that fill them.

A version has thousands of statements of few shapes: `v5 = v4['lr']` and `v6 = v4['eps']` are one,
`%s = %s[%s]`, with other holes. On disk lie the shapes, and rows of what is in their holes:
variables, literals, names of attributes, long runs of variables. Reading checks each shape
(`language`) and each hole. For the first call nothing is compiled but the shapes of the guards and
the body; the whole entry is compiled at the second call.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from jitcap.capture.result import entry_source
from jitcap.kept.language import LET, TAKE, Shape, functions_of, is_attribute, parse
from jitcap.kept.names import Unreadable, may_call
from jitcap.tensor_guard import Seen

Row = list[Any]  # number of the shape, then what fills its holes
_ITEM: Final = r"(?:[vt]\d+(?:\._array)?|r\[\d+\]|None)\b"
_TOKEN: Final = re.compile(
    r"b?'(?:[^'\\]|\\.)*'|b?\"(?:[^\"\\]|\\.)*\""  # a literal text
    rf"|(?<=[(\[]){_ITEM}(?:, {_ITEM}){{7,}}"  # many values in a row: one hole
    r"|(?<![\w.])[vtnC]\d+\b(?!=)"  # a variable, and no keyword
    r"|(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])"
)
_VARIABLE: Final = re.compile(r"[vtnC]\d+")
_RUN: Final = re.compile(rf"{_ITEM}(?:, {_ITEM})+")
_READ: Final = re.compile(r"(v\d+) = ([vC]\d+)\.(\w+)", re.ASCII)


# ---- to disk


class Rows:
    """Collects statements as rows; the same shape is stored once."""

    def __init__(self) -> None:
        self.shapes: dict[str, int] = {}

    def of(self, lines: Iterable[str]) -> list[Row]:
        """The rows of some lines. A line that begins with a space belongs to the one before."""
        statements: list[str] = []
        for line in lines:
            if line.startswith(" "):
                statements[-1] += f"\n{line}"
            else:
                statements.append(line)
        return [self._row(s) for s in statements]

    def _row(self, statement: str) -> Row:
        read = _READ.fullmatch(statement)
        if read is not None:
            target, base, name = read.groups()
            return [self._number("%s = %s.%s"), target, base, {"name": name}]
        holes = [_hole(token) for token in _TOKEN.findall(statement)]
        shape = _TOKEN.sub("\0", statement).replace("%", "%%").replace("\0", "%s")
        return [self._number(shape), *holes]

    def _number(self, shape: str) -> int:
        return self.shapes.setdefault(shape, len(self.shapes))


def _hole(token: str) -> Any:
    """A variable's name as it is, a literal text in a list, a number as it is."""
    if _VARIABLE.fullmatch(token):
        return token
    if _RUN.fullmatch(token):
        return {"run": token}
    value = ast.literal_eval(token)
    if isinstance(value, bytes):
        return [value.decode("latin-1"), "bytes"]
    return [value] if isinstance(value, str) else value


# ---- from disk


def _token(hole: Any) -> str:
    """What stands in a hole, as text of the program."""
    if type(hole) is dict:
        (text,) = hole.values()
        return str(text)
    return hole if type(hole) is str else repr(_literal(hole))


def _literal(hole: Any) -> Any:
    if type(hole) is list:
        text, *rest = hole
        return text.encode("latin-1") if rest else text
    return hole


class Program:
    """The statements of one version, read and checked. Raises Unreadable."""

    def __init__(self, shapes: list[Any], guards: list[Row], body: list[Row]) -> None:
        self.guards = guards
        self.body = body
        self._guard_shapes = _shapes(shapes, guards, guard=True)
        self._body_shapes = _shapes(shapes, body, guard=False)

    @property
    def attaches(self) -> bool:
        """Whether results are attached to a region."""
        return any(shape.attaches for shape in self._body_shapes.values())

    def check(self, names: Mapping[str, Any], *, body: bool) -> None:
        """Whether what the guards call, or the body, of the objects `names`, may be. Raises
        Unreadable."""
        shapes = self._body_shapes if body else self._guard_shapes
        called: set[str] = set()
        seen: set[str] = set()
        calling = {i: shape for i, shape in shapes.items() if shape.called or shape.seen}
        for row in self.body if body else self.guards:
            if row[0] in calling:
                called.update(row[i + 1] for i in calling[row[0]].called)
                seen.update(row[i + 1] for i in calling[row[0]].seen)
        if not all(may_call(names.get(name)) for name in called):
            raise Unreadable("a call of another function")
        if any(type(names.get(name)) is not Seen for name in seen):
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
        scope = {"args": args, "kwargs": kwargs, "MISS": False}
        functions = functions_of(self._guard_shapes, scope)
        values = dict(names)
        actions = {i: (functions[i], s.prefix) for i, s in self._guard_shapes.items()}
        for row in self.guards:
            function, prefix = actions[row[0]]
            holes = row[2:] if prefix else row[1:]
            result = function(*[values[h] if type(h) is str else _value(values, h) for h in holes])
            if prefix:
                values[row[1]] = result
                if prefix == TAKE:
                    take(row[1], result)
            elif result is False:
                return None
        return values

    def first(self, values: Mapping[str, Any]) -> tuple[str, list[str]]:
        """The body as a function `first` of the variables that it reads, and their names. Raises
        Unreadable if one is not there."""
        variables: dict[str, None] = {}
        made: set[str] = set()
        for row in self.body:
            stored = self._body_shapes[row[0]].stored
            for i, hole in enumerate(row[1:]):
                if type(hole) is dict:
                    variables |= dict.fromkeys(_VARIABLE.findall(hole.get("run", "")))
                elif type(hole) is str and i not in stored and hole not in made:
                    variables[hole] = None
            made.update(row[i + 1] for i in stored)
        for name in made:
            variables.pop(name, None)
        if not variables.keys() <= values.keys():
            raise Unreadable("a name that nothing provides")
        own = [name for name in variables if name[0] != "C"]
        lines = [f"def first({', '.join(own)}):", *(f"  {t}" for t in self._texts(self.body))]
        return "\n".join(lines), own

    def source(self) -> str:
        """The whole entry, as capture wrote it."""
        takes = {i for i, shape in self._guard_shapes.items() if shape.prefix == TAKE}
        checks = self._texts(row for row in self.guards if row[0] not in takes)
        return entry_source((c.replace("\n", "\n    ") for c in checks), self._texts(self.body))

    def _texts(self, rows: Iterable[Row]) -> Iterator[str]:
        shapes = self._guard_shapes | self._body_shapes
        for index, *holes in rows:
            yield shapes[index].text % tuple(map(_token, holes))


def _shapes(texts: list[Any], rows: list[Row], *, guard: bool) -> dict[int, Shape]:
    """The shapes that some rows use, looked through; every row must fill one."""
    marked = _check_holes(rows)
    shapes: dict[int, Shape] = {}
    targets: set[str] = set()
    for row in rows:
        index = row[0]
        shape = shapes.get(index)
        if shape is None:
            if type(index) is not int or index < 0:
                raise Unreadable("no row")
            shape = shapes[index] = Shape(texts[index], tuple(map(_kind, row[1:])), guard)
        if len(row) != shape.size:
            raise Unreadable("no row")
        if shape.prefix:
            targets.add(row[1] if shape.prefix == LET else f"take {row[1]}")
        if shape.marks:
            if tuple(map(_kind, row[1:])) != shape.kinds:
                raise Unreadable("no row")
            marked -= shape.marks
    if marked or any(type(t) is not str or not t.startswith(("v", "take C")) for t in targets):
        raise Unreadable("no row")
    parse(shapes)
    parts = {i: s.stored | s.called | s.seen for i, s in shapes.items()}
    special = {index: holes for index, holes in parts.items() if holes and not shapes[index].prefix}
    special |= {i: s.called | s.seen for i, s in shapes.items() if s.prefix and s.called | s.seen}
    for row in rows:
        for i in special.get(row[0], ()):
            letters = "tn" if i in shapes[row[0]].stored else "C"
            if type(row[i + 1]) is not str or row[i + 1][0] not in letters:
                raise Unreadable("no variable")
    return shapes


def _kind(hole: Any) -> str:
    """Which of the kinds of `Shape` a hole's content is."""
    if type(hole) is not dict:
        return ""
    (kind,) = hole
    return str(kind)


def _check_holes(rows: list[Row]) -> int:
    """How many holes hold a run or a name. Raises Unreadable for one that would be filled with
    anything but values."""
    marked = 0
    holes = [hole for row in rows for hole in row if type(hole) is not int]
    if not all(map(_VARIABLE.fullmatch, {h for h in holes if type(h) is str})):
        raise Unreadable("no variable")
    for hole in holes:
        if type(hole) is list:
            if type(hole[0]) is not str or hole[1:] not in ([], ["bytes"]):
                raise Unreadable("no literal")
        elif type(hole) is dict:
            marked += 1
            ((kind, text),) = hole.items()
            run = kind == "run" and type(text) is str and _RUN.fullmatch(text)
            if not run and not (kind == "name" and is_attribute(text)):
                raise Unreadable("no row of values")
        elif type(hole) is not str and type(hole) is not float:
            raise Unreadable("no literal")
    return marked


def _value(values: Mapping[str, Any], hole: Any) -> Any:
    """What a hole of a guard that names no single variable stands for."""
    if type(hole) is dict:
        if "name" in hole:
            return hole["name"]
        return [values[name] for name in hole["run"].split(", ")]
    return _literal(hole)
