"""Hooks of nodes of the tape and of leaves, against torch, eagerly and compiled."""

import numpy as np
import pytest

import eager
from jitcap import jit

torch = pytest.importorskip("torch")


def _doubled(m, a):
    b = a * 3
    b.grad_fn.register_hook(lambda into, out: (into[0] * 2, *into[1:]))
    b.grad_fn.register_prehook(lambda out: (out[0] + 1,))
    b.sum().backward()
    return ()


def _seen_and_removed(m, a):
    seen = []
    b = a * a
    handle = b.grad_fn.register_hook(lambda into, out: seen.extend((*into, *out)))
    b.sum().backward(retain_graph=True)
    handle.remove()
    b.grad_fn.register_prehook(lambda out: seen.append(out[0]))
    b.sum().backward()
    return seen


def _after_the_hooks_of_the_tensor(m, a):
    b = a.exp()
    b.register_hook(lambda g: g * 2)
    b.grad_fn.register_prehook(lambda out: (out[0] + 1,))
    b.retain_grad()
    b.sum().backward()
    return (b.grad,)


def _not_where_the_gradient_ends(m, a):
    b = a.exp()
    b.grad_fn.register_prehook(lambda out: (out[0] * 7,))
    (only,) = m.autograd.grad((b * 2).sum(), [b])
    return (only, *m.autograd.grad((b * 2).sum(), [a, b]))


def _the_leaf_itself_is_no_answer(m, a):
    w = a.detach().clone().requires_grad_()
    w.register_post_accumulate_grad_hook(lambda p: p.add_(p.grad, alpha=-0.1))
    (w * w).sum().backward()
    return (w.detach() * 2,)


def _too_few(m, a):
    b = a * a
    b.grad_fn.register_hook(lambda into, out: (into[0],))
    b.sum().backward()


def _no_tuple(m, a):
    b = a.exp()
    b.grad_fn.register_prehook(lambda out: out[0])
    b.sum().backward()


def _another_shape(m, a):
    b = a.exp()
    b.grad_fn.register_hook(lambda into, out: (into[0].sum(),))
    b.sum().backward()


def _kept_of_what_was_written(m, a):
    """The gradient of the tensor as it is now, hooks those of what it was; a view in its turn."""
    b = a * 3
    b.retain_grad()
    b.register_hook(lambda g: g * 5)
    view = b[1:]
    view.retain_grad()
    b.mul_(2)
    (b * b + view).sum().backward()
    return b.grad, view.grad


def _kept_twice(m, a):
    """The second gradient is a new tensor; to ask for the gradient of an inner tensor retains it."""
    b = a * a
    (b * b).sum().backward(inputs=[b], retain_graph=True)
    first = b.grad
    b.register_hook(lambda g: g * 2)
    (b * b).sum().backward()
    b.retain_grad()
    return first, b.grad


def _another_type(m, a):
    b = a.exp()
    b.register_hook(lambda g: g.double())
    b.sum().backward()


PROGRAMS = (
    _kept_of_what_was_written, _kept_twice, _another_type,
    _doubled, _seen_and_removed, _after_the_hooks_of_the_tensor, _not_where_the_gradient_ends,
    _the_leaf_itself_is_no_answer, _too_few, _no_tuple, _another_shape,
)  # fmt: skip


def _outcome(m, call):
    a = m.tensor([1.0, 2.0], requires_grad=True)
    try:
        found = [*call(m, a), a.grad]
    except (RuntimeError, TypeError) as error:
        return type(error), str(error).partition(" has ")[0].replace("_no_tuple.<locals>.", "")
    return [None if x is None else np.asarray(x.detach()).round(4).tolist() for x in found]


@pytest.mark.parametrize("program", PROGRAMS)
def test_hooks_see_and_change_gradients(program):
    expected = _outcome(torch, program)
    assert _outcome(eager, program) == expected
    compiled = jit(program, backend="eager")
    for _ in range(2):
        assert _outcome(eager, compiled) == expected
    assert compiled.stats.splits == 0


def test_a_node_of_a_compiled_call_has_no_operands_of_its_own():
    step = jit(lambda a: (a * 3, (a * 3).exp()), backend="eager")
    a = eager.ones(2, requires_grad=True)
    b, c = step(a)
    for x in (b, c):
        x.grad_fn.register_prehook(lambda out: (out[0] * 2,))
        with pytest.raises(RuntimeError, match="register_hook, or register it inside the call"):
            x.grad_fn.register_hook(print)
    (b.sum() + c.sum()).backward()
    np.testing.assert_allclose(a.grad.tolist(), [6 + 6 * np.exp(3)] * 2, rtol=1e-6)


def _kept(m):
    """What nodes of the tape say of themselves, and hooks where it ends."""
    x = m.tensor([4.0, 9.0], requires_grad=True)  # whose powers are exact
    w = m.tensor([4.0, 5.0], requires_grad=True)
    product, power, root = x * w, x.pow(4.5), x.sqrt()
    seen = [
        product.grad_fn._saved_self is x, product.grad_fn._saved_other is w,
        power.grad_fn._saved_self is x, power.grad_fn._saved_exponent,
        root.grad_fn._saved_result is root, root.grad_fn._saved_result.grad_fn is root.grad_fn,
        product.grad_fn.name(), [fn.name() for fn, _ in product.grad_fn.next_functions],
        hasattr(product.grad_fn, "_saved_no_such"), hasattr(product.grad_fn, "no_such"),
    ]  # fmt: skip
    end = x.expand_as(x).grad_fn.next_functions[0][0]
    seen.append(end is x.view_as(x).grad_fn.next_functions[0][0])
    before = end.register_prehook(lambda got: (got[0] * 10,))
    after = end.register_hook(
        lambda given, got: seen.append((given, got[0].tolist(), x.grad.tolist()))
    )
    (product.sum() + power.sum()).backward()
    after.remove()
    before.remove()
    (x * 2).sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        product.grad_fn._saved_self
    return [*seen, x.grad.tolist()]


def test_what_the_tape_keeps_is_read_and_its_ends_have_hooks():
    assert _kept(eager) == _kept(torch)
    node = (eager.ones(2, requires_grad=True) * 2).grad_fn
    with pytest.raises(AttributeError, match=r"it keeps _saved_x.*saved_tensors_hooks"):
        node._saved_x1


@pytest.mark.parametrize("m", [torch, eager])
def test_hooks_on_what_is_saved_that_are_not_allowed(m):
    graph = m.autograd.graph
    hooks = graph.saved_tensors_hooks(lambda x: x, lambda x: x)
    with pytest.raises(RuntimeError, match="inside"), graph.disable_saved_tensors_hooks("inside"):
        hooks.__enter__()
    with hooks, pytest.raises(RuntimeError, match="out"), graph.disable_saved_tensors_hooks("out"):
        pass
    with hooks:
        pass
