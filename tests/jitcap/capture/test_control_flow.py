"""`eager.cond` and its like under @jit: one graph, both arms, and what cannot be said is refused."""

import re

import numpy as np
import pytest

import eager
from jitcap import custom_op, explain, jit, stance
from jitcap.base.breaks import Break
from jitcap.base.diagnostics import JitcapWarning

SPLITS = pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
LOG = []
TABLE = {}


class Box:
    value = 0


BOX = Box()
W = eager.tensor([3.0, 4.0, 5.0])
A = eager.eye(3)
LAYER = eager.nn.Linear(3, 3)


def arms_over_a_module_global(x):
    return eager.cond(x.sum() > 0, lambda a: a * W, lambda a: (a * 3).exp(), (x,))


def arms_with_keywords(x):
    return eager.cond(pred=x.sum() > 0, true_fn=eager.sin, false_fn=eager.cos, operands=[x])


def trees(x):
    def true(d):
        return {"a": d["a"] + 1, "n": (d["b"], 1)}

    def false(d):
        return {"a": d["b"], "n": (d["a"] * 2, 1)}

    found = eager.cond(x.sum() > 0, true, false, ({"a": x, "b": x.exp()},))
    return found["a"] + found["n"][0] * found["n"][1]


def own_lists(x):
    def true():
        parts = []
        for i in range(3):
            parts.append(x * i)
        return sum(parts)

    return eager.cond(x.sum() > 0, true, lambda: x)


def draws(x):
    y = eager.cond(x.sum() > 0, lambda: x + eager.rand(3), lambda: x - eager.rand(3))
    return y + eager.rand(3)


def branches(x):
    index = (x > 0).sum()
    return eager.switch(index, (lambda a: a, lambda a: a * 2, eager.exp), x)


def numbers_inside(x):
    n = x.sum().item()
    y, m = eager.cond(n > 0, lambda: (x * n, 2.5), lambda: (x, n))
    return y * m


def doubling(x):
    return eager.while_loop(
        lambda i, y: y.abs().sum() < 100, lambda i, y: (i + 1, y * 2 + W), (0, x)
    )


def rounds_from_a_tensor(x):
    return eager.fori_loop(0, (x > 0).sum() + 2, lambda i, v: v * 0.5 + i, x)


def a_layer_in_an_arm(x):
    return eager.cond(x.sum() > 0, LAYER, eager.relu, (x,))


def an_index_that_only_one_arm_may_use(x):
    place = (x > 0).sum() + 1
    return eager.cond(place < 3, lambda: x[place], lambda: x[0] * 0)


def views_as_operands(x):
    m = x.expand(2, 3).t() * 1
    return eager.cond(x.sum() > 0, lambda a, b: a.t() @ b, lambda a, b: b[:2, :2] * 3,
                      (m.t().t()[:, 1:].expand(3, 2), m))  # fmt: skip


def a_write_after_a_choice(x):
    y = eager.cond(x.sum() > 0, lambda: x * 2, lambda: x * 3)
    x.sub_(y)
    return x * 1


def numbers_that_a_loop_carries(x):
    return eager.while_loop(
        lambda n, f, t, y: t, lambda n, f, t, y: (n + 2, f * 0.5, (y.sum() < 40).item(), y * 2),
        (1, 3.0, (x.sum() < 40).item(), x.abs())
    )  # fmt: skip


def loops_inside_arms(x):
    def true():
        return eager.while_loop(lambda y: y.sum() < 30, lambda y: (y * 2,), (x,))[0]

    def body(i, y):
        return eager.cond(y[0] > 2, lambda: y - 1, lambda: y + i)

    return eager.cond(x.sum() > 0, true, lambda: eager.fori_loop(0, (x < 0).sum(), body, x))


def equal_arms_twice(x):
    def pick(a):
        return eager.cond(a.sum() > 0, lambda: a * 2, lambda: a.exp())

    return pick(x) + pick(pick(-x))


def a_double_choice(x):
    x = x.to(eager.float64)
    return eager.cond(
        x.sum() > 0, lambda: (x.to(eager.int32), x > 1), lambda: (x.to(eager.int32) * 2, x < 1)
    )


PROGRAMS = [
    views_as_operands, a_write_after_a_choice, numbers_that_a_loop_carries, loops_inside_arms,
    equal_arms_twice, a_double_choice,
    arms_over_a_module_global, arms_with_keywords, trees, own_lists, draws, branches,
    numbers_inside, doubling, rounds_from_a_tensor, a_layer_in_an_arm,
    an_index_that_only_one_arm_may_use,
]  # fmt: skip
INPUTS = ([1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [-5.0, 1.0, 1.0], [4.0, 1.0, -1.0])


def flat(value):
    return [
        x.detach().numpy() if isinstance(x, eager.Tensor) else x
        for x in eager.base.tree.flatten(value)[0]
    ]


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("backend", ["cpp", "python", "eager"])
def test_one_graph_and_the_results_of_plain_python(fn, backend):
    step = jit(fn, fullgraph=True, backend=backend)
    for values in INPUTS:
        x, y = eager.tensor(values), eager.tensor(values)
        eager.manual_seed(5)
        expected = [fn(x), fn(x), x]
        eager.manual_seed(5)
        found = [step(y), step(y), y]
        for a, b in zip(flat(found), flat(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-6)
    assert step.stats.compiles == 1
    assert step.stats.splits == step.stats.fallbacks == step.stats.discards == 0


@pytest.mark.once
def test_each_call_is_compared_with_the_plain_one():
    for fn in PROGRAMS:
        if fn is a_layer_in_an_arm:  # one arm has a gradient: see below
            continue
        step = jit(fn, verify=True)
        for values in INPUTS:
            step(eager.tensor(values))


def gradients(x, w):
    y = eager.cond(x.sum() > 0, lambda: w * w * x, lambda: (w * 2).exp())
    loss = y.sum() * 2
    loss.backward()
    return loss


def second(x, w):
    y = eager.cond(x.sum() > 0, lambda: w * w * w * x, lambda: (w * 2).exp())
    (g,) = eager.autograd.grad(y.sum(), [w], create_graph=True)
    (g * g).sum().backward()
    return y


@pytest.mark.parametrize("fn", [gradients, second], ids=lambda fn: fn.__name__)
def test_gradients_inside(fn):
    step = jit(fn, fullgraph=True)
    for values in INPUTS:
        grads = []
        for run in (fn, step):
            w = eager.tensor([0.5, -0.25, 0.125], requires_grad=True)
            loss = run(eager.tensor(values), w)
            grads += [loss.detach().numpy(), w.grad.numpy()]
        for a, b in zip(grads[:2], grads[2:], strict=True):
            np.testing.assert_allclose(b, a, rtol=2e-6)
    assert step.stats.compiles == 1


def test_one_arm_runs():
    """The entry branches to functions of the arms; an operation that fails in the other arm does
    not, and a function that compiled code calls back is called by the arm that runs alone."""
    calls = []

    @custom_op("tests::counted_arm")
    def counted(x):
        calls.append(1)
        return x * 2

    @counted.register_fake
    def _(x):
        return eager.empty_like(x)

    def fn(x):
        return eager.cond(x.sum() > 0, lambda: counted(x), lambda: eager.linalg.cholesky(-x * A)[0])

    step = jit(fn, fullgraph=True)
    calls.clear()
    np.testing.assert_allclose(step(eager.tensor(INPUTS[0])).numpy(), [2, 4, 6])
    assert len(calls) == 1
    assert step(eager.tensor(INPUTS[1])).shape == (3,)
    assert len(calls) == 1
    assert step.stats.compiles == 1
    assert step.stats.discards == 0
    source = explain(arms_over_a_module_global)(eager.tensor(INPUTS[0])).stages["source"]
    assert re.search(
        r"if \(pick == 0 \? body\d\(q, z, .*\) : body\d\(q, z, .*\)\) return 1;", source
    )


def test_gradients_from_outside():
    def fn(x, w):
        return eager.cond(x.sum() > 0, lambda: w * w * x, lambda: (w * 2).exp() + x)

    step = jit(fn, fullgraph=True)
    for values in INPUTS:
        grads = []
        for run in (fn, step):
            w = eager.tensor([0.5, -0.25, 0.125], requires_grad=True)
            run(eager.tensor(values), w).sum().backward()
            grads.append(w.grad.numpy())
        np.testing.assert_allclose(grads[1], grads[0], rtol=2e-6)


def test_triton_runs_op_by_op():
    pytest.importorskip("triton.language")
    step, x = jit(arms_with_keywords, backend="triton"), eager.tensor(INPUTS[0])
    with pytest.warns(JitcapWarning, match="op by op: the triton backend does not compile cond"):
        found = step(x)
    np.testing.assert_allclose(found.numpy(), x.sin().numpy(), rtol=1e-6)


def test_a_result_requires_a_gradient_if_it_does_in_one_arm():
    step = jit(a_layer_in_an_arm, fullgraph=True)
    plain, compiled = (f(eager.tensor(INPUTS[1])) for f in (a_layer_in_an_arm, step))
    assert (plain.requires_grad, compiled.requires_grad) == (False, True)
    LAYER.zero_grad()
    compiled.sum().backward()
    assert LAYER.bias.grad.tolist() == [0, 0, 0]


# ---- what an arm may not do


def appends(x):
    return eager.cond(x.sum() > 0, lambda: LOG.append(1) or x * 2, lambda: x)


def appends_to_a_local(x):
    seen = []
    y = eager.cond(x.sum() > 0, lambda: seen.append(1) or x * 2, lambda: x)
    return y * len(seen)


def stores_in_a_dictionary(x):
    def true():
        TABLE["y"] = 1
        return x

    return eager.cond(x.sum() > 0, true, lambda: x * 2)


def sets_an_attribute(x):
    def true():
        BOX.value += 1
        return x

    return eager.cond(x.sum() > 0, true, lambda: x * 2)


def sets_a_local(x):
    n = 1

    def true():
        nonlocal n
        n = 2
        return x

    return eager.cond(x.sum() > 0, true, lambda: x * 2) * n


def prints(x):
    return eager.cond(x.sum() > 0, lambda: print("yes") or x, lambda: x * 2)


def advances_an_iterator(x):
    numbers = iter([1, 2, 3])
    y = eager.cond(x.sum() > 0, lambda: x * next(numbers), lambda: x)
    return y * next(numbers)


def advances_a_generator(x):
    numbers = (n for n in (1, 2, 3))
    y = eager.cond(x.sum() > 0, lambda: x * next(numbers), lambda: x)
    return y * next(numbers)


def writes_in_place(x):
    y = x.clone()
    eager.cond(x.sum() > 0, lambda: y.add_(1), lambda: y * 1)
    return y


def writes_in_place_outside(x):
    eager.cond(x.sum() > 0, lambda: W.add_(1), lambda: W * 1)
    return x * W


def seeds(x):
    def true():
        eager.manual_seed(7)
        return x

    return eager.cond(x.sum() > 0, true, lambda: x * 2) + eager.rand(3)


def a_gradient_that_stays(x):
    w = (x * 1).requires_grad_()

    def true():
        (w * w).sum().backward()
        return x

    y = eager.cond(x.sum() > 0, true, lambda: x * 2)
    return y, w.grad is None


EFFECTS = [
    appends, appends_to_a_local, stores_in_a_dictionary, sets_an_attribute, sets_a_local, prints,
    advances_an_iterator, advances_a_generator, writes_in_place, writes_in_place_outside,
    seeds, a_gradient_that_stays,
]  # fmt: skip


def world(fn, values, capsys):
    """What a call gives and leaves behind, starting from the same world."""
    LOG.clear()
    TABLE.clear()
    BOX.value = 0
    W.copy_(eager.tensor([3.0, 4.0, 5.0]))
    eager.manual_seed(1)
    results = [flat(fn(eager.tensor(values))) for _ in range(2)]
    rest = [*LOG], {**TABLE}, BOX.value, W.numpy().copy(), eager.rand(2).numpy()
    return [results, rest, capsys.readouterr().out]


@SPLITS
@pytest.mark.parametrize("fn", EFFECTS, ids=lambda fn: fn.__name__)
def test_an_effect_of_an_arm_is_refused(fn, capsys):
    step = jit(fn, backend="python")
    for values in (*INPUTS, *INPUTS):
        found, expected = world(step, values, capsys), world(fn, values, capsys)
        np.testing.assert_equal(found, expected)
    with pytest.raises(Break):
        jit(fn, fullgraph=True)(eager.tensor(INPUTS[0]))


@SPLITS
def test_arms_that_differ_run_plainly():
    def fn(x):
        return eager.cond(x.sum() > 0, lambda: x, lambda: x[:2])

    step = jit(fn)
    assert [step(eager.tensor(v)).shape[0] for v in INPUTS[:2]] == [3, 2]
    with pytest.raises(Break, match="true_fn gives"):
        jit(fn, fullgraph=True)(eager.tensor(INPUTS[0]))


@SPLITS
def test_an_exception_of_an_arm_is_python_s():
    def fn(x):
        def false():
            raise ValueError("no")

        return eager.cond(x.sum() > 0, lambda: x, false)

    step = jit(fn)
    assert step(eager.tensor(INPUTS[0])).shape == (3,)
    with pytest.raises(ValueError, match="no"):
        step(eager.tensor(INPUTS[1]))


def test_stance_eager_runs_the_function_itself():
    step = jit(arms_over_a_module_global)
    with stance("eager"):
        assert step(W).shape == (3,)
    assert step.stats.compiles == 0
