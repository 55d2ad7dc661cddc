"""Capture: a round of a loop that is recorded. round -> questions of the interpreter, and answers.

Values are named by where they come from: the item, an answer, a local of the round before; or by
themselves. See `rounds`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import BuiltinFunctionType, EllipsisType, FunctionType, MethodType, NoneType
from typing import Any, Final, NamedTuple

from eager.core.tensor import Tensor
from jitcap.base.equality import identity
from jitcap.capture.control.log import Region
from jitcap.capture.interpret import NULL, Frame
from jitcap.capture.kinds.base import HANDLERS
from jitcap.capture.kinds.functions import is_inlined

LONGEST: Final = 1000  # operations of a round
# What the interpreter asks, and looks into no answer but a constant or a tuple. Of some the answer
# stays as long as nobody writes to what they are about.
READS: Final = frozenset(
    "binary unary compare contains same truth as_bool negation undecided getattr method getitem "
    "load_global load_builtin load_cell super_getattr type_flags".split()
)
ASKED: Final = READS | frozenset("call setattr delattr setitem delitem format convert".split())
_PASSING: Final = frozenset({"dropping", "turn"})  # nothing is answered
_PLAIN: Final = frozenset(  # of these the value counts
    {NoneType, bool, int, float, complex, str, bytes, EllipsisType}
)
# References to values: (kind, what)
CONSTANT, MADE, FRAME, PARTS, NAMED, FIXED = range(6)
AGAIN: Final = object()  # in place of the parts of a value that is known
Ref = tuple[Any, ...]


class Event(NamedTuple):
    """A question: its operands; what was answered (None: it ran a function whose questions follow);
    the frames inside of the loop's, and where all of them stood."""

    name: str
    operands: tuple[Any, ...]
    refs: tuple[Ref, ...]
    answer: Ref | None
    inside: tuple[Frame, ...]
    places: tuple[int, ...]


class Noting(Region):
    """Ids of the objects that are written, or may be."""

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.noted: set[int] = set()

    def note(self, obj: Any) -> None:
        shadow = self.session.outside.by_twin.get(id(obj))
        self.noted |= {id(obj)} if shadow is None else {id(x.twin) for x in shadow.parts()}

    def take(self, inner: Region) -> None:
        self.noted |= inner.records.keys()


class Recording:
    """The world of one round; see `interpret.World`."""

    def __init__(
        self, session: Any, loop: Any, frame: Frame, keep: Callable[[Any, Frame], None]
    ) -> None:
        """`keep` gets the round when it is over."""
        self.session, self.loop, self.keep = session, loop, keep
        self.frame: Frame | None = frame  # until then
        vm = self.session.vm
        self.depth = len(vm.frames)  # of the frames inside
        self.inside: tuple[Frame, ...] = ()  # by the last question
        self.is_over = self.writes = False  # writes: to what is no tensor
        self.events: list[Event | None] = []
        self.values: list[Any] = []  # that are given or answered
        self.numbers: dict[int, int] = {}  # of these, by id
        self.starts = [frame.fast.get(name, NULL) for name in loop.stored]
        given = (frame.stack[-1], *(frame.fast.get(name, NULL) for name in loop.carried))
        self.given = [self._known(x) for x in given]
        self.ends: list[Ref] = []
        self.count = frame.count
        self.region = Noting(self.session)
        self.region.open()

    # ---- the world

    def roll(self, frame: Frame, end: int) -> Any:
        """The head of a loop: the round is over, or it has a loop, and is none to repeat."""
        if frame is self.frame and frame.pc == self.loop.head:
            fast = frame.fast
            self.ends = [self._ref(fast.get(name, NULL)) for name in self.loop.stored]
            self.count = frame.count - self.count
            self._end()
            self.keep(self, frame)
        self.stop()
        return self.session.roll(frame, end)

    def __getattr__(self, name: str) -> Any:
        answer = getattr(self.session, name)
        if name not in _PASSING:
            return self._asking(name, answer) if name in ASKED else self._stopping(answer)
        return answer

    def _stopping(self, answer: Callable[..., Any]) -> Callable[..., Any]:
        def run(*operands: Any) -> Any:
            self.stop()
            return answer(*operands)

        return run

    def _asking(self, name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*operands: Any) -> Any:
            if not self._is_inside():
                return answer(*operands)
            at = len(self.events)
            refs = tuple(map(self._ref, operands))
            if name == "call":
                named = operands[2]
                refs = *refs[:2], (NAMED, tuple(named), tuple(map(self._ref, named.values())))
            frames = self.session.vm.frames
            inside = tuple(frames[self.depth :])
            if len(inside) == len(self.inside) and all(map(operator.is_, inside, self.inside)):
                inside = self.inside
            self.inside = inside
            places = tuple([f.pc for f in frames[self.depth - 1 :]])
            self.events.append(None)
            try:
                found = answer(*operands)
            except BaseException:
                self.stop()
                raise
            if not self.is_over:
                self._note(at, name, operands, refs, inside, places, found)
            return found

        return ask

    def _note(
        self, at: int, name: str, operands: Any, refs: Any, inside: Any, places: Any, found: Any
    ) -> None:
        ran = len(self.events) > at + 1
        if ran and not (name == "call" and _is_inlined(operands[0])):
            self.stop()
            return
        if name.startswith(("set", "del")) and not isinstance(operands[0], Tensor):
            self.writes = True
        known = None if ran else self._known(found)
        self.events[at] = Event(name, operands, refs, known, inside, places)

    def _is_inside(self) -> bool:
        frames = self.session.vm.frames
        if self.is_over:
            return False
        inside = len(frames) >= self.depth and frames[self.depth - 1] is self.frame
        if not inside or len(self.events) >= LONGEST:
            self.stop()
        return not self.is_over

    def _end(self) -> None:
        self.is_over, self.frame = True, None
        self.session.vm.world = self.session
        self.session.log.open.remove(self.region)  # one inside of it may be open

    def stop(self) -> None:
        """Let go of all: this is no round to repeat."""
        if not self.is_over:
            self._end()
            self.inside = ()
            for each in (self.events, self.values, self.starts, self.given, self.ends):
                each.clear()

    # ---- values

    def _known(self, x: Any) -> Ref:
        """Note a value that is given or answered."""
        if type(x) in _PLAIN or id(x) in self.numbers:
            return self._ref(x)
        self.numbers[id(x)] = number = len(self.values)
        self.values.append(x)
        parts = tuple(map(self._known, x)) if type(x) is tuple else ()
        return MADE, number, parts

    def _ref(self, x: Any) -> Ref:
        kind = type(x)
        if kind in _PLAIN:
            return CONSTANT, x
        if id(x) in self.numbers:
            return MADE, self.numbers[id(x)], AGAIN
        if kind is Frame:
            frames = self.session.vm.frames[self.depth - 1 :]
            return FRAME, next((i for i, f in enumerate(frames) if f is x), -1)
        if kind is tuple:
            return PARTS, tuple(map(self._ref, x))
        return FIXED, x

    def is_like(self, other: Recording) -> bool:
        """True if the next round asked the same."""
        pairs = list(zip(self.events, other.events, strict=False))
        return (
            len(self.events) == len(other.events)
            and len(self.values) == len(other.values)
            and all(map(_alike, self.given, other.given))
            and all(map(_alike, self.ends, other.ends))
            and all(map(operator.is_, map(type, self.values), map(type, other.values)))
            and all(a is not None and b is not None and _same_event(a, b) for a, b in pairs)
        )


def _same_event(a: Event, b: Event) -> bool:
    return (
        a.name == b.name
        and a.places == b.places
        and len(a.refs) == len(b.refs)
        and (a.answer is None) is (b.answer is None)
        and all(map(_alike, a.refs, b.refs))
        and (a.answer is None or b.answer is None or _alike(a.answer, b.answer))
        and all(f.code is g.code for f, g in zip(a.inside, b.inside, strict=True))
    )


def _alike(a: Ref, b: Ref) -> bool:
    """True if two references are to the same place, or the very same value."""
    if a[0] != b[0]:
        return False
    if a[0] == CONSTANT:
        return is_equal(a[1], b[1])
    if a[0] == FIXED:
        return is_same(a[1], b[1])
    if a[0] in (PARTS, NAMED):
        *names, parts = a[1:]
        *others, held = b[1:]
        return names == others and len(parts) == len(held) and all(map(_alike, parts, held))
    if a[0] == MADE and (a[2] is AGAIN or b[2] is AGAIN):
        return a[1] == b[1] and a[2] is b[2]
    return a[1] == b[1] and (a[0] == FRAME or _alike((PARTS, a[2]), (PARTS, b[2])))


def is_equal(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and identity(a) == identity(b))


def is_same(a: Any, b: Any) -> bool:
    """True for one object, or one method of it."""
    if a is b or type(a) is not type(b):
        return a is b
    if type(a) is MethodType:
        return a.__self__ is b.__self__ and a.__func__ is b.__func__
    return type(a) is BuiltinFunctionType and bool(a == b)  # which is about identity


def _is_inlined(fn: Any) -> bool:
    while type(fn) is MethodType and fn not in HANDLERS:
        fn = fn.__func__
    return type(fn) is FunctionType and is_inlined(fn)
