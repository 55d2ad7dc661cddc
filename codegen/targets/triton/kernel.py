"""Emit: one tiled kernel as the text of a @triton.jit function. Tiling -> KernelText.

A stage is written as: checks and values, reductions, then stores, so that everything is read before
anything is written. Values of tile stages stay in registers for later stages. A barrier of the
program stands between a store and a later stage that reads it back, and between the reads of what
is updated in place and its store, where another thread may store than those that read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from codegen.ir import affine, expr
from codegen.ir.affine import Axis
from codegen.ir.expr import Expr, Load
from codegen.ir.schema import Buffer, Stage, Store, Unsupported, homes
from codegen.ir.sizes import (
    Size,
    at_least,
    blocks,
    divides,
    fit_32_bits,
    is_short,
    round_down,
    same,
)
from codegen.targets.triton import reduce, table
from codegen.targets.triton.expr import NONE, STEP, Block, Memo, Signature, Text
from codegen.targets.triton.reduce import Span
from codegen.targets.triton.runtime.program import size_key
from codegen.targets.triton.tile import TiledStage, Tiling
from eager.base.dataclass import dataclass

ALIGNED: Final = 16  # a size that is a multiple of this keeps vector accesses under a mask


@dataclass(frozen=True, slots=True)
class KernelText:
    """A kernel as text. `body` starts at its parameter list, so equal kernels of any name have
    equal bodies.

    `parameters` are Triton type names; `arguments` the buffers (or "errors", or sizes, by the names
    that are in `sizes`) to pass; `strides`: the parameters of which it matters whether they are
    multiples of 16; `checks` the meaning of error slots."""

    body: str
    parameters: tuple[tuple[str, str], ...]
    arguments: tuple[str, ...]
    checks: tuple[str, ...]
    programs: Size
    warps: int
    sizes: Mapping[str, Size]
    strides: tuple[str, ...]


class Writer:
    """The state of one kernel's emission."""

    def __init__(self, tiling: Tiling, buffers: Mapping[str, Buffer]) -> None:
        self.tiling = tiling
        self.buffers = buffers
        self.wide = not all(is_narrow(s.stage, (tiling.rows, s.cols)) for s in tiling.stages)
        self.signature = Signature(buffers, self.wide)
        self.numbers = count()
        self.two_dims = tiling.block > 1 and any(s.block > 1 for s in tiling.stages)
        self.dirty: set[str] = set()  # stored by an earlier stage and not fenced yet
        self.read: list[Load] = []  # by an earlier stage that is one tile, and not fenced yet
        self.read_in_loops: set[str] = set()  # the same of loops over tiles
        dims = (("r", tiling.block), ("c", max(stage.block for stage in tiling.stages)))
        self.dims = frozenset(name for name, size in dims if size > 1)

    def fresh(self) -> str:
        return f"v{next(self.numbers)}"

    # ---- the kernel

    def lines(self) -> list[str]:
        form = self.tiling.form
        block = self.block()
        if form == "plane":
            return self.plane(block)
        if form == "serial":
            return self.serial(block)
        if form == "flat" and self.split_rows():
            return self.both_paths(block)
        self.open_rows(block, masked=not divides(self.tiling.block, self.tiling.rows))
        self.stages(block)
        return block.lines

    def block(self) -> Block:
        return Block(self.signature, [], STEP, {}, {}, {}, {}, self.wide, self.fresh)

    def split_rows(self) -> bool:
        """Full blocks run without a mask where a mask would make every access scalar."""
        t = self.tiling
        return not divides(ALIGNED, t.rows) and not at_least(t.block, t.rows)

    def both_paths(self, block: Block) -> list[str]:
        self.open_rows(block, masked=False)
        size, rows = self.tiling.block, self.tiling.rows
        full = f"if (pid + 1) * {size} <= {self.signature.size(rows)}:"
        for title, masked in ((full, False), ("else:", True)):
            block.put(title)
            inner = child(block, STEP)
            if masked:
                self.mask(inner, "r", rows)
            self.fenced()
            self.stages(inner)
        return block.lines

    def open_rows(self, block: Block, *, masked: bool, pid: str = "tl.program_id(0)") -> None:
        """Define r, and its bound when the rows do not fill the blocks."""
        t = self.tiling
        block.put(f"pid = {pid}{'.to(tl.int64)' if self.wide else ''}")
        axis = _axis("r", t.rows)
        if t.block == 1:
            block.put("r = pid")
            self.counter(block, axis, Text("r"))
            return
        tail = "[:, None]" if self.two_dims else ""
        block.put(f"r = {_span('pid', t.block, tail)}")
        self.counter(block, axis, Text("r", frozenset("r")))
        if masked:
            self.mask(block, "r", t.rows)

    def plane(self, block: Block) -> list[str]:
        t, stage = self.tiling, self.tiling.stages[0]
        across = blocks(stage.cols, stage.block)
        count = self.signature.size(across)
        pid = f"(tl.program_id(0) // {count})"
        self.open_rows(block, masked=not divides(t.block, t.rows), pid=pid)
        block.put(f"pid_c = (tl.program_id(0) % {count}){'.to(tl.int64)' if self.wide else ''}")
        spelled = _span("pid_c", stage.block, "[None, :]")
        self.open_cols(block, stage, spelled, not divides(stage.block, stage.cols))
        self.stage(block, stage)
        return block.lines

    def serial(self, block: Block) -> list[str]:
        """One program, row by row: stores that collide happen in order."""
        t, stage = self.tiling, self.tiling.stages[0].stage
        block.put(f"for r in range(0, {self.signature.size(t.rows)}):")
        inner = child(block, STEP)
        self.counter(inner, _axis("r", t.rows), Text("r"))
        inner.uses = expr.use_counts(stage.roots())
        for s in stage.stores:
            value, address = inner.named(s.value), inner.address(s.buffer, s.offset)
            inner.store_in_turn(s, value, address)
        return block.lines

    @staticmethod
    def counter(block: Block, axis: Axis | None, text: Text) -> None:
        """Let it be the last: the one of its dimension that the stage counts by."""
        if axis is not None:
            block.counters.pop(axis, None)
            block.counters[axis] = text

    @staticmethod
    def mask(block: Block, dim: str, extent: Size) -> None:
        counter = block._counter_of(dim)
        block.put(f"m{counter} = {counter} < {block.signature.size(extent)}")
        block.masks[dim] = f"m{counter}"

    # ---- stages

    def stages(self, block: Block) -> None:
        for stage in self.tiling.stages:
            self.fence(block, stage)
            if stage.looped:
                self.loop(block, stage)
            else:
                self.single(block, stage)

    def fence(self, block: Block, stage: TiledStage) -> None:
        """Wait for the program's own stores before reading them back from memory, and for reads of
        loops before writing there."""
        loads = {x.buffer for x in stage.stage.loads() if (x, ()) not in block.memo}
        stores = {s.buffer for s in self.stored(stage)}
        back = any(self.same_memory(b, d) for b in loads for d in self.dirty)
        if back or any(self.same_memory(b, d) for b in stores for d in self.read_in_loops):
            self.barrier(block)

    def barrier(self, block: Block) -> None:
        block.put("tl.debug_barrier()")
        self.fenced()

    def fenced(self) -> None:
        self.dirty.clear()
        self.read.clear()
        self.read_in_loops.clear()

    def stored(self, stage: TiledStage) -> list[Store]:
        """The stores of a stage that go to memory."""
        return [s for s in stage.stage.stores if not self.in_registers(s.buffer)]

    def same_memory(self, a: str, b: str) -> bool:
        return len(homes((a, b), self.buffers)) == 1

    def single(self, block: Block, stage: TiledStage) -> None:
        """A stage whose loops fit one tile (or that has none)."""
        block.masks.pop("c", None)
        if same(stage.cols, 1):
            self.stage(block, stage)
            return
        axis = _axis("c", stage.cols)
        if axis is None or axis not in block.counters:
            self.open_cols(
                block, stage, self.arange(stage.block), not same(stage.block, stage.cols)
            )
        else:
            self.counter(block, axis, block.counters[axis])
            if not same(stage.block, stage.cols):
                block.masks["c"] = f"m{block.counters[axis].text}"
        self.stage(block, stage)

    def arange(self, width: int) -> str:
        text = f"tl.arange(0, {width})"
        text = f"{text}.to(tl.int64)" if self.wide else text
        return f"{text}[None, :]" if self.two_dims else text

    def open_cols(self, block: Block, stage: TiledStage, spelled: str, masked: bool) -> None:
        size = self.signature.size(stage.cols)
        name = re.sub(r"\W+", "_", f"c{size}").rstrip("_")
        block.put(f"{name} = {spelled}")
        dims = frozenset("c") if stage.block > 1 else NONE
        self.counter(block, _axis("c", stage.cols), Text(name, dims))
        if masked:
            block.put(f"m{name} = {name} < {size}")
            block.masks["c"] = f"m{name}"

    def loop(self, block: Block, stage: TiledStage) -> None:
        """A stage longer than a tile: accumulate over blocks of columns, then reduce once."""
        span = self.span(stage)
        accumulators = {r.name: reduce.start(block, r, span) for r in stage.stage.reductions}
        whole = round_down(stage.cols, stage.block)
        peel = not divides(ALIGNED, stage.cols)  # a mask in the loop would make every access scalar
        end = whole if peel else stage.cols
        first, last, cols = map(self.signature.size, (whole, end, stage.cols))
        block.put(f"for start in range(0, {last}, {stage.block}):")
        self.step(block, stage, "start", accumulators, masked=not same(end, whole))
        if peel:
            block.put(f"for start in range({first}, {cols}, {stage.block}):")
            self.step(block, stage, "start", accumulators, masked=True)
        for r in stage.stage.reductions:
            reduce.finish(block, r, accumulators[r.name], span)
        self.wrote(block, stage)

    def step(
        self,
        block: Block,
        stage: TiledStage,
        start: str,
        accumulators: Mapping[str, list[str]],
        *,
        masked: bool,
    ) -> None:
        inner = child(block, STEP)
        inner.masks.pop("c", None)
        self.open_cols(inner, stage, f"{start} + {self.arange(stage.block)}", masked)
        inner.uses = expr.use_counts(stage.stage.roots())
        for r in stage.stage.reductions:
            reduce.fold(inner, r, self.span(stage), accumulators[r.name])
        self.stores(inner, stage)

    def stage(self, block: Block, stage: TiledStage) -> None:
        block.uses, span = expr.use_counts(stage.stage.roots()), self.span(stage)
        for r in stage.stage.reductions:
            reduce.finish(block, r, reduce.operands(block, r, span), span)
        self.stores(block, stage)
        self.wrote(block, stage)

    def stores(self, block: Block, stage: TiledStage) -> None:
        """All values and addresses first: a store may overwrite what another one reads."""
        values = [block.named(s.value) for s in stage.stage.stores]
        written = [
            (s, value, block.address(s.buffer, s.offset))
            for s, value in zip(stage.stage.stores, values, strict=True)
            if not self.in_registers(s.buffer)
        ]
        self.read += stage.stage.loads()
        if any(self.overtakes(s) for s in self.stored(stage)):
            self.barrier(block)
        for s, value, address in written:
            block.store(s, self.span(stage).dims, value, address)

    def overtakes(self, s: Store) -> bool:
        old = [x for x in self.read if self.same_memory(x.buffer, s.buffer)]
        return overtakes(s, old, self.dims)

    def wrote(self, block: Block, stage: TiledStage) -> None:
        """After the stores: what registers hold of the written memory is stale, except the written
        values themselves."""
        for s in stage.stage.stores:
            if not self.in_registers(s.buffer):
                self.dirty.add(s.buffer)
                self.forget(block.memo, s.buffer)
        if stage.looped:
            self.read_in_loops.update(x.buffer for x in self.read)
            self.read.clear()
            return
        for s in stage.stage.stores:
            dtype = self.buffers[s.buffer].dtype
            if s.monoid is None and s.value.dtype is dtype and (s.value, ()) in block.memo:
                block.memo[expr.load(s.buffer, s.offset, dtype), ()] = block.memo[s.value, ()]

    def forget(self, memo: Memo, buffer: str) -> None:
        for key in [key for key in memo if self.depends(key[0], buffer)]:
            del memo[key]

    def depends(self, x: Expr, buffer: str) -> bool:
        return any(self.same_memory(b, buffer) for b in self.signature.reads(x) if b != "errors")

    def in_registers(self, buffer: str) -> bool:
        own = self.buffers[buffer]
        return own.kind == "row" and all(b.name != buffer for b in self.tiling.scratch)

    def span(self, stage: TiledStage) -> Span:
        return Span(self.tiling.block, stage.block, self.two_dims)


def overtakes(s: Store, old: Sequence[Load], dims: frozenset[str]) -> bool:
    """True if a store may come before one of the reads `old` of the same memory in another warp.

    Not where the element that it replaces is part of what it stores, over all dimensions `dims` of
    the tile: such an element is read once, and comes to the thread that stores it by a barrier, if
    at all. But what is one for a row, or for the tile, is read by many warps and stored by one; and
    what does not enter may be read by another thread than the one that stores."""
    whole = {axis.name for axis in affine.axes_of(s.offset)} >= dims
    parts = set(expr.walk(s.value)) if old and whole else set()
    return not all(x.offset is s.offset and x in parts for x in old)


def is_narrow(stage: Stage, counts: Iterable[Size]) -> bool:
    """True if 32 bits hold counters below these, and the index forms of a stage, those that are
    values included."""
    bounds = (pair for x in stage.indices() for pair in affine.ranges(x))
    return fit_32_bits(counts) and all(is_short(lo, hi) for lo, hi in bounds)


def _axis(name: str, size: Size) -> Axis | None:
    """The canonical counter, None for size 1 (which is the constant 0)."""
    return next(iter(affine.counters(affine.axis(name, size))), None)


def _span(pid: str, block: int, tail: str) -> str:
    spelled = f"{pid} * {block} + tl.arange(0, {block})"
    return f"({spelled}){tail}" if tail else spelled


def child(block: Block, indent: str) -> Block:
    """A nested scope: what it defines is not visible outside."""
    return replace(
        block,
        indent=block.indent + indent,
        counters=dict(block.counters),
        masks=dict(block.masks),
        locals=dict(block.locals),
        memo=dict(block.memo),
    )


def emit_kernel(tiling: Tiling, buffers: Mapping[str, Buffer]) -> KernelText:
    """The text of one kernel. Raises Unsupported for what Triton cannot say."""
    known = {**buffers, **{b.name: b for b in tiling.kernel.locals}}
    writer = Writer(tiling, known)
    lines = writer.lines()
    return finished(writer.signature, lines, tiling.programs, tiling.warps)


def finished(
    signature: Signature,
    lines: Sequence[str],
    programs: Size,
    warps: int,
    first: tuple[tuple[str, str], ...] = (),
    constant: str = "",
) -> KernelText:
    """Put the parameter list before the lines. `first`: parameters that are no buffers;
    `constant`: one that is no argument of a launch."""
    own = signature.names.items()
    last = (("errors", "*i32"),) if signature.checks else ()
    buffers = ((name, parameter_type(signature.buffers[b])) for b, name in own)
    sizes = {size_key(n): n for n in signature.sizes.values()}
    numbers = ((name, "i64" if signature.wide else "i32") for name in signature.sizes)
    parameters = (*first, *buffers, *numbers, *last)
    arguments = (*(n for n, _ in first), *signature.names, *sizes, *(n for n, _ in last))
    names = [*(name for name, _ in parameters), *filter(None, [constant])]
    body = "\n".join([f"({', '.join(names)}):", *lines])
    strides = tuple(name for name in signature.sizes if name in signature.strides)
    checks, values = tuple(signature.checks), {**sizes, **signature.said}
    return KernelText(body, parameters, arguments, checks, programs, warps, values, strides)


def parameter_type(buffer: Buffer) -> str:
    """Triton's name of a parameter's type. Raises Unsupported for a type Triton lacks."""
    found = table.PARAMETERS.get(buffer.dtype)
    if found is None:
        raise Unsupported(
            f"the triton backend has no element type {buffer.dtype.name} (buffer {buffer.name})"
        )
    return found if buffer.kind == "scalar" else f"*{found}"
