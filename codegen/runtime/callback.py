"""Under compiled code: an op's NumPy kernel, called back. arrays over the graph's memory -> arrays.

A `Callback` is data (the op's name, its attributes, what its operands are), so that a compiled
graph that calls back can be kept on disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from codegen.ir.schema import Access, Library
from codegen.runtime.artifact import CheckFailed
from eager.base.dataclass import dataclass
from eager.core.op import Op
from eager.sizes.aval import Aval
from eager.sizes.substitute import substitute

ARRAY: Final = "array"  # an operand that is an array; another string is a number known at run time
NUMBER: Final = "number"


@dataclass(frozen=True, eq=False, slots=True)
class Callback:
    """One call of an op's NumPy kernel; `operands` has ARRAY, NUMBER or a number for each."""

    op: Op
    attrs: Mapping[str, Any]
    operands: tuple[str | complex, ...]
    outs: tuple[Aval, ...]
    where: str

    def __call__(self, *arrays: Any) -> Any:
        """The results. `arrays`: the arrays among the operands, then the run-time numbers."""
        count = self.operands.count(ARRAY)
        tensors, numbers = iter(arrays[:count]), iter(arrays[count:])
        operands = [
            next(tensors) if x == ARRAY else next(numbers).item() if x == NUMBER else x
            for x in self.operands
        ]
        try:
            with np.errstate(all="ignore"):  # as eager, which does not warn of overflow
                return self.op.compute(tuple(operands), self.attrs, self.outs)
        except Exception as error:
            if self.op.ordered:  # the other ranks know of it
                raise
            raise CheckFailed(f"{self.op.name} raised {error!r}", self.where) from error

    def at(self, sizes: Mapping[str, int]) -> Callback:
        """The call where symbols have these values."""
        outs = tuple(replace(a, shape=substitute(a.shape, sizes)) for a in self.outs)
        return replace(self, attrs=substitute(dict(self.attrs), sizes), outs=outs)

    def __str__(self) -> str:
        return f"{self.op.name} (at {self.where})" if self.where else self.op.name


def callback(step: Library, sizes: Mapping[str, int] | None = None) -> Callback:
    """The call that stands for a step, where symbols have these values."""
    marks = (
        ARRAY if isinstance(x, Access) else NUMBER if isinstance(x, str) else x
        for x in step.operands
    )
    made = Callback(step.op, step.attrs, tuple(marks), step.out_avals, step.where)
    return made.at(sizes) if sizes else made
