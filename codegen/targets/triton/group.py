"""Emit, before tiling: equal elementwise kernels over different tensors become one. Kernels in
order -> batches.

An optimizer updates every parameter by the same expression. Kernels that say the same up to buffers
and sizes, and do not depend on one another, are launched as one: its programs find their tensor in
a table of addresses (`Tables`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from codegen.ir import affine, expr
from codegen.ir.affine import ZERO, Affine
from codegen.ir.expr import Expr, Load
from codegen.ir.rewrite import Rewrite
from codegen.ir.schema import Buffer, Fused, Kernel, Library, Stage, Store
from codegen.ir.sizes import extent, fit_32_bits
from codegen.schedule import batch_updates
from codegen.targets.triton import table
from codegen.targets.triton.expr import STEP, Block, Text
from codegen.targets.triton.kernel import KernelText, Writer, child, finished
from codegen.targets.triton.runtime.kernel import ALIGNMENT
from codegen.targets.triton.runtime.program import Tables
from codegen.targets.triton.tile import Sizes, TiledStage, Tiling
from eager.base.dataclass import dataclass

MEMBER: Final = 1 << 20  # the size that stands for every member's in the shared expression
R: Final = "r"
ALIGNMENT_PARAMETER: Final = f"{ALIGNMENT}: tl.constexpr = 16"
# The parameters by which a program finds its tensor.
TABLES: Final = (("table", "*i64"), ("owner", "*i32"), ("first", "*i32"), ("sizes", "*i64"))


@dataclass(frozen=True, eq=False, slots=True)
class Form:
    """A kernel over slots instead of buffers. `key` is equal for kernels that can run as one."""

    kernel: Kernel
    key: tuple[Any, ...]
    stores: tuple[Store, ...]
    slots: tuple[str, ...]
    size: int


class _NotElementwise(Exception):
    """The kernel reads or writes elsewhere than at its own element."""


@dataclass(eq=False)
class _Slots:
    """Buffers of a kernel by order of first use."""

    buffers: Mapping[str, Buffer]
    flat: Affine
    size: int
    names: list[str] = field(default_factory=list)

    def of(self, buffer: str) -> str:
        if buffer not in self.names:
            self.names.append(buffer)
        return f"slot{self.names.index(buffer)}"

    def load(self, buffer: str, offset: Affine, x: Load) -> Expr:
        own = self.buffers[buffer]
        if own.kind == "scalar":
            return expr.load(buffer, offset, x.dtype)
        if offset is self.flat:
            return expr.load(self.of(buffer), affine.axis(R, MEMBER), x.dtype)
        if offset is ZERO and own.size == 1:
            return expr.load(self.of(buffer), ZERO, x.dtype)
        raise _NotElementwise


def form(kernel: Kernel, buffers: Mapping[str, Buffer]) -> Form | None:
    """`kernel` over slots, or None when it is not a plain elementwise kernel, of a known size."""
    if not kernel.is_elementwise():
        return None
    (stage,) = kernel.stages
    axes = (*kernel.rows, *stage.loops)
    size = extent(axes)
    flat = affine.flat(axes)
    known = size.__class__ is int and size
    if not known or any(not isinstance(x, _PLAIN) for x in stage.walk()):
        return None
    slots = _Slots(buffers, flat, size)
    try:
        stores = tuple(_slot_stores(stage, slots))
    except _NotElementwise:
        return None
    key = (
        tuple((s.buffer, s.value) for s in stores),
        tuple(buffers[name].dtype for name in slots.names),
    )
    return Form(kernel, key, stores, tuple(slots.names), size)


_PLAIN: Final = (expr.Const, expr.Load, expr.Apply, expr.Cast, expr.Select)


def _slot_stores(stage: Stage, slots: _Slots) -> Iterator[Store]:
    rewrite = Rewrite({}, on_load=slots.load)
    for s in stage.stores:
        value = rewrite(s.value)
        if s.monoid is not None or s.offset is not slots.flat:
            raise _NotElementwise
        yield Store(slots.of(s.buffer), affine.axis(R, MEMBER), value)


# ------------------------------------------------------------------------------- collecting


Batched = batch_updates.Batched[Kernel | Library, Form]


def batch(fused: Fused) -> Batched:
    """Equal elementwise kernels collected."""
    items = [item for item in fused.items if item.writes()]
    found = [form(item, fused.buffers) for item in items if isinstance(item, Kernel)]
    forms = {f.kernel.name: f for f in found if f is not None}
    keys = {name: f.key for name, f in forms.items()}
    return Batched(fused, batch_updates.batch_updates(fused, items, keys), forms)


# --------------------------------------------------------------------------------- emission


def emit_group(
    forms: Sequence[Form], buffers: Mapping[str, Buffer], sizes: Sizes
) -> tuple[KernelText, Tables]:
    """One kernel for all members."""
    first = forms[0]
    own: dict[str, Buffer] = {}
    for i, n in enumerate(first.slots):
        shared = next((j for j in range(i) if _is_shared(forms, i, j, buffers)), i)
        alias = own[f"slot{shared}"].home if shared < i else ""
        own[f"slot{i}"] = Buffer(f"slot{i}", buffers[n].dtype, MEMBER, "temp", alias=alias)
    stage = TiledStage(Stage((), (), first.stores), 1, 1)
    tiling = Tiling(
        first.kernel, "flat", MEMBER, sizes.flat, (stage,), (), max(1, sizes.flat // 256)
    )
    wide = not fit_32_bits(f.size for f in forms)
    writer = _GroupWriter(tiling, {**buffers, **own}, len(forms), wide=wide)
    lines = writer.lines()
    scalars = {b: name for b, name in writer.signature.names.items() if b not in own}
    tables = Tables(
        tuple(zip(*(f.slots for f in forms), strict=True)), tuple(f.size for f in forms), sizes.flat
    )
    signature = replace(writer.signature, names=scalars)
    text = finished(signature, lines, sum(tables.blocks), tiling.warps, TABLES, ALIGNMENT_PARAMETER)
    return text, tables


def _is_shared(forms: Sequence[Form], i: int, j: int, buffers: Mapping[str, Buffer]) -> bool:
    """True if two slots of a member lie in the same memory: what is updated in place."""
    return any(buffers[f.slots[i]].home == buffers[f.slots[j]].home for f in forms)


class _GroupWriter(Writer):
    """The writer of a flat kernel whose buffers and size come from tables."""

    def __init__(
        self, tiling: Tiling, buffers: Mapping[str, Buffer], members: int, *, wide: bool
    ) -> None:
        super().__init__(tiling, buffers)
        self.members = members
        self.wide = wide

    def lines(self) -> list[str]:
        block, size = self.block(), self.tiling.block
        r = affine.axis(R, MEMBER).terms[0][0]
        block.counters[r] = Text("r", frozenset("r"))  # type: ignore[index]
        inside, tail = child(block, STEP), child(block, STEP)
        inside.lines, tail.lines = [], []
        tail.masks["r"] = "mr"
        for path in (inside, tail):
            self.fenced()
            self.stages(path)
        self.open(block, size)
        block.lines += [f"{STEP}if start + {size} <= n:", *inside.lines]
        block.lines += [f"{STEP}else:", f"{STEP}{STEP}mr = r < n", *tail.lines]
        return block.lines

    def open(self, block: Block, size: int) -> None:
        """Find the tensor of this program, and its buffers."""
        cast = ".to(tl.int64)" if self.wide else ""
        block.put("pid = tl.program_id(0)")
        block.put("t = tl.load(owner + pid)")
        block.put("n = tl.load(sizes + t)")
        block.put(f"start = (pid - tl.load(first + t)){cast} * {size}")
        block.put(f"r = start + tl.arange(0, {size})")
        for buffer, name in self.signature.names.items():
            if not buffer.startswith("slot"):
                continue
            number, kind = int(buffer[4:]), table.type_name(self.buffers[buffer].dtype)
            address = f"tl.load(table + {number * self.members} + t)"
            pointer = f"{address}.to(tl.pointer_type({kind}))"
            block.put(f"{name} = tl.multiple_of({pointer}, {ALIGNMENT})")
