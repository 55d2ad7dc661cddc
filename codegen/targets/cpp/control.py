"""Steps that hold bodies: a loop, a branch, a loop of unknown length, a call. Library, names of the
bodies' functions -> lines.

A body is a function like the entry: it takes tables of pointers and of numbers, and `work`, where
its temporaries lie, as large as the largest of the bodies needs. Between two calls only pointers
change: slices and results are places in memory of the caller, and what a loop carries is written by
turns to its output and to a buffer in scratch memory. The turns of a scan are such that the last
one lands in the output; of a loop of unknown length it is copied there if need be. A scan that is
`in_place` begins with zeros, and its body writes what it carries over what it is given.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

from codegen.fuse.bodies import ScanLayout
from codegen.ir.schema import Access, Library, Unsupported
from codegen.ir.sizes import Size, at_least, covering, is_contiguous, round_up
from codegen.schedule.plan import ALIGN
from codegen.targets.cpp.step import Writer
from codegen.targets.cpp.table import size_text
from eager.base.process import threads

ARGUMENTS = "void **b, const double *s, void *arena, char *work, void **top"


def head(name: str) -> str:
    return f"static JC_STRAIGHT int {name}({ARGUMENTS})"


def room(step: Library) -> Size:
    """Bytes for the temporaries of any of the bodies."""
    return covering((1, *(made["plan"].arena_bytes for made in step.bodies)))


def _work(w: Writer) -> str:
    """Memory for the temporaries of any of the bodies."""
    return w.take(room(w.step))


def _run(w: Writer, body: str, work: str) -> str:
    """The call of a body."""
    return f"{body}(q, z, arena, {work}, {w.places.top})"


def _turns(w: Writer, i: int) -> str:
    """Declares where a carry is written by turns: its output, and a buffer."""
    room = w.take(covering((1, w.step.out_avals[i].nbytes)))
    return f"void *const turn{i}[] = {{{w.out(i)}, {room}}};"


def scan(w: Writer, body: str) -> None:
    """The loop around the body; where rows are cut into blocks, one for each block."""
    parts, step = ScanLayout.of(w.step), w.step
    blocks, cut = step.attrs.get("blocks", 1), step.attrs.get("cut", ())
    length = size_text(parts.length)
    each = round_up(room(step), ALIGN)
    work = w.take(room(step) if blocks == 1 else each * threads.room())
    table = Table(w, range(parts.carried, len(step.operands)), first=0)
    numbers, counting = table.numbers(range(parts.carried, parts.counters)), []
    for k, by in enumerate(parts.steps):
        i = parts.counters + k
        w.lines.append(f"const double start{k} = {table.bits(i)};")
        grown = f"bitcast<f64>(as_i64(start{k}) + i_ * {size_text(by)})"
        counting.append(f"z[{table.places[i]}] = {grown};")
    starts = [] if step.attrs.get("in_place") else [_start(w, i) for i in range(parts.carried)]
    w.lines += [_turns(w, i) for i in range(len(starts))]
    moving = _moving(w, table, starts)
    fixed = [
        table.pointer(i, _at_row(w, w.access(i).strides[0]) if i in cut else "")
        for i in table.fixed[parts.sequences :]
        if not table.avals[i].weak
    ]
    at = f"{length} - 1 - i_" if parts.reverse else "i_"
    own = work if blocks == 1 else f"{work} + member() * {size_text(each)}"
    loop = [
        table.declared(len(step.outs)),
        *numbers,
        *fixed,
        f"for (i64 i_ = 0; i_ < {length}; i_++) {{",
        f"  const i64 t_ = {at};",
        *(f"  {line}" for line in (*moving, *counting)),
        f"  if ({_run(w, body, own)}) return{' 1' if blocks == 1 else ''};",
        "}",
    ]
    w.lines += loop if blocks == 1 else _by_blocks(w, loop)
    if not at_least(parts.length, 1):
        for i, start in enumerate(starts):
            count = size_text(step.out_avals[i].nbytes)
            w.lines.append(f"if (!{length}) __builtin_memcpy({w.out(i)}, {start}, {count});")


def _moving(w: Writer, table: Table, starts: Sequence[str]) -> list[str]:
    """Statements that set the pointers of a scan in round `i_`, which is at the place `t_` of
    sequences."""
    parts, step, moving = ScanLayout.of(w.step), w.step, []
    length, cut = size_text(parts.length), step.attrs.get("cut", ())
    for i in range(parts.carried, parts.carried + parts.sequences):
        by, *inner = w.access(i).strides
        row = _at_row(w, inner[0]) if i in cut else ""
        moving.append(table.pointer(i, f" + t_ * {size_text(by)}{row}"))
    for i in range(parts.carried - len(starts)):  # written over
        w.lines.append(f"__builtin_memset({w.out(i)}, 0, {size_text(step.out_avals[i].nbytes)});")
        moving.append(f"q[{i}] = {w.out(i)};")
    for i, start in enumerate(starts):
        size = math.prod(step.out_avals[i].shape[1:])
        row = _at_row(w, size * step.out_avals[i].dtype.itemsize)
        turn, first = f"(char *)turn{i}" if row else f"turn{i}", f"{start}{_at_row(w, size)}"
        moving.append(f"q[{i}] = i_ ? {turn}[({length} - i_) & 1]{row} : (void *)({first});")
        moving.append(f"q[{table.pointers + i}] = {turn}[({length} - 1 - i_) & 1]{row};")
    for i in range(parts.carried, len(step.outs)):
        shape, nbytes = step.out_avals[i].shape, step.out_avals[i].dtype.itemsize
        row = _at_row(w, math.prod(shape[2:]) * nbytes)
        at = f"(char *)({w.out(i)}) + t_ * {size_text(math.prod(shape[1:]) * nbytes)}{row}"
        moving.append(f"q[{table.pointers + i - parts.carried + len(starts)}] = {at};")
    return moving


def _at_row(w: Writer, step: Size) -> str:
    """Offset to the first row of a block, to add to a pointer; "" if the step has no blocks."""
    return f" + row_ * {size_text(step)}" if "blocks" in w.step.attrs else ""


def _by_blocks(w: Writer, loop: Sequence[str]) -> list[str]:
    """The loop for each block of rows, side by side. (What fails is in the record of errors.)"""
    blocks, rows = w.step.attrs["blocks"], w.step.out_avals[0].shape[0]
    products = size_text(ScanLayout.of(w.step).length * rows)
    worth = f"team_for_product({products}, {w.step.attrs['work']}, 1)"
    return [
        f"parallel({blocks}, 1, {worth}, [&](i64 lo_, i64 hi_) {{",
        "  for (i64 u_ = lo_; u_ < hi_; u_++) {",
        f"    const i64 row_ = u_ * {rows // blocks};",
        *(f"    {line}" for line in loop),
        "  }",
        f"}}, {blocks});",
        "if (error_of(arena)->code) return 1;",
    ]


def _start(w: Writer, i: int) -> str:
    """A pointer to the first value of a carry of a scan."""
    x = w.step.operands[i]
    if not isinstance(x, Access):
        raise Unsupported(f"a carry that begins as the number {x!r}")
    return w.at(i) if is_contiguous(x.shape, x.strides) else w.dense(i)


def cond(w: Writer, *bodies: str) -> None:
    """`bodies[pick]`, a truth or a number."""
    work = _work(w)
    table = Table(w, range(len(w.step.attrs["programs"][0].inputs)))
    outs = [f"q[{table.pointers + i}] = {w.out(i)};" for i in range(len(w.step.outs))]
    w.lines += [table.declared(len(w.step.outs)), *table.statements(), *outs]
    calls = [_run(w, name, work) for name in bodies]
    chosen = calls[-1]
    for i in reversed(range(len(calls) - 1)):
        chosen = f"pick == {i} ? {calls[i]} : {chosen}"
    w.lines += [f"const i64 pick = {_number(w, 0, 'i64')};", f"if ({chosen}) return 1;"]


def call(w: Writer, body: str) -> None:
    """The body, once; what it updates in place is an operand."""
    work = _work(w)
    table = Table(w, range(len(w.step.operands)), first=0)
    written = {o for _, o in w.step.attrs.get("writes", ())}
    outs = [o for o in range(len(w.step.outs)) if o not in written]
    w.lines += [table.declared(len(outs)), *table.numbers(), *table.handed(outs)]
    w.lines.append(f"if ({_run(w, body, work)}) return 1;")


def repeat(w: Writer, body: str) -> None:
    """The body as long as its first result holds; the others are what is carried."""
    count, (program,) = w.step.attrs["carried"], w.step.attrs["programs"]
    work, go = _work(w), w.take(1)
    table = Table(w, range(count, len(program.inputs)))
    w.lines += [table.declared(1 + count), *table.statements(), f"q[{table.pointers}] = {go};"]
    before, after = [], []
    for i in range(count):
        w.lines.append(_turns(w, i))
        before.append(f"q[{table.pointers + 1 + i}] = turn{i}[rounds & 1];")
        place = table.places[i]
        if program.inputs[i].aval.weak:
            kind = "f64" if program.inputs[i].aval.dtype.is_floating_point else "i64"
            memory = w.out_type(i)
            w.lines += [f"z[{place}] = {table.bits(i)};"]
            first = f"bitcast<{kind}>(z[{place}])" if kind == "i64" else f"z[{place}]"
            w.lines.append(f"*({memory} *)turn{i}[0] = {first};")
            loaded = f"*({memory} *)turn{i}[rounds & 1]"
            after.append(f"z[{place}] = {_as_bits(loaded, kind)};")
        else:
            w.lines.append(f"q[{place}] = (void *)({w.dense(1 + i)});")
            after.append(f"q[{place}] = turn{i}[rounds & 1];")
    w.lines += [
        "i64 rounds = 0;",
        f"for (bool go = {_number(w, 0, 'i64')}; go; rounds++) {{",
        *(f"  {line}" for line in before),
        f"  if ({_run(w, body, work)}) return 1;",
        "  if (jc::error_of(arena)->code) return 1;",
        *(f"  {line}" for line in after),
        f"  go = *(bool *){go};",
        "}",
    ]
    for i in range(count):
        own, nbytes = w.out(i), size_text(w.step.out_avals[i].nbytes)
        source = f"turn{i}[1]" if program.inputs[i].aval.weak else f"q[{table.places[i]}]"
        when = "rounds && !(rounds & 1)" if program.inputs[i].aval.weak else f"{source} != {own}"
        w.lines.append(f"if ({when}) __builtin_memcpy({own}, {source}, {nbytes});")


class Table:
    """Positions of the operands from the number `first` on in the tables of a body: pointers and
    numbers, each in order. `fixed`: the inputs that are set once."""

    def __init__(self, w: Writer, fixed: range, first: int = 1) -> None:
        self.w = w
        self.first = first
        self.fixed = fixed
        self.avals = [v.aval for v in w.step.attrs["programs"][0].inputs]
        self.pointers = [a.weak for a in self.avals].count(False)
        free = {True: itertools.count(), False: itertools.count()}
        self.places = [next(free[a.weak]) for a in self.avals]

    def declared(self, outs: int) -> str:
        numbers = max(len(self.avals) - self.pointers, 1)
        return f"void *q[{max(self.pointers + outs, 1)}]; double z[{numbers}];"

    def statements(self) -> list[str]:
        return [*self.numbers(), *self.set_pointers(self.fixed)]

    def numbers(self, of: Iterable[int] | None = None) -> list[str]:
        given = self.fixed if of is None else of
        return [f"z[{self.places[i]}] = {self.bits(i)};" for i in given if self.avals[i].weak]

    def set_pointers(self, of: Iterable[int]) -> list[str]:
        return [self.pointer(i) for i in of if not self.avals[i].weak]

    def pointer(self, i: int, more: str = "") -> str:
        return f"q[{self.places[i]}] = (void *)({self.w.at(self.first + i)}{more});"

    def handed(self, outs: Sequence[int]) -> list[str]:
        """All pointers, and behind them those of the results `outs`. Of most it is known now where
        they lie, which is data: a compiler takes far longer for so many statements."""
        tensors = [i for i in self.fixed if not self.avals[i].weak]
        places = [self.w.location(self.first + i) for i in tensors]
        rest = [self.pointer(i) for i, at in zip(tensors, places, strict=True) if at is None]
        for k, o in enumerate(outs, len(tensors)):
            places.append(self.w.places.location(self.w.step.outs[o]))
            if places[-1] is None:
                rest.append(f"q[{k}] = {self.w.out(o)};")
        if len(rest) == len(places):
            return rest
        known = ", ".join(["-1" if at is None else str(at) for at in places])
        memory = self.w.places.work
        hand = f"jc::hand(q, places, {len(places)}, b, {memory});"
        return [f"static const i64 places[] = {{{known}}};", hand, *rest]

    def bits(self, i: int) -> str:
        """A run-time number as the bits of its slot."""
        kind = "f64" if self.avals[i].dtype.is_floating_point else "i64"
        if self.avals[i].dtype.is_complex:
            raise Unsupported(f"a complex number in control flow (at {self.w.step.where})")
        x = self.w.step.operands[self.first + i]
        slot = self.w.places.slot(x) if isinstance(x, str) else ""
        return slot or _as_bits(_number(self.w, self.first + i, kind), kind)


def _as_bits(text: str, kind: str) -> str:
    return text if kind == "f64" else f"bitcast<f64>((i64)({text}))"


def _number(w: Writer, i: int, kind: str) -> str:
    """The value of operand `i`, one number."""
    x: Any = w.step.operands[i]
    if isinstance(x, Access):
        return f"({kind})*({w.at(i)})"
    if not isinstance(x, str):
        return repr(float(x)) if kind == "f64" else f"{kind}({int(x)})"
    slot = w.places.slot(x)
    if not slot:
        return f"({kind})*({w.places.pointer(x)})"
    return slot if kind == "f64" else f"as_i64({slot})"
