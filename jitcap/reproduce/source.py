"""Reproducing: a call as a program. function, arguments -> text of all that they are made of.

Functions and classes of the program are their source, what is installed is imported, tensors are
made by rule, and other objects are put together from their parts. Objects that are one stay one.
"""

from __future__ import annotations

import ast
import copy
import dis
import inspect
import sys
import sysconfig
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from eager.core.tensor import Tensor, wrap
from eager.nn import Parameter
from eager.sizes.aval import array_aval
from jitcap.api import Jitted
from jitcap.reproduce.inputs import by_rule

ATOMS: Final = (type(None), bool, int, float, complex, str, bytes, type(...))
_HERE: Final = Path(__file__).resolve().parents[2]
_LIBRARIES: Final = ("stdlib", "platstdlib", "purelib", "platlib")
_INSTALLED: Final = (
    *{Path(sysconfig.get_path(name)).resolve() for name in _LIBRARIES},
    *(_HERE / package for package in ("eager", "codegen", "jitcap")),
)


class Program:
    """Text of values, in order: `definitions` of functions and classes, `lines` that make objects.

    Raises ValueError for what has no text."""

    def __init__(self, before: Mapping[int, Any]) -> None:
        """`before`: what lists, dictionaries and sets held, by id, where it is not what they do."""
        self._before = before
        self.imports: dict[str, None] = {}  # of modules; the helpers' are the file's
        self.lines: list[str] = []  # each a definition, or an assignment
        self.bound: dict[str, Any] = {}  # by the program's names
        self._names: dict[int, str] = {}
        self._open: set[int] = set()
        self._keep: list[Any] = []

    def text(self, x: Any) -> str:
        """An expression that is `x`, after what it needs."""
        x = _plain(x)
        if isinstance(x, ATOMS) and type(x) in ATOMS:
            return _atom(x)
        if id(x) in self._names:
            return self._names[id(x)]
        if id(x) in self._open:
            raise ValueError(f"a {type(x).__name__} that holds itself")
        self._open.add(id(x))
        try:
            made = self._made(x)
        finally:
            self._open.discard(id(x))
        self._keep.append(x)
        self._names[id(x)] = made
        return made

    def bind(self, name: str, x: Any) -> None:
        """Have `x` under the name that the program gives it."""
        x = _plain(x)
        if name in self.bound:
            if self.bound[name] is not x:
                raise ValueError(f"{name} is two things")
            return
        self.bound[name] = x
        text = self.text(x)
        if text != name:
            self.lines.append(f"{name} = {text}")

    def _made(self, x: Any) -> str:
        if isinstance(x, ModuleType):
            return self._module(x.__name__)
        if isinstance(x, MethodType):
            return f"{self.text(x.__self__)}.{x.__name__}"
        if isinstance(x, FunctionType | type | BuiltinFunctionType):
            return self._defined(x)
        if isinstance(x, Tensor):
            return self._name(self._tensor(x))
        if isinstance(x, np.ndarray):
            return self._name(by_rule(array_aval(x.shape, x.dtype), x, len(self._keep)).rule)
        if type(x) is tuple:
            return f"({', '.join(map(self.text, x))}{',' * (len(x) == 1)})"
        held = self._before.get(id(x), x)
        if type(x) is list:
            return self._name(f"[{', '.join(map(self.text, held))}]")
        if type(x) is dict:
            return self._name(self._dict(held))
        if type(x) in (set, frozenset):
            return self._name(f"{type(x).__name__}([{', '.join(map(self.text, held))}])")
        return self._object(x)

    def _name(self, text: str) -> str:
        name = f"v{len(self.lines)}"
        while name in self.bound:
            name = f"{name}_"
        self.lines.append(f"{name} = {text}")
        return name

    def _module(self, name: str) -> str:
        if not _is_installed(getattr(sys.modules[name], "__file__", None)):
            raise ValueError(f"the module {name}, which is the program's")
        if name != "eager":
            self.imports[name] = None
        return name

    def _tensor(self, x: Tensor) -> str:
        if x._node is not None or type(x) not in (Tensor, Parameter):
            raise ValueError(f"a {type(x).__name__} with a history")
        rule = by_rule(x.aval, np.asarray(x._array), len(self._keep)).rule
        more = ", requires_grad=True" if x.requires_grad else ""
        text = f"tensor({rule}{more})"
        if type(x) is Parameter:
            text = f"eager.nn.Parameter(tensor({rule}), {x.requires_grad})"
        return text

    def _dict(self, x: dict[Any, Any]) -> str:
        pairs = (f"{self.text(k)}: {self.text(v)}" for k, v in x.items())
        return f"{{{', '.join(pairs)}}}"

    def _object(self, x: Any) -> str:
        """An object by the parts that `copy` would take it apart into."""
        try:
            make, args, *rest = x.__reduce_ex__(2)
        except TypeError as error:
            raise ValueError(str(error)) from error
        state, items, pairs = (*rest, None, None, None)[:3]
        slots = None
        if type(state) is tuple:
            state, slots = state
        parts = [self.text(a) for a in (make, *args)]
        parts += [f"{key}={self.text(v)}" for key, v in (("state", state), ("slots", slots)) if v]
        for key, found in (("items", items), ("pairs", pairs)):
            if found is not None and (listed := [*found]):
                parts.append(f"{key}={self.text(listed)}")
        return self._name(f"new({', '.join(parts)})")

    # ---- functions and classes

    def _defined(self, x: Any) -> str:
        if x.__module__ == "builtins":
            return str(x.__name__)
        if _is_installed(_file_of(x)):
            return f"{self._module(x.__module__)}.{x.__qualname__}"
        name = x.__name__
        if not name.isidentifier():
            raise ValueError(f"{x.__qualname__}, which has no name")
        if self.bound.setdefault(name, x) is not x:
            raise ValueError(f"{name} is two things")
        self._names[id(x)] = name  # it may call itself
        tree = ast.parse(textwrap.dedent(inspect.getsource(x))).body[0]
        assert isinstance(tree, ast.FunctionDef | ast.ClassDef)
        tree.decorator_list = []
        for code, scope, cells in _codes(x):
            for free, cell in zip(code.co_freevars, cells, strict=True):
                if free != "__class__":
                    self.bind(free, cell.cell_contents)
            for used in dict.fromkeys((*_names_in(code), *_names_outside(tree))):
                if used in scope:
                    self.bind(used, scope[used])
        if isinstance(x, type):
            for base in x.__bases__:
                self.bind(base.__name__, base)
        self.lines.append(ast.unparse(tree))
        return str(name)


def _plain(x: Any) -> Any:
    """The function that a jitted one is of."""
    return x.original if isinstance(x, Jitted) else x


def _atom(x: Any) -> str:
    if isinstance(x, float) and not np.isfinite(x):
        return f'float("{x}")'
    return repr(x)


def _file_of(x: Any) -> str | None:
    return getattr(sys.modules.get(x.__module__), "__file__", None)


def _is_installed(file: str | None) -> bool:
    """True if a module is no part of the program: built in, or among what is installed."""
    return file is None or any(map(Path(file).resolve().is_relative_to, _INSTALLED))


def _codes(x: Any) -> Iterator[tuple[CodeType, dict[str, Any], Sequence[Any]]]:
    """The code of a function, or of the methods of a class, with globals and cells."""
    if isinstance(x, FunctionType):
        yield x.__code__, x.__globals__, x.__closure__ or ()
        return
    for value in vars(x).values():
        inner = getattr(value, "__func__", value)
        if isinstance(inner, FunctionType):
            yield inner.__code__, inner.__globals__, inner.__closure__ or ()


def _names_in(code: CodeType) -> Iterator[str]:
    """Globals that a function, or one in it, reads."""
    for each in dis.get_instructions(code):
        if each.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield each.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names_in(inner)


def _names_outside(tree: ast.AST) -> Iterator[str]:
    """Names that a definition itself reads: defaults, decorators, the body of a class."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Name):
            yield node.id
        if isinstance(tree, ast.FunctionDef | ast.Lambda):
            kept = isinstance(node, ast.arguments) or node in getattr(tree, "decorator_list", ())
            if not kept:
                continue
        yield from _names_outside(node)


# ---- less of it


class Statements:
    """A program's lines, of which statements inside functions can be left out."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.trees = [ast.parse(line) for line in lines]
        self.all: list[tuple[int, int]] = [
            (i, j) for i, tree in enumerate(self.trees) for j, _ in enumerate(_statements(tree))
        ]

    def keeping(self, kept: Collection[tuple[int, int]]) -> list[str]:
        """The lines with these statements alone."""
        found: list[str] = []
        for i, tree in enumerate(self.trees):
            less = copy.deepcopy(tree)
            gone = [x for j, x in enumerate([*_statements(less)]) if (i, j) not in kept]
            for body in _bodies(less):
                body[:] = [x for x in body if x not in gone] or [ast.Pass()]
            found.append(ast.unparse(less))
        return found


def needed(lines: Sequence[str], wanted: str) -> list[str]:
    """The lines that define what `wanted` names, and what that is made of."""
    trees = [ast.parse(line) for line in lines]
    defines = {_target(tree): tree for tree in trees}
    kept, left = set[str](), [ast.parse(wanted)]
    while left:
        names = {n.id for n in ast.walk(left.pop()) if isinstance(n, ast.Name)}
        new = {name for name in names if name in defines} - kept
        kept |= new
        left += [defines[name] for name in new]
    return [line for line, tree in zip(lines, trees, strict=True) if _target(tree) in kept]


def _target(tree: ast.Module) -> str:
    """The name that a line defines."""
    (line,) = tree.body
    if isinstance(line, ast.FunctionDef | ast.ClassDef):
        return line.name
    assert isinstance(line, ast.Assign)
    (name,) = line.targets
    assert isinstance(name, ast.Name)
    return name.id


def _bodies(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module):
            for name in ("body", "orelse", "finalbody"):
                body = getattr(node, name, None)
                if isinstance(body, list) and body:
                    yield body


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    for body in _bodies(tree):
        yield from body


# ---- what a file calls


def tensor(array: Any, *, requires_grad: bool = False) -> Tensor:
    """A tensor of these values."""
    made: Tensor = wrap(array)
    return made.requires_grad_() if requires_grad else made


def new(
    make: Any, *args: Any, state: Any = None, slots: Any = None, items: Any = (), pairs: Any = ()
) -> Any:
    """An object from its parts; no `__init__` runs."""
    made = make(*args)
    if state is not None:
        restore = getattr(made, "__setstate__", None)
        restore(state) if restore is not None else vars(made).update(state)
    for name, value in (slots or {}).items():
        object.__setattr__(made, name, value)
    for value in items:
        made.append(value)
    for key, value in pairs:
        made[key] = value
    return made
