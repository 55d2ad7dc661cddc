"""Emit: a scan as the launches of its body, once per step. Library, launches of a body -> launches.

The body's kernels are written once, whatever the length. From step to step only places change: what
a step is given and gives are parts of the caller's memory (`Buffer.alias`), what is carried is
written by turns to its result and to a second buffer, so that the last one lands in the result.
Numbers lie in memory, those that grow for all steps. The body's temporaries stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from codegen.fuse.bodies import ScanLayout
from codegen.ir import affine, expr
from codegen.ir.affine import ZERO
from codegen.ir.expr import BUILD, Expr
from codegen.ir.schema import Access, Buffer, Kernel, Library, Program, Stage, Store, Unsupported
from codegen.ir.sizes import is_contiguous
from codegen.targets.triton.runtime.program import Launch
from eager.base import dtype as dt
from eager.base.dtype import DType

Place = tuple[str, int]  # a buffer with memory of its own, and the byte in it
WORK: Final = "work"


class Loop:
    """Positions of a body's buffers at each step of a loop. `own`: new buffers and aliases,
    and the kernels `before` the first step."""

    def __init__(self, step: Library, program: Program, buffers: Mapping[str, Buffer]) -> None:
        self.step, self.program = step, program
        self.parts = ScanLayout.of(step)
        if type(self.parts.length) is not int or program.used_symbols():
            raise Unsupported(f"a loop of sizes that are symbols, on a device (at {step.where})")
        self.length: int = self.parts.length
        self.buffers = buffers
        self.name = f"{step.outs[0]}_"
        self.own: dict[str, Buffer] = {}
        self.before: list[Kernel] = []
        carried = self.parts.carried
        weak = [v.aval.weak for v in program.inputs]
        self.numbers = {i: self._number(i) for i, number in enumerate(weak) if number}
        self.starts = [self._start(i) for i in range(carried)]
        self.rooms = [(self._new(f"turn{i}", *self._of_out(i)), 0) for i in range(carried)]
        if not self.length:
            for i, (name, _) in enumerate(self.starts):
                self._copy(step.outs[i], name, step.out_avals[i].numel)

    # ---- memory
    def _new(self, name: str, dtype: DType, size: Any) -> str:
        made = Buffer(self.name + name, dtype, size, "temp")
        self.own[made.name] = made
        return made.name

    def _of_out(self, i: int) -> tuple[DType, Any]:
        return self.step.out_avals[i].dtype, self.step.out_avals[i].numel

    def _of(self, name: str, elements: int = 0) -> Place:
        """The place of an element of a buffer, which may be a part itself."""
        b = self.buffers[name]
        return b.home, b.offset + elements * b.dtype.itemsize

    def buffer_at(self, place: Place, dtype: DType, size: Any) -> str:
        """A buffer of so many elements there."""
        home, offset = place
        whole = self.own.get(home) or self.buffers[home]
        if not offset and whole.dtype is dtype and whole.size == size:
            return home
        name = f"{home}_at_{offset}_{dtype.name}_{size}"
        self.own[name] = Buffer(name, dtype, size, "temp", alias=home, offset=offset)
        return name

    # ---- before the first step
    def _kernel(self, target: str, size: int, value: Any) -> None:
        """target[r] = value(r), for each of its elements."""
        r = affine.axis("r", size)
        stage = Stage((), (), (Store(target, r, value(r)),))
        name = f"before_{target}"
        kernel = Kernel(name, affine.counters(r), (stage,), (), self.step.name, self.step.where)
        self.before.append(kernel)

    def _copy(self, target: str, source: str, size: int) -> None:
        dtype = (self.own.get(source) or self.buffers[source]).dtype
        self._kernel(target, size, lambda r: expr.load(source, r, dtype))

    def _value(self, x: Any, dtype: DType) -> Expr:
        if isinstance(x, str):
            return expr.cast(expr.load(x, ZERO, self.buffers[x].dtype), dtype)
        return expr.const(x, dtype)

    def _number(self, i: int) -> str:
        """A table of a number: one element, or one for each step."""
        dtype, k = self.program.inputs[i].aval.dtype, i - self.parts.counters
        value = self._value(self.step.operands[i], dtype)
        name = self._new(f"number{i}", dtype, max(self.length, 1) if k >= 0 else 1)
        if k < 0:
            self._kernel(name, 1, lambda _: value)
            return name
        by = expr.const(self.parts.steps[k], dt.int64)
        count: Any = BUILD

        def at(r: Any) -> Expr:
            grown = count.mul(expr.index_of(r), by)
            found: Expr = count.add(value, expr.cast(grown, dtype))
            return found

        self._kernel(name, max(self.length, 1), at)
        return name

    def _start(self, i: int) -> Place:
        """Position of a carry before the first step, in order."""
        x, (dtype, size) = self.step.operands[i], self._of_out(i)
        if isinstance(x, Access) and is_contiguous(x.shape, x.strides):
            return self._of(x.buffer, x.offset)
        name = self._new(f"start{i}", dtype, size)
        if not isinstance(x, Access):
            value = self._value(x, dtype)
            self._kernel(name, size, lambda _: value)
            return name, 0
        access, own = x, self.buffers[x.buffer].dtype

        def at(r: Any) -> Expr:
            index = affine.unravel(r, access.shape)
            return expr.load(
                access.buffer, affine.dot_strides(index, access.strides, access.offset), own
            )

        self._kernel(name, size, at)
        return name, 0

    # ---- steps
    def positions(self, count: int) -> dict[str, Place]:
        """Positions of the body's inputs and outputs in its `count`-th run."""
        parts, step = self.parts, self.step
        at = self.length - 1 - count if parts.reverse else count
        found: dict[str, Place] = {}
        for i, value in enumerate(self.program.inputs):
            x = step.operands[i]
            if i in self.numbers:
                each = value.aval.dtype.itemsize if i >= parts.counters else 0
                place = self.numbers[i], count * each
            elif i < parts.carried:
                place = self.turn(i, self.length - count) if count else self.starts[i]
            else:
                assert isinstance(x, Access)
                row = x.strides[0] if i < parts.carried + parts.sequences else 0
                place = self._of(x.buffer, x.offset + at * row)
            found[f"v{value.id}"] = place
        for i, value in enumerate(self.program.outputs):
            if i < parts.carried:
                place = self.turn(i, self.length - 1 - count)
            else:
                place = self._of(step.outs[i], at * value.aval.numel)
            found[f"v{value.id}"] = place
        return found

    def turn(self, i: int, left: int) -> Place:
        """Position of a carry with `left` steps to go: in the end it is a result."""
        return self.rooms[i] if left & 1 else self._of(self.step.outs[i])

    def launches(
        self, body: Sequence[Launch], inner: Mapping[str, Buffer], arena: Mapping[str, int]
    ) -> Iterator[Launch]:
        """The launches of all steps. `inner`: the body's buffers, of which `arena` places
        temporaries."""
        work = {name: (self.name + WORK, offset) for name, offset in arena.items()}
        for count in range(self.length):
            places = {**work, **self.positions(count)}

            def of(name: str, places: Mapping[str, Place] = places) -> str:
                b = inner.get(name)
                if b is None or b.home not in places:  # a size; what is private to a row
                    return name
                home, offset = places[b.home]
                return self.buffer_at((home, offset + b.offset), b.dtype, b.size)

            for launch in body:
                tables = launch.tables
                if tables is not None:
                    slots = tuple(tuple(map(of, slot)) for slot in tables.slots)
                    tables = replace(tables, slots=slots)
                yield replace(
                    launch,
                    arguments=tuple(map(of, launch.arguments)),
                    tables=tables,
                    writes=tuple(map(of, launch.writes)),
                )

    def work(self, nbytes: int) -> None:
        """Memory for the body's temporaries."""
        self._new(WORK, dt.uint8, nbytes)
