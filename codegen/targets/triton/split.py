"""Emit, before tiling: kernels with too few rows to fill a GPU become several. Kernel -> Kernels
and temporaries.

A kernel's rows are what runs in parallel. When there are few rows of much work, each stage becomes
a kernel of its own, its reductions in two phases: many programs reduce a chunk each into a
temporary, then one pass reduces the chunks. The order of additions is fixed by the shapes, never by
timing, so results repeat bit by bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from codegen.ir import affine, expr
from codegen.ir.affine import Affine, Axis
from codegen.ir.expr import BUILD, Expr, Local
from codegen.ir.rewrite import Rewrite
from codegen.ir.schema import Buffer, Kernel, Reduction, Stage, Store
from codegen.ir.sizes import Size, blocks, extent, extents, is_static, most, round_up, some
from codegen.targets.triton.tile import Sizes, is_column, with_rows_in_memory
from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.base.dtype import DType


@dataclass(frozen=True, eq=False, slots=True)
class Launches:
    """The kernels that do the work of a kernel or a step, in order, and the memory between
    them."""

    kernels: tuple[Kernel, ...]
    buffers: tuple[Buffer, ...] = ()


def split(kernel: Kernel, sizes: Sizes) -> Launches:
    """`kernel` itself when its rows fill the device, or its stages are short."""
    rows = extent(kernel.rows)
    collides = any(s.monoid is not None for s in kernel.stores())
    long = any(_too_long(kernel, stage, rows, sizes) for stage in kernel.stages)
    if not some(rows) or not (long or (collides and len(kernel.stages) > 1)):
        return Launches((kernel,))
    return _Splitting(kernel, rows, sizes).run()


def _too_long(kernel: Kernel, stage: Stage, rows: Size, sizes: Sizes) -> bool:
    """True if the stage's work per program is large and its programs are few: where sizes are
    symbolic, if the one can be and the other must."""
    length = extent(stage.loops)
    column = is_column(kernel)
    programs = most(blocks(rows, sizes.column) if column else rows)
    return programs < sizes.programs and most(length) > (sizes.column if column else sizes.tile)


@dataclass
class _Splitting:
    """Kernels so far; `now` are the stages of the kernel being collected; `known` replaces locals
    by memory."""

    kernel: Kernel
    rows: Size
    sizes: Sizes
    done: list[Kernel] = field(default_factory=list)
    now: list[Stage] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    known: dict[Expr, Expr] = field(default_factory=dict)

    def run(self) -> Launches:
        stages = list(self._shared_rows())
        for i, stage in enumerate(stages):
            stage = self.resolved(stage)
            if not _too_long(self.kernel, stage, self.rows, self.sizes):
                self.now.append(stage)
                continue
            self.flush(stages[i:])
            stage = self.resolved(stage)
            if stage.stores:
                self.add((self.resolved(replace(stage, reductions=())),), self.kernel.rows)
            if stage.reductions:
                self.two_phases(stage)
        self.flush(())
        return Launches(tuple(self.done), tuple(self.buffers))

    def _shared_rows(self) -> Iterable[Stage]:
        """The stages with row buffers moved to memory, where the next kernel finds them."""
        r = affine.flat(self.kernel.rows)
        moved = {b.name: r * b.size for b in self.kernel.locals}
        self.buffers += [
            replace(b, size=b.size * self.rows, kind="temp") for b in self.kernel.locals
        ]
        return (with_rows_in_memory(stage, moved) for stage in self.kernel.stages)

    def resolved(self, stage: Stage) -> Stage:
        """The stage with locals of finished kernels read from memory."""
        return stage.map(self.rewrite())

    def rewrite(self) -> Rewrite:
        made = Rewrite({})
        made.memo.update(self.known)
        return made

    def flush(self, later: Sequence[Stage]) -> None:
        """Close the kernel being collected; what it reduced and `later` stages need goes to
        memory."""
        if not self.now:
            return
        needed = {
            x.name for stage in later for x in self.resolved(stage).walk() if isinstance(x, Local)
        }
        found = [r for stage in self.now for r in stage.reductions]
        reductions = [r for r in found if r.name in needed]
        place = affine.flat(self.kernel.rows)
        stores = []
        for r in reductions:
            name = self.temporary(f"{r.name}_{self.kernel.name}", r.dtype, self.rows)
            value = expr.local(r.name, r.dtype)
            stores.append(Store(name, place, value))
            self.known[value] = expr.load(name, place, r.dtype)
        self.known = {x: self.rewrite()(y) for x, y in self.known.items()}
        self.add(
            (*self.now, Stage((), (), tuple(stores))) if stores else tuple(self.now),
            self.kernel.rows,
        )
        self.now = []

    def add(self, stages: tuple[Stage, ...], rows: tuple[Axis, ...]) -> None:
        name = f"{self.kernel.name}_{len(self.done)}"
        self.done.append(replace(self.kernel, name=name, rows=rows, stages=stages, locals=()))

    def temporary(self, name: str, dtype: DType, size: Size) -> str:
        self.buffers.append(Buffer(name, dtype, size, "temp"))
        return name

    # ---- two phases

    def two_phases(self, stage: Stage) -> None:
        """Reduce chunks in parallel; the reduction of the chunks starts the next kernel."""
        length = extent(stage.loops)
        chunk = self.chunk(length)
        count = blocks(length, chunk)
        s, k = affine.axis("s", count), affine.axis("c", chunk)
        position = s * chunk + k
        at = affine.unravel(position, extents(stage.loops))
        by = dict(zip(stage.loops, at, strict=True))
        inside = expr.decide(BUILD.lt(expr.index_of(position), length))
        rewrite = Rewrite(by)
        partial, final = [], []
        for r in stage.reductions:
            value = rewrite(r.value)
            padding = expr.const(r.monoid.unit(value.dtype), value.dtype)
            own = replace(r, value=expr.select(inside, value, padding))
            partial += self.partials(own, s, chunk)
            final += self.finals(own, s)
        rows = (*affine.counters(s), *self.kernel.rows)
        loops = affine.counters(k)
        place = self.position(s)
        reductions = tuple(r for r, _ in partial)
        stores = tuple(Store(name, place, _chunk_local(r, s * chunk)) for r, name in partial)
        self.add((Stage(loops, reductions), Stage((), (), stores)), rows)
        self.now.append(Stage(affine.counters(s), tuple(final)))

    def chunk(self, length: Size) -> int:
        """Elements per program of the first phase: enough programs, and enough work for each."""
        least = self.sizes.column if is_column(self.kernel) else self.sizes.tile
        if not is_static((length, self.rows)):
            return 4 * least  # for any number of chunks
        width = blocks(self.rows, self.sizes.column) if is_column(self.kernel) else self.rows
        wanted = max(1, self.sizes.programs // width)
        return max(least, round_up(blocks(length, wanted), least))

    def position(self, s: Affine) -> Affine:
        """Position of chunk `s` of a row: rows are neighbours."""
        row = affine.flat(self.kernel.rows)
        return s * self.rows + row

    def partials(self, r: Reduction, s: Affine, chunk: int) -> list[tuple[Reduction, str]]:
        """The reductions of one chunk, and the temporaries they go to: for arg-reductions the
        extremum as well."""
        size = self.rows * s.extent
        found = [(r, self.temporary(f"{r.name}_{self.kernel.name}_chunks", r.dtype, size))]
        if r.monoid.of is not None:
            value = replace(r, name=f"{r.name}_value", monoid=r.monoid.of, dtype=r.value.dtype)
            name = self.temporary(f"{r.name}_{self.kernel.name}_values", r.value.dtype, size)
            found.append((value, name))
        return found

    def finals(self, r: Reduction, s: Affine) -> list[Reduction]:
        """The reduction of the chunks. For arg-reductions: which chunk; the position is looked up
        by who reads it."""
        place = self.position(s)
        if r.monoid.of is None:
            name = f"{r.name}_{self.kernel.name}_chunks"
            return [replace(r, value=expr.load(name, place, r.dtype))]
        values = expr.load(f"{r.name}_{self.kernel.name}_values", place, r.value.dtype)
        winner = expr.local(f"{r.name}_chunk", dt.int64)
        where = self.position(affine.opaque(winner, 0, s.hi))
        self.known[expr.local(r.name, r.dtype)] = expr.load(
            f"{r.name}_{self.kernel.name}_chunks", where, r.dtype
        )
        return [Reduction(f"{r.name}_chunk", r.monoid, dt.int64, values)]


def _chunk_local(r: Reduction, start: Affine) -> Expr:
    """The value a chunk reduced to; positions count from the start of the row."""
    value = expr.local(r.name, r.dtype)
    if r.monoid.of is None:
        return value
    return expr.apply("add", value, expr.index_of(start))
