"""Inputs updated in place: the memory afterwards, and that nothing reads an old value too late."""

import numpy as np
import pytest

import codegen
import eager
from codegen.ir.schema import Kernel, Library, Target
from tests.codegen.checking import floats, same
from tests.codegen.tracing import trace


def add_in_place(x, y):
    x += y
    return x.sum()


def swap(x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return (x - y).sum()


def shift(x, y):
    x[1:] = x[:-1].clone()
    return x.sum()


def transpose(x, y):
    x.copy_(x.t().clone())
    return x[0].sum()


def softmax_in_place(x, y):
    x.copy_(eager.nn.functional.softmax(x, -1))
    return x.sum()


def old_value_returned(x, y):
    old = x * 1.0
    x.mul_(2.0)
    y.add_(x)
    return old + y


def update_of_a_part(x, y):
    x[2:5, ::2] = 7.0
    y[0] += x[3]
    return y.sum()


def momentum(x, y):
    y.mul_(0.9).add_(x * x)
    x.sub_(y.sqrt() * 0.1)
    return x.mean()


def rows_written(x, y):
    x[eager.tensor([5, 0, 5])] = y[:3]
    y.index_add_(0, eager.tensor([1, 1, -1 % 7]), y[4:] * 2.0)
    return x.sum()


def a_place_from_itself(x, y):
    x.scatter_(0, eager.tensor([[0, 3], [2, 2]]), x[5:, :2])
    y[:, eager.tensor([1, 2])] += y[:, :2]
    return y.sum()


CASES = [
    rows_written,
    a_place_from_itself,
    add_in_place,
    swap,
    shift,
    transpose,
    softmax_in_place,
    old_value_returned,
    update_of_a_part,
    momentum,
]


@pytest.mark.parametrize("backend", ["cpp", "python"])
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("fn", CASES, ids=lambda f: f.__name__)
def test_memory_after_the_run(fn, strided, backend):
    def make(seed):
        base = np.abs(floats(14, 7, seed=seed)) if strided else np.abs(floats(7, 7, seed=seed))
        return base[::2] if strided else base

    x, y = make(0), make(1)
    ex, ey = eager.from_numpy(x.copy()), eager.from_numpy(y.copy())
    expected = fn(ex, ey).numpy()
    program, inputs = trace(fn, x, y)
    (got,) = codegen.compile(program, Target(backend)).run(inputs)
    same(got, expected, 1e-5, 1e-5)
    same(np.ascontiguousarray(x), ex.numpy(), 1e-5, 1e-5, "x")
    same(np.ascontiguousarray(y), ey.numpy(), 1e-5, 1e-5, "y")


def test_an_update_is_one_kernel_without_copies():
    program, _ = trace(momentum, np.abs(floats(64, 64)), np.abs(floats(64, 64)))
    fused = codegen.run_stages(program)[0]["tiled"].fused
    assert len([i for i in fused.items if isinstance(i, Kernel)]) <= 2
    assert sum(1 for b in fused.buffers.values() if b.alias) == 2


def a_row_each(keys, values, new, place):
    keys.index_copy_(1, place, new)
    values[:, place] = new
    return (keys * values).sum()


def test_a_cache_is_written_where_it_lies():
    cache, new = floats(3, 50, 4), floats(3, 1, 4)
    program, _ = trace(a_row_each, cache, cache.copy(), new, np.array([7]))
    fused = codegen.run_stages(program)[0]["tiled"].fused
    written = [fused.buffers[i.outs[0]].alias for i in fused.items if isinstance(i, Library)]
    assert written == [f"v{v.id}" for v in program.inputs[:2]]
    assert not any(i.note.startswith("write") for i in fused.kernels())
