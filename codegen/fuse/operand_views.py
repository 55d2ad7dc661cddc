"""Beside fusion: operands of library steps that are strided views of stored memory, so that no copy
is made. Loops -> Accesses.

A matrix product takes any operand with a unit stride in one of its two matrix dimensions; other
routines want contiguous memory. A view that does not fit is stored (copied) like any other value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from codegen.ir import affine
from codegen.ir.affine import Affine
from codegen.ir.expr import Read
from codegen.ir.schema import Loops, Nest, Step, Value
from codegen.ir.sizes import Shape, Size, at_least, is_contiguous, same
from eager.base.dataclass import dataclass


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """A value as offset and strides (in elements) of the stored value `base`."""

    base: Value
    offset: Size
    strides: Shape


def step_operands(loops: Loops) -> Mapping[int, View]:
    """The view of each value that a step reads. A value that is not a usable view is its own
    base."""
    nests = {i.value.id: i for i in loops.items if isinstance(i, Nest)}
    values = loops.by_id()
    found: dict[int, View] = {}
    for item in loops.items:
        if isinstance(item, Step):
            name = item.call.op.name
            for v in item.call.operands:
                if isinstance(v, Value):
                    known = found.get(v.id)
                    if known is None or not _usable(name, v, known.strides):
                        found[v.id] = _lies(name, v, nests, values)
    return found


def _lies(name: str, v: Value, nests: Mapping[int, Nest], values: Mapping[int, Value]) -> View:
    """The deepest of the values that `v` is a view of, by strides that the routine `name` can
    use."""
    nest, shape = nests.get(v.id), v.aval.shape
    # A dimension of 1 has no stride of its own; a symbol may be 1, and is not asked here.
    plain = {int}.issuperset(map(type, shape)) and 1 not in shape
    if plain and (nest is None or not nest.view):
        return View(v, 0, v.layout)
    usable = [view for view in _through_views(v, nests, values) if _usable(name, v, view.strides)]
    return usable[-1] if usable else View(v, 0, v.layout)


def _through_views(
    v: Value, nests: Mapping[int, Nest], values: Mapping[int, Value]
) -> Iterator[View]:
    """`v` seen from itself, from what it is a view of, and so on down to memory, where the form is
    strided."""
    base, axes = v, tuple(affine.axis(f"i{d}", n) for d, n in enumerate(v.aval.shape))
    index: tuple[Affine, ...] = axes
    while True:
        form = affine.dot_strides(index, base.layout)
        strides = [affine.coefficient(form, a) for a in axes]
        if at_least(form.lo, 0) and all(s is not None for s in strides):
            yield View(base, form.const, tuple(0 if s is None else s for s in strides))
        nest = nests.get(base.id)
        if nest is None or not nest.view or not isinstance(nest.body, Read):
            return
        by = affine.axes_by(nest.axes, index)
        index = tuple(affine.substitute(i, by) for i in nest.body.index)
        base = values[nest.body.value]


# Steps whose bodies are compiled for the strides of what they are given.
WITH_BODIES: Final = ("scan", "cond", "call", "blocks")
PRODUCTS: Final = ("dot", "dot_add", "dot_packed")


def _usable(name: str, v: Value, strides: Shape) -> bool:
    shape = v.aval.shape
    if is_contiguous(shape, strides):
        return True
    if name in WITH_BODIES or name == "pack":
        return True
    return name in PRODUCTS and matrix_order(shape, strides) is not None


def matrix_order(shape: Shape, strides: Shape) -> tuple[bool, Size] | None:
    """(transposed, leading dimension) of the last two dimensions for BLAS, or None."""
    (rows, cols), (sr, sc) = shape[-2:], strides[-2:]
    if (same(sc, 1) or same(cols, 1)) and (_spans(sr, cols) or same(rows, 1)):
        return False, _leading(sr, cols, rows)
    if (same(sr, 1) or same(rows, 1)) and (_spans(sc, rows) or same(cols, 1)):
        return True, _leading(sc, rows, cols)
    return None


def _spans(stride: Size, length: Size) -> bool:
    """True if lines of `length` that are `stride` apart do not overlap."""
    return at_least(stride, length) and at_least(stride, 1)


def _leading(stride: Size, length: Size, lines: Size) -> Size:
    """The leading dimension of `lines` lines: BLAS wants one that spans a line, of one line, too.
    (A symbolic number of lines may be 1, but then `stride` spans one all the same.)"""
    return stride if not at_least(1, lines) else max(length, 1)
