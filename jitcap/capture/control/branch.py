"""Capture: a branch of the program on a value that only the run knows. bytecode -> one node.

Both ways are interpreted, each from the state before the branch, up to where they meet (`cfg`),
and what differs afterwards becomes outputs of one choice: locals, the return value, attributes,
entries of dictionaries and lists, `.grad`, memory that is written in place. What two ways leave
behind must be of one kind, or be used by nobody any more. A way that only raises is a check.

What cannot be said so is refused, as any question to such a value: the program splits there. Two
names may stand for one object after one way and for two after the other; as long as nobody can
tell (a write, `is`, both are returned) they are two (`Ties`), else capture begins again and takes
that branch for one that splits.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, Final

from eager.base.dataclass import dataclass
from eager.control_flow import cond as control_flow
from eager.core.grad_fn_names import joined, label_of, put_name
from eager.core.sym import SymNumber
from eager.core.tape import mode, sequence_now
from eager.core.tensor import UNREAD, Tensor
from eager.core.traced import Traced, UnknownValue
from eager.sizes.aval import scalar_aval
from jitcap.base.breaks import Break
from jitcap.base.modes import Modes
from jitcap.capture.control.arm_compatibility import (
    FirstTime,
    OneSided,
    check_histories,
    is_contiguous,
    is_placed,
)
from jitcap.capture.control.cfg import (
    EXIT,
    behind,
    immediate_postdominator,
    in_loop,
    live_in,
    reads_frame,
    returns,
)
from jitcap.capture.control.checkpoint import (
    Change,
    Checkpoint,
    Differ,
    Spoiled,
    copies,
    is_loop,
    same_place,
)
from jitcap.capture.control.histories import (
    Overwritten,
    Unsayable,
    versions_of,
)
from jitcap.capture.control.loop_exits import STOP, RoundEnd, end_inside
from jitcap.capture.control.may_alias import has_memory, memory_of, truths_of, with_truths
from jitcap.capture.control.phi import Phi, made_inside, shown_by
from jitcap.capture.control.while_loops import repeat
from jitcap.capture.inputs import Shadow
from jitcap.capture.interpret import CO_ASYNC, CO_GENERATOR, Done, Frame
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.contents import Place
from jitcap.capture.numbers import constant
from jitcap.graph.tracer import DataDependent, is_on_device

DEEPEST: Final = 10  # branches in branches
MOST_APART: Final = 3  # of these, such whose ways go on to the return: what is there is read twice
_REFUSALS: Final = (Break, DataDependent, UnknownValue, Unsayable)
_ONE_WAY: Final = "in one way, "
_BOOL: Final = "bool() of a value that is known only when the program runs"
# Where a way begins, and what is on the stack besides (or what makes it there, or ends there).
Start = tuple[int, tuple[Any, ...] | Callable[[], tuple[Any, ...] | Done]]


@dataclass(eq=False)
class Way:
    """One way that was interpreted: how it ended, what it left, and its part of the graph."""

    frame: dict[str, Any] = field(default_factory=dict)
    stack: list[Any] = field(default_factory=list)
    done: Done | None = None
    changes: dict[Any, Change] = field(default_factory=dict)
    handles: dict[int, Any] = field(default_factory=dict)  # by id of a tensor or number
    modes: Modes = field(default_factory=Modes.now)
    part: Any = None
    inside: Any = None
    span: tuple[float, float] = (0, 0)
    alive: list[Any] = field(default_factory=list)
    versions: dict[int, tuple[Any, int]] = field(default_factory=dict)
    counts: dict[int, Any] = field(default_factory=dict)  # of them what only the run knows
    written: dict[Any, Any] = field(default_factory=dict)  # traced memory -> its value
    places: dict[int, tuple[Tensor, Place]] = field(default_factory=dict)  # see `histories`
    used: list[Any] = field(default_factory=list)  # nodes of the tape, and what each had saved
    calls: list[Any] = field(default_factory=list)  # of the host

    def after(self, key: Any, change: Change) -> Any:
        """Value of an entry after this way."""
        own = self.changes.get(key)
        value = change.before if own is None else own.after
        if value is UNREAD:
            value = change.obj.twin.grad
        if value is MISSING:
            raise Unsayable(f"{change.show()} is there after one way only")
        return value

    def handle(self, tracer: Any, leaf: Any) -> Any:
        if id(leaf) in self.handles:
            return self.handles[id(leaf)]
        if not isinstance(leaf, Tensor):
            return leaf.handle if isinstance(leaf, SymNumber) else leaf
        array = leaf._array if type(leaf._array) is Traced else tracer.lift(leaf)
        return self.written.get(array.storage) or array.read()


def decides(session: Any, value: Any) -> bool:
    """True if the truth of a value is known only at run time."""
    if isinstance(value, SymNumber):
        return value.pytype in (bool, int, float) and constant(session, value) is None
    if type(value) is not Tensor or session.special(value, "__bool__") is not None:
        return False
    array = value._array
    return type(array) is Traced and array.size == 1 and session.tracer.value(array.read()) is None


def as_bool(session: Any, value: Any) -> Any:
    """`bool(value)`: a run-time number of what only the run knows."""
    if type(value) is bool or not decides(session, value):
        return session.truth(value)
    return session.compare("!=", _number_of(session, value), 0)


def negation(session: Any, value: Any) -> Any:
    """`not value`."""
    if type(value) is bool or not decides(session, value):
        return not session.truth(value)
    return session.compare("==", _number_of(session, value), 0)


def _number_of(session: Any, value: Any) -> Any:
    return value if isinstance(value, SymNumber) else session.tracer.item(value._array)


def either(session: Any, frame: Frame, value: Any, starts: tuple[Start, Start]) -> Done | None:
    """Both ways, or the one that a search for refusals decides for: see `branch`."""
    vm, search = session.vm, session.search
    step_over, vm.step_over = vm.step_over, None
    try:
        done = branch(session, frame, value, starts)
        session.ties.branched.add(frame.code)
        return done
    except Break as refusal:
        if search is None or session.ties.open:
            raise
        search.because = refusal.record().because
    finally:
        vm.step_over = step_over
    truth = session.truth(value)
    search.because = None
    return _begin(frame, starts[truth])


def _begin(frame: Frame, start: Start) -> Done | None:
    frame.pc, more = start
    found = more() if callable(more) else more
    if isinstance(found, Done):
        return found
    frame.stack += found
    return None


def branch(session: Any, frame: Frame, value: Any, starts: tuple[Start, Start]) -> Done | None:
    """Interpret both ways (the first if the value is false) from `frame`, which is moved to where
    they meet; or what both return. Raises Break where one cannot be captured or they do not fit."""
    index, code = frame.pc - 1, frame.code
    if not session.outside.assumed.sites.isdisjoint(((code, index), (code, None))):
        raise _refusal()
    if code.co_flags & (CO_GENERATOR | CO_ASYNC):
        raise _refusal()
    pick = control_flow.decide(value)[1]
    open_ways = [returns(code, pc) for pc, _ in starts]
    if open_ways.count(True) == 1:
        what = "an exception is raised"
        return _only(session, frame, starts, open_ways.index(True), pick, what)
    if is_on_device(session.tracer):
        raise _refusal("there is no kernel of a branch or a loop on a device")

    def merge(meets: Any, ways: tuple[Start, Start], truth: Any) -> Done | None:
        tracer, pick = control_flow.decide(truth)
        if tracer is None:  # it is known: of sizes, or since the loop around it was looked at
            return _begin(frame, ways[pick])
        return _Branch(session, frame, ways, tracer, pick, meets).run()

    loop = repeat(session, frame, value, starts, merge)
    if loop is True or isinstance(loop, Done):
        return None if loop is True else loop
    site, opened = (code, index), session.ties.open
    if loop and site in opened:
        raise _refusal(f"a loop that is not one graph: {loop}")
    if len(opened) >= DEEPEST or not any(open_ways) or reads_frame(code):
        raise _refusal()
    opened.append(site)
    try:
        return _met(session, frame, index, lambda meets: merge(meets, starts, value))
    except (OneSided, FirstTime) as why:
        if session.rolls:  # some steps go one way, some the other
            raise _refusal(str(why)) from why
        way, expected = why.way, why.expected
    except Unsayable as why:
        raise _refusal(str(why)) from why
    finally:
        opened.pop()
    return _only(session, frame, starts, way, pick, expected)


def _met(s: Any, frame: Frame, index: int, merge: Callable[[Any], Done | None]) -> Done | None:
    """Both ways up to where they meet; if they come there with unlike values, to where one of the
    next statements ends, which may be the last to use them, or to the return."""
    meets = end_inside(s, frame, index) or immediate_postdominator(frame.code, index)
    try:
        return merge(meets)
    except Differ as why:
        differ = why
    if meets == EXIT or isinstance(meets, RoundEnd) or s.ties.apart == MOST_APART:
        raise differ
    s.ties.apart += 1
    try:
        for further in behind(frame.code, index):
            with suppress(Differ):
                return merge(further)
        if in_loop(frame.code, index):
            raise differ
        return merge(EXIT)
    except Unsayable as why:
        clean = not isinstance(why, Spoiled)
        raise differ if clean and isinstance(differ, OneSided) else why from None
    finally:
        s.ties.apart -= 1


def _refusal(why: str = "") -> Break:
    return Break("data dependent", f"{_BOOL}: {why}" if why else _BOOL)


def _only(
    session: Any, frame: Frame, starts: tuple[Start, Start], way: int, pick: Any, what: str
) -> Done | None:
    """Go one way; a run that would take the other is given up."""
    tracer = session.tracer
    holds = tracer.truth(pick, bool(way))
    tracer.check(what, holds)
    return _begin(frame, starts[way])


class _Branch:
    """Both ways of one branch, and what they come to."""

    def __init__(
        self, session: Any, frame: Frame, starts: tuple[Start, Start], tracer: Any, pick: Any,
        meets: int | RoundEnd,
    ) -> None:  # fmt: skip
        self.session, self.frame, self.starts = session, frame, starts
        self.tracer, self.pick, self.meets = tracer, pick, meets
        self.key = frame.code, frame.pc - 1
        self.before = Checkpoint(session, frame)
        self.read: frozenset[str] = frozenset()
        if isinstance(meets, RoundEnd):
            self.read = meets.live_in
        elif meets != EXIT:
            self.read = live_in(frame.code, meets)
        self.ways: list[Way] = []
        self.handles: list[Any] = []
        self.loops = self.before.private_iterators()

    def run(self) -> Done | None:
        try:
            with self.before:
                return self._run()
        except BaseException:
            self.before.restore_frame()
            raise

    def _run(self) -> Done | None:
        for k, start in enumerate(self.starts):
            try:
                self.ways.append(self._interpret(start))
            except Unsayable as why:
                raise (Spoiled(*why.args) if self.before.spoiled else why) from None
            except _REFUSALS as why:
                if isinstance(why, Break) and why.lesson is not None:
                    raise
                if isinstance(why, Break) and why.leaves and not self.before.spoiled:
                    self.before.restore_frame()
                    return _only(self.session, self.frame, self.starts, 1 - k, self.pick, why.what)
                what = why.what if isinstance(why, Break) else str(why)
                inmost = what.rpartition(_ONE_WAY)[2].removeprefix(f"{_BOOL}: ")
                kind = Spoiled if self.before.spoiled else Unsayable
                raise kind(_ONE_WAY + inmost) from why  # of several branches, the last
            except (Exception, GeneratorExit) as error:  # noqa: BLE001 - the program's: see `_only`
                self.before.restore_frame()
                what = f"a {type(error).__name__} is raised"
                return _only(self.session, self.frame, self.starts, 1 - k, self.pick, what)
        first, second = self.ways
        if (first.done is None) != (second.done is None) or first.modes != second.modes:
            raise Differ("the ways end in different ways")
        self.spans = [way.span for way in self.ways]
        self.overwritten = Overwritten([way.places for way in self.ways])
        changed = {id(c.obj) for way in self.ways for c in way.changes.values()}
        last = SymNumber(self.tracer, bool, self.pick) if self._is_last() else None
        used = [{id(node) for node, _ in way.used} for way in self.ways]
        self.both = Phi(
            self.session, self._was_there, self.spans, self.overwritten, changed, last, used
        )
        merged = self._template()
        for pair in self.overwritten.pairs():
            check_histories(self.spans, *pair)
        writes = self._writes()
        versions = versions_of([way.versions for way in self.ways])
        for node, _ in (pair for way in self.ways for pair in way.used):
            node.release()
        self._choose(writes, versions)
        done = self._finish(merged, writes, versions)
        for whole, same in self.both.ties():
            self.session.ties.add_whole(self.key, whole, same)
        return done

    # ---- one way

    def _interpret(self, start: Start) -> Way:
        way, frame, vm = Way(), self.frame, self.session.vm
        functions = len(self.tracer.functions)
        used, mode.used = mode.used, way.used

        def run() -> None:
            self.before.restore_frame()
            frame.stack = copies(frame.stack, self.loops, self.session.tried)
            way.inside, begin = self.tracer.inside, sequence_now()
            try:
                way.done = _begin(frame, start)
                while way.done is None and not self._is_met(frame):
                    way.done = vm.step(frame)
                way.span = begin, sequence_now()
                if way.done is not None and way.done.suspended:
                    raise Unsayable("a way is left in the middle")
                self._take(way)
            except (Exception, GeneratorExit) as error:
                leaves = isinstance(error, Break) and error.leaves
                self.before.look_back(isinstance(error, _REFUSALS) and not leaves)
                raise

        try:
            _, way.part = self.tracer.part(run, own=True)
        finally:
            mode.used = used
            for node, saved in way.used:  # up by this way alone
                node.saved = saved
            del vm.frames[self.before.depth :]
            self.before.put_back()
        if len(self.tracer.functions) > functions:
            raise Unsayable("a Function is on the tape of one way")
        way.written = dict(way.part.writes)
        return way

    def _is_met(self, frame: Frame) -> bool:
        meets = self.meets
        return meets.reached(frame) if isinstance(meets, RoundEnd) else frame.pc == meets

    def _take(self, way: Way) -> None:
        """Record the state that the way has left, with the handles of its tensors and numbers in
        the graph."""
        frame = self.frame
        if frame.handled != self.before.handled:
            raise Unsayable("an exception is being handled")
        if way.done is None:
            way.frame, way.stack = dict(frame.fast), list(frame.stack)
        way.modes = Modes.now()
        way.changes, way.versions = self.before.changes()
        way.places = self.before.overwritten()
        for key, (storage, version) in way.versions.items():
            if more := self.before.open_writes(storage):
                way.counts[key] = (sum(more) + version).handle
        found: list[Any] = [*way.stack, *(way.frame.get(n) for n in self.read)]
        found += [c.after for c in way.changes.values()]
        found += [way.done.value] if way.done is not None else []
        way.calls = self.before.calls()
        found += shown_by(way.calls)
        for leaf in made_inside(found, self._was_there):
            way.handles[id(leaf)] = control_flow.handle_of(self.tracer, leaf)
            way.alive.append(leaf)  # an id is only unique while the object lives

    # ---- both ways

    def _template(self) -> dict[str, Any]:
        """Merged state of both ways, with a `_Slot` for each value that is chosen."""
        first, second = self.ways
        found: dict[str, Any] = {"changes": {}}
        new = [[k for k, c in w.changes.items() if c.before is MISSING] for w in self.ways]
        new = [sorted(keys, key=operator.itemgetter(0)) for keys in new]  # of one object, in order
        if new[0] != new[1]:
            what = "what one way adds, the other does not, or in another order"
            more = int(len(new[1]) > len(new[0]))
            extra = {*new[more]} - {*new[1 - more]}
            # Of what a call makes itself, each time is the first.
            kept = all(isinstance(self.ways[more].changes[k].obj, Shadow) for k in extra)
            first_time = kept and len(extra) == len(new[more]) - len(new[1 - more])
            raise self._ahead(what, more) if first_time else Unsayable(what)
        if first.done is not None and second.done is not None:
            found["value"] = self.both.values(first.done.value, second.done.value)
        else:
            if len(first.stack) != len(second.stack):
                raise Unsayable("the ways meet with different stacks")
            pairs = zip(first.stack, second.stack, strict=True)
            found["stack"] = [self.both.values(a, b) for a, b in pairs]
            found["fast"] = self.both.locals(first.frame, second.frame, self.read)
        for key in {**first.changes, **second.changes}:
            change = first.changes.get(key) or second.changes[key]
            a, b = (way.after(key, change) for way in self.ways)
            if key[1] == "_grad" and (a is None) != (b is None) and self.both.last is None:
                raise self._ahead("one way leaves no gradient", a is None)
            found["changes"][key] = change, self.both.values(a, b)
        found["calls"] = self.both.calls([way.calls for way in self.ways])
        return found

    def _ahead(self, what: str, way: int) -> Unsayable:
        """The refusal of what one way adds: if it computes more, the other one is the exception."""
        sizes = [len(each.part.nodes) for each in self.ways]
        return FirstTime(what, way) if sizes[way] > sizes[1 - way] else Unsayable(what)

    def _is_last(self) -> bool:
        """True if nothing of the call is interpreted behind this branch."""
        return self.meets == EXIT and self.frame is self.session.vm.frames[0]

    def _writes(self) -> list[Any]:
        """The memory from outside that a way has written."""
        found = list(dict.fromkeys(m for way in self.ways for m in way.written))
        for memory in found:
            self.session.ties.wrote(memory)
        return found

    def _open(self, row: tuple[Any, int, int, int]) -> bool:
        """True if the number of writes to memory is known only to the run."""
        return row[2] != row[3] or any(id(row[0]) in way.counts for way in self.ways)

    def _choose(self, writes: Sequence[Any], versions: Sequence[tuple[Any, int, int, int]]) -> None:
        """The node, and what its outputs are."""
        avals = [control_flow.aval_of(a) for a, _ in self.both.leaves]
        told = self.session.ties.told
        objects = [[told(x, self._was_there) for x in pair] for pair in self.both.leaves]
        rows = [
            [way.handle(self.tracer, pair[k]) for pair in self.both.leaves]
            + [way.written.get(m, m.handle) for m in writes]
            + [way.counts.get(id(row[0]), row[2 + k]) for row in versions if self._open(row)]
            for k, way in enumerate(self.ways)
        ]
        counts = [scalar_aval(0) for row in versions if self._open(row)]
        every = [*avals, *(m.aval for m in writes), *counts]
        asked = [(k, t) for pair in objects for k, x in enumerate(pair) for t in truths_of(x)]
        for k, row in enumerate(rows):  # what decided inside of a way, for what is outside
            row += [truth if at == k else False for at, truth in asked]
        parts = [way.part for way in self.ways]
        given = list(
            self.tracer.choice(self.pick, parts, rows, [*every, *(t.aval for _, t in asked)])
        )
        self.handles, outer = given[: len(every)], iter(given[len(every) :])
        self.both.results = [
            control_flow.value_of(self.tracer, a, handle, aval)
            for (a, _), handle, aval in zip(self.both.leaves, self.handles, avals, strict=False)
        ]
        places = [i for i, r in enumerate(self.both.results) if isinstance(r, Tensor)]
        overwritten = self.overwritten
        pairs = [*(overwritten.as_left(*self.both.leaves[i]) for i in places), *overwritten.pairs()]
        results, anew = [self.both.results[i] for i in places], overwritten.results()
        rows = [[pair[k] for pair in pairs] for k in range(2)]
        control_flow.record(self.tracer, self.pick, rows, self.spans, [*results, *anew])
        hidden = overwritten.put(self.pick, anew)
        self.session.ties.hidden += [(self.key, t) for t in hidden]
        known = [[with_truths(x, outer) for x in pair] for pair in objects]
        for i in places:
            result, (a, b) = self.both.results[i], self.both.leaves[i]
            result._storage.version = max(a._storage.version, b._storage.version)
            self._tie(result, known[i], a, b)

    def _was_there(self, x: Any) -> bool:
        """True if an object was made by no branch: it was there before, or was loaded since."""
        return self.session.outside.shadow(x) is not None or self.before.was_there(x)

    def _tie(self, result: Tensor, objects: list[Any], a: Tensor, b: Tensor) -> None:
        """Note what the result could be the same as."""
        sources: list[Any] = []
        loose: list[Any] = []
        ties = self.session.ties
        pairs = zip(self.overwritten.as_left(a, b), objects, strict=True)
        blanks = self.both.blanks
        new = [x for x, known in pairs if known is None and not any(x is b for b in blanks)]
        for k, (x, way) in enumerate(zip((a, b), self.ways, strict=True)):
            array = x._array if type(x._array) is Traced else self.tracer.lift(x)
            again = sum(has_memory(self.session, pair[k], array) for pair in self.both.leaves) > 1
            storage = array.storage
            own = storage.part is way.inside and id(storage) not in ties.frozen
            own = own and storage.picked is None  # a part of something else
            if self._was_there(x) or again or not own:
                sources.append((x, array.storage))
                if objects[k] is not x:
                    loose += ties.untold(x, again or objects[k] is None, self._was_there)
        labels = [*map(label_of, new)]
        label = joined(self.pick, labels) if len(labels) > 1 else next(iter(labels), None)
        put_name(result, label)
        hidden = result._node is not None and label is None
        known = (self.pick, objects) if objects != [None, None] else None
        ties.add(self.key, result, sources, hidden=hidden, objects=known, loose=loose)
        if any(is_placed(self.session, x) for x in (a, b)):
            memory, gaps = memory_of(self.session, result), not all(map(is_contiguous, (a, b)))
            ties.placed[id(memory)] = self.key, result, gaps

    def _finish(
        self, merged: dict[str, Any], writes: Sequence[Any], versions: Sequence[Any]
    ) -> Done | None:
        frame = self.frame
        self.before.restore_frame()
        for change, value in merged["changes"].values():
            change.put(self.both.fill(value))
        self.session.host_calls += map(self.both.made_call, merged["calls"])
        self.ways[0].modes.put()
        rest = iter(self.handles[len(self.both.leaves) :])
        for memory in writes:
            self.tracer.touch(memory)
            memory.handle, memory.generation = next(rest), memory.generation + 1
        for row in versions:
            storage, _, *after = row
            if self._open(row):
                count = SymNumber(self.tracer, int, next(rest))
                self.session.counts.setdefault(id(storage), []).append((storage, max(after), count))
            storage.version = max(after)
        if "value" in merged:
            return Done(self.both.fill(merged["value"]))
        frame.fast = {k: self.both.fill(v) for k, v in merged["fast"].items()}
        frame.stack = [self.both.fill(v) for v in merged["stack"]]
        for i, loop in enumerate(self.before.stack[: len(frame.stack)]):
            if id(loop) in self.loops and is_loop(frame.stack[i]):
                frame.stack[i] = loop if same_place(loop, frame.stack[i]) else frame.stack[i]
        frame.pc = STOP if isinstance(self.meets, RoundEnd) else self.meets
        return None


ANSWERS: Final = (decides, either, as_bool, negation)  # what the interpreter asks
