"""Rules on views, moves and reductions: chains become one, no-ops go. node -> simpler value.

Views cost nothing to run but hide equal values from each other; a chain in one canonical op lets
later stages see what is read.
"""

from __future__ import annotations

import math
from typing import Final

from eager.aval import Aval
from jitcap.graph import Arg, Node
from jitcap.passes.rules import Maker, Rule, constant, is_op


def _source(n: Node) -> Node | None:
    x = n.args[0]
    return x if isinstance(x, Node) else None


def _same_shape(s: Maker, n: Node) -> Arg | None:
    """A view of the same shape that moves nothing is its operand."""
    x = _source(n)
    return x if x is not None and x.aval.shape == n.aval.shape else None


def _alias(s: Maker, n: Node) -> Arg | None:
    return _source(n)


def _permute(s: Maker, n: Node) -> Arg | None:
    """Identity, composition; moving only dimensions of size 1 is a reshape."""
    x, dims = _source(n), n.attrs["dims"]
    if x is None:
        return None
    if dims == tuple(range(len(dims))):
        return x
    if x.op.name == "permute":
        inner = x.attrs["dims"]
        return s.make("permute", x.args[0], like=n, dims=tuple(inner[d] for d in dims))
    moved = [d for d in dims if x.aval.shape[d] != 1]
    if moved == sorted(moved):
        return s.make("reshape", x, like=n, shape=n.aval.shape)
    return None


def _reshape(s: Maker, n: Node) -> Arg | None:
    """Of a reshape (or of what only adds and drops dimensions of size 1) is one reshape."""
    x = _source(n)
    if x is None:
        return None
    if x.aval.shape == n.aval.shape:
        return x
    if x.op.name in ("reshape", "unsqueeze", "squeeze"):
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
    if x.aval.shape == n.aval.shape:
        return x
    if x.op.name == "expand":
        return s.make("expand", x.args[0], like=n, shape=n.aval.shape)
    return None


def _of_full(s: Maker, n: Node) -> Arg | None:
    """Any view of a constant tensor is a smaller or larger constant tensor."""
    x = _source(n)
    if x is None or x.op.name != "full":
        return None
    return s.make("full", x.args[0], like=n, shape=n.aval.shape, dtype=n.aval.dtype)


def _slice(s: Maker, n: Node) -> Arg | None:
    """Of a slice of the same dimension: one slice."""
    x, a = _source(n), n.attrs
    if x is None or x.op.name != "slice" or x.attrs["dim"] != a["dim"]:
        return None
    b = x.attrs
    size = n.aval.shape[a["dim"]]
    start, step = b["start"] + a["start"] * b["step"], b["step"] * a["step"]
    stop = start + (size - 1) * step + 1 if size else start
    return s.make("slice", x.args[0], like=n, dim=a["dim"], start=start, stop=stop, step=step)


def _flip(s: Maker, n: Node) -> Arg | None:
    """Twice over the same dimensions: nothing."""
    x = _source(n)
    if x is not None and x.op.name == "flip" and set(x.attrs["dims"]) == set(n.attrs["dims"]):
        return x.args[0]
    return x if not n.attrs["dims"] else None


def _pad(s: Maker, n: Node) -> Arg | None:
    return _source(n) if not any(map(any, n.attrs["pads"])) else None


def _cat(s: Maker, n: Node) -> Arg | None:
    """Of one tensor; or of consecutive slices that make up a whole tensor again."""
    if len(n.args) == 1:
        return n.args[0]
    dim, at = n.attrs["dim"], 0
    whole = _first_source(n.args[0])
    for a in n.args:
        if not isinstance(a, Node) or a.op.name != "slice" or a.args[0] is not whole:
            return None
        if a.attrs["dim"] != dim or a.attrs["start"] != at or a.attrs["step"] != 1:
            return None
        at += a.aval.shape[dim]
    return whole  # refused by the caller unless the slices cover it: shapes differ then


def _first_source(a: Arg) -> Arg | None:
    return a.args[0] if isinstance(a, Node) and a.args else None


def _take(s: Maker, n: Node) -> Arg | None:
    """By 0, 1, 2, ...: a slice."""
    x, index = n.args
    if not isinstance(x, Node) or not is_op(index, "iota"):
        return None
    assert isinstance(index, Node)
    dim, size = n.attrs["dim"], index.aval.shape[0]
    if size > x.aval.shape[dim]:
        return None  # out of range: the op itself says so when it runs
    return s.make("slice", x, like=n, dim=dim, start=0, stop=size, step=1)


def _index_add(s: Maker, n: Node) -> Arg | None:
    """At 0, 1, 2, ... of a whole dimension: an addition."""
    x, index, source = n.args
    if not isinstance(x, Node) or not is_op(index, "iota"):
        return None
    return s.make("add", x, source, like=n) if _aval(source) == x.aval else None


def _aval(a: Arg) -> Aval | None:
    return a.aval if isinstance(a, Node) else None


def _sum_of_ones(s: Maker, n: Node) -> Arg | None:
    """Over dimensions of size 1 a sum is a reshape, plus the 0.0 that sums start from."""
    x = _source(n)
    if x is None or x.aval.dtype is not n.aval.dtype:
        return None
    if any(x.aval.shape[d] != 1 for d in n.attrs["dim"]):
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
    """Whether `expand` repeats one element along `dim`."""
    (source,) = x.parents
    at = dim - (x.aval.ndim - source.aval.ndim)
    return at < 0 or source.aval.shape[at] == 1


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
    "cat": (_cat,),
    "take": (_take,),
    "index_add": (_index_add,),
    "sum": (_sum_of_ones, _sum_of_expand),
}
