"""Tracing by dispatch: the program's objects, borrowed. (object, origin) -> itself, and its guards.

The kinds of capture stand beside the program and hand it twins. CPython hands the program its own
objects, so here each is its own twin: all of what it holds is loaded at once, tensors among it
stand for inputs of the graph, and a copy of what it was is kept. The difference to the copy is what
the program did (`capture.epilogue`); then the object gets back what it had, whatever happened.

What cannot be guarded and is not named by any code that runs (a loader beside the weights) is
`idle`: it stays where it is.
"""

from __future__ import annotations

import collections
import functools as ft
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, Final

import numpy as np

from eager.compiler import NO_CAPTURE
from eager.core.stand_in import StandInStorage
from eager.core.tensor import UNREAD, Tensor, ViewOf, clear, unmade
from eager.core.traced import Traced, TracedStorage
from eager.device.array import DeviceArray
from eager.optim import Optimizer
from eager.sizes.aval import Aval
from jitcap.base.breaks import Break
from jitcap.base.call_policy import (
    _holds_user_code,
    is_library_class,
    is_library_space,
    is_python_class,
)
from jitcap.base.origin import (
    GLOBALS,
    Attribute,
    CellOf,
    Contents,
    DictOf,
    Fixed,
    FixedPart,
    Item,
    ItemBy,
    Keyword,
    MembersOf,
    Origin,
    Positional,
    result_of,
)
from jitcap.by_dispatch.copies import (
    blank,
    copy_slots,
    dict_kind,
    fields_of,
    poured,
    recell,
    refill,
    refill_list,
    refill_names,
    refit,
    slot_of,
)
from jitcap.capture.inputs import Outside, Shadow
from jitcap.capture.kinds import base, constants, functions, sequences, sets, tensors
from jitcap.capture.kinds.base import MISSING, Kind, kind_of
from jitcap.capture.kinds.cells import CellKind, CellShadow, is_empty
from jitcap.capture.kinds.classes import ClassKind, acts_by_itself, guarded_mro, guarded_raw
from jitcap.capture.kinds.constants import Opaque
from jitcap.capture.kinds.mappings import DictKind, DictShadow
from jitcap.capture.kinds.modules import ModuleKind
from jitcap.capture.kinds.objects import ObjectKind, ObjectShadow, PlainKind
from jitcap.capture.kinds.sequences import ListShadow
from jitcap.capture.kinds.sets import SetShadow
from jitcap.capture.kinds.symbolic import scalars, texts
from jitcap.capture.kinds.tensors import TensorShadow, own_names
from jitcap.capture.kinds.views import ViewShadow, require_entered
from jitcap.guards.class_guard import Member
from jitcap.guards.guard import CodeIs, Equals, Is, Length, Same, TypeIs
from jitcap.guards.tensor_guard import TensorLike, ViewOfBase, is_argument, is_writable

STEPPED: Final = "_opt_called"  # of an optimizer
MOST: Final = 50_000  # objects that are loaded for one trace
_STEPS: Final = frozenset({"forward", "__call__", "step", "update", "zero_grad"})
_PLACED: Final = (Positional, Keyword, Item, ItemBy, Contents)  # where a number can be put
_OWN_OF_CLASSES: Final = frozenset(
    "__dict__ __weakref__ __doc__ __module__ __qualname__ __firstlineno__ __static_attributes__ "
    "__annotations__ __annotate__ __annotate_func__ __annotations_cache__ __match_args__ "
    "__orig_bases__ __parameters__ __abstractmethods__ _abc_impl __slots__".split()
)
_ARRAY: Final = vars(Tensor)["_array"]
# Kinds of which a value is itself whatever happens to it, or is guarded by identity or value.
_KEPT: Final[frozenset[type[Kind]]] = frozenset({
    constants.SingletonKind, constants.ConstantKind, constants.MadeKind, constants.SliceKind,
    constants.StaticKind, constants.FixedKind, functions.EnumKind, functions.HostKind,
    functions.JittedKind, functions.CustomKind, functions.BuiltinKind, functions.UnboundKind,
    functions.UfuncKind, functions.DispatchedKind, functions.GetterKind,
    sequences.TupleKind, sets.FrozensetKind, ModuleKind, PlainKind,
})  # fmt: skip


class DispatchOutside(Outside):
    """Objects from outside, by identity. One that is borrowed is its own twin; what its `Shadow`
    calls the real one is a copy of what it was."""

    def lend(self, shadow: Shadow) -> Any:
        """Remember a borrowed object."""
        self.by_real[id(shadow.twin)] = self.by_twin[id(shadow.twin)] = shadow
        return shadow.twin

    def key_of(self, key: Any) -> tuple[Any, Origin | None]:
        """The key itself: dictionaries have borrowed objects for keys before and after."""
        shadow = self.by_twin.get(id(key))
        return key, None if shadow is None or shadow.real is shadow.twin else shadow.origin


def asked_names(fields: dict[str, Any]) -> tuple[str, ...]:
    """The names of what an optimizer holds and asks for."""
    return tuple(name for name in fields if name != STEPPED)


class SpaceShadow(DictShadow):
    """A dictionary of which a part is loaded, and the rest stays: a module's (what the running code
    names), an optimizer's (but whether it has stepped, which it stores and does not ask)."""

    def complete(self, s: base.Session) -> None:
        place = result_of(asked_names, self.origin)
        s.guards.add(Equals(place, s.line(), asked_names(self.real)))
        for name in asked_names(self.real):
            self.touch(s, name)

    def reachable(self) -> list[Any]:
        stored = (k for k, v in self.twin.items() if self.real.get(k, MISSING) is not v)
        return [self.twin[k] for k in {*self.known, *stored} if k in self.twin]

    def stored(self) -> list[Any]:
        before = {**self.real, **self.base}
        return [k for k, v in self.twin.items() if before.get(k, MISSING) is not v]

    def removed(self) -> list[Any]:
        return [k for k in self.real if k not in self.twin]


class BorrowedList(ListShadow):
    """A list or deque that keeps its elements while they are loaded: another thread may look."""

    def load_rest(self, s: base.Session) -> None:
        self.base = self.loaded(s)
        for index, value in enumerate(self.base):
            if value is not self.kind.__getitem__(self.twin, index):
                self.kind.__setitem__(self.twin, index, value)


class Borrower:
    """Loads the objects of one trace, and puts them back at the end of its `with` block."""

    def __init__(self, session: base.Session, outside: DispatchOutside) -> None:
        self.s = session
        self.outside = outside
        self.undo: list[Callable[[], None]] = []
        self.before: list[Tensor] = []  # all tensors that there were
        self.codes: dict[int, FunctionType | None] = {}  # of functions whose closure is loaded
        self.known: dict[int, FunctionType] = {}  # by code: methods of classes that were met
        self.idle: dict[str, str] = {}  # attributes that cannot be guarded: name -> what is there
        self.closed: set[int] = set()  # codes that must not be called here
        self.modules: dict[int, Any] = {}  # that were met
        self.count = 0
        self.varies = False  # whether a number stands for another
        self.fixed = False  # whether numbers are where none can be put: in a function's defaults
        self.met: set[int] = set()  # classes whose members are guarded
        self.classes: list[tuple[type, dict[str, Any]]] = []  # as they were
        self._keep: list[Any] = []

    def __enter__(self) -> Borrower:
        tensors = [t for t in gc.get_objects() if issubclass(type(t), Tensor)]
        self.before = [t for t in tensors if slot_of(_ARRAY, t) is not MISSING]  # not half made
        return self

    def __exit__(self, *_: object) -> None:
        for undo in reversed(self.undo):
            undo()
        for held in (self.undo, self.before, self.classes, self.codes, self.known, self._keep):
            held.clear()  # a batch is large, and a trace is full of cycles

    # ---- any value

    def load(self, real: Any, origin: Origin) -> Any:
        """The value that the program works with: nearly always the object itself."""
        self.count += 1
        if self.count > MOST:
            raise Break("size", f"more than {MOST} objects are reached from it, to be guarded")
        if type(real) in (np.ndarray, *constants.GENERATORS):
            return self.opaque(real, origin)
        kind = kind_of(real)
        own = _LOADERS.get(type(kind))
        if own is not None:
            return own(self, real, origin)
        if type(kind) is ModuleKind:
            self.modules[id(real)] = real
        if type(kind) is functions.HostKind and not is_library_class(type(real)):
            return self.opaque(real, origin)
        if type(kind) in _KEPT:
            found = kind.load(self.s, real, origin)
            if type(found) is not Opaque:
                return found
            self.outside.by_real.pop(id(real), None)
        return self.opaque(real, origin)

    def opaque(self, real: Any, origin: Origin) -> Any:
        """Refuse what nothing can guard, unless it is an attribute that may be left alone."""
        owner = origin.base if isinstance(origin, Item) else None
        if isinstance(owner, DictOf | MembersOf) and type(origin.key) is str:  # type: ignore[attr-defined]
            self.idle.setdefault(origin.key, f"{origin.show()} is a {type(real).__qualname__}")  # type: ignore[attr-defined]
            self.s.idle[id(real)] = real
            return real
        raise Break("opaque object", f"{origin.show()} is a {type(real).__qualname__}")

    def number(self, real: Any, origin: Origin) -> Any:
        """A constant, until it is known to vary: then a run-time number in its place."""
        placed = isinstance(origin, _PLACED) and not self.fixed
        if placed and self.outside.varies(origin):
            self.varies = True
            self.outside.guard(TypeIs(origin, self.s.line(), type(real)))
            return self.s.number_input(real, origin)
        if real != real:  # a list finds one that equals nothing by who it is
            self.outside.guard(Is(origin, self.s.line(), real))
        return self.outside.constant(real, origin)

    # ---- containers

    def sequence(self, real: Any, origin: Origin) -> Any:
        """A list or deque."""
        self.outside.guard(TypeIs(origin, self.s.line(), type(real)))
        saved = blank(real)
        if saved is None:
            return self.opaque(real, origin)
        if isinstance(real, collections.deque):
            limit = Attribute(origin, "maxlen")
            self.outside.guard(Equals(limit, self.s.line(), real.maxlen))
        self._fill(real, saved, origin)
        return real

    def _fill(self, real: Any, saved: Any, origin: Origin) -> None:
        """Copy a list, and load it."""
        kind: Any = list if isinstance(real, list) else collections.deque
        kind.extend(saved, kind.__iter__(real))
        self.undo.append(partial(refill_list, kind, real, saved))
        shadow = BorrowedList(saved, origin, kind())
        shadow.twin = real
        self.outside.lend(shadow)
        shadow.complete(self.s)

    def mapping(self, real: Any, origin: Origin) -> Any:
        """A dictionary."""
        self.outside.guard(TypeIs(origin, self.s.line(), type(real)))
        for key in dict_kind(real).keys(real):
            self.s.refuse_key(key)
        saved = blank(real)
        if saved is None:
            return self.opaque(real, origin)
        if isinstance(real, collections.defaultdict):
            factory = self.outside.load(real.default_factory, Attribute(origin, "default_factory"))
            saved.default_factory = factory
        self._pour(DictShadow(poured(saved, real), origin, real))
        return real

    def _pour(self, shadow: DictShadow) -> None:
        """Load all of a dictionary."""
        self.undo.append(partial(refill, shadow.twin, shadow.real))
        self.outside.lend(shadow)
        shadow.complete(self.s)

    def set(self, real: set[Any], origin: Origin) -> Any:
        """A set of constants."""
        kind = kind_of(real)
        assert isinstance(kind, sets.SetKind)
        kind.check(real, origin)
        saved = set(real)
        self.outside.constant(saved, origin)
        self.undo.append(partial(refill_list, set, real, saved))
        return self.outside.lend(SetShadow(saved, origin, real))

    # ---- instances and classes

    def instance(self, real: Any, origin: Origin) -> Any:
        """An object of a Python class: its dictionary, its slots, and what it holds as a builtin
        container."""
        cls, s = type(real), self.s
        self.members(cls)
        if acts_by_itself(s, cls):
            return self.opaque(real, origin)
        if isinstance(real, tuple):
            return self._value(real, origin, kind_of(real).base.load)  # type: ignore[attr-defined]
        if isinstance(real, int | float | complex | str | bytes):
            return self._value(real, origin, kind_of(real).load)
        saved = blank(real)
        if saved is None:
            return self.opaque(real, origin)
        self.outside.guard(TypeIs(origin, s.line(), cls))
        self.outside.fixed[id(cls)] = cls
        copy_slots(real, saved)
        if hasattr(saved, "__dict__"):
            fields_of(saved).update(fields_of(real))
        shadow = ObjectShadow(saved, origin, real)
        self.outside.lend(shadow)
        fields = None if shadow.fields is None else shadow.fields.twin
        self.undo.append(partial(refit, real, saved, fields))
        self._hold(shadow)
        if isinstance(real, list | collections.deque):
            self._fill(real, saved, origin)
        elif isinstance(real, dict):
            self._pour(DictShadow(poured(saved, real), origin, real))
        return real

    def _hold(self, shadow: ObjectShadow) -> None:
        """Load slots and dictionary, which may be that of another instance, too."""
        fields = shadow.fields
        if fields is not None and isinstance(shadow.twin, Optimizer):
            shadow.fields = fields = SpaceShadow(fields.real, fields.origin, fields.twin)
            fields.owner = type(shadow.twin)
        if fields is not None:
            known = self.outside.by_real.get(id(fields.twin))
            if isinstance(known, DictShadow):
                self.s.guards.add(Same(fields.origin, self.s.line(), known.origin))
                shadow.fields = known
            else:
                self.undo.append(partial(refill, fields.twin, fields.real))
                self.outside.lend(fields)
        shadow.complete(self.s)

    def _value(self, real: Any, origin: Origin, load: Callable[..., Any]) -> Any:
        """A number, text or tuple of a class of the program, which is what it is."""
        if getattr(real, "__dict__", None):
            return self.opaque(real, origin)
        return load(self.s, real, origin)

    def members(self, cls: type) -> None:
        """Guard the members of a class of the program and its bases, and their number."""
        for owner in cls.__mro__:
            if not is_python_class(owner) or id(owner) in self.met:
                continue
            self.met.add(id(owner))
            guarded_mro(self.s, owner)
            if not is_library_class(type(owner)):
                self.members(type(owner))
            if is_library_class(owner):
                self._library(owner)
                continue
            table = self.s.namespaces[id(owner)]
            self.s.guards.add(Length(table, self.s.line(), len(vars(owner))))
            self.classes.append((owner, dict(vars(owner))))
            for name, raw in [*vars(owner).items()]:
                if name not in _OWN_OF_CLASSES:
                    with self.unplaced():
                        guarded_raw(self.s, owner, name)
                for fn in functions_in(raw):
                    self.known.setdefault(id(fn.__code__), fn)

    def _library(self, owner: type) -> None:
        """Guard the members of a library's class that make up a step."""
        self.classes.append((owner, dict(vars(owner))))
        table = self.s.namespaces[id(owner)]
        for name in sorted(_STEPS & vars(owner).keys()):
            self.s.guards.add(Member(table, self.s.line(), name, vars(owner)[name]))

    @contextmanager
    def unplaced(self) -> Iterator[None]:
        """Inside, what is loaded stays where it is found: a number is a constant there."""
        before, self.fixed = self.fixed, True
        try:
            yield
        finally:
            self.fixed = before

    # ---- functions

    def learn(self, fn: FunctionType) -> None:
        """Closure, defaults and attributes of a function that may be called."""
        if id(fn) in self.s.reached:
            return
        self.s.reached[id(fn)] = fn
        self.codes.setdefault(id(fn.__code__), fn)
        if hasattr(fn, NO_CAPTURE):
            self.closed.add(id(fn.__code__))
            return
        library = is_library_space(fn.__globals__)
        for i, cell in enumerate(fn.__closure__ or ()):
            if not library or _holds_user_code(cell):
                self._closure(fn, i, cell)
        if library:
            return
        owner = self.outside.origin_of(fn) or Fixed(fn, fn.__qualname__)
        for field in ("__defaults__", "__kwdefaults__"):
            given = getattr(fn, field)
            if given is not None:
                with self.unplaced():
                    self.outside.load(given, Attribute(owner, field))
        self.outside.load(fn.__dict__, DictOf(owner))

    def _closure(self, fn: FunctionType, index: int, cell: CellType) -> None:
        """A variable of a function's closure."""
        name = fn.__code__.co_freevars[index]
        owner = self.outside.origin_of(fn)
        origin: Origin = FixedPart(cell, name, fn, index)
        if owner is not None and not self.outside.is_fixed(fn):
            origin = CellOf(owner, index, name)
        if id(cell) in self.outside.by_real:  # two functions share it: they must at every call
            known = self.outside.by_real[id(cell)]
            self.outside.guard(Same(origin, self.s.line(), known.origin))
        else:
            self.cell(cell, origin)

    def cell(self, real: CellType, origin: Origin) -> Any:
        saved = CellType() if is_empty(real) else CellType(real.cell_contents)
        shadow = CellShadow(saved, origin)
        shadow.twin = real
        self.undo.append(partial(recell, real, saved))
        self.outside.lend(shadow)
        shadow.touch(self.s)
        return real

    def code_is_known(self, code: CodeType) -> bool:
        """True if the closure of a function with this code is loaded, or it has none; that of a
        method of a class that was met is loaded now."""
        if id(code) in self.codes:
            return True
        fn = self.known.get(id(code))
        if fn is not None:
            self.outside.fixed[id(fn)] = fn
            self.s.guards.add(CodeIs(Fixed(fn, fn.__qualname__), self.s.line(), code))
            self.learn(fn)
        return fn is not None or not code.co_freevars

    def space(self, real: dict[str, Any], owner: FunctionType | None) -> SpaceShadow:
        """A module's dictionary."""
        shadow = self.outside.by_real.get(id(real))
        if isinstance(shadow, SpaceShadow):
            return shadow
        origin: Origin = Fixed(real, GLOBALS)
        if owner is not None:
            origin = FixedPart(real, GLOBALS, owner, "__globals__")
        shadow = SpaceShadow(dict(real), origin, real)
        self.undo.append(partial(refill_names, real, shadow.real))
        self.outside.lend(shadow)
        return shadow


def load_class(b: Borrower, real: type, origin: Origin) -> Any:
    """A class, which is what it is."""
    kind_of(real).load(b.s, real, origin)
    b.members(real)
    return real


def load_function(b: Borrower, real: FunctionType, origin: Origin) -> Any:
    """A function: its text, and what it has of its own."""
    kind_of(real).load(b.s, real, origin)
    b.learn(real)
    return real


def load_method(b: Borrower, real: MethodType, origin: Origin) -> Any:
    """A function that is bound to an object."""
    b.outside.guard(TypeIs(origin, b.s.line(), MethodType))
    b.outside.load(real.__func__, Attribute(origin, "__func__"))
    b.outside.load(real.__self__, Attribute(origin, "__self__"))
    return b.outside.register(Shadow(real, origin, real))


def load_partial(b: Borrower, real: Any, origin: Origin) -> Any:
    """A `functools.partial` of the plain class."""
    if type(real) is not ft.partial or real.__dict__:
        return b.opaque(real, origin)
    b.outside.guard(TypeIs(origin, b.s.line(), ft.partial))
    with b.unplaced():
        for part in ("func", "args", "keywords"):
            b.outside.load(getattr(real, part), Attribute(origin, part))
    b.outside.guard(Length(Attribute(origin, "__dict__"), b.s.line(), 0))
    return b.outside.register(Shadow(real, origin, real))


def load_tensor(b: Borrower, real: Tensor, origin: Origin) -> Any:
    """A tensor stands for an input of the graph."""
    s, outside = b.s, b.outside
    if type(real._array) is Traced:
        raise Break("opaque object", f"{origin.show()} belongs to another capture")
    if type(real._array) is DeviceArray:
        raise Break("device", f"{origin.show()} lives on {real.device}")
    saved: Tensor = unmade(type(real))
    copy_slots(real, saved)
    saved.__dict__.update(real.__dict__)
    b.members(type(real))
    b.undo += [partial(refill, real.__dict__, saved.__dict__), partial(refit, real, saved, None)]
    where = saved._view
    is_shared = id(saved._storage) in outside.assumed.memories
    is_shared = is_shared and where is not None and not saved._requires_grad
    # A base that is lent already has other memory: the guard asks whether it was the same.
    if is_shared and (id(where.base) in outside.by_real or where.holds(saved)):  # type: ignore[union-attr]
        return _load_view(b, real, saved, origin)
    item = saved._array.itemsize
    strides = tuple(k // item for k in saved._array.strides)
    aval: Aval = saved.aval
    node = s.tracer.input(f"x{len(s.tracer.inputs)}", aval)
    memory = TracedStorage(s.tracer, node, aval, read_only=not is_writable(saved._array))
    clear(real)
    real.__dict__.clear()
    counts = StandInStorage(saved._storage)
    real._array, real._storage = Traced(aval, memory, node, (), strides), counts
    real._grad = UNREAD
    if saved.requires_grad:
        real._requires_grad = True
    outside.guard(TensorLike.of(saved, origin, s.line(), kind=counts.kind))
    shadow = TensorShadow(saved, origin, real, node)
    s.inputs[node] = s.owners[id(shadow.memory)] = shadow
    outside.lend(shadow)
    _load_extras(b, real, saved, shadow)
    return real


def _load_extras(b: Borrower, real: Tensor, saved: Tensor, shadow: TensorShadow) -> None:
    """Hooks, and what the user put on a tensor."""
    if saved.requires_grad and saved._hooks is not None:
        for field in ("_hooks", "_accumulate_hooks"):
            hooks = getattr(saved, field)
            if hooks is not None:
                b.outside.load(hooks, Attribute(shadow.origin, field))
                setattr(real, field, dict(hooks))
    names = own_names(saved)
    if names or is_argument(shadow.origin):
        see_names(b, shadow)
    for name in names:
        found = b.outside.load(saved.__dict__[name], Item(DictOf(shadow.origin), name))
        shadow.extra[name] = real.__dict__[name] = found


def see_names(b: Borrower, shadow: TensorShadow) -> None:
    """Guard which attributes the user put on a tensor."""
    place = result_of(own_names, shadow.origin)
    b.outside.guard(Equals(place, b.s.line(), own_names(shadow.real)))


def _load_view(b: Borrower, real: Tensor, saved: Tensor, origin: Origin) -> Any:
    """A view of its base, which is borrowed, so that writes to either show in both."""
    where = saved._view
    assert where is not None
    b.outside.guard(ViewOfBase(origin, b.s.line(), type(real), where.chain))
    base = b.outside.load(where.base, Attribute(Attribute(origin, "_view"), "base"))
    require_entered(b.outside.shadow(base), origin)
    array = base._array
    for op, attrs in where.chain:
        array = array.view(op, attrs)
    if array.storage is not base._array.storage:
        raise Break("aliasing", f"{origin.show()} is a view that cannot be made again")
    clear(real)
    real.__dict__.clear()
    real._array, real._storage = array, base._storage
    real._view = ViewOf(base, where.chain, base._storage.history)
    return b.outside.lend(ViewShadow(saved, origin, real))


_LOADERS: Final[dict[type[Kind], Callable[[Borrower, Any, Origin], Any]]] = {
    tensors.TensorKind: load_tensor,
    **dict.fromkeys((scalars.IntKind, scalars.FloatKind), Borrower.number),
    **dict.fromkeys((scalars.ScalarKind, texts.TextKind), lambda b, *at: b.outside.constant(*at)),
    sequences.ListKind: Borrower.sequence,
    sets.SetKind: Borrower.set,
    DictKind: Borrower.mapping,
    ObjectKind: Borrower.instance,
    ClassKind: load_class,
    functions.FunctionKind: load_function,
    functions.MethodKind: load_method,
    functions.PartialKind: load_partial,
    CellKind: Borrower.cell,
}


_WRAPPERS: Final[dict[type, tuple[str, ...]]] = {
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset", "fdel"),
    ft.cached_property: ("func",),
    ft.partialmethod: ("func",),
    ft.singledispatchmethod: ("func",),
}


def functions_in(raw: Any) -> Iterator[FunctionType]:
    """The functions behind a member of a class; a method that is jitted holds its `original`."""
    stack = [raw]
    while stack:
        value = stack.pop()
        if type(value) is FunctionType:
            yield value
        jitted = isinstance(kind_of(value), functions.JittedKind)
        for part in ("original",) if jitted else _WRAPPERS.get(type(value), ()):
            stack.append(getattr(value, part))
