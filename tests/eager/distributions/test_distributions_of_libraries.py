"""Distributions, constraints and transforms as libraries of them are written, against PyTorch."""

import math

import pytest

import eager
from jitcap import jit

torch = pytest.importorskip("torch")
BOTH = (eager, torch)


def kinds(lib):
    c = lib.distributions.constraints
    made = {
        "above": c.greater_than(1.0), "from": c.greater_than_eq(1.0), "below": c.less_than(2.0),
        "between": c.interval(0.0, 2.0), "half": c.half_open_interval(0.0, 1.0),
        "whole": c.integer_interval(0, 3), "events": c.independent(c.positive, 1),
        "mixed": c.MixtureSameFamilyConstraint(c.positive), "counts": c.nonnegative_integer,
    }  # fmt: skip
    classes = {
        "above": c.greater_than, "from": c.greater_than_eq, "below": c.less_than,
        "between": c.interval, "half": c.half_open_interval, "whole": c.integer_interval,
        "events": c.independent, "mixed": c.MixtureSameFamilyConstraint,
        "counts": type(c.positive_integer),
    }  # fmt: skip
    value = lib.tensor([[0.5, 1.0], [2.0, 3.0]])
    return [
        (repr(x), type(x).__name__, x.is_discrete, x.event_dim, x.check(value).tolist(),
         [n for n, kind in classes.items() if isinstance(x, kind)])
        for x in made.values()
    ]  # fmt: skip


def dependent(lib):
    c = lib.distributions.constraints
    found = [c.is_dependent(c.dependent), c.dependent(event_dim=1).event_dim]
    for read in (
        lambda: c.dependent.event_dim,
        lambda: c.dependent(event_dim=1).is_discrete,
        lambda: lib.distributions.Independent.support.event_dim,
    ):
        try:
            found.append(read())
        except NotImplementedError as error:
            found.append(str(error))
    return [*found, lib.distributions.Uniform.support.event_dim, sorted(c.__all__)]


def registered_by_class(lib):
    """What a program registers for one class of constraints is not for others."""
    c, t = lib.distributions.constraints, lib.distributions.transforms

    class _Softplus(type(c.positive)):
        def __init__(self):
            super().__init__(lower_bound=0.0)

    lib.distributions.transform_to.register(_Softplus(), lambda found: t.SoftplusTransform())
    x = lib.tensor([0.5, -1.0])
    return [
        lib.distributions.transform_to(kind)(x).tolist()
        for kind in (
            _Softplus(),
            c.positive,
            c.greater_than(1.0),
            c.less_than(2.0),
            c.unit_interval,
        )
    ]


def of_a_program(lib):
    d = lib.distributions

    class Point(d.Distribution):
        arg_constraints = {"at": d.constraints.real}
        support = d.constraints.real
        has_rsample = True

        def __init__(self, at, validate_args=None):
            self.at = at
            super().__init__(at.shape, lib.Size(()), validate_args=validate_args)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Point, _instance)
            new.at = self.at.expand(batch_shape)
            super(Point, new).__init__(batch_shape, self.event_shape, validate_args=False)
            new._validate_args = self._validate_args
            return new

        def rsample(self, sample_shape=()):
            return self.at.expand(self._extended_shape(sample_shape))

        @d.utils.lazy_property
        def twice(self):
            return self.at * 2

    class Named(Point):
        def __init__(self, at, name):
            super().__init__(at)
            self.name = name

    at = lib.ones(2, requires_grad=True)
    point = Point(at)
    wide = point.expand((3, 2))
    with lib.no_grad():
        lazy = point.twice
    (grad,) = lib.autograd.grad(lazy.sum() + wide.rsample((2,)).sum(), at)
    try:
        Named(at, "n").expand((3, 2))
    except NotImplementedError as error:
        said = str(error)
    beta = d.Beta(lib.ones(2), lib.ones(2))
    begun = beta.expand((3, 2), _instance=beta._get_checked_instance(d.Beta))
    return [
        type(wide).__name__, wide.batch_shape, grad.tolist(), said, begun.concentration1.shape,
        point.twice is lazy,
    ]  # fmt: skip


def entropies(lib):
    d = lib.distributions

    class Natural(d.ExponentialFamily):
        """An exponential distribution."""

        def __init__(self, rate):
            self.rate = rate
            super().__init__(rate.shape, validate_args=False)

        @property
        def _natural_params(self):
            return (-self.rate,)

        def _log_normalizer(self, x):
            return -lib.log(-x)

        _mean_carrier_measure = 0

    rate = lib.tensor([0.5, 2.0])
    normal = d.Normal(rate, rate)
    return [
        [round(v, 5) for v in Natural(rate).entropy().tolist()],
        isinstance(normal, d.ExponentialFamily), isinstance(d.Categorical(rate), d.ExponentialFamily),
    ]  # fmt: skip


def transform_with_parameters(lib):
    """A transform that is a module, too, and keeps what its inverse would compute again."""
    d, nn = lib.distributions, lib.nn

    class Scale(d.Transform, nn.Module):
        domain = codomain = d.constraints.real
        bijective = True
        __hash__ = nn.Module.__hash__

        def __init__(self, cache_size=0):
            super().__init__(cache_size=cache_size)
            self.weight = nn.Parameter(lib.tensor(2.0))

        def _call(self, x):
            return x * self.weight

        def _inverse(self, y):
            return y / self.weight

        def log_abs_det_jacobian(self, x, y):
            return self.weight.log() + x * 0

    scale = Scale(cache_size=1)
    x = lib.tensor([1.0, 3.0])
    y = scale(x)
    kept = scale._cached_x_y[0] is x and scale._cached_x_y[1] is y and scale.inv(y) is x
    flow = d.TransformedDistribution(d.Normal(lib.zeros(2), lib.ones(2)), [scale])
    (-flow.log_prob(lib.tensor([1.0, 3.0])).sum()).backward()
    chain = d.ComposeTransform([scale, d.ExpTransform()])
    return [
        kept, scale.inv is scale.inv, scale.inv.inv is scale, [*scale.state_dict()],
        round(scale.weight.grad.item(), 4), chain.bijective, chain.domain.event_dim,
        [round(v, 4) for v in chain.log_abs_det_jacobian(x, chain(x)).tolist()],
        type(scale.inv).__name__,
    ]  # fmt: skip


def triangles(lib):
    u = lib.distributions.utils
    matrix = lib.arange(9.0).reshape(3, 3)
    found = [u.tril_matrix_to_vec(matrix, i).tolist() for i in (-1, 0, 1)]
    found += [u.vec_to_tril_matrix(lib.arange(6.0), 0).tolist()]
    found += [u.vec_to_tril_matrix(lib.arange(3.0), -1).tolist(), u.euler_constant]
    for fails in (
        lambda: u.tril_matrix_to_vec(matrix, 3),
        lambda: u.vec_to_tril_matrix(lib.arange(5.0)),
    ):
        with pytest.raises(ValueError, match=r"outside|cannot be expressed"):
            fails()
    return found


@pytest.mark.parametrize("program", [
    kinds, dependent, registered_by_class, of_a_program, entropies, transform_with_parameters,
    triangles,
], ids=lambda f: f.__name__)  # fmt: skip
def test_as_in_pytorch(program):
    ours, theirs = map(program, BOTH)
    if program is registered_by_class:
        for a, b in zip(ours, theirs, strict=True):
            assert a == pytest.approx(b)
    else:
        assert ours == theirs


def test_a_divergence_for_classes_that_are_no_distributions_themselves():
    class Base:
        pass

    class Mine(eager.distributions.Normal, Base):
        pass

    @eager.distributions.register_kl(Mine, Base)
    def _kl(p, q):
        return p.loc * 0 + 7.0

    mine = Mine(eager.zeros(1), eager.ones(1))
    assert eager.distributions.kl_divergence(mine, mine).item() == 7.0
    with pytest.raises(TypeError, match="classes"):
        eager.distributions.register_kl(mine, mine)


def test_lazy_properties_and_supports_when_compiled():
    d = eager.distributions

    class Scaled(d.Normal):
        @d.utils.lazy_property
        def precision(self):
            return self.scale**-2

    @jit
    def step(x, scale):
        mine = Scaled(x, scale)
        mixed = d.MixtureSameFamily(
            d.Categorical(eager.ones(2)), d.Uniform(x.detach() - 1, x.detach() + 1)
        )
        outer = d.Independent(d.TransformedDistribution(mine, [d.ExpTransform()]), 1)
        total = (mine.precision * mine.precision).sum() + outer.log_prob(x.exp())
        return total + mixed.support.check(eager.tensor(0.5)), outer.support.event_dim

    x, scale = eager.tensor([0.5, 1.0]), eager.tensor([1.0, 2.0])
    for _ in range(3):
        found, dims = step(x, scale)
        wanted = 1 + 1 / 16 - (0.5 + 1.0) - math.log(2) - math.log(2 * math.pi) + 1
        assert (found.item(), dims) == (pytest.approx(wanted, rel=1e-5), 1)
    assert (step.stats.compiles, step.stats.splits, step.stats.fallbacks) == (1, 0, 0)
