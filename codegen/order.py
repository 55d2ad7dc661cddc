"""Between fuse and writes: updates of inputs run as soon as they can. Fused -> Fused in another
order.

An optimizer stands at the end of a step, so every gradient would be alive until then. An update
that runs right after its gradient finds it in the cache and lets its memory go. It must come after
whatever else reads the old value of the input it overwrites, or it could not be done in place.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.ir import Fused, Kernel
from codegen.writes import touched


def hoist_updates(fused: Fused) -> Fused:
    """`fused` with each kernel that updates inputs moved up to its last producer, or last rival
    reader."""
    targets = {f"v{v.id}": f"v{t.id}" for t, v in fused.program.writes}
    if not targets:
        return fused
    accesses = [touched(item) for item in fused.items]
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    for i, (reads, stores) in enumerate(accesses):
        for name in stores:
            writer[name] = i
        for name in reads:
            readers.setdefault(name, []).append(i)
    keys = [float(i) for i in range(len(fused.items))]
    for i, item in enumerate(fused.items):
        reads, stores = accesses[i]
        updated = [targets[s] for s in stores if s in targets]
        if not isinstance(item, Kernel) or not updated:
            continue
        after = [writer.get(name, -1) for name in reads]
        after += [j for name in updated for j in readers.get(name, ()) if j < i]
        keys[i] = min(keys[i], max(after, default=-1) + 0.5)
    order = sorted(range(len(fused.items)), key=lambda i: (keys[i], i))
    return replace(fused, items=tuple(fused.items[i] for i in order))
