"""After place_writes, on the CPU: results in the memory of temporaries that die. Fused -> Fused
whose temporaries share memory.

The last kernel that reads a temporary may write a result over it, as over an input: where it reads
nothing of it that another iteration has written. So a softmax of scores needs the memory of the
scores and no more. Library steps read their operands in an order of their own, and share nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from codegen.ir.schema import Buffer, Fused, Kernel
from codegen.ir.sizes import at_least, extent, same
from codegen.schedule.place_writes import reads_where_it_writes

SMALL: Final = 1 << 10  # bytes up to which it is not worth a look


def share_memory(fused: Fused) -> Fused:
    names = {x for kernel in fused.kernels() for x in (*kernel.reads(), *kernel.writes())}
    readers, writers = fused.touching(names)
    buffers = dict(fused.buffers)
    for at, kernel in enumerate(fused.items):
        if not isinstance(kernel, Kernel):
            continue
        dying = [x for x in kernel.reads() if _is_temp(x, buffers) and readers[x][-1] == at]
        for new in _results(kernel, buffers):
            old = next((x for x in dying if _fits(kernel, x, new, buffers)), None)
            if old is not None and writers[new] == [at]:
                buffers[new] = replace(buffers[new], alias=buffers[old].home)
                dying.remove(old)
    return replace(fused, buffers=buffers)


def _is_temp(name: str, buffers: Mapping[str, Buffer]) -> bool:
    """True if the buffer lies among the temporaries."""
    return name in buffers and buffers[buffers[name].home].kind == "temp"


def _results(kernel: Kernel, buffers: Mapping[str, Buffer]) -> Iterator[str]:
    """The large temporaries that it stores, each element by one iteration."""
    for stage in kernel.stages:
        count = extent((*kernel.rows, *stage.loops))
        for store in stage.stores:
            b = buffers.get(store.buffer)
            if b is None or b.kind != "temp" or b.alias or at_least(SMALL, b.nbytes):
                continue
            if same(b.size, count):
                yield b.name


def _fits(kernel: Kernel, old: str, new: str, buffers: Mapping[str, Buffer]) -> bool:
    """True if the kernel may write the temporary `new` over `old`: reads and writes of one element
    are those of one place in a row, and the row is read before."""
    x, y = buffers[old], buffers[new]
    if old == new or x.dtype.itemsize != y.dtype.itemsize or not same(x.size, y.size):
        return False
    return reads_where_it_writes(kernel, old, new)
