"""Emit: library steps that are loop nests after all. Library -> Kernels of the loop IR, over r
(rows) and c (loops).

On the CPU these are routines; on the GPU the general machinery tiles them: a convolution is a
reduction over taps and channels for each element of the result, a scatter is a store through an
index read from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from codegen.fuse.elements import checked_index
from codegen.ir import affine, expr
from codegen.ir.affine import ZERO, Affine
from codegen.ir.expr import BUILD, Expr
from codegen.ir.monoid import COMBINE, MAX, MIN, SUM, Monoid
from codegen.ir.schema import Access, Buffer, Kernel, Library, Reduction, Stage, Store, Unsupported
from codegen.ir.sizes import numel, same
from codegen.targets.triton.split import Launches
from eager.base import dtype as dt
from eager.base.dtype import DType
from eager.sizes.aval import broadcast_shapes, contiguous_strides

Index = tuple[Affine, ...]


Rule = Callable[[Library, Mapping[str, Buffer]], Launches]


def space(name: str, sizes: Sequence[int]) -> tuple[Affine, Index]:
    """A flat counter over `sizes`, and the index it stands for."""
    flat = affine.axis(name, numel(sizes))
    return flat, affine.unravel(flat, tuple(sizes))


def kernel_of(step: Library, rows: Affine, *stages: Stage) -> Kernel:
    return Kernel(step.label, affine.counters(rows), stages, (), step.op.name, step.where)


def element(x: Access, index: Index, buffers: Mapping[str, Buffer]) -> Expr:
    offset = affine.dot_strides(index, x.strides, x.offset)
    return expr.load(x.buffer, offset, buffers[x.buffer].dtype)


def _widened(x: Access, index: Index, buffers: Mapping[str, Buffer]) -> Expr:
    """An element in the type products are summed in."""
    found = element(x, index, buffers)
    return expr.cast(found, found.dtype.compute)


def _operand(x: Any, index: Index, dtype: DType, buffers: Mapping[str, Buffer]) -> Expr:
    """An operand of a step at `index`: a tensor, a run-time scalar or a number."""
    if isinstance(x, Access):
        return expr.cast(element(x, index, buffers), dtype)
    if isinstance(x, str):
        return expr.cast(expr.load(x, ZERO, buffers[x].dtype), dtype)
    return expr.const(x, dtype)


def _inside(index: Sequence[Affine], sizes: Sequence[int]) -> Expr:
    total = expr.const(True, dt.bool_)
    for i, n in zip(index, sizes, strict=True):
        value = expr.index_of(i)
        total = BUILD.and_(
            total, BUILD.and_(expr.decide(BUILD.ge(value, 0)), expr.decide(BUILD.lt(value, n)))
        )
    return total


def _or_zero(condition: Expr, value: Expr) -> Expr:
    return expr.select(condition, value, expr.const(0, value.dtype))


def accesses_of(step: Library) -> list[Access]:
    found = [x for x in step.operands if isinstance(x, Access)]
    if len(found) != len(step.operands):
        raise Unsupported(f"the triton backend does not compile {step.op.name} of numbers")
    return found


def _reduced(
    step: Library, sizes: Sequence[int], over: Sequence[int], value: Callable[[Index, Index], Expr]
) -> Launches:
    """out[index] = the sum of value(index, tap) over all taps."""
    r, index = space("r", sizes)
    c, taps = space("c", over)
    body = value(index, taps)
    out = step.out_avals[0].dtype
    total = Reduction("total", SUM, body.dtype, body)
    store = Store(step.outs[0], r, expr.cast(expr.local("total", body.dtype), out))
    return Launches(
        (kernel_of(step, r, Stage(affine.counters(c), (total,)), Stage((), (), (store,))),)
    )


# ------------------------------------------------------------------------ products, windows


def _position(step: Library, out: Index, taps: Index, sizes: Sequence[int]) -> tuple[Index, Expr]:
    """The place that window position `out` and tap `taps` read, and whether there is one."""
    stride, padding = step.attrs["stride"], step.attrs["padding"]
    dilation = step.attrs.get("dilation", (1,) * len(out))
    place = tuple(
        o * s - p + k * d
        for o, k, s, p, d in zip(out, taps, stride, padding, dilation, strict=True)
    )
    return place, _inside(place, sizes)


def _window(step: Library, place: Index, taps: Index, count: Sequence[int]) -> tuple[Index, Expr]:
    """The window position whose tap `taps` reads `place`, and whether there is one."""
    stride, padding = step.attrs["stride"], step.attrs["padding"]
    dilation = step.attrs.get("dilation", (1,) * len(place))
    moved = [i + p - k * d for i, k, p, d in zip(place, taps, padding, dilation, strict=True)]
    at = tuple(m // s for m, s in zip(moved, stride, strict=True))
    exists = _inside(at, count)
    for m, s in zip(moved, stride, strict=True):
        if s > 1:
            exists = BUILD.and_(exists, BUILD.eq(expr.index_of(m % s), 0))
    return at, exists


def conv(step: Library, buffers: Mapping[str, Buffer]) -> Launches:
    x, w = accesses_of(step)
    out = step.out_avals[0].shape
    channels, own = w.shape[1], w.shape[0] // step.attrs["groups"]

    def value(index: Index, taps: Index) -> Expr:
        n, o, *at = index
        c, *k = taps
        place, inside = _position(step, tuple(at), tuple(k), x.shape[2:])
        read = _widened(x, (n, o // own * channels + c, *place), buffers)
        return _or_zero(inside, read * _widened(w, (o, *taps), buffers))

    return _reduced(step, out, w.shape[1:], value)


def conv_input_grad(step: Library, buffers: Mapping[str, Buffer]) -> Launches:
    g, w = accesses_of(step)
    shape = step.out_avals[0].shape
    channels, own = w.shape[1], w.shape[0] // step.attrs["groups"]

    def value(index: Index, taps: Index) -> Expr:
        n, c, *place = index
        o, *k = taps
        full = c // channels * own + o  # output channel of c's group
        at, exists = _window(step, tuple(place), tuple(k), g.shape[2:])
        weight = _widened(w, (full, c % channels, *k), buffers)
        product = _widened(g, (n, full, *at), buffers) * weight
        return _or_zero(exists, product)

    return _reduced(step, shape, (own, *w.shape[2:]), value)


def conv_weight_grad(step: Library, buffers: Mapping[str, Buffer]) -> Launches:
    g, x = accesses_of(step)
    shape = step.out_avals[0].shape
    channels, own = shape[1], shape[0] // step.attrs["groups"]

    def value(index: Index, taps: Index) -> Expr:
        o, c, *k = index
        n, *at = taps
        place, inside = _position(step, tuple(at), tuple(k), x.shape[2:])
        read = _widened(x, (n, o // own * channels + c, *place), buffers)
        return _or_zero(inside, _widened(g, (n, o, *at), buffers) * read)

    return _reduced(step, shape, (g.shape[0], *g.shape[2:]), value)


def _sum_pool(
    read_at: Callable[[Library, Index, Index, Sequence[int]], tuple[Index, Expr]],
) -> Rule:
    """Sums over windows, or over the windows that a place is in."""

    def rule(step: Library, buffers: Mapping[str, Buffer]) -> Launches:
        (x,) = accesses_of(step)

        def value(index: Index, taps: Index) -> Expr:
            at, exists = read_at(step, index[2:], taps, x.shape[2:])
            return _or_zero(exists, _widened(x, (*index[:2], *at), buffers))

        return _reduced(step, step.out_avals[0].shape, step.attrs["kernel"], value)

    return rule


def max_pool(step: Library, buffers: Mapping[str, Buffer]) -> Launches:
    """The extremum of each window, then where it is: the last NaN if there is one, else the first
    that equals it."""
    (x,) = accesses_of(step)
    own, wide = step.out_avals[0].dtype, step.out_avals[0].dtype.compute
    r, index = space("r", step.out_avals[0].shape)
    c, taps = space("c", step.attrs["kernel"])
    place, inside = _position(step, index[2:], taps, x.shape[2:])
    read = expr.cast(element(x, (*index[:2], *place), buffers), wide)
    top = expr.local("top", wide)
    low = expr.const(MAX.unit(wide), wide)
    flat = expr.index_of(affine.ravel(place, x.shape[2:]))
    far = expr.const(2**62, dt.int64)

    def where_inside(condition: Expr, otherwise: Expr) -> Expr:
        return expr.select(inside, expr.select(condition, flat, otherwise), otherwise)

    first = Reduction("first", MIN, dt.int64, where_inside(BUILD.eq(read, top), far))
    found = [Reduction("top", MAX, wide, expr.select(inside, read, low))]
    at, later = expr.local("first", dt.int64), [first]
    if wide.is_floating_point:
        later.append(Reduction("nan", MAX, dt.int64, where_inside(BUILD.is_nan(read), -far)))
        at = BUILD.where(BUILD.is_nan(top), expr.local("nan", dt.int64), at)
    stores = (Store(step.outs[0], r, expr.cast(top, own)), Store(step.outs[1], r, at))
    loops = affine.counters(c)
    stages = Stage(loops, tuple(found)), Stage(loops, tuple(later)), Stage((), (), stores)
    return Launches((kernel_of(step, r, *stages),))


# -------------------------------------------------------------------------------- scatters


def _copied(
    step: Library,
    source: Any,
    to: str,
    dtype: DType,
    shape: tuple[int, ...],
    buffers: Mapping[str, Buffer],
) -> Kernel:
    """to = source, converted to `dtype`."""
    r, index = space("r", shape)
    return kernel_of(
        step, r, Stage((), (), (Store(to, r, _operand(source, index, dtype, buffers)),))
    )


def _combined(
    step: Library,
    buffers: Mapping[str, Buffer],
    sizes: Sequence[int],
    place: Callable[[Index], tuple[Index, Expr]],
    monoid: Monoid | None,
) -> Launches:
    """out = the first operand, then combined by `monoid` at place(i) for every i below `sizes`.

    16-bit sums run in float32 and are rounded once."""
    out, dtype, shape = step.outs[0], step.out_avals[0].dtype, step.out_avals[0].shape
    r, index = space("r", sizes)
    wide = dtype.compute if monoid is SUM else dtype
    target = out if wide is dtype else f"{out}_wide"
    at, value = place(index)
    offset = affine.dot_strides(at, contiguous_strides(shape))
    store = Store(target, offset, expr.cast(value, wide), monoid)
    kernels = [
        _copied(step, step.operands[0], target, wide, shape, buffers),
        kernel_of(step, r, Stage((), (), (store,))),
    ]
    if target is out:
        return Launches(tuple(kernels))
    temporary = Buffer(target, wide, numel(shape), "temp")
    summed = Access(target, 0, shape, contiguous_strides(shape))
    back = _copied(step, summed, out, dtype, shape, {target: temporary})
    return Launches((*kernels, back), (temporary,))


def scatter(step: Library, buffers: Mapping[str, Buffer]) -> Launches:
    _, index, source = step.operands
    assert isinstance(index, Access)
    dim, shape = step.attrs["dim"], step.out_avals[0].shape

    def target(at: Index) -> tuple[Index, Expr]:
        value = _operand(source, at, step.out_avals[0].dtype, buffers)
        chosen = checked_index(
            element(index, at, buffers), dim, shape[dim] if shape else 1, step, negative=False
        )
        return ((*at[:dim], chosen, *at[dim + 1 :]) if shape else ()), value

    return _combined(step, buffers, index.shape, target, COMBINE[step.attrs["reduce"]])


def index_add(step: Library, buffers: Mapping[str, Buffer]) -> Launches:
    _, index, source = accesses_of(step)
    dim, size = step.attrs["dim"], step.out_avals[0].shape[step.attrs["dim"]]

    def target(at: Index) -> tuple[Index, Expr]:
        chosen = checked_index(element(index, (at[dim],), buffers), dim, size, step, negative=False)
        return (*at[:dim], chosen, *at[dim + 1 :]), element(source, at, buffers)

    return _combined(step, buffers, source.shape, target, SUM)


def index_put(step: Library, buffers: Mapping[str, Buffer]) -> Launches:
    _, source, *indices = step.operands
    dims, shape = step.attrs["dims"], step.out_avals[0].shape
    tensors = [x for x in indices if isinstance(x, Access)]
    picked = broadcast_shapes(*(x.shape for x in tensors))
    rest = [n for d, n in enumerate(shape) if d not in dims]
    adjacent = dims == tuple(range(dims[0], dims[0] + len(dims)))
    start = dims[0] if adjacent else 0
    sizes = (*rest[:start], *picked, *rest[start:])

    def target(at: Index) -> tuple[Index, Expr]:
        end = start + len(picked)
        chosen, others = at[start:end], iter((*at[:start], *at[end:]))
        found = {
            d: checked_index(
                element(x, _aligned(chosen, x.shape), buffers), d, shape[d], step, negative=True
            )
            for d, x in zip(dims, tensors, strict=True)
        }
        where = tuple(found[d] if d in found else next(others) for d in range(len(shape)))
        own = _aligned(at, source.shape) if isinstance(source, Access) else ()
        return where, _operand(source, own, step.out_avals[0].dtype, buffers)

    return _combined(step, buffers, sizes, target, SUM if step.attrs["accumulate"] else None)


def _aligned(index: Index, shape: tuple[int, ...]) -> Index:
    """The trailing part of `index` that belongs to an operand of `shape`, broadcast."""
    own = index[len(index) - len(shape) :]
    return tuple(ZERO if same(n, 1) else i for i, n in zip(own, shape, strict=True))


RULES: Final[dict[str, Rule]] = {
    "conv": conv,
    "conv_input_grad": conv_input_grad,
    "conv_weight_grad": conv_weight_grad,
    "max_pool": max_pool,
    "sum_pool": _sum_pool(_position),
    "sum_pool_grad": _sum_pool(_window),
    "scatter": scatter,
    "scatter_reduce": scatter,
    "index_add": index_add,
    "index_put": index_put,
}
