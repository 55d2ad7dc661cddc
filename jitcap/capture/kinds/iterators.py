"""Capture: iterators and generators. iterator -> what native code and `next` can drive.

One from outside is opaque; what the program makes is Python's own, or asks the session."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import FunctionType, GeneratorType
from typing import Any, Final, cast

from jitcap.base.breaks import Break
from jitcap.base.origin import Origin
from jitcap.base.terms import Term, method, text
from jitcap.capture.epilogue_writes import Emitter
from jitcap.capture.interpret import Generator
from jitcap.capture.kinds.base import Args, Kwargs, Session, kind_of, of
from jitcap.capture.kinds.constants import OPAQUE, NativeKind

# Not those of sets, which know no place in another one.
_RESUMABLE: Final[tuple[Any, ...]] = (
    type(iter([])), type(iter(())), type(iter(range(0))), type(iter("")), type(reversed([])),
    enumerate, zip, reversed,
)  # fmt: skip
_OF_DICTS: Final = {type(iter(getattr({}, view)())): view for view in ("keys", "values", "items")}


_OF_GENERATORS: Final = ("send", "throw", "close", "__iter__", "__next__", "__del__")
_A_GENERATOR: Final = (None for _ in ())


class IteratorKind(NativeKind):
    """An iterator of a builtin type, made inside; one from outside is opaque."""

    def load(self, s: Session, real: Any, origin: Origin) -> Any:
        return OPAQUE.load(s, real, origin)

    def rebuild(self, make: Emitter, value: Any) -> Term:
        """Iterator in its present state."""
        if type(value) in _OF_DICTS and (place := _place(make, value)) is not None:
            return make.call(begun, place[0], _OF_DICTS[type(value)], place[1])
        if not isinstance(value, _RESUMABLE):
            return super().rebuild(make, value)
        new, args, *state = value.__reduce__()
        name = make.call(new, *args)
        if state and state[0] is not None:
            make.rows.append(("do", method(name, "__setstate__", make.expr(state[0]))))
        return name


def _place(make: Emitter, iterator: Any) -> tuple[dict[Any, Any], int] | None:
    """The dictionary that an iterator runs through and how many items it has given; None where one
    that begins anew would not come to the same place."""
    table = next((part for part in gc.get_referents(iterator) if isinstance(part, dict)), None)
    shadow = make.session.outside.shadow(table)
    if table is None or id(table) in make.early or (shadow is not None and shadow.changed()):
        return None
    try:
        left = iterator.__reduce__()[1][0]
    except RuntimeError:  # the dictionary has another size now
        return None
    whole = [*getattr(dict, _OF_DICTS[type(iterator)])(table)]
    given = len(whole) - len(left)
    pairs: Iterator[tuple[Any, Any]] = zip(whole[given:], left, strict=True)
    if type(iterator) is type(iter({}.items())):
        pairs = ((a[i], b[i]) for a, b in pairs for i in (0, 1))
    return (table, given) if all(a is b for a, b in pairs) else None


def begun(table: dict[Any, Any], view: str, given: int) -> Iterator[Any]:
    """An iterator over a dictionary that has given so many items."""
    iterator = iter(getattr(dict, view)(table))
    for _ in itertools.islice(iterator, given):
        pass
    return iterator


@of(Generator)
class GeneratorKind(NativeKind):
    """A generator whose body is interpreted."""

    def type_of(self, value: Any) -> type:
        return GeneratorType

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        if name in _OF_GENERATORS:
            return getattr(obj, name)
        getattr(_A_GENERATOR, name)  # raises, in Python's words, if they have none
        return self.refuse(obj, f".{name}")

    def setattr(self, s: Session, obj: Any, name: str, value: Any) -> None:
        setattr(_A_GENERATOR, name, value)  # has no such attribute, or none that can be set

    def rebuild(self, make: Emitter, value: Any) -> Term:
        """One that has not begun is what its function gives."""
        if value.started or value.frame is None or type(value.frame.function) is not FunctionType:
            raise Break("generator", "a generator that has begun inside is returned or stored")
        code, fast = value.frame.code, value.frame.fast
        first = code.co_argcount
        named = code.co_varnames[first : first + code.co_kwonlyargcount]
        collected = iter(code.co_varnames[first + len(named) :])
        given = make.all(fast[name] for name in code.co_varnames[:first])
        if code.co_flags & CO_VARARGS:
            given.append(("star", make.expr(fast[next(collected)])))
        given += [("keyword", text(name), make.expr(fast[name])) for name in named]
        if code.co_flags & CO_VARKEYWORDS:
            given.append(("stars", make.expr(fast[next(collected)])))
        return make.let(("call", make.expr(value.frame.function), *given))

    def iter(self, s: Session, obj: Any) -> Any:
        return obj

    def call(self, s: Session, fn: Any, args: Args, kwargs: Kwargs) -> Any:
        raise TypeError("'generator' object is not callable")


class Unshown(Iterator[Any]):
    """Stand-in for an iterator of Python's, whose address is not shown."""

    def __repr__(self) -> str:
        raise Break("data dependent", "the address of an iterator is shown")


class InterpretedIterator(Unshown):
    """An iterator of a Python class in the hands of native code."""

    def __init__(self, s: Session, iterator: Any) -> None:
        self._session = s
        self.iterator = iterator

    def __next__(self) -> Any:
        return self._session.next(self.iterator)


of(InterpretedIterator)(NativeKind)


class Iteration(InterpretedIterator):
    """One whose values native code looks at: they are lent."""

    def __next__(self) -> Any:
        return self._session.wrap(super().__next__())


class Lazy(Unshown):
    """An iterator of the builtin type `cls`: `map`, `filter`, `iter(fn, sentinel)`. Each item is
    made by `step`, which runs the program's functions; a StopIteration of theirs ends it."""

    def __init__(
        self, cls: type, step: Callable[[], Any], hint: Callable[[], Any] | None = None
    ) -> None:
        """`hint` is asked by `list()`, as the builtin type asks how many items are left."""
        self.cls = cls
        self._step = step
        self.hint = hint
        self.moves = 0  # how often it was asked for an item

    def __next__(self) -> Any:
        self.moves += 1
        return self._step()


def by_index(s: Session, obj: Any) -> Lazy:
    """`iter(obj)` of an instance that has items and no `__iter__`."""
    counted = index = cast("Iterator[int]", itertools.count())

    def step() -> Any:
        nonlocal index
        for i in index:
            with suppress(IndexError, StopIteration):
                return s.getitem(obj, i)
            break
        index = iter(())
        raise StopIteration

    def hint() -> None:
        if s.special(obj, "__len__") is not None and index is counted:
            s.length(obj)

    return Lazy(_BY_INDEX, step, hint)


def backwards(s: Session, obj: Any) -> Lazy:
    """`reversed(obj)` of an instance that has items and a length."""
    index = s.length(obj) - 1

    def step() -> Any:
        nonlocal index
        if index >= 0:
            index -= 1
            with suppress(IndexError, StopIteration):
                return s.getitem(obj, index + 1)
        index = -1
        raise StopIteration

    return Lazy(reversed, step, lambda: index >= 0 and s.length(obj))


class _Items:
    def __getitem__(self, index: int) -> None: ...


_BY_INDEX: Final = type(iter(_Items()))


@of(Lazy)
class LazyKind(NativeKind):
    """An iterator whose items the session makes."""

    def type_of(self, value: Lazy) -> type:
        return value.cls

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        if name in ("__iter__", "__next__"):
            return getattr(obj, name)
        if not hasattr(self.type_of(obj), name):
            kind = self.type_of(obj).__name__
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")
        return self.refuse(obj, f".{name}")


def asked_for_length(iterable: Any) -> Any:
    """The iterable that `list()` runs through, which is asked how many items are left if it is an
    iterator over places; an iterator of the program as such, to be asked like any object."""
    if type(iterable) is Lazy and iterable.hint is not None:
        iterable.hint()
    return iterable.iterator if type(iterable) is InterpretedIterator else iterable


def driven(s: Session, iterator: Any) -> Any:
    """An iterator, for native code to drive."""
    if kind_of(iterator).python:
        return InterpretedIterator(s, iterator)
    return iterator
