"""Last part of tile: 64-bit index values in comparisons and casts become 32-bit ones. Kernel ->
Kernel.

`index < size` and `iota == label` are int64 by PyTorch's rules, and 8-byte values halve the lanes
of everything beside them. An index form has a known range, so where it fits the comparison runs on
int32; a label that is the same in all lanes is saturated to 32 bits first, which keeps every
comparison with a 32-bit value right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from codegen.ir import affine, expr
from codegen.ir.affine import Axis
from codegen.ir.expr import Apply, Cast, Const, Expr, IndexOf
from codegen.ir.rewrite import Rewrite
from codegen.ir.schema import Kernel, Stage, Tiled
from codegen.ir.sizes import SHORT, is_short
from eager.base import dtype as dt

COMPARE: Final = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


def narrow_indices(tiled: Tiled) -> Tiled:
    def narrowed(kernel: Kernel) -> Iterator[Kernel]:
        plan = tiled.schedules[kernel.name]
        lanes = (plan.row_vector or v for v in plan.vector)
        pairs = zip(kernel.stages, lanes, strict=True)
        stages = (s if v is None else narrowed_stage(s, v) for s, v in pairs)
        yield replace(kernel, stages=tuple(stages))

    return replace(tiled, fused=tiled.fused.map_kernels(narrowed))


def narrowed_stage(stage: Stage, lanes: Axis) -> Stage:
    return stage.map(_Narrow(lanes))


class _Narrow(Rewrite):
    def __init__(self, lanes: Axis) -> None:
        super().__init__({})
        self.lanes = lanes

    def rewritten(self, x: Expr) -> Expr:
        found = self.compare(x)
        found = self.converted(x) if found is None else found
        return super().rewritten(x) if found is None else found

    def compare(self, x: Expr) -> Expr | None:
        if not isinstance(x, Apply) or x.fn not in COMPARE or x.args[0].dtype is not dt.int64:
            return None
        if self.lanes not in expr.axes(x):
            return None
        args = [self.short(a) for a in x.args]
        if args[0] is None or args[1] is None:
            return None
        return expr.apply(x.fn, args[0], args[1])

    def converted(self, x: Expr) -> Expr | None:
        if not isinstance(x, Cast) or x.arg.dtype is not dt.int64 or self.lanes not in expr.axes(x):
            return None
        short = self.short(x.arg) if isinstance(x.arg, IndexOf) else None
        return None if short is None else expr.cast(short, x.dtype)

    def short(self, x: Expr) -> Expr | None:
        """`x` as int32, or None."""
        if isinstance(x, IndexOf):
            i = x.index
            fits = not affine.reads_data(i) and is_short(i.lo, i.hi)
            return expr.short_index(i) if fits else None
        if isinstance(x, Const):
            return expr.const(x.value, dt.int32) if -SHORT < x.value < SHORT else None
        if isinstance(x, Cast) and x.arg.dtype.category < dt.FLOAT and x.arg.dtype.itemsize <= 4:
            return expr.cast(self(x.arg), dt.int32)
        if self.lanes in expr.axes(x):
            return None
        top, bottom = expr.const(SHORT, dt.int64), expr.const(-SHORT, dt.int64)
        low = expr.apply("min", expr.apply("max", self(x), bottom), top)
        return expr.cast(low, dt.int32)
