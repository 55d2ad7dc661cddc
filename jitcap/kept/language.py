"""Kept versions: the little language that generated code is written in. shape -> checked function.

A short list of statements and operators, names that are defined, attributes that entries use, and
calls only of constants (which ones, `records.may_call` says), of a few builtins, and of methods of
containers. What does not pass is no version. A guard becomes a function of `harmless` operations: a
version that is looked for runs nothing of the program.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jitcap.kept.harmless import METHODS, OPERATIONS
from jitcap.kept.names import Unreadable

_SHAPE: Final = re.compile(r"(?:[^%\\'\"#;]|%s|%%)*")
_OWN_NAME: Final = re.compile(r"(?<![\w.])[af]\d")  # a name that `Shape.source` gives
_OPEN: Final = re.compile(r"[^([{)\]}]+")
_LENGTH: Final = 400  # characters between two commas: nothing that is generated is longer
_DEPTH: Final = 40  # of brackets

TAKE, LET = "%s := ", "%s = "
RESULTS: Final = ("o = ", "r = ", "h = ")  # of the graph, of the region
_GUARD_NAMES: Final = frozenset({"args", "kwargs", "MISS"})
_BODY_NAMES: Final = frozenset({"args", "kwargs", "o", "r", "h", "t", "K"})
_FUNCTIONS: Final = frozenset(
    "type len id zip hasattr abs bool int float complex slice frozenset".split()
)
_OF_REGION: Final = frozenset({"begin", "attach"})
_CHECKS: Final = frozenset({"check", "apart", "differ"})  # of the one `Seen`
_SETS: Final = ("ids", "memory", "written")  # of it as well
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
BUILTINS: Final = {name: getattr(builtins, name) for name in _FUNCTIONS}
_EXPRESSIONS: Final = (
    ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Call, ast.Compare, ast.BoolOp,
    ast.UnaryOp, ast.BinOp, ast.List, ast.Tuple, ast.Set, ast.Starred, ast.expr_context,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
_BODY: Final = (
    *_EXPRESSIONS, ast.Return, ast.For, ast.Assign, ast.AugAssign, ast.Expr, ast.Dict, ast.Slice,
    ast.keyword,
)  # fmt: skip


class Shape:
    """One shape: its statement as a function of the holes, and which holes have a part to play.

    `kinds`: of each hole, "r" for many values in a row, "m" for an attribute's name, else ""."""

    def __init__(self, text: Any, kinds: tuple[str, ...], guard: bool) -> None:
        if type(text) is not str or not _SHAPE.fullmatch(text):
            raise Unreadable("no shape")
        if _OWN_NAME.search(text) or _is_deep(text):
            raise Unreadable("no shape")
        before = text.replace("%%", "--").split("%s")[:-1]
        if [kind == "m" for kind in kinds] != [piece.endswith(".") for piece in before]:
            raise Unreadable("no attribute")
        self.text = text
        self.kinds = kinds
        self.size = len(kinds) + 1  # of a line
        self.marks = len(kinds) - kinds.count("")
        self.guard = guard
        prefixes = (TAKE, LET) if guard else (LET, *RESULTS)
        self.prefix = next((p for p in prefixes if text.startswith(p)), "")
        self.called: set[int] = set()  # holes that are called
        self.seen: set[int] = set()  # holes whose `check` or `apart` is called
        self.changed: set[int] = set()  # holes of which a method of containers is called
        self.attaches = False  # to the region
        self.function: Any = None

    @property
    def target(self) -> bool:
        """Whether the first hole is what gets the value."""
        return self.prefix in (TAKE, LET)

    def source(self, name: str) -> str:
        """The statement as a function of what is in its holes (but the one that gets the value)."""
        holes = [f"a{i}" for i in range(self.target, len(self.kinds))]
        kinds = self.kinds[self.target :]
        filled = [f"*{h}" if kind == "r" else h for h, kind in zip(holes, kinds, strict=True)]
        inner = self.text[len(self.prefix) :] % tuple(filled)
        block = f"return {inner}" if self.prefix else inner.replace("\n", "\n ")
        return f"def {name}({', '.join(holes)}):\n {block}\n"

    def check(self, function: Any) -> None:
        """Look through the function. Raises Unreadable."""
        check: Any = _Guard(self) if self.guard else _Body(self)
        function.body = [check.visit(node) for node in function.body]
        self.function = function


def parse(shapes: Mapping[str, Shape]) -> None:
    """Parse and check all shapes at once. Raises Unreadable, or what parsing raises."""
    functions = ast.parse("".join(s.source(f"f{i}") for i, s in shapes.items())).body
    for index, function in zip(shapes, functions, strict=True):
        if not isinstance(function, ast.FunctionDef) or function.name != f"f{index}":
            raise Unreadable("no shape")
        shapes[index].check(function)


def functions_of(
    shapes: Mapping[str, Shape], space: dict[str, Any]
) -> dict[str, Callable[..., Any]]:
    """The functions of shapes, with other names in `space`; those of guards are harmless."""
    tree = ast.Module([shape.function for shape in shapes.values()], [])
    space |= {**OPERATIONS, **BUILTINS, "__builtins__": {}}
    exec(compile(tree, "<kept>", "exec"), space)
    return {index: space[f"f{index}"] for index in shapes}


def is_attribute(name: Any) -> bool:
    """Whether a version may read an attribute of this name."""
    if type(name) is not str or not name.isidentifier():
        return False
    return not name.startswith("__") or name in _DUNDER


def _is_deep(text: str) -> bool:
    """Whether a parser could run out of stack."""
    depth = deepest = 0
    for mark in _OPEN.sub("", text):
        depth += 1 if mark in "([{" else -1
        deepest = max(depth, deepest)
    return deepest > _DEPTH or max(map(len, text.split(","))) > _LENGTH


def _hole(node: ast.AST) -> int | None:
    """The number of the hole that a name stands for."""
    if isinstance(node, ast.Name) and node.id[0] == "a" and node.id[1:].isdecimal():
        return int(node.id[1:])
    return None


class _Guard:
    """Checks a guard, and makes every operation of it a call of one of `harmless`."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.loop: set[str] = set()

    def visit(self, node: Any) -> Any:
        rule = _RULES.get(type(node))
        if rule is None:
            raise Unreadable(f"{type(node).__name__} in a guard")
        return rule(self, node)

    def all(self, nodes: Iterable[Any]) -> list[Any]:
        return [self.visit(node) for node in nodes]

    def name(self, node: ast.Name) -> ast.expr:
        if _hole(node) is None and node.id not in _GUARD_NAMES and node.id not in self.loop:
            raise Unreadable(f"the name {node.id}")
        return node

    def constant(self, node: ast.Constant) -> ast.expr:
        return node

    def display(self, node: Any) -> Any:
        node.elts = self.all(node.elts)
        return node

    def hashed(self, node: ast.Set) -> ast.expr:
        node.elts = [_call("number", elt) for elt in self.all(node.elts)]
        return node

    def attribute(self, node: ast.Attribute) -> ast.expr:
        name: ast.expr = ast.Constant(node.attr, **_PLACE)
        index = (
            int(node.attr[1:]) if re.fullmatch(r"a\d{1,4}", node.attr) else len(self.shape.kinds)
        )
        if self.shape.kinds[index : index + 1] == ("m",):
            name = ast.Name(node.attr, ast.Load(), **_PLACE)
        elif not is_attribute(node.attr):
            raise Unreadable(f".{node.attr}")
        return _call("attribute", self.visit(node.value), name)

    def subscript(self, node: ast.Subscript) -> ast.expr:
        return _call("item", self.visit(node.value), self.visit(node.slice))

    def starred(self, node: ast.Starred) -> ast.expr:
        node.value = _call("items", self.visit(node.value))
        return node

    def unary(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        plain = isinstance(node.op, ast.Not)
        node.operand = _truth(operand) if plain else _call("number", operand)
        return node

    def boolean(self, node: ast.BoolOp) -> ast.expr:
        node.values = [_truth(v) for v in self.all(node.values)]
        return node

    def binary(self, node: ast.BinOp) -> ast.expr:
        node.left = _call("number", self.visit(node.left))
        node.right = _call("number", self.visit(node.right))
        return node

    def compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) > 1:
            if not all(isinstance(op, ast.Lt | ast.LtE) for op in node.ops):
                raise Unreadable("a chain of comparisons")
            node.left = _call("number", self.visit(node.left))
            node.comparators = [_call("number", v) for v in self.all(node.comparators)]
            return node
        left, op, right = self.visit(node.left), node.ops[0], self.visit(node.comparators[0])
        if isinstance(op, ast.Is | ast.IsNot):
            node.left, node.comparators = left, [right]
            return node
        if isinstance(op, ast.Eq | ast.NotEq):
            return _call("equal" if isinstance(op, ast.Eq) else "unequal", left, right)
        if isinstance(op, ast.In | ast.NotIn):
            return _call("contains" if isinstance(op, ast.In) else "lacks", right, left)
        node.left, node.comparators = _call("number", left), [_call("number", right)]
        return node

    def call(self, node: ast.Call) -> ast.expr:
        fn = node.func
        hole = _hole(fn)
        if node.keywords:
            raise Unreadable("a call with keywords")
        node.args = self.all(node.args)
        if hole is not None:
            self.shape.called.add(hole)
            return _call("called", fn, *node.args)
        if isinstance(fn, ast.Name):
            if fn.id not in _FUNCTIONS or (fn.id == "type" and len(node.args) != 1):
                raise Unreadable(f"a call of {fn.id}")
            check = _ARGUMENTS.get(fn.id)
            if check is not None:
                node.args = [_call(check, arg) for arg in node.args]
            fn.id = _INSTEAD.get(fn.id, fn.id)
            return node
        if not isinstance(fn, ast.Attribute):
            raise Unreadable("a call of a value")
        return self._method(fn, node)

    def _method(self, fn: ast.Attribute, node: ast.Call) -> ast.expr:
        inner, base = fn.value, _hole(fn.value)
        if fn.attr in _CHECKS and base is not None:
            self.shape.seen.add(base)
            node.args = [_call("known", arg) for arg in node.args]
            return node
        if fn.attr != "isdisjoint":
            raise Unreadable(f"a call of .{fn.attr}")
        if isinstance(inner, ast.Set):
            fn.value = self.visit(inner)
        else:
            owner = _hole(inner.value) if isinstance(inner, ast.Attribute) else None
            if owner is None or not isinstance(inner, ast.Attribute) or inner.attr not in _SETS:
                raise Unreadable("a call of .isdisjoint")
            self.shape.seen.add(owner)
        node.args = [_call("numbers", arg) for arg in node.args]
        return node

    def condition(self, node: ast.If) -> ast.stmt:
        node.test = _truth(self.visit(node.test))
        if node.orelse:
            raise Unreadable("else")
        node.body = self.all(node.body)
        return node

    def give(self, node: ast.Return) -> ast.stmt:
        node.value = self.visit(node.value)
        return node

    def loops(self, node: ast.For) -> ast.stmt:
        node.iter = _call("items", self.visit(node.iter))
        self.loop |= _loop_names(node)
        node.body = self.all(node.body)
        return node


def _loop_names(node: ast.For) -> set[str]:
    names = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
    found = {name.id for name in names if isinstance(name, ast.Name)}
    if node.orelse or len(found) != len(names) or not found <= {"v", "i", "t"}:
        raise Unreadable("a loop")
    return found


_RULES: Final[dict[type, Callable[[_Guard, Any], Any]]] = {
    ast.Name: _Guard.name, ast.Constant: _Guard.constant, ast.Attribute: _Guard.attribute,
    ast.Subscript: _Guard.subscript, ast.Starred: _Guard.starred, ast.UnaryOp: _Guard.unary,
    ast.BoolOp: _Guard.boolean, ast.BinOp: _Guard.binary, ast.Compare: _Guard.compare,
    ast.Call: _Guard.call, ast.If: _Guard.condition, ast.Return: _Guard.give,
    ast.For: _Guard.loops, ast.List: _Guard.display, ast.Tuple: _Guard.display,
    ast.Set: _Guard.hashed,
}  # fmt: skip


class _Body(ast.NodeVisitor):
    """Checks a statement that runs after the guards."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.loop: set[str] = set()

    def visit(self, node: ast.AST) -> Any:
        super().visit(node)
        return node

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, _BODY):
            raise Unreadable(f"{type(node).__name__} in the text")
        super().generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            raise Unreadable(f"{node.id} is stored")
        if _hole(node) is None and node.id not in _BODY_NAMES and node.id not in self.loop:
            raise Unreadable(f"the name {node.id}")

    def visit_Constant(self, node: ast.Constant) -> None:
        """Any literal."""

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load) and node.attr not in _STORED:
            raise Unreadable(f".{node.attr} is stored")
        if not is_attribute(node.attr):
            raise Unreadable(f".{node.attr}")
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        if any(k.arg is None for k in node.keywords):
            raise Unreadable("a call with keywords")
        self._callee(node)
        for part in (*node.args, *(k.value for k in node.keywords)):
            self.visit(part)

    def _callee(self, node: ast.Call) -> None:
        fn = node.func
        hole = _hole(fn)
        if hole is not None:
            self.shape.called.add(hole)
        elif isinstance(fn, ast.Name):
            single = fn.id != "type" or len(node.args) == 1
            if fn.id != "K" and not (fn.id in _FUNCTIONS and single):
                raise Unreadable(f"a call of {fn.id}")
        elif isinstance(fn, ast.Attribute):
            self._method(fn)
        else:
            raise Unreadable("a call of a value")

    def _method(self, fn: ast.Attribute) -> None:
        base = _hole(fn.value)
        if fn.attr == "__new__" and base is not None:
            self.shape.called.add(base)
        elif fn.attr in _OF_REGION and isinstance(fn.value, ast.Name) and fn.value.id == "R":
            self.shape.attaches = True
        elif fn.attr in METHODS:
            self.visit(fn.value)
            if base is not None:
                self.shape.changed.add(base)
        else:
            raise Unreadable(f"a call of .{fn.attr}")

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self.loop |= _loop_names(node)
        for inner in node.body:
            self.visit(inner)


def _truth(node: ast.expr) -> ast.expr:
    """A condition; what only compares has a truth of its own."""
    sure = isinstance(node, ast.Compare | ast.BoolOp) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )
    call = node.func if isinstance(node, ast.Call) else None
    asked = isinstance(call, ast.Name) and call.id in _SURE
    return node if sure or asked else _call("truth", node)


_SURE: Final = ("equal", "unequal", "contains", "lacks")


def _call(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load(), **_PLACE), [*args], [], **_PLACE)


_PLACE: Final[dict[str, Any]] = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}


_ARGUMENTS: Final = {
    "abs": "number", "bool": "truth", "int": "number", "float": "number", "complex": "number",
    "zip": "items", "frozenset": "numbers",
}  # fmt: skip
_INSTEAD: Final = {"len": "length", "hasattr": "has"}
