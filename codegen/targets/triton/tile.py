"""Emit, before Triton text: how a kernel is cut into tiles. Kernel -> Tiling (canonical counters,
block sizes, what stays where).

All row axes become one counter `r`, all loops of a stage one counter `c`; index forms are rewritten
over them and flatten back to strided accesses. A program of the grid computes ROWS rows. A stage
whose loops fit a block is one tile, so what it loads and computes stays in registers for the next
stages (softmax reads its input once); a longer one is a loop over blocks.

    flat    no stage has loops: one-dimensional tiles of elements
    rows    programs own rows; each stage is a tile [ROWS, COLS] or a loop over such tiles
    plane   one elementwise stage whose reads are contiguous along another axis than its
            writes: square tiles over both
    serial  one elementwise stage that combines at colliding places what no atomic instruction
            can: one program, element by element, in order
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from codegen.ir import affine, expr
from codegen.ir.affine import Affine, Axis
from codegen.ir.expr import Expr, Load
from codegen.ir.monoid import MAX, MIN, PROD, SUM, Monoid
from codegen.ir.rewrite import Rewrite
from codegen.ir.schema import Buffer, Kernel, Stage
from codegen.ir.sizes import (
    Size,
    at_least,
    blocks,
    extent,
    extents,
    most,
    power_of_two,
    some,
)
from codegen.targets.cpp.tile import is_either, split_axes
from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.base.dtype import DType


@dataclass(frozen=True, slots=True)
class Sizes:
    """Block sizes, in elements. The defaults suit an H100: 1024 to 4096 elements per program of 4
    warps."""

    flat: int = 1024  # 8 elements per thread: 16-byte accesses for 16-bit types as well
    tile: int = 4096  # rows * columns of one tile
    longest: int = 8192  # a stage with longer loops is looped over in blocks of `loop`
    loop: int = 2048
    unknown: int = 512  # that block for a stage of any length, which may be short
    plane: int = 32
    column: int = 64  # neighbouring rows of a tile that reads down columns
    programs: int = 256  # fewer programs than this leave multiprocessors idle


DEFAULT: Final = Sizes()
COMBINES: Final = {SUM: "add", PROD: "mul", MAX: "max", MIN: "min"}  # intrinsics
ATOMIC_TYPES: Final = {
    SUM: (dt.float16, dt.bfloat16, dt.float32, dt.float64, dt.int32, dt.int64),
    MAX: (dt.int32, dt.int64),
    MIN: (dt.int32, dt.int64),
}


def is_atomic(monoid: Monoid, dtype: DType) -> bool:
    """True if one instruction combines a value of `dtype` with memory, NaN as in eager."""
    return dtype in ATOMIC_TYPES.get(monoid, ())


@dataclass(frozen=True, eq=False, slots=True)
class TiledStage:
    """A stage over counters r and c. `cols` is its extent; `block` the tile's width; looped where
    that may not hold all."""

    stage: Stage
    cols: Size
    block: int

    @property
    def looped(self) -> bool:
        return not at_least(self.block, self.cols)


@dataclass(frozen=True, eq=False, slots=True)
class Tiling:
    """`rows` rows in blocks of `block`. `scratch`: row buffers that need memory (the others stay in
    registers)."""

    kernel: Kernel
    form: Literal["flat", "rows", "plane", "serial"]
    rows: Size
    block: int
    stages: tuple[TiledStage, ...]
    scratch: tuple[Buffer, ...]
    warps: int

    @property
    def programs(self) -> Size:
        if self.form == "serial":
            return int(some(self.rows))
        count = blocks(self.rows, self.block)
        if self.form == "plane":
            count *= blocks(self.stages[0].cols, self.stages[0].block)
        return count


def tile(kernel: Kernel, sizes: Sizes = DEFAULT) -> Tiling:
    """Choose the form and the block sizes of `kernel`, and rewrite it over r and c."""
    if kernel.is_elementwise():
        stage = kernel.stages[0]
        kernel = replace(kernel, rows=kernel.rows + stage.loops, stages=(replace(stage, loops=()),))
        if any(s.monoid and not is_atomic(s.monoid, s.value.dtype) for s in stage.stores):
            return _serial(kernel)
        kernel = split_axes(kernel)
        other = _other_contiguous_axis(kernel)
        if other is not None:
            return _plane(kernel, other, sizes)
    if all(not stage.loops for stage in kernel.stages):
        return _flat(kernel, sizes)
    return _rows(kernel, sizes)


# ------------------------------------------------------------------------- the three forms


def _flat(kernel: Kernel, sizes: Sizes) -> Tiling:
    rows = extent(kernel.rows)
    block = min(sizes.flat, power_of_two(rows))
    stages = [_restage(s, kernel.rows, (), rows, 1) for s in kernel.stages]
    stages, scratch = _keep_in_registers(kernel, stages)
    return Tiling(kernel, "flat", rows, block, tuple(stages), scratch, _warps(block))


def _serial(kernel: Kernel) -> Tiling:
    rows = extent(kernel.rows)
    stage = _restage(kernel.stages[0], kernel.rows, (), rows, 1)
    return Tiling(kernel, "serial", rows, 1, (stage,), (), 1)


def _rows(kernel: Kernel, sizes: Sizes) -> Tiling:
    rows = extent(kernel.rows)
    lengths = [extent(s.loops) for s in kernel.stages]
    least = min(sizes.column, power_of_two(rows)) if is_column(kernel) else 1
    widths = [_width(n, least, sizes) for n in lengths]
    block = max(least, min(sizes.tile // max(widths), power_of_two(rows)))
    stages = [
        _restage(s, kernel.rows, s.loops, rows, width)
        for s, width in zip(kernel.stages, widths, strict=True)
    ]
    stages, scratch = _keep_in_registers(kernel, stages)
    return Tiling(kernel, "rows", rows, block, tuple(stages), scratch, _warps(block * max(widths)))


def is_column(kernel: Kernel) -> bool:
    """True if most reads of its looped stages are contiguous along the rows, not along the
    loops."""
    votes = 0
    for stage in kernel.stages:
        for offset in _offsets(stage) if stage.loops and kernel.rows else ():
            last, loop = kernel.rows[-1], stage.loops[-1]
            along, across = (affine.coefficient(offset, affine.form(a)) for a in (loop, last))
            votes += (is_either(across, 1) and not _is_near(along)) - is_either(along, 1)
    return votes > 0


def _is_near(step: Size | None) -> bool:
    """True if neighbours are one element, or next to each other, or nothing is known."""
    return step is None or is_either(step, 0, 1)


def _plane(kernel: Kernel, other: Axis, sizes: Sizes) -> Tiling:
    """Rows end with the axis that reads are contiguous along, columns are the last axis."""
    last = kernel.rows[-1]
    rows = (*(a for a in kernel.rows[:-1] if a is not other), other)
    height = min(sizes.plane, power_of_two(other.size))
    width = min(sizes.plane, power_of_two(last.size))
    count = extent(rows)
    stage = _restage(kernel.stages[0], rows, (last,), count, width)
    return Tiling(kernel, "plane", count, height, (stage,), (), _warps(height * width))


def _width(length: Size, rows: int, sizes: Sizes) -> int:
    """Width of a tile of at least `rows` rows: all of a short stage, a block of a long one."""
    static = length.__class__ is int
    full = max(power_of_two(length), 1 if static else 2)  # which is masked: there may be none
    if full * rows <= sizes.longest:
        return full
    known = rows > 1 or static
    return max(2, (sizes.loop if known else min(sizes.loop, sizes.unknown)) // rows)


def _warps(elements: int) -> int:
    """Number of warps: at least 8 elements per thread before another one is worth it; 16 at
    most."""
    return max(1, min(16, elements // 256))


def _other_contiguous_axis(kernel: Kernel) -> Axis | None:
    """The axis along which most reads are contiguous when the last one is not it: a
    transposition."""
    if len(kernel.rows) < 2 or not some(extent(kernel.rows[-2:])):
        return None
    last, votes = kernel.rows[-1], dict.fromkeys(kernel.rows[:-1], 0)
    if most(last.size) < 16:
        return None
    for offset in _offsets(kernel.stages[0]):
        steps = {a: affine.coefficient(offset, affine.form(a)) for a in kernel.rows}
        if _is_near(steps[last]):
            continue
        for axis in votes:
            votes[axis] += is_either(steps[axis], 1) and most(axis.size) >= 16
    best = max(votes, key=lambda a: votes[a])
    return best if votes[best] else None


def _offsets(stage: Stage) -> Iterator[Affine]:
    return (x.offset for x in stage.loads())


# ------------------------------------------------------------------------------- rewriting


def _restage(
    stage: Stage, rows: Sequence[Axis], cols: Sequence[Axis], n: Size, width: int
) -> TiledStage:
    """The stage over r in [0, n) and c in [0, extent)."""
    length = extent(cols)
    by = {**_unravelled("r", rows, n), **_unravelled("c", cols, length)}
    return TiledStage(stage.map(Rewrite(by), ()), length, width)


def _unravelled(name: str, axes: Sequence[Axis], length: Size) -> Mapping[Axis, Affine]:
    forms = affine.unravel(affine.axis(name, length), extents(axes))
    return dict(zip(axes, forms, strict=True))


def _keep_in_registers(
    kernel: Kernel, stages: list[TiledStage]
) -> tuple[list[TiledStage], tuple[Buffer, ...]]:
    """Row buffers read back exactly where they were written, in tiles of one shape, need no memory.

    The others become memory of all rows: their offsets move by r * size."""
    scratch = tuple(b for b in kernel.locals if not _in_registers(b.name, stages))
    r = affine.axis("r", extent(kernel.rows))
    moved = {b.name: r * b.size for b in scratch}
    return [replace(s, stage=with_rows_in_memory(s.stage, moved)) for s in stages], scratch


def with_rows_in_memory(stage: Stage, moved: Mapping[str, Affine]) -> Stage:
    """The stage with row buffers in memory of all rows: `moved` says where a row's begins."""
    if not moved:
        return stage

    def on_load(buffer: str, offset: Affine, x: Load) -> Expr:
        return expr.load(buffer, offset + moved.get(buffer, affine.ZERO), x.dtype)

    stage = stage.map(Rewrite({}, on_load=on_load))
    stores = (replace(s, offset=s.offset + moved.get(s.buffer, affine.ZERO)) for s in stage.stores)
    return replace(stage, stores=tuple(stores))


def _in_registers(name: str, stages: Sequence[TiledStage]) -> bool:
    written: tuple[Affine, Size] | None = None
    for s in stages:
        for x in s.stage.loads():
            if x.buffer == name and (s.looped or (x.offset, s.cols) != written):
                return False
        for store in s.stage.stores:
            if store.buffer == name:
                if s.looped or written is not None or store.monoid is not None:
                    return False
                written = store.offset, s.cols
    return True
