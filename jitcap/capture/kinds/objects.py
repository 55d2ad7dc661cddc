"""Capture: instances of Python classes. Attributes as CPython has them, a guard for every read.

An instance behaves as its class says in Python, and else as the builtin type that the class is
derived from: `object`, or `dict`, `list`, `int` ... (`ObjectKind.base`).
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from types import FunctionType, MemberDescriptorType, ModuleType, SimpleNamespace
from typing import Any, Final

from eager.nn import Module
from jitcap.base.breaks import Break
from jitcap.base.call_policy import is_native, is_native_class, is_python_class, is_slot, shown
from jitcap.base.equality import base_of
from jitcap.base.origin import Attribute, DictOf, Fixed, IsUnset, Origin, Slot, is_unset
from jitcap.base.terms import Row, Term, text
from jitcap.capture.epilogue_writes import DROP, DROP_ITEM, ITEM, PUT, Effect, Emitter, attributes
from jitcap.capture.inputs import Shadow
from jitcap.capture.kinds.base import (
    DEPTH,
    HANDLERS,
    MISSING,
    Args,
    Kind,
    Kwargs,
    MutableKind,
    Session,
    kind_of,
    of,
)
from jitcap.capture.kinds.classes import (
    acts_by_itself,
    bind,
    class_raw,
    is_data,
    of_object,
    own_getter,
    special_of,
)
from jitcap.capture.kinds.constants import OPAQUE, FixedKind
from jitcap.capture.kinds.iterators import by_index
from jitcap.capture.kinds.mappings import DictShadow, touch
from jitcap.capture.kinds.sequences import ContainerKind, ListShadow, guard_limit
from jitcap.guards.guard import Equals, Is, Length, Same, TypeIs

_VALUES: Final = (int, float, complex, str, bytes)
_BASES: Final = (object, dict, list, set, collections.OrderedDict, SimpleNamespace)


def _is_another(raw: Any, name: str) -> bool:
    """True if `raw` is a builtin's method under another name: `__getattr__ = dict.get`."""
    descriptors = types.MethodDescriptorType | types.WrapperDescriptorType
    return isinstance(raw, descriptors) and raw.__name__ != name


class ObjectShadow(Shadow):
    """An instance of a Python class: its dictionary is a twin too; slots are loaded singly."""

    mutable = True

    def __init__(self, real: Any, origin: Origin, twin: Any) -> None:
        super().__init__(real, origin, twin)
        self.slots: dict[str, Any] = {}  # name -> what was loaded (MISSING: it is unset)
        self.fields: DictShadow | None = None
        try:
            fields = object.__getattribute__(real, "__dict__")
        except AttributeError:
            return
        by = None if plain_attributes(type(real)) else object.__getattribute__
        mine = object.__getattribute__(twin, "__dict__")
        self.fields = DictShadow(fields, DictOf(origin, by), mine)
        self.fields.owner = type(real)

    def parts(self) -> tuple[Shadow, ...]:
        return (self,) if self.fields is None else (self, self.fields)

    def touch_slot(self, s: Session, name: str, descriptor: Any) -> None:
        if name not in self.slots:
            try:
                value = descriptor.__get__(self.real, type(self.real))
            except AttributeError:
                self.slots[name] = MISSING
                s.guard(Is, IsUnset(self.origin, name, descriptor), True)
                return
            value = s.outside.load(value, self._place(name, descriptor))
            self.slots[name] = value
            descriptor.__set__(self.twin, value)

    def _place(self, name: str, descriptor: Any) -> Origin:
        cls = type(self.real)
        if plain_attributes(cls) and not hasattr(cls, "__getattr__"):
            return Attribute(self.origin, name)
        return Slot(self.origin, name, descriptor)

    def complete(self, s: Session) -> None:
        if self.fields is not None:
            self.fields.complete(s)
        for name, descriptor in slots_of(type(self.real)):
            self.touch_slot(s, name, descriptor)

    def written_slots(self) -> Iterator[tuple[str, Any]]:
        """(name, new value or MISSING) of the slots that the program set or deleted."""
        for name, descriptor in slots_of(type(self.real)) if self.slots else ():
            if name in self.slots:
                try:
                    now = descriptor.__get__(self.twin, type(self.real))
                except AttributeError:
                    now = MISSING
                if now is not self.slots[name]:
                    yield name, now

    def mark(self) -> tuple[Any, ...]:
        return tuple((name, id(value)) for name, value in self.written_slots())

    def lost(self) -> Iterable[Any]:
        slots = dict(slots_of(type(self.real)))
        written = [slots[name] for name, _ in self.written_slots()]
        return [d.__get__(self.real) for d in written if not is_unset(d, self.real)]

    def replay(self, make: Emitter) -> list[Effect]:
        effects = []
        put, drop = make.names.bind(object.__setattr__), make.names.bind(object.__delattr__)
        for slot, value in self.written_slots():
            write = partial(self.write, make, key=text(slot), name=slot, at=slot)
            if value is MISSING:
                effects.append(write(DROP, fn=drop, model=DROP_ITEM))
            else:
                effects.append(write(PUT, value=make.expr(value), fn=put, model=ITEM))
        return effects


def plain_attributes(cls: type) -> bool:
    """True if reading an attribute that exists runs none of the class's code."""
    read: Any = cls.__getattribute__
    return read is object.__getattribute__ or read is ModuleType.__getattribute__


def slots_of(cls: type) -> Iterator[tuple[str, Any]]:
    """The slot descriptors of a class and its bases; of two with one name that which is found."""
    seen: set[str] = set()
    for base in cls.__mro__:
        names = vars(base).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else tuple(names):
            private = name.startswith("__") and not name.endswith("__")
            mangled = f"_{base.__name__.lstrip('_')}{name}" if private else name
            descriptor = vars(base).get(mangled)
            if descriptor is None or name in ("__dict__", "__weakref__") or mangled in seen:
                continue
            seen.add(mangled)
            yield mangled, descriptor


# ---- attributes by the default rules


def default_get(s: Session, obj: Any, name: str) -> Any:
    """`object.__getattribute__(obj, name)`."""
    found = _default_of(s, obj, name)
    if found is MISSING:
        raise _has_none(obj, name)
    return found


def _has_none(obj: Any, name: str) -> AttributeError:
    what = f"{shown(type(obj))!r} object has no attribute {name!r}"
    return AttributeError(what, name=name, obj=obj)


def _default_of(s: Session, obj: Any, name: str) -> Any:
    """The value of `default_get`, or MISSING."""
    cls = type(obj)
    raw = class_raw(s, cls, name)
    method = raw is MISSING or type(raw) is FunctionType  # or nothing: most of them
    if not method or name in ("__class__", "__dict__"):
        found = _before_own(s, obj, name, raw)
        if found is not MISSING:
            return found
    value = own_field(s, obj, name)
    if value is not MISSING:
        return value
    if not method and isinstance(raw, functools.cached_property) and own_getter(s, raw) is None:
        value = s.call(s.getattr(raw, "func"), (obj,), {})
        store_field(s, obj, name, value)
        return value
    return MISSING if raw is MISSING else bind(s, raw, obj, cls)


def _before_own(s: Session, obj: Any, name: str, raw: Any) -> Any:
    """Value of `raw`, a member of the class, for an instance, where it takes precedence over the
    instance's own attribute; else MISSING."""
    cls = type(obj)
    if name == "__class__" and not isinstance(raw, property):
        return cls
    if isinstance(raw, property) and own_getter(s, raw) is None:
        if raw.fget is None:
            return raw.__get__(obj, cls)  # raises, in its words
        return s.call(raw.fget, (obj,), {})
    if name == "__dict__" and hasattr(obj, "__dict__"):
        fields = fields_of(s, obj)
        if s.outside.shadow(fields) is None:
            s.dictionaries[id(fields)] = obj
        return fields
    if isinstance(raw, MemberDescriptorType):
        touch_slot(s, obj, name, raw)
        return raw.__get__(obj, cls)
    if raw is MISSING or isinstance(raw, types.GetSetDescriptorType) or not is_data(s, raw):
        return MISSING
    return bind(s, raw, obj, cls)


def own_field(s: Session, obj: Any, name: str) -> Any:
    """The entry of the instance dictionary, or MISSING."""
    fields = fields_of(s, obj)
    if fields is None:
        return MISSING
    touch(s, fields, name)
    return dict.get(fields, name, MISSING)


def fields_of(s: Session, obj: Any) -> dict[str, Any] | None:
    """The instance dictionary, or the twin of that of an object that has none itself."""
    owner = s.outside.shadow(obj)
    try:
        fields: dict[str, Any] = object.__getattribute__(owner.real if owner else obj, "__dict__")
    except AttributeError:
        return None
    shadow = s.outside.by_real.get(id(fields))
    if shadow is None:
        origin = s.outside.origin_of(obj)
        if origin is None and not s.outside.is_fixed(obj):
            return fields  # it was made inside
        shadow = DictShadow(fields, DictOf(origin or Fixed(obj, type(obj).__qualname__)), {})
        s.outside.register(shadow)
    twin: dict[str, Any] = shadow.twin
    return twin


def touch_slot(s: Session, obj: Any, name: str, descriptor: Any) -> None:
    """Load a slot; what a builtin base holds (`z.real`) was loaded with the object."""
    shadow = s.outside.shadow(obj)
    if isinstance(shadow, ObjectShadow) and is_python_class(descriptor.__objclass__):
        shadow.touch_slot(s, name, descriptor)


def default_put(s: Session, obj: Any, name: str, value: Any) -> None:
    """`object.__setattr__(obj, name, value)`; of MISSING `object.__delattr__(obj, name)`."""
    s.writing(obj, name)
    cls, raw = type(obj), class_raw(s, type(obj), name)
    given = () if value is MISSING else (value,)
    way, other = ("__set__", "__delete__") if given else ("__delete__", "__set__")
    if (write := s.special(raw, way)) is not None:
        s.call(write, (raw, obj, *given), {})
    elif s.special(raw, other) is not None:  # then a class of C has the slot of both
        raise AttributeError(way)
    elif isinstance(raw, property):
        fn = raw.fset if given else raw.fdel
        if fn is None:
            (raw.__set__ if given else raw.__delete__)(obj, *given)  # raises, in its words
        s.call(fn, (obj, *given), {})
    elif isinstance(raw, MemberDescriptorType):
        touch_slot(s, obj, name, raw)
        (raw.__set__ if given else raw.__delete__)(obj, *given)
    elif isinstance(raw, types.GetSetDescriptorType) and name not in ("__dict__", "__class__"):
        s.settle(value)  # `args` of an exception
        (raw.__set__ if given else raw.__delete__)(obj, *given)
    elif value is MISSING:
        if own_field(s, obj, name) is MISSING:
            raise AttributeError(f"{shown(cls)!r} object has no attribute {name!r}")
        fields = fields_of(s, obj)
        s.writing(fields, name)
        kind_of(fields).delitem(s, fields, name)
    elif name in ("__dict__", "__class__"):
        raise Break("effect", f"{name} of a {cls.__qualname__} is replaced")
    elif not hasattr(obj, "__dict__"):
        object.__setattr__(obj, name, value)  # raises, in its words
    else:
        store_field(s, obj, name, value)


def store_field(s: Session, obj: Any, name: str, value: Any) -> None:
    """Write the instance dictionary, whatever a subclass of `dict` that is one overrides."""
    fields = fields_of(s, obj)
    s.writing(fields, name)
    kind_of(fields).setitem(s, fields, name, value)


# ---- instances as values


class ObjectKind(MutableKind):
    """An instance: what the class defines in Python is interpreted, the rest is the base's."""

    python = True

    def __init__(self, base: Kind) -> None:
        self.base = base
        self.contains_values = base.contains_values

    # the road

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        """A twin of the same class. Lists, dictionaries and their subclasses get contents too."""
        cls = type(real)
        if acts_by_itself(s, cls):
            return OPAQUE.load(s, real, origin)
        if isinstance(real, int | float | complex | str | bytes):
            return self._load_value(s, real, origin)
        if isinstance(real, tuple):
            return self.base.load(s, real, origin)
        if isinstance(real, dict | list | collections.deque) and any(slots_of(cls)):
            return OPAQUE.load(s, real, origin)
        s.guard_first(TypeIs, origin, cls)
        s.outside.fixed[id(cls)] = cls
        if isinstance(real, dict):
            twin: Any = dict.__new__(cls)
            whole, shadow = DictShadow(real, origin, twin), ObjectShadow(real, origin, twin)
            if shadow.fields is not None and shadow.fields.real is real:  # `self.__dict__ = self`
                s.guard(Same, shadow.fields.origin, origin)
                object.__setattr__(twin, "__dict__", twin)
            else:
                self._register(s, shadow)
            return s.outside.register(whole)
        if isinstance(real, list | collections.deque):
            base: Any = list if isinstance(real, list) else collections.deque
            s.guard(Length, origin, base.__len__(real), base.__len__)
            if base is list:
                twin = list.__new__(cls)
            else:
                twin = _empty_deque(cls, guard_limit(s, real, origin))
            self._register(s, ObjectShadow(real, origin, twin))
            return s.outside.register(ListShadow(real, origin, twin))
        try:
            twin = SimpleNamespace() if cls is SimpleNamespace else object.__new__(cls)
        except TypeError:
            raise Break("opaque object", f"{origin.show()} is a {cls.__qualname__}") from None
        shadow = ObjectShadow(real, origin, twin)
        self._register(s, shadow)
        if is_native_class(cls):
            shadow.complete(s)
        return twin

    def _load_value(self, s: Session, real: Any, origin: Origin) -> Any:
        """A number or text of a class of the program: guarded to be equal, attributes apart."""
        cls, base = type(real), base_of(real)
        if not cls.__dictoffset__ or not is_python_class(cls):
            return s.outside.constant(real, origin)
        s.guard(Equals, origin, real)
        twin = base.__new__(cls, *base.__getnewargs__(real))
        self._register(s, ObjectShadow(real, origin, twin))
        return twin

    def _register(self, s: Session, shadow: ObjectShadow) -> None:
        """Remember an instance, and its dictionary as an object of its own."""
        s.outside.register(shadow)
        if shadow.fields is None:
            return
        known = s.outside.by_real.get(id(shadow.fields.real))
        if isinstance(known, DictShadow):  # that of another instance, too: `self.__dict__ = shared`
            s.guard(Same, shadow.fields.origin, known.origin)
            object.__setattr__(shadow.twin, "__dict__", known.twin)
            shadow.fields = known
        else:
            s.outside.register(shadow.fields)

    def settle(self, s: Session, value: Any, depth: int) -> None:
        shadow = s.outside.shadow(value)
        if isinstance(shadow, ObjectShadow) and compares_in_python(type(value)):
            shadow.complete(s)
        self.base.settle(s, value, depth)
        if shadow is not None and depth < DEPTH and is_native_class(type(value)):
            for part in [*(fields_of(s, value) or {}).values()]:  # which its methods look at
                if kind_of(part).contains_values:
                    kind_of(part).settle(s, part, depth + 1)

    def to_native(self, s: Session, value: Any) -> Any:
        if isinstance(value, Module):
            return s.reentry(value)
        return super().to_native(s, value)

    def rebuild(self, make: Emitter, value: Any) -> Term:
        if isinstance(value, tuple):
            name = self.base.rebuild(make, value)
            make.rows += self._own(make, name, value)
            return name
        return make.mutable(self, value)

    def empty(self, make: Emitter, value: Any) -> Term:
        cls = type(value)
        if isinstance(value, BaseException) and isinstance(self.base, MutableKind):
            return self.base.empty(make, value)
        base: Any = next(b for b in cls.__mro__ if not is_python_class(b) or b is SimpleNamespace)
        made = make.names.bind(base), make.names.bind(cls)
        if base in _VALUES:
            # What it is, whatever its own `__str__` or `__int__` says.
            return ("new", *made, make.names.bind(base(*base.__getnewargs__(value))))
        if base is collections.deque:
            limit = "None" if value.maxlen is None else value.maxlen
            return ("call", make.names.bind(_empty_deque), make.names.bind(cls), limit)
        return ("new", *made) if base in _BASES else Kind.rebuild(self, make, value)

    def filling(self, make: Emitter, name: str, value: Any) -> list[Row]:
        rows = self.base.filling(make, name, value) if isinstance(self.base, MutableKind) else []
        return rows + self._own(make, name, value)

    def _own(self, make: Emitter, name: str, value: Any) -> list[Row]:
        """The attributes and the slots of an instance, whatever its base."""
        rows = [] if isinstance(value, BaseException) else attributes(make, name, value)  # it has
        put = make.names.bind(object.__setattr__)
        for slot, descriptor in slots_of(type(value)):
            with suppress(AttributeError):
                held = descriptor.__get__(value, type(value))
                rows.append(("do", ("call", put, name, text(slot), make.expr(held))))
        return rows

    # the program

    def special(self, s: Session, obj: Any, name: str) -> Any:
        raw = class_raw(s, type(obj), name)
        return raw if _is_another(raw, name) else special_of(raw, name)

    def refuse_none(self, s: Session, obj: Any, name: str) -> None:
        if name in _ASKS and class_raw(s, type(obj), name) is None:
            _ASKS[name](obj)  # raises, in its words

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        if acts_by_itself(s, type(obj)):
            self.refuse(obj, f".{name}")
        plain = plain_attributes(type(obj))
        try:
            found = MISSING if plain else s.asked(obj, "__getattribute__", name)
            found = _default_of(s, obj, name) if found is MISSING else found
        except AttributeError:  # of a property
            if class_raw(s, type(obj), "__getattr__") is MISSING:
                raise
            found = MISSING
        if found is not MISSING:
            return found
        if class_raw(s, type(obj), "__getattr__") is MISSING:
            raise _has_none(obj, name)
        if self.special(s, obj, "__getattr__") is None:
            self.refuse(obj, f".{name}")
        return s.asked(obj, "__getattr__", name)

    def setattr(self, s: Session, obj: Any, name: str, value: Any) -> None:
        if s.asked(obj, "__setattr__", name, value) is MISSING:
            default_put(s, obj, name, value)

    def delattr(self, s: Session, obj: Any, name: str) -> None:
        if s.asked(obj, "__delattr__", name) is MISSING:
            default_put(s, obj, name, MISSING)

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        method = class_raw(s, type(fn), "__call__")
        if isinstance(method, FunctionType):
            if is_native(method):
                return s.native(fn, args, kwargs)
            return s.call(method, (fn, *args), kwargs)
        if method is not MISSING and not is_slot(method):  # one that is jitted, say
            return s.call(bind(s, method, fn, type(fn)), args, kwargs)
        return self.base.call(s, fn, args, kwargs)

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        handler = HANDLERS.get((object, fn.__name__))
        if handler is not None and (fn.__name__ != "__init__" or of_object(fn)):
            return handler(s, owner, *args, **kwargs)
        return self.base.invoke(s, owner, fn, args, kwargs)


def _inherited(name: str) -> Any:
    return lambda self, s, value, *args: getattr(self.base, name)(s, value, *args)


for _operation in (
    "getitem", "setitem", "delitem", "contains", "length", "truth", "iter", "next", "see",
    "text",
):  # fmt: skip
    setattr(ObjectKind, _operation, _inherited(_operation))


def _empty_deque(cls: Any, maxlen: int | None) -> Any:
    """An empty deque of a subclass, whose own `__init__` may take other arguments."""
    made = collections.deque.__new__(cls)
    collections.deque.__init__(made, (), maxlen)
    return made


@of(object)
class PlainKind(FixedKind, MutableKind):
    """Behaviour that instances inherit from `object`."""

    def contains(self, s: Session, obj: Any, item: Any) -> Any:
        cls, found = type(obj), None
        with suppress(TypeError):
            found = s.iter(obj)
        if found is None:
            return item in type(cls.__name__, (), {})()
        return any(s.same(v, item) or s.truth(s.compare("==", v, item)) for v in found)

    def truth(self, s: Session, obj: Any) -> bool:
        return True

    def iter(self, s: Session, obj: Any) -> Any:
        if s.special(obj, "__getitem__") is not None:
            return by_index(s, obj)
        return iter(obj)


class NamespaceKind(ContainerKind, PlainKind):
    """Behaviour inherited from `SimpleNamespace`: C compares and shows all attributes."""


_ASKS: Final[dict[str, Callable[[Any], Any]]] = {
    "__bool__": bool, "__len__": len, "__iter__": iter, "__reversed__": reversed,
    "__contains__": lambda obj: None in obj,
}  # fmt: skip


def compares_in_python(cls: type) -> bool:
    """True if native code that hashes, compares or sorts instances looks at their attributes."""
    return issubclass(cls, SimpleNamespace) or any(
        not is_slot(getattr(cls, name, None)) for name in ("__eq__", "__hash__", "__lt__")
    )
