"""From a constraint to a transform that meets it: `biject_to` one to one, `transform_to` any.
constraint -> transform of real numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eager.distributions import constraints as c
from eager.distributions import transforms as t


class ConstraintRegistry:
    """Factories of transforms, by the type of a constraint."""

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], t.Transform]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Add a factory for a constraint's type; without one, a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, c.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, c.Constraint):
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, but got "
                f"{constraint}"
            )
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: c.Constraint) -> t.Transform:
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints: register() a factory"
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _above(found: Any) -> t.Transform:
    return _then(t.ExpTransform(), found.lower_bound, 1)


def _below(found: Any) -> t.Transform:
    return _then(t.ExpTransform(), found.upper_bound, -1)


def _between(found: Any) -> t.Transform:
    low, high = found.lower_bound, found.upper_bound
    if all(isinstance(x, int | float) for x in (low, high)) and (low, high) == (0, 1):
        return t.SigmoidTransform()
    return _then(t.SigmoidTransform(), low, high - low)


def _then(first: t.Transform, loc: Any, scale: Any) -> t.Transform:
    if isinstance(loc, int | float) and (loc, scale) == (0, 1):
        return first
    return t.ComposeTransform([first, t.AffineTransform(loc, scale)])


def _register_both(registry: ConstraintRegistry) -> None:
    """Register the transforms that both registries share; nested ones come from the registry
    itself."""
    registry.register(c.real, lambda found: t.identity_transform)
    for above in (c.greater_than, c.greater_than_eq):
        registry.register(above, _above)
    registry.register(c.less_than, _below)
    for between in (c.interval, c.half_open_interval):
        registry.register(between, _between)
    registry.register(c.corr_cholesky, lambda found: t.CorrCholeskyTransform())
    registry.register(
        c.independent,
        lambda found: t.IndependentTransform(
            registry(found.base_constraint), found.reinterpreted_batch_ndims
        ),
    )
    registry.register(
        c.cat,
        lambda found: t.CatTransform([*map(registry, found.cseq)], found.dim, found.lengths),
    )
    registry.register(
        c.stack, lambda found: t.StackTransform([*map(registry, found.cseq)], found.dim)
    )


_register_both(biject_to)
_register_both(transform_to)
biject_to.register(c.simplex, lambda found: t.StickBreakingTransform())
transform_to.register(c.simplex, lambda found: t.SoftmaxTransform())
transform_to.register(c.lower_cholesky, lambda found: t.LowerCholeskyTransform())
for _constraint in (c.positive_definite, c.positive_semidefinite):
    transform_to.register(_constraint, lambda found: t.PositiveDefiniteTransform())
