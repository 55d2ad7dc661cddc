"""Kept versions: generated code as data, and the little language that it may be written in.

A version has thousands of statements of few shapes: `v5 = v4['lr']` and `v6 = v4['eps']` are one,
`%s = %s[%s]`, with other holes. On disk lie the shapes, and rows that fill them with variables and
literals. Reading checks each shape: a short list of statements and operators, names that are
defined, attributes that entries use, and calls only of constants of the table `called` and of
methods of containers. What does not pass is no version. For the first call nothing is compiled but
a function for each shape of a guard, of harmless operations, and the body; the whole entry is
compiled at the second call.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from jitcap.capture.result import entry_source
from jitcap.kept.harmless import OPERATIONS
from jitcap.kept.records import Unreadable, may_call
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
_SHAPE: Final = re.compile(r"(?:[^%\\'\"#;]|%s|%%)*")
_OWN_NAME: Final = re.compile(r"(?<![\w.])a\d")  # a hole's name, in the function of a shape
_OPEN: Final = re.compile(r"[^([{)\]}]+")
_LENGTH: Final = 400  # characters between two commas: nothing that is generated is longer
_DEPTH: Final = 40  # of brackets

_TAKE, _LET = "%s := ", "%s = "
_GUARD_NAMES: Final = frozenset({"args", "kwargs", "MISS"})
_BODY_NAMES: Final = frozenset({"args", "kwargs", "o", "r", "t"})
_FUNCTIONS: Final = frozenset(
    "type len id zip hasattr abs bool int float complex slice frozenset".split()
)
_METHODS: Final = frozenset("update extend clear difference_update detach copy append".split())
_CHECKS: Final = frozenset({"check", "apart"})  # of the one `Seen`
_DUNDER: Final = frozenset(
    "__code__ __closure__ __globals__ __dict__ __func__ __self__ __name__ __defaults__ "
    "__kwdefaults__ __mro__ __wrapped__ __call__ __class__ __getattr__ __getattribute__ "
    "__setattr__ __delattr__ __get__ __set__ __delete__ __set_name__ __init__ __new__ __del__ "
    "__post_init__ __iter__ __next__ __len__ __bool__ __contains__ __getitem__ __setitem__ "
    "__delitem__ __missing__ __reversed__ __length_hint__ __enter__ __exit__ __eq__ __ne__ __lt__ "
    "__le__ __gt__ __ge__ __hash__ __int__ __float__ __index__ __complex__ __round__ __abs__ "
    "__neg__ __pos__ __invert__ __add__ __sub__ __mul__ __matmul__ __truediv__ __floordiv__ "
    "__mod__ __divmod__ __pow__ __and__ __or__ __xor__ __lshift__ __rshift__ __radd__ __rsub__ "
    "__rmul__ __rmatmul__ __rtruediv__ __rfloordiv__ __rmod__ __rdivmod__ __rpow__ __rand__ "
    "__ror__ __rxor__ __rlshift__ __rrshift__ __iadd__ __isub__ __imul__ __imatmul__ "
    "__itruediv__ __ifloordiv__ __imod__ __ipow__ __iand__ __ior__ __ixor__ __ilshift__ "
    "__irshift__ __str__ __repr__ __format__ __bytes__ __doc__ __module__ __qualname__ __slots__ "
    "__match_args__ __annotations__ __members__".split()
)
_STORED: Final = frozenset(
    "_array _grad _requires_grad version seed_value ordinal cell_contents enabled inference "
    "autocast args __cause__ __context__ __suppress_context__ __qualname__ __doc__ __module__ "
    "__kwdefaults__".split()
)
_BUILTINS: Final = {name: getattr(builtins, name) for name in _FUNCTIONS}
_EXPRESSIONS: Final = (
    ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Call, ast.Compare, ast.BoolOp,
    ast.UnaryOp, ast.BinOp, ast.List, ast.Tuple, ast.Set, ast.Starred, ast.expr_context,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
_GUARDS: Final = (*_EXPRESSIONS, ast.If, ast.Return, ast.For)
_BODY: Final = (
    *_EXPRESSIONS, ast.Return, ast.For, ast.Assign, ast.AugAssign, ast.Expr, ast.Dict, ast.Slice,
    ast.keyword,
)  # fmt: skip


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
        holes = [_hole(token) for token in _TOKEN.findall(statement)]
        shape = _TOKEN.sub("\0", statement).replace("%", "%%").replace("\0", "%s")
        return [self.shapes.setdefault(shape, len(self.shapes)), *holes]


def _hole(token: str) -> Any:
    """A variable's name as it is, a literal text in a list, a number as it is."""
    if _VARIABLE.fullmatch(token) or _RUN.fullmatch(token):
        return token
    value = ast.literal_eval(token)
    if isinstance(value, bytes):
        return [value.decode("latin-1"), "bytes"]
    return [value] if isinstance(value, str) else value


# ---- from disk


def _token(hole: Any) -> str:
    """What stands in a hole, as text of the program."""
    return hole if type(hole) is str else repr(_literal(hole))


def _literal(hole: Any) -> Any:
    if type(hole) is list:
        text, *rest = hole
        return text.encode("latin-1") if rest else text
    return hole


def _check_holes(rows: Iterable[Row]) -> None:
    """Raises Unreadable for a hole that would be filled with anything but a value."""
    names: set[str] = set()
    for _, *holes in rows:
        for hole in holes:
            if type(hole) is str:
                names.add(hole)
            elif type(hole) is list:
                if type(hole[0]) is not str or hole[1:] not in ([], ["bytes"]):
                    raise Unreadable("no literal")
            elif type(hole) not in (int, float):
                raise Unreadable("no literal")
    if not all(_VARIABLE.fullmatch(name) or _RUN.fullmatch(name) for name in names):
        raise Unreadable("no variable")


class Shape:
    """One shape: its statement as a function of the holes, and which holes have a part to play."""

    def __init__(self, text: Any, row: Row, guard: bool) -> None:
        if type(text) is not str or not _SHAPE.fullmatch(text):
            raise Unreadable("no shape")
        if _OWN_NAME.search(text) or _is_deep(text):
            raise Unreadable("no shape")
        self.text = text
        self.runs = [type(hole) is str and "," in hole for hole in row[1:]]
        self.called: set[int] = set()  # holes that are called
        self.seen: set[int] = set()  # holes whose `check` or `apart` is called
        self.stored: set[int] = set()  # holes that are assigned to
        self.attaches = False  # to the region
        self.prefix = next((p for p in (_TAKE, _LET) if guard and text.startswith(p)), "")
        self.function: Any = None

    @property
    def targets(self) -> bool:
        """Whether the first hole is what the statement gives a value."""
        return bool(self.prefix)

    def source(self, name: str) -> str:
        """The statement as a function of what is in its holes."""
        holes = [f"a{i}" for i in range(len(self.runs))][self.targets :]
        filled = [f"*{h}" if run else h for h, run in zip(holes, self.runs[self.targets :])]
        inner = self.text[len(self.prefix) :] % tuple(filled)
        block = f"return {inner}" if self.prefix else inner.replace("\n", "\n ")
        return f"def {name}({', '.join(holes)}):\n {block}\n"

    def check(self, function: Any, guard: bool) -> None:
        """Look through the function. Raises Unreadable."""
        check = _Check(self, guard)
        for node in function.body:
            check.visit(node)
        self.function = function


def _is_deep(text: str) -> bool:
    """Whether a parser could run out of stack."""
    depth = deepest = 0
    for mark in _OPEN.sub("", text):
        depth += 1 if mark in "([{" else -1
        deepest = max(depth, deepest)
    return deepest > _DEPTH or max(map(len, text.split(","))) > _LENGTH


class _Check(ast.NodeVisitor):
    """Raises Unreadable for what no version may say."""

    def __init__(self, shape: Shape, guard: bool) -> None:
        self.shape = shape
        self.guard = guard
        self.nodes: Any = _GUARDS if guard else _BODY
        self.names = _GUARD_NAMES if guard else _BODY_NAMES
        self.loop: set[str] = set()

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, self.nodes):
            raise Unreadable(f"{type(node).__name__} in the text")
        super().generic_visit(node)

    def _hole(self, node: ast.AST) -> int | None:
        """The number of the hole that a name stands for."""
        if isinstance(node, ast.Name) and node.id[0] == "a" and node.id[1:].isdecimal():
            return int(node.id[1:])
        return None

    def visit_Name(self, node: ast.Name) -> None:
        hole = self._hole(node)
        if isinstance(node.ctx, ast.Store):
            if hole is not None and not self.guard:
                self.shape.stored.add(hole)
            elif node.id not in ("o", "r", "t") or self.guard:
                raise Unreadable(f"{node.id} is stored")
        elif hole is None and node.id not in self.names and node.id not in self.loop:
            raise Unreadable(f"the name {node.id}")

    def visit_Constant(self, node: ast.Constant) -> None:
        pass

    def visit_Attribute(self, node: ast.Attribute) -> None:
        stored = not isinstance(node.ctx, ast.Load)
        if stored and node.attr not in _STORED:
            raise Unreadable(f".{node.attr} is stored")
        if node.attr.startswith("__") and node.attr not in _DUNDER:
            raise Unreadable(f".{node.attr}")
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if node.keywords and (self.guard or any(k.arg is None for k in node.keywords)):
            raise Unreadable("a call with keywords")
        self._callee(node)
        for part in (*node.args, *(k.value for k in node.keywords)):
            self.visit(part)

    def _callee(self, node: ast.Call) -> None:
        fn = node.func
        hole = self._hole(fn)
        if hole is not None:
            self.shape.called.add(hole)
        elif isinstance(fn, ast.Name):
            single = fn.id != "type" or len(node.args) == 1
            if not (fn.id in _FUNCTIONS and single) and (self.guard or fn.id != "K"):
                raise Unreadable(f"a call of {fn.id}")
        elif isinstance(fn, ast.Attribute):
            self._method(fn)
        else:
            raise Unreadable("a call of a value")

    def _method(self, fn: ast.Attribute) -> None:
        base = self._hole(fn.value)
        if self.guard and fn.attr in _CHECKS and base is not None:
            self.shape.seen.add(base)
        elif self.guard and fn.attr == "isdisjoint" and isinstance(fn.value, ast.Set):
            self.visit(fn.value)
        elif not self.guard and fn.attr == "__new__" and base is not None:
            self.shape.called.add(base)
        elif not self.guard and fn.attr == "attach" and ast.unparse(fn.value) == "R":
            self.shape.attaches = True
        elif not self.guard and fn.attr in _METHODS:
            self.visit(fn.value)
        else:
            raise Unreadable(f"a call of .{fn.attr}")

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        names = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
        for name in names:
            if not isinstance(name, ast.Name) or name.id not in ("v", "i", "t") or node.orelse:
                raise Unreadable("a loop")
            self.loop.add(name.id)
        for inner in node.body:
            self.visit(inner)


class _Harmless(ast.NodeTransformer):
    """Every operation of a guard as a call of one of `harmless`."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return _call("attribute", self.visit(node.value), _Constant(node.attr))

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return _call("item", self.visit(node.value), self.visit(node.slice))

    def visit_Starred(self, node: ast.Starred) -> ast.expr:
        node.value = _call("items", self.visit(node.value))
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        name = "truth" if isinstance(node.op, ast.Not) else "number"
        node.operand = _call(name, self.visit(node.operand))
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        node.values = [_call("truth", self.visit(v)) for v in node.values]
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        node.left = _call("number", self.visit(node.left))
        node.right = _call("number", self.visit(node.right))
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        left, op, right = self.visit(node.left), node.ops[0], self.visit(node.comparators[0])
        if len(node.ops) > 1:
            raise Unreadable("a chain of comparisons")
        if isinstance(op, ast.Is | ast.IsNot):
            node.left, node.comparators = left, [right]
            return node
        if isinstance(op, ast.Eq | ast.NotEq):
            return _call("equal" if isinstance(op, ast.Eq) else "unequal", left, right)
        if isinstance(op, ast.In | ast.NotIn):
            return _call("contains" if isinstance(op, ast.In) else "lacks", right, left)
        node.left, node.comparators = _call("number", left), [_call("number", right)]
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name):
            node.func.id = _INSTEAD.get(node.func.id, node.func.id)
        node.args = [self.visit(a) for a in node.args]
        return node

    def visit_If(self, node: ast.If) -> ast.If:
        node.test = _call("truth", self.visit(node.test))
        return node


class _Placed:
    """For new nodes: a place, which compiling asks for."""

    lineno = end_lineno = 1
    col_offset = end_col_offset = 0


class _Call(_Placed, ast.Call):
    pass


class _Name(_Placed, ast.Name):
    pass


class _Constant(_Placed, ast.Constant):
    pass


def _call(name: str, *args: ast.expr) -> ast.expr:
    return _Call(_Name(name, ast.Load()), [*args], [])


_INSTEAD: Final = {"len": "length", "hasattr": "has"}


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
        for index, *holes in self.body if body else self.guards:
            shape = shapes[index]
            called.update([holes[i] for i in shape.called])
            seen.update([holes[i] for i in shape.seen])
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
        scope = {
            **OPERATIONS, **_BUILTINS, "args": args, "kwargs": kwargs, "MISS": False,
            "__builtins__": {},
        }  # fmt: skip
        functions = _compiled(self._guard_shapes, scope)
        values = dict(names)
        for index, *holes in self.guards:
            prefix = self._guard_shapes[index].prefix
            target = holes.pop(0) if prefix else ""
            result = functions[index](*[_value(values, h) for h in holes])
            if prefix == _TAKE:
                take(target, result)
            if prefix:
                values[target] = result
            elif result is False:
                return None
        return values

    def first(self, values: Mapping[str, Any]) -> tuple[str, list[str]]:
        """The body as a function `first` of the variables that it reads, and their names. Raises
        Unreadable if one is not there."""
        variables: dict[str, None] = {}
        made: set[str] = set()
        for index, *holes in self.body:
            stored = self._body_shapes[index].stored
            for i, hole in enumerate(holes):
                if type(hole) is str and i not in stored:
                    variables |= dict.fromkeys(v for v in _names_in(hole) if v not in made)
            made.update(holes[i] for i in stored)
        if not variables.keys() <= values.keys():
            raise Unreadable("a name that nothing provides")
        own = [name for name in variables if name[0] != "C"]
        lines = [f"def first({', '.join(own)}):", *(f"  {t}" for t in self._texts(self.body))]
        return "\n".join(lines), own

    def source(self) -> str:
        """The whole entry, as capture wrote it."""
        takes = {i for i, shape in self._guard_shapes.items() if shape.prefix == _TAKE}
        checks = self._texts(row for row in self.guards if row[0] not in takes)
        return entry_source((c.replace("\n", "\n    ") for c in checks), self._texts(self.body))

    def _texts(self, rows: Iterable[Row]) -> Iterator[str]:
        shapes = self._guard_shapes | self._body_shapes
        for index, *holes in rows:
            yield shapes[index].text % tuple(map(_token, holes))


def _shapes(texts: list[Any], rows: list[Row], *, guard: bool) -> dict[int, Shape]:
    """The shapes that some rows use, looked through; every row must fill one."""
    _check_holes(rows)
    shapes: dict[int, Shape] = {}
    for row in rows:
        index = row[0]
        if index not in shapes:
            if type(index) is not int or index < 0:
                raise Unreadable("no row")
            shapes[index] = Shape(texts[index], row, guard)
        if len(row) != len(shapes[index].runs) + 1:
            raise Unreadable("no row")
    functions = ast.parse("".join(s.source(f"f{i}") for i, s in shapes.items())).body
    for index, function in zip(shapes, functions, strict=True):
        if not isinstance(function, ast.FunctionDef) or function.name != f"f{index}":
            raise Unreadable("no shape")
        shapes[index].check(function, guard)
    for index, *holes in rows:
        shape = shapes[index]
        if shape.prefix:
            _check_target(holes[0], "C" if shape.prefix == _TAKE else "v")
        for i in shape.stored:
            _check_target(holes[i], "tn")
        for i in shape.called | shape.seen:
            _check_target(holes[i], "C")
        for i, run in enumerate(shape.runs):
            if run is not (type(holes[i]) is str and "," in holes[i]):
                raise Unreadable("no row")
    return shapes


def _check_target(hole: Any, letters: str) -> None:
    if type(hole) is not str or hole[0] not in letters or "," in hole:
        raise Unreadable("no variable")


def _compiled(shapes: dict[int, Shape], scope: dict[str, Any]) -> dict[int, Callable[..., Any]]:
    """The functions of guards' shapes, of harmless operations."""
    tree = ast.Module([_Harmless().visit(shape.function) for shape in shapes.values()], [])
    exec(compile(tree, "<guards>", "exec"), scope)
    return {index: scope[f"f{index}"] for index in shapes}


def _value(values: Mapping[str, Any], hole: Any) -> Any:
    """What a hole of a guard stands for."""
    if type(hole) is not str:
        return _literal(hole)
    return values[hole] if "," not in hole else [values[name] for name in hole.split(", ")]


def _names_in(hole: str) -> list[str]:
    """The variables in a hole."""
    return _VARIABLE.findall(hole) if "," in hole else [hole]
