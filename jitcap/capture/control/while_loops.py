"""Capture: a `while` whose condition only the run knows. frame at a test -> frame behind the loop.

One round is interpreted on stand-ins, from where the loop begins to where it begins again or is
left (`RoundEnd`); branches in it are choices, which are over there at the latest. What a round
replaces is carried: tensors and numbers in locals, in attributes and entries that are there, and
memory that it writes in place. That is found by trying: a round that changes what is not carried
yet is read once more. Whatever else it changes (a list grows, something is printed), or another
kind of value that it leaves, makes it no round, and the program splits at the test as before.

A `for` that the run may end is one, too: what stands for its iterator (`steps.Going`) says by
number what a step is given, and the number is carried.

After no round at all a name is still the object that it was (`Ties`).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any, Final

from eager.base.dtype import int64 as INT
from eager.control_flow import cond as control_flow
from eager.control_flow.cond import handle_of
from eager.control_flow.while_loop import Rounds, record_rounds
from eager.core.grad_fn_names import label_of
from eager.core.sym import SymNumber
from eager.core.tape import full
from eager.core.tensor import Tensor, wrap
from eager.core.traced import Traced, UnknownValue, fresh
from eager.sizes.aval import Aval
from jitcap.base.assumed import Assumed
from jitcap.base.breaks import Break
from jitcap.base.modes import Modes
from jitcap.capture import numbers
from jitcap.capture.control.cfg import (
    EXIT,
    While,
    common_postdominator,
    immediate_postdominator,
    loop_at,
    reads_frame,
)
from jitcap.capture.control.checkpoint import Change, Checkpoint
from jitcap.capture.control.for_loops import HISTORY, TRIES, copied_frame, is_plain, is_step
from jitcap.capture.control.histories import Unsayable
from jitcap.capture.control.loop_exits import AGAIN, RoundEnd
from jitcap.capture.control.loop_iterables import Going
from jitcap.capture.control.loop_results import NotRolled
from jitcap.capture.control.may_alias import Followed, memory_of
from jitcap.capture.control.value_trees import (
    are_own,
    can_be_carried,
    can_follow,
    fill,
    ids_in,
    leaves_of,
    objects_in,
    wholes_in,
)
from jitcap.capture.interpret import NULL, Done, Frame
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.tensors import has_own_names
from jitcap.graph.graph import Node
from jitcap.graph.tracer import DataDependent, is_within

TRIALS: Final = 8  # of a round, until all that it changes is carried
FAILURES: Final = 4  # of a loop that could not be recorded: its other turns are read as they come
EXITS: Final = 4  # of a loop, each with code of its own
Starts = tuple[Any, Any]
Merge = Callable[[Any, Starts, Any], Done | None]  # see `branch.branch`


class More(BaseException):
    """A round changes something that has to be carried, too."""


def repeat(s: Any, frame: Frame, value: Any, starts: Starts, merge: Merge) -> Any:
    """True or what the program returns, if the loop was recorded that `value` decides on; the frame
    stands behind it then. Else why not, if there is a loop, which nothing else ends."""
    code, index = frame.code, frame.pc - 1
    loop = loop_at(code, index)
    if loop is None or reads_frame(code) or not 1 <= len(loop.exits) <= EXITS:
        return False
    if any(e.frame is frame and e.loop.head == loop.head for e in s.ties.regions):
        return False
    going = None
    if loop.place:
        going = _going(s, frame, loop)
        if going is None:
            return False
    end = RoundEnd(frame, loop, going)
    direct = [end.number(pc) for pc, _ in starts]
    if index in loop.body and None in direct and immediate_postdominator(code, index, loop) != EXIT:
        return False
    endless = index == loop.head or not loop.bounded
    if s.ties.failures.get((id(going or frame), index), (0,))[0] == FAILURES:
        is_open = control_flow.decide(value)[0] is not None
        return is_open and endless and s.ties.reasons[code, loop.head]
    state = Checkpoint(s, frame)
    if going is not None and index != loop.head:  # else it stands there
        going.enter(frame)
    try:
        with state:
            if len(loop.exits) > 1 or None in direct:
                with _region(s, end):
                    merge(end, starts, value)
                which = frame.pop()
            else:
                truth = control_flow.truth(value)
                which = truth if direct[1] == AGAIN else truth.logical_not()
            if not _is_open(which):
                end.leave(0 if which is False else which)
                return True
            return WhileRecorder(s, end, which, index).record(merge)
    except (NotRolled, Break, Unsayable, DataDependent, UnknownValue) as why:
        reason = str(why.what if isinstance(why, Break) else why)
        state.restore_frame()
        first = s.ties.failed(going or frame, index, (code, loop.head), reason)
        if next(state.changed(), None) is not None:
            what = f"a loop that is not one graph: {reason}"
            refusal = Break("aliasing", what)
            raise refusal.unless(Assumed(sites=frozenset({(code, index)}))) from None
        return endless and first


def _going(s: Any, frame: Frame, loop: While) -> Going | None:
    """Stand-in for the iterator of a `for`, if nothing else has that and its steps are known."""
    iterator = frame.stack[-1] if frame.stack else None
    if type(iterator) is Going:
        return iterator if iterator.place == loop.place else None
    if is_step(s, frame, loop.head) or not s.tries(iterator, "rounds", TRIES):
        return None
    return Going.of(s, frame, loop.place)


def _is_open(which: Any) -> bool:
    """True if there may be another round."""
    return type(which) not in (bool, int) or which is True or which == AGAIN


@contextmanager
def _region(s: Any, end: RoundEnd) -> Iterator[None]:
    s.ties.regions.append(end)
    try:
        yield
    finally:
        s.ties.regions.pop()


class WhileRecorder:
    """One round on stand-ins, and what becomes of its values. `which`: see `RoundEnd`."""

    follows = True  # which objects results of branches are

    def __init__(self, s: Any, end: RoundEnd, which: Any, test: int) -> None:
        self.s, self.frame, self.where, self.which = s, end.frame, end.loop, which
        self.end = end
        self.loop = SimpleNamespace(slices=())
        self.site = end.frame.code, test
        self.several = len(self.where.exits) > 1
        self.left, self.live = end.left, end.live_in
        fast = self.frame.fast
        names = [n for n in fast if n in self.where.stored & self.live]
        own = (n for n in names if can_be_carried(fast[n]))
        self.locals = [n for n in own if are_own(s, self.frame, {n}, self.live)]
        self.entries: dict[Any, Change] = {}
        self.memories: dict[Any, Tensor] = {}
        self.unset: dict[str, Any] = {}  # locals that a round sets first -> what they look like
        self.found: dict[str, Any] = {}
        self.storages: dict[int, Any] = {}  # counters of writes that go on
        self.objects = Followed(s)
        self.inside: Any = None  # as `for_loops.ScanRecorder`, for those that ask all loops
        self.given: list[Tensor] = []
        self.parts: list[Any] = []  # memory that is a part of such that every round has
        self.counts = s.tracer.counts_rounds
        self.least = 0

    def look(self, name: str) -> None:
        """An attribute of a tensor is read, which must be none of its history."""
        if name in HISTORY:
            raise NotRolled("a round asks for the history of a tensor")

    def place(self, key: Any) -> Any:
        """An index, with tensors for the numbers that a round has of its own."""
        if type(key) is tuple:
            return tuple(map(self.place, key))
        own = type(key) is SymNumber and key.pytype is int and _is_of_graph(key)
        return full(key, Aval((), INT)) if own else key

    def store(self, x: Tensor, key: Any, value: Any) -> bool:
        """False, as no write is deferred: a round writes at once."""
        return False

    def item(self, x: Tensor, key: Any) -> Any:
        """`x[key]`: of memory that every round has a view, in that round; else a copy, as long as
        nobody writes the one or the other."""
        place = self.place(key)
        if place is key or (type(key) is tuple and all(map(operator.is_, key, place))):
            return MISSING
        s = self.s
        found, memory = s.call_native(lambda at: x[at], (place,)), memory_of(s, x)
        own, carried = memory_of(s, found), any(memory is memory_of(s, g) for g in self.given)
        if carried or own.picked is None:
            s.ties.add(self.site, found, [(x, memory)], hidden=False)
        else:
            self.parts.append(own)
        return found

    def number(self, fn: Any, operands: tuple[Any, ...]) -> None:
        return None

    # ---- what is carried: what decides, locals, entries, locals that are not set yet, memory

    def _trees(self) -> list[Any]:
        fast = self.frame.fast
        found = [fast[n] for n in self.locals] + [c.before for c in self.entries.values()]
        return [*found, *self.unset.values()]

    def _leaves(self) -> list[Any]:
        return [x for tree in self._trees() for x in leaves_of(tree)]

    def _start(self) -> list[Any]:
        several = [self.which] if self.several else []
        made = [*self.memories.values(), *self.objects.start(), *(0 for _ in self.storages)]
        return [*several, *self._leaves(), *made]

    def record(self, merge: Merge) -> Any:
        """Make the loop a node, and put the frame behind it."""
        tracer, which = self.s.tracer, self.which
        first = handle_of(tracer, which == AGAIN if self.several else which)
        for _ in range(TRIALS):
            self._check_start()
            self.s.rolls.append(self)
            try:
                found = record_rounds(tracer, first, self._start(), self._round, self._settles)
            except More:
                for name, (tree, kinds) in self.found.items():
                    self.unset[name] = fill(tree, map(_zero, kinds))
                continue
            finally:
                self.s.rolls.pop()
            if self.unset and not self.least:
                tracer.check("one round of a loop, or more", first)
                self.least = 1
            self._finish(first, found[1:] if self.several else found)
            return _leave(self, found[0], merge) if self.several else True
        raise NotRolled("a round changes too much")

    def _check_start(self) -> None:
        for x in (leaf for leaf in self._leaves() if isinstance(leaf, Tensor)):
            plain = type(x) is Tensor and is_plain(x) and (self.counts or not x.requires_grad)
            if not plain or has_own_names(self.s, x):
                what = "a view, has names of its own, or needs a gradient inside other control flow"
                raise NotRolled(f"what it begins with is {what}")
            together = {id(m) for m in self.s.ties.together(memory_of(self.s, x))}
            if any(id(m) in together for m in self.memories):
                raise NotRolled("a round writes what it begins with under another name")

    def _settles(self, rounds: Rounds) -> int:
        """The number of rounds without which Python's own gradients go elsewhere, or a result is
        a leaf."""
        found = rounds.settles()
        if found is None:
            raise NotRolled("where gradients go differs from round to round")
        tensors = (x for x in self._leaves() if isinstance(x, Tensor))
        at_leaf = any(x.requires_grad and x.is_leaf for x in tensors)
        self.least = max(found, int(at_leaf or bool(self.unset)))
        return self.least

    # ---- one round

    def _round(self, stands: list[Any]) -> tuple[Any, list[Any]]:
        """Condition of another round, and the values that are carried on."""
        s, frame = self.s, self.frame
        self.inside = s.tracer.inside
        self.given = [x for x in stands if isinstance(x, Tensor)]
        inner, modes = copied_frame(frame), Modes.now()
        leaves = stands[1:] if self.several else stands
        given = iter(leaves)
        for name in self.locals:
            inner.fast[name] = fill(frame.fast[name], given)
        self.placed = dict(inner.fast)
        trees = [inner.fast[n] for n in self.locals]
        depth = len(s.vm.frames)
        s.vm.frames.append(inner)
        before = Checkpoint(s, inner)
        self.was_there = before.was_there
        before.open()
        try:
            for change in self.entries.values():
                trees.append(fill(change.before, given))
                before.put(change, trees[-1])
            self.objects.wholes = wholes_in(trees)
            for tree in self.unset.values():
                fill(tree, given)
            for memory in self.memories:
                s.tracer.touch(memory)
                memory.handle, memory.generation = next(given)._array.handle, memory.generation + 1
            which = self._interpreted(inner)
            changes, versions = before.changes()
            if modes != Modes.now() or before.overwritten() or before.calls():
                raise NotRolled("a round changes the mode of autograd, the tape, or prints")
            self._learn(inner, changes, written := _taken(s.tracer), versions)
            ends = self._ends(inner, changes, written, leaves)
            numbers = iter(stands[len(stands) - len(self.storages) :])
            ends += self.objects.numbers(leaves, ends)
            for storage in self.storages.values():
                more = storage.version - before.version(storage)
                ends.append(next(numbers) + more + sum(before.open_writes(storage)))
        finally:
            del s.vm.frames[depth:]
            with suppress(Unsayable):
                before.changes()
            before.put_back()
            before.close()
        if self.several:
            return which == AGAIN, [which, *ends]
        return which, ends

    def _interpreted(self, inner: Frame) -> Any:
        s, end = self.s, RoundEnd(inner, self.where, self.end.going)
        inner.pc = self.where.again
        if end.going is not None:
            inner.stack += end.going.step(s, inner)
        with _region(s, end):
            while True:
                if s.vm.step(inner) is not None:
                    raise NotRolled("it is left in the middle")
                if end.reached(inner):
                    break
        which = inner.pop()
        if [*map(id, inner.stack)] != [*map(id, self.frame.stack)]:
            raise NotRolled("a round leaves something behind on the stack")
        return which

    def _learn(
        self,
        inner: Frame,
        changes: dict[Any, Change],
        written: dict[Any, Any],
        versions: dict[int, tuple[Any, int]],
    ) -> None:
        """Raise More if something else has to be carried."""
        before, more = len(self.locals), False
        stands = {id(inner.fast[n]._array.storage): n for n in self.locals
                  if isinstance(inner.fast.get(n), Tensor)
                  and type(inner.fast[n]._array) is Traced
                  and inner.fast[n] is self.placed[n]}  # fmt: skip
        for memory in written:
            if memory in self.memories:
                continue
            if id(memory) in stands:  # the object stays, and its memory is written
                self.locals.remove(stands[id(memory)])
            elif any(memory is x._array.storage for x in self.given):
                raise NotRolled("a round writes into what the one before has left")
            else:
                self.memories[memory] = wrap(Traced(memory.aval, memory, memory.handle))
            more = True
        if len(self.locals) < before:
            raise More
        for key, (storage, _) in versions.items():
            more = more or key not in self.storages
            self.storages[key] = storage
        own = {i for n in self.locals for i in ids_in(self.placed[n])}
        for key, change in changes.items():
            if key in self.entries or id(change.obj) in own:
                continue
            objects = objects_in(change.before) or objects_in(change.after)
            if objects or not can_follow(change.before, change.after):
                raise NotRolled(f"{change.show()} is changed in a round")
            self.entries[key] = change
            more = True
        for name in (self.where.stored & self.left) - self.frame.fast.keys() - self.unset.keys():
            after = inner.fast.get(name, NULL)
            if not can_be_carried(after):
                raise NotRolled(f"{name!r} is set in a round")
            self.found[name] = after, [control_flow.kind_of(x) for x in leaves_of(after)]
            more = True
        if more:
            raise More

    def _ends(
        self, inner: Frame, changes: dict[Any, Change], written: dict[Any, Any], leaves: list[Any]
    ) -> list[Any]:
        """Values of the carries at the end of a round that was given the `leaves`."""
        for name in self.live - set(self.locals) - self.unset.keys():
            if inner.fast.get(name, NULL) is not self.frame.fast.get(name, NULL):
                raise NotRolled(f"{name!r}, no tensor or number, is replaced in a round")
        pairs = [(self.frame.fast[n], inner.fast.get(n, NULL)) for n in self.locals]
        pairs += [(c.before, changes[k].after if k in changes else c.before)
                  for k, c in self.entries.items()]  # fmt: skip
        pairs += [(tree, inner.fast.get(n, NULL)) for n, tree in self.unset.items()]
        ends: list[Any] = []
        for before, after in pairs:
            if not can_follow(before, after):
                raise NotRolled("a round leaves another shape, dtype or type")
            ends += leaves_of(after)
        if not are_own(self.s, inner, {*self.locals}, self.live):
            raise NotRolled("a round leaves an object under two names")
        _check_ends(self, [x for x in ends if isinstance(x, Tensor)])
        self.objects.pass_on(wholes_in(after for _, after in pairs), self.was_there)
        if self.objects.follow(leaves[: len(ends)], ends):
            raise More
        tracer = self.s.tracer
        return ends + [wrap(fresh(tracer, written[m], m.aval)) for m in self.memories]

    # ---- behind the loop

    def _finish(self, first: Any, results: list[Any]) -> None:
        s, frame = self.s, self.frame
        given, trees = iter(results), self._trees()
        values = [fill(tree, given) for tree in trees]
        filled = iter(values)
        for name in self.locals:
            frame.fast[name] = next(filled)
        for change in self.entries.values():
            change.put(next(filled))
        for name in self.unset:
            frame.fast[name] = next(filled)
        for memory in self.memories:
            s.tracer.touch(memory)
            memory.handle, memory.generation = next(given)._array.read(), memory.generation + 1
        which = {i: next(given) for i in self.objects.could}
        for storage in self.storages.values():
            most = storage.version + 1
            count = next(given) + storage.version
            s.counts.setdefault(id(storage), []).append((storage, most, count))
            storage.version = most
        for name in self.where.stored - self.left:
            frame.fast.pop(name, None)
        starts, ends = ([x for t in each for x in leaves_of(t)] for each in (trees, values))
        self.objects.tie_wholes(self.site, wholes_in(trees), wholes_in(values))
        _tie(self, first, which, zip(starts, ends, strict=True))
        s.ties.branched.add(frame.code)
        if not self.several:
            self.end.leave(0)
        place = s.where().place
        s.rolled.append(f"{place}: a loop on a value of the run is one while_loop")


def _check_ends(r: WhileRecorder, tensors: list[Tensor]) -> None:
    own = [x for x in tensors if not any(x is g for g in r.given)]
    memories = {id(x._array.storage) for x in own if _is_new(r, x)}
    if len(memories) < len(own):
        raise NotRolled("what a round leaves shares memory")
    could_be = [m for x in own for m in r.s.ties.together(x._array.storage)]
    if any(m is part for m in could_be for loop in r.s.rolls for part in loop.parts):
        raise NotRolled("a round leaves a part of memory that every round has")
    stands = {id(g._array.storage) for g in r.given}
    others = [m for m in could_be if not is_within(m.part, r.inside)]
    if not {id(m) for m in others} <= stands:
        raise NotRolled("what a round leaves may be memory of something else")


def _is_new(r: WhileRecorder, x: Tensor) -> bool:
    """True if a plain tensor has memory that the round has allocated."""
    array = x._array
    new = type(array) is Traced and array.storage.part is r.inside
    plain = type(x) is Tensor and is_plain(x) and (r.counts or not x.requires_grad)
    return new and plain


def _leave(r: WhileRecorder, which: Any, merge: Merge) -> Any:
    """Go on from the place where the loop was left."""
    code, index = r.site
    exits, last = r.where.exits, len(r.where.exits) - 1
    if r.end.going is not None:
        r.frame.pop()

    def decide(k: int) -> Any:
        """Among the exits from the one with this number on."""
        rest = r.end.start(last) if k + 1 == last else (index + 1, lambda: decide(k + 1))
        meets = functools.reduce(lambda a, b: common_postdominator(code, a, b), exits[k:])
        return merge(meets, (r.end.start(k), rest), which != k) or ()

    r.frame.pc = index + 1
    return decide(0) or True


def _tie(r: WhileRecorder, first: Any, which: dict[int, Tensor], leaves: Iterable[Any]) -> None:
    """Note what the results of a loop could be the same as: `leaves` before and behind it."""
    ties, sure = r.s.ties, r.least or not isinstance(first, Node)
    rows = [*leaves]
    starts = [x for x, _ in rows]
    tensors = [x for x in (*starts, *(y for _, y in rows)) if isinstance(x, Tensor)]
    for i, (x, result) in enumerate(rows):
        if not isinstance(x, Tensor):
            continue
        known, objects = (None, []) if sure else ((first, [x, None]), [x])
        if i in which:
            known, objects = r.objects.after(i, which[i], starts)
        others = [y for y in tensors if y is not result and r.objects.mixed]
        sources = [(y, memory_of(r.s, y)) for y in (*objects, *others)]
        loose = ties.behind([memory_of(r.s, y) for y in others]).values()
        known = known if ties.tells and not r.objects.untold else None
        hidden = result._node is not None and label_of(result) is None
        ties.add(r.site, result, sources, hidden=hidden, objects=known, loose=[*loose])


def _taken(tracer: Any) -> dict[Any, Any]:
    """The memory from outside that the part has written, with its values; it is as it was then."""
    log = tracer._log
    found = {x: x.handle for x, _ in log if tracer._is_outer(x)}
    for state, fields in reversed(log):
        if tracer._is_outer(state):
            for name, value in fields.items():
                setattr(state, name, value)
    log[:] = [(x, fields) for x, fields in log if not tracer._is_outer(x)]
    return found


def _is_of_graph(number: SymNumber) -> bool:
    leaves = [n.leaf for n in numbers.postorder(number) if n.fn is None]
    return any(type(leaf) is not numbers.Outside for leaf in leaves)


def _zero(kind: Any) -> Any:
    """Zero of a kind, for a value that nobody reads."""
    return full(0, kind) if isinstance(kind, Aval) else kind(0)
