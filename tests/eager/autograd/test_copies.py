"""`copy.deepcopy` of tensors, beside torch."""

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
