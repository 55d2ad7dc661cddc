"""Beside the guards: what an entry assumes of a tensor from outside. tensor -> TensorLike, Memory.

A parameter or buffer usually has the very array that was checked at the last call; then only what
can change on the tensor itself is looked at (`Seen` remembers the arrays, per entry). Arguments
differ from call to call: they are checked in full and not remembered, so that no batch stays alive.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from eager.base.dataclass import dataclass
from eager.core.stand_in import Asked
from eager.core.storage import InferenceStorage, Storage
from eager.core.tensor import Tensor
from eager.device.array import DeviceArray
from eager.sizes.aval import Aval, array_aval, contiguous_strides
from eager.sizes.symint import SymInt
from jitcap.base.origin import Origin
from jitcap.base.terms import Term, attribute, every, method, python, text
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


class Layout(NamedTuple):
    """Place of the elements: aval; strides in elements; for each dimension the one inside that lies
    without gaps, if its stride says so, else -1: of a transposed matrix (-1, 0), of the
    first columns of one (-1, -1). Of a contiguous array `spans` and `steps` are None."""

    aval: Aval
    strides: tuple[Any, ...]
    spans: tuple[int, ...] | None
    sizes: tuple[int | None, ...]  # None: a symbol, as in `steps`
    steps: tuple[int | None, ...] | None  # strides as the array has them: NumPy's in bytes

    def varying(self, shape: tuple[Any, ...], strides: tuple[Any, ...]) -> Layout:
        """The layout with symbols for what may differ."""
        sizes = _one(tuple([None if isinstance(n, SymInt) else n for n in shape]))
        steps = self.steps
        if self.spans is not None and steps is not None:
            rows = zip(strides, self.spans, steps, strict=True)
            steps = tuple(None if isinstance(n, SymInt) and d < 0 else step for n, d, step in rows)
        return Layout(replace(self.aval, shape=shape), strides, self.spans, sizes, steps)


def layout_of(array: Any) -> Layout:
    """Layout of the array of a tensor from outside."""
    if type(array) is DeviceArray:
        return _laid(array.aval, array.strides, array.strides, 1)
    return _layout_of(array.shape, array.strides, array.dtype)


@functools.lru_cache(maxsize=4096)  # few differ in a program
def _layout_of(shape: tuple[int, ...], steps: tuple[int, ...], dtype: np.dtype) -> Layout:
    strides = tuple([step // dtype.itemsize for step in steps])
    return _laid(array_aval(shape, dtype), strides, steps, dtype.itemsize)


def _laid(aval: Aval, strides: tuple[int, ...], steps: tuple[int, ...], unit: int) -> Layout:
    spans = _spans_of(aval.shape, steps, unit)
    return Layout(aval, strides, spans, _one(aval.shape), None if spans is None else steps)


def _spans_of(shape: tuple[int, ...], steps: tuple[int, ...], unit: int) -> tuple[int, ...] | None:
    rows = zip(shape, steps, contiguous_strides(shape), strict=True)
    if 0 in shape or all(n == 1 or step == unit * stride for n, step, stride in rows):
        return None
    found = [-1] * len(shape)
    order = sorted((steps[d], -d) for d, n in enumerate(shape) if n > 1)
    for (step, inner), (wider, d) in itertools.pairwise(order):
        if wider == step * shape[-inner]:
            found[-d] = -inner
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
    place = origin
    while not place.of_object:
        above = place.parents()
        if not above:
            return True
        place = above[0]
    return False


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
        layout: Layout | None = None,
        kind: Asked | None = None,
    ) -> TensorLike:
        """`layout`: with symbols for what may differ."""
        aval, strides, spans, sizes, steps = layout or layout_of(tensor._array)
        return TensorLike(
            origin, where, type(tensor), sizes, tensor._array.dtype, steps,
            tensor.requires_grad, tensor._node is None, tensor._hooks is not None, spans or (),
            aval.device, None if spans is None else strides, kind,
        )  # fmt: skip

    def key(self) -> tuple[Any, ...]:
        if self.layout is not None:
            return Guard.key(self)
        own = self.shape, self.strides, self.requires_grad, self.leaf, self.hooked, self.spans
        told_apart = id(self.cls), id(self.dtype), id(self.kind)
        return TensorLike, id(self.origin), *told_apart, self.device, *own

    def test(self, names: Names) -> Term:
        v = names.var(self.origin)
        own = _own_test(v, names.bind(self.cls), self.requires_grad, self.leaf, self.hooked)
        if self.has_symbols:
            same = ("is", attribute(v, "_array", "dtype"), names.bind(self.dtype))
            own = every(*own, *self._kind_tests(names, v), same)
            return own if names.block is not None else every(own, self._sizes_test(names))
        if not self.in_rows:
            return every(*own, *self._kind_tests(names, v), *self._array_tests(names, v))
        return every(*own, _seen_test(names, v, self._slot(names)))

    @property
    def has_symbols(self) -> bool:
        """True if one of its sizes or strides is a symbol."""
        return None in self.shape or None in (self.strides or ())

    @property
    def size_test(self) -> Callable[[Names], Term] | None:
        return self._sizes_test if self.has_symbols else None

    @property
    def in_rows(self) -> bool:
        at_home = not self.has_symbols and not is_argument(self.origin)
        return at_home and not (self._asks and self.kind and self.kind.inference)

    def row(self, names: Names) -> tuple[Term, tuple[str, Any]] | None:
        if not self.in_rows:
            return None
        asked = self.requires_grad, self.leaf, self.hooked
        test = names.alike.get((id(self.cls), *asked))
        if test is None:
            own = _own_test("v", names.bind(self.cls), *asked)
            test = every(*own, _seen_test(names, "v", "i"))
            names.alike[id(self.cls), *asked] = test
        return test, (names.var(self.origin), self._slot(names))

    @property
    def _asks(self) -> bool:
        """True if the program depends on whether this is an inference tensor."""
        return self.kind is not None and self.kind.asked

    def _kind_tests(self, names: Names, v: str) -> list[Term]:
        if self.kind is None or not self.kind.asked:
            return []
        kind, counts = ("type", attribute(v, "_counts")), names.bind(InferenceStorage)
        if not self.kind.inference:
            return [("is not", kind, counts)]
        sealed = ("is", attribute(v, "_counts", "sealed"), repr(self.kind.sealed))
        return [("is", kind, counts), sealed]

    @property
    def unit(self) -> int:
        """Unit of strides, in bytes."""
        return 1 if self.device == "cpu" else int(self.dtype.itemsize)

    def _own_strides(self) -> tuple[Any, ...]:
        assert not self.has_symbols
        if self.strides is not None:
            return self.strides
        return _row_major(self.shape, self.dtype.itemsize // self.unit)

    def _array_tests(self, names: Names, v: str) -> list[Term]:
        array = attribute(v, "_array")
        exact: Term = ("==", attribute(array, "strides"), names.bind(self._own_strides()))
        if self.strides is None:
            exact = ("or", exact, self._contiguous(v))
        tests: list[Term] = [
            ("==", attribute(array, "shape"), names.bind(self.shape)),
            ("is", attribute(array, "dtype"), names.bind(self.dtype)),
            exact,
        ]
        if self.device != "cpu":
            tests.append(("==", attribute(array, "aval", "device"), text(self.device)))
        return tests

    def _sizes_test(self, names: Names) -> Term:
        v = names.var(self.origin)
        shape, strides = (attribute(v, "_array", name) for name in ("shape", "strides"))
        tests: list[Term] = [("==", ("len", shape), len(self.shape))]
        for d, n in enumerate(self.shape):
            tests.append((">=" if n is None else "==", ("item", shape, d), 2 if n is None else n))
        if self.strides is None:
            tests.append(self._contiguous(v))
        for d, step in enumerate(self._steps(strides, shape)):
            if step is None:
                item = self.dtype.itemsize // self.unit
                tests.append((">=", ("item", strides, d), 2 * item))
                if item > 1:
                    tests.append(("==", ("%", ("item", strides, d), item), 0))
            elif self.shape[d] != 1:
                tests.append(("==", ("item", strides, d), step))
        return every(*tests)

    def _contiguous(self, v: str) -> Term:
        on_host = self.device == "cpu"
        return attribute(v, "_array", *(("flags", "c_contiguous") if on_host else ("contiguous",)))

    def _steps(self, strides: Term, shape: Term) -> list[Term | None]:
        """The strides, where some follow from sizes; None: a symbol."""
        return [
            own if inner < 0 else ("*", ("item", strides, inner), ("item", shape, inner))
            for own, inner in zip(self.strides or (), self.spans, strict=False)
        ]

    def _slot(self, names: Names) -> int:
        seen: Seen = names.seen or seen_of(names)[0]
        strides = self._own_strides()
        return seen.slot((self.shape, self.dtype, strides, self.strides is None, self._asks))

    def expected(self) -> str:
        steps = ("any" if s is None else python(s) for s in self._steps("strides", "shape"))
        strides = f"({', '.join(steps)})" if self.spans and self.has_symbols else self.strides
        told = _describe(self.cls, self.shape, self.dtype, strides, self.requires_grad, self.device)
        return f"{told}{_shown(self.kind)}" if self.kind and self._asks else told

    def got(self, value: Any) -> str:
        if not isinstance(value, Tensor):
            return f"a {type(value).__qualname__}"
        array = value._array
        strides = None if is_contiguous(array) else array.strides
        given = type(value), array.shape, array.dtype, strides, value.requires_grad
        told = _describe(*given, str(value.device))
        told += _shown(value._storage) if self._asks else ""
        return f"{told}{'' if value._hooks is None else ' (hooks)'}"


@functools.lru_cache(maxsize=256)  # a model has few shapes
def _one(shape: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """One object for all equal shapes, which is kept once."""
    return shape


@functools.lru_cache(maxsize=256)
def _row_major(shape: tuple[Any, ...], unit: int) -> tuple[int, ...]:
    """Strides of what is contiguous."""
    return tuple([stride * unit for stride in contiguous_strides(shape)])


def _shown(kind: Asked | Storage) -> str:
    if not kind.inference:
        return ""
    return " (inference)" if kind.sealed else " (inference, detached)"


@functools.lru_cache(maxsize=256)  # a model has few kinds of tensors
def _own_test(v: str, cls: str, requires_grad: bool, leaf: bool, hooked: bool) -> list[Term]:
    needs, node = attribute(v, "_requires_grad"), attribute(v, "_node")
    own: list[Term] = [("is", ("type", v), cls)]
    if not requires_grad:  # a view may get it by a write into its base, and looks then
        is_view = ("is not", attribute(v, "_view"), "None")
        own.append(("not", ("or", needs, ("and", is_view, attribute(v, "requires_grad")))))
    else:
        own += [needs, ("is" if leaf else "is not", node, "None")]
        if not hooked:
            own.append(("is", attribute(v, "_hooks"), "None"))
    return own


def _seen_test(names: Names, v: str, index: Term) -> Term:
    seen, name = seen_of(names)
    same = ("is", attribute(v, "_array"), ("item", names.bind(seen.arrays), index))
    return ("or", same, ("check", name, index, v))


@dataclass(frozen=True, slots=True, eq=False)
class ViewOfBase(Guard):
    """A view that is made from its base by these steps, and needs no gradient."""

    cls: type
    chain: tuple[Any, ...]

    def test(self, names: Names) -> Term:
        v = names.var(self.origin)
        view = attribute(v, "_view")
        return every(
            ("is", ("type", v), names.bind(self.cls)),
            ("is not", view, "None"),
            ("==", attribute(view, "chain"), names.bind(self.chain)),
            method(view, "holds", v),
            ("not", attribute(v, "requires_grad")),
        )

    def expected(self) -> str:
        return f"a view by {[op.name for op, _ in self.chain]}"


@dataclass(frozen=True, slots=True, eq=False)
class Different(Guard):
    """The tensors at `origin` and `others` are different objects: each has a gradient of its own,
    where one that stands at two places would have the sum."""

    others: tuple[Origin, ...]
    after_rows: ClassVar[bool] = True  # an array that changed makes `Seen` look again

    def test(self, names: Names) -> Term:
        origins = (self.origin, *self.others)
        objects = [names.var(o) for o in origins if not is_argument(o)]
        args = [("id", names.var(o)) for o in origins if is_argument(o)]
        _, name = seen_of(names)
        tests: list[Term] = []
        if objects:
            look = ("differ", name, ("tuple", *objects))
            tests.append(("or", attribute(name, "different"), look))
        if objects and args:
            tests.append(("isdisjoint", attribute(name, "ids"), ("tuple", *args)))
        if len(args) > 1:
            tests.append(_all_differ(args))
        return every(*tests)

    def expected(self) -> str:
        return f"different tensors at {_first_of((self.origin, *self.others))}"

    def got(self, value: Any) -> str:
        return "one tensor at two of them"


def _first_of(origins: Sequence[Origin]) -> str:
    """The first few."""
    return ", ".join(o.show() for o in origins[:5]) + (" ..." if len(origins) > 5 else "")


@dataclass(frozen=True, slots=True, eq=False)
class Memory(Guard):
    """The tensors written, at `origin` and `written`, share no memory with each other, nor with
    those only `read` (which may share theirs: two slices of one batch)."""

    written: tuple[Origin, ...] = ()
    read: tuple[Origin, ...] = ()
    after_rows: ClassVar[bool] = True  # an array that changed makes `Seen` look at memory again

    def test(self, names: Names) -> Term:
        fixed: list[Term] = []
        given: list[list[Term]] = []
        for origins in ((self.origin, *self.written), self.read):
            fixed.append(("tuple", *(names.var(o) for o in origins if not is_argument(o))))
            args = [names.var(o) for o in origins if is_argument(o)]
            given.append([("call", names.bind(memory_of), v) for v in args])
        _, name = seen_of(names)
        writes, reads = given
        tests: list[Term] = []
        if fixed != [("tuple",), ("tuple",)]:
            tests.append(("or", attribute(name, "distinct"), ("apart", name, *fixed)))
            tests += [("not in", g, attribute(name, "memory")) for g in writes]
            tests += [("not in", g, attribute(name, "written")) for g in reads]
        if len(writes) > 1:
            tests.append(_all_differ(writes))
        if writes and reads:
            tests.append(("isdisjoint", ("set", *writes), ("tuple", *reads)))
        return every(*tests) if tests else "True"

    def expected(self) -> str:
        first, others = _first_of((self.origin, *self.written)), _first_of(self.read)
        return f"no shared memory of {first} (written) with each other{others and f' or {others}'}"

    def got(self, value: Any) -> str:
        return "two tensors in one piece of memory"


@dataclass(frozen=True, slots=True, eq=False)
class Writable(Guard):
    """The memory of the tensors at `origin` and `others`, on the host, can be written."""

    others: tuple[Origin, ...] = ()
    after_rows: ClassVar[bool] = True  # as above

    def test(self, names: Names) -> Term:
        origins = (self.origin, *self.others)
        fixed = [names.var(o) for o in origins if not is_argument(o)]
        _, name = seen_of(names)
        tests: list[Term] = []
        if fixed:
            look = ("may_write", name, ("tuple", *fixed))
            tests.append(("or", attribute(name, "writable"), look))
        tests += [_writeable(names, o) for o in origins if is_argument(o)]
        return every(*tests)

    def expected(self) -> str:
        return f"memory that can be written of {_first_of((self.origin, *self.others))}"

    def got(self, value: Any) -> str:
        return "memory that is read-only"


@dataclass(frozen=True, slots=True, eq=False)
class ReadOnly(Guard):
    """The memory of a tensor, which the program tried to write, is still read-only."""

    def test(self, names: Names) -> Term:
        return ("not", _writeable(names, self.origin))

    def expected(self) -> str:
        return "memory that is read-only"

    def got(self, value: Any) -> str:
        return "memory that can be written"


def _writeable(names: Names, origin: Origin) -> Term:
    return attribute(names.var(origin), "_array", "flags", "writeable")


def _all_differ(numbers: list[Term]) -> Term:
    return ("==", ("len", ("set", *numbers)), len(numbers))


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
