"""`x[...]` and `x[...] = v` against the reference: every kind of index, reads, writes, gradients, errors."""

import random

import numpy as np
import pytest

import eager
from jitcap import jit

torch = pytest.importorskip("torch")

INDICES = {
    "int": lambda m: 1,
    "negative": lambda m: -1,
    "slice": lambda m: slice(1, 3),
    "step": lambda m: slice(None, None, 2),
    "out of range slice": lambda m: slice(2, 100),
    "ellipsis": lambda m: ...,
    "none": lambda m: None,
    "ints": lambda m: (1, 2),
    "mixed": lambda m: (slice(None), 1, None, ..., slice(1, None)),
    "ellipsis last": lambda m: (..., 0),
    "list": lambda m: [0, 2],
    "negative list": lambda m: [0, -1],
    "tensor": lambda m: m.tensor([[0, 2], [1, 1]]),
    "tensor middle": lambda m: (slice(None), m.tensor([0, 2])),
    "two tensors": lambda m: (m.tensor([0, 2]), m.tensor([1, 3])),
    "two tensors apart": lambda m: (m.tensor([0, 2]), slice(None), m.tensor([1, 4])),
    "broadcast tensors": lambda m: (m.tensor([[0], [2]]), m.tensor([1, 3])),
    "int and tensor": lambda m: (1, slice(None), m.tensor([0, 3])),
    "tensor and none": lambda m: (None, m.tensor([0, 2])),
    "mask": lambda m: m.tensor([True, False, True]),
    "mask 2d": lambda m: m.arange(12).reshape(3, 4) % 3 == 0,
    "mask second": lambda m: (slice(None), m.tensor([True, False, True, True])),
    "mask and int": lambda m: (m.tensor([True, False, True]), 2),
    "empty list": lambda m: [],
    "numpy": lambda m: np.array([2, 0]),
    "bool": lambda m: True,
    "range": lambda m: (slice(None), list(range(1, 3))),
    "0-dim tensor": lambda m: m.tensor(1),
    "0-dim tensor apart": lambda m: (m.tensor(1), slice(None), m.tensor([0, 3])),
    "0-dim tensor last": lambda m: ([0, 2], slice(None), m.tensor(-1)),
}


def x_of(m, grad=False):
    x = m.arange(60, dtype=m.float64).reshape(3, 4, 5)
    return x.requires_grad_() if grad else x


def assert_equal(a, b):
    np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


@pytest.mark.parametrize("name", INDICES)
def test_read_and_gradient(name):
    results = []
    for m in (eager, torch):
        x = x_of(m, grad=True)
        y = x[INDICES[name](m)]
        (y * m.arange(1, y.numel() + 1, dtype=m.float64).reshape(y.shape)).sum().backward()
        results.append((y, x.grad))
    for a, b in zip(*results, strict=True):
        assert_equal(a, b)


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("value", ["number", "tensor", "row", "leading ones"])
def test_write_and_gradient(name, value):
    results = []
    for m in (eager, torch):
        base, v = x_of(m, grad=True), m.tensor(7.5, dtype=m.float64, requires_grad=True)
        x = base * 1
        index = INDICES[name](m)
        shape = tuple(x[index].shape)
        if value == "number":
            x[index] = 2.5
        elif value == "tensor":
            x[index] = v * 2
        elif shape:
            row = m.arange(shape[-1], dtype=m.float64) * v
            x[index] = row.reshape(1, 1, 1, 1, -1) if value == "leading ones" else row
        (x * x).sum().backward()
        grads = [m.zeros_like(t) if t.grad is None else t.grad for t in (base, v)]
        results.append((x, *grads))
    for a, b in zip(*results, strict=True):
        assert_equal(a, b)


@pytest.mark.parametrize("name", [n for n in INDICES if n not in ("bool",)])
def test_augmented_write(name):
    results = []
    for m in (eager, torch):
        x = x_of(m)
        x[INDICES[name](m)] += 3
        results.append(x)
    assert_equal(*results)


def test_basic_indices_are_views():
    x = x_of(eager)
    x[1, :, 2:4][0] = -1
    assert x[1, 0, 2:4].tolist() == [-1, -1]
    assert x[..., 0].data_ptr() == x.data_ptr()


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (3, IndexError),
        ((0, 0, 0, 0), IndexError),
        ([0, 5], IndexError),
        ((..., ..., 0), IndexError),
        (1.5, (TypeError, IndexError)),
        (eager.tensor([1.0]), IndexError),
        (eager.tensor([True, False]), IndexError),
        (slice(None, None, -1), ValueError),
        ("a", (TypeError, IndexError)),
    ],
)
def test_errors(index, error):
    with pytest.raises(error):
        x_of(eager)[index]


def test_value_that_does_not_fit():
    x = x_of(eager)
    with pytest.raises(RuntimeError):
        x[0] = eager.zeros(3)
    with pytest.raises(RuntimeError):
        x[[0, 1]] = eager.zeros(3, dtype=eager.float64)


def test_iteration_len_contains_unpacking():
    x = eager.tensor([[1, 2], [3, 4]])
    a, b = x
    assert (a.tolist(), b.tolist(), len(x), 3 in x, 7 in x) == ([1, 2], [3, 4], 2, True, False)
    with pytest.raises(TypeError, match="0-d"):
        iter(eager.tensor(1))


def _random_index(rng, m, shape):
    """A random basic or advanced index, and the same for the other library."""
    parts = []
    for n in shape[: rng.randint(1, len(shape))]:
        kind = rng.choice(["int", "slice", "slice", "none", "list"])
        if kind == "int":
            parts.append(rng.randrange(-n, n))
        elif kind == "slice":
            start, stop = rng.randint(-n, n), rng.randint(-n, n)
            parts.append(slice(start, stop, rng.randint(1, 3)))
        elif kind == "none":
            parts.extend([None, slice(None)])
        else:
            parts.append([rng.randrange(-n, n) for _ in range(2)])
    return tuple(parts)


@pytest.mark.parametrize("seed", range(150))
def test_random_indices(seed):
    rng = random.Random(seed)
    index = _random_index(rng, eager, (3, 4, 5))
    assert_equal(x_of(eager)[index], x_of(torch)[index])
    mine, reference = x_of(eager), x_of(torch)
    mine[index], reference[index] = -5, -5
    assert_equal(mine, reference)


def in_place_through(x, i):
    """All ways to write to where an index tensor without dimensions leads."""
    row = x[i]
    row.add_(1)
    x[i, i + 1].mul_(100)  # `row` sees it
    x[:, i][1:].zero_()
    x[i] += 1
    x.mul_(0.5)
    part = x.view(2, 2, 3)[i]
    part[0] -= 3
    return row.clone(), part * 2, x.view(2, 2, 3)[i, :, [0, 1]]


def gradient_through(x, i):
    start, w = x.clone().requires_grad_(), x[0].clone().requires_grad_()
    y = start * 1.0
    row = y[i]
    y[i] += w * 2
    y[i].mul_(w)
    y.mul_(2.0)
    y[:, i].tanh_()
    ((row**2).sum() + y.sum()).backward()
    return start.grad, w.grad


@pytest.mark.parametrize("program", [in_place_through, gradient_through])
def test_an_index_tensor_without_dimensions_gives_a_view(program):
    compiled = jit(program)
    for number in (0, 1):
        theirs = torch.arange(12.0).view(4, 3) / 10
        want = program(theirs, torch.tensor(number))
        for run in (program, compiled):
            x = eager.arange(12.0).view(4, 3) / 10
            got = run(x, eager.tensor(number))
            for ours, reference in zip((*got, x), (*want, theirs), strict=True):
                np.testing.assert_allclose(ours.numpy(), reference.numpy(), rtol=1e-5)
    stats = compiled.stats
    assert (stats.compiles, stats.splits, stats.fallbacks) == (1, 0, 0)


def leaves_whole(x, i):
    return x[i]


def leaves_before_a_write(x, i):
    y = x[i, i - 3]
    x.add_(1)
    return y


def leaves_in_parts(x, i):
    y = x[i]
    y.mul_(3)
    return y, y[:1], y.detach(), x[:, i]


def leaves_a_result(x, i):
    return (x * 2)[i]


def leaves_with_its_base(x, i):
    z = x * 2
    y = z[i]
    return y, z


def base_leaves_first(x, i):
    z = x * 2
    y = z[i]
    return z, y


@pytest.mark.filterwarnings("ignore:@jit")
@pytest.mark.parametrize(
    ("program", "splits"),
    [
        (leaves_whole, 0), (leaves_before_a_write, 0), (leaves_in_parts, 0), (leaves_a_result, 0),
        (leaves_with_its_base, 1), (base_leaves_first, 1),
    ],
)  # fmt: skip
def test_it_leaves_a_compiled_function_as_a_view(program, splits):
    compiled, seen = jit(program), []
    for run in (program, compiled):
        for number in (0, 1, 2):
            x = eager.arange(9.0).view(3, 3).clone()
            found = run(x, eager.tensor(number))
            results = found if isinstance(found, tuple) else (found,)
            for each in results:
                each.add_(10)
            seen.append((*(each.tolist() for each in results), x.tolist(), x._version))
    assert seen[:3] == seen[3:]
    assert compiled.stats.splits == splits
