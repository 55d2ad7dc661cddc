"""Beside the tape: tensors that carry a tangent. primals and tangents -> what is made of them, and
its tangent.

The tape is the only record: a tangent is read off it by two backward sweeps, as `func.jvp` does it,
since a product with the Jacobian is linear in what is swept back.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from eager.autograd import grad, is_grad_enabled
from eager.autograd.grad_mode import recording
from eager.autograd.transposed import forward_derivatives
from eager.core.dispatch import variable
from eager.core.tape import full
from eager.core.tensor import Tensor


class UnpackedDualTensor(NamedTuple):
    primal: Tensor
    tangent: Tensor | None


class _Level(threading.local):
    """The pairs (tensor, tangent) of this thread; None outside `dual_level`."""

    duals: list[tuple[Tensor, Tensor]] | None = None


_level = _Level()


class dual_level:
    """A context manager in which tensors may carry tangents. RuntimeError inside another."""

    def __enter__(self) -> int:
        if _level.duals is not None:
            raise RuntimeError("Nested forward mode AD is not supported: use eager.func.jvp")
        _level.duals = []
        return 0

    def __exit__(self, *_: object) -> None:
        _level.duals = None


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """The values of `tensor`, with a tangent of its shape, which is used in its dtype. RuntimeError
    outside a `dual_level`, where nothing is recorded, and for a tangent that does not fit;
    ValueError for ints."""
    if _level.duals is None or level not in (None, 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    if not is_grad_enabled():
        raise RuntimeError("make_dual: tangents are read off the tape: leave no_grad() first")
    for name, x in (("primal", tensor), ("tangent", tangent)):
        if not (x.dtype.is_floating_point or x.dtype.is_complex):
            raise ValueError(f"Expected {name} to be floating point or complex, got: {x.dtype}")
    real = tensor.dtype.is_floating_point
    if tensor.shape != tangent.shape or real is not tangent.dtype.is_floating_point:
        raise RuntimeError(
            f"make_dual: a tangent of {tangent.dtype} {list(tangent.shape)} for a primal of "
            f"{tensor.dtype} {list(tensor.shape)}"
        )
    dual = variable(tensor)
    _level.duals.append((dual, tangent))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The values of a tensor, and its tangent: None where it depends on no dual tensor."""
    if level not in (None, 0):
        raise RuntimeError(f"unpack_dual: there is no level {level}")
    primal = tensor.detach()
    if not _level.duals or not tensor.requires_grad:
        return UnpackedDualTensor(primal, None)
    with recording():
        back = variable(full(0, tensor.aval))
        ins = [dual for dual, _ in _level.duals]
        with forward_derivatives():
            swept = grad(tensor, ins, back, create_graph=True, allow_unused=True)
        reached = [
            (product, tangent.to(dual.dtype))
            for product, (dual, tangent) in zip(swept, _level.duals, strict=True)
            if product is not None
        ]
        if not reached:
            return UnpackedDualTensor(primal, None)
        linear: Any = [pair for pair in reached if pair[0].requires_grad]
        tangent = full(0, tensor.aval)
        if linear:
            products, tangents = zip(*linear, strict=True)
            found = grad(products, back, tangents, allow_unused=True)[0]
            tangent = tangent if found is None else found
    return UnpackedDualTensor(primal, tangent)


def enter_dual_level() -> int:
    """`dual_level()` without a block."""
    return dual_level().__enter__()


def exit_dual_level(*, level: int | None = None) -> None:
    if _level.duals is None or level not in (None, 0):
        raise RuntimeError("Trying to exit a forward AD level that was not entered")
    dual_level().__exit__()
