"""Memory map of the page: what lies there while a program runs. results of codegen -> blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from codegen.ir.schema import Kernel, Library, Plan
from codegen.ir.sizes import hint
from codegen.schedule.plan import assign_offsets, blocks_of
from codegen.targets.cpp.program import scratch
from jitcap.report.kernels import lines_of


def memory_map(
    results: Mapping[str, Any], numbers_of: Callable[[list[str]], list[int]]
) -> dict[str, Any] | None:
    """The temporaries of a program for the CPU: {bytes, steps, blocks}; None if none are planned. A
    step is [what runs, places], a block [name, offset, bytes, first step, last step, places]."""
    plan, batched = results.get("plan"), results.get("batched")
    if not isinstance(plan, Plan) or batched is None:
        return None
    fused = batched.fused
    lives = {
        name: (first, last, hint(size))
        for name, (first, last, size) in blocks_of(fused, scratch(batched)).items()
    }
    offsets, total = plan.offsets, plan.arena_bytes
    if plan.is_symbolic:  # where they would lie at the sizes of now
        offsets, total = assign_offsets(lives)
    maker = {name: item for item in reversed(fused.items) for name in item.writes()}
    steps = [[_title(item), numbers_of(lines_of(item))] for item in fused.items]
    blocks = [
        [
            name, hint(offsets[name]), size, first, last,
            numbers_of(lines_of(maker[name])) if name in maker else steps[first][1],
        ]
        for name, (first, last, size) in lives.items()
    ]  # fmt: skip
    return {"bytes": hint(total), "steps": steps, "blocks": blocks} if blocks else None


def _title(item: Kernel | Library) -> str:
    if isinstance(item, Library):
        return item.name
    return f"{item.name}: {item.note}" if item.note else item.name
