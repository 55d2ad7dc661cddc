"""Beside the ops: a tensor in another dtype, or on another device. Tensor -> Tensor.

What crosses between host and device goes through `device/transfer.py`, is counted there, and on the
tape is a `Transfer`, whose gradient goes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from eager.base import dtype as dt
from eager.base.compat_warnings import options, warn
from eager.base.dtype import DType
from eager.base.tracebacks import trim
from eager.core import on_device
from eager.core.batched import Batched
from eager.core.dispatch import apply, current_tracer
from eager.core.registry import public
from eager.core.tape import Node, mode
from eager.core.tensor import Tensor, refresh, wrap
from eager.core.traced import Traced, UnknownValue, fresh
from eager.device import CPU, device, pinned, places, transfer
from eager.device.array import DeviceArray
from eager.ops import samples as s
from eager.ops.pointwise import CAST, clone
from eager.ops.view import alias


def known(self: Tensor, what: str, read: Any = None) -> Any:
    """The NumPy array (or what `read` reads) of a tensor on the CPU whose values are there."""
    if type(self._array) is Batched:
        if not self._array.mapped:
            inside = self._array.value
            return known(inside, what) if read is None else read(inside)
        raise RuntimeError(
            f"vmap: It looks like you're calling {what} on a Tensor. We don't support vmap over "
            f"calling {what} on a Tensor, please try to rewrite what you're doing with other "
            "operations: in here it stands for all examples, and has a value for each"
        )
    if type(self._array) is Traced:
        raise UnknownValue(
            f"{what} of a tensor whose values are not known yet: it is being captured"
        )
    if type(self._array) is DeviceArray:
        raise TypeError(
            f"{what}: can't convert {self._array.aval.device} device type tensor to numpy. Use "
            "Tensor.cpu() to copy the tensor to host memory first."
        )
    return self._array


def on_host(self: Tensor, what: str) -> Any:
    """The values as a NumPy array, copied from a device where they lie on one."""
    array = self._array
    return transfer.download(array) if type(array) is DeviceArray else known(self, what)


@public(namespace=False, samples=None)
def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """`to(dtype)`, `to(device)`, `to(device, dtype)`, `to(other)`; `copy=True` always copies. The
    tensor itself if nothing changes."""
    try:
        if not kwargs and len(args) == 1 and isinstance(args[0], DType):
            return self if self.dtype is args[0] else _cast(self, args[0])
        return _to(self, args, kwargs)
    except Exception as error:
        trim(error)
        raise


def _to(self: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    dtype, place, copy = kwargs.pop("dtype", None), kwargs.pop("device", None), False
    flags = [a for a in args if isinstance(a, bool)]  # non_blocking, copy
    copy = kwargs.pop("copy", len(flags) > 1 and flags[1])
    non_blocking = kwargs.pop("non_blocking", bool(flags) and flags[0])
    if kwargs:
        if kwargs.get("memory_format"):
            options("to", memory_format=kwargs["memory_format"])
        kwargs.pop("memory_format", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument {next(iter(kwargs))!r}")
    for a in args:
        if isinstance(a, DType):
            dtype = a
        elif isinstance(a, Tensor):
            dtype, place = a.dtype, a.device
        elif isinstance(a, (str, device)) or type(a) is int:
            place = a
        elif a is not None and not isinstance(a, bool):
            dtype = dt.named(a)
    if place is not None:
        place = _resolved(place)
        if place != self.device:
            return _moved(self, place, dtype, bool(non_blocking))
    dtype = dt.named(dtype)
    if dtype is None or dtype is self.dtype:
        return clone(self) if copy else self
    return _cast(self, dtype)


def _cast(x: Tensor, dtype: DType) -> Tensor:
    if x.dtype.is_complex and dtype.category in (dt.INT, dt.FLOAT):
        warn(
            f"casting {x.dtype} to {dtype} discards the imaginary part: use x.real, if that is "
            "meant, or x.abs()"
        )
    out: Tensor = apply(CAST, x, dtype=dtype)
    return out


def _resolved(place: Any) -> device:
    if place is CPU or place == "cpu":
        return CPU
    return places.resolved(place if isinstance(place, device) else device(place))


class Transfer(Node):
    """A tensor went to another device: so does its gradient, back."""

    __slots__ = ()

    def name(self) -> str:
        return "ToCopyBackward0"

    def vjp(self, grads: list[Any]) -> Sequence[Any]:
        return (to(grads[0], self.avals[0].device),)


def _moved(self: Tensor, place: device, dtype: DType | None, non_blocking: bool) -> Tensor:
    """A copy on another device, converted on the CPU; under capture where it goes to."""
    if self._view is not None:
        refresh(self)
    captured = type(self._array) is Traced or current_tracer.get() is not None
    if dtype is not None and dtype is not self.dtype and place != CPU and not captured:
        self, dtype = to(self, dtype), None
    if type(self._array) is Batched:
        out: Tensor = wrap(self._array.of(to(self._array.value, place)))
    elif captured:
        out = _moved_in_graph(self, place)
    else:
        out = wrap(_copied_to(place, self._array, non_blocking))
    if self._requires_grad and mode.enabled:
        out._node, out._requires_grad = Transfer((self,), (out.aval,)), True
    return out if dtype is None else to(out, dtype)


def _copied_to(place: device, array: Any, non_blocking: bool) -> Any:
    if type(array) is not DeviceArray:
        return transfer.upload(array, place, non_blocking=non_blocking)
    return on_device.brought(array, place)


def _moved_in_graph(self: Tensor, place: device) -> Tensor:
    """The tensor moved to a device under capture."""
    array = self._array
    traced = array if type(array) is Traced else current_tracer.get().lift(self)  # type: ignore[union-attr]
    tracer = traced.storage.tracer
    aval = replace(traced.aval, device=str(place))
    out: Tensor = wrap(fresh(tracer, tracer.move(traced.read(), traced.aval, str(place)), aval))
    return out


def _conversion(name: str, dtype: DType) -> None:
    def convert(self: Tensor, memory_format: Any = None) -> Tensor:
        if memory_format:
            options(name, memory_format=memory_format)
        return self if self.dtype is dtype else _cast(self, dtype)

    convert.__name__ = convert.__qualname__ = name
    convert.__doc__ = f"This tensor as {dtype.name}."
    reference = f"Tensor.{name}"
    samples = s.on(grad=not dtype.is_complex)
    public(name, namespace=False, torch=reference, samples=samples)(convert)


for _short, _wanted in (
    ("float", dt.float32),
    ("double", dt.float64),
    ("half", dt.float16),
    ("bfloat16", dt.bfloat16),
    ("int", dt.int32),
    ("long", dt.int64),
    ("short", dt.int16),
    ("char", dt.int8),
    ("byte", dt.uint8),
    ("bool", dt.bool_),
    ("cfloat", dt.complex64),
    ("cdouble", dt.complex128),
):
    _conversion(_short, _wanted)


@public(namespace=False)
def type_as(self: Tensor, other: Tensor) -> Tensor:
    return to(self, other.dtype)


@public(namespace=False)
def as_subclass(self: Tensor, cls: type[Any]) -> Any:
    """A tensor of the same memory and history under a subclass of Tensor. What is computed from it
    is a Tensor again. TypeError if `cls` is no such class."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise TypeError(
            "Creating a Tensor subclass from a class that does not inherit from Tensor is not "
            f"possible, got {cls!r}. Make sure your class inherits from Tensor."
        )
    if cls is not Tensor and type(self._array) is Traced:
        raise UnknownValue("as_subclass() makes an object of a class that no graph knows")
    out = alias(self)
    out.__class__ = cls
    return out


@public(namespace=False)
def _make_subclass(cls: type[Any], data: Tensor, require_grad: bool = False) -> Any:
    """A leaf of a subclass over the memory of `data`, as code that makes parameters of its own
    kind asks for it: `Tensor._make_subclass(cls, data, True)`."""
    return as_subclass(data.detach(), cls).requires_grad_(require_grad)


_TYPE_NAMES = {
    "Float": dt.float32,
    "Double": dt.float64,
    "Half": dt.float16,
    "BFloat16": dt.bfloat16,
    "Int": dt.int32,
    "Long": dt.int64,
    "Short": dt.int16,
    "Char": dt.int8,
    "Byte": dt.uint8,
    "Bool": dt.bool_,
}
_COMPLEX_NAMES = {dt.complex64: "ComplexFloat", dt.complex128: "ComplexDouble"}
LEGACY = {f"{name}Tensor": d for name, d in _TYPE_NAMES.items()}


@public("type", namespace=False)
def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The tensor's legacy type name, or the tensor as `dtype` (a DType or such a name)."""
    if dtype is None:
        names = {d: name for name, d in _TYPE_NAMES.items()} | _COMPLEX_NAMES
        return f"eager.{names[self.dtype]}Tensor"
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", "")
    wanted = LEGACY.get(name.rpartition(".")[2], dtype)
    if not isinstance(wanted, DType):
        raise ValueError(f"invalid type: {name!r}")  # noqa: TRY004  # as in PyTorch
    return to(self, wanted)


@public(namespace=False)
def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    if memory_format:
        options("cpu", memory_format=memory_format)
    return to(self, CPU)


@public(namespace=False)
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """The tensor on the GPU. RuntimeError where there is none."""
    place = "cuda" if device is None else device
    return to(self, f"cuda:{place}" if isinstance(place, int) else place, None, non_blocking)


@public(namespace=False)
def pin_memory(self: Tensor) -> Tensor:
    """A copy in memory from which a GPU copies while the host goes on (`to("cuda",
    non_blocking=True)`); this tensor where there is no GPU, or it is such memory."""
    if not places.count() or is_pinned(self):
        return self
    return wrap(transfer.pinned_copy(known(self, "pin_memory()")))


@public(namespace=False)
def record_stream(self: Tensor, stream: Any) -> None:
    """This tensor's memory is not used again before what is on `stream` now is done. RuntimeError
    for a tensor of the CPU. (What is queued by this library is seen without it.)"""
    if self.aval.device == "cpu":
        raise RuntimeError("record_stream() is of tensors on a device, and this one is on the cpu")
    if type(self._array) is Traced:
        raise UnknownValue("record_stream() of a tensor that is being captured")
    self._array.buffer.used_on(stream._own)


@public(namespace=False)
def is_pinned(self: Tensor) -> bool:
    return pinned.is_pinned(self._array)


def _is_meta(self: Tensor) -> bool:
    return self.device.type == "meta"


setattr(Tensor, "is_meta", property(_is_meta))  # noqa: B010
# A number that no other tensor has, by which libraries tell whether two names mean one.
setattr(Tensor, "_cdata", property(id))  # noqa: B010
