"""Capture: a Python loop becomes a scan. frame at the loop -> frame behind it.

One step is interpreted on stand-ins: tensors that the step replaces are carried, a counter is a
number that nobody may look at, `x[t]` and the tensors of a list are slices (`steps`). What can be
interpreted so is the same for every step: a step that decides by the counter, or changes anything
else than its own locals, is none, and the loop is unrolled as it stands. The step runs in a copy of
the frame; if it changed what it may not, the function is captured again without rolling this loop
(`Again`). What is there after the loop is said in `loop_results`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from eager.autograd import mode
from eager.base.tree import fill, leaves_of, structure
from eager.control_flow.scan import Loop
from eager.core.stand_in import check_kinds
from eager.core.sym import SymNumber
from eager.core.tape import differentiable
from eager.core.tensor import Tensor
from eager.core.traced import UnknownValue
from eager.ops.move import flip, stack
from eager.ops.view import movedim
from eager.sizes.aval import Aval, contiguous_strides, same_aval
from eager.sizes.symint import hint, known_eq, known_lt, of_data
from jitcap.base.breaks import Again, Break
from jitcap.base.modes import Modes
from jitcap.capture.control.cfg import live_in, reads_frame
from jitcap.capture.control.checkpoint import copied, same_place
from jitcap.capture.control.list_accumulators import Appended, Place, put, stand_in, value_at
from jitcap.capture.control.log import Region
from jitcap.capture.control.loop_iterables import (
    KINDS,
    Counts,
    Going,
    Numbers,
    Slices,
    Steps,
    dimension,
    is_outside,
    same_constant,
    sized_parts,
    steps,
    strides_of,
)
from jitcap.capture.control.loop_results import Behind, NotRolled
from jitcap.capture.control.may_alias import memory_of
from jitcap.capture.control.row_writes import Written
from jitcap.capture.interpret import NULL, Frame
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.symbolic.sequences import StackedList
from jitcap.capture.sizes import out
from jitcap.graph.graph import Node, placeholder
from jitcap.graph.tracer import DataDependent

LEAST: Final = 16  # steps: a loop of fewer is unrolled
# Operations of all steps, their derivatives included, from which on any loop is rolled: a compiler
# takes milliseconds for each, and steps in a row run as fast.
MANY: Final = 1000
# Before the first step, and before the second, which may find other kinds of values.
TRIES: Final = 2
# A step with one of these ends a kernel: unrolled, the steps would not be one.
HEAVY: Final = frozenset({"reduce", "contract", "window", "sort", "scan", "extern", "control"})
_LEAVING: Final = frozenset({
    "YIELD_VALUE", "SEND", "RETURN_VALUE", "STORE_DEREF", "DELETE_DEREF", "MAKE_CELL",
    "LOAD_CLOSURE",
})  # fmt: skip
HISTORY: Final = frozenset({
    "identity", "requires_grad", "is_leaf", "grad_fn", "grad", "_version", "retains_grad",
    "output_nr", "storage_offset", "untyped_storage", "storage", "_is_view",
})  # fmt: skip
_PLAIN: Final = (int, float, str, bool, type(None))


def roll(s: Any, frame: Frame, end: int) -> Any:
    """True if the loop that `frame` is about to enter was recorded as a whole; the frame stands
    behind it then. For a loop that data may end, the outcome of its next step."""
    iterator = frame.stack[-1]
    if type(iterator) is Going:
        return iterator.another(s, frame, end)
    if is_step(s, frame, frame.pc - 1):
        raise NotRolled  # a branch of the step comes here: the loop may be left in the middle
    sized = bool(sized_parts(iterator))
    if not sized and (type(iterator) not in KINDS or operator.length_hint(iterator, LEAST) < LEAST):
        return False
    site = _site(frame)
    if site in s.outside.assumed.sites or s.vm.step_over is not None:
        return _as_it_stands(iterator)
    through = steps(iterator, s.outside.shadow)
    if through is None or (not sized and (through.length or 0) < LEAST):
        return False
    if of_data(through.length) and not known_lt(0, through.length):
        if isinstance(through, Slices):
            return _by_rounds(s, frame, end)
        going = Going.of(s, frame, f".{frame.pc - 1}")
        if going is not None:
            going.enter(frame)
            return going.another(s, frame, end)
    left = s.tries(iterator, "steps", TRIES)
    if not left:
        return _as_it_stands(iterator)
    needs: dict[int, bool] = {}
    before = copied(iterator)
    with Region(s) as region:
        while True:
            try:
                trial = ScanRecorder(s, frame, end, through, region, needs)
                if trial.record():
                    trial.leave()
                    return True
            except (NotRolled, Break, DataDependent, UnknownValue):
                if not same_place(iterator, before) or next(region.changed(), None) is not None:
                    raise Again(site) from None
                break
            needs = trial.later()
    return False if left > 1 else _by_rounds(s, frame, end)


def _by_rounds(s: Any, frame: Frame, end: int) -> Any:
    """A loop of a length that varies, as one that data may end."""
    iterator, site = frame.stack[-1], _site(frame)
    going = Going.of(s, frame, f".{frame.pc - 1}") if sized_parts(iterator) else None
    if going is None:
        return _as_it_stands(iterator)
    going.enter(frame)
    try:
        return going.another(s, frame, end)
    except Break:
        raise Again(site) from None


class ScanRecorder:
    """One step on stand-ins, and what becomes of its values."""

    follows = False  # which objects results of branches are
    parts: tuple[Any, ...] = ()  # see `while_loops`
    inner: Frame | None = None  # in which the step is interpreted

    def __init__(
        self, s: Any, frame: Frame, end: int, through: Steps, region: Region, needs: dict[int, bool]
    ) -> None:
        self.s, self.frame, self.end, self.through, self.region = s, frame, end, through, region
        self.length = through.length or 0
        self.sized = type(self.length) is not int
        if self.sized and not self.length > 0:
            raise NotRolled
        backwards = through.go_back()
        self.first, self.step = (self.length - 1, -1) if backwards else (0, 1)
        if isinstance(through, Counts):
            self.first, self.step = through.first, through.step
        body = frame.bytecode.instructions[frame.pc : end]
        if any(i.op in _LEAVING for i in body):
            raise NotRolled
        self.stored = {i.arg for i in body if i.op in ("STORE_FAST", "DELETE_FAST")}
        every = set(frame.code.co_varnames)
        self.read = every if reads_frame(frame.code) else live_in(frame.code, frame.pc)
        self.left = every if reads_frame(frame.code) else live_in(frame.code, end)
        stored = [n for n in frame.fast if n in self.stored & self.read]
        self.carried = [n for n in stored if _tensors(frame.fast[n])]
        leaves = self.start = [x for n in self.carried for _, x in leaves_of(frame.fast[n])]
        self.needs = [
            needs.get(i, mode.enabled and differentiable(t.dtype) and t.requires_grad)
            for i, t in enumerate(leaves)
        ]
        if not all(map(is_plain, leaves)):
            raise NotRolled
        self.counter = SymNumber(s.tracer, int, placeholder("step", _INT))
        self.numbers = Numbers(s.tracer, self.counter, self.first, self.step, self.length)
        self.loop = Loop(s.tracer, leaves, [], self.length, self.step < 0)
        self.loop.numbers = [(self.counter.leaf, self.first, self.step)]
        self.elements = Elements(self)
        self.written = Written(s, self.numbers, region)
        self.count = 0  # instructions of a step

    # ---- the step

    def record(self) -> bool:
        """Record the step; true if the same carries need a history after it as before."""
        self.s.rolls.append(self)
        try:
            self.loop.record(self._step, self.needs)
        finally:
            self.s.rolls.pop()
        check_kinds((), *self.elements.places)
        ends = zip(self.needs, self.loop.ends, strict=True)
        if any(need and not t.requires_grad for need, t in ends):
            raise NotRolled  # the first step has a history that later ones have not
        leaves_something = self.loop.handles or self.loop.part.checks
        if not leaves_something or not self._pays():
            raise NotRolled
        return self.later() == dict(enumerate(self.needs))

    def later(self) -> dict[int, bool]:
        """True for each carry, by index, that has a history before or after the step."""
        pairs = zip(self.needs, self.loop.ends, strict=True)
        return {i: before or t.requires_grad for i, (before, t) in enumerate(pairs)}

    def _pays(self) -> bool:
        nodes = self.loop.part.nodes
        heavy = any(n.op.kind in HEAVY for n in nodes)
        derived = 3 if any(self.later().values()) else 1
        return (
            heavy
            or self.sized
            or bool(self.written.writes)
            or self.length * len(nodes) * derived > MANY
        )

    def _step(self, carry: list[Tensor], _: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        vm, before = self.s.vm, self.frame
        at = before.pc - 1
        inner = self.inner = copied_frame(before)
        given = iter(carry)
        self.given = list(carry)
        for name in self.carried:
            tree = before.fast[name]
            inner.fast[name] = fill(tree, [next(given) for _ in leaves_of(tree)])
        for name in self.stored - self.read:
            inner.fast.pop(name, None)  # it is set before it is read
        stand_ins = stand_in(self.s, before, inner, self.end, sized=self.sized)
        self.stand_ins: dict[Place, Appended] = stand_ins
        self.placed = dict(inner.fast)
        inner.push(self.through.given_by(self.elements))
        modes = Modes.now()
        vm.frames.append(inner)
        try:
            while inner.pc != at:
                if not at < inner.pc < self.end or vm.step(inner) is not None:
                    raise NotRolled
                self.count += 1
        finally:
            vm.frames.pop()
        expected = [stand_ins.get(i, x) for i, x in enumerate(before.stack)]
        same = len(inner.stack) == len(expected)
        if not same or any(a is not b for a, b in zip(inner.stack, expected, strict=True)):
            raise NotRolled
        if modes != Modes.now():
            raise NotRolled
        return self._values(inner)

    def _values(self, inner: Frame) -> tuple[list[Tensor], list[Tensor]]:
        """Values of the carries after the step, and those that every step stacks."""
        if inner.fast.keys() - self.stored - self.frame.fast.keys():
            raise NotRolled
        read = self._read()
        self.written.check(read, self.elements.given_parts_of())
        ends: list[Tensor] = []
        self.last: dict[str, Any] = {}  # what locals are after the loop: values of the last step
        places = iter(self.given)
        for name in self.carried:
            before, after = self.frame.fast[name], inner.fast.get(name, NULL)
            own = [next(places) for _ in leaves_of(before)]
            if _alike(before, after) and all(is_plain(x) for _, x in leaves_of(after)):
                ends += [x for _, x in leaves_of(after)]
            elif any(t._array.handle in read for t in own):
                raise NotRolled
            else:
                ends += own  # replaced before it is read: nothing is carried
                if name in self.left:
                    self._check_local(NULL, after)
            self.last[name] = after
        for name in self.stored - set(self.carried):
            after = inner.fast.get(name, NULL)
            if after is self.placed.get(name, NULL) and name in self.read:
                continue
            if name in self.read:
                self._check_local(self.frame.fast.get(name, NULL), after)
            elif name in self.left:
                self._check_local(NULL, after)
            self.last[name] = after
        if any(value_at(inner, place) is not x for place, x in self.stand_ins.items()):
            raise NotRolled
        for each in self.stand_ins.values():
            if not all(map(_tensors, each.values)):
                raise NotRolled
        self._behind(ends)
        return ends, [*self.behind.ys.values()]

    def _behind(self, ends: list[Tensor]) -> None:
        """Determine the values of the step that are live after the loop."""

        def was_there(x: Tensor) -> bool:
            return self.s.outside.shadow(x) is not None or self.region.was_there(x)

        self.behind = Behind(
            self.given, self.start, ends, self.elements.rows, was_there, self.is_outer,
            self.s.ties.together,
        )  # fmt: skip
        listed = [v for each in self.stand_ins.values() for v in each.values]
        wanted = [x for v in listed for _, x in leaves_of(v)]
        for x in (*wanted, *(w.value for w in self.written.writes)):
            self.behind.wants(x)
        final = [x for n, v in self.last.items() if n in self.left for x in _leaves(v)]
        for x in final:
            self.behind.wants_last(x)
        self.behind.share([*wanted, *final])
        if self.sized and self.stand_ins:
            pieces = [each for each in self.stand_ins.values() if not each.is_plain()]
            known = all(self.behind.is_piece(x, self.length) for x in wanted)
            if pieces or self.behind.shared or not known:
                raise NotRolled

    def _read(self) -> set[Node]:
        """Operands of all operations of the step."""
        return {p for n in self.s.tracer.nodes for p in n.parents}

    def _check_local(self, before: Any, after: Any) -> None:
        """A local that is not carried. It may not have been another one `before`, which the first
        step alone could read."""
        plain = type(after) in _PLAIN and (before is NULL or same_constant(before, after))
        plain = plain or (is_outside(after) and (before is NULL or before is after))
        if not plain and not (before is NULL and self._is_free(after)):
            raise NotRolled

    def _is_free(self, value: Any) -> bool:
        """True if the value after the last step can be determined."""
        if type(value) is tuple:
            return all(map(self._is_free, value))
        counted = self.numbers.has(value)
        known = isinstance(value, Tensor) or self.s.outside.shadow(value) is not None
        return counted or known or is_outside(value) or type(value) in _PLAIN

    def look(self, name: str) -> None:
        """An attribute of a tensor is read. What it has of a history may differ in the first
        step."""
        if name in HISTORY:
            raise NotRolled

    # ---- the counter

    def number(self, fn: Any, operands: tuple[Any, ...]) -> SymNumber | None:
        return self.numbers.number(fn, operands)

    def place(self, key: Any) -> Any:
        """Key at which a tensor is written."""
        return key

    def store(self, x: Tensor, key: Any, value: Any) -> bool:
        """True if `x[key] = value` is deferred to the end of the loop."""
        return self.written.store(x, key, value)

    def item(self, x: Tensor, key: Any) -> Any:
        return self.elements.item(x, key)

    def is_outer(self, x: Tensor) -> bool:
        """True if a tensor is loop-invariant: the same one in every step."""
        array = x._array
        if not hasattr(array, "storage"):
            return True
        parts = {id(r.inside) for r in self._from_here()}
        if array.storage.part is not None and id(array.storage.part) in parts:
            return False
        stand_ins = [t for r in self._from_here() for t in (*r.given, *r.loop.slices)]
        return all(t._array.storage is not array.storage for t in stand_ins)

    def _from_here(self) -> Iterator[ScanRecorder]:
        """This loop, and those inside that are recorded now."""
        rolls = self.s.rolls
        yield from rolls[rolls.index(self) :]

    @property
    def inside(self) -> Any:
        return self.loop.inside

    # ---- behind the loop

    def leave(self) -> None:
        """Make the loop a node, and put the frame behind it."""
        frame, loop = self.frame, self.loop
        more = hint(self.length) * (self.count + 1)
        if frame.limit is not None and frame.count + more >= frame.limit:
            raise NotRolled  # a part of the program ends inside
        loop.stacks = [stacked() for stacked in self.elements.stacks]
        last, ys = loop.finish(self.needs)
        behind, site = self.behind, _site(frame)
        behind.finish(last, ys, self.length, loop.reverse)
        for name in self.stored:
            if name in self.last and name in self.left:
                frame.fast[name] = self._final(self.last[name])
            elif name not in self.left:
                frame.fast.pop(name, None)
        for place, each in self.stand_ins.items():
            if self.sized:
                pieces = self.behind.pieces(each.values[0], loop)
                put(frame, place, StackedList(site, (*each.target, *pieces)))
                continue
            self.s.log.writing(each.target)
            for i in range(self.length):
                each.target.extend(
                    fill(v, [behind.at(x, i) for _, x in leaves_of(v)]) for v in each.values
                )
        self.written.finish(behind)
        lists = [x for each in self.stand_ins.values() for x in each.target]
        ends = [frame.fast[n] for n in self.last if n in self.left and n in frame.fast]
        for x in (x for value in (*lists, *ends) for x in _leaves(value) if x.requires_grad):
            self.s.inner[id(x)] = x, site
        for x, others in behind.ties():
            self.s.ties.add(site, x, [(y, memory_of(self.s, y)) for y in others], hidden=False)
        self.s.log.giving(frame.stack[-1:])
        _exhaust(frame.pop())
        frame.count += more
        frame.pc = self.end
        where = self.s.where()
        count = self.s.sizes.shown(self.length)
        self.s.rolled.append(f"{where.place}: a loop of {count} steps is one scan")

    def _final(self, value: Any) -> Any:
        """A local after the last step."""
        if self.numbers.has(value):
            return out(self.numbers.ends_of(value)[1])
        if isinstance(value, Tensor):
            return self.behind.at(value, self.length - 1)
        return tuple(map(self._final, value)) if type(value) is tuple else value


class Elements:
    """Elements that a loop gives to its step: those of what it goes through, and `x[t]`."""

    def __init__(self, trial: ScanRecorder) -> None:
        self.trial, self.loop, self.numbers = trial, trial.loop, trial.numbers
        self.stacks: list[Callable[[], Tensor]] = []  # of all steps, made behind the loop
        self.slices: dict[Any, tuple[Tensor, Tensor]] = {}
        self.places: list[tuple[Tensor, ...]] = []  # what stands for an element, and of what
        self.rows: dict[int, tuple[Tensor, Callable[[int], Tensor]]] = {}  # see `Behind`

    def count(self, through: Counts) -> Any:
        """The number that the loop gives to a step."""
        first, step, counter = through.first, through.step, self.trial.counter
        if self.trial.step < 0 and through is not self.trial.through:
            first, step = first + step * (self.trial.length - 1), -step
        if through is self.trial.through or (first, step) == (0, 1):
            return counter
        return counter * step + first

    def row(self, values: Sequence[Tensor]) -> Tensor:
        """The one of these tensors that the loop gives to a step."""
        values = values[: self.trial.length]
        ordered = values[::-1] if self.trial.step < 0 else values
        needs = mode.enabled and values[0].requires_grad
        return self._place(
            values, values[0].aval, strides_of(values[0]), needs, lambda: stack(ordered),
            values.__getitem__,
        )  # fmt: skip

    def _place(
        self,
        of: Sequence[Tensor],
        aval: Aval,
        strides: tuple[int, ...],
        needs: bool,
        stacked: Callable[[], Tensor],
        real: Callable[[int], Tensor],
    ) -> Tensor:
        """Stand-in for an element of these; `stacked` makes a tensor of all, `real` the one of a
        step."""
        place = self.loop.step_value(f"x{len(self.stacks)}", aval, needs, strides)
        self.loop.slices.append(place)
        self.stacks.append(stacked)
        self.rows[id(place)] = place, real
        self.places.append((place, *of))
        return place

    def given_parts_of(self) -> list[Tensor]:
        """The tensors of which a step is given parts."""
        return [*(x for x, _ in self.slices.values()), *self.trial.through.tensors()]

    def item(self, x: Tensor, key: Any) -> Any:
        """`x[key]` where one index is a number of the counter; MISSING where none is."""
        keys = key if type(key) is tuple else (key,)
        at = [i for i, k in enumerate(keys) if self.numbers.has(k)]
        if not at:
            return MISSING
        if len(at) > 1 or not self.trial.is_outer(x):
            raise NotRolled
        dim = dimension(keys, at[0], x.ndim)
        found = self._slice(x, dim, keys[at[0]])
        rest = (*keys[: at[0]], *keys[at[0] + 1 :])
        plain = all(k is Ellipsis or (type(k) is slice and k == slice(None)) for k in rest)
        return found if plain else self.trial.s.getitem(found, rest)

    def _slice(self, x: Tensor, dim: int, index: SymNumber) -> Tensor:
        low, high, step = self.numbers.range_in(index, x.shape[dim])
        first = high if step < 0 else low
        key = id(x), dim, first, step
        if key not in self.slices:
            backwards = (step < 0) != (self.trial.step < 0)
            aval = x.aval
            shape = tuple(n for d, n in enumerate(aval.shape) if d != dim)
            needs = mode.enabled and differentiable(x.dtype) and x.requires_grad
            strides = tuple(n for d, n in enumerate(strides_of(x)) if d != dim)

            def stacked() -> Tensor:
                rows = movedim(x, dim, 0)[low : high + 1 : abs(step)]
                return flip(rows, 0) if backwards else rows

            def real(i: int) -> Tensor:
                found: Tensor = x[(*(slice(None),) * dim, first + i * step)]
                return found

            part = Aval(shape, aval.dtype, aval.device)
            at = functools.cache(real)
            self.slices[key] = x, self._place([x], part, strides, needs, stacked, at)
        return self.slices[key][1]


def _site(frame: Frame) -> Any:
    """The loop, other than the branch that its next step may be."""
    return frame.code, "for", frame.pc - 1


def is_step(s: Any, frame: Frame, head: int) -> bool:
    """True if `frame` is the copy in which a step of the loop at `head` is interpreted."""
    return any(
        r.inner is frame and r.frame.pc - 1 == head for r in s.rolls if type(r) is ScanRecorder
    )


def _as_it_stands(iterator: Any) -> bool:
    """Fixes the sizes of what is iterated over: the loop is not rolled."""
    for each in sized_parts(iterator):
        each.fix()
    return False


def _exhaust(iterator: Any) -> None:
    for each in (parts := sized_parts(iterator)):
        each.end()
    for _ in () if parts else iterator:
        pass


_INT: Final = SymNumber(None, int).aval  # type: ignore[arg-type]


def copied_frame(frame: Frame) -> Frame:
    """A frame of the same code in the same state."""
    made = Frame(frame.code, frame.globals, frame.function)
    made.fast, made.stack, made.handled = dict(frame.fast), [*frame.stack], [*frame.handled]
    made.pc, made.library, made.namespace = frame.pc, frame.library, frame.namespace
    return made


def _tensors(tree: Any) -> bool:
    """True if `tree` is a tensor, or a non-empty tuple of such trees: a step can replace it."""
    if type(tree) is tuple:
        return bool(tree) and all(map(_tensors, tree))
    return isinstance(tree, Tensor)


def _leaves(tree: Any) -> list[Tensor]:
    """The tensors among values in tuples."""
    if type(tree) is tuple:
        return [x for part in tree for x in _leaves(part)]
    return [tree] if isinstance(tree, Tensor) else []


def _alike(before: Any, after: Any) -> bool:
    """True if a step may pass `after` to the next one, which expects `before`."""
    if not _tensors(after) or structure(before) != structure(after):
        return False
    pairs = zip(leaves_of(before), leaves_of(after), strict=True)
    return all(type(a) is type(b) and same_aval(a.aval, b.aval) for (_, a), (_, b) in pairs)


def is_plain(x: Tensor) -> bool:
    """True if a tensor has the memory layout of a carry's stand-in, which is contiguous."""
    shape, strides = x._array.shape, strides_of(x)
    return any(known_eq(n, 0) for n in shape) or all(
        known_eq(n, 1) or known_eq(a, b)
        for n, a, b in zip(shape, strides, contiguous_strides(shape), strict=True)
    )
