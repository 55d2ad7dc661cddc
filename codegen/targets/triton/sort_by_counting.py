"""Emit: sorting and searching by counting. Library -> Kernels of the loop IR, over r (rows) and c
(loops).

The place of an element is the number of those before it: one reduction for each, which asks for no
power of two, no shared memory and no size known beforehand. Comparisons grow with the square of a
row, so that long rows are not compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codegen.ir import affine, expr
from codegen.ir.affine import Affine
from codegen.ir.expr import BUILD, Expr
from codegen.ir.monoid import SUM
from codegen.ir.schema import Access, Buffer, Library, Reduction, Stage, Store, Unsupported
from codegen.ir.sizes import is_static, last, numel
from codegen.targets.triton.nests import Rule, accesses_of, element, kernel_of, space
from codegen.targets.triton.split import Launches
from eager.base import dtype as dt
from eager.sizes.aval import contiguous_strides

LONGEST: Final = 1 << 17  # elements of a row: 2**34 comparisons


def _key(x: Access, index: tuple[Affine, ...], buffers: Mapping[str, Buffer]) -> Expr:
    """An element in a type that compares as it does."""
    found = element(x, index, buffers)
    return expr.cast(found, dt.int32 if found.dtype is dt.bool_ else found.dtype.compute)


def _below(x: Expr, y: Expr) -> Expr:
    """x < y, with NaN as the largest value."""
    less = BUILD.lt(x, y)
    if not x.dtype.is_floating_point:
        return less
    return BUILD.or_(less, BUILD.and_(BUILD.is_nan(y), BUILD.not_(BUILD.is_nan(x))))


def sort(step: Library, buffers: Mapping[str, Buffer]) -> Launches:
    """The rank of each element, then the places in the order of their ranks, then both results."""
    (x,) = accesses_of(step)
    if not x.shape:
        x = Access(x.buffer, x.offset, (1,), (1,))
    shape, dim, descending = x.shape, step.attrs["dim"], step.attrs["descending"]
    n = shape[dim]
    if is_static((n,)) and n > LONGEST:
        where = f" at {step.where}" if step.where else ""
        raise Unsupported(
            f"the triton backend does not compile {step.op.name} of rows of {n} elements, more "
            f"than {LONGEST}{where}"
        )
    out = step.outs[0]
    rank, order = (Buffer(f"{out}_{name}", dt.int64, numel(shape), "temp") for name in _TEMPS)

    def at(index: tuple[Affine, ...], along: Affine) -> tuple[Affine, ...]:
        return (*index[:dim], along, *index[dim + 1 :])

    r, index = space("r", shape)
    c = affine.axis("c", n)
    own, other = _key(x, index, buffers), _key(x, at(index, c), buffers)
    first, second = (own, other) if descending else (other, own)
    earlier = BUILD.lt(expr.index_of(c), expr.index_of(index[dim]))
    tied = BUILD.not_(BUILD.or_(_below(first, second), _below(second, first)))
    before = BUILD.or_(_below(first, second), BUILD.and_(tied, earlier))
    one, zero = (expr.const(value, dt.int64) for value in (1, 0))
    count = Reduction("count", SUM, dt.int64, expr.select(before, one, zero))
    ranked = Store(rank.name, r, expr.local("count", dt.int64))

    strides = contiguous_strides(shape)
    found = affine.opaque(expr.load(rank.name, r, dt.int64), 0, last(n))
    place = affine.dot_strides(at(index, found), strides)
    placed = Store(order.name, place, expr.index_of(index[dim]))

    kept, index = space("r", step.out_avals[0].shape or (1,))
    source = expr.load(order.name, affine.dot_strides(index, strides), dt.int64)
    chosen = affine.opaque(source, 0, last(n))
    values = Store(out, kept, element(x, at(index, chosen), buffers))
    places = Store(step.outs[1], kept, source)
    return Launches(
        (
            kernel_of(step, r, Stage(affine.counters(c), (count,)), Stage((), (), (ranked,))),
            kernel_of(step, r, Stage((), (), (placed,))),
            kernel_of(step, kept, Stage((), (), (values, places))),
        ),
        (rank, order),
    )


_TEMPS: Final = ("rank", "order")


def searchsorted(step: Library, buffers: Mapping[str, Buffer]) -> Launches:
    """Kernel that counts the boundaries before each value; with `right`, those that equal it count,
    too."""
    boundaries, values = accesses_of(step)
    r, index = space("r", values.shape)
    c = affine.axis("c", boundaries.shape[-1])
    rows = index[:-1] if len(boundaries.shape) > 1 else ()
    low, value = _key(boundaries, (*rows, c), buffers), _key(values, index, buffers)
    if low.dtype is not value.dtype:  # as NumPy compares ints with floats
        low, value = expr.cast(low, dt.float64), expr.cast(value, dt.float64)
    found = BUILD.not_(_below(value, low)) if step.attrs["right"] else _below(low, value)
    one, zero = (expr.const(number, dt.int64) for number in (1, 0))
    count = Reduction("count", SUM, dt.int64, expr.select(found, one, zero))
    store = Store(step.outs[0], r, expr.local("count", dt.int64))
    loop = Stage(affine.counters(c), (count,))
    return Launches((kernel_of(step, r, loop, Stage((), (), (store,))),))


RULES: Final[dict[str, Rule]] = {"sort": sort, "searchsorted": searchsorted}
