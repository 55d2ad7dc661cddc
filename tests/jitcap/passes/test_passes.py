"""Every pass keeps values bit for bit, and does what it is for."""

import numpy as np
import pytest

import eager
from eager.core.op import REGISTRY
from jitcap.graph.tracer import trace
from jitcap.graph.verify import verify
from jitcap.passes import PASSES
from jitcap.passes.simplify import RULES
from tests.helpers.work import calls_made

pytestmark = pytest.mark.once

SPECIAL = np.array([[0.0, -0.0, 1.5], [np.nan, np.inf, -np.inf]], np.float32)


def run_passes(graph):
    for each, _ in PASSES:
        graph = each(graph)
        verify(graph, each.__name__)
    return graph


def ops(graph):
    return [n.op.name for n in graph.nodes]


# (program, the ops that must be left)
CASES = {
    "times one": (lambda x: x * 1, []),
    "one times": (lambda x: 1.0 * x, []),
    "plus zero is not the identity": (lambda x: x + 0.0, ["add"]),
    "plus an integer zero is not, either": (lambda x: x + 0, ["add"]),
    "plus negative zero is": (lambda x: x + -0.0, []),
    "minus zero": (lambda x: x - 0.0, []),
    "divided by one": (lambda x: x / 1, []),
    "power one": (lambda x: x**1, []),
    "times zero keeps NaN": (lambda x: x * 0, ["mul"]),
    "negated twice": (lambda x: (x.neg()).neg(), []),
    "plus a negated value": (lambda x: x + (-(x * 3)), ["mul", "sub"]),
    "to a wider type and back": (lambda x: x.to(eager.float64).to(eager.float32), []),
    "to a narrower type and back": (
        lambda x: x.to(eager.float16).to(eager.float32),
        ["cast", "cast"],
    ),
    "half through float to double": (
        lambda x: x.to(eager.float16).to(eager.float32).to(eager.float64),
        ["cast", "cast"],
    ),
    "reshapes": (lambda x: x.reshape(6).reshape(3, 2).reshape(2, 3), []),
    "transposed twice": (lambda x: x.permute(1, 0).permute(1, 0), []),
    "squeezed": (lambda x: x.unsqueeze(1).squeeze(1), []),
    "ones dropped": (lambda x: x.unsqueeze(0).permute(1, 0, 2), ["reshape"]),
    "slices": (lambda x: x[:, 1:][:, 1:], ["slice"]),
    "expanded twice": (
        lambda x: x.unsqueeze(0).expand(2, 2, 3).expand(2, 2, 3),
        ["reshape", "expand"],
    ),
    "a sum over ones": (lambda x: x.unsqueeze(0).sum(0), ["add"]),
    "constants": (lambda x: x * (eager.ones(3) * 2.0 - 1.0), []),
    "common subexpressions": (lambda x: (x * 3 + 1) * (x * 3 + 1), ["mul", "add", "mul"]),
    "dead code": (lambda x: (x.exp(), x * 2)[1], ["mul"]),
    "halves put together": (lambda x: eager.cat([x[:, :1], x[:, 1:]], 1), []),
    "a part written and read": (
        lambda x: x.select_scatter(x[1] * 2, 0, 0).select(0, 0),
        ["select", "mul"],
    ),
    "another part": (lambda x: x.select_scatter(x[1] * 2, 0, 0).select(0, 1), ["select"]),
    "part of what was written": (
        lambda x: x.slice_scatter(x[:, 1:] * 2, 1, 1, 3)[:, 2],
        ["slice", "mul", "select"],
    ),
    "slices beside what was written": (
        lambda x: x.slice_scatter(x[:, 1:] * 2, 1, 1, 3)[:, :1],
        ["slice"],
    ),
    "a slice of which a part was written stays": (
        lambda x: x.slice_scatter(x[:, 1:] * 2, 1, 1, 3)[:, :2],
        ["slice", "mul", "slice_scatter", "slice"],
    ),
    "written twice": (
        lambda x: x.select_scatter(x[1] * 2, 0, 0).select_scatter(x[1], 0, 0),
        ["select", "select_scatter"],
    ),
    "flipped twice": (lambda x: x.flip(0).flip(0), []),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_kept_and_work_is_saved(name):
    fn, left = CASES[name]
    graph = trace(fn, eager.tensor(SPECIAL)).graph
    after = run_passes(graph)
    assert ops(after) == left
    with np.errstate(all="ignore"):
        for a, b in zip(graph.run([SPECIAL]), after.run([SPECIAL]), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(np.signbit(a), np.signbit(b))
            np.testing.assert_array_equal(a, b)


def test_equal_numbers_of_different_types_are_not_shared():
    def fn(x):
        return x * 2, x * 2.0, x + 0.0, x + -0.0

    graph = run_passes(trace(fn, eager.tensor([1, 2])).graph)
    assert [o.aval.dtype.name for o in graph.outputs] == ["int64", "float32", "float32", "float32"]


def test_a_known_condition_chooses():
    def fn(x):
        yes = eager.ones(2, 3, dtype=eager.bool)
        c = x > 0
        return eager.where(yes, x, x + 1), eager.where(c, eager.where(c, x, x * 5), x * 2)

    graph = run_passes(trace(fn, eager.tensor(SPECIAL)).graph)
    assert graph.outputs[0] is graph.inputs[0]
    assert ops(graph) == ["gt", "mul", "where"]


def test_a_sum_of_repeated_values_is_a_product():
    def fn(x):
        return x.unsqueeze(0).expand(7, 2, 3).sum((0, 2))

    x = np.random.default_rng(0).standard_normal((2, 3)).astype(np.float32)
    graph = trace(fn, eager.tensor(x)).graph
    after = run_passes(graph)
    assert "expand" not in ops(after)
    np.testing.assert_allclose(graph.run([x])[0], after.run([x])[0], rtol=1e-6)


def test_a_batch_with_one_matrix_is_one_product():
    def fn(x, w):
        return eager.matmul(x, w.unsqueeze(0).expand(4, 3, 5))

    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 2, 3)).astype(np.float32)
    w = rng.standard_normal((3, 5)).astype(np.float32)
    graph = trace(fn, eager.tensor(x), eager.tensor(w)).graph
    after = run_passes(graph)
    (dot,) = (n for n in after.nodes if n.op.name == "dot")
    assert dot.aval.shape == (8, 5)
    np.testing.assert_allclose(graph.run([x, w])[0], after.run([x, w])[0], rtol=1e-6)


def test_rules_are_for_ops_that_exist():
    assert not set(RULES) - set(REGISTRY)


def test_passes_are_linear_in_the_program():
    def chain(n):
        def fn(x):
            for i in range(n):
                x = (x * (i % 7 + 1.5) + 1).reshape(3, 2).reshape(2, 3)
            return x

        graph = trace(fn, eager.tensor(SPECIAL)).graph
        return calls_made(lambda: run_passes(graph))

    chain(100)  # what is made once, at the first use
    assert chain(800) < 4 * chain(200) * 1.25


def test_gradients_of_slices_are_put_together():
    def fn(x):
        w = x.detach().requires_grad_()
        a, b, c = (w * 2).split([1, 2, 3], dim=1)
        loss = (a.exp().sum() + (b * b).sum()) + c.sin().sum()
        return eager.autograd.grad(loss, [w])[0]

    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    graph = trace(fn, eager.tensor(x)).graph
    after = run_passes(graph)
    assert "slice_scatter" in ops(graph)
    assert "slice_scatter" not in ops(after)
    assert ops(after).count("cat") == 1
    np.testing.assert_array_equal(graph.run([x])[0], after.run([x])[0])


def test_gradients_of_steps_in_time_are_put_together():
    def fn(x):
        w = x.detach().requires_grad_()
        h = w[:, 0]
        for t in range(1, 5):
            h = (h + w[:, t]).tanh()
        return eager.autograd.grad(h.sum(), [w])[0]

    x = np.random.default_rng(0).standard_normal((3, 6, 2)).astype(np.float32)
    graph = trace(fn, eager.tensor(x)).graph
    after = run_passes(graph)
    assert "select_scatter" not in ops(after)
    assert ops(after).count("cat") == 1
    np.testing.assert_array_equal(graph.run([x])[0], after.run([x])[0])


def test_parts_that_overlap_are_added():
    def fn(x):
        z = eager.zeros(4, 3)
        return z.slice_scatter(x, 0, 0, 2) + z.slice_scatter(x, 0, 1, 3)

    x = np.ones((2, 3), np.float32)
    graph = trace(fn, eager.tensor(x)).graph
    np.testing.assert_array_equal(graph.run([x])[0], run_passes(graph).run([x])[0])


def alignment(x, y):
    """Dynamic time warping: a table of which each element depends on three neighbours."""
    n = len(x)
    table = eager.full((n + 1, n + 1), float("inf"))
    table[0, 0] = 0
    for i in range(n):
        for j in range(n):
            before = eager.minimum(table[i, j + 1], table[i + 1, j])
            table[i + 1, j + 1] = (x[i] - y[j]).abs() + eager.minimum(before, table[i, j])
    return table


def test_a_table_that_is_filled_is_put_together_once():
    x, y = np.random.default_rng(0).standard_normal((2, 5)).astype(np.float32)
    graph = trace(alignment, eager.tensor(x), eager.tensor(y)).graph
    after = run_passes(graph)
    found = ops(after)
    assert found.count("select") == 10  # elements of x and y
    assert found.count("cat") == 6
    assert found.count("select_scatter") == 1  # the first row has one element written
    np.testing.assert_array_equal(graph.run([x, y])[0], after.run([x, y])[0])


def writes_and_reads(seed):
    """A program that writes parts of a table, and reads such."""
    rng = np.random.default_rng(seed)

    def places(n):
        start, stop = sorted(rng.choice(n + 1, 2, replace=False).tolist())
        at, every = int(rng.integers(n)), slice(start, stop, int(rng.choice([1, 1, 2])))
        return [at, every, slice(None)][rng.integers(3)]

    steps = [(places(4), places(5), *rng.integers(0, 3, 2).tolist()) for _ in range(14)]
    starts = (lambda x: eager.zeros(4, 5), lambda x: x.clone(), lambda x: x * 2)
    start = starts[rng.integers(3)]

    def program(x):
        table, read = start(x), x.sum()
        for i, (row, column, what, kind) in enumerate(steps):
            if what == 0:
                read = read + table[row, column].sum()
            else:
                part = table[row, column]
                new = (read * i, part * 2 + i, part.flip(0) if part.ndim else part - i)[kind]
                table[row, column] = new
        return table, read

    return program


def test_what_is_read_was_written_last():
    x = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
    for seed in range(60):
        graph = trace(writes_and_reads(seed), eager.tensor(x)).graph
        after = run_passes(graph)
        for a, b in zip(graph.run([x]), after.run([x]), strict=True):
            # sums of equal values are products: see above
            np.testing.assert_allclose(a, b, rtol=1e-5, err_msg=f"seed {seed}")


def test_taking_every_row_is_no_gather():
    def fn(x):
        return eager.nn.functional.embedding(eager.arange(2), x) * 2

    graph = trace(fn, eager.tensor(SPECIAL)).graph
    after = run_passes(graph)
    assert "take" in ops(graph)
    assert ops(after) == ["mul"]
    np.testing.assert_array_equal(graph.run([SPECIAL])[0], after.run([SPECIAL])[0])


def test_products_over_time_are_one():
    def fn(x, w, u):
        w, u = w.detach().requires_grad_(), u.detach().requires_grad_()
        h = eager.zeros(4, 32)
        for t in range(6):
            h = (x[:, t] @ w + h @ u).tanh()
        return eager.autograd.grad((h * h).sum(), [w, u])

    rng = np.random.default_rng(0)
    arrays = [
        0.1 * rng.standard_normal(s).astype(np.float32) for s in ((4, 6, 24), (24, 32), (32, 32))
    ]
    graph = trace(fn, *map(eager.tensor, arrays)).graph
    after = run_passes(graph)
    # forward: 1 for x and 5 or 6 for h; backward: 5 through h, 1 for each gradient
    assert ops(after).count("dot") <= 1 + 6 + 5 + 2 < ops(graph).count("dot")
    for a, b in zip(graph.run(arrays), after.run(arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_sum_of_products_reads_rows_as_others_do():
    """Both products see one matrix of the rows of all steps, however they are ordered."""

    def fn(x, g, w):
        rows = x.permute(1, 0, 2).reshape(12, 5)
        return rows @ w, (x.permute(1, 2, 0) @ g).sum(0)

    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((3, 4, 5), (4, 3, 6), (5, 2))]
    graph = trace(fn, *map(eager.tensor, arrays)).graph
    after = run_passes(graph)
    moved = [n.attrs["dims"] for n in after.nodes if n.op.name == "permute"]
    assert sorted(moved) == [(1, 0), (1, 0, 2)]
    for a, b in zip(graph.run(arrays), after.run(arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_a_sum_of_large_products_stays():
    def fn(a, b, c, d):
        return a @ b + c @ d

    rng = np.random.default_rng(0)
    shapes = ((2, 50), (50, 3), (2, 40), (40, 3))
    arrays = [eager.tensor(rng.standard_normal(s).astype(np.float32)) for s in shapes]
    assert ops(run_passes(trace(fn, *arrays).graph)) == ["dot", "dot", "add"]
