"""Beside lower: ops of kind `move` and `index`. (result index, Call) -> the element found there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from codegen import affine, expr
from codegen.affine import ZERO, Affine
from codegen.elements import element, operand, tensors
from codegen.expr import BUILD, Expr
from codegen.ir import Call, Value
from eager import dtype as dt

Rule = Callable[[tuple[Affine, ...], Call], Expr]


def _between(i: Affine, lo: int, hi: int) -> Expr:
    """lo <= i < hi."""
    value = expr.index_of(i)
    return BUILD.and_(BUILD.ge(value, lo), BUILD.lt(value, hi))


def _all_of(conditions: list[Expr]) -> Expr:
    total = expr.const(True, dt.bool_)
    for c in conditions:
        total = BUILD.and_(total, expr.decide(c))
    return total


def _flip(axes: tuple[Affine, ...], call: Call) -> Expr:
    x, dims = tensors(call)[0], call.attrs["dims"]
    return element(
        x,
        tuple(
            -i + (n - 1) if d in dims else i
            for d, (i, n) in enumerate(zip(axes, x.aval.shape, strict=True))
        ),
    )


def _pad(axes: tuple[Affine, ...], call: Call) -> Expr:
    x, fill, pads = call.operands[0], call.operands[1], call.attrs["pads"]
    assert isinstance(x, Value)
    index = tuple(i - lo for i, (lo, _) in zip(axes, pads, strict=True))
    inside = _all_of([_between(i, 0, n) for i, n in zip(index, x.aval.shape, strict=True)])
    other = operand(fill, (), x.aval.dtype.compute)
    return expr.select(inside, element(x, index), expr.cast(other, x.aval.dtype))


def _cat(axes: tuple[Affine, ...], call: Call) -> Expr:
    dim, out = call.attrs["dim"], call.outs[0].aval.dtype
    parts = [x for x in tensors(call) if x.aval.numel]
    ends = [0]
    for x in parts:
        ends.append(ends[-1] + x.aval.shape[dim])
    result: Expr | None = None
    for x, start in reversed(list(zip(parts, ends, strict=False))):
        index = tuple(i - start if d == dim else i for d, i in enumerate(axes))
        here = expr.cast(element(x, index), out)
        before_next = BUILD.lt(expr.index_of(axes[dim]), start + x.aval.shape[dim])
        result = here if result is None else expr.select(before_next, here, result)
    assert result is not None
    return result


def _slice_scatter(axes: tuple[Affine, ...], call: Call) -> Expr:
    base, src = tensors(call)
    dim, start, stop, step = (call.attrs[k] for k in ("dim", "start", "stop", "step"))
    at = axes[dim] - start
    conditions = [_between(axes[dim], start, stop)]
    if step != 1:
        conditions.append(BUILD.eq(expr.index_of(at % step), 0))
    index = tuple(at // step if d == dim else i for d, i in enumerate(axes))
    return expr.select(_all_of(conditions), element(src, index), element(base, axes))


def _select_scatter(axes: tuple[Affine, ...], call: Call) -> Expr:
    base, src = tensors(call)
    dim = call.attrs["dim"]
    here = BUILD.eq(expr.index_of(axes[dim]), call.attrs["index"])
    index = tuple(i for d, i in enumerate(axes) if d != dim)
    return expr.select(expr.decide(here), element(src, index), element(base, axes))


def _diagonal_scatter(axes: tuple[Affine, ...], call: Call) -> Expr:
    base, src = tensors(call)
    offset, d1, d2 = (call.attrs[k] for k in ("offset", "dim1", "dim2"))
    row, col = axes[d1] + min(offset, 0), axes[d2] - max(offset, 0)
    n = src.aval.shape[-1]
    on = _all_of([BUILD.eq(expr.index_of(row - col), 0), _between(row, 0, n)])
    rest = tuple(i for d, i in enumerate(axes) if d not in (d1, d2))
    return expr.select(on, element(src, (*rest, row)), element(base, axes))


MOVES: Final[dict[str, Rule]] = {
    "flip": _flip,
    "pad": _pad,
    "cat": _cat,
    "slice_scatter": _slice_scatter,
    "select_scatter": _select_scatter,
    "diagonal_scatter": _diagonal_scatter,
}


# ---------------------------------------------------------------------------------- index


def place(index: Value, at: tuple[Affine, ...], size: int, where: str, *, negative: bool) -> Affine:
    """The checked index that tensor `index` names at `at`, into a dimension of `size`."""
    i = expr.cast(element(index, at), dt.int64)
    if negative:
        i = expr.checked(i, -size, size - 1, where)
        i = BUILD.where(BUILD.lt(i, 0), i + size, i)
    else:
        i = expr.checked(i, 0, size - 1, where)
    return affine.opaque(i, 0, max(size - 1, 0))


def _where_of(call: Call, dim: int, size: int) -> str:
    return f"{call.op.name}: index out of bounds for dimension {dim} with size {size}|{call.where}"


def _gather(axes: tuple[Affine, ...], call: Call) -> Expr:
    x, index = tensors(call)
    dim = call.attrs["dim"]
    size = x.aval.shape[dim]
    at = place(index, axes, size, _where_of(call, dim, size), negative=False)
    return element(x, (*axes[:dim], at, *axes[dim + 1 :]))


def _take(axes: tuple[Affine, ...], call: Call) -> Expr:
    x, index = tensors(call)
    dim, n = call.attrs["dim"], index.aval.ndim
    size = x.aval.shape[dim]
    at = place(index, axes[dim : dim + n], size, _where_of(call, dim, size), negative=False)
    return element(x, (*axes[:dim], at, *axes[dim + n :]))


def _advanced(axes: tuple[Affine, ...], call: Call) -> Expr:
    x, *indices = tensors(call)
    dims = call.attrs["dims"]
    picked = max(i.aval.ndim for i in indices)
    adjacent = dims == tuple(range(dims[0], dims[0] + len(dims)))
    start = dims[0] if adjacent else 0
    chosen, rest = axes[start : start + picked], iter((*axes[:start], *axes[start + picked :]))
    at: dict[int, Affine] = {}
    for dim, index in zip(dims, indices, strict=True):
        shape = index.aval.shape
        own = chosen[picked - len(shape) :]
        own = tuple(ZERO if n == 1 else i for n, i in zip(shape, own, strict=True))
        size = x.aval.shape[dim]
        at[dim] = place(index, own, size, _where_of(call, dim, size), negative=True)
    return element(x, tuple(at[d] if d in at else next(rest) for d in range(x.aval.ndim)))


INDEX: Final[dict[str, Rule]] = {
    "gather": _gather,
    "take": _take,
    "index": _advanced,
}
