"""Capture: what indices in tensors must satisfy. (index op, operands) -> conditions as graph nodes.

Python raises at an index out of range whether or not anybody uses what was read, and before any
later effect. So each index tensor is checked on its own (`CaptureTracer.check`), once per size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from eager.core.op import REGISTRY, Attrs, Op
from eager.ops.dynamic import NONZERO, REPEATS
from eager.ops.view import PERMUTE, SELECT
from eager.sizes.symint import SymInt, known_le
from jitcap.graph.graph import ITEM, Arg, Node, aval_of

_PLACES: Final = frozenset({"argreduce", "sort", "scan"})  # ops whose integers are places
_RELABELS: Final = frozenset({"view", "copy", "cast"})


class Bounds(NamedTuple):
    """Elements of `places` lie in [low, high]."""

    places: Node
    low: int
    high: int


def bounds_of(op: Op, operands: Sequence[Arg], attrs: Attrs) -> Iterator[Bounds]:
    """Bounds that an op of kind `index` expects of its index tensors."""
    shape = aval_of(operands[0]).shape
    if "dims" in attrs:
        for index, dim in zip(operands[-len(attrs["dims"]) :], attrs["dims"], strict=True):
            if isinstance(index, Node):
                yield Bounds(index, -shape[dim], shape[dim] - 1)
    elif isinstance(operands[1], Node):
        yield Bounds(operands[1], 0, (shape[attrs["dim"]] if shape else 1) - 1)


def is_found(bounds: Bounds) -> bool:
    """True if an op such as `nonzero` found the indices in a dimension of at most that size."""
    node, axis = bounds.places, -1
    while axis < 0 and node.op.kind in _RELABELS and node.aval.dtype.itemsize >= 4:
        (source,) = node.parents
        if node.op is SELECT:
            turned = source.op is PERMUTE and source.attrs["dims"] == (1, 0)
            rows = source.parents[0] if turned else source
            if rows.op is NONZERO and node.attrs["dim"] == turned:
                axis, source = node.attrs["index"], rows
        node = source
    if node.op not in (NONZERO, REPEATS):
        return False
    shape = aval_of(node.args[0]).shape
    if axis < 0 and len(shape) != 1:
        return False
    return known_le(shape[max(axis, 0)], bounds.high + 1) is True


def is_place(index: Node) -> bool:
    """True if an op made the tensor as indices: those of a sort or an argmax, say."""
    while index.op.kind in _RELABELS or index.op is ITEM:
        (source,) = index.parents
        if index.op is ITEM:
            return source.op.kind in _PLACES and index.attrs["index"] == 1
        index = source
    return index.op.kind == "argreduce"


def holds(value: Any, bounds: Bounds) -> bool:
    """True if all elements of a known index tensor are in bounds."""
    array = np.asarray(value)
    if not array.size:
        return True
    return bool(int(array.min()) >= bounds.low and int(array.max()) <= bounds.high)


def condition(tracer: Any, bounds: Bounds) -> Node:
    """Node of a bool that is true if all elements of the index tensor are in bounds."""
    index = bounds.places
    inside = _apply(tracer, "le", index, _operand(bounds.high))
    if index.aval.dtype.is_signed:
        low = _apply(tracer, "ge", index, _operand(bounds.low))
        inside = _apply(tracer, "logical_and", inside, low)
    if index.aval.shape:
        dims = tuple(range(index.aval.ndim))
        inside = _apply(tracer, "all", inside, dim=dims, keepdim=False)
    return inside


def _operand(n: Any) -> Arg:
    """A size as an operand."""
    arg: Arg = n.number().handle if isinstance(n, SymInt) else n
    return arg


def _apply(tracer: Any, name: str, *operands: Arg, **attrs: Any) -> Node:
    op = REGISTRY[name]
    node: Node
    (node,) = tracer.emit(op, operands, attrs, op.abstract(tuple(map(aval_of, operands)), attrs))
    return node
