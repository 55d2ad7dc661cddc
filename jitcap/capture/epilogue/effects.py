"""Capture's last step: what the program changed and returned -> the entry's epilogue, as data.

Twins are compared with what was loaded. The differences (`Effect`) are written to the real objects
after the graph ran; then the host calls (`Report`) are made, in program order; then the value is
returned. Each renders to the statement that does it, or, for `verify=True`, to what records it.

The write log is not asked: to note what each native call may write, outside of branches too, takes
twice as long as to compare the twins once (4 ms and 2 of 66, for 12 layers), and more code.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import partial
from typing import Any, TypeVar

from eager.autograd import mode
from eager.base.dataclass import dataclass
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor
from eager.device import default as default_place
from jitcap.autodiff.joint import behind, leaves_of
from jitcap.base.assumed import Assumed
from jitcap.base.breaks import Break
from jitcap.base.modes import Modes
from jitcap.base.origin import Fixed, Told
from jitcap.base.terms import Row, Term, attribute, text
from jitcap.capture.epilogue.values import CYCLE, ValueEmitter
from jitcap.capture.epilogue_writes import ATTRIBUTE, VERSION, Effect
from jitcap.capture.inputs import Shadow, ends
from jitcap.capture.kinds.mappings import DictShadow
from jitcap.capture.kinds.sequences import ListShadow
from jitcap.capture.kinds.tensors import AsTensor, TensorShadow, tensors_of
from jitcap.capture.kinds.views import shared_memory
from jitcap.capture.session import Session
from jitcap.guards.guard import Distinct, Names, Same
from jitcap.guards.tensor_guard import Different, Memory, ReadOnly, Writable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Report:
    """One call of the host: the term that makes it, the one of (function, arguments, keyword
    arguments) that records it, and the user's line."""

    call: Term
    record: Term
    where: str


@dataclass(slots=True)
class Epilogue:
    """`rows` make the values, `effects` are replayed on the real objects, then `calls` are made;
    `value` is the term that is returned.

    `outputs` are the graph values that the rows call `o[i]`, and behind them those that are
    written: `writes` pairs a tensor from outside with the index of the output that its memory
    takes."""

    rows: list[Row] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    calls: list[Report] = field(default_factory=list)  # of the host, after everything else
    value: Term = "None"
    outputs: list[Any] = field(default_factory=list)
    writes: list[tuple[TensorShadow, int]] = field(default_factory=list)
    tensors: dict[int, str] = field(default_factory=dict)  # outputs that become tensors: names
    leaves: list[Term] = field(default_factory=list)  # where gradients asked for later go to
    slots: list[Tensor] = field(default_factory=list)  # what has them, while it is captured
    goals: list[Tensor] = field(default_factory=list)  # the leaves, as long
    changed: list[Shadow] = field(default_factory=list)  # objects that the program changed, as long
    counters: frozenset[str] = frozenset()  # ints that it replaced by other ints: they will vary

    def replay(self) -> list[Row]:
        """The statements of the effects. Those that count writes are loops: an optimizer has
        hundreds. A loop has tensors of one class, whose slots CPython then reads at once."""
        rows: list[Row] = []
        for (form, value, _), group in itertools.groupby(
            self.effects, lambda e: (e.form, e.value, e.key)
        ):
            if form == VERSION:
                rows.append(("count", ("tuple", *(e.target for e in group)), value))
            else:
                rows += [e.statement() for e in group]
        return rows

    def name(self, names: Names) -> None:
        """Give everything in the terms its name in an entry."""
        named = names.named
        self.rows = [*map(named, self.rows)]
        for effect in self.effects:
            effect.rename(named)
        self.calls = [Report(named(c.call), named(c.record), c.where) for c in self.calls]
        self.value, self.leaves = named(self.value), [*map(named, self.leaves)]

    def release(self) -> None:
        """Let go of the capture's tensors: all that the program met hangs on them."""
        self.slots, self.goals, self.writes, self.changed = [], [], [], []


def epilogue(session: Session, value: Any) -> Epilogue:
    """Render the effects and the return value. Raises Break for what cannot be replayed."""
    early: set[int] = set()
    inner: set[int] = set()
    while True:
        rebuilder = ValueEmitter(session)
        rebuilder.early, rebuilder.inner = early, inner
        try:
            rendered = _render(session, value, rebuilder)
        except CYCLE:
            continue
        found = {id(t._node) for t in rebuilder.views}
        found &= {id(node) for node in behind(rebuilder.slots)} if found else set()
        if not found:
            return rendered
        inner |= found


def _render(session: Session, value: Any, make: ValueEmitter) -> Epilogue:
    out = Epilogue(slots=make.slots, tensors=make.tensors)
    clocks = [each for each in session.drawn.values() if type(each) is Told]
    make.rows += [make.names.later(each) for each in clocks]
    returned = make.expr(value)
    stores = _versions(session, make)
    for shadow in list(session.outside.by_real.values()):
        if shadow.changed():
            if any(map(ends, shadow.lost())):
                what = f"an object that {shadow.origin.show()} holds goes, which runs code"
                raise Break("effect", what)
            stores += shadow.replay(make)
            if shadow.mutable:
                out.changed.append(shadow)
    out.counters = frozenset().union(*(shadow.counters() for shadow in out.changed))
    stores += _draws(session, make)
    stores += _modes(session, make)
    make.reporting = True
    calls = [_host_call(make, c) for c in session.host_calls]
    first = len(make.outputs)
    out.outputs = [*make.outputs, *(value for _, value in make.writes)]
    out.writes = [(shadow, first + i) for i, (shadow, _) in enumerate(make.writes)]
    out.rows = [*make.rows, *make.late]
    out.effects = stores
    out.calls = calls
    out.value = returned
    for leaf in leaves_of(make.slots):
        outside = session.outside.shadow(leaf)
        name = make.memo.get(id(leaf)) if outside is None else make.names.var(outside.origin)
        if name is not None:  # nobody else can look at its gradient
            out.goals.append(leaf)
            out.leaves.append(name)
    return out


def guard_aliases(session: Session, end: Epilogue) -> None:
    """Objects that were changed, or that a set or dictionary told apart, must stay different
    objects; tensors different memory, and so those that were copied with each other. Keys of lists
    stay different keys."""
    for shadow in tuple(session.outside.by_real.values()):
        if isinstance(shadow, ListShadow):
            shadow.guard_apart(session)
    written = [s for s, _ in end.writes]
    known = {id(s) for s in written}
    for *_, copied in session.outside.memories.values():
        written = [
            *written,
            *(s for s in copied.values() if len(copied) > 1 and id(s) not in known),
        ]
        known |= copied.keys()
    chosen = {id(s) for s in written}  # of these the memory is their own
    told_apart = [s for s in session.hashed.values() if id(s) not in chosen]
    for group in _by(lambda s: s.kin(), told_apart):
        _guard_apart(session, Distinct, group)
    if end.changed:
        mutable = [s for s in session.outside.by_real.values() if s.mutable]
        changed = {id(s) for s in end.changed}
        for group in _by(lambda s: s.kin(), mutable):
            _guard_changed(session, group, changed)
        tables = [s for s in mutable if isinstance(s, DictShadow)]
        _guard_dictionaries(session, tables, changed)
    tensors = tensors_of(session)
    told = {id(s) for s in tensors if id(s) not in chosen and _is_told(session, s)}
    for alike in _by(TensorShadow.look, tensors) if told else ():
        _guard_changed(session, alike, told)
    needing = [s for s in tensors if s.requires_grad]
    if session.tracer.differentiated and not {*needing} <= {*written}:
        _guard_apart(session, Different, needing)
    if written:
        _check_memory(tensors, chosen)
        first, *others = [s.origin for s in written]
        read = [s.origin for s in tensors if id(s) not in chosen]
        session.guard(Memory, first, tuple(others), tuple(read))
    _guard_writable(session, tensors)


def _guard_writable(session: Session, tensors: list[TensorShadow]) -> None:
    """Guard that what was written can be, and what could not be still cannot."""
    on_host = [s for s in tensors if s.is_on_host()]
    written = [s.origin for s in on_host if s.memory.generation]
    if written:
        session.guard(Writable, written[0], tuple(written[1:]))
    for shadow in on_host:
        if shadow.memory.refused:
            session.guard(ReadOnly, shadow.origin)


def _by(key: Callable[[Any], Any], values: Iterable[T]) -> Iterable[list[T]]:
    """The values in groups of one key each."""
    groups: dict[Any, list[T]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return groups.values()


def _guard_apart(session: Session, kind: Any, group: Sequence[Shadow]) -> None:
    """Guard that these stay different, by a guard of this kind."""
    if len(group) > 1:
        first, *others = [s.origin for s in group]
        session.guard(kind, first, tuple(others))


def _guard_changed(session: Session, group: Sequence[Shadow], changed: set[int]) -> None:
    """Guard that no object that was changed is another one that the program looked at."""
    found = [s.origin for s in group if id(s) in changed]
    if len(group) > 1 and found:
        first, *others = found
        rest = tuple(s.origin for s in group if id(s) not in changed)
        session.guard(Distinct, first, tuple(others), rest)


def _is_told(session: Session, shadow: TensorShadow) -> bool:
    """True if a tensor got an attribute, a hook, another memory or the like, which would be seen
    through its alias, too. Its elements are guarded by memory, gradients of leaves by pairs."""
    guarded = {"_storage"}
    if session.tracer.differentiated and shadow.requires_grad:
        guarded.add("_grad")
    return any(field not in guarded for field, _ in shadow.mark())


def _guard_dictionaries(session: Session, tables: list[DictShadow], changed: set[int]) -> None:
    """The dictionary of an object that is written is not that of one of another class, which would
    show it. Those of one class are told apart with all that are of one kin."""
    written = [(t, [*t.removed(), *t.stored()]) for t in tables if id(t) in changed]
    keys = {key for _, found in written for key in found}
    by_key: dict[Any, dict[Any, list[DictShadow]]] = {}
    for table in tables if keys else ():
        for key in table.known & keys:
            by_key.setdefault(key, {}).setdefault(table.kin(), []).append(table)
    for table, found in written:
        for key in found:
            for kin, others in by_key.get(key, {}).items():
                for other in others if kin != table.kin() else ():
                    if table.shows(key, other):
                        session.guard(Same, table.origin, other.origin, same=False)


def _check_memory(tensors: list[TensorShadow], chosen: set[int]) -> None:
    """Two inputs in one piece of memory, one of them written (`chosen`, by id): the graph would not
    see it."""
    for group in shared_memory(tensors):
        if len(group) > 1 and any(id(s) in chosen for s in group):
            shown = " and ".join(s.origin.show() for s in group[:2])
            what = f"{shown} share memory, and it is written"
            refusal = Break("aliasing", what)
            if any(isinstance(s.origin, AsTensor) for s in group):  # each attempt makes another
                raise refusal
            raise refusal.unless(Assumed(memories=frozenset(s.storage() for s in group)))


# ---- tensors


def _versions(session: Session, make: ValueEmitter) -> list[Effect]:
    """The tensors that the graph wrote count it, grouped by the number of writes and by class,
    which is the `key`."""
    effects = []
    for shadow in tensors_of(session):
        storage = shadow.twin._storage
        if storage.version:
            place, cls = make.names.var(shadow.origin), type(shadow.twin).__qualname__
            value = make.version(storage)
            effects.append(Effect(shadow.origin, place, VERSION, key=cls, value=value))
    return sorted(effects, key=lambda e: (e.value if type(e.value) is int else 0, e.key))


# ---- state of the library, host calls


def _draws(session: Session, make: ValueEmitter) -> list[Effect]:
    """Generators end where plain Python would have left them."""
    effects = []
    for state in session.tracer.draws.values():
        count = make.expr(session.sizes.number(state.count))
        write = partial(Effect, state.origin, make.names.var(state.origin), ATTRIBUTE)
        if state.reseeded:
            effects.append(write(text("seed_value"), make.expr(state.seed)))
            before = make.expr(state.start)
        else:
            before = make.names.var(state.ordinal)
            if isinstance(state.passed, SymNumber):
                before = ("+", before, make.expr(state.passed))
        effects.append(write(text("ordinal"), ("+", before, count)))
    return effects


def _modes(session: Session, make: ValueEmitter) -> list[Effect]:
    now, before, bind = Modes.now(), session.modes, make.names.bind
    found: list[tuple[Any, str, Term]] = []
    if now.grad is not before.grad:
        found.append((mode, "enabled", repr(now.grad)))
    if now.inference is not before.inference:
        found.append((mode, "inference", repr(now.inference)))
    if now.autocast != before.autocast:
        found.append((mode, "autocast", bind(now.autocast)))
    if now.rows != before.rows:
        found.append((mode, "rows", bind(now.rows)))
    if now.place != before.place:
        found.append((default_place, "place", bind(now.place)))
    if now.current != before.current:
        found.append((default_place, "current", now.current))
    if now.blocks != before.blocks:  # those that began before are guarded, or stay
        outer = [] if before.blocks else [("star", attribute(bind(default_place), "before"))]
        found.append((default_place, "before", ("list", *outer, ("star", bind([*now.blocks])))))
    return [
        Effect(Fixed(o, "a mode"), bind(o), ATTRIBUTE, text(key), term) for o, key, term in found
    ]


def _host_call(make: ValueEmitter, call: Any) -> Report:
    fn, args = make.expr(call.fn), make.all(call.args)
    values = {k: make.expr(v) for k, v in call.kwargs.items()}
    keywords = ("dict", *(part for k, v in values.items() for part in (text(k), v)))
    given = fn, ("tuple", *args), keywords
    record: Term = ("tuple", *given)
    if call.at is None:
        term = ("call", fn, *args, *(("keyword", text(k), v) for k, v in values.items()))
    else:
        term = ("call", make.names.bind(call.at), *given)
    if call.when is not None:
        when = make.expr(call.when)
        term, record = ("and", when, term), ("star", ("*", ("list", record), when))
    return Report(term, record, call.where)
