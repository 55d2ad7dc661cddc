"""Capture: a `while` whose condition only the run knows. frame at the test -> frame behind it.

One round is interpreted on stand-ins: tensors and numbers that it replaces are carried, and what
decides whether there is another is a value of it. What can be interpreted so is the same for every
round. A round that changes anything else than its own locals, or that leaves other kinds of values,
is none, and the program splits at the test as before; so does one that has a gradient, which needs
the values of every round. After no round at all a name is still the object that it was (`Ties`).
"""

from __future__ import annotations

import functools
import operator
from types import SimpleNamespace
from typing import Any

from eager import control_flow
from eager.aval import same_aval
from eager.control_flow import handle_of
from eager.loops import fill, leaves_of, structure
from eager.repeat import Rounds, record_rounds
from eager.sym import SymNumber
from eager.tensor import Tensor
from eager.traced import Traced, UnknownValue
from jitcap.capture.breaks import Break
from jitcap.capture.changes import copied, is_loop, same_place
from jitcap.capture.interpret import NULL, Frame
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.tensors import has_own_names
from jitcap.capture.paths import Repeated, Test, looks, needed, repeated
from jitcap.capture.roll import HISTORY, NotRolled, copied_frame, is_plain
from jitcap.capture.state import State
from jitcap.tracer import DataDependent

_NUMBERS = (bool, int, float)
_INT64 = range(-(1 << 63), 1 << 63)


def repeat(s: Any, frame: Frame, value: Any) -> bool | str:
    """Whether the loop whose condition `value` decides was recorded; the frame stands behind it
    then. Else why not, if there is a loop, which nothing else ends."""
    code, index = frame.code, frame.pc - 1
    where = repeated(code, index)
    if where is None or looks(code):
        return False
    if any(loop.meets(code, index) for loop in s.rolls if isinstance(loop, Round)):
        raise Break("data dependent", "a loop that is left in several places")
    before, state = (dict(frame.fast), [*frame.stack], frame.pc), State(s)
    loops = [(v, copied(v)) for v in frame.stack if is_loop(v)]
    try:
        Round(s, frame, where, state).record(value)
    except (NotRolled, Break, DataDependent, UnknownValue) as why:
        frame.fast, frame.stack, frame.pc = before
        moved = any(not same_place(a, b) for a, b in loops)
        if moved or next(state.changes(), None) is not None:
            what = "a round of this loop changes more than its own locals"
            raise Break.aliased(what, frozenset({(code, index)})) from None
        reason = str(why.what if isinstance(why, Break) else why)
        first = s.ties.reasons.setdefault((code, where.again), reason)
        return not where.bounded and first
    return True


class Round:
    """One round on stand-ins, and what becomes of its values."""

    def __init__(self, s: Any, frame: Frame, where: Repeated, state: State) -> None:
        self.s, self.frame, self.where, self.state = s, frame, where, state
        code = frame.code
        self.left = needed(code, where.exit)
        live = needed(code, where.again) | self.left
        names = [n for n in frame.fast if n in where.stored & live]
        self.carried = [n for n in names if _can_be_carried(frame.fast[n])]
        self.fixed = {n: frame.fast.get(n, NULL) for n in live if n not in self.carried}
        self.start = [x for n in self.carried for _, x in leaves_of(frame.fast[n])]
        self.inside: Any = None  # as `roll.Trial`, for those that ask all loops
        self.given: list[Tensor] = []
        self.loop = SimpleNamespace(slices=())
        self.counts = s.tracer.counts_rounds
        self.least = 0

    def meets(self, code: Any, index: int) -> bool:
        """Whether the round ends at an instruction."""
        return code is self.frame.code and any(index == i for i, _ in self.where.round)

    def look(self, name: str) -> None:
        """As `roll.Trial`."""
        if name in HISTORY:
            raise NotRolled("a round asks for the history of a tensor")

    def item(self, x: Tensor, key: Any) -> Any:
        return MISSING

    def number(self, fn: Any, operands: tuple[Any, ...]) -> None:
        return None

    def record(self, value: Any) -> None:
        """Make the loop a node, and put the frame behind it."""
        frame, where, tracer = self.frame, self.where, self.s.tracer
        if any(isinstance(x, Tensor) and not self._may_start(x) for x in self.start):
            what = "a view, has names of its own, or needs a gradient inside other control flow"
            raise NotRolled(f"what it begins with is {what}")
        first = handle_of(tracer, self._condition(frame, where.tests, value))
        self.s.rolls.append(self)
        try:
            results = record_rounds(tracer, first, self.start, self._round, self._settles)
        finally:
            self.s.rolls.pop()
        self._finish(first, results)

    def _may_start(self, x: Tensor) -> bool:
        plain = type(x) is Tensor and is_plain(x) and (self.counts or not x.requires_grad)
        return plain and not has_own_names(self.s, x)

    def _settles(self, rounds: Rounds) -> int:
        """The number of rounds without which Python's own gradients go elsewhere, or a result is
        a leaf."""
        found = rounds.settles()
        if found is None:
            raise NotRolled("where gradients go differs from round to round")
        leaves = any(x.requires_grad and x.is_leaf for x in self.start if isinstance(x, Tensor))
        self.least = max(found, int(leaves))
        return self.least

    def _condition(self, frame: Frame, tests: tuple[Test, ...], value: Any) -> Any:
        """Whether all tests hold; `frame` stands behind the first, of `value`, and behind the last
        one afterwards. The others are made in any case: they do nothing but compute."""
        found: list[Any] = []
        for k, (index, holds) in enumerate(tests):
            if k:
                value = self._evaluated(frame, index)
            truth = control_flow.truth(value) if self.s.undecided(value) else self.s.truth(value)
            truth = truth if holds else _negated(truth)
            if truth is False:
                raise NotRolled("it is left at once")
            found += [truth] if truth is not True else []
            ins = frame.bytecode.instructions[index]
            frame.pc = ins.target if (ins.op == "POP_JUMP_IF_TRUE") is holds else index + 1
        return functools.reduce(operator.and_, found) if found else True

    def _evaluated(self, frame: Frame, end: int) -> Any:
        """The value on which the instruction `end` jumps."""
        while frame.pc != end:
            if frame.pc == self.where.exit or self.s.vm.step(frame) is not None:
                raise NotRolled("it is left in the middle")
        frame.pc += 1
        return frame.pop()

    def _round(self, stands: list[Any]) -> tuple[Any, list[Any]]:
        """Whether there is another one, and what is carried on."""
        s, frame, where = self.s, self.frame, self.where
        self.inside = s.tracer.inside
        self.given = [x for x in stands if isinstance(x, Tensor)]
        inner = copied_frame(frame)
        inner.stack = [*frame.stack]
        given = iter(stands)
        for name in self.carried:
            tree = frame.fast[name]
            inner.fast[name] = fill(tree, [next(given) for _ in leaves_of(tree)])
        inner.pc = where.again
        s.vm.frames.append(inner)
        try:
            last = self._evaluated(inner, where.round[0][0])
            go = self._condition(inner, where.round, last)
        finally:
            s.vm.frames.pop()
        same = len(inner.stack) == len(frame.stack)
        if not same or any(a is not b for a, b in zip(inner.stack, frame.stack, strict=True)):
            raise NotRolled("a round leaves something behind on the stack")
        if any(inner.fast.get(n, NULL) is not x for n, x in self.fixed.items()):
            raise NotRolled("a round replaces what is no tensor or number")
        return go, self._ends(inner)

    def _ends(self, inner: Frame) -> list[Any]:
        """What is carried on."""
        ends: list[Any] = []
        for name in self.carried:
            before, after = self.frame.fast[name], inner.fast.get(name, NULL)
            if not _can_be_carried(after) or structure(before) != structure(after):
                raise NotRolled("a round leaves another kind of value")
            pairs = zip(leaves_of(before), leaves_of(after), strict=True)
            if not all(_is_like(a, b) for (_, a), (_, b) in pairs):
                raise NotRolled("a round leaves another shape, dtype or type")
            ends += [x for _, x in leaves_of(after)]
        tensors = [x for x in ends if isinstance(x, Tensor)]
        own = [x for x in tensors if not any(x is g for g in self.given)]
        memories = {id(x._array.storage) for x in own if self._is_new(x)}
        if len(memories) < len(own):
            raise NotRolled("what a round leaves shares memory")
        could_be = [m for x in own for m in self.s.ties.together(x._array.storage)]
        stands = {id(g._array.storage) for g in self.given}
        others = [m for m in could_be if m.part is not self.inside]
        if not {id(m) for m in others} <= stands:
            raise NotRolled("what a round leaves may be memory of something else")
        self.passed = len(own) < len(tensors) or len(could_be) > len(own)
        return ends

    def _is_new(self, x: Tensor) -> bool:
        """Whether a tensor has memory that the round has made."""
        array = x._array
        new = type(array) is Traced and array.storage.part is self.inside
        plain = type(x) is Tensor and is_plain(x) and (self.counts or not x.requires_grad)
        return new and plain

    def _finish(self, first: Any, results: list[Any]) -> None:
        s, frame, where = self.s, self.frame, self.where
        given = iter(results)
        for name in self.carried:
            tree = frame.fast[name]
            frame.fast[name] = fill(tree, [next(given) for _ in leaves_of(tree)])
        for name in where.stored - self.left:
            frame.fast.pop(name, None)
        site = frame.code, where.tests[0][0]
        pairs = zip(self.start, results, strict=True)
        tensors = [(x, result) for x, result in pairs if isinstance(x, Tensor)]
        for x, result in tensors:
            others = [*(y for y, _ in tensors), *(r for _, r in tensors if r is not result)]
            sources = [y for y in others if (y is x and not self.least) or self.passed]
            s.ties.add(site, result, [(y, _memory(s, y)) for y in sources], hidden=False)
            if s.tracer.inside is None and not self.least:
                s.ties.objects[id(result)] = first, [x, None]
        s.ties.branched.add(frame.code)
        frame.pc = where.exit
        place = s.where().place
        s.rolled.append(f"{place}: a loop on a value of the run is one while_loop")


def _can_be_carried(value: Any) -> bool:
    """A tensor, a number of the graph's, or a tuple of such."""
    if type(value) is tuple:
        return bool(value) and all(map(_can_be_carried, value))
    if isinstance(value, SymNumber):
        return value.pytype in _NUMBERS
    if type(value) is int:
        return value in _INT64
    return isinstance(value, Tensor) or type(value) in _NUMBERS


def _is_like(a: Any, b: Any) -> bool:
    """Whether one may follow the other."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return same_aval(a.aval, b.aval)
    return bool(control_flow.kind_of(a) == control_flow.kind_of(b))


def _negated(truth: Any) -> Any:
    return not truth if isinstance(truth, bool) else truth.logical_not()


def _memory(s: Any, x: Tensor) -> Any:
    array: Any = x._array if type(x._array) is Traced else s.tracer.lift(x)
    return array.storage
