"""Beside capture: Python's operators. symbol -> the function that does it, its special methods."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

Function = Callable[..., Any]
NAMES: Final = {  # of the special methods: `__add__`, `__radd__`, `__iadd__`
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow",
    "@": "matmul", "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}  # fmt: skip
BINARY: Final[dict[str, Function]] = {
    op: getattr(operator, f"__{name}__") for op, name in NAMES.items()
}
INPLACE: Final[dict[str, Function]] = {
    f"{op}=": getattr(operator, f"__i{name}__") for op, name in NAMES.items()
}
COMPARE: Final[dict[str, Function]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
REFLECTED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
UNARY: Final[dict[str, Function]] = {
    "UNARY_NEGATIVE": operator.neg, "UNARY_INVERT": operator.invert, "UNARY_POSITIVE": operator.pos,
}  # fmt: skip
INFIX: Final = {fn: op for op, fn in (BINARY | COMPARE).items()}
PREFIX: Final[dict[Function, str]] = {operator.neg: "u-", operator.invert: "~", operator.pos: "u+"}
