"""Distributions of counts: Poisson, Geometric, Binomial, NegativeBinomial, Multinomial, and one-hot
classes. parameters -> draws and probabilities."""

from __future__ import annotations

import math
from typing import Any

from eager.autograd import no_grad
from eager.core.tensor import Tensor
from eager.distributions import constraints as c
from eager.distributions.categorical import Categorical, _one_of
from eager.distributions.distribution import Distribution, ExponentialFamily, OfProbs
from eager.distributions.utils import broadcast_all, probs_to_logits
from eager.nn.functional import one_hot, softplus
from eager.ops.create import arange, eye
from eager.ops.pointwise import where
from eager.random import _standard_gamma, binomial, poisson


class Poisson(ExponentialFamily):
    """Number of events that happen at a `rate`."""

    arg_constraints = {"rate": c.nonnegative}
    support = c.nonnegative_integer

    def __init__(self, rate: Any, validate_args: Any = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate


class _OfTrials(Distribution):
    """Base of counts of trials with the success probability `probs` or its `logits`."""

    arg_constraints: Any = {"probs": c.unit_interval, "logits": c.real}

    def _trials(self, probs: Any, logits: Any, *others: Any) -> list[Tensor]:
        """Sets both; the other parameters as tensors of their shape."""
        _one_of(probs, logits)
        first, *rest = broadcast_all(logits if probs is None else probs, *others)
        if probs is None:
            self.logits, self.probs = first, first.sigmoid()
        else:
            self.probs, self.logits = first, probs_to_logits(first, is_binary=True)
        return rest


class Geometric(_OfTrials):
    """Number of failures before the first success."""

    support = c.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        self._trials(probs, logits)
        super().__init__(self.probs.shape, validate_args=validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            u = self._uniform(sample_shape, self.probs)
            tiny = 1.1754943508222875e-38 if u.dtype.itemsize == 4 else 2.2250738585072014e-308
            draws = (u.clamp(min=tiny).log() / (-self.probs).log1p()).floor()
            return draws.to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        sure = (self.probs == 1) & (value == 0)
        probs = where(sure, 0.0, self.probs)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return (softplus(self.logits) - self.logits * self.probs) / self.probs

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return self.probs * 0

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs


def _at_most(logits: Tensor) -> Tensor:
    """log(1 + exp(logits)), the part of it that a large logit makes."""
    return logits.clamp(min=0) + (-logits.abs()).exp().log1p()


class Binomial(_OfTrials, OfProbs):
    """Number of successes in `total_count` trials."""

    arg_constraints = {
        "total_count": c.nonnegative_integer,
        "probs": c.unit_interval,
        "logits": c.real,
    }
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        (self.total_count,) = self._trials(probs, logits, total_count)
        self.probs = self.probs.expand(self.total_count.shape)
        self.logits = self.logits.expand(self.total_count.shape)
        super().__init__(self.probs.shape, validate_args=validate_args)

    @c.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return c.integer_interval(0, self.total_count)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return value * self.logits - n * _at_most(self.logits) + ways

    def entropy(self) -> Tensor:
        """NotImplementedError for counts that differ."""
        high = int(self.total_count.max().item())
        if not (self.total_count == high).all():
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        high = int(self.total_count.max().item())
        if not (self.total_count == high).all():
            raise NotImplementedError(
                "Inhomogeneous total count not supported by `enumerate_support`."
            )
        values = arange(1 + high, dtype=self.probs.dtype, device=self.probs.device)
        values = values.reshape((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)


class NegativeBinomial(_OfTrials, OfProbs):
    """Number of successes before `total_count` failures."""

    arg_constraints = {
        "total_count": c.nonnegative,
        "probs": c.half_open_interval(0.0, 1.0),
        "logits": c.real,
    }
    support = c.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: Any = None
    ) -> None:
        (self.total_count,) = self._trials(probs, logits, total_count)
        self.probs = self.probs.expand(self.total_count.shape)
        self.logits = self.logits.expand(self.total_count.shape)
        super().__init__(self.probs.shape, validate_args=validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            drawn = _standard_gamma(self.total_count.expand(self._extended_shape(sample_shape)))
            return poisson(drawn * self.logits.exp())

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self.total_count
        plain = -n * _at_most(self.logits) - value * _at_most(-self.logits)
        ways = (n + value).lgamma() - (value + 1).lgamma() - n.lgamma()
        return plain + where(n + value == 0, 0.0, ways)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()


class _OfClasses(OfProbs):
    """Over vectors of classes, by a Categorical."""

    arg_constraints: Any = {"probs": c.simplex, "logits": c.real_vector}

    @property
    def probs(self) -> Tensor:
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        return self._categorical.logits

    def _classes(self, probs: Any, logits: Any) -> None:
        self._categorical = Categorical(probs, logits)

    def _split(self) -> tuple[Any, Any]:
        shape = tuple(self._categorical.logits.shape)
        return shape[:-1], shape[-1:]


class OneHotCategorical(_OfClasses):
    """One of n classes as a vector with a single 1."""

    support = c.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        self._classes(probs, logits)
        super().__init__(*self._split(), validate_args=validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        classes = self._categorical.sample(sample_shape)
        return one_hot(classes, self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = eye(n, dtype=self.probs.dtype, device=self.probs.device).reshape(
            (n, *(1,) * len(self._batch_shape), n)
        )
        return values.expand((n, *self._batch_shape, n)) if expand else values

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return one_hot(self.probs.argmax(-1), self._event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose draws have the gradient of the probabilities (Bengio et al.,
    2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(_OfClasses):
    """Number of times that each of n classes comes in `total_count` draws."""

    def __init__(
        self,
        total_count: int = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: Any = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._classes(probs, logits)
        super().__init__(*self._split(), validate_args=validate_args)

    @c.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return c.multinomial(self.total_count)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        classes = self._categorical.sample((self.total_count, *sample_shape))
        return one_hot(classes, self._event_shape[0]).sum(0).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits = where((value == 0) & self.logits.isinf(), 0.0, self.logits)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        one = Binomial(n, self.probs, validate_args=False)
        counts = one.enumerate_support(False)[1:]
        more = (one.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - math.lgamma(n + 1) + more

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)
