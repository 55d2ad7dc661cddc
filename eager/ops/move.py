"""Ops that move elements to other places in memory of their own: cat, pad, flip, and writes into a
part."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from eager.base import dtype as dt
from eager.core.dispatch import apply
from eager.core.op import Attrs
from eager.core.registry import Out, public
from eager.core.tensor import Tensor
from eager.ops import samples as s
from eager.ops.dynamic import REPEATS, find
from eager.ops.kinds import Move, require_sizes
from eager.ops.part_views import DIAGONAL, diagonal
from eager.ops.view import SELECT, SLICE, as_ints, at, norm_dim, norm_dims, select
from eager.sizes.aval import Aval
from eager.sizes.symint import Ints, integer, is_empty, of_data, slice_bounds

Shape = tuple[int, ...]
Index = tuple[Any, ...]


# ---------------------------------------------------------------------------------- cat
def _cat_shape(avals: tuple[Aval, ...], attrs: Attrs) -> Shape:
    dim, first = attrs["dim"], avals[0].shape
    for i, a in enumerate(avals):
        same = len(a.shape) == len(first) and all(
            n == m for d, (n, m) in enumerate(zip(a.shape, first, strict=True)) if d != dim
        )
        if not same:
            raise RuntimeError(
                f"cat(): Sizes of tensors must match except in dimension {dim}. Tensor 0 has "
                f"shape {first}, tensor {i} has "
                f"{a.shape}"
            )
    return (*first[:dim], sum(a.shape[dim] for a in avals), *first[dim + 1 :])


def _cat_vjp(g: Tensor, avals: tuple[Aval, ...], dim: int) -> tuple[Tensor, ...]:
    grads, start = [], 0
    for a in avals:
        grads.append(g.narrow(dim, start, a.shape[dim]))
        start += a.shape[dim]
    return tuple(grads)


def _cat_element(m: Any, at: Index, xs: tuple[Any, ...], attrs: Attrs) -> Any:
    """The part that `at` lies in, found by halves: of many parts, no condition has many others
    before it."""
    dim = attrs["dim"]
    parts = [x for x in xs if not any(map(is_empty, x.shape))]
    starts = [0, *accumulate(x.shape[dim] for x in parts)]

    def among(first: int, last: int) -> Any:
        if last - first == 1:
            return parts[first][(*at[:dim], at[dim] - starts[first], *at[dim + 1 :])]
        middle = (first + last) // 2
        before = m.less(at[dim], starts[middle])
        return m.select(before, among(first, middle), among(middle, last))

    return among(0, len(parts))


def _concatenated(xs: tuple[Any, ...], attrs: Attrs) -> Any:
    """Concatenate in the type that holds all: NumPy's rule has none for int16 beside bfloat16."""
    first = xs[0].dtype
    for x in xs:
        if x.dtype is not first:
            break
    else:
        return np.concatenate(xs, axis=attrs["dim"])
    common = functools.reduce(dt.promote_types, (dt.from_numpy(x.dtype) for x in xs))
    return np.concatenate(xs, axis=attrs["dim"], dtype=common.np, casting="unsafe")


CAT = Move(
    "cat", ("*xs",), _cat_vjp, shape=_cat_shape, element=_cat_element, numpy=_concatenated
)  # fmt: skip


@public(
    out=Out(overlap="none"),
    method=False,
    alias=("concat", "concatenate"),
    samples=lambda: [
        s.call([s.values((2, 3)), s.values((1, 3), seed=1)]),
        s.call([s.values((2, 3)), s.values((2, 1), seed=1)], -1),
        s.call([s.values((0,)), s.values((2, 1), seed=1)]),
    ],
)
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after the other along `dim`. RuntimeError when their other sizes differ."""
    if isinstance(tensors, Tensor) or not all(isinstance(x, Tensor) for x in tensors):
        raise TypeError("cat(): argument 'tensors' must be a tuple or list of Tensors")
    if not tensors:
        raise ValueError("cat(): expected a non-empty list of Tensors")
    shapes = [x._array.shape for x in tensors]
    ranks = [len(s) for s in shapes]
    rank = ranks[0]
    if 0 in ranks:
        raise RuntimeError("zero-dimensional tensor cannot be concatenated")
    if 1 in ranks and any(len(s) == 1 and is_empty(s[0]) for s in shapes):
        # PyTorch's legacy: they are skipped, but count in the type.
        full = [x for x in tensors if x.ndim != 1 or not is_empty(x._array.shape[0])]
        dtype = functools.reduce(dt.promote_types, (x.dtype for x in tensors))
        tensors = [x if x.dtype is dtype else x.to(dtype) for x in full or tensors[:1]]
        rank = tensors[0].ndim
    return apply(CAT, *tensors, dim=norm_dim(dim, rank, "cat"))


# ------------------------------------------------------------------- writes into a part
def _scattered(index: Any) -> Any:
    def kernel(arrays: tuple[Any, ...], attrs: Attrs) -> Any:
        base, src = arrays
        out = np.array(base, order="C")
        out[index(base, attrs)] = src
        return out

    return kernel


def _slice_at(x: Any, attrs: Attrs) -> Any:
    return at(x.ndim, attrs["dim"], slice(attrs["start"], attrs["stop"], attrs["step"]))


def _slice_scatter_vjp(
    g: Tensor, avals: Any, dim: int, start: int, stop: int, step: int
) -> tuple[Tensor, Tensor]:
    where = {"dim": dim, "start": start, "stop": stop, "step": step}
    hole = Tensor._full(0, Aval(avals[1].shape, g.dtype, g.aval.device))
    return apply(SLICE_SCATTER, g, hole, **where), apply(SLICE, g, **where)


def _slice_element(m: Any, at: Index, xs: tuple[Any, ...], attrs: Attrs) -> Any:
    base, src = xs
    dim, start, stop, step = (attrs[k] for k in ("dim", "start", "stop", "step"))
    i = at[dim] - start
    conditions = [m.within(at[dim], start, stop)]
    if step != 1:
        conditions.append(m.equal(i % step, 0))
    return m.select(m.all(*conditions), src[(*at[:dim], i // step, *at[dim + 1 :])], base[at])


SLICE_SCATTER = Move(
    "slice_scatter",
    ("base", "src"),
    _slice_scatter_vjp,
    element=_slice_element,
    shape=lambda avals, attrs: avals[0].shape,
    numpy=_scattered(_slice_at),
)


def _select_scatter_vjp(g: Tensor, avals: Any, dim: int, index: int) -> tuple[Tensor, Tensor]:
    hole = Tensor._full(0, Aval(avals[1].shape, g.dtype, g.aval.device))
    return apply(SELECT_SCATTER, g, hole, dim=dim, index=index), apply(
        SELECT, g, dim=dim, index=index
    )


def _select_element(m: Any, at: Index, xs: tuple[Any, ...], attrs: Attrs) -> Any:
    base, src = xs
    dim = attrs["dim"]
    return m.select(m.equal(at[dim], attrs["index"]), src[(*at[:dim], *at[dim + 1 :])], base[at])


SELECT_SCATTER = Move(
    "select_scatter",
    ("base", "src"),
    _select_scatter_vjp,
    element=_select_element,
    shape=lambda avals, attrs: avals[0].shape,
    numpy=_scattered(lambda x, attrs: at(x.ndim, attrs["dim"], attrs["index"])),
)


def _diagonal_scatter_vjp(
    g: Tensor, avals: Any, offset: int, dim1: int, dim2: int
) -> tuple[Tensor, Tensor]:
    where = {"offset": offset, "dim1": dim1, "dim2": dim2}
    hole = Tensor._full(0, Aval(avals[1].shape, g.dtype, g.aval.device))
    return apply(DIAGONAL_SCATTER, g, hole, **where), apply(DIAGONAL, g, **where)


def _diagonal_kernel(arrays: tuple[Any, ...], attrs: Attrs) -> Any:
    base, src = arrays
    out = np.array(base, order="C")
    DIAGONAL.numpy(out, attrs)[...] = src
    return out


def _diagonal_element(m: Any, at: Index, xs: tuple[Any, ...], attrs: Attrs) -> Any:
    base, src = xs
    offset, d1, d2 = (attrs[k] for k in ("offset", "dim1", "dim2"))
    row, col = at[d1] + min(offset, 0), at[d2] - max(offset, 0)
    on = m.all(m.equal(row - col, 0), m.within(row, 0, src.shape[-1]))
    rest = tuple(i for d, i in enumerate(at) if d not in (d1, d2))
    return m.select(on, src[(*rest, row)], base[at])


DIAGONAL_SCATTER = Move(
    "diagonal_scatter",
    ("base", "src"),
    _diagonal_scatter_vjp,
    element=_diagonal_element,
    shape=lambda avals, attrs: avals[0].shape,
    numpy=_diagonal_kernel,
)


def _source(input: Tensor, src: Tensor, part: Tensor, name: str) -> Tensor:
    """`src` in the dtype of `input`; RuntimeError unless it has the shape of the part it
    replaces."""
    if src.shape != part.shape:
        raise RuntimeError(
            f"{name}(): expected src to have the size of the slice it replaces: "
            f"{tuple(part.shape)}, "
            f"got {tuple(src.shape)}"
        )
    return src.to(input.dtype)


@public(samples=lambda: [s.call(s.values((5, 3)), s.values((2, 3), seed=1), 0, 1, 3)])
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """A copy with `input[..., start:end:step, ...]` replaced by `src`."""
    d = norm_dim(dim, input.ndim, "slice_scatter")
    begin, stop = slice_bounds(start, end, input.shape[d])
    where = {"dim": d, "start": begin, "stop": stop, "step": step}
    src = _source(input, src, apply(SLICE, input, **where), "slice_scatter")
    return apply(SLICE_SCATTER, input, src, **where)


@public(samples=lambda: [s.call(s.values((5, 3)), s.values((5,), seed=1), 1, -1)])
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy with the `index`-th slice along `dim` replaced by `src`."""
    part = select(input, dim, index)
    where = {"dim": norm_dim(dim, input.ndim, "select"), "index": index % input.shape[dim]}
    src = _source(input, src, part, "select_scatter")
    return apply(SELECT_SCATTER, input, src, **where)


@public(
    samples=lambda: [
        s.call(s.values((4, 3)), s.values((3,), seed=1)),
        s.call(s.values((4, 3)), s.values((2,)), 1),
    ]
)
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy with a diagonal replaced by `src`."""
    src = _source(input, src, diagonal(input, offset, dim1, dim2), "diagonal_scatter")
    a, b = norm_dim(dim1, input.ndim, "diagonal"), norm_dim(dim2, input.ndim, "diagonal")
    return apply(DIAGONAL_SCATTER, input, src, offset=offset, dim1=a, dim2=b)


# ------------------------------------------------------------------------------ flip, pad
def _flip_element(m: Any, at: Index, xs: tuple[Any, ...], attrs: Attrs) -> Any:
    ends = enumerate(zip(at, xs[0].shape, strict=True))
    return xs[0][tuple(n - 1 - i if d in attrs["dims"] else i for d, (i, n) in ends)]


FLIP: Move = Move(
    "flip",
    ("x",),
    lambda g, dims: (apply(FLIP, g, dims=dims),),
    element=_flip_element,
    shape=lambda avals, attrs: avals[0].shape,
    numpy=lambda arrays, attrs: np.flip(arrays[0], attrs["dims"]).copy(),  # also of one element
)


@public(samples=lambda: [s.call(s.values((3, 4)), (0,)), s.call(s.values((2, 3, 4)), (0, -1))])
def flip(input: Tensor, *each: Any, dims: Any = None) -> Tensor:
    """The order along `dims` reversed (a copy)."""
    along = as_ints(each, dims)
    return apply(FLIP, input, dims=norm_dims(along, input.ndim, "flip") if along else ())


@public(samples=lambda: [s.call(s.values((3, 4)))])
def fliplr(input: Tensor) -> Tensor:
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


@public(samples=lambda: [s.call(s.values((3, 4)))])
def flipud(input: Tensor) -> Tensor:
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


def _padded(avals: tuple[Aval, ...], attrs: Attrs) -> Shape:
    shape = tuple(n + lo + hi for n, (lo, hi) in zip(avals[0].shape, attrs["pads"], strict=True))
    if any(n < 0 for n in shape):
        raise RuntimeError(f"pad(): {attrs['pads']} leaves a negative size of {avals[0].shape}")
    return shape


def _pad_kernel(arrays: tuple[Any, ...], attrs: Attrs) -> Any:
    x, value = arrays
    pads = attrs["pads"]
    shape = tuple(n + lo + hi for n, (lo, hi) in zip(x.shape, pads, strict=True))
    out = np.full(shape, value, x.dtype)
    inner = tuple(
        slice(max(lo, 0), n - max(hi, 0)) for n, (lo, hi) in zip(shape, pads, strict=True)
    )
    kept = tuple(
        slice(max(-lo, 0), n - max(-hi, 0)) for n, (lo, hi) in zip(x.shape, pads, strict=True)
    )
    out[inner] = x[kept]
    return out


def _pad_element(m: Any, at: Index, xs: tuple[Any, ...], attrs: Attrs) -> Any:
    x, fill = xs
    index = tuple(i - lo for i, (lo, _) in zip(at, attrs["pads"], strict=True))
    inside = m.all(*(m.within(i, 0, n) for i, n in zip(index, x.shape, strict=True)))
    return m.select(inside, x[index], fill[()])


PAD: Move = Move(
    "pad",
    ("x", "value"),
    lambda g, pads: (apply(PAD, g, 0, pads=tuple((-lo, -hi) for lo, hi in pads)), None),
    shape=_padded,
    element=_pad_element,
    numpy=_pad_kernel,
)


def constant_pad(input: Tensor, pads: Sequence[tuple[int, int]], value: Any = 0) -> Tensor:
    """`pads[d]` = (before, after) elements of `value` around dimension d; negative ones crop."""
    sizes = tuple((integer(before), integer(after)) for before, after in pads)
    return apply(PAD, input, dt.stored(value, input.dtype), pads=sizes)


@public(
    samples=lambda: [s.call(s.values((3, 4)), (1, 2), 0.5), s.call(s.values((3, 4)), (1, -1, 2, 0))]
)
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    """`nn.functional.pad` with a constant: (before, after) of the last dimension, then of the one
    before it, ..."""
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise RuntimeError(
            f"Length of pad must be even and no more than twice the dimensions, got {len(pad)} for "
            f"{input.ndim}"
        )
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return constant_pad(input, [(0, 0)] * (input.ndim - len(pairs)) + pairs[::-1], value)


# -------------------------------------------------------------------------- stack and its like
def _pair(*shape: int) -> Any:
    return s.call([s.values(shape), s.values(shape, seed=1)])


@public(method=False, samples=lambda: [_pair(2, 3), _pair(), s.call([s.values((2, 3))] * 2, -1)])
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension `dim`."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    d = norm_dim(dim, tensors[0].ndim + 1, "stack")
    for i, x in enumerate(tensors):
        if x.shape != tensors[0].shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at "
                f"entry 0 and {list(x.shape)} at entry {i}: pad them to one (nn.utils.rnn."
                "pad_sequence; in a DataLoader by its collate_fn)"
            )
    return cat([x.unsqueeze(d) for x in tensors], d)


def _at_least(input: Tensor, ndim: int) -> Tensor:
    """Dimensions of size 1 as NumPy's atleast_nd adds them: in front, a third one behind."""
    while input.ndim < min(ndim, 2):
        input = input.unsqueeze(0)
    return input.unsqueeze(-1) if input.ndim < ndim else input


@public(method=False, samples=lambda: [_pair(2, 3), _pair(3), _pair()])
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    some = [_at_least(x, 1) for x in _some("hstack", tensors)]
    return cat(some, 0 if some[0].ndim == 1 else 1)


@public(method=False, samples=lambda: [_pair(2, 3), _pair(3)], alias=("row_stack",))
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    return cat([_at_least(x, 2) for x in _some("vstack", tensors)], 0)


@public(method=False, samples=lambda: [_pair(2, 3), _pair(3)])
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    return cat([_at_least(x, 3) for x in _some("dstack", tensors)], 2)


def _some(name: str, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return tensors


@public(method=False, samples=lambda: [_pair(3), _pair(3, 2)])
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Vectors as columns, matrices beside them."""
    return cat([x.reshape(-1, 1) if x.ndim <= 1 else x for x in tensors], 1)


# ------------------------------------------------------------------------------- repetition
@public(
    namespace=False,
    torch="Tensor.repeat",
    samples=lambda: [
        s.call(s.values((2, 3)), 2, 1),
        s.call(s.values((3,)), 2, 2),
        s.call(s.values((2,)), 0),
    ],
)
def repeat(input: Tensor, *each: Any, repeats: Any = None) -> Tensor:
    """The whole tensor repeated along each dimension (new ones in front)."""
    times = as_ints(each, repeats)
    lead = len(times) - input.ndim
    if lead < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    require_sizes(times)
    shape = (1,) * lead + tuple(input.shape)
    spread = [n for pair in zip(times, shape, strict=True) for n in pair]
    once = input.reshape([n for m in shape for n in (1, m)]).expand(spread)
    return once.reshape([t * n for t, n in zip(times, shape, strict=True)]).clone()


def apart(out: Tensor, source: Tensor) -> Tensor:
    """`out`, copied where it looks at the memory of `source`: of a function whose result is a new
    tensor in PyTorch, also where sizes of 1 leave every element in its place."""
    return out.clone() if out._storage is source._storage else out


@public(samples=lambda: [s.call(s.values((2, 3)), (2, 2)), s.call(s.values((2, 3)), (2,))])
def tile(input: Tensor, *each: Any, dims: Any = None) -> Tensor:
    """`repeat`, with fewer numbers than dimensions allowed."""
    times = as_ints(each, dims)
    return repeat(input, *(1,) * (input.ndim - len(times)), *times)


@public(
    samples=lambda: [
        s.call(s.values((2, 3)), 2),
        s.call(s.values((2, 3)), 2, 1),
        s.call(s.values((3, 2)), np.array([1, 0, 2]), 0),
    ]
)
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element repeated (by a number, or by its own number) along `dim`, or of the flattened
    tensor. Of numbers of repeats alone: each index as often as its number says."""
    counts = input if repeats is None else repeats
    if isinstance(counts, Tensor):
        if counts.dtype not in (dt.int32, dt.int64):
            raise RuntimeError(f"repeats has to be Long or Int tensor, got {counts.dtype}")
        if counts.ndim != 1 and (repeats is None or counts.ndim):
            raise RuntimeError(
                f"repeat_interleave takes a 1D vector of repeats, got shape {[*counts.shape]}"
            )
    if repeats is None:
        return find(REPEATS, input.detach())
    x, d = (
        (input.reshape(-1), 0)
        if dim is None
        else (input, norm_dim(dim, input.ndim, "repeat_interleave"))
    )
    if isinstance(repeats, Tensor):
        places = find(REPEATS, repeats.expand(x.shape[d]).detach())
        return x.index_select(d, places)
    shape = tuple(x.shape)
    spread = x.unsqueeze(d + 1).expand(*shape[: d + 1], repeats, *shape[d + 1 :])
    return spread.reshape(*shape[:d], shape[d] * repeats, *shape[d + 1 :]).clone()


@public(
    samples=lambda: [
        s.call(s.values((3, 4)), 1),
        s.call(s.values((3, 4)), (1, -1), (0, 1)),
        s.call(s.values((3, 4)), -5, 1),
    ]
)
def roll(input: Tensor, shifts: Ints, dims: Ints | None = None) -> Tensor:
    """Elements moved along `dims`, those pushed out coming in at the other end."""
    if dims is None:
        return roll(input.reshape(-1), shifts, 0).reshape(input.shape)
    moves = [integer(n) for n in (shifts if isinstance(shifts, list | tuple) else (shifts,))]
    along = (dims,) if isinstance(dims, int) else dims
    if not moves:
        raise RuntimeError("`shifts` required")
    if len(moves) != len(along):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(along)}"
        )
    out = input
    for shift, dim in zip(moves, along, strict=True):
        d = norm_dim(dim, input.ndim, "roll")
        n = input.shape[d]
        cut = -shift % n if n else 0
        if of_data(cut):
            out = cat([out, out], d).narrow(d, cut, n).clone()
        elif cut:
            out = cat([out.narrow(d, cut, n - cut), out.narrow(d, 0, cut)], d)
    return out.clone() if out is input else out


@public(samples=lambda: [s.call(s.values((3, 4)), k) for k in range(4)])
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotated by k quarter turns in the plane of `dims`, from the first towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (norm_dim(d, input.ndim, "rot90") for d in dims)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got {a} and {b}")
    k %= 4
    if k == 1:
        return flip(input, b).transpose(a, b).clone()
    if k == 3:
        return flip(input, a).transpose(a, b).clone()
    return flip(input, a, b) if k == 2 else input.clone()
