"""Exporting: what an exported program is, as data. values -> their form, and back.

A form is a tree of arguments, or of a result, as data: [LEAF, n] is tensor n, ["list", ...],
["tuple", ...] and ["dict", keys, ...] hold forms, and any other value is ["=", value].
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from eager.base.dataclass import dataclass
from eager.base.tree import flatten
from eager.core.tensor import Tensor
from eager.random import default_generator
from eager.sizes.aval import Aval
from eager.sizes.polynomial import Scope
from jitcap.graph.graph import Graph

LEAF: Final = "%"
# Where an input of the graph comes from: a tensor among the arguments or of those that are held, by
# number; or a number: itself, [SIZE, symbol], [GENERATOR, attribute of the default generator],
# [COMPUTED, expression in x0, x1, ..., a number for each].
ARGUMENT, HELD, NUMBER = "argument", "held", "number"
SIZE, GENERATOR, COMPUTED = "size", "generator", "computed"
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "float": float, "int": int, "abs": abs, "min": min, "max": max, "round": round, "pow": pow,
    **{name: getattr(math, name) for name in ("sqrt", "log", "log2", "exp", "floor", "ceil")},
}  # fmt: skip
_OPERATORS: Final[dict[type, Callable[..., Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Pow: operator.pow,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Program:
    """`takes` says for each input of the graph where it comes from, `given` and `result` are forms,
    `avals` those of the tensors among the arguments, `scope` knows the symbols in them (None: there
    are none), `draws` counts the random draws."""

    graph: Graph
    writes: tuple[tuple[int, int], ...]
    takes: tuple[tuple[str, Any], ...]
    given: Any
    avals: tuple[Aval, ...]
    scope: Scope | None
    result: Any
    draws: int


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors in a tree, from left to right."""
    return [x for x in flatten(value)[0] if isinstance(x, Tensor)]


def form_of(value: Any, number: Callable[[Tensor], int] | None = None) -> Any:
    """The form of a value; `number` gives that of a tensor, else they are numbered in order."""
    if number is None:
        order = itertools.count()
        return form_of(value, lambda _: next(order))
    if isinstance(value, Tensor):
        return [LEAF, number(value)]
    if isinstance(value, dict):
        return ["dict", list(value), *(form_of(x, number) for x in value.values())]
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return [kind, *(form_of(x, number) for x in value)]
    return ["=", value]


def shown(form: Any) -> str:
    """The form of arguments as the call."""
    _, (_, *given), (_, keys, *named) = form
    texts = [*map(_text, given), *(f"{k}={_text(x)}" for k, x in zip(keys, named, strict=True))]
    return f"({', '.join(texts)})"


def _text(form: Any) -> str:
    kind, *parts = form
    if kind == LEAF:
        return "Tensor"
    if kind == "=":
        return repr(parts[0])
    if kind == "dict":
        pairs = zip(parts[0], parts[1:], strict=True)
        return f"{{{', '.join(f'{k!r}: {_text(x)}' for k, x in pairs)}}}"
    inner = ", ".join(map(_text, parts))
    return f"[{inner}]" if kind == "list" else f"({inner},)"


def same_form(a: Any, b: Any) -> bool:
    """True if two forms are equal, and their values of one type: 1 is neither 1.0 nor True."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_form, a, b))
    return type(a) is type(b) and bool(a == b or (a != a and b != b))


def leaves_of(form: Any) -> list[int]:
    """The numbers of the tensors in a form."""
    kind, *parts = form
    if kind in (LEAF, "="):
        return parts if kind == LEAF else []
    return [i for part in parts[kind == "dict" :] for i in leaves_of(part)]


def filled(form: Any, tensors: Sequence[Any]) -> Any:
    """The value of that form."""
    kind, *parts = form
    if kind == LEAF:
        return tensors[parts[0]]
    if kind == "=":
        return parts[0]
    if kind == "dict":
        keys, *values = parts
        return dict(zip(keys, (filled(x, tensors) for x in values), strict=True))
    made = [filled(x, tensors) for x in parts]
    return made if kind == "list" else tuple(made)


def number_at(number: Any, sizes: Mapping[str, int]) -> Any:
    """A number at these sizes. The expression is read, not executed: operators, and the
    functions of `FUNCTIONS`."""
    if not isinstance(number, list):
        return number
    if number[0] == SIZE:
        return sizes[number[1]]
    if number[0] == GENERATOR:
        seed = number[1] == "seed_value"
        value = default_generator.seed_value if seed else default_generator.ordinal
        return value - (1 << 64) if value >= 1 << 63 else value  # numbers of a graph have a sign
    values = [number_at(x, sizes) for x in number[2:]]
    return _value(ast.parse(number[1], mode="eval").body, values)


def _value(node: ast.AST, values: Sequence[Any]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name):
        return values[int(node.id.removeprefix("x"))]
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand, values))
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, values), _value(node.right, values))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return FUNCTIONS[node.func.id](*(_value(x, values) for x in node.args))
    raise ValueError(f"no arithmetic: {ast.unparse(node)}")
