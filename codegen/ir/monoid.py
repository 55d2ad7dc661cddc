"""Beside the loop IR: what reductions combine elements by, and stores combine with memory. One
record each; how a backend spells it stands in the backend's table, by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.base.dtype import DType


@dataclass(frozen=True, eq=False, slots=True)
class Monoid:
    """`unit` of a type changes nothing. `of`: for argmax and argmin, which give a position, the
    monoid of the values."""

    name: str
    unit: Callable[[DType], float | int | bool]
    of: Monoid | None = None


def _least(dtype: DType) -> float | int | bool:
    return _extremes(dtype)[0]


def _greatest(dtype: DType) -> float | int | bool:
    return _extremes(dtype)[1]


def _extremes(dtype: DType) -> tuple[float, float]:
    if dtype.is_floating_point:
        return -math.inf, math.inf
    if dtype is dt.bool_:
        return False, True
    info = np.iinfo(dtype.np)
    return int(info.min), int(info.max)


SUM: Final = Monoid("sum", lambda _: 0)
PROD: Final = Monoid("prod", lambda _: 1)
MAX: Final = Monoid("max", _least)
MIN: Final = Monoid("min", _greatest)
ANY: Final = Monoid("any", lambda _: False)
ALL: Final = Monoid("all", lambda _: True)
ARGMAX: Final = Monoid("argmax", _least, MAX)
ARGMIN: Final = Monoid("argmin", _greatest, MIN)
MONOIDS: Final = {m.name: m for m in (SUM, PROD, MAX, MIN, ANY, ALL, ARGMAX, ARGMIN)}
# How a scatter combines, by the value of its attribute `reduce`.
COMBINE: Final[dict[str, Monoid | None]] = {
    "set": None, "add": SUM, "prod": PROD, "amax": MAX, "amin": MIN,
}  # fmt: skip
