"""At the edge: Python lists, NumPy arrays and tensors into each other, and between dtypes and devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from eager import dtype as dt
from eager.device import CPU, device
from eager.dispatch import apply, current_tracer
from eager.dtype import DType
from eager.ops.pointwise import CAST, clone
from eager.registry import public
from eager.sym import SymNumber
from eager.tensor import Tensor, wrap
from eager.traced import Traced


def _array_of(data: Any, dtype: DType | None) -> Any:
    """A fresh NumPy array of nested lists, numbers, arrays or tensors; Python floats become the default dtype."""
    if isinstance(data, np.ndarray | np.generic):
        array = np.array(data)
    else:
        array = np.array(_plain(data))
        if dtype is None and array.dtype == np.float64:
            dtype = dt.get_default_dtype()
        if dtype is None and array.dtype == np.complex128:
            dtype = dt.default_complex()
    if dtype is None and array.dtype.kind in "iub":
        return array if array.dtype in _KNOWN else array.astype(np.int64)
    return array.astype(dtype.np, copy=False) if dtype is not None else array


_KNOWN = frozenset(d.np for d in dt.ALL)


def _plain(data: Any) -> Any:
    """Nested lists with tensors replaced by their values."""
    if isinstance(data, Tensor):
        return data.numpy() if not data.requires_grad else data.detach().numpy()
    if isinstance(data, (list, tuple)):
        return [_plain(x) for x in data]
    return data


@public(method=False)
def tensor(
    data: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor with a copy of `data` (numbers, nested sequences, arrays, tensors).

    Python floats become the default dtype, ints int64, bools bool; arrays keep theirs. Raises ValueError for ragged lists."""
    if isinstance(data, Tensor):
        out = data.detach().clone()
        out = out if dtype is None else out.to(dtype)
    elif isinstance(data, SymNumber):
        out = Tensor._full(data, data.aval)
        out = out.to(dtype or (dt.get_default_dtype() if data.pytype is float else out.dtype))
    else:
        array = _array_of(data, dtype)
        dt.from_numpy(array.dtype)
        out = wrap(array)
    if device is not None:
        out = out.to(device)
    return out.requires_grad_() if requires_grad else out


@public(method=False)
def from_numpy(ndarray: Any) -> Tensor:
    """A tensor that shares the array's memory."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    dt.from_numpy(ndarray.dtype)
    return wrap(ndarray.view(np.ndarray))


@public(namespace=False)
def numpy(self: Tensor, *, force: bool = False) -> Any:
    """The NumPy array, sharing memory. RuntimeError for a tensor that requires a gradient (unless `force`)."""
    if self.requires_grad and not force:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if type(self._array) is Traced:
        raise RuntimeError("numpy() of a tensor whose values are not known yet: it is being captured")
    return self._array


@public(namespace=False)
def item(self: Tensor) -> Any:
    """The one element as a Python number. RuntimeError when there are more or none."""
    array = self._array
    if array.size != 1:
        raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
    if type(array) is Traced:
        return array.storage.tracer.item(array)
    value = array.reshape(()).item()
    return float(value) if array.dtype.kind == "V" else value


@public(namespace=False)
def tolist(self: Tensor) -> Any:
    """Nested Python lists of numbers; a number for a 0-dim tensor."""
    if self.ndim == 0:
        return item(self)
    array = self.detach().numpy()
    return array.astype(np.float32).tolist() if self.dtype is dt.bfloat16 else array.tolist()


@public(namespace=False)
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`to(dtype)`, `to(device)`, `to(device, dtype)`, `to(other)`; `copy=True` always copies. The tensor itself if nothing
    changes."""
    dtype, place = kwargs.get("dtype"), kwargs.get("device")
    for a in args:
        if isinstance(a, DType):
            dtype = a
        elif isinstance(a, Tensor):
            dtype, place = a.dtype, a.device
        elif isinstance(a, (str, device)):
            place = a
    if place is not None and device(place) != self.device:
        raise RuntimeError(f"device {place!r} is not available here: tensors live on {CPU}")
    if dtype is None or dtype is self.dtype:
        return clone(self) if kwargs.get("copy") else self
    return apply(CAST, self, dtype=dtype)  # type: ignore[no-any-return]


_ = current_tracer
