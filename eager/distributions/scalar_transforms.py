"""Invertible functions of draws, with the logarithms of their slopes. tensor -> tensor and back."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

from eager.base.dtype import finfo
from eager.core.tensor import Tensor
from eager.distributions import constraints as c
from eager.nn.functional import softplus


class Transform:
    """Base: a subclass defines `_call`, `_inverse` and `log_abs_det_jacobian(x, y)`.

    `domain` and `codomain` are constraints; their `event_dim` says how many dimensions are one
    value. Calling it transforms; `.inv` is the inverse. With `cache_size=1` the last pair is kept:
    the inverse of the tensor that was made last is the one that it was made of, whatever rounding
    has done to it."""

    bijective = False
    domain: Any = c.real
    codomain: Any = c.real
    _cache_size = 0
    _cached_x_y: tuple[Any, Any] = (None, None)  # PyTorch's name: transforms of programs read it
    _inv: Any = None

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size, self._cached_x_y = cache_size, (None, None)
        super().__init__()

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Copy of the transform that keeps its last pair, or none (0)."""
        if cache_size == self._cache_size:
            return self
        new = copy.copy(self)
        new._cache_size, new._cached_x_y, new._inv = cache_size, (None, None), None
        return new

    @property
    def event_dim(self) -> int:
        return max(self.domain.event_dim, self.codomain.event_dim)

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self) -> Any:
        """Sign of the slope: 1 if it grows, -1 if it falls."""
        raise NotImplementedError

    def __call__(self, x: Tensor) -> Tensor:
        return self._cached(0, x, self._call)

    def _inv_call(self, y: Tensor) -> Tensor:
        """The value of `.inv(y)`."""
        return self._cached(1, y, self._inverse)

    def _cached(self, side: int, given: Tensor, make: Callable[[Tensor], Tensor]) -> Tensor:
        """The other of the last pair if `given` is its one of this side, else `make(given)`."""
        if not self._cache_size:
            return make(given)
        if given is not self._cached_x_y[side]:
            made = make(given)
            self._cached_x_y = (made, given) if side else (given, made)
        other: Tensor = self._cached_x_y[1 - side]
        return other

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx|."""
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        return shape

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class PlainTransform(Transform):
    """Without parameters: equal to every other of its class."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


def _same(a: Any, b: Any) -> bool:
    """True if parameters, numbers or tensors, have one value."""
    same = a == b
    return bool(same.all()) if isinstance(same, Tensor) else bool(same)


class _InverseTransform(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._inv = transform

    @c.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._inv.codomain

    @c.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return bool(self._inv.bijective)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __hash__(self) -> int:
        return hash(("inverse", self._inv))

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    @property
    def inv(self) -> Transform:
        return self._inv

    @property
    def sign(self) -> Any:
        return self._inv.sign

    def _call(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"


def _summed(x: Tensor, dims: int) -> Tensor:
    return x.sum(tuple(range(x.ndim - dims, x.ndim))) if dims else x


def _with_events(last: Any, steps: list[tuple[int, int]]) -> Any:
    """The constraint after steps that each take and give so many dimensions as one value, of which
    the first may be given more."""
    events = steps[0][0]
    for taken, given in steps:
        events = max(events - taken + given, given)
    return c.independent(last, events - last.event_dim) if events > last.event_dim else last


class ComposeTransform(Transform):
    """Several transforms, the first one first."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(p.bijective for p in self.parts)

    def _steps(self) -> list[tuple[int, int]]:
        return [(p.domain.event_dim, p.codomain.event_dim) for p in self.parts]

    @c.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        if not self.parts:
            return c.real
        return _with_events(self.parts[0].domain, [s[::-1] for s in self._steps()[::-1]])

    @c.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return _with_events(self.parts[-1].codomain, self._steps()) if self.parts else c.real

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(tuple(self.parts))

    @property
    def sign(self) -> Any:
        sign = 1
        for p in self.parts:
            sign = sign * p.sign
        return sign

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        total: Any = None
        events = self.domain.event_dim
        for i, part in enumerate(self.parts):
            after = y if i == len(self.parts) - 1 else part(x)
            more = events - part.domain.event_dim
            slope = _summed(part.log_abs_det_jacobian(x, after), more)
            total = slope if total is None else total + slope
            events, x = more + part.codomain.event_dim, after
        return x * 0 if total is None else total

    def forward_shape(self, shape: Any) -> Any:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return "ComposeTransform(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


class IndependentTransform(Transform):
    """A transform of which `reinterpreted_batch_ndims` more dimensions are one value."""

    def __init__(
        self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform
        self.reinterpreted_batch_ndims = n = reinterpreted_batch_ndims
        self.bijective = base_transform.bijective
        self.domain = c.independent(base_transform.domain, n)
        self.codomain = c.independent(base_transform.codomain, n)

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slopes = self.base_transform.log_abs_det_jacobian(x, y)
        return _summed(slopes, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"IndependentTransform({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class AffineTransform(Transform):
    """loc + scale x; with `event_dim` dimensions that are one value."""

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        self._event_dim = event_dim
        if event_dim:
            self.domain = self.codomain = c.independent(c.real, event_dim)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _same(self.loc, other.loc) and _same(self.scale, other.scale)

    def __hash__(self) -> int:
        return hash(type(self))

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            slope = self.scale.abs().log().expand(x.shape)
        else:
            slope = x.detach() * 0 + math.log(abs(self.scale))
        return _summed(slope, self._event_dim)


class ExpTransform(PlainTransform):
    """exp(x)."""

    bijective = True
    codomain = c.positive
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """x ** exponent of positive x."""

    bijective = True
    domain = codomain = c.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _same(self.exponent, other.exponent)

    def __hash__(self) -> int:
        return hash(type(self))

    @property
    def sign(self) -> Any:
        if isinstance(self.exponent, Tensor):
            return self.exponent.sign()
        return (self.exponent > 0) - (self.exponent < 0)

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()


def _inside(y: Tensor) -> Tensor:
    """Away from 0 and 1, so that its logit is finite."""
    limits = finfo(y.dtype)
    return y.clamp(min=limits.tiny, max=1 - limits.eps)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    return _inside(x.sigmoid())


class SigmoidTransform(PlainTransform):
    """1 / (1 + exp(-x))."""

    bijective = True
    codomain = c.unit_interval
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return _clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        y = _inside(y)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(PlainTransform):
    """log(1 + exp(x))."""

    bijective = True
    codomain = c.positive
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(PlainTransform):
    """tanh(x)."""

    bijective = True
    codomain = c.interval(-1.0, 1.0)
    sign = 1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(PlainTransform):
    """|x|; its inverse is the positive one."""

    codomain = c.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class SoftmaxTransform(PlainTransform):
    """Vectors to probabilities; its inverse gives logarithms."""

    domain = c.real_vector
    codomain = c.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


identity_transform = ComposeTransform([])
