"""Loops of a known length as one node: values, gradients of any order, draws, and what the passes
take out of them."""

import numpy as np
import pytest

import eager
from eager.nn import functional as F
from jitcap import explain, export, jit, load
from jitcap.graph.loops import SCAN, body_of
from jitcap.graph.show import reload, show
from jitcap.graph.tracer import trace
from jitcap.graph.verify import verify
from jitcap.passes import PASSES

pytestmark = pytest.mark.once

BACKENDS = ["eager", "python", "cpp"]


def floats(*shape, seed=0, dtype=np.float64, grad=True):
    data = 0.5 * np.random.default_rng(seed).standard_normal(shape)
    return eager.tensor(data.astype(dtype)).requires_grad_(grad)


def agree(found, expected, tolerance=1e-10):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance
        )


def cell(h, x, w):
    new = (h @ w + x).tanh()
    return new, (new * x).sin()


def gated(h, x, w):
    a, b = (x @ w).chunk(2, -1)
    return a.sigmoid() * h + b, (h.abs() + 1).log().sum(-1)


def pair(state, x, w):
    h, n = state
    h = F.layer_norm(h @ w + x, (4,))
    return (h, n + 1), {"y": h * n, "m": h.amax(-1)}


def nothing(h, x, w):
    return h, x @ w


def nested(h, x, w):
    last, ys = eager.scan(lambda c, r: (c * 0.5 + r @ w, c.sum()), h[0], x)
    return h * 0.5 + last, ys.sum() + x


def choosing(h, x, w):
    new = eager.cond(h.sum() > 0, lambda: h @ w, lambda: (h * x) @ w)
    return new.tanh() + x, new.sum()


PROGRAMS = {
    "cell": (cell, lambda h: h),
    "gated": (lambda h, x, w: gated(h, x, eager.cat([w, w], 1)), lambda h: h),
    "pair": (pair, lambda h: (h, eager.zeros((), dtype=eager.float64))),
    "nothing": (nothing, lambda h: h),
    "nested": (nested, lambda h: h),
    "choosing": (choosing, lambda h: h),
}


def total(tree):
    if isinstance(tree, eager.Tensor):
        return (tree * tree).sum()
    parts = tree.values() if isinstance(tree, dict) else tree
    return sum(map(total, parts))


def program(name, length, reverse):
    step, start = PROGRAMS[name]

    def run(h, xs, w):
        return eager.scan(lambda c, x: step(c, x, w), start(h), xs, reverse=reverse)

    given = floats(3, 4), floats(length, 3, 4, seed=1), floats(4, 4, seed=2)
    return run, given


# As C++ in one direction each: what lengths and directions change is in the loops, as Python has them.
CASES = [
    (name, length, reverse, backend)
    for i, name in enumerate(PROGRAMS)
    for length in (1, 5)
    for reverse in (False, True)
    for backend in BACKENDS
    if backend != "cpp" or (length == 5 and reverse == bool(i % 2))
]


@pytest.mark.parametrize(("name", "length", "reverse", "backend"), CASES)
def test_gradients_of_first_and_second_order(name, length, reverse, backend):
    run, given = program(name, length, reverse)

    def both(*given):
        first = eager.autograd.grad(total(run(*given)), given, create_graph=True)
        second = eager.autograd.grad(total(first), given)
        return [total(run(*given)), *first, *second]

    found = jit(both, fullgraph=True, backend=backend)(*given)
    agree(found, both(*given), 1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_gradient_asked_for_outside(name, backend):
    run, given = program(name, 5, False)
    compiled = jit(run, fullgraph=True, backend=backend)
    found = eager.autograd.grad(total(compiled(*given)), given)
    agree(found, eager.autograd.grad(total(run(*given)), given))


@pytest.mark.parametrize("backend", BACKENDS)
def test_single_precision_and_another_dimension(backend):
    h, w = floats(3, 4, dtype=np.float32), floats(4, 4, seed=2, dtype=np.float32)
    xs = floats(3, 6, 4, seed=1, dtype=np.float32)

    def run(h, xs, w):
        last, ys = eager.scan(lambda c, x: cell(c, x, w), h, xs, dim=1)
        return [last, ys, *eager.autograd.grad(total((last, ys)), (h, xs, w))]

    agree(jit(run, fullgraph=True, backend=backend)(h, xs, w), run(h, xs, w), 1e-4)


def test_no_steps():
    run, given = program("cell", 0, False)
    agree(jit(run, fullgraph=True)(*given), run(*given))


@pytest.mark.parametrize("unroll", [2, 3, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_several_steps_at_once(unroll, reverse):
    def run(h, xs, w):
        found = eager.scan(lambda c, x: cell(c, x, w), h, xs, reverse=reverse, unroll=unroll)
        return [*found, *eager.autograd.grad(total(found), (h, xs, w))]

    given = floats(3, 4), floats(7, 3, 4, seed=1), floats(4, 4, seed=2)
    agree(jit(run, fullgraph=True)(*given), run(*given))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_draws_are_those_of_the_loop(backend, reverse):
    def run(h, xs):
        before = eager.rand(2)

        def step(c, x):
            c = F.dropout(c + x, 0.3) + eager.rand(3, 4) * x
            _, ys = eager.scan(lambda d, y: (d + eager.rand(4), y * eager.rand(4)), c[0], x)
            return c * 0.5, ys

        last, ys = eager.scan(step, h, xs, reverse=reverse)
        grads = eager.autograd.grad(total((last, ys)), (h, xs))
        return [before, last, ys, *grads, eager.rand(2)]

    given = floats(3, 4), floats(5, 3, 4, seed=1)
    compiled = jit(run, fullgraph=True, backend=backend)
    for seed in (3, 4):
        eager.random.manual_seed(seed)
        expected = [*run(*given), eager.rand(3)]
        eager.random.manual_seed(seed)
        agree([*compiled(*given), eager.rand(3)], expected)


def test_maps_and_associative_scans():
    def run(x, w):
        mapped = eager.map(lambda row, k: (row @ k).relu(), x, w)
        prefixes = eager.associative_scan(lambda a, b: a * b, x, 0)
        return [mapped, prefixes, *eager.autograd.grad(total((mapped, prefixes)), (x, w))]

    x, w = floats(5, 3, 4), floats(4, 4, seed=1)
    agree(jit(run, fullgraph=True)(x, w), run(x, w))


def test_the_code_does_not_depend_on_the_length():
    def step(h, xs, w):
        last, ys = eager.scan(lambda c, x: cell(c, x @ w, w), h, xs)
        return eager.autograd.grad(total((last, ys)), (h, xs, w))

    kernels = set()
    for length in (40, 600):
        compiled = jit(step, fullgraph=True)
        compiled(floats(8, 16), floats(length, 8, 16, seed=1), floats(16, 16, seed=2))
        kernels.add(compiled.stats.kernels)
    assert len(kernels) == 1


# ---------------------------------------------------------------------------- passes


def optimised(fn, *examples):
    graph = trace(fn, *examples).graph
    for each, _ in PASSES:
        graph = each(graph)
        verify(graph)
    return graph


def ops(graph):
    return [n.op.name for n in graph.nodes]


def test_products_that_need_not_wait_leave_the_loop():
    def step(h, xs, w, u):
        return eager.scan(lambda c, x: ((c + x @ w).tanh(), c @ u), h, xs)

    given = floats(3, 8), floats(5, 3, 8, seed=1), floats(8, 8, seed=2), floats(8, 2, seed=3)
    graph = optimised(step, *given)
    (scan,) = (n for n in graph.nodes if n.op is SCAN)
    assert "dot" not in ops(body_of(scan))
    assert ops(graph).count("dot") == 2


def test_the_gradient_of_weights_is_one_product_after_the_loop():
    def step(h, xs, w):
        last, _ = eager.scan(lambda c, x: ((c @ w + x).tanh(), None), h, xs)
        return eager.autograd.grad(last.sum(), (w,))

    graph = optimised(step, floats(3, 8), floats(5, 3, 8, seed=1), floats(8, 8, seed=2))
    loops = [n for n in graph.nodes if n.op is SCAN]
    assert [ops(body_of(n)).count("dot") for n in loops] == [1, 1]
    assert ops(graph).count("dot") == 1


def test_one_loop_computes_what_the_backward_needs_too():
    def step(h, xs, w):
        last, ys = eager.scan(lambda c, x: cell(c, x, w), h, xs)
        return [last, ys, *eager.autograd.grad(total((last, ys)), (h, xs, w))]

    graph = optimised(step, floats(3, 8), floats(5, 3, 8, seed=1), floats(8, 8, seed=2))
    assert ops(graph).count("scan") == 2


def test_what_nobody_reads_is_not_carried():
    def step(h, xs):
        def body(state, x):
            a, b, c = state
            return (a + x, b * x, c), (b, a.sin())

        (a, _, c), (_, ys) = eager.scan(body, (h, h, h), xs)
        return a + c, ys

    graph = optimised(step, floats(3), floats(5, 3, seed=1))
    (scan,) = (n for n in graph.nodes if n.op is SCAN)
    assert (scan.attrs["carried"], len(scan.avals)) == (1, 2)


def test_other_gradients_of_constants_are_added_up_in_the_loop():
    def step(h, xs, table):
        places = eager.arange(3)

        def body(c, x):
            return (c + table.index_select(0, places) * x).sin(), None

        last, _ = eager.scan(body, h, xs)
        return eager.autograd.grad(last.sum(), (table,))

    given = floats(3, 4), floats(5, 3, 4, seed=1), floats(9, 4, seed=2)
    graph = optimised(step, *given)
    assert all(a.ndim < 3 or a.shape[1] < 9 for n in graph.nodes for a in n.avals)
    agree(jit(step, fullgraph=True)(*given), step(*given))


def test_a_print_captures_to_the_same_graph():
    def step(h, xs, w):
        last, ys = eager.scan(lambda c, x: (cell(c, x, w)[0], c.sum()), h, xs, reverse=True)
        return last, ys

    given = floats(3, 4, grad=False), floats(5, 3, 4, seed=1, grad=False), floats(4, 4, grad=False)
    graph = trace(step, *given).graph
    fn = reload(show(graph))
    again = trace(fn, *(i.aval for i in graph.inputs)).graph
    assert show(again, lines=False) == show(graph, lines=False)
    agree(fn(*given), step(*given))


# ---------------------------------------------------------------------------- what is refused


def test_an_index_out_of_range_in_a_step_is_pythons():
    def step(h, xs, places):
        return eager.scan(lambda c, x: (c + x[0][x[1].long()], None), h, (xs, places))

    def run(h, xs, places):
        last, _ = eager.scan(lambda c, x: (c + x[0][x[1]], None), h, (xs, places))
        return last

    xs = floats(4, 3, grad=False)
    good, bad = eager.tensor([0, 2, 1, 0]), eager.tensor([0, 2, 7, 0])
    h = eager.zeros((), dtype=eager.float64)
    compiled = jit(run)
    agree([compiled(h, xs, good)], [run(h, xs, good)])
    with pytest.raises(IndexError):
        compiled(h, xs, bad)
    agree([compiled(h, xs, good)], [run(h, xs, good)])


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_a_body_that_changes_something_runs_plainly():
    seen = []

    def run(h, xs):
        def body(c, x):
            seen.append(1)
            return c + x, None

        return eager.scan(body, h, xs)[0]

    h, xs = floats(3, grad=False), floats(4, 3, seed=1, grad=False)
    compiled = jit(run)
    agree([compiled(h, xs)], [h + xs.sum(0)])
    agree([compiled(h, xs)], [h + xs.sum(0)])
    assert len(seen) == 8


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_a_body_that_writes_its_carry_runs_plainly():
    def run(h, xs):
        def body(c, x):
            c.add_(x)
            return c, None

        return eager.scan(body, h, xs)[0] * 1

    xs = floats(4, 3, seed=1, grad=False)
    mine, theirs = floats(3, grad=False), floats(3, grad=False)
    agree([jit(run)(mine, xs)], [run(theirs, xs)])
    agree([mine], [theirs])


def test_explain_shows_the_loop():
    run, given = program("cell", 5, False)
    assert "repeat(1, 1, 5, False" in explain(run)(*given).stages["graph"]


def test_a_loop_is_exported(tmp_path):
    h, xs, w = floats(3, 4, grad=False), floats(5, 3, 4, seed=1, grad=False), floats(4, 4)

    def run(h, xs):
        return eager.scan(lambda c, x: cell(c, x, w), h, xs)

    export(run, (h, xs)).save(tmp_path / "loop.jit")
    agree(load(tmp_path / "loop.jit")(h, xs), run(h, xs))


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_triton_without_a_device_runs_op_by_op():
    run, given = program("cell", 5, False)
    given = tuple(t.detach().float() for t in given)
    agree(jit(run, backend="triton")(*given), run(*given), 1e-4)


def test_the_graph_of_a_ctc_loss_does_not_grow_with_the_time():
    def nodes(time):
        scores = eager.zeros(time, 2, 5).requires_grad_()
        given = eager.tensor([[1, 2, 2], [3, 1, 0]]), (time, time - 1), (3, 2)
        made = explain(lambda x: F.ctc_loss(x.log_softmax(-1), *given))(scores)
        return made.stages["graph"].count("\n")

    assert nodes(4) == nodes(40)


def scaled(s, w, t):
    return (s @ w) * 0.9**t


def read_by_a_sum(s, w, t):
    return ((s @ w) / (t + 1.0)).sum()


def added(s, w, t):
    return s + (s @ w) - t * 0.5


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("product", [scaled, read_by_a_sum, added])
def test_numbers_of_the_step_do_not_promote_products_that_leave_the_loop(product, dtype):
    """The numbers of all steps would be a tensor of float64 behind the loop."""

    def step(x, w):
        s, out = x * 1, []
        for t in range(18):
            s = eager.tanh(product(x, w, t) + s)
            out.append(product(s, w, t))
        grads = eager.autograd.grad(eager.stack(out).float().sum(), (x, w))
        return eager.stack(out), out[2], *grads

    kind = getattr(eager, dtype)
    values = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    x = eager.tensor(values).to(kind).requires_grad_()
    w = eager.tensor(np.eye(3, dtype=np.float32) / 2).to(kind).requires_grad_()
    tolerance = {"float32": 1e-5, "bfloat16": 0.1, "float16": 0.01}[dtype]
    for got, want in zip(jit(step, backend="eager")(x, w), step(x, w), strict=True):
        assert got.dtype is want.dtype is kind
        np.testing.assert_allclose(
            got.detach().float().numpy(),
            want.detach().float().numpy(),
            rtol=tolerance,
            atol=tolerance,
        )
