"""`copy.deepcopy` of tensors: views that were of one memory are of one memory again. tensor, memo
-> tensor."""

from __future__ import annotations

import copy
from typing import Any

from eager.autograd.grad_mode import no_grad
from eager.core.dispatch import apply
from eager.core.tensor import Tensor, wrap
from eager.core.traced import Traced, UnknownValue
from eager.ops.pointwise import clone
from eager.ops.view import permute

# What stands in a tensor's dictionary beside what the user put there.
_STATE = frozenset({"_index", "_grad", "_accumulate_hooks", "_retains", "_shard", "_unreduced"})


def own_attributes(self: Tensor) -> dict[str, Any]:
    """Attributes that the user has set on a tensor."""
    return {k: v for k, v in self.__dict__.items() if k not in _STATE}


def deepcopy(self: Tensor, memo: dict[Any, Any]) -> Any:
    """Raises RuntimeError for a tensor that was computed of one that requires a gradient."""
    if id(self) in memo:
        return memo[id(self)]
    if self._node is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment."
        )
    memory = _memory(self, memo)
    out = wrap(memory._array, memory._storage, cls=type(self))
    out._view, out._requires_grad = memory._view, self._requires_grad
    out.__dict__.update(copy.deepcopy(own_attributes(self), memo))
    memo[id(self)] = out
    if self.grad is not None:
        out._grad = deepcopy(self.grad, memo)
    return out


def _memory(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    """The copy of a tensor's memory, made once, as the tensor looks at it."""
    where = self._view
    base = self if where is None else where.base
    found = memo.get(base._storage)
    with no_grad():
        if found is None:
            found = memo[base._storage] = _alike(base.detach())
        for op, attrs in () if where is None else where.chain:
            found = apply(op, found, **attrs)
    return found


def _alike(base: Tensor) -> Tensor:
    """A copy that lies in memory as the tensor does: one from outside may be by columns."""
    if base.is_contiguous():
        return clone(base)
    strides = base.stride()
    order = sorted(range(base.ndim), key=lambda d: -strides[d])
    rows = permute(base, order)
    if type(base._array) is Traced and not rows.is_contiguous():
        raise UnknownValue("deepcopy() of a part of a tensor, whose whole is not looked at")
    return permute(clone(rows), sorted(range(base.ndim), key=order.__getitem__))
