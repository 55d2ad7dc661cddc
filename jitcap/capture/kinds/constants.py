"""Capture: values that are all there, and those that are refused. Constants, fixed objects, opaque.

`NativeKind` is Python itself: what a value of a builtin type does when all of it may be looked at.
Kinds of containers inherit from it and load first.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime as dt
import operator
import random
import re
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import suppress
from string import Formatter
from typing import Any, Final, NoReturn

import numpy as np

from eager.base.dtype import DType, NamedType
from eager.core.sym import SymNumber
from eager.device import device
from jitcap.base.breaks import Break
from jitcap.base.call_policy import is_python_class, shown
from jitcap.base.equality import comparable
from jitcap.base.origin import Attribute, Origin
from jitcap.base.terms import Row, Term, attribute, method
from jitcap.capture.epilogue_writes import Emitter
from jitcap.capture.inputs import Shadow
from jitcap.capture.interpret import Null
from jitcap.capture.kinds.base import (
    HANDLERS,
    KINDS,
    Args,
    Kind,
    Kwargs,
    MutableKind,
    Session,
    defines,
    hashes_identity,
    is_method,
    kind_of,
    of,
    parts_of,
)
from jitcap.capture.kinds.deferred import (
    VIEWS,
    Deferred,
    defer,
    for_numpy,
    joined,
    made_now,
    view_name,
    viewed,
    written,
)
from jitcap.capture.kinds.dict_views import in_view, looks_up
from jitcap.capture.kinds.poison import Poison, SymbolicId
from jitcap.guards.guard import Is, TypeIs

# Methods that run through an argument; the others (append, insert, ...) store it.
_TAKES_ITERABLES: Final = frozenset(
    "extend extendleft update join union intersection difference symmetric_difference fromkeys "
    "intersection_update difference_update symmetric_difference_update issubset issuperset "
    "isdisjoint __init__ __iadd__".split()
)


_COMPARING: Final = ("__eq__", "__ne__")  # with what is given, not with what is lent
_OF_ATTRIBUTES: Final[dict[str, Callable[..., Any]]] = {
    "__getattribute__": Session.getattr,
    "__setattr__": Session.setattr,
    "__delattr__": Session.delattr,
}
_SHOWING: Final = frozenset({"__repr__", "__str__", "__format__", "format", "format_map"})
_RUNS_THROUGH: Final = (
    list, tuple, dict, set, frozenset, collections.deque, str, bytes, bytearray, array.array,
)  # fmt: skip
GENERATORS: Final = (random.Random, np.random.RandomState, np.random.Generator)
_VALUES_VIEW: Final[type] = type({}.values())


def _place(s: Session, key: Any) -> Any:
    """An index for native code, which complains of one that is no int."""
    if type(key) is slice:
        return slice(*(_place(s, part) for part in (key.start, key.stop, key.step)))
    return s.known(key) if type(key) is SymNumber else key


class NativeKind(Kind):
    """A builtin type's own behaviour, on a value that is settled first."""

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        if name == "__dict__":
            self._refuse_outside(s, obj, name)
        return getattr(obj, name)

    def setattr(self, s: Session, obj: Any, name: str, value: Any) -> None:
        self._refuse_outside(s, obj, name)
        setattr(obj, name, value)

    def delattr(self, s: Session, obj: Any, name: str) -> None:
        self._refuse_outside(s, obj, name)
        delattr(obj, name)

    def _refuse_outside(self, s: Session, obj: Any, name: str) -> None:
        """Refuse a change that no kind replays. A descriptor of a class is from outside."""
        if s.outside.shadow(obj) is not None or hasattr(type(obj), "__get__"):
            raise Break("effect", f"attribute {name!r} of a {self.type_of(obj).__name__} changes")

    def getitem(self, s: Session, obj: Any, key: Any) -> Any:
        self.settle(s, obj, 0)
        key = _place(s, key)
        return obj[key] if type(key) is int else s.call_native(lambda place: obj[place], (key,))

    def setitem(self, s: Session, obj: Any, key: Any, value: Any) -> None:
        self.settle(s, obj, 0)
        key = _place(s, key)
        if s.lends(key):
            s.call_native(lambda place: operator.setitem(obj, place, value), (key,))
        else:
            obj[key] = value

    def delitem(self, s: Session, obj: Any, key: Any) -> None:
        self.settle(s, obj, 0)
        s.call_native(lambda place: operator.delitem(obj, place), (_place(s, key),))

    def contains(self, s: Session, obj: Any, item: Any) -> Any:
        self.settle(s, obj, 0)
        if type(obj) is _VALUES_VIEW or hasattr(type(obj), "__next__"):
            found = s.iter(obj)
            return any(s.same(v, item) or s.truth(s.compare("==", v, item)) for v in found)
        if looks_up(obj, item):
            return in_view(s, obj, item)
        if kind_of(item).contains_values:
            s.settle(item)
        s.tells_apart((obj, item), equals=True)
        return s.call_native(operator.contains, (obj, item))

    def length(self, s: Session, obj: Any) -> Any:
        self.settle(s, obj, 0)
        return len(obj)

    def truth(self, s: Session, obj: Any) -> bool:
        self.settle(s, obj, 0)
        return bool(obj)

    def iter(self, s: Session, obj: Any) -> Any:
        self.settle(s, obj, 0)
        return iter(obj)

    def next(self, s: Session, obj: Any) -> Any:
        return next(obj)

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        if not callable(fn):
            raise TypeError(f"{shown(self.type_of(fn))!r} object is not callable")
        cls = type(fn)
        raise Break("unknown call", f"a {cls.__module__}.{cls.__qualname__} is called")

    def owned(self, s: Session, owner: Any, fn: Any) -> None:
        """Load what a method of it looks at."""
        self.settle(s, owner, 0)

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        own = _OF_ATTRIBUTES.get(fn.__name__)
        if own is not None and not kwargs:
            return own(s, owner, *args)
        self.owned(s, owner, fn)
        if isinstance(owner, str | bytes):
            if fn.__name__ == "join" and len(args) == 1:
                args = (sequence_of(s, args[0], "can only join an iterable"),)
            if fn.__name__ in ("format", "format_map") and isinstance(owner, str):
                _refuse_reads(owner)
                return written(s, fn, args, kwargs)
            if any(map(_is_later, (*args, *kwargs.values()))):
                refuse_own_text(s, (*args, *kwargs.values()))
                return defer(s, fn, args, kwargs)
        elif isinstance(owner, int | float | complex | np.generic):  # they know no run-time number
            args = tuple([for_numpy(s, a) for a in args])
        if fn.__name__ in _TAKES_ITERABLES:
            args = driven(s, type(owner), args)
        if isinstance(owner, set | frozenset | dict):
            if fn.__name__ in _TAKES_ITERABLES:
                given = (type(a) in VIEWS or hasattr(type(a), "__next__") for a in args)
                args = tuple(list(a) if runs else a for a, runs in zip(args, given, strict=True))
            for arg in args:
                listed = type(arg) in (set, frozenset, list, tuple)
                if listed:
                    s.settle(arg)
                enters = s.hashing if isinstance(owner, dict) else s.entering
                enters(arg if listed else (arg,))
                pairs = arg if listed and isinstance(owner, dict) else ()
                if fn.__name__ in _TAKES_ITERABLES and any(runs_python(s, p) for p in pairs):
                    raise Break("opaque object", f"{fn.__name__}() takes an instance for a pair")
        if _is_shown_by(owner, fn) and not kind_of(owner).python:
            return _shown_by(s, owner, fn, args)
        stores = fn.__name__ in _COMPARING and not self.contains_values
        found = s.native(fn, args, kwargs, stores=stores)
        return made_now(s, found) if fn.__name__ in _SHOWING else found

    def text(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        return written(s, fn, args, kwargs)


def _is_shown_by(owner: Any, fn: Any) -> bool:
    """True if a method formats its owner as C does for this type."""
    name, cls = fn.__name__, type(owner)
    return name in _SHOWING and bool(getattr(cls, name).__get__(owner) == fn)


def _shown_by(s: Session, owner: Any, method: Any, args: Args) -> Any:
    """The text."""
    return written(s, getattr(type(owner), method.__name__), (owner, *args), {})


def refuse_own_text(s: Session, values: Args) -> None:
    """Text that is made later is tried first: by no method of the program's."""
    if any(s.lends(value, text=True) for value in values):
        raise Break("data dependent", "text made of instances and run-time values")


def _refuse_reads(text: str) -> None:
    """`str.format` reads attributes by itself, past the guards."""
    with suppress(ValueError):  # it complains itself
        for _, name, spec, _ in Formatter().parse(text):
            if "." in (name or ""):
                raise Break("unknown call", "str.format() reads an attribute")
            _refuse_reads(spec or "")


def _is_later(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_is_later, parts_of(value)))
    return kind_of(value).later


def sequence_of(s: Session, value: Any, words: str) -> list[Any]:
    """The items of a value as C takes them: its iterator is asked for, not its length. `words`: of
    what is none."""
    iterator = None
    with suppress(TypeError):
        iterator = s.iter(value)
    if iterator is None:
        raise TypeError(words)
    return s.list_of(iterator)


def driven(s: Session, cls: type, args: Args) -> Args:
    """Arguments for a method of `cls`, written in C, that runs through them if it is a container's
    or text's: instances of Python classes as iterators."""
    runs = issubclass(cls, _RUNS_THROUGH)
    return tuple(_entries_of(s, cls, a) if runs and runs_python(s, a) else a for a in args)


def runs_python(s: Session, value: Any) -> bool:
    """True if iterating over a value runs the program's code."""
    if isinstance(value, _RUNS_THROUGH) or not (kind_of(value).python or isinstance(value, type)):
        return s.special(value, "__iter__") is not None
    return any(s.special(value, name) for name in ("__iter__", "__getitem__"))


def _entries_of(s: Session, cls: type, value: Any) -> Any:
    if issubclass(cls, dict) and defines(type(value), "keys"):
        return s.native(dict, (value,), {})
    return s.list_of(value) if issubclass(cls, list | tuple) else s.iter(value)


@of(bytes, complex, range, DType, NamedType, device, re.Pattern)
class ConstantKind(NativeKind):
    """Numbers, text, and other values without identity: guarded to be equal."""

    constant = plain = True

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        if not comparable(real):
            return OPAQUE.load(s, real, origin)
        return s.outside.constant(real, origin)

    def rebuild(self, make: Emitter, value: Any) -> Term:
        return make.names.bind(value)

    def settle(self, s: Session, value: Any, depth: int) -> None:
        """Does nothing: it has no parts."""


@of(dt.date, dt.time, dt.datetime, dt.timedelta)
class MadeKind(ConstantKind):
    """A value that is told apart by its parts, but is another object each time it is made."""

    def rebuild(self, make: Emitter, value: Any) -> Term:
        return make.let(("call", make.names.bind(_again), make.names.bind(value)))


def _again(value: Any) -> Any:
    new, parts = value.__reduce_ex__(4)  # which knows which of two equal hours it is
    return new(*parts)


@of(slice)
class SliceKind(NativeKind):
    """A slice of the loaded parts; the same one when all of them are constants."""

    def load(self, s: Session, real: slice, origin: Origin) -> Any:
        s.guard(TypeIs, origin, slice)
        given = {name: getattr(real, name) for name in ("start", "stop", "step")}
        parts = [s.outside.load(value, Attribute(origin, name)) for name, value in given.items()]
        same = all(a is b for a, b in zip(parts, given.values(), strict=True))
        return s.outside.register(Shadow(real, origin, real if same else slice(*parts)))

    def rebuild(self, make: Emitter, value: slice) -> Term:
        return ("slice", *make.all((value.start, value.stop, value.step)))


@of(type(None), bool, type(Ellipsis), type(NotImplemented))
class SingletonKind(ConstantKind):
    """None, True, False, Ellipsis, NotImplemented. A bool among others, in a list, is a number once
    it is known to vary."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        if type(real) is bool and s.outside.varies(origin):
            s.guard(TypeIs, origin, bool)
            return s.number_input(real, origin)
        s.guard(Is, origin, real)
        return real

    def truth(self, s: Session, obj: Any) -> bool:
        if obj is NotImplemented:
            raise Break("unknown call", "bool(NotImplemented), of which Python warns, is called")
        return bool(obj)


@of(*GENERATORS)
class FixedKind(NativeKind):
    """An object that is guarded by identity."""

    constant = True

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        return s.outside.fix(real, origin)

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        if s.outside.shadow(owner) is not None:  # it may have a state that nothing guards
            self.refuse(owner, f".{fn.__name__}()")
        return super().invoke(s, owner, fn, args, kwargs)


@of(
    types.GetSetDescriptorType, types.MemberDescriptorType, types.CodeType, types.UnionType, Null,
    type(dataclasses.MISSING), type(dataclasses.KW_ONLY),
    type(dataclasses._FIELD),  # type: ignore[attr-defined]
)  # fmt: skip
class StaticKind(FixedKind):
    """A part of a program that never changes: its code, descriptors, classes, modules; what a
    library compares by identity."""

    def rebuild(self, make: Emitter, value: Any) -> Term:
        return make.names.bind(value)


@of(types.GenericAlias)
class AliasKind(StaticKind):
    """`list[int]`, which may name any object."""

    def rebuild(self, make: Emitter, value: Any) -> Term:
        if make.is_fixed(value) or value.__unpacked__:
            return super().rebuild(make, value)
        return make.call(types.GenericAlias, value.__origin__, value.__args__)


@of(typing.TypeVar, typing.ParamSpec, typing.TypeVarTuple)
class TypeVariableKind(StaticKind):
    """A variable of types, which C asks when it is a part of a type: the very object."""

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        if not name.startswith("__") and not defines(type(obj), name):  # of the program's
            self.refuse(obj, f".{name}")
        return getattr(obj, name)

    def rebuild(self, make: Emitter, value: Any) -> Term:
        return (
            super().rebuild(make, value)
            if make.is_fixed(value)
            else Kind.rebuild(self, make, value)
        )


# ---- what cannot be looked into


class Opaque(Poison):
    """An object from outside whose state cannot be read: it can be passed along, not used.

    It holds the type only; the object itself is reached at every call, where it was found."""

    __slots__ = ("cls",)

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def refusal(self) -> Break:
        return Break("opaque object", f"use of a {self.cls.__qualname__}")


@of(Opaque)
class OpaqueKind(Kind):
    """Every operation refuses."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        s.guard(TypeIs, origin, type(real))
        return s.outside.register(Shadow(real, origin, Opaque(type(real))))

    def to_native(self, s: Session, value: Any) -> Any:
        self.refuse(value, "use")

    def see(self, s: Session, value: Any, what: str) -> None:
        self.refuse(value, what)

    def type_of(self, value: Any) -> type:
        return value.cls if isinstance(value, Opaque) else type(value)

    def next(self, s: Session, obj: Any) -> Any:
        what = f"next() of a {self.type_of(obj).__qualname__} from outside"
        raise Break("iteration", what)


@of(SymbolicId)
class IdentityKind(OpaqueKind):
    """The id of an object: it can be compared, and be a key where the program made the table."""

    def type_of(self, value: SymbolicId) -> type:
        return int


class ForeignKind(NativeKind):
    """A type written in C that is none of the above: one made inside is used, one from outside is
    opaque, but for functions (of Cython) that have a handler."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        known = callable(real) and hashes_identity(real) and real in HANDLERS
        return s.outside.fix(real, origin) if known else OPAQUE.load(s, real, origin)

    def rebuild(self, make: Emitter, value: Any) -> Term:
        if type(value) is bytearray:
            return make.call(bytearray, bytes(value))
        if isinstance(value, re.Match):
            return make.names.bind(value)
        if type(value) in VIEWS:
            return make.let(method(make.expr(viewed(value)), view_name(type(value))))
        return super().rebuild(make, value)

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        if _is_shown_by(owner, fn):
            return _shown_by(s, owner, fn, args)
        return s.foreign(owner, fn, args, kwargs)


@of(types.FrameType, types.TracebackType)
class FrameKind(Kind):
    """A frame or a traceback of this capture: it is passed along, not looked at."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        return OPAQUE.load(s, real, origin)

    def refuse(self, obj: Any, what: str) -> NoReturn:
        raise Break("frames", f"{what} of a {type(obj).__qualname__}")

    def truth(self, s: Session, obj: Any) -> bool:
        return True

    def rebuild(self, make: Emitter, value: Any) -> Term:
        self.refuse(value, "use")


def _exception(cls: type[BaseException], args: Args) -> BaseException:
    """An exception as its builtin class makes it: OSError, groups ... look at their arguments."""
    native: Any = next(b for b in cls.__mro__ if not is_python_class(b))
    made: BaseException = native.__new__(cls, *args)
    native.__init__(made, *args)
    made.args = args
    return made


def _fields(cls: type[BaseException]) -> Iterator[str]:
    """Names of fields of builtin exceptions beside their arguments: `filename`, `name`, `value`."""
    for base in cls.__mro__:
        if not is_python_class(base) and base is not BaseExceptionGroup:  # whose are read only
            held = vars(base).items()
            yield from (n for n, v in held if type(v) is types.MemberDescriptorType and n[0] != "_")


class ExceptionKind(NativeKind, MutableKind):
    """An exception of a builtin class. One from outside is kept as it is, for `raise`; it cannot
    be looked into."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        s.guard(TypeIs, origin, type(real))
        return s.outside.register(Shadow(real, origin, real))

    def settle(self, s: Session, value: Any, depth: int) -> None:
        self.see(s, value, "use")

    def empty(self, make: Emitter, value: BaseException) -> Term:
        given = make.expr(value.args)
        return ("call", make.names.bind(_exception), make.expr(type(value)), given)

    def filling(self, make: Emitter, name: str, value: BaseException) -> list[Row]:
        if value.__traceback__ is not None and not make.reporting:
            what = f"the traceback of a {type(value).__qualname__}, which was raised, is kept"
            raise Break("frames", what)
        rows: list[Row] = []
        plain = _exception(type(value), value.args)  # which lacks what only this one was given
        held = ("__cause__", "__context__", "__suppress_context__", *_fields(type(value)))
        for field in held:
            if getattr(value, field, None) is not getattr(plain, field, None):
                rows.append(("set", attribute(name, field), make.expr(getattr(value, field))))
        fields = {k: v for k, v in value.__dict__.items() if not k.startswith("__jitcap")}
        if fields:
            rows.append(("do", method(attribute(name, "__dict__"), "update", make.expr(fields))))
        return rows

    def see(self, s: Session, value: Any, what: str) -> None:
        if s.outside.shadow(value) is not None:
            self.refuse(value, what)

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        self.see(s, obj, f".{name}")
        return getattr(obj, name)

    def setattr(self, s: Session, obj: Any, name: str, value: Any) -> None:
        self.see(s, obj, f".{name}")
        setattr(obj, name, value)

    def text(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        """Text of what the error was made with: each is asked for its own."""
        error = args[0]
        self.see(s, error, "text")
        parts, cls = error.args, type(error)
        if fn is repr and is_method(cls, "__repr__", BaseException):
            shown = s.call(repr, (parts[0] if len(parts) == 1 else parts,), {})
            if len(parts) == 1:
                return joined([f"{cls.__name__}(", shown, ")"])
            return joined([cls.__name__, shown])
        if fn in (str, format) and not any(args[1:]):
            if is_method(cls, "__str__", KeyError) and len(parts) == 1:
                return s.call(repr, parts, {})
            if is_method(cls, "__str__", BaseException, KeyError):
                return s.call(str, parts if len(parts) == 1 else (parts,), {}) if parts else ""
        return super().text(s, fn, args, kwargs)

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        self.see(s, owner, f".{fn.__name__}()")
        if _is_shown_by(owner, fn):
            return _shown_by(s, owner, fn, args)
        if fn.__name__ == "add_note" and [kind_of(a).type_of(a) for a in args] == [str]:
            notes = owner.__dict__.setdefault("__notes__", [])
            if not isinstance(notes, list):
                raise TypeError("Cannot add note: __notes__ is not a list")
            notes.append(args[0])  # text may come later
            return None
        return s.native(fn, args, kwargs, stores=True)


class FileKind(OpaqueKind):
    """A text file: what is written to it is written after the graph ran."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        s.guard(TypeIs, origin, type(real))
        return s.outside.register(Shadow(real, origin, real))

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        known = name in ("write", "writelines", "flush") or s.outside.shadow(obj) is None
        return getattr(obj, name) if known else self.refuse(obj, f".{name}")

    def invoke(self, s: Session, owner: Any, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        if fn.__name__ not in ("write", "writelines", "flush"):
            self.refuse(owner, f".{fn.__name__}()")
        if fn.__name__ == "writelines" and len(args) == 1:
            for line in s.list_of(args[0]):
                self.invoke(s, owner, owner.write, (line,), {})
            return None
        is_text = [issubclass(kind_of(a).type_of(a), str) for a in args]
        if owner.closed or is_text != [True] * (fn.__name__ != "flush"):
            return fn(*map(s.known, args))  # it complains
        origin = s.outside.origin_of(owner)
        if origin is not None:
            s.guard(Is, Attribute(origin, "closed"), False)
        s.host_call(fn, args, {})
        if fn.__name__ == "flush":
            return None
        return len(args[0]) if isinstance(args[0], str) else Deferred(len, args, cls=int)


MADE: Final = KINDS[dt.date]
OPAQUE: Final = KINDS[Opaque]
