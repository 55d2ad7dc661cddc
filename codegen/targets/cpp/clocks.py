"""Beside the last stage: clocks around the parts of a program that is profiled, and what one run of
a part does. kernels, library steps -> lines of the entry, `Work`s.

Bytes are those of the buffers that a part reads and writes, each once; operations are counted as
they are written, one of the functions as the length of its polynomial.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from codegen.ir.expr import COST, Apply, Cast, Select
from codegen.ir.schema import Access, Buffer, Kernel, Library
from codegen.ir.sizes import hint
from codegen.targets.cpp import library
from eager.base.dataclass import dataclass
from eager.base.recorder import Work

FUNCTIONS: Final = frozenset(
    {"exp", "log", "tanh", "erf", "sin", "cos", "pow", "log1p", "expm1", "lgamma"}
)
FUNCTION: Final = 16  # operations of a function: about the length of its polynomial
LAUNCH: Final = Work("launch: arguments and results of compiled code", "launch")


@dataclass(eq=False, slots=True)
class Clocks:
    """The parts of a program; a part's number is that of its events. The first is the entry, and
    has what is in no other."""

    parts: list[Work] = field(default_factory=lambda: [LAUNCH])

    def around(
        self, batch: Sequence[Kernel | Library], lines: list[str], buffers: Mapping[str, Buffer]
    ) -> list[str]:
        """`lines`, timed as one part, which does what all of a batch do."""
        parts = [work_of(item, buffers) for item in batch]
        lead = parts[0]
        lines_of: Counter[str] = Counter()
        for part in parts:
            lines_of.update(part.lines)
        self.parts.append(
            Work(
                lead.name, lead.kind, lead.shapes, dict(lines_of),
                sum(p.nbytes for p in parts),
                sum(p.products for p in parts),
                sum(p.operations for p in parts),
            )
        )  # fmt: skip
        return [f"{{ JcTimed timed({len(self.parts) - 1});", *lines, "}"]


def work_of(item: Kernel | Library, buffers: Mapping[str, Buffer]) -> Work:
    """One run of a kernel, or of a library step with its epilogue."""
    if isinstance(item, Kernel):
        return _of_kernel(item, buffers)
    part = _of_step(item, buffers)
    if item.epilogue is None:
        return part
    after = _of_kernel(item.epilogue, buffers)
    return Work(
        f"{part.name} {after.name}", part.kind, part.shapes,
        {**after.lines, **part.lines}, part.nbytes + after.nbytes, part.products,
        part.operations + after.operations,
    )  # fmt: skip


def _of_kernel(kernel: Kernel, buffers: Mapping[str, Buffer]) -> Work:
    operations = 0.0
    touched: dict[tuple[str, bool], float] = {}
    rows = math.prod(hint(axis.size) for axis in kernel.rows)
    for stage in kernel.stages:
        count = rows * math.prod(hint(axis.size) for axis in stage.loops)
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
                size = min(count, hint(buffers[name].size))
                key = buffers[name].home, written
                touched[key] = max(touched.get(key, 0), size * buffers[name].dtype.itemsize)
    ops = kernel.note.partition(" -> ")[0] or kernel.note
    largest = max((hint(buffers[n].size) for n in kernel.writes() if n in buffers), default=0)
    return Work(
        ops, "kernel", f"{rows:,} rows, {largest:,} written" if rows != largest else f"{rows:,}",
        _lines(kernel), sum(touched.values()), 0.0, operations,
    )  # fmt: skip


def _lines(kernel: Kernel) -> dict[str, float]:
    """The user's lines, each with its share of the work."""
    work: dict[str, float] = {}
    for op, line, count in kernel.origins:
        if line:
            work[line] = work.get(line, 0.0) + hint(count) * COST.get(op, 1)
    if not work:
        return {kernel.where: 1.0} if kernel.where else {}
    whole = sum(work.values()) or 1.0
    return {line: part / whole for line, part in work.items()}


def _of_step(step: Library, buffers: Mapping[str, Buffer]) -> Work:
    shapes = [tuple(map(hint, aval.shape)) for aval in step.avals]
    shapes += [tuple(map(hint, aval.shape)) for aval in step.out_avals[:1]]
    shown = " ".join("x".join(map(str, shape)) or "()" for shape in shapes)
    lines = {step.where: 1.0} if step.where else {}
    if step.bodies:  # whose parts are counted by themselves
        return Work(step.name, "loop", shown, lines)
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
    nbytes = float(sum(_read(step, buffers)) + sum(hint(aval.nbytes) for aval in step.out_avals))
    return Work(step.name, kind, shown, lines, nbytes, products)


def _read(step: Library, buffers: Mapping[str, Buffer]) -> Iterator[int]:
    for x in step.operands:
        if isinstance(x, Access):
            yield math.prod(map(hint, x.shape)) * buffers[x.buffer].dtype.itemsize
