"""In the fifth stage: which kernels wait for themselves, and are written for two vectors at a time.
Stage -> bool.

A processor works on later iterations while one waits for its own results, as far as it looks ahead:
some hundred instructions. A longer chain of dependent operations leaves it idle; two chains, line
by line, do not.
"""

from __future__ import annotations

from typing import Final

from codegen.ir import expr
from codegen.ir.affine import Axis
from codegen.ir.expr import Apply, Expr
from codegen.ir.schema import Stage

LONG: Final = 32  # dependent additions: nearly three `exp` in a row


def waits(stage: Stage, vector: Axis) -> bool:
    """True if a value of the stage is computed by a long chain of operations, in each lane anew."""
    depth: dict[Expr, int] = {}
    for x in expr.walk(*(store.value for store in stage.stores)):  # operands come first
        if vector in expr.axes(x):
            before = max((depth.get(y, 0) for y in expr.children(x)), default=0)
            depth[x] = before + (expr.COST[x.fn] if isinstance(x, Apply) else 0)
    return max(depth.values(), default=0) >= LONG
