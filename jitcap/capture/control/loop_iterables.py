"""Capture: what a `for` goes through. iterator -> how many steps, what each is given.

A range gives a number that grows; a list or a tuple of tensors (`for row in x`, `unbind`, `split`)
one of them; `enumerate` and `zip` give tuples of those. Iterators are looked at, and not moved.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from eager.base.dataclass import dataclass
from eager.core.sym import SymNumber
from eager.core.tensor import Tensor
from eager.ops.move import stack
from eager.sizes.aval import Aval, same, same_aval
from eager.sizes.symint import SymInt, of_data
from jitcap.capture.control.checkpoint import Checkpoint, inner_iterators
from jitcap.capture.control.loop_results import NotRolled
from jitcap.capture.control.may_alias import memory_of
from jitcap.capture.kinds.symbolic.sequences import SizedIterator
from jitcap.capture.kinds.tensors import TENSOR_FIELDS
from jitcap.capture.numbers import Outside
from jitcap.capture.sizes import out

RANGE: Final = type(iter(range(0)))
_LISTED: Final[tuple[type, ...]] = (type(iter([])), type(iter(())), reversed, type(reversed([])))

KINDS: Final = frozenset({RANGE, *_LISTED, enumerate, zip, SizedIterator})


class Steps:
    """Elements that the steps of a loop are given; `length`: how many there are."""

    __slots__ = ()
    length: Any

    def tensors(self) -> list[Tensor]:
        """The tensors that the loop goes through."""
        return []

    def go_back(self) -> bool:
        """True if all tensors are given in reverse."""
        return False

    def stacked(self) -> Steps:
        """These steps, with one stacked tensor in place of a list of rows."""
        return self

    def element(self, s: Any, at: Any) -> Any:
        """Element that a step is given; `at`: number of steps before it."""
        raise NotImplementedError

    def given_by(self, scan: Any) -> Any:
        """Stand-in for the element of any step: see `for_loops.Elements`."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class Counts(Steps):
    """Numbers: `first`, and `step` more each time; `length` is None where they never end."""

    first: Any  # an int, or a size
    step: int
    length: Any  # the same, or None

    def element(self, s: Any, at: Any) -> Any:
        return at * self.step + out(self.first)

    def given_by(self, scan: Any) -> Any:
        return scan.count(self)


@dataclass(frozen=True, slots=True, eq=False)
class Rows(Steps):
    """Tensors that look the same, in the order in which they come."""

    values: Sequence[Tensor]
    reverse: bool  # whether that is the other way round

    @property
    def length(self) -> int:
        return len(self.values)

    def tensors(self) -> list[Tensor]:
        return [*self.values]

    def go_back(self) -> bool:
        return self.reverse

    def stacked(self) -> Steps:
        return Slices(Counts(0, 1, self.length), stack(self.tensors()), self.values)

    def given_by(self, scan: Any) -> Any:
        return scan.row(self.values)


@dataclass(frozen=True, slots=True, eq=False)
class Slices(Steps):
    """The parts of a tensor along its first dimension, with these numbers. `rows`: what they are
    where the tensor was made of them."""

    counts: Counts
    of: Tensor
    rows: Sequence[Tensor] = ()

    @property
    def length(self) -> Any:
        return self.counts.length

    def tensors(self) -> list[Tensor]:
        return [self.of]

    def element(self, s: Any, at: Any) -> Any:
        found = s.getitem(self.of, self.counts.element(s, at))
        if self.rows and s.rolls:
            rows = [(x, memory_of(s, x)) for x in self.rows]
            s.ties.add(s.rolls[-1].site, found, rows, hidden=False)
        return found

    def given_by(self, scan: Any) -> Any:
        return scan.item(self.of, scan.count(self.counts))


@dataclass(frozen=True, slots=True, eq=False)
class Together(Steps):
    """Tuples of what several give."""

    parts: tuple[Any, ...]
    length: Any

    def tensors(self) -> list[Tensor]:
        return [x for part in self.parts for x in part.tensors()]

    def go_back(self) -> bool:
        rows = [part for part in self.parts if type(part) is not Counts]
        return bool(rows) and all(part.go_back() for part in rows)

    def stacked(self) -> Steps:
        return Together(tuple(part.stacked() for part in self.parts), self.length)

    def element(self, s: Any, at: Any) -> Any:
        return tuple(part.element(s, at) for part in self.parts)

    def given_by(self, scan: Any) -> Any:
        return tuple(part.given_by(scan) for part in self.parts)


def steps(iterator: Any, outside: Callable[[Any], Any]) -> Steps | None:
    """Steps that an iterator would give from now on; None where these have no such form.
    `outside(x)` is not None for what the program was given."""
    return _steps(iterator, outside, set())


def _steps(iterator: Any, outside: Callable[[Any], Any], seen: set[int]) -> Steps | None:
    if id(iterator) in seen:  # one iterator twice: it is moved twice in a step
        return None
    seen.add(id(iterator))
    kind = type(iterator)
    if kind is RANGE:
        return _counts(iterator)
    if kind is SizedIterator:
        if iterator.fixed is not None:
            return _steps(iterator.fixed, outside, seen)
        counts = Counts(iterator.first, iterator.step, iterator.length)
        return counts if iterator.rows is None else Slices(counts, iterator.rows)
    if kind in _LISTED:
        return _rows(iterator, outside)
    if kind is enumerate:
        _, (inner, start) = iterator.__reduce__()
        found = _steps(inner, outside, seen)
        if found is None or found.length is None or type(start) is not int:
            return None
        return Together((Counts(start, 1, None), found), found.length)
    if kind is zip:
        _, inner, *strict = iterator.__reduce__()
        parts = [_steps(x, outside, seen) for x in inner]
        lengths = [None if p is None else p.length for p in parts]
        if not parts or any(n is None for n in lengths) or (any(strict) and len({*lengths}) > 1):
            return None
        if any(type(n) is SymInt for n in lengths):  # `zip` of these alone has all of one length
            return Together(tuple(parts), lengths[0])
        return Together(tuple(parts), min(n for n in lengths if n is not None))
    return None


def sized_parts(iterator: Any) -> list[SizedIterator]:
    """The iterators in one whose lengths are symbols."""
    if type(iterator) is SizedIterator:
        return [] if iterator.fixed is not None else [iterator]
    if type(iterator) not in (enumerate, zip):
        return []
    return [x for part in inner_iterators(iterator) for x in sized_parts(part)]


def _counts(iterator: Any) -> Counts | None:
    length = operator.length_hint(iterator)
    if length < 2:
        return None
    ahead = copy.copy(iterator)
    first = next(ahead)
    return Counts(first, next(ahead) - first, length)


def _rows(iterator: Any, outside: Callable[[Any], Any]) -> Rows | None:
    _, (values,), *index = iterator.__reduce__()
    if type(values) not in (list, tuple) or not index:
        return None
    reverse = type(iterator) not in _LISTED[:2]
    rest = values[index[0] :: -1] if reverse else values[index[0] :]
    if not rest or not all(type(x) is Tensor and outside(x) is None for x in rest):
        return None
    return Rows(rest, reverse) if all(_is_like(x, rest[0]) for x in rest) else None


def _is_like(x: Tensor, first: Tensor) -> bool:
    """True if a step can tell no more than the elements of two tensors apart."""
    more = x._hooks or x._accumulate_hooks or x._retains or x._grad is not None
    leaf = x._requires_grad and x._node is None
    if more or leaf or x.__dict__.keys() - TENSOR_FIELDS:
        return False
    strides = x is first or same(strides_of(x), strides_of(first))
    return strides and same_aval(x.aval, first.aval) and x._requires_grad is first._requires_grad


def same_constant(a: Any, b: Any) -> bool:
    """True if two constants have one type and text: NaN equals NaN, and -0.0 is not 0.0."""
    alike = a == b if type(a) is int else repr(a) == repr(b)  # not text: an int may be too long
    return type(a) is type(b) and alike


def same_look(a: Aval, b: Aval) -> bool:
    """True if two avals are equal. Sizes that data decide are, where that is sure."""
    by_data = any(map(of_data, (*a.shape, *b.shape)))
    return same_aval(a, b) if by_data else a == b


def strides_of(x: Tensor) -> tuple[int, ...]:
    """Strides in elements."""
    array: Any = x._array
    unit = 1 if hasattr(array, "storage") else array.itemsize
    return tuple(n // unit for n in array.strides)


# ---- loops that data may end


class Going:
    """Stands on the stack for the iterator of such a loop, which goes `through` these steps. How
    many were taken is a local of the frame, `place`."""

    def __init__(self, through: Steps, place: str) -> None:
        self.through, self.place = through, place

    @staticmethod
    def of(s: Any, frame: Any, place: str) -> Going | None:
        """Steps of the iterator on the stack, if nothing else has it and they are known."""
        iterator = frame.stack[-1] if frame.stack else None
        if id(iterator) not in Checkpoint(s, frame).private_iterators():
            return None
        through = steps(iterator, s.outside.shadow)
        return None if through is None else Going(through.stacked(), place)

    def enter(self, frame: Any) -> None:
        """Take the place of the iterator."""
        frame.fast[self.place], frame.stack[-1] = 0, self

    def another(self, s: Any, frame: Any, end: int) -> Any:
        """Go on with the next step if there is one, and behind the loop at `end` if not."""

        def begin() -> tuple[Any, ...]:
            inside = any(e.frame is frame and e.going is self for e in s.ties.regions)
            return () if inside else self.step(s, frame)  # else the round ends here

        def leave() -> tuple[Any, ...]:
            frame.pop()
            return ()

        more = s.compare("<", frame.fast[self.place], out(self.through.length))
        return s.branch(frame, more, ((end, leave), (frame.pc, begin))) or True

    def step(self, s: Any, frame: Any) -> tuple[Any]:
        """Element that the next step is given."""
        taken = frame.fast[self.place]
        frame.fast[self.place] = taken + 1
        return (self.through.element(s, taken),)


# ---- numbers of the counter


class Numbers:
    """Sums and multiples of a counter, which goes from `first` by `step`."""

    def __init__(self, tracer: Any, counter: SymNumber, first: Any, step: int, length: Any) -> None:
        self.tracer, self.first, self.step, self.length = tracer, first, step, length
        self.affine = {id(counter): (counter, 1, 0)}

    def has(self, value: Any) -> bool:
        return type(value) is SymNumber and id(value) in self.affine

    def number(self, fn: Any, operands: tuple[Any, ...]) -> SymNumber | None:
        """A number of others; None where it is none of these."""
        if not any(map(self.has, operands)):
            return None
        known = [self.affine.get(id(x)) or (x, 0, self._size(x)) for x in operands]
        if not all(type(a) is int and type(b) in (int, SymInt) for _, a, b in known):
            return None
        forms = [(scale, offset) for _, scale, offset in known]
        if fn is operator.neg:
            ((a, b),) = forms
            found = -a, -b
        elif fn in (operator.add, operator.sub):
            (a, b), (c, d) = forms
            found = fn(a, c), fn(b, d)
        elif fn is operator.mul and 0 in (forms[0][0], forms[1][0]):
            (a, b), (c, d) = forms
            found = a * d + c * b, b * d
        else:
            return None
        made = SymNumber(self.tracer, int, fn=fn, args=operands)
        self.affine[id(made)] = made, *found
        return made

    def _size(self, x: Any) -> Any:
        """A number from outside that is a size, as that."""
        return self.tracer.session.sizes.of_number(x) if is_outside(x) else x

    def ends_of(self, x: SymNumber) -> tuple[Any, Any, int]:
        """A number in the first step, in the last one, and between two."""
        _, scale, offset = self.affine[id(x)]
        first, last = self.first, self.first + (self.length - 1) * self.step
        return scale * first + offset, scale * last + offset, scale * self.step

    def range_in(self, x: SymNumber, size: Any) -> tuple[Any, Any, int]:
        """The smallest and the largest place of a dimension that a number is, and how it goes on.
        Raises NotRolled where it leaves the dimension."""
        first, last, step = self.ends_of(x)
        low, high = (last, first) if step < 0 else (first, last)
        if high < 0:
            low, high = low + size, high + size
        if low < 0 or high >= size or not step:
            raise NotRolled
        return low, high, step


def dimension(keys: tuple[Any, ...], at: int, rank: int) -> int:
    """Dimension of the tensor that the index at position `at` of a key selects from."""
    if not all(k is None or k is Ellipsis or type(k) in (int, slice, SymNumber) for k in keys):
        raise NotRolled
    before = sum(k is not None for k in keys[:at])
    if Ellipsis in keys[:at]:
        return rank - sum(k is not None for k in keys[at:])
    return before


def is_outside(x: Any) -> bool:
    """True if `x` is a number that is read before the graph runs."""
    return type(x) is SymNumber and type(x.leaf) is Outside
