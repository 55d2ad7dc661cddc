"""Programs of one or two lines, beside torch: both give the same, or both raise the same kind of error."""

import warnings

import numpy as np
import pytest

import eager
from jitcap import jit

torch = pytest.importorskip("torch")

PROGRAMS = """
t.ones(2, dtype="float32")
t.full((2,), 1, dtype="int")
t.ones()
t.tensor([None])
t.tensor([1, None])
t.tensor(["a"])
t.tensor("a")
t.tensor({1, 2})
t.tensor(2**63)
t.tensor([2**64])
t.numel(3)
t.einsum("")
t.allclose(t.ones(2), t.ones(2, dtype=t.float64))
t.nn.Conv2d(4, 6, 3, padding="same", stride=2)
t.optim.Adam(t.nn.Linear(1, 1).parameters(), foreach=True, fused=True)
t.nn.functional.cross_entropy(t.ones(2, 3), t.tensor([0, 3]))
t.nn.functional.nll_loss(t.ones(2, 3), t.tensor([0, -1]))
x[0] = "a"
x[0] = None
x[x > 0] = None
x[0] = 1j
x[0] = 3 + 0j; x
x[..., ...]
x[..., 1, ...]
x[0, ..., ...]
x.expand(3, 4, 5)[0]
x.expand(3, 4, 5).add_(1)
x.expand(1, 4, 5).mul_(2); x
y = t.Size((1, 2)) * 2; assert type(y) is t.Size; t.ones(y)
y = p * 1; a, b = y.unbind(); a.mul_(2)
y = p * 1; a, b = y.chunk(2); a[0] = 1.0
y = p * 1; a, b = y.split([1, 1]); a.zero_()
y = t.zeros(2, 3); [row.copy_(p[0]) for row in y]
y = p * 1; a, b = y.tensor_split(2); a.mul_(2); y
y = p * 1; a, b = y.split(1); a.detach().mul_(2); y
y = p * 1; y[0].mul_(2); y
y = p.sum(); y.backward(); y.backward(); p.grad
y = (p**2).sum(); y.backward(); y.backward()
"""


def outcome(library, program):
    *first, last = program.split("; ")
    names = {
        "t": library,
        "x": library.arange(20.0).reshape(1, 4, 5),
        "p": library.arange(6.0).reshape(2, 3).requires_grad_(),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec("; ".join(first), names)
            try:
                value = eval(last, names)
            except SyntaxError:
                value = exec(last, names)
        except Exception as error:
            return next(kind for kind in type(error).__mro__ if kind.__module__ == "builtins")
    return value


@pytest.mark.parametrize("program", PROGRAMS.strip().splitlines())
def test_as_torch(program):
    theirs, ours = outcome(torch, program), outcome(eager, program)
    if isinstance(theirs, torch.Tensor):
        np.testing.assert_array_equal(ours.detach().numpy(), theirs.detach().numpy())
        assert tuple(ours.shape) == tuple(theirs.shape)
    else:
        assert ours == theirs


def test_overlapping_memory_is_not_written_by_compiled_code():
    wide = eager.zeros(3, 1).expand(3, 4)
    with pytest.raises(RuntimeError, match="clone"):
        jit(lambda x: x.add_(1))(wide)
    assert (wide == 0).all()


@pytest.mark.parametrize(
    "distribution",
    ["Bernoulli(0.5)", "Bernoulli(logits=t.zeros(2))", "Categorical(t.ones(3))", "Geometric(0.5)",
     "Binomial(3, t.tensor(0.5))", "NegativeBinomial(2, t.tensor(0.5))", "ContinuousBernoulli(0.25)"],
)  # fmt: skip
def test_distributions_show_what_they_were_given(distribution):
    texts = [repr(eval(f"t.distributions.{distribution}", {"t": t})) for t in (torch, eager)]
    assert texts[1].replace("eager", "torch") == texts[0]


@pytest.mark.parametrize(
    "name",
    "real positive nonnegative unit_interval positive_integer nonnegative_integer real_vector simplex "
    "boolean interval(0,1) greater_than(2) less_than(2) integer_interval(0,3) independent(c.real,1)".split(),
)
def test_constraints_show_their_bounds(name):
    texts = [repr(eval(f"c.{name}", {"c": t.distributions.constraints})) for t in (torch, eager)]
    assert texts[1] == texts[0]


def test_a_parameter_prints_as_in_torch():
    texts = [repr(t.nn.Parameter(t.ones(2, 2))) for t in (torch, eager)]
    assert texts[1] == texts[0]
