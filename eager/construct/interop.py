"""At the edge: Python lists, NumPy arrays and tensors into each other."""

from __future__ import annotations

import collections
import functools
from typing import Any

import numpy as np

from eager.autograd import copies
from eager.autograd.vmap_control_flow import decided
from eager.base import dlpack, lazy_imports
from eager.base import dtype as dt
from eager.base.compat_warnings import options, warn, warn_if_read_only
from eager.base.dtype import DType
from eager.base.tree import ragged
from eager.core.batched import Batched
from eager.core.dispatch import apply, write_
from eager.core.op import REGISTRY
from eager.core.registry import public
from eager.core.storage import TypedStorage, UntypedStorage
from eager.core.sym import SymNumber
from eager.core.tape import mode
from eager.core.tensor import WITH_AVAL, Tensor, require_writable, wrap
from eager.core.traced import Traced
from eager.device import default, device, dlpack_export, places, transfer
from eager.device.array import DeviceArray
from eager.ops.conversion import known, on_host, to
from eager.ops.pointwise import clone
from eager.ops.view import alias, norm_dim, unsqueeze
from eager.sizes.aval import Aval
from eager.sizes.symint import SymInt

_KNOWN = frozenset(d.np for d in dt.ALL)
_NESTED = (list, tuple, collections.deque)


# ------------------------------------------------------------------------------ data -> tensor


def _array_of(data: Any, dtype: DType | None) -> Any:
    """A fresh NumPy array of nested lists, numbers or arrays; Python floats become the default
    dtype."""
    plain = _plain(data)
    try:
        array = np.array(plain)
    except ValueError:  # no box of numbers
        raise ragged(plain) from None
    if array.dtype.kind in "OU" or (array.dtype == np.uint64 and array is not data):
        _refuse(plain, array)
    if dtype is not None:
        listed = not isinstance(data, np.ndarray | np.generic | Tensor)
        if array.dtype.kind == "c" and not dtype.is_complex and listed:
            raise TypeError(f"numbers of {dtype.name} must be real, got complex ones")
        if dtype.category is dt.INT and array.size and listed:
            for extreme in (array.min(), array.max()):  # a number that does not fit is refused
                dt.stored(extreme.item() if array.dtype != object else extreme, dtype)
        return array if array.dtype == dtype.np else dt.converted(array, dtype.np)
    if not isinstance(data, (np.ndarray, np.generic)):
        kinds = _kinds(data)
        dtype = functools.reduce(dt.promote_types, kinds) if kinds else dt.get_default_dtype()
        return array if array.dtype == dtype.np else dt.converted(array, dtype.np)
    if array.dtype.kind in "iu" and array.dtype not in _KNOWN:
        return array.astype(np.int64)
    return array


def _refuse(data: Any, array: Any) -> None:
    """The error for what no tensor holds: ints beyond 64 bits, and what is no number."""
    if isinstance(data, str):
        raise TypeError("new(): invalid data type 'str'")
    if isinstance(data, np.ndarray | np.generic):
        return  # whose dtype is refused, or converted
    kinds = [type(x) for x in array.flat]
    strange = next((kind for kind in kinds if kind not in (int, float, bool, complex)), None)
    if array.dtype.kind != "O" or strange is None:
        if array.dtype.kind == "U":
            raise ValueError("too many dimensions 'str': number the words, text has no dtype")
        raise ValueError("Overflow when unpacking long long")
    raise RuntimeError(f"Could not infer dtype of {strange.__name__}: no number, leave it out")


def _kinds(data: Any) -> set[DType]:
    """The dtypes of what nested lists end in: numbers of Python, of NumPy, arrays and tensors."""
    if isinstance(data, _NESTED):
        numbers = {*map(type, data)}
        if not numbers <= _PYTHON:
            return set().union(*map(_kinds, data))
    elif isinstance(data, Tensor):
        return {data.dtype}
    elif isinstance(data, np.ndarray | np.generic):
        strange = data.dtype.kind in "iu" and data.dtype not in _KNOWN
        return {dt.int64 if strange else dt.from_numpy(data.dtype)}
    else:
        kind = next((each for each in _ORDERED if isinstance(data, each)), None)
        if kind is None:
            return {dt.from_numpy(np.asarray(data).dtype)}
        numbers = {kind}
    of = {bool: dt.bool_, int: dt.int64, float: dt.get_default_dtype()}
    return {of.get(kind) or dt.default_complex() for kind in numbers}


_ORDERED = (bool, int, float, complex)
_PYTHON = frozenset(_ORDERED)


def _plain(data: Any) -> Any:
    """Nested lists with tensors replaced by their values, which NumPy joins with others."""
    if isinstance(data, Tensor):
        array = on_host(data.detach(), "tensor()")
        return array.astype(np.float32) if data.dtype is dt.bfloat16 else array
    if isinstance(data, _NESTED):
        return [_plain(x) for x in data]
    return data


def _has_traced(data: Any) -> bool:
    """True if nested lists hold values that are unknown until run time."""
    if type(data) in (float, int):
        return False
    if isinstance(data, _NESTED):
        return any(map(_has_traced, data))
    return isinstance(getattr(data, "_array", data), SymNumber | SymInt | Traced | Batched)


def _joined(data: Any) -> DType:
    """The type that all elements of nested lists with run-time values in them promote to."""
    if isinstance(data, _NESTED):
        return functools.reduce(dt.promote_types, map(_joined, data))
    if isinstance(data, Tensor):
        return data.dtype
    kind = data.pytype if isinstance(data, SymNumber) else type(data)
    if issubclass(kind, np.generic):
        return dt.from_numpy(np.dtype(kind))
    of = {bool: dt.bool_, int: dt.int64, SymInt: dt.int64, complex: dt.default_complex()}
    return of.get(kind) or dt.get_default_dtype()


def _stacked(data: Any, dtype: DType | None) -> Tensor:
    """A tensor of nested lists with run-time values in them."""
    if isinstance(data, _NESTED):
        dtype = dtype or _joined(data)
        parts = [unsqueeze(_stacked(x, dtype), 0) for x in data]
        return apply(REGISTRY["cat"], *parts, dim=0)
    if isinstance(data, Tensor):
        return data.detach() if dtype is None else data.detach().to(dtype)
    if issubclass(type(data), np.generic):  # a run-time number only says that it is one
        dtype, data = dtype or dt.from_numpy(data.dtype), data.item()
    if dtype is None:
        dtype = _joined(data)
    return apply(REGISTRY["full"], dt.stored(data, dtype), shape=(), dtype=dtype)


def _typed(array: Any) -> Any:
    """An array whose dtype is the one object that a DType has for it: unpickling makes others, each
    of which a compiled function would be compiled for. TypeError for a dtype without tensors."""
    kind = dt.from_numpy(array.dtype).np
    return array if array.dtype is kind else array.view(kind)


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

    Python floats become the default dtype, ints int64, bools bool; arrays keep theirs. ValueError
    for ragged lists."""
    if pin_memory:
        options("tensor", None, pin_memory)
    warn_if_tensor(data)
    return copied(data, dtype=dtype, device=device, requires_grad=requires_grad)


def warn_if_tensor(data: Any) -> None:
    if isinstance(data, Tensor):
        warn(
            "tensor() of a tensor copies it: use x.detach().clone(), or "
            "x.detach().clone().requires_grad_()"
        )


def copied(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`tensor`, which takes a tensor without a warning."""
    if isinstance(data, Tensor):
        out = data.detach().clone()
        out = out if dtype is None else out.to(dtype)
    elif _has_traced(data):
        if dtype is not None and not dtype.is_complex and _joined(data).is_complex:
            raise TypeError(f"numbers of {dtype.name} must be real, got complex ones")
        out = clone(_stacked(data, dtype))
    else:
        out = wrap(_typed(_array_of(data, dtype)))
    place = default.place if device is None and not isinstance(data, Tensor) else device
    if place is not None:
        out = out.to(place)
    return out.requires_grad_() if requires_grad else out


def _of_storage(data: Any) -> Tensor:
    """The elements of a storage; of bytes without a type, the bytes."""
    kind = data.dtype if isinstance(data, TypedStorage) else dt.uint8
    untyped = data.untyped()
    return wrap(untyped._bytes.view(kind.np), untyped._storage)


@public(method=False)
def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor; shares memory with tensors and arrays where nothing has to be
    converted."""
    if isinstance(data, UntypedStorage | TypedStorage):
        data = _of_storage(data)
    if isinstance(data, np.ndarray) and data.dtype in _KNOWN:
        data = from_numpy(data)
    if not isinstance(data, Tensor):
        return tensor(data, dtype=dtype, device=device)
    out = data if dtype is None else data.to(dtype)
    return out if device is None else out.to(device)


@public(method=False)
def asarray(
    obj: Any, *, dtype: DType | None = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:  # fmt: skip
    """A tensor, by `as_tensor`; `copy=True` never shares memory, `copy=False` raises ValueError if
    it is converted or moved. `requires_grad`: None keeps a tensor's history, False leaves it."""
    out = as_tensor(obj, dtype=dtype, device=device)
    if isinstance(obj, (Tensor, np.ndarray)) and as_tensor(obj).aval == out.aval:
        out = out.clone() if copy else out
    elif copy is False:
        raise ValueError("asarray(): copy=False, but obj has to be converted")
    if requires_grad is None or requires_grad == out.requires_grad:
        return out
    return out.requires_grad_(requires_grad) if out.is_leaf else out.detach()


@public(method=False)
def from_numpy(ndarray: Any) -> Tensor:
    """A tensor that shares the array's memory. TypeError for anything but an array of a known
    dtype."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    array = _typed(ndarray.view(np.ndarray))
    if any(step < 0 for step in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not supported. (You can work around this by making a copy of your array "
            "with array.copy().)"
        )
    warn_if_read_only(ndarray)
    return wrap(array)


def shared(array: Any) -> Tensor:
    """A tensor over the memory of an array that a tensor can have."""
    return wrap(_typed(array.view(np.ndarray)))


@public(method=False)
def from_dlpack(source: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of an object with `__dlpack__` (NumPy, PyTorch, JAX, CuPy
    arrays on the CPU) or of a capsule; `copy=True` copies, `copy=False` refuses to where `device`
    asks for it. BufferError for memory of another device, ValueError for a capsule read before."""
    there = device is not None and str(device) != "cpu"
    if there and copy is False:
        raise ValueError(f"from_dlpack: copy=False, but the tensor has to be moved to {device}")
    made: Tensor = wrap(dlpack.array_of(source, copy))
    return made.to(device) if there else made


@public(namespace=False)
def new_tensor(
    self: Tensor,
    data: Any,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """`tensor(data)` with this tensor's dtype, where it lives."""
    warn_if_tensor(data)
    place = self.device if device is None else device
    return copied(data, dtype=dtype or self.dtype, device=place, requires_grad=requires_grad)


@public(method=False)
def is_tensor(obj: Any) -> bool:
    return isinstance(obj, Tensor)


@public(method=True)
def is_floating_point(input: Tensor) -> bool:
    return input.dtype.is_floating_point


@public(method=True)
def is_complex(input: Tensor) -> bool:
    return input.dtype.is_complex


@public(method=False)
def numel(input: Tensor) -> int:
    if not isinstance(input, Tensor):
        raise TypeError(f"numel(): argument 'input' must be Tensor, not {type(input).__name__}")
    return input.numel()


@public()
def is_nonzero(input: Tensor) -> bool:
    """True if the only element is not zero."""
    return _bool(input)


# ------------------------------------------------------------------------------ tensor -> data


@public(namespace=False)
def numpy(self: Tensor, *, force: bool = False) -> Any:
    """The NumPy array, sharing memory. RuntimeError for a tensor that requires a gradient, unless
    `force` is set (then it may also be a copy from a device) or nothing is recorded (`no_grad`,
    `forward` of a Function)."""
    if force:
        self = self.detach().cpu()
    if self.requires_grad and mode.enabled:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    return known(self, "numpy()").view()  # whose shape can be set without changing the tensor's


@public(namespace=False)
def item(self: Tensor) -> Any:
    """The one element as a Python number. RuntimeError when there are more or none."""
    array = self._array
    if array.size != 1:
        raise RuntimeError(
            f"a Tensor with {array.size} elements cannot be converted to Scalar: item(), float() "
            "and int() take one element; use tolist(), or reduce it before (sum(), mean())"
        )
    if type(array) is Traced:
        return array.storage.tracer.item(array)
    if type(array) is Batched:
        return known(self, ".item()", item)
    if type(array) is DeviceArray:
        array = transfer.download(array)
    value = array.reshape(()).item()
    return value if isinstance(value, (bool, int, float, complex)) else float(value)


@public(namespace=False)
def tolist(self: Tensor) -> Any:
    """Nested Python lists of numbers; a number for a 0-dim tensor."""
    if self.ndim == 0:
        return item(self)
    array = self._array
    if type(array) is Batched:
        return known(self, ".tolist()", tolist)
    if type(array) is Traced:
        array = array.storage.tracer.value(array.read())
    if array is None or type(array) is DeviceArray:
        array = on_host(self, "tolist()")
    return array.astype(np.float32).tolist() if self.dtype is dt.bfloat16 else array.tolist()


# ------------------------------------------------------------------------------------- layout
@public(namespace=False)
def is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """True if the elements lie in row-major order without gaps."""
    if memory_format:
        options("is_contiguous", memory_format=memory_format)
    array = self._array
    if type(array) not in WITH_AVAL:
        return bool(array.flags.c_contiguous)
    step = 1
    for n, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if n != 1 and stride != step and array.size:
            return False
        step *= n
    return True


@public(namespace=False)
def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """This tensor if its elements lie in row-major order, else a copy where they do."""
    if memory_format:
        options("contiguous", memory_format=memory_format)
    return self if is_contiguous(self) else clone(self)


@public(namespace=False)
def size(self: Tensor, dim: int | None = None) -> Any:
    """The shape, or one of its sizes."""
    return self.shape if dim is None else self.shape[norm_dim(dim, self.ndim, "size")]


@public(namespace=False, alias=("ndimension",))
def dim(self: Tensor) -> int:
    return self.ndim


@public(namespace=False)
def nelement(self: Tensor) -> int:
    return self.numel()


@public(namespace=False)
def element_size(self: Tensor) -> int:
    return self.itemsize


@public(namespace=False)
def get_device(self: Tensor) -> int:
    """The number of its GPU; -1 for the CPU."""
    return -1 if self.is_cpu else self.device.index or 0


# ------------------------------------------------------------------------------ in-place writes
@public(namespace=False)
def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """The values of `src`, broadcast and converted, into this tensor."""
    if not isinstance(src, Tensor):
        src = as_tensor(src)
    on_cpu = type(src._array) is type(self._array) is np.ndarray
    if not on_cpu and src.device != self.device:
        src = to(src, self.device, non_blocking)
    if src.dtype is not self.dtype:
        src = to(src, self.dtype)
    return write_(self, src, anew=True)


@public(namespace=False)
def fill_(self: Tensor, value: Any) -> Tensor:
    """`value` everywhere in this tensor."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(f"fill_ only supports 0-dimension values, got {list(value.shape)}")
        return copy_(self, value)
    return write_(self, Tensor._full(value, Aval((), self.dtype, self.aval.device)))


@public(namespace=False)
def zero_(self: Tensor) -> Tensor:
    return fill_(self, 0)


@public(namespace=False)
def set_(self: Tensor, source: Tensor) -> Tensor:
    """Take the memory of `source`."""
    if type(self._array) is not DeviceArray:
        known(self, "set_()")
    require_writable(self)
    self._array, self._storage, self._view = source._array, source._storage, source._view
    return self


# --------------------------------------------------------------------------- Python protocols
def _array_protocol(self: Tensor, dtype: Any = None, copy: Any = None) -> Any:
    array = numpy(self)
    if dtype is not None and np.dtype(dtype) != array.dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


def _array_wrap(self: Tensor, array: Any, *context: Any) -> Tensor:
    """The result of a NumPy function on a tensor, as a tensor; bools become bytes."""
    return from_numpy(array.view(np.uint8) if array.dtype == bool else array)


def _bool(self: Tensor) -> bool:
    if self._array.size != 1:
        many = "more than one value" if self._array.size else "no values"
        raise RuntimeError(
            f"Boolean value of Tensor with {many} is ambiguous: use x.any() or x.all(), or where() "
            "to choose for each element"
        )
    return bool(item(decided(self)))


def number(self: Tensor) -> Any:
    """The number for `int()`, `float()` and `complex()`. ValueError unless there is one element."""
    if self._array.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return item(self)


def _index(self: Tensor) -> Any:
    if self._array.size != 1 or self.dtype.category >= dt.FLOAT:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return item(self).__index__()


def _iter(self: Tensor) -> Any:
    if self.ndim == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


def _reversed(self: Tensor) -> Tensor:
    """The rows the other way round, as a tensor, so that `reversed(x)` goes through them."""
    return self.flip(0) if self.ndim else self


def _rebuild(
    cls: type, array: Any, requires_grad: bool, extra: dict[str, Any], place: str = "cpu"
) -> Any:
    if place != "cpu":
        array = transfer.upload(array, places.resolved(device(place)))
    out: Any = wrap(_typed(array) if place == "cpu" else array, cls=cls)
    out._requires_grad = requires_grad
    out.__dict__.update(extra)
    return out


def _reduce(self: Tensor, protocol: Any = 4) -> Any:
    array = np.ascontiguousarray(on_host(self, "pickling")).reshape(self._array.shape)
    parts = (type(self), array, self._requires_grad, copies.own_attributes(self))
    return _rebuild, parts if self.is_cpu else (*parts, str(self.device))


def _set_state(self: Tensor, state: Any) -> None:
    """Set the attributes that a subclass with its own pickling gives as state: the dictionary, or a
    pair of it and of the slots. The dictionary may hold slots, too."""
    for fields in state if isinstance(state, tuple) else (state,):
        for name, value in (fields or {}).items():
            setattr(self, name, value)


def _dlpack(self: Tensor, *, stream: Any = None, **options: Any) -> Any:
    if self.requires_grad:
        raise BufferError(
            "Can't export tensors that require gradient, use tensor.detach() before calling "
            "__dlpack__"
        )
    array = self._array
    if type(array) is not DeviceArray:
        return dlpack.capsule_of(numpy(self), stream=stream, **options)
    place = options.get("dl_device")
    if options.get("copy") or (place is not None and tuple(place) != dlpack_export.device(array)):
        raise BufferError("DLPack of a tensor on a GPU gives its own memory there, and no copy")
    return dlpack_export.capsule(array, stream)


def _dlpack_device(self: Tensor) -> tuple[int, int]:
    array = self._array
    return dlpack_export.device(array) if type(array) is DeviceArray else (dlpack_export.CPU, 0)


def _cuda_array_interface(self: Tensor) -> dict[str, Any]:
    array = self._array
    if type(array) is not DeviceArray:
        raise AttributeError(f"__cuda_array_interface__ of a tensor on {self.device}")
    if self._requires_grad:
        raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad.")
    return dlpack_export.interface(array)


def _array_namespace(self: Tensor, *, api_version: str | None = None) -> Any:
    """The module with the functions of the array API standard. ValueError for another version."""
    namespace = lazy_imports.submodule("eager", "array_api")
    if api_version not in (None, *namespace.VERSIONS):
        latest = namespace.__array_api_version__
        raise ValueError(f"array API {api_version!r} is not there; {latest} is")
    return namespace


def _to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The array on a device."""
    return to(self, device)


for _name, _fn in {
    "__array__": _array_protocol,
    "__array_wrap__": _array_wrap,
    "__bool__": _bool,
    "__int__": lambda self: int(number(self)),
    "__float__": lambda self: float(number(self)),
    "__complex__": lambda self: complex(number(self)),
    "__index__": _index,
    "__iter__": _iter,
    "__reversed__": _reversed,
    "__reduce_ex__": _reduce,
    "__setstate__": _set_state,
    "__deepcopy__": copies.deepcopy,
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
    "__array_namespace__": _array_namespace,
    "to_device": _to_device,
    "__cuda_array_interface__": property(_cuda_array_interface),
    "view_alias": alias,
}.items():
    setattr(Tensor, _name, _fn)
