"""Beneath the guards: the language of an entry, as data. Term, Row -> Python source.

A term is an int; a name (`v5`, `None`); a text, marked (`'lr`); a float, marked (`=0.5`); or a
tuple: an operation and its operands, as in `("item", "v4", "'lr")`. A row is one statement:

    ("let", name, term)                  a variable
    ("take", name, term)                 an object of the program, where another process finds it:
                                         nothing in this one
    ("hold", term)                       a guard
    ("each", places, constants, term, let ...)    a guard on `v` and `i`, for many places (without
                                         constants, `None`, on `v`); and what it reads of `v` first
    ("sizes", name, places, ("rows", row, ...), ("tuple", name, ...))    what sizes decide: rows of
                                         `let` and `hold`, and the variables that are needed
    ("set", place, term)  ("add", place, term)  ("delete", place)  ("count", places, term)
    ("sets", place, term, places, values)    writes to a place of each `v`, of the value `i`
    ("do", term)  ("return", term)

Of lists: `("mapped", term, places, inner)` is the term of each `v` among places, for each `i` that
may stand inside; `("part", list, start, stop, step)` takes a part, `("joined", part, ...)` several.

Origins, guards and effects give terms. JSON has them as they are (a tuple is a list there);
`python` and `statement` print them. Nothing reads what they print but CPython.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from keyword import iskeyword
from math import isfinite
from typing import Any, Final
from unicodedata import normalize

Term = Any  # int | str | tuple[Any, ...]
Row = tuple[Any, ...]
_ATOM: Final = 13  # how close an operation holds its operands; this is what needs no parentheses
_UNARY: Final = 11
_LEVELS: Final[dict[str, int]] = {
    "or": 1, "and": 2, "not": 3,
    **dict.fromkeys(("is", "is not", "==", "!=", "in", "not in", "<", "<=", ">", ">="), 4),
    "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10,
    "@": 10, "u-": _UNARY, "u+": _UNARY, "~": _UNARY, "**": 12,
}  # fmt: skip
_COMPARED: Final = 4
_PREFIXES: Final = {"not": "not ", "u-": "-", "u+": "+", "~": "~"}
_FUNCTIONS: Final = ("type", "len", "id", "bool", "frozenset", "abs", "int", "float", "complex")
# Methods of an entry's own objects, and of a set: with how many arguments.
_METHODS: Final = {"check": 2, "differ": 1, "apart": 2, "may_write": 1, "hold": 2, "isdisjoint": 1}


# ---- making terms


def text(value: str) -> str:
    """The term for a str."""
    return f"'{value}"


def number(value: Any) -> Term:
    """The term for a bool, int or float; None for a float that has no literal."""
    if type(value) is float:
        return f"={value!r}" if isfinite(value) else None
    return repr(value) if type(value) is bool else value


def constant(value: Any, bind: Callable[[Any], str]) -> Term:
    """The term for an int or str, or the name of another object."""
    return value if type(value) is int else f"'{value}" if type(value) is str else bind(value)


def attribute(base: Term, *names: str) -> Term:
    """`base.name`, of which again `.name`."""
    for name in names:
        base = ("attribute", base, f"'{name}")
    return base


def field(base: Term, name: str) -> Term:
    """`base.name` of an object that has it in its dictionary: by that, if the name has no spelling
    as an attribute, or another one."""
    plain = name.isidentifier() and not iskeyword(name)
    if plain and (name.isascii() or normalize("NFKC", name) == name):
        return attribute(base, name)
    return ("item", attribute(base, "__dict__"), text(name))


def method(base: Term, name: str, *args: Term) -> Term:
    """`base.name(*args)`."""
    return ("method", f"'{name}", base, *args)


def every(*tests: Term) -> Term:
    """The condition that all of `tests` hold, of which there is one at least."""
    return tests[0] if len(tests) == 1 else ("and", *tests)


def filled(term: Term, given: Mapping[str, Term]) -> Term:
    """`term` (or a row) with other terms in the place of some names."""
    if type(term) is tuple:
        return (term[0], *[filled(part, given) for part in term[1:]])
    return given.get(term, term) if type(term) is str else term


def names_in(term: Term) -> list[str]:
    """The names in a term or a row, as often as they stand there."""
    names: list[str] = []
    _collect((None, term), names)
    return names


def _collect(term: Any, names: list[str]) -> None:
    for part in term[1:]:
        if type(part) is str:
            if part[0] not in "'=":
                names.append(part)
        elif type(part) is not int:
            _collect(part, names)


def defined_by(row: Row) -> list[str]:
    """The names that a statement gives."""
    if row[0] == "sizes":
        return [name for line in row[3][1:] for name in defined_by(line)]
    return [row[1]] if row[0] in ("let", "take") else []


# ---- as Python


def python(term: Term, level: int = 0) -> str:
    """Source of a term, in parentheses where it would come apart among operators of `level`."""
    kind = type(term)
    if kind is str:
        if term[0] == "'":
            return repr(term[1:])
        if term[0] != "=":
            return str(term)
        return f"({term[1:]})" if term[1] == "-" and level > _UNARY else str(term[1:])
    if kind is int:
        return f"({term})" if level > _UNARY else str(term)
    operation, *parts = term
    form = _FORMS.get(operation)
    if form is not None:
        return form(*parts)
    own = _LEVELS[operation]
    if operation in _PREFIXES:
        (part,) = parts
        source = f"{_PREFIXES[operation]}{python(part, own)}"
    elif own <= 2:
        source = f" {operation} ".join([python(part, own) for part in parts])
    else:
        left, right = parts
        looser = own + (own == _COMPARED or operation == "**")
        tighter = _UNARY if operation == "**" else own + 1
        source = f"{python(left, looser)} {operation} {python(right, tighter)}"
    return f"({source})" if own < level else source


def _row(parts: tuple[Term, ...]) -> str:
    return ", ".join([python(part) for part in parts])


def _called(fn: str, *args: Term) -> str:
    return f"{fn}({_row(args)})"


def _function(name: str, *counts: int) -> Callable[..., str]:
    """Spelling of a call, with one of these numbers of arguments."""

    def spell(*args: Term) -> str:
        if len(args) not in counts:
            raise ValueError(f"{name}() of {len(args)} arguments")
        return _called(name, *args)

    return spell


def _method(name: str, count: int | None = None) -> Callable[..., str]:
    """Spelling of a call of a method, with any number of arguments or with this one."""

    def spell(base: Term, *args: Term) -> str:
        if len(args) != (len(args) if count is None else count):
            raise ValueError(f"{name}() of {len(args)} arguments")
        return _called(f"{python(base, _ATOM)}.{name}", *args)

    return spell


def _dict(*parts: Term) -> str:
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return f"{{{', '.join([f'{python(k)}: {python(v)}' for k, v in pairs])}}}"


def _mapped(term: Term, places: Term, *inner: Term) -> str:
    loops = "".join([f" for i in {python(each)}" for each in inner])
    return f"[{python(term)} for v in {python(places)}{loops}]"


def _joined(*parts: Term) -> str:
    shown = [_row(part[1:]) if part[0] == "tuple" else f"*{python(part)}" for part in parts]
    return f"[{', '.join(shown)}]"


_FORMS: Final[dict[str, Callable[..., str]]] = {
    "attribute": lambda base, name: f"{python(base, _ATOM)}.{name[1:]}",
    "item": lambda base, key: f"{python(base, _ATOM)}[{python(key)}]",
    "after": lambda base, start: f"{python(base, _ATOM)}[{python(start)}:]",
    "call": lambda fn, *args: _called(python(fn, _ATOM), *args),
    "method": lambda name, base, *args: _called(f"{python(base, _ATOM)}.{name[1:]}", *args),
    "new": _method("__new__"),
    "tags": _method("tags"),
    **{name: _method(name, count) for name, count in _METHODS.items()},
    **{name: _function(name, 1) for name in _FUNCTIONS},
    "hasattr": _function("hasattr", 2),
    "slice": _function("slice", 1, 2, 3),
    "run": _function("K", 1, 2, 3),
    "begin": _function("R.begin", 0, 1),
    "attach": _function("R.attach", 5),
    "tuple": lambda *parts: f"({_row(parts)}{',' if len(parts) == 1 else ''})",
    "list": lambda *parts: f"[{_row(parts)}]",
    "set": lambda *parts: f"{{{_row(parts)}}}",
    "listed": lambda part: f"[*{python(part, _COMPARED + 1)}]",
    "mapped": _mapped,
    "part": lambda base, *bounds: f"{base}[{':'.join(map(str, bounds))}]",
    "joined": _joined,
    "dict": _dict,
    "bytes": lambda latin: repr(latin[1:].encode("latin-1")),
    "star": lambda part: f"*{python(part, _COMPARED + 1)}",
    "stars": lambda part: f"**{python(part, _COMPARED + 1)}",
    "keyword": lambda name, part: f"{name[1:]}={python(part)}",
    "shown": str,  # of an origin, for people
}


def statement(row: Row) -> str:
    """Source of a row; "" for one that is for another process alone."""
    kind, *parts = row
    return _STATEMENTS[kind](*parts)


def source(rows: Iterable[Row]) -> list[str]:
    """The lines of some rows."""
    return [line for row in rows if row[0] != "take" for line in statement(row).split("\n")]


def _unless(test: Term) -> str:
    if type(test) is not str and type(test) is not int and test[0] == "not":
        return f"if {python(test[1])}: return MISS"
    return f"if not {python(test, _ATOM)}: return MISS"


def _each(places: Term, constants: Term, test: Term, *lets: Row) -> str:
    pairs = f"v, i in zip({python(places)}, {python(constants)})"
    head = f"for v in {python(places)}:" if constants == "None" else f"for {pairs}:"
    return "\n  ".join([head, *map(statement, lets), _unless(test)])


def _sets(place: Term, value: Term, places: Term, values: Term) -> str:
    pairs = f"v, i in zip({python(places)}, {python(values)})"
    head = f"for v in {python(places)}:" if values == "None" else f"for {pairs}:"
    return f"{head} {python(place)} = {python(value)}"


def _sizes(state: str, key: Term, rows: Row, values: Term) -> str:
    """Source of a block, in which the values of the last call are taken over for equal sizes."""
    row = python(values)
    compared = f"if (s := {python(key)}) == (z := {state}.last)[0]: {row} = z[1]"
    lines = [f"  {statement(line)}" for line in rows[1:]]
    return "\n".join([compared, "else:", *lines, f"  {state}.last = s, {row}"])


_STATEMENTS: Final[dict[str, Callable[..., str]]] = {
    "let": lambda name, term: f"{name} = {python(term)}",
    "hold": _unless,
    "each": _each,
    "sizes": _sizes,
    "set": lambda place, term: f"{python(place)} = {python(term)}",
    "sets": _sets,
    "add": lambda place, term: f"{python(place)} += {python(term)}",
    "delete": lambda place: f"del {python(place)}",
    "count": lambda places, term: (
        f"for t in {python(places)}: (t._counts or t._storage).version += {python(term)}"
    ),
    "do": python,
    "return": lambda term: f"return {python(term)}",
}
