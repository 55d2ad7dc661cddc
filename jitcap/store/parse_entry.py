"""Kept versions: an entry as capture wrote it -> rows (`entry_ir`). Only writing does this.

The statements of an entry are few, and so are their parts. What is not among them makes the version
one of its process alone.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from jitcap.store.entry_ir import OPERATIONS, Row, Term
from jitcap.store.fingerprint import Unkept
from jitcap.store.safe_eval import METHODS

_REMEMBERED: Final = ("differ", "apart", "may_write")
_OF_STATE: Final = ("check", *_REMEMBERED, "isdisjoint", "tags", "hold")
_OF_REGION: Final = ("begin", "attach")


def rows_of(lines: Iterable[str], named: dict[int, list[str]], doubtful: set[int]) -> list[Row]:
    """Statements as rows; the names in each are `named`, by its id. Raises Unkept.

    Those that differ in names and indices only are read once: equal layers ask the same of other
    objects. `doubtful` takes the ids of those that call a constant, and of one of each other
    form."""
    read: dict[str, list[tuple[Row, list[str]]]] = {}
    calls: dict[str, bool] = {}
    rows: list[Row] = []
    for text in _statements(lines):
        form, parts = _form(text)
        is_new = form not in read
        if is_new:
            read[form] = [(row, _names(row)) for row in map(_row, ast.parse(form).body)]
            calls[form] = bool(_CALL.search(form))
        for row, names in read[form]:
            made = _filled(row, parts)
            rows.append(made)
            found = [parts.get(name, name) for name in names]
            named[id(made)] = [name for name in found if type(name) is str]
            if is_new or calls[form]:
                doubtful.add(id(made))
    return rows


def _statements(lines: Iterable[str]) -> Iterator[str]:
    """The texts of whole statements."""
    whole: list[str] = []
    for line in (line for text in lines for line in text.split("\n")):
        if whole and line[:1] != " " and not line.startswith("else"):
            yield "\n".join(whole)
            whole = []
        whole.append(line)
    if whole:
        yield "\n".join(whole)


# A string; a name that ends in a number, neither an attribute nor a keyword; or an index.
_VARIES: Final = re.compile(
    r"""('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*\""""
    r"""|(?<![\w.])[A-Za-z]\d+\b(?!=[^=])|(?<=\[)\d+(?=\]))"""
)

_CALL: Final = re.compile(r"_\(|\.\w+\(")  # in a form: of an object that has a name, of a method


def _form(text: str) -> tuple[str, dict[str, str | int]]:
    """A statement with names for its names and indices, and what each stands for."""
    numbers: dict[str, str] = {}
    pieces = _VARIES.split(text)
    pieces[1::2] = [
        piece if piece[0] in "'\"" else numbers.setdefault(piece, f"_{len(numbers)}_")
        for piece in pieces[1::2]
    ]
    named = {n: int(piece) if piece.isdigit() else piece for piece, n in numbers.items()}
    return "".join(pieces), named


def _filled(row: Row, parts: Mapping[str, str | int]) -> Row:
    """The row of a form, with what its names stand for: `row[0]` says what it is."""
    return [
        row[0],
        *[
            _filled(part, parts) if type(part) is list
            else parts.get(part, part) if type(part) is str else part
            for part in row[1:]
        ],
    ]  # fmt: skip


def in_order(rows: Iterable[Row], found: set[str], names: Mapping[int, list[str]]) -> list[Row]:
    """The rows of guards, each after those that define what it names: variables, and objects that
    are `found`. A place may come up after the first guard that names what is there: then that guard
    waits."""
    ordered: list[Row] = []
    late: list[Row] = []
    known = {"v", "i"}
    waiting: dict[str, list[Row]] = {}
    for each in rows:
        queue = [each]
        while queue:
            row = queue.pop(0)
            defined = defined_by(row)
            missing = next(
                (
                    n for n in names[id(row)]
                    if n not in known and (n[0] == "v" or n in found) and n not in defined
                ),
                None,
            )  # fmt: skip
            if missing is not None:
                waiting.setdefault(missing, []).append(row)
                continue
            (late if _has(row, _REMEMBERED) else ordered).append(row)
            for name in defined:
                if name not in known:
                    known.add(name)
                    queue = waiting.pop(name, []) + queue
    for row in itertools.chain(*waiting.values()):
        (late if _has(row, _REMEMBERED) else ordered).append(row)
    # What is remembered until an array changes is asked when each was looked at: a guard that
    # waited may be the one that sees another.
    return ordered + late


def defined_by(row: Row) -> list[str]:
    """The names that a statement gives."""
    if row[0] == "sizes":
        return [name for line in row[3][1:] for name in defined_by(line)]
    return [row[1]] if row[0] in ("let", "take") else []


def needed(
    guards: list[Row], body: list[Row], found: set[str], names: Mapping[int, list[str]]
) -> tuple[list[Row], set[str]]:
    """The guards, without those that take what nothing names, or what is not `found`; all names."""
    named = {name for row in (*guards, *body) if row[0] != "take" for name in names[id(row)]}
    taken = [names[id(row)] for row in guards if row[0] == "take"]
    while True:
        more = {n for name, *rest in taken if name in named and name in found for n in rest}
        if more <= named:
            wanted = named & found
            kept = [row for row in guards if row[0] != "take" or row[1] in wanted]
            return kept, named
        named |= more


def _names(term: Term) -> list[str]:
    """The names in a term."""
    if type(term) is not list:
        return [term] if type(term) is str and term[0] != "'" else []
    names: list[str] = []
    _collect(term, names)
    return names


def _collect(term: list[Any], names: list[str]) -> None:
    for part in term[1:]:
        if type(part) is list:
            _collect(part, names)
        elif type(part) is str and part[0] != "'":
            names.append(part)


def _has(term: list[Any], operations: tuple[str, ...]) -> bool:
    if term[0] in operations:
        return True
    for part in term:  # noqa: SIM110 - many are asked
        if type(part) is list and _has(part, operations):
            return True
    return False


# ---- statements


def _row(node: Any) -> Row:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return ["let", name, _term(node.value)]
        case ast.Assign(targets=[place]):
            return ["set", _term(place), _term(node.value)]
        case ast.AugAssign(op=ast.Add()):
            return ["add", _term(node.target), _term(node.value)]
        case ast.Expr(value=ast.NamedExpr() as named):
            return ["take", named.target.id, _term(named.value)]
        case ast.Expr():
            return ["do", _term(node.value)]
        case ast.Return():
            return ["return", _term(node.value)]
        case ast.If(
            test=ast.Compare(left=ast.NamedExpr(value=key), comparators=[ast.Subscript() as last]),
            body=[ast.Assign(targets=[ast.Tuple(elts=names)])],
            orelse=[*lines, _],
        ):
            state = _names(_term(last.value.value))[0]  # type: ignore[attr-defined]
            values = ["tuple", *map(_term, names)]
            return ["sizes", state, _term(key), ["rows", *map(_row, lines)], values]
        case ast.If():
            return ["hold", _unless(node.test)]
        case ast.For(body=[ast.If() as inner], iter=ast.Call(args=[places, constants])):
            return ["each", _term(places), _term(constants), _unless(inner.test)]
        case ast.For(body=[ast.AugAssign() as inner]):
            return ["count", _term(node.iter), _term(inner.value)]
    raise Unkept(f"{type(node).__name__} in its entry")


def _unless(test: Any) -> Term:
    """Negation of a test."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _term(test.operand)
    return ["Not", _term(test)]


# ---- terms


def _term(node: Any) -> Term:
    rule = _RULES.get(type(node))
    if rule is None:
        raise Unkept(f"{type(node).__name__} in its entry")
    return rule(node)


def _terms(nodes: Iterable[Any]) -> list[Term]:
    return [*map(_term, nodes)]


def _constant(node: ast.Constant) -> Term:
    value: Any = node.value
    if type(value) is bytes:
        return ["bytes", f"'{value.decode('latin-1')}"]
    if type(value) not in (str, int, float, bool, type(None)):
        raise Unkept(f"{value!r} in its entry")
    return f"'{value}" if type(value) is str else value


def _subscript(node: ast.Subscript) -> Term:
    if isinstance(node.slice, ast.Slice):
        return ["after", _term(node.value), _term(node.slice.lower or ast.Constant(0))]
    return ["item", _term(node.value), _term(node.slice)]


def _operation(node: Any) -> Term:
    """An operator, or many."""
    if isinstance(node, ast.BoolOp):
        return [type(node.op).__name__, *_terms(node.values)]
    if isinstance(node, ast.UnaryOp):
        return [type(node.op).__name__, _term(node.operand)]
    if isinstance(node, ast.BinOp):
        return [type(node.op).__name__, _term(node.left), _term(node.right)]
    sides = _terms([node.left, *node.comparators])
    pairs = [
        [type(op).__name__, *pair]
        for op, *pair in zip(node.ops, sides[:-1], sides[1:], strict=True)
    ]
    return pairs[0] if len(pairs) == 1 else ["And", *pairs]


def _list(node: ast.List) -> Term:
    if len(node.elts) == 1 and isinstance(node.elts[0], ast.Starred):
        return ["listed", _term(node.elts[0].value)]
    return ["list", *_terms(node.elts)]


def _dict(node: ast.Dict) -> Term:
    return ["dict", *(_term(n) for pair in zip(node.keys, node.values, strict=True) for n in pair)]


def _call(node: ast.Call) -> Term:
    fn, args = node.func, _terms(node.args)
    args += [["keyword", f"'{k.arg}", _term(k.value)] for k in node.keywords]
    match fn:
        case ast.Name(id="K"):
            return ["run" if len(args) == 1 else "run_replacing", *args]
        case ast.Name(id=name):
            return [name, *args] if name in OPERATIONS else ["call", name, *args]
        case ast.Attribute(value=ast.Name(id="R"), attr=name) if name in _OF_REGION:
            return [name, *args]
        case ast.Attribute(value=base, attr=name) if name in _OF_STATE:
            return [name, _term(base), *args]
        case ast.Attribute(value=base, attr="__new__"):
            return ["new", _term(base), *args]
        case ast.Attribute(value=base, attr=name) if name in METHODS:
            return ["method", f"'{name}", _term(base), *args]
    raise Unkept(f"a call of {ast.unparse(fn)} in its entry")


_RULES: Final[dict[type, Callable[[Any], Term]]] = {
    ast.Name: lambda node: node.id,
    ast.Constant: _constant,
    ast.Attribute: lambda node: ["attribute", _term(node.value), f"'{node.attr}"],
    ast.Subscript: _subscript,
    ast.Starred: lambda node: ["star", _term(node.value)],
    **dict.fromkeys((ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare), _operation),
    ast.List: _list,
    ast.Tuple: lambda node: ["tuple", *_terms(node.elts)],
    ast.Set: lambda node: ["set", *_terms(node.elts)],
    ast.Dict: _dict,
    ast.Call: _call,
}
