"""Capture: the one door for values from outside. (real object, origin) -> value, and its guard.

`Outside.load` is a table by type. Every row makes the guard that its answer relies on; there is no
other way in.
"""

from __future__ import annotations

import collections
import enum
import functools
import operator
import random
import re
import types
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from eager.aval import Aval
from eager.device import Size, device
from eager.dtype import DType
from eager.storage import Storage
from eager.tensor import UNREAD, Tensor, ViewOf, wrap
from eager.traced import Traced, TracedStorage
from jitcap.capture.breaks import Break
from jitcap.capture.native import is_interpreted, is_native_class
from jitcap.capture.origin import Attribute, CellOf, Contents, Fixed, FixedPart, Item, Origin
from jitcap.capture.shadow import (
    CellShadow,
    DictShadow,
    ListShadow,
    ObjectShadow,
    SetShadow,
    Shadow,
)
from jitcap.guards import CodeIs, Equals, Is, Length, Same, TypeIs
from jitcap.tensor_guard import TensorLike, ViewOfBase

if TYPE_CHECKING:
    from jitcap.capture.world import World

Loader = Callable[["Outside", Any, Origin], Any]
_SINGLETONS: Final = (type(None), bool, type(Ellipsis), type(NotImplemented))
_BY_VALUE: Final = (int, str, bytes, complex, range, slice, frozenset, DType, device, re.Pattern)
_BY_IDENTITY: Final = (
    types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    ModuleType, np.ufunc, CodeType, property, types.GenericAlias,
    types.UnionType, functools.cached_property, functools._lru_cache_wrapper,
    operator.itemgetter, operator.attrgetter, operator.methodcaller,
)  # fmt: skip
HEAP_TYPE: Final = 1 << 9
IMMUTABLE_TYPE: Final = 1 << 8


class TensorShadow(Shadow):
    """A stand-in for a tensor from outside. `node`: the graph input with its value on entry."""

    def __init__(self, real: Tensor, origin: Origin, twin: Tensor, node: Any) -> None:
        super().__init__(real, origin, twin)
        self.node = node
        self.memory: TracedStorage = twin._array.storage
        self.requires_grad = twin._requires_grad
        self.grad: Any = UNREAD  # what was loaded for `.grad`
        self.extra: dict[str, Any] = {}  # attributes that the user put on it, as loaded

    def passes_on(self) -> bool:
        """Whether it got a gradient that is not its own: its history goes on outside."""
        given = self.twin._grad is not UNREAD and self.twin._grad is not self.grad
        return bool(given and self.real._node is not None and not self.real._retains)


class ViewShadow(Shadow):
    """A stand-in for a view whose base is (through the view) an input itself."""

    def changed(self) -> bool:
        twin = self.twin
        return twin._requires_grad or twin._node is not None or twin._grad is not None


class Outside:
    """Real objects by identity, and their twins."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.by_real: dict[int, Shadow] = {}
        self.by_twin: dict[int, Shadow] = {}
        self.by_node: dict[Any, TensorShadow] = {}
        self._owners: dict[int, TensorShadow] = {}  # by id of the traced memory
        self._cells: dict[tuple[int, int], CellType] = {}  # (function, index) -> twin
        self.numbers: dict[Any, Origin] = {}  # graph input of a run-time number -> where it is read
        self.constants: dict[int, tuple[Any, Origin]] = {}  # guarded to be equal
        self.shared: frozenset[int] = frozenset()  # storages whose views are loaded by their base
        self.dynamic: frozenset[str] = frozenset()  # shown origins of ints that have varied

    def forget(self) -> None:
        """Let go of the program's objects: a capture is full of cycles, and a batch is large."""
        for table in (self.by_real, self.by_twin, self.by_node, self._owners, self._cells):
            table.clear()
        self.world.hashed.clear()

    def load(self, real: Any, origin: Origin) -> Any:
        """The value to work with for `real`, found at `origin`. Raises Break if it is opaque."""
        if type(real) not in _SINGLETONS:
            known = self.by_real.get(id(real))
            if known is not None and known.origin is not origin:
                self.guard(Same(origin, self.world.line(), known.origin))
                return known.twin
        return loader_of(type(real))(self, real, origin)

    def guard(self, guard: Any) -> None:
        self.world.guards.add(guard)

    def register(self, shadow: Shadow) -> Any:
        """Remember a shadow; its twin."""
        self.by_real[id(shadow.real)] = shadow
        self.by_twin[id(shadow.twin)] = shadow
        return shadow.twin

    def register_object(self, shadow: ObjectShadow) -> None:
        """Remember an instance, and its dictionary as an object of its own."""
        self.register(shadow)
        if shadow.fields is not None:
            self.register(shadow.fields)

    def register_tensor(self, shadow: TensorShadow) -> Any:
        self.by_node[shadow.node] = shadow
        self._owners[id(shadow.memory)] = shadow
        return self.register(shadow)

    def owner_of(self, memory: TracedStorage) -> TensorShadow | None:
        """The tensor from outside whose memory this is."""
        return self._owners.get(id(memory))

    def shadow(self, twin: Any) -> Shadow | None:
        """The shadow of a twin (None for an object made inside, or a constant)."""
        return self.by_twin.get(id(twin))

    def origin_of(self, value: Any) -> Origin | None:
        shadow = self.by_twin.get(id(value))
        return None if shadow is None else shadow.origin

    def key_of(self, key: Any) -> tuple[Any, Origin | None]:
        """The real dictionary key that `key` stands for, and its origin if it is not a constant."""
        shadow = self.by_twin.get(id(key))
        if shadow is None or shadow.real is shadow.twin:
            return key, None
        return shadow.real, shadow.origin

    def cell(self, fn: FunctionType, index: int) -> CellType:
        """The twin of the `index`-th closure cell of a function from outside."""
        real = (fn.__closure__ or ())[index]
        if id(fn) in self.world.made:
            return real
        place = id(fn), index
        if place in self._cells:
            return self._cells[place]
        if id(real) in self.by_twin and id(real) not in self.by_real:
            return real
        name = fn.__code__.co_freevars[index]
        owner = self.origin_of(fn)
        origin: Origin = FixedPart(real, name, fn, f"__closure__[{index}]")
        if owner is not None and not self.is_fixed(fn):
            origin = CellOf(owner, index, name)
        known = self.by_real.get(id(real))
        if known is not None:  # two functions share a variable: they must at every call
            self.guard(Same(origin, self.world.line(), known.origin))
        twin = known.twin if known else self.register(CellShadow(real, origin))
        return self._cells.setdefault(place, twin)

    def is_fixed(self, value: Any) -> bool:
        """Whether `value` is guarded by identity (what hangs on it can be named directly)."""
        return id(value) in self.world.fixed

    def fix(self, value: Any, origin: Origin) -> Any:
        """Guard by identity; the object itself."""
        self.guard(Is(origin, self.world.line(), value))
        self.world.fixed[id(value)] = value
        return self.register(Shadow(value, origin, value))


def loader_of(cls: type) -> Loader:
    """The row of the table for a type: its own, or its category's."""
    found = LOADERS.get(cls)
    if found is not None:
        return found
    if issubclass(cls, Tensor):
        return load_tensor
    if issubclass(cls, type):
        return load_fixed
    if issubclass(cls, enum.Enum):
        return load_fixed
    if issubclass(cls, tuple):
        return load_tuple
    if issubclass(cls, np.generic | np.dtype | int | float | complex | str | bytes):
        return load_equal
    readable = is_python_class(cls) and cls.__module__.partition(".")[0] != "numpy"
    return load_instance if readable else load_opaque  # NumPy's own methods are not interpreted


def is_python_class(cls: Any) -> bool:
    """A class whose statements are Python: instances keep their state in a dictionary or slots.

    The values that stand for something else during a capture are none of the program's objects."""
    return _is_python_class(cls)


@functools.lru_cache(maxsize=4096)
def _is_python_class(cls: Any) -> bool:
    if cls is types.SimpleNamespace:  # an empty class in all but name
        return True
    flags = cls.__flags__
    if cls.__module__ == "eager.sym" or cls.__module__.startswith("jitcap.capture."):
        return False
    return bool(flags & HEAP_TYPE and not flags & IMMUTABLE_TYPE) and "__module__" in vars(cls)


def load_singleton(outside: Outside, real: Any, origin: Origin) -> Any:
    outside.guard(Is(origin, outside.world.line(), real))
    return real


def load_equal(outside: Outside, real: Any, origin: Origin) -> Any:
    outside.guard(Equals(origin, outside.world.line(), real))
    outside.constants[id(real)] = real, origin
    return real


def load_int(outside: Outside, real: int, origin: Origin) -> Any:
    if origin.show() in outside.dynamic:
        return load_number(outside, real, origin)
    return load_equal(outside, real, origin)


def load_number(outside: Outside, real: complex, origin: Origin) -> Any:
    """A run-time scalar: guarded by type only."""
    outside.guard(TypeIs(origin, outside.world.line(), type(real)))
    return outside.world.number_input(real, origin)


def load_fixed(outside: Outside, real: Any, origin: Origin) -> Any:
    return outside.fix(real, origin)


def load_function(outside: Outside, real: FunctionType, origin: Origin) -> Any:
    """A function of the program's text is guarded by identity, another by its code; one that is not
    read (two of `eager`'s can have the same code) by identity."""
    world = outside.world
    static = isinstance(origin.root, Fixed) and not isinstance(origin, Item | Contents)
    if static or world.is_globals(origin) or not is_interpreted(real):
        outside.fix(real, origin)
    else:
        outside.register(Shadow(real, origin, real))
        outside.guard(Is(Attribute(origin, "__globals__"), world.line(), real.__globals__))
    if not world.is_library(real.__globals__.get("__name__", "")) or not outside.is_fixed(real):
        outside.guard(CodeIs(origin, world.line(), real.__code__))
    return real


def load_method(outside: Outside, real: MethodType, origin: Origin) -> Any:
    outside.guard(TypeIs(origin, outside.world.line(), MethodType))
    fn = outside.load(real.__func__, Attribute(origin, "__func__"))
    owner = outside.load(real.__self__, Attribute(origin, "__self__"))
    return outside.register(Shadow(real, origin, MethodType(fn, owner)))


def load_builtin(outside: Outside, real: Any, origin: Origin) -> Any:
    """A builtin function is fixed; a bound method of a builtin type is bound to the twin."""
    owner = getattr(real, "__self__", None)
    if owner is None or isinstance(owner, type | ModuleType):
        return load_fixed(outside, real, origin)
    outside.guard(TypeIs(origin, outside.world.line(), type(real)))
    outside.guard(Equals(Attribute(origin, "__name__"), outside.world.line(), real.__name__))
    twin = outside.load(owner, Attribute(origin, "__self__"))
    if twin is owner:
        return outside.register(Shadow(real, origin, real))
    bound = base_method(owner, real).__get__(twin) if is_python_class(type(owner)) else None
    return outside.register(Shadow(real, origin, bound or getattr(twin, real.__name__)))


def base_method(owner: Any, bound: Any) -> Any:
    """What the builtin base of `owner`'s class holds, of which `bound` is a method."""
    return next(
        vars(base)[bound.__name__]
        for base in type(owner).__mro__
        if not is_python_class(base) and bound.__name__ in vars(base)
    )


def load_partial(outside: Outside, real: functools.partial[Any], origin: Origin) -> Any:
    outside.guard(TypeIs(origin, outside.world.line(), functools.partial))
    fn = outside.load(real.func, Attribute(origin, "func"))
    args = outside.load(real.args, Attribute(origin, "args"))
    keywords = outside.load(real.keywords, Attribute(origin, "keywords"))
    outside.world.settle(keywords)
    return outside.register(Shadow(real, origin, functools.partial(fn, *args, **keywords)))


def load_tuple(outside: Outside, real: tuple[Any, ...], origin: Origin) -> Any:
    """A new tuple of the loaded elements; the same one when all of them are constants."""
    cls = type(real)
    line = outside.world.line()
    if cls is tuple and all(type(x) in (int, str) for x in real):
        return load_equal(outside, real, origin)
    outside.guard(TypeIs(origin, line, cls))
    outside.guard(Length(origin, line, len(real)))
    items = [outside.load(x, Item(origin, i)) for i, x in enumerate(real)]
    twin = real
    if any(a is not b for a, b in zip(items, real, strict=True)):
        twin = tuple(items) if cls is tuple else tuple.__new__(cls, items)
    return outside.register(Shadow(real, origin, twin))


def load_list(outside: Outside, real: Any, origin: Origin) -> Any:
    line = outside.world.line()
    outside.guard(TypeIs(origin, line, type(real)))
    maxlen = getattr(real, "maxlen", None)
    twin: Any = collections.deque(maxlen=maxlen) if type(real) is collections.deque else []
    shadow = ListShadow(real, origin, twin)
    return outside.register(shadow)


def load_dict(outside: Outside, real: dict[Any, Any], origin: Origin) -> Any:
    outside.guard(TypeIs(origin, outside.world.line(), type(real)))
    if isinstance(real, collections.defaultdict):
        factory = outside.load(real.default_factory, Attribute(origin, "default_factory"))
        return outside.register(DictShadow(real, origin, collections.defaultdict(factory)))
    return outside.register(DictShadow(real, origin, type(real)()))


def load_cell(outside: Outside, real: CellType, origin: Origin) -> Any:
    """A closure cell that is itself a value: a variable of a live frame."""
    return outside.register(CellShadow(real, origin))


def load_set(outside: Outside, real: set[Any], origin: Origin) -> Any:
    if not all(loader_of(type(x)) in (load_equal, load_singleton, load_int) for x in real):
        raise Break("opaque object", f"{origin.show()} is a set of objects, which has no order")
    outside.guard(Equals(origin, outside.world.line(), set(real)))
    return outside.register(SetShadow(real, origin, set()))


def load_frozenset(outside: Outside, real: frozenset[Any], origin: Origin) -> Any:
    if not all(loader_of(type(x)) in (load_equal, load_singleton, load_int) for x in real):
        raise Break("opaque object", f"{origin.show()} is a set of objects, which has no order")
    return load_equal(outside, real, origin)


def load_instance(outside: Outside, real: Any, origin: Origin) -> Any:
    """A twin of the same class. Lists, dictionaries and their subclasses get contents as well."""
    cls = type(real)
    world = outside.world
    special = world.load_special(real, origin)
    if special is not None:
        return special
    outside.guard(TypeIs(origin, world.line(), cls))
    world.fixed[id(cls)] = cls
    if isinstance(real, dict):
        twin = dict.__new__(cls)
        outside.register_object(ObjectShadow(real, origin, twin))
        return outside.register(DictShadow(real, origin, twin))
    if isinstance(real, list):
        outside.guard(Length(origin, world.line(), len(real)))
        twin = list.__new__(cls)
        outside.register_object(ObjectShadow(real, origin, twin))
        return outside.register(ListShadow(real, origin, twin))
    try:
        twin = types.SimpleNamespace() if cls is types.SimpleNamespace else object.__new__(cls)
    except TypeError:
        raise Break("opaque object", f"{origin.show()} is a {cls.__qualname__}") from None
    shadow = ObjectShadow(real, origin, twin)
    outside.register_object(shadow)
    if is_native_class(cls):
        shadow.complete(world)
    return twin


def load_opaque(outside: Outside, real: Any, origin: Origin) -> Any:
    """An object whose state we cannot read: it can be passed along, not used."""
    outside.guard(TypeIs(origin, outside.world.line(), type(real)))
    return outside.register(Shadow(real, origin, real))


def load_tensor(outside: Outside, real: Tensor, origin: Origin) -> Any:
    """A stand-in whose array is a graph input."""
    if type(real._array) is Traced:
        raise Break("opaque object", f"{origin.show()} belongs to another capture that is going on")
    if id(real._storage) in outside.shared and real._view is not None and not real.requires_grad:
        return load_view(outside, real, origin)
    world = outside.world
    item = real._array.itemsize
    strides = tuple(s // item for s in real._array.strides)
    aval: Aval = real.aval
    node = world.tracer.input(f"x{len(world.tracer.inputs)}", aval)
    storage = TracedStorage(world.tracer, node, aval)
    twin = wrap(Traced(aval, storage, node, (), strides), Storage(), type(real))
    if real.requires_grad:
        twin._requires_grad = True
    twin._grad = UNREAD
    outside.guard(TensorLike.of(real, origin, world.line()))
    outside.register_tensor(TensorShadow(real, origin, twin, node))
    if real.requires_grad and real._hooks is not None:
        for field in ("_hooks", "_accumulate_hooks"):
            hooks = outside.load(getattr(real, field), Attribute(origin, field))
            world.settle(hooks)
            setattr(twin, field, {key: world.reentry(hook) for key, hook in hooks.items()})
    return twin


def load_view(outside: Outside, real: Tensor, origin: Origin) -> Any:
    """A stand-in that is a view of its base's stand-in, so that writes to either show in both."""
    assert real._view is not None
    where = real._view
    outside.guard(ViewOfBase(origin, outside.world.line(), type(real), where.chain))
    base = outside.load(where.base, Attribute(Attribute(origin, "_view"), "base"))
    array = base._array
    for op, attrs in where.chain:
        array = array.view(op, attrs)
    if array.storage is not base._array.storage:
        raise Break("aliasing", f"{origin.show()} is a view that cannot be made again")
    twin = wrap(array, base._storage, type(real))
    twin._view = ViewOf(base, where.chain, base._storage.history)
    return outside.register(ViewShadow(real, origin, twin))


LOADERS: Final[dict[type, Loader]] = {
    **dict.fromkeys(_SINGLETONS, load_singleton),
    **dict.fromkeys(_BY_VALUE, load_equal),
    **dict.fromkeys(_BY_IDENTITY, load_fixed),
    int: load_int,
    float: load_number,
    np.float64: load_number,  # a float: what NumPy computes for a schedule or a mixture
    type: load_fixed,
    object: load_fixed,
    FunctionType: load_function,
    MethodType: load_method,
    types.BuiltinFunctionType: load_builtin,
    types.MethodWrapperType: load_builtin,
    functools.partial: load_partial,
    tuple: load_tuple,
    Size: load_tuple,
    list: load_list,
    collections.deque: load_list,
    dict: load_dict,
    collections.OrderedDict: load_dict,
    collections.defaultdict: load_dict,
    set: load_set,
    CellType: load_cell,
    frozenset: load_frozenset,
    **dict.fromkeys((random.Random, np.random.RandomState, np.random.Generator), load_fixed),
}
