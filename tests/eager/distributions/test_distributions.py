"""Distributions against the reference: log densities, entropies, divergences; samples by their moments."""

import numpy as np
import pytest

import eager
from eager import distributions as d
from eager.distributions import utils
from jitcap import jit

torch = pytest.importorskip("torch")

P = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
MU, SIGMA = np.array([0.5, -1.0]), np.array([0.7, 2.0])
COV = np.array([[2.0, 0.3], [0.3, 1.0]])


def of(m, x):
    return m.from_numpy(np.array(x))


CASES = {
    "categorical": (lambda m, d: d.Categorical(of(m, P)), [2, 0]),
    "categorical logits": (lambda m, d: d.Categorical(logits=of(m, np.log(P) + 1)), [1, 2]),
    "bernoulli": (lambda m, d: d.Bernoulli(of(m, P[0])), [0.0, 1.0, 1.0]),
    "bernoulli logits": (lambda m, d: d.Bernoulli(logits=of(m, MU)), [0.0, 1.0]),
    "normal": (lambda m, d: d.Normal(of(m, MU), of(m, SIGMA)), [0.1, 2.0]),
    "uniform": (lambda m, d: d.Uniform(of(m, MU), of(m, MU + 3)), [1.0, 0.5]),
    "exponential": (lambda m, d: d.Exponential(of(m, SIGMA)), [0.3, 1.5]),
    "multivariate": (lambda m, d: d.MultivariateNormal(of(m, MU), of(m, COV)), [0.3, -0.2]),
    "independent": (lambda m, d: d.Independent(d.Normal(of(m, MU), of(m, SIGMA)), 1), [0.1, 2.0]),
}


@pytest.mark.parametrize("name", CASES)
def test_against_the_reference(name):
    make, value = CASES[name]
    results = []
    for m in (eager, torch):
        d = make(m, m.distributions)
        results.append((d.log_prob(of(m, value)), d.entropy(), tuple(d.sample((3,)).shape)))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10)


@pytest.mark.parametrize("name", ["normal", "uniform", "exponential", "bernoulli"])
def test_moments_of_samples(name):
    d = CASES[name][0](eager, eager.distributions)
    draws = d.sample((20000,))
    np.testing.assert_allclose(draws.mean(0).numpy(), d.mean.numpy(), atol=0.06)
    np.testing.assert_allclose(draws.var(0).numpy(), d.variance.numpy(), atol=0.15)


def test_categorical_frequencies():
    draws = eager.distributions.Categorical(of(eager, P)).sample((20000,))
    assert tuple(draws.shape) == (20000, 2)
    for row in range(2):
        counts = np.bincount(draws[:, row].numpy(), minlength=3) / 20000
        np.testing.assert_allclose(counts, P[row], atol=0.02)


@pytest.mark.parametrize(
    "names",
    [("normal", "normal"), ("categorical", "categorical logits"), ("bernoulli", "bernoulli")],
)
def test_kl(names):
    results = [
        np.asarray(m.distributions.kl_divergence(*(CASES[n][0](m, m.distributions) for n in names)))
        for m in (eager, torch)
    ]
    np.testing.assert_allclose(*results, rtol=1e-10, atol=1e-12)


def test_samples_are_differentiable():
    loc = eager.zeros(2, requires_grad=True)
    eager.distributions.Normal(loc, 1.0).rsample((5,)).sum().backward()
    assert loc.grad.tolist() == [5.0, 5.0]
    assert not eager.distributions.Normal(loc, 1.0).sample().requires_grad


def test_values_and_parameters_broadcast():
    """A batch of one with a single value; one distribution with many values."""
    row, p = eager.tensor([[0.25, 0.75]]), eager.tensor([0.25])
    one = eager.distributions.Categorical(row)
    np.testing.assert_allclose(one.log_prob(eager.tensor(1)).exp(), [0.75], rtol=1e-6)
    np.testing.assert_allclose(one.log_prob(eager.tensor([0, 1])).exp(), [0.25, 0.75], rtol=1e-6)
    coin = eager.distributions.Bernoulli(p)
    np.testing.assert_allclose(coin.log_prob(eager.tensor(0.0)).exp(), [0.75], rtol=1e-6)
    np.testing.assert_allclose(coin.log_prob(eager.ones(2)).exp(), [0.25, 0.25], rtol=1e-6)


def test_numbers_take_the_type_of_the_tensors_beside_them():
    wide, half = eager.ones(2, dtype=eager.float64), eager.ones(2, dtype=eager.float16)
    mixed = d.Normal(0.1, wide)
    assert mixed.loc.dtype is eager.float64 and mixed.loc[0].item() == 0.1
    assert d.Normal(0, half).sample().dtype is eager.float16
    assert d.Normal(0, eager.ones(2, dtype=eager.int64)).loc.dtype is eager.float32
    assert d.Categorical(half * eager.tensor([1.0, 0.0])).logits.isfinite().all()
    normal, at = d.MultivariateNormal(eager.zeros(2), eager.eye(2)), wide / 2
    assert normal.log_prob(at).dtype is eager.float32  # the factor's, as solve_triangular gives it
    assert normal.log_prob(at) == normal.log_prob(at.float())
    eager.testing.assert_close(
        eager.linalg.solve_triangular(eager.eye(2), at[None].mT, upper=True),
        eager.full((2, 1), 0.5),
    )


class Triangle(d.Distribution):
    """As programs write theirs."""

    arg_constraints = {"width": d.constraints.positive, "probs": d.constraints.unit_interval}

    def __init__(self, width, probs):
        self.width, self.probs = utils.broadcast_all(width, probs)
        super().__init__(self.width.shape)

    @utils.lazy_property
    def logits(self):
        return utils.probs_to_logits(self.probs, is_binary=True)

    def rsample(self, sample_shape=()):
        shape = self._extended_shape(sample_shape)
        return self.width * (eager.rand(shape) + eager.rand(shape) - 1)


@pytest.mark.parametrize("wrap", [lambda f: f, jit])
def test_distributions_of_programs(wrap):
    def step(width):
        mine = Triangle(width, 0.25)
        return mine.rsample((3,)), mine.logits.sigmoid(), utils.logits_to_probs(mine.logits, True)

    drawn, probs, again = wrap(step)(eager.tensor([1.0, 2.0]))
    assert drawn.shape == (3, 2) and bool((drawn.abs() <= eager.tensor([1.0, 2.0])).all())
    assert again.tolist() == probs.tolist() == pytest.approx([0.25, 0.25])


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: jit(f, backend="eager")])
def test_draws_for_parameters_without_dimensions(wrap, dtype):
    two, half = (eager.tensor(v, dtype=getattr(eager, dtype)) for v in (2.0, 0.5))

    def draw():
        draws = d.Gamma(two, 1.0), d.Beta(two, half), d.StudentT(two), d.Poisson(two)
        made = [each.sample() for each in draws]
        return [*made, d.Binomial(3, half).sample(), eager.poisson(two), eager.binomial(two, half)]

    for one in wrap(draw)():
        assert one.shape == () and one.dtype is two.dtype and one >= -100


def test_counts_beyond_the_draws_are_refused():
    with pytest.raises(ValueError, match="within the support"):
        d.Multinomial(4, eager.ones(3)).log_prob(eager.tensor([3.0, 3.0, 3.0]))
