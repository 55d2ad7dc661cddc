"""Beside `add` and `sub`: their `alpha`. numbers, tensors -> what is added."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from eager.base import dtype as dt
from eager.core.casts import rounded_once
from eager.core.tensor import Tensor
from eager.sizes.aval import INTS, Aval, result_type, scalar_aval

F = TypeVar("F", bound=Callable[..., Any])


def is_integral(*operands: Any) -> bool:
    """True if all operands (tensors or numbers) are ints or bools."""
    for x in operands:  # half the time of `all`
        if not (x.dtype.category < dt.FLOAT if isinstance(x, Tensor) else isinstance(x, INTS)):
            return False
    return True


def scaled(input: Any, other: Any, alpha: Any) -> Any:
    """alpha * other, where alpha takes the type of `input` and `other` together."""
    if type(alpha) is int and alpha == 1:
        return other
    if is_integral(input, other):
        if isinstance(alpha, float | complex | np.inexact):
            raise RuntimeError(
                "For integral input tensors, argument alpha must not be a floating point number, "
                f"got {alpha}: convert an operand with .float()"
            )
        if all(getattr(x, "dtype", type(x)) in (dt.bool_, bool) for x in (input, other)):
            return other * bool(alpha) if isinstance(other, Tensor) else other and bool(alpha)
    return other * alpha


def alpha_rounded(fn: F) -> F:
    """`fn` of 16-bit floats: `alpha`, and a number that it scales, take their type, and the sum is
    rounded once, as in PyTorch."""
    once = rounded_once(fn)

    @functools.wraps(fn)
    def run(input: Any, other: Any, tensor: Any = None, *, alpha: Any = 1) -> Any:
        if tensor is not None:
            alpha, other = other, tensor
        if type(alpha) is int and alpha == 1:
            return fn(input, other)
        kind = result_type(
            x.aval if isinstance(x, Tensor) else scalar_aval(x) for x in (input, other)
        )
        if kind.compute is kind:
            return fn(input, other, alpha=alpha)
        wide = Aval((), dt.float64)
        input, other = (
            x if isinstance(x, Tensor) else Tensor._full(x, wide).to(kind) for x in (input, other)
        )
        if not isinstance(alpha, Tensor):
            alpha = Tensor._full(dt.stored(alpha, kind), Aval((), kind))
        return once(input, other, alpha=alpha)

    return run  # type: ignore[return-value]
