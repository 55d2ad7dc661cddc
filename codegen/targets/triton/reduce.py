"""Emit: reductions of one tile, whole or block by block. (Reduction, tile) -> lines; the result is
a local of the block.

Outside the tile's bounds the monoid's identity stands in for the value. Extrema let NaN win, as
eager does; arg-reductions carry pairs of value and position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from codegen.ir import expr
from codegen.ir.monoid import ALL, ANY, SUM, Monoid
from codegen.ir.schema import Reduction
from codegen.targets.triton import table
from codegen.targets.triton.expr import Block, Text
from eager.base.dataclass import dataclass
from eager.base.dtype import DType

COMBINE: Final[Mapping[str, str]] = {
    "sum": "({0} + {1})",
    "prod": "({0} * {1})",
    "max": "jc.maximum({0}, {1})",
    "min": "jc.minimum({0}, {1})",
    "any": "({0} | {1})",
    "all": "({0} & {1})",
}
ALONG_AXIS: Final[Mapping[str, str]] = {
    "sum": "tl.sum({0}, {1})",
    "prod": "tl.reduce({0}, {1}, jc.multiply)",
    "max": "tl.reduce({0}, {1}, jc.maximum)",
    "min": "tl.reduce({0}, {1}, jc.minimum)",
    "any": "tl.max({0}.to(tl.int32), {1})",
    "all": "tl.min({0}.to(tl.int32), {1})",
}
NOWHERE: Final = 2**62  # the position of padding: it loses every tie


@dataclass(frozen=True, slots=True)
class Span:
    """The block a stage runs over: its rows and columns, and whether it has both dimensions."""

    rows: int
    cols: int
    two_dims: bool

    @property
    def dims(self) -> str:
        return ("r" if self.rows > 1 else "") + ("c" if self.cols > 1 else "")

    @property
    def shape(self) -> str:
        sizes = (self.rows, self.cols)
        return f"[{', '.join(str(n) for n in sizes if n > 1 or self.two_dims)}]"


def wide(r: Reduction) -> DType:
    """The type the reduction runs in: for arg-reductions the value's, as their own is the
    position's."""
    return r.value.dtype if r.monoid.of else r.dtype


def operands(block: Block, r: Reduction, span: Span) -> list[str]:
    """The blocks to reduce: the value, and for arg-reductions the position."""
    value = block.full(block.named(expr.cast(r.value, wide(r))), span.dims, span.shape)
    mask = block.masks.get("c")
    if mask is not None:
        value = f"tl.where({mask}, {value}, {identity(r.monoid, wide(r))})"
    if not r.monoid.of:
        return [value]
    places = f"tl.full({span.shape}, 0, tl.int64)"
    if span.cols > 1:
        places += f" + {block._counter_of('c')}"
    return [value, places if mask is None else f"tl.where({mask}, {places}, {NOWHERE})"]


def finish(block: Block, r: Reduction, given: Sequence[str], span: Span) -> None:
    """Reduce along the columns, and name the result: a column [R, 1], or a scalar."""
    if span.cols == 1 and not span.two_dims:
        result = f"({given[-1]})"
    else:
        result = _along(block, r, given, 1 if span.two_dims else 0)
        result += "[:, None]" if span.two_dims else ""
    if r.monoid in (ANY, ALL):
        result = f"({result} != 0)"
    elif r.monoid is SUM and r.dtype.itemsize < 4:  # tl.sum widens small integers
        result = f"{result}.to({table.type_name(r.dtype)})"
    rows = frozenset("r") if span.rows > 1 else frozenset()
    block.locals[r.name] = block.bind(Text(result, rows))


def _along(block: Block, r: Reduction, given: Sequence[str], axis: int) -> str:
    if not r.monoid.of:
        return ALONG_AXIS[r.monoid.name].format(given[0], axis)
    best, where = block.fresh(), block.fresh()
    block.put(f"{best}, {where} = tl.reduce(({', '.join(given)}), {axis}, {_later(r)})")
    return where


def start(block: Block, r: Reduction, span: Span) -> list[str]:
    """Name the accumulators of a looped reduction: full tiles of the identity."""
    kind, unit = wide(r), identity(r.monoid, wide(r))
    made = [block.bind(Text(f"tl.full({span.shape}, {unit}, {table.type_name(kind)})")).text]
    if r.monoid.of:
        made.append(block.bind(Text(f"tl.full({span.shape}, {NOWHERE}, tl.int64)")).text)
    return made


def fold(block: Block, r: Reduction, span: Span, names: Sequence[str]) -> None:
    """Combine one more block of columns into the accumulators."""
    given = operands(block, r, span)
    if r.monoid.of:
        block.put(f"{', '.join(names)} = {_later(r)}({', '.join((*names, *given))})")
    else:
        block.put(f"{names[0]} = {COMBINE[r.monoid.name].format(names[0], given[0])}")


def _later(r: Reduction) -> str:
    return f"jc.later_{r.monoid.name[-3:]}"


def identity(monoid: Monoid, dtype: DType) -> str:
    """The identity element of a monoid as a literal: padding contributes it to a reduction."""
    return table.number(monoid.unit(dtype), dtype)
