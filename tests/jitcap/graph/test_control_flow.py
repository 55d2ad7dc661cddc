"""Control flow in the graph: nodes that hold graphs, through printing, passes and evaluation."""

import numpy as np
import pytest

import eager
from jitcap.graph.show import module, reload, show
from jitcap.graph.subgraphs import COND, WHILE, everywhere, subgraphs
from jitcap.graph.tracer import DataDependent, trace
from jitcap.graph.verify import GraphError, verify
from jitcap.passes import PASSES
from jitcap.passes.dead import dead_code


def floats(*shape, seed=0):
    return eager.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


W = floats(3, seed=9)


def one_of_two(x):
    return eager.cond(x.sum() > 0, lambda a: a * 2, lambda a: (a - 1).exp(), (x,))


def a_closure(x):
    scale = x.mean()
    return eager.cond(x[0] > 0, lambda: x * scale + W, lambda: x - scale) + scale


def several_results(x):
    def true(a):
        return {"y": a * 2, "n": a.sum()}, a

    def false(a):
        return {"y": a, "n": a.prod()}, a

    found, same = eager.cond(x.sum() > 0, true, false, (x,))
    return found["y"] + same, found["n"]


def numbers(x):
    n, same = eager.cond(x.sum() > 0, lambda: (1.5, 2), lambda: (-1.5, 2))
    assert same == 2
    return x * n + same


def nested(x):
    def inner(a):
        return eager.cond(a[0] > a[1], lambda b: b.sin(), lambda b: b.cos(), (a,))

    return eager.cond(x.sum() > 0, inner, lambda a: a, (x,))


def one_of_three(x):
    place = (x > 0).sum()
    return eager.switch(place, [lambda a: a, lambda a: -a, lambda a: a * a], x)


def until_large(x):
    count, y = eager.while_loop(
        lambda i, y: y.abs().sum() < 50, lambda i, y: (i + 1, y * 1.5 + W), (0, x)
    )
    return y + count


def bounds_in_tensors(x):
    return eager.fori_loop(0, (x > 0).sum(), lambda i, v: v * 2 + i, x)


def gradients(x):
    w = x.detach().requires_grad_()
    y = eager.cond(w.sum() > 0, lambda: w * w * w, lambda: (w * 2).exp())
    (g,) = eager.autograd.grad(y.sum(), [w], create_graph=True)
    (h,) = eager.autograd.grad((g * g).sum(), [w], create_graph=True)
    (k,) = eager.autograd.grad(h.sum(), [w])
    return y.detach(), g.detach(), h.detach(), k


def a_gradient_through_both(x):
    w = x.detach().requires_grad_()
    a, b = w * 2, w.exp()
    y = eager.cond(a.sum() > 0, lambda: a * b, lambda: a + a)
    (g,) = eager.autograd.grad((y * b).sum(), [w])
    return g


def a_gradient_of_a_nested_choice(x):
    w = x.detach().requires_grad_()

    def inner():
        return eager.cond(w[0] > w[1], lambda: w.sin() * w, lambda: w.cos())

    y = eager.cond(w.sum() > 0, inner, lambda: w * w * 3)
    (g,) = eager.autograd.grad(y.sum(), [w], create_graph=True)
    (h,) = eager.autograd.grad(g.sum(), [w])
    return y.detach(), g.detach(), h


PROGRAMS = [
    one_of_two, a_closure, several_results, numbers, nested, one_of_three, until_large,
    bounds_in_tensors, gradients, a_gradient_through_both, a_gradient_of_a_nested_choice,
]  # fmt: skip
INPUTS = [[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [2.0, -0.5, 1.0], [-4.0, 0.5, 1.0]]


def optimised(graph):
    for each, _ in PASSES:
        graph = each(graph)
        verify(graph, each.__name__)
    return graph


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("passes", [False, True])
def test_the_graph_computes_what_the_function_does(fn, passes):
    traced = trace(fn, eager.tensor(INPUTS[0]))
    verify(traced.graph)
    graph = optimised(traced.graph) if passes else traced.graph
    for values in INPUTS:
        x = eager.tensor(values)
        results = fn(x)
        results = results if isinstance(results, tuple) else (results,)
        got = graph.run([x.numpy(), *(c.numpy() for c in traced.constants)])
        for a, b in zip(got, results, strict=True):
            assert a.dtype == b.numpy().dtype
            np.testing.assert_allclose(a, b.numpy(), rtol=1e-6)


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_the_print_captures_to_the_same_graph(fn):
    x = eager.tensor(INPUTS[0])
    traced = trace(fn, x)
    for graph in (dead_code(traced.graph), optimised(traced.graph)):
        text = show(graph, lines=False).replace("c0", "x1")
        again = trace(reload(text), x, *traced.constants)
        assert show(dead_code(again.graph), lines=False) == text


def test_the_print_is_a_program_that_runs():
    graph = trace(one_of_two, floats(3)).graph
    scope = {"__name__": "shown"}
    exec(module(graph), scope)
    x = floats(3)
    np.testing.assert_array_equal(scope["graph"](x)[0], one_of_two(x))


def test_one_node_with_a_graph_for_each_arm():
    graph = trace(one_of_two, floats(3)).graph
    (node,) = [n for n in graph.nodes if n.op is COND]
    assert [[n.op.name for n in g.nodes] for g in subgraphs(node)] == [["sub", "exp"], ["mul"]]
    assert len([*everywhere(graph)]) == 1 + len(graph.nodes) + 1 + 2 + 1 + 1


def test_dead_outputs_and_operands_are_dropped():
    def fn(x):
        big = x.exp()
        y, _, z = eager.cond(x[0] > 0, lambda: (x + 1, big, x), lambda: (x - 1, big * 2, x))
        return y + z

    graph = optimised(trace(fn, floats(3)).graph)
    (node,) = [n for n in graph.nodes if n.op is COND]
    assert len(node.avals) == 1
    assert len(node.args) == 2
    assert "exp" not in [n.op.name for n in everywhere(graph)]


def test_what_a_loop_does_not_change_is_not_carried():
    def fn(x):
        y, _, n = eager.while_loop(
            lambda y, x, n: y.sum() < 10, lambda y, x, n: (y + x, x, n * 2), (x * 1, x.exp(), x)
        )
        return y

    graph = optimised(trace(fn, floats(3)).graph)
    (node,) = [n for n in graph.nodes if n.op is WHILE]
    assert node.attrs["carried"] == 1


def test_passes_run_inside():
    graph = trace(
        lambda x: eager.cond(x[0] > 0, lambda: x * 1 + (-(x * 3)), lambda: x), floats(3)
    ).graph
    (node,) = [n for n in optimised(graph).nodes if n.op is COND]
    assert [n.op.name for n in subgraphs(node)[1].nodes] == ["mul", "sub"]


def test_verify_looks_inside():
    graph = trace(one_of_two, floats(3)).graph
    (node,) = [n for n in graph.nodes if n.op is COND]
    good, bad = subgraphs(node)
    node.attrs["graphs"] = (good, bad.with_(outputs=bad.inputs * 2))
    with pytest.raises(GraphError, match="gives"):
        verify(graph)


# ---- what does not fit


@pytest.mark.parametrize(
    ("true", "false", "words"),
    [
        (lambda x: x, lambda x: x[:2], r"false_fn gives float32\[2\], true_fn gives float32\[3\]"),
        (lambda x: x, lambda x: x.to(eager.float64), r"float64\[3\].*float32\[3\]"),
        (lambda x: (x, x), lambda x: x, r"false_fn gives \*, true_fn gives \(\*, \*\)"),
        (lambda x: 1, lambda x: 1.0, r"a number \(float\), true_fn gives a number \(int\)"),
        (lambda x: (x, x), lambda x: (x, x[0]), "as result 1"),
    ],
)
def test_arms_that_differ_are_named(true, false, words):
    with pytest.raises(TypeError, match=words):
        trace(lambda x: eager.cond(x[0] > 0, true, false, (x,)), floats(3))


def test_a_result_that_is_no_tensor():
    with pytest.raises(TypeError, match="got a str"):
        eager.cond(True, lambda: "a", lambda: "b")


@pytest.mark.parametrize("traced", [False, True])
def test_a_body_that_changes_what_it_carries(traced):
    def fn(x):
        return eager.while_loop(lambda x: x.sum() < 5, lambda x: (x.sum(),), (x.abs(),))

    with pytest.raises(TypeError, match=r"carried gives float32\[3\], the body gives float32\[\]"):
        trace(lambda x: fn(x)[0], floats(3)) if traced else fn(floats(3))


def test_a_condition_needs_one_element():
    with pytest.raises(RuntimeError, match=r"one element, got a tensor of bool\[3\]"):
        eager.cond(floats(3) > 0, lambda: 1, lambda: 2)


def test_a_write_in_an_arm_is_refused():
    with pytest.raises(DataDependent, match="writes in place"):
        trace(lambda x: eager.cond(x[0] > 0, lambda: x.add_(1), lambda: x), floats(3))


def test_a_write_to_what_the_arm_made_is_its_own():
    def fn(x):
        return eager.cond(x[0] > 0, lambda: x.clone().mul_(3), lambda: x)

    graph = trace(fn, floats(3)).graph
    np.testing.assert_array_equal(graph.run([np.ones(3, np.float32)])[0], [3, 3, 3])


def test_results_share_no_memory():
    x = floats(3)
    y = eager.cond(True, lambda: x, lambda: -x)
    y.add_(1)
    assert not np.array_equal(x.numpy(), y.numpy())


def test_values_of_a_part_are_forgotten_outside():
    """A view that an arm reads anew, and a number that it computes, are computed again outside."""

    def fn(x):
        y = x * 1
        part, n = y[1:], x.sum().item() * 2.0
        y.add_(1)
        z = eager.cond(x[0] > 0, lambda: part * n, lambda: part + 1)
        return z + part + n

    x = floats(3)
    graph = trace(fn, x).graph
    verify(graph)
    np.testing.assert_allclose(graph.run([x.numpy()])[0], fn(x).numpy(), rtol=1e-6)


def test_the_gradient_of_an_unbounded_loop_is_refused():
    def fn(x):
        w = x.detach().requires_grad_()
        (y,) = eager.while_loop(lambda y: y.sum() < 50, lambda y: (y * 2 + 1,), (w,))
        y.sum().backward()
        return w.grad

    assert fn(floats(3)) is not None
    with pytest.raises(RuntimeError, match="length is known only when it runs"):
        trace(fn, floats(3))


def test_zeros_for_what_an_arm_does_not_touch():
    def fn(x, y):
        v, w = x.detach().requires_grad_(), y.detach().requires_grad_()
        z = eager.cond(x[0] > 0, lambda: v * 2, lambda: w * 3)
        return eager.autograd.grad(z.sum(), [v, w])

    graph = trace(fn, floats(3), floats(3)).graph
    x = np.ones(3, np.float32)
    assert [list(g) for g in graph.run([x, x])] == [[2, 2, 2], [0, 0, 0]]
    assert [list(g) for g in graph.run([-x, x])] == [[0, 0, 0], [3, 3, 3]]


# ---- in eager


def test_eager_runs_what_is_taken():
    ran = []
    eager.cond(eager.tensor(True), lambda: ran.append("yes") or 1, lambda: ran.append("no") or 2)
    assert ran == ["yes"]


@pytest.mark.parametrize(("index", "expected"), [(-3, 0), (0, 0), (1, 1), (2, 2), (9, 2)])
def test_switch_takes_the_nearest_branch(index, expected):
    for given in (index, eager.tensor(index)):
        assert eager.switch(given, [lambda: 0, lambda: 1, lambda: 2]) == expected


def test_as_torch():
    torch = pytest.importorskip("torch")
    x = np.arange(3, dtype=np.float32)
    ours = eager.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.sin()),
                            (eager.tensor(0), eager.tensor(x)))  # fmt: skip
    theirs = torch._higher_order_ops.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, x.sin()), (torch.tensor(0), torch.tensor(x))
    )
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    for value in (x, -x - 1):
        ours = eager.cond(eager.tensor(value).sum() > 0, lambda a: a.cos(), lambda a: a.sin(),
                          (eager.tensor(value),))  # fmt: skip
        theirs = torch.cond(torch.tensor(value).sum() > 0, lambda a: a.cos(), lambda a: a.sin(),
                            (torch.tensor(value),))  # fmt: skip
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)
