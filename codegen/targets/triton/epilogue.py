"""Emit, before grouping: elementwise work on a matrix product moves into the product's kernel.
Items -> items.

A bias, an activation or a gradient step on the result is computed on the accumulator's tile: the
product itself never goes to memory. Only for a product that nobody else reads, and for kernels that
keep the tile's registers few.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from codegen.ir import affine
from codegen.ir.schema import Fused, Kernel, Library
from codegen.ir.sizes import extent, same
from eager.dataclass import dataclass

MOST_READS: Final = 4  # buffers that the epilogue reads besides the product
MOST_STORES: Final = 2


@dataclass(frozen=True, eq=False, slots=True)
class Product:
    """A matrix product and the kernel that is computed on its tiles."""

    step: Library
    epilogue: Kernel

    @property
    def name(self) -> str:
        return f"{self.step.name}+{self.epilogue.name}"

    def reads(self) -> tuple[str, ...]:
        names = dict.fromkeys((*self.step.reads(), *self.epilogue.reads()))
        return tuple(name for name in names if name not in self.step.outs)

    def writes(self) -> tuple[str, ...]:
        return self.epilogue.writes()


Item = Kernel | Library | Product


@dataclass(frozen=True, eq=False, slots=True)
class Products:
    """A program whose products have their epilogues."""

    fused: Fused
    items: tuple[Item, ...]

    @property
    def text(self) -> str:
        """One line per item, for `explain`."""
        return "\n".join(item.name for item in self.items)


def fuse_epilogues(fused: Fused) -> Products:
    """The items of `fused`, with products joined to the elementwise kernel that alone reads
    them."""
    readers = Counter(name for item in fused.items for name in item.reads())
    waiting: dict[str, Library] = {}  # products that may still move down to their reader
    out: list[Item] = []
    for item in fused.items:
        # A product moves neither across what changes an operand nor into it: tiles read all of it.
        overwritten = fused.homes(item.writes())
        spoiled = [n for n, s in waiting.items() if overwritten & fused.homes(s.reads())]
        for name in spoiled:
            del waiting[name]
        joined = next((n for n in sorted(item.reads()) if n in waiting), None)
        if joined is not None and isinstance(item, Kernel) and _is_epilogue(item, joined, fused):
            step = waiting.pop(joined)
            out.remove(step)
            out.append(Product(step, item))
            continue
        out.append(item)
        if (
            isinstance(item, Library)
            and item.op.name == "dot"
            and _is_private(item, readers, fused)
        ):
            waiting[item.outs[0]] = item
    return Products(fused, tuple(out))


def _is_private(step: Library, readers: Counter[str], fused: Fused) -> bool:
    """Whether one item alone reads the product, and nobody outside."""
    (name,) = step.outs
    own = fused.buffers[name]
    kept = any(a.buffer == name for a in fused.outputs)
    alone = readers[name] == 1 and not kept and own.kind == "temp" and not own.alias
    return alone and own.dtype.is_floating_point


def _is_epilogue(kernel: Kernel, product: str, fused: Fused) -> bool:
    """Whether `kernel` works on each element of `product` by itself, with few other buffers."""
    if not kernel.is_elementwise():
        return False
    (stage,) = kernel.stages
    axes = (*kernel.rows, *stage.loops)
    flat = affine.flat(axes)
    loads = set(stage.loads())
    others = {x.buffer for x in loads} - {product}
    return (
        same(extent(axes), fused.buffers[product].size)
        and all(x.offset is flat for x in loads if x.buffer == product)
        and all(s.monoid is None for s in stage.stores)
        and len(others) <= MOST_READS
        and len(stage.stores) <= MOST_STORES
    )
