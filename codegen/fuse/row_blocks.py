"""Before lower, on the CPU: what attention makes of its scores is not held, but computed and used
by blocks of rows. Program -> Program with `blocks`.

A batch of products whose depth is small beside their rows and columns (the scores of attention)
costs more to write and to read again than to compute. The values of its shape that are made of it
pointwise, by reductions along rows and by such products again are one group; products that read
them (with values; for the gradients, with their transposes) and reductions end it. No op is looked
for: any function of the scores and any mask is a member, softmax or not.

    level    what the rest of the program computes of a group's results may come back into it (the
             gradient of attention's result): that is the next level. Each is one `blocks`
    rows     numbers of a row (its maximum, its sum) that a later level reads are kept
    again    elements that a later level reads are computed again, down to the product
    window   the columns that a mask leaves out of a block of rows (`codegen.fuse.windows`)
    panels   what the products of all blocks read is packed once (`codegen.fuse.panels`)

`blocks` runs its body for each matrix of the batch and each block of rows, the members of a team
side by side; elements of the group are memory of a member alone. Sums over rows (the gradients of
keys and values) are added up by matrix, in as many parts as the shape says: nothing depends on the
number of threads. Source of the idea: Dao, Fu, Ermon, Rudra, Re, "FlashAttention" (NeurIPS 2022);
but a block whose level has reductions has whole rows, so that nothing is rescaled, and they may be
any. Levels without (the gradients) go by tiles of columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from codegen.fuse.chunk_rows import DOT_ADD, Loop
from codegen.fuse.elements import Elements, Operand, tensors
from codegen.fuse.pack_once import DOT_PACKED, PANEL
from codegen.fuse.panels import pack_operands
from codegen.fuse.row_groups import (
    ELEMENTS,
    Axes,
    RowGroup,
    frames,
)
from codegen.fuse.sums_by_results import sums_by_results
from codegen.fuse.windows import window_of
from codegen.ir.affine import Affine
from codegen.ir.expr import Expr
from codegen.ir.schema import Call, Program, Value
from codegen.ir.sizes import (
    Shape,
    Size,
    at_least,
    blocks,
    divides,
    fit_32_bits,
    hint,
    is_static,
    last,
    most,
    numel,
    round_down,
    round_up,
    same,
)
from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.base.dtype import DType
from eager.core.op import REGISTRY, Op
from eager.ops.contract import DOT
from eager.ops.create import FULL, IOTA
from eager.ops.view import EXPAND, PERMUTE
from eager.sizes.aval import Aval
from eager.sizes.symint import Fixing

BLOCK = 2 << 20  # bytes of a block's elements: measured from 1,024 to 8,192 columns
TALLEST, STEP = 126, 14  # rows of a block: at most; in steps of
TILE = 256  # columns that are computed at a time where no reduction needs all: whole panels
PARTS = 16  # pieces that a team can share, where there are sums over rows


@dataclass(frozen=True, eq=False)
class _RandomAt(Loop):
    """Draws like `random`, from the element `first` of the whole on, rows `stride` apart."""

    kind: ClassVar[str] = "random"


@dataclass(frozen=True, eq=False)
class _Counted(Loop):
    """first, first + 1, first + 2, ..."""

    kind: ClassVar[str] = "create"

    @staticmethod
    def element(m: Elements, at: Sequence[Affine], xs: Sequence[Operand], attrs: Any) -> Expr:
        return m.number(at[0] + attrs["first"])


PRODUCTS: Final = (DOT, DOT_ADD, DOT_PACKED)
PLACES: Final = ("row", "column")  # what a body is given: where its block is
BLOCKS: Final = Loop("blocks", ("*operands",))  # see `codegen.targets.cpp.blocks`
RANDOM_AT: Final = _RandomAt("random_at", ("seed", "ordinal"))
COUNTED: Final = _Counted("counted", ())


def row_blocks(program: Program) -> Program:
    if PLACES[0] in program.symbols:
        return program
    tried: set[tuple[int, ...]] = set()
    while True:
        frame = next((f for f in frames(program) if (*f.shape, f.seed) not in tried), None)
        if frame is None:
            return program
        tried.add((*frame.shape, frame.seed))
        group = RowGroup(program, frame)
        if group.find():
            known = sums_by_results(group)
            if known is not program:
                group = RowGroup(known, frame)
            if known is program or group.find():
                program = _Writer(group).run() or program


# ---------------------------------------------------------------------------------- rewriting


class _Writer:
    """The program with each level of the group as one call."""

    def __init__(self, group: RowGroup) -> None:
        self.group = group
        self.fresh = group.program.free_ids()
        self.window = window_of(group)
        self.wanted = {v.id for v in group.program.wanted()}
        self.packs: dict[tuple[int, bool], list[Call]] = {}  # of `codegen.fuse.panels`

    def run(self) -> Program | None:
        """None, where what the program calls between the levels has an order of its own."""
        group = self.group
        levels = {group.level(call) for call in group.roles}
        # The last first: it says which numbers of rows the others keep.
        made = {level: _Level(self, level).calls() for level in sorted(levels, reverse=True)}
        units: list[Sequence[Call]] = []
        for call in group.program.calls:
            if call not in group.roles:
                units.append([call])
            elif level := made.pop(group.level(call), None):
                units.append(level)
        read = {v.id for unit in units for call in unit for v in tensors(call)}
        units += (pack for pack in self.packs.values() if pack[-1].outs[0].id in read)
        calls = _ordered(units)
        return None if calls is None else replace(group.program, calls=tuple(calls))

    def value(self, shape: Sequence[Any], kind: DType, like: Value) -> Value:
        return Value(next(self.fresh), Aval(tuple(shape), kind, like.aval.device))


def _even(size: Size, limit: int, step: int) -> int:
    """Length of equal blocks of `size`: all of it, or at most `limit` and a multiple of `step`."""
    limit = max(step, round_down(limit, step))
    if not is_static((size,)):
        return limit
    pieces = blocks(size, limit)
    return min(round_up(blocks(size, pieces), step), limit) if pieces > 1 else size


def _partial_sums(count: int, matrices: Size) -> Size:
    """Number of partial sums for each matrix, in a sum over `count` blocks of rows."""
    if is_static((matrices,)) or not at_least(matrices, 1):
        return min(count, blocks(PARTS, hint(matrices)))
    return blocks(min(count, PARTS), matrices)


def _ordered(units: Sequence[Sequence[Call]]) -> list[Call] | None:
    """The units in their order, but each behind what makes its operands; what the world sees of
    calls, in the same order. None, where that cannot be."""
    needs: list[set[int]] = []
    makers = {v.id: i for i, unit in enumerate(units) for call in unit for v in call.outs}
    before: int | None = None
    for i, unit in enumerate(units):
        needs.append({makers[v.id] for c in unit for v in tensors(c) if v.id in makers} - {i})
        if any(c.op.kind in ("extern", "dynamic") or c.op.name in LOOPS for c in unit):
            needs[i] |= set() if before is None else {before}
            before = i
    ordered: list[Call] = []
    begun: set[int] = set()
    done: set[int] = set()
    todo = [*range(len(units))][::-1]
    while todo:
        i = todo[-1]
        missing = needs[i] - done
        if i not in done and missing:
            if i in begun:  # what it needs, needs it
                return None
            begun.add(i)
            todo += sorted(missing, reverse=True)
            continue
        todo.pop()
        if i not in done:
            done.add(i)
            ordered += units[i]
    return ordered


LOOPS: Final = ("scan", "cond", "while_loop", "call")


class Body:
    """The body of one level of a group, and what it is given."""

    def __init__(self, writer: _Writer, level: int) -> None:
        self.w, self.group, self.frame = writer, writer.group, writer.group.frame
        self.level = level
        scope, group = Fixing(), self.group
        mine = {role for call, role in group.roles.items() if group.level(call) == level}
        self.tiled = mine.isdisjoint(("reduce", "total"))
        rows, columns = self.frame.rows, self.frame.columns
        width = self.width = _even(columns, TILE, PANEL) if self.tiled else columns
        wide = group.makers[self.frame.seed].outs[0].aval.dtype.compute.itemsize
        tallest = max(2 * STEP, min(TALLEST, BLOCK // (hint(width) * wide)))
        block = self.block = _even(rows, tallest, STEP)
        self.parts = _partial_sums(blocks(hint(rows), block), numel(self.frame.batch))
        fit_32_bits((rows * block, columns * block))  # asked of the program's own symbols

        def local(name: str, now: int, least: int, largest: int) -> Any:
            return scope.symbol(name, now, least, largest, of_data=True)

        self.rows: Any = block if divides(block, rows) else local("rows", block, 1, block)
        self.columns: Any = width
        if writer.window or not divides(width, columns) or not is_static((width,)):
            self.columns = local("columns", hint(width), at_least(columns, 1), most(width))
        self.body: list[Call] = []
        self.known: dict[tuple[int, Axes], Value] = {}
        self.operands: list[Value] = []
        self.cuts: list[Axes] = []  # of the operands
        self.inputs: list[Value] = []  # of the body: its operands
        self.where = ""
        # The body is given these: its size, and where it is. (Also what tells a body from others.)
        self.places: dict[str, Any] = {
            name: local(name, 0, 0, most(last(size)))
            for name, size in (
                *zip(PLACES, (rows, columns), strict=True),
                *((f"batch{d}", n) for d, n in enumerate(self.frame.batch)),
            )
        }
        self.numbers = {
            name: Value(next(writer.fresh), Aval((), dt.int64, weak=True), symbol=name)
            for name in ("rows", "columns", *self.places)
        }

    def value(self, shape: Sequence[Any], like: Value, kind: DType | None = None) -> Value:
        return self.w.value(shape, kind or like.aval.dtype, like)

    def _call(
        self, op: Op, operands: Iterable[Any], attrs: Mapping[str, Any], out: Value, like: Call
    ) -> Value:
        self.body.append(Call(op, tuple(operands), attrs, (out,), like.where))
        return out

    def _cast(self, x: Value, kind: DType) -> Value:
        if x.aval.dtype is kind:
            return x
        out = self.value(x.aval.shape, x, kind)
        self.body.append(Call(REGISTRY["cast"], (x,), {"dtype": kind}, (out,), self.where))
        return out

    def turned(self, x: Value) -> Value:
        out = self.value(x.aval.shape[::-1], x)
        self.body.append(Call(REGISTRY["permute"], (x,), {"dims": (1, 0)}, (out,), self.where))
        return out

    def of(self, v: Any, axes: Axes) -> Any:
        """The body's value for an operand whose last dimensions are `axes`."""
        if not isinstance(v, Value):
            return v
        if self.group.is_inside(v):
            level = self.group.level(self.group.makers[v.id])
            if level == self.level or self.group.is_element(v):
                return self.computed(v)
        elif not v.aval.shape:
            return self.given(v, ())
        axes = axes[-v.aval.ndim :]
        cut = tuple(
            "" if same(n, 1) else a for n, a in zip(v.aval.shape[-len(axes) :], axes, strict=True)
        )
        if "r" in cut and "c" in cut and (v.id, cut) not in self.known:
            call = self.group.makers.get(v.id)
            if call is not None and is_light(call):
                self.known[v.id, cut] = self._made(call, v, cut)
        return self.given(v, cut)

    def _narrow(self, v: Value, axes: Axes) -> Value | None:
        """A value from outside that is one of 16 bits, widened: widened here, where the product
        sees that (`lower`)."""
        call = self.group.makers.get(v.id)
        if call is None or len(tensors(call)) != 1:
            return None
        (x,) = tensors(call)
        if call.op.kind == "cast" and x.aval.dtype in (dt.float16, dt.bfloat16):
            return self._cast(self.of(x, axes), v.aval.dtype)
        last = v.aval.ndim - 1
        if call.op is PERMUTE and call.attrs["dims"] == (*range(last - 1), last, last - 1):
            inner = self._narrow(x, axes[::-1])
            return inner and self.turned(inner)
        return None

    def given(self, v: Value, cut: Axes) -> Value:
        """A part of a value from outside."""
        counted = None if (v.id, cut) in self.known else self._counted(v, cut)
        if counted is not None:
            self.known[v.id, cut] = counted
        if (v.id, cut) not in self.known:
            made = replace(v, id=next(self.w.fresh), strides=None)
            if not v.aval.weak:
                made = self.value(self._shape(v, cut), v)
            self.known[v.id, cut] = made
            self.w.wanted.add(v.id)
            self.operands.append(v)
            self.cuts.append(cut)
            self.inputs.append(made)
        return self.known[v.id, cut]

    def _shape(self, v: Value, cut: Axes) -> Shape:
        sizes = {"r": self.rows, "c": self.columns}
        own = v.aval.shape[v.aval.ndim - len(cut) :]
        return tuple(sizes.get(a, n) for n, a in zip(own, cut, strict=True))

    def computed(self, v: Value) -> Value:
        """A value of the group, computed here."""
        axes = self.group.axes[v.id]
        if (v.id, axes) not in self.known:
            self.known[v.id, axes] = self._made(self.group.makers[v.id], v, axes)
        return self.known[v.id, axes]

    def _made(self, call: Call, v: Value, axes: Axes) -> Value:
        """The call that makes `v`, for a block of it."""
        out = self.value(self._shape(v, axes), v)
        role, attrs = self.group.roles.get(call, "map"), dict(call.attrs)
        op = call.op
        if op.kind == "random":
            return self._draws(call, out, axes)
        if role == "source":
            a, b = tensors(call)
            narrow = [self._narrow(a, ("r", "")), self._narrow(b, ("", "c"))]
            if None in narrow:
                narrow = [self.of(a, ("r", "")), self.of(b, ("", "c"))]
            operands = narrow
        elif role in ("turn", "reduce"):
            operands = [self.computed(x) for x in tensors(call)]
            if role == "turn":
                attrs["dims"] = (1, 0)
            else:
                attrs["dim"] = (1,) if isinstance(attrs["dim"], tuple) else 1
        elif op.keeps_order:
            (x,) = tensors(call)
            operands = [self.of(x, self.group.axes[x.id])]
            op, attrs = REGISTRY["reshape"], {"shape": out.aval.shape}
        else:
            operands = [self.of(x, axes) for x in call.operands]
            if "shape" in attrs:
                attrs["shape"] = out.aval.shape
        return self._call(op, operands, attrs, out, call)

    def _draws(self, call: Call, out: Value, axes: Axes) -> Value:
        """Draws with the numbers that these elements have in the whole."""
        shape, lead = call.outs[0].aval.shape, len(self.frame.batch) + 2
        names = (*(f"batch{d}" for d in range(len(self.frame.batch))), "row", "column")
        first: Any = 0
        for d, n in enumerate(shape):
            if not same(n, 1):
                place = self.places[names[lead - len(shape) + d]]
                first = first + place * math.prod(shape[d + 1 :])
        attrs = {**call.attrs, "shape": out.aval.shape, "first": first, "stride": shape[-1]}
        return self._call(RANDOM_AT, (self.of(x, ()) for x in call.operands), attrs, out, call)

    def _counted(self, v: Value, cut: Axes) -> Value | None:
        """The numbers of rows or of columns, if `v` is these."""
        call = self.group.makers.get(v.id)
        while call is not None and call.op.keeps_order:
            call = self.group.makers.get(tensors(call)[0].id)
        along = [a for a in cut if a]
        if call is None or call.op is not IOTA or len(along) != 1:
            return None
        if not same(v.aval.numel, v.aval.shape[cut.index(along[0]) - len(cut)]):  # of others, too
            return None
        size, first = {"r": (self.rows, "row"), "c": (self.columns, "column")}[along[0]]
        attrs = {"shape": (size,), "dtype": v.aval.dtype, "first": self.places[first]}
        made = self._call(COUNTED, (), attrs, self.value((size,), v), call)
        shaped = self.value(self._shape(v, cut), v)
        return self._call(REGISTRY["reshape"], (made,), {"shape": shaped.aval.shape}, shaped, call)


class _Level(Body):
    """One level of a group: its body, and what becomes of the results."""

    def __init__(self, writer: _Writer, level: int) -> None:
        super().__init__(writer, level)
        self.after: list[Call] = []  # behind the blocks
        self.kept: list[tuple[Value, Value]] = []  # results by rows, and those of the body
        # Results, what is carried before and after: sums over rows, and over columns.
        self.sums: list[tuple[Value, Value, Value]] = []
        self.row_sums: list[tuple[Value, Value, Value]] = []

    def calls(self) -> list[Call]:
        group = self.group
        for call, role in group.roles.items():
            if group.level(call) == self.level:
                self.where = self.where or call.where
                self._member(call, role)
        pack_operands(self)
        sums = [*self.sums, *self.row_sums]
        carried = [before for _, before, _ in sums]
        results = [after for _, _, after in sums] + [inner for _, inner in self.kept]
        program = Program(
            (*carried, *self.inputs, *self.numbers.values()), tuple(self.body), tuple(results)
        )
        attrs = {
            "programs": (program,), "carried": len(carried), "in_place": True,
            "batch": self.frame.batch, "parts": self.parts if self.sums else None,
            "row_sums": len(self.row_sums), "rows": self.frame.rows, "block": self.block,
            "columns": self.frame.columns, "width": self.width,
            "window": self.w.window, "cuts": tuple(self.cuts), "numbers": tuple(self.numbers),
            "multiplied": self._multiplied(),
        }  # fmt: skip
        outs = (*(total for total, _, _ in sums), *(outer for outer, _ in self.kept))
        if not outs:  # another level computes all again
            return []
        return [Call(BLOCKS, tuple(self.operands), attrs, outs, self.where), *self.after]

    def _multiplied(self) -> tuple[bool | None, ...]:
        """True for each operand that a product of the body reads, cast or turned maybe; None for
        one that nothing reads."""
        made = {c.outs[0].id: c for c in self.body}
        read = dict.fromkeys((v.id for c in self.body for v in tensors(c)), False)
        for v in (v for c in self.body if c.op in PRODUCTS for v in tensors(c)):
            while (c := made.get(v.id)) and (c.op.kind == "cast" or c.op is PERMUTE):
                (v,) = tensors(c)
            read[v.id] = True
        return tuple(read.get(v.id) for v in self.inputs)

    def _member(self, call: Call, role: str) -> None:
        """A call of this level, and what it gives to the rest of the program."""
        out = call.outs[0]
        axes = self.group.axes.get(out.id)
        if role == "product":
            self._product(call)
        elif role == "sum":
            self._sum(call)
        elif role == "columns":
            self._columns(call)
        elif role == "total":
            self._total(call)
        elif axes not in ELEMENTS and self._is_read_later(out):
            self.kept.append((out, self.computed(out)))

    def _is_read_later(self, v: Value) -> bool:
        """True if the value is wanted, or read by a call outside the group."""
        roles = self.group.roles
        return v.id in self.w.wanted or any(r not in roles for r in self.group.users.get(v.id, ()))

    def _product(self, call: Call) -> None:
        """A product with elements: x[r, d] = elements[r, c] y[c, d], or that added by columns."""
        a, b = tensors(call)
        out, shape = call.outs[0], (self.rows, *call.outs[0].aval.shape[-1:])
        first, second = self.of(a, ("r", "c")), self.of(b, ("c", ""))
        if not self.tiled:
            made = self._call(call.op, (first, second), {}, self.value(shape, out), call)
            self.kept.append((out, made))
            return
        wide = out.aval.dtype.compute
        before, after = (self.value(shape, out, wide) for _ in range(2))
        parts = (self._cast(first, wide), self._cast(second, wide))
        self._call(DOT_ADD, (before, *parts), {}, after, call)
        total = out
        if wide is not out.aval.dtype:
            total = self.w.value(out.aval.shape, wide, out)
            self._outside("cast", total, out, dtype=out.aval.dtype)
        self.row_sums.append((total, before, after))

    # ---- sums over rows

    def _sum(self, call: Call) -> None:
        """A product of turned elements: carry[c, d] += elements[r, c]^T x[r, d]."""
        a, b = tensors(call)
        out, turned = call.outs[0], self.group.is_inside(a)
        wide = out.aval.dtype.compute
        if turned:
            first, second = self.of(a, ("c", "r")), self.of(b, ("r", ""))
        else:
            first = self.turned(self.of(b, ("r", "c")))
            second = self.turned(self.of(a, ("", "r")))
        size = second.aval.shape[1]
        before, after = (self.value((self.columns, size), out, wide) for _ in range(2))
        parts = (self._cast(first, wide), self._cast(second, wide))
        self._call(DOT_ADD, (before, *parts), {}, after, call)
        total = self._added((self.frame.columns, size), out, before, after)
        made = self._summed(total, out, turned)
        if not turned:
            self._outside("permute", made, out, dims=self._swapped())

    def _columns(self, call: Call) -> None:
        """A sum over the rows: carry[c] += sum of elements[r, c] over r."""
        out, (x,) = call.outs[0], tensors(call)
        wide = out.aval.dtype.compute
        before, part, after = (self.value((self.columns,), out, wide) for _ in range(3))
        inner = self._cast(self.of(x, ("r", "c")), wide)
        self._call(call.op, (inner,), {**call.attrs, "dim": (0,), "keepdim": False}, part, call)
        self._call(REGISTRY["add"], (before, part), {}, after, call)
        total = self._added((self.frame.columns,), out, before, after)
        batch = self.frame.batch
        dims = {d % (len(batch) + 2) for d in call.attrs["dim"]} - {len(batch)}
        shape = [n for d, n in enumerate((*batch, self.parts)) if d not in dims][:-1]
        summed = self.w.value((*shape, self.frame.columns), wide, out)
        attrs = {**call.attrs, "dim": (*sorted(dims), len(batch)), "keepdim": False}
        self.after.append(Call(call.op, (total,), attrs, (summed,), call.where))
        shaped = self.w.value(out.aval.shape, wide, out)
        self._outside("reshape", summed, shaped, shape=out.aval.shape)
        self._outside("cast", shaped, out, dtype=out.aval.dtype)

    def _total(self, call: Call) -> None:
        """A sum over columns and more: that of each row here, the rest outside."""
        out, (x,) = call.outs[0], tensors(call)
        made = self.value((self.rows, 1), out)
        inner = self.of(x, ("r", "c"))
        self._call(call.op, (inner,), {**call.attrs, "dim": (1,), "keepdim": True}, made, call)
        outer = self.w.value((*self.frame.shape[:-1], 1), out.aval.dtype, out)
        self.kept.append((outer, made))
        self.after.append(Call(call.op, (outer,), call.attrs, (out,), call.where))

    def _added(self, shape: Shape, out: Value, before: Value, after: Value) -> Value:
        """The value that holds the partial sums, for each matrix."""
        whole = (*self.frame.batch, self.parts, *shape)
        total = self.w.value(whole, before.aval.dtype, out)
        self.sums.append((total, before, after))
        return total

    def _summed(self, total: Value, out: Value, last: bool) -> Value:
        """The sum of the parts, as `out` if that is the `last` that happens to it."""
        batch = len(self.frame.batch)
        shape = (*total.aval.shape[:batch], *total.aval.shape[batch + 1 :])
        made = self.w.value(shape, total.aval.dtype, out)
        if same(self.parts, 1):
            self._outside("reshape", total, made, shape=shape)
        else:
            self._outside("sum", total, made, dim=(batch,), keepdim=False)
        kind = out.aval.dtype
        given = out if last else self.w.value(shape, kind, out)
        self._outside("cast", made, given, dtype=kind)
        return given

    def _outside(self, name: str, x: Value, out: Value, **attrs: Any) -> None:
        self.after.append(Call(REGISTRY[name], (x,), attrs, (out,), self.where))

    def _swapped(self) -> tuple[int, ...]:
        batch = len(self.frame.batch)
        return (*range(batch), batch + 1, batch)


def is_light(call: Call) -> bool:
    """True if elements from outside are cheaper to compute in a block than to hold for all."""
    if call.op.kind == "random":
        return call.attrs["dist"] != "normal"
    return call.op.kind in ("pointwise", "cast") or call.op in (EXPAND, FULL)
