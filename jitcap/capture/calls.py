"""Capture: what a call does. (callable, arguments) -> value.

The policy: a function of `eager` runs natively on traced values; a Python function is interpreted;
a known builtin runs for real (on values of this capture, so it cannot touch the outside); anything
else is a break. Python callables that native code gets are wrapped so that they come back here.
"""

from __future__ import annotations

import builtins
import collections
import functools
import io
import itertools
import logging
import operator
import types
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from eager.nn import Module
from eager.sym import SymNumber
from eager.tensor import Tensor
from jitcap.capture import attributes
from jitcap.capture import builtins_values as _registered  # noqa: F401 - fills HANDLERS
from jitcap.capture import chance as _chance  # noqa: F401 - fills HANDLERS
from jitcap.capture.breaks import Break
from jitcap.capture.builtins import HANDLERS, HOST_MODULES, KEYED, PURE_MODULES
from jitcap.capture.deferred import Deferred
from jitcap.capture.functions import frame_for
from jitcap.capture.native import is_native, is_native_class
from jitcap.capture.origin import Attribute, Computed, Fixed
from jitcap.capture.outside import is_python_class
from jitcap.capture.shadow import MISSING, DictShadow
from jitcap.guards import Holds, Is
from jitcap.marks import NO_CAPTURE

if TYPE_CHECKING:
    from jitcap.capture.world import World

_UNBOUND: Final = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType,
)  # fmt: skip
_SAFE_SELF: Final[tuple[Any, ...]] = (
    list, dict, set, frozenset, tuple, str, bytes, bytearray, int, float, complex, range, slice,
    collections.deque, BaseException, type, type({}.keys()), type({}.values()), type({}.items()),
    object,
)  # fmt: skip
_PURE_TYPES: Final = (
    str, bytes, bytearray, int, float, bool, complex, slice, range, object, list, tuple, dict, set,
    frozenset, enumerate, zip, map, filter, reversed, staticmethod, classmethod, property,
    collections.OrderedDict, collections.deque, collections.defaultdict, functools.partial,
    types.SimpleNamespace, types.MethodType, types.CellType,
)  # fmt: skip
# Methods that run through an argument; the others (append, insert, ...) store it.
_TAKES_ITERABLES: Final = frozenset(
    "extend extendleft update join union intersection difference symmetric_difference fromkeys "
    "intersection_update difference_update symmetric_difference_update issubset issuperset "
    "isdisjoint __init__ __iadd__".split()
)
_REPORTS: Final = frozenset(
    "debug info warning warn error critical exception log update set_postfix set_postfix_str "
    "set_description set_description_str refresh write close display".split()
)
_ITERTOOLS: Final = tuple(v for v in vars(itertools).values() if isinstance(v, type))


def call(world: World, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`fn(*args, **kwargs)`. Raises Break when it cannot be captured, else what the call raises."""
    while type(fn) is MethodType:
        fn, args = fn.__func__, (fn.__self__, *args)
    handler = HANDLERS.get(fn) if _hashable(fn) else None
    if handler is not None:
        return handler(world, *args, **kwargs)
    if type(fn) is FunctionType:
        return _call_function(world, fn, args, kwargs)
    if isinstance(fn, functools.partial):
        return call(world, fn.func, (*fn.args, *args), {**fn.keywords, **kwargs})
    if isinstance(fn, type):
        return _call_class(world, fn, args, kwargs)
    if isinstance(fn, _UNBOUND):
        return _call_unbound(world, fn, args, kwargs)
    if isinstance(fn, BuiltinFunctionType | types.MethodWrapperType):
        return _call_builtin(world, fn, args, kwargs)
    if isinstance(fn, functools._lru_cache_wrapper):
        return call(world, fn.__wrapped__, args, kwargs)
    return _call_instance(world, fn, args, kwargs)


def _hashable(fn: Any) -> bool:
    return type(fn).__hash__ is not None and not is_python_class(type(fn))


def _call_function(world: World, fn: FunctionType, args: Any, kwargs: Any) -> Any:
    if hasattr(fn, NO_CAPTURE):
        raise Break("requested", f"{fn.__qualname__}() is called")
    if is_native(fn):
        return native(world, fn, args, kwargs)
    generic = HANDLERS.get(fn.__code__)
    if generic is not None:
        return generic(world, fn, *args)
    module = fn.__globals__.get("__name__", "")
    if module.partition(".")[0] in HOST_MODULES:
        return _host(world, fn, args, kwargs)
    if module.partition(".")[0] == "numpy":
        return _call_pure(world, fn, args, kwargs)
    return interpret(world, fn, args, kwargs)


def _host(world: World, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of logging, tqdm ... that only reports: it is made after the graph ran."""
    if fn is logging.Logger.isEnabledFor:
        level = world.known(args[1])
        origin = world.outside.origin_of(args[0]) or Fixed(args[0], "logger")
        answer = Computed((origin,), f"{{}}.isEnabledFor({level!r})")
        world.guards.add(Holds(answer, world.line(), args[0].isEnabledFor(level)))
        return args[0].isEnabledFor(level)
    if fn.__name__ not in _REPORTS:
        raise Break("unknown call", f"{fn.__qualname__}() is called")
    if fn.__name__ == "exception" or kwargs.get("exc_info"):
        raise Break("effect", "a traceback is logged")
    (world.report if fn.__module__ == "logging" else world.host_call)(fn, args, kwargs)
    return None


def interpret(world: World, fn: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Inline a Python function."""
    if len(world.vm.frames) > 150:
        raise Break("unknown call", f"{fn.__qualname__} is called more than 150 levels deep")
    world.reached[id(fn)] = fn
    return world.vm.execute(frame_for(world, fn, args, kwargs))


# ---- native code


class Reentry:
    """A Python callable in the hands of native code: calling it comes back to the interpreter."""

    def __init__(self, world: World, fn: Any) -> None:
        functools.update_wrapper(self, fn)
        self._world = world
        self._fn = fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call(self._world, self._fn, args, kwargs)


def native(
    world: World, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a function of `eager`, or a builtin, on values of this capture."""
    given = tuple(for_native(world, a) for a in args)
    named = {k: for_native(world, v) for k, v in kwargs.items()}
    if type(fn) is FunctionType:  # one of `eager`, which looks at all that it gets
        world.see_within((*given, named), "use")
    return fn(*given, **named)


def for_native(world: World, value: Any) -> Any:
    """`value` as native code may have it: loaded in full, callables wrapped."""
    cls = type(value)
    if isinstance(value, Module) or (
        cls in (FunctionType, MethodType) and not _runs_natively(value)
    ):
        return Reentry(world, value)
    if isinstance(value, Tensor | SymNumber | type | Reentry) or cls in (int, str, float, bool):
        return value
    if cls is Deferred:
        raise Break("data dependent", f"text made of {value.show()} is read")
    world.see(value, "use")
    world.settle(value)
    return value


def _runs_natively(fn: Any) -> bool:
    while type(fn) is MethodType:
        fn = fn.__func__
    return type(fn) is not FunctionType or is_native(fn)


def _outside(world: World, value: Any) -> bool:
    return world.outside.shadow(value) is not None


# ---- builtins


def _call_builtin(world: World, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    owner = getattr(fn, "__self__", None)
    of_type = HANDLERS.get((type(owner), fn.__name__))
    if of_type is not None:
        return of_type(world, owner, *args, **kwargs)
    if owner is None or isinstance(owner, types.ModuleType):
        module = getattr(fn, "__module__", None) or getattr(owner, "__name__", "")
        if owner is None and hasattr(builtins, fn.__qualname__.partition(".")[0]):
            module = "builtins"  # a static method: `str.maketrans`
        if module in PURE_MODULES:
            return _call_pure(world, fn, args, kwargs)
        raise Break("unknown call", f"{module}.{fn.__qualname__}() is not known")
    return method(world, owner, fn, args, kwargs)


def method(world: World, owner: Any, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A method that is written in C, bound to `owner`."""
    if isinstance(owner, type):
        handler = HANDLERS.get((object, fn.__name__))
        if fn.__name__ == "__call__":
            return construct(world, owner, args, kwargs)
        if fn.__name__ == "__new__":
            return _new(world, fn, args, kwargs)
        if handler is None:
            return _call_pure(world, fn, args, kwargs)
    if is_python_class(type(owner)):
        special = HANDLERS.get((object, fn.__name__))
        if special is not None and (fn.__name__ != "__init__" or _of_object(fn)):
            return special(world, owner, *args, **kwargs)
    if isinstance(owner, BaseException) or world.is_opaque(owner) or not _known_self(owner):
        return _method_of_unknown(world, owner, fn, args, kwargs)
    if not isinstance(owner, type | str | tuple):
        world.wrote(owner)
    if type(owner) in (list, collections.deque):  # these only store: nothing is looked at
        if fn.__name__ == "append":
            return fn(*args, **kwargs)
        if fn.__name__ == "extend" and len(args) == 1:
            return fn(world.list_of(args[0]), **kwargs)
    if isinstance(owner, dict) and fn.__name__ in KEYED and args:
        args = (world.known(args[0]), *args[1:])
        _touch(world, owner, args[0], delete=fn.__name__ == "pop")
        if not KEYED[fn.__name__]:
            return fn(*args, **kwargs)
    else:
        world.settle(owner)
    if isinstance(owner, str | bytes) and any(_is_deferred(a) for a in (*args, *kwargs.values())):
        return Deferred(fn, args, kwargs)
    if fn.__name__ in _TAKES_ITERABLES:
        args = _iterables(world, args)
    if fn.__name__ in ("index", "count", "remove") and isinstance(owner, Iterable):
        world.hashing((*owner, *args))
    elif isinstance(owner, set | frozenset | dict):
        for arg in args:
            world.hashing(arg if type(arg) in (set, frozenset, list, tuple) else (arg,))
    return native(world, fn, args, kwargs)


def _of_object(fn: Any) -> bool:
    """Whether a bound method is `object`'s own, not that of another builtin base."""
    return bool(fn.__qualname__.startswith("object."))


def _is_deferred(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_is_deferred, value))
    return isinstance(value, Deferred | SymNumber | Tensor)


def _known_self(owner: Any) -> bool:
    return isinstance(owner, (*_SAFE_SELF[:-1], Iterator)) or type(owner) is object


def _method_of_unknown(world: World, owner: Any, fn: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(owner, BaseException) and not _outside(world, owner):
        return fn(*args, **kwargs)
    if type(owner).__module__.partition(".")[0] in HOST_MODULES:
        return _host(world, fn, args, kwargs)
    if isinstance(owner, io.TextIOBase) and fn.__name__ in ("write", "writelines", "flush"):
        return _write_to_file(world, owner, fn, args)
    if not world.is_opaque(owner) and (
        type(owner).__module__ in PURE_MODULES or isinstance(owner, np.generic)
    ):
        return _call_pure(world, fn, args, kwargs)
    raise Break("opaque object", f".{fn.__name__}() of a {type(owner).__qualname__}")


def _touch(world: World, mapping: Any, key: Any, *, delete: bool) -> None:
    shadow = world.outside.shadow(mapping)
    if isinstance(shadow, DictShadow):
        (shadow.before_delete if delete else shadow.touch)(world, key)


def _iterables(world: World, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Instances of Python classes as iterators that native code can drive."""
    return tuple(
        world.iter(a)
        if is_python_class(type(a))
        and not isinstance(a, (*_SAFE_SELF[:-1], Tensor))
        and _iterates(a)
        else a
        for a in args
    )


def _iterates(value: Any) -> bool:
    return isinstance(getattr(type(value), "__iter__", None), FunctionType)


def _write_to_file(world: World, file: io.TextIOBase, fn: Any, args: tuple[Any, ...]) -> Any:
    """Written after the graph ran; a file that is closed says so at once."""
    if file.closed:
        return fn(*args)
    origin = world.outside.origin_of(file)
    if origin is not None:
        world.guards.add(Is(Attribute(origin, "closed"), world.line(), False))
    world.host_call(fn, args, {})
    return Deferred(len, args) if fn.__name__ == "write" else None


def _call_pure(world: World, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A builtin without effects: it runs now, on the values of run-time numbers."""
    known = tuple(map(world.known, _iterables(world, args)))
    return native(world, fn, known, {k: world.known(v) for k, v in kwargs.items()})


def _call_unbound(world: World, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`list.append(xs, 1)`, `object.__setattr__(obj, name, value)`, `super().__init__()` ..."""
    if not args:
        raise TypeError(f"unbound method {fn.__qualname__}() needs an argument")
    if fn.__objclass__ is object:
        handler = HANDLERS.get((object, fn.__name__))
        if handler is not None:
            return handler(world, *args, **kwargs)
    if isinstance(args[0], Tensor):
        return native(world, fn, args, kwargs)
    return method(world, args[0], fn.__get__(args[0], type(args[0])), args[1:], kwargs)


# ---- classes and instances


def _call_class(world: World, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if cls.__module__.partition(".")[0] in HOST_MODULES:
        raise Break("unknown call", f"{cls.__module__}.{cls.__qualname__}() is called")
    if cls in (set, frozenset) and len(args) == 1:
        args = (world.list_of(args[0]),)
        world.hashing(args[0])
    if cls in _PURE_TYPES or cls in _ITERTOOLS:
        return native(world, cls, _iterables(world, args), kwargs)
    maker = attributes.class_raw(world, type(cls), "__call__")
    if isinstance(maker, FunctionType):
        if issubclass(cls, Tensor) or is_native_class(type(cls)) or type(cls).__module__ == "enum":
            return native(world, cls, args, kwargs)
        return call(world, maker, (cls, *args), kwargs)
    if is_native_class(cls):
        return native(world, cls, args, kwargs)
    return construct(world, cls, args, kwargs)


def construct(world: World, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`type.__call__`: `__new__`, then `__init__` if an instance came out."""
    new = attributes.class_raw(world, cls, "__new__")
    new = new.__func__ if isinstance(new, staticmethod) else new
    init = attributes.class_raw(world, cls, "__init__")
    python_new, python_init = isinstance(new, FunctionType), isinstance(init, FunctionType)
    if not python_new and not python_init and not is_python_class(cls):
        return _construct_foreign(world, cls, args, kwargs)
    if python_new:
        obj = call(world, new, (cls, *args), kwargs)
    elif new is object.__new__ or new is MISSING:
        obj = object.__new__(cls) if python_init else cls(*args, **kwargs)
    else:
        obj = native(world, cls.__new__, (cls, *_iterables(world, args)), kwargs)
    if not isinstance(obj, cls):
        return obj
    if python_init:
        if call(world, init, (obj, *args), kwargs) is not None:
            raise TypeError("__init__() should return None")
    elif init is not object.__init__ and not python_new and new is not object.__new__:
        native(world, init, (obj, *_iterables(world, args)), kwargs)
    return obj


def _construct_foreign(world: World, cls: type, args: Any, kwargs: Any) -> Any:
    if issubclass(cls, BaseException):
        return cls(*args, **kwargs)
    if cls.__module__ in PURE_MODULES or issubclass(cls, np.generic):
        return native(world, cls, args, kwargs)
    raise Break("unknown call", f"{cls.__module__}.{cls.__qualname__}() is not known")


def _new(world: World, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`object.__new__(cls)`, `tuple.__new__(cls, items)` ..."""
    if fn.__self__ is object:
        return object.__new__(args[0])
    return native(world, fn, (args[0], *_iterables(world, args[1:])), kwargs)


def _call_instance(world: World, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if isinstance(fn, Reentry):
        return call(world, fn._fn, args, kwargs)
    cls = type(fn)
    original = world.original_of(fn)
    if original is not None:
        return call(world, original, args, kwargs)
    if cls.__module__.partition(".")[0] in HOST_MODULES:
        return _host(world, fn, args, kwargs)
    method_ = attributes.class_raw(world, cls, "__call__")
    if isinstance(method_, FunctionType):
        if is_native(method_):
            return native(world, fn, args, kwargs)
        return call(world, method_, (fn, *args), kwargs)
    if isinstance(fn, np.ufunc):
        if any(isinstance(a, Tensor) for a in args):
            raise Break("numpy", f"np.{fn.__name__} of a tensor")
        return _call_pure(world, fn, args, kwargs)
    if isinstance(fn, operator.attrgetter | operator.methodcaller | operator.itemgetter):
        return _getter(world, fn, args[0])
    if method_ is not MISSING and is_python_class(type(method_)):  # a method that is jitted
        return call(world, attributes.bind(world, method_, fn, cls), args, kwargs)
    if method_ is MISSING:
        raise TypeError(f"{cls.__name__!r} object is not callable")
    raise Break("unknown call", f"a {cls.__module__}.{cls.__qualname__} is called")


def _getter(world: World, fn: Any, obj: Any) -> Any:
    """`operator.attrgetter(...)(obj)` and its like."""
    make, given = fn.__reduce__()
    if isinstance(fn, operator.methodcaller):
        if isinstance(make, functools.partial):
            return call(world, world.getattr(obj, make.args[0]), given, dict(make.keywords))
        return call(world, world.getattr(obj, given[0]), given[1:], {})
    if isinstance(fn, operator.itemgetter):
        found = tuple(world.getitem(obj, key) for key in given)
    else:
        found = tuple(functools.reduce(world.getattr, name.split("."), obj) for name in given)
    return found[0] if len(given) == 1 else found
