"""Tensors under capture: views and writes become pure values, with the results of eager execution."""

import math

import numpy as np
import pytest
from value_tracer import ValueTracer, traced, tracing, value

import eager
from eager.core.sym import SymNumber
from jitcap import jit

pytestmark = pytest.mark.once


def chunks(x):
    a, b = x.chunk(2)
    a += b
    return a * b, x


def writes_between_reads(x):
    v = x[1]
    first = v * 1
    x.mul_(2)
    second = v * 1
    v.fill_(7)
    return first, second, x, v


def nested(x):
    x.t()[1:3].view_alias()[0].add_(10)
    return x, x.sum()


def reshaped(x):
    y = x.reshape(-1)
    y[::3] = 0
    return x, y


def copies_do_not_alias(x):
    y = x.clone()
    z = x.t().contiguous()
    w = x.t().reshape(-1)  # must copy
    x.zero_()
    return x, y, z, w


def diagonal(x):
    x.diagonal().add_(100)
    x.unsqueeze(1).squeeze(1)[..., 1].neg_()
    return (x,)


def split_and_write(x):
    for row in x.unbind(0):
        row[0] = row.sum()
    return (x,)


def advanced(x):
    x[[0, 2], [1, 0]] = -1
    x[x > 8] *= 2 if False else 1
    x[:, 0] += x[:, 1]
    return (x,)


def slices_of_slices(x):
    x[1:][:, 1:3][1:] = 5
    x[0:1] += x[2:3]
    return (x,)


def permuted(x):
    x.permute(1, 0)[0:2].mul_(3)
    x.movedim(0, 1).select(0, 3).fill_(1)
    return (x,)


PROGRAMS = [
    chunks,
    writes_between_reads,
    nested,
    reshaped,
    copies_do_not_alias,
    diagonal,
    split_and_write,
    slices_of_slices,
    permuted,
]


def start():
    return np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_same_as_eager(program):
    expected = program(eager.from_numpy(start()))
    with tracing() as tracer:
        found = program(traced(tracer, start()))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(value(a), b.numpy())
        assert a.stride() == b.stride()
        assert a.is_contiguous() == b.is_contiguous()


def test_writes_reach_the_storage():
    with tracing() as tracer:
        x = traced(tracer, start())
        before = x._array.storage.handle
        x[0, 1:3] = 5
    storage = x._array.storage
    assert storage.generation == 1
    assert storage.handle[0].tolist() == [0, 5, 5, 3]
    assert before[0].tolist() == [0, 1, 2, 3]
    assert x._version == 1


def test_overlapping_memory_cannot_be_written():
    with tracing() as tracer:
        x = traced(tracer, start())
        with pytest.raises(RuntimeError, match="single memory"):
            x[0].expand(3, 4).add_(1)
        with pytest.raises(RuntimeError, match="single memory"):
            x.unfold(1, 2, 1).add_(1)


def test_backward_on_traced_tensors():
    def program(x, w):
        y = (x * w).sin()
        y[0].mul_(w)
        (y * y).sum().backward()
        return x.grad, w.grad

    w0 = np.linspace(0.5, 1, 4).astype(np.float32)
    expected = program(
        eager.tensor(start(), requires_grad=True), eager.tensor(w0, requires_grad=True)
    )
    with tracing() as tracer:
        found = program(traced(tracer, start(), True), traced(tracer, w0, True))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(value(a), b.numpy(), rtol=1e-6)


def test_constants_are_lifted_once():
    c = eager.tensor([1.0, 2.0, 3.0, 4.0])
    with tracing() as tracer:
        x = traced(tracer, start())
        y = x * c + c
        z = eager.zeros(3, 1) + y
        c.view(2, 2)[0].zero_()
        y = x * c
    assert value(z).shape == (3, 4)
    assert value(y)[1].tolist() == [0, 0, 18, 28]
    assert c.tolist() == [1, 2, 3, 4]
    assert len(tracer.lifted) == 1
    assert "full" in tracer.emitted


def test_values_are_not_available():
    with tracing() as tracer:
        x = traced(tracer, start())
        asked = (x.numpy, x.tolist, x.nonzero, lambda: x[x > 3], lambda: repr(x), lambda: str([x]))
        for ask in asked:
            with pytest.raises(RuntimeError, match="being captured"):
                ask()


def sym(number):
    return SymNumber(ValueTracer(), type(number), number)


@pytest.mark.parametrize("x", [3, -2, 2.5, -0.5, True])
@pytest.mark.parametrize("y", [2, -3, 1.5, -2.25])
def test_symbolic_arithmetic_is_pythons(x, y):
    import operator as op

    for f in (op.add, op.sub, op.mul, op.truediv, op.floordiv, op.mod, op.lt, op.ge, op.eq, op.ne):
        expected = f(x, y)
        for a, b in ((sym(x), y), (x, sym(y)), (sym(x), sym(y))):
            found = f(a, b)
            assert found.pytype is type(expected), (f, found)
            assert found.handle == pytest.approx(expected)
    assert (-sym(x)).handle == -x
    assert abs(sym(x)).handle == abs(x)


def test_symbolic_powers_and_conversions():
    assert (sym(3) ** 2).handle == 9
    assert (2 ** sym(3)).pytype is int
    assert (sym(2) ** -1).handle == 0.5
    assert (sym(2.0) ** sym(0.5)).handle == pytest.approx(math.sqrt(2))
    assert [1, 2, 3][sym(1)] == 2
    assert bool(sym(0)) is False
    assert float(sym(1)) == 1.0
    assert hash(sym(3)) == hash(3)
    assert f"{sym(1.5):.2f}" == "1.50"
    with pytest.raises(ZeroDivisionError):
        sym(1) / 0
    with pytest.raises(ZeroDivisionError):
        1 / sym(0.0)
    with pytest.raises(TypeError):
        sym(1) + "a"
    with pytest.raises(TypeError):
        [1, 2][sym(1.0)]


def test_symbolic_numbers_meet_tensors():
    with tracing() as tracer:
        x = traced(tracer, start())
        s = SymNumber(tracer, float, 2.5)
        assert value(x * s).dtype == np.float32
        assert value(s - x)[0, 1] == np.float32(1.5)
        assert value(x.mul_(s))[0, 2] == 5
        total = x.sum().item()
        assert total.pytype is float
        assert value(x / total).sum() == pytest.approx(1, rel=1e-6)
        assert value(eager.full((2,), total))[0] == pytest.approx(total.handle)
        assert eager.full((2,), total).dtype is eager.float32
        assert value(eager.arange(SymNumber(tracer, int, 3))).tolist() == [0, 1, 2]
        assert value(eager.eye(SymNumber(tracer, int, 2))).tolist() == [[1, 0], [0, 1]]
        assert value(eager.tensor([1.0, total]))[1] == pytest.approx(total.handle)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x.gather(0, i),
        lambda x, i: x.logcumsumexp(0),
        lambda x, i: eager.unique(x, dim=1),
        lambda x, i: eager.unique_consecutive(x, dim=1),
        lambda x, i: (
            eager.ones(3, 2, 4, 4).mT.transpose(0, 1) @ eager.ones(3, 2, 4, 4).transpose(0, 1)
        ),
    ],
)
def test_results_lie_by_rows_whatever_their_operands_do(call):
    """Which is what compiled code says of them."""
    x, i = eager.arange(12.0).view(3, 4).t(), eager.zeros(3, 4, dtype=eager.int64).t()
    plain, compiled = call(x, i), jit(call, backend="eager")(x, i)
    assert plain.is_contiguous()
    assert plain.stride() == compiled.stride()


@pytest.mark.parametrize("compiled", [False, True])
def test_a_leaf_that_is_a_view_of_another_tensor_is_not_written_through_its_views(compiled):
    whole = eager.arange(4.0)
    leaf = whole.view(2, 2).requires_grad_()
    assert leaf[0]._base is leaf._base is whole

    def write(x):
        x.t()[0] = 1

    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        (jit(write, backend="eager") if compiled else write)(leaf)
    assert whole.tolist() == [0, 1, 2, 3]
    with eager.no_grad():
        leaf[0] = 7
    (leaf * leaf).sum().backward()
    assert leaf.grad.tolist() == [[14, 14], [4, 6]]
