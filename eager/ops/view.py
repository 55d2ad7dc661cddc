"""View ops: other ways to index the same memory. tensor -> tensor that shares its storage."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from eager.base.dtype import INT, DType
from eager.core.batched import Batched
from eager.core.dispatch import apply
from eager.core.op import REGISTRY, Attrs, Op
from eager.core.registry import need_tensors, public
from eager.core.tensor import Tensor, wrap
from eager.core.traced import Traced, UnknownValue
from eager.ops import samples as s
from eager.ops.kinds import View, reshape_strides
from eager.sizes import polynomial, symint
from eager.sizes.aval import Aval, broadcast_shapes, contiguous_strides, same
from eager.sizes.symint import Ints, is_one, is_single, known_eq, of_data, slice_bounds

Shape = tuple[int, ...]
Inverse = tuple[Op, dict[str, Any], bool]


# --------------------------------------------------------------------------- dims and shapes
def norm_dim(dim: int, ndim: int, op: str) -> int:
    """A non-negative dimension; IndexError in PyTorch's words. A 0-dim tensor has a dimension 0 to
    speak of."""
    bound = ndim or 1
    if type(dim) is not int:
        dim = operator.index(dim)
    if not -bound <= dim < bound:
        raise IndexError(
            f"{op}(): Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], "
            f"but got {dim})"
        )
    return dim % bound


def norm_dims(dim: Any, ndim: int, op: str) -> tuple[int, ...]:
    """All dimensions for None or (); otherwise a sorted tuple without duplicates. An int is one
    dimension."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    dim = symint.integrals(dim)
    dims = [norm_dim(d, ndim, op) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"{op}(): dim {dims[0]} appears multiple times in the list of dims")
    return tuple(sorted(dims)) if ndim else ()


def as_ints(values: Sequence[Any], named: Any = None) -> tuple[int, ...]:
    """`f(2, 3)`, `f((2, 3))` and `f(Size)` alike: a tuple of ints (0-dim integer tensors count as
    ints). `named`: what was given by keyword instead."""
    if named is not None:
        if values:
            raise TypeError(f"sizes are given twice: {values} and {named}")
        values = (named,)
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        values = values[0]
    return tuple(v if type(v) is int else symint.index(v) for v in symint.integrals(values))


@polynomial.remembered
def infer_shape(shape: Shape, numel: int) -> Shape:
    """Fill in the one -1 of a shape. RuntimeError when the sizes do not multiply to `numel`."""
    known = math.prod(n for n in shape if n != -1)
    holes = shape.count(-1)
    if holes > 1:
        raise RuntimeError("only one dimension can be inferred")
    if holes and (known == 0 or numel % known):
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    full = tuple(numel // known if n == -1 else n for n in shape)
    if any(n < 0 for n in full) or math.prod(full) != numel:
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return full


def replaced(shape: Sequence[Any], dim: int, *new: Any) -> tuple[Any, ...]:
    return (*shape[:dim], *new, *shape[dim + 1 :])


# ------------------------------------------------------------------------------ permute
def _permute_inverse(base: Aval, attrs: Attrs) -> Inverse:
    return PERMUTE, {"dims": tuple(np.argsort(attrs["dims"]).tolist())}, False


PERMUTE = View(
    "permute",
    ("x",),
    lambda g, dims: (g.permute(tuple(np.argsort(dims).tolist())),),
    shape=lambda shape, attrs: tuple(shape[d] for d in attrs["dims"]),
    source=lambda index, shape, attrs: tuple(
        index[attrs["dims"].index(d)] for d in range(len(shape))
    ),
    numpy=lambda x, attrs: x.transpose(attrs["dims"]),
    strides=lambda shape, strides, attrs: (tuple(strides[d] for d in attrs["dims"]), 0),
    write=_permute_inverse,
)


@public(samples=lambda: [s.call(s.values((2, 3, 4)), (2, 0, 1)), s.call(s.values((2, 3)), (-1, 0))])
def permute(input: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """Dimensions in the order `dims`. RuntimeError unless `dims` names each once."""
    if not order and dims is None:
        raise TypeError("permute() missing the dims")
    order = tuple(norm_dim(d, input.ndim, "permute") for d in as_ints(order, dims))
    if sorted(order) != list(range(input.ndim)):
        raise RuntimeError(
            f"permute(): dims {order} is not an ordering of the {input.ndim} dimensions of "
            f"{input.shape}"
        )
    return apply(PERMUTE, input, dims=order)


@public(alias=("swapaxes", "swapdims"), samples=lambda: [s.call(s.values((2, 3, 4)), 0, -1)])
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged."""
    ndim = input.ndim
    a, b = norm_dim(dim0, ndim, "transpose"), norm_dim(dim1, ndim, "transpose")
    order = list(range(ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return apply(PERMUTE, input, dims=tuple(order))


@public(samples=lambda: [s.call(s.values((2, 3))), s.call(s.values((2,)))])
def t(input: Tensor) -> Tensor:
    """The transposed matrix; vectors and scalars as they are."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose(input, 0, 1) if input.ndim == 2 else alias(input)


@public(
    alias=("moveaxis",),
    samples=lambda: [s.call(s.values((2, 3, 4)), *d) for d in ((0, 2), ((0, 1), (-1, 0)))],
)
def movedim(input: Tensor, source: Ints, destination: Ints) -> Tensor:
    """Dimensions `source` moved to the places `destination`; the others keep their order."""
    nd = input.ndim
    src = [norm_dim(d, nd, "movedim") for d in ((source,) if isinstance(source, int) else source)]
    dst = [
        norm_dim(d, nd, "movedim")
        for d in ((destination,) if isinstance(destination, int) else destination)
    ]
    rest = [d for d in range(nd) if d not in src]
    if len(src) != len(dst):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({src} dims) should contain the "
            f"same number of dims as destination ({dst} dims)"
        )
    for name, some in (("source", src), ("destination", dst)):
        if len(set(some)) != len(some):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({some})")
    placed = dict(zip(dst, src, strict=True))
    return permute(input, [placed[i] if i in placed else rest.pop(0) for i in range(nd)])


# ------------------------------------------------------------------------------- expand
def _expand_strides(shape: Shape, strides: Shape, attrs: Attrs) -> tuple[Shape, int]:
    new = attrs["shape"]
    lead = len(new) - len(shape)
    kept = tuple(
        0 if _spread(n, m) else s for n, s, m in zip(shape, strides, new[lead:], strict=True)
    )
    return (0,) * lead + kept, 0


def _spread(n: int, m: int) -> bool:
    """True if one element is repeated."""
    if type(n) is type(m) is int:
        return n == 1 != m
    return is_one(n) or (known_eq(n, m) is not True and not of_data(n) and n == 1)


def _expand_source(index: tuple[Any, ...], shape: Shape, attrs: Attrs) -> tuple[Any, ...]:
    lead = len(attrs["shape"]) - len(shape)
    return tuple(0 if is_single(n) else i for i, n in zip(index[lead:], shape, strict=True))


EXPAND = View(
    "expand",
    ("x",),
    lambda g: (g,),  # summed down to the operand's shape by the caller
    shape=lambda shape, attrs: attrs["shape"],
    source=_expand_source,
    numpy=lambda x, attrs: np.broadcast_to(x, attrs["shape"]),
    strides=_expand_strides,
)


@public(
    namespace=False,
    torch="Tensor.expand",
    samples=lambda: [s.call(s.values((3, 1)), 2, -1, 4), s.call(s.values(()), 2)],
)
def expand(input: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """Dimensions of size 1 repeated to `sizes` without copying; -1 keeps a size, new dimensions
    come in front."""
    wanted = as_ints(sizes, size)
    lead = len(wanted) - input.ndim
    if lead < 0:
        raise RuntimeError(
            f"expand(): the number of sizes provided ({len(wanted)}) must be greater or equal to "
            "the number of dimensions "
            f"in the tensor ({input.ndim})"
        )
    shape = tuple(
        input.shape[i - lead] if n == -1 and i >= lead else n for i, n in enumerate(wanted)
    )
    for i, n in enumerate(input.shape):
        if not (n == 1 if type(n) is int else is_one(n)) and n not in (shape[lead + i], 1):
            raise RuntimeError(
                f"The expanded size of the tensor ({shape[lead + i]}) must match the existing "
                f"size ({n}) at non-singleton "
                f"dimension {lead + i}.  Target sizes: {list(shape)}.  Tensor sizes: "
                f"{list(input.shape)}"
            )
    if any(n < 0 for n in shape):
        raise RuntimeError(
            f"expand(): -1 is not allowed in a leading, non-existing dimension: {wanted}"
        )
    if same((math.prod(shape),), (input.numel(),)) or not _repeats(input.shape, shape):
        return apply(RESHAPE, input, shape=shape)  # a view that can be written
    return apply(EXPAND, input, shape=shape)


def _repeats(shape: Shape, wanted: Shape) -> bool:
    """True if a dimension of size 1, or a new one, gets another size, or one that data decide."""
    before = (1,) * (len(wanted) - len(shape)) + shape
    return any(is_one(n) and (of_data(m) or m != 1) for n, m in zip(before, wanted, strict=True))


@public(samples=lambda: [s.call(s.values((3, 1)), (2, 3, 4))])
def broadcast_to(input: Tensor, size: Any) -> Tensor:
    return expand(input, *size)


@public(namespace=False)
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    return expand(input, *other.shape)


@public(method=False)
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape."""
    need_tensors("broadcast_tensors", tensors)
    shape = broadcast_shapes(*(tuple(x.shape) for x in tensors))
    return tuple(expand(x, *shape) for x in tensors)


# ------------------------------------------------------------------------------ reshape
def _reshape_source(index: tuple[Any, ...], shape: Shape, attrs: Attrs) -> tuple[Any, ...]:
    flat: Any = 0
    for i, step in zip(index, contiguous_strides(attrs["shape"]), strict=True):
        flat = flat + i * step
    own = contiguous_strides(shape)
    return tuple(
        (flat // s) % n if d else flat // s for d, (s, n) in enumerate(zip(own, shape, strict=True))
    )


def _reshape_strides(shape: Shape, strides: Shape, attrs: Attrs) -> tuple[Shape, int] | None:
    found = reshape_strides(shape, strides, attrs["shape"])
    return None if found is None else (found, 0)


RESHAPE: View = View(
    "reshape",
    ("x",),
    lambda g, avals: (g.reshape(avals[0].shape),),
    shape=lambda shape, attrs: attrs["shape"],
    source=_reshape_source,
    numpy=lambda x, attrs: x.reshape(attrs["shape"]),
    strides=_reshape_strides,
    write=lambda base, attrs: (RESHAPE, {"shape": base.shape}, False),
    keeps_order=True,
    may_copy=True,
)


@public(samples=lambda: [s.call(s.values((3, 4)), (2, -1)), s.call(s.values((4, 3)).T, (12,))])
def reshape(input: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """The elements in row-major order in another shape (one -1 is inferred); a view where the
    memory allows."""
    return apply(RESHAPE, input, shape=infer_shape(as_ints(sizes, shape), input.numel()))


@public(namespace=False, torch="Tensor.view", samples=lambda: [s.call(s.values((3, 4)), 2, -1)])
def view(input: Tensor, *shape: Any, size: Any = None, dtype: DType | None = None) -> Tensor:
    """Like `reshape`, but never a copy: RuntimeError where only a copy could do it."""
    if len(shape) == 1 and isinstance(shape[0], DType):
        dtype = shape[0]
    if dtype is not None:
        return alias(input) if dtype is input.dtype else bits(input, dtype)
    wanted = infer_shape(as_ints(shape, size), input.numel())
    if reshape_strides(tuple(input.shape), input._layout, wanted) is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return apply(RESHAPE, input, shape=wanted)


def bits(input: Tensor, dtype: DType) -> Tensor:
    """View of the memory as another element type; the last dimension grows or shrinks with the size
    of an element. RuntimeError where it cannot."""
    array = input._array
    if type(array) is Batched:
        return wrap(array.of(bits(array.value, dtype)))
    if type(array) is Traced:
        raise UnknownValue(
            "view(dtype) of a tensor whose values are not known yet: it is being captured"
        )
    old, new = input.dtype.itemsize, dtype.itemsize
    if old != new:
        _check_bits(input, f" to view {input.dtype} as {dtype} (different element sizes)", old, new)
    host = type(array) is np.ndarray
    return wrap(array.view(dtype.np) if host else array.reinterpreted(dtype), input._storage)


def _check_bits(input: Tensor, what: str, old: int, new: int) -> None:
    if not input.ndim:
        raise RuntimeError(f"self.dim() cannot be 0{what}")
    if input.stride(-1) != 1:
        raise RuntimeError(f"self.stride(-1) must be 1{what}, but got {input.stride(-1)}")
    ratio = new // old
    if ratio <= 1:
        return
    counts = {"size(-1)": input.shape[-1], "storage_offset()": input.storage_offset()}
    counts |= {f"stride({d})": input.stride(d) for d in range(input.ndim - 1)}
    for name, count in counts.items():
        if count % ratio:
            raise RuntimeError(f"self.{name} must be divisible by {ratio}{what}, but got {count}")


@public(namespace=False)
def view_as(input: Tensor, other: Tensor) -> Tensor:
    return view(input, *other.shape)


@public(namespace=False)
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    return reshape(input, *other.shape)


@public(samples=lambda: [s.call(s.values((2, 3, 4))), s.call(s.values((2, 3, 4)), 1)])
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions start_dim..end_dim as one."""
    first, last = (
        norm_dim(start_dim, input.ndim, "flatten"),
        norm_dim(end_dim, input.ndim, "flatten"),
    )
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if input.ndim == 0:
        return reshape(input, 1)
    if first == last:
        return input
    shape = tuple(input.shape)
    return reshape(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@public(samples=s.on())
def ravel(input: Tensor) -> Tensor:
    """`reshape(-1)`, but in row-major order in memory, too."""
    return reshape(input.contiguous(), -1)


@public(samples=lambda: [s.call(s.values((6, 2)), 0, (2, -1))])
def unflatten(input: Tensor, dim: int, sizes: Ints) -> Tensor:
    """Dimension `dim` as several (one -1 is inferred)."""
    d = norm_dim(dim, input.ndim, "unflatten")
    parts = infer_shape(tuple(sizes), input.shape[d])
    return reshape(input, replaced(tuple(input.shape), d, *parts))


# --------------------------------------------------------------------- squeeze, unsqueeze
def _unsqueezed(shape: tuple[int, ...], strides: tuple[int, ...], dim: int) -> tuple[int, ...]:
    """A step along the new dimension leads past the one behind it."""
    step = shape[dim] * strides[dim] if dim < len(shape) else 1
    return (*strides[:dim], step, *strides[dim:])


def _unsqueeze(x: np.ndarray, dim: int) -> np.ndarray:
    shape = (*x.shape[:dim], 1, *x.shape[dim:])
    if x.flags.c_contiguous and x.size:
        return x.reshape(shape)
    size = x.itemsize
    steps = _unsqueezed(x.shape, tuple(step // size for step in x.strides), dim)
    return np.lib.stride_tricks.as_strided(x, shape, [step * size for step in steps])


UNSQUEEZE: View = View(
    "unsqueeze",
    ("x",),
    lambda g, dim: (g.squeeze(dim),),
    shape=lambda shape, attrs: (*shape[: attrs["dim"]], 1, *shape[attrs["dim"] :]),
    source=lambda index, shape, attrs: replaced(index, attrs["dim"]),
    numpy=lambda x, attrs: _unsqueeze(x, attrs["dim"]),
    strides=lambda shape, strides, attrs: (_unsqueezed(shape, strides, attrs["dim"]), 0),
    write=lambda base, attrs: (SQUEEZE, {"dims": (attrs["dim"],)}, False),
    keeps_order=True,
)


@public(samples=lambda: [s.call(s.values(n), d) for n, d in (((2, 3), 1), ((), 0), ((2,), -1))])
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A new dimension of size 1 at `dim`."""
    return apply(UNSQUEEZE, input, dim=norm_dim(dim, input.ndim + 1, "unsqueeze"))


def without(values: Sequence[Any], dims: Sequence[int]) -> tuple[Any, ...]:
    return tuple(v for i, v in enumerate(values) if i not in dims)


def _squeeze_source(index: tuple[Any, ...], shape: Shape, attrs: Attrs) -> tuple[Any, ...]:
    left = iter(index)
    return tuple(0 if i in attrs["dims"] else next(left) for i in range(len(shape)))


SQUEEZE: View = View(
    "squeeze",
    ("x",),
    lambda g, avals: (g.reshape(avals[0].shape),),
    shape=lambda shape, attrs: without(shape, attrs["dims"]),
    source=_squeeze_source,
    numpy=lambda x, attrs: x.reshape(without(x.shape, attrs["dims"])),
    strides=lambda shape, strides, attrs: (without(strides, attrs["dims"]), 0),
    write=lambda base, attrs: (RESHAPE, {"shape": base.shape}, False),
    keeps_order=True,
)


@public(samples=lambda: [s.call(s.values((1, 3, 1)), *d) for d in ((), (-1,), ((0, 1),))])
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without its dimensions of size 1 (all, or those of them in `dim`)."""
    none = isinstance(dim, tuple | list) and not dim
    dims = () if none else norm_dims(dim, input.ndim, "squeeze")
    return apply(SQUEEZE, input, dims=tuple(d for d in dims if input.shape[d] == 1))


# ------------------------------------------------------------------------- slice, select
def _slice_shape(shape: Shape, attrs: Attrs) -> Shape:
    start, stop, step = attrs["start"], attrs["stop"], attrs["step"]
    length = stop - start if step == 1 else (stop - start + (step - 1)) // step
    return replaced(shape, attrs["dim"], max(length, 0))


def _slice_strides(shape: Shape, strides: Shape, attrs: Attrs) -> tuple[Shape, int]:
    d = attrs["dim"]
    return replaced(strides, d, strides[d] * attrs["step"]), attrs["start"] * strides[d]


def at(ndim: int, dim: int, index: Any) -> tuple[Any, ...]:
    """The NumPy index that takes `index` at `dim` and everything elsewhere; always a view, also
    for one dimension."""
    return (*(slice(None),) * dim, index, *(slice(None),) * (ndim - dim - 1), ...)


SLICE = View(
    "slice",
    ("x",),
    lambda g, avals, dim, start, stop, step: (
        apply(
            REGISTRY["slice_scatter"],
            Tensor._full(0, Aval(avals[0].shape, g.dtype, g.aval.device)),
            g,
            dim=dim,
            start=start,
            stop=stop,
            step=step,
        ),
    ),
    shape=_slice_shape,
    source=lambda index, shape, attrs: replaced(
        index, attrs["dim"], index[attrs["dim"]] * attrs["step"] + attrs["start"]
    ),
    numpy=lambda x, attrs: x[
        at(x.ndim, attrs["dim"], slice(attrs["start"], attrs["stop"], attrs["step"]))
    ],
    strides=_slice_strides,
    write=lambda base, attrs: (REGISTRY["slice_scatter"], dict(attrs), True),
)
SELECT = View(
    "select",
    ("x",),
    lambda g, avals, dim, index: (
        apply(
            REGISTRY["select_scatter"],
            Tensor._full(0, Aval(avals[0].shape, g.dtype, g.aval.device)),
            g,
            dim=dim,
            index=index,
        ),
    ),
    shape=lambda shape, attrs: replaced(shape, attrs["dim"]),
    source=lambda index, shape, attrs: (
        *index[: attrs["dim"]],
        attrs["index"],
        *index[attrs["dim"] :],
    ),
    numpy=lambda x, attrs: x[at(x.ndim, attrs["dim"], attrs["index"])],
    strides=lambda shape, strides, attrs: (
        replaced(strides, attrs["dim"]),
        attrs["index"] * strides[attrs["dim"]],
    ),
    write=lambda base, attrs: (REGISTRY["select_scatter"], dict(attrs), True),
)


def slice_dim(
    input: Tensor, dim: int, start: Any = None, stop: Any = None, step: int = 1
) -> Tensor:
    """`input[..., start:stop:step, ...]` at dimension `dim`, with Python's clamping; `step` > 0."""
    if step < 1:
        raise ValueError("step must be greater than zero")
    size = input.shape[dim]
    begin, end = slice_bounds(start, stop, size)
    if step == 1 and same((begin, end), (0, size)):
        return alias(input)
    return apply(SLICE, input, dim=dim, start=begin, stop=end, step=step)


@public(samples=lambda: [s.call(s.values((5, 3)), 0, 1, 3), s.call(s.values((5, 3)), -1, -2, 1)])
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`length` elements from `start` (an int, or a tensor of one) along `dim`."""
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    d = norm_dim(dim, input.ndim, "narrow")
    size = input.shape[d]
    if isinstance(start, Tensor):
        if start.ndim or start.dtype.category != INT:
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = start.__index__()
    start, length = symint.index(start), symint.index(length)
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [-{size}, {size}], but got {start})"
        )
    begin = start + size if start < 0 else start
    if length < 0 or begin < 0 or begin + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return slice_dim(input, d, begin, begin + length)


@public(samples=lambda: [s.call(s.values((5, 3)), 0, 1), s.call(s.values((5, 3)), -1, -1)])
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The `index`-th slice along `dim`, which disappears. IndexError when out of range."""
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = norm_dim(dim, input.ndim, "select")
    size, i = input.shape[d], symint.index(index)
    if not -size <= i < size:
        raise IndexError(
            f"select(): index {i} out of range for tensor of size {list(input.shape)} at "
            f"dimension {d}"
        )
    return apply(SELECT, input, dim=d, index=i + size if i < 0 else i)


ALIAS: View = View(
    "alias",
    ("x",),
    lambda g: (g,),
    shape=lambda shape, attrs: shape,
    source=lambda index, shape, attrs: index,
    numpy=lambda x, attrs: x[...],
    strides=lambda shape, strides, attrs: (strides, 0),
    write=lambda base, attrs: (ALIAS, {}, False),
    keeps_order=True,
)


def alias(input: Tensor) -> Tensor:
    """A view of all of it."""
    return apply(ALIAS, input)


STOP = View(
    "stop_gradient",
    ("x",),
    shape=lambda shape, attrs: shape,
    source=lambda index, shape, attrs: index,
    numpy=lambda x, attrs: x[...],
    strides=lambda shape, strides, attrs: (strides, 0),
    stops=True,
)


def constant(x: Tensor) -> Tensor:
    """`x` as a constant to differentiation. Unlike `detach` it stays so when a captured graph is
    differentiated later."""
    return apply(STOP, x)
