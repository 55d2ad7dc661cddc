"""The tape: accumulation, hooks, modes, custom functions, freed graphs, versions, in-place on views."""

import threading

import numpy as np
import pytest

import eager
from eager.autograd import graph
from jitcap import jit

torch = pytest.importorskip("torch")


def leaf(module, *values):
    return module.tensor(list(values), dtype=module.float64, requires_grad=True)


def same(mine, reference, rtol=1e-12):
    np.testing.assert_allclose(mine.detach().numpy(), reference.detach().numpy(), rtol=rtol)


def both(program):
    """Run a program on both libraries; every tensor it returns must agree."""
    mine, reference = program(eager), program(torch)
    for a, b in zip(mine, reference, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            same(a, b)


def test_gradients_accumulate_and_reused_tensors_add():
    def program(m):
        x = leaf(m, 1.0, 2.0, 3.0)
        y = x * x + x.sin() * x
        y.sum().backward()
        (x * 2).sum().backward()
        return [x.grad]

    both(program)


def test_backward_with_gradient_and_retain_graph():
    def program(m):
        x = leaf(m, 1.0, 2.0)
        y = x.exp()
        y.backward(m.tensor([1.0, 10.0], dtype=m.float64), retain_graph=True)
        y.backward(m.tensor([1.0, 1.0], dtype=m.float64))
        return [x.grad]

    both(program)


def test_a_freed_graph_says_so():
    x = leaf(eager, 1.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_non_scalar_needs_a_gradient():
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar"):
        (leaf(eager, 1.0, 2.0) * 2).backward()


def test_nothing_requires_grad():
    with pytest.raises(RuntimeError, match="does not require grad"):
        eager.ones(1).sum().backward()


def test_double_backward():
    def program(m):
        x = leaf(m, 0.3, 0.7)
        (g,) = m.autograd.grad((x.sin() * x.exp()).sum(), x, create_graph=True)
        (gg,) = m.autograd.grad((g * g).sum(), x, create_graph=True)
        (ggg,) = m.autograd.grad(gg.sum(), x)
        return [g, gg, ggg]

    both(program)


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")
def test_backward_with_create_graph_then_backward():
    def program(m):
        x = leaf(m, 0.3, 0.7)
        (x**3).sum().backward(create_graph=True)
        g = x.grad
        x.grad = None
        (g * g).sum().backward()
        return [x.grad]

    both(program)


def test_grad_of_intermediates_unused_and_materialised():
    x, z = leaf(eager, 1.0, 2.0), leaf(eager, 5.0)
    y = x * 3
    out = (y * y).sum()
    gy, gx = eager.autograd.grad(out, (y, x), retain_graph=True)
    assert gy.tolist() == [6.0, 12.0]
    assert gx.tolist() == [18.0, 36.0]
    with pytest.raises(RuntimeError, match="not have been used"):
        eager.autograd.grad(out, (x, z), retain_graph=True)
    assert eager.autograd.grad(out, (x, z), retain_graph=True, allow_unused=True)[1] is None
    assert eager.autograd.grad(out, (x, z), materialize_grads=True)[1].tolist() == [0.0]
    assert x.grad is None


def test_grad_takes_the_arguments_of_torch_in_their_order():
    x = eager.tensor([1.0, 2.0], requires_grad=True)
    unused = eager.zeros(2, requires_grad=True)
    found = eager.autograd.grad((x * x).sum(), [x, unused], None, True, False, True, True)
    assert found[0].tolist() == [2, 4]
    assert found[1] is None
    out = x * x
    rows = eager.autograd.grad([out], [x, unused], [eager.eye(2)], True, False, True, True, True)
    assert rows[0].tolist() == [[2, 0], [0, 4]]
    assert rows[1] is None


def test_grad_goes_no_further_than_its_inputs():
    """What lies behind the inputs is not computed, so it is not used up and no hook is called."""
    x = eager.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    x.register_hook(seen.append)
    y = x * x
    z = y * 3
    loss = (z * z).sum()
    (found,) = eager.autograd.grad(loss, y)
    assert found.tolist() == [18, 72]
    assert seen == []
    loss = (y * y).sum()
    loss.backward(inputs=[y])
    assert y.grad.tolist() == [2, 8]
    assert x.grad is None
    y.sum().backward()
    assert x.grad.tolist() == [2, 4]
    assert len(seen) == 1


def test_hooks_on_leaves_and_results():
    def program(m):
        seen = []
        x = leaf(m, 1.0, 2.0)
        y = x * 2
        handle = y.register_hook(lambda g: g * 10)
        x.register_hook(lambda g: seen.append(g.clone()) or g + 1)
        x.register_post_accumulate_grad_hook(lambda p: None if p.grad.mul_(2) is None else None)
        y.sum().backward(retain_graph=True)
        first = x.grad.clone()
        handle.remove()
        x.grad = None
        y.sum().backward()
        return [first, x.grad, *seen]

    both(program)


def test_retain_grad():
    def program(m):
        x = leaf(m, 1.0, 2.0)
        y = x * x
        y.retain_grad()
        (y * y).sum().backward()
        return [x.grad, y.grad]

    both(program)


def test_backward_inputs_only():
    x, w = leaf(eager, 1.0), leaf(eager, 2.0)
    (x * w).sum().backward(inputs=[w])
    assert x.grad is None
    assert w.grad.tolist() == [1.0]


def test_gradients_of_two_leaves_do_not_share_memory():
    x, y = leaf(eager, 1.0), leaf(eager, 2.0)
    (x + y).sum().backward()
    x.grad.mul_(5)
    assert y.grad.tolist() == [1.0]


def test_modes_as_contexts_and_decorators():
    x = leaf(eager, 1.0)
    with eager.no_grad():
        assert not (x * 2).requires_grad
        with eager.enable_grad():
            assert (x * 2).requires_grad
    assert not eager.no_grad()(lambda: x * 2)().requires_grad
    assert not eager.no_grad(lambda: x * 2)().requires_grad
    assert not eager.inference_mode()(lambda: x * 2)().requires_grad
    with eager.set_grad_enabled(False):
        assert not eager.is_grad_enabled()
    eager.set_grad_enabled(False)
    try:
        assert not (x * 2).requires_grad
    finally:
        eager.set_grad_enabled(True)
    assert (x * 2).requires_grad


def test_grad_mode_is_per_thread():
    seen = []
    with eager.no_grad():
        thread = threading.Thread(target=lambda: seen.append(eager.is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_custom_function_with_double_backward():
    def program(m):
        class Cube(m.autograd.Function):
            @staticmethod
            def forward(ctx, x, scale):
                ctx.save_for_backward(x)
                ctx.scale = scale
                return scale * x * x * x

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * 3 * ctx.scale * x * x, None

        x = leaf(m, 1.0, 2.0)
        (g,) = m.autograd.grad(Cube.apply(x, 2.0).sum(), x, create_graph=True)
        (gg,) = m.autograd.grad(g.sum(), x)
        return [g, gg]

    both(program)


def test_custom_function_with_setup_context_and_two_outputs():
    def program(m):
        class Both(m.autograd.Function):
            @staticmethod
            def forward(x, y):
                return x * y, x + y

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)

            @staticmethod
            def backward(ctx, g, h):
                x, y = ctx.saved_tensors
                return g * y + h, g * x + h

        x, y = leaf(m, 1.0, 2.0), leaf(m, 3.0, 4.0)
        product, total = Both.apply(x, y)
        (product * 2 + total).sum().backward()
        return [x.grad, y.grad]

    both(program)


def test_overwriting_a_saved_value_is_noticed():
    x = leaf(eager, 1.0, 2.0)
    y = x.exp()
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_in_place_on_a_leaf_is_refused():
    x = leaf(eager, 1.0, 2.0)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        x[0] = 1
    with eager.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0, 3.0]


def test_detach_and_data():
    x = leaf(eager, 1.0, 2.0)
    y = x * 2
    d = y.detach()
    d.zero_()
    assert y.tolist() == [0.0, 0.0]
    assert y._version == 1
    y.data.fill_(3)
    assert y._version == 1
    assert not d.requires_grad


def _inplace_programs():
    def scale_part(m, x):
        y = x * 1
        y[1:] *= 3
        return y

    def write_row(m, x):
        y = m.zeros(3, 4, dtype=m.float64)
        y[1] = x
        y[:, 2] = 5
        return y

    def write_through_two_views(m, x):
        y = (x * 2).reshape(2, 2)
        y.t()[0].mul_(x[:2])
        return y

    def base_written_after_view(m, x):
        y = x * 1
        v = y[:2]
        y.mul_(x)
        return v * v

    def view_of_view(m, x):
        y = (x * 1).reshape(2, 2)
        v = y[0]
        w = v[1:]
        v.add_(1)
        w.mul_(10)
        return y * v.sum()

    def self_modifying(m, x):
        y = x.clone()
        y.mul_(x)
        y.exp_()
        return y

    def mask(m, x):
        y = x * 1
        y[x > 2] = 0
        return y

    def index_add(m, x):
        y = x * 1
        y[[0, 2]] += x[1:3]
        return y

    def diagonal(m, x):
        y = m.zeros(4, 4, dtype=m.float64)
        y.diagonal().copy_(x)
        return y * y

    def copy_broadcast(m, x):
        y = m.ones(3, 4, dtype=m.float64)
        y.copy_(x)
        return y.cumsum(0)

    def unsqueezed(m, x):
        y = x * 1
        y.unsqueeze(0).squeeze(0)[::2].add_(x[:2])
        return y

    def unbound(m, x):
        y = (x * 1).reshape(2, 2)
        for row in [y[0], y[1]]:
            row.mul_(3)
        return y

    return {k: v for k, v in locals().items() if callable(v)}


@pytest.mark.parametrize("program", _inplace_programs().values(), ids=list(_inplace_programs()))
def test_in_place_histories(program):
    def run(m):
        x = leaf(m, 1.0, 2.0, 3.0, 4.0)
        y = program(m, x)
        weights = m.arange(1, y.numel() + 1, dtype=m.float64).reshape(y.shape)
        (y * weights).sum().backward()
        return [y, x.grad]

    both(run)


def test_node_names_and_next_functions():
    x = leaf(eager, 1.0)
    y = (x * 2).exp()
    assert y.grad_fn.name() == "ExpBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "MulBackward0"
    assert x.is_leaf
    assert not y.is_leaf


def test_grad_must_fit():
    x = leaf(eager, 1.0, 2.0)
    with pytest.raises(RuntimeError, match="different size"):
        x.grad = eager.zeros(3, dtype=eager.float64)
    with pytest.raises(RuntimeError, match="different type"):
        x.grad = eager.zeros(2)
    with pytest.raises(RuntimeError, match="floating point"):
        eager.ones(2, dtype=eager.int64).requires_grad_()


def test_a_long_chain_needs_no_recursion():
    x = leaf(eager, 1.0)
    y = x
    for _ in range(20000):
        y = y + 1
    y.sum().backward()
    assert x.grad.tolist() == [1.0]


def test_views_in_place():
    def program(m):
        x = leaf(m, 1.0, 2.0, 3.0, 4.0)
        y = (x * x).reshape(2, 2)
        y.t_()
        y.unsqueeze_(0)
        (y * m.arange(4, dtype=m.float64).reshape(1, 2, 2)).sum().backward()
        return [y, x.grad]

    both(program)
    with pytest.raises(RuntimeError, match="a leaf Variable"):
        leaf(eager, 1.0).unsqueeze_(0)


def hooks_on_saved(lib):
    """Gradients, and second ones, with what is saved packed by a user's functions."""
    graph, shapes = lib.autograd.graph, []
    x = lib.tensor([0.3, -0.7, 1.1], requires_grad=True)
    w = lib.tensor([0.5, 0.2, -0.4], requires_grad=True)

    def pack(t):
        shapes.append(tuple(t.shape))
        return t * 2

    with graph.saved_tensors_hooks(pack, lambda kept: kept / 2):
        y = ((x * 1.0).sin() * w).exp()
    y.sum().backward()
    with graph.save_on_cpu():
        z = ((x * 2).tanh() * w).exp()
    (first,) = lib.autograd.grad(z.sum(), x, create_graph=True)
    second = lib.autograd.grad(first.sum(), [x, w])
    kept = (x * 1).exp()
    graph.increment_version(kept)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()
    edge = graph.get_gradient_edge(z)
    assert isinstance(edge.node, graph.Node)
    assert edge.output_nr == 0
    with pytest.raises(RuntimeError, match="gradient edge"):
        graph.get_gradient_edge(lib.ones(1))
    assert shapes
    return [t.detach().numpy() for t in (x.grad, w.grad, first, *second)]


def test_hooks_on_what_is_saved():
    for ours, theirs in zip(hooks_on_saved(eager), hooks_on_saved(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::jitcap.base.diagnostics.JitcapWarning")
def test_hooks_on_what_is_saved_split_a_compiled_function():
    seen = []

    @jit
    def step(x):
        with eager.autograd.graph.saved_tensors_hooks(
            lambda t: seen.append(t.shape) or t, lambda t: t
        ):
            y = x.exp()
        y.sum().backward()
        return x.grad

    for calls in (1, 2, 3):
        x = eager.ones(2, requires_grad=True)
        np.testing.assert_allclose(step(x).numpy(), np.exp([1, 1]), rtol=1e-6)
        assert seen == [(2,)] * calls and eager.core.mode.mode.saved_hooks is None


def test_hooks_of_several_gradients():
    a, b, c = (eager.ones(2, requires_grad=True) for _ in range(3))
    seen, first = [], []
    hook = graph.register_multi_grad_hook((a, b, c * 1), lambda grads: seen.append(grads))
    graph.register_multi_grad_hook([a, b], lambda grad: first.append(grad), mode="any")
    (a * b * 2).sum().backward()
    eager.autograd.grad((a * c).sum(), (a, c))
    assert [[g if g is None else g.tolist() for g in grads] for grads in seen] == [
        [[2, 2], [2, 2], None],
        [[1, 1], None, None],
    ]
    hook.remove()
    (a * b).sum().backward()
    assert len(seen) == 2 and len(first) == 3
    with pytest.raises(ValueError, match="mode"):
        graph.register_multi_grad_hook((a,), print, mode="some")


def test_the_type_of_gradients():
    x = eager.ones(2, requires_grad=True)
    assert x.grad_dtype is eager.float32
    x.grad_dtype = eager.float32
    with pytest.raises(NotImplementedError, match="post_accumulate"):
        x.grad_dtype = eager.float64
    with pytest.raises(RuntimeError, match="leaf"):
        _ = (x * 2).grad_dtype


def test_generators_run_in_the_mode_of_their_decorator():
    def run(m):
        seen = []

        @m.no_grad()
        def parts(n):
            got = []
            try:
                for _ in range(n):
                    got.append((yield m.is_grad_enabled()))
            except ValueError as error:
                yield str(error), m.is_grad_enabled()
            finally:
                seen.append(m.is_grad_enabled())
            return got

        for on in parts(2):
            seen += [on, m.is_grad_enabled()]
        steps = parts(1)
        seen.append(next(steps))
        with pytest.raises(StopIteration) as end:
            steps.send(5)
        steps = parts(3)
        next(steps)
        seen += [end.value.value, steps.throw(ValueError("a")), m.is_grad_enabled()]
        steps.close()
        return seen, m.is_grad_enabled()

    assert run(eager) == run(torch)


def test_where_the_tape_ends():
    x = leaf(eager, 1.0)
    (end, index), *_ = (x * 2).grad_fn.next_functions
    assert end.variable is x and index == 0 and end.next_functions == ()
    assert end == x.exp().grad_fn.next_functions[0][0] and "AccumulateGrad" in repr(end)


@pytest.mark.parametrize("compiled", [False, True])
def test_variable_is_a_new_leaf_with_the_same_memory(compiled):
    def step(x, z):
        v = eager.autograd.Variable(x * 2, requires_grad=True)
        (v * v).sum().backward()
        w = eager.autograd.Variable(data=z)
        w += 1
        kinds = [isinstance(each, eager.autograd.Variable) for each in (z, v, 3)]
        return (
            v.is_leaf,
            v.grad,
            x.grad,
            w.requires_grad,
            z,
            kinds,
            type(z) is eager.autograd.Variable,
        )

    run = jit(step, backend="eager", fullgraph=True) if compiled else step
    x, z = eager.ones(2, requires_grad=True), eager.zeros(1)
    leaf, grad, beyond, needs, z_now, kinds, same = run(x, z)
    assert leaf and grad.tolist() == [4, 4] and beyond is None
    assert not needs and z_now.tolist() == [1] and not z.requires_grad
    assert kinds == [True, True, False] and not same
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        eager.autograd.Variable([1])


@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_written_over_still_gets_zeros(compiled):
    """Also where what is written has a history of its own, or another dtype."""

    def every(t, d):
        return [t.clone().copy_(d), t.clone().fill_(d[0]), t.half().copy_(d), t * 1]

    def at_all(t, d):
        made = t.clone()
        made[...] = d
        return [made]

    for fn in (every, at_all):
        called = jit(fn, backend="eager") if compiled else fn
        for i in range(len(fn(eager.ones(2), eager.ones(2)))):
            x, d = eager.ones(2, requires_grad=True), eager.ones(2, dtype=eager.float64)
            d.requires_grad_()
            called(x, d)[i].float().sum().backward()
            assert x.grad.tolist() == ([1, 1] if i == 3 else [0, 0])
            assert (d.grad is None) == (i == 3)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_gradient_of_a_weight_lies_in_memory_as_the_weight(compiled, create_graph):
    w = eager.randn(5, 4, requires_grad=True)

    def step(x):
        w.grad = None
        loss = eager.nn.functional.linear(x, w).square().sum()
        (found,) = eager.autograd.grad(loss, w, create_graph=create_graph, retain_graph=True)
        loss.backward(create_graph=create_graph)
        inside = eager.func.grad(lambda w: (x @ w.T).square().sum())(w.detach())
        return found.view(-1), w.grad.view(-1), inside.view(-1)

    first, *others = (jit(step, backend="eager") if compiled else step)(eager.randn(3, 4))
    assert all(eager.equal(first, other) for other in others)
