"""Capture: what results of branches and loops could be the same as. names -> refusals.

After one way of a branch two names may stand for one object, and for two after the other; in the
graph they are two. `Ties.add` notes it, and `wrote`, `compared` and `check` begin the capture
again, without that branch, where it could show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from eager.base.dtype import bool_ as BOOL
from eager.base.dtype import int64 as INT
from eager.core.tape import full
from eager.core.tensor import UNREAD, Tensor, wrap
from eager.core.traced import Traced, fresh
from eager.ops.pointwise import where
from eager.sizes.aval import Aval
from jitcap.base.assumed import Assumed
from jitcap.base.breaks import Break
from jitcap.capture.control.loop_results import NotRolled
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.contents import Snapshot, namespace_of, parts_of
from jitcap.capture.kinds.tensors import TENSOR_FIELDS

_OF_VIEWS: Final = frozenset({
    "_base", "_is_view", "_version", "as_strided", "data_ptr", "detach_", "is_set_to", "resize_",
    "set_", "storage", "storage_offset", "untyped_storage",
})  # fmt: skip
_OF_GAPS: Final = frozenset({"__array__", "dim_order", "is_contiguous", "numpy", "stride", "view"})


class MayAlias:
    """Aliases that results of branches may have: `add` notes it, and `wrote`, `compared` and
    `check` begin the capture again where that could show."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.open: list[Any] = []  # branches whose ways are interpreted: code, instruction
        self.apart = 0  # of them, whose ways meet at the return
        self.regions: list[Any] = []  # rounds of loops that are read now: see `while_loops`
        self.reasons: dict[Any, str] = {}  # why a loop (its code, where it begins) is none
        self.failures: dict[Any, tuple[int, Any]] = {}  # how often one run of it was none
        self.branched: set[Any] = set()  # codes of the frames that had one
        self.ties: list[tuple[Any, Tensor, Any, dict[int, Any]]] = []
        self.loose: dict[int, dict[int, Any]] = {}  # by id of memory: what `objects` does not tell
        self.marks: list[tuple[Any, Tensor, Any]] = []  # tensors as they were after the branch
        self.wholes: list[tuple[Any, Any, Any]] = []  # as `may_alias`, of what holds other values
        self.left: set[int] = set()  # ids of such values that leave
        self.frozen: dict[int, Any] = {}  # id of traced memory -> the branch
        self.hidden: list[tuple[Any, Tensor]] = []  # whose history has another name in Python
        # By id of a result: the truth, and for both what it is, an object, None for a new one, or
        # such a pair of a branch inside.
        self.objects: dict[int, Any] = {}
        # By id of the memory of a result that is a view after one way: the branch, the result, and
        # whether it has gaps.
        self.placed: dict[int, tuple[Any, Tensor, bool]] = {}
        self.escaped: set[int] = set()  # ids of traced memory that leaves
        self.chosen: set[int] = set()  # of such that leaves as one of `objects`
        self.parts: list[Any] = []  # memory of which a part, found by the run, leaves as a copy
        self.histories: set[int] = set()  # ids of nodes of the tape of tensors that leave

    def leaves(self, memory: Any) -> None:
        """Memory leaves. Raises Break where a part of it leaves as a copy: see `parts`."""
        self.escaped.add(id(memory))
        self.check_parts()

    def check_parts(self) -> None:
        if any(id(memory) in self.escaped for memory in self.parts):
            raise Break("effect", "x[i], with i a tensor, leaves together with x, as a view of it")

    def failed(self, run: Any, index: int, loop: Any, reason: str) -> str:
        """One run of a loop (a frame, or what a `for` goes through) was none at this test. The
        reason that comes back is the first one."""
        count, _ = self.failures.get((id(run), index), (0, run))
        self.failures[id(run), index] = count + 1, run
        return self.reasons.setdefault(loop, reason)

    def add(
        self, key: Any, result: Tensor, sources: Sequence[Any], *, hidden: bool,
        objects: Any = None, loose: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        """`sources`: tensors that the result may be the same as, and their memory. `objects`: see
        there; `loose`: the memory among it of which they do not tell when."""
        if hidden:
            self.hidden.append((key, result))
        if not sources:
            return
        memory = result._array.storage
        behind = self.behind([storage for _, storage in sources])
        self.ties.append((key, result, memory, behind))
        if objects is not None:
            self.objects[id(result)] = objects
            self.loose[id(memory)] = {id(storage): storage for storage in loose}
        self.marks += [(key, x, self._mark(x)) for x in (result, *(x for x, _ in sources))]
        for storage in (memory, *behind.values()):
            self.frozen.setdefault(id(storage), (key, storage))

    def add_whole(self, key: Any, result: Any, sources: Sequence[Any]) -> None:
        """Note the objects that a tuple, or an object that holds others, may be the same as."""
        for pair in [(result, x) for x in sources]:
            held = [y for x in pair for y in (x, *namespace_of(x))]
            self.wholes.append((key, pair, [Snapshot.of(y, parts_of(y)) for y in held]))

    def could_be(self, x: Any) -> list[Any]:
        """The container itself, and all others that it may be the same as."""
        found = [x]
        for _, (result, source), *_ in reversed(self.wholes):
            if any(result is y for y in found):
                found.append(source)
        return found

    @property
    def tells(self) -> bool:
        """True if `objects` is kept: not in the step of a scan, where a number is of one step."""
        return all(loop.follows for loop in self.session.rolls)

    def leaves_as_one(self, result: Tensor) -> Any:
        """The entry of `objects` for the result, whose memory is noted as chosen."""
        self.chosen.add(id(result._array.storage))
        return self.objects[id(result)]

    def told(self, x: Any, was_there: Callable[[Any], bool]) -> Any:
        """The object that was there and is still that after a way, or what a branch inside says
        that it may be (`objects`); None for a new one."""
        if type(x) is tuple:
            truth, ways = x
            found = [self.told(way, was_there) for way in ways]
            return None if found == [None, None] else (truth, found)
        if not isinstance(x, Tensor) or not self.tells:
            return None
        return x if was_there(x) else self.told(self.objects.get(id(x)), was_there)

    def untold(self, x: Any, whole: bool, was_there: Callable[[Any], bool]) -> list[Any]:
        """The memory that a result of a way may be the same as, where nothing tells when."""
        memory = memory_of(self.session, x)
        objects = None if whole else self.objects.get(id(x))
        if objects is None:
            return [*self.behind([memory]).values()]
        inside = [t for t in objects_of(objects) if not was_there(t)]
        more = [
            m
            for t in inside
            for m in (memory_of(self.session, t), *self.untold(t, False, was_there))
        ]
        return [*self.loose[id(memory)].values(), *more]

    def behind(self, memory: Sequence[Any]) -> dict[int, Any]:
        """The memory, and what that could be the same as."""
        behind = {id(storage): storage for storage in memory}
        for _, _, own, theirs in self.ties:
            if id(own) in behind:
                behind.update(theirs)
        return behind

    def together(self, memory: Any) -> list[Any]:
        """The memory that could be the same as this one, by what is noted."""
        found, more = {id(memory): memory}, True
        while more and id(memory) in self.frozen:
            more = False
            for _, _, own, behind in self.ties:
                group = {id(own): own, **behind}
                if not found.keys().isdisjoint(group) and not group.keys() <= found.keys():
                    found.update(group)
                    more = True
        return list(found.values())

    def _mark(self, x: Tensor) -> Any:
        """Snapshot of what one of two aliases shows of a change to the other, besides elements."""
        shadow = self.session.outside.shadow(x)
        loaded = () if shadow is None else (UNREAD, getattr(shadow, "grad", None))
        grad = None if any(x._grad is g for g in loaded) else x._grad
        own = {k: v for k, v in x.__dict__.items() if k not in TENSOR_FIELDS}
        extra = getattr(shadow, "extra", {})
        kept = {k: id(v) for k, v in own.items() if extra.get(k, MISSING) is not v}
        return id(grad), x._requires_grad, x._retains, len(x._hooks or ()), kept

    def asked(self, name: str, values: Iterable[Any]) -> None:
        """The program calls this method, or reads this attribute, of values: see `placed`."""
        if self.placed and (name in _OF_VIEWS or name in _OF_GAPS):
            for x in values:
                memory = memory_of(self.session, x) if isinstance(x, Tensor) else None
                key, _, gaps = self.placed.get(id(memory), (None, None, False))
                if key is not None and (gaps or name in _OF_VIEWS):
                    raise _again(key)

    def wrote(self, memory: Any) -> None:
        """Traced memory is about to be written."""
        if id(memory) in self.frozen:
            raise _again(self.frozen[id(memory)][0])

    def compared(self, *values: Any) -> None:
        """The program asks whether values are the same object."""
        for key, result, _, _ in self.ties:
            if any(v is result for v in values):
                raise _again(key)
        for key, pair, *_ in self.wholes:
            if any(v is x for v in values for x in pair):
                raise _again(key)

    def check(self) -> None:
        """Everything has left that will."""
        owners, out = self.session.owners, self.escaped | self.chosen
        left = [(key, id(memory), self._left(id(memory), behind))
                for key, _, memory, behind in self.ties if id(memory) in out]  # fmt: skip
        for key, own, same in left:
            if any(i in owners or i in out for i in same):
                raise _again(key)
            if any(own != other and not same.isdisjoint(theirs) for _, other, theirs in left):
                raise _again(key)
        for memory, (key, *_) in self.placed.items():
            if memory in out:
                raise _again(key)
        for key, x, mark in self.marks:
            if self._mark(x) != mark:
                raise _again(key)
        self._check_wholes()
        for key, result in self.hidden:
            if id(result._node) in self.histories:
                raise _again(key)

    def _check_wholes(self) -> None:
        """Raises if one was changed, or if two leave that may be one."""
        behind: dict[int, set[int]] = {}
        for key, (result, source), before in self.wholes:
            if any(x.is_changed() for x in before):
                raise _again(key)
            known = behind.setdefault(id(result), {id(result)})
            known |= behind.setdefault(id(source), {id(source)})
        owner: dict[int, int] = {}
        for key, pair, *_ in self.wholes:
            for x in filter(self._leaves, pair):
                if any(owner.setdefault(i, id(x)) != id(x) for i in behind[id(x)]):
                    raise _again(key)

    def _leaves(self, x: Any) -> bool:
        return id(x) in self.left or self.session.outside.shadow(x) is not None

    def _left(self, memory: int, behind: dict[int, Any]) -> set[int]:
        """Ids of the memory that an escaping `memory` may alias, where no branch tells which."""
        return {*(behind if memory in self.escaped else self.loose[memory])} - {memory}


class Followed:
    """Identity of each leaf that a loop carries, where a round may hand on what it was given: the
    number of a leaf before the loop, or 0 for a new one, is carried beside it."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.could: dict[int, set[int]] = {}  # of a leaf, which of those before a round it may be
        self.untold = self.mixed = False
        self.wholes: list[Any] = []  # what holds others, that the round was given
        self.passed = False  # whether it may hand on one of them, other than in its place
        self.others: list[Any] = []  # what it may hand on besides

    def start(self) -> list[Tensor]:
        return [full(1 + i, Aval((), INT)) for i in self.could]

    def follow(self, leaves: Sequence[Any], ends: Sequence[Any]) -> bool:
        """Look at the end of a round; whether there is more to carry. `mixed`: two of the ends may
        be one object; `untold`: no branch tells which one an end is."""
        s, ties, before = self.session, self.session.ties, len(self.could)
        seen: list[tuple[Tensor, set[int]]] = []
        self.untold = self.mixed = False
        for i, end in enumerate(ends):
            if not isinstance(end, Tensor):
                continue
            same = {id(m) for m in ties.together(memory_of(s, end))}
            could = {k for k, x in enumerate(leaves)
                     if isinstance(x, Tensor) and id(memory_of(s, x)) in same}  # fmt: skip
            told = id(end) in ties.objects or any(end is x for x in leaves)
            self.untold = self.untold or bool(could and not told)
            self.mixed = self.mixed or any(self._may_be_one(end, same, *other) for other in seen)
            seen.append((end, same))
            for k in could and {i, *could}:
                self.could.setdefault(k, set())
            if could:
                self.could[i] |= could
        self.mixed = self.mixed or self.untold
        return len(self.could) > before

    def pass_on(self, ends: Sequence[Any], was_there: Callable[[Any], bool]) -> None:
        """Look at what holds others at the end of a round. `was_there`: whether that is older."""
        self.passed, self.others = False, []
        for k, end in enumerate(ends):
            could = self.session.ties.could_be(end)
            older = [x for x in could if was_there(x) and not any(x is g for g in self.wholes)]
            given = [j for j, g in enumerate(self.wholes) if any(g is x for x in could)]
            passed = any(j != k for j in given)
            if (passed or older) and not isinstance(end, tuple):
                raise NotRolled("a round leaves an object that it has not made")
            self.passed |= passed
            self.others += older

    def tie_wholes(self, key: Any, before: Sequence[Any], results: Sequence[Any]) -> None:
        """Note what those behind the loop may be the same as."""
        for start, result in zip(before, results, strict=True):
            if isinstance(result, tuple):
                every = [t for t in (*before, *results) if t is not result]
                same = every if self.passed else [start]
                self.session.ties.add_whole(key, result, [*same, *self.others])

    def _may_be_one(self, a: Tensor, same_a: set[int], b: Tensor, same_b: set[int]) -> bool:
        """True if two ends may be one object: if branches tell, by one outcome of these."""
        ties, ends = self.session.ties, (a, b)
        trees = [ties.objects.get(id(x), x) for x in ends]
        known = [*ends, *(x for tree in trees for x in objects_of(tree))]
        told = {id(memory_of(self.session, x)) for x in known}
        for x in ends:
            told -= ties.loose.get(id(memory_of(self.session, x)), {}).keys()
        if a is b or not same_a & same_b <= told:
            return True
        return any(
            x is y and all(q.get(truth, way) == way for truth, way in p.items())
            for p, x in outcomes_of(trees[0]) for q, y in outcomes_of(trees[1]) if x is not None
        )  # fmt: skip

    def numbers(self, leaves: Sequence[Any], ends: Sequence[Any]) -> list[Tensor]:
        """Numbers that are carried on; `leaves`: those of the round, then the numbers it got."""
        given = {id(leaves[i]): leaves[len(ends) + k] for k, i in enumerate(self.could)}
        return [self._number(ends[i], given) for i in self.could]

    def _number(self, x: Any, given: dict[int, Tensor]) -> Tensor:
        """Number of an object, or of what a branch says of it (`Ties.objects`)."""
        if type(x) is tuple:
            truth, ways = x
            other, this = (self._number(way, given) for way in ways)
            return where(wrap(fresh(self.session.tracer, truth, Aval((), BOOL))), this, other)
        if id(x) in given:
            return given[id(x)]
        objects = self.session.ties.objects.get(id(x))
        return full(0, Aval((), INT)) if objects is None else self._number(objects, given)

    def after(self, leaf: int, number: Tensor, starts: Sequence[Any]) -> tuple[Any, list[Any]]:
        """Object that a leaf is behind the loop (`Ties.objects`), and all that it may be."""
        found, stack = {leaf: None}, [leaf]
        while stack:
            new = self.could[stack.pop()] - found.keys()
            found |= dict.fromkeys(sorted(new))
            stack += new
        known: Any = None
        for k in found:
            known = (number == 1 + k)._array.read(), [known, starts[k]]
        return known, [starts[k] for k in found]


# ---- `Ties.objects`


def objects_of(tree: Any) -> list[Any]:
    """The objects that a result may be."""
    if type(tree) is tuple:
        return [x for way in tree[1] for x in objects_of(way)]
    return [] if tree is None else [tree]


def outcomes_of(tree: Any, *before: tuple[Any, int]) -> Iterator[tuple[dict[Any, int], Any]]:
    """Objects that a result may be, each after the ways of the branches that lead there."""
    if type(tree) is not tuple:
        yield dict(before), tree
        return
    truth, ways = tree
    for way, each in enumerate(ways):
        yield from outcomes_of(each, *before, (truth, way))


def may_be_new(tree: Any) -> bool:
    """True if a result may be a new object, which aliases no other."""
    return any(map(may_be_new, tree[1])) if type(tree) is tuple else tree is None


def truths_of(tree: Any) -> Iterator[Any]:
    """Conditions that decide which object a result is, of branches in branches."""
    if type(tree) is tuple:
        truth, ways = tree
        yield truth
        for each in ways:
            yield from truths_of(each)


def with_truths(tree: Any, truths: Iterator[Any]) -> Any:
    """Copy of a tree of outcomes with other conditions, in the same order."""
    if type(tree) is not tuple:
        return tree
    return next(truths), [with_truths(x, truths) for x in tree[1]]


def memory_of(s: Any, x: Tensor) -> Any:
    array: Any = x._array if type(x._array) is Traced else s.tracer.lift(x)
    return array.storage


def has_memory(session: Any, x: Any, array: Any) -> bool:
    """True if a value is a tensor that shares the memory of a traced array."""
    return isinstance(x, Tensor) and memory_of(session, x) is array.storage


def _again(key: Any) -> Break:
    what = "after one way of this branch two names stand for one object"
    return Break("aliasing", what).unless(Assumed(sites=frozenset({key})))
