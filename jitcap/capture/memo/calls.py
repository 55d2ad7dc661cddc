"""Capture: calls of layers that are alike. call of a module -> nodes and history, copied.

A stack of layers calls modules of one class on values of one look, again and again. The second such
call is recorded: which captured objects it consulted (twins are found by their identity, in one
table), and the nodes that it appended. For a later call the same places of its own layer are
loaded, through the doors that interpreting it would go through, so that the same guards are made.
If what is found there is the same up to the places, then what interpreting the call would record is
known. The third call tells: it is interpreted with its doors open; if that appends the same nodes,
and changes nothing else in the capture, the next ones get copies.

    Calls       the recorded ones of a capture
    Call        one that is recorded: what was consulted; `call_copies` has what was appended

A call that changes captured objects, draws random numbers, checks a value or gives anything but a
new tensor is interpreted each time. Where a copy cannot stand for the call (a derivative of a
derivative, the name of a history) capture starts again, without copies.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from types import CellType
from typing import Any, Final

from eager.base.dtype import get_default_dtype
from eager.core.stand_in import StandInStorage
from eager.core.sym import SymNumber
from eager.core.tape import mode, sequence_now
from eager.core.tensor import UNREAD, Tensor
from eager.core.traced import Traced
from jitcap.base.equality import identity
from jitcap.base.modes import Modes
from jitcap.capture import numbers
from jitcap.capture.inputs import Shadow
from jitcap.capture.kinds.base import parts_of
from jitcap.capture.kinds.cells import is_empty
from jitcap.capture.kinds.mappings import DictShadow, Entries
from jitcap.capture.kinds.objects import ObjectShadow
from jitcap.capture.kinds.tensors import TensorShadow, has_own_names, tensors_of
from jitcap.capture.memo.call_copies import APART, Given, Recorded, handle_of, rest_of
from jitcap.capture.memo.templates import state_of
from jitcap.graph.graph import Node
from jitcap.guards.guard import Equals, Holds

TRIALS: Final = 3  # recorded calls of one look, from which on they are interpreted: they differ
_BACKWARD: Final = frozenset({"backward", "grad"})
_PLAIN: Final = (type(None), bool, int, float, complex, str)
KINDS_OF_DICT: Final = (dict, collections.OrderedDict, collections.defaultdict)


class Calls:
    """Those of one capture, by the class of the layer and the look of its arguments."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.found: dict[Any, list[Call]] = {}  # first none, then up to `TRIALS` different ones
        self.odd: set[type] = set()  # classes of which a call could not be copied
        self.busy = False  # a call is recorded: those inside are parts of it

    def call(
        self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any], run: Callable[[], Any]
    ) -> Any:
        """The result of `run()`, the call of a layer."""
        args = *args, *kwargs.values()
        key = None if self.busy else self._key(layer, args, tuple(kwargs))
        if key is None:
            return run()
        if key not in self.found:
            self.found[key] = []
            return run()
        fresh = self._is_fresh(layer)
        for known in self.found[key]:
            if layer is known.layer:
                sure, comparable = known.sure_of_itself, True
            else:
                sure, comparable = known.sure, known.fresh and fresh
            given = known.open(layer, args) if sure or comparable else None
            if given is not None:
                return known.body.copy(given) if sure else self._compared(known, layer, given, run)
        if len(self.found[key]) == TRIALS:
            return run()
        return self._recorded(key, layer, args, run)

    def _is_fresh(self, layer: Any) -> bool:
        """True if a layer was not called before: then all that a call asks of it is new."""
        return "forward" not in self.session.outside.by_twin[id(layer)].fields.known

    def _key(self, layer: Any, args: tuple[Any, ...], names: tuple[str, ...]) -> Any:
        """Key of calls that may be alike; None for one that is interpreted."""
        s = self.session
        shadow = s.outside.by_twin.get(id(layer))
        if not isinstance(shadow, ObjectShadow) or s.outside.assumed.apart:
            return None
        if type(layer) in self.odd:
            return None
        if shadow.fields is None or not shadow.fields.holds("_modules"):  # too little to gain
            return None
        inside = s.tracer.inside is not None or s.ties.open or s.ties.regions or s.rolls
        if inside or s.sizes.symbols or s.unsafe or s.search is not None or mode.levels:
            return None
        if mode.behind or mode.saved_hooks or mode.anomaly or self._leaves_history():
            return None
        looks = [_look(s, x) for x in args]
        if None in looks:
            return None
        return type(layer), get_default_dtype(), Modes.now(), names, *looks

    def _leaves_history(self) -> bool:
        """True if histories are recorded, and no running function seems to go back over them: then
        they leave with the results, and must be what they are in eager."""
        names = (f.code.co_names for f in self.session.vm.frames)
        return mode.enabled and all(_BACKWARD.isdisjoint(each) for each in names)

    def _recorded(self, key: Any, layer: Any, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        """The result of a call; what it did is noted, if it can be copied."""
        s, tracer = self.session, self.session.tracer
        before = {x: (x.mark(), x.memory.handle) for x in tensors_of(s)}
        looks, rest, fresh = [_look(s, x) for x in args], rest_of(s), self._is_fresh(layer)
        nodes, since = len(tracer.nodes), sequence_now()
        log = s.outside.by_twin = Consulted(s.outside.by_twin)
        self.busy = True
        try:
            result = run()
        finally:
            s.outside.by_twin, self.busy = dict(log), False
        made = Call(s, layer, args, fresh)
        same = rest == rest_of(s) and looks == [_look(s, x) for x in args]
        now = ((x, (x.mark(), x.memory.handle)) for x in tensors_of(s))
        same = same and all(how == before.get(x, ((), x.node)) for x, how in now)
        if same and _is_plain(s, result) and made.consult(log):
            made.ask()
            made.body = Recorded(s, tracer.nodes[nodes:], made.given, since)
            if made.body.is_closed(result):
                self.found[key].append(made)
                return result
        self.odd.add(type(layer))
        return result

    def _compared(self, known: Call, layer: Any, given: Given, run: Callable[[], Any]) -> Any:
        """The result of a call whose doors are open: if it is like the one that is known, the next
        are copies."""
        s, tracer = self.session, self.session.tracer
        start, rest, state = len(tracer.nodes), rest_of(s), state_of(s, APART)
        self.busy = True
        try:
            result = run()
        finally:
            self.busy = False
        like = rest == rest_of(s) and state == state_of(s, APART) and _is_plain(s, result)
        if not (like and known.body.is_like(tracer.nodes[start:], given, result)):
            self.odd.add(type(layer))
        elif layer is known.layer:
            known.sure_of_itself = True
        else:
            known.sure = True
        return result


class Consulted(dict[int, Shadow]):
    """The table of twins, which notes those that are looked up, and how they were by then."""

    def __init__(self, table: dict[int, Shadow]) -> None:
        super().__init__(table)
        self.seen: dict[int, tuple[Shadow, bool]] = {}  # and whether the program had changed it

    def get(self, key: int, default: Any = None) -> Any:
        found = super().get(key, default)
        if found is not None and key not in self.seen:
            changed = not isinstance(found, TensorShadow) and found.mark() != ()
            self.seen[key] = found, changed
        return found

    def __getitem__(self, key: int) -> Any:
        return self.get(key) if key in self else super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None  # type: ignore[arg-type]


class Call:
    """A call that was recorded."""

    body: Recorded

    def __init__(self, session: Any, layer: Any, args: tuple[Any, ...], fresh: bool) -> None:
        self.session = session
        self.layer, self.args, self.fresh = layer, args, fresh
        self.sure = self.sure_of_itself = False  # whether a call of another, or of it, was alike
        self.tables: dict[int, Entries] = {}  # by id of the twin
        self.fixed: list[Shadow] = []  # consulted, and no part of the layer
        self.others: set[int] = set()  # ids of what these hold: the call may ask which it is
        self.asked: set[int] = set()  # ids of the tensors that were consulted
        self.computed: list[tuple[Any, tuple[Any, ...], Any]] = []  # (function, operands, result)
        self.questions: list[tuple[SymNumber, type, Any]] = []  # a number, as what it was asked
        self.given: Given = []
        self.looks: list[Any] = []  # of what is given
        self.pattern: list[int] = []  # which of that are one value

    # ---- recording

    def consult(self, log: Consulted) -> bool:
        """Note what was consulted; False if that cannot be found again, or was changed."""
        for key, (shadow, changed) in log.seen.items():
            if changed or (not isinstance(shadow, TensorShadow) and shadow.mark() != ()):
                return False
            if isinstance(shadow, DictShadow):
                table = Entries.of(shadow)
                if table is None:
                    return False
                self.tables[key] = table
            elif isinstance(shadow, TensorShadow):
                self.asked.add(key)
        reached: set[int] = set()
        given = self._given(self.layer, self.args, {}, reached)
        if given is None:
            return False
        self.given, self.looks = given, [_look(self.session, x) for x in given]
        parts = DictShadow, ObjectShadow, TensorShadow
        self.fixed = [
            shadow for key, (shadow, _) in log.seen.items()
            if key not in reached or not isinstance(shadow, parts)
        ]  # fmt: skip
        self.others = {id(x) for shadow in self.fixed for x in _contents(shadow.twin)}
        return not any(isinstance(x, TensorShadow) for x in self.fixed)

    def ask(self) -> None:
        """Note what was computed of its numbers, and asked of them, by this call or before."""
        s = self.session
        known = {id(x): x for x in self.given if type(x) is SymNumber}
        for (fn, *_), (made, operands) in s.computed.items():
            if not known.keys().isdisjoint(map(id, operands)):
                self.computed.append((fn, operands, made))
                if type(made) is SymNumber:
                    known[id(made)] = made
                    self.given.append(made)
        places = {id(x.leaf.origin): x for x in known.values() if _is_read(x)}
        for guard in s.guards.items:
            number = places.get(id(guard.origin))
            if number is not None and type(guard) is Holds:
                self.questions.append((number, bool, guard.true))
            elif number is not None and type(guard) is Equals:
                self.questions.append((number, number.pytype, guard.value))
        self.looks += [None] * (len(self.given) - len(self.looks))
        self.pattern = _pattern(self.given)

    # ---- another call

    def open(self, layer: Any, args: tuple[Any, ...]) -> Given | None:
        """Tensors and numbers of another call, loaded with guards; None if it is not like this."""
        s = self.session
        if any(shadow.mark() != () for shadow in self.fixed):
            return None
        same: dict[int, Any] = {}
        given = self._given(layer, args, same, set())
        if given is None:
            return None
        try:
            for fn, operands, old in self.computed:
                new = numbers.compute(s, fn, tuple([same.get(id(x), x) for x in operands]))
                if type(new) is not type(old):
                    return None
                if type(new) is SymNumber:
                    same[id(old)] = new
                    given.append(new)
                elif identity(new) != identity(old):
                    return None
            for number, want, answer in self.questions:
                found = numbers.concretize(s, same.get(id(number), number), want)
                if identity(found) != identity(answer):
                    return None
            for old, new in zip(self.given, given, strict=True):
                if type(old) is SymNumber and old.node is not None:
                    new.tracer.handle_of(new)  # it enters the graph
        except Exception:  # noqa: BLE001 - the call itself raises it, at its line
            return None
        return given if _pattern(given) == self.pattern else None

    def _given(
        self, layer: Any, args: tuple[Any, ...], same: dict[int, Any], reached: set[int]
    ) -> Given | None:
        """Tensors and numbers of a call, found where those of this call are; None if something else
        is found there. `same` gets what stands for what, `reached` the twins that are entered."""
        back: dict[int, Any] = {}
        given: Given = []
        stack = [*reversed([*zip(self.args, args, strict=True)]), (self.layer, layer)]
        while stack:
            old, new = stack.pop()
            if type(old) is not type(new):
                return None
            if type(old) in _PLAIN:
                if identity(old) != identity(new):
                    return None
                continue
            mine, its = id(old), id(new)
            if same.setdefault(mine, new) is not new or back.setdefault(its, old) is not old:
                return None
            if old is not new and (mine in self.others or its in self.others):
                return None
            if mine in reached:
                continue
            reached.add(mine)
            parts = self._parts(old, new, len(given))
            if parts is None:
                return None
            if isinstance(new, Tensor) or type(new) is SymNumber:
                given.append(new)
            stack += reversed(parts)
        return given

    def _parts(self, old: Any, new: Any, place: int) -> list[tuple[Any, Any]] | None:
        """The parts of two values that must be alike; None if the values are not."""
        if isinstance(new, Tensor):
            return [] if self._is_alike(old, new, place) else None
        if type(new) is SymNumber:
            both = _is_read(old) and _is_read(new) and old.pytype is new.pytype
            return [] if both or old is new else None
        if type(new) is tuple:
            return None if len(old) != len(new) else [*zip(old, new, strict=True)]
        parts: list[tuple[Any, Any]] = []
        shadow = self.session.outside.by_twin.get(id(new))
        if isinstance(new, dict) and type(new) not in KINDS_OF_DICT and old is not new:
            return None  # it has attributes, too
        table = self.tables.get(id(old))
        if table is not None:
            found = table.again(self.session, shadow)
            if found is None:
                return None
            parts += found
        if old is new and not isinstance(shadow, ObjectShadow):
            return parts
        if type(shadow) not in (DictShadow, ObjectShadow):
            return None
        if isinstance(shadow, ObjectShadow):
            before = self.session.outside.by_twin.get(id(old))
            if not isinstance(before, ObjectShadow) or shadow.slots or before.slots:
                return None
            if (shadow.fields is None) is not (before.fields is None):
                return None
            if shadow.fields is not None and before.fields is not None:
                parts.append((before.fields.twin, shadow.fields.twin))
        return parts

    def _is_alike(self, old: Tensor, new: Tensor, place: int) -> bool:
        """True if a tensor of another call looks like that of this one."""
        look = _look(self.session, new)
        if look is None:
            return False
        if id(old) in self.asked and (_is_read_grad(old) or _is_read_grad(new)):
            return False
        if id(old) in self.asked and (old._grad is UNREAD) is not (new._grad is UNREAD):
            return False
        return not self.looks or look == self.looks[place]


def _look(s: Any, x: Any) -> Any:
    """Facts of an argument, or of a tensor of a layer, that a call sees without a door; None for
    what is no plain tensor or constant. Of a number it sees the type."""
    kind = type(x)
    if kind is SymNumber:
        return kind, x.pytype
    if kind in _PLAIN:
        return kind, repr(x)
    array = x._array if isinstance(x, Tensor) else None
    if type(array) is not Traced or x._view is not None or x._hooks or x._accumulate_hooks:
        return None
    memory = array.storage
    if memory.picked or memory.read_only or array.chain or array.handle is not memory.handle:
        return None
    if array.generation != memory.generation or has_own_names(s, x) or x._retains or s.counts:
        return None
    shadow, counts = s.outside.by_twin.get(id(x)), x._storage
    if isinstance(shadow, TensorShadow) and shadow.is_derived():
        return None
    stands = type(counts) is StandInStorage
    sort = (counts.kind.inference, counts.kind.sealed) if stands else (counts.inference,)
    return (
        kind, array.aval, array.strides, array.offset, x._requires_grad, x._node is None,
        shadow is None, stands, sort, counts.version, counts.history,
    )  # fmt: skip


def _contents(value: Any) -> Iterator[Any]:
    """Values in a container, in tuples in it, too."""
    held = [value.cell_contents] if type(value) is CellType and not is_empty(value) else []
    for part in (*held, *parts_of(value)):
        yield part
        if type(part) is tuple:
            yield from _contents(part)


def _is_read(x: Any) -> bool:
    """True for a number that is read outside."""
    return type(x) is SymNumber and type(x.leaf) is numbers.Outside


def _is_read_grad(x: Tensor) -> bool:
    """True if a tensor has a gradient that the program looked at."""
    return x._grad is not UNREAD and x._grad is not None


def _is_plain(s: Any, result: Any) -> bool:
    """True for a tensor that was made by operations alone, and was not written since."""
    if type(result) is not Tensor or _look(s, result) is None or result._retains:
        return False
    return not (result._storage.version or result._storage.history)


def _pattern(given: Given) -> list[int]:
    """The first place that has the same value, for each of what is given."""
    first: dict[Any, int] = {}
    handles = enumerate(map(handle_of, given))
    return [first.setdefault(h, i) if isinstance(h, Node) else i for i, h in handles]
