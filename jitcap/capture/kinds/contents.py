"""Capture: snapshots of objects that a program can change. an object -> what it has, and holds.

`KINDS` has a row for each kind of object: how it is read, how one of its entries is set, and what
it leads to. Of an object from outside the shadow is read: what is only loaded is no change.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import operator
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, FunctionType, MemberDescriptorType, ModuleType, NoneType
from typing import Any, Final, NamedTuple

import numpy as np

from eager import random
from eager.base.dataclass import dataclass
from eager.core.storage import Storage
from eager.core.tensor import UNREAD, Tensor
from jitcap.base.call_policy import is_python_class, per_class
from jitcap.base.origin import is_unset
from jitcap.capture.inputs import Shadow
from jitcap.capture.interpret import Frame, Generator
from jitcap.capture.kinds.base import MISSING
from jitcap.capture.kinds.base import parts_of as items_of
from jitcap.capture.kinds.cells import CellShadow, is_empty
from jitcap.capture.kinds.iterators import Lazy
from jitcap.capture.kinds.mappings import DictShadow
from jitcap.capture.kinds.poison import Poison
from jitcap.capture.kinds.sequences import ListShadow
from jitcap.capture.kinds.tensors import TENSOR_FIELDS, TensorShadow

C_DATA: Final = ctypes.Structure.__mro__[1]  # base of all of `ctypes`
PLACE: Final = "its place on the tape"
_OWN: Final = ("_array", "_view", "_hooks", "_accumulate_hooks", "_retains")
_ROUNDS: Final = (
    itertools.product, itertools.permutations, itertools.combinations,
    itertools.combinations_with_replacement, itertools.cycle,
)  # fmt: skip


class Place(NamedTuple):
    """Position of a tensor on the tape; `history`: of a view, from which history of its base."""

    node: Any
    output: int
    requires_grad: bool
    history: int | None

    def put(self, t: Tensor) -> None:
        t._node, t._requires_grad = self.node, self.requires_grad
        if t._index != self.output:
            t._index = self.output
        if t._view is not None and self.history is not None:
            t._view.history = self.history


def place_of(t: Tensor) -> Place:
    history = None if t._view is None else t._view.history
    return Place(t._node, t._index, t._requires_grad, history)


class Kind(NamedTuple):
    """The way to read objects. `entries`: what a way of a branch can set one by one, with `put`
    (MISSING removes); `held`: other values, by identity; `state`: the rest; `others`: objects that
    are written with it; `parts`: what it leads to, if that is not what it has; `loaded`: an entry
    of one from outside, as it was read."""

    entries: Callable[[Any], dict[Any, Any]] = lambda _: {}
    held: Callable[[Any], list[Any]] = lambda _: []
    state: Callable[[Any], Any] = lambda _: None
    others: Callable[[Any], list[Any]] = lambda _: []
    parts: Callable[[Any], list[Any]] | None = None
    put: Callable[[Any, Any, Any], None] | None = None
    loaded: Callable[[Any, Any], Any] = lambda obj, key: MISSING


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """An object (of one from outside its shadow) as it was at one moment. `parts`: what it led to;
    `memory`: of a tensor, and of what belongs to it, where it was traced."""

    obj: Any
    entries: dict[Any, Any]
    held: list[Any]
    state: Any
    parts: list[Any]
    memory: Any = None

    @classmethod
    def of(cls, obj: Any, parts: list[Any], memory: Any = None) -> Snapshot:
        kind = kind_of(type(obj))
        return cls(obj, kind.entries(obj), kind.held(obj), kind.state(obj), parts, memory)

    def is_changed(self) -> bool:
        return not self.keeps_rest() or any(True for _ in self.differences())

    def keeps_rest(self) -> bool:
        """True if all besides the entries is as it was, and so is their order."""
        kind, before = kind_of(type(self.obj)), self.entries
        held, now = kind.held(self.obj), kind.entries(self.obj)
        if kind.state(self.obj) != self.state or len(held) != len(self.held):
            return False
        both = (before, now), (now, before)
        order, later = ([_name(key) for key in a if key in b] for a, b in both)
        ordered = order == later or isinstance(self.obj, Shadow)  # which is in order of reading
        return ordered and all(map(_is_same, held, self.held))

    def differences(self) -> Iterator[tuple[Any, Any, Any]]:
        """The entries that are others now: key, before, now (MISSING: none)."""
        kind, before = kind_of(type(self.obj)), self.entries
        now = kind.entries(self.obj)
        for key in {**before, **now}:
            old = before[key] if key in before else kind.loaded(self.obj, key)
            new = now.get(key, MISSING)
            if not _is_same(old, new):
                yield key, old, new


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and type(a) in (int, Place) and bool(a == b))


def _name(key: Any) -> Any:
    return key if type(key) in (int, str) else id(key)


def can_change(obj: Any) -> bool:
    """True if a program can change an object."""
    if isinstance(obj, type):
        return is_python_class(obj)
    return kind_of(type(obj)) not in (_IN_C, _FIXED)


def value_of(obj: Any) -> Any:
    """The object of the program that a snapshot is of."""
    return obj.twin if isinstance(obj, Shadow) else obj


def parts_of(obj: Any) -> list[Any]:
    """Values that an object refers to."""
    kind = kind_of(type(obj))
    if kind.parts is not None:
        return kind.parts(obj)
    entries = kind.entries(obj)
    return [*(k for k in entries if type(k) is not int), *entries.values(), *kind.held(obj)]


def reachable(session: Any, obj: Any) -> list[Any]:
    """Values that an object of the program refers to."""
    if isinstance(obj, FunctionType | type) and id(obj) not in session.made:
        return []  # one from outside has twins of what it has
    if isinstance(obj, type):
        return [*vars(obj).values()]
    shadow = session.outside.by_twin.get(id(obj))
    return parts_of(obj if shadow is None else shadow)


@per_class
def kind_of(cls: type) -> Kind:
    """The row of a class."""
    found = next(row for base in cls.__mro__ for known, row in KINDS.items() if base is known)
    if found is not KINDS[object] or is_python_class(cls):
        return found
    return _ITERATOR if hasattr(cls, "__next__") else _IN_C


# ---- what the rows ask


@per_class
def _slots(cls: type) -> list[Any]:
    """Slots of a class and its bases, and what they have instead if they are written in C."""
    pairs = [(base, x) for base in cls.__mro__ if base is not Tensor for x in vars(base).values()]
    return [x for base, x in pairs if type(x) is MemberDescriptorType and x.__objclass__ is base]


def namespace_of(obj: Any) -> list[dict[str, Any]]:
    """The dictionary of an instance, if it has one."""
    return [object.__getattribute__(obj, "__dict__")] if type(obj).__dictoffset__ else []


def _in_slots(obj: Any) -> list[Any]:
    return [MISSING if is_unset(slot, obj) else slot.__get__(obj) for slot in _slots(type(obj))]


def _attributes(obj: Any) -> list[Any]:
    return [*_in_slots(obj), *namespace_of(obj)]


def _of_error(error: BaseException) -> list[Any]:
    return [error.args, error.__cause__, error.__context__, *_attributes(error)]


def _objects_in(array: np.ndarray[Any, Any]) -> list[Any]:
    return array.ravel().tolist() if array.dtype.hasobject else []


def _put_element(x: list[Any], index: int, value: Any) -> None:
    end = index + 1 if value is not MISSING and index < len(x) else len(x)
    list.__setitem__(x, slice(index, end), [] if value is MISSING else [value])


def _put_entry(cls: Any, table: dict[Any, Any], key: Any, value: Any) -> None:
    if value is MISSING:
        cls.__delitem__(table, key)
    else:
        cls.__setitem__(table, key, value)


def _put_variable(cell: CellType, _: str, value: Any) -> None:
    if value is MISSING:
        del cell.cell_contents
    else:
        cell.cell_contents = value


def _of_cell(cell: CellType) -> dict[Any, Any]:
    return {} if is_empty(cell) else {"the variable": cell.cell_contents}


def _tables(fn: FunctionType) -> list[Any]:
    return [fn.__defaults__, fn.__kwdefaults__, fn.__annotations__, fn.__closure__, fn.__dict__]


def _of_tensor(t: Tensor) -> dict[str, Any]:
    own = {k: v for k, v in vars(t).items() if k not in TENSOR_FIELDS}
    return own if t._grad is UNREAD else {"_grad": t._grad, **own}


def _put_field(t: Tensor, name: str, value: Any) -> None:
    _put_entry(dict, vars(t), name, value)


def _beside(t: Tensor) -> list[Any]:
    """The hooks of a tensor, and the base of a view, which gets another history with it."""
    return [t._hooks, t._accumulate_hooks, None if t._view is None else t._view.base]


def _marks(s: TensorShadow) -> list[Any]:
    """Changes to the fields of a stand-in, but for its gradient and its counters."""
    return [pair for pair in s.mark() if pair[0] in TENSOR_FIELDS - {"_grad", "_storage"}]


def _position(iterator: Any) -> Any:
    """Place of a builtin iterator: its length hint, or what a copy of it would begin with; -1 if
    it has none, but for what it goes through. Of one that tells nothing no two places are equal."""
    if type(iterator) is Lazy:
        return iterator.moves
    if type(iterator) is itertools.count:
        return repr(iterator)
    if type(iterator) in _ROUNDS:
        _, given, *rest = _reduced(iterator)
        if type(iterator) is itertools.cycle:
            return _position(given[0])
        return [len(pool) for pool in given if type(pool) is tuple], rest
    hint = operator.length_hint(iterator, -1)
    tells = hint >= 0 or type(iterator) is itertools.repeat or _driven_by(iterator)
    return hint if tells else object()


def _reduced(iterator: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on
        return iterator.__reduce__()


def _referents(obj: Any) -> list[Any]:
    """Objects that one written in C refers to; none, of what stands for another. A tuple of its own
    may have holes."""
    ours = type(obj).__module__.startswith(("eager.", "jitcap."))
    held = [] if ours or type(obj) is ModuleType else gc.get_referents(obj)
    return [
        x for each in held for x in (gc.get_referents(each) if type(each) is tuple else (each,))
    ]


def _unknown(obj: Any) -> Any:
    """State of an object written in C, of which only itself knows: no two are equal, but of what
    nobody writes to."""
    return None if isinstance(obj, str | bytes | NoneType) else object()


def _driven_by(iterator: Any) -> list[Any]:
    """The iterators that a builtin one goes through."""
    held = gc.get_referents(iterator)
    held += [x for each in held if type(each) is tuple for x in gc.get_referents(each)]
    return [x for x in held if hasattr(type(x), "__next__")]


class Holder:
    """An object of the capture's own, in a frame of the program, that the program fills."""

    def held(self) -> list[Any]:
        raise NotImplementedError


def _parts_of_shadow(shadow: Shadow) -> list[Any]:
    found = shadow.reachable()
    return parts_of(shadow.twin) if found is None else found


_OBJECT: Final = Kind(held=_attributes, others=namespace_of)
_ITEMS: Final = _OBJECT._replace(held=lambda x: [*items_of(x), *_attributes(x)])
_FIXED: Final = _OBJECT._replace(parts=_ITEMS.held)
_TWIN: Final = Kind(parts=_parts_of_shadow)
_IN_C: Final = Kind(state=_unknown, parts=_referents)
_ITERATOR: Final = Kind(
    held=_driven_by, state=_position, others=_driven_by,
    parts=lambda x: [*_driven_by(x), *_referents(x)],
)  # fmt: skip
KINDS: Final[dict[type, Kind]] = {
    object: _OBJECT,
    list: _OBJECT._replace(entries=lambda x: dict(enumerate(list.__iter__(x))), put=_put_element),
    dict: _OBJECT._replace(entries=lambda x: dict(dict.items(x)), put=partial(_put_entry, dict)),
    OrderedDict: _OBJECT._replace(
        entries=lambda x: dict(OrderedDict.items(x)), put=partial(_put_entry, OrderedDict)
    ),
    tuple: _FIXED, frozenset: _FIXED, Poison: _FIXED, set: _ITEMS, deque: _ITEMS,
    bytearray: _OBJECT._replace(state=bytes),
    np.ndarray: Kind(
        held=lambda x: [x.base, *_attributes(x)],
        parts=lambda x: [x.base, *_attributes(x), *_objects_in(x)],
        state=lambda x: (x.shape, x.strides, x.dtype, x.flags.writeable, x.tobytes()),
        others=lambda x: [x.base, *namespace_of(x)],
    ),
    np.void: Kind(parts=lambda x: [x.base], others=lambda x: [x.base]),
    memoryview: Kind(parts=lambda x: [x.obj], others=lambda x: [x.obj]),
    np.nditer: _ITERATOR._replace(state=_unknown),
    np.flatiter: _ITERATOR._replace(state=lambda x: x.index, others=lambda x: [x.base]),
    itertools.cycle: _ITERATOR._replace(others=gc.get_referents),  # it fills a list of its own
    type(itertools.tee(())[0]): _ITERATOR._replace(  # what those of one call share goes through it
        others=lambda x: [y for shared in gc.get_referents(x) for y in _driven_by(shared)],
    ),
    BaseException: _OBJECT._replace(
        held=lambda e: [*_of_error(e), e.__traceback__], parts=_of_error,
    ),
    partial: _OBJECT._replace(held=lambda x: [x.func, x.args, x.keywords, *_attributes(x)]),
    C_DATA: _OBJECT._replace(state=bytes),
    CellType: Kind(_of_cell, put=_put_variable),
    FunctionType: Kind(
        held=lambda f: [
            *_tables(f), f.__code__, f.__name__, f.__qualname__, f.__doc__, f.__module__
        ],
        others=_tables, parts=_tables,
    ),
    type: Kind(
        lambda x: dict(vars(x)) if is_python_class(x) else {},
        held=lambda x: [x.__name__, x.__qualname__, *x.__bases__] if is_python_class(x) else [],
        parts=lambda _: [],
    ),
    Frame: Kind(
        held=lambda x: [*x.stack, *x.fast.values(), x.namespace, *x.handled, x.function],
        state=lambda x: (x.pc, *x.fast),
    ),
    Generator: Kind(
        held=lambda x: [x.frame], state=lambda x: (x.started, x.running), others=lambda x: [x.frame]
    ),
    Holder: Kind(held=lambda x: x.held(), others=lambda x: x.held()),
    random.Generator: Kind(state=lambda x: (x.seed_value, x.ordinal)),
    Storage: Kind(state=lambda x: (x.version, x.history)),
    Tensor: Kind(
        lambda t: {PLACE: place_of(t), **_of_tensor(t)},
        held=lambda t: [*(getattr(t, name) for name in _OWN), *_in_slots(t)],
        others=lambda t: [t._storage, *_beside(t)],
        parts=lambda t: [*_of_tensor(t).values(), *_beside(t), *_in_slots(t)],
        put=_put_field,
    ),
    Shadow: _TWIN._replace(state=lambda s: s.mark()),
    CellShadow: _TWIN._replace(
        entries=lambda s: _of_cell(s.twin),
        put=lambda s, key, value: _put_variable(s.twin, key, value),
        loaded=lambda s, key: s.base,
    ),
    DictShadow: _TWIN._replace(
        entries=lambda s: s.entries(),
        state=lambda s: s.reordered() and [*map(_name, s.kind.keys(s.twin))],
        put=lambda s, key, value: _put_entry(s.kind, s.twin, key, value),
        loaded=lambda s, key: s.base.get(key, MISSING),
    ),
    ListShadow: _TWIN._replace(
        entries=lambda s: s.entries(), state=lambda s: s.rest(),
        put=lambda s, key, value: _put_element(s.twin, key, value),
        loaded=lambda s, key: s.base[key] if key < len(s.base) else MISSING,
    ),
    TensorShadow: _TWIN._replace(
        entries=lambda s: {PLACE: place_of(s.twin), **_of_tensor(s.twin)}, state=_marks,
        put=lambda s, key, value: _put_field(s.twin, key, value),
        loaded=lambda s, key: s.grad if key == "_grad" else s.extra.get(key, MISSING),
    ),
}  # fmt: skip
