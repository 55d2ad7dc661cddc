"""Discrete distributions: Categorical and Bernoulli, from probabilities or logits."""

from __future__ import annotations

import math
from typing import Any

from eager.autograd import no_grad
from eager.construct.interop import tensor
from eager.core.tensor import Tensor
from eager.distributions import constraints as c
from eager.distributions.distribution import Distribution, ExponentialFamily, OfProbs
from eager.distributions.utils import probs_to_logits
from eager.nn.functional import binary_cross_entropy_with_logits, softplus
from eager.ops.create import arange
from eager.ops.pointwise import where
from eager.ops.view import broadcast_tensors
from eager.random import bernoulli, multinomial


def _one_of(probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class Categorical(Distribution):
    """One of n classes with probabilities `probs` (normalised over the last dimension) or
    `logits`."""

    arg_constraints = {"probs": c.simplex, "logits": c.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: Any = None
    ) -> None:
        _one_of(probs, logits)
        if logits is not None:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
            self.probs = self.logits.softmax(dim=-1)
        elif probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
            self.logits = probs_to_logits(self.probs)
        super().__init__(self.probs.shape[:-1], validate_args=validate_args)
        self._num_events = self.probs.shape[-1]

    @c.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        return c.integer_interval(0, self._num_events - 1)

    @property
    def param_shape(self) -> Any:
        return self.probs.shape

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(self._num_events, device=self.logits.device).reshape(
            (-1, *(1,) * len(self._batch_shape))
        )
        return values.expand((-1, *self._batch_shape)) if expand else values

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Classes as int64, of shape sample_shape + batch_shape."""
        count = 1
        for n in sample_shape:
            count *= n
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = multinomial(rows, count, True)  # [batch, count]
        return drawn.t().reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        index, logits = broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        return -(self.logits.clamp(min=-3.4028e38) * self.probs).sum(-1)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    @property
    def mean(self) -> Tensor:
        return self.probs[..., 0] * math.nan

    @property
    def variance(self) -> Tensor:
        return self.probs[..., 0] * math.nan


class Bernoulli(OfProbs, ExponentialFamily):
    """1 with probability `probs` (or sigmoid of `logits`), else 0."""

    arg_constraints = {"probs": c.unit_interval, "logits": c.real}
    support = c.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: Any = None) -> None:
        _one_of(probs, logits)
        if logits is not None:
            self.logits = logits if isinstance(logits, Tensor) else tensor(logits)
            self.probs = self.logits.sigmoid()
        else:
            self.probs = probs if isinstance(probs, Tensor) else tensor(probs)
            self.logits = probs_to_logits(self.probs, is_binary=True)
        super().__init__(self.probs.shape, validate_args=validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with no_grad():
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(2, dtype=self.probs.dtype, device=self.probs.device)
        values = values.reshape((-1, *(1,) * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_tensors(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return softplus(self.logits) - self.logits * self.probs

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return where(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(self.probs.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)
