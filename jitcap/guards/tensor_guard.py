"""Beside the guards: what an entry assumes of a tensor from outside. tensor -> TensorLike, Memory.

A parameter or buffer usually has the very array that was checked at the last call; then only what
can change on the tensor itself is looked at (`Seen` remembers the arrays, per entry). Arguments
differ from call to call: they are checked in full and not remembered, so that no batch stays alive.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np

from eager.base.dataclass import dataclass
from eager.core.stand_in import Asked
from eager.core.storage import InferenceStorage, Storage
from eager.core.tensor import Tensor
from eager.device.array import DeviceArray
from eager.sizes.aval import contiguous_strides
from eager.sizes.symint import SymInt
from jitcap.base.origin import Attribute, DictOf, Fixed, ItemBy, Origin
from jitcap.guards.guard import Guard, Names


class Seen:
    """The arrays that an entry saw at its last full check, the layouts that it expects, and whether
    what it writes is known to lie in memory of its own: `written` names those pieces of memory,
    `memory` all of them."""

    def __init__(self) -> None:
        self.arrays: list[Any] = []
        self.layouts: list[tuple[Any, ...]] = []
        self.distinct = False
        self.different = False  # the tensors themselves, whatever memory they have
        self.writable = False  # what it writes
        self.ids: set[int] = set()
        self.memory: set[int] = set()
        self.written: set[int] = set()

    def slot(self, layout: tuple[Any, ...]) -> int:
        """A new place. `layout`: (shape, dtype, the array's strides, whether any contiguous does,
        whether an inference tensor does not).
        The dtype is NumPy's or, of an array on a device, eager's: so it tells the two apart."""
        self.arrays.append(None)
        self.layouts.append(layout)
        return len(self.arrays) - 1

    def check(self, index: int, tensor: Tensor) -> bool:
        """A full check of a tensor's array, remembered when it passes. (Of tensors that have one
        array all are inference tensors, or none.)"""
        array = tensor._array
        shape, dtype, strides, contiguous, normal = self.layouts[index]
        if (
            array.shape != shape
            or array.dtype != dtype
            or (normal and type(tensor._counts) is InferenceStorage)
            or (array.strides != strides and not (contiguous and is_contiguous(array)))
        ):
            return False
        self.arrays[index] = array
        self.distinct = self.different = self.writable = False
        return True

    def differ(self, tensors: tuple[Tensor, ...]) -> bool:
        """True if no two of `tensors` are one object, remembered until an array changes. (Two that
        have one array could become one unseen.)"""
        self.ids = set(map(id, tensors))
        apart = len(self.ids) == len(tensors)
        self.different = apart and len({id(t._array) for t in tensors}) == len(tensors)
        return apart

    def apart(self, written: tuple[Tensor, ...], read: tuple[Tensor, ...]) -> bool:
        """True if no `written` tensor shares memory with another, remembered until an array
        changes."""
        others = {memory_of(t) for t in read}
        self.written = {memory_of(t) for t in written}
        self.memory = self.written | others
        self.distinct = len(self.written) == len(written) and self.written.isdisjoint(others)
        return self.distinct

    def may_write(self, tensors: tuple[Tensor, ...]) -> bool:
        """True if the memory of all `tensors` may be written, remembered until an array changes."""
        self.writable = all(is_writable(t._array) for t in tensors)
        return self.writable


def memory_of(tensor: Tensor) -> int:
    """A number for the memory that a tensor lies in, unique while it lives: of the memory's owner.
    Not of its `_storage`, which counts writes: `.data` and `from_numpy` share memory without it."""
    owner: Any = tensor._array
    while type(owner) is np.ndarray and owner.base is not None:
        owner = owner.base
    return id(owner.buffer) if type(owner) is DeviceArray else id(owner)


def is_contiguous(array: Any) -> bool:
    """True if the elements lie in row-major order without gaps."""
    if type(array) is DeviceArray:
        return array.is_contiguous()
    return bool(array.flags.c_contiguous)


def is_writable(array: Any) -> bool:
    """True if the memory of an array may be written."""
    return type(array) is DeviceArray or bool(array.flags.writeable)


def seen_of(names: Names) -> tuple[Seen, str]:
    """The one `Seen` of an entry, and its name in generated code."""
    seen = names.seen = names.seen or Seen()
    return seen, names.bind(seen)


def spanned(array: Any) -> tuple[int, ...]:
    """For each dimension the one inside it that lies without gaps, if its stride says so, else -1:
    of a transposed matrix (-1, 0), of the first columns of one (-1, -1)."""
    order = sorted(range(array.ndim), key=lambda d: (array.strides[d], -d))
    found = [-1] * array.ndim
    for inner, d in itertools.pairwise(d for d in order if array.shape[d] > 1):
        if array.strides[d] == array.strides[inner] * array.shape[inner]:
            found[d] = inner
    return tuple(found)


def laid_out(
    shape: tuple[Any, ...], strides: tuple[int, ...], spans: tuple[int, ...]
) -> tuple[Any, ...]:
    """Strides for these sizes, where `spans` says which of them follow from which."""
    found: dict[int, Any] = {}
    left = [*range(len(shape))]
    while left:
        d = left.pop(0)
        if spans[d] < 0:
            found[d] = strides[d]
        elif spans[d] in found:
            found[d] = found[spans[d]] * shape[spans[d]]
        else:
            left.append(d)
    return tuple(found[d] for d in range(len(shape)))


def is_argument(origin: Origin) -> bool:
    """True if a tensor comes with the call, another one each time: not as part of an object."""
    place: Origin | None = origin
    while place is not None:
        if isinstance(place, _PARTS_OF_OBJECTS):
            return False
        above = place.parents()
        place = above[0] if above else None
    return True


_PARTS_OF_OBJECTS: Final = (Fixed, DictOf, Attribute, ItemBy)


@dataclass(frozen=True, slots=True, eq=False)
class TensorLike(Guard):
    """Class, shape, element type, strides (None: contiguous), requires_grad, leaf, and whether
    hooks were ever registered on it (those are guarded one by one). `dtype` and `strides` are as
    its array has them: NumPy's and bytes, or on a `device` eager's and elements."""

    cls: type
    shape: tuple[int | None, ...]  # None: a size that is a symbol, 2 or more
    dtype: Any
    strides: tuple[int | None, ...] | None  # None in it: a stride that is a symbol
    requires_grad: bool
    leaf: bool
    hooked: bool
    # For each dimension the one that its strides span, so that they follow from that one's size
    # where it is a symbol; -1 where they are what they are.
    spans: tuple[int, ...] = ()
    device: str = "cpu"
    layout: tuple[Any, ...] | None = None  # strides in elements, with symbols; None: contiguous
    kind: Asked | None = None  # whether it is an inference tensor, and that matters

    @staticmethod
    def of(
        tensor: Tensor,
        origin: Origin,
        where: str,
        shape: tuple[int, ...] | None = None,
        layout: tuple[Any, ...] | None = None,
        kind: Asked | None = None,
    ) -> TensorLike:
        """`shape`, `layout` (strides in elements): with symbols for those that may differ."""
        array = tensor._array
        sizes = tuple(None if isinstance(n, SymInt) else n for n in shape or array.shape)
        layout = None if is_contiguous(array) else layout or tensor._layout
        spans = () if layout is None else spanned(array)
        strides = layout and tuple(
            None if isinstance(n, SymInt) and spans[d] < 0 else array.strides[d]
            for d, n in enumerate(layout)
        )
        return TensorLike(
            origin, where, type(tensor), sizes, array.dtype, strides,
            tensor.requires_grad, tensor._node is None, tensor._hooks is not None, spans,
            array.aval.device if type(array) is DeviceArray else "cpu", layout,
            kind,
        )  # fmt: skip

    def test(self, names: Names) -> str:
        v = names.var(self.origin)
        own = _own_test(v, names.bind(self.cls), self.requires_grad, self.leaf, self.hooked)
        if self.has_symbols:
            own = f"{own}{self._kind_test(names, v)}"
            own = f"{own} and {v}._array.dtype is {names.bind(self.dtype)}"
            return own if names.block is not None else f"{own} and {self._sizes_test(names)}"
        if not self.in_rows:
            return f"{own}{self._kind_test(names, v)} and {self._array_test(names, v)}"
        return f"{own} and {_seen_test(names, v, str(self._slot(names)))}"

    @property
    def has_symbols(self) -> bool:
        """True if one of its sizes or strides is a symbol."""
        return None in self.shape or None in (self.strides or ())

    @property
    def size_test(self) -> Callable[[Names], str] | None:
        return self._sizes_test if self.has_symbols else None

    @property
    def in_rows(self) -> bool:
        at_home = not self.has_symbols and not is_argument(self.origin)
        return at_home and not (self._asks and self.kind and self.kind.inference)

    def row(self, names: Names) -> tuple[str, tuple[str, Any]] | None:
        if not self.in_rows:
            return None
        own = _own_test("v", names.bind(self.cls), self.requires_grad, self.leaf, self.hooked)
        test = f"{own} and {_seen_test(names, 'v', 'i')}"
        return test, (names.var(self.origin), self._slot(names))

    @property
    def _asks(self) -> bool:
        """True if the program depends on whether this is an inference tensor."""
        return self.kind is not None and self.kind.asked

    def _kind_test(self, names: Names, v: str) -> str:
        if self.kind is None or not self.kind.asked:
            return ""
        counts = names.bind(InferenceStorage)
        if not self.kind.inference:
            return f" and type({v}._counts) is not {counts}"
        return f" and type({v}._counts) is {counts} and {v}._counts.sealed is {self.kind.sealed}"

    @property
    def unit(self) -> int:
        """Unit of strides, in bytes."""
        return 1 if self.device == "cpu" else int(self.dtype.itemsize)

    def _own_strides(self) -> tuple[Any, ...]:
        assert not self.has_symbols
        if self.strides is not None:
            return self.strides
        return tuple(s * self.dtype.itemsize // self.unit for s in contiguous_strides(self.shape))

    def _array_test(self, names: Names, v: str) -> str:
        exact = f"{v}._array.strides == {names.bind(self._own_strides())}"
        if self.strides is None:
            exact = f"({exact} or {self._contiguous(v)})"
        if self.device != "cpu":
            exact = f"{exact} and {v}._array.aval.device == {self.device!r}"
        shape, dtype = names.bind(self.shape), names.bind(self.dtype)
        return f"{v}._array.shape == {shape} and {v}._array.dtype is {dtype} and {exact}"

    def _sizes_test(self, names: Names) -> str:
        v = names.var(self.origin)
        tests = [f"len({v}._array.shape) == {len(self.shape)}"]
        for d, n in enumerate(self.shape):
            tests.append(f"{v}._array.shape[{d}] {'>= 2' if n is None else f'== {n}'}")
        if self.strides is None:
            tests.append(self._contiguous(v))
        for d, text in enumerate(self._steps(f"{v}._array.")):
            if text is None:
                item = self.dtype.itemsize // self.unit
                tests += [f"{v}._array.strides[{d}] >= {2 * item}"]
                tests += [f"{v}._array.strides[{d}] % {item} == 0"] if item > 1 else []
            elif self.shape[d] != 1:
                tests.append(f"{v}._array.strides[{d}] == {text}")
        return " and ".join(tests)

    def _contiguous(self, v: str) -> str:
        on_host = self.device == "cpu"
        return f"{v}._array.flags.c_contiguous" if on_host else f"{v}._array.contiguous"

    def _steps(self, of: str) -> list[str | None]:
        """The strides as text, where some follow from sizes; None: a symbol."""
        return [
            (None if own is None else str(own))
            if inner < 0
            else f"{of}strides[{inner}] * {of}shape[{inner}]"
            for own, inner in zip(self.strides or (), self.spans, strict=False)
        ]

    def _slot(self, names: Names) -> int:
        seen, _ = seen_of(names)
        strides = self._own_strides()
        return seen.slot((self.shape, self.dtype, strides, self.strides is None, self._asks))

    def expected(self) -> str:
        steps = (text or "any" for text in self._steps(""))
        strides = f"({', '.join(steps)})" if self.spans and self.has_symbols else self.strides
        text = _describe(self.cls, self.shape, self.dtype, strides, self.requires_grad, self.device)
        return f"{text} ({_shown(self.kind)})" if self.kind and self._asks else text

    def got(self, value: Any) -> str:
        if not isinstance(value, Tensor):
            return f"a {type(value).__qualname__}"
        array = value._array
        strides = None if is_contiguous(array) else array.strides
        given = type(value), array.shape, array.dtype, strides, value.requires_grad
        text = _describe(*given, str(value.device))
        text += f" ({_shown(value._storage)})" if self._asks else ""
        return f"{text}{'' if value._hooks is None else ' (hooks)'}"


def _shown(kind: Asked | Storage) -> str:
    if not kind.inference:
        return "normal"
    return "inference" if kind.sealed else "inference, detached"


@functools.lru_cache(maxsize=256)  # a model has few kinds of tensors
def _own_test(v: str, cls: str, requires_grad: bool, leaf: bool, hooked: bool) -> str:
    own = [f"type({v}) is {cls}"]
    if not requires_grad:  # a view may get it by a write into its base, and looks then
        own.append(f"not ({v}._requires_grad or {v}._view is not None and {v}.requires_grad)")
    else:
        own.append(f"{v}._requires_grad")
        own.append(f"{v}._node is{'' if leaf else ' not'} None")
        if not hooked:
            own.append(f"{v}._hooks is None")
    return " and ".join(own)


def _seen_test(names: Names, v: str, index: str) -> str:
    seen, name = seen_of(names)
    arrays = names.bind(seen.arrays)
    return f"({v}._array is {arrays}[{index}] or {name}.check({index}, {v}))"


@dataclass(frozen=True, slots=True, eq=False)
class ViewOfBase(Guard):
    """A view that is made from its base by these steps, and needs no gradient."""

    cls: type
    chain: tuple[Any, ...]

    def test(self, names: Names) -> str:
        v = names.var(self.origin)
        steps = f"{v}._view is not None and {v}._view.chain == {names.bind(self.chain)}"
        steps = f"{steps} and {v}._view.holds({v})"
        return f"type({v}) is {names.bind(self.cls)} and {steps} and not {v}.requires_grad"

    def expected(self) -> str:
        return f"a view by {[op.name for op, _ in self.chain]}"


@dataclass(frozen=True, slots=True, eq=False)
class Different(Guard):
    """The tensors at `origin` and `others` are different objects: each has a gradient of its own,
    where one that stands at two places would have the sum."""

    others: tuple[Origin, ...]
    after_rows: ClassVar[bool] = True  # an array that changed makes `Seen` look again

    def test(self, names: Names) -> str:
        origins = (self.origin, *self.others)
        objects = [names.var(o) for o in origins if not is_argument(o)]
        args = [f"id({names.var(o)})" for o in origins if is_argument(o)]
        _, name = seen_of(names)
        tests = [f"({name}.different or {name}.differ(({', '.join(objects)},)))"] if objects else []
        if objects and args:
            tests.append(f"{name}.ids.isdisjoint(({', '.join(args)},))")
        if len(args) > 1:
            tests.append(f"len({{{', '.join(args)}}}) == {len(args)}")
        return " and ".join(tests)

    def expected(self) -> str:
        origins = (self.origin, *self.others)
        shown = ", ".join(o.show() for o in origins[:6])
        return f"different tensors at {shown}{' ...' if len(origins) > 6 else ''}"

    def got(self, value: Any) -> str:
        return "one tensor at two of them"


@dataclass(frozen=True, slots=True, eq=False)
class Memory(Guard):
    """The tensors written, at `origin` and `written`, share no memory with each other, nor with
    those only `read` (which may share theirs: two slices of one batch)."""

    written: tuple[Origin, ...] = ()
    read: tuple[Origin, ...] = ()
    after_rows: ClassVar[bool] = True  # an array that changed makes `Seen` look at memory again

    def test(self, names: Names) -> str:
        fixed: list[str] = []
        given: list[list[str]] = []
        for origins in ((self.origin, *self.written), self.read):
            objects = [names.var(o) for o in origins if not is_argument(o)]
            fixed.append(f"({', '.join(objects)}{',' if objects else ''})")
            args = [names.var(o) for o in origins if is_argument(o)]
            given.append([f"{names.bind(memory_of)}({v})" for v in args])
        _, name = seen_of(names)
        writes, reads = given
        tests: list[str] = []
        if fixed != ["()", "()"]:
            tests.append(f"({name}.distinct or {name}.apart({fixed[0]}, {fixed[1]}))")
            tests += [f"{g} not in {name}.memory" for g in writes]
            tests += [f"{g} not in {name}.written" for g in reads]
        if len(writes) > 1:
            tests.append(f"len({{{', '.join(writes)}}}) == {len(writes)}")
        if writes and reads:
            tests.append(f"{{{', '.join(writes)}}}.isdisjoint(({', '.join(reads)},))")
        return " and ".join(tests) or "True"

    def expected(self) -> str:
        written = (self.origin, *self.written)
        first = ", ".join(o.show() for o in written[:5]) + (" ..." if len(written) > 5 else "")
        others = ", ".join(o.show() for o in self.read[:5]) + (" ..." if len(self.read) > 5 else "")
        return f"no shared memory of {first} (written) with each other{others and f' or {others}'}"

    def got(self, value: Any) -> str:
        return "two tensors in one piece of memory"


@dataclass(frozen=True, slots=True, eq=False)
class Writable(Guard):
    """The memory of the tensors at `origin` and `others`, on the host, can be written."""

    others: tuple[Origin, ...] = ()
    after_rows: ClassVar[bool] = True  # as above

    def test(self, names: Names) -> str:
        origins = (self.origin, *self.others)
        fixed = "".join(f"{names.var(o)}, " for o in origins if not is_argument(o))
        _, name = seen_of(names)
        tests = [f"({name}.writable or {name}.may_write(({fixed})))"] if fixed else []
        tests += [f"{names.var(o)}._array.flags.writeable" for o in origins if is_argument(o)]
        return " and ".join(tests)

    def expected(self) -> str:
        origins = (self.origin, *self.others)
        shown = ", ".join(o.show() for o in origins[:6])
        return f"memory that can be written of {shown}{' ...' if len(origins) > 6 else ''}"

    def got(self, value: Any) -> str:
        return "memory that is read-only"


@dataclass(frozen=True, slots=True, eq=False)
class ReadOnly(Guard):
    """The memory of a tensor, which the program tried to write, is still read-only."""

    def test(self, names: Names) -> str:
        return f"not {names.var(self.origin)}._array.flags.writeable"

    def expected(self) -> str:
        return "memory that is read-only"

    def got(self, value: Any) -> str:
        return "memory that can be written"


def _describe(
    cls: type,
    shape: tuple[int | None, ...],
    dtype: Any,
    strides: object,
    grad: bool,
    device: str,
) -> str:
    unit = " bytes" if device == "cpu" else ""
    layout = "" if strides is None else f", strides {strides}{unit}"
    there = "" if device == "cpu" else f" on {device}"
    sizes = ", ".join("2 or more" if n is None else str(n) for n in shape)
    return f"{cls.__name__} {dtype}[{sizes}]{there}{layout}{', requires_grad' if grad else ''}"
