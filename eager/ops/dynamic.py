"""Ops whose result's size depends on values: nonzero, masked_select. tensor -> tensor.

Run, they find the size. In a graph it is a symbol among their attributes (`sizes`), which the op
defines: what it is, the run finds. Who records no such sizes splits the program (`UnknownValue`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.core.dispatch import apply, must_hold
from eager.core.op import REGISTRY, Attrs, Op
from eager.core.registry import Out, public
from eager.core.tensor import Tensor
from eager.core.traced import Traced, UnknownValue
from eager.ops import dynamic_by_mask
from eager.ops import samples as s
from eager.ops.dynamic_by_mask import Found
from eager.ops.view import broadcast_tensors
from eager.sizes.aval import Aval, broadcast_shapes
from eager.sizes.symint import is_empty


@dataclass(frozen=True, eq=False)
class Dynamic(Op):
    """`numpy` maps the operands' arrays to the results'. `rule` gives their avals where the size
    that data decide is the first argument, then the operands' avals and the attributes; `most` how
    large it can be, of the same without the size (None: there is no limit).

    `there`, which some have, does the same by other ops: the size as a 0-dim tensor (negative where
    `negative` is to be raised), and a function that gives the results when it is known. So on a
    device the host waits for the size alone. None for a call that it does not do."""

    numpy: Callable[..., Any] = field(kw_only=True)
    rule: Callable[..., tuple[Aval, ...]] = field(kw_only=True)
    most: Callable[..., Any] = field(kw_only=True)
    there: Callable[..., Found | None] | None = field(default=None, kw_only=True)
    negative: str = field(default="", kw_only=True)
    kind: ClassVar[str] = "dynamic"
    raises: ClassVar[bool] = True  # for negative counts

    def abstract(self, avals: tuple[Aval, ...], attrs: Attrs) -> tuple[Aval, ...]:
        if "size" not in attrs:
            raise UnknownValue(
                f"{self.name}(): the size of the result depends on the values, which are not known "
                "yet: they are being captured"
            )
        rest = {name: value for name, value in attrs.items() if name != "size"}
        return self.rule(attrs["size"], *avals, **rest)

    def run(self, arrays: tuple[Any, ...], attrs: Attrs) -> tuple[Any, ...]:
        rest = {name: value for name, value in attrs.items() if name != "size"}
        found = self.numpy(*arrays, **rest)
        found = found if self.n_outputs > 1 else (found,)
        return tuple([np.asarray(r, order="C") for r in found])

    def compute(
        self, arrays: tuple[Any, ...], attrs: Attrs, outs: tuple[Aval, ...]
    ) -> tuple[Any, ...]:
        return self.run(arrays, attrs)


def find(op: Dynamic, *operands: Tensor, **attrs: Any) -> Any:
    """Call a dynamic op."""
    aval = operands[0].aval
    if op.there is None or aval.device == "cpu" or is_empty(aval.numel):
        return apply(op, *operands, **attrs)
    given = [x.detach() for x in operands]
    found = op.there(*given, **attrs)
    if found is None:
        return apply(op, *operands, **attrs)
    count, values = found
    if type(count._array) is Traced:
        tracer = count._array.storage.tracer
        arrays = [x._array if type(x._array) is Traced else tracer.lift(x) for x in operands]
        handles = tuple(x.read() for x in arrays)
        return values(tracer.with_size(op, handles, attrs, count._array)["size"])
    size = count.item()
    if size < 0:
        raise RuntimeError(op.negative)
    return values(size)


NONZERO = Dynamic(  # a row of indices for each dimension: what a transposed view shows as columns
    "nonzero",
    ("x",),
    numpy=lambda x: np.ascontiguousarray(np.argwhere(x).T, np.int64),
    rule=lambda n, x: (Aval((x.ndim, n), dt.int64, x.device),),
    most=lambda x: x.numel,
    there=dynamic_by_mask.nonzero,
)
REPEATS = Dynamic(  # where each element of a repeated tensor comes from
    "repeats",
    ("counts",),
    numpy=lambda counts: np.repeat(np.arange(counts.shape[0]), counts),
    rule=lambda n, counts: (Aval((n,), dt.int64, counts.device),),
    most=lambda counts: None,
    there=dynamic_by_mask.repeats,
    negative="repeats can not be negative",
)


@public(
    samples=lambda: [
        s.call(s.booleans((3, 4)), grad=False),
        s.call(s.integers((3, 4)), grad=False),
        s.call(s.integers((5,)), as_tuple=True, grad=False),
    ]
)
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Indices of the elements that are not zero: one row of indices each, or (as_tuple) one tensor
    per dimension."""
    x = input.unsqueeze(0) if as_tuple and input.ndim == 0 else input
    places = find(NONZERO, x)
    return tuple(places.unbind(0)) if as_tuple else places.t()


@public(samples=lambda: [s.call(s.integers((3, 4)), size=5, fill_value=-2, grad=False)])
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """`nonzero` with exactly `size` rows: cut, or filled up with `fill_value`."""
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    found = nonzero(input)[:size]
    rest = found.new_full((size - found.shape[0], input.ndim), fill_value)
    return apply(REGISTRY["cat"], found, rest, dim=0)


@public(samples=lambda: [s.call(s.integers((3, 4)), grad=False)])
def argwhere(input: Tensor) -> Tensor:
    """Indices of the elements that are not zero: one row of indices each."""
    return find(NONZERO, input).t()


@public(
    out=Out(overlap="none"),
    samples=lambda: [
        s.call(s.values((3, 4)), s.booleans((3, 4))),
        s.call(s.values((3, 4)), s.booleans((4,))),
    ],
)
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask (broadcast) holds, as a vector."""
    if mask.dtype is not dt.bool_:
        raise RuntimeError(f"masked_select: expected BoolTensor for mask, got {mask.dtype}")
    shape = broadcast_shapes(tuple(input.shape), tuple(mask.shape))
    places = nonzero(mask.expand(shape).reshape(-1), as_tuple=True)
    return apply(REGISTRY["index"], input.expand(shape).reshape(-1), *places, dims=(0,))


@public(
    inplace=True,
    samples=lambda: [s.call(s.values((3, 4)), s.booleans((3, 4)), s.values((12,), seed=1))],
)
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """The elements where the mask holds replaced by those of `source`, in order."""
    if mask.dtype is not dt.bool_:
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype}"
        )
    if source.dtype is not input.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got "
            f"{input.dtype} and {source.dtype}"
        )
    input, chosen = broadcast_tensors(input, mask)
    enough = chosen.sum() <= source.numel()
    must_hold(enough, "Number of elements of source < number of ones in mask")
    order = (chosen.reshape(-1).to(dt.int64).cumsum(0) - 1).clamp(min=0)
    picked = apply(REGISTRY["take"], source.reshape(-1), order, dim=0).reshape(input.shape)
    return apply(REGISTRY["where"], chosen, picked, input)
