"""Every distribution against torch: what is said of it, its draws by their moments, its divergences, and
the same in compiled code."""

import itertools

import numpy as np
import pytest

import eager
from jitcap import jit

torch = pytest.importorskip("torch")

A, B = np.array([0.7, 2.0, 5.5]), np.array([1.5, 0.4, 3.0])
MU = np.array([0.5, -1.0, 2.0])
P = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
Q = np.array([0.2, 0.75, 0.4])
COUNTS = np.array([2.0, 0.0, 5.0])
UNIT = np.array([0.3, 0.2, 0.9])
COV = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.0], [0.1, 0.0, 0.5]])
AB, A2, A4, B2, B4, COUNTS3, TOP = np.stack([A, B]), A + 2, A + 4, B + 2, B + 4, COUNTS + 3, MU + A
TAILS, NEARLY_EVEN = np.array([0.3, 0.0, -0.4]), MU * 0.001
CORRELATED = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.3, 0.4, 0.75**0.5]])
ONES, P0 = np.ones((2, 3, 4)), P[0]

# name -> how it is made of a library's distributions and a maker of tensors, and a value of it
CASES = {
    "Bernoulli": (lambda d, t: d.Bernoulli(t(Q)), [1.0, 0.0, 1.0]),
    "Beta": (lambda d, t: d.Beta(t(A), t(B)), UNIT),
    "Binomial": (lambda d, t: d.Binomial(6, t(Q)), COUNTS),
    "Binomial logits": (lambda d, t: d.Binomial(t(COUNTS3), logits=t(MU)), COUNTS),
    "Categorical": (lambda d, t: d.Categorical(t(P)), [2.0, 0.0]),
    "Cauchy": (lambda d, t: d.Cauchy(t(MU), t(A)), A),
    "Chi2": (lambda d, t: d.Chi2(t(A)), B),
    "ContinuousBernoulli": (lambda d, t: d.ContinuousBernoulli(t(Q)), UNIT),
    "ContinuousBernoulli logits": (lambda d, t: d.ContinuousBernoulli(logits=t(NEARLY_EVEN)), UNIT),
    "Dirichlet": (lambda d, t: d.Dirichlet(t(AB)), P),
    "Exponential": (lambda d, t: d.Exponential(t(A)), B),
    "FisherSnedecor": (lambda d, t: d.FisherSnedecor(t(A2), t(B4)), A),
    "Gamma": (lambda d, t: d.Gamma(t(A), t(B)), UNIT),
    "Geometric": (lambda d, t: d.Geometric(t(Q)), COUNTS),
    "Geometric logits": (lambda d, t: d.Geometric(logits=t(MU)), COUNTS),
    "Gumbel": (lambda d, t: d.Gumbel(t(MU), t(A)), B),
    "HalfCauchy": (lambda d, t: d.HalfCauchy(t(A)), B),
    "HalfNormal": (lambda d, t: d.HalfNormal(t(A)), B),
    "Independent": (lambda d, t: d.Independent(d.Normal(t(MU), t(A)), 1), B),
    "InverseGamma": (lambda d, t: d.InverseGamma(t(A2), t(B)), B),
    "Kumaraswamy": (lambda d, t: d.Kumaraswamy(t(A), t(B)), UNIT),
    "LKJCholesky": (lambda d, t: d.LKJCholesky(3, t(A[:2])), CORRELATED),
    "Laplace": (lambda d, t: d.Laplace(t(MU), t(A)), B),
    "LogNormal": (lambda d, t: d.LogNormal(t(MU), t(Q)), B),
    "LogisticNormal": (lambda d, t: d.LogisticNormal(t(MU[:2]), t(A[:2])), P[0]),
    "LowRankMultivariateNormal": (
        lambda d, t: d.LowRankMultivariateNormal(t(MU), t(COV[:, :2]), t(B)),
        A,
    ),
    "MixtureSameFamily": (
        lambda d, t: d.MixtureSameFamily(d.Categorical(t(P0)), d.Normal(t(MU), t(A))),
        0.3,
    ),
    "MixtureSameFamily of vectors": (
        lambda d, t: d.MixtureSameFamily(
            d.Categorical(t(P)), d.Independent(d.Normal(t(ONES), t(1.5)), 1)
        ),
        np.full((2, 4), 0.3),
    ),
    "Multinomial": (lambda d, t: d.Multinomial(5, t(P)), [[1.0, 2.0, 2.0], [0.0, 4.0, 1.0]]),
    "MultivariateNormal": (lambda d, t: d.MultivariateNormal(t(MU), t(COV)), A),
    "NegativeBinomial": (lambda d, t: d.NegativeBinomial(t(A), t(Q)), COUNTS),
    "Normal": (lambda d, t: d.Normal(t(MU), t(A)), B),
    "OneHotCategorical": (
        lambda d, t: d.OneHotCategorical(t(P)),
        [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]],
    ),
    "Pareto": (lambda d, t: d.Pareto(t(A), t(B2)), A + 1),
    "Poisson": (lambda d, t: d.Poisson(t(A)), COUNTS),
    "RelaxedBernoulli": (lambda d, t: d.RelaxedBernoulli(t(0.7), t(Q)), UNIT),
    "RelaxedBernoulli logits": (lambda d, t: d.RelaxedBernoulli(t(0.7), logits=t(MU)), UNIT),
    "RelaxedOneHotCategorical": (
        lambda d, t: d.RelaxedOneHotCategorical(t(0.7), t(P)),
        P[::-1].copy(),
    ),
    "StudentT": (lambda d, t: d.StudentT(t(A2), t(MU), t(B)), A),
    "TransformedDistribution": (
        lambda d, t: d.TransformedDistribution(
            d.Normal(t(MU), t(A)), [d.AffineTransform(t(0.5), t(-2.0)), d.SigmoidTransform()]
        ),
        UNIT,
    ),
    "tanh": (
        lambda d, t: d.TransformedDistribution(d.Normal(t(MU), t(A)), d.TanhTransform()),
        UNIT,
    ),
    "transformed vectors": (
        lambda d, t: d.TransformedDistribution(
            d.Independent(d.Normal(t(MU), t(A)), 1),
            [d.IndependentTransform(d.ExpTransform(), 1), d.AffineTransform(0.0, 2.0, 1)],
        ),
        B,
    ),
    "Uniform": (lambda d, t: d.Uniform(t(MU), t(TOP)), MU + 0.1),
    "Weibull": (lambda d, t: d.Weibull(t(A), t(B)), B),
    "Wishart": (lambda d, t: d.Wishart(t(A4), t(COV)), COV),
    "Wishart precision": (lambda d, t: d.Wishart(t(4.5), precision_matrix=t(COV)), COV),
}
SAID = ("mean", "variance", "stddev", "mode", "batch_shape", "event_shape", "has_rsample")


def _make(m, dtype="float64", grad=False):
    def t(x):
        made = m.tensor(np.asarray(x), dtype=getattr(m, dtype))
        return made.requires_grad_() if grad else made

    return t


def _ask(d, question, *args):
    """What it answers, or that it does not."""
    try:
        answer = getattr(d, question)
        return answer(*args) if callable(answer) else answer
    except (NotImplementedError, AttributeError):
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_what_is_said_of_it(name):
    """Where torch answers, the same; densities with their gradients."""
    make, value = CASES[name]
    answers = []
    for m in (eager, torch):
        t = _make(m)
        d = make(m.distributions, t)
        said = {k: _ask(d, k) for k in SAID}
        said |= {k: _ask(d, k, t(value)) for k in ("log_prob", "cdf")}
        said["icdf"] = _ask(d, "icdf", t(UNIT[:1]))
        said["entropy"] = _ask(d, "entropy")
        said["all"] = _ask(d, "enumerate_support") if d.has_enumerate_support else None
        wide = d.expand((2, *d.batch_shape))
        said["expanded"] = wide.log_prob(t(value))
        said["shape"] = tuple(wide.sample((4,)).shape)
        given = t(value).requires_grad_()
        density = d.log_prob(given)
        if density.requires_grad:
            density.sum().backward()
            said["gradient"] = given.grad
        answers.append(said)
    ours, theirs = answers
    for key, wanted in theirs.items():
        if wanted is None:
            continue
        assert ours.get(key) is not None, key
        got, wanted = (
            np.asarray(x.detach() if hasattr(x, "detach") else x) for x in (ours[key], wanted)
        )
        assert got.shape == wanted.shape, key
        np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-9, err_msg=key)


HEAVY = {
    "Cauchy",
    "HalfCauchy",
    "Categorical",
    "FisherSnedecor",
    "StudentT",
    "transformed vectors",
    "InverseGamma",
    "LogNormal",
    "Pareto",
}


@pytest.mark.parametrize("name", sorted(set(CASES) - HEAVY))
def test_moments_of_draws(name):
    eager.manual_seed(1)
    d = CASES[name][0](eager.distributions, _make(eager))
    draws = d.sample((40000,)).numpy()
    mean, variance = _ask(d, "mean"), _ask(d, "variance")
    if mean is None:
        theirs = CASES[name][0](torch.distributions, _make(torch)).sample((40000,)).numpy()
        mean, variance = theirs.mean(0), theirs.var(0)
    mean, variance = np.asarray(mean), np.asarray(variance)
    np.testing.assert_allclose(draws.mean(0), mean, atol=0.04 * (1 + variance.max() ** 0.5))
    np.testing.assert_allclose(draws.var(0), variance, rtol=0.15, atol=0.02)
    assert d.support is None or bool(d.support.check(eager.tensor(draws)).all())


@pytest.mark.parametrize("name", sorted(HEAVY - {"Categorical"}))
def test_quantiles_of_draws(name):
    eager.manual_seed(1)
    torch.manual_seed(1)
    draws = [
        CASES[name][0](m.distributions, _make(m)).sample((40000,)).numpy() for m in (eager, torch)
    ]
    ours, theirs = (np.quantile(x, [0.1, 0.3, 0.5, 0.7, 0.9], axis=0) for x in draws)
    np.testing.assert_allclose(ours, theirs, rtol=0.15, atol=0.08)


@pytest.mark.parametrize("alpha", [0.05, 0.7, 3.0, 40.0, 2000.0])
def test_gamma_draws_are_differentiable(alpha):
    """dx / dalpha is torch's for the same draw; draws of beta and of Dirichlet follow."""
    a = eager.full((200,), alpha, dtype=eager.float64).requires_grad_()
    eager.manual_seed(3)
    x = eager.distributions.Gamma(a, eager.ones(200, dtype=eager.float64)).rsample()
    x.sum().backward()
    wanted = torch._standard_gamma_grad(
        torch.full((200,), alpha, dtype=torch.float64), torch.tensor(x.detach().numpy())
    ).numpy()
    np.testing.assert_allclose(a.grad.numpy(), wanted, rtol=2e-3, atol=1e-12)


PAIRS = [
    (p, q)
    for p, q in itertools.product(CASES, CASES)
    if p.split()[0] == q.split()[0] and "ixture" not in p and "Wishart" not in p
] + [("Uniform", "Normal"), ("Chi2", "Gamma"), ("Gamma", "Chi2")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_divergences(p, q):
    def run(m):
        t = _make(m)
        second = (lambda x: t(np.asarray(x) * 1.25)) if q not in ("Binomial logits",) else t
        if q in (
            "Bernoulli",
            "Categorical",
            "OneHotCategorical",
            "MultivariateNormal",
            "Geometric",
        ):
            second = lambda x: t(np.asarray(x) ** 1.2 if np.min(x) >= 0 else x)  # noqa: E731
        try:
            found = m.distributions.kl_divergence(
                CASES[p][0](m.distributions, t), CASES[q][0](m.distributions, second)
            )
        except NotImplementedError:
            return None
        return found.detach().numpy()

    wanted = run(torch)
    if wanted is None:
        return
    got = run(eager)
    assert got is not None
    np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-9)


# Parameters with which some values of p are outside of what q can have, and some are not.
FAMILIES = {
    "Bernoulli": lambda d, t: d.Bernoulli(t([0.2, 1.0, 0.0])),
    "Beta": lambda d, t: d.Beta(t(A), t(B)),
    "Binomial": lambda d, t: d.Binomial(4, t(Q)),
    "ContinuousBernoulli": lambda d, t: d.ContinuousBernoulli(t([0.2, 0.75, 0.5])),
    "Exponential": lambda d, t: d.Exponential(t(A)),
    "Gamma": lambda d, t: d.Gamma(t(B), t(A)),
    "Gumbel": lambda d, t: d.Gumbel(t(MU), t(A)),
    "Laplace": lambda d, t: d.Laplace(t(MU), t(B)),
    "Normal": lambda d, t: d.Normal(t(MU), t(A)),
    "Pareto": lambda d, t: d.Pareto(t([0.7, 0.2, 0.5]), t([0.9, 1.4, 3.0])),
    "Poisson": lambda d, t: d.Poisson(t(A)),
    "Uniform": lambda d, t: d.Uniform(t([-0.7, 0.2, 0.55]), t([1.3, 1.4, 0.75])),
}


def _divergence(m, p, q):
    """It and its gradients with respect to the parameters of p, where it is finite."""
    given = []

    def leaf(x):
        given.append(_make(m, grad=True)(x))
        return given[-1]

    d = m.distributions
    found = d.kl_divergence(FAMILIES[p](d, leaf), FAMILIES[q](d, _make(m)))
    finite = found[found.isfinite()]
    if finite.requires_grad and finite.numel():
        finite.sum().backward()
    same = [m.zeros_like(x) if x.grad is None else x.grad for x in given]
    return found.detach().numpy(), *(x.nan_to_num().numpy() for x in same)


@pytest.mark.once
def test_divergences_between_families():
    named = {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY}
    pairs = [(p, q) for p, q in sorted(named) if p in FAMILIES and q in FAMILIES]
    assert len(pairs) == 74
    for p, q in pairs:
        for ours, theirs in zip(_divergence(eager, p, q), _divergence(torch, p, q), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9, err_msg=f"{p} {q}")
    p, q = (eager.distributions.Categorical(eager.tensor(x)) for x in ([0.0, 1.0], [1.0, 0.0]))
    assert eager.distributions.kl_divergence(p, q) == np.inf
    assert eager.distributions.kl_divergence(p, p) == 0


@pytest.mark.parametrize("given", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_a_normal_vector_shows_each_matrix(given):
    found = []
    for m in (torch, eager):
        matrix = _make(m)(np.array([[2.0, 0.0], [0.5, 1.5]]))
        matrix = matrix if given == "scale_tril" else matrix @ matrix.mT
        d = m.distributions.MultivariateNormal(m.zeros(3, 2, dtype=m.float64), **{given: matrix})
        found.append([getattr(d, name).numpy() for name in VIEWS_OF_IT])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


VIEWS_OF_IT = ("covariance_matrix", "precision_matrix", "scale_tril")
REFUSED = [
    lambda d, t: d.Normal(t(MU), t(-A)),
    lambda d, t: d.Beta(t(A), t(B)).log_prob(t(A)),
    lambda d, t: d.Bernoulli(t([1.5])),
    lambda d, t: d.Bernoulli(t(Q)).log_prob(t([0.5, 0.0, 1.0])),
    lambda d, t: d.Categorical(t(P)).log_prob(t([3.0, 0.0])),
    lambda d, t: d.Dirichlet(t(A)).log_prob(t(A)),
    lambda d, t: d.Exponential(t(A)).log_prob(t(-A)),
    lambda d, t: d.Uniform(t(MU + 1), t(MU)),
    lambda d, t: d.Poisson(t(A)).log_prob(t([0.5, 1.0, 2.0])),
    lambda d, t: d.Normal(t(MU), t(A)).log_prob(t([1.0, 2.0])),
    lambda d, t: d.Independent(d.Normal(t(MU), t(A)), 2),
    lambda d, t: d.MixtureSameFamily(d.Categorical(t(P)), d.Normal(t(MU[:2]), t(A[:2]))),
    lambda d, t: d.Gamma(t([float("nan")]), t([1.0])),
    lambda d, t: d.MultivariateNormal(t(MU), t(-COV)),
    lambda d, t: d.Wishart(t(4.0), precision_matrix=t(-COV)),
    lambda d, t: d.NegativeBinomial(t(A), t([0.5, 1.0, 0.2])),
    lambda d, t: d.TanhTransform(cache_size=2),
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_torch_refuses(call, monkeypatch):
    # Its compiler, once it was imported, leaves them unchecked.
    monkeypatch.setattr(torch.distributions.Distribution, "_validate_args", True)
    for m in (eager, torch):
        with pytest.raises(ValueError):
            call(m.distributions, _make(m))


def _said_of_transforms(m):
    d, t = m.distributions, _make(m)
    affine = [d.AffineTransform(t(MU), 2.0), d.AffineTransform(t(MU), 2.0)]
    steps = [d.ComposeTransform([each, d.ExpTransform()]) for each in affine]
    kept, made = d.ExpTransform(cache_size=1), t(MU)
    image = kept(made)
    ends = t([-1.0, 0.0, 0.5, 1.0])
    bounds = (d.constraints.less_than(1.0), d.constraints.half_open_interval(0.0, 1.0))
    return [
        affine[0] == affine[1], steps[0] == steps[1], steps[0].inv == steps[1].inv,
        steps[0] == d.ExpTransform(), d.PowerTransform(t(2.0)) == d.PowerTransform(t(2.0)),
        kept.inv(image) is made, kept(made) is image, d.ExpTransform()(made) is image,
        kept.with_cache() is kept, kept.with_cache(0).inv(image) is made,
        d.IndependentTransform(d.ExpTransform(), 1), d.constraints.half_open_interval(0.0, 1.0),
        *(each.check(ends).tolist() for each in bounds),
        d.MultivariateNormal(t(MU), t(COV)), d.MultivariateNormal(t(MU), scale_tril=t(COV).tril()),
    ]  # fmt: skip


def test_what_is_said_of_transforms():
    ours, theirs = _said_of_transforms(eager), _said_of_transforms(torch)
    assert [repr(x).replace("eager.", "torch.") for x in ours] == [repr(x) for x in theirs]


def _saturated(m, loc):
    d = m.distributions
    base = d.Normal(loc, 1e-6)
    squashed = d.TransformedDistribution(base, [d.TanhTransform(cache_size=1)])
    action = squashed.rsample()
    return action, squashed.log_prob(action)


def test_an_action_at_the_end_of_its_range_has_the_density_of_what_it_was_made_of():
    """Without the last pair, the inverse of tanh is infinite there."""
    found = _saturated(torch, torch.tensor([0.5, 20.0, -30.0]))
    step = jit(_saturated)
    for call in (_saturated, step, step):
        for ours, theirs in zip(call(eager, eager.tensor([0.5, 20.0, -30.0])), found, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=0.4)
    assert step.stats.splits == 0


def test_arguments_that_are_not_checked():
    d = eager.distributions.Normal(eager.tensor(0.0), eager.tensor(-1.0), validate_args=False)
    assert d.log_prob(eager.tensor(1.0)).isnan()
    assert repr(eager.distributions.Normal(0.5, 2.0)) == "Normal(loc: 0.5, scale: 2.0)"


def test_a_divergence_of_ones_own():
    class Mine(eager.distributions.Normal):
        pass

    p, q = Mine(0.0, 1.0), Mine(1.0, 2.0)
    base = eager.distributions.kl_divergence(p, q)
    assert base == eager.distributions.kl_divergence(
        eager.distributions.Normal(0.0, 1.0), eager.distributions.Normal(1.0, 2.0)
    )

    @eager.distributions.register_kl(Mine, Mine)
    def of_mine(p, q):
        return p.loc + q.loc

    assert eager.distributions.kl_divergence(p, q) == 1.0
    with pytest.raises(NotImplementedError, match="No KL"):
        eager.distributions.kl_divergence(p, eager.distributions.Poisson(1.0))


@pytest.mark.parametrize("name", sorted(set(CASES) - {"Binomial logits", "Geometric logits"}))
def test_compiled(name):
    """A loss of a draw and its density, by the parameters: one graph, the same draws."""
    make, value = CASES[name]
    value = eager.tensor(np.asarray(value), dtype=eager.float64)
    tables = {}

    def constant(x):
        return tables.setdefault(
            np.asarray(x).tobytes(), eager.tensor(np.asarray(x), dtype=eager.float64)
        )

    make(eager.distributions, constant)

    def loss(one):
        given = iter(tables.values())
        d = make(eager.distributions, lambda _: next(given) * one)
        return d.log_prob(value).sum() + d.sample((5,)).to(eager.float64).sum() * one

    one = eager.ones((), dtype=eager.float64)
    eager.manual_seed(7)
    wanted = loss(one)
    eager.manual_seed(7)
    step = jit(loss, backend="eager", fullgraph=True)
    np.testing.assert_allclose(step(one), wanted, rtol=1e-9)


def test_generalized_pareto_and_von_mises():
    """torch has the first in float32 alone, and the second by approximations."""
    answers = []
    for m in (eager, torch):
        t = _make(m, "float32")
        d = m.distributions.GeneralizedPareto(t(MU), t(A), t(TAILS))
        said = {k: getattr(d, k) for k in ("mean", "variance", "mode")} | {"entropy": d.entropy()}
        said |= {k: getattr(d, k)(t(TOP)) for k in ("log_prob", "cdf", "log_cdf")}
        said["icdf"] = d.icdf(t(UNIT))
        d = m.distributions.VonMises(t(MU), t(A))
        said |= {"density": d.log_prob(t(B)), "spread": d.variance, "shape": d.expand((2, 3)).loc}
        answers.append(said)
    for key, wanted in answers[1].items():
        np.testing.assert_allclose(answers[0][key].numpy(), wanted.numpy(), 2e-6, 2e-6, err_msg=key)
    eager.manual_seed(1)
    torch.manual_seed(1)
    for make in (
        lambda m, t: m.distributions.GeneralizedPareto(t(MU), t(A), t(TAILS)),
        lambda m, t: m.distributions.VonMises(t(MU), t(A)),
    ):
        draws = [make(m, _make(m, "float32")).sample((20000,)).numpy() for m in (eager, torch)]
        ours, theirs = (np.quantile(x, [0.1, 0.3, 0.5, 0.7, 0.9], axis=0) for x in draws)
        np.testing.assert_allclose(ours, theirs, rtol=0.1, atol=0.1)


TRANSFORMS = {
    "stick": (lambda d: d.StickBreakingTransform(), MU),
    "correlations": (lambda d: d.CorrCholeskyTransform(), MU),
    "cholesky": (lambda d: d.LowerCholeskyTransform(), COV),
    "positive": (lambda d: d.PositiveDefiniteTransform(), COV),
    "reshape": (lambda d: d.transforms.ReshapeTransform((3, 3), (9,)), COV),
    "cat": (
        lambda d: d.CatTransform([d.ExpTransform(), d.identity_transform], -1, [1, 2]),
        COV,
    ),
    "stack": (lambda d: d.StackTransform([d.ExpTransform(), d.TanhTransform()], 0), P),
    "cdf": (lambda d: d.CumulativeDistributionTransform(d.Normal(0.5, 2.0)), MU),
    "compose": (
        lambda d: d.ComposeTransform([d.AffineTransform(0.5, 2.0), d.StickBreakingTransform()]),
        P,
    ),
    "unstick": (lambda d: d.StickBreakingTransform().inv, P),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_of_parts(name):
    make, value = TRANSFORMS[name]
    answers = []
    for m in (eager, torch):
        transform, x = make(m.distributions), _make(m)(value)
        y = transform(x)
        said = {"y": y, "back": transform.inv(y)}
        said |= {"slope": _ask(transform, "log_abs_det_jacobian", x, y)}
        said["inside"] = transform.codomain.check(y)
        said["events"] = (transform.domain.event_dim, transform.codomain.event_dim)
        said["shape"] = tuple(transform.forward_shape(x.shape))
        answers.append(said)
    for key, wanted in answers[1].items():
        if wanted is not None:
            got, wanted = np.asarray(answers[0][key]), np.asarray(wanted)
            np.testing.assert_allclose(got, wanted, 1e-7, 1e-9, err_msg=key)


SPACES = {
    "positive": lambda c, t: c.positive,
    "above": lambda c, t: c.greater_than(t(2.0)),
    "below": lambda c, t: c.less_than(t(2.0)),
    "interval": lambda c, t: c.interval(-1.0, 3.0),
    "unit": lambda c, t: c.unit_interval,
    "simplex": lambda c, t: c.simplex,
    "correlations": lambda c, t: c.corr_cholesky,
    "independent": lambda c, t: c.independent(c.positive, 1),
    "stack": lambda c, t: c.stack([c.positive, c.real, c.unit_interval], -1),
    "cat": lambda c, t: c.cat([c.positive, c.real], -1, [1, 2]),
}


@pytest.mark.parametrize("name", SPACES)
def test_constraints_are_met(name):
    answers = []
    for m in (eager, torch):
        d, t = m.distributions, _make(m)
        space = SPACES[name](d.constraints, t)
        found = [of(space)(t(MU)) for of in (d.biject_to, d.transform_to)]
        answers.append([*found, *(space.check(x) for x in found)])
    for got, wanted in zip(*answers, strict=True):
        np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), 1e-9)
    with pytest.raises(NotImplementedError, match="register"):
        eager.distributions.biject_to(eager.distributions.constraints.symmetric)


MATRICES = {"plain": COV, "lower": np.tril(COV), "minus": -COV, "singular": np.ones((3, 3)),
            "unsymmetric": COV + np.triu(COV), "corr": CORRELATED}  # fmt: skip


@pytest.mark.parametrize("name", ["square", "symmetric", "positive_definite", "lower_triangular",
                                  "lower_cholesky", "corr_cholesky"])  # fmt: skip
def test_constraints_of_matrices(name):
    for value in MATRICES.values():
        ours, theirs = (
            getattr(m.distributions.constraints, name).check(_make(m)(value))
            for m in (eager, torch)
        )
        assert bool(ours) == bool(theirs), value


def test_divergence_of_wishart():
    """torch's is below 0; the mean of the difference of the densities is not."""
    eager.manual_seed(0)
    d, t = eager.distributions, _make(eager)
    p, q = d.Wishart(t(5.0), t(COV)), d.Wishart(t(6.5), t(COV * 1.2 + np.eye(3)))
    x = p.sample((20000,))
    found = float((p.log_prob(x) - q.log_prob(x)).mean())
    np.testing.assert_allclose(float(d.kl_divergence(p, q)), found, rtol=0.03)


@pytest.mark.parametrize("name", CASES)
def test_what_it_is_made_of(name):
    ours, theirs = (CASES[name][0](m.distributions, _make(m)) for m in (eager, torch))
    for attribute in ("param_shape", "transforms", "base_dist"):
        assert hasattr(ours, attribute) == hasattr(theirs, attribute), attribute
    if hasattr(theirs, "param_shape"):
        assert tuple(ours.param_shape) == tuple(theirs.param_shape)
    if hasattr(theirs, "transforms"):
        x = theirs.base_dist.sample()
        y = eager.tensor(x.numpy())
        for a, b in zip(ours.transforms, theirs.transforms, strict=True):
            y, x = a(y), b(x)
        np.testing.assert_allclose(y.numpy(), x.numpy(), rtol=1e-4)
        z = eager.tensor(theirs.base_dist.sample().numpy())
        np.testing.assert_allclose(
            ours.base_dist.log_prob(z).numpy(),
            theirs.base_dist.log_prob(torch.tensor(z.numpy())).numpy(),
            rtol=1e-4,
        )
