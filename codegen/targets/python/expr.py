"""Emit: scalar expressions as Python over NumPy scalars. Expr -> text and statements.

NumPy scalars for every element type, so that each operation rounds as eager's does. What is used
more than once, and what is long, gets a name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from codegen.ir import affine, expr
from codegen.ir.expr import Apply, Cast, Checked, Const, Expr, IndexOf, Load, Local, Read, Select
from codegen.ir.schema import Stage
from codegen.ir.sizes import spelled
from codegen.ir.walk import INFIX, Walk, bare

INLINE = 36  # a value used once stands inside its user's line up to this length, without digits
_DIGITS = re.compile(r"\d")


class Block(Walk[str]):
    """Statements at one loop level. Inside the branch of a Select names are bound by `:=` and end
    with the branch."""

    def __init__(self) -> None:
        self.count = 0
        self.lines: list[str] = []
        self.names: dict[Expr, str] = {}
        self.uses: Mapping[Expr, int] = {}
        self.branch: list[dict[Expr, str]] = []

    def enter(self, stage: Stage) -> None:
        """A new body of loops, in which nothing has a name yet."""
        self.lines, self.names, self.uses = [], {}, expr.use_counts(stage.roots())

    def value(self, x: Expr) -> str:
        """The text of `x`: a name, a literal, or a short expression used once."""
        for names in (self.names, *self.branch):
            if x in names:
                return names[x]
        text = self.spell(x)
        plain = isinstance(x, Const | Local)
        return text if plain or self.stands_inside(x, text) else self.bind(x, text)

    def stands_inside(self, x: Expr, text: str) -> bool:
        return self.uses.get(x, 2) == 1 and len(_DIGITS.sub("", text)) <= INLINE

    def named(self, x: Expr) -> str:
        """The text of `x`, a literal or a name: computed here, before what follows."""
        text = self.value(x)
        plain = isinstance(x, Const | Local) or text.isidentifier()
        return text if plain else self.bind(x, text)

    def bind(self, x: Expr, text: str) -> str:
        self.count += 1
        name = f"x{self.count}"
        if self.branch:
            self.branch[-1][x] = name
            return f"({name} := {text})"
        self.names[x] = name
        self.lines.append(f"{name} = {bare(text)}")
        return name

    def lazily(self, x: Expr) -> str:
        self.branch.append({})
        text = self.value(x)
        self.branch.pop()
        return text

    def index(self, i: affine.Affine) -> str:
        return affine.text(i, lambda x: f"int({self.named(x)})")

    # ---- one rule per kind of expression

    def const(self, x: Const) -> str:
        finite = not isinstance(x.value, float) or math.isfinite(x.value)
        return f"{x.dtype.name}({x.value!r})" if finite else f"{x.dtype.name}('{x.value}')"

    def local(self, x: Local) -> str:
        return x.name

    def load(self, x: Load) -> str:
        return f"{x.buffer}[{self.index(x.offset)}]"

    def read(self, x: Read) -> str:
        return f"v{x.value}[{', '.join(map(self.index, x.index))}]"

    def index_of(self, x: IndexOf) -> str:
        return f"{x.dtype.name}({self.index(x.index)})"

    def cast(self, x: Cast) -> str:
        return f"cast({bare(self.value(x.arg))}, {x.dtype.name})"

    def checked(self, x: Checked) -> str:
        return f"checked({self.value(x.arg)}, {spelled(x.lo)}, {spelled(x.hi)}, {x.where!r})"

    def select(self, x: Select) -> str:
        cond = self.value(x.cond)
        return f"({self.lazily(x.then)} if {cond} else {self.lazily(x.other)})"

    def apply(self, x: Apply) -> str:
        if x.fn == "where" and self.branch:  # what one arm names, the other lacks
            cond = self.value(x.args[0])
            return f"({self.lazily(x.args[1])} if {cond} else {self.lazily(x.args[2])})"
        args = [self.value(a) for a in x.args]
        if x.fn in expr.CODEGEN:
            return f"{x.fn}({', '.join(args)}, {x.dtype.name})"
        if x.fn == "where":
            return f"({args[1]} if {args[0]} else {args[2]})"
        if x.fn in INFIX:
            return f"({args[0]} {INFIX[x.fn]} {args[1]})"
        return f"m.{x.fn}({', '.join(map(bare, args))})"


class OneLine(Block):
    """Expressions in one line, for printing loops that are no kernels yet. What is long and used
    more than once has a name from its first use on: a chain of such would else double with every
    link."""

    def __init__(self, *roots: Expr) -> None:
        super().__init__()
        self.uses = expr.use_counts(roots)
        self.branch = [{}]  # names are bound where they are used

    def stands_inside(self, x: Expr, text: str) -> bool:
        return self.uses.get(x, 1) == 1 or len(text) <= INLINE

    def named(self, x: Expr) -> str:
        return self.value(x)
