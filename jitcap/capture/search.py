"""Beside capture: every place where a function would be split. (function, arguments) -> records.

Capture changes nothing outside, so it can go on past a refusal for the sake of the report: a
decision it cannot make is made both ways, and a value it cannot know is `Unknown`, which nothing
can be said about. What lies behind an instruction that cannot be stepped over is not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eager.traced import UnknownValue
from jitcap.capture.breaks import Break, Place, Record
from jitcap.capture.bytecode import Instruction
from jitcap.capture.interpret import Frame
from jitcap.capture.opcodes.basic import EFFECTS

MOST: Final = 200  # refusals stepped over in one run: a loop may go round and round
_QUIET: Final = frozenset({"exception", "iteration", "cache"})  # no splits: see `jitcap.split`


class Unknown:
    """The value of an instruction that cannot be captured."""


# operation -> (how many operands it takes off the stack, how many results it leaves)
_EFFECTS: Final[dict[str, Callable[[Any], tuple[int, int]]]] = {
    "CALL": lambda arg: (arg + 2, 1),
    "CALL_KW": lambda arg: (arg + 3, 1),
    "CALL_FUNCTION_EX": lambda arg: (3 + ((arg or 0) & 1), 1),
    "FORMAT_VALUE": lambda arg: (1 + arg[1], 1),
    "UNPACK_SEQUENCE": lambda arg: (1, arg),
    "BUILD_STRING": lambda arg: (arg, 1),
    "BEFORE_WITH": lambda arg: (1, 2),
    **dict.fromkeys(("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"), lambda arg: (1, 0)),
    **{op: lambda arg, effect=effect: effect for op, effect in EFFECTS.items()},  # type: ignore[misc]
}


class Search:
    """What one run finds. `first`: what is decided where a decision is asked for the first time."""

    def __init__(self, session: Any, records: dict[tuple[str, Any], Record], first: bool) -> None:
        self.session = session
        self.records = records
        self.first = first
        self.visits: dict[Place, int] = {}
        self.count = 0

    def note(self, refusal: Break) -> None:
        record = refusal.record()
        if refusal.kind not in _QUIET:
            self.records.setdefault((record.kind, record.place), record)
        self.count += 1

    def decide(self, want: type, what: str) -> Any:
        """A value that only the graph knows: a truth value is another one at each visit."""
        refusal = Break("data dependent", what)
        frame = self.session.user_frame()
        if frame is not None:
            self.session.place(frame, refusal)
        self.note(refusal)
        place = refusal.place or Place()
        visit = self.visits[place] = self.visits.get(place, -1) + 1
        return want(1) if want is not bool else self.first is (visit % 2 == 0)

    def step_over(
        self, frame: Frame, ins: Instruction, before: list[Any], error: BaseException
    ) -> bool:
        """Go on behind the instruction that raised `error`; False where that cannot be done."""
        if ins.op not in _EFFECTS or self.count > MOST or self.session.is_library(frame.globals):
            return False
        taken, left = _EFFECTS[ins.op](ins.arg)
        operands = before[len(before) - taken :]
        if not any(isinstance(value, Unknown) for value in operands):
            if isinstance(error, UnknownValue):
                place = getattr(error, "__jitcap_place__", None)
                error = Break("data dependent", str(error))
                error.place = place
            if not isinstance(error, Break):
                return False
            self.note(error)
        frame.stack[:] = before[: len(before) - taken]
        frame.stack += [Unknown() for _ in range(left)]
        self.count += 1
        return True
