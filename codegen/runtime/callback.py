"""Under compiled code: an op's NumPy kernel, called back. arrays over the graph's memory -> arrays.

A `Callback` is data (the op's name, its attributes, what its operands are), so that a compiled
graph that calls back can be kept on disk: another process takes the op from its own registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from codegen.runtime.artifact import CheckFailed
from eager import dtype as dt
from eager.aval import Aval
from eager.dtype import DType
from eager.op import REGISTRY, Op

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
            raise CheckFailed(f"{self.op.name} raised {error!r}", self.where) from error

    def __str__(self) -> str:
        return f"{self.op.name} (at {self.where})" if self.where else self.op.name

    def as_data(self) -> dict[str, Any] | None:
        """What JSON can hold; None for an op of the user's, or an attribute that is no data."""
        if not type(self.op).__module__.startswith("eager."):
            return None
        try:
            attrs = {name: _encoded(value) for name, value in self.attrs.items()}
            operands = list(map(_encoded, self.operands))
        except TypeError:
            return None
        outs = [[list(a.shape), a.dtype.name, a.device] for a in self.outs]
        return {
            "op": self.op.name, "attrs": attrs, "operands": operands, "outs": outs,
            "where": self.where,
        }  # fmt: skip

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Callback:
        """What `as_data` described. Raises LookupError, TypeError or ValueError for other data."""
        op = REGISTRY[data["op"]]
        if not type(op).__module__.startswith("eager."):
            raise ValueError(f"{op.name} is not the library's own")
        attrs = {name: _decoded(value) for name, value in data["attrs"].items()}
        outs = tuple(
            Aval(tuple(map(int, shape)), dt.by_name(kind), str(device))
            for shape, kind, device in data["outs"]
        )
        operands = tuple(map(_decoded, data["operands"]))
        return cls(op, attrs, operands, outs, str(data["where"]))


def _encoded(value: Any) -> Any:
    """Tuples, dtypes and floats (infinite ones too) by name; the rest as JSON has it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return ["float", value.hex()]
    if isinstance(value, complex):
        return ["complex", value.real.hex(), value.imag.hex()]
    if isinstance(value, DType):
        return ["dtype", value.name]
    if isinstance(value, tuple):
        return ["tuple", *map(_encoded, value)]
    raise TypeError(f"a {type(value).__name__} is not data")


def _decoded(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, *parts = value
    if kind == "tuple":
        return tuple(map(_decoded, parts))
    if kind == "complex":
        return complex(*map(float.fromhex, parts))
    (text,) = parts
    return {"float": float.fromhex, "dtype": dt.by_name}[kind](text)
