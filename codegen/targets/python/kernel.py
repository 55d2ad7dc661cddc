"""Emit: one fused kernel as a Python function of flat arrays. Kernel -> text."""

from __future__ import annotations

from collections.abc import Iterable

from codegen.ir.affine import Axis
from codegen.ir.schema import Kernel, Stage
from codegen.ir.sizes import name_of, spelled
from codegen.targets.python.expr import Block

STEP = "    "


def emit_kernel(k: Kernel) -> str:
    """A function of a table of flat arrays."""
    return "\n".join([
        f"def {k.name}(B):  # {k.note} {k.where}".rstrip(),
        *(f"{STEP}{name} = B['{name}']" for name in sorted(buffers(k))),
        *(STEP + line for line in body(k)),
    ])  # fmt: skip


def buffers(k: Kernel) -> set[str]:
    """The names of all that it is given."""
    return {*k.reads(), *k.writes(), *map(name_of, k.symbols())} - {b.name for b in k.locals}


def body(k: Kernel) -> list[str]:
    """The lines of the function."""
    lines = [f"{b.name} = empty({spelled(b.size)}, {b.dtype.name})" for b in k.locals]
    block = Block()
    for stage in k.stages:
        lines += _stage(stage, block)
    return loops(k.rows, lines or ["pass"])


def loops(axes: Iterable[Axis], body: list[str]) -> list[str]:
    """`body` inside the loops over `axes`, outermost first."""
    for a in reversed([*axes]):
        body = [
            f"for {a.name} in range({spelled(a.size, whole=True)}):",
            *(STEP + line for line in body),
        ]
    return body


def _stage(stage: Stage, block: Block) -> list[str]:
    block.enter(stage)
    before, after = [], []
    for r in stage.reductions:
        start = f"identity('{r.monoid.name}', {r.value.dtype.name})"
        before.append(f"{r.name} = {start if r.position is None else f'({start}, None)'}")
        args = [r.name, block.value(r.value)]
        if r.position is not None:
            args.append(block.index(r.position))
            after.append(f"{r.name} = int64({r.name}[1])")
        block.lines.append(f"{r.name} = {r.monoid.name}_step({', '.join(args)})")
    # All values before all stores, of which one may overwrite what another reads.
    stores = [(s, block.named(s.value), block.index(s.offset)) for s in stage.stores]
    for s, value, at in stores:
        target = f"{s.buffer}[{at}]"
        combined = value if s.monoid is None else f"{s.monoid.name}_step({target}, {value})"
        block.lines.append(f"{target} = {combined}")
    return [*before, *loops(stage.loops, block.lines), *after]
