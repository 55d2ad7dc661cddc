"""Steps that hold bodies, as C++: a body is a function like the entry, a scan the loop that calls
it. Library, name of the body's function -> lines.

The function takes what the entry takes, tables of pointers and of numbers, and `work`, where its
temporaries lie. Between two calls only pointers change: slices and results are places in memory of
the caller, and a carry is written by turns to its output and to a buffer in scratch memory, so that
the last one lands in the output.
"""

from __future__ import annotations

import math
from typing import Any

from codegen.bodies import Parts
from codegen.emit.cpp.size_text import size_text
from codegen.emit.cpp.step import Writer
from codegen.ir import Access, Unsupported
from codegen.sizes import at_least, covering, is_contiguous

ARGUMENTS = "void **b, const double *s, void *arena, char *work, void **top"


def head(name: str) -> str:
    return f"static JC_STRAIGHT int {name}({ARGUMENTS})"


def scan(w: Writer, name: str) -> None:
    """The loop around the body `name`."""
    parts, step = Parts.of(w.step), w.step
    work = w.take(covering((1, step.bodies[0]["plan"].arena_bytes)))
    reads = _Reads(w)
    length = size_text(parts.length)
    fixed: list[str] = []  # set once
    moving: list[str] = []  # set at every step
    for i in range(len(step.operands)):
        if i >= parts.carried:
            row = parts.carried <= i < parts.carried + parts.sequences
            (moving if row else fixed).append(reads.slot(i, row))
    turns = [reads.start(i) for i in range(parts.carried)]
    inputs = reads.pointers
    for i, start in enumerate(turns):
        own, room = w.out(i), w.take(covering((1, step.out_avals[i].nbytes)))
        w.lines.append(f"void *const turn{i}[] = {{{own}, {room}}};")
        moving.append(f"q[{i}] = i_ ? turn{i}[({length} - i_) & 1] : (void *)({start});")
        moving.append(f"q[{inputs + i}] = turn{i}[({length} - 1 - i_) & 1];")
    for i in range(parts.carried, len(step.outs)):
        size = math.prod(step.out_avals[i].shape[1:]) * step.out_avals[i].dtype.itemsize
        moving.append(f"q[{inputs + i}] = (char *)({w.out(i)}) + t_ * {size_text(size)};")
    slots, numbers = inputs + len(step.outs), max(reads.numbers, 1)
    w.lines += [f"void *q[{max(slots, 1)}]; double z[{numbers}];", *fixed]
    at = f"{length} - 1 - i_" if parts.reverse else "i_"
    w.lines += [
        f"for (i64 i_ = 0; i_ < {length}; i_++) {{",
        f"  const i64 t_ = {at};",
        *(f"  {line}" for line in moving),
        *(f"  {line}" for line in reads.counting),
        f"  if ({name}(q, z, arena, {work}, {w.places.top})) return 1;",
        "}",
    ]
    if not at_least(parts.length, 1):
        for i, start in enumerate(turns):
            count = size_text(step.out_avals[i].nbytes)
            w.lines.append(f"if (!{length}) __builtin_memcpy({w.out(i)}, {start}, {count});")


class _Reads:
    """Where the operands of a step go in the tables of a body: pointers first, in order."""

    def __init__(self, w: Writer) -> None:
        self.w = w
        self.parts = Parts.of(w.step)
        self.avals = [v.aval for v in w.step.attrs["programs"][0].inputs]
        self.pointers = sum(not a.weak for a in self.avals)
        self.numbers = sum(a.weak for a in self.avals)
        self.counting: list[str] = []

    def start(self, i: int) -> str:
        """A pointer to the first value of a carry."""
        x = self.w.step.operands[i]
        if not isinstance(x, Access):
            raise Unsupported(f"a carry that begins as the number {x!r}")
        return self.w.at(i) if is_contiguous(x.shape, x.strides) else self.w.dense(i)

    def slot(self, i: int, row: bool) -> str:
        """The statement that hands operand `i` to the body: a slice of it, or the whole."""
        before = self.avals[:i]
        if self.avals[i].weak:
            return self.number(i, sum(a.weak for a in before))
        place = sum(not a.weak for a in before)
        if not row:
            return f"q[{place}] = (void *)({self.w.at(i)});"
        x = self.w.access(i)
        return f"q[{place}] = (void *)({self.w.at(i)} + t_ * {size_text(x.strides[0])});"

    def number(self, i: int, place: int) -> str:
        """A run-time number: the bits of its slot; those of a counter change with every step."""
        text = self.bits(i)
        step = i - self.parts.counters
        if step >= 0:
            by = self.parts.steps[step]
            name = f"start{step}"
            self.w.lines.append(f"const double {name} = {text};")
            text = f"bitcast<f64>(as_i64({name}) + i_ * {size_text(by)})"
            self.counting.append(f"z[{place}] = {text};")
            return ""
        return f"z[{place}] = {text};"

    def bits(self, i: int) -> str:
        x: Any = self.w.step.operands[i]
        floating = self.avals[i].dtype.is_floating_point
        if self.avals[i].dtype.is_complex:
            raise Unsupported(f"a complex number in a loop (at {self.w.step.where})")
        if not isinstance(x, str):
            return repr(float(x)) if floating else f"bitcast<f64>(i64({int(x)}))"
        slot = self.w.places.slot(x)
        if slot:
            return slot
        loaded = f"*{self.w.places.pointer(x)}"
        return loaded if floating else f"bitcast<f64>((i64)({loaded}))"
