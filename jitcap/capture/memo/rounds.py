"""Capture: rounds of a `for` that are alike. round -> what its operations do, without its bytecode.

Between two questions to its world (`interpret.World`) the interpreter moves values, and looks into
none but constants and tuples: what it asks in a round follows from the locals at the head of the
loop and from the answers. Two rounds are recorded. If they asked the same of what stands in the
same places (the item, answers so far, locals of the round before) and of what is the very same, and
the answers are alike, then the next rounds ask that, in this order, of their own item, through the
same doors, with the same guards. What is only read of what nobody wrote is not asked again.

An answer may be another one: then the round is interpreted from its head, in a world that repeats
the answers so far, and goes on from there.

    Rounds      those of one capture
    Recording   a world that notes what it is asked in a round
    Program     the operations of a round
    Repeating   a world that repeats answers
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, Final, NamedTuple

from eager.base.dataclass import dataclass
from eager.core.tape import mode
from eager.core.tensor import Tensor
from jitcap.base.breaks import Again
from jitcap.base.call_policy import is_native
from jitcap.capture.bytecode import decode
from jitcap.capture.control import for_loops
from jitcap.capture.control.cfg import live_in, reads_frame
from jitcap.capture.interpret import NULL, Frame
from jitcap.capture.kinds.base import HANDLERS, kind_of
from jitcap.capture.kinds.deferred import VIEWS
from jitcap.capture.kinds.native_proxies import Callback
from jitcap.capture.memo.round_records import (
    AGAIN,
    ASKED,
    CONSTANT,
    FIXED,
    MADE,
    NAMED,
    PARTS,
    READS,
    Event,
    Recording,
    Ref,
    is_equal,
    is_same,
)
from jitcap.capture.opcodes.call import OF_FRAMES

LEAST: Final = 4  # rounds that a loop has left, for the first to be recorded
TRIALS: Final = 4  # recorded rounds, two in a row of which must be alike
CREDIT: Final = 4  # rounds that may differ, of those that are not followed by one that does not
_STORING: Final = frozenset({"STORE_FAST", "LOAD_FAST_AND_CLEAR"})
_LEAVING: Final = frozenset({"YIELD_VALUE", "SEND"})
_EMPTY: Final[tuple[Any, ...]] = ([], (), {}, {}.values(), {}.items())
_LISTED: Final = frozenset({*(type(iter(x)) for x in _EMPTY), reversed, type(reversed([]))})
_JOINED: Final = frozenset({zip, enumerate})


@dataclass(slots=True, eq=False)
class Loop:
    """A loop that a frame goes through, `head` being the index behind its first instruction.
    `stored`: locals that a round may set; `carried`: those among them that are read before, or
    behind it. It ends with the frame, and holds none: locals are to die on time."""

    iterator: Any
    head: int
    stored: tuple[str, ...]
    carried: tuple[str, ...]
    left: int = TRIALS  # rounds that may be recorded
    recorded: Recording | None = None
    program: Program | None = None
    credit: int = CREDIT


class Rounds:
    """Those of one capture."""

    def __init__(self, session: Any) -> None:
        self.session = session
        session.vm.generating = self.end

    def begin(self, frame: Frame, end: int) -> bool:
        """True if the frame, which is at the head of a loop, has its next item, or stands behind
        the loop. All rounds that are like those before are over then."""
        loop = frame.rounds.get(frame.pc)
        if loop is None or loop.iterator is not frame.stack[-1]:
            loop = self._met(frame, end)
        if loop is None or not loop.left or not self._is_apart(frame):
            return False
        if loop.program is not None:
            ran: bool = loop.program.run(self, frame, end)
            return ran
        if not self._take(frame, end):
            return True
        loop.left -= 1
        self.session.vm.world = Recording(self.session, loop, frame, self.keep)
        return True

    def _met(self, frame: Frame, end: int) -> Loop | None:
        """A loop that begins; None for one whose rounds are not recorded."""
        iterator = frame.stack[-1]
        may_wait = not self.session.vm.generators and _may_wait(iterator)
        locals_ = _locals(frame.code, frame.pc, end) if may_wait else None
        if locals_ is None:
            return None
        loop = frame.rounds[frame.pc] = Loop(iterator, frame.pc, *locals_)
        return loop

    def _is_apart(self, frame: Frame) -> bool:
        """True if nobody else goes through the rounds, counts instructions, or may go back."""
        s = self.session
        vm, inside = s.vm, s.tracer.inside is not None or s.ties.open or s.ties.regions
        if inside or s.rolls or s.log.open or s.search is not None or mode.levels:
            return False
        known = vm.world is s and vm.frames[-1] is frame and frame.limit is None
        return known and vm.step_over is None and not s.outside.assumed.apart

    def _take(self, frame: Frame, end: int) -> bool:
        """Put the next item on the stack, or leave the loop: False."""
        try:
            frame.stack.append(self.session.next(frame.stack[-1]))
        except StopIteration:
            frame.rounds.pop(frame.pc, None)
            frame.stack.pop()
            frame.pc = end
            return False
        return True

    def keep(self, made: Recording, frame: Frame) -> None:
        """A round was recorded."""
        loop, before = made.loop, made.loop.recorded
        loop.recorded = made
        if before is not None and made.is_like(before):
            program = Program(before, made, frame)
            if program.is_whole:
                loop.program = program
        if not loop.left or loop.program is not None:
            loop.recorded = None

    def end(self) -> None:
        """No more rounds of the loops that are gone through are recorded, or repeated. When a
        generator begins nothing here may hold it: its end runs code, and is to come on time."""
        world = self.session.vm.world
        if type(world) is Recording:
            world.stop()
        for frame in self.session.vm.frames:
            for loop in frame.rounds.values():
                loop.left, loop.recorded, loop.program = 0, None, None


def roll(s: Any, frame: Frame, end: int) -> Any:
    """The head of a loop: see `for_loops.roll` and `Rounds.begin`."""
    return for_loops.roll(s, frame, end) or s.rounds.begin(frame, end)


@lru_cache(maxsize=1024)
def _locals(code: CodeType, start: int, end: int) -> tuple[Any, ...] | None:
    """The locals that a round may set, and those among them that are read before, or behind it.
    None where they can be read otherwise, or a round be left in the middle."""
    body = decode(code).instructions[start:end]
    if reads_frame(code) or not _LEAVING.isdisjoint(i.op for i in body):
        return None
    deleted = {i.arg for i in body if i.op == "DELETE_FAST"}  # which must be there
    stored = deleted.union(i.arg for i in body if i.op in _STORING)
    return tuple(sorted(stored)), tuple(sorted(deleted | stored & live_in(code, start - 1)))


def _may_wait(iterator: Any) -> bool:
    """True if an iterator has enough to give, and nothing happens when it dies later."""
    if type(iterator) in _JOINED:
        parts = [x for x in iterator.__reduce__()[1] if type(x) is not int]
        return all(map(_may_wait, parts))
    return type(iterator) in _LISTED and operator.length_hint(iterator) >= LEAST


class Program:
    """Questions of a round, and what the answers must be."""

    def __init__(self, before: Recording, made: Recording, frame: Frame) -> None:
        self.session, self.depth = made.session, made.depth
        self.head, self.carried = made.loop.head, made.loop.carried
        self.count = made.count
        self.events = [event for event in made.events if event is not None]
        pairs = zip(before.values, made.values, strict=True)
        self.fixed = [is_same(a, b) for a, b in pairs]
        noted = before.region.noted | made.region.noted
        stable = not (before.writes or made.writes)
        # What is there at the begin of a round: values that stay, and places for others.
        self.values = [x if same else None for x, same in zip(made.values, self.fixed, strict=True)]
        self.types = [*map(type, made.values)]
        self.given = [self._wanted(x) for x in made.given]
        self.answers: list[Any] = [self._told(event) for event in self.events]
        self.steps = [
            self._step(i, event)
            for i, event in enumerate(self.events)
            if event.answer is not None and not (stable and self._stays(event, noted))
        ]
        self.ends = self._ends(before, made, frame)
        self.names = [(event.name, event.answer is None) for event in self.events]
        self.is_whole = all(  # the functions that run are the same ones
            event.answer is not None or self._is_fixed(event.refs[0]) for event in self.events
        )
        self.events.clear()  # what they hold may die

    def _told(self, event: Event) -> Any:
        """The answer of an event that is not asked again."""
        if event.answer is None or event.answer[0] == CONSTANT:
            return event.answer and event.answer[1]
        return self.values[event.answer[1]]

    def _stays(self, event: Event, noted: set[int]) -> bool:
        """True for a question whose answer stays."""
        refs, answer = event.refs, event.answer
        return (
            event.name in READS
            and answer is not None
            and (answer[0] == CONSTANT or self.fixed[answer[1]])
            and all(map(self._is_fixed, refs))
            and all(_is_readable(x) and id(x) not in noted for x in event.operands)
        )

    def _is_fixed(self, ref: Ref) -> bool:
        if ref[0] == MADE:
            return self.fixed[ref[1]]
        return ref[0] not in (PARTS, NAMED) or all(map(self._is_fixed, ref[-1]))

    # ---- making it

    def _place(self, ref: Ref, x: Any) -> int:
        """Place of a value in the list of all."""
        if ref[0] == MADE:
            return int(ref[1])
        self.values.append(x)
        return len(self.values) - 1

    def _getter(self, refs: tuple[Ref, ...], values: Iterable[Any]) -> Callable[[Any], Any]:
        """Function that takes values from the list of all, as a tuple."""
        held = list(zip(refs, values, strict=True))
        if any(ref[0] == PARTS and not self._is_constant(ref) for ref, _ in held):
            parts = [self._one(ref, x) for ref, x in held]
            return lambda every: tuple([get(every) for get in parts])
        places = [self._place(ref, x) for ref, x in held]
        if len(places) == 1:
            (only,) = places
            return lambda every: (every[only],)
        return operator.itemgetter(*places) if places else lambda every: ()

    def _one(self, ref: Ref, x: Any) -> Callable[[Any], Any]:
        if ref[0] == PARTS and not self._is_constant(ref):
            return self._getter(ref[1], x)
        return operator.itemgetter(self._place(ref, x))

    def _is_constant(self, ref: Ref) -> bool:
        """True if a tuple can be the one that was recorded."""
        if ref[0] == PARTS:
            return all(map(self._is_constant, ref[1]))
        return ref[0] in (CONSTANT, FIXED)

    def _step(self, at: int, event: Event) -> tuple[Any, ...]:
        ask = getattr(self.session, event.name)
        if event.name == "call":
            fn, args, named = event.operands
            if self._is_fixed(event.refs[0]):
                ask = _asking_again(self.session, fn, args, named)
            place, get_args = self._place(event.refs[0], fn), self._one(event.refs[1], args)
            names, get_named = event.refs[2][1], self._getter(event.refs[2][2], named.values())

            def run(every: list[Any]) -> Any:
                if id(every[place]) in OF_FRAMES:
                    raise Other
                keywords = dict(zip(names, get_named(every), strict=True)) if names else {}
                return ask(every[place], get_args(every), keywords)

        else:
            get = self._getter(event.refs, event.operands)

            def run(every: list[Any]) -> Any:
                return ask(*get(every))

        return at, run, event.inside, event.places, self._wanted(event.answer)

    def _wanted(self, ref: Any) -> tuple[Any, ...]:
        """(kind, place or constant, type, parts); of kind FIXED what stays."""
        if ref[0] == CONSTANT:
            return CONSTANT, ref[1], None, ()
        if ref[2] is AGAIN or self.fixed[ref[1]]:
            return FIXED, ref[1], None, ()
        return MADE, ref[1], self.types[ref[1]], tuple(map(self._wanted, ref[2]))

    def _ends(self, before: Recording, made: Recording, frame: Frame) -> list[tuple[str, int]]:
        """Locals that a round sets, and where their values are then."""
        found = []
        for i, name in enumerate(made.loop.stored):
            x = frame.fast.get(name, NULL)
            stays = made.ends[i][0] == FIXED and made.starts[i] is x is before.starts[i]
            if not stays:
                found.append((name, self._place(made.ends[i], x)))
        return found

    # ---- running it

    def run(self, rounds: Rounds, frame: Frame, end: int) -> bool:
        """Go through the rounds that follow, as long as they are alike; see `Rounds.begin`."""
        loop = frame.rounds[self.head]
        while loop.program is self:
            if not rounds._take(frame, end):
                return True
            every = self.values.copy()
            now = (frame.stack[-1], *[frame.fast.get(name, NULL) for name in self.carried])
            if not all(_fits(want, x, every) for want, x in zip(self.given, now, strict=True)):
                _differs(loop)
                return True
            answers, differs = self._ask(frame, every)
            frame.pc = self.head
            if differs:
                _differs(loop)
                if answers:
                    self.session.vm.world = Repeating(self.session, self.names, answers)
                return True
            frame.stack.pop()
            frame.count += self.count
            for name, place in self.ends:
                self._set(frame, name, every[place])
            loop.credit = min(loop.credit + 1, CREDIT)
        return False

    def _set(self, frame: Frame, name: str, value: Any) -> None:
        last = frame.fast.get(name, NULL)
        if last is not NULL:
            self.session.dropping(last)
        if value is NULL:
            frame.fast.pop(name, None)
        else:
            frame.fast[name] = value

    def _ask(self, frame: Frame, every: list[Any]) -> tuple[list[Any], bool]:
        """Ask what a round asks, until an answer differs: the answers, and whether one does."""
        frames, answers = self.session.vm.frames, self.answers.copy()
        now: tuple[Frame, ...] = ()
        try:
            for at, run, inside, places, (kind, place, cls, parts) in self.steps:
                if inside is not now:
                    frames[self.depth :] = now = inside
                frame.pc = places[0]
                if inside:
                    for each, pc in zip(inside, places[1:], strict=True):
                        each.pc = pc
                answers[at] = found = run(every)
                if kind == MADE and type(found) is cls and not parts:  # most of them
                    every[place] = found
                elif kind == CONSTANT and found is place:
                    pass
                elif not _fits((kind, place, cls, parts), found, every):
                    return answers[: at + 1], True
        except Other:
            return answers[:at], True
        except Exception as error:  # noqa: BLE001 - raised again where it is interpreted
            return [*answers[:at], Raised(error)], True
        finally:
            del frames[self.depth :]
        return answers, False


def _differs(loop: Loop) -> None:
    loop.credit -= 1
    if not loop.credit:
        loop.left = 0


def _asking_again(s: Any, fn: Any, args: Any, kwargs: Any) -> Callable[..., Any]:
    """Function that calls `fn` again, on values of the types of these. Of one of `eager` on
    plain values, what `Session.native` looks at before stays, as nobody logs writes."""
    native = type(fn) is FunctionType and not kwargs and is_native(fn)
    if not native or fn in HANDLERS or False in [kind_of(a).plain for a in args]:
        return s.call
    if "repeatable" in vars(fn):
        return lambda fn, args, _: s.templates.call(fn, args)

    def run(fn: Any, args: Any, kwargs: Any) -> Any:
        if s.sizes.symbols:
            return s.call(fn, args, kwargs)
        found = fn(*args)
        return found._fn if type(found) is Callback else found

    return run


def _fits(want: tuple[Any, ...], found: Any, every: list[Any]) -> bool:
    """True if a value is what is wanted; it is put in its place."""
    kind, place, cls, parts = want
    if kind == CONSTANT:
        return is_equal(place, found)
    if kind == FIXED:
        return is_same(every[place], found)
    if type(found) is not cls or (parts and len(parts) != len(found)):
        return False
    every[place] = found
    return (
        all(_fits(want, x, every) for want, x in zip(parts, found, strict=True)) if parts else True
    )


def _is_readable(x: Any) -> bool:
    """True for what holds what it tells, and is told when it is written."""
    return not (isinstance(x, Tensor) or hasattr(type(x), "__next__") or type(x) in VIEWS)


class Other(Exception):
    """A function is called that the interpreter knows by itself."""


class Raised(NamedTuple):
    """An answer that is an exception."""

    error: Exception


class Repeating:
    """The world of a round that is interpreted after all: it repeats the answers so far."""

    def __init__(self, session: Any, names: list[tuple[str, bool]], answers: list[Any]) -> None:
        self.session, self.names, self.answers = session, names, answers
        self.at = 0  # the question that comes

    def __getattr__(self, name: str) -> Any:
        answer = getattr(self.session, name)
        return self._told(name, answer) if name in ASKED else answer

    def _told(self, name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*operands: Any) -> Any:
            at, self.at = self.at, self.at + 1
            if at >= len(self.answers):
                return answer(*operands)
            if at + 1 == len(self.answers):
                self.session.vm.world = self.session
            asked, runs_function = self.names[at]
            if asked != name:
                raise Again
            found = self.answers[at]
            if runs_function:
                return answer(*operands)
            if type(found) is Raised:
                raise found.error
            return found

        return ask
