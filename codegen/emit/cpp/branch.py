"""Steps that hold bodies: a branch, a loop of unknown length, a call. Library, names of the bodies'
functions -> lines.

Only the body that is chosen is called. All are given the same tables, of pointers and of numbers,
and the same memory for temporaries, which is as large as the largest of them needs. What a loop
carries is written by turns to its output and to a buffer in scratch memory; the last one is copied
into the output if it is not there.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from codegen.emit.cpp.size_text import size_text
from codegen.emit.cpp.step import Writer
from codegen.ir import Access, Unsupported
from codegen.sizes import covering


def cond(w: Writer, *bodies: str) -> None:
    """`bodies[pick]`, a truth or a number."""
    work = w.take(covering((1, *(made["plan"].arena_bytes for made in w.step.bodies))))
    table = _Table(w, range(len(w.step.attrs["programs"][0].inputs)))
    outs = [f"q[{table.pointers + i}] = {w.out(i)};" for i in range(len(w.step.outs))]
    w.lines += [table.declared(len(w.step.outs)), *table.statements(), *outs]
    calls = [f"{name}(q, z, arena, {work}, {w.places.top})" for name in bodies]
    chosen = calls[-1]
    for i in reversed(range(len(calls) - 1)):
        chosen = f"pick == {i} ? {calls[i]} : {chosen}"
    w.lines += [f"const i64 pick = {_number(w, 0, 'i64')};", f"if ({chosen}) return 1;"]


def call(w: Writer, body: str) -> None:
    """The body, once; what it updates in place is an operand."""
    work = w.take(covering((1, w.step.bodies[0]["plan"].arena_bytes)))
    table = _Table(w, range(len(w.step.operands)), first=0)
    written = {o for _, o in w.step.attrs.get("writes", ())}
    outs = [o for o in range(len(w.step.outs)) if o not in written]
    w.lines += [table.declared(len(outs)), *table.numbers(), *table.handed(outs)]
    w.lines.append(f"if ({body}(q, z, arena, {work}, {w.places.top})) return 1;")


def repeat(w: Writer, body: str) -> None:
    """The body as long as its first result holds; the others are what is carried."""
    count, (program,) = w.step.attrs["carried"], w.step.attrs["programs"]
    work, go = w.take(covering((1, w.step.bodies[0]["plan"].arena_bytes))), w.take(1)
    table = _Table(w, range(count, len(program.inputs)))
    w.lines += [table.declared(1 + count), *table.statements(), f"q[{table.pointers}] = {go};"]
    before, after = [], []
    for i in range(count):
        own, size = w.out(i), covering((1, w.step.out_avals[i].nbytes))
        w.lines.append(f"void *const turn{i}[] = {{{own}, {w.take(size)}}};")
        before.append(f"q[{table.pointers + 1 + i}] = turn{i}[rounds & 1];")
        place = table.place(i)
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
        f"  if ({body}(q, z, arena, {work}, {w.places.top})) return 1;",
        "  if (jc::error_of(arena)->code) return 1;",
        *(f"  {line}" for line in after),
        f"  go = *(bool *){go};",
        "}",
    ]
    for i in range(count):
        own, nbytes = w.out(i), size_text(w.step.out_avals[i].nbytes)
        source = f"turn{i}[1]" if program.inputs[i].aval.weak else f"q[{table.place(i)}]"
        when = "rounds && !(rounds & 1)" if program.inputs[i].aval.weak else f"{source} != {own}"
        w.lines.append(f"if ({when}) __builtin_memcpy({own}, {source}, {nbytes});")


class _Table:
    """Where the operands from the number `first` on go in the tables of a body: pointers and
    numbers, each in order. `fixed`: the inputs that are set once."""

    def __init__(self, w: Writer, fixed: range, first: int = 1) -> None:
        self.w = w
        self.first = first
        self.fixed = fixed
        self.avals = [v.aval for v in w.step.attrs["programs"][0].inputs]
        self.pointers = sum(not a.weak for a in self.avals)
        free = {True: itertools.count(), False: itertools.count()}
        self.places = [next(free[a.weak]) for a in self.avals]

    def place(self, i: int) -> int:
        return self.places[i]

    def declared(self, outs: int) -> str:
        numbers = max(len(self.avals) - self.pointers, 1)
        return f"void *q[{max(self.pointers + outs, 1)}]; double z[{numbers}];"

    def statements(self) -> list[str]:
        pointers = (self.pointer(i) for i in self.fixed if not self.avals[i].weak)
        return [*self.numbers(), *pointers]

    def numbers(self) -> list[str]:
        numbers = (i for i in self.fixed if self.avals[i].weak)
        return [f"z[{self.place(i)}] = {self.bits(i)};" for i in numbers]

    def pointer(self, i: int) -> str:
        return f"q[{self.place(i)}] = (void *)({self.w.at(self.first + i)});"

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
        known = ", ".join(str(-1 if at is None else at) for at in places)
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
