"""Capture: what the host makes of values that only the graph knows. function, arguments -> promise.

Text of run-time numbers (`f"{loss.item():.4f}"`), lists and arrays of tensors (`x.tolist()`,
`x.numpy()`) are not needed by the graph: they are made after it ran, where they are printed,
logged, stored or returned. A program that looks into one is split there.
"""

from __future__ import annotations

import gc
import math
import operator
import re
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from functools import partial
from keyword import iskeyword
from types import BuiltinFunctionType, FunctionType, SimpleNamespace
from typing import Any, Final, NoReturn

import numpy as np

from eager.base.dtype import from_numpy
from eager.core.batched import Batched
from eager.core.sym import PLAIN, SymNumber
from eager.core.tensor import Tensor, wrap
from eager.core.traced import Traced, UnknownValue, fresh
from eager.ops.conversion import to
from jitcap.base.breaks import Break
from jitcap.base.terms import Term
from jitcap.capture import numbers
from jitcap.capture.epilogue_writes import Emitter
from jitcap.capture.kinds.base import (
    DEPTH,
    MISSING,
    Args,
    Kind,
    Kwargs,
    Session,
    handles,
    kind_of,
    of,
    parts_of,
)
from jitcap.capture.kinds.poison import Poison


class Deferred(Poison):
    """`fn(*args, **kwargs)` of what these are now, a new `cls`, to be made when the run-time values
    are there. An array shares the memory of its tensor: it shows later writes."""

    __slots__ = ("args", "cls", "fn", "kwargs")
    samples: tuple[Any, ...] = ()  # of one that the entry reads: others that it may be

    def __init__(
        self, fn: Callable[..., Any], args: Args, kwargs: Kwargs | None = None, cls: type = str
    ) -> None:
        self.fn = fn
        self.args = args if cls is np.ndarray else tuple(map(snapshot, args))
        self.kwargs = {k: snapshot(v) for k, v in (kwargs or {}).items()}
        self.cls = cls

    def refusal(self) -> Break:
        what = f"what {self.show()} makes of run-time values is looked into"
        return Break("data dependent", what)

    def show(self) -> str:
        return f"{getattr(self.fn, '__name__', 'a function')}()"


# Numbers like those of the run. Text that has places for one of the first has them for every number
# that is finite and has 64 bits, but for what asks for a small one, or none below zero.
SAMPLES: Final[dict[type, tuple[Any, ...]]] = {
    int: (1, -1, 1 << 63),
    bool: (True, False, True),
    float: (0.5, math.nan, math.inf),
    complex: (0.5j, complex(math.nan), complex(math.inf)),
    np.bool_: (np.True_, np.False_, np.True_),
    **{c: (c(0.5), c(math.nan), c(math.inf)) for c, plain in PLAIN.items() if plain is float},
    **{c: (c(1), c(np.iinfo(c).min), c(np.iinfo(c).max)) for c, p in PLAIN.items() if p is int},
}
_PROMISED: Final[dict[type, Any]] = {  # the same of what is made of them
    list: [0.5], int: 1, float: 0.5,
    datetime: datetime.fromisoformat("2001-02-03"), date: date(2001, 2, 3), timedelta: timedelta(1),
}  # fmt: skip
_ARRAY: Final = np.zeros(1)
_COMPUTES: Final = (np.ufunc, type, type(np.prod))


def defer(s: Session, fn: Callable[..., Any], args: Args, kwargs: Kwargs | None = None) -> Any:
    """Text to be made later, if that cannot raise: it is tried with other numbers. If it can, it is
    made now, of the values themselves, since the program may handle what it raises."""
    kwargs = kwargs or {}
    seen: list[Any] = []
    answers = [_tried(fn, (args, kwargs), i, seen) for i in range(3)]
    found = [each for each in seen if type(each) is SymNumber]
    is_text = all(type(answer) is str for answer in answers)
    if not is_text and len(found) == len(seen):
        is_text = _finite(s, answers, found)
    if is_text and all(n.pytype is not int or numbers.fits(s, n) for n in found):
        return Deferred(fn, args, kwargs)
    given, named = copied((args, kwargs), partial(_settled, s))
    return fn(*given, **named)


def _tried(fn: Callable[..., Any], given: Any, i: int, seen: list[Any]) -> Any:
    """Result of `fn` for sample numbers and texts, None if it raises. `seen` gets these
    themselves."""

    def sample(value: Any) -> Any:
        if isinstance(value, SymNumber):
            seen.append(value)
            return SAMPLES[value.pytype][i]
        if isinstance(value, Deferred):
            if value.samples:
                seen.append(value)
                return value.samples[i]
            if value.cls is not str:
                return _PROMISED.get(value.cls, _ARRAY)
            args, kwargs = copied((value.args, value.kwargs), sample)
            return value.fn(*args, **kwargs)
        return _like_tensor(value) if isinstance(value, Tensor) else MISSING

    try:
        args, kwargs = copied(given, sample)
        return fn(*args, **kwargs)
    except Exception:  # noqa: BLE001 - for any reason
        return None


def _like_tensor(tensor: Tensor) -> Tensor:
    """A small tensor with as many dimensions, where the values are not known."""
    array = tensor._array
    if type(array) is Batched:
        raise UnknownValue("the text of a tensor that stands for many examples")
    if type(array) is not Traced:
        return tensor
    made: Tensor = wrap(np.zeros((1,) * len(array.shape), tensor.dtype.np))
    return made


def _finite(s: Session, answers: list[Any], found: list[SymNumber]) -> bool:
    """True if only NaN and infinity have no such text, which is then guarded."""
    if type(answers[0]) is not str or any(PLAIN.get(n.pytype, n.pytype) is int for n in found):
        return False
    floats = (n for n in found if PLAIN.get(n.pytype, n.pytype) is float)
    return all(s.truth(s.call(math.isfinite, (n,), {})) for n in floats)


def _settled(s: Session, value: Any) -> Any:
    """With the values of run-time numbers, guarded. Raises Break for one that the graph decides."""
    if isinstance(value, SymNumber):
        return s.known(value)
    if isinstance(value, Deferred):
        if value.samples:
            raise value.refusal()
        args, kwargs = copied((value.args, value.kwargs), partial(_settled, s))
        return value.fn(*args, **kwargs)
    if isinstance(value, Tensor) and type(value._array) in (Traced, Batched):
        raise Break("data dependent", "text made of a tensor may raise")
    return MISSING


def for_numpy(s: Session, value: Any) -> Any:
    """A value for NumPy, which takes what it does not know for an object: with the values of the
    run-time numbers in it, guarded."""

    def known(part: Any) -> Any:
        if isinstance(part, Deferred):
            raise part.refusal()
        if isinstance(part, Tensor) and type(part._array) is not np.ndarray:
            raise Break("numpy", "NumPy is given a tensor")
        return s.known(part) if isinstance(part, SymNumber) else MISSING

    s.settle(value)  # what a list from outside holds is loaded when it is asked for
    return copied(value, known) if mentions_runtime(value) else value


def by_numpy(s: Session, fn: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
    """`fn(*args)`, which NumPy computes now; of numbers from outside at every call, where it is a
    type of them or a function that only computes."""
    if isinstance(fn, _COMPUTES):
        found = numbers.by_numpy(s, fn, args, kwargs)
        if found is not None:
            return found
    named = {k: for_numpy(s, v) for k, v in kwargs.items()}
    return s.native(fn, tuple([for_numpy(s, a) for a in args]), named)


def astype(array: Any, *args: Any, **kwargs: Any) -> Any:
    """The method of an array that will be made."""
    return array.astype(*args, **kwargs)


@handles(astype)
def _astype(
    s: Session, array: Deferred, /, dtype: Any = None, *args: Any, **kwargs: Any
) -> Deferred:
    """Text of a copy with another type of elements."""
    dtype, plain = s.known(dtype), not (args or kwargs)
    found = from_numpy(np.dtype(dtype)) if plain and type(dtype) in (str, type, np.dtype) else None
    if found is None or not (found.is_floating_point and array.args[0].dtype.is_floating_point):
        raise Break("numpy", "an array of run-time values is converted")
    return Deferred(array.fn, (to(array.args[0], found, copy=True),), cls=np.ndarray)


_OF_DATES: Final[dict[tuple[type, str], type]] = {
    **{(cls, n): str for cls in (date, datetime) for n in ("ctime", "isoformat", "strftime")},
    (datetime, "timestamp"): float, (timedelta, "total_seconds"): float,
}  # fmt: skip


def of_date(method: Any, value: Deferred, *args: Any, **kwargs: Any) -> Any:
    """Result of a date's method, called on a date that is made later."""
    return method(value, *args, **kwargs)


@handles(of_date)
def _of_date(s: Session, method: Any, value: Deferred, /, *args: Any, **kwargs: Any) -> Any:
    cls = _OF_DATES[value.cls, method.__name__]
    if cls is str:
        return defer(s, method, (value, *args), kwargs)
    return Deferred(method, (value, *args), kwargs, cls)


def between(a: Any, b: Any) -> Any:
    """The time between dates of which one will be made. MISSING for those that may have zones."""
    zones = [x.args[1] if type(x) is Deferred else x.tzinfo for x in (a, b)
             if (x.cls if type(x) is Deferred else type(x)) is datetime]  # fmt: skip
    return Deferred(operator.sub, (a, b), cls=timedelta) if zones == [None, None] else MISSING


@of(Deferred)
class DeferredKind(Kind):
    """A value that is made later: it can be formatted, stored, printed and returned."""

    later = True

    def to_native(self, s: Session, value: Deferred) -> Any:
        raise value.refusal()

    def type_of(self, value: Deferred) -> type:
        return value.cls

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        if name == "astype" and obj.cls is np.ndarray:
            return partial(astype, obj)
        if (obj.cls, name) in _OF_DATES:
            return partial(of_date, getattr(obj.cls, name), obj)
        return obj.cls if name == "__class__" else self.refuse(obj, f".{name}")

    def iter(self, s: Session, obj: Any) -> Any:
        self.refuse(obj, "an item")

    def text(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        return defer(s, fn, args, kwargs)

    def rebuild(self, make: Emitter, value: Deferred) -> Term:
        fn = make.expr(value.fn)
        given = make.all(value.args)
        for name, part in value.kwargs.items():
            plain = name.isidentifier() and not iskeyword(name)
            held = make.expr(part)
            named = (
                ("keyword", f"'{name}", held) if plain else ("stars", ("dict", f"'{name}", held))
            )
            given.append(named)
        return make.let(("call", fn, *given))

    def refuse(self, obj: Any, what: str) -> NoReturn:
        made = f"what {obj.show()} makes of run-time values"
        raise Break("data dependent", f"{what} of {made}")


def join(*parts: str) -> str:
    """The pieces of an f-string."""
    return "".join(parts)


def joined(parts: list[Any]) -> Any:
    """An f-string of these pieces, now or later."""
    if any(isinstance(p, Deferred) for p in parts):
        return Deferred(join, tuple(parts))
    return "".join(parts)


def mentions_runtime(value: Any) -> bool:
    """True if text about `value` needs run-time values."""
    return any(kind_of(v).later for v in all_shown(value))


def all_shown(value: Any) -> Iterator[Any]:
    """A value and all that native text of it shows, each once."""
    found = {id(value): value}
    queue = [value]
    for each in queue:
        yield each
        new = {id(part): part for part in shown_by(each) if id(part) not in found}
        found |= new
        queue += new.values()


_STATIC: Final = (type, FunctionType, BuiltinFunctionType, np.ndarray)


def shown_by(value: Any) -> Iterable[Any]:
    """The values that native text of a value shows. Those of a builtin that is no container (a view
    of a dictionary, a partial, a method) are among all that it refers to."""
    kind = kind_of(value)
    if kind.plain or kind.constant or kind.later or isinstance(value, _STATIC):
        return ()
    if isinstance(value, BaseException):
        return value.args
    if isinstance(value, dict):
        return *dict.keys(value), *dict.values(value)
    if kind.python or kind.contains_values:
        return parts_of(value)
    return gc.get_referents(value)


def settle_shown(s: Session, value: Any) -> None:
    """Load all that native text of a value shows. Raises Break where that runs a method of the
    program, of an instance that is a key, or in what is no container: there it is not lent."""
    for each in all_shown(value):
        kind = kind_of(each)
        kind.settle(s, each, DEPTH)
        holds = kind.contains_values or kind.python
        hidden = dict.keys(each) if isinstance(each, dict) else () if holds else shown_by(each)
        if any(s.lends(part, text=True) for part in hidden):
            raise Break("data dependent", f"text of a {type(each).__qualname__} of instances")


def written(s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
    """`fn(*args)`, text that native code makes of values: the one door. Now, or later if they
    mention run-time values, of which what stands for them refuses to be written."""
    given = (*args, *kwargs.values())
    for value in given:
        settle_shown(s, value)
    if not any(s.lends(value, text=True) for value in given):
        return text_of(s, fn, args, kwargs)
    if mentions_runtime(given):
        raise Break("data dependent", "text made of instances and run-time values")
    return made_now(s, s.call_native(fn, args, kwargs, text=True))


def text_of(s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
    """`fn(*args)` of a value that is all there: now, or later if it mentions run-time values."""
    if mentions_runtime((*args, *kwargs.values())):
        return defer(s, fn, args, kwargs)
    try:
        text = fn(*args, **kwargs)
    except ValueError:
        _guard_digits(s)
        raise
    if len(text) > sys.int_info.str_digits_check_threshold:
        _guard_digits(s)
    if args and type(args[0]) is FunctionType and id(args[0]) not in s.outside.fixed:
        return Deferred(fn, args, kwargs)  # it shows its address
    return made_now(s, text)


def made_now(s: Session, text: Any) -> Any:
    """Text that native code made of values of this capture. An address in it is that of an object
    which each call makes anew, or of one that stands for the program's, unless that is fixed."""
    if type(text) is str and " at 0x" in text:
        if any(int(place, 16) not in s.outside.fixed for place in re.findall(_PLACE, text)):
            raise Break("data dependent", "the address of an object is shown")
        s.bound_to = "an address in a text"
    return text


_PLACE: Final = r" at 0x([0-9a-fA-F]+)"


def _guard_digits(s: Session) -> None:
    """Guards the setting of how many digits of an int Python writes."""
    limit = sys.get_int_max_str_digits
    s.guard_that(("==", ("call", "$0"), limit()), limit)


def snapshot(value: Any) -> Any:
    """Snapshot of a value that is looked at later: containers and tensors are copied."""
    return copied(value, _now)


def _now(value: Any) -> Any:
    if isinstance(value, Tensor):
        return frozen(value)
    if type(value) is Deferred and value.cls is np.ndarray:
        return Deferred(value.fn, tuple(map(snapshot, value.args)), value.kwargs, value.cls)
    return MISSING


def copied(value: Any, leaf: Callable[[Any], Any], outer: frozenset[int] = frozenset()) -> Any:
    """Containers with what `leaf` says stands for their parts (MISSING: the same). `outer`: the ids
    of those around this one. Raises Break for one that holds itself."""
    found = leaf(value)
    if found is not MISSING:
        return found
    base: Any = next((b for b in COPIED if isinstance(value, b)), None)
    if base is None and type(value) in VIEWS:
        return getattr(copied(viewed(value), leaf, outer), view_name(type(value)))()
    if base is None:
        return value
    if id(value) in outer:
        raise Break(
            "opaque object", f"a {type(value).__name__} that holds itself is looked at later"
        )
    outer |= {id(value)}
    if base is tuple:
        held = [*tuple.__iter__(value)]
        parts = [copied(v, leaf, outer) for v in held]
        return value if all(map(operator.is_, parts, held)) else base.__new__(type(value), parts)
    copy = base.__new__(type(value))  # an `__init__` of the program's is not asked
    if base is deque:
        deque.__init__(copy, (), value.maxlen)
    if base is defaultdict:
        copy.default_factory = value.default_factory
    if hasattr(value, "__dict__"):
        copy.__dict__.update({k: copied(v, leaf, outer) for k, v in value.__dict__.items()})
    if issubclass(base, dict):
        for key, part in base.items(value):
            base.__setitem__(copy, copied(key, leaf, outer), copied(part, leaf, outer))
    elif base is not SimpleNamespace:
        add = set.update if base is set else base.extend
        add(copy, [copied(v, leaf, outer) for v in base.__iter__(value)])
    return copy


_OF_ORDERED: Final[OrderedDict[Any, Any]] = OrderedDict()
VIEWS: Final[tuple[type, ...]] = tuple(
    type(view(table))
    for table, cls in (({}, dict), (_OF_ORDERED, OrderedDict))
    for view in (cls.keys, cls.values, cls.items)
)


def viewed(view: Any) -> Any:
    """The dictionary that a view is of."""
    return next(part for part in gc.get_referents(view) if isinstance(part, dict))


def view_name(cls: type) -> str:
    """The method that gives a view of this type: `keys`, `values` or `items`."""
    return cls.__name__.rpartition("_")[2]


COPIED: Final = (tuple, list, OrderedDict, defaultdict, dict, set, deque, SimpleNamespace)


def frozen(tensor: Tensor) -> Tensor:
    """The tensor as it is now: later in-place writes do not show."""
    array = tensor._array
    if type(array) is not Traced:
        return tensor
    out: Tensor = wrap(fresh(array.storage.tracer, array.read(), array.aval), cls=type(tensor))
    out._requires_grad, out._node, out._index = tensor._requires_grad, tensor._node, tensor._index
    if out._requires_grad and out._node is None:
        out.__dict__["_shown_for"] = tensor  # whose history may be outside
    return out
