"""Between fuse and tile: inputs that are updated in place. Fused -> Fused with written values in
their inputs' memory.

A written value is computed straight into its input's memory when nothing reads the old value
afterwards: every other reader is an earlier item, and in the same kernel reads happen at the index
that is being written, and nothing can fail any more. A call leaves it to its body, which writes the
input itself. Otherwise it goes to a temporary and is
copied at the end. So a run that fails has written no input.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from codegen.ir import affine, expr
from codegen.ir.expr import Load
from codegen.ir.schema import Access, Fused, Kernel, Library, Stage, Store, Value
from codegen.ir.sizes import is_contiguous, same_all, some
from eager.core.op import REGISTRY
from eager.sizes.aval import contiguous_strides

UPDATING: Final = ("call", "dot_add")  # steps that can write a result over an operand
# Those that change a few places of their first operand, which the result's memory may hold already.
CHANGING: Final = ("index_put", "index_add", "scatter", "scatter_reduce")

Operands: TypeAlias = Callable[[Library], dict[str, list[int]]]  # the numbers of those in a buffer


def place_writes(fused: Fused) -> Fused:
    if not fused.program.writes:
        return fused
    writes = [(t, v, f"v{t.id}", f"v{v.id}") for t, v in fused.program.writes]
    readers, writers = fused.touching({name for *_, old, new in writes for name in (old, new)})
    buffers = dict(fused.buffers)
    last = max(fused.failing(), default=-1)
    pairs: dict[int, list[tuple[int, int]]] = {}  # of calls, by item: (operand, output)
    copies: list[tuple[Value, Value]] = []
    operands = functools.cache(_operands)  # a call may update hundreds of tensors
    results = functools.cache(_results)
    for target, value, name, source in writes:
        b = buffers.get(source)
        if b is None or not some(b.size):
            continue
        reads, written = readers.get(name, ()), writers.get(source, ())
        at = written[0] if len(written) == 1 else -1
        if at <= last or (reads and reads[-1] > at):
            copies.append((target, value))
            continue
        item = fused.items[at]
        operand = _operand_to_update(item, target, operands) if at in reads else None
        if not _in_place(item, target, source, operand, is_read=at in reads):
            copies.append((target, value))
            continue
        buffers[source] = b.over(name)
        if isinstance(item, Library) and operand is not None and item.name in UPDATING:
            pairs.setdefault(at, []).append((operand, results(item)[source]))
    items = [_updating(item, pairs.get(at, ())) for at, item in enumerate(fused.items)]
    items += (_copy(f"{fused.program.prefix}w{i}", t, v) for i, (t, v) in enumerate(copies))
    return replace(fused, buffers=buffers, items=tuple(items))


def _updating(item: Kernel | Library, pairs: Sequence[tuple[int, int]]) -> Kernel | Library:
    """A step with what it updates."""
    if not pairs:
        return item
    assert isinstance(item, Library)
    return replace(item, attrs={**item.attrs, "writes": tuple(pairs)})


def _in_place(
    item: Kernel | Library, target: Value, source: str, operand: int | None, *, is_read: bool
) -> bool:
    """True if the item that computes a value may write it over `target`, which it reads, or not;
    `operand`: the one of a step that is `target`."""
    if not same_all(target.layout, contiguous_strides(target.aval.shape)):
        return False
    if not is_read:
        return True
    if isinstance(item, Library):
        return operand is not None
    return reads_where_it_writes(item, f"v{target.id}", source)


def _operands(call: Library) -> dict[str, list[int]]:
    """Indices of the operands that lie in each buffer."""
    found: dict[str, list[int]] = {}
    for i, x in enumerate(call.operands):
        if type(x) is Access:
            found.setdefault(x.buffer, []).append(i)
    return found


def _results(call: Library) -> dict[str, int]:
    """Indices of the results by buffer."""
    return {name: o for o, name in enumerate(call.outs)}


def _operand_to_update(call: Kernel | Library, target: Value, operands: Operands) -> int | None:
    """The operand of a call that is `target`, all of it, if no other lies in its memory."""
    name = f"v{target.id}"
    if not isinstance(call, Library) or call.name not in (*UPDATING, *CHANGING):
        return None
    at = operands(call).get(name, ())
    if len(at) != 1 or (call.name in CHANGING and at != [0]):
        return None
    x = call.operands[at[0]]
    assert isinstance(x, Access)
    whole = same_all(x.shape, target.aval.shape) and is_contiguous(x.shape, x.strides)
    return at[0] if whole else None


def reads_where_it_writes(kernel: Kernel, old: str, new: str) -> bool:
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


def _copy(name: str, target: Value, value: Value) -> Kernel | Library:
    """input[...] = temporary, at the end. Kernels hold no complex numbers."""
    aval, strides = value.aval, contiguous_strides(value.aval.shape)
    if aval.dtype.is_complex and same_all(target.layout, contiguous_strides(target.aval.shape)):
        whole = Access(f"v{value.id}", 0, aval.shape, strides)
        outs = (f"v{target.id}",)
        return Library(REGISTRY["clone"], (whole,), outs, {}, (aval,), (aval,))
    r = affine.axis("r", target.aval.numel)
    index = affine.unravel(r, target.aval.shape)
    loaded = expr.load(f"v{value.id}", r, value.aval.dtype)
    store = Store(f"v{target.id}", affine.dot_strides(index, target.layout), loaded)
    note = f"write v{target.id}"
    return Kernel(name, affine.counters(r), (Stage((), (), (store,)),), (), note)
