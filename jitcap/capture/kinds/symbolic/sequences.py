"""Capture: ranges and lists of which only symbols know how long they are.

A loop over such a range, or over the rows of a tensor, is recorded once (`control.roll`),
and a list that it appends to is kept as the tensor of all its steps. Whatever else the program does
with a range needs its numbers, which fixes the sizes that it is made of; a list has no elements
then, and the function is captured again with that loop as it stands.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

import eager
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor
from eager.core.traced import Traced
from eager.ops.move import cat, flip
from eager.ops.part_views import unbind
from eager.ops.view import movedim, norm_dim
from eager.sizes.aval import same
from eager.sizes.symint import SymInt, hint, known_eq, known_lt, of_data
from jitcap.base.breaks import Again
from jitcap.base.terms import Term, method
from jitcap.capture.epilogue_writes import Emitter
from jitcap.capture.kinds.base import (
    HANDLERS,
    KINDS,
    Kind,
    Session,
    handles,
    handles_each,
    kind_of,
    of,
)
from jitcap.capture.kinds.constants import NativeKind
from jitcap.capture.kinds.poison import Poison
from jitcap.capture.sizes import out

# ---- ranges


def range_of(s: Session, args: tuple[Any, ...]) -> Any:
    """`range(*args)` as one of symbols; None where none of them is one."""
    if not 1 <= len(args) <= 3 or not any(type(x) is SymNumber for x in args):
        return None
    sizes = [s.sizes.of_number(x) if type(x) is SymNumber else x for x in args]
    if not all(type(x) in (int, SymInt) for x in sizes) or all(type(x) is int for x in sizes):
        return None
    if any(type(x) is int and abs(x) >= 1 << 62 for x in sizes):  # `len` of it may be no size
        return None
    first, stop, step = (0, *sizes, 1) if len(sizes) == 1 else (*sizes, 1)[:3]
    if type(step) is not int or not step:
        return None
    distance = stop - first if step > 0 else first - stop
    length = (distance + (abs(step) - 1)) // abs(step)
    return None if type(length) is int else SymRange(s, args, first, step, length)


def _of_real(fn: Callable[..., Any]) -> Any:
    """A method of a range that asks the real one."""
    return lambda numbers, *args: fn(numbers.real(), *args)


class SymRange:
    """A range: its first number, and how many there are if any. Native code finds a real one, of
    the numbers at hand."""

    __slots__ = ("args", "first", "length", "session", "step")

    def __init__(
        self, s: Session, args: tuple[Any, ...], first: Any, step: int, length: SymInt
    ) -> None:
        self.session, self.args = s, args
        self.first, self.step, self.length = first, step, length

    def real(self) -> range:
        return range(*map(self.session.known, self.args))

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return range

    def __bool__(self) -> bool:
        return bool(self.length > 0)  # type: ignore[operator]

    def __eq__(self, other: object) -> bool:
        return self.real() == (other.real() if type(other) is SymRange else other)

    __len__, __iter__, __reversed__ = _of_real(len), _of_real(iter), _of_real(reversed)
    __hash__ = _of_real(hash)
    __repr__ = _of_real(repr)
    __getitem__, __contains__ = _of_real(operator.getitem), _of_real(operator.contains)


class SizedIterator(Iterator[Any]):
    """Goes through a range, one way or the other, or through the rows of a tensor with these
    numbers. `fixed`: Python's, once it had to be."""

    def __init__(
        self, numbers: SymRange, *, backwards: bool = False, rows: Tensor | None = None
    ) -> None:
        self.numbers = numbers
        self.backwards = backwards
        self.rows = rows
        self.used = 0
        self.fixed: Iterator[int] | None = None

    @property
    def length(self) -> Any:
        """Number of steps that are left."""
        length: Any = self.numbers.length
        return length - self.used

    @property
    def step(self) -> int:
        return -self.numbers.step if self.backwards else self.numbers.step

    @property
    def first(self) -> Any:
        """The next number, if there is one."""
        length: Any = self.numbers.length
        at = length - 1 - self.used if self.backwards else self.used
        return self.numbers.first + at * self.numbers.step

    def fix(self) -> Iterator[int]:
        """Python's iterator over the steps that are left; the sizes are fixed."""
        if self.fixed is None and self.rows is not None:
            self.fixed = iter(self.rows.unbind(0)[self.used :])
        elif self.fixed is None:
            numbers = self.numbers.real()
            self.fixed = iter((numbers[::-1] if self.backwards else numbers)[self.used :])
        return self.fixed

    def end(self) -> None:
        """Marks it as used up."""
        self.fixed = iter(range(0))

    def copy(self) -> SizedIterator:
        made = copy.copy(self)
        made.fixed = copy.copy(self.fixed)
        return made

    def place(self) -> tuple[Any, ...]:
        """Equal for those that will give the same."""
        fixed = self.fixed
        rest = None if fixed is None else fixed.__reduce__()[1:]
        return id(self.numbers), self.backwards, self.used, rest

    def __length_hint__(self) -> int:
        if self.fixed is not None:
            return operator.length_hint(self.fixed)
        return max(hint(self.numbers.length) - self.used, 0)

    def __next__(self) -> Any:
        if self.fixed is not None or not known_lt(0, self.length):
            return next(self.fix())
        at = out(self.first)
        self.used += 1
        return at if self.rows is None else self.rows[self.used - 1]


def sized_iterator(s: Session, value: Any) -> SizedIterator | None:
    """Iterator over a range, a tensor, or what a loop appended, if its length is a symbol."""
    if type(value) is SizedIterator and value.fixed is None:
        return value
    if type(value) is SymRange:
        return SizedIterator(value)
    if type(value) is StackedList and value.is_piece:
        value = value.whole()
    if type(value) is LazyUnbind and value._real is None:
        value = value.whole
    if type(value) is not Tensor or not s.sizes.symbols or not value.ndim:
        return None
    length = value._array.shape[0]
    if type(length) is not SymInt or of_data(length):
        return None
    return SizedIterator(SymRange(s, (out(length),), 0, 1, length), rows=value)


def rows_of_data(s: Session, value: Tensor) -> SizedIterator | None:
    """Iterator over the rows of a tensor that a `for` begins here, if data decide their number and
    the loop was not left as it stands."""
    length: Any = value._array.shape[0] if type(value) is Tensor and value.ndim else None
    frame = s.vm.frames[-1]
    loops = frame.bytecode.instructions[frame.pc].op == "FOR_ITER"
    if not (loops and of_data(length)) or s.vm.step_over is not None:
        return None
    if (frame.code, "for", frame.pc) in s.outside.assumed.sites:
        return None
    return SizedIterator(SymRange(s, (out(length),), 0, 1, length), rows=value)


@handles(enumerate)
def _enumerate(s: Session, /, *args: Any, **kwargs: Any) -> Any:
    found = sized_iterator(s, args[0]) if 1 <= len(args) <= 2 and not kwargs else None
    if found is None or not all(type(start) is int for start in args[1:]):
        return kind_of(enumerate).call(s, enumerate, args, kwargs)
    return enumerate(found, *args[1:])


@handles(zip)
def _zip(s: Session, /, *args: Any, **kwargs: Any) -> Any:
    parts = [sized_iterator(s, x) for x in args]
    found = [p for p in parts if p is not None]
    alike = found and all(known_eq(p.length, found[0].length) for p in found)
    if not alike or len(found) < len(parts) or kwargs not in ({}, {"strict": False}):
        return kind_of(zip).call(s, zip, args, kwargs)
    return zip(*found, strict=False)


@of(SymRange)
class SizedRangeKind(NativeKind):
    """Nearly all that is done with a range needs its numbers."""

    constant = True

    def type_of(self, value: Any) -> type:
        return range

    def to_native(self, s: Session, value: Any) -> Any:
        return value.real()

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        return getattr(obj.real(), name)

    def length(self, s: Session, obj: Any) -> Any:
        return out(obj.length) if obj else 0

    def iter(self, s: Session, obj: Any) -> Any:
        return SizedIterator(obj)

    def rebuild(self, make: Emitter, value: Any) -> Term:
        """Range of the numbers of each call: data may decide them, which nobody knows here."""
        return make.call(range, *value.args)


@of(SizedIterator)
class SizedIteratorKind(NativeKind):
    """Native code is handed Python's."""

    def type_of(self, value: Any) -> type:
        return type(iter(range(0))) if value.rows is None else type(iter(()))

    def to_native(self, s: Session, value: Any) -> Any:
        return value.fix()

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        return getattr(obj if name in ("__iter__", "__next__") else obj.fix(), name)

    def rebuild(self, make: Emitter, value: Any) -> Term:
        rows = value.rows
        whole = value.numbers if rows is None else rows
        known = rows is not None and (not of_data(value.numbers.length) or rows.requires_grad)
        if value.fixed is None and not known:  # the history of rows is that of here
            name = make.call(reversed if value.backwards else iter, whole)
            if value.used:
                make.rows.append(("do", method(name, "__setstate__", value.used)))
            return name
        real = value.fix()
        return kind_of(real).rebuild(make, real)


class LazyUnbind:
    """`x.unbind()`: a tuple of rows, of which only a symbol knows how many. Native code finds a
    real one."""

    __slots__ = ("_real", "whole")

    def __init__(self, whole: Tensor) -> None:
        self.whole = whole
        self._real: tuple[Tensor, ...] | None = None

    def real(self) -> tuple[Tensor, ...]:
        """Fixes the size."""
        if self._real is None:
            self._real = unbind(self.whole, 0)
        return self._real

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return tuple

    __len__, __iter__, __getitem__ = _of_real(len), _of_real(iter), _of_real(operator.getitem)


_TENSOR: Final[Any] = Tensor


@handles_each(eager.unbind, unbind, _TENSOR.unbind)
def _unbind(s: Session, fn: Any, /, input: Any, dim: Any = 0) -> Any:
    if type(dim) is int and dim == 0 and sized_iterator(s, input) is not None:
        return LazyUnbind(input)
    return kind_of(unbind).call(s, unbind, (input, dim), {})


@of(LazyUnbind)
class UnboundKind(NativeKind):
    """Rows that are gone through; all else needs them one by one."""

    def type_of(self, value: Any) -> type:
        return tuple

    def to_native(self, s: Session, value: Any) -> Any:
        return value.real()

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        return getattr(obj.real(), name)

    def getitem(self, s: Session, obj: Any, key: Any) -> Any:
        return s.getitem(obj.real(), key)

    def length(self, s: Session, obj: Any) -> Any:
        return out(obj.whole._array.shape[0])

    def iter(self, s: Session, obj: Any) -> Any:
        return sized_iterator(s, obj) or iter(obj.real())

    def rebuild(self, make: Emitter, value: Any) -> Term:
        return KINDS[tuple].rebuild(make, value.real())


# ---- lists


class StackedChunk:
    """Tensors that a loop appended, one in each step: stacked along a first dimension, and the
    objects of the first and of the last step. It is valid as long as nobody writes to them."""

    def __init__(
        self, whole: Tensor, first: Callable[[], Tensor], last: Callable[[], Tensor]
    ) -> None:
        self.whole, self.first, self.last = whole, first, last
        arrays: list[Any] = [t._array for t in (whole, first(), last())]
        self.memory = [(a.storage, a.storage.generation) for a in arrays if type(a) is Traced]

    def is_written(self) -> bool:
        return any(memory.generation != before for memory, before in self.memory)

    def reversed(self) -> StackedChunk:
        return StackedChunk(flip(self.whole, 0), self.last, self.first)


class StackedList(Poison):
    """A list of tensors and `Piece`s. `site`: the loop that is to be left as it stands if somebody
    wants more than the whole."""

    def __init__(self, site: Any, parts: tuple[Any, ...]) -> None:
        self.site = site
        self.parts = parts

    def append(self, value: Any, /) -> None:
        if not isinstance(value, Tensor):
            raise Again(self.site)
        self.parts = (*self.parts, value)

    def reverse(self) -> None:
        self.parts = self.turned().parts

    def turned(self) -> StackedList:
        """Another list, the other way round."""
        self._look()
        turned = reversed(self.parts)
        parts = tuple(p.reversed() if type(p) is StackedChunk else p for p in turned)
        return StackedList(self.site, parts)

    def at(self, index: int) -> Tensor:
        """An element that can be told from the ends. (A loop has a step.)"""
        self._look()
        parts = self.parts if index >= 0 else self.parts[::-1]
        place = index if index >= 0 else -1 - index
        for i, part in enumerate(parts):
            if type(part) is StackedChunk and i == place:
                end = part.first if index >= 0 else part.last
                return end()
            if i == place:
                found: Tensor = part
                return found
            if type(part) is StackedChunk:
                break
        raise Again(self.site)

    def length(self) -> Any:
        return sum(p.whole.shape[0] if type(p) is StackedChunk else 1 for p in self.parts)

    def _look(self) -> None:
        """Somebody looks at elements, which may have been written to one by one."""
        if any(type(p) is StackedChunk and p.is_written() for p in self.parts):
            raise Again(self.site)

    @property
    def is_piece(self) -> bool:
        """True if the only part is a `Piece`."""
        return len(self.parts) == 1 and type(self.parts[0]) is StackedChunk

    def whole(self) -> Tensor:
        """The tensor that the pieces are of."""
        self._look()
        found: Tensor = self.parts[0].whole
        return found

    def stacked(self, dim: int) -> Tensor:
        self._look()
        shapes = [p.whole.shape[1:] if type(p) is StackedChunk else p.shape for p in self.parts]
        if not all(same(shape, shapes[0]) for shape in shapes):
            raise Again(self.site)
        wholes = [p.whole if type(p) is StackedChunk else p.unsqueeze(0) for p in self.parts]
        whole = wholes[0] if len(wholes) == 1 else cat(wholes)
        return movedim(whole, 0, norm_dim(dim, len(shapes[0]) + 1, "stack"))

    def joined(self, dim: int) -> Tensor:
        self._look()
        first = self.parts[0]
        rank = first.whole.ndim - 1 if type(first) is StackedChunk else first.ndim
        d = norm_dim(dim, rank, "cat") if rank else 0
        if not rank:
            raise Again(self.site)
        return cat(
            [_side_by_side(p.whole, d) if type(p) is StackedChunk else p for p in self.parts], d
        )

    def refusal(self) -> BaseException:
        return Again(self.site)


_TURNED: Final = slice(None, None, -1)


def _side_by_side(whole: Tensor, dim: int) -> Tensor:
    """The rows of the first dimension one after the other along `dim` of theirs."""
    moved = movedim(whole, 0, dim)
    shape = moved.shape
    size = shape[dim] * shape[dim + 1]
    return moved.reshape((*shape[:dim], size, *shape[dim + 2 :]))


@of(StackedList)
class RowsKind(Kind):
    """A list that can be added to, turned, and made a tensor."""

    def _again(self, *given: Any) -> Any:
        raise Again(next(rows.site for rows in given if type(rows) is StackedList))

    refuse = load = to_native = see = rebuild = _again  # type: ignore[assignment]

    def type_of(self, value: Any) -> type:
        return list

    def getattr(self, s: Session, obj: Any, name: str) -> Any:
        if name not in ("append", "reverse") or s.rolls:
            raise Again(obj.site)
        return getattr(obj, name)

    def getitem(self, s: Session, obj: Any, key: Any) -> Any:
        if type(key) is slice and key == _TURNED:
            return obj.turned()
        if type(key) is not int:
            self.refuse(obj, "an item")
        found = obj.at(key)
        s.inner[id(found)] = found, obj.site
        return found

    def length(self, s: Session, obj: Any) -> Any:
        return out(obj.length())

    def iter(self, s: Session, obj: Any) -> Any:
        """Through the rows of what was appended, where there is nothing else."""
        found = sized_iterator(s, obj)
        return self._again(obj) if found is None else found

    def truth(self, s: Session, obj: Any) -> bool:
        return True


for _method in (StackedList.append, StackedList.reverse):
    HANDLERS[_method] = lambda s, *args, _method=_method: _method(*args)
