"""Capture: classes. What they hold, a guard for every read; making instances; changing them."""

from __future__ import annotations

import collections
import dataclasses
import dis
import functools
import itertools
import operator
import sys
import types
from collections.abc import Iterable
from types import FunctionType, MemberDescriptorType, MethodType
from typing import Any, Final

import numpy as np

from eager.core.tensor import Tensor
from eager.nn.modules.module import Module
from jitcap.base.breaks import Break
from jitcap.base.call_policy import (
    HOST_MODULES,
    PURE_MODULES,
    is_library_class,
    is_native_class,
    is_python_class,
    is_slot,
)
from jitcap.base.origin import Attribute, Computed, Fixed, Item, MembersOf
from jitcap.base.terms import method
from jitcap.capture import bytecode
from jitcap.capture.kinds.base import (
    HANDLERS,
    MISSING,
    Args,
    Kind,
    Kwargs,
    Session,
    kind_of,
    kind_of_class,
    of,
)
from jitcap.capture.kinds.constants import ForeignKind, StaticKind, driven, runs_python
from jitcap.capture.kinds.iterators import Lazy
from jitcap.capture.kinds.poison import Poison
from jitcap.guards.class_guard import ABSENT, Member, MembersAre
from jitcap.guards.guard import CodeIs, Is

ATOMS: Final = frozenset({int, float, complex, str, bool, type(None)})
DESCRIPTORS: Final[tuple[Any, ...]] = (
    staticmethod, classmethod, property, functools.cached_property, MemberDescriptorType,
    types.GetSetDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
    types.ClassMethodDescriptorType, types.BuiltinFunctionType,
)  # fmt: skip
_AROUND: Final = (staticmethod, classmethod, property, functools.cached_property)
_OF_TYPE: Final = {  # what a class has of its metaclass, whatever it holds itself
    n for n, v in vars(type).items()
    if isinstance(v, types.GetSetDescriptorType | MemberDescriptorType)
} - {"__dict__", "__doc__", "__module__", "__abstractmethods__"}  # fmt: skip
_ITERTOOLS: Final = frozenset(v for v in vars(itertools).values() if isinstance(v, type))
_PURE_TYPES: Final = frozenset({
    str, bytes, bytearray, int, float, bool, complex, slice, range, object, list, tuple, dict, set,
    frozenset, enumerate, zip, map, filter, reversed, staticmethod, classmethod, property,
    types.SimpleNamespace, types.MethodType, types.CellType, functools.partial,
    collections.OrderedDict, collections.deque, collections.defaultdict,
    *_ITERTOOLS,
})  # fmt: skip
META_HOOKS: Final = ("__new__", "__init__", "__call__", "__hash__", "__eq__")  # of a metaclass
# What only keeps what it gets, for now.
STORES: Final = frozenset({
    enumerate, zip, reversed, staticmethod, classmethod, property, slice, types.SimpleNamespace,
    types.MethodType, types.CellType, functools.partial, object.__new__,
    *_ITERTOOLS,
})  # fmt: skip
HOLDS: Final = STORES - {  # and what calls no function that it got
    itertools.accumulate, itertools.dropwhile, itertools.filterfalse, itertools.groupby,
    itertools.starmap, itertools.takewhile,
}  # fmt: skip
_TAKEN_APART: Final = (int, float, complex, str, bytes, bytearray)  # made of what they are given
# Text is a name and a key, for which it is hashed and compared.
_TOLD: Final = (str, bytes)
_TOLD_APART: Final = ("__hash__", "__eq__")
_FILLED_LATER: Final = (list, dict, set, collections.deque)  # by `__init__` alone
# Of each that runs through its first arguments later, how many; the others are numbers.
_RUN_THROUGH: Final[dict[type, int]] = {
    **dict.fromkeys(_ITERTOOLS - {itertools.chain, itertools.count}, 1),
    **dict.fromkeys((zip, itertools.product, itertools.zip_longest), sys.maxsize),
    enumerate: 1, itertools.repeat: 0,
}  # fmt: skip
_POOLS: Final = frozenset({  # these run through them at once
    itertools.product, itertools.permutations, itertools.combinations,
    itertools.combinations_with_replacement,
})  # fmt: skip
_COUNTS: Final = frozenset({"repeat", "r", "n", "times", "start"})


# ---- what a class holds


def class_raw(s: Session, cls: type, name: str, after: type | None = None) -> Any:
    """The unbound member of the class or a base under `name`, or MISSING. Guarded, also against a
    class nearer in the order of resolution that gets such a member, and against another order.
    `after`: the lookup starts after this base, as `super()` does."""
    key = id(cls), name
    if after is None and key in s.lookups:
        return s.lookups[key]
    order = guarded_mro(s, cls)
    raw = MISSING
    for owner in order if after is None else order[order.index(after) + 1 :]:
        raw = guarded_raw(s, owner, name)
        if raw is not MISSING:
            break
    if after is None and id(cls) not in s.made:
        s.lookups[key] = raw
    return raw


def guarded_mro(s: Session, cls: type) -> tuple[type, ...]:
    """The order of resolution, which `__bases__` of any base can change. A library's is fixed."""
    if id(cls) not in s.namespaces and id(cls) not in s.made and is_python_class(cls):
        s.namespaces[id(cls)] = MembersOf.of(cls)
        if not is_library_class(cls):
            place = Attribute(Fixed(cls, cls.__qualname__), "__mro__")
            s.guard(Is, place, cls.__mro__)
    return cls.__mro__


def guarded_names(s: Session, cls: type, among: frozenset[str]) -> set[str]:
    """Those of some names that the class or a base holds, if that is written in Python."""
    found = set()
    for owner in guarded_mro(s, cls):
        if not is_python_class(owner) or owner.__module__ == "enum" or is_native_class(owner):
            continue
        held = among.intersection(vars(owner))
        found |= {name for name in held if isinstance(vars(owner)[name], FunctionType)}
        if id(owner) not in s.made:
            guarded_mro(s, owner)
            s.guard(MembersAre, s.namespaces[id(owner)], among, held)
    return found


def guarded_raw(s: Session, owner: type, name: str) -> Any:
    """The member that `owner` itself has under `name`, or MISSING."""
    raw = vars(owner).get(name, MISSING)
    if not is_python_class(owner) or id(owner) in s.made:
        return raw
    key = (id(owner), name)
    if key not in s.class_reads:
        s.class_reads[key] = _load_member(s, owner, name, raw)
    return s.class_reads[key]


def _load_member(s: Session, owner: type, name: str, raw: Any) -> Any:
    guarded_mro(s, owner)
    table, library = s.namespaces[id(owner)], is_library_class(owner)
    if isinstance(raw, _AROUND):
        s.outside.begin(raw, Item(table, name))  # what it holds, and is given, is read from there
    if isinstance(raw, FunctionType):
        s.outside.fixed[id(raw)] = raw
        if not library:
            s.guard(CodeIs, Item(table, name), raw.__code__)
    elif not (
        raw is MISSING
        or isinstance(raw, DESCRIPTORS)
        or _is_native_descriptor(type(raw))
        or (library and type(raw) in ATOMS)
    ):
        return s.outside.load(raw, Item(table, name))
    if name not in ("__dict__", "__weakref__"):
        s.guard(Member, table, name, ABSENT if raw is MISSING else raw)
    return raw


def _is_native_descriptor(cls: type) -> bool:
    """One that is written in C and of no kind of its own: the fields of a named tuple."""
    return hasattr(cls, "__get__") and type(kind_of_class(cls)) is ForeignKind


def is_data(s: Session, raw: Any) -> bool:
    """True if a class member is read before the instance's own. One that only sets is not."""
    own = type(raw)
    writes = any(class_raw(s, own, name) is not MISSING for name in ("__set__", "__delete__"))
    return writes and class_raw(s, own, "__get__") is not MISSING


def bind(s: Session, raw: Any, obj: Any, cls: type) -> Any:
    """Value of a class attribute that is read through an instance (or, obj=None, the class)."""
    if isinstance(raw, FunctionType):
        return raw if obj is None else MethodType(raw, obj)
    if (getter := own_getter(s, raw)) is not None:
        return s.call(getter, (raw, obj, cls), {})
    if isinstance(raw, staticmethod):
        return _held(s, raw)
    if isinstance(raw, classmethod):
        return _of_class(s, raw, cls)
    if isinstance(raw, property) and obj is not None:
        return s.call(raw.fget, (obj,), {})
    if isinstance(raw, types.ClassMethodDescriptorType):
        return raw.__get__(None, cls)
    native = isinstance(raw, DESCRIPTORS) or not is_python_class(type(raw))
    if native and obj is not None and hasattr(type(raw), "__get__"):
        return raw.__get__(obj, cls)
    return raw


def special_of(raw: Any, name: str) -> FunctionType | None:
    """A special method, if it is written in Python. Raises Break for one that is neither that nor
    C's: what it is called with, its own class says."""
    if isinstance(raw, FunctionType):
        return raw
    if raw is not MISSING and not is_slot(raw):
        raise Break("opaque object", f"{name}, which is a {type(raw).__qualname__}")
    return None


def _held(s: Session, raw: Any) -> Any:
    """The callable that a static or a class method wraps, which may have a state of its own."""
    origin, fn = s.outside.origin_of(raw), raw.__func__
    if origin is None:  # it was made inside, or is a builtin class's
        return fn
    if type(fn) is FunctionType:
        s.outside.fixed[id(fn)] = fn
        return fn
    place = Attribute(origin, "__func__")
    if isinstance(fn, _AROUND):
        return fn if s.outside.shadow(fn) is not None else s.outside.begin(fn, place)
    return s.outside.load(fn, place)


def _of_class(s: Session, raw: Any, cls: type) -> Any:
    """Bound method of a class method; up to Python 3.12 a descriptor in it (a property) is
    asked."""
    fn = _held(s, raw)
    if sys.version_info < (3, 13) and hasattr(type(fn), "__get__"):
        return bind(s, fn, cls, cls)
    if not callable(fn):
        raise Break("opaque object", f"a method of {cls.__qualname__} that cannot be called")
    return MethodType(fn, cls)


def own_getter(s: Session, raw: Any) -> FunctionType | None:
    """The `__get__` of a member of a class, if it is the program's; it may be derived from
    `property` and its like."""
    if not is_python_class(type(raw)):
        return None
    getter = special_of(class_raw(s, type(raw), "__get__"), "__get__")
    return None if getter is _CACHED_GET else getter


_CACHED_GET: Final = vars(functools.cached_property)["__get__"]


class Super(Poison):
    """Proxy that `super(cls, obj)` gives. `own` is Python's: it has attributes of its own, too."""

    __slots__ = ("cls", "obj", "own")

    def __init__(self, cls: type, obj: Any) -> None:
        self.cls = cls
        self.obj = obj
        self.own = super(cls, obj)

    def refusal(self) -> Break:
        return Break("opaque object", f"use of a super({self.cls.__qualname__}, ...)")


def super_get(s: Session, made: Super, name: str) -> Any:
    """`super(cls, obj).name`: the lookup starts after `cls` in the order of resolution."""
    cls, obj = made.cls, made.obj
    start = obj if isinstance(obj, type) and issubclass(obj, cls) else type(obj)
    raw = MISSING if name == "__class__" else class_raw(s, start, name, after=cls)
    if raw is MISSING:
        return getattr(made.own, name)
    return bind(s, raw, None if start is obj else obj, start)


@of(Super)
class SuperKind(Kind):
    def type_of(self, value: Any) -> type:
        return super

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        return super_get(s, obj, name)


# ---- classes as values


class ClassKind(StaticKind):
    """A class: metaclass data descriptors, then the class and its bases, then the metaclass."""

    def to_native(self, s: Session, value: Any) -> Any:
        return value

    def special(self, s: Session, obj: Any, name: str) -> FunctionType | None:
        meta = type(obj)
        return special_of(class_raw(s, meta, name) if meta is not type else None, name)

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        try:
            return self._find(s, obj, name)
        except AttributeError:
            fallback = None if hasattr(type, name) else self.special(s, obj, "__getattr__")
            if fallback is None:
                raise
        return s.call(fallback, (obj, name), {})

    def _find(self, s: Session, obj: Any, name: str) -> Any:
        cls, meta = obj, type(obj)
        if name == "__dict__":
            if id(cls) not in s.made:
                raise Break("opaque object", f"the dictionary of the class {cls.__qualname__}")
            return cls.__dict__
        if name in _OF_TYPE:
            return self._of_type(s, cls, name)
        above = class_raw(s, meta, name) if meta is not type else MISSING
        if isinstance(above, property):
            return s.call(above.fget, (cls,), {})
        native = isinstance(above, types.GetSetDescriptorType | types.MemberDescriptorType)
        if above is not MISSING and not native and is_data(s, above):
            return bind(s, above, cls, meta)
        if name == "__class__":  # `object` has it, of instances
            return meta
        raw = class_raw(s, cls, name)
        if isinstance(raw, types.GetSetDescriptorType) and cls is type:
            return getattr(cls, name)  # `type.__name__`: `type` is its own class
        if raw is not MISSING:
            return bind(s, raw, None, cls)
        if above is not MISSING:
            return bind(s, above, cls, meta)
        if not hasattr(type, name) and self.special(s, cls, "__getattr__") is not None:
            raise AttributeError(name)  # of which that is asked
        return self._of_type(s, cls, name)

    def _of_type(self, s: Session, cls: type, name: str) -> Any:
        value = getattr(cls, name)
        fixed = id(cls) in s.made or not is_python_class(cls) or is_library_class(cls)
        if fixed or callable(value):
            return value
        return s.outside.load(value, Attribute(Fixed(cls, cls.__qualname__), name))

    def setattr(self, s: Session, obj: Any, name: str, value: Any) -> None:
        if s.asked(obj, "__setattr__", name, value) is MISSING:
            self._put(s, obj, name, value)

    def _put(self, s: Session, obj: Any, name: str, value: Any) -> None:
        """`type.__setattr__`: the very function, which binds."""
        if id(obj) not in s.made:
            raise Break("effect", f"{obj.__qualname__}.{name} = ... changes a class")
        type.__setattr__(obj, name, value)

    def delattr(self, s: Session, obj: Any, name: str) -> None:
        raise Break("effect", f"attribute {name!r} of a {type(obj).__name__} is deleted")

    def getitem(self, s: Session, obj: Any, key: Any) -> Any:
        """`list[int]`."""
        raw = class_raw(s, obj, "__class_getitem__")
        subscript = raw.__func__ if isinstance(raw, classmethod) else raw
        if isinstance(subscript, FunctionType) and not s.is_library(subscript.__globals__):
            return s.call(bind(s, raw, None, obj), (key,), {})
        return obj[key]

    def call(self, s: Session, fn: type, args: Args, kwargs: Kwargs) -> Any:
        if fn.__module__.partition(".")[0] in HOST_MODULES:
            raise Break("unknown call", f"{fn.__module__}.{fn.__qualname__}() is called")
        if fn is frozenset and len(args) == 1 and type(args[0]) is frozenset:
            return args[0]
        if fn in (set, frozenset) and len(args) == 1:
            args = (list(s.iter(args[0])),)
            s.entering(args[0])
        if (fn is list or fn is tuple) and len(args) == 1 and type(args[0]) is Lazy:
            args = (s.list_of(args[0]),)
        if fn is collections.deque:  # how long it may get is an int
            args = (*args[:1], *map(s.known, args[1:]))
            kwargs = {k: s.known(v) for k, v in kwargs.items()}
        if fn in (list, tuple, collections.deque) and args and isinstance(args[0], Module):
            args = (s.list_of(args[0]), *args[1:])  # to native code a module is a function
        if fn in _PURE_TYPES:
            return s.native(
                fn, *(_iterated(s, fn, args, kwargs) if fn in STORES else (args, kwargs))
            )
        maker = class_raw(s, type(fn), "__call__")
        if isinstance(maker, FunctionType):
            meta = type(fn)
            if issubclass(fn, Tensor) or is_native_class(meta):
                return s.native(fn, args, kwargs)
            return s.call(maker, (fn, *args), kwargs)
        if maker is not type.__call__:
            return s.call(bind(s, maker, fn, type(fn)), args, kwargs)
        if is_native_class(fn):
            return s.native(fn, args, kwargs)
        return construct(s, fn, args, kwargs)

    def invoke(self, s: Session, owner: type, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        """`object.__new__(cls)`, `tuple.__new__(cls, items)`, `type.__call__(cls)`, `cls.mro()`."""
        if fn.__name__ == "__call__":
            return construct(s, owner, args, kwargs)
        if fn.__name__ == "__subclasses__" and id(owner) not in s.made:
            place = Computed((), method("$0", "__subclasses__", "$1"), (type, owner))
            return s.outside.load(fn(), place)
        if not of_object(fn) and (fn.__name__, len(args)) == ("__setattr__", 2):
            return self._put(s, owner, *args)
        if not of_object(fn) and (fn.__name__, len(args)) == ("__delattr__", 1):
            return self.delattr(s, owner, *args)
        if fn.__name__ == "__new__" and args:
            if owner is object:
                return object.__new__(*args, **kwargs)
            if issubclass(owner, type) and len(args) == 4:
                refuse_class_hooks(s, args[0], *args[2:])
            stores = not issubclass(owner, _TAKEN_APART)
            made = s.native(fn, (args[0], *_contents(s, owner, args[1:])), kwargs, stores=stores)
            return made_class(s, made) if isinstance(made, type) else made
        handler = HANDLERS.get((object, fn.__name__)) if is_python_class(type(owner)) else None
        if handler is not None and (fn.__name__ != "__init__" or of_object(fn)):
            return handler(s, owner, *args, **kwargs)
        return s.pure(fn, args, kwargs)


def refuse_class_hooks(s: Session, meta: type, bases: Any, namespace: Any) -> None:
    """Refuse the program's hooks that `type.__new__` would call natively, and at capture only."""
    if type(bases) is not tuple or type(namespace) is not dict:
        raise Break("opcode", f"{meta.__qualname__} makes a class of what is no tuple and no dict")
    if not all(issubclass(type(base), type) for base in bases):
        return  # it raises
    refuse_hooks(s, meta, ("mro",))
    for base in bases:
        refuse_hooks(s, base, ("__init_subclass__",))
    for value in namespace.values():
        held = value.default if type(value) is dataclasses.Field else value  # which asks it in turn
        if kind_of(held).python:
            refuse_hooks(s, type(held), ("__set_name__",))


def refuse_hooks(s: Session, cls: type, hooks: Iterable[str]) -> None:
    for hook in hooks:
        raw = class_raw(s, cls, hook)
        fn = getattr(raw, "__func__", raw)
        library = isinstance(fn, FunctionType) and s.is_library(fn.__globals__)
        if not (fn is MISSING or library or isinstance(fn, DESCRIPTORS)):
            raise Break("effect", f"a class statement runs {cls.__qualname__}.{hook}")


def acts_by_itself(s: Session, cls: type) -> bool:
    """True if an instance, or one that stands for it, runs the program's code when it is looked at
    or dropped, which capture does, too."""
    if (known := s.acting.get(id(cls))) is not None:
        return known
    names = ("__getattribute__", "__del__", *(_TOLD_APART if issubclass(cls, _TOLD) else ()))
    raw = [class_raw(s, cls, name) for name in names]
    own = any(
        isinstance(r, FunctionType)
        and not s.is_library(r.__globals__)
        and not (name == "__getattribute__" and _only_maps_names(s, cls, r))
        for name, r in zip(names, raw, strict=True)
    )
    own = own or any("__class__" in vars(base) for base in cls.__mro__[:-1])
    if id(cls) not in s.made:
        s.acting[id(cls)] = own
    return own


def _only_maps_names(s: Session, cls: type, fn: FunctionType) -> bool:
    """True if a `__getattribute__` does nothing but look a name up in containers of the class, and
    ask `super()` for the attribute, as a class does whose attributes have second names: who looks
    at an instance changes nothing by it."""
    code = fn.__code__
    if not bytecode.is_known():
        return False
    if not _ASKED_BY_MAPS.issuperset(code.co_names) or _ASKED_BY_MAPS & fn.__globals__.keys():
        return False
    if code.co_exceptiontable or any(
        i.opname not in _MAPS_BY and not i.opname.startswith(("POP_JUMP_", "LOAD_FAST"))
        for i in dis.get_instructions(code)
    ):
        return False
    held = [class_raw(s, cls, name) for name in code.co_consts if type(name) is str]
    return all(type(value) in (dict, tuple, list, set, frozenset, str) for value in held)


_ASKED_BY_MAPS: Final = frozenset({"super", "object", "__getattribute__"})
_MAPS_BY: Final = frozenset(
    "BINARY_SUBSCR CACHE CALL COMPARE_OP CONTAINS_OP COPY COPY_FREE_VARS IS_OP JUMP_FORWARD "
    "LOAD_ATTR LOAD_CONST LOAD_DEREF LOAD_GLOBAL LOAD_METHOD LOAD_SUPER_ATTR NOP POP_TOP PRECALL "
    "PUSH_NULL RESUME RETURN_CONST RETURN_VALUE STORE_FAST SWAP TO_BOOL".split()
)


def of_object(fn: Any) -> bool:
    """True if a bound method is `object`'s own, not that of another builtin base."""
    return bool(fn.__qualname__.startswith("object."))


def made_class(s: Session, cls: type) -> type:
    """A class that `type` made, of the module whose code called it."""
    if cls.__module__.startswith("jitcap.capture."):
        type.__setattr__(cls, "__module__", s.vm.frames[-1].globals["__name__"])
    s.made_inside(cls)
    return cls


def construct(s: Session, cls: type, args: Args, kwargs: Kwargs) -> Any:
    """`type.__call__`: `__new__`, then `__init__` if an instance came out."""
    new = class_raw(s, cls, "__new__")
    new = new.__func__ if isinstance(new, staticmethod) else new
    init = class_raw(s, cls, "__init__")
    python_new = new is not MISSING and not is_slot(new)
    python_init = init is not MISSING and not is_slot(init)
    if not python_new and not python_init and not is_python_class(cls):
        return _construct_foreign(s, cls, args, kwargs)
    if acts_by_itself(s, cls):
        if class_raw(s, cls, "__del__") is not MISSING:
            raise Break("finalizer", f"a {cls.__qualname__} is made, which has a __del__")
        what = f"{cls.__qualname__}(), which says itself what it has or is"
        raise Break("opaque object", what)
    if python_new:
        obj = s.call(bind(s, new, None, cls), (cls, *args), kwargs)
    elif new is object.__new__ or new is MISSING:
        obj = object.__new__(cls) if python_init else type.__call__(cls, *args, **kwargs)
    else:
        if issubclass(cls, type) and len(args) == 3:
            refuse_class_hooks(s, cls, *args[1:])
        given = (cls, *(() if issubclass(cls, _FILLED_LATER) else _contents(s, cls, args)))
        obj = s.native(cls.__new__, given, kwargs, stores=not issubclass(cls, _TAKEN_APART))
        if isinstance(obj, type):
            made_class(s, obj)
    if not isinstance(obj, cls):
        return obj
    if type(obj) is not cls and python_new:  # what `__new__` gave says how it begins
        init = class_raw(s, type(obj), "__init__")
        python_init = init is not MISSING and not is_slot(init)
    if python_init:
        if s.call(bind(s, init, obj, type(obj)), args, kwargs) is not None:
            raise TypeError("__init__() should return None")
    elif init is not object.__init__ and not python_new and new is not object.__new__:
        s.native(init, (obj, *_contents(s, cls, args)), kwargs, stores=True)
    return obj


def _contents(s: Session, cls: type, args: Args) -> Args:
    """Arguments that a new container is filled from, with an iterator for an instance. Numbers and
    text are made of what the instance answers."""
    return args if issubclass(cls, _TAKEN_APART) else driven(s, cls, args)


def _iterated(s: Session, fn: type, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """The arguments of what only keeps them: what it will run through as iterators, what it counts
    with as numbers. All else it keeps as it is."""
    if fn is itertools.count and any(map(s.lends, (*args, *kwargs.values()))):
        raise Break("opaque object", "itertools.count() adds instances")
    first = _RUN_THROUGH.get(fn)
    plain = fn is itertools.permutations  # which takes an int, and asks no other
    if first is None:
        return args, kwargs

    def number(value: Any) -> Any:
        if plain:
            return s.known(value)
        return s.call_native(operator.index, (value,)) if s.lends(value) else value

    kept = max(first, 1)
    numbers = [number(a) for a in args[kept:]]
    named = {k: number(v) if k in _COUNTS else v for k, v in kwargs.items()}
    through = s.list_of if fn in _POOLS else s.iter
    iterators = (through(a) if runs_python(s, a) else a for a in args[:first])
    return (*iterators, *args[first:kept], *numbers), named


def _construct_foreign(s: Session, cls: type, args: Args, kwargs: Kwargs) -> Any:
    if issubclass(cls, BaseException):
        return cls(*args, **kwargs)
    if issubclass(cls, np.generic):
        return s.by_numpy(cls, args, kwargs)
    home = sys.modules.get(cls.__module__)
    if cls.__module__ in PURE_MODULES and getattr(home, cls.__qualname__, cls) is cls:
        return s.pure(cls, args, kwargs)  # not of a module that is loaded twice: see KINDS
    raise Break("unknown call", f"{cls.__module__}.{cls.__qualname__}() is not known")
