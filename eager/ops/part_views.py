"""Views of parts: diagonals, windows, and several parts at once (split, chunk, unbind). tensor ->
tensors that share it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from eager.base.compat_warnings import warn
from eager.core.dispatch import LEAF_WRITTEN, apply
from eager.core.op import REGISTRY, Attrs
from eager.core.registry import public
from eager.core.tensor import Tensor, require_writable, retain
from eager.ops import samples as s
from eager.ops.kinds import View
from eager.ops.view import (
    SLICE,
    alias,
    at,
    narrow,
    norm_dim,
    permute,
    replaced,
    select,
    slice_dim,
    squeeze,
    t,
    transpose,
    unsqueeze,
    without,
)
from eager.sizes import symint
from eager.sizes.aval import Aval
from eager.sizes.symint import integrals, is_int, least, most

Shape = tuple[int, ...]


# ----------------------------------------------------------------------- diagonal, unfold
def _diagonal_length(rows: int, columns: int, offset: int) -> int:
    return most(0, least(rows, columns - offset) if offset >= 0 else least(rows + offset, columns))


def _diagonal_shape(shape: Shape, attrs: Attrs) -> Shape:
    a, b = attrs["dim1"], attrs["dim2"]
    return (*without(shape, (a, b)), _diagonal_length(shape[a], shape[b], attrs["offset"]))


def _diagonal_source(index: tuple[Any, ...], shape: Shape, attrs: Attrs) -> tuple[Any, ...]:
    a, b, offset = attrs["dim1"], attrs["dim2"], attrs["offset"]
    rest, along = iter(index[:-1]), index[-1]
    places = {a: along + max(-offset, 0), b: along + max(offset, 0)}
    return tuple(places[d] if d in places else next(rest) for d in range(len(shape)))


def _diagonal_strides(shape: Shape, strides: Shape, attrs: Attrs) -> tuple[Shape, int]:
    a, b, offset = attrs["dim1"], attrs["dim2"], attrs["offset"]
    start = max(-offset, 0) * strides[a] + max(offset, 0) * strides[b]
    empty = _diagonal_length(shape[a], shape[b], offset) == 0
    return (*without(strides, (a, b)), strides[a] + strides[b]), 0 if empty else start


def _diagonal_kernel(x: Any, attrs: Attrs) -> Any:
    offset = attrs["offset"]
    x = x[at(x.ndim, attrs["dim1"], slice(max(-offset, 0), None))]
    x = x[at(x.ndim, attrs["dim2"], slice(max(offset, 0), None))]
    on_main = {**attrs, "offset": 0}
    steps, _ = _diagonal_strides(x.shape, x.strides, on_main)
    return np.lib.stride_tricks.as_strided(x, _diagonal_shape(x.shape, on_main), steps)


DIAGONAL = View(
    "diagonal",
    ("x",),
    lambda g, avals, offset, dim1, dim2: (
        apply(
            REGISTRY["diagonal_scatter"],
            Tensor._full(0, Aval(avals[0].shape, g.dtype, g.aval.device)),
            g,
            offset=offset,
            dim1=dim1,
            dim2=dim2,
        ),
    ),
    shape=_diagonal_shape,
    source=_diagonal_source,
    numpy=_diagonal_kernel,
    strides=_diagonal_strides,
    write=lambda base, attrs: (REGISTRY["diagonal_scatter"], dict(attrs), True),
)


@public(samples=lambda: [s.call(s.values((3, 4))), s.call(s.values((2, 3, 4)), 1, -1, 0)])
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of dimensions dim1, dim2 as a new last dimension (a view)."""
    a, b = norm_dim(dim1, input.ndim, "diagonal"), norm_dim(dim2, input.ndim, "diagonal")
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply(DIAGONAL, input, offset=offset, dim1=a, dim2=b)


def _unfold_shape(shape: Shape, attrs: Attrs) -> Shape:
    d, size, step = attrs["dim"], attrs["size"], attrs["step"]
    return (*replaced(shape, d, (shape[d] - size) // step + 1), size)


def _unfold_strides(shape: Shape, strides: Shape, attrs: Attrs) -> tuple[Shape, int]:
    d = attrs["dim"]
    return (*replaced(strides, d, strides[d] * attrs["step"]), strides[d]), 0


def _unfold_vjp(g: Tensor, avals: Any, dim: int, size: int, step: int) -> tuple[Tensor]:
    """Windows overlap, so each of the `size` offsets is added to where it was read."""
    total = Tensor._full(0, Aval(avals[0].shape, g.dtype, g.aval.device))
    n = g.shape[dim]
    for k in range(size):
        where = {"dim": dim, "start": k, "stop": k + (n - 1) * step + 1, "step": step}
        part = g.select(-1, k)
        hole = Tensor._full(0, total.aval)
        total = total + apply(REGISTRY["slice_scatter"], hole, part, **where)
    return (total,)


UNFOLD = View(
    "unfold",
    ("x",),
    _unfold_vjp,
    shape=_unfold_shape,
    source=lambda index, shape, attrs: replaced(
        index[:-1], attrs["dim"], index[attrs["dim"]] * attrs["step"] + index[-1]
    ),
    numpy=lambda x, attrs: np.lib.stride_tricks.as_strided(
        x,
        _unfold_shape(x.shape, attrs),
        _unfold_strides(x.shape, x.strides, attrs)[0],
        writeable=False,
    ),
    strides=_unfold_strides,
)


@public(
    namespace=False,
    torch="Tensor.unfold",
    samples=lambda: [s.call(s.values((7,)), 0, 3, 2), s.call(s.values((2, 5, 2)), 1, 2, 1)],
)
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """All windows of `size` along `dimension`, `step` apart, as a new last dimension (a view)."""
    if input.ndim == 0:
        return unfold(input.reshape(1), dimension, size, step).select(0, 0)
    d = norm_dim(dimension, input.ndim, "unfold")
    if size < 0 or size > input.shape[d] or step <= 0:
        raise RuntimeError(
            f"unfold(): size {size} and step {step} do not fit dimension {d} of size "
            f"{input.shape[d]}"
        )
    return apply(UNFOLD, input, dim=d, size=size, step=step)


# -------------------------------------------------------------------- several views at once
def own_dim(dim: int, ndim: int, op: str, error: type[Exception] = RuntimeError) -> int:
    """`norm_dim` of a function that asks for the size there: `error` for a tensor without
    dimensions."""
    if not ndim:
        raise error(f"{op}() expects a tensor with at least one dimension, got one without")
    return norm_dim(dim, ndim, op)


@public(samples=lambda: [s.call(s.values((3, 4))), s.call(s.values((3, 4)), 1)])
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All slices along `dim`, as a tuple."""
    d = own_dim(dim, input.ndim, "unbind", IndexError)
    return _among("unbind", [select(input, d, i) for i in range(input.shape[d])])


@public(
    samples=lambda: [
        s.call(s.values((5, 4)), 2),
        s.call(s.values((5, 4)), [1, 3], 1),
        s.call(s.values((0, 4)), 2),
    ]
)
def split(
    tensor: Tensor, split_size_or_sections: Any, dim: int = 0, **kwargs: Any
) -> tuple[Tensor, ...]:
    """Parts of the given size (the last may be smaller), or of the given sizes, along `dim`."""
    d = own_dim(dim, tensor.ndim, "split")
    size = tensor.shape[d]
    sizes = split_size_or_sections
    if isinstance(sizes, (tuple, list)):
        sizes = [symint.index(n) for n in sizes]
        if sum(sizes) != size:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's "
                "size "
                f"at dimension {d}), but got split_sizes={list(sizes)}"
            )
    else:
        sizes = symint.index(sizes)
        if sizes <= 0:
            raise RuntimeError(f"split expects split_size be positive, but got split_size={sizes}")
        if not type(sizes) is type(size) is int:
            return _sections(tensor, d, sizes)
        sizes = [min(sizes, size - i) for i in range(0, size, sizes)] or [0]
    parts, start = [], 0
    for n in sizes:
        parts.append(narrow(tensor, d, start, n))
        start += n
    return _among("split", parts)


def _among(name: str, parts: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Views that one function gives together. Where a gradient is recorded, none may be written:
    in PyTorch they have one derivative."""
    for part in parts:
        if part._view is not None:
            part._view.among = name
    return tuple(parts)


def _sections(x: Tensor, dim: int, step: Any) -> tuple[Tensor, ...]:
    """Parts of `step` elements where sizes are symbols: how many there are is fixed, no more."""
    size = x.shape[dim]
    if type(step) is int:
        count = (-(-size // step)).__index__()
    else:  # a size is no divisor
        count = next(k for k in itertools.count(1) if k * step >= size)
    if count < 2:
        return _among("split", [alias(x)])
    return _among("split", _between(x, dim, [*(k * step for k in range(count)), size]))


def _between(x: Tensor, dim: int, ends: Sequence[Any]) -> tuple[Tensor, ...]:
    """The parts from each of `ends`, which lie in the tensor in this order, to the next."""
    return tuple(
        apply(SLICE, x, dim=dim, start=a, stop=b, step=1) for a, b in itertools.pairwise(ends)
    )


@public(samples=lambda: [s.call(s.values((5, 4)), 3), s.call(s.values((5, 4)), 3, 1)])
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` parts of equal size (the last may be smaller) along `dim`."""
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = input.shape[own_dim(dim, input.ndim, "chunk")]
    if size == 0:
        return split(input, [0] * chunks, dim)
    return split(input, max(1, -(-size // chunks)), dim)


@public(samples=lambda: [s.call(s.values((5, 4)), 3), s.call(s.values((5, 4)), (1, 3), 1)])
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Split at indices, or into nearly equal sections, along `dim`."""
    d = own_dim(dim, input.ndim, "tensor_split")
    size, given = input.shape[d], indices_or_sections
    if isinstance(given, Tensor):
        given = int(given.item()) if given.ndim == 0 else given.tolist()
    given = integrals(given)
    if is_int(given):
        given = given.__index__()
        if given <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {given}")
        if type(size) is not int:
            ends = itertools.accumulate((size + given - 1 - i) // given for i in range(given - 1))
            return _between(input, d, [0, *ends, size])
        base, more = divmod(size, given)
        given = list(itertools.accumulate(base + (i < more) for i in range(given)))[:-1]
    bounds = [0, *given, size]
    return tuple(slice_dim(input, d, a, b) for a, b in itertools.pairwise(bounds))


# ------------------------------------------------------------------------------ properties
def _matrix_transpose(self: Tensor) -> Tensor:
    if self.ndim < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices, got {self.ndim}-D"
        )
    return transpose(self, -2, -1)


@public(samples=lambda: [s.call(s.values((2, 3, 4)))])
def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions swapped, and conjugated: `mH`."""
    return _adjoint(input)


def _adjoint(input: Tensor) -> Tensor:
    turned = _matrix_transpose(input)
    return apply(REGISTRY["conj"], turned) if input.dtype.is_complex else turned


def _all_reversed(self: Tensor) -> Tensor:
    if self.ndim not in (0, 2):
        warn(
            f"x.T of a tensor of {self.ndim} dimensions is deprecated: use x.mT for a batch of "
            "matrices, or x.permute(*range(x.ndim - 1, -1, -1)) to reverse all dimensions"
        )
    return permute(self, *reversed(range(self.ndim))) if self.ndim else self


for _name, _get in (
    ("T", _all_reversed),
    ("mT", _matrix_transpose),
    ("mH", _adjoint),
    ("H", lambda self: _adjoint(self) if self.ndim else self),
):
    setattr(Tensor, _name, property(_get))


def _in_place(name: str, fn: Callable[..., Tensor]) -> None:
    """`x.unsqueeze_()` and its like: the tensor itself becomes the view."""

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.is_leaf and self.requires_grad:
            raise RuntimeError(LEAF_WRITTEN)
        require_writable(self)
        out = fn(self, *args, **kwargs)
        self._array, self._node, self._index = out._array, out._node, out._index
        self._view = None if self._view is None else out._view
        if self._retains:
            retain(self)
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"`{fn.__name__}` in place."
    setattr(Tensor, name, method)


for _name, _view in (
    ("unsqueeze_", unsqueeze),
    ("squeeze_", squeeze),
    ("transpose_", transpose),
    ("swapaxes_", transpose),
    ("swapdims_", transpose),
    ("t_", t),
):
    _in_place(_name, _view)
