"""Base of the distributions: shapes, and what follows from sampling and densities."""

from __future__ import annotations

from typing import Any

from eager.autograd import no_grad
from eager.device import Size
from eager.notice import ignore
from eager.tensor import Tensor


class Distribution:
    """A batch (`batch_shape`) of distributions over values of shape `event_shape`."""

    has_rsample = False

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: Any = None
    ) -> None:
        ignore("Distribution", validate_args=validate_args)
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)

    @property
    def batch_shape(self) -> Size:
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        return self._event_shape

    def _extended(self, sample_shape: Any) -> tuple[int, ...]:
        return (*sample_shape, *self._batch_shape, *self._event_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws of shape sample_shape + batch_shape + event_shape, without gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws that are differentiable in the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no differentiable samples")

    def log_prob(self, value: Tensor) -> Tensor:
        """Log of the density or probability of `value`, one per batch element."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
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
        shapes = f"batch_shape={self._batch_shape}, event_shape={self._event_shape}"
        return f"{type(self).__name__}({shapes})"


class Independent(Distribution):
    """The last `reinterpreted_batch_ndims` batch dimensions of another distribution as one
    event."""

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: Any = None,
    ) -> None:
        ignore("Distribution", validate_args=validate_args)
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        shape = (*base_distribution.batch_shape, *base_distribution.event_shape)
        split = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        super().__init__(shape[:split], shape[split:])
        self.has_rsample = base_distribution.has_rsample

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
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance
