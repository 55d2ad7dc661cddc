"""Beside fusion, for products: which elementwise kernels Triton computes on the accumulator's tile
(`fuse_epilogues`). Only of a product that nobody else reads, and where registers are few."""

from __future__ import annotations

from typing import Final

from codegen.ir.schema import Fused, Kernel, Library

MOST_READS: Final = 4  # buffers that the epilogue reads besides the product
MOST_STORES: Final = 2  # each of a tile of values, beside the product's own, in registers


def fits(fused: Fused, step: Library, kernel: Kernel, kept: bool) -> str:
    """Reason why `kernel` is no epilogue of the product `step`; "": it is one."""
    if kept:
        return "the product is read elsewhere, too"
    if len({*kernel.reads()} - {*step.outs}) > MOST_READS:
        return "it reads too many buffers for the registers of a tile"
    if sum(len(stage.stores) for stage in kernel.stages) > MOST_STORES:
        return "it stores too much for the registers of a tile"
    return ""
