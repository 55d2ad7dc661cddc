"""Capture: `functools.lru_cache` and `cache`. A call whose answer is kept is a read from outside.

The answer is found in the cache without calling it (so that capture changes nothing, and neither
does a guard), and loaded with an origin of its own; the call itself, which counts a hit, is made
after the graph ran, in order. A call whose answer is not kept runs the user's function: then this
call of the program runs plainly.

The caches of libraries and of installed packages (einops keeps what a pattern means) are looked
through: their functions are interpreted, once for equal arguments. One that draws or changes
something, or whose answer is changed or leaves the program, is asked as the program's are.
"""

from __future__ import annotations

import functools
import gc
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, NoReturn

from eager.base.dataclass import dataclass
from eager.core.sym import SymNumber
from eager.device import Size
from jitcap.base.assumed import Assumed
from jitcap.base.breaks import Break
from jitcap.base.call_policy import is_programs, name_of
from jitcap.base.origin import Bind, Computed, Fixed, Origin, Variable
from jitcap.base.terms import Term, python, text
from jitcap.base.walks import reach
from jitcap.capture import numbers
from jitcap.capture.kinds.base import Args, Kwargs, Session, hashes_identity, kind_of, of
from jitcap.capture.kinds.constants import FixedKind
from jitcap.capture.kinds.contents import Snapshot, can_change, parts_of

_ATOMS: Final = (int, str, float, complex, bool, bytes, type(None))


def kept(fn: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The answer that a cache holds for these arguments, by the keys of CPython's `_functools`; no
    hit is counted. Raises KeyError if it would call its function."""
    # What the bounded cache refers to: its type; a key, an answer and a link type for each entry;
    # then its dictionary, function, mark, link type, class of `cache_info()` and `__dict__`.
    parts = gc.get_referents(fn)
    where = len(parts) - 6  # from the end: an answer may be a dictionary too
    held, mark, link_type = parts[where], parts[where + 2], parts[where + 3]
    typed = fn.cache_parameters()["typed"]
    if len(args) == 1 and not kwargs and not typed and type(args[0]) in (int, str):
        key: Any = args[0]
    else:
        types = tuple(map(type, (*args, *kwargs.values()))) if typed else ()
        named = (mark, *(x for pair in kwargs.items() for x in pair)) if kwargs else ()
        key = (*args, *named, *types)
    link = held[key]
    if type(link) is not link_type:
        return link
    stored = next(k for k, v in held.items() if v is link)  # not compared: it may be of tensors
    found = next(i for i in range(1, where, 3) if parts[i] is stored)
    return parts[found + 1]


@dataclass(frozen=True, slots=True, eq=False)
class Kept(Origin):
    """Origin of the answer that the cache at `fn` holds for the arguments found at `args`."""

    fn: Origin
    args: tuple[Origin, ...]
    names: tuple[str, ...]  # of the last ones, which are given by keyword

    def parents(self) -> tuple[Origin, ...]:
        return (self.fn, *self.args)

    def _call(self, fn: Term, *args: Term) -> Term:
        count = len(args) - len(self.names)
        named = zip(self.names, args[count:], strict=True)
        return ("call", fn, *args[:count], *(("keyword", text(k), v) for k, v in named))

    def term(self, var: Variable, bind: Bind) -> Term:
        return self._call(bind(kept), var(self.fn), *map(var, self.args))

    def show(self) -> str:
        fn, *args = (("shown", place.show()) for place in self.parents())
        return python(self._call(fn, *args))


@of(functools._lru_cache_wrapper)
class CacheKind(FixedKind):
    """A function with a cache."""

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        origin = s.outside.origin_of(fn)
        if s.is_library(getattr(fn.__wrapped__, "__globals__", {})):
            for each in (*args, *kwargs.values()):  # they are looked up
                if isinstance(each, list | dict | set | bytearray):
                    raise TypeError(f"unhashable type: {type(each).__name__!r}")
            return s.call(fn.__wrapped__, args, kwargs)
        looks = id(fn) not in s.outside.assumed.caches
        if origin is not None and looks and not is_programs(fn.__wrapped__):
            return _looked_through(s, fn, args, kwargs)
        if origin is None:  # made inside: its function comes back to the interpreter
            return s.native(fn, args, kwargs)
        values = (*args, *kwargs.values())
        given = [_given(s, fn, v) for v in values]
        real = [value for value, _ in given]
        count = len(args)
        try:
            answer = kept(fn, *real[:count], **dict(zip(kwargs, real[count:], strict=True)))
        except KeyError:
            raise Break("cache", f"{name_of(fn)}() keeps no answer for this call yet") from None
        s.host_call(fn, args, kwargs, look=lambda key: key)  # by which its entry is found
        place = Kept(origin, tuple(where for _, where in given), tuple(kwargs))
        return s.outside.load(answer, place)

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        if name == "__wrapped__" or s.outside.origin_of(obj) is None:
            return super().getattr(s, obj, name)
        return self.refuse(obj, f".{name}")


def _looked_through(s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
    """Result of the cached function itself, memoized if its call adds no node to the graph."""
    parts = _key(s, (*args, *kwargs.values()))
    key = None if parts is None else (id(fn), len(args), *kwargs, *parts)
    if key is not None and key in s.answers:
        return s.answers[key][0]
    before, written, nodes = _effects(s), len(s.written), len(s.tracer.nodes)
    try:
        answer = s.call(fn.__wrapped__, args, kwargs)
        if _effects(s) != before or _has_changed(s, written):
            raise Break("cache", f"{name_of(fn)}() draws or changes something, and has a cache")
    except s.vm.passthrough as refusal:
        what = f"{name_of(fn)}() has a cache: {refusal}"
        raise _asked(fn, what) from refusal
    for part in reach([answer], parts_of, id):
        if can_change(part) and s.outside.shadow(part) is None:
            s.answers[id(part)] = fn, Snapshot.of(part, parts_of(part))
    if key is not None and len(s.tracer.nodes) == nodes:  # it holds no value of the graph
        s.answers[key] = answer, fn, args, kwargs
    return answer


def refuse_lasting(s: Session, fn: Any) -> NoReturn:
    """The program changes or keeps what the cache would give to later calls, too."""
    what = f"what {name_of(fn)}() keeps in its cache is changed, or leaves"
    raise _asked(fn, what)


def _asked(fn: Any, what: str) -> Break:
    """Refusal, unless the cache is asked for its answer instead."""
    return Break("cache", what).unless(Assumed(caches=frozenset({id(fn)})))


def require_unchanged(s: Session) -> None:
    """Raises Break where an answer of a cache that was looked through is not what it was."""
    for key, (fn, before, *_) in s.answers.items():
        if type(key) is int and before.is_changed():
            refuse_lasting(s, fn)


def _key(s: Session, values: Args) -> Args | None:
    """Key that tells arguments apart in a cache; None where one of them is known only when the
    graph has run, or the program's code compares it."""
    key: list[Any] = []
    for value in values:
        if type(value) in _ATOMS:
            key += (type(value), value)
        elif type(value) in (tuple, Size):
            inner = _key(s, value)
            if inner is None:
                return None
            key.append(inner)
        elif hashes_identity(value):
            key += (None, id(value))
        else:
            return None
    return tuple(key)


def _has_changed(s: Session, known: int) -> bool:
    """True if an object from outside differs now, of those noted after the first `known`: a call of
    any method of one is a note."""
    touched = {twin for twin, _ in [*s.written][known:]}
    shadows = (s.outside.by_twin.get(twin) for twin in touched)
    return any(shadow is not None and shadow.mark() for shadow in shadows)


def _effects(s: Session) -> Any:
    draws = [(id(d.start), d.count) for d in s.tracer.draws.values()]
    return len(s.host_calls), len(s.drawn), draws


def _given(s: Session, fn: Any, value: Any) -> tuple[Any, Origin]:
    """An argument as the cache has it in its key, and where it is found. Raises Break if finding it
    there would run the program's code, or if it is known only when the graph has run."""
    if isinstance(value, SymNumber):
        found = numbers.constant(s, value)
        if found is None:
            raise Break("data dependent", f"{name_of(fn)}() of a run-time number")
        origin, now = found
        return now, Fixed(now, repr(now)) if origin is None else origin
    fixed = type(value) in _ATOMS or isinstance(value, type | FunctionType | BuiltinFunctionType)
    if fixed or kind_of(value).constant:  # a device, a dtype
        return value, Fixed(value, repr(value))
    if type(value) is Size and not all(type(n) is int for n in value):
        raise Break("data dependent", f"{name_of(fn)}() of a size that varies")
    if type(value) in (tuple, Size):  # equal ones are one key
        given = [_given(s, fn, v) for v in value]
        form = ("tuple", *(f"${i}" for i in range(len(given))))
        return tuple(v for v, _ in given), Computed(tuple(o for _, o in given), form)
    shadow = s.outside.shadow(value)
    if shadow is None or not hashes_identity(value):
        raise Break("unknown call", f"{name_of(fn)}() of a {type(value).__qualname__}")
    return shadow.real, shadow.origin
