"""Constraints on the values of a parameter or a draw. tensor -> bool tensor, one per event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eager import linalg
from eager.base.dtype import bool_, finfo
from eager.core.tensor import Tensor
from eager.ops.move import cat as _joined
from eager.ops.move import stack as _stacked

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
    "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
    "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky",
    "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive",
    "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector",
    "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """Base of constraints: `check(value)`; `event_dim` dimensions make one value."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__[1:] + "()"


class _Dependent(Constraint):
    """Constraint that depends on other parameters: not looked at. What all that it may be share is
    given; NotImplementedError for what is not."""

    def __init__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return bool(_known(self._is_discrete, "is_discrete"))

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return int(_known(self._event_dim, "event_dim"))

    def __call__(self, **known: Any) -> Any:
        """One of which this is known, too."""
        return _Dependent(
            **{"is_discrete": self._is_discrete, "event_dim": self._event_dim, **known}
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def _known(value: Any, name: str) -> Any:
    if value is NotImplemented:
        raise NotImplementedError(f".{name} cannot be determined statically")
    return value


class _DependentProperty(property, _Dependent):
    """A property that gives a constraint, of other parameters."""

    def __init__(
        self,
        fn: Any = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> Any:  # type: ignore[override]
        """Decorator form, with the attributes that all the constraints share."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Range(Constraint):
    """Between two bounds, of which either may be missing or may be left out ("(", ")"). Each kind
    is a class of its own, as in PyTorch: transforms are registered, and looked for, by class."""

    ends = "[]"
    lower_bound: Any = None
    upper_bound: Any = None

    def check(self, value: Tensor) -> Tensor:
        good = value % 1 == 0 if self.is_discrete else value == value
        if self.lower_bound is not None:
            low = self.lower_bound
            good = good & (value >= low if self.ends[0] == "[" else value > low)
        if self.upper_bound is not None:
            high = self.upper_bound
            good = good & (value <= high if self.ends[1] == "]" else value < high)
        return good

    def __repr__(self) -> str:
        bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        shown = ", ".join(f"{k}={v}" for k, v in bounds.items() if v is not None)
        return f"{type(self).__name__[1:]}({shown})"


class _GreaterThanEq(_Range):
    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _GreaterThan(_Range):
    ends = "(]"

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _LessThan(_Range):
    ends = "[)"

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _Interval(_Range):
    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _HalfOpenInterval(_Range):
    ends = "[)"

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _IntegerInterval(_Range):
    is_discrete = True

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _IntegerLessThan(_Range):
    is_discrete = True

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound


class _IntegerGreaterThan(_Range):
    is_discrete = True  # and the bound is allowed, whatever the name says

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        lower = (value.tril() == value).flatten(-2).all(-1)
        return lower & (value.diagonal(0, -2, -1) > 0).all(-1)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _CorrCholesky(Constraint):
    """Lower triangular, with a positive diagonal and rows of length 1."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        near = 10 * finfo(value.dtype).eps * value.shape[-1]
        unit = ((value.detach().norm(dim=-1) - 1).abs() <= near).all(-1)
        return lower_cholesky.check(value) & unit


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        same = value.shape[-2] == value.shape[-1]
        return value.new_full(value.shape[:-2], same, dtype=bool_)


class _Symmetric(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return square.check(value)
        return value.isclose(value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        good = super().check(value)
        return (linalg.eigvalsh(value) >= 0).all(-1) if good.all() else good


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        good = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return good
        return good & (linalg.cholesky_ex(value).info == 0)


class _Multinomial(Constraint):
    """Counts of at most `upper_bound` together."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _Several(Constraint):
    """Constraints of the parts of a value along `dim`."""

    def __init__(self, cseq: Sequence[Constraint], dim: int) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(each.is_discrete for each in self.cseq)
        self.event_dim = max(each.event_dim for each in self.cseq)


class _Cat(_Several):
    """Parts of the given lengths, one after the other."""

    def __init__(
        self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None
    ) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self.dim)
        return _joined([e.check(v) for e, v in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Several):
    """One index of `dim` for each."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)
        self.event_dim += self.dim + self.event_dim < 0

    def check(self, value: Tensor) -> Tensor:
        parts = value.unbind(self.dim)
        return _stacked([e.check(v) for e, v in zip(self.cseq, parts, strict=True)], self.dim)


class _IndependentConstraint(Constraint):
    """Another constraint of every element of an event."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        good = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if good.ndim < n:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        return good.flatten(good.ndim - n).all(-1) if n else good

    def __repr__(self) -> str:
        shown = f"{self.base_constraint!r}, {self.reinterpreted_batch_ndims}"
        return f"{type(self).__name__[1:]}({shown})"


class MixtureSameFamilyConstraint(Constraint):
    """Constraint of the components of a mixture, on a value without their dimension."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        """True where all components allow the value."""
        if value.ndim < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.ndim}")
        good = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return good.flatten(value.ndim - self.event_dim).all(-1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_constraint!r})"


def is_dependent(constraint: Any) -> bool:
    return isinstance(constraint, _Dependent)


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
interval = _Interval
half_open_interval = _HalfOpenInterval
integer_interval = _IntegerInterval
cat = _Cat
stack = _Stack
multinomial = _Multinomial
boolean = _Boolean()
real = _Real()
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
positive_integer = _IntegerGreaterThan(1)
nonnegative_integer = _IntegerGreaterThan(0)
simplex = _Simplex()
one_hot = _OneHot()
lower_cholesky = _LowerCholesky()
lower_triangular = _LowerTriangular()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
