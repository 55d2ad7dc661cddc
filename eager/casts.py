"""Beside dispatch: what `autocast` does to the arguments of a function, and steps in 16-bit floats
that are rounded once. function -> the function that casts its arguments.

Matrix products and convolutions run in the type of autocast, losses and what loses much by few
bits in float32, all else in the types it is given. The lists are those of PyTorch on the CPU; each
function says where it is defined on which it stands. Inside such a function nothing is cast again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from eager import dtype as dt
from eager.dtype import DType
from eager.tape import mode
from eager.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether autocast is on for a device; without one, for GPUs."""
    return device_type == "cpu" and mode.autocast is not None


def get_autocast_dtype(device_type: str) -> DType:
    """The type that products have under autocast on a device."""
    if device_type == "cpu":
        return mode.autocast or dt.bfloat16
    return dt.float16


def set_autocast(dtype: DType | None) -> DType | None:
    """Cast to `dtype` from now on (None: to nothing); what it was before."""
    before, mode.autocast = mode.autocast, dtype
    return before


def lower_precision(fn: F) -> F:
    """`fn` runs in the type of autocast."""
    return _casting(fn, lambda: mode.autocast)


def full_precision(fn: F) -> F:
    """`fn` runs in float32 where autocast is on."""
    return _casting(fn, lambda: dt.float32)


def given_precision(fn: F) -> F:
    """`fn` runs in the types it is given, although it is made of functions that would be cast."""
    return _casting(fn, lambda: None)


def _casting(fn: F, wanted: Callable[[], DType | None]) -> F:
    @functools.wraps(fn)
    def cast(*args: Any, **kwargs: Any) -> Any:
        if mode.autocast is None:
            return fn(*args, **kwargs)
        dtype = wanted()
        if dtype is not None:
            args = tuple(to_precision(x, dtype) for x in args)
            kwargs = {k: to_precision(x, dtype) for k, x in kwargs.items()}
        before = set_autocast(None)
        try:
            return fn(*args, **kwargs)
        finally:
            set_autocast(before)

    return cast  # type: ignore[return-value]


def rounded_once(fn: F) -> F:
    """`fn` of 16-bit floats is computed in float32, and rounded at its end: for functions of
    several steps, whose roundings would add up or cancel the result."""

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        kinds = [x.dtype for x in given if isinstance(x, Tensor) and x.dtype.is_floating_point]
        if all(kind.compute is kind for kind in kinds):
            return fn(*args, **kwargs)
        args = tuple(to_precision(x, dt.float32) for x in args)
        kwargs = {k: to_precision(x, dt.float32) for k, x in kwargs.items()}
        return to_precision(fn(*args, **kwargs), functools.reduce(dt.promote_types, kinds))

    return run  # type: ignore[return-value]


def to_precision(x: Any, dtype: DType) -> Any:
    """A float tensor in `dtype`, also in lists and tuples; float64 and all else as they are."""
    if isinstance(x, Tensor):
        casts = x.dtype.is_floating_point and x.dtype is not dt.float64 and x.dtype is not dtype
        return x.to(dtype) if casts else x
    if type(x) in (list, tuple):
        return type(x)(to_precision(each, dtype) for each in x)
    return x
