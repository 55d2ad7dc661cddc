"""The walk that all backends share: which rule writes an expression. Expr -> what the backend makes
of it.

A backend is a subclass with one method per kind of expression. `how` is what it hands down to
them: a guard, whether lanes vary, nothing.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from codegen.ir.expr import Apply, Cast, Checked, Const, Expr, IndexOf, Load, Local, Read, Select
from codegen.ir.schema import Unsupported

T = TypeVar("T")


class Walk(Generic[T]):
    """One method per kind of expression; operands are asked for by the backend's own `value`."""

    def __init_subclass__(cls) -> None:
        missing = [rule for rule in RULES.values() if not hasattr(cls, rule)]
        if missing:
            raise TypeError(f"{cls.__name__} has no rule for {', '.join(missing)}")

    def spell(self, x: Expr, *how: Any) -> T:
        """The result of the rule for the type of `x`."""
        made: T = getattr(self, RULES[type(x)])(x, *how)
        return made

    def read(self, x: Read, *how: Any) -> T:
        """A value that fusion has not placed yet: in kernels there is none."""
        raise Unsupported(f"v{x.value} lies nowhere")


RULES: Final[dict[type[Expr], str]] = {
    Const: "const",
    Local: "local",
    Load: "load",
    Read: "read",
    IndexOf: "index_of",
    Apply: "apply",
    Cast: "cast",
    Select: "select",
    Checked: "checked",
}


# Intrinsics that Python, and text that looks like it, writes between the operands.
INFIX: Final = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "and_": "&", "or_": "|", "xor": "^",
}  # fmt: skip


def bare(text: str) -> str:
    """`text` without parentheses around the whole of it, for places that end it anyway."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1]
