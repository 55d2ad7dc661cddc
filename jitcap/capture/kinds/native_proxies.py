"""Capture: the program's instances in the hands of native code. instance -> stand-in, and back.

Native code asks an object by its special methods. Those that are written in Python must be
interpreted, as often and in the order in which the native code asks. So it is lent a stand-in: its
class has the same special methods, each of which comes back to the interpreter, and the same name
and bases, on which Python's choice between two operands rests. What comes back is the instance.
"""

from __future__ import annotations

import collections
import datetime as dt
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType, SimpleNamespace
from typing import Any, Final

import numpy as np

from eager.core.op import Op
from jitcap.base.breaks import Break
from jitcap.capture.kinds.base import (
    DEPTH,
    Args,
    Kwargs,
    Session,
    is_method,
    kind_of,
    parts_of,
    unwarned,
)
from jitcap.capture.kinds.classes import bind, class_raw, guarded_names
from jitcap.capture.kinds.deferred import Deferred
from jitcap.capture.kinds.iterators import Iteration
from jitcap.capture.kinds.poison import Poison

_ARITHMETIC: Final = "add sub mul truediv floordiv mod divmod pow matmul and or xor lshift rshift"
_TEXT: Final = frozenset({"__repr__", "__str__", "__format__"})
_OPERATORS: Final = frozenset(
    f"__{side}{name}__" for name in _ARITHMETIC.split() for side in ("", "r", "i")
) | {"__neg__", "__pos__", "__invert__", "__abs__"}
_KEYS: Final = frozenset({"__hash__", "__eq__"})
_NUMBERS: Final = frozenset(
    {"__len__", "__length_hint__", "__index__", "__hash__", "__int__", "__float__", "__complex__"}
)
SPECIAL: Final = _TEXT | _OPERATORS | _KEYS | _NUMBERS | {
    f"__{name}__"
    for name in "ne lt le gt ge bool bytes iter next reversed contains getitem setitem delitem "
    "call round trunc floor ceil enter exit fspath array missing getattr array_ufunc".split()
}  # fmt: skip
_UNASKED: Final = frozenset({"__call__", "__getattr__", "__missing__"})
_MAY_BE_NAN: Final = (float, complex, np.inexact, np.datetime64, np.timedelta64)
_VALUES: Final = (int, float, complex, str, bytes, dt.date, dt.time, dt.timedelta)
_SEQUENCES: Final = (list, tuple, collections.deque)
_MAPPINGS: Final = (dict, collections.OrderedDict, collections.defaultdict)


def asked(s: Session, cls: type) -> frozenset[str]:
    """The special methods of a class that are written in Python; that there are no others is
    guarded."""
    found = s.special_names.get(cls)
    if found is None:
        names = guarded_names(s, cls, SPECIAL)
        for name in sorted(names):
            class_raw(s, cls, name)
        found = s.special_names[cls] = frozenset(names)
    return found


class NativeProxy:
    """An instance of the program, lent to native code."""

    __slots__ = ("_session", "_value")

    def __init__(self, s: Session, value: Any) -> None:
        object.__setattr__(self, "_session", s)
        object.__setattr__(self, "_value", value)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The class that `isinstance` in native code sees."""
        return type(self._value)

    def __repr__(self) -> str:
        raise Break("data dependent", f"the address of a {type(self).__name__} is shown")

    def __getattr__(self, name: str) -> Any:
        s = self._session
        value = s.getattr(self._value, name)
        return wrap(s, kind_of(value).to_native(s, value))

    def __setattr__(self, name: str, value: Any) -> None:
        self._session.setattr(self._value, name, unwrap(self._session, value))


def _asking(name: str) -> Callable[..., Any]:
    """The special method of a stand-in."""

    def method(self: NativeProxy, *args: Any) -> Any:
        s, value, cls = self._session, self._value, type(self._value)
        given = tuple(unwrap(s, a) for a in args)
        result = s.call(bind(s, class_raw(s, cls, name), value, cls), given, {})
        if isinstance(result, Poison):
            raise result.refusal()
        if name in _NUMBERS:
            return unwarned(cls, name, s.known(result))
        if name == "__iter__" and hasattr(type(result), "__next__"):
            return Iteration(s, result)
        return wrap(s, result)

    return method


def called_back(s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
    """A call that native code makes of what the program gave it."""
    named = {k: unwrap(s, v) for k, v in kwargs.items()}
    result = s.call(fn, tuple(unwrap(s, a) for a in args), named)
    return wrap(s, kind_of(result).to_native(s, result) if type(result) is Deferred else result)


class Callback:
    """A Python callable in the hands of native code: calling it comes back to the interpreter.

    What wraps it takes its `__dict__`, which has what the callable's has, and nothing of ours."""

    __slots__ = ("__code__", "__dict__", "__weakref__", "_fn", "_session")

    def __init__(self, s: Session, fn: Any) -> None:
        if type(fn) is not functools.partial:  # which has no name; asking it for more changes it
            functools.update_wrapper(self, fn)
            if isinstance(fn, FunctionType):  # by which a decorator knows a generator function
                self.__code__ = fn.__code__
        self._session = s
        self._fn = fn

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return called_back(self._session, self._fn, args, kwargs)

    def __repr__(self) -> str:
        raise Break("data dependent", "native code writes text of a function of the program")


def _calling(self: NativeProxy, /, *args: Any, **kwargs: Any) -> Any:
    return called_back(self._session, self._value, args, kwargs)


def _lent_class(s: Session, cls: type) -> type:
    found = s.lent_classes.get(cls)
    if found is None:
        bases = tuple(_lent_class(s, b) for b in cls.__bases__ if b is not object) or (NativeProxy,)
        members: dict[str, Any] = {"__slots__": (), "__module__": cls.__module__}
        for name in SPECIAL & vars(cls).keys() - {"__getattr__"}:
            hidden = vars(cls)[name] is None
            if name == "__array_ufunc__" and not hidden:
                raise Break("opaque object", f"NumPy may ask {cls.__qualname__}.{name}()")
            members[name] = None if hidden else _calling if name == "__call__" else _asking(name)
        found = s.lent_classes[cls] = type(cls.__name__, bases, members)
    return found


def lends(s: Session, value: Any, text: bool = False, depth: int = 0) -> bool:
    """True if native code would run special methods of the program for `value` or its parts.

    A number, text or container of a class of the program is given as it is, so it must not answer
    by methods of its own; `text`: nor by what makes text of it."""
    cls, kind = type(value), kind_of(value)
    if isinstance(value, Op):  # the library's own, also one that holds a function of the program
        return False
    if cls is not type and isinstance(value, type):  # of which there is no stand-in
        if own := sorted(asked(s, cls) - _UNASKED - (frozenset() if text else _TEXT)):
            raise Break("opaque object", f"native code asks {cls.__qualname__}.{own[0]}()")
        return False
    if text and kind.python and is_method(cls, "__repr__", object):  # which shows its address
        return True
    if kind.python and (names := asked(s, cls)):
        if _stood_in(s, cls, text):
            return True
        names -= _OPERATORS | _UNASKED | (frozenset() if text else _TEXT)
        if own := sorted(name for name in names if is_own(s, value, name)):
            raise Break("opaque object", f"native code asks {cls.__qualname__}.{own[0]}()")
    elif not kind.contains_values and cls is not slice:
        return False
    return depth < DEPTH and any(lends(s, v, text, depth + 1) for v in parts_of(value))


def wrap(s: Session, value: Any, text: bool = False) -> Any:
    """`value` for native code: instances of the program are replaced, also in containers."""
    if not lends(s, value, text):
        return value
    cls = type(value)
    if cls is not slice and _stood_in(s, cls, text):
        s.identified(value)  # native code compares what is not the very same object
        return stand_in(s, value)
    return _mirror(s, value, cls, text)


def _stood_in(s: Session, cls: type, text: bool) -> bool:
    """True if an instance that native code asks is lent as a stand-in: C compares no stand-ins."""
    if issubclass(cls, SimpleNamespace):
        names = asked(s, cls)
        return "__eq__" in names or (text and "__repr__" in names)
    return not is_value(cls)


def stand_in(s: Session, value: Any) -> Any:
    """The proxy that native code gets for an instance."""
    found = s.lent.get(id(value))
    if found is None:
        found = s.lent[id(value)] = _lent_class(s, type(value))(s, value)
    return found


def _mirror(s: Session, value: Any, cls: type, text: bool) -> Any:
    """A copy of a container in which its parts are lent."""
    if cls is slice:
        return slice(*(wrap(s, v, text) for v in (value.start, value.stop, value.step)))
    for original, copy, _ in s.mirrors:
        if original is value:
            return copy
    held = [*parts_of(value)]
    mirror: Any
    if issubclass(cls, tuple):
        mirror = tuple.__new__(cls, [wrap(s, v, text) for v in value])
    elif cls in _MAPPINGS:
        mirror = value.copy()
        for key, part in dict.items(value):
            mirror[key] = wrap(s, part, text)
    elif cls is list or cls is collections.deque:
        mirror = value.copy()
        s.mirrors.append((value, mirror, held))
        for i, part in enumerate(value):
            mirror[i] = wrap(s, part, text)
        return mirror
    elif cls is SimpleNamespace:
        mirror = SimpleNamespace()
        mirror.__dict__.update({k: wrap(s, v, text) for k, v in value.__dict__.items()})
    else:
        raise Break("opaque object", f"a {cls.__qualname__} of instances is looked into")
    s.mirrors.append((value, mirror, held))
    return mirror


def unwrap(s: Session, value: Any) -> Any:
    """A value from native code, with the program's objects in place of their proxies."""
    cls = type(value)
    if issubclass(cls, NativeProxy):
        return value._value
    if cls is Callback:
        return value._fn
    for original, mirror, _ in s.mirrors:
        if mirror is value:
            return original
    if not _holds_lent(s, value):
        return value
    parts = [unwrap(s, v) for v in _held(value)]
    if cls is collections.deque:
        return collections.deque(parts, value.maxlen)
    return cls(zip(value, parts, strict=True) if cls is dict else parts)


def _holds_lent(s: Session, value: Any) -> bool:
    """True if a container holds what was lent, or one in it does. It may hold itself."""
    lent = {id(mirror) for _, mirror, _ in s.mirrors}
    stack, seen = [value], set()
    while stack:
        for part in _held(stack.pop()):
            if id(part) in lent or issubclass(type(part), NativeProxy | Callback):
                return True
            if id(part) not in seen:
                seen.add(id(part))
                stack.append(part)
    return False


def _held(value: Any) -> Iterable[Any]:
    if type(value) is dict:
        return value.values()
    return value if type(value) in (list, tuple, set, collections.deque) else ()


def call_native(
    s: Session, fn: Callable[..., Any], args: Args, kwargs: Kwargs | None = None, text: bool = False
) -> Any:
    """`fn(*args)` with instances lent. What it did to lists is done to the program's; a list that a
    method of an instance changed meanwhile is another one than it looked at."""
    outer, s.mirrors = s.mirrors, []
    try:
        given = [wrap(s, a, text) for a in args]
        named = {k: wrap(s, v, text) for k, v in (kwargs or {}).items()}
        try:
            return unwrap(s, fn(*given, **named))
        finally:
            for original, mirror, held in s.mirrors:
                if not same_parts([*parts_of(original)], held):
                    raise Break("effect", f"{fn.__name__}() asks what changes its operands")
                if isinstance(mirror, list | collections.deque):
                    _write_back(s, original, [unwrap(s, v) for v in mirror])
    finally:
        s.mirrors = outer


def _write_back(s: Session, original: Any, parts: list[Any]) -> None:
    if not same_parts(parts, [*parts_of(original)]):
        s.writing(original)
        original.clear()
        original.extend(parts)


def same_parts(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(map(operator.is_, a, b))


def refuse_key(s: Session, key: Any) -> None:
    """Keys and members of sets are hashed and compared by native code: not by the program's, and
    not by being the very number that was put in."""
    if issubclass(type(key), tuple | frozenset):
        for part in parts_of(key):
            refuse_key(s, part)
    if not kind_of(key).python:
        if issubclass(type(key), _MAY_BE_NAN) and key != key:
            raise Break("data dependent", "a number that does not equal itself is a key")
        return
    if any(is_own(s, key, name) for name in _KEYS):
        what = f"a {type(key).__qualname__}, which hashes and compares itself, is a key"
        raise Break("opaque object", what)
    s.settle(key)


def is_own(s: Session, value: Any, name: str) -> bool:
    """True if a special method is the program's, not a library's."""
    method = s.special(value, name)
    return method is not None and not s.is_library(method.__globals__)


def is_value(cls: type) -> bool:
    """True if instances are numbers, text or containers for native code."""
    return issubclass(cls, (*_VALUES, *_SEQUENCES, dict, set, frozenset))


def named(s: Session, given: Kwargs) -> Kwargs:
    """Arguments by name. A class that is a key is called: `str` may show an address."""
    key = given.get("key")
    return {**given, "key": s.reentry(key)} if isinstance(key, type) else given
