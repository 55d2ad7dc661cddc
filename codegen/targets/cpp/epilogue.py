"""Beside the kernels: elementwise work on the tiles of a matrix product, as a function of a block
of its rows and columns. Library with an epilogue -> KernelText.

    why = fits(fused, step, kernel, kept)     # "", or why the kernel stays behind the product
    text = emit_epilogue(step, buffers)       # void name(env, i0, i1, j0, j1, tile, ld)

Rows are those of all matrices of a batch. The routine (`jitcap_brick.h`) calls the function with
each block once its sums are whole; `env` holds the pointers and numbers that a kernel has as
parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from codegen.fuse.lower import is_deep
from codegen.ir import affine, expr
from codegen.ir.affine import Affine
from codegen.ir.expr import Expr, Load
from codegen.ir.rewrite import Rewrite
from codegen.ir.schema import Buffer, Fused, Kernel, Library, Schedule, Stage
from codegen.ir.sizes import extents, hint, numel
from codegen.targets.cpp import table
from codegen.targets.cpp.expr import Scope
from codegen.targets.cpp.kernel import KernelText, Writer, width, written
from codegen.targets.cpp.narrow_indices import narrowed_stage
from codegen.targets.cpp.reduce import indent
from codegen.targets.cpp.tile import is_either

TILE: Final = "tile"  # the buffer that the product's elements are loaded from
ROW: Final = "row_"  # a pointer to where column 0 of a row would be in it
LEAST_BYTES: Final = 1 << 18  # a smaller product is still in the cache when its reader runs
SHORT: Final = 32  # columns
# Other matrices that the kernel reads. One after the other from end to end they come faster than by
# blocks, which costs more than the product's way through memory (measured: an update by AdamW is up
# to 25 % slower on tiles, a residual 4 to 13 %).
MOST_MATRICES: Final = 0


def fits(fused: Fused, step: Library, kernel: Kernel, kept: bool) -> str:
    """Reason why `kernel` is no epilogue of the product `step`; "": it is one."""
    out, (a, b) = step.out_avals[0], step.avals[:2]
    size = hint(out.numel)
    if a.dtype is not b.dtype or not (out.dtype.itemsize == 2 or out.dtype is b.dtype.compute):
        return "the product is no routine of the brick"
    if size * out.dtype.itemsize < LEAST_BYTES:
        return "the product is small"
    if is_deep(a):
        return "the product is so deep that its sums go through memory"
    if hint(out.shape[-1]) < SHORT or hint(out.shape[-2]) == 1:
        return "the rows of the product are short"
    block = on_tile(step, kernel, fused.buffers)
    (stage,) = block.stages
    (column,) = stage.loops
    steps = [affine.coefficient(i, affine.form(column)) for i in _accesses(stage)]
    if not all(is_either(c, 0, 1) for c in steps):
        return "it walks through memory across the rows of the product"
    (row,) = block.rows
    both = {row, column}
    read = {x.buffer for x in stage.loads() if both <= affine.axes_of(x.offset)}
    if len(read) > MOST_MATRICES:
        return "it reads other matrices, which is slower by blocks"
    return ""


def weight(kernel: Kernel) -> int:
    """Cost of an element, in bytes of plain traffic."""
    (stage,) = kernel.stages
    return 4 * max(1, sum(1 for _ in stage.walk()) // 3)


def emit_epilogue(
    step: Library, buffers: Mapping[str, Buffer], *, symbolic: bool = False
) -> KernelText:
    assert step.epilogue is not None
    kernel = on_tile(step, step.epilogue, buffers)
    (stage,) = kernel.stages
    plan = Schedule(stage.loops, parallel=False)
    kernel = replace(kernel, stages=(narrowed_stage(stage, stage.loops[0]),))
    return written(_OnTile, kernel, plan, buffers, symbolic=symbolic)


def on_tile(step: Library, kernel: Kernel, buffers: Mapping[str, Buffer]) -> Kernel:
    """The kernel by rows and columns; the product's elements are sums in the tile."""
    *batch, m, n = step.out_avals[0].shape
    (name,), (stage,) = step.outs, kernel.stages
    i, j = affine.axis("i", numel((*batch, m))), affine.axis("j", n)
    flat, axes = affine.ravel((i, j), (numel((*batch, m)), n)), (*kernel.rows, *stage.loops)
    by = dict(zip(axes, affine.unravel(flat, extents(axes)), strict=True))
    sums = step.out_avals[0].dtype.compute

    def load(buffer: str, offset: Affine, x: Load) -> Expr:
        if buffer != name:
            return expr.load(buffer, offset, x.dtype)
        return expr.cast(expr.load(TILE, j, sums), x.dtype)

    stages = (stage.map(Rewrite(by, on_load=load), affine.counters(j)),)
    return replace(kernel, rows=affine.counters(i), stages=stages)


def _accesses(stage: Stage) -> list[Affine]:
    return [*(x.offset for x in stage.loads()), *(s.offset for s in stage.stores)]


class _OnTile(Writer):
    """A function of a block; lanes run along its columns."""

    def __init__(self, kernel: Kernel, plan: Schedule, buffers: Mapping[str, Buffer]) -> None:
        super().__init__(kernel, plan, buffers)
        sums = next(x.dtype for x in kernel.loads() if x.buffer == TILE)
        self.kind = table.MEMORY[sums.name]
        self.names.dtypes[TILE] = sums
        self.names.locals[TILE] = ROW

    def function(self, params: list[str], body: list[str]) -> tuple[str, str, list[str]]:
        fields = ["void *arena", *(p.removeprefix("const ") for p in params)]
        names = [field.rpartition(" ")[2].lstrip("*") for field in fields]
        own = [f"  const auto {n} = ((const {{name}}_t *)env_)->{n};" for n in names]
        types = f"struct {{name}}_t {{ {'; '.join(fields)}; }};"
        block = f"i64 i0_, i64 i1_, i64 j0_, i64 j1_, const {self.kind} *tile_, i64 ld_"
        head = f"JC_NOINLINE void {{name}}(const void *env_, {block})"
        return types, head, [types, f"static {head} {{", *own, *body, "}"]

    def body(self) -> list[str]:
        (stage,), (row,) = self.kernel.stages, self.kernel.rows
        (column,) = stage.loops
        inner = Scope(frozenset((column,)))
        self.top.lines.append(f"constexpr int W = {width((stage,), column)};")
        self.store_all(self.spell([self.top, self.row, inner], column, "W"), inner, stage)
        i, j = row.name, column.name
        return [
            f"for (i64 {i} = i0_; {i} < i1_; {i}++) {{",
            f"  const {self.kind} *const {ROW} = tile_ + ({i} - i0_) * ld_ - j0_;",
            *indent(self.row.lines),
            f"  auto body = [&](auto block_, const i64 {j}, const int n_) JC_BODY {{",
            "    typedef decltype(block_) B;",
            *indent(inner.lines, 2),
            "  };",
            "  i64 c_ = j0_;",
            "  for (; c_ + W <= j1_; c_ += W) body(Full{}, c_, W);",
            "  if (c_ < j1_) body(Tail{}, c_, int(j1_ - c_));",
            "}",
        ]
