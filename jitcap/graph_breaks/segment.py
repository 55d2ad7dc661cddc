"""Capture of a part of a function: from one instruction of a live frame to another. -> Captured.

A function that cannot be captured as a whole is cut at the instructions that cannot. A segment
starts at a program counter with the frame's locals and value stack as its inputs, and ends with a
return, or stops in front of an instruction with the locals and stack as its outputs.
"""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any

from eager.base.dataclass import dataclass
from jitcap.base.assumed import Assumed
from jitcap.base.breaks import Break, Place
from jitcap.base.origin import Bind, Origin, Variable
from jitcap.base.terms import Term, text
from jitcap.capture.attempts import Attempts
from jitcap.capture.bytecode import Instruction
from jitcap.capture.capture import finish, tracing
from jitcap.capture.interpret import (
    CO_ASYNC,
    CO_GENERATOR,
    NULL,
    Done,
    Frame,
    Interpreter,
    Opcode,
    OpcodeTable,
)
from jitcap.capture.result import Captured
from jitcap.capture.session import Session

RETURNED, STOPPED = 0, 1


@dataclass(frozen=True, slots=True, eq=False)
class Local(Origin):
    """A local variable of the live frame."""

    shows = "{o.name}"
    in_frame = True
    name: str

    def term(self, var: Variable, bind: Bind) -> Term:
        return ("item", ("item", "args", 0), text(self.name))


@dataclass(frozen=True, slots=True, eq=False)
class Slot(Origin):
    """A place on the live frame's value stack (`where` 1) or exception stack (`where` 2)."""

    shows = "a value of the expression ({o.index})"
    in_frame = True
    where: int
    index: int

    def term(self, var: Variable, bind: Bind) -> Term:
        return ("item", ("item", "args", self.where), self.index)


def point_of(frame: Frame) -> tuple[Any, ...]:
    """Key that versions of a segment share: the program counter, and which slots are filled."""
    holes = tuple(i for i, v in enumerate(frame.stack) if v is NULL)
    cells = tuple(n for n, v in frame.fast.items() if type(v) is CellType)
    return frame.pc, tuple(frame.fast), cells, len(frame.stack), holes, len(frame.handled)


def live(frame: Frame) -> tuple[Any, ...]:
    """The arguments with which a segment's entry is called."""
    return frame.fast, frame.stack, frame.handled


def capture_segment(
    frame: Frame,
    limit: int | None,
    dynamic: frozenset[str],
    unsafe: frozenset[str] = frozenset(),
) -> tuple[Captured, int]:
    """Capture from where `frame` is, at most `limit` of its instructions; it is not changed.

    The entry gives (RETURNED, value) or (STOPPED, pc, locals, stack, exceptions). When it cannot be
    captured that far the Break has `done`: how many instructions can be.
    """
    if frame.code.co_flags & (CO_GENERATOR | CO_ASYNC):
        raise Break("generator", f"{frame.code.co_qualname} is a generator")

    # Where instructions are counted no branch has two ways.
    sites = _all_branches(frame) if limit is not None else frozenset()
    attempts = Attempts[tuple[Captured, int]](Assumed(dynamic, sites=sites))
    for assumed in attempts:
        with (
            attempts.one(),
            tracing(Session(frame.code.co_qualname, unsafe, assumed)) as session,
        ):
            attempts.made(_attempt(session, frame, limit))
    return attempts.result


def _all_branches(frame: Frame) -> frozenset[tuple[Any, ...]]:
    return frozenset({(frame.code, None)})


def _attempt(session: Session, frame: Frame, limit: int | None) -> tuple[Captured, int]:
    twin = _twin(session, frame)
    blocks: list[tuple[int, int]] = []
    opcodes = session.vm.opcodes
    if limit is not None:
        session.vm.opcodes = _noting_blocks(opcodes, twin, blocks)
    try:
        done = session.vm.run(twin, limit)
    except BaseException as error:
        error.__jitcap_done__ = twin.count  # type: ignore[attr-defined]
        if frame.code in session.ties.branched and isinstance(error, Exception):
            what = "this part ends behind a branch that is in the graph"
            lesson = Assumed(sites=_all_branches(frame))
            raise Break("aliasing", what).unless(lesson) from error
        raise
    finally:
        session.vm.opcodes = opcodes  # the other table holds the frame, which would end late
    value = _value(twin, done)
    if done is not None:
        twin.fast, twin.stack = {}, []  # as if the frame were gone
    try:
        captured = finish(session, value, (3, ()))
    except BaseException as error:
        error.__jitcap_done__ = -1  # type: ignore[attr-defined]
        if isinstance(error, Break):
            error.before = next((n for depth, n in blocks if depth <= len(twin.stack)), 0)
        raise
    captured.limit = limit
    return captured, twin.count


def _noting_blocks(
    opcodes: dict[str, Opcode], frame: Frame, blocks: list[tuple[int, int]]
) -> dict[str, Opcode]:
    """The operations, of which those that begin a loop or a `with` of `frame` note how deep the
    stack is, and the number of instructions before them; the outermost block is the first."""

    def noting(name: str) -> Opcode:
        def begin(vm: Interpreter, inner: Frame, ins: Instruction) -> Done | None:
            if inner is frame:
                depth = len(inner.stack)
                blocks[:] = [row for row in blocks if row[0] < depth]
                blocks.append((depth, inner.count))
            return opcodes[name](vm, inner, ins)

        return begin

    table = OpcodeTable(opcodes)
    table.update({name: noting(name) for name in ("GET_ITER", "BEFORE_WITH")})
    return table


def _twin(session: Session, frame: Frame) -> Frame:
    """The frame of the capture: the same place, every live value loaded."""
    twin = Frame(frame.code, frame.globals, frame.function)
    if isinstance(frame.function, FunctionType):
        session.outside.fixed[id(frame.function)] = frame.function
    load = session.outside.load
    code, line = frame.code, frame.instruction.line
    session.entry = Place(code.co_filename, line, function=code.co_qualname)
    twin.pc = frame.pc
    twin.fast = {name: load(v, Local(name)) for name, v in frame.fast.items()}
    twin.stack = [v if v is NULL else load(v, Slot(1, i)) for i, v in enumerate(frame.stack)]
    twin.handled = [None if v is None else load(v, Slot(2, i)) for i, v in enumerate(frame.handled)]
    return twin


def _value(twin: Frame, done: Done | None) -> tuple[Any, ...]:
    if done is not None:
        return (RETURNED, done.value)
    return (STOPPED, twin.pc, twin.fast, twin.stack, twin.handled)
