"""Capture: where one round of a loop that data may end is over, for `while_loops` and `branch`.
frame in a round -> whether it is over, and how the program goes on.
"""

from __future__ import annotations

from typing import Any, Final

from eager.base.dataclass import dataclass
from jitcap.capture.control.cfg import EXIT, While, exit_of, immediate_postdominator, live_in
from jitcap.capture.control.loop_iterables import Going
from jitcap.capture.control.loop_results import NotRolled
from jitcap.capture.interpret import Frame

STOP: Final = -2  # where a frame stands when a round is over
AGAIN: Final = -1


@dataclass(frozen=True, eq=False)
class RoundEnd:
    """Position at which the ways of a round meet: a frame that comes there stands at STOP, with
    what is to be done on its stack: whether there is another round, or, of one that is left in
    several places, -1 for another one and the number of the place otherwise."""

    frame: Frame
    loop: While
    going: Going | None = None  # of a `for`: lies on the stack in all of these places

    def reached(self, frame: Frame) -> bool:
        if frame.pc == STOP:
            return True
        number = self.number(frame.pc)
        if number is None:
            return False
        if self.going is not None and self.going not in frame.stack:
            frame.push(self.going)
        if self.going is not None and frame.stack[-1] is not self.going:
            raise NotRolled("it is left inside a with")
        frame.push(number == AGAIN if len(self.loop.exits) == 1 else number)
        frame.pc = STOP
        return True

    def start(self, number: int) -> tuple[int, tuple[Any, ...]]:
        """Instruction at an exit, and what is pushed there: `going`, unless that has ended."""
        pc = self.loop.exits[number]
        return pc, () if self.going is None or pc == self.loop.ended else (self.going,)

    def leave(self, number: int) -> None:
        if self.going is not None:
            self.frame.pop()
        self.frame.pc, more = self.start(number)
        self.frame.stack += more

    def number(self, pc: int) -> int | None:
        """-1, or the number of an exit."""
        if pc == self.loop.again:
            return AGAIN
        found = exit_of(self.frame.code, self.loop, pc)
        return None if found < 0 else found

    @property
    def live_in(self) -> frozenset[str]:
        code = self.frame.code
        return live_in(code, self.loop.again) | self.left | ({self.loop.place} - {""})

    @property
    def left(self) -> frozenset[str]:
        """The locals that are read behind the loop."""
        return frozenset().union(*(live_in(self.frame.code, i) for i in self.loop.exits))


def end_inside(s: Any, frame: Frame, index: int) -> RoundEnd | None:
    """End of the round that is read now, if the ways from a test meet only there; else None."""
    for end in reversed(s.ties.regions):
        if end.frame is frame:
            inside = immediate_postdominator(frame.code, index, end.loop)
            return end if inside == EXIT else None
    return None
