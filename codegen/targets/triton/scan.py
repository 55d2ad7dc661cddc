"""Emit: running sums, products and extrema along a dimension. Library -> KernelText.

Rows are all other dimensions; a program scans a tile of rows block by block and carries the last
column to the next block. The combination within a block is `tl.associative_scan`, a tree: sums
round differently from a serial loop, as on any GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codegen.ir import affine
from codegen.ir.monoid import MONOIDS
from codegen.ir.schema import Access, Buffer, Library, Unsupported
from codegen.ir.sizes import Shape, Size, blocks, divides, numel, power_of_two, some
from codegen.targets.triton import table
from codegen.targets.triton.expr import STEP, Signature, Text, mask, needs_int64, plain_block
from codegen.targets.triton.kernel import KernelText, finished
from codegen.targets.triton.reduce import identity
from codegen.targets.triton.tile import Sizes
from eager.base import dtype as dt
from eager.sizes.aval import contiguous_strides

FUNCTIONS: Final = {
    "cumsum": ("sum", "jc.plus"),
    "cumprod": ("prod", "jc.multiply"),
    "cummax": ("max", "jc.latest_max"),
    "cummin": ("min", "jc.latest_min"),
    "logcumsumexp": ("max", "jc.logaddexp"),
}


def scan(step: Library, buffers: Mapping[str, Buffer], sizes: Sizes) -> KernelText:
    """One kernel for the whole scan."""
    (x,) = step.operands
    assert isinstance(x, Access)
    monoid, function = FUNCTIONS[step.op.name]
    shape = x.shape or (1,)
    dim = step.attrs["dim"] if x.shape else 0
    length = shape[dim]
    rows = numel((*shape[:dim], *shape[dim + 1 :])) if some(length) else 0
    width = min(power_of_two(length), sizes.loop)
    height = max(1, min(sizes.tile // width, power_of_two(rows)))
    long = needs_int64(buffers[name] for name in (x.buffer, *step.outs))
    whole = ".to(tl.int64)" if long else ""
    signature = Signature(buffers, long)
    wide = (step.out_avals[0] if len(step.outs) == 1 else step.avals[0]).dtype.compute
    if wide.is_complex:
        raise Unsupported(f"the triton backend does not compile {step.op.name} of complex numbers")
    source = signature.parameter(x.buffer)
    bounds = (("r", rows, height), ("c", length, width))
    inside = mask(
        f"({name} < {signature.size(n)})" for name, n, block in bounds if not divides(block, n)
    )
    lines = [
        f"pid = tl.program_id(0){whole}",
        f"r = (pid * {height} + tl.arange(0, {height}))[:, None]",
        *_start(len(step.outs), height, identity(MONOIDS[monoid], wide), table.type_name(wide)),
        f"for start in range(0, {signature.size(length)}, {width}):",
        f"{STEP}c = start + tl.arange(0, {width}){whole}[None, :]",
        f"{STEP}source = {source} + {_offset(signature, shape, dim, x.strides, x.offset)}",
        f"{STEP}at = {_offset(signature, shape, dim, contiguous_strides(shape), 0)}",
        f"{STEP}x = tl.load(source{inside}).to({table.type_name(wide)})",
        *(STEP + line for line in _combine(function, len(step.outs))),
        *(STEP + line for line in _finish(step, signature, width, inside)),
    ]
    programs = blocks(rows, height)
    return finished(signature, [STEP + line for line in lines], programs, 4)


def _offset(signature: Signature, shape: Shape, dim: int, strides: Shape, offset: Size) -> str:
    """The offset of position c along `dim` in row r, as text."""
    others = tuple(n for d, n in enumerate(shape) if d != dim)
    r, c = affine.axis("r", numel(others)), affine.axis("c", shape[dim])
    rest = affine.unravel(r, others)
    form = affine.dot_strides((*rest[:dim], c, *rest[dim:]), strides or (1,), offset)
    block = plain_block(signature, wide=False)
    for axis in affine.axes_of(form):
        block.counters[axis] = Text(axis.name)
    text = block.index(form).text
    return text if len(block.counters) == 2 else f"({text} + 0 * (r + c))"  # a block in any case


def _start(outs: int, height: int, unit: str, wide: str) -> list[str]:
    values = [f"carry_x = tl.full([{height}, 1], {unit}, {wide})"]
    return values + [f"carry_i = tl.full([{height}, 1], 0, tl.int64)"] * (outs == 2)


def _combine(function: str, outs: int) -> list[str]:
    """x (and its place i) of the block become the running values, the carry included."""
    if outs == 1:
        return [f"x = tl.associative_scan(x, 1, {function})", f"x = {function}(carry_x, x)"]
    return [
        "i = c.to(tl.int64) + tl.zeros_like(x).to(tl.int64)",
        f"x, i = tl.associative_scan((x, i), 1, {function})",
        f"x, i = {function}(carry_x, carry_i, x, i)",
    ]


def _finish(step: Library, signature: Signature, width: int, inside: str) -> list[str]:
    """Store the running values, and carry the last column to the next block."""
    lines = []
    for out, value in zip(step.outs, ("x", "i"), strict=False):
        stored = _converted(value, out, signature.buffers)
        lines.append(f"tl.store({signature.parameter(out)} + at, {stored}{inside})")
        last = f"tl.where(c == start + {width - 1}, {value}, 0)"
        # tl.sum widens small integers: back to the type the loop started with
        lines.append(f"carry_{value} = tl.sum({last}, 1)[:, None].to({value}.dtype)")
    return lines


def _converted(value: str, out: str, buffers: Mapping[str, Buffer]) -> str:
    dtype = buffers[out].dtype
    if dtype is dt.bool_:
        return f"({value} != 0)"
    return f"{value}.to({table.type_name(dtype)})"
