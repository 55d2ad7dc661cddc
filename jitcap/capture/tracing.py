"""Capture: the tracer whose questions the capture answers. eager's calls -> nodes, with provenance.

What `eager` asks while it runs on traced values (a value from outside, the truth of a number, the
next random draw) is answered from the `Session` of this capture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from eager import random
from eager.base.dtype import float32
from eager.core.op import REGISTRY, Attrs, Op
from eager.core.storage import Storage
from eager.core.sym import SymNumber
from eager.core.tape import mode
from eager.core.tensor import Tensor
from eager.core.traced import Traced, TracedStorage, UnknownValue
from eager.device.array import DeviceArray
from eager.random import Generator
from eager.sizes.aval import Aval, scalar_aval
from jitcap.base.breaks import Break
from jitcap.base.origin import Fixed
from jitcap.base.walks import after_parents
from jitcap.capture import numbers
from jitcap.capture.bounds import Bounds, bounds_of, condition, holds, is_found, is_place
from jitcap.capture.constant_memory import ConstantMemory
from jitcap.capture.control.log import Region
from jitcap.capture.inputs import Shadow
from jitcap.capture.kinds.base import Session, words
from jitcap.capture.kinds.tensors import TensorShadow
from jitcap.capture.rng_positions import (
    DRAWS,
    Draws,
    carried_draws,
    drawn_since,
    go_on,
    of_arms,
    open_part,
    operand,
    total,
)
from jitcap.compile.anticipate import on_product
from jitcap.graph import scalars
from jitcap.graph.graph import INPUT, NOWHERE, Arg, Node, Where, defines_size, evaluate_on_host
from jitcap.graph.subgraphs import Part
from jitcap.graph.symbols import symbols_in
from jitcap.graph.tracer import DataDependent, Tracer
from jitcap.guards.tensor_guard import is_writable

LARGEST_VALUE: Final = 1 << 16  # elements of a constant that is computed while capturing
LARGEST: Final = 150_000  # operations of one graph; an unrolled recurrent step of 1,500 has 120,000


def _name(changed: Any) -> str:
    """Readable name of a changed object."""
    if isinstance(changed, Shadow):
        return changed.origin.show()
    if isinstance(changed, Storage):
        return "a Tensor from outside it"
    return changed if isinstance(changed, str) else f"a {type(changed).__name__} from outside it"


def _rounds(self: CaptureTracer, go: Arg, least: int, part: Part, *given: Any) -> tuple[Any, Part]:
    """The number of rounds as a size, and the part without its checks; nothing is drawn in it."""
    if part.more:
        raise Break("effect", DRAWS)
    count = SymNumber(self, int, self.outlines.count(go, part, *given))
    if least:
        self.check(f"{least} rounds of a loop, or more", (count >= least).handle)
    return self.session.sizes.rounds(count), replace(part, checks=())


def _derivative(place: Where, behind: Any) -> Where:
    of: Where = getattr(behind, "where", NOWHERE)
    function, module = f"{place.function}, derivative of {behind.name()}", of.module or place.module
    return Where(place.file, place.line, function, module, of.forward or of.place)


_PRODUCTS: Final = frozenset({REGISTRY["dot"], REGISTRY["conv"]})


def _foresee(product: Aval) -> None:
    begin = on_product.get()
    if begin is not None and product.dtype is float32 and product.device == "cpu":
        on_product.set(None)
        begin()


class CaptureTracer(Tracer):
    """E's tracer, answering from a `Session`."""

    counts_rounds = property(lambda self: self.session.sizes.takes_data)
    rounds = _rounds

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(
            lift=self._lift_concrete,
            concretize=lambda number, want: numbers.concretize(session, number, want),
            load_grad=self._first_grad,
            where=self._where,
            name=name,
        )
        self.session = session
        self._behind: tuple[Any, Where, Where] = None, NOWHERE, NOWHERE  # see `_where`
        self.constant_arrays: dict[Node, Any] = {}
        self.constant_memory = ConstantMemory()
        self.draws: dict[int, Draws] = {}
        self.has_drawn = False
        self._values: dict[Node, Any] = {}  # of what was asked for, and of what that is made of
        self._kept: list[Any] = []
        self._bounds: set[Bounds] = set()  # that are checked
        self.open_parts: list[tuple[dict[int, Any], bool]] = []  # see `draws.open_part`
        self.deriving = False  # indices of a gradient's are those of the program

    def _where(self) -> Where:
        """The user's line, and for an operation of a derivative whose it is."""
        place, behind = self.session.paths.inside(self.session.where()), mode.behind
        if behind is None:
            return place
        if self._behind[0] is not behind or self._behind[1] is not place:  # of each node of it
            self._behind = behind, place, _derivative(place, behind)
        return self._behind[2]

    def emit(
        self, op: Op, operands: Sequence[Arg], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Node, ...]:
        """Record an operation; an endless loop is cut into graphs of a size that compiles. An index
        that a run decides is checked."""
        if len(self.nodes) >= LARGEST:
            raise Break("size", f"more than {LARGEST} operations in one graph")
        if op.kind == "index" and not self.deriving:
            for bounds in bounds_of(op, operands, attrs):
                self._check_index(op, bounds)
        if op.ordered and self.inside is not None:
            raise Break("effect", f"{op.name} in a branch or loop that data decide")
        if op.raises:
            self._refuse_unsafe(f"{op.name} raised an error here before")
        if op in _PRODUCTS:
            _foresee(outs[0])
        if not defines_size(op):
            return super().emit(op, operands, attrs, outs)
        emit = partial(super().emit, op, operands, attrs, outs)
        return self.session.sizes.defined(attrs["size"], emit)

    def with_size(
        self, op: Op, operands: tuple[Arg, ...], attrs: Attrs, count: Traced | None = None
    ) -> Attrs:
        """With a symbol, where one can stand for a size that data decide."""
        found = self.session.sizes.of_result(op, operands, attrs, count)
        return super().with_size(op, operands, attrs) if found is None else {**attrs, "size": found}

    def part(
        self, fn: Callable[[], Any], *, writes: bool = False, own: bool = False
    ) -> tuple[Any, Part]:
        """Record `fn` as a subgraph; changes by `fn` that are not in the graph are refused, but for
        random draws: their number is kept in the part. `own`: the caller looks after the changes
        and the exceptions."""
        bounds = self._bounds
        self._bounds = set(bounds)
        try:
            with nullcontext() if own else Region(self.session) as region:
                with open_part(self) as before:
                    (value, more), part = super().part(
                        lambda: (fn(), drawn_since(self, before)), writes=writes or own
                    )
                for changed in () if region is None else region.changed():
                    self.refuse_effect(
                        f"a function that is given to control flow changes {_name(changed)}"
                    )
            return value, replace(part, more=more)
        except (Break, DataDependent, UnknownValue):
            raise
        except Exception as error:
            if own:
                raise
            what = f"a function that is given to control flow raises {words(error)}"
            raise Break("data dependent", what) from error
        finally:
            self._bounds = bounds

    def body(self, fn: Callable[[], Any]) -> tuple[Any, Part]:
        """Record `fn` as the body of a loop: draws of a step are numbered from where it begins."""
        with open_part(self, is_body=True):
            value, part = self.part(fn)
            drawn = [(key, self.draws[key].began.leaf, n) for key, n in part.more.items()]
            return value, replace(part, more=drawn)

    def scan(self, part: Part, *given: Any) -> tuple[Sequence[Node], Any]:
        """Record a scan; every step goes on with the draws where the one before ended."""
        *rest, numbers = given
        length: Any = rest[6]
        counters = {x: (operand(first), step) for x, first, step in numbers}
        for key, place, count in part.more:
            if isinstance(count, SymNumber):
                raise Break("effect", "the steps of a loop draw differently many random numbers")
            state = self.draws[key]
            first = self.plus(state.start, state.count)
            counters[place] = operand(first), count
            state.count += count * length
        return self.scans.record(part, *rest, counters=counters)

    def refuse_effect(self, what: str) -> None:
        raise Break("effect", what)

    def touch(self, state: Any) -> None:
        """Note a write to memory; memory that may be another's must not be written."""
        if isinstance(state, TracedStorage):
            self.session.ties.wrote(state)
        super().touch(state)

    def truth(self, condition: Node, holds: bool) -> Node:
        """The condition, or that it does not hold."""
        if holds:
            return condition
        (node,) = self.emit(REGISTRY["logical_not"], (condition,), {}, condition.avals)
        return node

    def choice(
        self, pick: Arg, parts: Sequence[Part], outputs: Sequence[Any], avals: Sequence[Aval]
    ) -> Sequence[Node]:
        """Record a choice. Where the parts draw differently many numbers, how many is one more
        output: what is drawn later goes on behind them."""
        same, apart = of_arms(parts)
        rows = [(*row, *(operand(ns[i]) for ns in apart.values())) for i, row in enumerate(outputs)]
        handles = super().choice(pick, parts, rows, [*avals, *(scalar_aval(0) for _ in apart)])
        go_on(self, same, zip(apart, handles[len(avals) :], strict=True))
        return handles[: len(avals)]

    def loop(
        self, go: Arg, part: Part, outputs: Sequence[Arg], carried: Sequence[Node],
        start: Sequence[Arg], avals: Sequence[Aval],
    ) -> Sequence[Node]:  # fmt: skip
        """Record a loop, which also carries the positions of the streams of random numbers."""
        drawn = carried_draws(self, part)
        handles = super().loop(
            go, part, [*outputs, *(d.then for d in drawn)], [*carried, *(d.place for d in drawn)],
            [*start, *(d.first for d in drawn)], [*avals, *(scalar_aval(0) for _ in drawn)],
        )  # fmt: skip
        behind = [
            (d.key, scalars.emit(self, "sub", int, last, d.first))
            for d, last in zip(drawn, handles[len(avals) :], strict=True)
        ]
        go_on(self, {}, behind)
        return handles[: len(avals)]

    def _check_index(self, op: Op, bounds: Bounds) -> None:
        if bounds in self._bounds or is_place(bounds.places) or is_found(bounds):
            return
        self._bounds.add(bounds)
        known = self.value(bounds.places)
        if known is None or not holds(known, bounds):
            size = bounds.high + 1
            shown = self.session.sizes.shown(size)
            self.check(f"{op.name}: an index within a size of {shown}", condition(self, bounds))

    def number(self, fn: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
        """The number `fn(*operands)`; of numbers that are read outside, Python's own."""
        operands = tuple(map(scalars.simple, operands))
        for loop in self.session.rolls:
            if (found := loop.number(fn, operands)) is not None:
                return found
        found = numbers.compute(self.session, fn, operands)
        if found is None:
            found = self.session.sizes.of_graph(fn, operands)
        return super().number(fn, operands) if found is None else found

    def leaf_handle(self, number: SymNumber) -> Any:
        return numbers.enter(self.session, number)

    def decide(self, fn: Callable[..., Any], *operands: Any) -> bool | None:
        """Truth of `fn(*operands)`, guarded, of numbers that are read outside; else None."""
        found = numbers.compute(self.session, fn, operands)
        return None if found is None else bool(found)

    def check(self, what: str, *conditions: Arg, **more: Any) -> Node:
        """Record a check; where one failed before, the program is split instead."""
        self._refuse_unsafe(f"{what}: that did not hold here before")
        return super().check(what, *conditions, **more)

    def _refuse_unsafe(self, what: str) -> None:
        if self.session.unsafe and self.where().place in self.session.unsafe:
            raise Break("data dependent", what)

    def size_of(self, number: SymNumber) -> Any:
        """The size that a number is; of a number from outside a symbol."""
        found = self.session.sizes.of_number(number)
        return super().size_of(number) if found is None else found

    def _lift_concrete(self, tensor: Tensor) -> Traced:
        """A tensor that native code made of constants (`eager.tensor([1, 2])`)."""
        array = tensor._array
        found = self._lifted.get(id(array))
        if found is None:
            if self.session.outside.by_real.get(id(tensor)) is not None:
                raise Break("opaque object", "native code holds a tensor from outside")
            node = self.input(f"c{len(self.inputs)}", tensor.aval)
            memory = TracedStorage(self, node, tensor.aval, read_only=not is_writable(array))
            self.constant_arrays[node] = self.constant_memory.lift(array, memory)
            found = self._lifted[id(array)] = Traced(tensor.aval, memory, node)
            self._kept.append(array)  # an id is only unique while the object lives
        return found

    def writing(self, tensor: Tensor) -> None:
        self.session.log.writing(tensor)

    def check_writable(self, tensor: Tensor) -> None:
        """A stand-in looks like a leaf where the tensor is none."""
        base = tensor if tensor._view is None else tensor._view.base
        shadow = self.session.outside.shadow(base)
        if isinstance(shadow, TensorShadow) and shadow.has_history():
            what = f"{shadow.origin.show()} gets a history by an in-place operation"
            raise Break("effect", what)

    def check_overwritten(self, tensor: Tensor) -> None:
        """The run may know of fewer writes."""
        if id(tensor._storage) in self.session.counts:
            what = "a derivative needs a tensor that one way of a branch has overwritten"
            raise Break("data dependent", what)

    def lifted(self, tensor: Tensor) -> Traced | None:
        """The graph value of a constant tensor that the program used or wrote."""
        return self._lifted.get(id(tensor._array))

    def value(self, handle: Any) -> Any:
        """Value that constants alone decide, by the eager kernels: a mask, say. None for what
        is read from outside, drawn, or too large to be computed just in case."""
        if not isinstance(handle, Node):
            return handle
        for node in after_parents(handle, lambda n: n.parents, self._values.__contains__):
            self._values[node] = self._value_of(node)
        return self._values[handle]

    def _value_of(self, node: Node) -> Any:
        if node.op is INPUT:
            found = self.constant_arrays.get(node)
            return None if type(found) is DeviceArray else found
        args = tuple(self._values[a] if isinstance(a, Node) else a for a in node.args)
        if any(a is None for a in args) or self._is_sized(node):
            return None
        if sum(a.numel for a in node.avals) > LARGEST_VALUE:
            return None
        with np.errstate(all="ignore"):
            return evaluate_on_host(node, args)

    def _is_sized(self, node: Node) -> bool:
        """True if symbolic sizes occur in the node's attributes or shapes."""
        if not self.session.sizes.symbols:
            return False
        return bool(symbols_in((node.attrs, *(a.shape for a in node.avals))))

    def _first_grad(self, tensor: Tensor) -> Tensor | None:
        """`.grad` of a stand-in is read for the first time."""
        shadow = self.session.outside.shadow(tensor)
        assert isinstance(shadow, TensorShadow)
        grad: Tensor | None = shadow.load_grad(self.session)
        return grad

    def next_draw(self, generator: Generator) -> tuple[Any, Any]:
        """Seed and ordinal of the next random op, as run-time numbers."""
        self.has_drawn = True
        if not self.is_outside(generator):
            self.session.log.writing(generator)
            return generator.seed_value, generator.next_ordinal()
        state = self.draws_of(generator).opened(self)
        state.count += 1
        return state.seed, self.plus(state.start, state.count - 1)

    def plus(self, start: Any, count: Any) -> Any:
        """`start + count` in the graph: one input, however many draws there are."""
        return total(self, start, self.session.sizes.number(count))

    def is_outside(self, generator: Generator) -> bool:
        """True if the generator existed before the call."""
        known = self.session.outside.shadow(generator) is not None
        return known or generator in random.default_generators.values()

    def draws_of(self, generator: Generator) -> Draws:
        found = self.draws.get(id(generator))
        if found is None:
            origin = self.session.outside.origin_of(generator) or Fixed(generator, "generator")
            found = self.draws[id(generator)] = Draws(generator, origin)
        return found
