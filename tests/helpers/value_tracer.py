"""A tracer whose handles are values: it runs each op as it is emitted and checks the op's own rules.

With it the whole library can be run on traced tensors: functionalised views and writes, shape rules,
index maps of views and derivatives are tested without any compiler.
"""

import contextlib
import operator

import numpy as np

import eager
from eager.core.dispatch import current_tracer
from eager.core.op import aval_of
from eager.core.sym import SymNumber
from eager.core.tensor import wrap
from eager.core.traced import fresh


class Untaped:
    """What eager tells a tracer of its tape, which the tests leave to eager."""

    inside = None

    def touch(self, state):
        """Nothing is put back."""

    def writing(self, tensor):
        """Nothing is noted."""

    def distinct(self, traced):
        return traced

    def sweep(self):
        """Nothing is noted."""

    def check_writable(self, tensor):
        """All may be written."""

    def check(self, what, *conditions):
        """Nothing is checked."""

    def decide(self, fn, *operands):
        """Nothing is known of numbers while tracing."""

    def record(self, node, operands, outs):
        """The tape is eager's."""

    record_write = record_function = record


class ValueTracer(Untaped):
    def __init__(self):
        self.emitted = []
        self.lifted = {}

    def emit(self, op, operands, attrs, outs):
        hash(tuple(sorted((k, v) for k, v in attrs.items() if k != "dtype")))
        weak = outs[0].weak
        results = op.compute(operands, attrs, outs)
        for array, aval in zip(results, outs, strict=True):
            assert isinstance(array, np.ndarray | np.generic), (op, type(array))
            assert array.shape == aval.shape, (op, array.shape, aval)
            assert weak or array.dtype == aval.dtype.np, (op, array.dtype, aval)
        if op.kind == "view":
            check_index_map(op, operands[0], attrs, results[0])
        self.emitted.append(op.name)
        return tuple(x.item() if weak else np.array(x) for x in results)

    def lift(self, tensor):
        if id(tensor) not in self.lifted:
            array = np.array(tensor._array)
            self.lifted[id(tensor)] = (fresh(self, array, aval_of(array)), tensor)
        return self.lifted[id(tensor)][0]

    def item(self, traced):
        return self.number(lambda value: value, (traced.read().item(),))

    def number(self, fn, args):
        value = fn(*(a.leaf if isinstance(a, SymNumber) else a for a in args))
        return SymNumber(self, type(value), value)

    def handle_of(self, sym):
        return sym.leaf

    def value(self, handle):
        """Nothing is known while tracing, though the handles are values."""
        return None

    def placeholder(self, name, aval):
        """Values of one step of a loop (`ctc_loss`) are no values: see tests/jitcap/graph/test_scan.py."""
        raise eager.core.traced.UnknownValue(name)

    def size_of(self, sym):
        return operator.index(sym)

    def with_size(self, op, operands, attrs):
        """No size is a symbol: the rule says that it is not known."""
        op.abstract(tuple(map(aval_of, operands)), attrs)
        return attrs

    def concretize(self, sym, want):
        return want(sym.leaf)

    def load_grad(self, tensor):
        return None


def check_index_map(op, source, attrs, result):
    """The op's index map, at every place of the result."""
    for index in np.ndindex(result.shape):
        there = op.source(tuple(map(int, index)), source.shape, attrs)
        assert np.array_equal(result[index], source[there], equal_nan=result.dtype.kind in "fc"), (
            op,
            index,
            there,
        )


@contextlib.contextmanager
def tracing():
    tracer = ValueTracer()
    token = current_tracer.set(tracer)
    try:
        yield tracer
    finally:
        current_tracer.reset(token)


def traced(tracer, array, requires_grad=False):
    """A tensor that stands for `array` under capture."""
    array = np.array(array)
    t = wrap(fresh(tracer, array, aval_of(array)))
    return t.requires_grad_() if requires_grad else t


def value(tensor):
    """The array a traced tensor has come to."""
    return tensor._array.read() if not isinstance(tensor._array, np.ndarray) else tensor._array


_ = eager
