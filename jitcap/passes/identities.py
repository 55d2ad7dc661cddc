"""Rules on values: arithmetic identities that are exact in floating point. node -> simpler value.

Exact means bit for bit, NaN and the sign of zero included: `x + 0.0` is not `x` (for x = -0.0), but
`x - 0.0` and `x + -0.0` are; `x * 0` is never 0.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.core.op import REGISTRY
from eager.ops.pointwise import CAST, WHERE
from eager.sizes.aval import same_aval
from jitcap.graph.graph import Arg, Node
from jitcap.passes.rules import Maker, Rule, as_stored, constant, is_value


def _one(s: Maker, n: Node) -> Arg | None:
    """x * 1 = 1 * x = x."""
    x, y = n.args
    if is_value(y, 1):
        return x
    return y if is_value(x, 1) else None


def _plus_zero(s: Maker, n: Node) -> Arg | None:
    """x + -0.0 = x; for integers also x + 0."""
    zero = 0 if n.aval.dtype.category < dt.FLOAT else -0.0
    x, y = n.args
    if is_value(y, zero):
        return x
    return y if is_value(x, zero) else None


def _plus_negated(s: Maker, n: Node) -> Arg | None:
    """x + (-y) = x - y."""
    x, y = n.args
    if isinstance(y, Node) and y.op is _NEG and y.aval.dtype is n.aval.dtype:
        return s.make("sub", x, y.args[0], like=n) if not n.aval.weak else None
    return None


def _minus_zero(s: Maker, n: Node) -> Arg | None:
    """x - 0 = x."""
    return n.args[0] if is_value(n.args[1], 0.0) or is_value(n.args[1], 0) else None


def _by_one(s: Maker, n: Node) -> Arg | None:
    """x / 1 = x ** 1 = x."""
    return n.args[0] if is_value(n.args[1], 1) else None


def _undone(s: Maker, n: Node) -> Arg | None:
    """f(f(x)) = x, for negation and logical not."""
    (x,) = n.args
    if not isinstance(x, Node) or x.op is not n.op:
        return None
    return x.args[0]


def _cast(s: Maker, n: Node) -> Arg | None:
    """No conversion; or a chain whose middle type loses nothing."""
    (x,) = n.args
    if not isinstance(x, Node) or n.aval.weak or x.aval.weak:
        return None
    if x.aval.dtype is n.aval.dtype:
        return x
    if x.op is CAST:
        (y,) = x.args
        if isinstance(y, Node) and not y.aval.weak and _holds(x.aval.dtype, y.aval.dtype):
            return s.make("cast", y, like=n, **n.attrs)
    return None


def _holds(wide: DType, narrow: DType) -> bool:
    """True if every value of `narrow` is one of `wide`."""
    if {wide, narrow} & {dt.bfloat16}:
        return narrow is dt.bfloat16 and wide in (dt.bfloat16, dt.float32, dt.float64)
    return bool(np.can_cast(narrow.np, wide.np, "safe"))


def _where(s: Maker, n: Node) -> Arg | None:
    """A known or useless choice; a choice already made by the same condition."""
    c, x, y = n.args
    known = constant(c)
    if known is not None:
        return x if known else y
    if x is y:
        return x
    inner_x, inner_y = _chosen(x, c, 1), _chosen(y, c, 2)
    if inner_x is x and inner_y is y:
        return None
    return s.make("where", c, inner_x, inner_y, like=n)


def _chosen(a: Arg, condition: Arg, branch: int) -> Arg:
    """Branch that a `where` by the same condition takes; of other values themselves."""
    if isinstance(a, Node) and a.op is WHERE and a.args[0] is condition:
        return a.args[branch]
    return a


def _fold_numbers(s: Maker, n: Node) -> Arg | None:
    """An operation on known numbers is a number (run-time arithmetic as Python has it)."""
    if not n.aval.weak or not n.args or any(isinstance(a, Node) for a in n.args):
        return None
    with np.errstate(all="ignore"):
        (value,) = n.op.compute(n.args, n.attrs, n.avals)
    return as_stored(np.asarray(value).item(), n)


def _fold_full(s: Maker, n: Node) -> Arg | None:
    """A pointwise operation on constant tensors is one."""
    if n.op.kind not in ("pointwise", "cast") or n.aval.weak or n.aval.dtype is dt.bfloat16:
        return None
    values = [constant(a) for a in n.args]
    if not values or any(v is None for v in values) or not any(map(_is_tensor, n.args)):
        return None
    arrays = [
        np.asarray(v).astype(a.aval.dtype.np) if isinstance(a, Node) and not a.aval.weak else v
        for v, a in zip(values, n.args, strict=True)
    ]
    scalar = type(n.aval)((), n.aval.dtype, n.aval.device)
    with np.errstate(all="ignore"):
        (value,) = n.op.compute(tuple(arrays), n.attrs, (scalar,))
    number = np.asarray(value).item()
    return s.make("full", number, like=n, shape=n.aval.shape, dtype=n.aval.dtype)


def _is_tensor(a: Arg) -> bool:
    return isinstance(a, Node)


def _number_operands(s: Maker, n: Node) -> Arg | None:
    """A constant tensor as a Python number, where that changes neither shape nor type."""
    if n.op.kind != "pointwise" or n.aval.weak or n.attrs or len(n.args) < 2:
        return None
    args = tuple(_as_number(a) for a in n.args)
    if args == n.args or not any(map(_is_tensor, args)):
        return None
    new = s.make(n.op, *args, like=n)
    return new if isinstance(new, Node) and same_aval(new.aval, n.aval) else None


def _as_number(a: Arg) -> Arg:
    value = constant(a) if isinstance(a, Node) and a.aval.dtype.category >= dt.INT else None
    return a if value is None else value


_NEG: Final = REGISTRY["neg"]
RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "add": (_plus_zero, _plus_negated),
    "sub": (_minus_zero,),
    "mul": (_one,),
    "div": (_by_one,),
    "pow": (_by_one,),
    "neg": (_undone,),
    "logical_not": (_undone,),
    "cast": (_cast,),
    "where": (_where,),
}
EVERY: Final[tuple[Rule, ...]] = (_fold_numbers, _fold_full, _number_operands)
