"""Capture: builtins whose meaning differs on captured values. builtin -> handler(session, ...).

What is not listed here but lives in one of `PURE_MODULES` runs as it is. `polyfills.py` has those
that are best written as plain Python and interpreted.
"""

from __future__ import annotations

import _thread
import collections
import copy
import dataclasses
import functools
import io
import itertools
import operator
import os
import sys
import time
import typing
import warnings
from types import FunctionType, GeneratorType
from typing import Any, Final, cast

from eager import autograd
from eager.autograd import function
from eager.base.process.recursion import own_limit
from eager.core.sym import SymNumber
from eager.core.tape import edge_of
from eager.core.tensor import Tensor
from eager.core.traced import Traced
from jitcap.base.breaks import Again, Break
from jitcap.base.call_policy import is_native_class, is_programs
from jitcap.base.terms import attribute, every
from jitcap.base.walks import reach
from jitcap.capture import host
from jitcap.capture.builtins import polyfills
from jitcap.capture.bytecode import VERSION
from jitcap.capture.kinds.base import (
    HANDLERS,
    MISSING,
    Session,
    handles,
    handles_each,
    kind_of,
    parts_of,
)
from jitcap.capture.kinds.classes import Super
from jitcap.capture.kinds.constants import runs_python
from jitcap.capture.kinds.iterators import InterpretedIterator, Lazy
from jitcap.capture.kinds.objects import (
    default_get,
    default_put,
    slots_of,
)
from jitcap.capture.kinds.poison import SymbolicId
from jitcap.capture.kinds.symbolic.sequences import range_of
from jitcap.capture.kinds.tensors import TensorShadow, tensors_of
from jitcap.graph import scalars

_NOTHING: Final = object()
_LONG: Final = 1e9  # seconds: what is more, Python refuses


# ---- attributes


def _exact(name: Any) -> Any:
    """The name of an attribute; one of a subclass of `str` as the text that it is."""
    cls = kind_of(name).type_of(name)
    if not issubclass(cls, str):
        raise TypeError(f"attribute name must be string, not {cls.__name__!r}")
    return str.__str__(name) if isinstance(name, str) else name


@handles(getattr)
def _getattr(s: Session, obj: Any, name: str, default: Any = MISSING, /) -> Any:
    try:
        return s.getattr(obj, _exact(name))
    except AttributeError:
        if default is MISSING:
            raise
        return default


@handles(hasattr)
def _hasattr(s: Session, obj: Any, name: str) -> bool:
    return _getattr(s, obj, name, _NOTHING) is not _NOTHING


@handles((object, "__getattribute__"))
def _object_getattribute(s: Session, obj: Any, name: str) -> Any:
    kind_of(obj).see(s, obj, f".{name}")
    if isinstance(obj, Tensor):
        return s.getattr(obj, name)
    if kind_of(obj).python:
        return default_get(s, obj, _exact(name))
    _refuse_own(obj, "__getattribute__")
    return s.getattr(obj, _exact(name))


def _refuse_own(obj: Any, name: str) -> None:
    """Raise Break if a class has its own method in place of the one of `object`."""
    cls = kind_of(obj).type_of(obj)
    if getattr(cls, name) is not getattr(object, name):
        raise Break("unknown call", f"object.{name}() of a {cls.__qualname__}")


@handles_each((object, "__setattr__"), (object, "__delattr__"))
def _object_put(s: Session, method: Any, obj: Any, name: str, *given: Any) -> None:
    kind_of(obj).see(s, obj, f".{name}")
    if isinstance(obj, Tensor):
        raise Break("effect", f"object.{method[1]}() of a tensor")
    if len(given) != (method[1] == "__setattr__"):
        vars(object)[method[1]](object(), name, *given)  # raises, in Python's words
    if kind_of(obj).python:
        return default_put(s, obj, _exact(name), *given or (MISSING,))
    _refuse_own(obj, method[1])
    return (s.setattr if given else s.delattr)(obj, _exact(name), *given)


@handles((object, "__getstate__"))
def _object_getstate(s: Session, obj: Any) -> Any:
    fields = s.getattr(obj, "__dict__") if hasattr(obj, "__dict__") else None
    fields = fields if fields is not None and s.truth(fields) else None
    names = [name for name, _ in slots_of(type(obj)) if _hasattr(s, obj, name)]
    slots = {name: s.getattr(obj, name) for name in names}
    return (fields, slots) if slots else fields


@handles_each((object, "__init__"), (object, "__init_subclass__"))
def _object_init(s: Session, method: Any, obj: Any, /, *args: Any, **kwargs: Any) -> None:
    """Nothing to do, but to complain of arguments."""
    vars(object)[method[1]].__get__(obj, type(obj))(*args, **kwargs)


HANDLERS[setattr] = lambda s, obj, name, value, /: s.setattr(obj, _exact(name), value)
HANDLERS[delattr] = lambda s, obj, name, /: s.delattr(obj, _exact(name))


@handles(vars)
def _vars(s: Session, obj: Any, /) -> Any:
    found = _getattr(s, obj, "__dict__", _NOTHING)
    if found is _NOTHING:
        raise TypeError("vars() argument must have __dict__ attribute")
    return found


@handles(super)
def _super(s: Session, cls: Any, obj: Any = None, /) -> Any:
    if obj is None:
        raise Break("opaque object", "a super() without an object")
    return Super(cls, obj)


@handles(dataclasses.field)
def _field(s: Session, /, **options: Any) -> Any:
    """Field for the real `dataclass()`, which compares with its module's own sentinels."""
    return dataclasses.field(**options)


@handles(dataclasses.dataclass)
def _dataclass(s: Session, cls: Any = None, /, **options: Any) -> Any:
    if cls is None:
        return functools.partial(dataclasses.dataclass, **options)
    if id(cls) not in s.made:
        raise Break("effect", f"dataclass() changes {cls.__qualname__}")
    for method in vars(made := s.made_inside(dataclasses.dataclass(cls, **options))).values():
        if isinstance(method, FunctionType):
            s.made_inside(method)
    return made


# ---- containers and iteration


_LAZY: Final = "accumulate compress dropwhile filterfalse groupby starmap takewhile"
_WRITTEN: Final[dict[Any, Any]] = {
    **{getattr(itertools, name): getattr(polyfills, name) for name in _LAZY.split()},
    functools.reduce: polyfills.reduce, sys.exit: polyfills.exit_,
    collections._count_elements: polyfills.count_elements,  # type: ignore[attr-defined]
}  # fmt: skip


@handles_each(*_WRITTEN)
def _written(s: Session, builtin: Any, /, *args: Any, **kwargs: Any) -> Any:
    """One that `polyfills` has in Python; a generator stands for an iterator of a builtin type, and
    is begun at once."""
    if not isinstance(builtin, type):
        return s.call(_WRITTEN[builtin], args, kwargs)
    return _lazy(s, builtin, _WRITTEN[builtin], args, kwargs)


def _lazy(s: Session, cls: type, fn: Any, args: Any, kwargs: Any) -> Lazy:
    """Iterator of a builtin type that a generator function of `polyfills` makes."""
    made = s.call(fn, args, kwargs)
    s.next(made)
    return Lazy(cls, lambda: s.next(made))


@handles(sum)
def _sum(s: Session, iterable: Any, /, start: Any = 0) -> Any:
    python = runs_python(s, iterable)
    return s.call(polyfills.sum_each if python else polyfills.sum_, (iterable, start), {})


@handles(itertools.chain)
def _chain(s: Session, /, *iterables: Any) -> Any:
    """Each is asked for an iterator when its turn comes."""
    if any(runs_python(s, each) for each in iterables):
        return _chained(s, itertools.chain, iterables)
    return s.native(itertools.chain, iterables, {})


@handles((type, "from_iterable"))
def _chained(s: Session, cls: type, iterables: Any, /) -> Lazy:
    return _lazy(s, cls, polyfills.chained, (iterables,), {})


HANDLERS[len] = Session.length


@handles(*[polyfills.add_up] if VERSION >= (3, 12) else [])
def _add_up(s: Session, total: Any, *numbers: Any) -> Any:
    """From the first float on, floats are not simply added."""
    while numbers and kind_of(total).type_of(total) is not float:
        total, numbers = s.binary("+", total, numbers[0]), numbers[1:]
    values = (total, *numbers)
    if numbers and any(isinstance(v, SymNumber) for v in values):
        return s.tracer.number(scalars.total, values)
    return sum(numbers, total)


@handles(iter)
def _iter(s: Session, obj: Any, *sentinel: Any) -> Any:
    if sentinel:
        if not callable(obj):
            iter(obj, *sentinel)  # raises, in this version's words
        return _lazy(s, _UNTIL, polyfills.until, (obj, *sentinel), {})
    found = s.iter(obj)
    return found.iterator if type(found) is InterpretedIterator else found


_UNTIL: Final = type(iter(int, 1))


@handles(next)
def _next(s: Session, iterator: Any, default: Any = MISSING, /) -> Any:
    try:
        return s.next(iterator)
    except StopIteration:
        if default is MISSING:
            raise
        return default


@handles(range)
def _range(s: Session, /, *args: Any) -> Any:
    found = range_of(s, args)
    return kind_of(range).call(s, range, args, {}) if found is None else found


HANDLERS[sorted] = lambda s, values, /, **how: s.native(sorted, (s.list_of(values),), how)
HANDLERS[any] = lambda s, values, /: any(s.truth(v) for v in s.iter(values))
HANDLERS[all] = lambda s, values, /: all(s.truth(v) for v in s.iter(values))


@handles(map)
def _map(s: Session, fn: Any, *iterables: Any) -> Lazy:
    if not iterables:
        raise TypeError("map() must have at least two arguments.")
    iterators = [*map(s.iter, iterables)]
    return Lazy(map, lambda: s.call(fn, tuple([s.next(it) for it in iterators]), {}))


@handles(itertools.tee)
def _tee(s: Session, iterable: Any, n: Any = 2, /) -> tuple[Any, ...]:
    iterator = s.iter(_iter(s, iterable))  # which is asked for one, too
    return itertools.tee(iterator, s.known(n))


@handles(filter)
def _filter(s: Session, fn: Any, iterable: Any) -> Lazy:
    iterator = s.iter(iterable)

    def step() -> Any:
        while True:
            value = s.next(iterator)
            if s.truth(value if fn is None or fn is bool else s.call(fn, (value,), {})):
                return value

    return Lazy(filter, step)


@handles((object, "__reduce_ex__"))
def _reduce_ex(s: Session, obj: Any, protocol: Any, /) -> Any:
    if not kind_of(obj).python and not isinstance(obj, dict | list):
        raise Break("unknown call", f"object.__reduce_ex__() of a {type(obj).__qualname__}")
    return s.call(polyfills.reduce_ex, (obj, protocol), {})


@handles(copy.copy)
def _copy(s: Session, /, x: Any) -> Any:
    if kind_of(x).python:
        return s.interpret(cast("FunctionType", copy.copy), (x,), {})
    s.settle(x)
    if (cls := kind_of(x).type_of(x)) is GeneratorType:
        raise TypeError(f"cannot pickle {cls.__name__!r} object")
    return copy.copy(x)


# ---- the host


@handles(sys.exception)
def _exception(s: Session) -> BaseException | None:
    """Exception that the program handles; where there is none, that is guarded."""
    error: BaseException | None = s.vm.handled()
    if error is None:
        if sys.exception() is not None:
            raise Break("effect", "sys.exception() of an exception that is handled outside")
        s.guard_that(("is", ("call", "$0"), "None"), sys.exception)
    return error


@handles(sys.exc_info)
def _exc_info(s: Session) -> tuple[Any, Any, Any]:
    error = _exception(s)
    return (error and type(error), error, error and error.__traceback__)


@handles(print)
def _print(
    s: Session, *args: Any, sep: Any = None, end: Any = None, file: Any = None, flush: Any = False
) -> None:
    if file is None:
        host.require(s, host.prints_by_library, sys, "sys.stdout is the program's")
    elif not isinstance(file, io.TextIOBase) or is_programs(file):
        raise Break("effect", "print to a file")
    if not all(text is None or kind_of(text).type_of(text) is str for text in (sep, end)):
        complain: Any = functools.partial(print, file=io.StringIO())
        complain(sep=s.known(sep), end=s.known(end))
    shown = tuple(
        a if isinstance(a, str) or kind_of(a).later else s.call(str, (a,), {}) for a in args
    )
    kwargs = {"sep": sep, "end": end, "flush": s.truth(flush)}
    if file is not None:
        kwargs["file"] = file
    s.host_call(print, shown, kwargs)


@handles(warnings.warn)
def _warn(
    s: Session,
    /,
    message: Any,
    category: Any = None,
    stacklevel: Any = 1,
    *rest: Any,
    **kwargs: Any,
) -> None:
    cls = UserWarning if category is None else category
    cls = type(message) if isinstance(message, Warning) else cls
    if not (isinstance(cls, type) and issubclass(cls, Warning)):
        given = kind_of(cls).type_of(cls).__name__
        raise TypeError(f"category must be a Warning subclass, not {given!r}")
    host.require(s, host.warns_by_library, cls, f"a {cls.__name__} is an error, or the program's")
    host.require_unseen(s)
    stacklevel = operator.index(s.known(stacklevel))
    host.report(s, warnings.warn, (message, category, stacklevel, *rest), kwargs)


@handles(time.sleep)
def _sleep(s: Session, seconds: Any) -> None:
    if not issubclass(kind_of(seconds).type_of(seconds), int | float):
        raise Break("unknown call", "time.sleep() of what is no number")
    if not (s.truth(s.compare(">=", seconds, 0)) and s.truth(s.compare("<", seconds, _LONG))):
        time.sleep(s.known(seconds))  # it complains
    s.host_call(time.sleep, (seconds,), {})


@handles(id)
def identity(s: Session, obj: Any, fn: Any = id) -> SymbolicId:
    """`id(obj)`, or its hash, which says as much."""
    s.bound_to = f"{fn.__name__}()"
    s.ties.compared(obj)
    return SymbolicId(s, obj, fn)


@handles(sys.getrecursionlimit)
def _getrecursionlimit(s: Session) -> int:
    """`inspect.signature` asks for it."""
    now = own_limit()
    s.guard_that(("==", ("call", "$0"), now), own_limit)
    return now


@handles_each(_thread.get_ident, _thread.get_native_id, os.getpid)
def _get_ident(s: Session, ask: Any) -> Any:
    now = ask()
    s.guard_that(("==", ("call", "$0"), now), ask)
    return now


@handles_each(autograd.backward, autograd.grad, vars(Tensor)["backward"])
def _sweep(s: Session, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Refused at once if the history goes on outside, so that a split is before it."""
    given = tuple(_tensors(s, a) for a in args)
    named = {k: _tensors(s, v) for k, v in kwargs.items()}
    _refuse_inner(s, (*given[1:], *named.values()))
    ends = given[:2] if fn is autograd.grad else given[:1]
    _stays_inside(s, fn, *ends, **{_ENDS[k]: named[k] for k in named if k in _ENDS})
    return s.native(fn, given, named)


def _refuse_inner(s: Session, asked: Any) -> None:
    """A gradient at a value of a step: the loop that is one node has no such place, so it is left
    as it stands."""
    found = s.inner.get(id(asked))
    if found is not None:
        raise Again(found[1])
    for part in parts_of(asked):
        _refuse_inner(s, part)


@handles(autograd.register_hook)
def _register_hook(s: Session, tensor: Tensor, hook: Any) -> Any:
    _refuse_inner(s, tensor)
    return kind_of(autograd.register_hook).call(s, autograd.register_hook, (tensor, hook), {})


_ENDS: Final = dict.fromkeys(("outputs", "tensors", "self"), "outputs") | {"inputs": "inputs"}


def _stays_inside(s: Session, fn: Any, outputs: Any = (), inputs: Any = ()) -> None:
    """Refuse a sweep where the way from the outputs leads to a tensor with a history outside, on
    which it goes on (`grad`: to an input): the tape in here ends at its stand-in."""
    s.settle(outputs)  # lists from outside with what is in them
    s.settle(inputs)
    outside = {id(x.twin): x for x in tensors_of(s)}
    ends = [(t,) if isinstance(t, Tensor) else t or () for t in (outputs, inputs)]
    wanted = {id(t) for t in ends[1]}

    def behind(target: Any) -> list[Any]:
        edges = target.edges if isinstance(target, autograd.Node) else ()
        return [edge[0] for edge in edges if edge is not None]

    edges = [edge_of(t) for t in ends[0] if isinstance(t, Tensor)]
    name = fn.__name__.removeprefix("_tensor_")
    if s.search is not None:
        s.search.sweep(name, edges)
    for target in reach([e[0] for e in edges if e is not None], behind, id):
        reached = outside.get(id(target))
        goes_on = fn is not autograd.grad or (wanted - {id(target)}) & outside.keys()
        if reached is not None and reached.has_history() and goes_on:
            raise Break("history", f"{name}() goes on past {reached.origin.show()}")


def _tensors(s: Session, value: Any) -> Any:
    """A list of tensors as native code may have it: a module, a view of a dictionary, a generator
    are iterated over here."""
    plain = value is None or isinstance(value, Tensor | SymNumber | bool | tuple | list)
    return s.known(value) if plain else s.list_of(value)


@handles(autograd.retain_grad)
def _retain_grad(s: Session, tensor: Tensor) -> None:
    _refuse_inner(s, tensor)
    shadow = s.outside.shadow(tensor)
    if isinstance(shadow, TensorShadow) and shadow.has_history():
        raise Break("effect", f"{shadow.origin.show()}, made outside, is to keep its gradient")
    autograd.retain_grad(tensor)


@handles(Tensor.detach_)
def _detach_in_place(s: Session, tensor: Tensor) -> Tensor:
    """A view cannot be; what stands for one does not know that it is a view."""
    shadow = s.outside.shadow(tensor)
    if isinstance(shadow, TensorShadow):
        missing = [("is", attribute("$0", name), "None") for name in ("_view", "_node")]
        s.guard_that(every(*missing), shadow.origin, answer=not shadow.is_derived())
        if shadow.is_derived():
            raise Break("effect", f"{shadow.origin.show()}, made outside, is detached in place")
    return tensor.detach_()


@handles(vars(Tensor)["storage_offset"])
def _storage_offset(s: Session, tensor: Tensor) -> int:
    """Offset in the memory; a stand-in does not know that of memory from outside."""
    array = tensor._array
    if type(array) is not Traced or id(array.storage) in s.owners:
        raise Break("data dependent", ".storage_offset() of a tensor from outside")
    return array.offset


@handles(vars(autograd.Function)["apply"].__func__)
def _apply_function(s: Session, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The methods of a user's Function are interpreted."""
    own = (
        function.Methods(cls)
        if is_native_class(cls)
        else function.Methods(cls, s.getattr, s.reentry)
    )
    return function.call(own, args, kwargs)


HANDLERS[typing.cast] = lambda s, /, typ, val: val
