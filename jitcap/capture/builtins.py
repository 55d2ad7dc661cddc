"""Capture: builtins whose meaning differs on captured values. builtin -> handler(world, ...).

What is not listed here but lives in one of `PURE_MODULES` runs as it is. `polyfills.py` has those
that are best written as plain Python and interpreted.
"""

from __future__ import annotations

import _thread
import abc
import builtins
import copy
import dataclasses
import decimal
import functools
import io
import sys
import time
import typing
import warnings
from collections.abc import Callable
from datetime import date, datetime
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from eager import autograd
from eager import random as eager_random
from eager.dtype import set_default_dtype
from eager.printing import set_printoptions
from eager.serialization import load, save
from eager.sym import SymNumber
from eager.tensor import Tensor
from jitcap.capture import attributes, polyfills
from jitcap.capture.breaks import Break
from jitcap.capture.deferred import Deferred
from jitcap.capture.interpret import Generator
from jitcap.capture.located import warn_above
from jitcap.capture.native import is_native_class
from jitcap.capture.origin import Computed, Fixed
from jitcap.capture.outside import TensorShadow, is_python_class
from jitcap.capture.shadow import DictShadow, ListShadow, slots_of
from jitcap.guards import Holds

if TYPE_CHECKING:
    from jitcap.capture.world import World

Handler = Callable[..., Any]
HANDLERS: Final[dict[Any, Handler]] = {}
PURE_MODULES: Final = frozenset({
    "_abc", "_bisect", "_collections", "_collections_abc", "_decimal", "_functools", "_heapq",
    "_operator", "_string", "_struct", "_typing", "abc", "builtins", "cmath", "collections",
    "copy", "datetime", "decimal", "enum", "fractions", "functools", "itertools", "math",
    "numbers", "numpy", "operator", "re", "string", "struct", "textwrap", "types", "typing",
    "unicodedata",
})  # fmt: skip
HOST_MODULES: Final = frozenset({"logging", "tqdm", "warnings"})
# Dictionary methods that look at one key only; True: the other arguments need native care too.
KEYED: Final = {
    "get": False, "__getitem__": False, "__contains__": False, "pop": False, "setdefault": False,
}  # fmt: skip
_IMPURE: Final[tuple[Any, ...]] = (
    builtins.open, builtins.input, builtins.eval, builtins.exec, builtins.compile,
    builtins.breakpoint, builtins.__import__, builtins.memoryview,
)  # fmt: skip


def handles(*functions: Any) -> Callable[[Handler], Handler]:
    """Register a handler for builtin functions."""

    def register(handler: Handler) -> Handler:
        for fn in functions:
            assert fn not in HANDLERS, f"{fn} is registered twice"
            HANDLERS[fn] = handler
        return handler

    return register


def type_of(value: Any) -> type:
    """`type(value)` as the program sees it."""
    if isinstance(value, SymNumber):
        return value.pytype
    if isinstance(value, Deferred):
        return str
    return type(value)


# ---- types and attributes


@handles(type)
def _type(world: World, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1:
        return type_of(args[0])
    cls = type(*args, **kwargs)
    world.made[id(cls)] = cls
    return cls


@handles(isinstance)
def _isinstance(world: World, obj: Any, classes: Any) -> Any:
    if isinstance(obj, SymNumber | Deferred):
        return _issubclass(world, type_of(obj), classes)
    if isinstance(obj, Generator):
        return isinstance(_SAMPLE, classes)
    return _checked(world, "__instancecheck__", isinstance, obj, classes)


def _checked(world: World, name: str, builtin: Any, obj: Any, classes: Any) -> Any:
    """`isinstance` and `issubclass`: a user's metaclass is asked by the interpreter."""
    if type(classes) is tuple:
        return any(_checked(world, name, builtin, obj, c) for c in classes)
    if type(classes) in (type, abc.ABCMeta) or not isinstance(classes, type):
        return builtin(obj, classes)
    check = attributes.class_raw(world, type(classes), name)
    if not isinstance(check, FunctionType) or world.is_library(check.__globals__["__name__"]):
        return builtin(obj, classes)
    return world.truth(world.call(check, (classes, obj), {}))


def _sample() -> Any:
    yield


_SAMPLE: Final = _sample()


@handles(issubclass)
def _issubclass(world: World, cls: Any, classes: Any) -> Any:
    return _checked(world, "__subclasscheck__", issubclass, cls, classes)


@handles(callable)
def _callable(world: World, obj: Any) -> bool:
    return callable(obj)


@handles(getattr)
def _getattr(world: World, obj: Any, name: str, *default: Any) -> Any:
    if not default:
        return world.getattr(obj, name)
    try:
        return world.getattr(obj, name)
    except AttributeError:
        return default[0]


@handles(hasattr)
def _hasattr(world: World, obj: Any, name: str) -> bool:
    try:
        world.getattr(obj, name)
    except AttributeError:
        return False
    return True


@handles(setattr)
def _setattr(world: World, obj: Any, name: str, value: Any) -> None:
    world.setattr(obj, name, value)


@handles(delattr)
def _delattr(world: World, obj: Any, name: str) -> None:
    world.delattr(obj, name)


@handles((object, "__setattr__"))
def _object_setattr(world: World, obj: Any, name: str, value: Any) -> None:
    attributes.default_put(world, obj, name, value)


@handles((object, "__delattr__"))
def _object_delattr(world: World, obj: Any, name: str) -> None:
    attributes.default_remove(world, obj, name)


@handles((object, "__getattribute__"))
def _object_getattribute(world: World, obj: Any, name: str) -> Any:
    if isinstance(obj, Tensor):
        return world.getattr(obj, name)
    return attributes.default_get(world, obj, name)


@handles((object, "__reduce_ex__"))
def _object_reduce_ex(world: World, obj: Any, protocol: int) -> Any:
    return world.call(polyfills.reduce_ex, (obj, protocol), {})


@handles((object, "__getstate__"))
def _object_getstate(world: World, obj: Any) -> Any:
    fields = world.getattr(obj, "__dict__") if hasattr(obj, "__dict__") else None
    names = [name for name, _ in slots_of(type(obj)) if _hasattr(world, obj, name)]
    slots = {name: world.getattr(obj, name) for name in names}
    return (fields, slots) if slots else fields


@handles((object, "__init__"), (object, "__init_subclass__"))
def _object_init(world: World, obj: Any, *args: Any, **kwargs: Any) -> None:
    """Nothing to do."""


@handles(super)
def _super(world: World, cls: Any, obj: Any = None) -> Any:
    return attributes.Super(cls, obj)


@handles(vars)
def _vars(world: World, obj: Any) -> Any:
    return world.getattr(obj, "__dict__")


@handles(dir)
def _dir(world: World, obj: Any) -> Any:
    world.load_all(obj)
    return dir(obj)


@handles(builtins.__build_class__)
def _build_class(world: World, *args: Any, **kwargs: Any) -> Any:
    return world.build_class(args, kwargs)


@handles(dataclasses.field)
def _field(world: World, **options: Any) -> Any:
    """For the real `dataclass()`, which compares with its module's own sentinels."""
    return dataclasses.field(**options)


@handles(dataclasses.dataclass)
def _dataclass(world: World, cls: Any = None, /, **options: Any) -> Any:
    if cls is None:
        return functools.partial(dataclasses.dataclass, **options)
    if id(cls) not in world.made:
        raise Break("effect", f"dataclass() changes {cls.__qualname__}")
    for method in vars(made := world.made_inside(dataclasses.dataclass(cls, **options))).values():
        if isinstance(method, FunctionType):
            world.made_inside(method)
    return made


# ---- containers and iteration


@handles(len)
def _len(world: World, obj: Any) -> Any:
    if isinstance(obj, Tensor):
        return len(obj)
    method = python_method(world, obj, "__len__")
    if method is not None:
        return world.call(method, (obj,), {})
    shadow = world.outside.shadow(obj)
    if shadow is not None and type(obj) is np.ndarray:
        return world.getattr(obj, "shape")[0]
    world.see(obj, "len()")
    if isinstance(shadow, DictShadow | ListShadow):
        return shadow.size(world)
    world.settle(obj)
    return len(obj)


@handles(iter)
def _iter(world: World, obj: Any, *sentinel: Any) -> Any:
    if sentinel:
        return world.call(polyfills.iter_until, (obj, *sentinel), {})
    return world.iter(obj)


@handles(next)
def _next(world: World, iterator: Any, *default: Any) -> Any:
    try:
        return world.next(iterator)
    except StopIteration:
        if default:
            return default[0]
        raise


@handles(reversed)
def _reversed(world: World, obj: Any) -> Any:
    method = python_method(world, obj, "__reversed__")
    if method is not None:
        return world.call(method, (obj,), {})
    if is_python_class(type(obj)) and not isinstance(obj, list | tuple | dict):
        return world.call(polyfills.reversed_sequence, (obj,), {})
    world.settle(obj)
    return reversed(obj)


def python_method(world: World, obj: Any, name: str) -> FunctionType | None:
    """The method of a user's class, if it is written in Python."""
    if not is_python_class(type(obj)):
        return None
    raw = attributes.class_raw(world, type(obj), name)
    return raw if isinstance(raw, FunctionType) else None


def _folded(builtin: Any, polyfill: Any) -> Handler:
    """`builtin` on plain values; the polyfill when elements have interpreted methods."""

    def handler(world: World, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 or builtin is sum:
            values = world.list_of(args[0])
            args = (values, *args[1:])
        else:
            values = list(args)
        if any(is_python_class(type(v)) and not isinstance(v, Tensor) for v in values):
            return world.call(polyfill, args, kwargs)
        return world.native(builtin, args, kwargs)

    return handler


for _builtin, _polyfill in polyfills.FOLDS.items():
    HANDLERS[_builtin] = _folded(_builtin, _polyfill)


@handles(map)
def _map(world: World, fn: Any, *iterables: Any) -> Any:
    return world.call(polyfills.map_, (fn, *iterables), {})


@handles(filter)
def _filter(world: World, fn: Any, iterable: Any) -> Any:
    return world.call(polyfills.filter_, (fn, iterable), {})


@handles(any)
def _any(world: World, iterable: Any) -> bool:
    return any(world.truth(v) for v in world.values_of(iterable))


@handles(all)
def _all(world: World, iterable: Any) -> bool:
    return all(world.truth(v) for v in world.values_of(iterable))


@handles(functools.reduce)
def _reduce(world: World, fn: Any, iterable: Any, *initial: Any) -> Any:
    return world.call(polyfills.reduce, (fn, iterable, *initial), {})


@handles(dict)
def _dict(world: World, *args: Any, **kwargs: Any) -> dict[Any, Any]:
    out: dict[Any, Any] = {}
    if args and (isinstance(args[0], dict) or attributes_has(world, args[0], "keys")):
        for key in world.list_of(world.call(world.getattr(args[0], "keys"), (), {})):
            out[key] = world.getitem(args[0], key)
    elif args:
        out.update(dict([tuple(world.list_of(pair)) for pair in world.list_of(args[0])]))
    return out | kwargs


def attributes_has(world: World, obj: Any, name: str) -> bool:
    return _hasattr(world, obj, name)


@handles(copy.copy)
def _copy(world: World, obj: Any) -> Any:
    if is_python_class(type(obj)) and not isinstance(obj, Tensor | list | tuple | dict):
        method = python_method(world, obj, "__copy__")
        if method is not None:
            return world.call(method, (obj,), {})
        new = object.__new__(type(obj))
        world.load_all(obj)
        new.__dict__.update(obj.__dict__)
        return new
    world.settle(obj)
    return copy.copy(obj)


@handles(functools.singledispatch(len).dispatch.__code__)  # the closure of every generic function
def _dispatch(world: World, dispatch: Any, cls: Any) -> Any:
    """Which implementation a generic function has for a class: asked again by a guard."""
    origin = world.outside.origin_of(dispatch) or Fixed(dispatch, "dispatch")
    return world.outside.load(dispatch(cls), Computed((origin,), "{}({})", (cls,)))


# ---- the host


@handles(sys.exception)
def _exception(world: World) -> BaseException | None:
    """What the program handles; that nothing is handled around it is guarded."""
    frames = reversed(world.vm.frames)
    error = next((f.handled[-1] for f in frames if f.handled[-1] is not None), None)
    if error is None:
        if sys.exception() is not None:
            raise Break("effect", "sys.exception() of an exception that is handled outside")
        place = Computed((), "{}() is None", (sys.exception,))
        world.guards.add(Holds(place, world.line(), True))
    return error


@handles(sys.exc_info)
def _exc_info(world: World) -> tuple[Any, Any, Any]:
    error = _exception(world)
    return (error and type(error), error, error and error.__traceback__)


@handles(print)
def _print(
    world: World, *args: Any, sep: Any = None, end: Any = None, file: Any = None, flush: Any = False
) -> None:
    if file not in (None, sys.stdout, sys.stderr) and not isinstance(file, io.TextIOBase):
        raise Break("effect", "print to a file")
    shown = tuple(
        a if isinstance(a, Tensor | SymNumber | Deferred | str) else world.call(str, (a,), {})
        for a in args
    )
    kwargs = {"sep": sep, "end": end, "flush": flush}
    if file is not None:
        kwargs["file"] = file
    world.host_call(print, shown, kwargs)


@handles(warnings.warn)
def _warn(
    world: World, message: Any, category: Any = None, stacklevel: Any = 1, *rest: Any, **kwargs: Any
) -> None:
    above = stacklevel - len(world.vm.frames)
    kwargs |= dict(zip(("source",), rest, strict=False))
    if above <= 0:
        world.report(warnings.warn, (message, category), {**kwargs, "stacklevel": stacklevel})
    else:
        world.host_call(warn_above, (above, message, category), kwargs)


class Identity(int):
    """The id of a twin: good for comparing, not for keeping (the real object has another)."""


@handles(id)
def _id(world: World, obj: Any) -> int:
    world.bound_to = "id()"
    return Identity(id(obj))


@handles(_thread.get_ident)
def _get_ident(world: World) -> int:
    world.bound_to = "the thread"
    return Identity(_thread.get_ident())


@handles(eager_random.manual_seed)
def _manual_seed(world: World, seed: int) -> Any:
    world.tracer.reseed(eager_random.default_generator, seed)
    return eager_random.default_generator


@handles(eager_random.Generator.manual_seed)
def _generator_manual_seed(world: World, generator: Any, seed: int) -> Any:
    world.tracer.reseed(generator, seed)
    return generator


def _sweep(fn: Any) -> Handler:
    """`backward`: refused at once if the history goes on outside, so that a split is before it."""

    def handler(world: World, *args: Any, **kwargs: Any) -> Any:
        result = world.native(fn, args, kwargs)
        for shadow in world.outside.by_real.values():
            if isinstance(shadow, TensorShadow) and shadow.passes_on():
                raise Break("effect", f"backward() goes on past {shadow.origin.show()}")
        return result

    return handler


for _backward in (autograd.backward, vars(Tensor)["backward"]):
    HANDLERS[_backward] = _sweep(_backward)


@handles(autograd.retain_grad)
def _retain_grad(world: World, tensor: Tensor) -> None:
    shadow = world.outside.shadow(tensor)
    if isinstance(shadow, TensorShadow) and shadow.real._node is not None:
        raise Break("effect", f"{shadow.origin.show()}, made outside, is to keep its gradient")
    autograd.retain_grad(tensor)


class _OwnFunction:
    """A user's Function for `Function.apply`: its methods are interpreted."""

    def __init__(self, world: World, cls: Any) -> None:
        self.__name__ = cls.__name__
        self.forward = world.reentry(world.getattr(cls, "forward"))
        self.backward = world.reentry(world.getattr(cls, "backward"))
        setup = world.getattr(cls, "setup_context")
        self.setup_context = None if setup is None else world.reentry(setup)


@handles(vars(autograd.Function)["apply"].__func__)
def _apply_function(world: World, cls: Any, *args: Any) -> Any:
    owner: Any = cls if is_native_class(cls) else _OwnFunction(world, cls)
    return vars(autograd.Function)["apply"].__func__(owner, *args)


def _refuse(kind: str, name: str) -> Handler:
    def handler(world: World, *args: Any, **kwargs: Any) -> Any:
        raise Break(kind, f"{name}() is called")

    return handler


for _impure in _IMPURE:
    HANDLERS[_impure] = _refuse("unknown call", _impure.__name__)
for _clock in (
    time.time, time.perf_counter, time.monotonic, time.process_time, time.time_ns,
    time.perf_counter_ns, datetime.now, datetime.utcnow, datetime.today, date.today,
):  # fmt: skip
    _home = f"{_clock.__module__}." if _clock.__module__ else ""
    HANDLERS[_clock] = _refuse("time and chance", f"{_home}{_clock.__qualname__}")
for _context in (decimal.getcontext, decimal.setcontext, decimal.localcontext):
    HANDLERS[_context] = _refuse("unknown call", f"decimal.{_context.__name__}")
for _state in (
    eager_random.seed, eager_random.get_rng_state, eager_random.set_rng_state,
    eager_random.initial_seed, eager_random.Generator.seed, eager_random.Generator.get_state,
    eager_random.Generator.set_state, set_default_dtype, set_printoptions, save, load,
):  # fmt: skip
    HANDLERS[_state] = _refuse("effect", f"eager.{_state.__name__}")
HANDLERS[time.sleep] = lambda world, seconds: world.host_call(time.sleep, (seconds,), {})
HANDLERS[typing.cast] = lambda world, cls, value: value
