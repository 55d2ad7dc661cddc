"""`x[...]` and `x[...] = v`: Python's index syntax -> view ops, and index ops where tensors or
lists pick elements.

Ints, integer tensors without dimensions, slices, None and ... are views. Other integer tensors,
bool masks, lists and arrays are advanced indices (NumPy's rules: they broadcast together, and their
dimensions stand where they stood, or first when something stands between them).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.base.compat_warnings import warn
from eager.base.dtype import DType
from eager.base.tracebacks import trim
from eager.core.batched import Batched
from eager.core.dispatch import apply, tracing, write_
from eager.core.op import REGISTRY
from eager.core.registry import public
from eager.core.sym import SymNumber
from eager.core.tape import mode
from eager.core.tensor import Tensor, require_writable, wrap
from eager.core.traced import IndexedRef, Traced
from eager.ops import samples as s
from eager.ops.create import arange
from eager.ops.view import alias, expand, reshape, select, slice_dim, unsqueeze
from eager.sizes import symint
from eager.sizes.symint import SymInt, is_int

Picks = list[tuple[int, Tensor]]  # (dimension of the view, index tensor)


def _as_index(item: Any) -> Any:
    """Lists, tuples, arrays and ranges as index tensors; NumPy and symbolic ints as ints."""
    if type(item) is SymNumber:
        return bool(item) if item.pytype is bool else _int_index(item)
    if item is None or item is Ellipsis or isinstance(item, (bool, int, slice, Tensor)):
        return item
    if isinstance(item, SymInt):
        return item
    if isinstance(item, np.ndarray):
        return wrap(item)
    if isinstance(item, (list, tuple, range)):
        return _list_index(item)
    return _int_index(item)


def _int_index(item: Any) -> Any:
    try:
        place = symint.index(item)
        return _traced(item) if type(item) is SymNumber and symint.of_data(place) else place
    except TypeError:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
            "valid "
            f"indices (got {getattr(item, 'pytype', type(item)).__name__})"
        ) from None


def _traced(number: SymNumber) -> Tensor:
    """An int that data or the host's generators decide, as an index without dimensions."""
    return apply(REGISTRY["full"], number, shape=(), dtype=dt.int64)


def _of_ints(items: Any) -> bool:
    return {*map(type, items)} == _INT


_INT = {int}


def _list_index(items: Any) -> Tensor:
    if _of_ints(items):
        return wrap(np.array(items))
    if any(isinstance(i, Tensor) for i in items):
        items = [i.item() if isinstance(i, Tensor) else i for i in items]
    if {*map(type, items)} == {SymNumber} and all(i.pytype is int for i in items):
        return apply(REGISTRY["cat"], *(unsqueeze(_traced(i), 0) for i in items), dim=0)
    array = np.array(_numbers(items))
    return wrap(array if array.size else array.astype(np.int64))


def _numbers(items: Any) -> list[Any]:
    """Nested lists with the values of numbers that are known only at run time."""
    return [
        i.tracer.concretize(i, i.pytype)
        if isinstance(i, SymNumber)
        else _numbers(i)
        if isinstance(i, (list, tuple, range))
        else i
        for i in items
    ]


def _as_int(item: Any) -> Any:
    """An integer tensor without dimensions as an int, where its value is known."""
    if not isinstance(item, Tensor) or item._array.ndim or item.dtype.category != dt.INT:
        return item
    if type(item._array) is Batched:
        return item
    if type(item._array) is not Traced:
        return item if tracing() else int(item)
    known = item._array.storage.tracer.value(item._array.read())
    return item if known is None else int(known)


def _consumed(item: Any) -> int:
    """Number of dimensions that an index takes."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, Tensor) and item.dtype is dt.bool_:
        return item.ndim
    return 1


def _is_an_index(item: Any) -> bool:
    """True if an entry of a list says that the list stands for a tuple of indices."""
    return item is None or isinstance(item, (slice, Tensor, list, tuple, range, np.ndarray))


def _as_mask(item: Any) -> Any:
    """Bytes are masks, as they were before there were bools."""
    if not isinstance(item, Tensor) or item.dtype is not dt.uint8:
        return item
    warn("indexing with uint8 is deprecated, and taken as a mask: use mask.bool(), or index.long()")
    return item.to(dt.bool_)


def _normalise(x: Tensor, index: Any) -> list[Any]:
    """The index as a list without Ellipsis. IndexError when it has more entries than dimensions."""
    if type(index) is list and not _of_ints(index) and any(map(_is_an_index, index)):
        index = tuple(index)  # as NumPy once had it
    items = [_as_index(i) for i in (index if isinstance(index, tuple) else (index,))]
    items = [_as_int(_as_mask(i)) for i in items]
    used = sum(map(_consumed, items))
    if used > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}: {used}")
    dots = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1 and dots[1:] == [*range(dots[1], len(items))]:  # at the end, they take nothing
        del items[dots[1] :]
    elif len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = dots[0] if dots else len(items)
    return items[:at] + [slice(None)] * (x.ndim - used) + items[at + 1 :]


def _is_switch(item: Tensor) -> bool:
    """A mask without dimensions: all of the tensor in a new dimension of size 1, or nothing."""
    return item.dtype is dt.bool_ and item.ndim == 0


def _view_part(x: Tensor, items: list[Any]) -> tuple[Tensor, Picks]:
    """All view indices applied; the advanced ones with the dimension of the view they stand at."""
    picks: Picks = []
    dim = 0
    for item in items:
        if item is None:
            x, dim = unsqueeze(x, dim), dim + 1
        elif isinstance(item, bool) or (isinstance(item, Tensor) and _is_switch(item)):
            x = unsqueeze(x, dim)
            there = wrap(np.array([item])) if isinstance(item, bool) else item.reshape(1)
            picks.append((dim, there.nonzero(as_tuple=True)[0]))
            dim += 1
        elif is_int(item):
            x = select(x, dim, item)
        elif isinstance(item, slice):
            x, dim = _sliced(x, dim, item), dim + 1
        else:
            taken = _mask_places(x, dim, item) if item.dtype is dt.bool_ else [item]
            picks.extend((dim + i, places) for i, places in enumerate(taken))
            dim += len(taken)
    return _selected_first(x, [(d, _beside(places, x)) for d, places in picks])


def _beside(t: Tensor, x: Tensor) -> Tensor:
    """An index, or the values of a list, where `x` lives: what is of the CPU is copied there."""
    place = x.aval.device
    return t.to(place) if place != "cpu" and t.aval.device == "cpu" else t


def _selected_first(x: Tensor, picks: Picks) -> tuple[Tensor, Picks]:
    """Beside advanced indices, those without dimensions are applied before them, as ints are."""
    single = [(d, places) for d, places in picks if not places.ndim]
    rest = [(d - sum(e < d for e, _ in single), places) for d, places in picks if places.ndim]
    return (_picked(x, single), rest) if single and rest else (x, picks)


def _picked(x: Tensor, picks: Picks) -> Tensor:
    """Elements at the picks. Under capture, where all are without dimensions, a write to the result
    will be one to `x`."""
    dims = tuple(d for d, _ in picks)
    places = tuple(_checked(t) for _, t in picks)

    def pick() -> Tensor:
        before, mode.enabled = mode.enabled, mode.enabled or x._requires_grad
        try:
            return apply(REGISTRY["index"], x, *places, dims=dims)
        finally:
            mode.enabled = before

    out: Tensor = apply(REGISTRY["index"], x, *places, dims=dims)
    if type(out._array) is Traced and not any(t.ndim for t in places):
        out._array.storage.picked = IndexedRef(out, x, places, dims, _generation(x), pick)
    return out


def _generation(x: Tensor) -> int | None:
    """Number of writes to the memory of `x` under capture; None outside of capture."""
    return x._array.storage.generation if type(x._array) is Traced else None


def _is_there(value: Any, x: Tensor, picks: Picks) -> bool:
    """True if `value` is the present value of `x` at the picks: the end of `x[i] += 1`."""
    if not isinstance(value, Tensor) or type(value._array) is not Traced:
        return False
    link = value._array.storage.picked
    return (
        link is not None
        and link.owner is value
        and link.generation is not None
        and link.generation == _generation(x)
        and type(link.base._array) is Traced
        and type(x._array) is Traced
        and link.base._array.storage is x._array.storage
        and link.base._array.chain == x._array.chain
        and link.dims == tuple(d for d, _ in picks)
        and all(a is b for a, (_, b) in zip(link.places, picks, strict=True))
    )


def _sliced(x: Tensor, dim: int, item: slice) -> Tensor:
    if item.start is None and item.stop is None and item.step is None:
        return x
    start, stop, step = item.start, item.stop, item.step
    start = None if start is None else symint.index(start)
    stop = None if stop is None else symint.index(stop)
    return slice_dim(x, dim, start, stop, 1 if step is None else symint.index(step))


def _mask_places(x: Tensor, dim: int, mask: Tensor) -> list[Tensor]:
    """A bool mask as the index tensors of its True places."""
    if tuple(mask.shape) != tuple(x.shape[dim : dim + mask.ndim]):
        raise IndexError(
            f"The shape of the mask {list(mask.shape)} at index {dim} does not match the shape of "
            "the indexed tensor "
            f"{list(x.shape)} at index {dim}"
        )
    return list(mask.nonzero(as_tuple=True))


def _checked(item: Tensor) -> Tensor:
    if item.dtype.category >= dt.FLOAT:
        raise IndexError(
            f"tensors used as indices must be long, int, byte or bool tensors, got {item.dtype}"
        )
    return item if item.dtype in (dt.int64, dt.int32) else item.to(dt.int64)


def _basic(index: Any) -> bool:
    return type(index) in (int, slice) or index is None or index is Ellipsis


def getitem(self: Tensor, index: Any) -> Tensor:
    """`self[index]`. IndexError for an int or an index tensor out of range, or too many indices."""
    try:
        if index is None:
            return unsqueeze(self, 0)
        if self._array.ndim:  # the common indices first
            if type(index) is int:
                return select(self, 0, index)
            if type(index) is slice:
                part = _sliced(self, 0, index)
                return alias(self) if part is self else part
        items = _normalise(self, index)
        view, picks = _view_part(self, items)
        if picks:
            return _picked(view, picks)
        return alias(view) if view is self else view
    except Exception as error:
        trim(error)
        raise


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value` in place; `value` broadcasts to the place and is converted to the
    dtype."""
    mask = index[0] if isinstance(index, tuple) and len(index) == 1 else index
    if isinstance(mask, Tensor) and mask.dtype is dt.bool_ and _one_value(value):
        write_(self, _filled(self, _beside(mask, self), value))
        return
    source = _as_tensor(value, self)
    items = _normalise(self, index)
    view, picks = _view_part(self, items)
    picked = max(t.ndim for _, t in picks) if picks else 0
    while source.ndim > view.ndim - len(picks) + picked and source.shape[0] == 1:
        source = select(source, 0, 0)  # leading ones may be dropped
    if not picks:
        write_(view, source.to(self.dtype), anew=True)
        return
    if _is_there(value, view, picks):
        require_writable(self)
        self._storage.version += 1
        return
    dims = tuple(d for d, _ in picks)
    tensors = [_checked(t) for _, t in picks]
    _same_dtype(self, source)
    new = apply(REGISTRY["index_put"], view, source, *tensors, dims=dims, accumulate=False)
    write_(view, new)


def _same_dtype(x: Tensor, values: Tensor) -> None:
    """RuntimeError where values of another dtype are to be put at picked places."""
    if values.dtype is not x.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {x.dtype} for the "
            f"destination and {values.dtype} for the source: convert it with .to({x.dtype})"
        )


def _one_value(value: Any) -> bool:
    return (
        symint.is_one(value.numel())
        if isinstance(value, Tensor)
        else not isinstance(value, (list, tuple, np.ndarray))
    )


def _filled(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`x` with `value` where the mask (over the leading dimensions) holds."""
    if tuple(mask.shape) != tuple(x.shape[: mask.ndim]):
        raise IndexError(
            f"The shape of the mask {list(mask.shape)} at index 0 does not match the shape of the "
            "indexed tensor "
            f"{list(x.shape)} at index 0"
        )
    whole = reshape(mask, (*mask.shape, *(1,) * (x.ndim - mask.ndim)))
    value = reshape(_as_tensor(value, x), ())
    out = apply(REGISTRY["where"], expand(whole, *x.shape), value, x)
    return out.to(x.dtype)


def _as_tensor(value: Any, like: Tensor) -> Tensor:
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int, float, complex, SymNumber, SymInt, np.integer)):
        value = value.item() if isinstance(value, np.generic) else value
        return apply(REGISTRY["full"], _stored(value, like.dtype), shape=(), dtype=like.dtype)
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    raise TypeError(f"can't assign a {name} to a {like.type()}")


def _stored(value: Any, dtype: DType) -> Any:
    """A number as an element; one that is too large for a 16-bit float is infinite there."""
    try:
        return dt.stored(value, dtype)
    except RuntimeError:
        if dtype.category != dt.FLOAT or dtype.itemsize > 2 or type(value) is complex:
            raise
        return math.copysign(math.inf, value)


@public(
    samples=lambda: [
        s.call(s.values((3, 4)), (np.array([0, 2]), np.array([1, 1])), s.values((2,), seed=1)),
        s.call(s.values((3,)), (np.array([0, 0]),), s.values((2,), seed=1), accumulate=True),
    ],
    on_gpus="widest",
)
def index_put(
    input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False
) -> Tensor:
    """A copy with `values` written (or added) where `input[indices]` reads."""
    _, picks = _view_part(input, _normalise(input, tuple(indices)))
    dims = tuple(d for d, _ in picks)
    tensors = [_checked(t) for _, t in picks]
    _same_dtype(input, values)
    op = REGISTRY["index_put"]
    return apply(op, input, values, *tensors, dims=dims, accumulate=accumulate)


@public(namespace=False)
def index_put_(
    self: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False
) -> Tensor:
    """`values` written (or added) where `self[indices]` reads."""
    return write_(self, index_put(self, indices, values, accumulate))


@public(namespace=False)
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """`fill_value` on the main diagonal, in place; `wrap`: on a tall matrix it begins again after
    a row in between."""
    if self.ndim == 2:
        rows, columns = self.shape
        for start in range(0, rows, columns + 1) if wrap else (0,):
            self[start:].diagonal().fill_(fill_value)
        return self
    n = min(self.shape)
    places = arange(n)
    setitem(self, (places,) * self.ndim, fill_value)
    return self


for _name, _fn in (("__getitem__", getitem), ("__setitem__", setitem)):
    setattr(Tensor, _name, _fn)
