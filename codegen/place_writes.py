"""Between fuse and tile: inputs that are updated in place. Fused -> Fused with written values in
their inputs' memory.

A written value is computed straight into its input's memory when nothing reads the old value
afterwards: every other reader is an earlier item, and in the same kernel reads happen at the index
that is being written, and nothing can fail any more. Otherwise it goes to a temporary and is
copied at the end. So a run that fails has written no input.
"""

from __future__ import annotations

from dataclasses import replace

from codegen import affine, expr
from codegen.expr import Load
from codegen.ir import Fused, Kernel, Stage, Store, Value
from codegen.sizes import same_all, some
from eager.aval import contiguous_strides


def place_writes(fused: Fused) -> Fused:
    if not fused.program.writes:
        return fused
    readers, writers = fused.touching()
    buffers = dict(fused.buffers)
    last = max(fused.failing(), default=-1)
    copies: list[tuple[Value, Value]] = []
    for target, value in fused.program.writes:
        name, source = f"v{target.id}", f"v{value.id}"
        b = buffers.get(source)
        if b is None or not some(target.aval.numel):
            continue
        early = any(at <= last for at in writers.get(source, []))
        places = readers.get(name, []), writers.get(source, [])
        if not early and _in_place(fused, target, source, *places):
            buffers[source] = replace(b, alias=name)
        else:
            copies.append((target, value))
    items = (*fused.items, *(_copy(i, t, v) for i, (t, v) in enumerate(copies)))
    return replace(fused, buffers=buffers, items=items)


def _in_place(
    fused: Fused, target: Value, source: str, readers: list[int], writers: list[int]
) -> bool:
    if not same_all(target.layout, contiguous_strides(target.aval.shape)) or len(writers) != 1:
        return False
    at = writers[0]
    item = fused.items[at]
    if any(r > at for r in readers):
        return False
    if at not in readers:
        return True
    return isinstance(item, Kernel) and _reads_where_it_writes(item, f"v{target.id}", source)


def _reads_where_it_writes(kernel: Kernel, old: str, new: str) -> bool:
    """Every read of `old` is at the offset that `new` is stored to, in the same stage or an earlier
    one."""
    for i, stage in enumerate(kernel.stages):
        for store in stage.stores:
            if store.buffer == new:
                later = kernel.stages[i + 1 :]
                if any(_loads(s, old) for s in later):
                    return False
                return all(
                    x.offset is store.offset for s in kernel.stages[: i + 1] for x in _loads(s, old)
                )
    return False


def _loads(stage: Stage, name: str) -> list[Load]:
    return [x for x in stage.loads() if x.buffer == name]


def _copy(i: int, target: Value, value: Value) -> Kernel:
    """input[...] = temporary, at the end."""
    r = affine.axis("r", target.aval.numel)
    index = affine.unravel(r, target.aval.shape)
    loaded = expr.load(f"v{value.id}", r, value.aval.dtype)
    store = Store(f"v{target.id}", affine.dot_strides(index, target.layout), loaded)
    rows = (affine.axis_of(r),) if r.terms else ()
    return Kernel(f"w{i}", rows, (Stage((), (), (store,)),), (), f"write v{target.id}")
