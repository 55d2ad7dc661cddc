"""Behind the order of items: elementwise work on a matrix product becomes part of the product.
Fused -> Fused whose products have epilogues.

A bias, an activation, a residual or a gradient step is computed on the tiles of the product, which
itself need not go to memory: it is stored by its epilogue where others read it, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from codegen.ir import affine, expr
from codegen.ir.schema import Fused, Kernel, Library, Refusal, Store
from codegen.ir.sizes import extent, same

# Why a target does not compute a kernel on the tiles of a product; "": it does. The last argument:
# whether the product is stored, too.
Fits = Callable[[Fused, Library, Kernel, bool], str]

PRODUCTS: Final = ("dot", "dot_packed")


def fuse_epilogues(fused: Fused, fits: Fits) -> Fused:
    """The items of `fused`, with products joined to the elementwise kernel that first reads
    them."""
    products = {
        name
        for item in fused.items
        if isinstance(item, Library) and item.name in PRODUCTS
        for name in item.outs
    }
    readers, _ = fused.touching(products)
    outputs = {a.buffer for a in fused.outputs}
    failing = fused.failing()
    waiting: dict[str, Library] = {}  # products that may still move down to their first reader
    refusals: list[Refusal] = []
    out: list[Kernel | Library] = []
    for at, item in enumerate(fused.items):
        # A product moves neither across what changes an operand nor into it: tiles read all of it.
        overwritten = fused.homes(item.writes()) if waiting else set()
        spoiled = [n for n, s in waiting.items() if overwritten & fused.homes(s.reads())]
        for name in spoiled:
            del waiting[name]
        read = [waiting.pop(x) for x in sorted(waiting.keys() & item.reads())] if waiting else []
        for step in read if isinstance(item, Kernel) and at not in failing else ():
            assert isinstance(item, Kernel)
            (name,) = step.outs
            kept = len(readers[name]) > 1 or name in outputs
            why = _is_no_epilogue(item, name, fused) or fits(fused, step, item, kept)
            if why:
                refusals.append(Refusal(name, item.name, why))
                continue
            out.remove(step)
            item = replace(step, epilogue=_with_store(item, name, fused) if kept else item)
            break
        out.append(item)
        if isinstance(item, Library) and item.name in PRODUCTS and item.epilogue is None:
            (name,) = item.outs
            if not fused.buffers[name].alias and fused.buffers[name].dtype.is_floating_point:
                waiting[name] = item
    return replace(fused, items=tuple(out), refusals=(*fused.refusals, *refusals))


def _is_no_epilogue(kernel: Kernel, product: str, fused: Fused) -> str:
    """Reason why `kernel` does not work on each element of `product` by itself; "": it does."""
    if not kernel.is_elementwise():
        return "it reduces"
    (stage,) = kernel.stages
    axes = (*kernel.rows, *stage.loops)
    flat = affine.flat(axes)
    if not same(extent(axes), fused.buffers[product].size):
        return "it has other elements than the product"
    if not all(x.offset is flat for x in stage.loads() if x.buffer == product):
        return "it reads the product elsewhere than at its own element"
    if any(s.monoid is not None for s in stage.stores):
        return "its stores combine with what is there"
    return ""


def _with_store(kernel: Kernel, product: str, fused: Fused) -> Kernel:
    (stage,) = kernel.stages
    flat = affine.flat((*kernel.rows, *stage.loops))
    value = expr.load(product, flat, fused.buffers[product].dtype)
    stored = replace(stage, stores=(Store(product, flat, value), *stage.stores))
    return replace(kernel, stages=(stored,))
