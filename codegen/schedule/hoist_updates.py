"""Between fuse and writes: checks first, then updates of inputs as soon as they can. Fused -> Fused
in another order.

An optimizer stands at the end of a step, so every gradient would be alive until then. An update
that runs right after its gradient finds it in the cache and lets its memory go. It must come after
whatever else reads the old value of the input it overwrites, or it could not be done in place; and
after the last item that can fail, or a run that fails would leave half a step (what must be
computed earlier goes through a temporary, see `writes`). Checks move up to
what they read, so that updates need not wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from codegen.ir.schema import Fused, Kernel


def hoist_updates(fused: Fused) -> Fused:
    """`fused` with each check moved up to its last producer, and each kernel that updates inputs to
    its last producer, last rival reader, or the last check."""
    if not fused.program.writes:
        return fused
    keys = _Order(fused).run()
    places = sorted(range(len(fused.items)), key=lambda i: (keys[i], i))
    return replace(fused, items=tuple(fused.items[i] for i in places))


class _Order:
    """The new order of the items: `keys` are their sort keys, on the scale of today's positions."""

    def __init__(self, fused: Fused) -> None:
        self.fused = fused
        self.targets = {f"v{v.id}": f"v{t.id}" for t, v in fused.program.writes}
        self.accesses = [(item.reads(), item.writes()) for item in fused.items]
        self.readers, writers = fused.touching()
        self.writer = {name: places[-1] for name, places in writers.items()}
        self.keys = [float(i) for i in range(len(fused.items))]

    def run(self) -> list[float]:
        checks = self.fused.failing()
        for i in sorted(checks):
            if isinstance(self.fused.items[i], Kernel):
                self.keys[i] = min(self.keys[i], self.producers(i) + 0.25)
        last = max((self.keys[i] for i in checks), default=-1.0)
        updates = [i for i in range(len(self.keys)) if self.updated(i) and i not in checks]
        for i in reversed(updates):  # first those that others read
            used = (self.keys[j] for s in self.accesses[i][1] for j in self.readers.get(s, ()))
            if self.keys[i] <= last and not any(key <= last for key in used):
                self.keys[i] = last + 0.5
        for i in updates:
            if self.keys[i] > last:
                rivals = (self.later(j) for n in self.updated(i) for j in self.rivals(n, i))
                self.keys[i] = min(self.keys[i], max(self.producers(i), last, *rivals) + 0.5)
        return self.keys

    def updated(self, i: int) -> list[str]:
        """The inputs whose new values the item computes."""
        item = self.fused.items[i]
        if not isinstance(item, Kernel) and item.name != "call":
            return []
        return [self.targets[s] for s in self.accesses[i][1] if s in self.targets]

    def producers(self, i: int) -> float:
        """Position of the last producer of what the item reads; -1 if there is none."""
        reads = self.accesses[i][0]
        return max((self.later(self.writer[r]) for r in reads if r in self.writer), default=-1.0)

    def later(self, i: int) -> float:
        """Position of the item, the old or the new one, whichever is later."""
        return max(self.keys[i], i)

    def rivals(self, name: str, i: int) -> Iterator[int]:
        """Earlier readers of the old value."""
        return (j for j in self.readers.get(name, ()) if j < i)
