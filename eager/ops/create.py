"""Tensors from nothing: full and iota, and what is made of them. sizes and numbers -> tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eager import dtype as dt
from eager.aval import Aval, scalar_aval
from eager.device import CPU, device
from eager.dispatch import apply
from eager.dtype import DType
from eager.op import Attrs
from eager.ops.kinds import Create
from eager.ops.view import as_ints
from eager.registry import public
from eager.tensor import Tensor


def _full_kernel(arrays: tuple[Any, ...], attrs: Attrs) -> Any:
    (value,) = arrays
    if type(value) in (int, float, bool) and value == 0:
        return np.zeros(attrs["shape"], attrs["dtype"].np)  # fresh pages are zero already
    out = np.empty(attrs["shape"], attrs["dtype"].np)
    np.copyto(out, value, casting="unsafe")
    return out


FULL = Create("full", ("value",), numpy=_full_kernel)
IOTA = Create(
    "iota", (), numpy=lambda arrays, attrs: np.arange(attrs["shape"][0]).astype(attrs["dtype"].np)
)


def _full(value: Any, aval: Aval) -> Tensor:
    return apply(FULL, value, shape=aval.shape, dtype=aval.dtype)  # type: ignore[no-any-return]


Tensor._full = staticmethod(_full)  # what the tape, which is below us, makes its zeros and ones with


def finish(out: Tensor, place: Any = None, requires_grad: bool = False) -> Tensor:
    """The `device` and `requires_grad` arguments that all constructors share."""
    if place is not None and device(place) != CPU:
        out = out.to(place)
    return out.requires_grad_() if requires_grad else out


def _default(dtype: DType | None) -> DType:
    return dt.get_default_dtype() if dtype is None else dtype


@public(method=False)
def full(
    size: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False, **_: Any
) -> Tensor:
    """A tensor of `size` filled with one value, whose type decides the dtype unless given."""
    if dtype is None:
        found = fill_value.dtype if isinstance(fill_value, Tensor) else scalar_aval(fill_value).dtype
        dtype = found if found.category < dt.FLOAT else dt.get_default_dtype() if found.category == dt.FLOAT else found
    shape = as_ints((size,) if isinstance(size, int) else size)
    return finish(apply(FULL, fill_value, shape=shape, dtype=dtype), device, requires_grad)


def _filled(name: str, value: int) -> Any:
    def make(
        *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False, **_: Any
    ) -> Tensor:
        out = apply(FULL, value, shape=as_ints(size), dtype=_default(dtype))
        return finish(out, device, requires_grad)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"{name}(*size, dtype=None, device=None, requires_grad=False): a tensor filled with {value}."
    return public(name, method=False)(make)


zeros = _filled("zeros", 0)
ones = _filled("ones", 1)
empty = _filled("empty", 0)  # defined contents cost nothing: fresh pages are zero


@public(method=False)
def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **_: Any,
) -> Tensor:
    """start, start + step, ... below end. int64 if all three are ints, else the default dtype."""
    if end is None:
        start, end = 0, start
    start, end, step = (x.item() if isinstance(x, Tensor) else x for x in (start, end, step))
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    integral = all(isinstance(x, int) for x in (start, end, step))
    dtype = dtype or (dt.int64 if integral else dt.get_default_dtype())
    n = len(range(start, end, step)) if integral else math.ceil((end - start) / step)
    if dtype.category < dt.FLOAT or integral:
        out = apply(IOTA, shape=(n,), dtype=dtype)
        out = out if step == 1 else out * step
        out = out if start == 0 else out + start
        return finish(out, device, requires_grad)
    out = (apply(IOTA, shape=(n,), dtype=dt.float64) * step + start).to(dtype)
    return finish(out, device, requires_grad)
