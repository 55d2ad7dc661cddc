"""Beside dispatch: what `autocast` does to the arguments of a function, and steps in 16-bit floats
that are rounded once. function -> the function that casts its arguments.

Matrix products and convolutions run in the type of autocast, losses and what loses much by few
bits in float32, all else in the types it is given. The lists are those of PyTorch on the CPU, and
on GPUs what PyTorch has there beside; each function says where it is defined on which it stands.
Autocast of a device casts tensors of that device. Inside such a function nothing is cast again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from eager import dtype as dt
from eager.dtype import DType
from eager.tape import Autocast, mode
from eager.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


# What is in float32 on GPUs only, by PyTorch's names, beside what says so where it is defined: of
# half precision's range little is left behind an exponential, a power or a sum.
FULL_ON_GPUS: Final = frozenset(
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow square "
    "prod softmax log_softmax cumprod cumsum sum norm logsumexp renorm".split()
)


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for a device."""
    return _on(device_type) is not None


def get_autocast_dtype(device_type: str) -> DType:
    """The type that products have under autocast on a device."""
    return _on(device_type) or (dt.bfloat16 if device_type == "cpu" else dt.float16)


def _on(device_type: str) -> DType | None:
    on = mode.autocast
    return on[_NUMBER[device_type]] if on is not None and device_type in _NUMBER else None


_NUMBER: Final = {"cpu": 0, "cuda": 1}


def with_autocast(device_type: str, dtype: DType | None) -> Autocast | None:
    """What autocast is where tensors of a device are cast to `dtype` (None: not at all), and those
    of others as now."""
    cpu, cuda = mode.autocast or (None, None)
    on = (dtype, cuda) if device_type == "cpu" else (cpu, dtype)
    return None if on == (None, None) else on


def set_autocast(on: Autocast | None) -> Autocast | None:
    """Cast so from now on; what autocast was before."""
    before, mode.autocast = mode.autocast, on
    return before


def autocast_now() -> Autocast | None:
    """What autocast is."""
    return mode.autocast


def lower_precision(fn: F) -> F:
    """`fn` runs in the type of autocast."""
    return _casting(fn)


def full_precision(fn: F) -> F:
    """`fn` runs in float32 where autocast is on."""
    return _casting(fn, (dt.float32, dt.float32))


def full_precision_on_gpus(fn: F) -> F:
    """`fn` runs in float32 where autocast of GPUs is on; it says nothing of that of the CPU."""
    return _casting(fn, (None, dt.float32), keeps_cpu=True)


def given_precision(fn: F) -> F:
    """`fn` runs in the types it is given, although it is made of functions that would be cast."""
    return _casting(fn, (None, None))


def _casting(fn: F, wanted: Autocast | None = None, *, keeps_cpu: bool = False) -> F:
    """`fn` gets its tensors in these types where autocast is on (None: in those of autocast), and
    runs with autocast off, but for that of the CPU if it `keeps_cpu`."""

    @functools.wraps(fn)
    def cast(*args: Any, **kwargs: Any) -> Any:
        on = mode.autocast
        if on is None:
            return fn(*args, **kwargs)
        types = [dtype and wished for dtype, wished in zip(on, wanted or on, strict=True)]
        args = tuple(by_place(x, types) for x in args)
        kwargs = {k: by_place(x, types) for k, x in kwargs.items()}
        before = set_autocast((on[0], None) if keeps_cpu and on[0] is not None else None)
        try:
            return fn(*args, **kwargs)
        finally:
            set_autocast(before)

    return cast  # type: ignore[return-value]


def by_place(x: Any, types: Sequence[DType | None]) -> Any:
    """A float tensor in the type for where it lives (of the CPU, of GPUs; None: as it is), also in
    lists and tuples."""
    if isinstance(x, Tensor):
        dtype = types[x.aval.device != "cpu"]
        return x if dtype is None else to_precision(x, dtype)
    if type(x) in (list, tuple):
        return type(x)(by_place(each, types) for each in x)
    return x


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
