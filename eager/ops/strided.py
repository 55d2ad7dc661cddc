"""Views by strides, and views that are copies. tensor -> tensor over the same memory, or values of
its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.compat_warnings import options
from eager.core.batched import Batched
from eager.core.dispatch import apply
from eager.core.op import REGISTRY, Attrs, Sample
from eager.core.registry import public
from eager.core.storage import memory_of
from eager.core.tensor import Tensor, require_writable, wrap
from eager.core.traced import Traced, UnknownValue
from eager.device.array import DeviceArray
from eager.ops import part_views, view
from eager.ops import samples as s
from eager.ops.conversion import known
from eager.ops.create import empty
from eager.ops.index_and_sort import iota
from eager.ops.kinds import Host, View, require_sizes
from eager.ops.pointwise import clone
from eager.sizes.aval import Aval, contiguous_strides

Ints = tuple[int, ...]


# -------------------------------------------------------------------------------- as_strided
def _window(x: Any, shape: Ints, strides: Ints, start: int) -> Any:
    steps = [step * x.strides[0] for step in strides]
    return np.lib.stride_tricks.as_strided(x[start:], shape, steps)


def _positions(shape: Ints, strides: Ints, start: int, like: Tensor) -> Tensor:
    """The flat place of each element: int64 of `shape`."""
    total = Tensor._full(start, Aval((1,) * len(shape), dt.int64, like.aval.device))
    for d, (n, step) in enumerate(zip(shape, strides, strict=True)):
        along = [1] * len(shape)
        along[d] = n
        total = total + (iota(n, like=like) * step).reshape(along)
    return total.expand(shape)


def _as_strided_vjp(g: Tensor, avals: Any, shape: Ints, strides: Ints, start: int) -> tuple[Tensor]:
    """Elements may share a place: their gradients are added."""
    zeros = Tensor._full(0, Aval(avals[0].shape, g.dtype, g.aval.device))
    places = _positions(shape, strides, start, g)
    return (apply(REGISTRY["index_add"], zeros, places.reshape(-1), g.reshape(-1), dim=0),)


def _written_back(base: Any, attrs: Attrs) -> tuple[Any, dict[str, Any], bool]:
    """The op that writes through the view, its attributes, and True as it takes the base first.
    UnknownValue where elements share an address: a write to one changes the others."""
    reach = 0
    for step, n in sorted(zip(attrs["strides"], attrs["shape"], strict=True)):
        if n > 1 and step <= reach:
            raise UnknownValue(
                "a write through as_strided() whose elements share their memory, under capture or "
                "with a gradient: write to a clone() of what it views"
            )
        reach += step * (n - 1)
    return AS_STRIDED_SCATTER, dict(attrs), True


AS_STRIDED = View(
    "as_strided",
    ("x",),
    _as_strided_vjp,
    shape=lambda shape, attrs: attrs["shape"],
    source=lambda index, shape, attrs: (
        sum((i * step for i, step in zip(index, attrs["strides"], strict=True)), attrs["start"]),
    ),
    numpy=lambda x, attrs: _window(x, attrs["shape"], attrs["strides"], attrs["start"]),
    strides=lambda shape, strides, attrs: (
        tuple(step * strides[0] for step in attrs["strides"]),
        attrs["start"] * strides[0],
    ),
    write=_written_back,
)


def _scattered(x: Any, src: Any, **attrs: Any) -> Any:
    out = np.array(x)
    _window(out, **attrs)[...] = src
    return out


def _scatter_vjp(g: Tensor, shape: Ints, strides: Ints, start: int) -> tuple[Tensor, Tensor]:
    attrs = {"shape": shape, "strides": strides, "start": start}
    hole = Tensor._full(0, Aval(shape, g.dtype, g.aval.device))
    return apply(AS_STRIDED_SCATTER, g, hole, **attrs), apply(AS_STRIDED, g, **attrs)


AS_STRIDED_SCATTER: Host = Host(
    "as_strided_scatter",
    ("x", "src"),
    _scatter_vjp,
    numpy=_scattered,
    rule=lambda x, src, **attrs: (x,),
)


def _flat(input: Tensor, offset: int | None) -> tuple[Tensor, int]:
    """The memory of a tensor as a vector, and where in it `offset` (of the whole memory) lies."""
    if type(input._array) is Traced and offset is not None:
        raise UnknownValue("as_strided(storage_offset=): where a tensor's memory begins is not "
                           "known while it is being captured")  # fmt: skip
    contiguous = input.stride() == contiguous_strides(tuple(input.shape))
    if contiguous and (offset is None or offset >= input.storage_offset()):
        return input.reshape(-1), 0 if offset is None else offset - input.storage_offset()
    if input.requires_grad or type(input._array) in (Traced, Batched):
        raise RuntimeError(
            "as_strided: with a gradient, in captured code or in vmap the tensor must be contiguous"
        )
    return _memory(input), input.storage_offset() if offset is None else offset


def _memory(input: Tensor) -> Tensor:
    """All of the memory that a tensor and its views share, as a vector."""
    array = input._array
    if type(array) is DeviceArray:
        return wrap(array.memory(), input._storage)
    memory = memory_of(array)
    whole = memory.size // array.itemsize * array.itemsize
    return wrap(memory[:whole].view(array.dtype), input._storage)


def _attrs(flat: Tensor, size: Any, stride: Any, start: int) -> Attrs:
    shape, strides = view.as_ints((size,)), view.as_ints((stride,))
    if len(shape) != len(strides):
        raise RuntimeError(
            f"mismatch in length of strides and shape: {len(strides)} and {len(shape)}"
        )
    if start < 0:
        raise RuntimeError(f"as_strided: the storage offset must not be negative, got {start}")
    if any(n < 0 for n in shape):
        raise RuntimeError(f"as_strided: sizes must not be negative, got {list(shape)}")
    if any(step < 0 for step in strides):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(strides)}"
        )
    last = start + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    if math.prod(shape) and last >= flat.shape[0]:
        known = type(flat._array) is not Traced
        raise (RuntimeError if known else UnknownValue)(
            f"setStorage: sizes {list(shape)}, strides {list(strides)} and storage offset {start} "
            f"are out of bounds for storage of size {flat.shape[0]}"
        )
    return {"shape": shape, "strides": strides, "start": start}


@public(
    samples=lambda: [
        s.call(s.values((3, 4)), (2, 3), (1, 2)),
        s.call(s.values((9,)), (2, 2), (3, 1), 2),
    ]
)
def as_strided(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """The view of the tensor's memory with these sizes and strides (in elements)."""
    flat, start = _flat(input, storage_offset)
    return apply(AS_STRIDED, flat, **_attrs(flat, size, stride, start))


# (PyTorch's gradient is not 0 where `src` was written.)
@public(
    samples=lambda: [s.call(s.values((3, 4)), s.values((2, 3), seed=1), (2, 3), (4, 1), grad=False)]
)
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """`input` with `src` where `as_strided` would read."""
    start = 0 if storage_offset is None else storage_offset
    flat = input.reshape(-1)
    attrs = _attrs(flat, size, stride, start)
    if tuple(src.shape) != attrs["shape"]:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(attrs['shape'])}"
        )
    return apply(AS_STRIDED_SCATTER, flat, src, **attrs).reshape(input.shape)


# ------------------------------------------------------------------------------ another shape
@public(namespace=False, alias=("resize",))
def resize_(self: Tensor, *sizes: Any) -> Tensor:
    """Another shape of the same memory, from its first element on. Where it does not suffice, the
    tensor has memory of its own, whose new elements are 0."""
    if type(self._array) is not DeviceArray:
        known(self, "resize_()")
    if self._requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    shape = view.as_ints(sizes)
    require_sizes(shape)
    if shape == tuple(self.shape):
        return self
    require_writable(self)
    memory, start, count = _memory(self), self.storage_offset(), math.prod(shape)
    if start + count > len(memory):
        there = memory[start:]
        memory, start = there.new_zeros(count), 0
        memory[: len(there)].copy_(there)
    self._array, self._storage = memory[start : start + count].view(shape)._array, memory._storage
    self._view = None
    return self


@public()
def resize_as_(self: Tensor, other: Tensor) -> Tensor:
    return resize_(self, *other.shape)


# ----------------------------------------------------------------- uninitialised, by strides
@public(method=False)
def empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor with these sizes and strides; its elements are 0."""
    if layout or pin_memory:
        options("empty_strided", layout, pin_memory)
    shape, strides = view.as_ints((size,)), view.as_ints((stride,))
    room = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    memory = empty(max(room, 0) if math.prod(shape) else 0, dtype=dtype, device=device)
    return as_strided(memory, shape, strides).detach().requires_grad_(requires_grad)


@public(namespace=False)
def new_empty_strided(input: Tensor, size: Any, stride: Any, **options: Any) -> Tensor:
    """`empty_strided` of the tensor's dtype."""
    options.setdefault("dtype", input.dtype)
    return empty_strided(size, stride, **options)


@public(method=False)
def empty_permuted(size: Any, physical_layout: Any, **options: Any) -> Tensor:
    """A tensor whose dimensions lie in memory in the order `physical_layout`; its elements are
    0."""
    shape, order = view.as_ints((size,)), view.as_ints((physical_layout,))
    if sorted(order) != list(range(len(shape))):
        raise RuntimeError(
            f"Dimensions in physical_layout are not an ordering of {len(shape)} dimensions: "
            f"{list(order)}"
        )
    steps = contiguous_strides(tuple(shape[d] for d in order))
    strides = [steps[order.index(d)] for d in range(len(shape))]
    return empty_strided(shape, strides, **options)


# -------------------------------------------------------------------------- views as copies
_COPIES: dict[str, tuple[Any, Callable[..., Sample]]] = {
    "alias": (view.alias, s.call),
    "as_strided": (as_strided, lambda x: s.call(x, (2, 2), (1, 2))),
    "detach": (Tensor.detach, lambda x: s.call(x, grad=False)),
    "diagonal": (part_views.diagonal, s.call),
    "expand": (view.expand, lambda x: s.call(x, (2, 2, 3, 4))),
    "permute": (view.permute, lambda x: s.call(x, (2, 0, 1))),
    "select": (view.select, lambda x: s.call(x, 1, 0)),
    "split": (part_views.split, lambda x: s.call(x, 2)),
    "split_with_sizes": (part_views.split, lambda x: s.call(x, [1, 1])),
    "squeeze": (view.squeeze, s.call),
    "t": (view.t, lambda x: s.call(x[0])),
    "transpose": (view.transpose, lambda x: s.call(x, 0, 1)),
    "unbind": (part_views.unbind, s.call),
    "unfold": (part_views.unfold, lambda x: s.call(x, 1, 2, 1)),
    "unsqueeze": (view.unsqueeze, lambda x: s.call(x, 1)),
    "view": (view.view, lambda x: s.call(x, (6, 4))),
}


def _copying(name: str, fn: Any, sample: Callable[..., Sample]) -> None:
    def copied(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        found = fn(input, *args, **kwargs)
        return tuple(map(clone, found)) if isinstance(found, tuple) else clone(found)

    copied.__name__ = copied.__qualname__ = f"{name}_copy"
    copied.__doc__ = f"`{name}`, in memory of its own."
    public(method=False, samples=lambda: [sample(s.values((2, 3, 4)))])(copied)


for _name, (_fn, _sample) in _COPIES.items():
    _copying(_name, _fn, _sample)


@public(samples=lambda: [s.call(s.values((2, 3, 4)), 1, 0, 2)])
def narrow_copy(input: Tensor, dim: int, start: Any, length: Any) -> Tensor:
    """`narrow`, in memory of its own."""
    if dim >= input.ndim > 0:
        raise RuntimeError(f"narrow_copy(): there is no dimension {dim} among {input.ndim}")
    return clone(view.narrow(input, dim, start, length))


@public(method=True)
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> Any:
    """`chunk` (in PyTorch: without the care for in-place writes)."""
    return part_views.chunk(input, chunks, dim)


@public(method=True)
def unsafe_split(tensor: Tensor, split_size: Any, dim: int = 0) -> Any:
    """`split` (in PyTorch: without the care for in-place writes)."""
    return part_views.split(tensor, split_size, dim)
