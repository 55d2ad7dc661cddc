"""After cut_loops, on the CPU: parts of a concatenation are computed where they belong. Fused ->
Fused without their copies.

Cut where its parts meet, a concatenation is a copy of each. A temporary that only such a copy reads
is a part of the result's memory, and the copy is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from codegen.ir import affine
from codegen.ir.expr import Load
from codegen.ir.schema import Buffer, Fused, Kernel, Library
from codegen.ir.sizes import same


def place_parts(fused: Fused) -> Fused:
    buffers = dict(fused.buffers)
    found = (_temporary(item, buffers) for item in fused.items)
    readers, _ = fused.touching({part.name for part in found if part is not None})
    shared = {b.alias for b in buffers.values()}
    items = []
    for item in fused.items:
        part = _temporary(item, buffers)
        if part is None or part.name in shared or len(readers[part.name]) > 1:
            items.append(item)
        else:
            buffers[part.name] = part
            shared.add(part.alias)
    return replace(fused, buffers=buffers, items=tuple(items))


def _temporary(item: Kernel | Library, buffers: Mapping[str, Buffer]) -> Buffer | None:
    """The temporary that the item copies, all of it, as a part of where it copies it to."""
    if not isinstance(item, Kernel) or len(item.stages) != 1 or len(item.stages[0].stores) != 1:
        return None
    (stage,) = item.stages
    (store,) = stage.stores
    value = store.value
    if stage.loops or stage.reductions or len(item.rows) != 1 or not isinstance(value, Load):
        return None
    old, new, row = buffers.get(value.buffer), buffers[store.buffer], affine.form(item.rows[0])
    start = (store.offset - row).const
    if old is None or old.kind != "temp" or new.kind not in ("temp", "output"):
        return None
    straight = value.offset is row and store.offset is row + start and store.monoid is None
    whole = same(item.rows[0].size, old.size) and old.dtype is new.dtype
    if old.alias or new.alias or not straight or not whole or not isinstance(start, int):
        return None
    if new.kind == "temp" and same(old.size, new.size):
        return None  # no part
    return replace(old, alias=new.name, offset=start * new.dtype.itemsize)
