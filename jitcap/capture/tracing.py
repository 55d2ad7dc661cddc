"""Capture: the tracer whose questions the capture answers. eager's calls -> nodes, with provenance.

What `eager` asks while it runs on traced values (a value from outside, the truth of a number, the
next random draw) is answered from the `Session` of this capture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from eager import random
from eager.aval import Aval
from eager.op import Attrs, Op
from eager.random import Generator
from eager.sym import SymNumber
from eager.tape import mode
from eager.tensor import Tensor
from eager.traced import Traced, fresh
from jitcap import scalars
from jitcap.capture import numbers
from jitcap.capture.bounds import Bounds, bounds_of, condition, holds, is_place
from jitcap.capture.breaks import Break
from jitcap.capture.kinds.base import Session
from jitcap.capture.kinds.tensors import TensorShadow
from jitcap.capture.origin import Attribute, Fixed, Origin
from jitcap.graph import INPUT, Arg, Node, Where, evaluate
from jitcap.tracer import Tracer

LARGEST_VALUE: Final = 1 << 16  # elements of a constant that is computed while capturing
LARGEST: Final = 150_000  # operations of one graph; an unrolled recurrent step of 1,500 has 120,000


class Draws:
    """The state of one random generator during a capture."""

    def __init__(self, generator: Generator, origin: Origin) -> None:
        self.generator = generator
        self.origin = origin
        self.seed: Any = None  # a run-time number, or the int that the program set
        self.start: Any = None
        self.count = 0
        self.reseeded = False


class CaptureTracer(Tracer):
    """E's tracer, answering from a `Session`."""

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(
            lift=self._lift_concrete,
            concretize=lambda number, want: numbers.concretize(session, number, want),
            load_grad=self._first_grad,
            where=self._where,
            name=name,
        )
        self.session = session
        self.constant_arrays: dict[Node, Any] = {}
        self.draws: dict[int, Draws] = {}
        self._values: dict[Node, Any] = {}  # of what was asked for, and of what that is made of
        self._kept: list[Any] = []
        self._bounds: set[Bounds] = set()  # that are checked
        self.deriving = False  # indices of a gradient's are those of the program

    def _where(self) -> Where:
        """The user's line, and for an operation of a derivative whose it is."""
        place, behind = self.session.where(), mode.behind
        if behind is None:
            return place
        return place._replace(function=f"{place.function}, derivative of {behind.name()}")

    def emit(
        self, op: Op, operands: Sequence[Arg], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Node, ...]:
        """As the base class; an endless loop is cut into graphs of a size that compiles. An index
        that a run decides is checked."""
        if len(self.nodes) >= LARGEST:
            raise Break("size", f"more than {LARGEST} operations in one graph")
        if op.kind == "index" and not self.deriving:
            for bounds in bounds_of(op, operands, attrs):
                self._check_index(op, bounds)
        if op.raises:
            self._refuse_unsafe(f"{op.name} raised an error here before")
        return super().emit(op, operands, attrs, outs)

    def _check_index(self, op: Op, bounds: Bounds) -> None:
        if bounds in self._bounds or is_place(bounds.places):
            return
        self._bounds.add(bounds)
        known = self.value(bounds.places)
        if known is None or not holds(known, bounds):
            size = bounds.high + 1
            self.check(f"{op.name}: an index within a size of {size}", condition(self, bounds))

    def number(self, fn: Callable[..., Any], operands: tuple[Any, ...]) -> Any:
        """As the base class; of numbers that are read outside, Python's own."""
        operands = tuple(map(scalars.simple, operands))
        found = numbers.compute(self.session, fn, operands)
        return super().number(fn, operands) if found is None else found

    def leaf_handle(self, number: SymNumber) -> Any:
        return numbers.enter(self.session, number)

    def decide(self, fn: Callable[..., Any], *operands: Any) -> bool | None:
        """As the base class; of numbers that are read outside it is guarded."""
        found = numbers.compute(self.session, fn, operands)
        return None if found is None else bool(found)

    def check(self, what: str, *conditions: Arg) -> Node:
        """As the base class; where a check failed before, the program is split instead."""
        self._refuse_unsafe(f"{what}: that did not hold here before")
        return super().check(what, *conditions)

    def _refuse_unsafe(self, what: str) -> None:
        if self.session.unsafe and self.where().place in self.session.unsafe:
            raise Break("data dependent", what)

    def _lift_concrete(self, tensor: Tensor) -> Traced:
        """A tensor that native code made of constants (`eager.tensor([1, 2])`)."""
        array = tensor._array
        found = self._lifted.get(id(array))
        if found is None:
            if self.session.outside.by_real.get(id(tensor)) is not None:
                raise Break("opaque object", "native code holds a tensor from outside")
            node = self.input(f"c{len(self.inputs)}", tensor.aval)
            self.constant_arrays[node] = array
            found = self._lifted[id(array)] = fresh(self, node, tensor.aval)
            self._kept.append(array)  # an id is only unique while the object lives
        return found

    def check_writable(self, tensor: Tensor) -> None:
        """A stand-in looks like a leaf where the tensor is none."""
        base = tensor if tensor._view is None else tensor._view.base
        shadow = self.session.outside.shadow(base)
        if isinstance(shadow, TensorShadow) and shadow.has_history():
            what = f"{shadow.origin.show()} gets a history by an in-place operation"
            raise Break("effect", what)

    def lifted(self, tensor: Tensor) -> Traced | None:
        """The graph value of a constant tensor that the program used or wrote."""
        return self._lifted.get(id(tensor._array))

    def value(self, handle: Any) -> Any:
        """What constants alone decide, by the eager kernels: a mask, a grid of times. None for what
        is read from outside, drawn, or too large to be computed just in case."""
        stack = [handle] if isinstance(handle, Node) else []
        while stack:
            node = stack[-1]
            missing = [p for p in node.parents if p not in self._values]
            if missing:
                stack += missing
                continue
            self._values[stack.pop()] = self._value_of(node)
        return self._values[handle] if isinstance(handle, Node) else handle

    def _value_of(self, node: Node) -> Any:
        if node.op is INPUT:
            return self.constant_arrays.get(node)
        args = tuple(self._values[a] if isinstance(a, Node) else a for a in node.args)
        if any(a is None for a in args) or sum(a.numel for a in node.avals) > LARGEST_VALUE:
            return None
        with np.errstate(all="ignore"):
            return evaluate(node, args)

    def _first_grad(self, tensor: Tensor) -> Tensor | None:
        """`.grad` of a stand-in is read for the first time."""
        shadow = self.session.outside.shadow(tensor)
        assert isinstance(shadow, TensorShadow)
        grad: Tensor | None = shadow.load_grad(self.session)
        return grad

    def next_draw(self, generator: Generator) -> tuple[Any, Any]:
        """Seed and ordinal of the next random op, as run-time numbers."""
        if not self.is_outside(generator):
            return generator.seed_value, generator.next_ordinal()
        state = self.draws_of(generator)
        if state.seed is None:
            session, place = self.session, state.origin
            seed = session.number_input(generator.seed_value, Attribute(place, "seed_value"))
            large = generator.seed_value >= 1 << 63  # the graph's numbers have a sign
            state.seed = seed - (1 << 64) if large else seed
            state.start = session.number_input(generator.ordinal, Attribute(place, "ordinal"))
        state.count += 1
        return state.seed, self._plus(state.start, state.count - 1)

    def _plus(self, start: Any, count: int) -> Any:
        """`start + count` in the graph: one input, however many draws there are."""
        if not count or not isinstance(start, SymNumber):
            return start + count
        return SymNumber(self, int, scalars.emit(self, "add", int, start.handle, count))

    def is_outside(self, generator: Generator) -> bool:
        """Whether the generator existed before the call."""
        known = self.session.outside.shadow(generator) is not None
        return known or generator is random.default_generator

    def reseed(self, generator: Generator, seed: int) -> None:
        """`manual_seed`: the stream starts from its beginning."""
        if not self.is_outside(generator):
            generator.manual_seed(seed)
            return
        state = self.draws_of(generator)
        state.seed, state.start, state.count = int(seed) & 0xFFFFFFFFFFFFFFFF, 0, 0
        state.reseeded = True

    def draws_of(self, generator: Generator) -> Draws:
        found = self.draws.get(id(generator))
        if found is None:
            origin = self.session.outside.origin_of(generator) or Fixed(generator, "generator")
            found = self.draws[id(generator)] = Draws(generator, origin)
        return found
