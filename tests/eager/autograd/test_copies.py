"""`copy.deepcopy` of tensors, and gradients that are tensors of their own, beside torch."""

import copy

import pytest

import eager
from jitcap import JitcapWarning, jit

torch = pytest.importorskip("torch")


def shared(t):
    x = t.arange(6.0).view(2, 3)
    a, b, c = copy.deepcopy([x, x[0], x.t()])
    a[0, 0] = 9
    c[1, 1] = 8
    return a, b, c, x, b.is_contiguous(), c.stride()


def the_view_first(t):
    x = t.zeros(4)
    b, a = copy.deepcopy((x[1:], x))
    b[0] = 5
    a.requires_grad_()
    (a * 2).sum().backward()
    return a.detach(), b, a.grad


def of_a_part_of_a_history(t):
    h = t.ones(3, requires_grad=True) * 2
    v, w = copy.deepcopy([h.detach()[:2], h.detach()])
    v[0] = 5
    return v, w, h.detach()


def with_gradients_and_attributes(t):
    x = t.ones(3, requires_grad=True)
    x.tags = [1]
    (x * 2).sum().backward()
    y = copy.deepcopy(x)
    y.grad.zero_()
    y.tags.append(2)
    return x.grad, y.grad, x.tags, y.tags, y.requires_grad


@pytest.mark.parametrize(
    "program", [shared, the_view_first, of_a_part_of_a_history, with_gradients_and_attributes]
)
def test_copies_share_what_their_originals_share(program):
    theirs, ours = (
        [x.tolist() if hasattr(x, "tolist") else x for x in program(t)] for t in (torch, eager)
    )
    assert ours == theirs


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_copy_lies_in_memory_as_its_original(dynamic):
    """Compiled code sees a tensor from outside without what it is a view of."""
    copied = jit(lambda x: copy.deepcopy(x), backend="eager", dynamic=dynamic)
    for n in (3, 4, 5):
        x = eager.arange(2.0 * n).reshape(2, n)
        for each in (
            x,
            x.t(),
            x[:, :, None].expand(2, n, 2).clone().mT,
            eager.from_numpy(x.numpy().copy(order="F")),
        ):
            found = copied(each)
            assert found.stride() == copy.deepcopy(each).stride() == each.stride()
            assert found.tolist() == each.tolist()
    assert copied.stats.splits == 0
    with pytest.warns(JitcapWarning, match="of a part of a tensor"):
        assert copied(x[:, ::2]).stride() == (5, 2)


WAYS = {
    "a layer": lambda lib, w: ((lib.ones(4, 3) * w + w) ** 2).sum(),
    "a shape": lambda lib, w: w.view(3, 1).sum() ** 2 + w[1:].sum() ** 2,
    "one number": lambda lib, w: w.sum() ** 2,
    "with another": lambda lib, w: (w.detach().requires_grad_() + w).prod(),
}


@pytest.mark.filterwarnings("ignore:Using backward:UserWarning")  # of PyTorch, about cycles
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_gradient_with_a_graph_is_no_view_of_another(way, compiled):
    """What a second-order optimizer does with it: it is written, and detached in place."""

    def step(lib, w):
        w.grad = None
        WAYS[way](lib, w).backward(create_graph=True)
        grad = w.grad
        twice = lib.autograd.grad(grad.sum(), w)[0]
        free = grad.is_contiguous() and grad._base is None
        return grad.detach_().mul_(2), twice, free

    ours = jit(step) if compiled else step
    for _ in range(2):
        want = step(torch, torch.ones(3, requires_grad=True))
        found = ours(eager, eager.ones(3, requires_grad=True))
        assert [x.tolist() for x in found[:2]] == [x.tolist() for x in want[:2]]
        assert found[2] == want[2]


def test_two_gradients_with_a_graph_are_two_tensors():
    a, b = (eager.ones(2, requires_grad=True) for _ in range(2))
    (a + b).prod().backward(create_graph=True)
    with eager.no_grad():
        a.grad.mul_(3)
    assert (a.grad.tolist(), b.grad.tolist()) == ([6, 6], [2, 2])
