"""Beside the last stage: clocks around the parts of a program that is profiled, and what one run of
a part does. kernels, library steps -> lines of the entry, `Work`s for the sizes of a call.

Bytes are those of the buffers that a part reads and writes, each once; operations are counted as
they are written, one of the functions as the length of its polynomial.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from codegen.ir.expr import COST, Apply, Cast, Select
from codegen.ir.schema import Access, Buffer, Fused, Kernel, Library, Plan, line_of
from codegen.ir.sizes import Size, given, hint
from codegen.schedule.plan import live_ranges
from codegen.targets.cpp import library
from eager.base.dataclass import dataclass
from eager.base.recorder import Temporary, UserLine, Work

FUNCTIONS: Final = frozenset(
    {"exp", "log", "tanh", "erf", "sin", "cos", "pow", "log1p", "expm1", "lgamma"}
)
FUNCTION: Final = 16  # operations of a function: about the length of its polynomial
LAUNCH: Final = Work("launch: arguments and results of compiled code", "launch")
Buffers = Mapping[str, Buffer]
At = Callable[[Size], int]  # a size -> its value
Callers = dict[tuple[UserLine, ...], str]  # a body -> the module whose call of it comes first


@dataclass(eq=False, slots=True)
class Clocks:
    """The parts of a program: what runs as one, over which buffers, by which function. Their
    numbers are those of events; 0 is the entry, and has what is in no part."""

    batches: list[tuple[Sequence[Kernel | Library], Buffers, str]] = field(default_factory=list)
    temporaries: list[tuple[str, int, Size, list[int]]] = field(default_factory=list)
    callers: Callers = field(default_factory=dict)

    def around(
        self, batch: Sequence[Kernel | Library], lines: list[str], buffers: Buffers, code: str = ""
    ) -> list[str]:
        """`lines`, timed as one part, which does what all of a batch do."""
        self.batches.append((batch, buffers, code))
        return [f"{{ JcTimed timed({len(self.batches)});", *lines, "}"]

    def works(self, sizes: Mapping[str, int]) -> list[Work]:
        """Work of the parts by number, where symbols have these values."""
        parts = [LAUNCH]
        for batch, buffers, code in self.batches:
            part = _together(batch, buffers, code, _at(sizes))
            parts.append(replace(part, moved=_moved(batch[0], self.callers)))
        alive: dict[int, list[Temporary]] = {}
        for name, offset, size, numbers in self.temporaries:
            maker = parts[numbers[0]]
            nbytes, line = _at(sizes)(size), next(iter(maker.lines), "")
            made = Temporary(name, offset, nbytes, maker.name, line)
            for number in numbers:
                alive.setdefault(number, []).append(made)
        for number, values in alive.items():
            parts[number] = replace(parts[number], temporaries=tuple(values))
        return parts

    def note_memory(
        self,
        fused: Fused,
        batches: Sequence[Sequence[Kernel | Library]],
        plan: Plan,
        scratch: Mapping[str, tuple[int, Size]],
    ) -> None:
        """Note where the temporaries of the program lie, and in which of its parts they live (those
        of a body in that of its step). Where sizes are symbolic a call decides the places: -1."""
        number = {id(batch): k for k, (batch, *_) in enumerate(self.batches, 1)}
        part_of = [number[id(batch)] for batch in batches for _ in batch]
        blocks = {
            name: (*life, fused.buffers[name].nbytes) for name, life in live_ranges(fused).items()
        }
        blocks |= {name: (i, i, size) for name, (i, size) in scratch.items()}
        for name, (first, last, size) in blocks.items():
            offset = -1 if plan.is_symbolic else int(plan.offsets[name])
            parts = dict.fromkeys(part_of[first : last + 1])
            self.temporaries.append((name, offset, size, [*parts]))


def work_of(
    item: Kernel | Library, buffers: Buffers, sizes: Mapping[str, int], callers: Callers
) -> Work:
    """One run of a kernel, or of a library step, where symbols have these values."""
    return replace(_work_of(item, buffers, _at(sizes)), moved=_moved(item, callers))


def _moved(item: Kernel | Library, callers: Callers) -> tuple[str, str] | None:
    """The modules between which a call of a body moves: a body is that of its first call."""
    if isinstance(item, Kernel) or item.name != "call":
        return None
    (program,), own = item.attrs["programs"], line_of(item.where).module
    first = callers.setdefault(tuple(line_of(call.where) for call in program.calls), own)
    return None if first == own else (first, own)


def _at(sizes: Mapping[str, int]) -> At:
    return (lambda size: hint(given(size, sizes))) if sizes else hint


def _together(batch: Sequence[Kernel | Library], buffers: Buffers, code: str, at: At) -> Work:
    """One run of all of a batch."""
    parts = [_work_of(item, buffers, at) for item in batch]
    lead = parts[0]
    places: Counter[UserLine] = Counter()
    for part in parts:
        places.update(part.places)
    return Work(
        lead.name, lead.kind, lead.shapes, dict(places),
        sum(p.nbytes for p in parts),
        sum(p.products for p in parts),
        sum(p.operations for p in parts),
        code=code,
    )  # fmt: skip


def _work_of(item: Kernel | Library, buffers: Buffers, at: At) -> Work:
    """One run of a kernel, or of a library step with its epilogue."""
    if isinstance(item, Kernel):
        return _of_kernel(item, buffers, at)
    part = _of_step(item, buffers, at)
    if item.epilogue is None:
        return part
    after = _of_kernel(item.epilogue, buffers, at)
    return Work(
        f"{part.name} {after.name}", part.kind, part.shapes,
        {**after.places, **part.places}, part.nbytes + after.nbytes, part.products,
        part.operations + after.operations,
    )  # fmt: skip


def _of_kernel(kernel: Kernel, buffers: Buffers, at: At) -> Work:
    operations = 0.0
    touched: dict[tuple[str, bool], float] = {}
    rows = math.prod(at(axis.size) for axis in kernel.rows)
    for stage in kernel.stages:
        count = rows * math.prod(at(axis.size) for axis in stage.loops)
        for x in stage.walk():
            if isinstance(x, Apply):
                operations += count * (FUNCTION if x.fn in FUNCTIONS else 1)
            elif isinstance(x, Cast | Select):
                operations += count
        operations += count * len(stage.reductions)
        names = [(x.buffer, False) for x in stage.loads()]
        names += [(s.buffer, True) for s in stage.stores]
        for name, written in names:
            if name in buffers:
                size = min(count, at(buffers[name].size))
                key = buffers[name].home, written
                touched[key] = max(touched.get(key, 0), size * buffers[name].dtype.itemsize)
    ops = kernel.note.partition(" -> ")[0] or "copy"
    largest = max((at(buffers[n].size) for n in kernel.writes() if n in buffers), default=0)
    return Work(
        ops, "kernel", f"{rows:,} rows, {largest:,} written" if rows != largest else f"{rows:,}",
        _lines(kernel, at), sum(touched.values()), 0.0, operations,
    )  # fmt: skip


def _lines(kernel: Kernel, at: At) -> dict[UserLine, float]:
    """The places in the program, each with its share of the work."""
    work: dict[UserLine, float] = {}
    for op, place, count in kernel.origins:
        if any(place):
            work[place] = work.get(place, 0.0) + at(count) * COST.get(op, 1)
    if not work:
        return {line_of(kernel.where): 1.0} if kernel.where else {}
    whole = sum(work.values()) or 1.0
    return {place: part / whole for place, part in work.items()}


def _of_step(step: Library, buffers: Buffers, at: At) -> Work:
    shapes = [tuple(map(at, aval.shape)) for aval in step.avals]
    shapes += [tuple(map(at, aval.shape)) for aval in step.out_avals[:1]]
    shown = " ".join("x".join(map(str, shape)) or "()" for shape in shapes)
    place = line_of(step.where)
    places = {place: 1.0} if any(place) else {}
    if step.bodies:  # whose parts are counted by themselves
        return Work(step.name, "loop", shown, places)
    products = 0.0
    if step.name.startswith("dot"):
        left = shapes[1 if step.name == "dot_add" else 0]
        products = 2.0 * math.prod(shapes[-1]) * left[-1]
    elif step.name.startswith("conv"):
        # Whichever is computed: each element of the result per tap and input channel of a group.
        kernel = {"conv": 1, "conv_input_grad": 1, "conv_weight_grad": -1}[step.name]
        result = {"conv": -1, "conv_input_grad": 0, "conv_weight_grad": 0}[step.name]
        products = 2.0 * math.prod(shapes[result]) * math.prod(shapes[kernel][1:])
    called_back = library.routine(step) is library.HOST
    kind = "callback" if called_back else "product" if products else "step"
    kind = "wait" if step.op.half == "wait" else kind  # for other processes
    nbytes = float(sum(_read(step, buffers, at)) + sum(at(aval.nbytes) for aval in step.out_avals))
    return Work(step.name, kind, shown, places, nbytes, products)


def _read(step: Library, buffers: Buffers, at: At) -> Iterator[int]:
    for x in step.operands:
        if isinstance(x, Access):
            yield math.prod(map(at, x.shape)) * buffers[x.buffer].dtype.itemsize
