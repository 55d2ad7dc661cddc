"""Beside the passes: an operation of one step, done for all steps at once. node, operands -> node.

A value of every step is one value with a first dimension more. What cannot be said so raises
`Unbatched`, and stays in its loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from eager.core.op import REGISTRY
from eager.ops.view import EXPAND, PERMUTE
from jitcap.graph.graph import Arg, Node, Rewriter, aval_of

Operands = Sequence[tuple[Arg, bool]]  # with whether it is a value of every step


class Unbatched(Exception):
    """An operation without a rule."""


def can_batch(n: Node) -> bool:
    """True if the node has a rule, and one result, which is not weak."""
    known = n.op.name in RULES or n.op.kind in KINDS
    return known and len(n.avals) == 1 and not n.aval.weak


def batch(r: Rewriter, n: Node, operands: Operands, length: int) -> Node:
    """`n` on the operands of all steps, of which one at least is such a value."""
    if not can_batch(n):
        raise Unbatched(n.op.name)
    rule = RULES.get(n.op.name) or KINDS[n.op.kind]
    return rule(r, n, operands, length)


def _make(r: Rewriter, n: Node, args: Sequence[Arg], attrs: Mapping[str, Any]) -> Node:
    return r.emit(n.op, tuple(args), attrs, n)


def _pointwise(r: Rewriter, n: Node, operands: Operands, length: int) -> Node:
    """Broadcasting aligns at the end: the first dimension is put in front of all others."""
    rank = n.aval.ndim
    args = []
    for x, every in operands:
        shape = aval_of(x).shape
        if every and len(shape) - 1 < rank:
            ones = (1,) * (rank - len(shape) + 1)
            x = r.emit(_RESHAPE, (x,), {"shape": (length, *ones, *shape[1:])}, n)
        args.append(x)
    return _make(r, n, args, n.attrs)


def _reduce(r: Rewriter, n: Node, operands: Operands, length: int) -> Node:
    ((x, _),) = operands
    dims = n.attrs["dim"]
    if dims is None:
        raise Unbatched(n.op.name)
    moved = tuple(d + 1 for d in dims) if isinstance(dims, tuple) else dims + 1
    return _make(r, n, (x,), {**n.attrs, "dim": moved})


def _shaped(r: Rewriter, n: Node, operands: Operands, length: int) -> Node:
    """reshape, expand: the shape gets the length in front."""
    ((x, _),) = operands
    shape, given = n.attrs["shape"], aval_of(x).shape
    if n.op is EXPAND and len(given) - 1 < len(shape):
        ones = (1,) * (len(shape) - len(given) + 1)
        x = r.emit(_RESHAPE, (x,), {"shape": (length, *ones, *given[1:])}, n)
    return _make(r, n, (x,), {"shape": (length, *shape)})


def _at_dimension(r: Rewriter, n: Node, operands: Operands, length: int) -> Node:
    """The dimensions that the attributes name are one further on."""
    ((x, _),) = operands
    attrs = dict(n.attrs)
    if "dim" in attrs:
        attrs["dim"] = attrs["dim"] + 1
    if "dims" in attrs:
        attrs["dims"] = tuple(d + 1 for d in attrs["dims"])
    if n.op is PERMUTE:
        attrs["dims"] = (0, *attrs["dims"])
    return _make(r, n, (x,), attrs)


def _unchanged(r: Rewriter, n: Node, operands: Operands, length: int) -> Node:
    return _make(r, n, [x for x, _ in operands], n.attrs)


def _dot(r: Rewriter, n: Node, operands: Operands, length: int) -> Node:
    return _make(r, n, [_every(r, n, x, on, length) for x, on in operands], n.attrs)


def _cat(r: Rewriter, n: Node, operands: Operands, length: int) -> Node:
    parts = [_every(r, n, x, on, length) for x, on in operands]
    return _make(r, n, parts, {"dim": n.attrs["dim"] + 1})


def _every(r: Rewriter, n: Node, x: Arg, on: bool, length: int) -> Arg:
    """A value as one of every step."""
    return x if on else r.emit(_EXPAND, (x,), {"shape": (length, *aval_of(x).shape)}, n)


_RESHAPE: Final = REGISTRY["reshape"]
_EXPAND: Final = REGISTRY["expand"]
Rule = Callable[[Rewriter, Node, Operands, int], Node]
KINDS: Final[dict[str, Rule]] = {"pointwise": _pointwise, "cast": _unchanged, "copy": _unchanged}
RULES: Final[dict[str, Rule]] = {
    **dict.fromkeys(("sum", "prod", "amax", "amin", "any", "all"), _reduce),
    **dict.fromkeys(("reshape", "expand"), _shaped),
    **dict.fromkeys(("permute", "unsqueeze", "squeeze", "slice", "select", "flip"), _at_dimension),
    **dict.fromkeys(("alias", "stop_gradient"), _unchanged),
    "dot": _dot,
    "cat": _cat,
}
