"""Emit: matrix products. Library -> KernelText.

A matrix product is a tiled `tl.dot` over strided operands, batch dimensions by strides too. float32
multiplies in full precision ("ieee"), 16-bit floats on the tensor cores; both accumulate in
float32.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from codegen.ir import affine, expr
from codegen.ir.affine import Affine, Axis
from codegen.ir.expr import Expr, Load
from codegen.ir.rewrite import Rewrite
from codegen.ir.schema import Access, Buffer, Kernel, Library, Stage, Store, Unsupported, homes
from codegen.ir.sizes import (
    Shape,
    Size,
    blocks,
    divides,
    exact_or,
    extents,
    numel,
    power_of_two,
    same,
)
from codegen.targets.triton import table
from codegen.targets.triton.expr import STEP, Signature, Text, mask, needs_int64, plain_block
from codegen.targets.triton.kernel import KernelText, finished, is_narrow, overtakes
from eager.base import dtype as dt
from eager.base.dataclass import dataclass
from eager.base.dtype import DType

SMALLEST: Final = 16  # of a tile of tl.dot


@dataclass(frozen=True, slots=True)
class DotTile:
    """Rows and columns of the result, depth of one step, warps."""

    m: int
    n: int
    k: int
    warps: int


def dot_tile(m: Size, n: Size, k: Size, dtype: DType) -> DotTile:
    """Tile sizes: 16-bit types fill the tensor cores, 32- and 64-bit ones the registers."""
    wide = dtype.itemsize <= 2
    side, depth = (128, 64) if wide else (64, 32)
    height, width = (max(SMALLEST, min(side, power_of_two(x))) for x in (m, n))
    depth = max(SMALLEST, min(depth, power_of_two(k)))
    return DotTile(height, width, depth, 8 if height * width >= 128 * 128 else 4)


def dot(step: Library, buffers: Mapping[str, Buffer], epilogue: Kernel | None = None) -> KernelText:
    """out[*B, M, N] = a[*B, M, K] @ b[*B, K, N]; or what the elementwise kernel `epilogue` makes of
    it."""
    a, b = step.operands
    assert isinstance(a, Access)
    assert isinstance(b, Access)
    *batch, m, k = a.shape
    n = b.shape[-1]
    dtype = buffers[a.buffer].dtype
    if not dtype.is_floating_point:
        raise Unsupported(f"the triton backend has no matrix product of {dtype.name}")
    tile = dot_tile(m, n, k, dtype)
    out = _result(step, (*batch, m, n), buffers, epilogue)
    wide = needs_int64(buffers[x] for x in (a.buffer, b.buffer, step.outs[0]))
    wide = wide or not is_narrow(out.stage, ())
    whole = ".to(tl.int64)" if wide else ""
    signature = Signature(buffers, wide)
    blocks_m, blocks_n = blocks(m, tile.m), blocks(n, tile.n)
    down, across, each = map(signature.size, (blocks_m, blocks_n, blocks_m * blocks_n))
    lines = [
        f"pid = tl.program_id(0){whole}",
        f"i = (pid // {across} % {down} * {tile.m} + tl.arange(0, {tile.m}))[:, None]",
        f"j = (pid % {across} * {tile.n} + tl.arange(0, {tile.n}))[None, :]",
        f"k = tl.arange(0, {tile.k}){whole}",
        f"batch = pid // {each}",
        *_pointers("a", a, ("i", "k[None, :]"), signature),
        *_pointers("b", b, ("k[:, None]", "j"), signature),
        *_loop(tile, (m, n, k), (a.strides[-1], b.strides[-2]), dtype, signature),
    ]
    lines = [STEP + line for line in lines] + _finish(out, tile, signature, wide=wide)
    programs = blocks_m * blocks_n * numel(batch)
    return finished(signature, lines, programs, tile.warps)


@dataclass(frozen=True, eq=False, slots=True)
class _Result:
    """Result of a product as it is stored: a stage over the counters batch, i and j, in which
    `product` stands for the sum."""

    stage: Stage
    product: Expr
    counters: tuple[Affine, Affine, Affine]
    sizes: tuple[Size, Size]


def _result(
    step: Library, shape: Shape, buffers: Mapping[str, Buffer], epilogue: Kernel | None
) -> _Result:
    *batch, m, n = shape
    sizes = numel(batch), m, n
    counters = tuple(
        affine.axis(x, size) for x, size in zip(("batch", "i", "j"), sizes, strict=True)
    )
    flat = affine.ravel(counters, sizes)
    product = expr.load(step.outs[0], flat, buffers[step.outs[0]].dtype)
    if epilogue is None:
        stage = Stage((), (), (Store(step.outs[0], flat, product),))
    else:
        (own,) = epilogue.stages
        axes = (*epilogue.rows, *own.loops)
        by = dict(zip(axes, affine.unravel(flat, extents(axes)), strict=True))
        stage = own.map(Rewrite(by), ())
    return _Result(stage, product, (counters[0], counters[1], counters[2]), (m, n))


def _finish(out: _Result, tile: DotTile, signature: Signature, *, wide: bool) -> list[str]:
    """The lines that turn the sum into what is stored."""
    block = plain_block(signature, wide=wide)
    texts = Text("batch"), Text("i", frozenset("r")), Text("j", frozenset("c"))
    for counter, text in zip(out.counters, texts, strict=True):
        # an axis of size 1 is no axis, but its tile has rows or columns all the same
        axis = counter.terms[0][0] if counter.terms else Axis(text.text, 1, ())
        block.counters[axis] = text  # type: ignore[index]
    for dim, name, size, side in zip("rc", "ij", out.sizes, (tile.m, tile.n), strict=True):
        if not divides(side, size):
            block.put(f"m{name} = {name} < {signature.size(size)}")
            block.masks[dim] = f"m{name}"
    dtype = out.product.dtype
    same = dtype in (dt.float32, dt.float64)
    sum_ = Text("acc" if same else f"acc.to({table.type_name(dtype)})", frozenset("rc"))
    block.memo[out.product, ()] = sum_
    block.uses = expr.use_counts(out.stage.roots())
    ready = [(s, block.named(s.value), block.address(s.buffer, s.offset)) for s in out.stage.stores]
    stores, loads = out.stage.stores, [*out.stage.loads()]
    if any(overtakes(s, _of_memory(s.buffer, loads, signature), frozenset()) for s in stores):
        block.put("tl.debug_barrier()")
    for s, value, address in ready:
        block.store(s, "rc", value, address)
    return block.lines


def _of_memory(buffer: str, loads: list[Load], signature: Signature) -> list[Load]:
    return [x for x in loads if len(homes((x.buffer, buffer), signature.buffers)) == 1]


def _pointers(name: str, x: Access, last: tuple[str, str], signature: Signature) -> list[str]:
    """The block of addresses of the last two dimensions, in the batch element `batch`."""
    parts = [signature.parameter(x.buffer)]
    if not same(x.offset, 0):
        parts.append(signature.size(x.offset))
    step = numel(x.shape[:-2])
    for size, stride in zip(x.shape[:-2], x.strides[:-2], strict=True):
        if same(size, 0):
            continue
        step = exact_or(step, size, 0)
        if not same(size, 1) and not same(stride, 0):
            each, count, apart = signature.size(step), signature.size(size), signature.step(stride)
            parts.append(f"batch // {each} % {count} * {apart}")
    pairs = zip(last, x.strides[-2:], strict=True)
    parts += [f"{counter} * {signature.step(stride)}" for counter, stride in pairs]
    return [f"{name} = {' + '.join(parts)}"]


def _loop(
    tile: DotTile,
    sizes: tuple[Size, Size, Size],
    steps: tuple[Size, Size],
    dtype: DType,
    signature: Signature,
) -> list[str]:
    """Accumulate over the depth."""
    m, n, k = sizes
    rows = [] if divides(tile.m, m) else [f"(i < {signature.size(m)})"]
    cols = [] if divides(tile.n, n) else [f"(j < {signature.size(n)})"]
    tail = not divides(tile.k, k)
    depth = signature.size(k)
    load_a = mask(rows + [f"(k[None, :] < {depth} - start)"] * tail)
    load_b = mask(cols + [f"(k[:, None] < {depth} - start)"] * tail)
    step_a, step_b = (signature.size(tile.k * step) for step in steps)
    zero = ", other=0.0"
    wide = table.type_name(dt.float64 if dtype is dt.float64 else dt.float32)
    return [
        f"acc = tl.zeros([{tile.m}, {tile.n}], {wide})",
        f"for start in range(0, {depth}, {tile.k}):",
        f"{STEP}x = tl.load(a{load_a}{zero if load_a else ''})",
        f"{STEP}y = tl.load(b{load_b}{zero if load_b else ''})",
        f'{STEP}acc = tl.dot(x, y, acc, input_precision="ieee", out_dtype={wide})',
        f"{STEP}a += {step_a}",
        f"{STEP}b += {step_b}",
    ]
