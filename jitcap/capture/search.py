"""Beside capture: every place where a function would be split. (function, arguments) -> records.

Capture changes nothing outside, so it can go on past a refusal for the sake of the report: a
decision it cannot make is made both ways, and a value it cannot know is `Unknowable`, which nothing
can be said about. What lies behind an instruction that cannot be stepped over is not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from eager.core import tape
from eager.core.traced import UnknownValue
from jitcap.base.breaks import Break, Place, Record
from jitcap.capture.bytecode import Instruction
from jitcap.capture.interpret import Frame
from jitcap.capture.opcodes.basic import EFFECTS

MOST: Final = 2000  # refusals stepped over in one run: a loop may go round and round
RUNS: Final = 16  # of the function, each for ways that no other went
TURNS: Final = 4  # of a loop that a value decides, before it ends
_QUIET: Final = frozenset(
    {"exception", "iteration", "cache"}
)  # no splits: see `jitcap.graph_breaks.split`


class Unknowable:
    """The value of an instruction that cannot be captured."""


# operation -> (how many operands it takes off the stack, how many results it leaves)
_EFFECTS: Final[dict[str, Callable[[Any], tuple[int, int]]]] = {
    "CALL": lambda arg: (arg + 2, 1),
    "CALL_KW": lambda arg: (arg + 3, 1),
    "CALL_FUNCTION_EX": lambda arg: (3 + ((arg or 0) & 1), 1),
    "FORMAT_VALUE": lambda arg: (1 + arg[1], 1),
    "UNPACK_SEQUENCE": lambda arg: (1, arg),
    "UNPACK_EX": lambda arg: (1, (arg & 0xFF) + 1 + (arg >> 8)),
    "BUILD_STRING": lambda arg: (arg, 1),
    "BUILD_SET": lambda arg: (arg, 1),
    "BUILD_MAP": lambda arg: (2 * arg, 1),
    "BUILD_CONST_KEY_MAP": lambda arg: (arg + 1, 1),
    "BEFORE_WITH": lambda arg: (1, 2),
    "MAP_ADD": lambda arg: (2, 0),
    "CHECK_EXC_MATCH": lambda arg: (1, 1),
    "GET_YIELD_FROM_ITER": lambda arg: (1, 1),
    **dict.fromkeys(
        ("LIST_APPEND", "LIST_EXTEND", "SET_ADD", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE",
         "STORE_NAME", "STORE_GLOBAL"), lambda arg: (1, 0)
    ),
    **{op: lambda arg, effect=effect: effect for op, effect in EFFECTS.items()},  # type: ignore[misc]
}  # fmt: skip
_JUMPS: Final = {f"{start}_IF_{way}{end}": way == "TRUE" for way in ("TRUE", "FALSE")
                 for start, end in (("POP_JUMP", ""), ("JUMP", "_OR_POP"))}  # fmt: skip
Way = tuple[Place, bool]


class Search:
    """Search of the program in several runs, each of which goes ways that none before it went."""

    def __init__(self) -> None:
        self.records: dict[tuple[str, Place], Record] = {}
        self.gone: set[Way] = set()
        self.leads: dict[Way, set[Place]] = {}  # to which decisions a way leads
        self.dead: set[tuple[Any, int]] = set()  # instructions that raise for what is unknowable
        self.runs = 0
        self.more = True

    def begin(self, session: Any) -> bool:
        """One more run, if it may find anything."""
        if not self.more or self.runs >= RUNS:
            return False
        self.session, self.runs, self.more = session, self.runs + 1, False
        self.visits: dict[Place, int] = {}
        self.path: dict[Way, None] = {}
        self.count = 0
        self.raised: tuple[Any, tuple[Any, int]] | None = None  # an error, and where it began
        self.because: Place | None = None  # of a refused branch: what is in one of its ways
        self.last: tuple[Place, int] | None = None  # a split, and how long the tape was
        session.search, session.vm.step_over = self, self.step_over
        return True

    def end(self, refusal: Break | None) -> None:
        """The run ended, with a refusal that could not be stepped over."""
        if refusal is not None and refusal.kind != "exception":
            self.note(refusal)
        elif refusal is not None and self.raised is not None and self.count:
            self.dead.add(self.raised[1])
            self.more = True
        self.more = self.more or any(map(self._is_open, {place for place, _ in self.gone}))

    def _is_open(self, place: Place) -> bool:
        return not {(place, True), (place, False)} <= self.gone

    def note(self, refusal: Break) -> None:
        record = refusal.record()
        self.count += 1
        if refusal.kind not in _QUIET and Unknowable.__name__ not in record.what:
            self.records.setdefault((record.kind, record.place), record)
            self.last = record.place, tape.sequence_now()

    def sweep(self, name: str, edges: Sequence[Any]) -> None:
        """A gradient, which meets a split where what it begins at was computed before that."""
        nodes = [edge[0] for edge in edges if edge is not None and isinstance(edge[0], tape.Node)]
        if self.last is not None and any(node.sequence < self.last[1] for node in nodes):
            self._note_here("history", f"{name}() goes on past the split", self.last[0])

    def _note_here(self, kind: str, what: str, because: Place | None = None) -> Place:
        refusal = Break(kind, what)
        refusal.because = because
        frame = self.session.user_frame()
        if frame is not None:
            self.session.place(frame, refusal)
        self.note(refusal)
        return refusal.place or Place()

    def decide(self, want: type, what: str) -> Any:
        """A value that only the graph knows: a truth value is another one at each visit."""
        place = self._note_here("data dependent", what, self.because)
        return want(1) if want is not bool else self._way(place)

    def _way(self, place: Place) -> bool:
        """Branch to take at a decision: one that no run took, or one that leads to such."""
        visit = self.visits[place] = self.visits.get(place, -1) + 1
        for passed in self.path:
            self.leads.setdefault(passed, set()).add(place)
        if self._is_open(place):
            way = (place, True) not in self.gone
        elif visit >= TURNS:
            way = visit % 2 == 0
        else:
            true, false = (
                sum(map(self._is_open, self.leads.get((place, way), ()))) for way in (True, False)
            )
            way = true > false if true != false else visit % 2 == 0
        self.gone.add((place, way))
        self.path[place, way] = None
        return way

    def step_over(
        self, frame: Frame, ins: Instruction, before: tuple[Any, ...], error: BaseException
    ) -> bool:
        """Go on behind the instruction that raised `error`; False where that cannot be done."""
        if self.count > MOST or self.session.is_library(frame.globals):
            return False
        jumps = ins.op in _JUMPS or ins.op == "FOR_ITER"
        if not jumps and ins.op not in _EFFECTS:
            return False
        taken, left = (1, 0) if jumps else _EFFECTS[ins.op](ins.arg)
        operands = before[len(before) - taken :]
        known = not any(isinstance(value, Unknowable) for value in operands)
        if known or (isinstance(error, Break) and error.kind == "unknown call"):
            if isinstance(error, UnknownValue):
                place = getattr(error, "__jitcap_place__", None)
                error = Break("data dependent", str(error))
                error.place = place
            if isinstance(error, Break):
                self.note(error)
            elif (frame.code, frame.pc) not in self.dead:
                if self.raised is None or self.raised[0] is not error:
                    self.raised = error, (frame.code, frame.pc)
                return False
        self.count += 1
        frame.stack[:] = before[: len(before) - taken]
        if jumps:
            self._jump(frame, ins)
        frame.stack += [Unknowable() for _ in range(left)]
        return True

    def _jump(self, frame: Frame, ins: Instruction) -> None:
        """Either way, where a value decides that nobody knows; a loop turns, and ends."""
        line, end_line, column, end_column = ins.columns
        code = frame.code
        place = Place(code.co_filename, line, end_line, column, end_column, code.co_qualname)
        way = self._way(place)
        if ins.op == "FOR_ITER":
            frame.stack += [Unknowable(), Unknowable()] * way
            frame.pc = frame.pc if way else ins.target
        elif way is _JUMPS[ins.op]:
            frame.stack += [Unknowable()] * ins.op.endswith("_OR_POP")
            frame.pc = ins.target
