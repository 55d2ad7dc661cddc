"""Kept versions: an entry as capture wrote it -> rows (`terms`). Only writing does this.

The statements of an entry are few, and so are their parts. What is not among them makes the version
one of its process alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from jitcap.kept.fingerprint import Unkept
from jitcap.kept.harmless import METHODS
from jitcap.kept.terms import OPERATIONS, Row, Term

_OF_STATE: Final = ("check", "differ", "apart", "isdisjoint", "tags", "hold")
_OF_REGION: Final = ("begin", "attach")


def rows_of(lines: Iterable[str]) -> list[Row]:
    """Statements as rows. Raises Unkept."""
    return [_row(statement) for statement in ast.parse("\n".join(lines)).body]


def in_order(rows: Iterable[Row], found: set[str]) -> list[Row]:
    """The rows of guards, each after those that define what it names: variables, and objects that
    are `found`. A place may come up after the first guard that names what is there: then that guard
    waits."""
    ordered: list[Row] = []
    known = {"v", "i"}
    waiting: dict[str, list[Row]] = {}
    for each in rows:
        queue = [each]
        while queue:
            row = queue.pop(0)
            defined = defined_by(row)
            names = (name for part in row[1:] for name in _names(part) if name not in defined)
            missing = next(
                (n for n in names if (n[0] == "v" or n in found) and n not in known), None
            )
            if missing is not None:
                waiting.setdefault(missing, []).append(row)
                continue
            ordered.append(row)
            for name in defined:
                if name not in known:
                    known.add(name)
                    queue = waiting.pop(name, []) + queue
    ordered += [row for late in waiting.values() for row in late]
    # Whether memory is shared is asked when every array was looked at: a guard that waited may be
    # the one that sees another array.
    return sorted(ordered, key=lambda row: _has(row, "apart"))


def defined_by(row: Row) -> list[str]:
    """The names that a statement gives."""
    if row[0] == "sizes":
        return [name for line in row[3][1:] for name in defined_by(line)]
    return [row[1]] if row[0] in ("let", "take") else []


def needed(guards: list[Row], body: list[Row], found: set[str]) -> tuple[list[Row], set[str]]:
    """The guards, without those that take what nothing names, or what is not `found`; all names."""
    names: set[str] = set()
    while True:
        kept = [row for row in guards if row[0] != "take" or row[1] in names & found]
        terms = [row[2:] if row[0] == "take" else row for row in kept]
        more = {name for row in (*terms, *body) for name in _names(["row", *row])}
        if more <= names:
            return kept, names
        names |= more


def _names(term: Term) -> Iterator[str]:
    """The names in a term."""
    if type(term) is str and term[0] != "'":
        yield term
    elif type(term) is list:
        for part in term[1:]:
            yield from _names(part)


def _has(term: Term, operation: str) -> bool:
    return type(term) is list and (term[0] == operation or any(_has(t, operation) for t in term))


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
            state = next(_names(_term(last.value.value)))  # type: ignore[attr-defined]
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
    """What holds if a test fails."""
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
