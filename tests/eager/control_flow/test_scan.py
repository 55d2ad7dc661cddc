"""scan, map and associative_scan in eager: PyTorch's results, errors that name the leaf."""

import collections

import numpy as np
import pytest

import eager


def floats(*shape, seed=0, dtype=np.float32):
    return eager.tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


def step(carry, x):
    new = (carry["h"] * 0.5 + x["a"]).tanh()
    return {"h": new, "n": carry["n"] + 1}, (new * x["b"], None)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_a_scan_is_what_pytorch_gives(dim, reverse):
    torch = pytest.importorskip("torch")
    from torch._higher_order_ops.scan import scan

    shape = (5, 3) if dim == 0 else (3, 5)
    a, b, h = floats(*shape), floats(*shape, seed=1), floats(3, seed=2)
    init, xs = {"h": h, "n": eager.zeros(3)}, {"a": a, "b": b}
    last, (ys, nothing) = eager.scan(step, init, xs, dim=dim, reverse=reverse)
    assert nothing is None

    def plain(carry, x):
        after, (y, _) = step(carry, x)
        return after, y

    their = {"h": torch.tensor(h.numpy()), "n": torch.zeros(3)}
    given = {"a": torch.tensor(a.numpy()), "b": torch.tensor(b.numpy())}
    expected, expected_ys = scan(plain, their, given, dim=dim, reverse=reverse)
    np.testing.assert_allclose(last["h"].numpy(), expected["h"].numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(last["n"].numpy(), expected["n"].numpy())
    np.testing.assert_allclose(ys.numpy(), expected_ys.numpy(), rtol=1e-5, atol=1e-6)


def test_numbers_begin_as_tensors_and_xs_may_be_missing():
    last, ys = eager.scan(lambda c, _: (c * 2, c), 1.0, length=4)
    assert last.item() == 16.0
    assert ys.tolist() == [1.0, 2.0, 4.0, 8.0]


def test_no_steps_give_the_start_and_empty_outputs():
    init = floats(3)
    last, ys = eager.scan(lambda c, x: (c + x, (c * x).sum()), init, eager.zeros(0, 3))
    assert last is init
    assert ys.shape == (0,)


def test_named_tuples_stay_what_they_are():
    Pair = collections.namedtuple("Pair", "h c")  # noqa: PYI024
    last, ys = eager.scan(
        lambda s, x: (Pair(s.h + x, s.c * x), [s.h]),
        Pair(eager.ones(2), eager.ones(2)),
        floats(3, 2),
    )
    assert type(last) is Pair
    assert isinstance(ys, list)
    assert ys[0].shape == (3, 2)


def test_a_map():
    x = floats(4, 3)
    found = eager.map(lambda row, k: {"sum": row.sum() * k}, x, 2.0)["sum"]
    np.testing.assert_allclose(found.numpy(), x.numpy().sum(1) * 2, rtol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 7, 8, 13])
def test_an_associative_scan_equals_the_loop(length, reverse):
    a, b = floats(2, length, dtype=np.float64), floats(2, length, seed=1, dtype=np.float64)

    def combine(left, right):  # linear recurrences compose
        return left[0] * right[0], left[1] * right[0] + right[1]

    found = eager.associative_scan(combine, (a, b), 1, reverse)
    total, expected = None, []
    order = range(length)[:: -1 if reverse else 1]
    for i in order:
        here = (a[:, i], b[:, i])
        total = here if total is None else combine(total, here)
        expected.append(total)
    for i, (x, y) in zip(order, expected, strict=True):
        np.testing.assert_allclose(found[0][:, i].numpy(), x.numpy(), rtol=1e-12)
        np.testing.assert_allclose(found[1][:, i].numpy(), y.numpy(), rtol=1e-12)


def second_order(lib, run, given):
    """First derivatives, and those of a number made of them."""
    first = lib.autograd.grad(run(*given), given, create_graph=True)
    total = sum((g * g).sum() for g in first)
    return [*first, *lib.autograd.grad(total, given)]


def test_gradients_of_first_and_second_order():
    torch = pytest.importorskip("torch")
    given = [floats(*s, seed=i, dtype=np.float64) for i, s in enumerate([(3,), (4, 3), (3, 3)])]

    def run(h, xs, w):
        last, ys = eager.scan(lambda c, x: ((c @ w + x).tanh(), (c * x).sin()), h, xs)
        return last.sum() + (ys * ys).sum()

    def loop(h, xs, w):
        total = 0
        for x in xs:
            h, y = (h @ w + x).tanh(), (h * x).sin()
            total = total + (y * y).sum()
        return h.sum() + total

    found = second_order(eager, run, [t.requires_grad_() for t in given])
    their = [torch.tensor(t.detach().numpy(), requires_grad=True) for t in given]
    for a, b in zip(found, second_order(torch, loop, their), strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10)


def test_errors_name_the_leaf():
    x = floats(4, 3)
    with pytest.raises(RuntimeError, match=r"the carry\['h'\] goes .* float32\[3\] .* float32\[\]"):
        eager.scan(lambda c, x: ({"h": c["h"].sum()}, x), {"h": eager.zeros(3)}, x)
    with pytest.raises(TypeError, match=r"structure of init, \*, got \(\*,\)"):
        eager.scan(lambda c, x: ((c,), x), eager.zeros(3), x)
    with pytest.raises(RuntimeError, match=r"xs\[1\] has size 3 along dimension 0, but xs\[0\]"):
        eager.scan(lambda c, x: (c, x), 0.0, (x, floats(3, 3)))
    with pytest.raises(TypeError, match=r"xs\[0\] is to be a tensor, got a str"):
        eager.scan(lambda c, x: (c, x), 0.0, ("no",))
    with pytest.raises(TypeError, match="give the length"):
        eager.scan(lambda c, x: (c, x), 0.0)
    with pytest.raises(TypeError, match="two values, the carry and the output, got a Tensor"):
        eager.scan(lambda c, x: c, 0.0, x)
    with pytest.raises(TypeError, match=r"the output\[0\] of combine_fn is to be a tensor"):
        eager.scan(lambda c, x: (c, ["y"]), 0.0, x)
    with pytest.raises(RuntimeError, match=r"takes xs as float32\[2, 3\] and returns float32\[\]"):
        eager.associative_scan(lambda a, b: a.sum(), x, 0)
