"""In the fifth stage: two vectors at a time, where one would wait for itself. Lines of a body ->
lines of two iterations.

A processor works on later iterations while one waits for its own results, as far as it looks ahead:
some hundred instructions. A longer chain of dependent operations leaves it idle; two chains, line
by line, do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from codegen.ir import expr
from codegen.ir.affine import Axis
from codegen.ir.expr import Apply, Expr
from codegen.ir.schema import Stage

LONG: Final = 32  # dependent additions


def waits(stage: Stage, vector: Axis) -> bool:
    """True if a value of the stage is computed by a long chain of operations, in each lane anew."""
    depth: dict[Expr, int] = {}
    for x in expr.walk(*(store.value for store in stage.stores)):  # operands come first
        if vector in expr.axes(x):
            before = max((depth.get(y, 0) for y in expr.children(x)), default=0)
            depth[x] = before + (expr.COST[x.fn] if isinstance(x, Apply) else 0)
    return max(depth.values(), default=0) >= LONG


def interleaved(lines: Sequence[str], counter: str, lanes: str) -> Iterator[str]:
    """The lines of a body, each followed by the same of the next vector."""
    own = {found[1] for line in lines if (found := re.match(r"const [^=]*\b(x\d+) = ", line))}

    # Sums of earlier stages lie by the number of the vector in the block.
    places = {counter: f"({counter} + {lanes})", "u_": "(u_ + 1)"}

    def moved(name: re.Match[str]) -> str:
        return places.get(name[0]) or (f"{name[0]}b" if name[0] in own else name[0])

    for line in lines:
        yield line
        yield re.sub(r"\b[a-zA-Z_]\w*\b", moved, line)
