"""Base of the distributions: shapes, and what follows from sampling and densities."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from eager.autograd import grad, no_grad
from eager.base.compat_warnings import warn
from eager.core.dispatch import must_hold
from eager.core.tensor import Tensor
from eager.device import Size
from eager.distributions.constraints import (
    Constraint,
    dependent_property,
    independent,
    is_dependent,
)
from eager.random import rand


class Distribution:
    """A batch (`batch_shape`) of distributions over values of shape `event_shape`.

    Parameters and values are checked against `arg_constraints` and `support` (ValueError) unless
    `validate_args` is False; on a device they are not."""

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: Mapping[str, Constraint] = {}
    support: Any = None
    _validate_args = True

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions made from now on check their arguments."""
        Distribution._validate_args = bool(value)

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if is_dependent(constraint) or name not in self.__dict__:
                continue
            value = self.__dict__[name]
            valid = constraint.check(value).all()
            must_hold(
                valid,
                f"a valid {name} of a {type(self).__name__}",
                partial(self._bad_parameter, name, constraint, value),
            )

    def _bad_parameter(self, name: str, constraint: Constraint, value: Any) -> ValueError:
        return ValueError(
            f"Expected parameter {name} ({type(value).__name__} of shape "
            f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
            f"{constraint!r}, but found invalid values:\n{value}"
        )

    def _validate_sample(self, value: Any) -> None:
        """ValueError for a value that is none of the distribution's."""
        if not self._validate_args or not isinstance(value, Tensor):
            return
        shape = (*self._batch_shape, *self._event_shape)
        split = value.ndim - len(self._event_shape)
        if tuple(value.shape[max(split, 0) :]) != tuple(self._event_shape):
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs "
                f"{self._event_shape}."
            )
        for i, j in zip(reversed(value.shape), reversed(shape), strict=False):
            if i != 1 and j not in (1, i):
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs "
                    f"{shape}."
                )
        support = self.support
        if support is None or is_dependent(support):
            return
        must_hold(
            support.check(value).all(),
            f"a value within the support of a {type(self).__name__}",
            partial(self._bad_value, value),
        )

    def _bad_value(self, value: Any) -> ValueError:
        return ValueError(
            f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be "
            f"within the support ({self.support!r}) of the distribution {self!r}, but found "
            f"invalid values:\n{value}"
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """A copy of the distribution with its parameters expanded to a larger batch. What a
        subclass has begun (`_instance`) is given what it lacks."""
        new = self._get_checked_instance(type(self), _instance)
        own = len(self._batch_shape)
        for name, value in self.__dict__.items():
            if name in new.__dict__:
                continue
            if isinstance(value, Tensor):
                value = value.expand((*batch_shape, *value.shape[own:]))
            elif isinstance(value, Distribution):
                value = value.expand((*batch_shape, *value.batch_shape[own:]))
            new.__dict__[name] = value
        new._batch_shape = Size(batch_shape)
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """Object that `expand` is to fill, for programs with distributions of their own: one that a
        subclass has begun, or a new one. NotImplementedError if there is a subclass with an
        `__init__` of its own and no such `expand`."""
        if _instance is None and getattr(type(self), "__init__") is not getattr(cls, "__init__"):  # noqa: B009
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self) -> Size:
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        return self._event_shape

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _uniform(self, sample_shape: Any, like: Tensor) -> Tensor:
        """Draws from [0, 1) for the inverse of the distribution function: of 16-bit floats, whose
        own few bits are all 0 or 1 too often, in float32."""
        shape = self._extended_shape(sample_shape)
        return rand(shape, dtype=like.dtype.compute, device=like.device)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws of shape sample_shape + batch_shape + event_shape, without gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`, by its former name."""
        warn("sample_n() is deprecated: use sample((n,))", FutureWarning)
        return self.sample((n,))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws that are differentiable in the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no differentiable samples")

    def log_prob(self, value: Tensor) -> Tensor:
        """Log of the density or probability of `value`, one per batch element."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        return self.entropy().exp()

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The value below which a draw is with probability `value`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, in the first dimension."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError

    @property
    def variance(self) -> Tensor:
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def prob(self, value: Tensor) -> Tensor:
        return self.log_prob(value).exp()

    def __repr__(self) -> str:
        shown = [name for name in self.arg_constraints if name in self.__dict__]
        if "probs" in shown and "logits" in shown:  # the one that was given is set first
            shown.remove(max("probs", "logits", key=[*self.__dict__].index))
        each = [
            f"{name}: {value if value.numel() == 1 else value.shape}"
            for name, value in ((n, self.__dict__[n]) for n in shown)
        ]
        return f"{type(self).__name__}({', '.join(each)})"


class ExponentialFamily(Distribution):
    """With a density exp(<t(x), natural parameters> - log normalizer + k(x)). A subclass says
    `_natural_params`, `_log_normalizer(*natural_params)` and `_mean_carrier_measure`, the mean of
    k(x), and has an entropy by that, or has an entropy of its own."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, by the gradient of the log normalizer: the mean of t(x)."""
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*params)
        means = grad(normalizer.sum(), params, create_graph=True)
        total = normalizer - self._mean_carrier_measure
        for p, mean in zip(params, means, strict=True):
            total = total - (p * mean).reshape((*self._batch_shape, -1)).sum(-1)
        return total


class OfProbs(Distribution):
    """With a parameter that is given as `probs` or as `logits`."""

    @property
    def param_shape(self) -> Size:
        """The shape of that parameter."""
        shape: Size = self.probs.shape  # type: ignore[attr-defined]
        return shape


class Independent(Distribution):
    """The last `reinterpreted_batch_ndims` batch dimensions of another distribution as one
    event."""

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: Any = None,
    ) -> None:
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        split = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        if split < 0:
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                f"{reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        super().__init__(shape[:split], shape[split:], validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_enumerate_support

    @dependent_property
    def support(self) -> Any:
        inner = self.base_dist.support
        return inner and independent(inner, self.reinterpreted_batch_ndims)

    def _sum(self, x: Tensor) -> Tensor:
        n = self.reinterpreted_batch_ndims
        return x.sum(tuple(range(x.ndim - n, x.ndim))) if n else x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._sum(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        return self._sum(self.base_dist.entropy())

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
