"""End of fusion: groups -> fused kernels over buffers. Groups -> Fused.

`inline` says which values are stored, `group` which are computed together; here each group becomes
one Kernel: members are laid out in stages, reads of a member in the same stage become its
expression (registers), reads of an earlier stage become a local row buffer, reductions become
locals, all else loads from memory.
"""

from __future__ import annotations

from typing import Any

from codegen.fuse.group_nests import Group, Groups, Member, digits
from codegen.fuse.inline import Stored
from codegen.fuse.rematerialise import outside_reads
from codegen.ir import affine, expr
from codegen.ir.affine import Affine, Axis
from codegen.ir.expr import Expr, Read
from codegen.ir.rewrite import Rewrite
from codegen.ir.schema import (
    Access,
    Buffer,
    BufferKind,
    Fused,
    Kernel,
    Library,
    Reduction,
    Refusal,
    Stage,
    Step,
    Store,
    Value,
)
from codegen.ir.sizes import Shape, Size, extent, extents, hint, order_of, same, some, span
from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.sizes.aval import contiguous_strides

# More than this per row leaves the second-level cache: it goes to memory.
ROW_BUFFER_BYTES = 1 << 18


def fuse(groups: Groups) -> Fused:
    return _Fuse(groups).run()


class _Fuse:
    """Buffers by value, and what must be in memory because another kernel or step reads it."""

    def __init__(self, groups: Groups) -> None:
        self.program = program = groups.inlined.loops.program
        self.groups = groups
        self.buffers: dict[str, Buffer] = {}
        self.names: dict[int, str] = {}  # of the buffers, by value
        self.accesses: dict[int, Access] = {}  # where operands of steps lie
        self.shared = outside_reads(groups)
        self.outputs = {v.id for v in program.outputs}
        self.written = {v.id: target for target, v in program.writes}
        self.shapes: dict[int, tuple[Any, ...]] = {}
        self.refusals: list[Refusal] = list(groups.refusals)
        for v in program.inputs:
            self.add_input(v)

    def add_input(self, v: Value) -> None:
        scalar = v.aval.weak and not self.program.resident
        kind: BufferKind = "scalar" if scalar else "input"
        size = v.aval.numel if v.strides is None else span(v.aval.shape, v.strides)
        self.add(v, kind, size, v.layout)

    def add(self, v: Value, kind: BufferKind, size: Size, strides: Shape) -> str:
        name = self.names[v.id] = f"v{v.id}"
        self.buffers[name] = Buffer(name, v.aval.dtype, size, kind)
        self.shapes[v.id] = strides
        return name

    def memory(self, v: Value) -> str:
        """The buffer of a stored value, made at its first use."""
        name = self.names.get(v.id)
        if name is None:
            kind: BufferKind = "output" if v.id in self.outputs else "temp"
            name = self.add(v, kind, v.aval.numel, contiguous_strides(v.aval.shape))
        return name

    def address(self, value: int, index: tuple[Affine, ...]) -> Affine:
        return affine.dot_strides(index, self.shapes[value])

    def run(self) -> Fused:
        items: list[Kernel | Library] = []
        for item in self.groups.items:
            if isinstance(item, Step):
                items.append(self.library(item))
            else:
                kernel = _Build(self, item, f"{self.program.prefix}k{len(items)}").kernel()
                if kernel.reads() or kernel.writes():  # else only constants, which nobody kept
                    items.append(kernel)
        outputs = tuple(self.contiguous(v) for v in self.program.outputs)
        return Fused(self.program, self.buffers, tuple(items), outputs, tuple(self.refusals))

    def contiguous(self, v: Value) -> Access:
        return Access(self.memory(v), 0, v.aval.shape, contiguous_strides(v.aval.shape))

    def library(self, step: Step) -> Library:
        call = step.call
        reads = tuple([self.operand(x) for x in call.operands])
        outs = tuple([self.memory(v) for v in call.outs])
        avals = tuple([x.aval for x in call.operands if isinstance(x, Value)])
        out_avals = tuple([v.aval for v in call.outs])
        return Library(call.op, reads, outs, call.attrs, avals, out_avals, call.where)

    def operand(self, v: Any) -> Any:
        """A number, the buffer of one, or where a tensor lies."""
        if not isinstance(v, Value):
            return v
        found = self.accesses.get(v.id)
        if found is None:
            if v.aval.weak:
                return self.memory(v)
            view = self.groups.inlined.operands[v.id]
            found = Access(self.memory(view.base), view.offset, v.aval.shape, view.strides)
            self.accesses[v.id] = found
        return found


@dataclass(eq=False, slots=True)
class _Scheduled:
    """A member with its axes replaced by the kernel's: `at` its index, `loop` its position in the
    row, `level` its stage."""

    member: Member
    by: dict[Axis, Affine]
    at: tuple[Affine, ...]
    length: Size
    loop_at: Affine
    level: int = 0
    value: Expr | None = None
    keep_row: bool = False
    in_memory: bool = False


class _Build:
    """One group -> one kernel."""

    def __init__(self, fuse: _Fuse, source: Group, name: str) -> None:
        self.fuse = fuse
        self.source = source
        self.name = name
        self.rows = source.numel if source.rows is None else source.rows
        self.r = affine.axis("r", self.rows)
        self.placed: dict[int, _Scheduled] = {}
        self.row_bytes = 0  # of the buffers that hold one row
        self.stages: dict[tuple[int, Size], tuple[list[Reduction], list[Store]]] = {}

    def kernel(self) -> Kernel:
        if some(self.source.numel) and some(self.rows):
            for m in self.source.members:
                if some(m.stored.value.aval.numel):
                    self.schedule(m)
            for p in self.placed.values():
                self.emit(p)
        # What is never read again leaves a stage with nothing in it.
        stages = tuple(
            self.finish(key) for key in sorted(self.stages, key=_turn) if any(self.stages[key])
        )
        members = self.source.members
        ops = dict.fromkeys(op for m in members for op, _ in m.stored.ops)
        note = " ".join(ops) + " -> " + " ".join(f"v{m.stored.value.id}" for m in members)
        where = next((m.stored.nest.where for m in members if m.stored.nest.where), "")
        origins = tuple(
            (*origin, extent((*m.stored.nest.axes, *m.stored.nest.over)))
            for m in members
            for origin in m.stored.ops
        )
        return Kernel(
            self.name, affine.counters(self.r), stages, self.row_buffers(), note, where, origins
        )

    # ------------------------------------------------------------------ layout

    def schedule(self, m: Member) -> None:
        """Solve the member's axes for the row and the position in the row, and find its stage."""
        nest = m.stored.nest
        by: dict[Axis, Affine] = {}
        for a, c in digits(m.row, self.rows) or ():
            by[a] = affine.mod(affine.floordiv(self.r, c), a.size)
        free = tuple(a for a in nest.axes if a.terms and affine.axis_of(a) not in by)
        rest = nest.over if nest.monoid else free
        sizes, length = extents(rest), extent(rest)
        by |= affine.axes_by(rest, affine.unravel(affine.axis("c", length), sizes))
        at = tuple(affine.substitute(a, by) for a in nest.axes)
        p = _Scheduled(m, by, at, length, affine.ravel(rest, sizes))
        p.level = max((self.after(p, x) for x in m.stored.reads), default=0)
        self.placed[nest.value.id] = p

    def after(self, p: _Scheduled, x: Read) -> int:
        """The earliest stage at which `p` can read `x`."""
        q = self.placed.get(x.value)
        if q is None:
            return 0
        return q.level if self.same_place(p, q, x) else q.level + 1

    def same_place(self, p: _Scheduled, q: _Scheduled, x: Read) -> bool:
        """True if `p` reads `q` at the element that the same loop iteration computes."""
        if q.member.stored.nest.monoid or not same(q.length, p.length):
            return False
        return all(affine.substitute(i, p.by) is j for i, j in zip(x.index, q.at, strict=True))

    # ------------------------------------------------------------------ contents

    def emit(self, p: _Scheduled) -> None:
        stored, vid = p.member.stored, p.member.stored.value.id
        body = Rewrite(p.by, lambda value, index, x: self.read(p, value, index, x))(stored.body)
        reductions, stores = self.stage(p.level, p.length)
        dtype = stored.value.aval.dtype
        if stored.nest.monoid:
            name = f"a{vid}"
            arg = stored.nest.monoid.of is not None
            wide = dt.int64 if arg else body.dtype
            position = affine.axis("c", p.length) if arg else None
            reductions.append(Reduction(name, stored.nest.monoid, wide, body, position))
            p.value = expr.cast(expr.local(name, wide), dtype)
            if self.in_memory(stored):
                _, later = self.stage(p.level + 1, 1)
                later.append(self.store(p, p.value))
            return
        p.value = body
        if self.in_memory(stored):
            stores.append(self.store(p, body))

    def store(self, p: _Scheduled, value: Expr) -> Store:
        v = p.member.stored.value
        name = self.fuse.memory(v)
        return Store(name, self.fuse.address(v.id, p.at), value)

    def stage(self, level: int, length: Size) -> tuple[list[Reduction], list[Store]]:
        return self.stages.setdefault((level, length), ([], []))

    def in_memory(self, stored: Stored) -> bool:
        vid = stored.value.id
        return stored.forced or vid in self.fuse.shared

    def read(self, p: _Scheduled, value: int, index: tuple[Affine, ...], x: Read) -> Expr:
        q = self.placed.get(value)
        if q is None:
            return expr.load(f"v{value}", self.fuse.address(value, index), x.dtype)
        if q.member.stored.nest.monoid:
            assert q.value is not None
            return q.value
        if same(q.length, 1) and q.value is not None:
            return q.value  # one number per row: a scalar of the row, not memory
        here = same(q.length, p.length) and q.level == p.level
        if here and all(i is j for i, j in zip(index, q.at, strict=True)):
            assert q.value is not None
            return q.value
        return self.load_row(q, index, x)

    def load_row(self, q: _Scheduled, index: tuple[Affine, ...], x: Read) -> Expr:
        """An element that an earlier stage computed for this row."""
        v = q.member.stored.value
        stored = self.in_memory(q.member.stored)
        if not stored and not q.keep_row and not q.in_memory:
            self.keep(q)
        if stored or q.in_memory:
            return expr.load(self.fuse.memory(v), self.fuse.address(v.id, index), x.dtype)
        by = affine.axes_by(q.member.stored.nest.axes, index)
        return expr.load(f"t{v.id}", affine.substitute(q.loop_at, by), x.dtype)

    def keep(self, q: _Scheduled) -> None:
        """Store `q` at its stage: in a buffer of the row, or in memory where there is no room."""
        assert q.value is not None
        v = q.member.stored.value
        _, stores = self.stage(q.level, q.length)
        size = hint(q.length) * v.aval.dtype.itemsize
        q.in_memory = self.source.column or self.row_bytes + size > ROW_BUFFER_BYTES
        if q.in_memory:
            stores.append(self.store(q, q.value))
        else:
            self.row_bytes += size
            q.keep_row = True
            stores.append(Store(f"t{v.id}", affine.axis("c", q.length), q.value))

    def row_buffers(self) -> tuple[Buffer, ...]:
        out = []
        for p in self.placed.values():
            if p.keep_row:
                v = p.member.stored.value
                out.append(Buffer(f"t{v.id}", v.aval.dtype, p.length, "row"))
        return tuple(out)

    def finish(self, key: tuple[int, Size]) -> Stage:
        reductions, stores = self.stages[key]
        loops = affine.counters(affine.axis("c", key[1]))
        return Stage(loops, tuple(reductions), tuple(stores))


def _turn(key: tuple[int, Size]) -> tuple[int, int]:
    """Sort key of a stage in its kernel."""
    return key[0], order_of(key[1])
