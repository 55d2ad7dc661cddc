"""Under `vmap`: what stands where a tensor's array stands. the tensor of all examples -> the array
of any one of them.

A `Batched` array has the shape of one example; its `value` is a tensor whose first dimension counts
the examples (or that is the same for each). Views of a `Batched` are views of its value and writes
go into it, so that memory is shared as it is outside. What an op does with it is said in
`eager/ops/batching.py`. Each level has a tape of its own: a tensor of a level requires a gradient
where one is asked for inside of it, and what its value requires is known outside alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from eager.sizes.aval import Aval, OfAval

_numbers = itertools.count()
# (level, op, operands that it has lifted, attributes) -> for each result the value, and whether it
# has the examples in front.
Rule = Callable[["Level", Any, Sequence[Any], Any], Sequence[tuple[Any, bool]]]


class Level:
    """One call of a mapped function: how many examples there are, and the rules of ops. A later
    level lies inside an earlier one."""

    __slots__ = ("number", "randomness", "rule", "size")

    def __init__(self, size: Any, randomness: str, rule: Rule) -> None:
        self.size = size
        self.randomness = randomness
        self.rule = rule
        self.number = next(_numbers)


class Batched(OfAval):
    """The array of one example. `mapped`: whether the value has the examples in front."""

    __slots__ = ("aval", "level", "mapped", "value")

    dtype = None  # that of NumPy's arrays, which guards ask for

    def __init__(self, level: Level, value: Any, mapped: bool) -> None:
        self.level = level
        self.value = value
        self.mapped = mapped
        aval = value.aval
        self.aval = Aval(aval.shape[1:], aval.dtype, aval.device) if mapped else aval

    @property
    def strides(self) -> tuple[int, ...]:
        strides: tuple[int, ...] = self.value.stride()
        return strides[1:] if self.mapped else strides

    @property
    def offset(self) -> int:
        """Offset of the first example."""
        return int(self.value.storage_offset())

    def of(self, value: Any) -> Batched:
        """Another value that is mapped as this one is."""
        return Batched(self.level, value, self.mapped)
