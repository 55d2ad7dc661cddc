"""Rules on views, moves and reductions: chains become one, no-ops go. node -> simpler value.

Views cost nothing to run but hide equal values from each other; a chain in one canonical op lets
later stages see what is read.
"""

from __future__ import annotations

import math
from typing import Final

from eager.ops.create import FULL
from eager.ops.move import FLIP
from eager.ops.view import EXPAND, PERMUTE, SELECT, SLICE
from eager.sizes.aval import same, same_aval
from eager.sizes.symint import SymInt, is_one, known_le
from jitcap.graph.graph import ITEM, Arg, Node
from jitcap.graph.loops import SCAN, body_of
from jitcap.passes.rules import Maker, Rule, constant, is_op


def _source(n: Node) -> Node | None:
    x = n.args[0]
    return x if isinstance(x, Node) else None


def _same_shape(s: Maker, n: Node) -> Arg | None:
    """A view of the same shape that moves nothing is its operand."""
    x = _source(n)
    return x if x is not None and same(x.aval.shape, n.aval.shape) else None


def _alias(s: Maker, n: Node) -> Arg | None:
    return _source(n)


def _permute(s: Maker, n: Node) -> Arg | None:
    """Identity, composition; moving only dimensions of size 1 is a reshape."""
    x, dims = _source(n), n.attrs["dims"]
    if x is None:
        return None
    if dims == tuple(range(len(dims))):
        return x
    if x.op is PERMUTE:
        inner = x.attrs["dims"]
        return s.make("permute", x.args[0], like=n, dims=tuple(inner[d] for d in dims))
    moved = [d for d in dims if not is_one(x.aval.shape[d])]
    if moved == sorted(moved):
        return s.make("reshape", x, like=n, shape=n.aval.shape)
    return None


def _reshape(s: Maker, n: Node) -> Arg | None:
    """Composition: a reshape of what keeps the order of elements is one reshape."""
    x = _source(n)
    if x is None:
        return None
    if same(x.aval.shape, n.aval.shape):
        return x
    if x.op.keeps_order:
        return s.make("reshape", x.args[0], like=n, shape=n.aval.shape)
    return None


def _to_reshape(s: Maker, n: Node) -> Arg | None:
    """unsqueeze and squeeze in the canonical spelling."""
    x = _source(n)
    return None if x is None else s.make("reshape", x, like=n, shape=n.aval.shape)


def _expand(s: Maker, n: Node) -> Arg | None:
    x = _source(n)
    if x is None:
        return None
    if same(x.aval.shape, n.aval.shape):
        return x
    if x.op is EXPAND:
        return s.make("expand", x.args[0], like=n, shape=n.aval.shape)
    return None


def _of_full(s: Maker, n: Node) -> Arg | None:
    """Any view of a constant tensor is a smaller or larger constant tensor."""
    x = _source(n)
    if x is None or x.op is not FULL:
        return None
    return s.make("full", x.args[0], like=n, shape=n.aval.shape, dtype=n.aval.dtype)


def _slice(s: Maker, n: Node) -> Arg | None:
    """Composition: a slice of a slice of the same dimension is one slice."""
    x, a = _source(n), n.attrs
    if x is None or x.op is not SLICE or x.attrs["dim"] != a["dim"]:
        return None
    b = x.attrs
    size = n.aval.shape[a["dim"]]
    start, step = b["start"] + a["start"] * b["step"], b["step"] * a["step"]
    stop = start + size
    if step != 1:
        stop = start + (size - 1) * step + 1 if size else start
    return s.make("slice", x.args[0], like=n, dim=a["dim"], start=start, stop=stop, step=step)


def _flip(s: Maker, n: Node) -> Arg | None:
    """Cancellation: a flip twice over the same dimensions is nothing."""
    x = _source(n)
    if x is not None and x.op is FLIP and set(x.attrs["dims"]) == set(n.attrs["dims"]):
        return x.args[0]
    return x if not n.attrs["dims"] else None


def _pad(s: Maker, n: Node) -> Arg | None:
    return _source(n) if not any(map(any, n.attrs["pads"])) else None


def _cat(s: Maker, n: Node) -> Arg | None:
    """The tensor itself, of one operand, or of consecutive slices that make it up again."""
    if len(n.args) == 1:
        return n.args[0]
    dim, at = n.attrs["dim"], 0
    whole = _first_source(n.args[0])
    for a in n.args:
        if not isinstance(a, Node) or a.op is not SLICE or a.args[0] is not whole:
            return None
        if a.attrs["dim"] != dim or a.attrs["step"] != 1 or not same((a.attrs["start"],), (at,)):
            return None
        at += a.aval.shape[dim]
    return whole  # refused by the caller unless the slices cover it: shapes differ then


def _cat_of_rows(s: Maker, n: Node) -> Arg | None:
    """A slice, for elements, or slices of one size, of one tensor along a dimension, as `stack`
    joins them; flipped where they come backwards."""
    dim = n.attrs["dim"]
    rows = [_row(a, dim) for a in n.args]
    if rows[0] is None and len(rows) > 1:
        rows[0] = _last_row(n.args[0], dim, rows[1])
    if rows[-1] is None and len(rows) > 1:
        rows[-1] = _last_row(n.args[-1], dim, rows[-2])
    found = [r for r in rows if r is not None]
    if len(found) < max(len(rows), 2) or any(r[:3] != found[0][:3] for r in found):
        return None
    (x, d, width, first), last, count = found[0], found[-1][3], len(found)
    step, size = found[1][3] - first, max(width, 1)
    if not step or any(r[3] != first + i * step for i, r in enumerate(found)):
        return None
    if width and abs(step) != width:
        return None
    start, stop = min(first, last), max(first, last) + size
    part: Arg = x
    if (start, stop, abs(step)) != (0, x.aval.shape[d], size):
        each = abs(step) // size
        part = s.make("slice", part, like=n, dim=d, start=start, stop=stop, step=each)
    if width:
        shape = (*x.aval.shape[:d], count, width, *x.aval.shape[d + 1 :])
        part = s.make("reshape", part, like=n, shape=shape)
    if step < 0:
        part = s.make("flip", part, like=n, dims=(d,))
    order = [k for k in range(x.aval.ndim + bool(width)) if k != d]
    order.insert(dim, d)
    part = s.make("permute", part, like=n, dims=tuple(order))
    return s.make("reshape", part, like=n, shape=n.aval.shape)


Row = tuple[Node, int, int, int]  # a tensor, a dimension of it, a part's size there or 0, a place


def _row(a: Arg, dim: int) -> Row | None:
    """Row of a tensor that an operand of `cat` along `dim` is: one element, or a slice; or None."""
    x = _source(a) if isinstance(a, Node) and a.op.keeps_order else a
    if not isinstance(x, Node) or x.op not in (SELECT, SLICE):
        return None
    assert isinstance(a, Node)
    source, shape, d = _source(x), x.aval.shape, x.attrs["dim"]
    if source is None or type(source.aval.shape[d]) is not int:
        return None
    if x.op is SELECT:
        where, width = x.attrs["index"], 0
    else:
        where, width = x.attrs["start"], shape[d]
        if x.attrs["step"] != 1 or not width or type(width) is not int:
            return None
        if width == 1:
            shape, width = (*shape[:d], *shape[d + 1 :]), 0
    whole = (*shape[:dim], 1, *shape[dim:])  # with a dimension for the elements
    fits = same(a.aval.shape, whole) or (width == 0 and same(a.aval.shape, shape))
    return (source, d, width, where) if fits and type(where) is int else None


def _last_row(a: Arg, dim: int, neighbour: Row | None) -> Row | None:
    """The last carry of a loop, where the neighbour is of what the loop stacks of it."""
    x = _source(a) if isinstance(a, Node) and a.op.keeps_order else a
    if not isinstance(x, Node) or neighbour is None or x.op is not ITEM:
        return None
    assert isinstance(a, Node)
    source, loop, shape = neighbour[0], x.parents[0], x.aval.shape
    if neighbour[1:3] != (0, 0) or loop.op is not SCAN or source.op is not ITEM:
        return None
    carry, stack = x.attrs["index"], source.attrs["index"]
    count, ends = loop.attrs["carried"], body_of(loop).outputs
    if source.parents[0] is not loop or not carry < count <= stack:
        return None
    fits = a is x or same(a.aval.shape, (*shape[:dim], 1, *shape[dim:]))
    if ends[carry] is not ends[stack] or not fits:
        return None
    return source, 0, 0, 0 if loop.attrs["reverse"] else loop.attrs["length"] - 1


def _first_source(a: Arg) -> Arg | None:
    return a.args[0] if isinstance(a, Node) and a.args else None


def _take(s: Maker, n: Node) -> Arg | None:
    """A slice, by the indices 0, 1, 2, ..."""
    x, index = n.args
    if not isinstance(x, Node) or not is_op(index, "iota"):
        return None
    assert isinstance(index, Node)
    dim, size = n.attrs["dim"], index.aval.shape[0]
    if known_le(size, x.aval.shape[dim]) is not True:
        return None  # out of range: the op itself says so when it runs
    return s.make("slice", x, like=n, dim=dim, start=0, stop=size, step=1)


def _index_add(s: Maker, n: Node) -> Arg | None:
    """An addition, at the indices 0, 1, 2, ... of all of a dimension."""
    x, index, source = n.args
    if not isinstance(x, Node) or not is_op(index, "iota"):
        return None
    fits = isinstance(source, Node) and same_aval(source.aval, x.aval)
    return s.make("add", x, source, like=n) if fits else None


def _sum_of_ones(s: Maker, n: Node) -> Arg | None:
    """Over dimensions of size 1 a sum is a reshape, plus the 0.0 that sums start from."""
    x = _source(n)
    if x is None or x.aval.dtype is not n.aval.dtype:
        return None
    if not all(is_one(x.aval.shape[d]) for d in n.attrs["dim"]):
        return None
    term = s.make("reshape", x, like=n, shape=n.aval.shape)
    return s.make("add", term, 0.0, like=n) if n.aval.dtype.is_floating_point else term


def _sum_of_expand(s: Maker, n: Node) -> Arg | None:
    """The sum of k equal terms is one product: rounded once, where k additions round k times."""
    x = _source(n)
    if x is None or x.aval.dtype is not n.aval.dtype or not n.aval.dtype.is_floating_point:
        return None
    value = constant(x)
    count = math.prod(x.aval.shape[d] for d in n.attrs["dim"])
    if isinstance(count, SymInt):
        return None
    if value is not None and count:
        return s.make("full", value * count, like=n, shape=n.aval.shape, dtype=n.aval.dtype)
    if not is_op(x, "expand"):
        return None
    repeated = [d for d in n.attrs["dim"] if x.aval.shape[d] > 1 and _repeats(x, d)]
    if not repeated:
        return None
    times = math.prod(x.aval.shape[d] for d in repeated)
    once = tuple(1 if d in repeated else size for d, size in enumerate(x.aval.shape))
    smaller = s.make("expand", x.args[0], like=n, shape=once)
    total = s.make(n.op, smaller, like=n, **n.attrs)
    return s.make("mul", total, float(times), like=n)


def _repeats(x: Node, dim: int) -> bool:
    """True if `expand` repeats one element along `dim`."""
    (source,) = x.parents
    at = dim - (x.aval.ndim - source.aval.ndim)
    return at < 0 or is_one(source.aval.shape[at])


_VIEWS: Final = ("permute", "reshape", "expand", "unsqueeze", "squeeze", "slice", "select")
RULES: Final[dict[str, tuple[Rule, ...]]] = {
    **dict.fromkeys(_VIEWS, (_of_full,)),
    "alias": (_alias,),
    "stop_gradient": (_alias,),  # its work is done when the backward has been traced
    "permute": (_of_full, _permute),
    "reshape": (_of_full, _reshape),
    "unsqueeze": (_of_full, _to_reshape),
    "squeeze": (_of_full, _to_reshape),
    "expand": (_of_full, _expand),
    "slice": (_of_full, _same_shape, _slice),
    "flip": (_flip,),
    "pad": (_pad,),
    "cat": (_cat, _cat_of_rows),
    "take": (_take,),
    "index_add": (_index_add,),
    "sum": (_sum_of_ones, _sum_of_expand),
}
