"""Emit: matrix products. Library -> KernelText.

A matrix product is a tiled `tl.dot` over strided operands, batch dimensions by strides too. float32
multiplies in full precision ("ieee"), 16-bit floats on the tensor cores; both accumulate in
float32.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from codegen.emit import triton_table as table
from codegen.emit.triton_body import Signature, needs_int64
from codegen.emit.triton_kernel import STEP, KernelText, finished
from codegen.emit.triton_tile import power_of_two
from codegen.ir import Access, Buffer, Library, Unsupported
from eager import dtype as dt
from eager.dtype import DType

SMALLEST: Final = 16  # of a tile of tl.dot


@dataclass(frozen=True, slots=True)
class DotTile:
    """Rows and columns of the result, depth of one step, warps."""

    m: int
    n: int
    k: int
    warps: int


def dot_tile(m: int, n: int, k: int, dtype: DType) -> DotTile:
    """Tile sizes: 16-bit types fill the tensor cores, 32- and 64-bit ones the registers."""
    wide = dtype.itemsize <= 2
    side, depth = (128, 64) if wide else (64, 32)
    height, width = (max(SMALLEST, min(side, power_of_two(x))) for x in (m, n))
    return DotTile(
        height,
        width,
        max(SMALLEST, min(depth, power_of_two(k))),
        8 if height * width >= 128 * 128 else 4,
    )


def dot(step: Library, buffers: Mapping[str, Buffer]) -> KernelText:
    """out[*B, M, N] = a[*B, M, K] @ b[*B, K, N]."""
    a, b = step.reads
    assert isinstance(a, Access)
    assert isinstance(b, Access)
    *batch, m, k = a.shape
    n = b.shape[-1]
    dtype = buffers[a.buffer].dtype
    if not dtype.is_floating_point:
        raise Unsupported(f"the triton backend has no matrix product of {dtype.name}")
    tile = dot_tile(m, n, k, dtype)
    signature = Signature(buffers)
    wide = needs_int64((buffers[x] for x in (a.buffer, b.buffer, step.outs[0])), ())
    result = table.type_name(buffers[step.outs[0]].dtype)
    blocks_m, blocks_n = math.ceil(m / tile.m), math.ceil(n / tile.n)
    out = Access(step.outs[0], 0, (*batch, m, n), _contiguous((*batch, m, n)))
    lines = [
        f"pid = tl.program_id(0){'.to(tl.int64)' if wide else ''}",
        f"i = (pid // {blocks_n} % {blocks_m} * {tile.m} + tl.arange(0, {tile.m}))[:, None]",
        f"j = (pid % {blocks_n} * {tile.n} + tl.arange(0, {tile.n}))[None, :]",
        f"k = tl.arange(0, {tile.k})",
        f"batch = pid // {blocks_m * blocks_n}",
        *_pointers("a", a, ("i", "k[None, :]"), signature),
        *_pointers("b", b, ("k[:, None]", "j"), signature),
        *_loop(tile, (m, n, k), a.strides[-1], b.strides[-2], dtype),
        *_pointers("out", out, ("i", "j"), signature),
        f"tl.store(out, acc.to({result}){_mask(_bounds(tile, m, n))})",
    ]
    programs = blocks_m * blocks_n * math.prod(batch)
    return finished(signature, [STEP + line for line in lines], programs, tile.warps)


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def _pointers(name: str, x: Access, last: tuple[str, str], signature: Signature) -> list[str]:
    """The block of addresses of the last two dimensions, in the batch element `batch`."""
    parts = [signature.parameter(x.buffer)]
    if x.offset:
        parts.append(str(x.offset))
    step = math.prod(x.shape[:-2])
    for size, stride in zip(x.shape[:-2], x.strides[:-2], strict=True):
        step //= max(size, 1)
        if size > 1 and stride:
            parts.append(f"batch // {step} % {size} * {stride}")
    parts += [f"{counter} * {stride}" for counter, stride in zip(last, x.strides[-2:], strict=True)]
    return [f"{name} = {' + '.join(parts)}"]


def _bounds(tile: DotTile, m: int, n: int) -> list[str]:
    return [f"(i < {m})"] * (m % tile.m != 0) + [f"(j < {n})"] * (n % tile.n != 0)


def _mask(conditions: list[str]) -> str:
    return f", mask={' & '.join(conditions)}" if conditions else ""


def _loop(
    tile: DotTile, sizes: tuple[int, int, int], step_a: int, step_b: int, dtype: DType
) -> list[str]:
    """Accumulate over the depth."""
    m, n, k = sizes
    rows, cols = _bounds(tile, m, 0), _bounds(tile, 0, n)
    tail = k % tile.k != 0
    load_a = _mask(rows + [f"(k[None, :] < {k} - start)"] * tail)
    load_b = _mask(cols + [f"(k[:, None] < {k} - start)"] * tail)
    zero = ", other=0.0"
    wide = table.type_name(dt.float64 if dtype is dt.float64 else dt.float32)
    return [
        f"acc = tl.zeros([{tile.m}, {tile.n}], {wide})",
        f"for start in range(0, {k}, {tile.k}):",
        f"{STEP}x = tl.load(a{load_a}{zero if load_a else ''})",
        f"{STEP}y = tl.load(b{load_b}{zero if load_b else ''})",
        f'{STEP}acc = tl.dot(x, y, acc, input_precision="ieee", out_dtype={wide})',
        f"{STEP}a += {tile.k * step_a}",
        f"{STEP}b += {tile.k * step_b}",
    ]
