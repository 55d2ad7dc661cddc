"""Many examples at once: each kind of op on tensors that have the examples in front. a call of an
op -> ops on all examples.

The rules are those of `vmap` (`eager/autograd/vmapped.py`), one for a kind, in eager's own ops, so
that they run, are differentiated and are captured like what a program writes. What an op looks at
as a whole (`core` of its record is None) is called once for each example, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from eager.base import dtype as dt
from eager.base.compat_warnings import tell
from eager.core.batched import Level
from eager.core.dispatch import apply
from eager.core.op import REGISTRY, Op
from eager.core.tensor import Tensor
from eager.ops.complex import PartView
from eager.ops.contract import CONV, CONV_INPUT_GRAD, CONV_WEIGHT_GRAD, DOT, Contract, Dot
from eager.ops.dynamic import Dynamic
from eager.ops.index import (
    GATHER,
    SCATTER,
    Advanced,
    Gather,
    IndexAdd,
    IndexPut,
    Scatter,
    Take,
    start_of,
)
from eager.ops.kinds import ArgReduce, Cast, Copy, Move, Pointwise, Reduce, Scan, View
from eager.ops.move import stack
from eager.ops.sort import Sort
from eager.ops.view import EXPAND, PERMUTE, RESHAPE, SELECT
from eager.ops.window import Window
from eager.sizes.aval import Aval, scalar_aval

Attrs = Mapping[str, Any]
_DIMS = ("dim", "dims", "dim1", "dim2")  # attributes that name dimensions


def batched(level: Level, op: Op, operands: Sequence[Any], attrs: Attrs) -> list[tuple[Any, bool]]:
    """The results of an op on operands of the level: values, and whether they have the examples
    in front. Raises what the op raises, of the shapes of one example."""
    arrays = [x._array if isinstance(x, Tensor) else None for x in operands]
    values = [x if a is None else a.value for x, a in zip(operands, arrays, strict=True)]
    mapped = [a is not None and a.mapped for a in arrays]
    if not any(mapped):
        made = apply(op, *values, **attrs)
        return [(out, False) for out in (made if op.n_outputs > 1 else (made,))]
    if isinstance(op, Dynamic):
        raise RuntimeError(  # noqa: TRY004 - as PyTorch
            "vmap: We do not support batching operators that can output dynamic shape. Attempted "
            f"to vmap over {op.name}: how large its result is depends on the example. Use what "
            "keeps the shape (where, masked_fill), or call it outside of vmap"
        )
    call = Call(op, values, mapped, attrs, level.size)
    try:
        made = _rule(op)(call)
    except (RuntimeError, IndexError):
        op.abstract(tuple(map(_aval, operands)), attrs)
        raise
    return [(out, True) for out in (made if op.n_outputs > 1 else (made,))]


class Call:
    """A call of an op. `mapped` says of each operand whether it has the examples in front."""

    __slots__ = ("attrs", "mapped", "op", "size", "values")

    def __init__(
        self, op: Any, values: Sequence[Any], mapped: Sequence[bool], attrs: Attrs, size: Any
    ) -> None:
        self.op, self.values, self.mapped, self.attrs, self.size = op, values, mapped, attrs, size

    def rank(self, i: int) -> int:
        """The dimensions that one example of an operand has; a number has none."""
        x = self.values[i]
        return x.ndim - self.mapped[i] if isinstance(x, Tensor) else 0

    def front(self, i: int, rank: int = 0) -> Any:
        """An operand with the examples in front, and ones before the dimensions of each, up to
        `rank` of them; a number as it is."""
        x = self.values[i]
        if not isinstance(x, Tensor):
            return x
        if not self.mapped[i]:
            x = apply(EXPAND, x, shape=(self.size, *x.shape))
        lead = rank - (x.ndim - 1)
        return shaped(x, (self.size, *(1,) * lead, *x.shape[1:])) if lead > 0 else x

    def fronts(self) -> list[Any]:
        return [self.front(i) for i in range(len(self.values))]

    def __call__(self, *values: Any, **changed: Any) -> Any:
        """The op, of other operands and with other attributes."""
        return apply(self.op, *values, **{**self.attrs, **changed})

    def shifted(self) -> dict[str, Any]:
        """Those attributes that name dimensions, of tensors with the examples in front."""
        return {k: moved(v) for k, v in self.attrs.items() if k in _DIMS and v is not None}


def moved(dims: Any) -> Any:
    """Dimensions of an example as those of all."""
    return tuple(d + 1 for d in dims) if isinstance(dims, tuple) else dims + 1


def shaped(x: Tensor, shape: Sequence[Any]) -> Any:
    return apply(RESHAPE, x, shape=tuple(shape))


def _aval(x: Any) -> Aval:
    return x.aval if isinstance(x, Tensor) else scalar_aval(x)


def _to_front(x: Tensor, dim: int) -> Any:
    order = (dim, *(d for d in range(x.ndim) if d != dim))
    return apply(PERMUTE, x, dims=order) if dim else x


# -------------------------------------------------------------------- pointwise, shifted dimensions
def _alike(call: Call) -> Any:
    """One operand, which the op looks at element by element, or at the last dimensions of."""
    return call(*call.values)


def _pointwise(call: Call) -> Any:
    """Ones behind the examples, where an example has fewer dimensions than that of another operand.
    An example without dimensions is weaker in promotion than its tensor of all."""
    ranks = [call.rank(i) for i in range(len(call.values))]
    full = max(ranks)
    values = [
        call.front(i, full) if mapped and ranks[i] < full else x
        for i, (x, mapped) in enumerate(zip(call.values, call.mapped, strict=True))
    ]
    kinds = {x.dtype for x in values[call.op.mask :] if isinstance(x, Tensor)}
    if len(kinds) == 1 or not any(m and not r for m, r in zip(call.mapped, ranks, strict=True)):
        return call(*values)
    avals = [_aval(x) for x in call.values]
    avals = [replace(a, shape=a.shape[m:]) for a, m in zip(avals, call.mapped, strict=True)]
    common = call.op.common(avals)
    cast = [
        x.to(common.compute) if i >= call.op.mask and isinstance(x, Tensor) else x
        for i, x in enumerate(values)
    ]
    return call(*cast).to(call.op.out_dtype(avals, common))


def _moves(call: Call) -> Any:
    """Dimensions are numbered from behind the examples, sizes stand behind theirs."""
    changed, values = call.shifted(), call.fronts()
    if call.op is PERMUTE:
        changed = {"dims": (0, *changed["dims"])}
    elif call.op is EXPAND:
        values = [call.front(0, len(call.attrs["shape"]))]
    if "shape" in call.attrs:
        changed["shape"] = (call.size, *call.attrs["shape"])
    if "pads" in call.attrs:
        if call.mapped[1]:
            return each(call)
        values[1] = call.values[1]
        changed["pads"] = ((0, 0), *call.attrs["pads"])
    return call(*values, **changed)


def _reduced(call: Call) -> Any:
    """Nothing to reduce in an example without dimensions: over no dimension would be over all."""
    if call.rank(0):
        return _moves(call)
    return call(shaped(call.values[0], (call.size, 1)), dim=(1,), keepdim=False)


def _along(call: Call) -> Any:
    """Batching rule for ops along a dimension: an example without dimensions is taken as a
    vector."""
    if call.rank(0):
        return call(*call.fronts(), **call.shifted())
    made = call(*(shaped(x, (*x.shape, 1)) for x in call.fronts()), **call.shifted())
    outs = made if call.op.n_outputs > 1 else (made,)
    outs = tuple(shaped(x, x.shape[:1]) if x.ndim == 2 else x for x in outs)
    return outs if call.op.n_outputs > 1 else outs[0]


def _arg_reduce(call: Call) -> Any:
    if call.rank(0) and call.attrs["dim"] is not None:
        return _along(call)
    (x,) = call.values
    flat = shaped(x, (call.size, math.prod(x.shape[1:])))
    ones = (1,) * (x.ndim - 1) if call.attrs["keepdim"] else ()
    return shaped(call(flat, dim=1, keepdim=False), (call.size, *ones))


def _strided(call: Call) -> Any:
    """The memory of all examples is that of one after the other."""
    flat, shape, strides = call.front(0), call.attrs["shape"], call.attrs["strides"]
    shape, strides = (call.size, *shape), (flat.shape[1], *strides)
    rest = [call.front(i) for i in range(1, len(call.values))]
    out = call(shaped(flat, (call.size * flat.shape[1],)), *rest, shape=shape, strides=strides)
    return shaped(out, flat.shape) if rest else out


# ---------------------------------------------------------------------------------------- indices
def _iota(size: Any, like: Tensor, ndim: int) -> Any:
    where = {} if like.is_cpu else {"device": str(like.device)}
    numbers = apply(REGISTRY["iota"], shape=(size,), dtype=dt.int64, **where)
    return shaped(numbers, (size, *(1,) * ndim))


def _index(call: Call) -> Any:
    """Indices that are the same for all examples are moved on; others have beside them one of the
    examples, unless what they look into is the same for all."""
    dims, start, rank = call.attrs["dims"], start_of(call.attrs["dims"]), call.rank(0)
    picked = max(call.rank(i) for i in range(1, len(call.values)))
    x, indices = call.values[0], list(call.values[1:])
    if not any(call.mapped[1:]):
        out = call(x, *indices, dims=moved(dims))
        return _to_front(out, 0 if start_of(moved(dims)) else picked)
    for i, m in enumerate(call.mapped[1:]):
        indices[i] = call.front(i + 1, picked) if m else indices[i]
    if not call.mapped[0]:
        return _to_front(call(x, *indices), start)
    out = call(x, _iota(call.size, x, picked), *indices, dims=(0, *moved(dims)))
    rest = range(picked + 1, picked + 1 + rank - len(dims))
    order = (0, *rest[:start], *range(1, picked + 1), *rest[start:])
    return apply(PERMUTE, out, dims=order)


def _index_put(call: Call) -> Any:
    dims, start, rank = call.attrs["dims"], start_of(call.attrs["dims"]), call.rank(0)
    picked = max(call.rank(i) for i in range(2, len(call.values)))
    x, indices = call.front(0), list(call.values[2:])
    value = call.front(1, picked + rank - len(dims))
    apart = any(call.mapped[2:])
    if apart:
        for i, m in enumerate(call.mapped[2:]):
            indices[i] = call.front(i + 2, picked) if m else indices[i]
        indices, dims = [_iota(call.size, x, picked), *indices], (-1, *dims)
    chosen = range(1 + start, 1 + start + picked)
    rest = [d for d in range(1, value.ndim) if d not in chosen]
    if apart:
        order = (0, *chosen, *rest)
    else:
        order = tuple(range(value.ndim)) if start_of(moved(dims)) else (*chosen, 0, *rest)
    return call(x, apply(PERMUTE, value, dims=order), *indices, dims=moved(dims))


def _take(call: Call) -> Any:
    (x, index), dim = call.values, call.attrs["dim"]
    if not call.mapped[1]:
        return call(x, index, dim=dim + 1)
    if not call.mapped[0]:
        return _to_front(call(x, index), dim)
    before, after, count = x.shape[1 : dim + 1], x.shape[dim + 2 :], math.prod(index.shape[1:])
    places = shaped(index, (call.size, *(1,) * dim, count, *(1,) * len(after)))
    places = apply(EXPAND, places, shape=(call.size, *before, count, *after))
    out = apply(GATHER, x, places, dim=dim + 1)
    return shaped(out, (call.size, *before, *index.shape[1:], *after))


def _index_add(call: Call) -> Any:
    x, src, dim = call.front(0), call.front(2), call.attrs["dim"] + 1
    index = call.values[1]
    if not call.mapped[1]:
        return call(x, index, src, dim=dim)
    places = shaped(
        index, (call.size, *(1,) * (dim - 1), index.shape[1], *(1,) * (x.ndim - dim - 1))
    )
    places = apply(EXPAND, places, shape=tuple(src.shape))
    return apply(SCATTER, x, places, src, dim=dim, reduce="add")


def _searched(call: Call) -> Any:
    """A row of boundaries for each example."""
    rows, values = call.front(0), call.front(1)
    if call.rank(0) > 1:
        return call(rows, values)
    flat = shaped(values, (call.size, math.prod(values.shape[1:])))
    return shaped(call(rows, flat), values.shape)


# ----------------------------------------------------------------------------- products, windows


def _rows(a: Any, b: Any) -> Any:
    """a (B, M, K) by b (K, N), as one product."""
    out = apply(DOT, shaped(a, (a.shape[0] * a.shape[1], a.shape[2])), b)
    return shaped(out, (*a.shape[:2], b.shape[1]))


def _dot(call: Call) -> Any:
    """Batching rule for products: where one operand is a matrix for all, the examples are rows of
    the other."""
    a, b = call.values
    if all(call.mapped) or call.rank(0) > 2:
        return call(*call.fronts())
    return _rows(a, b) if call.mapped[0] else _rows(b.mT, a.mT).mT


def _folded(x: Tensor, dim: int) -> Any:
    """The examples joined with dimension `dim` of each, in front of which they are put."""
    x = apply(PERMUTE, x, dims=(*range(1, dim + 1), 0, *range(dim + 1, x.ndim)))
    return shaped(x, (*x.shape[:dim], x.shape[dim] * x.shape[dim + 1], *x.shape[dim + 2 :]))


def _unfolded(x: Tensor, size: Any, dim: int) -> Any:
    """The opposite of `_folded`: the examples are in front again."""
    x = shaped(x, (*x.shape[:dim], size, x.shape[dim] // size, *x.shape[dim + 1 :]))
    return _to_front(x, dim)


def _first(shape: Sequence[Any], size: Any) -> tuple[Any, ...]:
    return (size * shape[0], *shape[1:])


def _conv(call: Call) -> Any:
    """One filter for all: examples are samples. One sample for all: their filters are filters.
    Otherwise they are groups."""
    op, size, attrs = call.op, call.size, call.attrs
    gives = {"input_shape": 1, "weight_shape": 0}  # the dimension of the result that is grouped
    if not call.mapped[1] and op is not CONV_WEIGHT_GRAD:
        changed = {k: _first(attrs[k], size) for k in gives if k in attrs}
        return _unfolded(call(_folded(call.values[0], 0), call.values[1], **changed), size, 0)
    if not call.mapped[0] and op is CONV and attrs["groups"] == 1:
        return _unfolded(call(call.values[0], _folded(call.values[1], 0)), size, 1)
    a, b = call.fronts()
    changed = {"groups": int(size) * attrs["groups"]}
    if op is CONV_INPUT_GRAD:
        samples, channels, *rest = attrs["input_shape"]
        changed["input_shape"] = (samples, size * channels, *rest)
    if op is CONV_WEIGHT_GRAD:
        out = call(_folded(a, 1), _folded(b, 1), **changed,
                   weight_shape=_first(attrs["weight_shape"], size))  # fmt: skip
        return _unfolded(out, size, 0)
    return _unfolded(call(_folded(a, 1), _folded(b, 0), **changed), size, 1)


def _window(call: Call) -> Any:
    """Examples are samples."""
    changed = {k: _first(v, call.size) for k, v in call.attrs.items() if k == "input_shape"}
    made = call(_folded(call.values[0], 0), **changed)
    if call.op.n_outputs == 1:
        return _unfolded(made, call.size, 0)
    return tuple(_unfolded(x, call.size, 0) for x in made)


# ------------------------------------------------------------------------------------- libraries
def _library(call: Call) -> Any:
    """Batching rule from the dimensions that the op's record says its function looks at."""
    core = call.op.core
    if any(d in call.attrs for d in _DIMS):
        return _moves(call)
    kinds = {x.dtype for x in call.values if isinstance(x, Tensor)}
    ranks = [call.rank(i) for i in range(len(call.values))]
    if core is None or (0 in core and len(kinds) > 1 and 0 in ranks):
        return each(call)
    full = max(r - c for r, c in zip(ranks, core, strict=False))
    return call(*(call.front(i, full + core[i]) for i in range(len(call.values))))


_told: set[str] = set()


def each(call: Call) -> Any:
    """One call for each example."""
    if call.op.name not in _told:
        _told.add(call.op.name)
        tell(f"vmap: {call.op.name} is called once for each example: it has no rule for all of "
             "them at once", UserWarning)  # fmt: skip
    rows = [
        call(*(apply(SELECT, x, dim=0, index=i) if m else x
               for x, m in zip(call.values, call.mapped, strict=True)))
        for i in range(call.size)
    ]  # fmt: skip
    return tuple(map(stack, zip(*rows, strict=True))) if call.op.n_outputs > 1 else stack(rows)


RULES: dict[type, Callable[[Call], Any]] = {
    Pointwise: _pointwise, Cast: _alike, Copy: _alike, PartView: _alike,
    View: _moves, Move: _moves, Reduce: _reduced,
    Scan: _along, Sort: _along, Gather: _along, Scatter: _along, ArgReduce: _arg_reduce,
    Advanced: _index, IndexPut: _index_put, Take: _take, IndexAdd: _index_add,
    Dot: _dot, Contract: _conv, Window: _window,
}  # fmt: skip
_OWN: dict[str, Callable[[Call], Any]] = {
    "as_strided": _strided, "as_strided_scatter": _strided, "searchsorted": _searched,
}  # fmt: skip


def _rule(op: Op) -> Callable[[Call], Any]:
    own = _OWN.get(op.name)
    if own is not None:
        return own
    return next((RULES[kind] for kind in type(op).__mro__ if kind in RULES), _library)
