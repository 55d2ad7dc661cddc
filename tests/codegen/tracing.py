"""Programs for the codegen tests without capture: a function over eager tensors -> Program, its
inputs, its eager results."""

from __future__ import annotations

import numpy as np
from value_tracer import Untaped

import eager
from codegen.ir.schema import Call, Program, Value
from eager.core import dispatch
from eager.core.sym import SymNumber
from eager.core.tensor import wrap
from eager.core.traced import Traced, TracedStorage
from eager.sizes.aval import Aval


class ProgramTracer(Untaped):
    """Records every op call; the handles are codegen Values."""

    def __init__(self):
        self.calls = []
        self.count = 0
        self.inputs = []  # (Value, array or number)
        self.lifted = {}

    def value(self, aval, strides=None):
        self.count += 1
        return Value(self.count, aval, strides)

    def emit(self, op, operands, attrs, outs):
        values = tuple(self.value(a) for a in outs)
        self.calls.append(
            Call(op, tuple(operands), dict(attrs), values, f"test.py:{len(self.calls)}")
        )
        return values

    def input(self, array):
        aval = Aval(
            array.shape, eager.dtype_of(array) if hasattr(eager, "dtype_of") else _dtype(array)
        )
        strides = tuple(s // array.itemsize for s in array.strides)
        v = self.value(aval, strides)
        self.inputs.append((v, array))
        return Traced(aval, TracedStorage(self, v, aval), v, strides=None)

    def lift(self, tensor):
        key = id(tensor._array)
        if key not in self.lifted:
            self.lifted[key] = (self.input(tensor._array), tensor)
        return self.lifted[key][0]

    def handle_of(self, number):
        return number.leaf

    def scalar(self, number):
        kind = (
            eager.bool_
            if isinstance(number, bool)
            else eager.int64
            if isinstance(number, int)
            else eager.float64
        )
        v = self.value(Aval((), kind, weak=True))
        self.inputs.append((v, number))
        return SymNumber(self, type(number), v)

    def item(self, traced):
        kind = {0: bool, 1: int, 2: float}[traced.aval.dtype.category]
        return SymNumber(self, kind, traced.read())

    def concretize(self, sym, want):
        """Guards `x == 0` and `x < 0` are taken to be False, as they would be proved by a
        capture."""
        return want(False)

    def next_draw(self, generator):
        """(seed, ordinal) as run-time scalars, as capture makes them."""
        return self.scalar(generator.seed_value), self.scalar(generator.next_ordinal())

    def load_grad(self, tensor):
        return None


def _dtype(array):
    from eager.base import dtype

    return dtype.from_numpy(array.dtype)


def trace(fn, *args, written=()):
    """(Program, inputs) of fn(*args): arrays become input tensors, numbers run-time scalars.
    Arguments whose storage fn wrote are updated in place; `written` lists further tensors (closed
    over) to watch."""
    tracer = ProgramTracer()
    given = []
    for a in args:
        given.append(wrap(tracer.input(a)) if isinstance(a, np.ndarray) else tracer.scalar(a))
    token = dispatch.current_tracer.set(tracer)
    try:
        outs = fn(*given)
    finally:
        dispatch.current_tracer.reset(token)
    outs = outs if isinstance(outs, tuple | list) else (outs,)
    outputs = tuple(o._array.read() for o in outs)
    writes = []
    storages = [
        (t._array.storage, v)
        for t, (v, _) in zip(given, tracer.inputs, strict=False)
        if hasattr(t, "_array")
    ]
    for storage, v in storages:
        if storage.handle is not v:
            writes.append((v, storage.handle))
    program = Program(
        tuple(v for v, _ in tracer.inputs), tuple(tracer.calls), outputs, tuple(writes)
    )
    return program, [x for _, x in tracer.inputs]
