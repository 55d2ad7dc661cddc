"""Test calls for op records: value ranges -> Samples of all layouts (plain, 0-dim, empty,
broadcast, transposed).

The values are spread evenly and then shuffled, so they are distinct and no gradient test meets a
tie by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from eager.core.op import Sample, Samples


def values(shape: tuple[int, ...], low: float = -2.0, high: float = 2.1, seed: int = 0) -> Any:
    """A float64 array of distinct values in [low, high], shuffled."""
    n = int(np.prod(shape))
    spread = np.linspace(low, high, n) if n > 1 else np.full(n, low + 0.7 * (high - low))
    return np.random.default_rng(seed).permutation(spread).reshape(shape)


def integers(shape: tuple[int, ...], low: int = -4, high: int = 5, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(low, high, shape)


def booleans(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)


def on(low: float = -2.0, high: float = 2.0, *, grad: bool = True, **kwargs: Any) -> Samples:
    """One operand with values in [low, high]; `kwargs` go to the function."""

    def make() -> Iterable[Sample]:
        for x in (
            values((3, 4), low, high),
            values((), low, high),
            values((0, 3), low, high),
            values((4, 3), low, high).T,
        ):
            yield Sample((x,), kwargs, grad)

    return make


def on_two(
    first: tuple[float, float] = (-2.0, 2.1),
    second: tuple[float, float] = (-2.0, 2.0),
    *,
    grad: bool = True,
    number: Any = 1.5,
) -> Samples:
    """Two operands: equal shapes, broadcast both ways, a number, 0-dim, empty, transposed."""
    shapes = (((3, 4), (3, 4)), ((3, 1), (4,)), ((2, 3), ()), ((0, 3), (3,)))
    second = (second[0] + 0.0137, second[1] - 0.0191)  # off the first's grid: no ties

    def make() -> Iterable[Sample]:
        for a, b in shapes:
            yield Sample((values(a, *first), values(b, *second, seed=1)), {}, grad)
        yield Sample((values((4, 3), *first).T, values((3, 4), *second, seed=1)), {}, grad)
        if number is not None:
            yield Sample((values((3, 4), *first), number), {}, grad)

    return make


def on_ints(*, two: bool = False, low: int = -4, high: int = 5) -> Samples:
    """Integer operands (no gradients)."""

    def make() -> Iterable[Sample]:
        for shape in ((3, 4), (), (0, 2)):
            more = (integers(shape, low, high, seed=1),) if two else ()
            yield Sample((integers(shape, low, high), *more), {}, grad=False)

    return make


def both(*several: Samples) -> Samples:
    """The samples of all."""

    def make() -> Iterable[Sample]:
        for each in several:
            yield from each()

    return make


def call(*args: Any, grad: bool = True, **kwargs: Any) -> Sample:
    return Sample(args, kwargs, grad)


Maker = Callable[..., Samples]
