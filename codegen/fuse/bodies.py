"""Behind fusion: the programs inside steps (the body of a loop), compiled for where their operands
lie. Fused -> Fused whose steps hold compiled bodies.

A body goes through the same stages as a program of its own. What it is given is a view of its
caller's memory (a slice of a sequence, a transposed weight): its inputs get the strides of these
views, so that nothing is copied on the way in.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from codegen.ir.schema import Access, Fused, Library, Program, Value
from codegen.ir.sizes import Size, is_contiguous
from eager.base.dataclass import dataclass

Strides = tuple[Size, ...]


def compile_bodies(fused: Fused, run: Callable[[Program], Any]) -> Fused:
    """`run` takes a program through the stages."""
    items = []
    made: dict[Any, Any] = {}  # calls of one body share what it becomes
    numbers = itertools.count()

    def begin(program: Program) -> Any:
        return run(replace(program, prefix=f"{fused.program.prefix}b{next(numbers)}_"))

    for item in fused.items:
        programs = item.attrs.get("programs", ()) if isinstance(item, Library) else ()
        if programs:
            assert isinstance(item, Library)
            if item.name == "call":
                item = _called(item, begin, made)
            else:
                placed = [with_strides(p, _strides(item, p)) for p in programs]
                if item.attrs.get("in_place"):
                    placed = [_updating(p, item.attrs["carried"]) for p in placed]
                item = _with_symbols(fused.program, item, placed)
                item = replace(item, bodies=tuple(map(begin, item.attrs["programs"])))
        items.append(item)
    return replace(fused, items=tuple(items))


def _called(step: Library, run: Callable[[Program], Any], made: dict[Any, Any]) -> Library:
    """A call with its body, which updates some of its inputs in place: `writes` of the step pairs
    (operand, result)."""
    (program,), pairs = step.attrs["programs"], step.attrs.get("writes", ())
    strides = _strides(step, program)
    key = id(program), tuple(strides.items()), pairs
    if key not in made:
        placed = with_strides(program, strides)
        writes = tuple((placed.inputs[i], placed.outputs[o]) for i, o in pairs)
        written = {o for _, o in pairs}
        outputs = tuple(v for o, v in enumerate(placed.outputs) if o not in written)
        placed = replace(placed, outputs=outputs, writes=writes)
        made[key] = placed, run(placed)
    placed, body = made[key]
    return replace(step, attrs={**step.attrs, "programs": (placed,)}, bodies=(body,))


def _updating(program: Program, carried: int) -> Program:
    """The body that writes what it carries over what it was given."""
    pairs = zip(program.inputs[:carried], program.outputs[:carried], strict=True)
    return replace(program, outputs=program.outputs[carried:], writes=tuple(pairs))


def _strides(step: Library, program: Program) -> dict[int, Strides]:
    """The strides of the step's operands, by the inputs of a body; what is carried has none."""
    if step.name == "blocks":
        return _strides_of_parts(step, program)
    first = step.name not in ("scan", "call")  # a number that chooses, or says whether to go on
    carried, sequences = step.attrs.get("carried", 0), step.attrs.get("sequences", 0)
    strides: dict[int, Strides] = {}
    given = zip(program.inputs[carried:], step.operands[first + carried :], strict=True)
    for i, (value, x) in enumerate(given):
        if isinstance(x, Access):
            steps = x.strides[i < sequences :]
            if not is_contiguous(value.aval.shape, steps):
                strides[value.id] = steps
    return strides


def _strides_of_parts(step: Library, program: Program) -> dict[int, Strides]:
    """The strides of the operands of a step of blocks, by the inputs of its body, which sees a
    block of each operand, of its last dimensions."""
    strides: dict[int, Strides] = {}
    given = zip(program.inputs[step.attrs["carried"] :], step.operands, strict=False)
    for (value, x), cut in zip(given, step.attrs["cuts"], strict=True):
        if isinstance(x, Access):
            steps = x.strides[len(x.strides) - len(cut) :]
            if not is_contiguous(value.aval.shape, steps):
                strides[value.id] = steps
    return strides


def _with_symbols(outer: Program, step: Library, programs: Sequence[Program]) -> Library:
    """The step with these programs, which are given the other symbols in their sizes, too."""
    needed = {s.name for p in programs for s in p.used_symbols()}
    names = sorted(needed - programs[0].symbols.keys())
    given = [v for name in names for v in outer.inputs if v.symbol == name]
    at = ScanLayout.of(step).counters if step.name == "scan" else len(step.operands)
    before = sum(isinstance(x, Access | str) for x in step.operands[:at])
    place = at if step.name == "scan" else len(programs[0].inputs)
    place -= len(step.attrs.get("numbers", ()))  # of a block: they stand last
    return replace(
        step,
        operands=_inserted(step.operands, at, [f"v{v.id}" for v in given]),
        avals=_inserted(step.avals, before, [v.aval for v in given]),
        attrs={**step.attrs, "programs": tuple(_with_inputs(p, place, given) for p in programs)},
    )


def _with_inputs(program: Program, place: int, given: Sequence[Value]) -> Program:
    free = program.free_ids()
    more = [replace(v, id=i) for v, i in zip(given, free, strict=False)]
    return replace(program, inputs=_inserted(program.inputs, place, more))


def _inserted(values: tuple[Any, ...], at: int, more: Sequence[Any]) -> tuple[Any, ...]:
    return (*values[:at], *more, *values[at:])


def with_strides(program: Program, strides: dict[int, Strides]) -> Program:
    """The program with other strides of some inputs."""
    if not strides:
        return program
    new = {v.id: replace(v, strides=strides[v.id]) for v in program.inputs if v.id in strides}

    def of(x: Any) -> Any:
        return new.get(x.id, x) if isinstance(x, Value) else x

    calls = tuple(replace(c, operands=tuple(map(of, c.operands))) for c in program.calls)
    return replace(
        program,
        inputs=tuple(map(of, program.inputs)),
        calls=calls,
        outputs=tuple(map(of, program.outputs)),
    )


@dataclass(frozen=True, slots=True)
class ScanLayout:
    """Layout of a scan's operands and results: the numbers of carries and of sequences, the
    position of the first counter."""

    carried: int
    sequences: int
    counters: int
    length: Size
    reverse: bool
    steps: tuple[int, ...]

    @classmethod
    def of(cls, step: Library) -> ScanLayout:
        a = step.attrs
        first = len(step.operands) - len(a["steps"])
        return cls(a["carried"], a["sequences"], first, a["length"], a["reverse"], a["steps"])
