"""Capture: builtins whose meaning differs on captured values. builtin -> handler(world, ...).

What is not listed here but lives in one of `PURE_MODULES` runs as it is. `polyfills.py` has those
that are best written as plain Python and interpreted.
"""

from __future__ import annotations

import _thread
import builtins
import copy
import functools
import io
import json
import math
import operator
import random
import re
import sys
import time
import typing
import warnings
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Final

from eager import autograd
from eager import random as eager_random
from eager.dtype import set_default_dtype
from eager.printing import set_printoptions
from eager.serialization import load, save
from eager.sym import SymNumber, emit_scalar
from eager.tensor import Tensor
from jitcap.capture import attributes, polyfills
from jitcap.capture.breaks import Break
from jitcap.capture.deferred import Deferred
from jitcap.capture.interpret import Generator
from jitcap.capture.located import warn_above
from jitcap.capture.outside import TensorShadow, is_python_class
from jitcap.capture.shadow import DictShadow, ListShadow

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
    return isinstance(obj, classes)


def _sample() -> Any:
    yield


_SAMPLE: Final = _sample()


@handles(issubclass)
def _issubclass(world: World, cls: Any, classes: Any) -> Any:
    return issubclass(cls, classes)


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


# ---- containers and iteration


@handles(len)
def _len(world: World, obj: Any) -> Any:
    if isinstance(obj, Tensor):
        return len(obj)
    method = _python_method(world, obj, "__len__")
    if method is not None:
        return world.call(method, (obj,), {})
    world.see(obj, "len()")
    shadow = world.outside.shadow(obj)
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
    method = _python_method(world, obj, "__reversed__")
    if method is not None:
        return world.call(method, (obj,), {})
    if is_python_class(type(obj)) and not isinstance(obj, list | tuple | dict):
        return world.call(polyfills.reversed_sequence, (obj,), {})
    world.settle(obj)
    return reversed(obj)


def _python_method(world: World, obj: Any, name: str) -> FunctionType | None:
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
        method = _python_method(world, obj, "__copy__")
        if method is not None:
            return world.call(method, (obj,), {})
        new = object.__new__(type(obj))
        world.load_all(obj)
        new.__dict__.update(obj.__dict__)
        return new
    world.settle(obj)
    return copy.copy(obj)


# ---- numbers and text


def _number(cls: type) -> Handler:
    def handler(world: World, *args: Any, **kwargs: Any) -> Any:
        if len(args) > 1 or kwargs:  # complex(re, im), int(text, base)
            args = tuple(map(world.known, args))
            kwargs = {k: world.known(v) for k, v in kwargs.items()}
        if args and isinstance(args[0], SymNumber):
            return world.cast_number(args[0], cls)
        if args and isinstance(args[0], Tensor):
            return world.cast_number(args[0].item(), cls)
        method = _python_method(world, args[0], f"__{cls.__name__}__") if args else None
        if method is not None:
            return world.call(method, args, kwargs)
        return cls(*args, **kwargs)

    return handler


HANDLERS[int] = _number(int)
HANDLERS[float] = _number(float)
HANDLERS[complex] = _number(complex)


@handles(bool)
def _bool(world: World, value: Any = False) -> bool:
    return world.truth(value)


def _by_method(fn: Any, name: str) -> Handler:
    """A builtin that asks its first argument."""

    def handler(world: World, value: Any, *rest: Any) -> Any:
        method = _python_method(world, value, name)
        if method is not None:
            return world.call(method, (value, *rest), {})
        return world.native(fn, tuple(map(world.known, (value, *rest))), {})

    return handler


for _fn, _name in {hash: "__hash__", math.floor: "__floor__", math.ceil: "__ceil__",
                   math.trunc: "__trunc__", operator.index: "__index__"}.items():  # fmt: skip
    HANDLERS[_fn] = _by_method(_fn, _name)


@handles(abs)
def _abs(world: World, value: Any) -> Any:
    method = _python_method(world, value, "__abs__")
    return world.call(method, (value,), {}) if method is not None else abs(value)


@handles(divmod)
def _divmod(world: World, a: Any, b: Any) -> Any:
    return world.binary("divmod", a, b)


@handles(pow)
def _power(world: World, base: Any, exp: Any, mod: Any = None) -> Any:
    if mod is None:
        return world.binary("**", base, exp)
    return _by_method(pow, "__pow__")(world, base, exp, mod)


@handles(round)
def _round(world: World, value: Any, *digits: Any, ndigits: Any = None) -> Any:
    digits = digits or (() if ndigits is None else (ndigits,))
    method = _python_method(world, value, "__round__")
    if method is not None:
        return world.call(method, (value, *digits), {})
    if isinstance(value, SymNumber | Deferred):
        return Deferred(round, (value, *digits))
    return world.native(round, (value, *digits), {})


def _text(fn: Any, dunder: str) -> Handler:
    def handler(world: World, *args: Any, **kwargs: Any) -> Any:
        if not args:
            return fn(**kwargs)
        method = _python_method(world, args[0], dunder)
        if method is None and dunder == "__str__":
            method = _python_method(world, args[0], "__repr__")
        if method is not None and not isinstance(args[0], Tensor):
            return world.call(method, (args[0],), {})
        return world.text(fn, args, kwargs)

    return handler


HANDLERS[str] = _text(str, "__str__")
HANDLERS[repr] = _text(repr, "__repr__")


def _pure(fn: Any) -> Handler:
    def handler(world: World, *args: Any, **kwargs: Any) -> Any:
        return world.native(fn, tuple(map(world.known, args)), kwargs)

    return handler


for _name in "compile escape findall finditer fullmatch match search split sub subn".split():
    HANDLERS[getattr(re, _name)] = _pure(getattr(re, _name))


@handles(json.dumps)
def _dumps(world: World, value: Any, **options: Any) -> Any:
    if any(callable(v) for v in options.values()):
        raise Break("unknown call", "json.dumps() with functions is called")
    return world.text(json.dumps, (value,), options)


HANDLERS[json.loads] = _pure(json.loads)


@handles(format)
def _format(world: World, value: Any, spec: Any = "") -> Any:
    return world.format(value, spec)


_MATH: Final = {
    math.sqrt: "sqrt", math.exp: "exp", math.log: "log", math.sin: "sin", math.cos: "cos",
    math.tan: "tan", math.tanh: "tanh", math.sinh: "sinh", math.cosh: "cosh", math.atan: "atan",
    math.asin: "asin", math.acos: "acos", math.log1p: "log1p", math.expm1: "expm1",
    math.log2: "log2", math.fabs: "abs", math.erf: "erf",
}  # fmt: skip


def _math(fn: Any, op: str) -> Handler:
    def handler(world: World, *args: Any) -> Any:
        if len(args) == 1 and isinstance(args[0], SymNumber):
            return emit_scalar(op, float, args[0])
        return world.native(fn, tuple(map(world.known, args)), {})

    return handler


for _fn, _op in _MATH.items():
    HANDLERS[_fn] = _math(_fn, _op)


@handles(math.pow)
def _pow(world: World, x: Any, y: Any) -> Any:
    if isinstance(x, SymNumber) or isinstance(y, SymNumber):
        return world.binary("**", world.cast_number(x, float), world.cast_number(y, float))
    return math.pow(x, y)


_OPERATORS: Final = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/",
    operator.floordiv: "//", operator.mod: "%", operator.pow: "**", operator.matmul: "@",
    operator.and_: "&", operator.or_: "|", operator.xor: "^", operator.lshift: "<<",
    operator.rshift: ">>", operator.iadd: "+=", operator.isub: "-=", operator.imul: "*=",
    operator.itruediv: "/=",
}  # fmt: skip
for _operator, _op in _OPERATORS.items():
    HANDLERS[_operator] = lambda world, a, b, _op=_op: world.binary(_op, a, b)
for _compare, _op in {operator.lt: "<", operator.le: "<=", operator.eq: "==", operator.ne: "!=",
                 operator.gt: ">", operator.ge: ">="}.items():  # fmt: skip
    HANDLERS[_compare] = lambda world, a, b, _op=_op: world.compare(_op, a, b)
HANDLERS[operator.getitem] = lambda world, a, b: world.getitem(a, b)
HANDLERS[operator.setitem] = lambda world, a, b, c: world.setitem(a, b, c)
HANDLERS[operator.is_] = lambda world, a, b: world.same(a, b)
HANDLERS[operator.contains] = lambda world, a, b: world.contains(b, a)
HANDLERS[operator.truth] = lambda world, a: world.truth(a)
HANDLERS[operator.not_] = lambda world, a: not world.truth(a)
HANDLERS[operator.neg] = lambda world, a: world.unary("UNARY_NEGATIVE", a)


# ---- the host


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
    return Identity(id(obj))


@handles(_thread.get_ident)
def _get_ident(world: World) -> int:
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


def _refuse(kind: str, name: str) -> Handler:
    def handler(world: World, *args: Any, **kwargs: Any) -> Any:
        raise Break(kind, f"{name}() is called")

    return handler


for _impure in _IMPURE:
    HANDLERS[_impure] = _refuse("unknown call", _impure.__name__)
for _name in ("time", "perf_counter", "monotonic", "process_time", "time_ns", "perf_counter_ns"):
    HANDLERS[getattr(time, _name)] = _refuse("time and chance", f"time.{_name}")
for _name in ("random", "randint", "randrange", "uniform", "choice", "shuffle", "sample", "gauss"):
    _bound = getattr(random, _name)
    HANDLERS[_bound] = _refuse("time and chance", f"random.{_name}")
    if isinstance(_bound, MethodType):
        HANDLERS[_bound.__func__] = HANDLERS[_bound]
for _state in (
    eager_random.seed, eager_random.get_rng_state, eager_random.set_rng_state,
    eager_random.initial_seed, eager_random.Generator.seed, eager_random.Generator.get_state,
    eager_random.Generator.set_state, set_default_dtype, set_printoptions, save, load,
):  # fmt: skip
    HANDLERS[_state] = _refuse("effect", f"eager.{_state.__name__}")
HANDLERS[time.sleep] = lambda world, seconds: world.host_call(time.sleep, (seconds,), {})
HANDLERS[typing.cast] = lambda world, cls, value: value
