"""Reductions over dimensions, and the statistics made of them. tensor -> tensor with fewer dimensions."""

from __future__ import annotations

from typing import Any

from eager import dtype as dt
from eager.aval import Aval
from eager.dispatch import apply
from eager.dtype import DType
from eager.ops.kinds import ArgReduce, Reduce
from eager.ops.view import norm_dim, norm_dims
from eager.registry import public
from eager.tensor import Tensor


def restore(g: Tensor, aval: Aval, dim: tuple[int, ...], keepdim: bool) -> Tensor:
    """A reduced tensor with its reduced dimensions back as 1, ready to broadcast against the operand."""
    if keepdim:
        return g
    return g.reshape(tuple(1 if i in dim else n for i, n in enumerate(aval.shape)))


SUM = Reduce(
    "sum",
    ("x",),
    lambda g, avals, dim, keepdim: (restore(g, avals[0], dim, keepdim).expand(avals[0].shape),),
    monoid="sum",
)


def _extreme_vjp(g: Tensor, x: Tensor, out: Tensor, avals: Any, dim: Any, keepdim: bool) -> tuple[Tensor]:
    """The gradient is shared evenly among the elements that attain the extreme."""
    mask = (x == restore(out, avals[0], dim, keepdim)).to(g.dtype)
    return (restore(g, avals[0], dim, keepdim) * mask / mask.sum(dim, keepdim=True),)


AMAX = Reduce("amax", ("x",), _extreme_vjp, monoid="max")
AMIN = Reduce("amin", ("x",), _extreme_vjp, monoid="min")
ARGMAX = ArgReduce("argmax", ("x",), monoid="max")
ARGMIN = ArgReduce("argmin", ("x",), monoid="min")


@public()
def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None, **kwargs: Any) -> Tensor:
    """Sum over `dim` (all by default). Ints and bools give int64; `dtype` converts first."""
    dim = kwargs.get("axis", dim)
    input = input if dtype is None else input.to(dtype)
    return apply(SUM, input, dim=norm_dims(dim, input.ndim, "sum"), keepdim=keepdim)  # type: ignore[no-any-return]


@public()
def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Largest element over `dim`; ties share the gradient evenly. NaN wins."""
    return apply(AMAX, input, dim=norm_dims(dim, input.ndim, "amax"), keepdim=keepdim)  # type: ignore[no-any-return]


@public()
def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Smallest element over `dim`; ties share the gradient evenly. NaN wins."""
    return apply(AMIN, input, dim=norm_dims(dim, input.ndim, "amin"), keepdim=keepdim)  # type: ignore[no-any-return]


@public(namespace=False)
def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Sum over the dimensions along which `size` was broadcast to this shape."""
    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else tuple(size)
    lead = input.ndim - len(shape)
    dims = tuple(range(lead)) + tuple(
        i + lead for i, n in enumerate(shape) if n == 1 and input.shape[i + lead] != 1
    )
    out = apply(SUM, input, dim=dims, keepdim=True) if dims else input
    return out.reshape(shape) if tuple(out.shape) != shape else out


_ = (dt, norm_dim)
