"""Tracing by dispatch: the state of one trace. The kinds' and the tracer's questions -> answers.

The session of capture, for a program that CPython runs instead of our interpreter: values are asked
natively, the user's line is on Python's own stack, and a borrowed object is its own twin.
"""

from __future__ import annotations

import dis
import sys
import threading
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any

from eager.base.dtype import _default as default_dtype
from eager.core.op import Attrs, Op
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor
from eager.core.traced import Traced
from eager.sizes.aval import Aval
from jitcap.base.assumed import Assumed
from jitcap.base.breaks import Break, Place
from jitcap.base.call_policy import is_library_space
from jitcap.base.origin import Origin
from jitcap.by_dispatch.object_swap import Borrower, DispatchOutside
from jitcap.capture.session import Session
from jitcap.capture.tracing import CaptureTracer
from jitcap.graph.graph import Arg, Node, Where
from jitcap.guards.tensor_guard import memory_of


class Refused(BaseException):
    """A refusal on its way out of the program, which catches exceptions of its own."""

    def __init__(self, refusal: Exception) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class DispatchTracer(CaptureTracer):
    """The tracer of capture, while native code is not watched by an interpreter."""

    def __init__(self, session: DispatchSession, name: str) -> None:
        super().__init__(session, name)
        self.owner = session
        self.thread = threading.get_ident()
        self.reads = False  # whether the program has a number that stands for another
        self._memory: set[int] | None = None

    def emit(
        self, op: Op, operands: Sequence[Arg], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Node, ...]:
        """Emit an op. Another thread must not take part: it would see what is borrowed."""
        if threading.get_ident() != self.thread:
            what = f"another thread uses a tensor while {self.name} is traced"
            self.owner.note(Break("effect", what))
            raise RuntimeError(f"{what}: wait for the first call of a @jit function to end")
        return super().emit(op, operands, attrs, outs)

    def concretize(self, number: SymNumber, want: type) -> Any:
        """Concretize a run-time number; a refusal stands, whatever the program catches."""
        try:
            return super().concretize(number, want)
        except Exception as refusal:
            self.owner.note(refusal)
            raise Refused(refusal) from refusal

    def item(self, traced: Traced) -> SymNumber:
        self.reads = True
        return super().item(traced)

    def _lift_concrete(self, tensor: Tensor) -> Traced:
        """Lift a constant tensor; refuse one that was there before: no guard knows its origin."""
        if self._memory is None:
            self._memory = {memory_of(t) for t in self.owner.borrower.before}
        if memory_of(tensor) in self._memory:
            refusal = Break(
                "opaque object", "a tensor is reached in a way that no guard can follow"
            )
            self.owner.note(refusal)
            raise Refused(refusal)
        return super()._lift_concrete(tensor)


class DispatchSession(Session):
    """See the module. `noted`: the first refusal, which the program may have caught."""

    def __init__(self, name: str, unsafe: frozenset[str], assumed: Assumed) -> None:
        super().__init__(name, unsafe, assumed)
        self.outside: DispatchOutside = DispatchOutside(self.guards, self.line, self._read, assumed)
        self.tracer: DispatchTracer = DispatchTracer(self, name)
        self.borrower = Borrower(self, self.outside)
        self.default_dtype = default_dtype[0]
        self.running = False  # whether the program is on the stack
        self.noted: Exception | None = None
        self._libraries: dict[int, bool] = {}

    def _read(self, real: Any, origin: Origin) -> Any:
        return self.borrower.load(real, origin)

    # ---- values are asked natively

    def call(self, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return fn(*args, **kwargs)

    def reentry(self, fn: Any) -> Any:
        return fn

    # ---- where we are

    def is_user(self, space: dict[str, Any]) -> bool:
        """True if code with these globals is the program's."""
        known = self._libraries.get(id(space))
        if known is None:
            known = self._libraries[id(space)] = is_library_space(space)
        return not known

    def frame(self) -> FrameType | None:
        """The innermost frame of the program."""
        frame: FrameType | None = sys._getframe(1) if self.running else None
        while frame is not None and not self.is_user(frame.f_globals):
            frame = frame.f_back
        return frame

    def where(self) -> Where:
        frame, entry = self.frame(), self.entry
        if frame is None:
            return Where(entry.file, entry.line, entry.function)
        return Where(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_qualname)

    def note(self, refusal: Exception, frame: FrameType | None = None) -> None:
        """Remember the first refusal, with the line of the program."""
        frame = frame or self.frame()
        if self.noted is None:
            self.noted = refusal
            refusal.__jitcap_place__ = found = (  # type: ignore[attr-defined]
                self.entry if frame is None else place_of(frame, frame.f_lasti, frame.f_lineno)
            )
            if isinstance(refusal, Break):
                refusal.place = found

    def locate(self, error: BaseException) -> None:
        """Note the program's line on an exception that left it."""
        link: TracebackType | None = error.__traceback__
        while link is not None:
            if self.is_user(link.tb_frame.f_globals):
                error.__jitcap_place__ = place_of(  # type: ignore[attr-defined]
                    link.tb_frame, link.tb_lasti, link.tb_lineno
                )
            link = link.tb_next

    def raised(self, error: BaseException) -> bool:
        """True if a raise instruction of the program raised it, and not a signal, anywhere."""
        link = error.__traceback__
        while link is not None and link.tb_next is not None:
            link = link.tb_next
        if link is None or not self.is_user(link.tb_frame.f_globals):
            return False
        found = dis.get_instructions(link.tb_frame.f_code)
        return any(i.offset == link.tb_lasti and "RAISE" in i.opname for i in found)


def place_of(frame: FrameType, instruction: int, line: int | None) -> Place:
    """The part of the source that a frame is at."""
    code = frame.f_code
    spans = [*code.co_positions()]
    at = instruction // 2
    start, end, column, end_column = spans[at] if 0 <= at < len(spans) else (line, line, 0, 0)
    return Place(
        code.co_filename, start or line or 0, end or 0, column or 0, end_column or 0,
        code.co_qualname,
    )  # fmt: skip
