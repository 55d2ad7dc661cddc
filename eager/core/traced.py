"""Under capture: what stands where a tensor's array stands. reads and writes of views -> pure
values in a graph.

A `Traced` is a view of a `TracedStorage`, and the storage holds the graph value of the whole. A
view keeps its chain of view ops from that base. A write through a view computes the base's new
value (slice_scatter and its like, inverse permutations) and steps the storage's generation; a view
of an older generation replays its chain when it is next read. So the graph is single assignment
from the start, and nobody needs to remove aliases later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from eager.base.dataclass import dataclass
from eager.sizes.aval import Aval, OfAval, contiguous_strides

Handle = Any  # opaque: a node of somebody's graph
Step = tuple[Any, Mapping[str, Any]]  # a view op and its attributes


unknown_values: ContextVar[list[Exception] | None] = ContextVar("unknown_values", default=None)


class UnknownValue(RuntimeError):
    """Something needs values that are not known while capturing: `numpy()`, `nonzero()`,
    pickling. `unknown_values`, if set, gets it: a program may catch what it must not."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        met = unknown_values.get()
        if met is not None:
            met.append(self)


class Tracer(Protocol):
    """Recorder of ops, which are then not run."""

    inside: Any  # the part that is recorded now: see `part`

    def emit(
        self, op: Any, operands: tuple[Any, ...], attrs: Mapping[str, Any], outs: tuple[Aval, ...]
    ) -> tuple[Handle, ...]:
        """Append one op. `operands` are handles or Python numbers; one handle per output comes
        back."""

    def lift(self, tensor: Any) -> Traced:
        """A concrete tensor met while tracing."""

    def item(self, traced: Traced) -> Any:
        """`.item()`: the run-time scalar (a SymNumber) of a one-element tensor."""

    def value(self, handle: Handle) -> Any:
        """The array or number that a handle is sure to stand for (made of constants), or None."""

    def number(self, fn: Any, operands: tuple[Any, ...]) -> Any:
        """The Python function `fn` of numbers, some of them SymNumbers: a number, SymNumber or
        not. Raises what `fn` raises."""

    def check(self, what: str, *conditions: Handle) -> Any:
        """Conditions (bools) without which the run is given up; `what` says what was expected."""

    def decide(self, fn: Any, *operands: Any) -> bool | None:
        """True if a condition on numbers holds; None if the run decides."""

    def handle_of(self, sym: Any) -> Handle:
        """A SymNumber as an operand of the graph."""

    def concretize(self, sym: Any, want: type) -> Any:
        """`bool()`, `int()`, `float()` or use as an index of a SymNumber: a guard, or an
        exception."""

    def size_of(self, sym: Any) -> Any:
        """A SymNumber that is used as a size: a SymInt, or the int, with a guard."""

    def with_size(
        self,
        op: Any,
        operands: tuple[Handle, ...],
        attrs: Mapping[str, Any],
        count: Traced | None = None,
    ) -> Mapping[str, Any]:
        """The attributes of a call whose result's size data decide, with that as a symbol: it is
        `count`, a 0-dim tensor, or what the op itself finds. Raises UnknownValue where it cannot be
        one."""

    def writing(self, tensor: Any) -> None:
        """A tensor is about to be changed: its memory, its history or its gradient."""

    def check_writable(self, tensor: Any) -> None:
        """A tensor is to be overwritten on the tape."""

    def check_overwritten(self, tensor: Any) -> None:
        """A tensor that a derivative needs was overwritten, it seems."""

    def sweep(self) -> None:
        """The tape is gone over backwards."""

    def record(self, node: Any, operands: Any, outs: Any) -> None:
        """A call goes on the tape as `node`."""

    def record_write(self, node: Any, base: Any, value: Any) -> None:
        """So does a write to (a part of) `base`."""

    def record_function(self, node: Any, operands: Any, outs: Any) -> None:
        """So does a call of a user's Function, with those results that have a gradient."""

    def distinct(self, traced: Traced) -> Traced:
        """Value of a leaf, in the same memory, with a handle of its own."""

    def load_grad(self, tensor: Any) -> Any:
        """The first read of `.grad` of a tensor that stands in for one from outside."""

    # functions that become graphs of their own

    def part(self, fn: Callable[[], Any]) -> tuple[Any, Any]:
        """Result of `fn()`, and the part of the graph that it recorded, which is taken out."""

    def choice(
        self, pick: Handle, parts: Sequence[Any], outputs: Sequence[Any], avals: Sequence[Aval]
    ) -> Sequence[Handle]:
        """The outputs of the part that `pick` (a truth, or an int) numbers."""

    def loop(
        self, go: Handle, part: Any, outputs: Sequence[Handle], carried: Sequence[Handle],
        start: Sequence[Handle], avals: Sequence[Aval],
    ) -> Sequence[Handle]:  # fmt: skip
        """A loop as long as `go` holds. `carried` are the placeholders of the part, `outputs`
        whether to go on and the next values, `start` the first."""

    @property
    def counts_rounds(self) -> bool:
        """True if the number of rounds of a loop can be a size here: see `rounds`."""
        raise NotImplementedError

    def rounds(
        self, go: Handle, least: int, part: Any, outputs: Sequence[Handle],
        carried: Sequence[Handle], start: Sequence[Handle], avals: Sequence[Aval],
    ) -> tuple[Any, Any]:  # fmt: skip
        """Number of rounds of a `loop`, as a size, and the part for `scan`, whose checks are made.
        A run of fewer than `least` is given up."""

    def body(self, fn: Callable[[], Any]) -> tuple[Any, Any]:
        """Result and part of a function that a loop repeats: see `part`."""

    def scan(
        self, part: Any, carried: Sequence[Handle], start: Sequence[Handle],
        slices: Sequence[Handle], stacks: Sequence[Handle], ends: Sequence[Handle],
        ys: Sequence[Handle], length: int, reverse: bool, behind: Any, numbers: Any,
    ) -> tuple[Sequence[Handle], Any]:  # fmt: skip
        """A loop of `length` steps: the handles of its last carries and its stacked ys, and a
        record of it. `carried` and `slices` are the placeholders of the part, `ends` and `ys` what
        it gives, `numbers` those that grow (placeholder, first, step), `behind` the record of
        the loop whose gradient it is."""

    def record_scan(
        self, loop: Any, begins: Sequence[bool], leaves: Sequence[tuple[Handle, Any]]
    ) -> None:
        """A loop goes on the tape; `begins`: which of its first carries have a history, `leaves`
        what it is given that is a leaf, or stands for one."""

    def refuse_effect(self, what: str) -> None:
        """Raise for something that a part may not do."""

    def move(self, handle: Handle, aval: Aval, place: str) -> Handle:
        """A value of the CPU on a device."""

    def placeholder(self, name: str, aval: Aval) -> Handle:
        """Handle of a parameter of a part of the graph."""

    def touch(self, state: Any) -> None:
        """The value of a `Traced` or `TracedStorage` is about to be another node."""


@dataclass(slots=True, eq=False)
class TracedStorage:
    """One piece of memory under capture: `handle` is its current value, `generation` counts the
    writes."""

    tracer: Tracer
    handle: Handle
    aval: Aval
    generation: int = 0
    part: Any = None  # in which it was made: see `Tracer.part`
    read_only: bool = False  # it stands for memory that may not be written
    refused: bool = False  # whether a write of that was tried
    picked: IndexedRef | None = None


@dataclass(slots=True, eq=False)
class IndexedRef:
    """Origin of memory that stands for `base[places]`, the places known when the program runs: a
    write to it is one to the base. `generation`: how often the base's was written when the two were
    last equal."""

    owner: Any  # the tensor of all of that memory
    base: Any
    places: tuple[Any, ...]  # tensors without dimensions
    dims: tuple[int, ...]
    generation: int | None
    pick: Callable[[], Any]  # them again, with their derivative

    def refresh(self, array: Traced) -> None:
        """Before `array`, all or a part of this memory, is read: the base may have been written
        since, and then it has what that has now."""
        base, owner = self.base._array, self.owner
        if type(base) is not Traced or self.generation == base.storage.generation:
            return
        again = self.pick()
        recorded = (owner._requires_grad, again._requires_grad)
        if any(recorded) and not (all(recorded) and array is owner._array):
            raise UnknownValue(
                "a part of x[i], with i a tensor, is read after x was written, and gradients are "
                "recorded: read x[i] again instead"
            )
        self.generation = base.storage.generation
        owner._node, owner._index = again._node, again._index
        array.storage.tracer.touch(array.storage)
        array.storage.handle = again._array.read()
        array.storage.generation += 1


class Traced(OfAval):
    """An abstract array: aval, strides and offset in elements, and the way from its storage to its
    value."""

    __slots__ = ("aval", "chain", "generation", "handle", "offset", "storage", "strides")

    def __init__(
        self,
        aval: Aval,
        storage: TracedStorage,
        handle: Handle,
        chain: tuple[Step, ...] = (),
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
    ) -> None:
        self.aval = aval
        self.storage = storage
        self.handle = handle
        self.chain = chain
        self.strides = contiguous_strides(aval.shape) if strides is None else strides
        self.offset = offset
        self.generation = storage.generation

    def read(self) -> Handle:
        """The graph value now; replays the chain of views when the storage was written since."""
        storage = self.storage
        if storage.picked is not None:
            storage.picked.refresh(self)
        if self.generation != storage.generation:
            storage.tracer.touch(self)
            value, aval = storage.handle, storage.aval
            for op, attrs in self.chain:
                value, aval = _emit(storage.tracer, op, (value,), (aval,), attrs)
            self.handle = value
            self.generation = storage.generation
        return self.handle

    def view(self, op: Any, attrs: Mapping[str, Any]) -> Traced:
        """Apply a view op: shares this storage, or starts a fresh one when the strides do not
        allow a view."""
        tracer = self.storage.tracer
        (aval,) = op.abstract((self.aval,), attrs)
        (handle,) = tracer.emit(op, (self.read(),), attrs, (aval,))
        placed = op.restride(self.aval.shape, self.strides, attrs)
        if placed is None:
            return fresh(tracer, handle, aval)
        (strides, offset), start = placed, self.offset
        if aval.dtype is not self.aval.dtype:  # elements of another size
            start = start * self.aval.dtype.itemsize // aval.dtype.itemsize
        chain = (*self.chain, (op, attrs))
        return Traced(aval, self.storage, handle, chain, strides, start + offset)

    def write(self, value: Handle) -> None:
        """Store `value` (of this aval): the storage gets the value of the whole with this part
        replaced."""
        storage = self.storage
        storage.tracer.touch(self)
        storage.tracer.touch(storage)
        values, avals = [storage.handle], [storage.aval]
        for op, attrs in self.chain[:-1]:
            handle, aval = _emit(storage.tracer, op, (values[-1],), (avals[-1],), attrs)
            values.append(handle)
            avals.append(aval)
        whole, aval = value, self.aval
        for (op, attrs), base, base_aval in zip(
            reversed(self.chain), reversed(values), reversed(avals), strict=False
        ):
            inverse, inverse_attrs, takes_base = op.inverse(base_aval, attrs)
            operands = (base, whole) if takes_base else (whole,)
            given = (base_aval, aval) if takes_base else (aval,)
            whole, aval = _emit(storage.tracer, inverse, operands, given, inverse_attrs)
        storage.handle = whole
        storage.generation += 1
        self.handle = value
        self.generation = storage.generation


def repeatable(fn: Callable[..., None]) -> Callable[..., None]:
    """Mark a function that does nothing but operations on its arguments, writes to them included:
    what a call recorded may be copied for one that is alike."""
    fn.repeatable = True  # type: ignore[attr-defined]
    return fn


def fresh(tracer: Tracer, handle: Handle, aval: Aval) -> Traced:
    """A contiguous traced array with a storage of its own."""
    return Traced(aval, TracedStorage(tracer, handle, aval, 0, tracer.inside), handle)


def _emit(
    tracer: Tracer,
    op: Any,
    operands: tuple[Handle, ...],
    avals: tuple[Aval, ...],
    attrs: Mapping[str, Any],
) -> tuple[Handle, Aval]:
    (aval,) = op.abstract(avals, attrs)
    (handle,) = tracer.emit(op, operands, attrs, (aval,))
    return handle, aval
